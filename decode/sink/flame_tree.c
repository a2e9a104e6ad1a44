/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_flame_tree: makes a call tree of the flow.
 *
 * A gap ends where something runs again. callstack/callstack.h does not tell of that when no frame
 * began or ended by it, so the flow is cut there.
 */
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"

#include "decode/sink/flame.h"

static struct flame_thread *add_thread(struct flame_tree *t,
				       struct call_thread *th)
{
	struct flame_thread *ft = calloc(1, sizeof(*ft));

	if (!ft)
		return NULL;
	ft->thread = th;
	ft->next = t->threads;
	t->threads = ft;
	th->user = ft;
	return ft;
}

/* NULL: out of memory. */
static inline struct flame_thread *thread_of(struct flame_tree *t,
					     struct call_thread *th)
{
	return th->user ? th->user : add_thread(t, th);
}

static int on_enter(void *priv, struct call_thread *th)
{
	struct flame_tree *t = priv;
	struct flame_thread *ft = thread_of(t, th);

	if (!ft)
		return -AUX_E_NOMEM;
	t->n_guessed += th->frames[th->depth - 1].flags & CALL_GUESSED;
	return calltree_enter(&t->tree, &ft->ct, th);
}

static int on_leave(void *priv, struct call_thread *th, enum call_end end,
		    unsigned flags)
{
	struct flame_tree *t = priv;
	struct flame_thread *ft = thread_of(t, th);

	(void)flags;
	return ft ? calltree_leave(&t->tree, &ft->ct, th, end) : -AUX_E_NOMEM;
}

static int on_turn(void *priv, struct call_thread *th, uint32_t from)
{
	struct flame_tree *t = priv;
	struct flame_thread *ft = thread_of(t, th);

	(void)from;
	return ft ? calltree_turn(&t->tree, &ft->ct, th) : -AUX_E_NOMEM;
}

static int on_gap(void *priv, struct call_thread *th, const struct aux_flow *ev)
{
	struct flame_tree *t = priv;
	struct flame_thread *ft;

	(void)ev;
	if (!th)
		return 0;
	ft = thread_of(t, th);
	if (!ft)
		return -AUX_E_NOMEM;
	t->n_gapped++;
	return calltree_gap(&t->tree, &ft->ct, th);
}

static int on_off(void *priv, struct call_thread *th, bool on)
{
	struct flame_tree *t = priv;
	struct flame_thread *ft = thread_of(t, th);

	return ft ? calltree_off(&t->tree, &ft->ct, th, on) : -AUX_E_NOMEM;
}

static const struct calls_ops ops = {
	.enter = on_enter,
	.leave = on_leave,
	.turn = on_turn,
	.gap = on_gap,
	.off = on_off,
};

int flame_tree_init(struct flame_tree *t, const struct sink_host *host,
		    enum calltree_per per, unsigned flags)
{
	struct calltree_config config = { .host = host, .per = per };
	int err = calltree_init(&t->tree, &config);

	return err ? err : calls_new(&t->calls, host, flags, &ops, t);
}

void flame_tree_fini(struct flame_tree *t)
{
	struct flame_thread *ft, *next;

	for (ft = t->threads; ft; ft = next) {
		next = ft->next;
		free(ft);
	}
	t->threads = NULL;
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

/* Ends the gap of who runs here. */
static int end_gap(struct flame_tree *t, const struct flow_ctx *ctx)
{
	struct flame_thread *ft;

	for (ft = t->threads; ft; ft = ft->next) {
		if (ft->ct.away != CALLTREE_GAP ||
		    ft->thread->tid != ctx->tid ||
		    ft->thread->stream != ctx->stream)
			continue;
		return calltree_back(&t->tree, &ft->ct, ft->thread);
	}
	return 0;
}

static void count_gapped(struct flame_tree *t)
{
	t->n_gapped = 0;
	for (struct flame_thread *ft = t->threads; ft; ft = ft->next)
		t->n_gapped += ft->ct.away == CALLTREE_GAP;
}

static int flow_some(struct flame_tree *t, const struct flow_ctx *ctx,
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

static bool is_of(const struct flame_thread *ft, const struct flow_ctx *ctx)
{
	return ft->thread->tid == ctx->tid && ft->thread->pid == ctx->pid &&
	       (ctx->tid != UINT32_MAX || ft->thread->stream == ctx->stream);
}

/* Cycles are of what runs behind the TIME that tells them. */
static int tick(struct flame_tree *t, const struct flow_ctx *ctx)
{
	struct flame_thread *ft = t->ran;

	if (!ft || !is_of(ft, ctx))
		for (ft = t->threads; ft && !is_of(ft, ctx);)
			ft = ft->next;
	if (!ft)
		return 0;
	t->ran = ft;
	return calltree_tick(&t->tree, &ft->ct, ft->thread);
}

int flame_tree_flow(struct flame_tree *t, const struct flow_ctx *ctx,
		    const struct aux_flow *ev, size_t n)
{
	size_t from = 0;
	int err = 0;

	for (size_t i = 0; t->ticks && i < n && !err; i++) {
		if (ev[i].kind != AUX_FLOW_TIME || !ev[i].n)
			continue;
		if (i > from)
			err = flow_some(t, ctx, ev + from, i - from);
		if (!err)
			err = tick(t, ctx);
		from = i;
	}
	return err ? err : flow_some(t, ctx, ev + from, n - from);
}

int flame_tree_finish(struct flame_tree *t)
{
	int err = calls_finish(t->calls);

	for (struct flame_thread *ft = t->threads; ft && !err; ft = ft->next)
		err = calltree_flush(&t->tree, &ft->ct, ft->thread);
	if (!err)
		calltree_sum(&t->tree);
	return err < 0 ? err : 0;
}

/* table */
static const struct {
	const char *name, *unit;
} whats[] = {
	[CALLTREE_BY_INSNS] = { "insns", "instructions" },
	[CALLTREE_BY_NS] = { "time", "ns" },
	[CALLTREE_BY_CYCLES] = { "cycles", "cycles" },
	[CALLTREE_BY_BRANCHES] = { "branches", "branches" },
};

int flame_parse_by(const char *name, enum calltree_by *by,
		   struct aux_diag *diag)
{
	*by = CALLTREE_BY_INSNS;
	if (!name)
		return 0;
	for (unsigned i = 0; i < sizeof(whats) / sizeof(whats[0]); i++) {
		if (!strcmp(whats[i].name, name)) {
			*by = (enum calltree_by)i;
			return 0;
		}
	}
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			"--by is insns, time, cycles or branches, not \"%s\"",
			name);
}

const char *flame_unit(enum calltree_by by)
{
	return whats[by].unit;
}
