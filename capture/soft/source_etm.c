/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * soft_etm: CoreSight without CoreSight. An aarch64 program runs under an
 * emulator, or by single steps on its own processor, and the file reads as one of
 * "perf record -e cs_etm//u".
 *
 * Invariant: config has the bits of the real PMU's format directory (Linux 6.1,
 * drivers/hwtracing/coresight/coresight-etm-perf.c).
 */
#include <elf.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "common/diag.h"

#include "capture/soft/impl.h"

#define N_FIELDS (sizeof(fields) / sizeof(*fields) - 1)
#define ON_OFF 0x3
#define OFF 0x1

#define CPUS_MAX 48	/* trace IDs end at 0x6f */
#define CC_THRESHOLD 256	/* the driver's */
#define SYNC_PERIOD 12

/* table */
static const struct event_field fields[] = {
	{ "preset", 0, 3, OFF, "soft_etm has no configurations with presets" },
	{ "branch_broadcast", 8, 8, ON_OFF, NULL },
	{ "cycacc", 12, 12, ON_OFF, NULL },
	{ "contextid1", 14, 14, ON_OFF, NULL },
	{ "contextid2", 15, 15, ON_OFF, NULL },
	{ "timestamp", 28, 28, ON_OFF, NULL },
	{ "retstack", 29, 29, ON_OFF, NULL },
	{ .name = NULL },
};

/* Our own terms, that are not part of config. */
static const char *const words[] = { "emulate", "etmv4", "ete", "framed", "raw", "shared",
				     SOFT_HOST == EM_AARCH64 ? "step" : NULL, NULL };

/* As the kernel's events by default, where one CPU's trace holds many threads:
 * timestamp, contextid1. */
#define DEFAULT_CONFIG 0x10004000

/* Terms of the real driver that pause the trace unit by its own counters. */
static bool is_strobe(const char *name)
{
	static const char *const names[] = { "configid", "strobing", "strobe",
					     "autofdo", "window", "period" };
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

/* A term that is a number. */
static int parse_number(const struct event_spec *event,
		       const struct event_term *t, uint32_t min, uint32_t max,
		       uint32_t *v, struct aux_diag *diag)
{
	uint64_t n;

	if (!event_number(t->value, &n) || n < min || n > max)
		return event_refuse(diag, event, "%s is %u to %u", t->name, min,
				    max);
	*v = (uint32_t)n;
	return 0;
}

/*
 * Handles the terms that the real PMU does not have in config, and copies the
 * rest to terms for the table; returns how many those are.
 */
static int split_terms(const struct event_spec *event, struct event_term *terms,
		      struct soft_etm *etm, struct aux_diag *diag)
{
	size_t i, n = 0;
	int ret = 0;

	for (i = 0; i < event->n_terms && !ret; i++) {
		const struct event_term *t = &event->terms[i];

		if (!strcmp(t->name, "cc_threshold")) {
			ret = parse_number(event, t, 4, 4095, &etm->cc_threshold,
					  diag);
		} else if (!strcmp(t->name, "sync_period")) {
			ret = parse_number(event, t, 8, 20, &etm->sync_period,
					  diag);
		} else if (is_strobe(t->name)) {
			ret = event_refuse(diag, event, "%s is not possible: "
					   "soft_etm traces without a pause",
					   t->name);
		} else if (!strcmp(t->name, "native")) {
			ret = event_refuse(diag, event, "native is not possible: it "
					   "follows x86-64 instructions alone, and "
					   "soft_etm runs programs under qemu-aarch64");
		} else if (!strcmp(t->name, "step") && SOFT_HOST != EM_AARCH64) {
			ret = event_refuse(diag, event, "step is not possible: it "
					   "runs programs on this machine's processor; "
					   "without it they run under qemu-aarch64");
		} else if (*t->name == '@') {
			ret = event_refuse(diag, event, "soft_etm has no sinks "
					   "to choose from; shared puts all "
					   "CPUs into one");
		} else {
			terms[n] = *t;
			if (!strcmp(t->name, "contextid"))
				terms[n].name = "contextid1";
			n++;
		}
	}
	return ret ? ret : (int)n;
}

static int parse_terms(struct source_soft *sp, struct aux_diag *diag)
{
	const struct event_spec *event = sp->job->event;
	struct event_spec rest = *event;
	int ret;

	rest.terms = calloc(event->n_terms + 1, sizeof(*rest.terms));
	if (!rest.terms)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	ret = split_terms(event, rest.terms, &sp->config.etm, diag);
	if (ret >= 0) {
		rest.n_terms = (size_t)ret;
		ret = source_soft_config(sp, &rest, diag);
	}
	free(rest.terms);
	return ret;
}

static int exclude(const struct event_spec *event, const char *a, const char *b,
		   struct aux_diag *diag)
{
	if (event_has(event, a) && event_has(event, b))
		return event_refuse(diag, event, "%s and %s exclude each other",
				    a, b);
	return 0;
}

/* Terms that are legal alone but not together. */
static int check_terms(const struct source_soft *sp, struct aux_diag *diag)
{
	const struct event_spec *event = sp->job->event;
	bool per_thread = sp->job->per_thread;

	if (exclude(event, "etmv4", "ete", diag) ||
	    exclude(event, "emulate", "step", diag) ||
	    exclude(event, "framed", "raw", diag) ||
	    exclude(event, "shared", "raw", diag) ||
	    source_soft_check_user(sp, diag))
		return -AUX_E_INVAL;
	if (sp->job->filter)
		return event_refuse(diag, event, "soft_etm has no address "
				    "filters: leave --filter out");
	if (event_has(event, "shared") && per_thread)
		return event_refuse(diag, event, "shared is a sink of all "
				    "CPUs, not of one thread");
	if (event_has(event, "cc_threshold") && !source_soft_term(sp, "cycacc"))
		return event_refuse(diag, event, "cc_threshold needs cycacc");
	if (!per_thread && !source_soft_term(sp, "contextid1") &&
	    !source_soft_term(sp, "contextid2") &&
	    !source_soft_term(sp, "timestamp"))
		return event_refuse(diag, event, "no contextid and no "
				    "timestamp need --per-thread: threads that "
				    "share a CPU's trace could not be told "
				    "apart");
	return 0;
}

static void fill_config(struct source_soft *sp)
{
	const struct event_spec *event = sp->job->event;
	struct soft_etm *etm = &sp->config.etm;

	sp->config.trace = SOFT_TRACE_ETM;
	sp->step = event_has(event, "step");
	if (sp->config.n_cpus > CPUS_MAX)
		sp->config.n_cpus = CPUS_MAX;
	etm->ete = event_has(event, "ete");
	etm->raw = event_has(event, "raw");
	etm->shared = event_has(event, "shared");
	etm->timestamp = source_soft_term(sp, "timestamp");
	etm->contextid = source_soft_term(sp, "contextid1");
	etm->vmid = source_soft_term(sp, "contextid2");
	etm->cycacc = source_soft_term(sp, "cycacc");
	etm->retstack = source_soft_term(sp, "retstack");
	etm->broadcast = source_soft_term(sp, "branch_broadcast");
	snprintf(sp->more_terms, sizeof(sp->more_terms),
		 "%s,%s%s,cc_threshold=%u,sync_period=%u",
		 etm->ete ? "ete" : "etmv4", etm->raw ? "raw" : "framed",
		 etm->shared ? ",shared" : "", etm->cc_threshold,
		 etm->sync_period);
}

static int parse_event(struct source_soft *sp, struct aux_diag *diag)
{
	int ret;

	if (sp->job->attach)
		return event_refuse(diag, sp->job->event, "soft_etm runs a "
				    "program from its start, in an emulator: "
				    "auxcap -e soft_etm//u -- PROGRAM");
	sp->config.etm.cc_threshold = CC_THRESHOLD;
	sp->config.etm.sync_period = SYNC_PERIOD;
	ret = parse_terms(sp, diag);
	if (!ret)
		ret = check_terms(sp, diag);
	if (!ret)
		fill_config(sp);
	return ret;
}

static const struct source_soft_kind kind = {
	.name = "soft_etm",
	.pmu = "cs_etm",
	.event = "cs_etm//u",
	.arch = "aarch64",
	.machine = EM_AARCH64,
	.fields = fields,
	.n_fields = N_FIELDS,
	.words = words,
	.config = DEFAULT_CONFIG,
	.parse_event = parse_event,
};

static int open_soft_etm(void **src, const struct source_job *job,
			 struct aux_diag *diag)
{
	return source_soft_open(src, &kind, job, diag);
}

const struct source_ops source_soft_etm = {
	.name = "soft_etm",
	.fields = fields,
	.words = words,
	.help = "CoreSight trace made by software: aarch64 programs, user code",
	.open = open_soft_etm,
	.run = source_soft_run,
	.close = source_soft_close,
};
