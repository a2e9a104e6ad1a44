/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * Time in Intel PT compared with a clock whose truth is known: no time is outside its
 * error bound, none goes back; also with lost, missing and hostile packets.
 */
#include "tests/unit/ptclock.h"
#include "tests/unit/tap.h"

struct score {
	size_t n, outside, backwards, unbound;
	uint64_t off, bound;	/* sums */
	uint64_t worst;
};

static void judge(struct score *s, const struct pt_time *t, uint64_t before,
		  const struct item *i)
{
	uint64_t off = t->tsc > i->truth ? t->tsc - i->truth : i->truth - t->tsc;

	s->n++;
	s->backwards += t->tsc < before;
	if (t->bound == UINT64_MAX) {
		s->unbound++;
		return;
	}
	if (off > t->bound && s->outside++ < 3)
		printf("# %s: off by %" PRIu64 ", bound %" PRIu64 "\n",
		       ptpkt_name(i->type), off, t->bound);
	s->off += off;
	s->bound += t->bound;
	if (off > s->worst)
		s->worst = off;
}

static struct score score_list(const struct list *l,
			       const struct aux_pt_config *config)
{
	struct score s = { 0 };
	struct pt_time t;

	pt_time_init(&t, config);
	for (size_t i = 0; i < l->n; i++) {
		uint64_t before = t.known ? t.tsc : 0;

		feed(&t, &l->at[i]);
		if (l->at[i].type == PTPKT_PSB || l->at[i].type == PTPKT_CBR)
			continue;
		if (t.known)
			judge(&s, &t, before, &l->at[i]);
	}
	return s;
}

static void check_core(struct list *l, const struct core_case *c)
{
	struct aux_pt_config config = make_config(c);
	struct score sum = { 0 };

	for (uint32_t seed = 1; seed <= 5; seed++) {
		struct core k = { .out = l };
		struct score s;

		run_core(&k, c, seed * 7919);
		s = score_list(l, &config);
		sum.n += s.n;
		sum.outside += s.outside;
		sum.backwards += s.backwards;
		sum.off += s.off;
		sum.bound += s.bound;
		if (s.worst > sum.worst)
			sum.worst = s.worst;
	}
	ok(sum.n > 100000 && !sum.outside && !sum.backwards &&
	   sum.off / sum.n < c->off_max,
	   "%s: %zu times, %zu outside their bound, %zu backwards; off by %.1f "
	   "(worst %" PRIu64 "), bound %.1f", c->text, sum.n, sum.outside,
	   sum.backwards, (double)sum.off / (double)sum.n, sum.worst,
	   (double)sum.bound / (double)sum.n);
}

/* ---- lost, missing and hostile packets ---- */

static bool same_time(const struct pt_time *a, const struct pt_time *b)
{
	return a->known == b->known && (!a->known || (a->tsc == b->tsc &&
						      a->bound == b->bound));
}

/* What is behind a PSB is the same without what was before. */
static void check_psb(struct list *l)
{
	struct aux_pt_config config = make_config(&core_cases[0]);
	struct core k = { .out = l };
	struct pt_time t, fresh;
	size_t differ = 0, n_psb = 0;

	run_core(&k, &core_cases[0], 4711);
	pt_time_init(&t, &config);
	pt_time_init(&fresh, &config);
	for (size_t i = 0; i < l->n; i++) {
		if (l->at[i].type == PTPKT_PSB) {
			n_psb++;
			pt_time_init(&fresh, &config);
		}
		feed(&t, &l->at[i]);
		feed(&fresh, &l->at[i]);
		differ += !same_time(&t, &fresh);
	}
	ok(n_psb > 10 && !differ, "%zu PSBs: each begins anew", n_psb);
}

/* One MTC of eight is missing: the next sets time right. */
static void check_mtc_loss(struct list *l)
{
	struct core_case c = core_cases[0];
	struct aux_pt_config config = make_config(&c);
	struct core k = { .out = l };
	struct pt_time t;
	size_t n = 0, off = 0, backwards = 0;

	c.loses_mtc = true;
	run_core(&k, &c, 815);
	pt_time_init(&t, &config);
	for (size_t i = 0; i < l->n; i++) {
		const struct item *it = &l->at[i];
		uint64_t before = it->type == PTPKT_PSB ? 0 : t.tsc;

		feed(&t, it);
		backwards += t.tsc < before;
		if (it->type != PTPKT_MTC)
			continue;
		n++;
		off += t.tsc + t.bound < it->truth ||
		       t.tsc - t.bound > it->truth || t.bound > 100;
	}
	ok(n > 1000 && !off && !backwards, "MTCs are missing: %zu times, %zu "
	   "not right at the next, %zu backwards", n, off, backwards);
}

static void check_overflow(void)
{
	struct aux_pt_config config = make_config(&core_cases[0]);
	struct pt_time t;

	pt_time_init(&t, &config);
	pt_time_cyc(&t, 100);
	pt_time_mtc(&t, 1);
	pt_time_tma(&t, 1, 1);
	ok(!t.known, "no TSC, no time");
	pt_time_tsc(&t, 1000000);
	ok(t.known && t.tsc == 1000000 && !t.bound, "TSC");
	pt_time_tma(&t, 0x7f8, 0);
	pt_time_cbr(&t, 26);
	pt_time_cyc(&t, 100);
	ok(t.tsc == 1000100 && t.bound > 0 && t.bound < 10, "CYC");
	pt_time_mtc(&t, 0);	/* CTC 0x800: 8 ticks, across its wrap */
	ok(t.tsc == 1000864 && t.bound < 5, "MTC behind a wrap of CTC");
	pt_time_ovf(&t);
	pt_time_cyc(&t, 10);
	ok(t.tsc >= 1000864 && t.bound == UINT64_MAX, "OVF: no bound");
	pt_time_mtc(&t, 1);
	ok(t.tsc == 1001728 && t.bound == UINT64_MAX, "MTC does not mend it");
	pt_time_tsc(&t, 2000000);
	ok(t.tsc == 2000000 && !t.bound, "TSC does");
	pt_time_tsc(&t, 1500000);
	ok(t.tsc == 2000000 && t.bound == 500000, "time waits");
	pt_time_psb(&t);
	ok(!t.known, "PSB");
	pt_time_tsc(&t, 1500000);
	ok(t.tsc == 1500000 && !t.bound, "and runs from there");
}

/* Of a TMA's own period, behind it: not 255 periods later. */
static void check_late_mtc(void)
{
	struct aux_pt_config config = make_config(&core_cases[0]);
	struct pt_time t;

	pt_time_init(&t, &config);
	pt_time_tsc(&t, 1000000);
	pt_time_tma(&t, 0x803, 10);
	pt_time_mtc(&t, 0);
	ok(t.tsc == 1000000, "an MTC behind the TMA of its period");
	pt_time_mtc(&t, 1);
	ok(t.tsc == 999990 + 5 * 108, "the next one");
	pt_time_cbr(&t, 26);
	pt_time_tsc(&t, 1000000);
	pt_time_tma(&t, 0x803, 0);
	pt_time_mtc(&t, 0);
	pt_time_cyc(&t, 500);
	pt_time_mtc(&t, 1);
	ok(t.tsc == 1000000 + 5 * 108, "behind cycles");
}

/* Of a tick during a PSB+: in front of its TSC, or between that and the TMA. The
 * tick is a part of a period after the TSC, and the TMA says which. */
static void check_early_mtc(void)
{
	struct aux_pt_config config = make_config(&core_cases[0]);
	struct pt_time t;

	pt_time_init(&t, &config);
	pt_time_mtc(&t, 1);
	pt_time_tsc(&t, 1000000);
	pt_time_tma(&t, 0x807, 100);
	ok(t.tsc == 1000008, "an MTC in front of the TSC: after its tick");
	pt_time_mtc(&t, 2);
	ok(t.tsc == 1000008 + 8 * 108, "the next one");
	pt_time_psb(&t);
	pt_time_tsc(&t, 1000000);
	pt_time_mtc(&t, 1);
	pt_time_tma(&t, 0x807, 100);
	ok(t.tsc == 1000008, "an MTC in front of the TMA: after its tick");
	pt_time_mtc(&t, 2);
	ok(t.tsc == 1000008 + 8 * 108, "the next one");
	pt_time_psb(&t);
	pt_time_mtc(&t, 0);
	pt_time_tsc(&t, 1000000);
	pt_time_tma(&t, 0x802, 100);
	ok(t.tsc == 1000000, "an MTC whose tick was before the TSC");
	pt_time_mtc(&t, 1);
	ok(t.tsc == 999900 + 6 * 108, "the next one");
	pt_time_psb(&t);
	pt_time_mtc(&t, 0);
	pt_time_psb(&t);
	pt_time_tsc(&t, 1000000);
	pt_time_tma(&t, 0x7ff, 100);
	ok(t.tsc == 1000000, "an MTC of another PSB+");
}

static uint64_t wild(struct core *k)
{
	uint64_t v = (uint64_t)roll(k, UINT32_MAX) << 32 | roll(k, UINT32_MAX);

	switch (roll(k, 4)) {
	case 0:
		return v;
	case 1:
		return UINT64_MAX - (v & 0xff);
	default:
		return v >> roll(k, 63);
	}
}

/* All of what it holds, but for short_way. */
static bool same_state(const struct pt_time *a, const struct pt_time *b)
{
#define SAME(field) (a->field == b->field)
	return SAME(tsc) && SAME(bound) && SAME(known) && SAME(total) &&
	       SAME(base) && SAME(base_bound) && SAME(cycles) && SAME(scale) &&
	       SAME(spread) && SAME(limit) && SAME(window) && SAME(turn) &&
	       SAME(slack) && SAME(moved) && SAME(lost) && SAME(anchor) &&
	       SAME(anchor_bound) && SAME(next) && SAME(nominal) &&
	       SAME(calibrating) && SAME(ratio) && SAME(low) && SAME(high) &&
	       SAME(cal_tsc) && SAME(cal_cycles) && SAME(have_ctc) &&
	       SAME(tma_due) && SAME(tma_last) && SAME(is_early) &&
	       SAME(early) && SAME(tsc_given) && SAME(ctc) &&
	       SAME(ctc_tsc) && SAME(ctc_part) && SAME(ctc_bound);
#undef SAME
}

/* The short way of MTCs leaves all as the long one does. */
static void check_steps(struct list *l, const struct core_case *core,
			uint64_t shift)
{
	struct aux_pt_config config = make_config(core);
	struct core_case c = *core;
	struct core k = { .out = l };
	size_t n_short[3] = { 0 }, differ = 0;
	struct pt_time t, slow;

	c.loses_mtc = shift;
	run_core(&k, &c, 4242);
	pt_time_init(&t, &config);
	pt_time_init(&slow, &config);
	for (size_t i = 0; i < l->n; i++) {
		struct item it = l->at[i];

		if (it.type == PTPKT_CYC && !roll(&k, 50))
			continue;
		if (it.type == PTPKT_TSC)
			it.a += shift;
		if (!roll(&k, 5000))	/* far too much, or lost */
			it = (struct item){ roll(&k, 2) ? PTPKT_OVF : PTPKT_CYC,
					    roll(&k, UINT32_MAX), 0, 0 };
		n_short[t.short_way] += it.type == PTPKT_MTC;
		slow.short_way = PT_TIME_WHOLE;
		feed(&t, &it);
		feed(&slow, &it);
		differ += !same_state(&t, &slow);
	}
	ok(!differ, "%s: %zu packets, %zu and %zu MTCs may be short: %zu differ",
	   core->text, l->n, n_short[PT_TIME_STEP], n_short[PT_TIME_PLAIN],
	   differ);
	if (core->no_cyc)
		ok(n_short[PT_TIME_PLAIN] > 1000, "%s: many may", core->text);
}

static struct aux_pt_config wild_config(struct core *k)
{
	return (struct aux_pt_config){ .attr_config = wild(k),
		.mtc_period = (uint32_t)wild(k),
		.max_nonturbo_ratio = (uint32_t)wild(k),
		.tsc_ctc_ratio_n = (uint32_t)wild(k),
		.tsc_ctc_ratio_d = (uint32_t)wild(k) };
}

static void check_hostile(void)
{
	struct core k = { .seed = 99 };
	size_t backwards = 0, differ = 0, n = 0;

	for (int run = 0; run < 2000; run++) {
		struct aux_pt_config config = wild_config(&k);
		struct pt_time t, slow;

		pt_time_init(&t, &config);
		pt_time_init(&slow, &config);
		for (int i = 0; i < 200; i++, n++) {
			static const uint8_t types[] = { PTPKT_TSC, PTPKT_TMA,
				PTPKT_MTC, PTPKT_CBR, PTPKT_CYC, PTPKT_CYC,
				PTPKT_CYC, PTPKT_MTC, PTPKT_OVF };
			uint64_t before = t.known ? t.tsc : 0;
			struct item it = { types[roll(&k, sizeof(types))],
					   wild(&k), wild(&k), 0 };

			feed(&t, &it);
			slow.short_way = PT_TIME_WHOLE;
			feed(&slow, &it);
			backwards += t.tsc < before;
			differ += !same_state(&t, &slow);
		}
	}
	ok(!backwards && !differ, "%zu hostile packets: %zu backwards, %zu "
	   "differ", n, backwards, differ);
}

int main(void)
{
	struct list l = { calloc(N_ITEMS, sizeof(struct item)), 0 };

	if (!ok(l.at, "memory"))
		return plan_done();
	for (size_t i = 0; i < sizeof(core_cases) / sizeof(core_cases[0]); i++)
		check_core(&l, &core_cases[i]);
	for (size_t i = 0; i < sizeof(core_cases) / sizeof(core_cases[0]); i++) {
		check_steps(&l, &core_cases[i], 0);
		/* time ends in the middle */
		check_steps(&l, &core_cases[i],
			    -(UINT64_C(1) << 40) - 10000000);
	}
	check_psb(&l);
	check_mtc_loss(&l);
	check_overflow();
	check_late_mtc();
	check_early_mtc();
	check_hostile();
	free(l.at);
	return plan_done();
}
