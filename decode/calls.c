/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls: see calls.h. The flow of each thread, as moves from what ran to what runs
 * next. A thread that changes streams takes what it did last along.
 */
#include <stdlib.h>

#include "calls_priv.h"

int calls_new(struct calls **calls, const struct sink_host *host,
	      unsigned flags, const struct calls_ops *ops, void *priv)
{
	struct calls *c = calloc(1, sizeof(*c));

	*calls = NULL;
	if (!c)
		return -AUX_E_NOMEM;
	c->ops = ops;
	c->priv = priv;
	c->flags = flags;
	c->end = &c->threads;
	c->funcs = calls_func_new(host, flags);
	if (!c->funcs || calls_code_init(&c->code, host, c->funcs)) {
		calls_free(c);
		return -AUX_E_NOMEM;
	}
	*calls = c;
	return 0;
}

void calls_free(struct calls *c)
{
	struct thread *t, *next;

	if (!c)
		return;
	for (t = c->threads; t; t = next) {
		next = t->next;
		calls_context_free(t);
		calls_stack_free(t);
		free(t);
	}
	free(c->lanes);
	calls_code_fini(&c->code);
	calls_func_free(c->funcs);
	free(c);
}

size_t calls_n_funcs(const struct calls *c)
{
	return calls_func_count(c->funcs);
}

struct call_func *calls_func(const struct calls *c, uint32_t id)
{
	struct func *f = calls_func_get(c->funcs, id);

	return f ? &f->pub : NULL;
}

struct call_func *calls_find_func(struct calls *c, const struct space *space,
				  uint64_t ip)
{
	struct func *f = calls_func_at(c->funcs, space, ip);

	return f ? &f->pub : NULL;
}

/* ---- threads ---- */

static bool is_of(const struct thread *t, const struct flow_ctx *ctx)
{
	if (t->pub.tid != ctx->tid)
		return false;
	/* idle, and what is unknown, are one for each stream */
	return (ctx->tid && ctx->tid != UINT32_MAX) ||
	       t->pub.stream == ctx->stream;
}

static struct thread *add_thread(struct calls *c, const struct flow_ctx *ctx)
{
	struct thread **slot = &c->slots[ctx->tid % THREAD_SLOTS];
	struct thread *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->stacks = calloc(1, sizeof(*t->stacks));
	if (!t->stacks) {
		free(t);
		return NULL;
	}
	t->n_stacks = t->max_stacks = 1;
	t->pend.what = PEND_START;
	t->pub.pid = ctx->pid;
	t->pub.tid = ctx->tid;
	t->pub.stream = ctx->stream;
	t->pub.ctx = &t->ctx;
	t->same = *slot;
	*slot = t;
	*c->end = t;
	c->end = &t->next;
	return t;
}

static struct lane *find_lane(struct calls *c, uint32_t stream)
{
	struct lane *lanes;

	if (c->lane < c->n_lanes && c->lanes[c->lane].stream == stream)
		return &c->lanes[c->lane];
	for (c->lane = 0; c->lane < c->n_lanes; c->lane++)
		if (c->lanes[c->lane].stream == stream)
			return &c->lanes[c->lane];
	lanes = reallocarray(c->lanes, c->n_lanes + 1, sizeof(*lanes));
	if (!lanes)
		return NULL;
	c->lanes = lanes;
	lanes[c->n_lanes++] = (struct lane){ .stream = stream };
	return &lanes[c->lane];
}

/* In the kernel threads change in the middle of things. */
static void come_back(struct thread *t)
{
	if (t->pend.what < PEND_START && is_kernel(t->pend.from))
		t->pend.what = PEND_SWITCH;
}

static struct thread *find_thread(struct calls *c, const struct flow_ctx *ctx)
{
	struct lane *lane = find_lane(c, ctx->stream);
	struct thread *t;

	if (!lane)
		return NULL;
	t = lane->last;
	if (!t || !is_of(t, ctx) || t->pub.stream != ctx->stream) {
		for (t = c->slots[ctx->tid % THREAD_SLOTS]; t && !is_of(t, ctx);
		     t = t->same)
			;
		if (!t)
			t = add_thread(c, ctx);
		if (!t)
			return NULL;
		come_back(t);
		lane->last = t;
	}
	t->pub.pid = ctx->pid;
	t->pub.stream = ctx->stream;
	t->ctx = *ctx;
	if (ctx->time_ns > t->pub.now.ns)
		t->pub.now.ns = ctx->time_ns;
	c->space = ctx->space;
	return t;
}

/* ---- what runs ---- */

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

int calls_go(struct calls *c, struct thread *t, const struct move *m)
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

/* Control comes to an address; something runs there, or tracing stops. */
static int arrive(struct calls *c, struct thread *t, uint64_t to, bool runs)
{
	const struct space *space = t->pub.ctx->space;
	struct func *f;
	const struct move *m;
	int rc = 0;

	if (t->pend.what == PEND_START || t->pend.what >= PEND_GAP) {
		if (!runs)
			return 0;
		f = calls_func_at(c->funcs, space, to);
		if (!f)
			return -AUX_E_NOMEM;
		if (t->pend.what != PEND_START)
			return calls_land_gap(c, t, f, to);
	} else {
		m = calls_code_move(&c->code, space, &t->pend, to);
		if (!m)
			return -AUX_E_NOMEM;
		t->pub.now.branches += calls_code_taken(&t->pend, to);
		if (m->kind != MOVE_NONE)
			rc = calls_go(c, t, m);
	}
	if (rc || t->pub.depth || !runs)
		return rc;
	f = calls_func_at(c->funcs, space, to);
	if (!f)
		return -AUX_E_NOMEM;
	return calls_stack_push(c, t, CALL_BASE, 0, f, 0, to, 0);
}

static int run_range(struct calls *c, struct thread *t,
		     const struct aux_flow *ev)
{
	int rc = arrive(c, t, ev->range.first, true);

	t->pub.now.insns += ev->n;
	t->pend = calls_code_end(&c->code, t->pub.ctx->space, ev);
	if (rc || !c->ops->run || !(c->flags & CALLS_NEEDS_RUNS))
		return rc;
	if (t->wait)
		return calls_context_run(c, t, ev);
	return c->ops->run(c->priv, &t->pub, ev);
}

static int run_seg(struct calls *c, struct thread *t, const struct seg *s)
{
	int rc = arrive(c, t, s->first, true);
	uint64_t insns = t->pub.now.insns, branches = t->pub.now.branches;

	for (uint32_t i = 0; i < s->n_moves && !rc; i++) {
		t->pub.now.insns = insns + s->moves[i].n_insns;
		t->pub.now.branches = branches + s->moves[i].n_branches;
		rc = calls_go(c, t, &s->moves[i].m);
		if (!rc && !t->pub.depth)
			rc = calls_stack_push(c, t, CALL_BASE, 0,
					      s->moves[i].m.func, 0,
					      s->moves[i].m.to, 0);
	}
	t->pub.now.insns = insns + s->n_insns;
	t->pub.now.branches = branches + s->n_branches;
	t->pend = s->last;
	return rc;
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

static int run_path(struct calls *c, struct thread *t,
		    const struct aux_flow *ev)
{
	const struct space *space = t->pub.ctx->space;
	struct aux_path *path = ev->path.path;
	const struct seg *s;
	int rc = 0;

	if (c->flags & CALLS_NEEDS_RUNS)
		return run_ranges(c, t, ev);
	if (path->kept) {
		s = calls_code_path(&c->code, space, path);
		return s ? run_seg(c, t, s) : -AUX_E_NOMEM;
	}
	for (uint32_t i = 0; i < path->n_steps && !rc; i++) {
		s = calls_code_step(&c->code, space, path->steps[i]);
		rc = s ? run_seg(c, t, s) : -AUX_E_NOMEM;
	}
	return rc;
}

/* ---- events ---- */

static int on_async(struct calls *c, struct thread *t,
		    const struct aux_flow *ev)
{
	bool syscall = t->pend.what == AUX_END_SYSCALL;
	int rc = 0;

	if (!syscall)
		rc = arrive(c, t, ev->async.from, false);
	t->pend = (struct pend){ .from = ev->async.from,
				 .next = ev->async.from,
				 .what = PEND_ASYNC, .syscall = syscall };
	return rc;
}

static int on_trace(struct calls *c, struct thread *t,
		    const struct aux_flow *ev)
{
	bool on = ev->kind == AUX_FLOW_TRACE_ON;
	int rc = 0;

	if (!on && ev->flags & AUX_FLOW_HAS_IP &&
	    t->pend.what != AUX_END_SYSCALL && t->pend.what < PEND_START) {
		rc = arrive(c, t, ev->trace.ip, false);
		t->pend = (struct pend){ .from = ev->trace.ip,
					 .next = ev->trace.ip,
					 .what = PEND_OFF };
	}
	if (t->off == !on)
		return rc;
	t->off = !on;
	if (!rc && c->ops->off)
		rc = c->ops->off(c->priv, &t->pub, on);
	return rc;
}

static int on_gap(struct calls *c, struct thread *t, const struct aux_flow *ev)
{
	bool known = t->pub.tid != UINT32_MAX || t->pub.depth;
	int rc = t->wait ? calls_context_decide(c, t) : 0;

	if (rc)
		return rc;
	if (t->pend.what != PEND_START)
		t->pend = (struct pend){ .what = PEND_GAP };
	t->stub.kind = 0;
	return c->ops->gap ? c->ops->gap(c->priv, known ? &t->pub : NULL, ev) :
			     0;
}

static int on_event(struct calls *c, struct thread *t,
		    const struct aux_flow *ev)
{
	switch (ev->kind) {
	case AUX_FLOW_PATH:
		return run_path(c, t, ev);
	case AUX_FLOW_RANGE:
		return run_range(c, t, ev);
	case AUX_FLOW_TIME:
		t->pub.now.cycles += ev->n;
		return 0;
	case AUX_FLOW_TRACE_ON:
	case AUX_FLOW_TRACE_OFF:
		return on_trace(c, t, ev);
	case AUX_FLOW_GAP:
		return on_gap(c, t, ev);
	}
	if (ev->kind == AUX_FLOW_ASYNC) {
		int rc = on_async(c, t, ev);

		if (rc)
			return rc;
	}
	return c->ops->event ? c->ops->event(c->priv, &t->pub, ev) : 0;
}

int calls_flow(struct calls *c, const struct flow_ctx *ctx,
	       const struct aux_flow *ev, size_t n)
{
	struct thread *t = find_thread(c, ctx);
	int rc = 0;

	if (!t)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < n && !rc; i++) {
		if (i + 4 < n && ev[i + 4].kind == AUX_FLOW_PATH)
			__builtin_prefetch(ev[i + 4].path.path->user);
		if (i + 2 < n && ev[i + 2].kind == AUX_FLOW_PATH)
			__builtin_prefetch((const void *)(uintptr_t)
					   ev[i + 2].path.path->user[1]);
		rc = on_event(c, t, &ev[i]);
	}
	return rc;
}

/* All its stacks. */
static int finish_thread(struct calls *c, struct thread *t)
{
	int rc = t->wait ? calls_context_decide(c, t) : 0;

	if (!rc)
		rc = calls_stack_pop_to(c, t, 0, CALL_END_TRACE, 0);
	for (uint32_t i = 0; i < t->n_stacks && !rc; i++) {
		if (i == t->current || !t->stacks[i].depth)
			continue;
		rc = calls_context_turn(c, t, i);
		if (!rc)
			rc = calls_stack_pop_to(c, t, 0, CALL_END_TRACE, 0);
	}
	return rc;
}

int calls_finish(struct calls *c)
{
	int rc = 0;

	for (struct thread *t = c->threads; t && !rc; t = t->next)
		rc = finish_thread(c, t);
	return rc;
}
