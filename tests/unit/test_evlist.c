/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * Event lists: how -e becomes attrs, order, groups, side-band; and whether the kernel here
 * accepts the attrs that need no hardware.
 */
#include <errno.h>
#include <sys/syscall.h>

#include "capture/event/auxpmu.h"
#include "capture/event/evlist.h"
#include "tests/unit/sysfs.h"
#include "tests/unit/tap.h"

#define N(a) (sizeof(a) / sizeof(*(a)))
#define TRAILER                                                           \
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |           \
	 PERF_SAMPLE_IDENTIFIER)

static struct aux_diag diag;
static char tracefs[128];

static int open_list(struct evlist *l, const char *text,
		     const struct evlist_options *more)
{
	struct evlist_word word = { .text = text };
	struct evlist_options o = { 0 };

	if (more)
		o = *more;
	if (!o.n_words) {
		o.words = &word;
		o.n_words = 1;
	}
	o.sysfs = sysfs_root;
	o.tracefs = tracefs;
	diag.text[0] = '\0';
	return evlist_open(l, &o, &diag);
}

static bool opens(struct evlist *l, const char *text,
		  const struct evlist_options *o)
{
	return ok(!open_list(l, text, o), "%s %s", text, diag.text);
}

static void test_intel_pt(void)
{
	struct perf_event_attr *a;
	struct evlist l;

	if (!opens(&l, "intel_pt//u", NULL))
		return;
	a = &l.events[0].attr;
	ok(l.n == 3 && l.n_aux == 1 && l.sideband == 1, "and two dummies");
	is_u64(a->type, 8, "type");
	is_u64(a->config, 0x300e601, "the defaults of perf");
	is_u64(a->sample_period, 1, "period");
	is_u64(a->sample_type, TRAILER | PERF_SAMPLE_IP, "sample_type");
	ok(a->exclude_kernel && a->exclude_hv && !a->exclude_user &&
	   a->exclude_guest && a->inherit && a->disabled && a->sample_id_all &&
	   a->size == sizeof(*a) && a->read_format & PERF_FORMAT_ID, "bits");
	is_str(l.events[0].name, "intel_pt//u", "its name");
	ok(l.events[0].aux == &auxpmu_intel_pt, "Intel PT");
	a = &l.events[1].attr;
	ok(l.events[1].sideband && l.events[1].immediate &&
	   !l.events[1].any_task && a->mmap && a->mmap2 && a->comm &&
	   a->comm_exec && a->task && !a->context_switch && !a->ksymbol &&
	   (a->sample_type & TRAILER) == TRAILER && a->exclude_kernel &&
	   a->config == PERF_COUNT_SW_DUMMY && !a->freq, "side-band");
	a = &l.events[2].attr;
	ok(l.events[2].sideband && l.events[2].any_task &&
	   a->context_switch && !a->mmap && !a->task && !a->comm,
	   "switches of any task, alone");
	evlist_close(&l);
}

static void test_sideband(void)
{
	struct evlist_options o = { .system_wide = true };
	struct perf_event_attr *a;
	struct evlist l;

	if (opens(&l, "intel_pt//", &o)) {
		a = &l.events[1].attr;
		ok(l.n == 2 && a->context_switch && a->text_poke &&
		   a->ksymbol && a->bpf_event && !a->inherit,
		   "system wide: one, with the kernel's changes");
		evlist_close(&l);
	}
	o = (struct evlist_options){ .per_thread = true };
	if (opens(&l, "intel_pt//u", &o)) {
		ok(l.n == 2 && !l.events[1].attr.context_switch &&
		   !l.events[0].attr.inherit, "per thread: no switches");
		evlist_close(&l);
	}
	if (opens(&l, "cycles", NULL)) {
		ok(l.n == 2 && !l.n_aux && l.sideband == 1,
		   "no AUX event: side-band all the same");
		evlist_close(&l);
	}
}

static void test_pt_terms(void)
{
	static const struct { const char *text; uint64_t config; } good[] = {
		{ "intel_pt/cyc,cyc_thresh=2/u", 0x310e603 },
		{ "intel_pt/tsc=0,mtc=0/u", 0x3002001 },
		{ "intel_pt/mtc=0/u", 0x3002401 },
		{ "intel_pt/noretcomp,psb_period=0/u", 0xee01 },
		{ "intel_pt/branch=0/u", 0x300c601 },
		{ "intel_pt/pt=0/u", 0x300c600 },
		{ "intel_pt/mtc_period=9/", 0x3026601 },
		{ "intel_pt/config=0x400/", 0x400 },
	};
	static const struct { const char *text, *says; } bad[] = {
		{ "intel_pt/mtc_period=4/", "mtc_period=4 is not possible on "
		  "this CPU; legal: 0, 3, 6, 9 (caps/mtc_periods)" },
		{ "intel_pt/psb_period=6/", "legal: 0, 1, 2, 3, 4, 5" },
		{ "intel_pt/cyc,cyc_thresh=13/", "cyc_thresh=13" },
		{ "intel_pt/psb_period=16/", "legal: 0 to 0xf" },
		{ "intel_pt/ptw/", "ptw is not possible on this CPU" },
		{ "intel_pt/pwr_evt/", "power_event_trace" },
		{ "intel_pt/fup_on_ptw/", "fup_on_ptw needs ptw" },
		{ "intel_pt/pt=0,branch/", "branch needs pt" },
		{ "intel_pt/nope/", "no term 'nope'; it has: branch, cyc" },
		{ "intel_pt/period=3/", "no term 'period'" },
		{ "intel_pt//pp", "modifier 'p' has no use here; legal are u (user)" },
		{ "intel_pt//S", "modifier 'S'" },
	};
	struct evlist l;
	size_t i;

	for (i = 0; i < N(good); i++)
		if (opens(&l, good[i].text, NULL)) {
			is_u64(l.events[0].attr.config, good[i].config,
			       good[i].text);
			evlist_close(&l);
		}
	for (i = 0; i < N(bad); i++)
		ok(open_list(&l, bad[i].text, NULL) == -AUX_E_INVAL &&
		   strstr(diag.text, bad[i].says), "refused: %s", diag.text);
}

static void test_etm_terms(void)
{
	static const struct { const char *text, *says; } bad[] = {
		{ "cs_etm/@nope/u", "no sink 'nope'; it has: @tmc_et" },
		{ "cs_etm/@../type/u", "modifier 't'" },
		{ "cs_etm/@tmc_etr0,@tmc_etf0/u", "one sink" },
		{ "cs_etm/contextid2/u", "trace unit of CPU 0 lacks it" },
	};
	struct evlist_options o = { .per_thread = true };
	struct evlist l;
	size_t i;

	if (opens(&l, "cs_etm/@tmc_etr0/u", NULL)) {
		is_u64(l.events[0].attr.config2, 0x5a5ae001, "the sink's id");
		is_u64(l.events[0].attr.config, 1 << 28 | 1 << 14,
		       "timestamp and contextid");
		ok(l.events[0].aux == &auxpmu_cs_etm && l.events[0].pmu->n_cpus
		   == 2, "CoreSight");
		evlist_close(&l);
	}
	if (opens(&l, "cs_etm/timestamp=0,retstack,cycacc,preset=2,autofdo/",
		  NULL)) {
		is_u64(l.events[0].attr.config, 1 << 14 | 1 << 12 | 1 << 29 | 2,
		       "the user's word counts");
		is_u64(l.events[0].attr.config2 >> 32, 0x1b2c3d4e, "configid");
		evlist_close(&l);
	}
	if (opens(&l, "cs_etm//u", &o)) {
		is_u64(l.events[0].attr.config, 0, "per thread: neither");
		evlist_close(&l);
	}
	for (i = 0; i < N(bad); i++)
		ok(open_list(&l, bad[i].text, NULL) == -AUX_E_INVAL &&
		   strstr(diag.text, bad[i].says), "refused: %s", diag.text);
}

static void test_names(void)
{
	static const struct {
		const char *text;
		uint32_t type;
		uint64_t config;
	} good[] = {
		{ "cycles", 0, 0 }, { "cpu-cycles:u", 0, 0 },
		{ "ref-cycles", 0, 9 }, { "branches", 0, 4 },
		{ "cpu-clock", 1, 0 }, { "cs", 1, 3 }, { "dummy:u", 1, 9 },
		{ "L1-dcache-loads", 3, 0 },
		{ "LLC-store-misses", 3, 0x10102 },
		{ "iTLB-load-misses", 3, 0x10004 }, { "node-prefetches", 3, 0x206 },
		{ "r1a8", 4, 0x1a8 }, { "cpu/event=0x3c/u", 4, 0x3c },
		{ "aux_sim/fast/", 11, UINT64_C(0x8002010000000100) },
		{ "sched:sched_switch", 2, 316 }, { "software", 1, 0 },
	};
	static const char *const bad[] = {
		"nope", "nope//", "iTLB-stores", "rx1", "r11112222333344445",
		"sched:nope", "badtype//",
	};
	struct evlist l;
	size_t i;

	for (i = 0; i < N(good); i++) {
		if (!opens(&l, good[i].text, NULL))
			continue;
		ok(l.events[0].attr.type == good[i].type &&
		   l.events[0].attr.config == good[i].config,
		   "%s: type %u config %#llx", good[i].text,
		   l.events[0].attr.type, l.events[0].attr.config);
		evlist_close(&l);
	}
	for (i = 0; i < N(bad); i++)
		ok(open_list(&l, bad[i], NULL) < 0 && *diag.text && !l.events,
		   "refused: %s", diag.text);
}

static void test_sampling(void)
{
	struct evlist_options o = { .freq = 99, .callgraph = true };
	struct perf_event_attr *a;
	struct evlist l;

	if (opens(&l, "cycles:upp,intel_pt//u", &o)) {
		a = &l.events[1].attr;
		ok(l.n_aux == 1 && l.events[0].aux && !l.events[1].aux,
		   "the AUX event comes first");
		ok(a->freq && a->sample_freq == 99 && a->precise_ip == 2 &&
		   a->exclude_guest && a->sample_type & PERF_SAMPLE_PERIOD &&
		   a->sample_type & PERF_SAMPLE_CALLCHAIN, "-F, -g, pp");
		ok(!(l.events[0].attr.sample_type & PERF_SAMPLE_CALLCHAIN) &&
		   !l.events[0].attr.freq, "not for the AUX event");
		evlist_close(&l);
	}
	o = (struct evlist_options){ .period = 7, .overwrite = true };
	if (opens(&l, "cycles,cycles/period=5,name=mine/,cycles/freq=8/P", &o)) {
		ok(l.events[0].attr.sample_period == 7 &&
		   !l.events[0].attr.freq && l.events[0].attr.write_backward,
		   "-c, --overwrite");
		is_u64(l.events[1].attr.sample_period, 5, "period=5");
		is_str(l.events[1].name, "mine", "name=");
		ok(l.events[2].attr.freq && l.events[2].attr.sample_freq == 8,
		   "freq=8");
		is_u64(l.events[2].attr.precise_ip, 3, "P: caps/max_precise");
		ok(!l.events[l.sideband].attr.write_backward,
		   "side-band runs forward");
		evlist_close(&l);
	}
	if (opens(&l, "sched:sched_switch", NULL)) {
		a = &l.events[0].attr;
		ok(l.uses_tracepoints && a->sample_type & PERF_SAMPLE_RAW &&
		   a->sample_period == 1 && !a->freq, "a tracepoint's sample");
		evlist_close(&l);
	}
	o = (struct evlist_options){ .freq = 1000000000 };
	ok(open_list(&l, "cycles", &o) == -AUX_E_INVAL &&
	   strstr(diag.text, "max_sample_rate"), "%s", diag.text);
}

static void test_groups(void)
{
	struct evlist_options o = { .aux_sample_size = 4096 };
	static const struct { const char *text, *says; } bad[] = {
		{ "{cycles,intel_pt//}", "must come first in its group" },
		{ "{cycles,instructions", "'}' is missing" },
		{ "{cycles,{faults}}", "group within a group" },
		{ "{cycles}x", "comma" }, { "cycles,,faults", "empty" },
		{ "{}", "empty" }, { "cycles}", "comma" },
		{ "cycles/aux-output/", "need a group" },
		{ "{cycles,cs/aux-action=pause/}", "need a group" },
		{ "cs/aux-action=pause/,intel_pt//", "need a group" },
		{ "intel_pt//,{cs/aux-action=pause/,cycles}", "need a group" },
		{ "sched:sched_switch/period=2,bad=1/", "no term 'bad'" },
		{ "intel_pt/aux-action=pause/", "legal: start-paused" },
		{ "{intel_pt//,cs/aux-action=start-paused/}", "legal: pause" },
		{ "{intel_pt//,cs/aux-sample-size=61448/}", "legal: 0 to" },
		{ "{cycles,faults}:uS:k", "modifier ':'" },
	};
	struct evlist l;
	size_t i;

	if (opens(&l, "cs,{intel_pt//u,cycles:p,cs/aux-sample-size=8/}:u,{faults"
		  ",cycles}", &o)) {
		ok(l.events[0].leader == 0 && l.events[1].leader == 1 &&
		   l.events[2].leader == 0 && l.events[3].leader == 0 &&
		   l.events[4].leader == 4 && l.events[5].leader == 4,
		   "leaders go with their groups");
		is_str(l.events[2].name, "cycles:pu", "a member's name");
		ok(l.events[2].attr.aux_sample_size == 4096 &&
		   l.events[3].attr.aux_sample_size == 8 &&
		   l.events[2].attr.sample_type & PERF_SAMPLE_AUX &&
		   !l.events[0].attr.aux_sample_size &&
		   !l.events[5].attr.aux_sample_size, "--aux-sample");
		ok(l.events[2].attr.exclude_kernel &&
		   !l.events[2].attr.disabled && l.events[0].attr.disabled,
		   "the group's modifiers; the leader starts it");
		evlist_close(&l);
	}
	if (opens(&l, "{intel_pt/aux-action=start-paused/u,cycles/aux-action="
		  "resume/,cs/aux-action=pause/,cycles/aux-output/pp}", NULL)) {
		is_u64(evlist_aux_action(&l.events[0].attr), 1, "start-paused");
		is_u64(evlist_aux_action(&l.events[1].attr), 4, "resume");
		is_u64(evlist_aux_action(&l.events[2].attr), 2, "pause");
		ok(l.events[3].attr.aux_output, "aux-output");
		evlist_close(&l);
	}
	if (opens(&l, "cs,intel_pt/aux-action=start-paused/u,sched:sched_switch/"
		  "aux-action=resume/,cycles,cs/aux-action=pause/", NULL)) {
		ok(l.events[0].leader == 0 && l.events[1].leader == 1 &&
		   l.events[2].leader == 0 && l.events[3].leader == 3 &&
		   l.events[4].leader == 0,
		   "events with aux-action join the AUX event before them");
		ok(!l.events[2].attr.disabled && !l.events[4].attr.disabled &&
		   l.events[3].attr.disabled, "and run with it");
		is_u64(evlist_aux_action(&l.events[2].attr), 4,
		       "a tracepoint resumes");
		evlist_close(&l);
	}
	for (i = 0; i < N(bad); i++)
		ok(open_list(&l, bad[i].text, NULL) == -AUX_E_INVAL &&
		   strstr(diag.text, bad[i].says), "refused: %s: %s",
		   bad[i].text, diag.text);
	ok(open_list(&l, "intel_pt//,cycles", &o) == -AUX_E_INVAL &&
	   strstr(diag.text, "--aux-sample needs"), "%s", diag.text);
}

static void test_read(void)
{
	struct perf_event_attr *a;
	struct evlist l;

	if (!opens(&l, "{cycles,instructions}:S", NULL))
		return;
	a = &l.events[0].attr;
	ok(a->sample_type & PERF_SAMPLE_READ && a->freq && !a->inherit &&
	   a->read_format & PERF_FORMAT_GROUP, "the leader samples");
	ok(!l.events[1].attr.freq && !l.events[1].attr.sample_period &&
	   !l.events[1].attr.inherit &&
	   l.events[1].attr.sample_type == a->sample_type, "who is read, not");
	evlist_close(&l);
}

static void test_filter(void)
{
	struct evlist_word words[] = {
		{ "sched:sched_switch,sched:sched_wakeup", "prev_pid == 1", 0, NULL, 0 },
		{ "cycles", NULL, 0, NULL, 0 },
	};
	struct evlist_options o = { .words = words, .n_words = 2 };
	struct evlist l;

	if (opens(&l, "two words", &o)) {
		is_str(l.events[0].filter, "prev_pid == 1", "as it is");
		is_str(l.events[1].filter_text, "prev_pid == 1", "for all of "
		       "its -e");
		ok(!l.events[2].filter, "and no other");
		evlist_close(&l);
	}
	words[1].filter = "x";
	ok(open_list(&l, "", &o) == -AUX_E_INVAL &&
	   strstr(diag.text, "--filter is for"), "%s", diag.text);
	words[1] = (struct evlist_word){ "aux_sim//", "filter 0x1/0x2", 0, NULL, 0 };
	ok(open_list(&l, "", &o) == -AUX_E_INVAL &&
	   strstr(diag.text, "no address filters"), "%s", diag.text);
}

/* Whether the kernel here takes them; -EACCES where we may not. */
static int try_open(struct perf_event_attr *a)
{
	long fd = syscall(SYS_perf_event_open, a, 0, -1, -1,
			  PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return -errno;
	close((int)fd);
	return 0;
}

static void test_kernel(void)
{
	static const char *const texts[] = {
		"cpu-clock:u", "page-faults:u", "{cpu-clock,faults}:uS",
		"dummy:u", "cs/period=3/u", "task-clock/freq=50/u",
	};
	struct evlist_options o = { .callgraph = true };
	struct evlist l;
	size_t i, k;

	for (i = 0; i < N(texts); i++) {
		if (!opens(&l, texts[i], &o))
			continue;
		for (k = 0; k < l.n; k++) {
			int ret = try_open(&l.events[k].attr);

			if (ret == -EACCES || ret == -EPERM || ret == -ENOSYS)
				skip("no permission for perf events");
			else
				is_u64(-ret, 0, l.events[k].name);
		}
		evlist_close(&l);
	}
}

int main(void)
{
	sysfs_make();
	sysfs_put("tracing/events/sched/sched_switch/id", "316");
	sysfs_put("tracing/events/sched/sched_wakeup/id", "318");
	snprintf(tracefs, sizeof(tracefs), "%s/tracing", sysfs_root);
	test_intel_pt();
	test_sideband();
	test_pt_terms();
	test_etm_terms();
	test_names();
	test_sampling();
	test_groups();
	test_read();
	test_filter();
	test_kernel();
	return plan_done();
}
