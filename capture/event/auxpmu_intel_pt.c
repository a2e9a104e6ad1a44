/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxpmu_intel_pt: checks the event's terms against the CPU's capabilities, and
 * writes AUXTRACE_INFO.
 *
 * pt_event_valid() answers EINVAL to any term that the CPU lacks; here the
 * error names the term and its legal values.
 * Specification: Linux 6.1 arch/x86/events/intel/pt.c (format, caps,
 * pt_event_valid()); perf-intel-pt(1); Intel SDM volume 3, chapter "Intel
 * Processor Trace".
 */
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include <aux/decoder.h>
#include "common/diag.h"

#include "capture/event/auxpmu.h"

static uint64_t get(const struct evlist_event *ev, const char *name)
{
	const struct pmu_format *f = pmu_format_find(ev->pmu, name);

	return f ? pmu_format_get(f, &ev->attr) : 0;
}

/* Sets a default, unless the PMU has no such field. */
static void set(struct evlist_event *ev, const char *name, uint64_t value)
{
	const struct pmu_format *f = pmu_format_find(ev->pmu, name);

	if (f)
		pmu_format_set(f, &ev->attr, value);
}

/* want if its bit is set in legal, else the next lower legal value, else the
 * lowest. */
static unsigned pick(uint64_t legal, unsigned want)
{
	unsigned v = want;

	while (v && !(legal >> v & 1))
		v--;
	return legal >> v & 1 ? v : (unsigned)__builtin_ctzll(legal);
}

/* perf's defaults (intel_pt_default_config()): TSC; MTC with period 3, one
 * packet per 2^3 crystal clocks; PSB period 3, a PSB per 2^(3+11) = 16 KB. */
static void set_defaults(struct evlist_event *ev)
{
	uint64_t mtc = pmu_cap(ev->pmu, "mtc_periods", 0);
	uint64_t psb = pmu_cap(ev->pmu, "psb_periods", 0);

	set(ev, "tsc", 1);
	if (pmu_cap(ev->pmu, "mtc", 0) && mtc) {
		set(ev, "mtc", 1);
		set(ev, "mtc_period", pick(mtc, 3));
	}
	if (pmu_cap(ev->pmu, "psb_cyc", 0) && psb)
		set(ev, "psb_period", pick(psb, 3));
	/* Config bit 0, "pt" (RTIT_CTL_PASSTHROUGH), makes the driver honour
	 * "branch" (BranchEn). Older drivers have neither and always trace
	 * branches. */
	if (pmu_format_find(ev->pmu, "pt")) {
		set(ev, "pt", 1);
		set(ev, "branch", 1);
	}
}

static void list_bits(char *text, size_t len, uint64_t bits)
{
	size_t used = 0;
	unsigned v;

	*text = '\0';
	for (v = 0; v < 64 && used < len; v++)
		if (bits >> v & 1)
			used += (size_t)snprintf(text + used, len - used,
						 "%s%u", used ? ", " : "", v);
}

/* Checks the fields whose legal values are the set bits of a capability. 0 is
 * also legal, as "unused", unless the packets it is the period of are on. */
static int check_values(const struct evlist_event *ev, struct aux_diag *diag)
{
	static const struct {
		const char *term, *cap, *on;
	} fields[] = {
		{ "mtc_period", "mtc_periods", "mtc" },
		{ "cyc_thresh", "cycle_thresholds", NULL },
		{ "psb_period", "psb_periods", NULL },
	};
	char text[128];
	size_t i;

	for (i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		uint64_t bits = pmu_cap(ev->pmu, fields[i].cap, 0);
		uint64_t v = get(ev, fields[i].term);

		if (!fields[i].on || !get(ev, fields[i].on))
			bits |= 1;
		if (v < 64 && bits >> v & 1)
			continue;
		list_bits(text, sizeof(text), bits);
		return event_refuse(diag, &ev->spec, "%s=%llu is not possible "
				    "on this CPU; legal: %s (caps/%s)",
				    fields[i].term, (unsigned long long)v, text,
				    fields[i].cap);
	}
	return 0;
}

/* Checks the terms that a CPU either has or lacks. */
static int check_flags(const struct evlist_event *ev, struct aux_diag *diag)
{
	static const struct {
		const char *term, *cap;
	} flags[] = {
		{ "cyc", "psb_cyc" },
		{ "mtc", "mtc" },
		{ "ptw", "ptwrite" },
		{ "fup_on_ptw", "ptwrite" },
		{ "pwr_evt", "power_event_trace" },
		{ "event", "event_trace" },
		{ "notnt", "tnt_disable" },
	};
	size_t i;

	for (i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		if (get(ev, flags[i].term) &&
		    !pmu_cap(ev->pmu, flags[i].cap, 0))
			return event_refuse(diag, &ev->spec, "%s is not "
					    "possible on this CPU (caps/%s is "
					    "0)", flags[i].term, flags[i].cap);
	return 0;
}

/* Checks and fixes combinations. */
static int check_terms(struct evlist_event *ev, struct aux_diag *diag)
{
	if (get(ev, "fup_on_ptw") && !get(ev, "ptw"))
		return event_refuse(diag, &ev->spec, "fup_on_ptw needs ptw");
	if (!get(ev, "pt") && get(ev, "branch")) {
		if (event_has(&ev->spec, "branch"))
			return event_refuse(diag, &ev->spec, "branch needs pt");
		/* Without pt the driver traces branches by itself, and
		 * pt_event_valid() refuses the bit. */
		set(ev, "branch", 0);
	}
	if (event_has(&ev->spec, "config"))
		return 0;
	/* Our default period of packets that the user turned off. */
	if (!get(ev, "mtc") && !event_has(&ev->spec, "mtc_period"))
		set(ev, "mtc_period", 0);
	return 0;
}

static int configure(struct evlist_event *ev, const struct evlist_options *o,
		     struct aux_diag *diag)
{
	int ret;

	(void)o;
	set_defaults(ev);
	ret = pmu_config(ev->pmu, &ev->spec, evlist_aux_words, &ev->attr, diag);
	if (!ret)
		ret = check_terms(ev, diag);
	if (!ret)
		ret = check_flags(ev, diag);
	return ret ? ret : check_values(ev, diag);
}

/* The bits of a field in config; 0: there is no such field. */
static uint64_t mask_of(const struct evlist_event *ev, const char *name)
{
	const struct pmu_format *f = pmu_format_find(ev->pmu, name);

	return f && !f->word ? f->mask : 0;
}

/* TSC ticks per crystal clock tick (ART), n/d; 0/0: unknown. From sysfs, on
 * older kernels from CPUID leaf 15H, unless the PMU is another machine's. */
static void read_ratio(const struct pmu *pmu, uint64_t *n, uint64_t *d)
{
	char text[64], *end;

	*n = *d = 0;
	if (!pmu_read(pmu, "tsc_art_ratio", text, sizeof(text))) {
		*n = strtoull(text, &end, 10);
		if (*end == ':')
			*d = strtoull(end + 1, NULL, 10);
	}
#ifdef __x86_64__
	unsigned a = 0, b = 0, c = 0, x = 0;

	if ((!*n || !*d) && !strncmp(pmu->dir, PMU_SYSFS, strlen(PMU_SYSFS)) &&
	    __get_cpuid(0x15, &a, &b, &c, &x)) {
		*n = b;
		*d = a;
	}
#endif
	if (!*n || !*d)
		*n = *d = 0;
}

static uint64_t nonturbo_ratio(const struct pmu *pmu)
{
	char text[32];

	if (pmu_read(pmu, "max_nonturbo_ratio", text, sizeof(text)))
		return 0;
	return strtoull(text, NULL, 10);
}

/* HAVE_SCHED_SWITCH as intel_pt_recording_options() sets it: 3 context switches
 * of whole CPUs, 2 of the target's tasks, 0 none. */
static uint64_t switch_mode(const struct auxpmu_env *env)
{
	if (env->per_thread)
		return 0;
	return env->cpu_wide_switch ? 3 : env->switch_records ? 2 : 0;
}

/* The words of AUXTRACE_INFO up to the filter string; *_BIT are masks in
 * config, by which decoders read the event's attr. */
static void fill_info(const struct evlist_event *ev,
		      const struct auxpmu_env *env,
		      const struct aux_rec_time_conv *tc, uint64_t *priv)
{
	priv[AUX_PT_PMU_TYPE] = ev->pmu->type;
	priv[AUX_PT_TIME_SHIFT] = tc->time_shift;
	priv[AUX_PT_TIME_MULT] = tc->time_mult;
	priv[AUX_PT_TIME_ZERO] = tc->time_zero;
	priv[AUX_PT_CAP_USER_TIME_ZERO] = tc->cap_user_time_zero;
	priv[AUX_PT_TSC_BIT] = mask_of(ev, "tsc");
	priv[AUX_PT_NORETCOMP_BIT] = mask_of(ev, "noretcomp");
	priv[AUX_PT_HAVE_SCHED_SWITCH] = switch_mode(env);
	priv[AUX_PT_SNAPSHOT_MODE] = env->snapshot;
	priv[AUX_PT_PER_CPU_MMAPS] = !env->per_thread;
	priv[AUX_PT_MTC_BIT] = mask_of(ev, "mtc");
	priv[AUX_PT_MTC_FREQ_BITS] = mask_of(ev, "mtc_period");
	read_ratio(ev->pmu, &priv[AUX_PT_TSC_CTC_N], &priv[AUX_PT_TSC_CTC_D]);
	priv[AUX_PT_CYC_BIT] = mask_of(ev, "cyc");
	priv[AUX_PT_MAX_NONTURBO_RATIO] = nonturbo_ratio(ev->pmu);
}

static int write_info(const struct evlist_event *ev,
		      const struct auxpmu_env *env, struct writer *w,
		      struct aux_diag *diag)
{
	size_t len = env->filter && *env->filter ? strlen(env->filter) : 0;
	/* With its NUL, padded to 8. */
	size_t words = len ? len / 8 + 1 : 0;
	uint64_t *priv = calloc(AUX_PT_N_PRIV + words, sizeof(*priv));
	struct aux_rec_time_conv tc;
	int ret;

	if (!priv)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	auxpmu_clock(env->page, &tc);
	fill_info(ev, env, &tc, priv);
	priv[AUX_PT_FILTER_STR_LEN] = len;
	if (len)
		memcpy(priv + AUX_PT_N_PRIV, env->filter, len);
	ret = auxpmu_info_write(w, AUX_TRACE_INTEL_PT, priv,
				AUX_PT_N_PRIV + words, &tc, diag);
	free(priv);
	return ret;
}

const struct auxpmu_ops auxpmu_intel_pt = {
	.name = "intel_pt",
	.trace = "Intel PT",
	.type = AUX_TRACE_INTEL_PT,
	.configure = configure,
	.info = write_info,
	.prepare = auxpmu_prepare,
	.snapshot = auxpmu_snapshot,
	.remember = auxpmu_remember,
	.release = auxpmu_release,
	.granule = 4096,
};
