/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timeline: what a mapping does to its process. Called in order of time.
 *
 * Versions of a process with the same time are one: the last one counts, as
 * records of equal time apply together.
 */
#include <string.h>

#include "decode/lib/sideband/build.h"

/* Saved code keeps the name of what it lies in, for symbols. */
static void name_saved(struct mapping *m, const struct map_node *root)
{
	const struct mapping *under = addrspace_find(root, m->start);

	if (!under)
		return;
	m->path = under->path;
	m->pgoff = under->pgoff + (m->start - under->start);
	memcpy(m->build_id, under->build_id, sizeof(m->build_id));
	m->build_id_size = under->build_id_size;
}

/* Does other code than m's lie where m comes? */
static bool is_in_use(const struct map_node *root, const struct mapping *m)
{
	const struct mapping *old = addrspace_next(root, m->start);

	for (; old && old->start < m->end; old = addrspace_next(root, old->end))
		if (strcmp(old->path, m->path) ||
		    old->pgoff - old->start != m->pgoff - m->start)
			return true;
	return false;
}

/* Of an untimed file all records count as of before the trace. */
static int apply_mmap(struct timeline *tl, const struct op *op)
{
	struct process_line *l = timeline_process(tl, op->machine, op->pid);
	struct mapping m = *op->map;

	if (!l || timeline_revive(l, op->time) < 0)
		return -AUX_E_NOMEM;
	if (m.saved)
		name_saved(&m, l->root);
	if (op->flags & OP_UNTIMED && is_in_use(l->root, &m))
		tl->stats.n_unordered++;
	l->root = addrspace_insert(&tl->arena, l->root, &m);
	if (tl->arena.oom)
		return -AUX_E_NOMEM;
	return timeline_set_version(&l->v, op->time, l->root);
}

int timeline_apply(struct timeline *tl, const struct op *op)
{
	switch (op->kind) {
	case OP_MMAP:
		if (!(op->flags & OP_KERNEL))
			return apply_mmap(tl, op);
		return timeline_apply_kernel(tl, op);
	case OP_KSYMBOL:
	case OP_POKE:
	case OP_POKED:
		return timeline_apply_kernel(tl, op);
	default:
		return timeline_apply_task(tl, op);
	}
}
