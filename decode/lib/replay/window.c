/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * replay: windows, stretches of time that are decoded and kept as records.
 *
 * Each event has one time, and a window has all events of the times in it, so windows
 * side by side are the flow without a break, wherever they are cut. How long the next
 * one is follows from how much was in the last.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"
#include "decode/lib/replay/impl.h"

struct fill {
	struct window *w;
	uint32_t pid;
	uint64_t max;		/* records; 0: any number */
	bool tail;		/* what is too much is dropped at the beginning, not at
				 * the end */
	bool full;		/* at the end something was left out */
	uint64_t n_dropped;
	int64_t first_pid;	/* -1: none yet */
	bool only_first;
};

static int add_ctx(struct window *w, const struct flow_ctx *ctx)
{
	const struct record_ctx c = { ctx->space, ctx->tid, ctx->cpu, ctx->stream };
	const struct record_ctx *last = w->n_ctx ? &w->ctx[w->n_ctx - 1] : NULL;

	if (last && last->space == c.space && last->tid == c.tid &&
	    last->cpu == c.cpu && last->stream == c.stream)
		return 0;
	return array_append(&w->ctx, &w->n_ctx, &w->cap_ctx, &c, sizeof(c));
}

/* The window is to end before a time, or (tail) to begin with it. */
static void cut(struct fill *f, uint64_t time_ns)
{
	struct window *w = f->w;
	size_t n = w->n;

	if (!f->tail) {
		while (n && w->v[n - 1].time_ns == time_ns)
			n--;
		if (!n)
			return;
		w->n = n;
		w->to = time_ns - 1;
		f->full = true;
		return;
	}
	while (n && w->v[n - 1].time_ns == time_ns)
		n--;
	if (!n)
		return;
	w->n -= n;
	memmove(w->v, w->v + n, w->n * sizeof(*w->v));
	w->from = time_ns;
	f->n_dropped += n;
}

static int add(struct fill *f, uint64_t time_ns, const struct aux_flow *ev)
{
	struct window *w = f->w;
	struct record r = { .time_ns = time_ns, .ctx = (uint32_t)(w->n_ctx - 1),
			    .kind = ev->kind, .what = ev->what,
			    .flags = ev->flags, .offset = ev->offset };

	if (ev->kind == AUX_FLOW_RANGE) {
		r.first = ev->range.first;
		r.span = (uint32_t)(ev->range.last - ev->range.first);
		r.n = ev->n;
	} else if (ev->kind == AUX_FLOW_ASYNC) {
		r.first = ev->async.from;
	} else if (ev->flags & AUX_FLOW_HAS_IP) {
		r.first = ev->gap.ip;
	}
	/* merged by time. Should a stream's go back nevertheless, the order of the merge
	 * counts, and the window is not cut: what is later would be in none */
	if (w->n && w->v[w->n - 1].time_ns > time_ns) {
		r.time_ns = w->v[w->n - 1].time_ns;
		f->max = 0;
	}
	if (w->n == REPLAY_LIMIT)
		return -AUX_E_LIMIT;
	if (array_append(&w->v, &w->n, &w->cap, &r, sizeof(r)))
		return -AUX_E_NOMEM;
	if (f->max && w->n > f->max)
		cut(f, r.time_ns);
	return f->full;
}

static bool is_kept(const struct aux_flow *ev)
{
	return ev->kind == AUX_FLOW_RANGE || ev->kind == AUX_FLOW_GAP ||
	       ev->kind == AUX_FLOW_ASYNC;
}

static int flow(void *sink, const struct flow_ctx *ctx, const struct aux_flow *ev,
		size_t n)
{
	uint64_t time_ns = ctx->time_ns;
	struct fill *f = sink;
	int rc = 0;

	if (f->only_first) {
		for (size_t i = 0; i < n && f->first_pid < 0; i++)
			if (ev[i].kind == AUX_FLOW_RANGE && ctx->pid &&
			    ctx->pid != UINT32_MAX)
				f->first_pid = ctx->pid;
		return f->first_pid >= 0;
	}
	if (ctx->pid != f->pid)
		return 0;
	if (add_ctx(f->w, ctx))
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < n && !rc; i++) {
		if (ev[i].kind == AUX_FLOW_TIME)
			time_ns = ev[i].time.ns > time_ns ? ev[i].time.ns : time_ns;
		else if (is_kept(&ev[i]))
			rc = add(f, time_ns, &ev[i]);
	}
	return rc;
}

static int finish(void *sink, struct aux_diag *diag)
{
	(void)sink;
	(void)diag;
	return 0;
}

static const struct sink_ops replay_sink = {
	.name = "replay",
	.needs = SINK_NEEDS_TIME,
	.flow = flow,
	.finish = finish,
};

static int decode(struct replay *r, struct fill *f, uint64_t from, uint64_t to,
		  struct aux_diag *diag)
{
	int err;

	session_select_time(r->session, from, to);
	err = session_run(r->session, &replay_sink, f, NULL, diag);
	if (err == -AUX_E_LIMIT)
		diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
			 "more than %u pieces of code ran that no time tells apart, "
			 "and all of them would have to be kept", REPLAY_LIMIT);
	return err;
}

int64_t window_first_pid(struct replay *r, struct aux_diag *diag, int *err)
{
	struct fill f = { .only_first = true, .first_pid = -1 };

	*err = decode(r, &f, 0, UINT64_MAX, diag);
	return f.first_pid;
}

static void forget(struct window *w)
{
	free(w->v);
	free(w->ctx);
	*w = (struct window){ .n = 0 };
}

void windows_free(struct replay *r)
{
	for (size_t i = 0; i < REPLAY_WINDOWS; i++)
		forget(&r->windows[i]);
}

/* The place of a window, in that of the one that was used longest ago. */
static struct window *take(struct replay *r)
{
	struct window *w = r->windows;

	for (size_t i = 1; i < REPLAY_WINDOWS; i++)
		if (r->windows[i].used < w->used)
			w = &r->windows[i];
	w->n = w->n_ctx = 0;
	w->filled = false;
	w->used = ++r->n_used;
	return w;
}

static struct window *find(struct replay *r, uint64_t from, uint64_t to)
{
	for (size_t i = 0; i < REPLAY_WINDOWS; i++) {
		struct window *w = &r->windows[i];

		if (!w->filled || w->from != from || w->to != to)
			continue;
		w->used = ++r->n_used;
		return w;
	}
	return NULL;
}

/* Decodes [from, to], or as much of it as a window takes: what comes first, or with
 * tail what comes last. */
static struct window *fill(struct replay *r, uint64_t from, uint64_t to, bool tail,
			   uint64_t max, struct aux_diag *diag, int *err)
{
	struct window *w = take(r);
	struct fill f = { .w = w, .pid = r->pid, .tail = tail, .max = max };

	w->from = from;
	w->to = to;
	*err = decode(r, &f, from, to, diag);
	if (*err)
		return NULL;
	w->filled = true;
	if (f.full || f.n_dropped)
		r->step = r->step / 2 + 1;
	else if (w->n < r->max_records / 4 && r->step < UINT64_MAX / 4)
		r->step *= 2;
	return w;
}

struct window *window_get(struct replay *r, uint64_t from, uint64_t to,
			  struct aux_diag *diag, int *err)
{
	struct window *w = find(r, from, to);

	*err = 0;
	if (w)
		return w;
	return fill(r, from, to, false, 0, diag, err);
}

/* Where the trace has no times all of it is one window, if it is not too much. */
static struct window *whole(struct replay *r, struct aux_diag *diag, int *err)
{
	struct window *w = find(r, 0, UINT64_MAX);

	*err = 0;
	if (!w)
		w = fill(r, 0, UINT64_MAX, false, 0, diag, err);
	return w && w->n ? w : NULL;
}

struct window *window_next(struct replay *r, uint64_t after, struct aux_diag *diag,
			   int *err)
{
	struct window *w = NULL;
	uint64_t from, to;

	*err = 0;
	if (!r->timed)
		return after ? NULL : whole(r, diag, err);
	/* nothing is before the beginning, and what is after the end is with it */
	for (from = after; from <= r->end; from = w->to + 1) {
		to = from < r->begin ? r->begin : from;
		to = r->end - to > r->step ? to + r->step : UINT64_MAX;
		w = find(r, from, to);
		if (!w)
			w = fill(r, from, to, false, r->max_records, diag, err);
		if (!w || w->n || w->to == UINT64_MAX)
			break;
	}
	return w && w->n ? w : NULL;
}

struct window *window_before(struct replay *r, uint64_t before,
			     struct aux_diag *diag, int *err)
{
	struct window *w = NULL;
	uint64_t from, to;

	*err = 0;
	if (!r->timed)
		return before == UINT64_MAX ? whole(r, diag, err) : NULL;
	for (to = before; to >= r->begin; to = w->from - 1) {
		from = to > r->end ? r->end : to;
		from = from - r->begin > r->step ? from - r->step : 0;
		w = find(r, from, to);
		if (!w)
			w = fill(r, from, to, true, r->max_records, diag, err);
		if (!w || w->n || !w->from)
			break;
	}
	return w && w->n ? w : NULL;
}
