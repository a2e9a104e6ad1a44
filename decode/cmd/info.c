/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_info: what is in this file. One pass counts the records, one more puts the
 * AUX streams together; the last line is a verdict, and so is the exit status
 * (info_loss.c).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aux/decoder.h>
#include "common/bytes.h"
#include "perfdata/csmeta.h"

#include "decode/cmd/info.h"
#include "decode/lib/session/decoders.h"
#include "decode/cmd/record_text.h"

static uint32_t find_pmu_type(const struct aux_event *ev)
{
	const uint64_t *p = ev->auxtrace_info.priv;
	uint32_t n = ev->auxtrace_info.n_priv;

	if (ev->auxtrace_info.trace_type == AUX_TRACE_INTEL_PT && n)
		return (uint32_t)p[AUX_PT_PMU_TYPE];
	if (ev->auxtrace_info.trace_type == AUX_TRACE_CS_ETM &&
	    n > AUX_CS_PMU_CPUS)
		return (uint32_t)(p[AUX_CS_PMU_CPUS] >> 32);
	return 0;
}

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
	if (ev->type == AUX_RECORD_AUXTRACE_INFO)
		in->pmu_type = find_pmu_type(ev);
	if (ev->type == PERF_RECORD_THROTTLE)
		in->n_throttled += !ev->attr || !in->pmu_type ||
				   ev->attr->attr.type == in->pmu_type;
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

void info_time(struct outbuf *o, uint64_t ns)
{
	char text[32];

	outbuf_put(o, text, (size_t)(fmt_time(text, ns) - text));
}

void info_span(struct outbuf *o, uint64_t first, uint64_t last)
{
	info_time(o, first);
	outbuf_str(o, " s to ");
	info_time(o, last);
	outbuf_str(o, " s (");
	info_duration(o, last - first);
	outbuf_str(o, ")");
}

void info_duration(struct outbuf *o, uint64_t ns)
{
	double s = (double)ns / 1e9;

	if (ns < 1000)
		outbuf_printf(o, "%" PRIu64 " ns", ns);
	else if (ns < 1000000)
		outbuf_printf(o, "%.3f us", s * 1e6);
	else if (ns < 1000000000)
		outbuf_printf(o, "%.3f ms", s * 1e3);
	else if (s < 120)
		outbuf_printf(o, "%.3f s", s);
	else
		outbuf_printf(o, "%.0f min %.0f s", (double)((uint64_t)s / 60),
			      (double)((uint64_t)s % 60));
}

/* "1 byte", "2 bytes" */
static void put_n(struct outbuf *o, uint64_t n, const char *what)
{
	outbuf_printf(o, "%" PRIu64 " %s%s", n, what, n == 1 ? "" : "s");
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

	outbuf_printf(o, "file: %s, %" PRIu64 " bytes, ",
		      aux_reader_path(in->r), f->size);
	if (f->container)
		outbuf_printf(o, "made from: %s\n", f->container);
	else if (f->n_files > 1)
		outbuf_printf(o, "directory of %u files, %s byte order\n",
			      f->n_files, f->swapped ? "foreign" : "native");
	else
		outbuf_printf(o, "%s mode, %s byte order\n",
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

static void print_not_traced(struct info *in)
{
	char key[32];
	const char *text;

	for (unsigned i = 0; i < 64; i++) {
		snprintf(key, sizeof(key), "not_traced.%u", i);
		text = aux_reader_source(in->r, key);
		if (!text)
			break;
		outbuf_printf(in->out, "not traced: %s\n", text);
	}
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
	if (!strcmp(source, "soft_pt"))
		outbuf_str(in->out, ": Intel PT made by software, not by trace "
				    "hardware");
	put_opt(in->out, "\nterms: ", terms);
	outbuf_str(in->out, "\n");
	if (clock && !strcmp(clock, "virtual"))
		outbuf_str(in->out,
			   "clock: virtual: 1 ns for each instruction, and time "
			   "in the kernel as measured;\n"
			   "       times, cycles and their ratios are not the "
			   "hardware's\n");
	print_not_traced(in);
}

/* PERF_TYPE_SOFTWARE 1, PERF_COUNT_SW_DUMMY 9. */
static const char *event_role(const struct info *in, const struct aux_attr *a)
{
	if (a->attr.type == PERF_TYPE_SOFTWARE &&
	    a->attr.config == PERF_COUNT_SW_DUMMY)
		return "side-band (who ran, what was mapped)";
	if (in->pmu_type && a->attr.type == in->pmu_type)
		return "the trace";
	return a->attr.type == PERF_TYPE_TRACEPOINT ? "tracepoint" : "event";
}

static void print_attrs(struct info *in)
{
	const struct aux_attr *a;

	outbuf_str(in->out, "events:\n");
	for (size_t i = 0; (a = aux_reader_attr(in->r, i)); i++) {
		outbuf_printf(in->out, "  %-12s %s: ",
			      a->name ? a->name : "(no name)",
			      event_role(in, a));
		outbuf_printf(in->out, "type %u, config %#" PRIx64 ", %s, ",
			      a->attr.type, (uint64_t)a->attr.config,
			      a->attr.exclude_kernel ? "user code" :
			      a->attr.exclude_user ? "kernel code" :
						     "user and kernel code");
		put_n(in->out, a->n_ids, "id");
		outbuf_str(in->out, "\n");
	}
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
	outbuf_str(in->out, "side-band: ");
	info_span(in->out, in->time_min, in->time_max);
	outbuf_str(in->out, ", ");
	put_n(in->out, in->n_timed, "record");
	outbuf_str(in->out, " with a time\n");
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

/* When it ran, if the recorder says so; else when it was handed out. */
static void put_queue_time(struct info *in, const struct queue *q)
{
	const struct aux_ledger_entry *e = info_ledger_span(in, q->idx);
	uint64_t first = 0, last = 0;

	for (size_t i = 0; i < q->n_marks; i++) {
		uint64_t t = q->marks[i].time;

		if (t && (!first || t < first))
			first = t;
		if (t > last)
			last = t;
	}
	if (e) {
		outbuf_str(in->out, ", ran ");
		info_span(in->out, e->first_ns, e->last_ns);
	} else if (first) {
		outbuf_str(in->out, ", AUX records from ");
		info_span(in->out, first, last);
	}
}

static void print_queue(struct info *in, const struct queue *q)
{
	struct outbuf *o = in->out;

	outbuf_printf(o, "  %u: ", q->idx);
	if (q->cpu >= 0)
		outbuf_printf(o, "cpu %d, ", q->cpu);
	if (q->tid >= 0)
		outbuf_printf(o, "tid %d, ", q->tid);
	put_n(o, q->n_bytes, "byte");
	outbuf_str(o, " in ");
	put_n(o, q->n_pieces, "piece");
	outbuf_str(o, ", ");
	put_n(o, q->n_marks, "AUX record");
	put_queue_time(in, q);
	outbuf_str(o, "\n");
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
	if (c->n_samples) {
		outbuf_str(in->out, ", the newest at each of ");
		put_n(in->out, c->n_samples, "sample");
	}
	outbuf_str(in->out, "\n");
	if (c->n && !plugins_has(c->trace_type))
		outbuf_str(in->out, "  this build has no decoder for it; "
				    "`auxdecode raw` shows the bytes\n");
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

/* It is there, and what it should have told is not. */
static bool is_damaged(const struct info *in, unsigned bit, uint64_t len)
{
	const struct aux_file_info *f = aux_reader_info(in->r);

	switch (bit) {
	case AUX_FEAT_HOSTNAME:
		return len && !f->hostname;
	case AUX_FEAT_OSRELEASE:
		return len && !f->os_release;
	case AUX_FEAT_VERSION:
		return len && !f->version;
	case AUX_FEAT_ARCH:
		return len && !f->arch;
	case AUX_FEAT_CMDLINE:
		return len && !f->cmdline;
	case AUX_FEAT_AUXKIT_SOURCE:
		return !aux_reader_source(in->r, "source");
	case AUX_FEAT_AUXKIT_LEDGER:
		return in->bad_ledger;
	}
	return false;
}

static void print_features(struct info *in)
{
	struct name_buf buf;
	struct aux_bytes b;
	const char *sep = "features: ";
	bool bad;
	int ret;

	for (unsigned i = 0; i < AUX_FEAT_BITS; i++) {
		ret = aux_reader_feature(in->r, i, &b, NULL);
		if (!ret)
			continue;
		bad = ret > 0 && is_damaged(in, i, b.len);
		in->n_bad += ret < 0 || bad;
		outbuf_printf(in->out, "%s%s%s", sep, feature_name(i, &buf),
			      ret < 0 ? " (cut off)" :
			      bad ? " (damaged)" : "");
		sep = ", ";
	}
	if (*sep == ',')
		outbuf_str(in->out, "\n");
}

static int run_info(struct info *in)
{
	struct aux_diag damage = { .offset = AUX_NO_OFFSET };
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct aux_event ev;
	int ret;

	while ((ret = aux_reader_next(in->r, &ev, &damage)) == 1)
		count_record(in, &ev);
	if (chunks_read(&in->chunks, in->r, 0, &diag) < 0)
		return cmd_error(in->o->path, &diag);
	if (info_ledger_load(in) < 0)
		return CMD_FAILED;
	print_file(in);
	print_source(in);
	print_attrs(in);
	print_records(in);
	print_streams(in);
	if (info_sources(in) < 0)
		return CMD_FAILED;
	info_snapshots(in);
	info_ledger_print(in);
	print_features(in);
	info_verdict(in, ret < 0);
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
	if (container_open(&in->r, o->path, &o->container, &diag) < 0) {
		free(in);
		return cmd_error(o->path, &diag);
	}
	status = cmd_out_open(&in->out, o);
	if (!status)
		status = cmd_out_close(in->out, o, run_info(in));
	chunks_fini(&in->chunks);
	losses_fini(&in->losses);
	aux_reader_close(in->r);
	free(in);
	return status;
}
