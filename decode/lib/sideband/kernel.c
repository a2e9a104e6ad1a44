/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timeline: kernels by time: image and modules, what KSYMBOLs name, and the
 * bytes that TEXT_POKE, BPF_PROG_INFO and saved code lay over them.
 *
 * Three trees, each the one before and more (struct machine), so that removing
 * a symbol uncovers what lies below.
 *
 * A TEXT_POKE has the old bytes, too. They were there from when their place
 * came into being until its first poke, whatever the vmlinux at hand says: a
 * kernel patches itself at boot (alternatives, static keys), and a file does
 * not show that. timeline_look_back adds those bytes as ops of their own.
 *
 * Specification: PERF_RECORD_KSYMBOL and PERF_RECORD_TEXT_POKE in
 * <linux/perf_event.h>.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/lib/sideband/impl.h"

static int set_kernel(struct timeline *tl, struct machine *m, uint64_t time)
{
	if (tl->arena.oom)
		return -AUX_E_NOMEM;
	return timeline_set_version(tl, &m->v, time, m->root);
}

/* True if the very same mapping is there already: then what lies over it must
 * stay. */
static bool is_known(const struct map_node *root, const struct mapping *m)
{
	const struct mapping *old = addrspace_find(root, m->start);

	return old && old->start == m->start && old->end == m->end &&
	       old->kind == m->kind && old->pgoff == m->pgoff &&
	       !strcmp(old->path, m->path);
}

/* Bytes get path, kind and offset of the mapping that they lie in. */
static void name_bytes(struct mapping *m, const struct map_node *named)
{
	const struct mapping *under = addrspace_find(named, m->start);
	struct mapping own = *m;

	if (!under)
		return;
	*m = *under;
	m->start = own.start;
	m->end = own.end;
	m->time = own.time;
	m->pgoff = under->pgoff + (own.start - under->start);
	m->saved = own.saved;
	m->saved_offset = own.saved_offset;
}

static int add_map(struct timeline *tl, struct machine *k, struct mapping *m)
{
	struct map_arena *a = &tl->arena;

	if (is_known(k->image, m) ||
	    (m->kind == MAPPING_KERNEL && m->start == k->image_start &&
	     m->end == k->image_end))
		return 0;
	/* perf may give the image an end beyond the modules that follow it: it
	 * goes below what is there. */
	if (m->kind == MAPPING_KERNEL && !k->image_end) {
		k->image_start = m->start;
		k->image_end = m->end;
		k->image = addrspace_insert_under(a, k->image, m);
		k->named = addrspace_insert_under(a, k->named, m);
		k->root = addrspace_insert_under(a, k->root, m);
	} else {
		k->image = addrspace_insert(a, k->image, m);
		k->named = addrspace_insert(a, k->named, m);
		k->root = addrspace_insert(a, k->root, m);
	}
	return set_kernel(tl, k, m->time);
}

static int add_bytes(struct timeline *tl, struct machine *k, struct mapping *m)
{
	name_bytes(m, k->named);
	k->root = addrspace_insert(&tl->arena, k->root, m);
	return set_kernel(tl, k, m->time);
}

/*
 * Also lays the code of a BPF program over its symbol, if the recording has it.
 */
static int add_ksymbol(struct timeline *tl, struct machine *k,
		       struct mapping *m)
{
	struct bpf_code *code;

	if (is_known(k->named, m))
		return 0;
	k->named = addrspace_insert(&tl->arena, k->named, m);
	k->root = addrspace_insert(&tl->arena, k->root, m);
	code = timeline_find_bpf(tl, m);
	if (!code || tl->arena.oom)
		return set_kernel(tl, k, m->time);
	m->saved = code->bytes;
	if (code->len < m->end - m->start)
		m->end = m->start + code->len;
	if (timeline_save(tl, m->saved, m->end - m->start,
			  &m->saved_offset) < 0)
		return -AUX_E_NOMEM;
	return add_bytes(tl, k, m);
}

/* The symbol and its bytes go; the image below shows again. */
static int remove_ksymbol(struct timeline *tl, struct machine *k,
			  const struct mapping *m)
{
	k->named = addrspace_copy(&tl->arena, k->named, k->image, m->start,
				  m->end);
	k->root = addrspace_copy(&tl->arena, k->root, k->image, m->start,
				 m->end);
	return set_kernel(tl, k, m->time);
}

/* Lays the new bytes over the place. Where the old ones were longer, the rest
 * of them goes. */
static int apply_poke(struct timeline *tl, struct machine *k,
		      const struct op *op)
{
	struct mapping m = { .start = op->addr, .time = op->time, .path = "" };

	if (op->n_old > op->n_new)
		k->root = addrspace_copy(&tl->arena, k->root, k->named,
					 op->addr + op->n_new,
					 op->addr + op->n_old);
	if (!op->n_new)
		return set_kernel(tl, k, op->time);
	m.end = op->addr + op->n_new;
	m.saved = op->bytes + op->n_old;
	if (timeline_save(tl, m.saved, op->n_new, &m.saved_offset) < 0)
		return -AUX_E_NOMEM;
	return add_bytes(tl, k, &m);
}

int timeline_apply_kernel(struct timeline *tl, const struct op *op)
{
	struct machine *k = &tl->machines.v[op->machine];
	struct mapping m;

	if (op->kind == OP_POKE || op->kind == OP_POKED)
		return apply_poke(tl, k, op);
	m = *op->map;
	m.time = op->time;
	if (op->kind == OP_KSYMBOL)
		return op->flags & OP_REMOVE ? remove_ksymbol(tl, k, &m) :
					       add_ksymbol(tl, k, &m);
	if (op->map->kind != MAPPING_USER)
		return add_map(tl, k, &m);
	/* Saved code; without bytes, a range whose contents are unknown. */
	if (m.saved)
		return add_bytes(tl, k, &m);
	k->root = addrspace_insert(&tl->arena, k->root, &m);
	return set_kernel(tl, k, m.time);
}

/* ---- the bytes before the first poke ---- */

/* For each machine, a tree of the places seen so far: time says since when a
 * place holds what it holds, prot whether it was poked since. */
struct past {
	struct map_arena *a;
	const struct map_node **seen;	/* of each machine */
	struct build *b;
};

static void mark(struct past *p, const struct op *op, uint64_t start,
		 uint64_t end, bool poked)
{
	struct mapping m = { .start = start, .end = end, .time = op->time,
			     .path = "", .prot = poked };
	const struct map_node **seen = &p->seen[op->machine];

	*seen = addrspace_insert(p->a, *seen, &m);
}

/* [start, end) held the old bytes of poke since a time: adds them as an op. */
static int add_past(struct past *p, const struct op *poke, uint64_t start,
		     uint64_t end, uint64_t since)
{
	const struct op from = *poke;
	struct op *op;

	/* At equal times nothing says which came first. */
	if (since >= from.time)
		return 0;
	op = timeline_add_op(p->b, OP_POKED, since);
	if (!op)
		return -AUX_E_NOMEM;
	op->order |= ORDER_POKED;
	op->machine = from.machine;
	op->addr = start;
	op->bytes = from.bytes + (start - from.addr);
	op->n_new = (uint16_t)(end - start);
	return 0;
}

/*
 * For each part of the poked range that was not poked before, adds the old
 * bytes from when the part came into being. known: all of it was, so nothing
 * has to be marked.
 */
static int look_at_poke(struct past *p, const struct op *poke)
{
	const struct op op = *poke;
	const struct map_node *seen = p->seen[op.machine];
	uint64_t at = op.addr, end = op.addr + op.n_old;
	bool known = op.n_new && op.n_old >= op.n_new;
	int rc = 0;

	while (rc == 0 && at < end) {
		const struct mapping *m = addrspace_next(seen, at);
		uint64_t stop = !m || m->start >= end ? end :
				m->start > at ? m->start :
				m->end < end ? m->end : end;

		if (!m || m->start > at)
			rc = add_past(p, &op, at, stop, 0);
		else if (!m->prot)
			rc = add_past(p, &op, at, stop, m->time);
		known &= m && m->start <= at && m->prot;
		at = stop;
	}
	if (known)
		return rc;
	mark(p, &op, op.addr,
	     op.addr + (op.n_old > op.n_new ? op.n_old : op.n_new),
	     op.n_new > 0);
	return rc;
}

int timeline_look_back(struct build *b)
{
	struct past p = { .a = &b->arena, .b = b };
	size_t n = b->n;
	int rc = 0;

	p.seen = calloc(b->tl->machines.n, sizeof(*p.seen));
	if (!p.seen)
		return -AUX_E_NOMEM;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		const struct op *op = &b->ops[i];

		if (op->kind == OP_POKE)
			rc = look_at_poke(&p, op);
		else if (op->kind == OP_KSYMBOL)
			mark(&p, op, op->map->start, op->map->end, false);
		else if (op->kind == OP_MMAP && op->flags & OP_KERNEL &&
			 op->map->kind == MAPPING_USER)
			mark(&p, op, op->map->start, op->map->end, true);
	}
	free(p.seen);
	return rc < 0 || b->arena.oom ? -AUX_E_NOMEM : 0;
}
