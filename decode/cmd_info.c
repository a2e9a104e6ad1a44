/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_info: what is in this file. One pass counts the records, one more puts the
 * AUX streams together; the last line is a verdict, and so is the exit status.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <aux/decoder.h>
#include <internal/bytes.h>

#include "chunks.h"
#include "cmd.h"
#include "record_text.h"

#define N_TYPES 128

struct info {
	const struct cmd_options *o;
	struct aux_reader *r;
	struct outbuf *out;
	uint64_t n_records;
	uint64_t n_by_type[N_TYPES];
	uint64_t n_other;	/* types from N_TYPES on */
	uint64_t n_timed, time_min, time_max;
	uint64_t lost_records, lost_samples;
	uint64_t n_by_flag[64];	/* AUX records by flag bit */
	uint64_t n_not_traced;
	uint64_t aux_lost;	/* bytes, from the ledger */
	bool unbalanced;
	bool lossy;
	struct chunks chunks;
};

static void count_record(struct info *in, const struct aux_event *ev)
{
	in->n_records++;
	if (ev->type < N_TYPES)
		in->n_by_type[ev->type]++;
	else
		in->n_other++;
	if (ev->type == PERF_RECORD_LOST)
		in->lost_records += ev->lost.lost;
	if (ev->type == PERF_RECORD_LOST_SAMPLES)
		in->lost_samples += ev->lost.lost;
	for (unsigned i = 0; ev->type == PERF_RECORD_AUX && i < 64; i++)
		in->n_by_flag[i] += ev->aux.flags >> i & 1;
	/* perf's own records of what was before have time 0. */
	if (!(ev->id.present & PERF_SAMPLE_TIME) || !ev->id.time)
		return;
	if (!in->n_timed++ || ev->id.time < in->time_min)
		in->time_min = ev->id.time;
	if (ev->id.time > in->time_max)
		in->time_max = ev->id.time;
}

static void put_time(struct outbuf *o, uint64_t ns)
{
	char text[32];

	outbuf_put(o, text, (size_t)(fmt_time(text, ns) - text));
}

static void put_opt(struct outbuf *o, const char *before, const char *s)
{
	if (s && *s)
		outbuf_printf(o, "%s%s", before, s);
}

static void print_file(struct info *in)
{
	const struct aux_file_info *f = aux_reader_info(in->r);
	struct outbuf *o = in->out;

	outbuf_printf(o, "file: %s, %" PRIu64 " bytes, %s mode, %s byte order\n",
		      aux_reader_path(in->r), f->size,
		      f->pipe ? "pipe" : "file",
		      f->swapped ? "foreign" : "native");
	if (f->unfinished)
		outbuf_str(o, "unfinished: its writer was killed; what it had "
			      "written is here\n");
	outbuf_str(o, "machine:");
	put_opt(o, " ", f->hostname);
	put_opt(o, ", Linux ", f->os_release);
	put_opt(o, ", ", f->arch);
	if (f->n_cpus_avail)
		outbuf_printf(o, ", %u of %u CPUs online", f->n_cpus_online,
			      f->n_cpus_avail);
	put_opt(o, ", ", f->cpu_desc);
	put_opt(o, " (", f->cpuid);
	outbuf_printf(o, "%s\n", f->cpuid && *f->cpuid ? ")" : "");
	if (f->cmdline)
		outbuf_printf(o, "command: %s\n", f->cmdline);
	if (f->version && *f->version)
		outbuf_printf(o, "version: %s\n", f->version);
}

static void print_source(struct info *in)
{
	const char *source = aux_reader_source(in->r, "source");
	const char *backend = aux_reader_source(in->r, "backend");
	const char *clock = aux_reader_source(in->r, "clock");
	const char *terms = aux_reader_source(in->r, "terms");

	if (!source)
		return;
	outbuf_printf(in->out, "source: %s", source);
	put_opt(in->out, ", back end ", backend);
	put_opt(in->out, ", terms ", terms);
	if (!strcmp(source, "soft_pt"))
		outbuf_str(in->out, ": made by software, not by trace hardware");
	outbuf_str(in->out, "\n");
	if (clock && !strcmp(clock, "virtual"))
		outbuf_str(in->out,
			   "clock: virtual: times and cycles are not those of "
			   "hardware\n");
}

static void print_attrs(struct info *in)
{
	const struct aux_attr *a;

	outbuf_str(in->out, "events:\n");
	for (size_t i = 0; (a = aux_reader_attr(in->r, i)); i++)
		outbuf_printf(in->out,
			      "  %-16s type %u config %#" PRIx64
			      " sample-type %#" PRIx64
			      ", %u ids, attr of %u bytes\n",
			      a->name ? a->name : "(no name)", a->attr.type,
			      (uint64_t)a->attr.config,
			      (uint64_t)a->attr.sample_type, a->n_ids,
			      a->file_size);
}

static void print_records(struct info *in)
{
	struct name_buf buf;

	outbuf_printf(in->out, "records: %" PRIu64 "\n", in->n_records);
	for (uint32_t i = 0; i < N_TYPES; i++)
		if (in->n_by_type[i])
			outbuf_printf(in->out, "  %-20s %10" PRIu64 "\n",
				      record_name(i, &buf), in->n_by_type[i]);
	if (in->n_other)
		outbuf_printf(in->out, "  %-20s %10" PRIu64 "\n", "(others)",
			      in->n_other);
	if (!in->n_timed)
		return;
	outbuf_str(in->out, "time: ");
	put_time(in->out, in->time_min);
	outbuf_str(in->out, " to ");
	put_time(in->out, in->time_max);
	outbuf_str(in->out, ", ");
	put_time(in->out, in->time_max - in->time_min);
	outbuf_printf(in->out, " s, of %" PRIu64 " records\n", in->n_timed);
}

static const char *trace_name(uint32_t type)
{
	switch (type) {
	case 0:
		return "unknown";
	case AUX_TRACE_INTEL_PT:
		return "intel_pt";
	case AUX_TRACE_CS_ETM:
		return "cs_etm";
	}
	return "other";
}

static void print_queue(struct info *in, const struct queue *q)
{
	uint64_t first = 0, last = 0;

	for (size_t i = 0; i < q->n_marks; i++) {
		uint64_t t = q->marks[i].time;

		if (t && (!first || t < first))
			first = t;
		if (t > last)
			last = t;
	}
	outbuf_printf(in->out, "  %u: cpu %d, tid %d, %" PRIu64
			       " bytes, %zu pieces, %zu AUX records", q->idx,
		      q->cpu, q->tid, q->n_bytes, q->n_pieces, q->n_marks);
	if (first) {
		outbuf_str(in->out, ", time ");
		put_time(in->out, first);
		outbuf_str(in->out, " to ");
		put_time(in->out, last);
	}
	outbuf_str(in->out, "\n");
}

static void print_streams(struct info *in)
{
	const struct chunks *c = &in->chunks;
	bool any = false;

	outbuf_printf(in->out, "AUX streams: %zu, %" PRIu64 " bytes", c->n,
		      c->aux_bytes);
	if (c->n || c->trace_type)
		outbuf_printf(in->out, ", trace type %u (%s)", c->trace_type,
			      trace_name(c->trace_type));
	outbuf_str(in->out, "\n");
	for (size_t i = 0; i < c->n; i++)
		print_queue(in, &c->queues[i]);
	if (!in->n_by_type[PERF_RECORD_AUX])
		return;
	outbuf_str(in->out, "AUX flags:");
	for (unsigned i = 0; i < 64; i++) {
		if (!in->n_by_flag[i])
			continue;
		any = true;
		outbuf_str(in->out, " ");
		aux_flags_text(in->out, UINT64_C(1) << i);
		outbuf_printf(in->out, " %" PRIu64, in->n_by_flag[i]);
	}
	outbuf_printf(in->out, "%s (of %" PRIu64 " records)\n",
		      any ? "" : " none", in->n_by_type[PERF_RECORD_AUX]);
}

/* ---- losses ---- */

static const char *cause_name(uint32_t cause)
{
	static const char *const names[AUX_LEDGER_N_CAUSES] = {
		"saved", "truncated", "partial", "collision",
		"lost records", "overwritten", "throttled", "not traced",
	};

	return cause < AUX_LEDGER_N_CAUSES ? names[cause] : "unknown cause";
}

static void count_entry(struct info *in, const struct aux_ledger_entry *e)
{
	const char *unit = "bytes";

	switch (e->cause) {
	case AUX_LEDGER_SAVED:
	case AUX_LEDGER_OVERWRITTEN:
		break;
	case AUX_LEDGER_NOT_TRACED:
		in->n_not_traced += e->bytes;
		unit = "processes";
		break;
	case AUX_LEDGER_LOST_RECORDS:
		unit = "records";
		in->lossy |= e->bytes != 0;
		break;
	default:
		in->aux_lost += e->bytes;
	}
	outbuf_printf(in->out, "  %u: %s %" PRIu64 " %s\n", e->idx,
		      cause_name(e->cause), e->bytes, unit);
	if (e->cause != AUX_LEDGER_SAVED)
		return;
	for (size_t i = 0; i < in->chunks.n; i++) {
		const struct queue *q = &in->chunks.queues[i];

		if (q->idx != e->idx || q->n_bytes == e->bytes)
			continue;
		in->unbalanced = true;
		outbuf_printf(in->out, "  %u: but the file holds %" PRIu64
				       " bytes\n", e->idx, q->n_bytes);
	}
}

static void print_ledger(struct info *in)
{
	struct aux_bytes b;
	struct cursor c;
	uint32_t version, n;

	/* One that was cut off shows up among the features. */
	if (aux_reader_feature(in->r, AUX_FEAT_AUXKIT_LEDGER, &b, NULL) != 1)
		return;
	c = cursor_init(b.data, b.len, aux_reader_info(in->r)->swapped);
	version = cursor_u32(&c);
	n = cursor_u32(&c);
	if (c.bad || version != 1 ||
	    n > cursor_left(&c) / sizeof(struct aux_ledger_entry)) {
		cmd_warn(in->o->path, "the loss ledger cannot be read "
				      "(version %u)", version);
		in->unbalanced = true;
		return;
	}
	outbuf_printf(in->out, "ledger: %u entries\n", n);
	while (n--) {
		struct aux_ledger_entry e;

		e.idx = cursor_u32(&c);
		e.cause = cursor_u32(&c);
		e.bytes = cursor_u64(&c);
		e.first_ns = cursor_u64(&c);
		e.last_ns = cursor_u64(&c);
		count_entry(in, &e);
	}
}

static void print_features(struct info *in)
{
	struct name_buf buf;
	struct aux_bytes b;
	const char *sep = "features: ";
	int ret;

	for (unsigned i = 0; i < AUX_FEAT_BITS; i++) {
		ret = aux_reader_feature(in->r, i, &b, NULL);
		if (!ret)
			continue;
		outbuf_printf(in->out, "%s%s%s", sep, feature_name(i, &buf),
			      ret < 0 ? " (cut off)" : "");
		sep = ", ";
	}
	if (*sep == ',')
		outbuf_str(in->out, "\n");
}

/* One line: everything that is missing, or that nothing is known to be. */
static void print_verdict(struct info *in, bool damaged)
{
	struct outbuf *o = in->out;
	uint64_t truncated = in->n_by_flag[0], partial = in->n_by_flag[2];
	uint64_t collided = in->n_by_flag[3];
	bool unfinished = aux_reader_info(in->r)->unfinished;

	in->lossy |= damaged || unfinished || in->lost_records || in->lost_samples ||
		     truncated || partial || collided || in->aux_lost ||
		     in->n_not_traced || in->unbalanced ||
		     in->chunks.n_orphan_aux;
	outbuf_str(o, in->lossy ? "verdict: incomplete:" :
				  "verdict: no loss recorded\n");
	if (!in->lossy)
		return;
	if (damaged)
		outbuf_str(o, " the file is damaged;");
	if (unfinished)
		outbuf_str(o, " the recording was cut short;");
	if (in->aux_lost)
		outbuf_printf(o, " %" PRIu64 " trace bytes lost;", in->aux_lost);
	if (truncated)
		outbuf_printf(o, " trace truncated %" PRIu64 " times;",
			      truncated);
	if (partial)
		outbuf_printf(o, " trace partial %" PRIu64 " times;", partial);
	if (collided)
		outbuf_printf(o, " %" PRIu64 " collisions;", collided);
	if (in->lost_records || in->lost_samples)
		outbuf_printf(o, " %" PRIu64 " records and %" PRIu64
				 " samples lost;", in->lost_records,
			      in->lost_samples);
	if (in->n_not_traced)
		outbuf_printf(o, " %" PRIu64 " processes not traced;",
			      in->n_not_traced);
	if (in->chunks.n_orphan_aux)
		outbuf_printf(o, " %" PRIu64 " AUX records without their data;",
			      in->chunks.n_orphan_aux);
	if (in->unbalanced)
		outbuf_str(o, " the ledger does not balance;");
	outbuf_str(o, " see above\n");
}

static int run_info(struct info *in)
{
	struct aux_diag damage = { .offset = AUX_NO_OFFSET };
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct aux_event ev;
	int ret;

	while ((ret = aux_reader_next(in->r, &ev, &damage)) == 1)
		count_record(in, &ev);
	if (chunks_read(&in->chunks, in->r, &diag) < 0)
		return cmd_error(in->o->path, &diag);
	print_file(in);
	print_source(in);
	print_attrs(in);
	print_records(in);
	print_streams(in);
	print_ledger(in);
	print_features(in);
	print_verdict(in, ret < 0);
	if (ret < 0) {
		outbuf_flush(in->out);
		cmd_error(in->o->path, &damage);
		return in->n_records ? CMD_GAPS : CMD_FAILED;
	}
	return in->lossy ? CMD_GAPS : CMD_OK;
}

int cmd_info(const struct cmd_options *o)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct info *in = calloc(1, sizeof(*in));
	int status;

	if (!in) {
		diag.code = AUX_E_NOMEM;
		return cmd_error(o->path, &diag);
	}
	in->o = o;
	if (aux_reader_open(&in->r, o->path, &diag) < 0) {
		free(in);
		return cmd_error(o->path, &diag);
	}
	status = cmd_out_open(&in->out, o);
	if (!status)
		status = cmd_out_close(in->out, o, run_info(in));
	chunks_fini(&in->chunks);
	aux_reader_close(in->r);
	free(in);
	return status;
}
