/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What soft_pt and soft_etm have in common as recording sources.
 *
 * The AUXKIT_SOURCE feature declares the virtual clock, and which source and
 * back end made the recording with what terms: a reader must not take the times
 * for measured.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/diag.h"
#include "common/version.h"

#include "capture/describe/describe.h"
#include "capture/soft/impl.h"

#define PMU_TYPE 8	/* above all PERF_TYPE_*; PMU_MAPPINGS gives it its name */
/* The kernel's event ids are arbitrary; two of our own tell the records
 * apart. */
#define EVENT_ID 1
#define DUMMY_ID 2

/* Enters the time that a stream covers; fill_ledger enters its bytes at the
 * end. */
static void enter_span(void *priv, uint32_t idx, uint64_t first_ns,
		      uint64_t last_ns)
{
	struct source_soft *sp = priv;

	ledger_add(sp->ledger, idx, AUX_LEDGER_SAVED, 0, first_ns, last_ns);
}

/* Appends a line to result->not_traced. Control characters of the name become
 * '?'. */
static void add_not_traced(void *priv, uint32_t pid, const char *program,
			    const char *why)
{
	char *text = ((struct source_soft *)priv)->result->not_traced;
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

/* soft's progress in the terms of the recording job. */
static void forward_progress(void *priv, const struct soft_stats *stats)
{
	const struct source_job *job = priv;

	job->progress(job->progress_priv, stats->n_insns, stats->aux_bytes);
}

/* The configuration before the event's terms; as many virtual CPUs as real
 * ones, so that traces of parallel programs look usual. */
static struct source_soft *new_source(const struct source_soft_kind *kind,
				      const struct source_job *job)
{
	struct source_soft *sp = calloc(1, sizeof(*sp));
	long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);

	if (!sp)
		return NULL;
	sp->kind = kind;
	sp->job = job;
	sp->config = (struct soft_config){
		.per_thread = job->per_thread,
		.n_cpus = n_cpus > 0 ? (uint32_t)n_cpus : 1,
		.inject_overflow = job->inject_overflow,
		.event_id = EVENT_ID,
		.sideband_id = DUMMY_ID,
		.attr_config = kind->config,
		.pmu_type = PMU_TYPE,
		.start_ns = clock_ns(),
		.truth_path = job->truth_path,
		.ring_bytes = job->ring_bytes,
		.max_size = job->max_size,
		.end = job->end,
		.snapshot_at_exit = job->snapshot_at_exit,
		.asked = job->asked,
		.stream_end = enter_span,
		.not_traced = add_not_traced,
		.priv = sp,
	};
	sp->program = (struct soft_program){
		.machine = kind->machine,
		.argv = job->argv,
		.triggers = job->triggers,
		.snapshot = job->ring_bytes != 0,
		.self_dir = job->self_dir,
		.truth = job->truth_path != NULL,
		.progress = job->progress ? forward_progress : NULL,
		.progress_priv = (void *)(uintptr_t)job,
		.stop = job->stop,
		.verbose = job->verbose,
	};
	return sp;
}

int source_soft_config(struct source_soft *sp, const struct event_spec *event,
		       struct aux_diag *diag)
{
	const struct source_soft_kind *kind = sp->kind;

	return event_config(event, kind->fields, kind->n_fields, kind->words,
			    &sp->config.attr_config, diag);
}

uint64_t source_soft_term(const struct source_soft *sp, const char *name)
{
	return event_get(sp->kind->fields, sp->kind->n_fields, name,
			 sp->config.attr_config);
}

int source_soft_check_user(const struct source_soft *sp, struct aux_diag *diag)
{
	const struct event_spec *event = sp->job->event;

	if (event->has_modifiers && event->kernel)
		return event_refuse(diag, event, "%s follows user code only; "
				    "the legal modifier is u", sp->kind->name);
	return 0;
}

/* Whatever can be refused is refused now, before there is a file. */
static int open_target(struct source_soft *sp, struct aux_diag *diag)
{
	int ret = target_open(&sp->target, sp->job->attach, diag);

	if (ret)
		return ret;
	sp->program.target = &sp->target;
	return soft_step_check(&sp->target, diag);
}

int source_soft_open(void **src, const struct source_soft_kind *kind,
		     const struct source_job *job, struct aux_diag *diag)
{
	struct source_soft *sp = new_source(kind, job);
	int ret;

	*src = NULL;
	if (!sp)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	ret = kind->parse_event(sp, diag);
	if (!ret && job->filter)
		ret = addrfilter_list(job->filter, &sp->filters,
				      &sp->config.n_filters, diag);
	sp->config.filters = sp->filters;
	if (!ret && job->attach)
		ret = open_target(sp, diag);
	if (ret) {
		source_soft_close(sp);
		return ret;
	}
	*src = sp;
	return 0;
}

void source_soft_close(void *src)
{
	struct source_soft *sp = src;

	if (sp && sp->program.target)
		target_close(&sp->target);
	if (sp)
		addrfilter_free(sp->filters, sp->config.n_filters);
	free(sp);
}

/*
 * The attrs of the trace event and of a dummy for the side-band, as perf record
 * writes them for Intel PT and CoreSight.
 */
static int add_attrs(const struct source_soft *sp, struct writer *w)
{
	const uint64_t ids[2] = { EVENT_ID, DUMMY_ID };
	struct perf_event_attr trace = {
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
	struct perf_event_attr dummy = trace;
	int ret;

	dummy.type = PERF_TYPE_SOFTWARE;
	dummy.config = PERF_COUNT_SW_DUMMY;
	dummy.mmap = dummy.mmap2 = dummy.comm = dummy.comm_exec = 1;
	dummy.task = 1;
	dummy.context_switch = 1;
	dummy.build_id = 1;
	ret = writer_attr_add(w, &trace, sp->kind->event, &ids[0], 1);
	if (!ret)
		ret = writer_attr_add(w, &dummy, "dummy:u", &ids[1], 1);
	return ret;
}

/* The terms of config in the notation of an event. */
static void list_terms(const struct source_soft_kind *kind, uint64_t config,
		       char *buf, size_t len)
{
	size_t i, used = 0;

	*buf = '\0';
	for (i = 0; i < kind->n_fields && used < len; i++) {
		const struct event_field *f = &kind->fields[i];
		uint64_t v = event_get(kind->fields, kind->n_fields, f->name,
				       config);
		bool flag = f->lo == f->hi;
		const char *sep = used ? "," : "";

		if (flag && v)
			used += (size_t)snprintf(buf + used, len - used, "%s%s",
						 sep, f->name);
		else if (!flag && f->legal != 1)
			used += (size_t)snprintf(buf + used, len - used,
						 "%s%s=%llu", sep, f->name,
						 (unsigned long long)v);
	}
}

/* One key per line: not_traced.0=program (process N): why */
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

/* Written again at the end if processes were not traced; the last one
 * counts. */
static int add_features(const struct source_soft *sp, struct writer *w)
{
	const struct features_pmu pmus[] = {
		{ PMU_TYPE, sp->kind->pmu },
		{ PERF_TYPE_SOFTWARE, "software" },
	};
	char terms[256], text[1024];
	int ret, used;

	list_terms(sp->kind, sp->config.attr_config, terms, sizeof(terms));
	used = snprintf(text, sizeof(text),
		 "source=%s\nbackend=%s\nclock=virtual\n"
		 "tool=auxcap " AUXKIT_VERSION "\nterms=%s%s%s\n",
		 sp->kind->name, sp->native ? "native" : sp->step ? "step" :
		 "emulate", terms,
		 *terms && *sp->more_terms ? "," : "", sp->more_terms);
	put_not_traced(sp->result->not_traced, text + used,
		       sizeof(text) - (size_t)used);
	ret = features_pmu_mappings(w, pmus, 2);
	if (!ret)
		ret = features_source(w, text);
	return ret;
}

/* HEADER_ARCH is the traced program's machine, not the host's: readers decode by
 * it. */
static int put_arch(const struct source_soft *sp, struct writer *w)
{
	struct {
		uint32_t len;
		char text[64];
	} arch = { .len = sizeof(arch.text) };

	snprintf(arch.text, sizeof(arch.text), "%s", sp->kind->arch);
	return writer_feature(w, AUX_FEAT_ARCH, &arch, sizeof(arch));
}

/* Losses that are counts, not bytes of a stream. */
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
		{ AUX_LEDGER_ABANDONED, stats->n_abandoned },
	};
	size_t i;

	for (i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		if (counts[i].n)
			ledger_add(l, LEDGER_NO_STREAM, counts[i].cause,
				   counts[i].n, 0, 0);
}

/* Enters every stream's bytes and checks their sum against the encoder's own
 * count. */
static int fill_ledger(struct writer *w, const struct soft_stats *stats, bool snapshot,
		       struct ledger *l, struct aux_diag *diag)
{
	const struct writer_stream *s;
	uint64_t total = 0;
	size_t i, n;

	writer_finish(w);	/* the counts are final from here on */
	s = writer_streams(w, &n);
	for (i = 0; i < n; i++) {
		ledger_produced(l, s[i].idx, s[i].end);
		ledger_add(l, s[i].idx, AUX_LEDGER_SAVED, s[i].saved, 0, 0);
		/* what a snapshot finds no more; without one nothing is missing */
		if (snapshot && s[i].end > s[i].saved + s[i].unwritten)
			ledger_add(l, s[i].idx, AUX_LEDGER_OVERWRITTEN,
				   s[i].end - s[i].saved - s[i].unwritten, 0, 0);
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

/*
 * Errors: that of the back end counts first, then that of writing, then a
 * ledger that does not balance; the features that precede the data are written
 * even for a run that fails, so that what was recorded can be read.
 */
int source_soft_run(void *src, struct output *out, struct ledger *ledger,
		    struct source_result *result, struct aux_diag *diag)
{
	struct writer *w = output_writer(out);
	struct source_soft *sp = src;
	struct soft_stats stats = { 0 };
	struct aux_diag late = { 0 };
	struct soft *s;
	int ret, err, balance;

	memset(result, 0, sizeof(*result));
	sp->ledger = ledger;
	sp->result = result;
	sp->program.notes = result->notes;
	sp->program.notes_size = sizeof(result->notes);
	ret = features_host(w, sp->job->argc, sp->job->args);
	if (!ret)
		ret = put_arch(sp, w);
	if (!ret)
		ret = add_attrs(sp, w);
	if (!ret)
		ret = add_features(sp, w);
	if (ret)
		return diag_set(diag, -ret, AUX_NO_OFFSET, "%s",
				aux_strerror(ret));
	if (sp->job->delay_ms) {
		ret = later_begin(sp->job, &sp->program.joined, &result->status, diag);
		sp->config.start_ns = clock_ns();
		if (ret)
			return ret;
	}
	ret = soft_open(&s, &sp->config, w, diag);
	if (ret) {
		if (sp->program.joined)
			kill(sp->program.joined, SIGKILL);
		return ret;
	}
	if (sp->native)
		ret = soft_native_run(s, &sp->program, &result->status, diag);
	else if (sp->step)
		ret = soft_step_run(s, &sp->program, &result->status, diag);
	else
		ret = soft_emulate_run(s, &sp->program, &result->status, diag);
	if (*sp->note)
		snprintf(result->notes, sizeof(result->notes), "%s", sp->note);
	err = soft_close(s, &stats, &late);
	if (*result->not_traced && !err && (err = add_features(sp, w)))
		diag_set(&late, -err, AUX_NO_OFFSET, "%s", aux_strerror(err));
	/* After an error too: the ledger says what was saved and what was
	 * not. */
	balance = fill_ledger(w, &stats, sp->job->ring_bytes, ledger, err ? NULL : &late);
	err = err ? err : balance;
	result->n_insns = stats.n_insns;
	result->n_threads = stats.n_threads;
	result->n_snapshots = stats.n_snapshots;
	result->full = sp->config.max_size && writer_size(w) >= sp->config.max_size;
	/* a back end that could not write leaves the reason to soft_close() */
	if (err && diag && (!ret || !diag->text[0]))
		*diag = late;
	ret = ret ? ret : err;
	if (ret && diag && !diag->text[0])
		diag_set(diag, -ret, AUX_NO_OFFSET, "%s", aux_strerror(ret));
	return ret;
}
