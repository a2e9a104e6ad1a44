/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What threads ran from a code cache, as the records in their rings say: one word for
 * each exit of a unit that was taken, in order. native.h has their form.
 *
 * The program can write there: a record that cannot follow the one before is an error.
 */
#include "capture/soft/step_native.h"

#define BATCH 1024

static size_t slots_offset(const struct step_thread *t, unsigned half)
{
	return NATIVE_SLOTS_AT + (t->native.slot - 1) * NATIVE_SLOT_BYTES +
	       half * NATIVE_HALF_BYTES + NATIVE_RING;
}

struct native_slots *step_native_slots(const struct step_thread *t, unsigned half)
{
	return (void *)(t->proc->native->mem + slots_offset(t, half));
}

struct report {
	struct step_thread *t;
	struct step_native *nc;
	size_t n;
	uint32_t ids[BATCH];	/* of paths */
};

static void add_truth(struct step_thread *t, const struct native_insn *insns,
		      unsigned n)
{
	unsigned i;

	for (i = 0; i < n; i++) {
		t->truth[t->n_truth++] = insns[i].ip;
		if (t->n_truth == STEP_TRUTH)
			step_note(t, step_flush_truth(t));
	}
}

static void flush_report(struct report *r)
{
	const struct step_native *nc = r->nc;
	size_t i;

	for (i = 0; r->t->proc->step->p->truth && i < r->n; i++) {
		const struct native_exit *e = &nc->exits[r->ids[i]];

		add_truth(r->t, nc->insns + nc->units[e->unit].first_insn,
			  e->n_insns);
	}
	if (r->n)
		step_note(r->t, soft_run_paths(r->t->soft, nc->blocks,
					       nc->paths, r->ids, r->n));
	r->n = 0;
}

/* A unit was left by this exit. */
static void report_path(struct report *r, size_t exit)
{
	if (!r->t->user)
		step_enter(r->t, r->nc->paths[exit].start);
	r->ids[r->n++] = (uint32_t)exit;
	if (r->n == BATCH)
		flush_report(r);
}

/* The exit of a unit's end. */
static size_t last_exit(const struct native_unit *u)
{
	return u->first_exit + u->n_exits - 1u;
}

/* A unit that is left at its end, and where the thread goes on. */
static void follow_indirect(struct report *r, uint32_t to)
{
	struct step_native *nc = r->nc;
	struct step_native_thread *n = &r->t->native;
	size_t exit = n->unit ? last_exit(&nc->units[n->unit]) : 0;

	if (!n->unit || to >= nc->n_units || !nc->paths[exit].by_tip) {
		step_note(r->t, -AUX_E_FORMAT);
		return;
	}
	report_path(r, exit);
	n->unit = to;
	n->last = UINT32_MAX;
}

/* Whether a thread that was last known in n->unit may leave e's. Where a link
 * was cut between the record and the jump, it is in a newer copy. */
static bool is_next(const struct step_native *nc,
		    const struct step_native_thread *n,
		    const struct native_exit *e)
{
	uint64_t at = n->unit ? nc->units[n->unit].start : n->target;

	return nc->units[e->unit].start == at;
}

/* An exit that was unlinked led to what it leads to no more: a record of one
 * that went to the tracer in its place is the ring's last, and corrected when
 * the tracer lets the thread go on. */
static void follow_exit(struct report *r, uint32_t id)
{
	struct step_native *nc = r->nc;
	struct step_native_thread *n = &r->t->native;
	const struct native_hop *hop = id < nc->n_exits ? &nc->hops[id] : NULL;

	if (!hop ||
	    ((hop->unit & ~NATIVE_HOP_CALL) != n->unit &&
	     !is_next(nc, n, &nc->exits[id])) ||
	    nc->paths[id].by_tip) {
		step_note(r->t, -AUX_E_FORMAT);
		return;
	}
	report_path(r, id);
	n->unit = hop->to;
	n->target = nc->paths[id].next;
	n->last = id;
	if (!nc->paths[id].enters_kernel)
		return;
	flush_report(r);
	step_leave(r->t, SOFT_LEAVE_SYSCALL,
		   nc->blocks[nc->paths[id].first + nc->paths[id].n_blocks - 1u].end -
			   2);
}

/* The records before end that need no more than to be followed; returns the first
 * that does. */
static const uint32_t *read_simple(struct report *r, const uint32_t *p,
				   const uint32_t *end)
{
	struct step_native_thread *n = &r->t->native;
	const struct step_native *nc = r->nc;
	uint32_t unit = n->unit, exit = UINT32_MAX, word = 0;
	const uint32_t *begin = p;

	for (; p < end; p++, r->ids[r->n++] = exit) {
		uint32_t to;

		if (r->n == BATCH)
			flush_report(r);
		word = *p;
		if (word & NATIVE_ENTERED) {
			to = word & ~NATIVE_ENTERED;
			if (!nc->tips[unit] || to >= nc->n_units)
				break;
			exit = nc->tips[unit];
			unit = to;
		} else {
			if (word >= nc->n_exits || nc->hops[word].unit != unit)
				break;
			exit = word;
			unit = nc->hops[word].to;
		}
	}
	if (p == begin)
		return p;
	n->unit = unit;
	n->target = nc->paths[exit].next;
	n->last = p[-1] & NATIVE_ENTERED ? UINT32_MAX : exit;
	return p;
}

/* The records of one ring up to cur, at most so many. */
static void read_records(struct step_thread *t, int64_t cur, size_t max)
{
	struct step_native_thread *n = &t->native;
	const uint32_t *end = (const void *)step_native_slots(t, n->reading), *p;
	struct report r = { .t = t, .nc = t->proc->native };
	uint32_t word;

	n->draining = true;
	if (cur < n->done || cur > 0)	/* the program wrote there */
		step_note(t, -AUX_E_FORMAT);
	if ((uint64_t)(cur - n->done) / 4 > max)
		cur = n->done + (int64_t)max * 4;
	for (; n->done < cur && !t->proc->step->error; n->done += 4) {
		p = end + n->done / 4;
		if (t->user)
			p = read_simple(&r, p, end + cur / 4);
		n->done = (p - end) * 4;
		if (n->done == cur)
			break;
		word = *p;
		if (word & NATIVE_ENTERED)
			follow_indirect(&r, word & ~NATIVE_ENTERED);
		else
			follow_exit(&r, word);
	}
	flush_report(&r);
	n->draining = false;
}

void step_native_begin_ring(struct step_thread *t)
{
	t->native.reading = t->native.half;
	t->native.done = -NATIVE_RING;
}

void step_native_read_full(struct step_thread *t, size_t max)
{
	struct step_native_thread *n = &t->native;

	if (n->reading == n->half)
		return;
	read_records(t, 0, max);
	if (!n->done)
		step_native_begin_ring(t);
}

void step_native_drain(struct step_thread *t)
{
	struct step_native_thread *n = &t->native;

	if (n->draining || !n->slot || !t->proc->native)
		return;
	step_native_read_full(t, SIZE_MAX);
	read_records(t,
		     __atomic_load_n(&step_native_slots(t, n->half)->cur,
				     __ATOMIC_ACQUIRE), SIZE_MAX);
}

bool step_native_drain_full(struct step *st, size_t max_records)
{
	struct step_thread *t;

	for (t = st->threads; t && !st->error; t = t->next) {
		struct step_native_thread *n = &t->native;

		if (!n->slot || n->reading == n->half || !t->proc->native)
			continue;
		step_native_read_full(t, max_records);
		return true;
	}
	return false;
}

void step_native_report_prefix(struct step_thread *t, const struct native_unit *u,
			  unsigned k)
{
	struct step_native *nc = t->proc->native;
	const struct soft_block *b = nc->blocks + u->first_block;
	uint32_t ids[NATIVE_MAX_INSNS] = { 0 };
	unsigned n = 0, n_blocks = 0;

	if (k && !t->user)
		step_enter(t, u->start);
	if (t->proc->step->p->truth)
		add_truth(t, nc->insns + u->first_insn, k);
	for (; n_blocks < u->n_blocks && n + b->n_insns <= k; b++) {
		n += b->n_insns;
		ids[n_blocks] = u->first_block + n_blocks;
		n_blocks++;
	}
	step_note(t, soft_run(t->soft, nc->blocks, ids, n_blocks));
	if (k)
		t->block_start = nc->insns[u->first_insn + n].ip;
	t->block_n = k - n;
}

void step_native_report_all(struct step_thread *t, const struct native_unit *u)
{
	struct report r = { .t = t, .nc = t->proc->native };

	report_path(&r, last_exit(u));
	flush_report(&r);
	t->block_n = 0;
}
