/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_flow: insn, branch and count: a session, a sink, and a verdict.
 *
 * Between the session and the sink sits a tap: it counts the gaps (for the
 * verdict) once what is before them was given, and shows progress. The verdict
 * goes to standard error; the output stays clean.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/array.h"

#include "decode/cmd/advice.h"
#include "decode/cmd/cmd.h"
#include "decode/lib/code/code.h"
#include "common/outbuf.h"
#include "decode/lib/session/session.h"
#include "decode/cmd/sinks.h"
#include "decode/lib/sideband/sideband.h"
#include "decode/cmd/verdict.h"

#define PROGRESS_NS    UINT64_C(250000000)
#define PROGRESS_CALLS 64 /* look at the clock so often */

struct tap {
	const struct sink_ops *ops;
	void *sink;
	struct verdict *verdict;
	const struct sink_host *host;
	const struct session_stats *stats;
	bool progress;
	/* progress */
	uint64_t n_calls, started_ns, shown_ns;
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
	double s = (double)(now - t->started_ns) / 1e9, left;
	double done = (double)t->stats->aux_decoded;
	double total = (double)t->stats->aux_wanted;

	if (now - t->shown_ns < PROGRESS_NS)
		return;
	t->shown_ns = now;
	fprintf(stderr, "\rauxdecode: %3.0f %%, %.1f M instructions, %.1f M/s",
		total > 0 ? 100 * done / total : 0.0, (double)n / 1e6,
		(double)n / 1e6 / s);
	left = done > 0 && done <= total ? s * (total - done) / done + 0.5 : 0;
	if (left >= 1 && left < 1e6)
		fprintf(stderr, ", %u:%02u left", (unsigned)left / 60,
			(unsigned)left % 60);
	fputs("\033[K", stderr);
}

static int tap_flow(void *priv, const struct flow_ctx *ctx,
		    const struct aux_flow *ev, size_t n)
{
	struct tap *t = priv;
	int rc = t->ops->flow(t->sink, ctx, ev, n);

	/* the session gives nothing behind a GAP in one call */
	if (rc == 0 && n && ev[n - 1].kind == AUX_FLOW_GAP)
		verdict_gap(t->verdict, t->host, ctx, &ev[n - 1]);
	if (t->progress && t->n_calls++ % PROGRESS_CALLS == 0)
		show_progress(t);
	return rc;
}

static int tap_finish(void *priv, struct aux_diag *diag)
{
	struct tap *t = priv;

	return t->ops->finish(t->sink, diag);
}

/* ---- parts: the GAPs of each segment wait with it ---- */

struct tap_gap {
	uint64_t segment;
	struct flow_ctx ctx;
	struct aux_flow ev;
};

struct tap_part {
	const struct tap *tap;
	void *part;	/* the sink's */
	uint64_t segment, given;
	struct tap_gap *gaps;
	size_t n_gaps, max_gaps, given_gaps;
};

static void tap_part_close(void *part)
{
	struct tap_part *p = part;

	if (!p)
		return;
	if (p->part)
		p->tap->ops->part_close(p->part);
	free(p->gaps);
	free(p);
}

static int tap_part_open(void **part, const void *sink)
{
	struct tap_part *p = calloc(1, sizeof(*p));
	int rc;

	*part = NULL;
	if (!p)
		return -AUX_E_NOMEM;
	p->tap = sink;
	rc = p->tap->ops->part_open(&p->part, p->tap->sink);
	if (rc < 0)
		tap_part_close(p);
	else
		*part = p;
	return rc;
}

static int keep_gap(struct tap_part *p, const struct flow_ctx *ctx,
		    const struct aux_flow *ev)
{
	if (array_grow(&p->gaps, p->n_gaps, &p->max_gaps, sizeof(*p->gaps)))
		return -AUX_E_NOMEM;
	p->gaps[p->n_gaps++] = (struct tap_gap){ p->segment, *ctx, *ev };
	return 0;
}

static int tap_part_flow(void *part, const struct flow_ctx *ctx,
			 const struct aux_flow *ev, size_t n)
{
	struct tap_part *p = part;

	if (n && ev[n - 1].kind == AUX_FLOW_GAP &&
	    keep_gap(p, ctx, &ev[n - 1]) < 0)
		return -AUX_E_NOMEM;
	return p->tap->ops->part_flow(p->part, ctx, ev, n);
}

static int tap_part_cut(void *part)
{
	struct tap_part *p = part;

	p->segment++;
	return p->tap->ops->part_cut(p->part);
}

static int tap_part_give(void *priv, void *part)
{
	struct tap *t = priv;
	struct tap_part *p = part;
	int rc = t->ops->part_give(t->sink, p->part);

	for (; rc == 0 && p->given_gaps < p->n_gaps &&
	       p->gaps[p->given_gaps].segment == p->given; p->given_gaps++) {
		const struct tap_gap *g = &p->gaps[p->given_gaps];

		verdict_gap(t->verdict, t->host, &g->ctx, &g->ev);
	}
	p->given++;
	if (t->progress)
		show_progress(t);
	return rc;
}

/* The sink's table, with the tap in front of what takes flow. */
static struct sink_ops tapped(const struct sink_ops *sink)
{
	struct sink_ops ops = *sink;

	ops.flow = tap_flow;
	ops.finish = tap_finish;
	if (!ops.part_open)
		return ops;
	ops.part_open = tap_part_open;
	ops.part_flow = tap_part_flow;
	ops.part_cut = tap_part_cut;
	ops.part_give = tap_part_give;
	ops.part_close = tap_part_close;
	return ops;
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
	advice_code(session_codeview(priv), space, ip, buf, len);
}

static const char *host_comm(void *priv, uint32_t tid, uint64_t time)
{
	return timeline_comm(session_timeline(priv), tid, time);
}

static int host_line(void *priv, const struct space *space, uint64_t ip,
		     struct source_line *line)
{
	return codeview_line(session_codeview(priv), space, ip, line);
}

static int host_inlines(void *priv, const struct space *space, uint64_t ip,
			struct inline_frame *frames, size_t max)
{
	return codeview_inlines(session_codeview(priv), space, ip, frames, max);
}

static int host_image(void *priv, const struct space *space, uint64_t ip,
		      struct elfimage **im, uint64_t *offset)
{
	return codeview_image(session_codeview(priv), space, ip, im, offset);
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
		.max_memory = o->max_memory,
		.snapshot = o->snapshot,
		.tid = o->tid,
		.cpu = o->cpu,
		.time_from = o->time_from,
		.time_to = o->time_to,
		.last_ns = o->last_ns,
		.chunks = o->chunks,
		.chunk_from = o->chunk_from,
		.chunk_to = o->chunk_to,
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
		    const struct sink_env *env, const struct sink_config *config,
		    struct session_stats *stats, struct aux_diag *diag)
{
	struct sink_ops ops = tapped(t->ops);
	int err = t->ops->open(&t->sink, env, config, diag);

	if (err)
		return err;
	if (ops.needs_of)
		ops.needs = ops.needs_of(config);
	if (!(t->ops->needs & SINK_OWN_FORMAT))
		print_source(env->out, s);
	t->stats = stats;
	t->started_ns = t->shown_ns = now_ns();
	err = session_run(s, &ops, t, stats, diag);
	if (t->shown_ns != t->started_ns)
		fprintf(stderr, "\r\033[K");
	t->ops->close(t->sink);
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
	const struct codeview *cv = session_codeview(s);
	const char *note;
	int why;

	for (size_t i = 0; (note = codeview_note(cv, i, &why)); i++)
		cmd_warn(o->path, "%s%s", advice_before(why), note);
}

static struct sink_config sink_config_of(const struct cmd_options *o)
{
	return (struct sink_config){
		.fields = o->fields,
		.limit = o->limit,
		.sha256 = o->sha256,
		.syntax_att = o->syntax && !strcmp(o->syntax, "att"),
		.symbol = o->symbol,
		.max_depth = (uint32_t)o->max_depth,
		.inlines = o->inlines,
		.source = o->source,
		.stubs = o->stubs,
		.not_taken = o->not_taken,
		.schema = o->schema,
		.to = o->to,
		.module = o->module,
		.period = o->period,
		.max_size = o->max_size,
		.by = o->by,
		.per = o->per,
		.min_percent = o->min_percent,
		.svg = o->svg,
		.blocks = o->blocks,
		.edges = o->edges,
		.from = o->from,
		.caller = o->caller,
		.longer = o->longer,
		.shorter = o->shorter,
		.whole = o->whole,
		.just_count = o->just_count,
	};
}

static int run_output(const struct cmd_options *o, struct session *s,
		      struct outbuf *out)
{
	struct sink_host host = { .priv = s,
				  .code = host_code,
				  .symbol = host_symbol,
				  .explain = host_explain,
				  .gap_text = advice_gap,
				  .comm = host_comm,
				  .line = host_line,
				  .inlines = host_inlines,
				  .image = host_image };
	struct verdict verdict = { .path = o->path };
	struct sink_config config = sink_config_of(o);
	const struct sink_env env = { .out = out,
				      .host = &host,
				      .report = &verdict.report,
				      .path = o->path,
				      .out_path = o->out_path,
				      .symfs = o->code.symfs,
				      .time_from = o->time_from,
				      .time_to = o->time_to };
	struct tap tap = { .ops = sink_find(o->command),
			   .verdict = &verdict,
			   .host = &host,
			   .progress =
				   o->progress > 0 ||
				   (o->progress < 0 && isatty(STDERR_FILENO)) };
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct session_stats stats = { 0 };
	int err, status;

	err = run_sink(&tap, s, &env, &config, &stats, &diag);
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

/* The sink makes -o FILE itself, as a whole. */
static bool makes_its_file(const struct cmd_options *o)
{
	return o->to && ((!strcmp(o->command, "profile") &&
			  !strcmp(o->to, "perf")) ||
			 (!strcmp(o->command, "coverage") &&
			  !strcmp(o->to, "sancov")));
}

int cmd_flow(const struct cmd_options *o)
{
	struct cmd_options plain = *o;
	struct session_config config = config_of(o);
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct session *s = NULL;
	struct outbuf *out;
	int status, err;

	if (!strcmp(o->command, "find")) { /* callers and ends are outside */
		config.time_from = 0;
		config.time_to = UINT64_MAX;
	}

	err = session_open(&s, &config, &diag);
	if (err)
		return fail(o, err, &diag);
	if (makes_its_file(o))
		plain.out_path = NULL;
	status = cmd_out_open(&out, &plain);
	if (status == CMD_OK) {
		status = run_output(o, s, out);
		status = cmd_out_close(out, &plain, status);
	}
	session_close(s);
	return status;
}
