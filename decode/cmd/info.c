/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_info: what is in this file. One pass counts the records, one more puts
 * the AUX streams together; the last line is a verdict, and so is the exit
 * status.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aux/decoder.h>
#include <aux/perfdata.h>

#include "common/array.h"
#include "common/clean.h"
#include "common/bytes.h"
#include "common/diag.h"
#include "decode/cmd/impl.h"
#include "decode/lib/session/decoders.h"
#include "decode/lib/sideband/sideband.h"
#include "decode/lib/trace/trace.h"
#include "perfdata/csmeta.h"

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
	uint32_t pmu_type;	/* of the trace, 0: not known */
	uint64_t n_throttled;	/* the trace */
	bool has_guests;	/* records are of guests */
	uint64_t n_by_flag[64];	/* AUX records by flag bit */
	/* of the ledger */
	struct losses losses;
	struct aux_ledger_entry sum[AUX_LEDGER_N_CAUSES];	/* idx, cause: 0 */
	uint64_t n_moments;	/* that the recorder waited for */
	bool bad_ledger;	/* it cannot be read, or does not balance */
	unsigned n_bad;		/* feature sections cut off or damaged */
	uint64_t n_unknown_sources;	/* trace ids that no metadata describes */
	bool bad_sources;	/* the metadata of the sources cannot be read */
	bool lossy, damaged;
	struct chunks chunks;
};

/*
 * The CoreSight sources of a file: whose trace is in which AUX
 * stream, and the registers that its decoder goes by.
 */

/* By enum of the decoder interface: what the trace unit implements. */
static const char *arch_name(uint32_t arch)
{
	static const char *const names[] = {
		[AUX_ETM_V3] = "ETMv3", [AUX_ETM_PTM] = "PTM",
		[AUX_ETM_V4] = "ETMv4", [AUX_ETM_ETE] = "ETE",
		[AUX_ETM_STM] = "STM", [AUX_ETM_ITM] = "ITM",
	};

	return arch && arch < sizeof(names) / sizeof(*names) ? names[arch] :
							       "unknown";
}

struct reg {
	const char *name;
	uint32_t value;
};

/* ": A 0x1, B 0x2": the first one always, others unless 0, which says nothing
 * about a register that most units lack. */
static void put_regs(struct outbuf *o, const struct reg *regs, size_t n)
{
	const char *sep = ": ";

	for (size_t i = 0; i < n; i++) {
		if (!regs[i].value && i)
			continue;
		outbuf_printf(o, "%s%s %#x", sep, regs[i].name, regs[i].value);
		sep = ", ";
	}
}

/* The first register also when it is 0. */
static void put_config(struct outbuf *o, const struct aux_etm_config *e)
{
	const struct reg v4[] = {
		{ "TRCCONFIGR", e->trcconfigr }, { "TRCIDR0", e->trcidr0 },
		{ "TRCIDR1", e->trcidr1 }, { "TRCIDR2", e->trcidr2 },
		{ "TRCIDR8", e->trcidr8 }, { "TRCDEVARCH", e->trcdevarch },
		{ "TRCAUTHSTATUS", e->trcauthstatus },
	};
	const struct reg v3[] = {
		{ "ETMCR", e->etmcr }, { "ETMIDR", e->etmidr },
		{ "ETMCCER", e->etmccer },
	};
	const struct reg sw[] = {
		{ "STMTCSR", e->stmtcsr }, { "ITMTCR", e->itmtcr },
		{ "STMFEAT1R", e->stmfeat1r }, { "STMFEAT3R", e->stmfeat3r },
		{ "STMDEVID", e->stmdevid },
	};

	if (e->arch == AUX_ETM_V4 || e->arch == AUX_ETM_ETE)
		put_regs(o, v4, sizeof(v4) / sizeof(*v4));
	else if (e->arch == AUX_ETM_V3 || e->arch == AUX_ETM_PTM)
		put_regs(o, v3, sizeof(v3) / sizeof(*v3));
	else if (e->arch == AUX_ETM_STM || e->arch == AUX_ETM_ITM)
		put_regs(o, sw, sizeof(sw) / sizeof(*sw));
	if (e->pid_in_vmid)
		outbuf_str(o, "; the VMID is the thread");
	if (e->ts_is_clock)
		outbuf_str(o, "; timestamps are of the clock");
}

/* One trace id of one AUX stream. Bytes that no metadata describes cannot be
 * decoded, and count for the verdict. */
static void print_trace_source(struct info *in, size_t i)
{
	const struct chunk_source *s = &in->chunks.sources[i];
	struct outbuf *o = in->out;

	outbuf_printf(o, "  %zu: in AUX stream %u, ", i,
		      in->chunks.queues[s->queue].idx);
	if (s->id)
		outbuf_printf(o, "trace id %#x, ", s->id);
	else if (s->raw)
		outbuf_str(o, "raw, ");
	else
		outbuf_str(o, "no trace ids, ");
	if (s->cpu >= 0)
		outbuf_printf(o, "cpu %d, ", s->cpu);
	if (s->meta)
		outbuf_printf(o, "%s, ", arch_name(s->meta->etm.arch));
	outbuf_printf(o, "%" PRIu64 " byte%s", s->n_bytes,
		      s->n_bytes == 1 ? "" : "s");
	if (s->meta)
		put_config(o, &s->meta->etm);
	else if (s->n_bytes)
		outbuf_str(o, ": the file does not say whose this is");
	outbuf_str(o, "\n");
	in->n_unknown_sources += !s->meta && s->n_bytes;
}

/* nothing for other trace; -AUX_E_NOMEM */
/* CoreSight alone: several trace units share an AUX buffer, so a stream has to
 * be taken apart by trace id before "per CPU" means anything. */
static int print_trace_sources(struct info *in)
{
	struct chunks *c = &in->chunks;

	if (c->trace_type != AUX_TRACE_CS_ETM)
		return 0;
	if (c->cs_error.code) {
		outbuf_clean_printf(in->out, "trace sources: %s\n", c->cs_error.text);
		in->bad_sources = true;
	}
	if (chunks_find_sources(c) < 0)
		return -AUX_E_NOMEM;
	if (!c->n_sources)
		return 0;
	outbuf_printf(in->out, "trace sources: %zu (--stream and the flow go by "
			       "these numbers)\n", c->n_sources);
	for (size_t i = 0; i < c->n_sources; i++)
		print_trace_source(in, i);
	return 0;
}

/*
 * What a file says of its own completeness: the recorder's
 * ledger, and the verdict over everything that was met.
 *
 * Invariant: "no loss recorded" is said only when all that could tell of a loss
 * was there and read.
 */

/* Whether the entry's number is a lower bound: more was overwritten there than
 * the recorder could know. */
static bool is_bound(const struct losses *l, const struct aux_ledger_entry *e)
{
	if (e->cause != AUX_LEDGER_OVERWRITTEN)
		return false;
	for (uint32_t i = 0; i < l->n; i++)
		if (l->e[i].cause == AUX_LEDGER_AT_LEAST &&
		    l->e[i].idx == e->idx)
			return true;
	return false;
}

/* "3 bytes lost, the AUX buffer was full (2 times)" */
static void put_amount(struct outbuf *o, const struct aux_ledger_entry *e,
		       uint32_t cause)
{
	const struct loss_text *t = losses_text(cause);

	if (!t) {
		outbuf_printf(o, "%" PRIu64 " of unknown cause %u", e->bytes,
			      cause);
		return;
	}
	if (t->bytes && t->verdict && !e->bytes)
		outbuf_printf(o, "an unknown number of %s", t->many);
	else
		outbuf_printf(o, "%" PRIu64 " %s", e->bytes,
			      e->bytes == 1 ? t->one : t->many);
	outbuf_printf(o, " %s", t->info);
	if (t->bytes && t->verdict && e->n > 1)
		outbuf_printf(o, " (%" PRIu64 " times)", e->n);
}

/* Reads the ledger's entries, if there is one. -AUX_E_NOMEM at worst. */
static int load_ledger(struct info *in)
{
	/* One that was cut off counts with the features. */
	int rc = losses_read(&in->losses, in->r, &in->chunks);

	if (in->losses.bad) {
		cmd_warn(in->o->path, "the loss ledger cannot be read "
				      "(version %u)", in->losses.version);
		in->bad_ledger = true;
	}
	return rc;
}

/* When a stream ran, by the ledger; NULL: it is not said. */
static const struct aux_ledger_entry *find_saved_span(const struct info *in,
						uint32_t idx)
{
	const struct losses *l = &in->losses;

	for (uint32_t i = 0; i < l->n; i++)
		if (l->e[i].idx == idx && l->e[i].first_ns &&
		    l->e[i].cause == AUX_LEDGER_SAVED)
			return &l->e[i];
	return NULL;
}

/* Does the file hold what the recorder saved? */
static void check_stream(struct info *in, const struct aux_ledger_entry *e)
{
	uint64_t held = 0;

	for (size_t i = 0; i < in->chunks.n; i++)
		if (in->chunks.queues[i].idx == e->idx)
			held += in->chunks.queues[i].n_bytes;
	/* A recorder that was killed wrote more after its last ledger. */
	if (held == e->bytes ||
	    (held > e->bytes && aux_reader_info(in->r)->unfinished))
		return;
	in->bad_ledger = true;
	outbuf_printf(in->out, ", but the file holds %" PRIu64, held);
}

/* Where the numbers come from: a ledger, the last one before a crash, or a
 * sum. */
static const char *ledger_title(const struct info *in)
{
	if (in->losses.origin == LOSSES_SUMMED)
		return "losses that the recorder reported (it wrote no ledger):"
		       "\n";
	if (in->losses.origin == LOSSES_RECORD &&
	    aux_reader_info(in->r)->unfinished)
		return "the last ledger that the recorder wrote:\n";
	return "ledger of the recorder:\n";
}

/* Adds an entry to the totals by cause. A cause of a later version makes the
 * ledger unreadable as a whole: whether it is a loss is not known. */
static void sum_up(struct info *in, const struct aux_ledger_entry *e)
{
	if (e->cause >= AUX_LEDGER_N_CAUSES) {
		in->bad_ledger = true;
		return;
	}
	in->sum[e->cause].bytes += e->bytes;
	in->sum[e->cause].n += e->n;
}

/* "1.205 ms", "5.000000000", "5.000000000 s to 6.0.. s (1.0 s)" */
static void put_time(struct outbuf *o, uint64_t ns)
{
	char text[32];

	outbuf_put(o, text, (size_t)(fmt_time(text, ns) - text));
}

/* Rounded for people; exact times stand beside it. */
static void put_duration(struct outbuf *o, uint64_t ns)
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

static void put_span(struct outbuf *o, uint64_t first, uint64_t last)
{
	put_time(o, first);
	outbuf_str(o, " s to ");
	put_time(o, last);
	outbuf_str(o, " s (");
	put_duration(o, last - first);
	outbuf_str(o, ")");
}

/* A line for each entry; idx UINT32_MAX: of the recording, not of one
 * stream. */
static void print_ledger(struct info *in)
{
	for (uint32_t i = 0; i < in->losses.n; i++) {
		const struct aux_ledger_entry *e = &in->losses.e[i];

		if (!i)
			outbuf_str(in->out, ledger_title(in));
		sum_up(in, e);
		if (e->idx == UINT32_MAX)
			outbuf_str(in->out, "  all: ");
		else
			outbuf_printf(in->out, "  stream %u: ", e->idx);
		if (is_bound(&in->losses, e))
			outbuf_str(in->out, "at least ");
		put_amount(in->out, e, e->cause);
		if (e->cause == AUX_LEDGER_SAVED)
			check_stream(in, e);
		if (e->cause == AUX_LEDGER_THROTTLED && e->first_ns) {
			outbuf_str(in->out, ", ");
			put_span(in->out, e->first_ns, e->last_ns);
		}
		outbuf_str(in->out, "\n");
	}
}

/* A part of the verdict, which begins with the first that is not 0. */
static void put_count(struct info *in, uint64_t n, const char *one,
		      const char *many)
{
	if (n)
		outbuf_printf(in->out, "%s %" PRIu64 " %s",
			      in->lossy ? ";" : "verdict: incomplete:", n,
			      n == 1 ? one : many);
	in->lossy |= n != 0;
}

/* As put_count, for what has no number. */
static void put_if(struct info *in, bool is, const char *what)
{
	if (is)
		outbuf_printf(in->out, "%s %s",
			      in->lossy ? ";" : "verdict: incomplete:", what);
	in->lossy |= is;
}

/* One line: everything that is missing, or that nothing is known to be. */
static void print_verdict(struct info *in, bool damaged)
{
	struct outbuf *o = in->out;
	bool unfinished = aux_reader_info(in->r)->unfinished;
	uint64_t counted;

	put_if(in, damaged, "the file is damaged");
	put_if(in, unfinished, "the recording was cut short");
	put_count(in, in->n_bad, "feature section cut off or damaged",
		  "feature sections cut off or damaged");
	for (uint32_t i = 0; i < AUX_LEDGER_N_CAUSES; i++) {
		const struct aux_ledger_entry *sum = &in->sum[i];

		if (!losses_text(i)->verdict || !(sum->bytes | sum->n))
			continue;
		put_if(in, true, "");
		put_amount(o, sum, i);
	}
	put_count(in, in->n_by_flag[0], "AUX record says truncated",
		  "AUX records say truncated");
	put_count(in, in->n_by_flag[2], "AUX record says partial",
		  "AUX records say partial");
	put_count(in, in->n_by_flag[3], "AUX record says collision",
		  "AUX records say collision");
	/* the ledger's were printed with it: only the others */
	counted = in->sum[AUX_LEDGER_LOST_RECORDS].bytes;
	put_count(in, in->lost_records > counted ?
		  in->lost_records - counted : 0,
		  "record lost", "records lost");
	put_count(in, in->lost_samples, "sample lost", "samples lost");
	put_count(in, in->n_throttled,
		  "time throttled by the kernel",
		  "times throttled by the kernel");
	put_count(in, in->chunks.n_orphan_aux, "AUX record without its data",
		  "AUX records without their data");
	put_count(in, in->chunks.n_damaged,
		  "compressed AUXTRACE record damaged",
		  "compressed AUXTRACE records damaged");
	put_count(in, in->n_unknown_sources, "trace source that no metadata describes",
		  "trace sources that no metadata describes");
	put_if(in, in->bad_sources, "the metadata of the trace sources cannot be read");
	put_if(in, in->bad_ledger, "the ledger does not balance, or cannot be "
				   "read");
	outbuf_str(o, in->lossy ? "\n" : "verdict: no loss recorded\n");
}

/* The type of the trace's PMU, from the private data of AUXTRACE_INFO; perf
 * gets it from the same places. Needed to tell the trace's THROTTLE from those
 * of other events. */
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

/* Whether the record tells of a guest: by its cpumode, or ID_INDEX by the
 * machine of an event, the first word of each pair. 0 is the host in either
 * byte order. A sample that interrupted a guest tells nothing of it. */
static bool is_of_guest(const struct aux_event *ev)
{
	uint16_t mode = ev->misc & PERF_RECORD_MISC_CPUMODE_MASK;
	const struct aux_bytes *pairs = &ev->id_index.guests;
	uint64_t machine;

	if (ev->type != AUX_RECORD_ID_INDEX)
		return ev->type < AUX_RECORD_HEADER_ATTR &&
		       ev->type != PERF_RECORD_SAMPLE &&
		       (mode == PERF_RECORD_MISC_GUEST_KERNEL ||
			mode == PERF_RECORD_MISC_GUEST_USER);
	for (size_t at = 0; at + 16 <= pairs->len; at += 16) {
		memcpy(&machine, pairs->data + at, sizeof(machine));
		if (machine)
			return true;
	}
	return false;
}

/* All counts of the first pass. A file without the type of the trace's PMU
 * counts each THROTTLE: better a warning too many than a loss that is not
 * said. */
static void count_record(struct info *in, const struct aux_event *ev)
{
	in->n_records++;
	if (ev->type < N_TYPES)
		in->n_by_type[ev->type]++;
	else
		in->n_other++;
	in->n_moments += ev->type == AUX_RECORD_EVENT_TYPE &&
			 ev->own.kind == AUX_OWN_MOMENT;
	if (ev->type == PERF_RECORD_LOST)
		in->lost_records += ev->lost.lost;
	if (ev->type == PERF_RECORD_LOST_SAMPLES)
		in->lost_samples += ev->lost.lost;
	if (ev->type == AUX_RECORD_AUXTRACE_INFO)
		in->pmu_type = find_pmu_type(ev);
	if (ev->type == PERF_RECORD_THROTTLE)
		in->n_throttled += !ev->attr || !in->pmu_type ||
				   ev->attr->attr.type == in->pmu_type;
	in->has_guests |= is_of_guest(ev);
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

/* "1 byte", "2 bytes" */
static void put_n(struct outbuf *o, uint64_t n, const char *what)
{
	outbuf_printf(o, "%" PRIu64 " %s%s", n, what, n == 1 ? "" : "s");
}

static void put_opt(struct outbuf *o, const char *before, const char *s)
{
	if (s && *s)
		outbuf_clean_printf(o, "%s%s", before, s);
}

/* What perf report --header-only shows first: the file, the machine, the
 * command.
 * */
static void print_file(struct info *in)
{
	const struct aux_file_info *f = aux_reader_info(in->r);
	struct outbuf *o = in->out;

	outbuf_clean_printf(o, "file: %s, %" PRIu64 " bytes, ",
		      aux_reader_path(in->r), f->size);
	if (f->container)
		outbuf_clean_printf(o, "made from: %s\n", f->container);
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
		outbuf_clean_printf(o, "command: %s\n", f->cmdline);
	if (f->version && *f->version)
		outbuf_clean_printf(o, "version: %s\n", f->version);
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
		outbuf_clean_printf(in->out, "not traced: %s\n", text);
	}
}

/* The section that auxcap adds for trace made by software; nothing for other
 * files. Its times must not be taken for the hardware's, so that is said
 * here. */
static void print_source(struct info *in)
{
	const char *source = aux_reader_source(in->r, "source");
	const char *backend = aux_reader_source(in->r, "backend");
	const char *clock = aux_reader_source(in->r, "clock");
	const char *terms = aux_reader_source(in->r, "terms");

	if (!source)
		return;
	outbuf_clean_printf(in->out, "source: %s", source);
	put_opt(in->out, ", back end ", backend);
	if (!strcmp(source, "soft_pt"))
		outbuf_str(in->out, ": Intel PT made by software, not by trace "
				    "hardware");
	outbuf_str(in->out, "\n");
	if (terms && *terms)
		outbuf_clean_printf(in->out, "terms: %s\n", terms);
	if (clock && !strcmp(clock, "virtual"))
		outbuf_str(in->out,
			   "clock: virtual: 1 ns for each instruction, and time "
			   "in the kernel as measured;\n"
			   "       times, cycles and their ratios are not the "
			   "hardware's\n");
	print_not_traced(in);
}

/* PERF_TYPE_SOFTWARE 1, PERF_COUNT_SW_DUMMY 9. */
/* What the event is there for, as far as its type says. */
static const char *event_role(const struct info *in, const struct aux_attr *a)
{
	if (a->attr.type == PERF_TYPE_SOFTWARE &&
	    a->attr.config == PERF_COUNT_SW_DUMMY)
		return "side-band (who ran, what was mapped)";
	if (in->pmu_type && a->attr.type == in->pmu_type)
		return "the trace";
	return a->attr.type == PERF_TYPE_TRACEPOINT ? "tracepoint" : "event";
}

/* The events that were opened, with what each is for. */
static void print_attrs(struct info *in)
{
	const struct aux_attr *a;

	outbuf_str(in->out, "events:\n");
	for (size_t i = 0; (a = aux_reader_attr(in->r, i)); i++) {
		outbuf_clean_printf(in->out, "  %-12s %s: ",
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

/* How many of each type; then the span of time that their trailers cover. */
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
	put_span(in->out, in->time_min, in->time_max);
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
	const struct aux_ledger_entry *e = find_saved_span(in, q->idx);
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
		put_span(in->out, e->first_ns, e->last_ns);
	} else if (first) {
		outbuf_str(in->out, ", AUX records from ");
		put_span(in->out, first, last);
	}
}

/* One AUX buffer of the kernel: of a CPU, or with --per-thread of a thread. */
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

/* The streams, and how often the kernel set each PERF_AUX_FLAG_*. */
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
	if (c->n && !decoders_has(c->trace_type))
		follow_expand(in->out, "  this build has no decoder for it; "
				       "`auxdecode raw` shows the bytes\n", NULL);
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

/* The feature section is there, but its contents could not be parsed. */
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

/* Names of the feature sections. One that is cut off or does not parse counts
 * for the verdict, since a decode goes without it. */
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

/*
 * The snapshots of a file. One snapshot can hold old buffers of CPUs
 * that have long been idle, so each stream's span of time is printed.
 */

/* As AUXTRACE_INFO has it; mult 0: unknown. */
static struct aux_clock find_clock(const struct chunks *c)
{
	struct aux_clock clock = { 0 };

	if (c->trace_type != AUX_TRACE_INTEL_PT ||
	    c->n_metadata <= AUX_PT_CAP_USER_TIME_ZERO ||
	    !c->metadata[AUX_PT_CAP_USER_TIME_ZERO] ||
	    c->metadata[AUX_PT_TIME_SHIFT] > 63)
		return clock;
	clock.shift = (uint16_t)c->metadata[AUX_PT_TIME_SHIFT];
	clock.mult = (uint32_t)c->metadata[AUX_PT_TIME_MULT];
	clock.zero = c->metadata[AUX_PT_TIME_ZERO];
	return clock;
}

static const char *reason_text(uint32_t reason)
{
	switch (reason) {
	case 0:
		return "";
	case AUX_SNAPSHOT_SIGNAL:
		return " on a signal";
	case AUX_SNAPSHOT_CONTROL:
		return " on a command";
	case AUX_SNAPSHOT_EXIT:
		return " at the end";
	case AUX_SNAPSHOT_CUT:
		return " left by a cut";
	case AUX_SNAPSHOT_TRIGGER:
		return " when";
	}
	return " for a reason that this build does not know";
}

/* A text that a program or person chose, in quotes. */
static void put_label(struct outbuf *o, const uint8_t *text, size_t len)
{
	outbuf_str(o, " \"");
	for (size_t i = 0; i < len; i++)
		outbuf_printf(o, text[i] >= ' ' && text[i] < 0x7f && text[i] != '"' ?
				      "%c" : "\\x%02x", text[i]);
	outbuf_str(o, "\"");
}

static void print_snapshot(struct outbuf *o, const struct snapshot *s)
{
	outbuf_printf(o, "  %" PRIu64 ":", s->number);
	if (s->time_ns) {
		outbuf_str(o, " at ");
		put_time(o, s->time_ns);
		outbuf_str(o, " s");
	}
	outbuf_str(o, reason_text(s->reason));
	if (s->label.len)
		put_label(o, s->label.data, s->label.len);
	outbuf_str(o, "\n");
}

/* The packets tell when, unless they have no time or are of another kind. */
static bool find_span(const struct chunks *c, const struct queue *q,
		      uint32_t snapshot, uint64_t *first, uint64_t *last)
{
	bool found = false;

	for (size_t i = 0; i < q->n_pieces; i++) {
		const struct piece *p = &q->pieces[i];
		uint64_t a, b;

		if (p->snapshot != snapshot ||
		    c->trace_type != AUX_TRACE_INTEL_PT ||
		    !chunks_tsc_span(p->data, p->data + p->len, &a, &b))
			continue;
		if (!found)
			*first = a;
		*last = b;
		found = true;
	}
	return found;
}

/* Else the kernel's records: each came when a stretch of the trace had
 * ended. */
static void put_records_span(struct info *in, const struct queue *q,
			     uint32_t snapshot)
{
	uint64_t first = 0, last = 0;

	for (size_t i = 0; i < q->n_pieces; i++) {
		const struct piece *p = &q->pieces[i];

		if (p->snapshot != snapshot || !p->first_ns)
			continue;
		if (!first || p->first_ns < first)
			first = p->first_ns;
		if (p->last_ns > last)
			last = p->last_ns;
	}
	if (!first) {
		outbuf_str(in->out, "of unknown time");
		return;
	}
	outbuf_str(in->out, "AUX records from ");
	put_span(in->out, first, last);
}

/* What stream q has of this snapshot: bytes, and the time they cover. */
static void print_snapshot_stream(struct info *in, const struct queue *q,
			 uint32_t snapshot, const struct aux_clock *clock)
{
	struct outbuf *o = in->out;
	uint64_t bytes = 0, first, last;
	size_t n = 0;

	for (size_t i = 0; i < q->n_pieces; i++) {
		if (q->pieces[i].snapshot != snapshot)
			continue;
		bytes += q->pieces[i].len;
		n++;
	}
	if (!n)
		return;
	outbuf_printf(o, "     stream %u", q->idx);
	if (q->cpu >= 0)
		outbuf_printf(o, ", cpu %d", q->cpu);
	if (q->tid >= 0)
		outbuf_printf(o, ", tid %d", q->tid);
	outbuf_printf(o, ": %" PRIu64 " byte%s, ", bytes, bytes == 1 ? "" : "s");
	if (!find_span(&in->chunks, q, snapshot, &first, &last))
		put_records_span(in, q, snapshot);
	else if (clock->mult)
		put_span(o, clock_to_ns(clock, first),
			  clock_to_ns(clock, last));
	else
		outbuf_printf(o, "tsc %#" PRIx64 " to %#" PRIx64, first, last);
	outbuf_str(o, "\n");
}

/* nothing when there is none */
static void print_snapshots(struct info *in)
{
	const struct chunks *c = &in->chunks;
	struct aux_clock clock = find_clock(c);

	if (!c->n_snapshots)
		return;
	outbuf_printf(in->out, "snapshots: %zu%s\n", c->n_snapshots,
		      c->own_snapshots ? "" :
		      " (counted by the order of the AUXTRACE records)");
	for (uint32_t i = 1; i <= c->n_snapshots; i++) {
		print_snapshot(in->out, &c->snapshots[i - 1]);
		for (size_t k = 0; k < c->n; k++)
			print_snapshot_stream(in, &c->queues[k], i, &clock);
	}
}

#define MOMENTS 20	/* that are listed */

/* What the recorder waited for, where no snapshot has it. */
static void print_moments(struct info *in)
{
	struct aux_diag diag;
	struct aux_event ev;
	uint64_t n = 0;

	if (!in->n_moments || in->chunks.n_snapshots)
		return;
	outbuf_printf(in->out, "moments: %" PRIu64 "\n", in->n_moments);
	aux_reader_rewind(in->r);
	while (n < MOMENTS && aux_reader_next(in->r, &ev, &diag) == 1) {
		if (ev.type != AUX_RECORD_EVENT_TYPE || ev.own.kind != AUX_OWN_MOMENT)
			continue;
		outbuf_printf(in->out, "  %" PRIu64 ":", ++n);
		put_label(in->out, ev.own.moment.label, ev.own.moment.h.label_len);
		outbuf_str(in->out, "\n");
	}
	if (in->n_moments > n)
		outbuf_printf(in->out, "  and %" PRIu64 " more, which dump shows\n",
			      in->n_moments - n);
}

/*
 * What the side-band tells of containers and virtual machines. Each part is
 * there only if the recorder was asked for it (perf record --namespaces,
 * --all-cgroups; perf kvm, perf inject --guest-data), so most files have none.
 */

/* As the links in /proc/PID/ns read. base: those to leave out where they are
 * equal; NULL: none. */
static void put_namespaces(struct outbuf *o, const struct timeline_ns_id *ns,
			   const struct timeline_ns_id *base)
{
	static const char *const names[TIMELINE_N_NS] = {
		[TIMELINE_NS_NET] = "net", [TIMELINE_NS_UTS] = "uts",
		[TIMELINE_NS_IPC] = "ipc", [TIMELINE_NS_PID] = "pid",
		[TIMELINE_NS_USER] = "user", [TIMELINE_NS_MNT] = "mnt",
		[TIMELINE_NS_CGROUP] = "cgroup",
	};

	for (unsigned i = 0; i < TIMELINE_N_NS; i++)
		if (ns[i].inode && (!base || ns[i].dev != base[i].dev ||
				    ns[i].inode != base[i].inode))
			outbuf_printf(o, " %s:[%" PRIu64 "]", names[i],
				      ns[i].inode);
}

/* The threads that are in the same namespaces at their end. */
struct ns_set {
	const struct timeline_ns_id *ns;
	uint32_t tid;		/* of the first, in the order of the timeline */
	size_t order, n_threads;
};

static int by_namespaces(const void *a, const void *b)
{
	const struct ns_set *x = a, *y = b;
	int rc = memcmp(x->ns, y->ns, TIMELINE_N_NS * sizeof(*x->ns));

	return rc ? rc : x->order < y->order ? -1 : x->order > y->order;
}

static int by_order(const void *a, const void *b)
{
	const struct ns_set *x = a, *y = b;

	return x->order < y->order ? -1 : x->order > y->order;
}

/* Joins the n sets of one thread each. Returns how many are left, in order. */
static size_t join_sets(struct ns_set *v, size_t n)
{
	size_t k = 0;

	if (!n)
		return 0;
	qsort(v, n, sizeof(*v), by_namespaces);
	for (size_t i = 1; i < n; i++) {
		if (!memcmp(v[i].ns, v[k].ns, TIMELINE_N_NS * sizeof(*v->ns)))
			v[k].n_threads++;
		else
			v[++k] = v[i];
	}
	qsort(v, k + 1, sizeof(*v), by_order);
	return k + 1;
}

static void print_set(struct outbuf *o, const struct timeline *tl,
		      const struct ns_set *s, const struct ns_set *first)
{
	outbuf_str(o, "  ");
	put_n(o, s->n_threads, "thread");
	outbuf_printf(o, ", the first %d/%" PRIu32 " ",
		      (int32_t)timeline_pid(tl, s->tid, UINT64_MAX), s->tid);
	outbuf_clean(o, timeline_comm(tl, s->tid, UINT64_MAX));
	outbuf_str(o, ":");
	put_namespaces(o, s->ns, s == first ? NULL : first->ns);
	outbuf_str(o, "\n");
}

/* A container has many processes, so threads in the same namespaces share a
 * line. -AUX_E_NOMEM at worst. */
static int print_namespaces(struct info *in, const struct timeline *tl)
{
	const struct timeline_ns_id *ns;
	struct ns_set *v = NULL;
	size_t at = 0, n = 0, cap = 0;
	uint32_t tid;

	while (timeline_next_thread(tl, &at, &tid)) {
		ns = timeline_namespaces(tl, tid, UINT64_MAX);
		if (!ns)
			continue;
		if (array_grow(&v, n, &cap, sizeof(*v)) < 0) {
			free(v);
			return -AUX_E_NOMEM;
		}
		v[n] = (struct ns_set){ ns, tid, n, 1 };
		n++;
	}
	n = join_sets(v, n);
	if (n)
		outbuf_str(in->out, "namespaces: all of the first process, and "
				    "in which others differ from it\n");
	for (size_t i = 0; i < n; i++)
		print_set(in->out, tl, &v[i], &v[0]);
	free(v);
	return 0;
}

static void print_cgroups(struct info *in, const struct timeline *tl)
{
	const char *path;
	uint64_t id;

	for (size_t i = 0; (path = timeline_cgroup_at(tl, i, &id)); i++) {
		outbuf_printf(in->out, "%s  %" PRIu64 " ",
			      i ? "" : "cgroups: id and path\n", id);
		outbuf_clean(in->out, path);
		outbuf_str(in->out, "\n");
	}
}

/* The kernel's image and how many modules, as they were last. */
static void put_guest_kernel(struct outbuf *o, const struct timeline *tl,
			     uint32_t machine)
{
	const struct space *s = timeline_guest_space(tl, machine, UINT32_MAX,
						     UINT64_MAX);
	const struct mapping *m = space_next_kernel(s, 0);
	uint64_t n_modules = 0;

	for (; m; m = space_next_kernel(s, m->end)) {
		n_modules += m->kind == MAPPING_MODULE;
		if (m->kind != MAPPING_KERNEL)
			continue;
		outbuf_str(o, ", ");
		outbuf_clean(o, m->path);
		outbuf_printf(o, " at %#" PRIx64, m->start);
	}
	if (n_modules) {
		outbuf_str(o, ", ");
		put_n(o, n_modules, "module");
	}
}

static void print_guests(struct info *in, const struct timeline *tl)
{
	struct outbuf *o = in->out;
	struct timeline_guest g;

	for (size_t i = 0; timeline_guest(tl, i, &g); i++) {
		outbuf_str(o, i ? "  " : "guests: what records tell of them\n  ");
		if (g.machine) {
			outbuf_printf(o, "of process %u ", g.machine);
			outbuf_clean(o, timeline_comm(tl, g.machine, UINT64_MAX));
		} else {
			outbuf_str(o, "the only guest");
		}
		outbuf_printf(o, ": %zu process%s, ", g.n_processes,
			      g.n_processes == 1 ? "" : "es");
		put_n(o, g.n_threads, "thread");
		put_guest_kernel(o, tl, g.machine);
		outbuf_str(o, "\n");
	}
}

/* The timeline is built only for a file that has any of these. CMD_OK, or the
 * status of an error. */
static int print_containers(struct info *in)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct timeline *tl;
	int rc;

	if (!in->has_guests && !in->n_by_type[PERF_RECORD_NAMESPACES] &&
	    !in->n_by_type[PERF_RECORD_CGROUP])
		return CMD_OK;
	if (timeline_new(&tl, in->r, cmd_memory(in->o), &diag) < 0)
		return cmd_error(in->o->path, &diag);
	rc = print_namespaces(in, tl);
	print_cgroups(in, tl);
	print_guests(in, tl);
	timeline_free(tl);
	return rc < 0 ? cmd_failed(in->o->path, rc, &diag) : CMD_OK;
}

/*
 * All sections, in the order in which a question about a file is usually asked:
 * what is it, what was recorded, what is missing. Damage does not end it: what
 * is known is printed, and the verdict says the rest. Returns the exit status.
 */
static int run_info(struct info *in)
{
	struct aux_diag damage = { .offset = AUX_NO_OFFSET };
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct aux_event ev;
	int ret;

	while ((ret = aux_reader_next(in->r, &ev, &damage)) == 1)
		count_record(in, &ev);
	if (chunks_read(&in->chunks, in->r, 0, cmd_memory(in->o), &diag) < 0)
		return cmd_error(in->o->path, &diag);
	if (load_ledger(in) < 0)
		return cmd_failed(in->o->path, -AUX_E_NOMEM, &diag);
	print_file(in);
	print_source(in);
	print_attrs(in);
	print_records(in);
	if (print_containers(in) != CMD_OK)
		return CMD_FAILED;
	print_streams(in);
	if (print_trace_sources(in) < 0)
		return cmd_failed(in->o->path, -AUX_E_NOMEM, &diag);
	print_snapshots(in);
	print_moments(in);
	print_ledger(in);
	print_features(in);
	print_verdict(in, ret < 0);
	in->damaged = ret < 0;
	if (ret < 0) {
		if (!in->o->output.json)
			outbuf_flush(in->out);
		cmd_error(in->o->path, &damage);
		return in->n_records ? CMD_GAPS : CMD_FAILED;
	}
	return in->lossy ? CMD_GAPS : CMD_OK;
}

static int info_json(struct info *in, struct outbuf *out)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	int status;

	in->out = outbuf_new(-1);
	if (!in->out)
		return cmd_failed(in->o->path, -AUX_E_NOMEM, &diag);
	status = run_info(in);
	json_begin(out, in->o, in->r);
	info_json_put(out, &(struct info_json){
		.r = in->r, .chunks = &in->chunks, .losses = &in->losses,
		.sum = in->sum, .pmu_type = in->pmu_type,
		.n_records = in->n_records, .n_by_type = in->n_by_type,
		.n_types = N_TYPES, .n_other = in->n_other,
		.n_by_flag = in->n_by_flag, .n_timed = in->n_timed,
		.time_min = in->time_min, .time_max = in->time_max,
		.lost_records = in->lost_records,
		.lost_samples = in->lost_samples,
		.n_throttled = in->n_throttled, .n_bad = in->n_bad,
		.n_unknown_sources = in->n_unknown_sources,
		.bad_ledger = in->bad_ledger, .bad_sources = in->bad_sources,
		.damaged = in->damaged, .lossy = in->lossy });
	json_lines(out, "text", in->out);
	json_end(out, in->o, status);
	if (outbuf_failed(in->out))
		outbuf_fail(out, ENOMEM);
	outbuf_free(in->out);
	return status;
}

int cmd_info(const struct cmd_options *o)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct info *in = calloc(1, sizeof(*in));
	struct cmd_out out;
	int status;

	if (!in) {
		diag.code = AUX_E_NOMEM;
		return cmd_error(o->path, &diag);
	}
	in->o = o;
	if (import_open(&in->r, o->path, &o->import.options, &diag) < 0) {
		free(in);
		return cmd_error(o->path, &diag);
	}
	status = cmd_out_open(&out, o);
	in->out = out.buf;
	if (!status)
		status = cmd_out_close(&out, o, o->output.json ?
						info_json(in, out.buf) :
						run_info(in));
	chunks_fini(&in->chunks);
	losses_fini(&in->losses);
	aux_reader_close(in->r);
	free(in);
	return status;
}
