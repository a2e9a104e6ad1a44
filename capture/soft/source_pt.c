/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * soft_pt: Intel PT without Intel PT. The program runs under a tracer, and the
 * file reads as one of "perf record -e intel_pt//u".
 *
 * Invariant: config has the bits of the real PMU's format directory (Linux 6.1,
 * arch/x86/events/intel/pt.c), and the rules of its pt_event_valid() hold.
 */
#include <elf.h>
#include <stdio.h>

#include "capture/soft/impl.h"
#include "common/diag.h"

#define N_FIELDS (sizeof(fields) / sizeof(*fields) - 1)

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
	{ .name = NULL },
};

/* Our own terms, that are not part of config. */
static const char *const words[] = {
	"emulate", "step", "native", "defer_tip", NULL
};

/* tsc,mtc,mtc_period=3,psb_period=3,branch,pt, as perf; and noretcomp: without
 * return compression a gap costs less. */
#define DEFAULT_CONFIG 0x300ee01

/* Terms that are legal alone but not together. */
static int check_terms(struct source_soft *sp, struct aux_diag *diag)
{
	const struct event_spec *event = sp->job->event;
	uint64_t *config = &sp->config.attr_config;

	if (event_has(event, "step") + event_has(event, "emulate") +
	    event_has(event, "native") > 1)
		return event_refuse(diag, event, "step, emulate and native "
				    "exclude each other");
	if ((sp->job->attach || sp->job->delay_ms) && event_has(event, "emulate"))
		return event_refuse(diag, event, "emulate runs a program from "
				    "its start: with -p, -t and -D leave it out");
	if (sp->job->triggers && event_has(event, "emulate"))
		return event_refuse(diag, event, "--when needs step or native");
	if (sp->job->ring_bytes && sp->job->per_thread)
		return event_refuse(diag, event, "-S keeps the trace of each CPU: "
				    "without --per-thread");
	if (SOFT_HOST != EM_X86_64 &&
	    (sp->job->attach || sp->job->delay_ms || event_has(event, "step") ||
	     event_has(event, "native")))
		return event_refuse(diag, event, "step, native, -p, -t and -D follow "
				    "x86-64 programs on x86-64 alone: on this "
				    "machine soft_pt emulates them");
	if (source_soft_check_user(sp, diag))
		return -AUX_E_INVAL;
	if (sp->job->filter && !source_soft_term(sp, "branch") &&
	    source_soft_term(sp, "pt"))
		return event_refuse(diag, event, "--filter needs branch");
	if (source_soft_term(sp, "fup_on_ptw") && !source_soft_term(sp, "ptw"))
		return event_refuse(diag, event, "fup_on_ptw needs ptw");
	if (!source_soft_term(sp, "pt")) {
		if (event_has(event, "branch"))
			return event_refuse(diag, event, "branch needs pt");
		/* branches are traced, but the bit must not be set */
		*config &= ~(UINT64_C(1) << 13);
	}
	if (!source_soft_term(sp, "tsc") && source_soft_term(sp, "mtc")) {
		if (event_has(event, "mtc"))
			return event_refuse(diag, event, "mtc needs tsc");
		*config &= ~(UINT64_C(1) << 9);
	}
	if (!source_soft_term(sp, "tsc") && !sp->job->per_thread)
		return event_refuse(diag, event, "tsc=0 needs --per-thread: "
				    "without time, threads that share a CPU's "
				    "trace cannot be told apart");
	return 0;
}

/* Without pt there is still a trace: the bit only makes branch selectable. */
static void fill_config(struct source_soft *sp)
{
	struct soft_config *c = &sp->config;

	c->trace = SOFT_TRACE_PT;
	c->tsc = source_soft_term(sp, "tsc");
	c->mtc = source_soft_term(sp, "mtc");
	c->cyc = source_soft_term(sp, "cyc");
	c->retcomp = !source_soft_term(sp, "noretcomp");
	c->branch = source_soft_term(sp, "branch") ||
		    !source_soft_term(sp, "pt");
	c->ptw = source_soft_term(sp, "ptw");
	c->fup_on_ptw = source_soft_term(sp, "fup_on_ptw");
	c->defer_tip = event_has(sp->job->event, "defer_tip");
	c->mtc_period = (uint32_t)source_soft_term(sp, "mtc_period");
	c->psb_period = (uint32_t)source_soft_term(sp, "psb_period");
	c->cyc_thresh = (uint32_t)source_soft_term(sp, "cyc_thresh");
}

/* The first of native, emulate and step that works here, where none was asked for. Whom
 * to attach to was checked before. */
static int choose_back_end(struct source_soft *sp, struct aux_diag *diag)
{
	const struct event_spec *event = sp->job->event;
	bool emulates = SOFT_HOST != EM_X86_64 || event_has(event, "emulate");
	struct soft_native n;

	sp->step = event_has(event, "step");
	sp->native = !sp->step && !emulates;
	if (!sp->native || event_has(event, "native") || sp->job->attach)
		return 0;
	soft_find_native(&n);
	if (n.runs)
		return 0;
	sp->native = false;
	if ((sp->job->triggers || sp->job->delay_ms) && !n.traces)
		return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET, "%s: %s; %s",
				sp->job->triggers ? "--when" : "-D", n.why, n.fix);
	sp->step = n.traces && (sp->job->triggers || sp->job->delay_ms ||
				!soft_can_emulate(sp->job->self_dir));
	if (!n.traces && !soft_can_emulate(sp->job->self_dir))
		return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET,
				"%s: %s; or install a qemu-user with plugins, which "
				"needs no ptrace (Debian 12: apt install qemu-user)",
				n.why, n.fix);
	snprintf(sp->note, sizeof(sp->note), "%s, so the program was %s; to run it "
		 "natively: %s", n.why, sp->step ? "stepped, which is slow" :
		 "emulated", n.fix);
	return 0;
}

/* Terms become config bits; the three words of our own select back end and
 * TIPs. */
static int parse_event(struct source_soft *sp, struct aux_diag *diag)
{
	int ret = source_soft_config(sp, sp->job->event, diag);

	if (!ret)
		ret = check_terms(sp, diag);
	if (!ret)
		ret = choose_back_end(sp, diag);
	if (ret)
		return ret;
	fill_config(sp);
	if (sp->config.defer_tip)
		snprintf(sp->more_terms, sizeof(sp->more_terms), "defer_tip");
	return 0;
}

static const struct source_soft_kind kind = {
	.name = "soft_pt",
	.pmu = "intel_pt",
	.event = "intel_pt//u",
	.arch = "x86_64",
	.machine = EM_X86_64,
	.fields = fields,
	.n_fields = N_FIELDS,
	.words = words,
	.config = DEFAULT_CONFIG,
	.parse_event = parse_event,
};

static int open_soft_pt(void **src, const struct source_job *job,
			struct aux_diag *diag)
{
	return source_soft_open(src, &kind, job, diag);
}

const struct source_ops source_soft_pt = {
	.name = "soft_pt",
	.fields = fields,
	.words = words,
	.help = "Intel PT made by software: x86-64 programs, user code",
	.open = open_soft_pt,
	.run = source_soft_run,
	.close = source_soft_close,
};
