/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * Event specifications: what is taken, what is refused and with which words,
 * and the config bits of soft_pt's terms beside those of the real PMU.
 */
#include <linux/hw_breakpoint.h>
#include <stdlib.h>

#include "capture/event/event.h"
#include "capture/record/record.h"
#include "tests/unit/tap.h"

#define N(a) (sizeof(a) / sizeof(*(a)))

/* Fields as a PMU with few capabilities would have them. */
static const struct event_field fields[] = {
	{ "flag", 3, 3, 0x3, NULL },
	{ "none", 4, 4, 0x1, "no such unit" },
	{ "period", 14, 17, 0x249, NULL },	/* 0, 3, 6, 9 */
	{ "range", 20, 23, 0x81f, NULL },	/* 0-4, 11 */
};
static const char *const words[] = { "word", NULL };

static void test_parse(void)
{
	struct event_spec e;

	ok(!event_parse(&e, "intel_pt//", NULL), "pmu//");
	ok(!strcmp(e.pmu, "intel_pt") && !e.n_terms && e.user && e.kernel &&
	   !e.has_modifiers, "no terms, no modifiers: user and kernel");
	event_fini(&e);
	ok(!event_parse(&e, "cs_etm/@tmc_etr0,cycacc=0x1/uk", NULL), "terms");
	ok(e.n_terms == 2 && !strcmp(e.terms[0].name, "@tmc_etr0") &&
	   !e.terms[0].value && !strcmp(e.terms[1].name, "cycacc") &&
	   !strcmp(e.terms[1].value, "0x1"), "names and values");
	ok(e.user && e.kernel && e.has_modifiers, "both modifiers");
	ok(event_has(&e, "cycacc") && !event_has(&e, "x"), "event_has");
	event_fini(&e);
	ok(!event_parse(&e, "a/b/u", NULL) && e.user && !e.kernel, "user");
	event_fini(&e);
	ok(!event_parse(&e, "a/b/k", NULL) && !e.user && e.kernel, "kernel");
	event_fini(&e);
	ok(!event_parse(&e, "a:u", NULL) && !strcmp(e.pmu, "a") && !e.kernel,
	   "pmu:modifiers");
	event_fini(&e);
	ok(!event_parse(&e, "a", NULL) && !strcmp(e.pmu, "a"), "a bare pmu");
	event_fini(&e);
}

/* Forms that name no PMU, and modifiers beyond u and k. */
static void test_forms(void)
{
	struct event_spec e;

	ok(!event_parse(&e, "sched:sched_switch", NULL) &&
	   !strcmp(e.pmu, "sched") && !strcmp(e.tracepoint, "sched_switch") &&
	   e.user && e.kernel && !*e.modifiers, "a tracepoint");
	event_fini(&e);
	ok(!event_parse(&e, "a:up:k", NULL) && !strcmp(e.tracepoint, "up") &&
	   e.kernel && !e.user, "a tracepoint that looks like modifiers");
	event_fini(&e);
	ok(!event_parse(&e, "sched:wake/period=2,name=a:b/u", NULL) &&
	   !strcmp(e.tracepoint, "wake") && e.n_terms == 2 && e.slashes &&
	   !strcmp(event_term(&e, "name")->value, "a:b"), "with terms");
	event_fini(&e);
	ok(!event_parse(&e, "cycles:uppHDeI", NULL) && !e.tracepoint &&
	   e.user && !e.kernel && !e.hypervisor && e.precise == 2 && e.host &&
	   !e.guest && e.pinned && e.exclusive && e.no_idle && !e.sample_read,
	   "cycles:uppHDeI");
	ok(event_only(&e, "upHDeI", NULL) == 0 &&
	   event_only(&e, "up", NULL) == -AUX_E_INVAL, "event_only");
	event_fini(&e);
	ok(!event_parse(&e, "cycles:PSG", NULL) && e.user && e.kernel &&
	   e.hypervisor && e.precise_max && e.sample_read && e.guest,
	   "no level: all");
	event_fini(&e);
	ok(!event_parse(&e, "cycles:k", NULL) &&
	   !event_modify(&e, "uS", NULL) && e.kernel && !e.user &&
	   e.sample_read, "a group's levels do not change an event's own");
	event_fini(&e);
	ok(!event_parse(&e, "cycles", NULL) && !event_modify(&e, "u", NULL) &&
	   e.user && !e.kernel && !e.hypervisor, "but give it some");
	event_fini(&e);
}

static void test_breakpoints(void)
{
	struct event_spec e;

	ok(!event_parse(&e, "mem:0x401136:x:u", NULL) && e.bp_addr == 0x401136 &&
	   e.bp_type == HW_BREAKPOINT_X && e.bp_len == sizeof(long) && e.user && !e.kernel,
	   "a breakpoint of code");
	event_fini(&e);
	ok(!event_parse(&e, "mem:4096/8:w", NULL) && e.bp_addr == 4096 && e.bp_len == 8 &&
	   e.bp_type == HW_BREAKPOINT_W && e.kernel && !e.tracepoint, "of data");
	event_fini(&e);
	ok(!event_parse(&e, "mem:0x10:u", NULL) && e.bp_type == HW_BREAKPOINT_RW &&
	   e.bp_len == 4 && !e.kernel, "without an access");
	event_fini(&e);
}

static void test_refused(void)
{
	static const struct { const char *text, *says; } bad[] = {
		{ "", "no name" }, { "/x/", "no name" }, { "a b//", "no name" },
		{ "a/b", "missing" }, { "a/b,/", "empty" },
		{ "a/,/", "empty" }, { "a/=1/", "empty" },
		{ "a/b=/", "no value" }, { "a//x", "modifier 'x'" },
		{ "a//u/", "modifier '/'" }, { "a:upppp", "modifier 'p'" },
		{ "a:b c", "no name of a tracepoint" }, { "sched:*", "auxcap list sched" },
		{ "mem:x", "the form is mem:" }, { "mem:-1:x", "the form is mem:" },
		{ "mem:0x10/0:w", "the form is mem:" }, { "mem:0x10/9:w", "the form is mem:" },
		{ "mem:0x10:q", "the form is mem:" }, { "mem:0x10:x:", "the form is mem:" },
		{ "mem:0x10/:x", "the form is mem:" }, { "mem:99999999999999999999:x", "the form" },
	};
	char longest[2000];
	struct event_spec e;
	size_t i;

	for (i = 0; i < N(bad); i++) {
		struct aux_diag d = { 0 };

		ok(event_parse(&e, bad[i].text, &d) == -AUX_E_INVAL &&
		   strstr(d.text, bad[i].says) && !e.text,
		   "'%s' is refused: %s", bad[i].text, d.text);
	}
	memset(longest, 'a', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	ok(event_parse(&e, longest, NULL) == -AUX_E_INVAL, "and a long one");
}

static int config_of(const char *text, uint64_t *config, struct aux_diag *d)
{
	struct event_spec e;
	int ret;

	d->text[0] = '\0';
	if (event_parse(&e, text, d))
		return 1;
	ret = event_config(&e, fields, N(fields), words, config, d);
	event_fini(&e);
	return ret;
}

static void test_config(void)
{
	static const struct { const char *text; uint64_t want; } good[] = {
		{ "a//", 0x100008 }, { "a/flag=0/", 0x100000 },
		{ "a/period=3/", 0x10c008 }, { "a/period=0x9/", 0x124008 },
		{ "a/period=9,period=6/", 0x118008 }, { "a/range=11/", 0xb00008 },
		{ "a/word,flag/", 0x100008 }, { "a/config=0x8/", 0x8 },
		{ "a/config=8,range=2/", 0x200008 }, { "a/none=0/", 0x100008 },
	};
	static const struct { const char *text, *says; } bad[] = {
		{ "a/period=1/", "period=1 is not possible; legal: 0, 3, 6, 9" },
		{ "a/range=5/", "legal: 0-4, 11" },
		{ "a/range=16/", "legal: 0-4, 11" },
		{ "a/range=x/", "range=x" }, { "a/range=-1/", "range=-1" },
		{ "a/flag=2/", "legal: 0, 1" }, { "a/range=1x/", "range=1x" },
		{ "a/none/", "legal: 0 (no such unit)" },
		{ "a/other/", "no term 'other'; it has: flag, none, period" },
		{ "a/word=1/", "word takes no value" },
		{ "a/config=1/", "bits 0x1 mean nothing" },
		{ "a/config=0x4000/", "period=1" },
		{ "a/range=99999999999999999999/", "not possible" },
	};
	struct aux_diag d;
	uint64_t config;
	size_t i;

	for (i = 0; i < N(good); i++) {
		config = 0x100008;
		ok(!config_of(good[i].text, &config, &d) &&
		   config == good[i].want, "%s: %#" PRIx64, good[i].text,
		   config);
	}
	for (i = 0; i < N(bad); i++) {
		config = 0x100008;
		ok(config_of(bad[i].text, &config, &d) == -AUX_E_INVAL &&
		   strstr(d.text, bad[i].says) && config == 0x100008,
		   "refused: %s", d.text);
	}
	is_u64(event_get(fields, N(fields), "range", 0xb00008), 11, "get");
}

/* Opens the software source as auxcap does. */
static int open_soft(const char *text, bool per_thread, struct aux_diag *d)
{
	struct event_spec e;
	struct source_job job = { .event = &e, .per_thread = per_thread };
	void *src;
	int ret;

	d->text[0] = '\0';
	if (event_parse(&e, text, d))
		return 1;
	ret = source_soft_pt.open(&src, &job, d);
	source_soft_pt.close(src);
	event_fini(&e);
	return ret;
}

/* Taken on the processors that it is for. */
static void test_soft_step(void)
{
	static const char *const text[] = {
		"soft_pt/step/u",
		("soft_pt/step,tsc,mtc=1,mtc_period=3,cyc,cyc_thresh=2,"
		 "psb_period=2,noretcomp=0,ptw,fup_on_ptw,branch=0/u"),
	};
	struct aux_diag d;

	for (size_t i = 0; i < N(text); i++) {
		int ret = open_soft(text[i], false, &d);

#ifdef __x86_64__
		ok(!ret, "taken: %s %s", text[i], d.text);
#else
		ok(ret == -AUX_E_INVAL && strstr(d.text, "on x86-64 alone"),
		   "refused on this processor: %s", d.text);
#endif
	}
}

static void test_soft(void)
{
	static const char *const good[] = {
		"soft_pt//", "soft_pt//u", "soft_pt",
		"soft_pt/config=0x300e601/u", "soft_pt/pt=0/u",
		"soft_pt/pwr_evt=0,event=0,notnt=0/u",
	};
	static const struct { const char *text, *says; } bad[] = {
		{ "soft_pt//k", "user code only" },
		{ "soft_pt//uk", "user code only" },
		{ "soft_pt//up", "modifier 'p' has no use here; legal are u (user) "
				 "and k (kernel)" },
		{ "soft_pt/psb_period=16/u", "legal: 0-15" },
		{ "soft_pt/pwr_evt/u", "legal: 0 (" },
		{ "soft_pt/fup_on_ptw/u", "needs ptw" },
		{ "soft_pt/pt=0,branch/u", "needs pt" },
		{ "soft_pt/tsc=0/u", "needs --per-thread" },
		{ "soft_pt/tsc=0,mtc/u", "mtc needs tsc" },
		{ "soft_pt/step,emulate/u", "exclude" },
		{ "soft_pt/config=0x100000000/u", "mean nothing" },
	};
	struct aux_diag d;
	size_t i;

	for (i = 0; i < N(good); i++)
		ok(!open_soft(good[i], false, &d), "taken: %s %s", good[i],
		   d.text);
	test_soft_step();
	for (i = 0; i < N(bad); i++)
		ok(open_soft(bad[i].text, false, &d) == -AUX_E_INVAL &&
		   strstr(d.text, bad[i].says), "refused: %s", d.text);
	ok(!open_soft("soft_pt/tsc=0/u", true, &d), "tsc=0 per thread");
}

int main(void)
{
	test_parse();
	test_forms();
	test_breakpoints();
	test_refused();
	test_config();
	test_soft();
	return plan_done();
}
