/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_flow: insn, branch and count: a session, a sink, and a verdict.
 *
 * Between the session and the sink sits a tap, which sees every event: it counts
 * what there was (for the verdict and for the table of an empty result) and shows
 * progress. The verdict goes to standard error; the output stays clean.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd.h"
#include "codeview.h"
#include "outbuf.h"
#include "session.h"
#include "sink.h"
#include "timeline.h"
#include "cmd_verdict.h"

#define PROGRESS_NS    UINT64_C(250000000)
#define PROGRESS_CALLS 64 /* look at the clock so often */

struct tap {
	const struct sink_ops *ops;
	void *sink;
	struct verdict *verdict;
	const struct sink_host *host;
	bool progress;
	/* progress */
	uint64_t total_bytes, done_bytes, n_calls, started_ns, shown_ns;
	uint64_t *done; /* by stream number */
	size_t n_done;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void show_progress(struct tap *t)
{
	uint64_t now = now_ns(), n = t->verdict->report.n_insns;
	double s = (double)(now - t->started_ns) / 1e9;

	if (now - t->shown_ns < PROGRESS_NS)
		return;
	t->shown_ns = now;
	fprintf(stderr, "\rauxdecode: %3.0f %%, %.1f M instructions, %.1f M/s ",
		t->total_bytes
			? 100.0 * (double)t->done_bytes / (double)t->total_bytes
			: 0.0,
		(double)n / 1e6, s > 0 ? (double)n / 1e6 / s : 0.0);
}

static void follow_progress(struct tap *t, const struct flow_ctx *ctx,
			    const struct aux_flow *last)
{
	if (ctx->stream < t->n_done && last->offset > t->done[ctx->stream]) {
		t->done_bytes += last->offset - t->done[ctx->stream];
		t->done[ctx->stream] = last->offset;
	}
	if (t->n_calls++ % PROGRESS_CALLS == 0)
		show_progress(t);
}

static int tap_flow(void *priv, const struct flow_ctx *ctx,
		    const struct aux_flow *ev, size_t n)
{
	struct tap *t = priv;

	for (size_t i = 0; i < n; i++)
		if (ev[i].kind == AUX_FLOW_GAP)
			verdict_gap(t->verdict, t->host, ctx, &ev[i]);
	if (t->progress && n)
		follow_progress(t, ctx, &ev[n - 1]);
	return t->ops->flow(t->sink, ctx, ev, n);
}

static int tap_finish(void *priv, struct aux_diag *diag)
{
	struct tap *t = priv;

	return t->ops->finish(t->sink, diag);
}

static void start_progress(struct tap *t, const struct session *s)
{
	const struct stream *stream;
	uint32_t max = 0;

	for (size_t i = 0; (stream = session_stream(s, i)); i++) {
		t->total_bytes += stream->n_bytes;
		if (stream->idx > max)
			max = stream->idx;
	}
	t->started_ns = t->shown_ns = now_ns();
	if (max < 1 << 20)
		t->done = calloc((size_t)max + 1, sizeof(*t->done));
	t->n_done = t->done ? (size_t)max + 1 : 0;
}

/* What sinks ask, answered by the session. */

static int host_code(void *priv, const struct space *space, uint64_t ip,
		     struct aux_code *code)
{
	return codeview_code(session_codeview(priv), space, ip, code);
}

static int host_symbol(void *priv, const struct space *space, uint64_t ip,
		       struct symbol *sym)
{
	return codeview_symbol(session_codeview(priv), space, ip, sym);
}

static void host_explain(void *priv, const struct space *space, uint64_t ip,
			 char *buf, size_t len)
{
	codeview_explain(session_codeview(priv), space, ip, buf, len);
}

static const char *host_comm(void *priv, uint32_t tid, uint64_t time)
{
	return timeline_comm(session_timeline(priv), tid, time);
}

static struct session_config config_of(const struct cmd_options *o)
{
	return (struct session_config){
		.path = o->path,
		.decoder = o->decoder,
		.plugin = o->plugin,
		.container = &o->container,
		.code = o->code,
		.n_workers = o->n_workers,
		.chunk_min = o->chunk_min,
		.snapshot = o->snapshot,
		.tid = o->tid,
		.cpu = o->cpu,
		.time_from = o->time_from,
		.time_to = o->time_to,
	};
}

static void print_source(struct outbuf *out, const struct session *s)
{
	const char *clock = aux_reader_source(session_reader(s), "clock");

	if (clock && !strcmp(clock, "virtual"))
		outbuf_str(out, "# software-made trace: times are of a virtual "
				"clock, not of the hardware\n");
}

/* The session into the sink. */
static int run_sink(struct tap *t, struct session *s,
		    const struct sink_config *config,
		    struct session_stats *stats, struct aux_diag *diag)
{
	struct sink_ops ops = *t->ops;
	int err = t->ops->open(&t->sink, config, diag);

	if (err)
		return err;
	print_source(config->out, s);
	if (t->progress)
		start_progress(t, s);
	ops.flow = tap_flow;
	ops.finish = tap_finish;
	err = session_run(s, &ops, t, stats, diag);
	if (t->shown_ns != t->started_ns)
		fprintf(stderr, "\r\033[K");
	t->ops->close(t->sink);
	free(t->done);
	return err < 0 ? err : 0;
}

static int fail(const struct cmd_options *o, int err, struct aux_diag *diag)
{
	if (!diag->code)
		diag->code = abs(err);
	return cmd_error(diag->code == AUX_E_INVAL ? NULL : o->path, diag);
}

/* What a person should know of where the code came from. */
static void print_notes(const struct cmd_options *o, const struct session *s)
{
	const char *note;

	for (size_t i = 0; (note = codeview_note(session_codeview(s), i)); i++)
		cmd_warn(o->path, "%s", note);
}

static int run_output(const struct cmd_options *o, struct session *s,
		      struct outbuf *out)
{
	struct sink_host host = { .priv = s,
				  .code = host_code,
				  .symbol = host_symbol,
				  .explain = host_explain,
				  .comm = host_comm };
	struct verdict verdict = { .path = o->path };
	struct sink_config config = { .out = out,
				      .host = &host,
				      .report = &verdict.report,
				      .fields = o->fields,
				      .limit = o->limit,
				      .sha256 = o->sha256,
				      .syntax_att = o->syntax &&
						    !strcmp(o->syntax, "att"),
				      .symbol = o->symbol };
	struct tap tap = { .ops = sink_find(o->command),
			   .verdict = &verdict,
			   .host = &host,
			   .progress =
				   o->progress > 0 ||
				   (o->progress < 0 && isatty(STDERR_FILENO)) };
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct session_stats stats = { 0 };
	int err = run_sink(&tap, s, &config, &stats, &diag), status;

	/* the output first, so that a terminal shows the verdict below it */
	if (outbuf_flush(out) == -AUX_E_IO) {
		verdict_free(&verdict);
		return CMD_FAILED; /* cmd_out_close says why */
	}
	print_notes(o, s);
	if (err)
		status = fail(o, err, &diag);
	else
		status = verdict_print(&verdict, o, s, &stats);
	verdict_free(&verdict);
	return status;
}

int cmd_flow(const struct cmd_options *o)
{
	struct session_config config = config_of(o);
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct session *s = NULL;
	struct outbuf *out;
	int status, err;

	err = session_open(&s, &config, &diag);
	if (err)
		return fail(o, err, &diag);
	status = cmd_out_open(&out, o);
	if (status == CMD_OK) {
		status = run_output(o, s, out);
		status = cmd_out_close(out, o, status);
	}
	session_close(s);
	return status;
}
