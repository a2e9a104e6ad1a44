/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_report: one HTML file that shows what ran. Flow becomes calls
 * (callstack/callstack.h); these are counted exactly as a tree, measured by
 * function, and kept one by one as far as there is room. The page is written at
 * the end.
 *
 *	lane.c   a thread's calls as nodes with a place in time; gaps as spans
 *	fit.c    fewer nodes, when memory or the file's size asks for it
 *	nodes.c  nodes and tree as columns of numbers
 *	json.c   names and sums
 *	code.c   source and instructions of functions
 *	text.c   the head of the page, readable without script
 *	page.c   all of it together, with web/
 */
#include <stdlib.h>
#include <unistd.h>

#include "common/diag.h"

#include "common/outbuf.h"
#include "decode/coverage/coverage.h"
#include "decode/report/impl.h"
#include "decode/sink/sink.h"
#include "decode/report/report.h"

/* Nodes in memory for a byte of the file: it takes some ten bytes for one. */
#define BYTES_PER_NODE 10
#define MIN_NODES      20000

/* The lane of a thread, made when it is first met; NULL: out of memory. */
static struct report_lane *lane_of(struct report *r, struct call_thread *t)
{
	struct report_lane *l = t->user;

	if (l)
		return l;
	if (report_lane_new(r, &l))
		return NULL;
	l->pid = t->pid;
	l->tid = t->tid;
	l->stream = t->stream;
	t->user = l;
	return l;
}

/* Names as they were last: threads that a program makes get theirs late. */
static void name_lanes(struct report *r)
{
	const struct sink_host *host = r->env.host;

	for (uint32_t i = 0; host->comm && i < r->n_lanes; i++) {
		struct report_lane *l = r->lanes[i];

		if (l->tid != UINT32_MAX)
			l->comm = host->comm(host->priv, l->tid,
					     l->timed ? l->at : UINT64_MAX);
	}
}

/*
 * What every callback starts with: the lane, with its clock right and without
 * too many nodes. Fitting to half leaves room, so that it does not happen with
 * each call.
 */
static int begin(struct report *r, struct call_thread *t,
		 struct report_lane **l)
{
	int err;

	*l = lane_of(r, t);
	if (!*l)
		return -AUX_E_NOMEM;
	err = report_clock(r, *l, t);
	if (err || r->n_nodes < r->max_nodes)
		return err;
	err = report_fit(r, r->max_nodes / 2);
	if (r->n_nodes > r->max_nodes / 4 * 3)
		r->max_nodes *= 2; /* all are open, or pinned */
	return err;
}

/* The limit of -n counts calls. */
static int on_enter(void *priv, struct call_thread *t)
{
	struct report *r = priv;
	struct report_lane *l;
	int err = begin(r, t, &l);

	if (!err)
		err = calltree_enter(&r->tree, &l->tree, t);
	if (!err)
		err = report_lane_enter(r, l, t);
	r->n_calls++;
	r->env.report->n_lines++;
	if (!err && r->config.limit && r->n_calls >= r->config.limit)
		return 1;
	return err;
}

static int on_leave(void *priv, struct call_thread *t, enum call_end end,
		    unsigned flags)
{
	struct report *r = priv;
	struct report_lane *l;
	int err = begin(r, t, &l);

	if (!err)
		err = calltree_leave(&r->tree, &l->tree, t, end);
	return err ? err : report_lane_leave(r, l, t, end, flags);
}

static int on_turn(void *priv, struct call_thread *t, uint32_t from)
{
	struct report *r = priv;
	struct report_lane *l;
	int err = begin(r, t, &l);

	(void)from;
	if (!err)
		err = calltree_turn(&r->tree, &l->tree, t);
	return err ? err : report_lane_turn(r, l, t);
}

/* No thread is known: the gap lies on a lane of its own, at the time of the
 * last flow, or where that has none at the beginning. */
static int on_gap_without_thread(struct report *r, const struct aux_flow *ev)
{
	uint64_t at = r->ctx.time_ns * REPORT_TICKS;
	int err = 0;

	if (!r->threadless)
		err = report_lane_new(r, &r->threadless);
	if (err)
		return err;
	r->threadless->pid = r->threadless->tid = UINT32_MAX;
	if (at > r->threadless->at)
		r->threadless->at = at;
	else if (!at && r->first != UINT64_MAX && !r->threadless->at)
		r->threadless->at = r->first;
	return report_span_gap(r, r->threadless, NULL, ev);
}

static int on_gap(void *priv, struct call_thread *t, const struct aux_flow *ev)
{
	struct report *r = priv;
	struct report_lane *l;
	int err;

	if (!t)
		return on_gap_without_thread(r, ev);
	err = begin(r, t, &l);
	if (!err)
		err = calltree_gap(&r->tree, &l->tree, t);
	return err ? err : report_span_gap(r, l, t, ev);
}

static int on_off(void *priv, struct call_thread *t, bool on)
{
	struct report *r = priv;
	struct report_lane *l;
	int err = begin(r, t, &l);

	if (!err)
		err = calltree_off(&r->tree, &l->tree, t, on);
	return err ? err : report_span_off(r, l, t, on);
}

static int on_away(void *priv, struct call_thread *t, const struct off_span *span)
{
	struct report *r = priv;
	struct report_lane *l = lane_of(r, t);

	return l ? report_span_away(l, span) : -AUX_E_NOMEM;
}

static int on_ran(void *priv, struct call_thread *t, uint32_t cpu, uint64_t from,
		  uint64_t to)
{
	struct report *r = priv;
	struct report_lane *l = lane_of(r, t);

	return l ? report_span_ran(l, cpu, from, to) : -AUX_E_NOMEM;
}

static const struct calls_ops to_lanes = {
	.enter = on_enter,
	.leave = on_leave,
	.turn = on_turn,
	.gap = on_gap,
	.off = on_off,
	.away = on_away,
	.ran = on_ran,
};

static void close_report(void *sink)
{
	struct report *r = sink;

	if (!r)
		return;
	if (r->code)
		sink_annotate.close(r->code);
	calls_free(r->calls);
	calltree_fini(&r->tree);
	for (uint32_t i = 0; i < r->n_lanes; i++)
		report_lane_free(r->lanes[i]);
	for (uint32_t i = 0; i < r->n_funcs; i++)
		report_func_fini(&r->funcs[i]);
	free(r->lanes);
	free(r->funcs);
	free(r->pins);
	free(r);
}

/* A page on a terminal is of no use: refused. */
static int open_report(void **sink, const struct sink_env *env,
		       const void *options, struct aux_diag *diag)
{
	const struct report_config *config = options;
	struct calltree_config tree = { .host = env->host };
	struct report *r;
	int err;

	*sink = NULL;
	if (env->out->fd >= 0 && isatty(env->out->fd))
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"a report is a page for a browser, not for a "
				"terminal: give -o report.html");
	r = calloc(1, sizeof(*r));
	if (!r)
		return -AUX_E_NOMEM;
	r->env = *env;
	r->config = *config;
	r->max_nodes = r->config.max_size / 2 * 3 / BYTES_PER_NODE + MIN_NODES;
	r->first = UINT64_MAX;
	err = calltree_init(&r->tree, &tree);
	if (!err)
		err = calls_new(&r->calls, env->host, 0, &to_lanes, r);
	if (!err)
		err = report_code_open(r);
	if (err) {
		close_report(r);
		return err;
	}
	*sink = r;
	return 0;
}

static int flow_report(void *sink, const struct flow_ctx *ctx,
		       const struct aux_flow *ev, size_t n)
{
	struct report *r = sink;
	int err;

	r->ctx = *ctx;
	r->session = ctx->session;
	for (size_t i = 0; i < n; i++) {
		if (ev[i].kind == AUX_FLOW_RANGE || ev[i].kind == AUX_FLOW_PATH)
			r->env.report->n_insns += ev[i].n;
		else if (ev[i].kind == AUX_FLOW_GAP &&
			 ev[i].what < GAP_N_CAUSES)
			r->n_gaps[ev[i].what]++;
	}
	if (r->code && (err = sink_annotate.flow(r->code, ctx, ev, n)))
		return err;
	return calls_flow(r->calls, ctx, ev, n);
}

/* Without a call there is nothing to write; the caller says so. */
static int finish_report(void *sink, struct aux_diag *diag)
{
	struct report *r = sink;
	int err = calls_finish(r->calls);

	if (err || !r->n_calls)
		return err;
	name_lanes(r);
	return report_write(r, diag);
}

static void set_defaults(void *options)
{
	struct report_config *config = options;

	config->max_size = REPORT_SIZE;
}

/* table */
static const struct option_row report_options[] = {
	{ .name = "max-size", .arg = "SIZE",
	  .help = "of the page (default 20M); short calls are merged until it fits",
	  OPTION_SIZE(struct report_config, max_size) },
	SINK_LIMIT(struct report_config, "stop after N calls"),
	{ .name = NULL },
};

const struct sink_ops sink_report = {
	.name = "report",
	.needs = SINK_NEEDS_TIME | SINK_TAKES_PATHS | SINK_OWN_FORMAT,
	.options = report_options,
	.config_size = sizeof(struct report_config),
	.defaults = set_defaults,
	.open = open_report,
	.flow = flow_report,
	.finish = finish_report,
	.close = close_report,
};
