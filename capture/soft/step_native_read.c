/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What threads ran from a code cache, as the records in their rings say: one word for
 * each exit of a unit that was taken, in order. native.h has their form.
 *
 * The program can write there: a record that cannot follow the one before is an error.
 */
#include "capture/soft/step_native.h"
#include "common/clock.h"

#define BATCH 4096
#define FETCH_AHEAD 12	/* records: what their paths are is spread over much memory */

static size_t slots_offset(const struct step_thread *t, unsigned half)
{
	return NATIVE_SLOTS_AT + (t->native.slot - 1) * NATIVE_SLOT_BYTES +
	       half * NATIVE_HALF_BYTES + NATIVE_TIMES + NATIVE_RING;
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
	if (!r->n)
		return;
	step_note(r->t, soft_run_paths(r->t->soft, nc->blocks, nc->paths, r->ids, r->n));
	step_native_keep(r->nc, r->ids, r->n);
	r->n = 0;
}

/* ---- how long system calls took ---- */

static uint64_t ticks_to_ns(const struct step *st, uint64_t ticks, uint64_t now,
			    uint64_t now_tsc)
{
	double ns = (double)(now - st->began_ns);

	return now_tsc > st->began_tsc ?
		       (uint64_t)((double)ticks * ns / (double)(now_tsc - st->began_tsc)) : 0;
}

/* The call of the record that is being read, which step_leave() has reported. before: when
 * the one before began. The program can write there: no time is taken for one to come, or
 * for one of before that. */
static void time_call(struct step_thread *t, uint64_t before)
{
	struct step_native_thread *n = &t->native;
	const struct native_slots *s = step_native_slots(t, n->reading);
	uint64_t tsc = step_ticks(), left;

	n->call = (const void *)((const uint8_t *)s - NATIVE_RING + 4 * n->done);
	left = n->call->left;
	left = left < tsc ? ticks_to_ns(t->proc->step, tsc - left, t->left_ns, tsc) : 0;
	if (left < t->left_ns - before)
		t->left_ns -= left;
}

/* It is over, as the thread has gone on. */
static void time_return(struct step_thread *t)
{
	struct step_native_thread *n = &t->native;
	uint64_t now = clock_ns(), tsc = step_ticks(), took;

	if (!n->call)
		return;
	took = n->call->back - n->call->left;
	n->back_ns = now;
	if (n->call->back > n->call->left && took < tsc) {
		took = ticks_to_ns(t->proc->step, took, now, tsc);
		if (took < now - t->left_ns)
			n->back_ns = t->left_ns + took;
	}
	n->call = NULL;
}

/* A unit was left by this exit. */
static void report_path(struct report *r, size_t exit)
{
	if (!r->t->user) {
		time_return(r->t);
		step_enter(r->t, r->nc->paths[exit].start);
	}
	r->ids[r->n++] = (uint32_t)exit;
	if (r->n == BATCH)
		flush_report(r);
}

/* Whether a record can follow those before it: it is of a copy of what begins where
 * these lead, or where an indirect branch went. */
static bool is_next(const struct step_native *nc, uint32_t id, uint64_t target, bool tip)
{
	return id < nc->n_exits && nc->paths[id].n_blocks &&
	       (tip || nc->paths[id].start == target);
}

static void follow_exit(struct report *r, uint32_t id)
{
	const struct step_native *nc = r->nc;
	struct step_native_thread *n = &r->t->native;
	uint64_t before = r->t->left_ns;
	struct soft_path p;

	if (!is_next(nc, id, n->target, n->tip)) {
		step_note(r->t, -AUX_E_FORMAT);
		return;
	}
	p = nc->paths[id];
	n->target = p.next;
	n->tip = p.by_tip;
	n->last = id;
	report_path(r, id);
	if (!p.enters_kernel)
		return;
	flush_report(r);
	step_leave(r->t, SOFT_LEAVE_SYSCALL,
		   nc->blocks[p.first + p.n_blocks - 1u].end - 2);
	time_call(r->t, before);
}

/* The records before end that need no more than to be followed; returns the first
 * that does. What is reported may make the arrays grow, and move. */
static const uint32_t *read_simple(struct report *r, const uint32_t *p,
				   const uint32_t *end)
{
	struct step_native_thread *n = &r->t->native;
	const struct step_native *nc = r->nc;
	uint64_t target = n->target;
	uint32_t last = n->last;
	bool tip = n->tip;

	for (; p < end; p++) {
		const struct soft_path *path;
		uint32_t id = *p;

		if (end - p > FETCH_AHEAD && p[FETCH_AHEAD] < nc->n_exits)
			__builtin_prefetch(&nc->paths[p[FETCH_AHEAD]]);
		if (r->n == BATCH)
			flush_report(r);
		if (!is_next(nc, id, target, tip) || nc->paths[id].enters_kernel)
			break;
		path = &nc->paths[id];
		if (path->tail)
			__builtin_prefetch(path->tail);
		target = path->next;
		tip = path->by_tip;
		last = id;
		r->ids[r->n++] = id;
	}
	n->target = target;
	n->tip = tip;
	n->last = last;
	return p;
}

/* The records of one ring up to cur, at most so many. */
static void read_records(struct step_thread *t, int64_t cur, size_t max)
{
	struct step_native_thread *n = &t->native;
	const uint32_t *end = (const void *)step_native_slots(t, n->reading), *p;
	struct report r;	/* ids are not cleared */

	r.t = t;
	r.nc = t->proc->native;
	r.n = 0;
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
		follow_exit(&r, *p);
	}
	flush_report(&r);
	n->draining = false;
	step_native_look(t);
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
	/* looking for ways may have read all there is */
	if (n->reading != n->half && !n->done)
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
