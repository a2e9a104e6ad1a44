/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls: see callstack.h. The flow of each thread, as moves from what ran to what runs
 * next. A thread that changes streams takes what it did last along.
 */
#include <stdlib.h>

#include "decode/callstack/impl.h"

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
	if (t->pend.what >= PEND_START || !is_kernel(t->pend.from))
		return;
	t->pend.what = PEND_SWITCH;
	t->last = NULL;
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
	c->space_id = ctx->space ? ctx->space->id : UINT64_MAX;
	return t;
}

/* ---- events ---- */

static int on_async(struct calls *c, struct thread *t,
		    const struct aux_flow *ev)
{
	bool syscall = t->pend.what == AUX_END_SYSCALL;
	int rc = 0;

	if (syscall)
		t->pub.now.branches++;	/* it came back, to async.from */
	else
		rc = calls_run_stop(c, t, ev->async.from);
	set_pend(t, (struct pend){ .from = ev->async.from,
				   .next = ev->async.from,
				   .what = PEND_ASYNC, .syscall = syscall });
	return rc;
}

static int on_trace(struct calls *c, struct thread *t,
		    const struct aux_flow *ev)
{
	bool on = ev->kind == AUX_FLOW_TRACE_ON;
	int rc = 0;

	if (!on && ev->flags & AUX_FLOW_HAS_IP &&
	    t->pend.what != AUX_END_SYSCALL && t->pend.what < PEND_START) {
		rc = calls_run_stop(c, t, ev->trace.ip);
		set_pend(t, (struct pend){ .from = ev->trace.ip,
					   .next = ev->trace.ip,
					   .what = PEND_OFF });
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
		set_pend(t, (struct pend){ .what = PEND_GAP });
	t->stub.kind = 0;
	return c->ops->gap ? c->ops->gap(c->priv, known ? &t->pub : NULL, ev) :
			     0;
}

/* noinline: rare. */
static __attribute__((noinline)) int
on_event(struct calls *c, struct thread *t, const struct aux_flow *ev)
{
	switch (ev->kind) {
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
	uint64_t before;
	int rc = 0;

	if (!t)
		return -AUX_E_NOMEM;
	before = t->pub.now.insns;
	while (n && !rc) {
		size_t done = calls_run(c, t, ev, n, &rc);

		ev += done;
		n -= done;
		if (!n || rc)
			break;
		rc = on_event(c, t, ev++);
		n--;
	}
	c->n_insns += t->pub.now.insns - before;
	for (; n; n--, ev++)
		if (ev->kind == AUX_FLOW_RANGE || ev->kind == AUX_FLOW_PATH)
			c->n_insns += ev->n;
	return rc;
}

uint64_t calls_n_insns(const struct calls *c)
{
	return c->n_insns;
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
