/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls_run: see impl.h. What runs, and what each move does that follows from it.
 *
 * Nearly all of the flow is paths that are known, and nearly all of these stay where
 * they are, call, or return to who called: run_known does no more for them than to
 * count, and to push or pop. What is left is decided as anywhere else.
 */
#include "decode/callstack/impl.h"
#include "decode/lib/sideband/sideband.h"

/* ---- moves ---- */

/* A stub was called, or jumped to: what comes of it is told when it leaves. */
static int enter_stub(struct thread *t, const struct move *m,
		      enum call_kind kind)
{
	if (t->stub.kind && kind == CALL_TAIL)
		return 0;	/* from stub to stub */
	t->stub.kind = (uint8_t)kind;
	t->stub.from = m->from;
	t->stub.back = m->next;
	return 0;
}

static int push(struct calls *c, struct thread *t, const struct move *m,
		uint64_t from, uint64_t back)
{
	int rc = calls_stack_push(c, t, CALL_CALL, 0, m->func, from, m->to,
				  back);

	if (rc || !(m->func->roles & FUNC_SETJMP))
		return rc;
	return calls_stack_mark(t);
}

static int go_call(struct calls *c, struct thread *t, const struct move *m)
{
	if (m->flags & MOVE_TO_STUB)
		return enter_stub(t, m, CALL_CALL);
	t->stub.kind = 0;
	return push(c, t, m, m->from, m->next);
}

static int go_tail(struct calls *c, struct thread *t, const struct move *m)
{
	unsigned kind = t->stub.kind;
	int rc;

	if (m->flags & MOVE_TO_STUB)
		return enter_stub(t, m, CALL_TAIL);
	if (m->in->roles & FUNC_SWITCH)
		return calls_land_switch(c, t, m);
	t->stub.kind = 0;
	if (kind == CALL_CALL)
		return push(c, t, m, t->stub.from, t->stub.back);
	rc = calls_stack_replace(c, t, m, kind ? t->stub.from : m->from);
	if (rc || !(m->func->roles & FUNC_SETJMP))
		return rc;
	return calls_stack_mark(t);
}

/* Out of a stub by a return: as a jump, where it is none from a call. */
static int go_stub_ret(struct calls *c, struct thread *t, const struct move *m)
{
	struct call_frame *top = stack_top(t);

	if (m->flags & MOVE_TO_BEGIN)
		return go_tail(c, t, m);
	if (t->stub.kind == CALL_CALL && m->to == t->stub.back) {
		t->stub.kind = 0;
		return 0;
	}
	t->stub.kind = 0;
	if (top && top->back == m->to)
		return calls_stack_pop(c, t, CALL_END_RET, 0);
	if (top && func_is_same(func_of(top->func), m->func))
		return 0;	/* a jump inside of a function */
	return calls_land_ret(c, t, m);
}

/* Something comes in between while a stub runs: it is a frame then. */
static int settle_stub(struct calls *c, struct thread *t, const struct move *m)
{
	unsigned kind = t->stub.kind;
	struct move stub = *m;

	if (!kind || m->to == m->next || m->to == m->from)
		return 0;
	t->stub.kind = 0;
	stub.func = m->in;
	stub.to = m->from;
	if (kind == CALL_TAIL)
		return calls_stack_replace(c, t, &stub, t->stub.from);
	return calls_stack_push(c, t, CALL_CALL, 0, m->in, t->stub.from,
				m->from, t->stub.back);
}

static inline int go(struct calls *c, struct thread *t, const struct move *m)
{
	struct call_frame *top = stack_top(t);
	int rc;

	if (t->wait)
		return calls_context_queue(c, t, m);
	switch (m->kind) {
	case MOVE_CALL:
		return go_call(c, t, m);
	case MOVE_RET:
		if (m->flags & MOVE_IN_STUB)
			return go_stub_ret(c, t, m);
		if (top && top->back == m->to && !(m->in->roles & FUNC_SWITCH))
			return calls_stack_pop(c, t, CALL_END_RET, 0);
		return calls_land_ret(c, t, m);
	case MOVE_TAIL:
		return go_tail(c, t, m);
	case MOVE_LAND:
		return calls_land_jump(c, t, m);
	case MOVE_CROSS:
		rc = settle_stub(c, t, m);
		return rc ? rc : calls_land_cross(c, t, m);
	}
	return 0;
}

int calls_go(struct calls *c, struct thread *t, const struct move *m)
{
	return go(c, t, m);
}

/* ---- what runs ---- */

/* Something runs, and no frame is there. */
static int begin(struct calls *c, struct thread *t, uint64_t to)
{
	struct func *f = calls_func_at(c->funcs, c->space, to);

	if (!f)
		return -AUX_E_NOMEM;
	return calls_stack_push(c, t, CALL_BASE, 0, f, 0, to, 0);
}

/* From pend, which is the end of last, or of no segment (NULL). */
static int arrive(struct calls *c, struct thread *t, uint64_t to,
		  struct seg *last)
{
	const struct move *m = calls_code_move(&c->code, c->space, &t->pend, to);

	if (!m)
		return -AUX_E_NOMEM;
	if (last)
		calls_code_learn(last, c->space_id, m, to);
	t->pub.now.branches += calls_code_taken(&t->pend, to);
	return m->kind != MOVE_NONE ? go(c, t, m) : 0;
}

int calls_run_stop(struct calls *c, struct thread *t, uint64_t to)
{
	if (t->pend.what == PEND_START || t->pend.what >= PEND_GAP)
		return 0;
	return arrive(c, t, to, NULL);
}

/* Something runs there. */
static int come_to(struct calls *c, struct thread *t, uint64_t to,
		   struct seg *last)
{
	struct func *f;
	int rc = 0;

	if (t->pend.what >= PEND_GAP) {
		f = calls_func_at(c->funcs, c->space, to);
		return f ? calls_land_gap(c, t, f, to) : -AUX_E_NOMEM;
	}
	if (t->pend.what != PEND_START)
		rc = arrive(c, t, to, last);
	return rc || t->pub.depth ? rc : begin(c, t, to);
}

static int run_range(struct calls *c, struct thread *t,
		     const struct aux_flow *ev)
{
	int rc = come_to(c, t, ev->range.first, NULL);

	t->pub.now.insns += ev->n;
	set_pend(t, calls_code_end(&c->code, c->space, ev));
	if (rc || !c->ops->run || !(c->flags & CALLS_NEEDS_RUNS))
		return rc;
	if (t->wait)
		return calls_context_run(c, t, ev);
	return c->ops->run(c->priv, &t->pub, ev);
}

/* Each RANGE of a path on its own. */
static int run_ranges(struct calls *c, struct thread *t,
		      const struct aux_flow *ev)
{
	const struct aux_path *path = ev->path.path;
	struct aux_flow range;
	int rc = 0;

	for (uint32_t i = 0; i < path->n_steps; i++) {
		const struct aux_step *step = path->steps[i];

		for (uint32_t k = 0; k < step->n_ranges && !rc; k++) {
			range = step->ranges[k];
			range.offset = ev->offset;
			rc = run_range(c, t, &range);
		}
	}
	return rc;
}

/* ---- segments ---- */

/* noinline: most segments stay where they are, and need no registers saved. */
static __attribute__((noinline)) int
run_moves(struct calls *c, struct thread *t, const struct seg *s)
{
	int rc = 0;

	for (uint32_t i = 0; i < s->n_moves && !rc; i++) {
		const struct seg_move *sm = &s->moves[i];

		t->pub.now.insns += sm->n_insns;
		t->pub.now.branches += sm->n_branches;
		rc = go(c, t, &sm->m);
		if (!rc && !t->pub.depth)
			rc = calls_stack_push(c, t, CALL_BASE, 0, sm->m.func, 0,
					      sm->m.to, 0);
	}
	return rc;
}

/* Back to who called, out of last, as most returns do. */
static inline bool is_back(const struct calls *c, const struct thread *t,
			   const struct seg *last, uint64_t to)
{
	const struct call_frame *top = stack_top(t);

	return last->ret_space == c->space_id && top && top->back == to &&
	       !t->wait && !(last->ret->roles & FUNC_SWITCH) &&
	       is_kernel(to) == is_kernel(last->last.from);
}

/* From last, or where pend says (NULL), to the begin of s, and to its last move. */
static int enter_seg(struct calls *c, struct thread *t, struct seg *last,
		     const struct seg *s)
{
	uint64_t to = s->first;
	int rc;

	if (last && is_back(c, t, last, to)) {
		t->pub.now.branches++;
		rc = calls_stack_pop(c, t, CALL_END_RET, 0);
		if (!rc && !t->pub.depth)
			rc = begin(c, t, to);
	} else {
		if (last)
			t->pend = last->last;
		rc = come_to(c, t, to, last);
	}
	return !rc && s->n_moves ? run_moves(c, t, s) : rc;
}

static inline int run_seg(struct calls *c, struct thread *t, struct seg *last,
			  const struct seg *s)
{
	int rc = 0;

	if (!last || last->to != s->first || last->space != c->space_id) {
		rc = enter_seg(c, t, last, s);
	} else {
		t->pub.now.branches += last->taken;
		if (s->n_moves)
			rc = run_moves(c, t, s);
	}
	t->pub.now.insns += s->n_insns;
	t->pub.now.branches += s->n_branches;
	return rc;
}

static inline struct seg *last_of(const struct calls *c, const struct thread *t)
{
	return t->epoch == c->code.epoch ? t->last : NULL;
}

static inline void set_last(const struct calls *c, struct thread *t,
			    struct seg *s)
{
	t->pend = s->last;
	t->last = s;
	t->epoch = c->code.epoch;
}

/* ctx has the time of the first event; then it goes on from TIME to TIME. */
static inline void take_time(struct thread *t, const struct aux_flow *ev)
{
	t->pub.now.cycles += ev->n;
	if (ev->time.ns <= t->ctx.time_ns)
		return;
	t->ctx.time_ns = ev->time.ns;
	t->ctx.tsc = ev->flags & AUX_FLOW_HAS_TSC ? ev->time.tsc : 0;
	if (ev->time.ns > t->pub.now.ns)
		t->pub.now.ns = ev->time.ns;
}

/* Events up to the first that is no path that is known, and no TIME. How many. */
static size_t run_known(struct calls *c, struct thread *t,
			const struct aux_flow *ev, size_t n, int *rc)
{
	struct seg *last = last_of(c, t), *s;
	size_t i;

	for (i = 0; i < n && !*rc; i++) {
		if (i + 4 < n && ev[i + 4].kind == AUX_FLOW_PATH)
			__builtin_prefetch(ev[i + 4].path.path->user);
		if (i + 2 < n && ev[i + 2].kind == AUX_FLOW_PATH)
			__builtin_prefetch((const void *)(uintptr_t)
					   ev[i + 2].path.path->user[1]);
		if (ev[i].kind == AUX_FLOW_TIME) {
			take_time(t, &ev[i]);
			continue;
		}
		if (ev[i].kind != AUX_FLOW_PATH || !ev[i].path.path->kept)
			break;
		s = calls_code_known(&c->code, ev[i].path.path->user);
		if (!s)
			break;
		*rc = run_seg(c, t, last, s);
		if (!last)	/* pend is that of what runs, or older */
			t->pend = s->last;
		last = s;
	}
	if (last)
		set_last(c, t, last);
	return i;
}

static int run_new(struct calls *c, struct thread *t, struct seg *s)
{
	int rc;

	if (!s)
		return -AUX_E_NOMEM;
	rc = run_seg(c, t, last_of(c, t), s);
	set_last(c, t, s);
	return rc;
}

static int run_path(struct calls *c, struct thread *t,
		    const struct aux_flow *ev)
{
	struct aux_path *path = ev->path.path;
	int rc = 0;

	if (c->flags & CALLS_NEEDS_RUNS)
		return run_ranges(c, t, ev);
	if (path->kept)
		return run_new(c, t, calls_code_path(&c->code, c->space, path));
	for (uint32_t i = 0; i < path->n_steps && !rc; i++)
		rc = run_new(c, t, calls_code_step(&c->code, c->space,
						   path->steps[i]));
	return rc;
}

size_t calls_run(struct calls *c, struct thread *t, const struct aux_flow *ev,
		 size_t n, int *rc)
{
	size_t i = 0;

	*rc = 0;
	while (i < n && !*rc) {
		if (!(c->flags & CALLS_NEEDS_RUNS))
			i += run_known(c, t, ev + i, n - i, rc);
		if (i == n || *rc)
			break;
		if (ev[i].kind == AUX_FLOW_PATH)
			*rc = run_path(c, t, &ev[i++]);
		else if (ev[i].kind == AUX_FLOW_RANGE)
			*rc = run_range(c, t, &ev[i++]);
		else if (ev[i].kind == AUX_FLOW_TIME)
			take_time(t, &ev[i++]);
		else
			break;
	}
	return i;
}
