/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_bundle: one file that decodes anywhere: the recording, and the code that
 * its trace needs, which a decode of all of it shows.
 *
 * What cannot be decoded here cannot be bundled: it is reported as any decode
 * does, and the file is written all the same.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "decode/cmd/impl.h"
#include "decode/edit/edit.h"

struct job {
	const struct cmd_options *o;
	struct session *s;
	struct bundle *b;
	struct verdict verdict;
	struct session_stats session_stats;
	struct bundle_stats stats;
	struct cmd_progress progress;
	uint64_t n_payload;	/* values that the program gave */
	uint64_t done, total;	/* bytes of trace */
	uint64_t *offsets;	/* by queue, as far as it came */
	size_t n_offsets;
};

/* The decoder asks for code at ip: the page is noted for the bundle. */
static void on_code(void *priv, const struct space *space, uint64_t ip)
{
	struct job *job = priv;

	bundle_ask(job->b, space, ip);
}

/* For the verdict: the reason why code is missing, with the fix. */
static void host_explain(void *priv, const struct space *space, uint64_t ip,
			 char *buf, size_t len)
{
	advice_code(session_codeview(priv), space, ip, buf, len);
}

/* Progress: the flow changes from stream to stream, so the offset that was
 * reached is kept for each. */
static void follow(struct job *job, uint32_t idx, uint64_t offset)
{
	if (idx >= job->n_offsets || offset <= job->offsets[idx])
		return;
	job->done += offset - job->offsets[idx];
	job->offsets[idx] = offset;
	cmd_progress_show(&job->progress, job->done, job->total);
}

/* Gaps are kept for the verdict: code that is not found here is not in the
 * bundle.
 * */
static int take_flow(void *priv, const struct flow_ctx *ctx,
		     const struct aux_flow *ev, size_t n)
{
	struct job *job = priv;
	const struct sink_host host = { .priv = job->s,
					.explain = host_explain };

	for (size_t i = 0; i < n; i++) {
		if (ev[i].kind == AUX_FLOW_GAP)
			verdict_gap(&job->verdict, &host, ctx, &ev[i]);
		job->n_payload += ev[i].kind == AUX_FLOW_PAYLOAD;
	}
	if (job->progress.on && n)
		follow(job, ctx->stream, ev[n - 1].offset);
	return bundle_flow(job->b, ctx, ev, n);
}

/* A sink must have one; all is written later. */
static int finish_flow(void *priv, struct aux_diag *diag)
{
	(void)priv, (void)diag;
	return 0;
}

/* Without memory for offsets progress stays at 0 %; the bundle is written
 * anyhow.
 * */
static void start_progress(struct job *job)
{
	const struct stream *stream;
	uint32_t max = 0;

	cmd_progress_init(&job->progress, job->o, "decoding");
	for (size_t i = 0; (stream = session_stream(job->s, i)); i++) {
		job->total += stream->n_bytes;
		if (stream->idx > max && stream->idx < 1 << 20)
			max = stream->idx;
	}
	job->offsets = calloc((size_t)max + 1, sizeof(*job->offsets));
	job->n_offsets = job->offsets ? (size_t)max + 1 : 0;
}

static int decode(struct job *job, struct aux_diag *diag)
{
	const struct sink_ops sink = { .flow = take_flow,
				       .finish = finish_flow };
	int rc;

	start_progress(job);
	rc = session_run(job->s, &sink, job, &job->session_stats, diag);
	cmd_progress_end(&job->progress);
	free(job->offsets);
	return rc;
}

/* Bytes of FILE that were copied, of all. */
static void show_copy(void *priv, uint64_t done, uint64_t total)
{
	struct job *job = priv;

	cmd_progress_show(&job->progress, done, total);
}

/* Without times the end of a process would come before its code. */
static bool keep(void *priv, const struct aux_event *ev)
{
	(void)priv;
	return ev->type != PERF_RECORD_EXIT ||
	       (ev->id.present & PERF_SAMPLE_TIME && ev->id.time);
}

/* The copy, then the code, then logs of JIT compilers. Other errors than memory
 * stay in the writer, and rewrite_close reports the first of them. */
static int write_file(struct job *job, struct aux_diag *diag)
{
	struct aux_reader *r = session_reader(job->s);
	const struct rewrite_filter f = { .keep = keep, .priv = job,
					  .source = "bundle=1\n",
					  .progress = show_copy };
	struct rewrite *w;
	int rc = rewrite_open(&w, job->o->output.path, job->o->path,
			      aux_reader_info(r)->swapped, diag);

	if (rc < 0)
		return rc;
	cmd_progress_init(&job->progress, job->o, "writing");
	rewrite_attrs_of(w, r);
	rc = rewrite_copy(w, r, &f);
	if (rc == 0)
		rc = bundle_write(job->b, w, &job->stats);
	if (rc == 0)
		rc = bundle_write_logs(r, w, job->o->code.symfs);
	cmd_progress_end(&job->progress);
	if (rc == -AUX_E_NOMEM) {
		rewrite_discard(w);
		return rc;
	}
	return rewrite_close(w, diag);
}

/* Decodes, prints the verdict, writes. Nothing is written where nothing was
 * decoded: such a bundle could not be decoded anywhere. */
static int run(struct job *job)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	int status, rc;

	job->b = bundle_new(job->s);
	rc = job->b ? decode(job, &diag) : -AUX_E_NOMEM;
	if (rc < 0)
		return cmd_failed(job->o->path, rc, &diag);
	job->verdict.report.n_insns = job->session_stats.n_insns;
	job->verdict.report.n_lines = job->session_stats.n_insns +
				      job->n_payload;
	status = verdict_print(&job->verdict, job->o, job->s,
			       &job->session_stats);
	if (status == CMD_FAILED)
		return status;
	rc = write_file(job, &diag);
	if (rc < 0)
		return cmd_failed(NULL, rc, &diag);
	cmd_say(job->o->output.path, "%" PRIu64 " instructions, %" PRIu64
		" pages of code, %" PRIu64 " names", job->stats.n_insns,
		job->stats.n_pages, job->stats.n_symbols);
	return status;
}

int cmd_bundle(const struct cmd_options *o)
{
	struct session_config config = cmd_session_config(o);
	struct import_options input = o->import.options;
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct job job = { .o = o, .verdict.path = o->path };
	int status = cmd_needs_output(o), rc;

	if (status)
		return status;
	input.copied = true;
	config.import = &input;
	config.on_code = on_code;
	config.on_code_priv = &job;
	rc = session_open(&job.s, &config, &diag);
	if (rc < 0)
		return cmd_failed(o->path, rc, &diag);
	status = run(&job);
	bundle_free(job.b);
	verdict_free(&job.verdict);
	session_close(job.s);
	return status;
}
