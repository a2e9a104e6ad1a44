/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_verify: decodes every stream with two decoders side by side, and prints
 * the first difference, or how much was equal. Status 1 with a difference, 0
 * without: a gap that both decoders report is no difference. Status 3 where the
 * file itself is cut: there was more to compare.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/diag.h"

#include "common/markup.h"
#include "decode/cmd/impl.h"
#include "decode/lib/session/session.h"
#include "decode/compare/verify.h"

struct verify_options {
	const char *reference;	/* a decoder, NULL: the default */
	bool all;		/* go on after a difference */
};

/* table */
static const struct option_row option_rows[] = {
	{ .name = "reference", .arg = "NAME",
	  .values = "libipt opencsd pt etm",
	  .help = "the decoder to compare with (default: libipt, opencsd)",
	  OPTION_TEXT(struct verify_options, reference) },
	{ .name = "all",
	  .help = "after a difference go on with the next chunk",
	  OPTION_FLAG(struct verify_options, all) },
	{ .name = NULL },
};

const struct cmd_own cmd_verify_own = {
	.options = option_rows,
	.config_size = sizeof(struct verify_options),
};

struct progress {
	bool on, shown;
	uint64_t total;		/* bytes of all streams */
	uint64_t before;	/* bytes of the streams that are finished */
	uint64_t n_insns;	/* instructions of the streams that are finished */
	const struct verify_result *r;
	struct timespec since;
};

/* bytes: of the present stream. verify calls it after so many steps that it
 * may print each time. */
static void show_progress(void *priv, uint64_t bytes)
{
	struct progress *p = priv;
	uint64_t n = p->n_insns + p->r->n_insns;
	struct timespec now;
	double s;

	if (!p->on)
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	s = (double)(now.tv_sec - p->since.tv_sec) +
	    (double)(now.tv_nsec - p->since.tv_nsec) / 1e9;
	p->shown = true;
	fprintf(stderr, "\rauxdecode: %3.0f %%, %.1f M instructions, %.1f M/s ",
		p->total ? 100.0 * (double)(p->before + bytes) /
				   (double)p->total : 0.0,
		(double)n / 1e6, s > 0 ? (double)n / 1e6 / s : 0.0);
}

static void end_progress(struct progress *p)
{
	if (p->shown)
		fprintf(stderr, "\r\033[K");
	p->shown = false;
}

/* Counts of one stream or of all, on the line that the caller has begun. What
 * is 0 for most recordings is printed only when it is not. */
static void print_result(struct outbuf *out, const struct verify_result *r,
			 const struct aux_decoder_ops *const ops[2])
{
	outbuf_printf(out, "%" PRIu64 " instructions, %" PRIu64 " branches, "
			   "%" PRIu64 " events, %" PRIu64 " times (%" PRIu64
			   " exact), largest time difference ",
		      r->n_insns, r->n_branches, r->n_events, r->n_times,
		      r->n_exact);
	if (r->max_ns || !r->max_ticks)
		outbuf_printf(out, "%" PRIu64 " ns", r->max_ns);
	else
		outbuf_printf(out, "%" PRIu64 " ticks", r->max_ticks);
	if (r->n_alone)
		outbuf_printf(out, ", %" PRIu64 " times of one alone",
			      r->n_alone);
	if (r->n_vague)
		outbuf_printf(out, ", %" PRIu64 " branches that one left open",
			      r->n_vague);
	if (r->n_moved)
		outbuf_printf(out, ", %" PRIu64 " events in another order",
			      r->n_moved);
	if (r->n_hidden)
		outbuf_printf(out, ", %" PRIu64 " ends of tracing that one has "
			      "no event of, at overflows", r->n_hidden);
	if (r->n_paths)
		outbuf_printf(out, ", %" PRIu64 " paths", r->n_paths);
	outbuf_printf(out, ", %" PRIu64 " of %" PRIu64 " chunks handed to %s",
		      r->n_handed, r->n_chunks, ops[1]->name);
	if (r->n_handed)
		outbuf_printf(out, " (the first at %#" PRIx64 ")",
			      r->first_handed);
	if (r->n_given_up)
		outbuf_printf(out, ", %" PRIu64 " where %s gave up (the first at "
			      "%#" PRIx64 "): the rest of these is not compared",
			      r->n_given_up, ops[1]->name, r->first_given_up);
	if (r->n_differences)
		outbuf_printf(out, ", %" PRIu64 " difference%s",
			      r->n_differences, r->n_differences > 1 ? "s" : "");
	outbuf_str(out, "\n");
}

/* The same as members of an object. */
static void put_result(struct outbuf *out, const struct verify_result *r)
{
	outbuf_json_number(out, "instructions", r->n_insns);
	outbuf_json_number(out, "branches", r->n_branches);
	outbuf_json_number(out, "events", r->n_events);
	outbuf_json_number(out, "times", r->n_times);
	outbuf_json_number(out, "times_exact", r->n_exact);
	outbuf_json_number(out, "largest_difference_ns", r->max_ns);
	outbuf_json_number(out, "largest_difference_ticks", r->max_ticks);
	outbuf_json_number(out, "times_of_one", r->n_alone);
	outbuf_json_number(out, "branches_left_open", r->n_vague);
	outbuf_json_number(out, "events_moved", r->n_moved);
	outbuf_json_number(out, "ends_hidden", r->n_hidden);
	outbuf_json_number(out, "paths", r->n_paths);
	outbuf_json_number(out, "chunks", r->n_chunks);
	outbuf_json_number(out, "chunks_handed", r->n_handed);
	if (r->n_handed)
		outbuf_json_hex(out, "first_handed", r->first_handed);
	outbuf_json_number(out, "chunks_given_up", r->n_given_up);
	if (r->n_given_up)
		outbuf_json_hex(out, "first_given_up", r->first_given_up);
	outbuf_json_number(out, "differences", r->n_differences);
	outbuf_str(out, "}");
}

static void add_result(struct verify_result *sum, const struct verify_result *r)
{
	sum->n_insns += r->n_insns;
	sum->n_branches += r->n_branches;
	sum->n_events += r->n_events;
	sum->n_times += r->n_times;
	sum->n_exact += r->n_exact;
	sum->n_alone += r->n_alone;
	sum->n_vague += r->n_vague;
	sum->n_moved += r->n_moved;
	sum->n_hidden += r->n_hidden;
	sum->n_chunks += r->n_chunks;
	if (!sum->n_handed)
		sum->first_handed = r->first_handed;
	sum->n_handed += r->n_handed;
	if (!sum->n_given_up)
		sum->first_given_up = r->first_given_up;
	sum->n_given_up += r->n_given_up;
	sum->n_paths += r->n_paths;
	sum->n_differences += r->n_differences;
	if (r->max_ticks > sum->max_ticks) {
		sum->max_ticks = r->max_ticks;
		sum->max_ns = r->max_ns;
	}
}

/*
 * A decoder may deliver PATHs in place of RANGEs (see aux/flow.h). The same
 * decoder in both ways must deliver the same flow; r gets what differs. Not for
 * a decoder that is compared with itself already.
 */
static int verify_paths(struct session *s, size_t i,
			const struct verify_config *config,
			const struct aux_decoder_ops *const ops[2],
			struct verify_result *r, struct aux_diag *diag)
{
	const struct aux_decoder_ops *const self[2] = { ops[0], ops[0] };
	struct verify_result paths = { 0 };
	int rc;

	if (ops[0] == ops[1])
		return 0;
	rc = verify_stream(s, i, config, self, true, &paths, diag);
	r->n_paths = paths.n_paths;
	r->n_differences += paths.n_differences;
	return rc;
}

/* Chunks that were all handed to the reference decoder compare it with itself:
 * PATHs are then not worth a second pass. */
static int verify_one(struct session *s, size_t i,
		      const struct verify_config *config,
		      const struct aux_decoder_ops *const ops[2],
		      struct verify_result *r, struct aux_diag *diag)
{
	int rc = verify_stream(s, i, config, ops, false, r, diag);

	if (!rc && !r->n_differences && r->n_handed < r->n_chunks)
		rc = verify_paths(s, i, config, ops, r, diag);
	return rc;
}

/* Did the reference decode all of it alone? */
static bool is_of_one(const struct verify_result *sum)
{
	return sum->n_chunks && sum->n_handed == sum->n_chunks &&
	       !sum->n_insns && !sum->n_differences;
}

/* wanted: -1 is any. */
static bool has_stream(const struct session *s, int64_t wanted)
{
	const struct stream *st;

	for (size_t i = 0; (st = session_stream(s, i)); i++)
		if (wanted < 0 || (uint64_t)wanted == st->idx)
			return true;
	return false;
}

static int verify_all(const struct cmd_options *o, struct session *s,
		      struct verify_config *config, struct progress *p,
		      struct verify_result *sum, struct outbuf *json,
		      struct aux_diag *diag)
{
	const struct aux_decoder_ops *ops[2];
	bool first = true;
	const struct stream *st;
	int rc;

	if (!session_stream(s, 0))
		return diag_set(diag, AUX_E_NOENT, AUX_NO_OFFSET,
				"there is no AUX data in this file");
	if (!has_stream(s, o->filter.stream))
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"--stream %lld: the file has no such stream; "
				"`auxdecode info` lists them",
				(long long)o->filter.stream);
	rc = verify_decoders(s, config, ops, diag);
	if (!rc && json) {
		outbuf_json_text(json, "decoder", ops[0]->name);
		outbuf_json_text(json, "reference", ops[1]->name);
		outbuf_str(json, ",\n\"streams\":[");
	}
	for (size_t i = 0; !rc && (st = session_stream(s, i)); i++) {
		struct verify_result r = { 0 };

		if (o->filter.stream >= 0 && (uint64_t)o->filter.stream != st->idx)
			continue;
		p->r = &r;
		rc = verify_one(s, i, config, ops, &r, diag);
		end_progress(p);
		p->before += st->n_bytes;
		p->n_insns += r.n_insns;
		outbuf_printf(config->out, "stream %u (cpu %d, tid %d): ",
			      st->idx, st->cpu, st->tid);
		print_result(config->out, &r, ops);
		if (json) {
			outbuf_printf(json, "%s{\"stream\":%u,\"cpu\":%d,"
				      "\"tid\":%d", first ? "\n" : ",\n",
				      st->idx, st->cpu, st->tid);
			first = false;
			put_result(json, &r);
		}
		add_result(sum, &r);
		if (outbuf_failed(config->out) ||
		    (sum->n_differences && !config->all))
			return rc;
	}
	if (rc)
		return rc;
	if (is_of_one(sum))
		outbuf_printf(config->out, "nothing was compared, %s leaves "
			      "all of it to %s: ", ops[0]->name, ops[1]->name);
	else
		outbuf_printf(config->out, "%s and %s %s: ", ops[0]->name,
			      ops[1]->name,
			      sum->n_differences ? "differ" : "agree");
	print_result(config->out, sum, ops);
	return 0;
}

static int status_of(const struct cmd_options *o, const struct session *s,
		     const struct verify_result *sum, int rc,
		     struct aux_diag *diag)
{
	if (rc < 0)
		return cmd_failed(o->path, rc, diag);
	if (verdict_cut(o->path, s) && !sum->n_differences)
		return CMD_GAPS;
	return sum->n_differences ? CMD_FAILED : CMD_OK;
}

/* streams: what verify_all wrote; its array is still open. */
static void put_json(const struct cmd_options *o, struct session *s,
		     struct outbuf *out, const struct outbuf *streams,
		     const struct outbuf *text, const struct verify_result *sum,
		     int status, const struct aux_diag *diag)
{
	json_begin(out, o, session_reader(s));
	if (diag->code) {
		outbuf_json_text(out, "error", diag->text);
	} else {
		outbuf_put(out, streams->buf,
			   (size_t)(streams->p - streams->buf));
		outbuf_str(out, "]");
		outbuf_json_text(out, "result", is_of_one(sum)
				 ? "not compared" : sum->n_differences
				 ? "differ" : "agree");
		outbuf_printf(out, ",\n\"total\":{\"all\":%s",
			      o->filter.stream < 0 ? "true" : "false");
		put_result(out, sum);
	}
	json_lines(out, "text", text);
	json_end(out, o, status);
}

/* A difference is CMD_FAILED: verify is a test, for scripts. It is a result,
 * too. */
static int run(const struct cmd_options *o, struct session *s,
	       struct cmd_out *out)
{
	const struct verify_options *own = o->own;
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct progress p = { .on = o->output.progress > 0 ||
				    (o->output.progress < 0 &&
				     isatty(STDERR_FILENO)) };
	struct verify_config config = { .decoder = o->decoding.decoder,
					.reference = own->reference,
					.all = own->all,
					.out = out->buf,
					.progress = show_progress,
					.progress_priv = &p };
	struct verify_result sum = { 0 };
	struct outbuf *json = o->output.json ? outbuf_new(-1) : NULL;
	const struct stream *st;
	int rc;

	if (json)	/* the text becomes a member */
		config.out = outbuf_new(-1);
	if ((o->output.json && !json) || !config.out) {
		outbuf_free(json);
		return cmd_failed(o->path, -AUX_E_NOMEM, &diag);
	}
	clock_gettime(CLOCK_MONOTONIC, &p.since);
	for (size_t i = 0; (st = session_stream(s, i)); i++)
		p.total += st->n_bytes;
	rc = verify_all(o, s, &config, &p, &sum, json, &diag);
	if (rc >= 0)
		out->keep = true;
	if (!json)
		outbuf_flush(out->buf);
	rc = status_of(o, s, &sum, rc, &diag);
	if (json) {
		put_json(o, s, out->buf, json, config.out, &sum, rc, &diag);
		outbuf_free(config.out);
		outbuf_free(json);
	}
	return rc;
}

int cmd_verify(const struct cmd_options *o)
{
	struct session_config config = cmd_session_config(o);
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct session *s = NULL;
	struct cmd_out out;
	int status, err;

	config.decoder = NULL;	/* of the streams: verify makes its own two */
	config.snapshot = o->filter.snapshot;
	err = session_open(&s, &config, &diag);
	if (err)
		return cmd_failed(o->path, err, &diag);
	status = cmd_out_open(&out, o);
	if (status == CMD_OK) {
		status = run(o, s, &out);
		status = cmd_out_close(&out, o, status);
	}
	session_close(s);
	return status;
}
