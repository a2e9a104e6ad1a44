/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time in Intel PT: the clocks and how they are held together.
 *
 * TSC and MTC are anchors: they say what time it is. Between two of them CYCs do, scaled
 * from core cycles to TSC ticks by the ratio of the last CBR and, within what that
 * allows, by how many cycles there were between the anchors before (calibrate).
 *
 *  - An anchor without a CYC since the one before does not restart the count of cycles:
 *    the next CYC counts from further back.
 *  - The MTC that is due next is the latest that the time can be. If the estimate is
 *    ahead of an anchor, it stands still until the clocks have caught up, and the bound
 *    says by how much.
 *  - An MTC has 8 bits of the crystal clock, a TMA 16; what is above follows from the
 *    order of packets.
 *
 * Most MTCs come one period after the last one, with CYCs between them, and most of what
 * can happen has not. step_mtc is for those, and plain_mtc where there are no CYCs; they
 * must leave t exactly as consume_mtc would.
 *
 * Specification: Intel SDM volume 3, "Intel Processor Trace", "Timing Packets".
 */
#include "decode/lib/pt/time.h"

#define NEVER UINT64_MAX
#define ONE ((uint64_t)1 << PT_TIME_SHIFT)
#define CYCLES_MAX (((uint64_t)1 << PT_TIME_CYCLE_BITS) - 1)
#define SCALE_MAX ((uint64_t)1 << (PT_TIME_SHIFT + 8))
#define SPREAD_UNKNOWN (64 * ONE)	/* no core is slower than TSC by that */

#define CONFIG_CYC 2		/* bits of IA32_RTIT_CTL */
#define CONFIG_CYC_THRESH 19
#define CYC_THRESH_MAX 15
#define TMA_CTC_BITS 16
#define MTC_BITS 8
#define CTC_BOUND 2		/* ticks that TMA and rounding may hide */
#define CALIBRATE_MIN 64	/* cycles, for a scale that is worth it */
#define STEADY_BITS 40		/* of what step_mtc adds: far from any wrap */

/* a + b, saturated at NEVER. */
static uint64_t add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? NEVER : sum;
}

static uint64_t differ(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* n <= CYCLES_MAX, scale < SCALE_MAX */
static uint64_t scaled(uint64_t n, uint64_t scale)
{
	return n * scale >> PT_TIME_SHIFT;
}

/* ---- frequency ---- */

/* Sets the ratio, and the scales at the ratios next to it: a CBR rounds, so the
 * true one is between these. A nominal frequency that was learnt is itself off
 * by up to one. */
static void set_ratio(struct pt_time *t, uint8_t ratio)
{
	unsigned step = t->nominal_given ? 1 : 2;

	t->ratio = ratio;
	t->low = t->high = 0;
	if (!t->nominal || !ratio)
		return;
	t->low = t->nominal / (ratio + step);
	if (ratio > step)
		t->high = t->nominal / (ratio - step);
}

/* How far scale may be off: it is between those of the ratios next to the one
 * of CBR. */
static void set_spread(struct pt_time *t)
{
	uint64_t low, high;

	t->spread = SPREAD_UNKNOWN;
	if (!t->scale || !t->high)
		return;
	low = differ(t->scale, t->low);
	high = differ(t->scale, t->high);
	t->spread = low > high ? low : high;
	if (t->spread >= SCALE_MAX)
		t->spread = SCALE_MAX - 1;
}

static void set_scale(struct pt_time *t, uint64_t scale)
{
	if (!scale || scale >= SCALE_MAX)
		return;
	t->scale = scale;
	set_spread(t);
}

/* A scale that was measured: used from now on if CBR allows it. Without a
 * nominal frequency in the configuration, that is learnt from it. */
static void adopt_scale(struct pt_time *t, uint64_t scale)
{
	if (t->nominal_given && t->ratio) {
		if (scale < t->low || (t->high && scale > t->high))
			return;
	} else if (!t->nominal_given && t->ratio && scale < SCALE_MAX &&
		   t->nominal != scale * t->ratio) {
		t->nominal = scale * t->ratio;
		set_ratio(t, t->ratio);
	}
	set_scale(t, scale);
}

/* At an anchor: measures the scale since the last one, if there were cycles
 * enough. */
static void calibrate(struct pt_time *t, uint64_t tsc)
{
	uint64_t ticks = tsc - t->cal_tsc;

	if (t->calibrating && tsc >= t->cal_tsc) {
		t->cal_cycles = add(t->cal_cycles, t->cycles);
		if (t->cal_cycles < CALIBRATE_MIN * (t->slack + 1))
			return;
		if (ticks >> (63 - PT_TIME_SHIFT) == 0)
			adopt_scale(t, (ticks << PT_TIME_SHIFT) / t->cal_cycles);
	}
	t->calibrating = true;
	t->cal_tsc = tsc;
	t->cal_cycles = 0;
}

/* ---- the estimate ---- */

/* Computes tsc, bound, window and limit from the cycles since base. tsc stands
 * still where it was ahead. */
static void estimate(struct pt_time *t)
{
	uint64_t tsc = add(t->base, scaled(t->cycles, t->scale));
	uint64_t off = add(t->base_bound, scaled(t->cycles, t->spread));
	uint64_t end;
	bool held;

	if (tsc > t->next) {
		if (tsc - t->next > off)	/* an MTC is missing */
			t->next = NEVER;
		else
			tsc = t->next;
	}
	held = tsc < t->tsc;
	if (held)
		off = add(off, t->tsc - tsc);
	else
		t->tsc = tsc;
	end = t->tsc > t->next ? t->tsc : t->next;
	t->window = t->next == NEVER ? NEVER :
				       add(end - t->anchor, t->anchor_bound);
	t->bound = off < t->window ? off : t->window;
	if (t->lost)
		t->bound = NEVER;
	t->limit = held || t->lost || t->turn || !t->scale ||
		   (t->base | t->base_bound) >> 62 ? 0 : t->next;
}

/* Moves base to the time that the cycles since it say. */
static void fold(struct pt_time *t)
{
	t->short_way = PT_TIME_WHOLE;
	t->moved |= t->cycles > 0;
	t->cal_cycles = add(t->cal_cycles, t->cycles);
	t->base = add(t->base, scaled(t->cycles, t->scale));
	t->base_bound = add(t->base_bound, scaled(t->cycles, t->spread));
	t->cycles = 0;
}

void pt_time_cyc_slow(struct pt_time *t, uint64_t cycles)
{
	if (!t->known)
		return;
	t->total += cycles;
	if (cycles > CYCLES_MAX)
		cycles = CYCLES_MAX;
	if (cycles > CYCLES_MAX - t->cycles)
		fold(t);
	if (cycles < t->slack && !t->slack_given)
		t->slack = cycles;
	if (t->turn)
		t->base_bound = add(t->base_bound, scaled(cycles, t->turn));
	t->turn = 0;
	t->cycles += cycles;
	estimate(t);
}

/* Cycles count from the anchor on. A CYC may have left some of those before it
 * to the next one: slack. */
static void set_base(struct pt_time *t)
{
	uint64_t scale = t->scale ? t->scale : SPREAD_UNKNOWN;

	t->base = t->anchor;
	t->base_bound = add(t->anchor_bound, 2 + scaled(t->slack + 1, scale));
	t->cycles = 0;
	t->moved = false;
}

/* An anchor says that it is tsc, give or take bound. */
static void set_anchor(struct pt_time *t, uint64_t tsc, uint64_t bound)
{
	t->anchor = tsc;
	t->anchor_bound = bound;
	if (t->cycles || t->moved) {
		calibrate(t, tsc);
		set_base(t);
	}
	if (t->tsc < tsc)
		t->tsc = tsc;
	estimate(t);
	t->bound = t->lost ? NEVER : add(bound, t->tsc - tsc);
}

/* ---- packets ---- */

void pt_time_init(struct pt_time *t, const struct aux_pt_config *config)
{
	uint32_t thresh = config->attr_config >> CONFIG_CYC_THRESH & 0xf;
	uint64_t ticks;

	*t = (struct pt_time){ .config = config };
	if (!(config->attr_config & CONFIG_CYC))
		thresh = CYC_THRESH_MAX;
	t->slack_given = config->attr_config & CONFIG_CYC;
	t->slack_max = thresh ? (uint64_t)1 << (thresh - 1) : 0;
	t->nominal_given = config->max_nonturbo_ratio &&
			   config->max_nonturbo_ratio < SCALE_MAX / ONE;
	t->period = config->mtc_period & 0xf;
	if (config->tsc_ctc_ratio_n && config->tsc_ctc_ratio_d) {
		ticks = (uint64_t)config->tsc_ctc_ratio_n << t->period;
		t->period_tsc = ticks / config->tsc_ctc_ratio_d;
		t->period_part = ticks % config->tsc_ctc_ratio_d;
	}
	pt_time_psb(t);
}

void pt_time_psb(struct pt_time *t)
{
	t->tsc = 0;
	t->bound = 0;
	t->known = false;
	t->lost = false;
	t->short_way = PT_TIME_WHOLE;
	t->limit = 0;
	t->cycles = 0;
	t->moved = false;
	t->slack = t->slack_max;
	t->scale = 0;
	t->spread = SPREAD_UNKNOWN;
	t->turn = 0;
	t->calibrating = false;
	t->cal_cycles = 0;
	t->have_ctc = false;
	t->tma_due = false;
	t->is_early = false;
	t->nominal = t->nominal_given ? t->config->max_nonturbo_ratio * ONE : 0;
	set_ratio(t, 0);
}

void pt_time_tsc(struct pt_time *t, uint64_t tsc)
{
	/* the clocks may have stopped before it: nothing to calibrate with */
	t->calibrating = false;
	t->is_early &= !t->known;
	t->known = true;
	t->tsc_given = tsc;
	t->lost = false;
	t->short_way = PT_TIME_WHOLE;
	t->have_ctc = false;
	t->tma_due = true;
	t->turn = 0;
	t->next = NEVER;
	t->moved = true;
	set_anchor(t, tsc, 0);
}

/* The next MTC is due a period after ctc, at the latest. */
static void expect_mtc(struct pt_time *t)
{
	t->next = add(t->ctc_tsc, add(t->period_tsc, 1 + t->ctc_bound));
}

/* Advances the crystal clock by so many ticks. */
static void advance_ctc(struct pt_time *t, uint32_t ticks)
{
	uint64_t n = t->config->tsc_ctc_ratio_n, d = t->config->tsc_ctc_ratio_d;
	uint64_t tsc = t->period_tsc, part = t->ctc_part + t->period_part;

	if (ticks == (uint32_t)1 << t->period) {
		if (part >= d) {
			tsc++;
			part -= d;
		}
	} else {
		part = ticks * n + t->ctc_part;
		tsc = part / d;
		part %= d;
	}
	t->ctc_part = part;
	t->ctc_tsc = add(t->ctc_tsc, tsc);
}

/* Without a TMA the first MTC is where the cycles say, or else at most a period
 * after the TSC. */
static void guess_ctc(struct pt_time *t)
{
	t->have_ctc = true;
	t->ctc_part = 0;
	t->ctc_tsc = t->anchor;
	t->ctc_bound = add(t->period_tsc, CTC_BOUND);
	if (t->scale && (t->cycles || t->moved)) {
		t->ctc_tsc = t->tsc;
		t->ctc_bound = add(t->bound, CTC_BOUND +
					     scaled(t->slack + 1, t->scale));
	}
}

/* An MTC, as the value of the crystal clock. If a TMA had fewer bits than the
 * MTC, the first MTC is the next one that fits. */
static void consume_mtc(struct pt_time *t, uint32_t ctc)
{
	unsigned bits = t->period + MTC_BITS;
	uint32_t ticks;

	if (!t->known || !t->have_ctc) {
		t->is_early = !t->known || t->tma_due;
		t->early = (uint8_t)(ctc >> t->period);
	}
	if (!t->known || !t->period_tsc)
		return;
	t->tma_due &= !t->have_ctc;
	if (!t->have_ctc) {
		guess_ctc(t);
	} else {
		if (t->tma_last && bits > TMA_CTC_BITS)
			bits = TMA_CTC_BITS;
		ticks = (ctc - t->ctc) & ((1u << bits) - 1);
		/* that of the TMA's own period came late */
		if (t->tma_last && ticks > (1u << bits) - (1u << t->period))
			return;
		advance_ctc(t, ticks);
	}
	t->tma_last = false;
	t->ctc = ctc;
	expect_mtc(t);
	set_anchor(t, t->ctc_tsc, t->ctc_bound);
}

/*
 * A tick of the crystal clock just after the moment that a TSC tells has its MTC
 * in front of the TSC or of its TMA. What follows is after the tick: the TMA
 * says when that was.
 */
static void consume_early(struct pt_time *t)
{
	uint32_t ctc = (uint32_t)t->early << t->period;
	uint32_t ticks = (ctc - t->ctc) & ((1u << (t->period + MTC_BITS)) - 1);

	t->is_early = false;
	if (t->period + MTC_BITS <= TMA_CTC_BITS && ticks &&
	    ticks <= 1u << t->period)
		consume_mtc(t, ctc);
}

void pt_time_tma(struct pt_time *t, uint16_t ctc, uint16_t fc)
{
	uint64_t bound;

	if (!t->tma_due || !t->period_tsc)
		return;
	t->short_way = PT_TIME_WHOLE;
	t->tma_due = false;
	t->tma_last = true;
	t->have_ctc = true;
	t->ctc = ctc;
	t->ctc_tsc = t->tsc_given > fc ? t->tsc_given - fc : 0;
	t->ctc_part = 0;
	t->ctc_bound = CTC_BOUND;
	expect_mtc(t);
	bound = t->bound;
	estimate(t);
	t->bound = bound;
	if (t->is_early)
		consume_early(t);
}

/* After an MTC: is all in place for step_mtc to take the next one? */
static bool is_steady(const struct pt_time *t)
{
	return t->have_ctc && !t->tma_last && !t->tma_due && !t->lost &&
	       !t->turn &&
	       t->calibrating && t->cal_tsc == t->ctc_tsc && !t->cal_cycles &&
	       t->scale && t->nominal_given && t->low && t->high &&
	       t->high < SCALE_MAX &&
	       !((t->period_tsc | t->ctc_bound) >> STEADY_BITS);
}

/* After an MTC: is all in place for plain_mtc to take the next one? */
static bool is_plain(const struct pt_time *t)
{
	return t->have_ctc && !t->tma_last && !t->tma_due && !t->lost &&
	       !t->turn && !t->cycles && !t->moved && t->base < t->ctc_tsc &&
	       !((t->period_tsc | t->ctc_bound | t->base_bound) >> STEADY_BITS);
}

static __attribute__((noinline)) void mtc_slow(struct pt_time *t, uint8_t value)
{
	consume_mtc(t, (uint32_t)value << t->period);
	t->short_way = is_steady(t) ? PT_TIME_STEP :
		       is_plain(t) ? PT_TIME_PLAIN : PT_TIME_WHOLE;
}

/* Is the MTC one period after the last, with cycles enough to calibrate
 * with? */
static inline bool is_step(const struct pt_time *t, uint8_t value)
{
	return t->short_way == PT_TIME_STEP && (uint8_t)(value - (t->ctc >> t->period)) == 1 &&
	       t->cycles >= CALIBRATE_MIN * (t->slack + 1) &&
	       !((t->ctc_tsc | t->tsc) >> 61);
}

/* As calibrate: the cycles took so many ticks. */
static inline void step_scale(struct pt_time *t, uint64_t ticks)
{
	uint64_t scale = (ticks << PT_TIME_SHIFT) / t->cycles;
	uint64_t above = scale - t->low, below = t->high - scale;

	if (scale < t->low || scale > t->high)
		return;
	t->scale = scale;
	t->spread = above > below ? above : below;
}

/* As advance_ctc by a period. Returns how many TSC ticks that is. */
static inline uint64_t step_ctc(struct pt_time *t, uint8_t value)
{
	uint64_t d = t->config->tsc_ctc_ratio_d, ticks = t->period_tsc;
	uint64_t part = t->ctc_part + t->period_part;

	if (part >= d) {
		part -= d;
		ticks++;
	}
	t->ctc = (uint32_t)value << t->period;
	t->ctc_part = part;
	t->ctc_tsc += ticks;
	return ticks;
}

/* As consume_mtc, if is_step. */
static inline void step_mtc(struct pt_time *t, uint8_t value)
{
	uint64_t bound = t->ctc_bound, tsc, end;

	step_scale(t, step_ctc(t, value));
	tsc = t->ctc_tsc;
	t->cal_tsc = t->anchor = t->base = tsc;
	t->base_bound = bound + 2 + scaled(t->slack + 1, t->scale);
	t->cycles = 0;
	t->next = end = tsc + t->period_tsc + 1 + bound;
	t->limit = end;
	if (t->tsc > tsc) {	/* it is ahead: it stands still */
		t->limit = 0;
		if (t->tsc > end)
			end = t->tsc;
	} else {
		t->tsc = tsc;
	}
	t->bound = bound + (t->tsc - tsc);
	t->window = end - tsc + bound;
}

/* Is the MTC one period after the last, without a CYC since then? */
static inline bool is_plain_step(const struct pt_time *t, uint8_t value)
{
	return t->short_way == PT_TIME_PLAIN && !t->cycles && !t->turn &&
	       !t->moved && (uint8_t)(value - (t->ctc >> t->period)) == 1 &&
	       !((t->ctc_tsc | t->tsc) >> 61);
}

/* As consume_mtc, if is_plain_step: the time since base is not known from cycles, so
 * it stands still at the MTC, or where it was ahead. */
static inline void plain_mtc(struct pt_time *t, uint8_t value)
{
	uint64_t bound = t->ctc_bound, end, tsc;

	step_ctc(t, value);
	tsc = t->ctc_tsc;
	t->anchor = tsc;
	t->next = end = tsc + t->period_tsc + 1 + bound;
	if (t->tsc < tsc)
		t->tsc = tsc;
	if (t->tsc > end)
		end = t->tsc;
	t->window = end - tsc + bound;
	t->limit = 0;
	t->bound = bound + (t->tsc - tsc);
}

void pt_time_mtc(struct pt_time *t, uint8_t value)
{
	if (is_step(t, value))
		step_mtc(t, value);
	else if (is_plain_step(t, value))
		plain_mtc(t, value);
	else
		mtc_slow(t, value);
}

void pt_time_cbr(struct pt_time *t, uint8_t ratio)
{
	uint64_t old = t->scale;
	bool fresh = !t->cycles && !t->moved;

	if (!ratio || ratio == t->ratio)
		return;
	fold(t);
	t->calibrating = false;
	set_ratio(t, ratio);
	t->scale = t->nominal / ratio;
	if (t->scale >= SCALE_MAX)
		t->scale = 0;
	set_spread(t);
	if (fresh && t->base == t->anchor)
		set_base(t);
	if (!old)
		return;
	t->turn = add(t->turn, differ(old, t->scale));
	if (t->turn >= SCALE_MAX)
		t->turn = SCALE_MAX - 1;
	t->limit = 0;
}

void pt_time_ovf(struct pt_time *t)
{
	t->lost = true;
	t->short_way = PT_TIME_WHOLE;
	t->bound = NEVER;
	t->limit = 0;
	t->next = NEVER;
	t->calibrating = false;
}
