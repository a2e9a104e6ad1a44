/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flowtree: see flowtree.h.
 *
 * A gap ends where something runs again. callstack/callstack.h is silent when
 * no frame began or ended there, so the flow is cut at that event and the gap
 * of the thread ended by hand (flowtree_flow). n_gapped counts the threads that are
 * in a gap, so that this costs nothing without gaps.
 */
#include <stdlib.h>

#include "decode/callstack/flowtree.h"

/* All are in a list, to be freed and for end_gap. */
static struct flowtree_thread *add_thread(struct flowtree *t,
					  struct call_thread *th)
{
	struct flowtree_thread *ft = calloc(1, sizeof(*ft));

	if (!ft)
		return NULL;
	ft->thread = th;
	ft->next = t->threads;
	t->threads = ft;
	th->user = ft;
	return ft;
}

/* NULL: out of memory. */
static inline struct flowtree_thread *thread_of(struct flowtree *t,
						struct call_thread *th)
{
	return th->user ? th->user : add_thread(t, th);
}

/* err is what the tree said of the event. */
static inline int tell(struct flowtree *t, struct flowtree_thread *ft,
		       uint32_t node, int err)
{
	return err || !t->seen ? err : t->seen(t->priv, ft, node);
}

static int on_enter(void *priv, struct call_thread *th)
{
	struct flowtree *t = priv;
	struct flowtree_thread *ft = thread_of(t, th);
	uint32_t node;

	if (!ft)
		return -AUX_E_NOMEM;
	node = ft->ct.current;
	t->n_guessed += th->frames[th->depth - 1].flags & CALL_GUESSED;
	return tell(t, ft, node, calltree_enter(&t->tree, &ft->ct, th));
}

static int on_leave(void *priv, struct call_thread *th, enum call_end end,
		    unsigned flags)
{
	struct flowtree *t = priv;
	struct flowtree_thread *ft = thread_of(t, th);
	uint32_t node;

	(void)flags;
	if (!ft)
		return -AUX_E_NOMEM;
	node = ft->ct.current;
	return tell(t, ft, node, calltree_leave(&t->tree, &ft->ct, th, end));
}

static int on_turn(void *priv, struct call_thread *th, uint32_t from)
{
	struct flowtree *t = priv;
	struct flowtree_thread *ft = thread_of(t, th);
	uint32_t node;

	(void)from;
	if (!ft)
		return -AUX_E_NOMEM;
	node = ft->ct.current;
	return tell(t, ft, node, calltree_turn(&t->tree, &ft->ct, th));
}

static int on_gap(void *priv, struct call_thread *th, const struct aux_flow *ev)
{
	struct flowtree *t = priv;
	struct flowtree_thread *ft;

	(void)ev;
	if (!th)
		return 0;
	ft = thread_of(t, th);
	if (!ft)
		return -AUX_E_NOMEM;
	t->n_gapped++;
	return tell(t, ft, ft->ct.current, calltree_gap(&t->tree, &ft->ct, th));
}

static int on_off(void *priv, struct call_thread *th, bool on)
{
	struct flowtree *t = priv;
	struct flowtree_thread *ft = thread_of(t, th);

	if (!ft)
		return -AUX_E_NOMEM;
	return tell(t, ft, ft->ct.current, calltree_off(&t->tree, &ft->ct, th, on));
}

/* Cycles are of what runs from here to the next tick, where they are wanted so
 * (calltree_tick). */
static int on_tick(void *priv, struct call_thread *th)
{
	struct flowtree *t = priv;
	struct flowtree_thread *ft = th->user;

	return t->ticks && ft ? calltree_tick(&t->tree, &ft->ct, th) : 0;
}

static const struct calls_ops ops = {
	.enter = on_enter,
	.leave = on_leave,
	.turn = on_turn,
	.gap = on_gap,
	.off = on_off,
	.tick = on_tick,
};

int flowtree_init(struct flowtree *t, const struct sink_host *host,
		  enum calltree_per per, unsigned flags)
{
	struct calltree_config config = { .host = host, .per = per };
	int err = calltree_init(&t->tree, &config);

	t->flags = flags;
	t->pool = part_pool_new();
	if (!err && !t->pool)
		err = -AUX_E_NOMEM;
	return err ? err : calls_new(&t->calls, host, flags, &ops, t);
}

void flowtree_fini(struct flowtree *t)
{
	struct flowtree_thread *ft, *next;

	for (ft = t->threads; ft; ft = next) {
		next = ft->next;
		free(ft);
	}
	t->threads = NULL;
	part_pool_free(t->pool);
	t->pool = NULL;
	calltree_fini(&t->tree);
	calls_free(t->calls);
	t->calls = NULL;
}

/* Events before the first that runs. */
static size_t count_still(const struct aux_flow *ev, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (ev[i].kind == AUX_FLOW_PATH ||
		    ev[i].kind == AUX_FLOW_RANGE)
			break;
	return i;
}

/* Ends the gap of the thread that runs now. */
static int end_gap(struct flowtree *t, const struct flow_ctx *ctx)
{
	struct flowtree_thread *ft;

	for (ft = t->threads; ft; ft = ft->next) {
		if (ft->ct.away != CALLTREE_GAP ||
		    ft->thread->tid != ctx->tid ||
		    ft->thread->stream != ctx->stream)
			continue;
		return tell(t, ft, ft->ct.current,
			    calltree_back(&t->tree, &ft->ct, ft->thread));
	}
	return 0;
}

static void count_gapped(struct flowtree *t)
{
	t->n_gapped = 0;
	for (struct flowtree_thread *ft = t->threads; ft; ft = ft->next)
		t->n_gapped += ft->ct.away == CALLTREE_GAP;
}

/* The events before something runs still belong to the gap. */
int flowtree_flow(struct flowtree *t, const struct flow_ctx *ctx,
		  const struct aux_flow *ev, size_t n)
{
	size_t still;
	int rc;

	if (!t->n_gapped)
		return calls_flow(t->calls, ctx, ev, n);
	still = count_still(ev, n);
	rc = calls_flow(t->calls, ctx, ev, still);
	if (rc || still == n)
		return rc;
	rc = end_gap(t, ctx);
	count_gapped(t);
	return rc ? rc : calls_flow(t->calls, ctx, ev + still, n - still);
}

int flowtree_finish(struct flowtree *t)
{
	int err = calls_finish(t->calls);

	for (struct flowtree_thread *ft = t->threads; ft && !err; ft = ft->next)
		err = tell(t, ft, ft->ct.current,
			   calltree_flush(&t->tree, &ft->ct, ft->thread));
	if (!err)
		calltree_sum(&t->tree);
	return err < 0 ? err : 0;
}
