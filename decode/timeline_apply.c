/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timeline: what each record does to the tables. Called in order of time.
 *
 * Versions of a process with the same time are one: the last one counts, as
 * records of equal time apply together.
 */
#include <stdlib.h>
#include <string.h>

#include "timeline_priv.h"

static struct cpu_line *get_cpu(struct timeline *tl, uint32_t cpu)
{
	int64_t slot;

	if (timeline_grow(&tl->cpu, &tl->cap_cpu, tl->n_cpu,
			  sizeof(*tl->cpu)) < 0)
		return NULL;
	slot = idmap_add(&tl->cpus, cpu, (uint32_t)tl->n_cpu);
	if (slot == (int64_t)tl->n_cpu)
		tl->cpu[tl->n_cpu++] = (struct cpu_line){ 0 };
	return slot < 0 ? NULL : &tl->cpu[slot];
}

static struct thread_line *get_thread(struct timeline *tl, uint32_t tid)
{
	int64_t slot;

	if (timeline_grow(&tl->thread, &tl->cap_thread, tl->n_thread,
			  sizeof(*tl->thread)) < 0)
		return NULL;
	slot = idmap_add(&tl->tids, tid, (uint32_t)tl->n_thread);
	if (slot == (int64_t)tl->n_thread)
		tl->thread[tl->n_thread++] = (struct thread_line){ 0 };
	return slot < 0 ? NULL : &tl->thread[slot];
}

static struct process_line *get_process(struct timeline *tl, uint32_t pid)
{
	int64_t slot;

	if (timeline_grow(&tl->process, &tl->cap_process, tl->n_process,
			  sizeof(*tl->process)) < 0)
		return NULL;
	slot = idmap_add(&tl->pids, pid, (uint32_t)tl->n_process);
	if (slot == (int64_t)tl->n_process)
		tl->process[tl->n_process++] = (struct process_line){ 0 };
	return slot < 0 ? NULL : &tl->process[slot];
}

static int set_thread(struct timeline *tl, uint32_t tid, uint32_t pid,
		      const char *comm, uint64_t time)
{
	struct thread_line *l = get_thread(tl, tid);
	struct thread_entry *last;

	if (!l)
		return -AUX_E_NOMEM;
	last = l->n ? &l->e[l->n - 1] : NULL;
	if (last && !comm)
		comm = last->comm;
	if (last && last->pid == pid &&
	    (last->comm == comm ||
	     (last->comm && comm && !strcmp(last->comm, comm))))
		return 0;
	if (last && last->from == time) {
		*last = (struct thread_entry){ time, pid, comm };
		return 0;
	}
	if (timeline_grow(&l->e, &l->cap, l->n, sizeof(*l->e)) < 0)
		return -AUX_E_NOMEM;
	l->e[l->n++] = (struct thread_entry){ time, pid, comm };
	return 0;
}

static int add_version(struct timeline *tl, struct process_line *l,
		       uint32_t pid, uint64_t time, const struct map_node *root)
{
	struct space *s = map_arena_alloc(&tl->arena, sizeof(*s));

	if (!s || timeline_grow(&l->e, &l->cap, l->n, sizeof(*l->e)) < 0)
		return -AUX_E_NOMEM;
	s->pid = pid;
	s->from = time;
	s->root = root;
	l->e[l->n++] = s;
	return 0;
}

/* Gives a process a new version, or replaces that of the same time. The first
 * one starts at 0: what is before the first record ends there. */
static int set_space(struct timeline *tl, uint32_t pid, uint64_t time,
		     const struct map_node *root)
{
	struct process_line *l = get_process(tl, pid);

	if (!l || (!l->n && time && add_version(tl, l, pid, 0, NULL) < 0))
		return -AUX_E_NOMEM;
	if (l->n && l->root == root)
		return 0;
	l->root = root;
	if (l->n && l->e[l->n - 1]->from == time) {
		l->e[l->n - 1]->root = root;
		return 0;
	}
	return add_version(tl, l, pid, time, root);
}

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
	const struct map_node *root;
	struct process_line *l;

	if (op->pid == UINT32_MAX) {
		if (op->map->saved)
			name_saved(op->map, tl->kernel);
		tl->kernel = addrspace_insert(&tl->arena, tl->kernel, op->map);
		return tl->arena.oom ? -AUX_E_NOMEM : 0;
	}
	l = get_process(tl, op->pid);
	if (!l)
		return -AUX_E_NOMEM;
	if (op->map->saved)
		name_saved(op->map, l->root);
	if (op->untimed && is_in_use(l->root, op->map))
		tl->stats.n_unordered++;
	root = addrspace_insert(&tl->arena, l->root, op->map);
	if (tl->arena.oom)
		return -AUX_E_NOMEM;
	return set_space(tl, op->pid, op->time, root);
}

static int apply_fork(struct timeline *tl, const struct op *op)
{
	const char *comm = timeline_comm(tl, op->ptid, op->time);
	struct process_line *parent;
	int rc;

	rc = set_thread(tl, op->tid, op->pid, *comm ? comm : NULL, op->time);
	if (rc < 0 || op->pid == op->ppid)
		return rc;
	parent = get_process(tl, op->ppid);
	if (!parent)
		return -AUX_E_NOMEM;
	return set_space(tl, op->pid, op->time, parent->root);
}

static int apply_run(struct timeline *tl, const struct op *op)
{
	struct cpu_line *l = get_cpu(tl, op->cpu);
	struct cpu_entry *last;

	if (!l)
		return -AUX_E_NOMEM;
	last = l->n ? &l->e[l->n - 1] : NULL;
	if (op->tid != UINT32_MAX && op->pid != UINT32_MAX &&
	    set_thread(tl, op->tid, op->pid, NULL, op->time) < 0)
		return -AUX_E_NOMEM;
	if (last && last->pid == op->pid && last->tid == op->tid)
		return 0;
	if (last && last->from == op->time) {
		*last = (struct cpu_entry){ op->time, op->pid, op->tid };
		return 0;
	}
	if (timeline_grow(&l->e, &l->cap, l->n, sizeof(*l->e)) < 0)
		return -AUX_E_NOMEM;
	l->e[l->n++] = (struct cpu_entry){ op->time, op->pid, op->tid };
	return 0;
}

/* exec clears the space. A thread's stream goes on as the leader's; one id may
 * stand for many threads (soft_pt), so it has to be of the same process. */
static int apply_comm(struct timeline *tl, const struct op *op)
{
	int rc = 0;

	if (op->cpu && op->ptid != op->tid &&
	    timeline_pid(tl, op->ptid, op->time) == op->pid)
		rc = apply_run(tl, op);
	if (rc == 0)
		rc = set_thread(tl, op->tid, op->pid, op->comm, op->time);
	if (rc == 0 && op->exec)
		rc = set_space(tl, op->pid, op->time, NULL);
	return rc;
}

int timeline_apply(struct timeline *tl, const struct op *op)
{
	switch (op->kind) {
	case OP_MMAP:
		return apply_mmap(tl, op);
	case OP_COMM:
		return apply_comm(tl, op);
	case OP_FORK:
		return apply_fork(tl, op);
	default:
		return apply_run(tl, op);
	}
}

static int grow_ids(struct timeline *tl)
{
	uint64_t(*old)[2] = tl->ids.sum;
	size_t cap = tl->ids.cap, want = cap ? 2 * cap : 256;

	tl->ids.sum = calloc(want, sizeof(*tl->ids.sum));
	if (!tl->ids.sum) {
		tl->ids.sum = old;
		return -AUX_E_NOMEM;
	}
	tl->ids.cap = want;
	for (size_t i = 0; i < cap; i++) {
		size_t j = old[i][0] & (want - 1);

		if (!(old[i][0] | old[i][1]))
			continue;
		while (tl->ids.sum[j][0] | tl->ids.sum[j][1])
			j = (j + 1) & (want - 1);
		memcpy(tl->ids.sum[j], old[i], sizeof(old[i]));
	}
	free(old);
	return 0;
}

/* Equal contents, equal id: the digest's first word stands for both, unless
 * another content has the same one. */
static int set_id(struct timeline *tl, struct space *s)
{
	uint64_t sum[2] = { 0, 1 };
	size_t i;

	if (s->root)
		memcpy(sum, s->root->sum, sizeof(sum));
	if (2 * tl->ids.n >= tl->ids.cap && grow_ids(tl) < 0)
		return -AUX_E_NOMEM;
	i = sum[0] & (tl->ids.cap - 1);
	s->id = sum[0];
	while (tl->ids.sum[i][0] | tl->ids.sum[i][1]) {
		if (tl->ids.sum[i][0] == sum[0]) {
			if (tl->ids.sum[i][1] != sum[1])
				s->id = (uint64_t)(uintptr_t)s;
			goto out;
		}
		i = (i + 1) & (tl->ids.cap - 1);
	}
	memcpy(tl->ids.sum[i], sum, sizeof(sum));
	tl->ids.n++;
out:
	if (!s->id)
		s->id = 1;
	return 0;
}

int timeline_finish(struct timeline *tl)
{
	tl->empty = (struct space){ .id = 1, .pid = UINT32_MAX,
				    .until = UINT64_MAX,
				    .kernel = tl->kernel };
	for (size_t i = 0; i < tl->n_process; i++) {
		struct process_line *l = &tl->process[i];

		for (size_t j = 0; j < l->n; j++) {
			struct space *s = l->e[j];

			s->until = j + 1 < l->n ? l->e[j + 1]->from :
						  UINT64_MAX;
			s->kernel = tl->kernel;
			s->n_maps = s->root ? s->root->n : 0;
			if (set_id(tl, s) < 0)
				return -AUX_E_NOMEM;
		}
	}
	return 0;
}
