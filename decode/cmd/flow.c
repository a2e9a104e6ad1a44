/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_flow: all commands that decode into a sink: a session, the sink, and a
 * verdict.
 *
 * The session reports each GAP, for the verdict, and that it made progress. The
 * verdict goes to standard error; the output stays clean.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/diag.h"
#include "common/markup.h"
#include "decode/callstack/names.h"
#include "decode/cmd/impl.h"
#include "decode/lib/code/code.h"
#include "common/outbuf.h"
#include "decode/lib/session/session.h"
#include "decode/lib/sideband/sideband.h"

#define PROGRESS_CALLS 64 /* look at the clock so often */

/* What the session's observer keeps. */
struct watch {
	struct verdict *verdict;
	const struct sink_host *host;
	const struct session_stats *stats;
	bool progress;		/* is shown */
	uint64_t n_calls, started_ns, shown_ns;
};

/* "\r" and "erase to end of line": each call overwrites the line before. The
 * time left assumes that the rest takes as long per byte as what is done. */
static void show_progress(struct watch *w)
{
	uint64_t now = clock_ns(), n = w->verdict->report.n_insns;
	double s = (double)(now - w->started_ns) / 1e9, left;
	double done = (double)w->stats->aux_decoded;
	double total = (double)w->stats->aux_wanted;

	if (now - w->shown_ns < CMD_PROGRESS_NS)
		return;
	w->shown_ns = now;
	fprintf(stderr, "\rauxdecode: %3.0f %%, %.1f M instructions, %.1f M/s",
		total > 0 ? 100 * done / total : 0.0, (double)n / 1e6,
		(double)n / 1e6 / s);
	left = done > 0 && done <= total ? s * (total - done) / done + 0.5 : 0;
	if (left >= 1 && left < 1e6)
		fprintf(stderr, ", %u:%02u left", (unsigned)left / 60,
			(unsigned)left % 60);
	fputs("\033[K", stderr);
}

/* From the session's thread, in the order of the output. */
static void on_gap(void *priv, const struct flow_ctx *ctx,
		   const struct aux_flow *gap)
{
	struct watch *w = priv;

	verdict_gap(w->verdict, w->host, ctx, gap);
}

static void on_progress(void *priv)
{
	struct watch *w = priv;

	if (w->n_calls++ % PROGRESS_CALLS == 0)
		show_progress(w);
}

/* What sinks ask that the session does not answer by itself. */
static void host_explain(void *priv, const struct space *space, uint64_t ip,
			 char *buf, size_t len)
{
	advice_code(session_codeview(priv), space, ip, buf, len);
}

struct sink_host cmd_host(struct session *s, struct names *names)
{
	struct sink_host host = session_host(s);

	host.names = names;
	host.explain = host_explain;
	host.gap_text = advice_gap;
	host.follow = follow_put_inside;
	return host;
}

struct session_config cmd_flow_config(const struct cmd_options *o)
{
	struct session_config c = cmd_session_config(o);

	c.n_workers = (unsigned)o->decoding.n_workers;
	c.snapshot = o->filter.snapshot;
	c.tid = o->filter.tid;
	c.pids = o->filter.pids;
	c.n_pids = o->filter.n_pids;
	c.comms = o->filter.comms;
	c.n_comms = o->filter.n_comms;
	c.cpu = o->filter.cpu;
	c.time_from = o->filter.time_from;
	c.time_to = o->filter.time_to;
	c.last_ns = o->filter.last_ns;
	c.chunks = o->filter.chunks;
	c.chunk_from = o->filter.chunk_from;
	c.chunk_to = o->filter.chunk_to;
	return c;
}

/* A "#" line, so that a reader does not take these times for measured ones. */
static void print_source(struct outbuf *out, const struct session *s)
{
	const char *clock = aux_reader_source(session_reader(s), "clock");

	if (clock && !strcmp(clock, "virtual"))
		outbuf_str(out, "# software-made trace: times are of a virtual "
				"clock, not of the hardware\n");
}

/*
 * One pass of the session into the sink, which lives only here. A sink without
 * a format of its own prints text, and gets a "#" line first where the clock is
 * virtual. Returns 0 or an error with diag; "enough" (--limit) is 0.
 */
static int run_sink(struct watch *w, const struct sink_ops *ops,
		    struct session *s, const struct sink_env *env,
		    const void *config,
		    struct session_stats *stats, struct aux_diag *diag)
{
	struct session_pass_config pass = {
		.ops = ops, .stats = stats, .priv = w, .on_gap = on_gap,
		.on_progress = w->progress ? on_progress : NULL,
	};
	int err = ops->open(&pass.sink, env, config, diag);

	if (err)
		return err;
	pass.needs = ops->needs_of ? ops->needs_of(config) : ops->needs;
	if (!(ops->needs & SINK_OWN_FORMAT) && !env->json)
		print_source(env->out, s);
	w->stats = stats;
	w->started_ns = w->shown_ns = clock_ns();
	err = session_run_pass(s, &pass, diag);
	if (w->shown_ns != w->started_ns)
		fprintf(stderr, "\r\033[K");
	ops->close(pass.sink);
	if (err < 0 && !diag->code && env->report->error[0])
		diag_set(diag, -err, AUX_NO_OFFSET, "%s",
			 env->report->error);
	return err < 0 ? err : 0;
}

void cmd_notes(const char *path, const struct session *s)
{
	const struct codeview *cv = session_codeview(s);
	const char *note;
	int why;

	for (size_t i = 0; (note = codeview_note(cv, i, &why)); i++)
		cmd_warn(path, "%s%s", advice_before(why), note);
}

/* "main, foo*, in libc.so.6", "" without --symbol and --module; what does not
 * fit is left out. */
static void list_symbols(const struct cmd_filter *f, char *text, size_t len)
{
	size_t at = 0;

	text[0] = '\0';
	for (size_t i = 0; i < f->n_symbols && at < len; i++)
		at += (size_t)snprintf(text + at, len - at, "%s%s",
				       i ? ", " : "", f->symbols[i]);
	for (size_t i = 0; i < f->n_modules && at < len; i++)
		at += (size_t)snprintf(text + at, len - at, "%s%s%s",
				       at ? ", " : "", i ? "" : "in ",
				       f->modules[i]);
}

/* The sink's members, and what is around them. A failure leaves those out, for
 * they may end anywhere. */
static void put_json(struct outbuf *out, const struct outbuf *members,
		     const struct cmd_options *o, const struct session *s,
		     const struct verdict *v, const struct session_stats *stats,
		     int status, const struct aux_diag *diag)
{
	json_begin(out, o, session_reader(s));
	if (diag->code)
		outbuf_json_text(out, "error", diag->text);
	else
		outbuf_put(out, members->buf, (size_t)(members->p - members->buf));
	if (status == CMD_FAILED && !diag->code)
		outbuf_json_text(out, "error", "nothing to show");
	json_verdict(out, v, s, stats);
	json_end(out, o, status);
}

/* Decodes, flushes the output, prints warnings and the verdict; the exit
 * status. */
static int run_output(const struct cmd_options *o, struct session *s,
		      struct names *names, struct outbuf *out)
{
	struct sink_host host = cmd_host(s, names);
	struct verdict verdict = { .path = o->path, .names = names };
	char asked[256];
	struct outbuf *members = o->output.json ? outbuf_new(-1) : NULL;
	const struct sink_env env = { .out = members ? members : out,
				      .json = members,
				      .host = &host,
				      .report = &verdict.report,
				      .n_threads = session_threads(s),
				      .path = o->path,
				      .out_path = o->output.path,
				      .symfs = o->code.symfs,
				      .symbol = names_select(names) ? asked :
								      NULL,
				      .resolution = session_resolution(s),
				      .width = o->output.width,
				      .full_names = o->filter.full_names,
				      .time_from = o->filter.time_from,
				      .time_to = o->filter.time_to };
	struct watch watch = { .verdict = &verdict,
			       .host = &host,
			       .progress = o->output.progress > 0 ||
					   (o->output.progress < 0 &&
					    isatty(STDERR_FILENO)) };
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct session_stats stats = { 0 };
	int err, status;

	if (o->output.json && !members)
		return cmd_failed(o->path, -AUX_E_NOMEM, &diag);
	list_symbols(&o->filter, asked, sizeof(asked));
	err = run_sink(&watch, o->command->sink, s, &env, o->own, &stats,
		       &diag);
	/* the output first, so that a terminal shows the verdict below it */
	if (outbuf_flush(out) == -AUX_E_IO) {
		verdict_free(&verdict);
		outbuf_free(members);
		return CMD_FAILED; /* cmd_out_close says why */
	}
	cmd_notes(o->path, s);
	follow_about(verdict.report.function, verdict.report.longer);
	if (err)
		status = cmd_failed(o->path, err, &diag);
	else
		status = verdict_print(&verdict, o, s, &stats);
	if (members && outbuf_failed(members) && !outbuf_failed(out))
		outbuf_fail(out, ENOMEM);
	if (members)
		put_json(out, members, o, s, &verdict, &stats, status, &diag);
	outbuf_free(members);
	verdict_free(&verdict);
	return status;
}

int cmd_names(struct names **names, const struct cmd_options *o,
	      struct aux_diag *diag)
{
	int err = names_new(names, "--symbol", o->filter.symbols,
			    o->filter.n_symbols, o->filter.mangled, diag);

	if (!err && o->filter.n_modules)
		err = names_modules(*names, o->filter.modules,
				    o->filter.n_modules);
	if (err && *names) {
		names_free(*names);
		*names = NULL;
	}
	return err;
}

/*
 * The time filter belongs to the session, which can then skip chunks; but a
 * sink with SINK_FILTERS_TIME must see what comes before (the stack at --time
 * A), so it filters by itself.
 */
int cmd_flow(const struct cmd_options *o)
{
	const struct sink_ops *sink = o->command->sink;
	struct cmd_options plain = *o;
	struct session_config config = cmd_flow_config(o);
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct session *s = NULL;
	struct names *names;
	struct cmd_out out;
	int status = cmd_out_check(o), err;

	if (status)
		return status;
	err = cmd_names(&names, o, &diag);
	if (err)
		return cmd_failed(NULL, err, &diag);
	if (sink->needs & SINK_FILTERS_TIME) {
		config.time_from = 0;
		config.time_to = UINT64_MAX;
	}

	err = session_open(&s, &config, &diag);
	if (err) {
		names_free(names);
		return cmd_failed(o->path, err, &diag);
	}
	advice_of(session_reader(s));
	if (sink->makes_file && sink->makes_file(o->own))
		plain.output.path = NULL;
	status = cmd_out_open(&out, &plain);
	if (status == CMD_OK) {
		status = run_output(o, s, names, out.buf);
		status = cmd_out_close(&out, &plain, status);
	}
	session_close(s);
	names_free(names);
	return status;
}
