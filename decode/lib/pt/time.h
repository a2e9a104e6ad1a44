/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time in Intel PT: TSC, TMA, MTC, CYC and CBR packets as one TSC that never
 * goes backwards between two PSBs, and how far it may be off.
 *
 * A PSB forgets everything, so what a piece of trace gives does not depend on
 * what was decoded before it. No allocation, no host. CYC is the hot function,
 * then MTC.
 *
 * Specification: Intel SDM volume 3, chapter "Intel Processor Trace", sections
 * "Timing Packets" and "Decoder Synchronization".
 */
#ifndef DECODE_LIB_PT_TIME_H
#define DECODE_LIB_PT_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/decoder.h>

/* Scales, in TSC ticks per cycle, are fixed-point numbers with so many bits of
 * fraction. */
#define PT_TIME_SHIFT 20
/* More than 2 to this cycles between two other timing packets are folded, so
 * that their product with a scale fits 64 bits. */
#define PT_TIME_CYCLE_BITS 35

/* How the next MTC can be taken, if it is what is expected. */
enum pt_time_way {
	PT_TIME_WHOLE = 0,	/* consume_mtc */
	PT_TIME_STEP,		/* step_mtc: with CYCs between MTCs */
	PT_TIME_PLAIN,		/* plain_mtc: with none */
};

/*
 * tsc is the time of the last timing packet. The bound assumes that a core's
 * clock keeps the ratio that CBR named, give or take one; that the clock runs
 * wherever only cycles tell the time; and that no timing packets are missing
 * but those that an OVF stands for. UINT64_MAX: after an OVF, until a TSC.
 */
struct pt_time {
	uint64_t tsc;		/* the estimate; valid when known */
	uint64_t bound;		/* the true time is within tsc +- bound; 0: tsc
				 * was in a packet */
	bool known;		/* there was a TSC since the PSB */
	uint64_t total;		/* cycles of CYCs since it was known, ever */
	/* what follows is private to time.c and the inline functions below, and
	 * to the fast path */
	const struct aux_pt_config *config;

	/* CYC: the time is base + cycles * scale */
	uint64_t base, base_bound;
	uint64_t cycles;
	uint64_t scale;		/* 0: not known */
	uint64_t spread;	/* scale may be off by so much */
	uint64_t limit;		/* below this tsc a CYC only adds up; 0: never */
	uint64_t window;	/* no bound is larger */
	uint64_t turn;		/* scale changed by so much since the last CYC */
	uint64_t slack;		/* cycles that a CYC may have left to the next one: the
				 * threshold CYCThresh */
	uint64_t slack_max;
	bool slack_given;	/* by the configuration, else learnt from CYCs */
	bool moved;		/* base includes cycles since the anchor */
	bool lost;		/* there was an OVF and no TSC yet */
	uint8_t short_way;	/* of the next MTC: enum pt_time_way */

	/* the last TSC or MTC, and when the next MTC is due */
	uint64_t anchor, anchor_bound;
	uint64_t next;		/* UINT64_MAX: not known */

	/* frequency */
	uint64_t nominal;	/* scale at a ratio of 1; 0: not known */
	bool nominal_given;	/* by the configuration, else learnt */
	bool calibrating;
	uint8_t ratio;		/* of the last CBR; 0: none */
	uint64_t low, high;	/* scales at the ratios next to it; 0: none */
	uint64_t cal_tsc, cal_cycles;

	/* the crystal clock */
	bool have_ctc;
	bool tma_due;		/* of the TSC before, at most an MTC between */
	bool tma_last;		/* no MTC since the TMA */
	bool is_early;		/* early is that of an MTC before the TMA */
	uint8_t early;
	uint64_t tsc_given;	/* by the last TSC */
	uint8_t period;		/* log2, in ticks of the crystal clock */
	uint32_t ctc;		/* the crystal clock, its bits that packets have */
	uint64_t ctc_tsc;	/* the time at ctc, and */
	uint64_t ctc_part;	/* so many 1/ratio_d ticks more */
	uint64_t ctc_bound;	/* it may be off by so much */
	uint64_t period_tsc, period_part;
};

/* Before the first packet of a chunk. config must outlive t. */
void pt_time_init(struct pt_time *t, const struct aux_pt_config *config);
void pt_time_psb(struct pt_time *t);
void pt_time_tsc(struct pt_time *t, uint64_t tsc);
void pt_time_tma(struct pt_time *t, uint16_t ctc, uint16_t fc);
void pt_time_mtc(struct pt_time *t, uint8_t ctc);
void pt_time_cbr(struct pt_time *t, uint8_t ratio);
void pt_time_ovf(struct pt_time *t);	/* packets were lost here */

/* pt_time_cyc where more is to be done than adding up. */
void pt_time_cyc_slow(struct pt_time *t, uint64_t cycles);

/* pt_time_cyc for callers that do not read bound, which may be stale then.
 * False: bound is up to date. */
static inline bool pt_time_cyc_tsc(struct pt_time *t, uint64_t cycles)
{
	uint64_t sum = t->cycles + cycles;
	uint64_t tsc = t->base + (sum * t->scale >> PT_TIME_SHIFT);

	if (__builtin_expect((sum | cycles) >> PT_TIME_CYCLE_BITS ||
			     tsc >= t->limit, 0)) {
		pt_time_cyc_slow(t, cycles);
		return false;
	}
	t->cycles = sum;
	t->total += cycles;
	t->tsc = tsc;
	return true;
}

/* A CYC of so many cycles. */
static inline void pt_time_cyc(struct pt_time *t, uint64_t cycles)
{
	uint64_t bound;

	if (!pt_time_cyc_tsc(t, cycles))
		return;
	bound = t->base_bound + (t->cycles * t->spread >> PT_TIME_SHIFT);
	t->bound = bound < t->window ? bound : t->window;
}

#endif
