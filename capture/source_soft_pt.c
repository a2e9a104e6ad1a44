/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * soft_pt: Intel PT without Intel PT. The program runs under a tracer, and the
 * file reads as one of "perf record -e intel_pt//u".
 *
 * Invariant: config has the bits of the real PMU's format directory (Linux 6.1,
 * arch/x86/events/intel/pt.c), and the rules of its pt_event_valid() hold. The
 * virtual clock is declared in AUXKIT_SOURCE.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <internal/diag.h>
#include <internal/version.h>

#include "features.h"
#include "soft.h"
#include "source.h"

#define PMU_TYPE 8	/* any that is no PERF_TYPE_*; PMU_MAPPINGS names it */
#define EVENT_ID 1
#define DUMMY_ID 2
#define N_FIELDS (sizeof(fields) / sizeof(*fields))

#define ON_OFF 0x3
#define OFF 0x1
#define ANY4 0xffff

/* table */
static const struct event_field fields[] = {
	{ "pt", 0, 0, ON_OFF, NULL },
	{ "cyc", 1, 1, ON_OFF, NULL },
	{ "pwr_evt", 4, 4, OFF, "soft_pt sees no power states" },
	{ "fup_on_ptw", 5, 5, ON_OFF, NULL },
	{ "mtc", 9, 9, ON_OFF, NULL },
	{ "tsc", 10, 10, ON_OFF, NULL },
	{ "noretcomp", 11, 11, ON_OFF, NULL },
	{ "ptw", 12, 12, ON_OFF, NULL },
	{ "branch", 13, 13, ON_OFF, NULL },
	{ "mtc_period", 14, 17, ANY4, "MTC each 2^n ticks of 40 ns" },
	{ "cyc_thresh", 19, 22, ANY4, "CYC after 2^(n-1) cycles, 0: none" },
	{ "psb_period", 24, 27, ANY4, "PSB each 2^(n+11) bytes" },
	{ "event", 31, 31, OFF, "soft_pt has no event trace" },
	{ "notnt", 55, 55, OFF, "soft_pt always sends TNT" },
};

/* Our own terms, that are not part of config. */
static const char *const words[] = { "emulate", "step", "defer_tip", NULL };

/* tsc,mtc,mtc_period=3,psb_period=3,branch,pt, as perf; and noretcomp: without
 * return compression a gap costs less. */
#define DEFAULT_CONFIG 0x300ee01

struct soft_pt {
	const struct source_job *job;
	struct soft_config config;
	bool step;
	struct soft_program program;
	struct ledger *ledger;
	struct source_result *result;
};

static uint64_t get(uint64_t config, const char *name)
{
	return event_get(fields, N_FIELDS, name, config);
}

static int invalid(struct aux_diag *diag, const struct event_spec *event,
		   const char *why)
{
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET, "event '%.80s': %s",
			event->text, why);
}

/* Terms that are legal alone but not together. */
static int check_terms(const struct source_job *job, uint64_t *config,
		       struct aux_diag *diag)
{
	const struct event_spec *event = job->event;

	if (event_has(event, "step") && event_has(event, "emulate"))
		return invalid(diag, event, "step and emulate exclude each "
			       "other");
	if (event->has_modifiers && event->kernel)
		return invalid(diag, event, "soft_pt follows user code only; "
			       "the legal modifier is u");
	if (get(*config, "fup_on_ptw") && !get(*config, "ptw"))
		return invalid(diag, event, "fup_on_ptw needs ptw");
	if (!get(*config, "pt")) {
		if (event_has(event, "branch"))
			return invalid(diag, event, "branch needs pt");
		/* branches are traced, but the bit must not be set */
		*config &= ~(UINT64_C(1) << 13);
	}
	if (!get(*config, "tsc") && get(*config, "mtc")) {
		if (event_has(event, "mtc"))
			return invalid(diag, event, "mtc needs tsc");
		*config &= ~(UINT64_C(1) << 9);
	}
	if (!get(*config, "tsc") && !job->per_thread)
		return invalid(diag, event, "tsc=0 needs --per-thread: without "
			       "time, threads that share a CPU's trace cannot "
			       "be told apart");
	return 0;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Its bytes are entered when all is written. */
static void note_span(void *priv, uint32_t idx, uint64_t first_ns,
		      uint64_t last_ns)
{
	struct soft_pt *sp = priv;

	ledger_add(sp->ledger, idx, AUX_LEDGER_SAVED, 0, first_ns, last_ns);
}

static void note_not_traced(void *priv, uint32_t pid, const char *program,
			    const char *why)
{
	char *text = ((struct soft_pt *)priv)->result->not_traced;
	size_t room = sizeof(((struct source_result *)0)->not_traced);
	size_t used = strlen(text);

	if (*text && used + 1 < room)
		text[used++] = '\n';
	snprintf(text + used, room - used, "%.100s (process %u): %.60s",
		 *program ? program : "a program", pid, why);
	for (text += used; *text; text++)
		if ((unsigned char)*text < ' ')
			*text = '?';
}

static void forward_progress(void *priv, const struct soft_stats *stats)
{
	const struct source_job *job = priv;

	job->progress(job->progress_priv, stats->n_insns, stats->aux_bytes);
}

static void fill_config(struct soft_pt *sp, uint64_t config)
{
	const struct source_job *job = sp->job;
	long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);

	sp->config = (struct soft_config){
		.tsc = get(config, "tsc"),
		.mtc = get(config, "mtc"),
		.cyc = get(config, "cyc"),
		.retcomp = !get(config, "noretcomp"),
		.branch = get(config, "branch") || !get(config, "pt"),
		.ptw = get(config, "ptw"),
		.fup_on_ptw = get(config, "fup_on_ptw"),
		.per_thread = job->per_thread,
		.defer_tip = event_has(job->event, "defer_tip"),
		.mtc_period = (uint32_t)get(config, "mtc_period"),
		.psb_period = (uint32_t)get(config, "psb_period"),
		.cyc_thresh = (uint32_t)get(config, "cyc_thresh"),
		.n_cpus = n_cpus > 0 ? (uint32_t)n_cpus : 1,
		.inject_overflow = job->inject_overflow,
		.event_id = EVENT_ID,
		.sideband_id = DUMMY_ID,
		.attr_config = config,
		.pmu_type = PMU_TYPE,
		.start_ns = now_ns(),
		.truth_path = job->truth_path,
		.stream_end = note_span,
		.not_traced = note_not_traced,
		.priv = sp,
	};
	sp->program = (struct soft_program){
		.argv = job->argv,
		.self_dir = job->self_dir,
		.truth = job->truth_path != NULL,
		.progress = job->progress ? forward_progress : NULL,
		.progress_priv = (void *)(uintptr_t)job,
		.stop = job->stop,
	};
}

static int open_soft_pt(void **src, const struct source_job *job,
			struct aux_diag *diag)
{
	uint64_t config = DEFAULT_CONFIG;
	struct soft_pt *sp;
	int ret;

	*src = NULL;
	ret = event_config(job->event, fields, N_FIELDS, words, &config, diag);
	if (!ret)
		ret = check_terms(job, &config, diag);
	if (ret)
		return ret;
	sp = calloc(1, sizeof(*sp));
	if (!sp)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	sp->job = job;
	sp->step = event_has(job->event, "step");
	fill_config(sp, config);
	*src = sp;
	return 0;
}

static void close_soft_pt(void *src)
{
	free(src);
}

/* The trace event, and a dummy that stands for the side-band, as perf has. */
static int add_attrs(const struct soft_pt *sp, struct writer *w)
{
	const uint64_t ids[2] = { EVENT_ID, DUMMY_ID };
	struct perf_event_attr pt = {
		.type = PMU_TYPE,
		.config = sp->config.attr_config,
		.sample_period = 1,
		.sample_type = SYNTH_SAMPLE_TYPE | PERF_SAMPLE_IP,
		.read_format = PERF_FORMAT_ID,
		.disabled = 1,
		.inherit = !sp->config.per_thread,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.enable_on_exec = 1,
		.sample_id_all = 1,
	};
	struct perf_event_attr dummy = pt;
	int ret;

	dummy.type = PERF_TYPE_SOFTWARE;
	dummy.config = PERF_COUNT_SW_DUMMY;
	dummy.mmap = dummy.mmap2 = dummy.comm = dummy.comm_exec = 1;
	dummy.task = 1;
	dummy.context_switch = 1;
	dummy.build_id = 1;
	ret = writer_attr_add(w, &pt, "intel_pt//u", &ids[0], 1);
	if (!ret)
		ret = writer_attr_add(w, &dummy, "dummy:u", &ids[1], 1);
	return ret;
}

/* The fields that are set, as an event has them. */
static void list_terms(uint64_t config, char *buf, size_t len)
{
	size_t i, used = 0;

	*buf = '\0';
	for (i = 0; i < N_FIELDS && used < len; i++) {
		uint64_t v = get(config, fields[i].name);
		bool flag = fields[i].lo == fields[i].hi;
		const char *sep = used ? "," : "";

		if (flag && v)
			used += (size_t)snprintf(buf + used, len - used, "%s%s",
						 sep, fields[i].name);
		else if (!flag)
			used += (size_t)snprintf(buf + used, len - used,
						 "%s%s=%llu", sep,
						 fields[i].name,
						 (unsigned long long)v);
	}
}

/* A key for each line: not_traced.0=program (process N): why */
static void put_not_traced(const char *lines, char *buf, size_t len)
{
	size_t n, used = 0;
	unsigned i;

	for (i = 0; *lines && used < len; i++) {
		n = strcspn(lines, "\n");
		used += (size_t)snprintf(buf + used, len - used,
					 "not_traced.%u=%.*s\n", i, (int)n,
					 lines);
		lines += n + (lines[n] != '\0');
	}
}

/* Again at the end when there is more to say of the source. */
static int add_features(const struct soft_pt *sp, struct writer *w)
{
	static const struct features_pmu pmus[] = {
		{ PMU_TYPE, "intel_pt" },
		{ PERF_TYPE_SOFTWARE, "software" },
	};
	char terms[256], text[1024];
	int ret, used;

	list_terms(sp->config.attr_config, terms, sizeof(terms));
	used = snprintf(text, sizeof(text),
		 "source=soft_pt\nbackend=%s\nclock=virtual\n"
		 "tool=auxcap " AUXKIT_VERSION "\nterms=%s%s\n",
		 sp->step ? "step" : "emulate", terms,
		 sp->config.defer_tip ? ",defer_tip" : "");
	put_not_traced(sp->result->not_traced, text + used,
		       sizeof(text) - (size_t)used);
	ret = features_pmu_mappings(w, pmus, 2);
	if (!ret)
		ret = features_source(w, text);
	return ret;
}

static void add_counts(const struct soft_stats *stats, struct ledger *l)
{
	const struct {
		enum aux_ledger_cause cause;
		uint64_t n;
	} counts[] = {
		{ AUX_LEDGER_NOT_TRACED, stats->n_not_traced },
		{ AUX_LEDGER_KILLED, stats->n_killed },
		{ AUX_LEDGER_ENDLESS, stats->n_endless },
		{ AUX_LEDGER_UNEXPLAINED, stats->n_unexplained },
		{ AUX_LEDGER_INJECTED, stats->n_injected },
	};
	size_t i;

	for (i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		if (counts[i].n)
			ledger_add(l, LEDGER_NO_STREAM, counts[i].cause,
				   counts[i].n, 0, 0);
}

/* Every stream's bytes; the encoder's own count stands against them. */
static int fill_ledger(struct writer *w, const struct soft_stats *stats,
		       struct ledger *l, struct aux_diag *diag)
{
	const struct writer_stream *s;
	uint64_t total = 0;
	size_t i, n;

	writer_finish(w);	/* from here on they are final */
	s = writer_streams(w, &n);
	for (i = 0; i < n; i++) {
		ledger_produced(l, s[i].idx, s[i].end);
		ledger_add(l, s[i].idx, AUX_LEDGER_SAVED, s[i].saved, 0, 0);
		if (s[i].unwritten)
			ledger_add(l, s[i].idx, AUX_LEDGER_UNWRITTEN,
				   s[i].unwritten, 0, 0);
		total += s[i].end;
	}
	add_counts(stats, l);
	if (total != stats->aux_bytes)
		return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
				"the encoder made %llu bytes of trace, the "
				"streams have %llu",
				(unsigned long long)stats->aux_bytes,
				(unsigned long long)total);
	return ledger_check(l, diag);
}

static int run_soft_pt(void *src, struct output *out, struct ledger *ledger,
		       struct source_result *result, struct aux_diag *diag)
{
	struct writer *w = output_writer(out);
	struct soft_pt *sp = src;
	struct soft_stats stats = { 0 };
	struct aux_diag late = { 0 };
	struct soft *s;
	int ret, err, balance;

	memset(result, 0, sizeof(*result));
	sp->ledger = ledger;
	sp->result = result;
	ret = features_host(w, sp->job->argc, sp->job->args);
	if (!ret)
		ret = add_attrs(sp, w);
	if (!ret)
		ret = add_features(sp, w);
	if (ret)
		return diag_set(diag, -ret, AUX_NO_OFFSET, "%s",
				aux_strerror(ret));
	ret = soft_open(&s, &sp->config, w, diag);
	if (ret)
		return ret;
	if (sp->step)
		ret = soft_step_run(s, &sp->program, &result->status, diag);
	else
		ret = soft_emulate_run(s, &sp->program, &result->status, diag);
	err = soft_close(s, &stats, &late);
	if (*result->not_traced && !err && (err = add_features(sp, w)))
		diag_set(&late, -err, AUX_NO_OFFSET, "%s", aux_strerror(err));
	/* after an error too: what was saved, and what was not */
	balance = fill_ledger(w, &stats, ledger, err ? NULL : &late);
	err = err ? err : balance;
	result->n_insns = stats.n_insns;
	result->n_threads = stats.n_threads;
	if (!ret && err && diag)
		*diag = late;
	return ret ? ret : err;
}

const struct source_ops source_soft_pt = {
	.name = "soft_pt",
	.help = "Intel PT made by software: any x86-64 machine, user code",
	.open = open_soft_pt,
	.run = run_soft_pt,
	.close = close_soft_pt,
};
