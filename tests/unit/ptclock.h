/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ptclock: the timing packets of a core whose frequency walks at random, with the
 * time that it was, for the tests of plugin_pt_time.
 *
 * Specification: Intel SDM volume 3, "Intel Processor Trace", "Timing Packets": a
 * CYC stands before what it is due for, a TMA behind its TSC.
 */
#ifndef TESTS_UNIT_PTCLOCK_H
#define TESTS_UNIT_PTCLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "decode/lib/packet/packet.h"
#include "decode/lib/pt/time.h"

#define SUB 1024		/* parts of a TSC tick */
#define N_ITEMS 40000

struct item {
	uint8_t type;		/* enum ptpkt_type */
	uint64_t a, b;
	uint64_t truth;		/* the TSC then; 0: not known */
};

struct list {
	struct item *at;
	size_t n;
};

/* How a core is set up, and what it leaves out. */
struct core_case {
	const char *text;
	uint32_t n, d, period, nonturbo, thresh;
	bool no_mtc, no_cyc, no_tma, no_config, loses_mtc;
	uint64_t off_max;	/* the mean error is below; in TSC ticks */
	bool apart;		/* libipt holds, or overlaps cycles: only the
				 * means are compared */
};

struct core {
	const struct core_case *c;
	struct list *out;
	uint64_t now;		/* in parts */
	uint64_t tick;		/* when the last period of CTC began, in parts */
	uint64_t ctc;		/* then */
	uint64_t part;		/* of 1/d parts */
	uint64_t cycles;	/* since the last CYC, in parts / nonturbo */
	uint32_t ratio, speed;	/* told; true one, in 1/256 */
	uint32_t seed;
};

static uint32_t roll(struct core *k, uint32_t n)
{
	k->seed = k->seed * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)k->seed * n >> 32);
}

static void put(struct core *k, enum ptpkt_type type, uint64_t a, uint64_t b)
{
	struct list *l = k->out;

	if (l->n < N_ITEMS)
		l->at[l->n++] = (struct item){ .type = (uint8_t)type, .a = a,
			.b = b, .truth = k->now / SUB };
}

/* Before what may have a CYC. */
static void put_cyc(struct core *k)
{
	uint64_t unit = (uint64_t)SUB * k->c->nonturbo * 256;
	uint64_t n = k->cycles / unit;
	uint64_t least = k->c->thresh ? UINT64_C(1) << (k->c->thresh - 1) : 1;

	if (k->c->no_cyc || n < least)
		return;
	put(k, PTPKT_CYC, n, 0);
	k->cycles -= n * unit;
}

static void put_tsc(struct core *k)
{
	uint64_t n = k->c->n, d = k->c->d;
	/* ticks of CTC since the period began, and when the last one was */
	uint64_t ticks = ((k->now - k->tick) * d + k->part) / (n * SUB);
	uint64_t last = k->tick + ticks * n * SUB / d;

	put_cyc(k);
	put(k, PTPKT_TSC, k->now / SUB, 0);
	if (!k->c->no_mtc && !k->c->no_tma)
		put(k, PTPKT_TMA, (k->ctc + ticks) & 0xffff,
		    k->now / SUB - last / SUB);
}

static void run_for(struct core *k, uint64_t parts)
{
	k->now += parts;
	k->cycles += parts * k->speed;
}

/* Runs on, with an MTC wherever a period of CTC begins. */
static void advance(struct core *k, uint64_t parts, bool dead)
{
	uint64_t whole = (uint64_t)k->c->n * SUB << k->c->period;

	for (;;) {
		uint64_t end = k->tick + (whole + k->part) / k->c->d;

		if (end > k->now + parts)
			break;
		parts -= end - k->now;
		run_for(k, end - k->now);
		k->part = (whole + k->part) % k->c->d;
		k->tick = end;
		k->ctc += UINT64_C(1) << k->c->period;
		if (dead || k->c->no_mtc)
			continue;
		put_cyc(k);
		if (!k->c->loses_mtc || roll(k, 8))
			put(k, PTPKT_MTC, k->ctc >> k->c->period & 0xff, 0);
	}
	run_for(k, parts);
}

static void change_speed(struct core *k)
{
	k->ratio = k->c->nonturbo / 2 + roll(k, k->c->nonturbo);
	k->speed = k->ratio * 256 + roll(k, 256) - 128;
	put(k, PTPKT_CBR, k->ratio, 0);
}

static void put_psb(struct core *k)
{
	put_cyc(k);
	put(k, PTPKT_PSB, 0, 0);
	put_tsc(k);
	put(k, PTPKT_CBR, k->ratio, 0);
	put(k, PTPKT_PSBEND, 0, 0);
}

__attribute__((unused))
static void run_core(struct core *k, const struct core_case *c, uint32_t seed)
{
	*k = (struct core){ .c = c, .out = k->out, .seed = seed,
		.now = (UINT64_C(1) << 40) + seed % 999983, .ctc = seed,
		.ratio = c->nonturbo, .speed = c->nonturbo * 256 };
	k->ctc &= ~UINT64_C(0) << c->period;
	k->tick = k->now - roll(k, 1000);
	k->out->n = 0;
	put_psb(k);
	while (k->out->n < N_ITEMS - 8) {
		uint32_t r = roll(k, 2000);

		advance(k, roll(k, r & 1 ? 200 : 20000) * 30, false);
		put_cyc(k);
		if (r < 2)
			put_psb(k);
		else if (r < 4)
			put_tsc(k);
		else if (r < 14)
			change_speed(k);
		else if (r < 24)	/* the same ratio, a little else */
			k->speed = k->ratio * 256 + roll(k, 256) - 128;
	}
}

__attribute__((unused))
static const struct core_case core_cases[] = {
	{ "Skylake, CYC and MTC", 216, 2, 3, 26, 0, .off_max = 20 },
	{ "MTC of each tick", 168, 2, 0, 20, 0, .off_max = 5 },
	{ "an odd ratio", 250, 3, 3, 22, 0, .off_max = 20 },
	{ "MTC period 10", 176, 2, 10, 21, 0, .off_max = 700 },
	{ "MTC period 15", 168, 2, 15, 20, 0, .off_max = 5000 },
	{ "CYC threshold 256", 216, 2, 3, 26, 9, .off_max = 60, .apart = true },
	{ "CYC threshold 4096", 216, 2, 3, 26, 13, .off_max = 60,
	  .apart = true },
	{ "MTC alone", 216, 2, 3, 26, 0, .no_cyc = true, .off_max = 2 },
	{ "CYC alone", 216, 2, 3, 26, 0, .no_mtc = true, .off_max = 60000 },
	{ "no TMA", 216, 2, 3, 26, 0, .no_tma = true, .off_max = 1000,
	  .apart = true },
	{ "nothing known but the crystal's ratio", 216, 2, 3, 26, 0,
	  .no_config = true, .off_max = 20, .apart = true },
};

__attribute__((unused))
static struct aux_pt_config make_config(const struct core_case *c)
{
	return (struct aux_pt_config){
		.attr_config = c->no_config ? 0 :
			       2 | 1 << 9 | (uint64_t)c->thresh << 19,
		.mtc_period = c->period,
		.max_nonturbo_ratio = c->no_config ? 0 : c->nonturbo,
		.tsc_ctc_ratio_n = c->n, .tsc_ctc_ratio_d = c->d };
}

__attribute__((unused))
static void feed(struct pt_time *t, const struct item *i)
{
	switch (i->type) {
	case PTPKT_PSB:
		pt_time_psb(t);
		break;
	case PTPKT_TSC:
		pt_time_tsc(t, i->a);
		break;
	case PTPKT_TMA:
		pt_time_tma(t, (uint16_t)i->a, (uint16_t)i->b);
		break;
	case PTPKT_MTC:
		pt_time_mtc(t, (uint8_t)i->a);
		break;
	case PTPKT_CYC:
		pt_time_cyc(t, i->a);
		break;
	case PTPKT_CBR:
		pt_time_cbr(t, (uint8_t)i->a);
		break;
	case PTPKT_OVF:
		pt_time_ovf(t);
		break;
	}
}

#endif
