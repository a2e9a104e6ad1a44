/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time in the fast path of the Intel PT decoder.
 *
 * Lazy timing. A host that wants no times (time_step UINT64_MAX: count, coverage, profiles
 * by instructions) still has to stop at its horizon. While that is far, CYCs are not even
 * added up, and of an MTC only its 8 bits are looked at:
 *
 *  - count_periods says how many MTC periods certainly end before the horizon. An MTC
 *    that stays below is skipped; the first that does not ends lazy timing.
 *  - CYCs without an MTC could lead far, too. So each MTC sets a guard some bytes ahead,
 *    up to which all the bytes, were they CYCs, could not reach the horizon: a byte holds
 *    less than 2^CYCLES_SHIFT cycles (a large CYC moves the guard closer). At the guard
 *    the slower functions look.
 *  - pt_lazy_end reads again, from lazy.from on, what was skipped: only TNT, TIP, CYC and
 *    MTC packets can be there. At a PSB there is nothing to read, as a PSB forgets
 *    all of time.
 *
 * Measured (918d6bd): gzip 975 to 771 million host instructions for 210 million traced,
 * cc1 3983 to 3520 for 396.
 *
 * Where times are wanted, cycles are added up in a register and compared with a limit,
 * which is where a TIME could be due, or pt_time has more to do than add: pt_fast_load_time.
 */
#include "decode/lib/pt/fast.h"

#define OFTEN (UINT64_C(1) << 24) /* ticks; below, TIMEs are no exception */
#define SKIP_PERIOD 4096	/* ticks; longer MTC periods hold too many CYCs */
#define CYCLES_SHIFT 11		/* a byte of a CYC stands for fewer than 2^11 cycles */

/* No TIME is due before this TSC; 0: one may be at any time. In the fast path
 * the last TIME queued is the last one delivered: the queue is empty. */
static uint64_t earliest_due(const struct pt *d)
{
	uint64_t due_tsc = d->times.tsc + d->host->time_step;

	if (!d->cur.time.known || !d->times.have_time)
		return 0;
	if (due_tsc < d->times.tsc || due_tsc > d->host->horizon_tsc)
		due_tsc = d->host->horizon_tsc;
	return due_tsc > d->times.tsc ? due_tsc : d->times.tsc + 1;
}

/* How many cycles since t->base certainly stay below tsc; too few only cost
 * time. */
static uint64_t cycle_limit(struct pt_fast *r, const struct pt_time *t,
			   uint64_t tsc)
{
	const double max = UINT64_C(1) << PT_TIME_CYCLE_BITS;
	double n;

	if (tsc <= t->base || !t->scale)
		return 0;
	if (t->scale != r->scale) {
		r->scale = t->scale;
		r->per_tick = (1 << PT_TIME_SHIFT) / (double)t->scale *
			      (1 - 1e-9);
	}
	n = (double)(tsc - t->base) * r->per_tick;
	return n < 1 ? 0 : (uint64_t)(n < max ? n : max);
}

/* Loads time from pt_time: what is due, and how far cycles can be just added
 * up. */
void pt_fast_load_time(struct pt_fast *r)
{
	const struct aux_decoder_host *host = r->d->host;
	const struct pt_time *t = &r->d->cur.time;
	uint64_t limit;

	r->due_tsc = earliest_due(r->d);
	r->emits_times = r->due_tsc && host->time_step < OFTEN;
	r->cycles = t->cycles;
	r->time_due = t->tsc >= r->due_tsc;
	limit = r->emits_times ? host->horizon_tsc
		: r->time_due  ? UINT64_MAX
			       : r->due_tsc;
	r->limit = cycle_limit(r, t, limit < t->limit ? limit : t->limit);
}

/* Stores what was added up, or reads what was skipped; load_time must
 * follow. */
void pt_fast_store_time(struct pt_fast *r)
{
	struct pt_time *t = &r->d->cur.time;
	uint64_t n;

	if (r->lazy) {
		r->lazy = false;
		pt_lazy_end(r->d, r->p);
		return;
	}
	n = r->cycles - t->cycles;
	if (!n)
		return;
	t->cycles = r->cycles;
	t->total += n;
	t->tsc = t->base + (t->cycles * t->scale >> PT_TIME_SHIFT);
}

/* The CYC at p of up to three bytes: its size. 0: it is longer, or an erratum
 * may concern it; the slow path reads it. Such a CYC is never skipped. */
static unsigned read_cyc(const struct pt *d, const uint8_t *p, uint64_t *cycles)
{
	uint64_t v = p[0] >> 3;
	unsigned n = 1;

	if (p[0] & 4) {
		v |= (uint64_t)(p[1] >> 1) << 5;
		n = 2;
		if (d->cur.errata & PT_ERR_SKD007)
			return 0;
	}
	if (n == 2 && p[1] & 1) {
		v |= (uint64_t)(p[2] >> 1) << 12;
		n = 3;
		if (p[2] & 1)
			return 0;
	}
	*cycles = v;
	return n;
}

/* While timing is lazy. False: after it the time may be at the horizon. */
static bool skip_cyc(struct pt_fast *r, uint64_t cycles)
{
	ptrdiff_t n = (ptrdiff_t)(cycles >> CYCLES_SHIFT);

	if (r->d->lazy.guard - r->p <= n)
		return false;
	r->d->lazy.guard -= n;
	return true;
}

bool pt_fast_skip_time(struct pt_fast *r)
{
	uint64_t cycles;
	unsigned n = 2;

	if (packet_kind[*r->p] == MTC) {
		if (!pt_fast_skip_mtc(r, r->p))
			return false;
	} else {
		n = read_cyc(r->d, r->p, &cycles);
		if (!n || !skip_cyc(r, cycles))
			return false;
	}
	r->p += n;
	return true;
}

/* Consumes the CYC at r->p. False: the slow path has to. */
bool pt_fast_take_cyc(struct pt_fast *r)
{
	uint64_t cycles;
	unsigned n = read_cyc(r->d, r->p, &cycles);

	if (!n)
		return false;
	if (!r->lazy || !skip_cyc(r, cycles)) {
		pt_fast_store_time(r);
		pt_time_cyc_tsc(&r->d->cur.time, cycles);
		pt_fast_load_time(r);
	}
	r->p += n;
	return true;
}

/* ---- lazy timing ---- */

/* At most so many ticks pass with the cycles before now and those up to the
 * guard. */
static uint64_t max_ticks(const struct pt *d)
{
	const struct pt_time *t = &d->cur.time;
	uint64_t cycles = t->cycles + ((uint64_t)d->guard_bytes << CYCLES_SHIFT);
	uint64_t scale = t->scale > t->high ? t->scale : t->high;

	if (!t->nominal_given || !t->ratio || !t->high)
		return cycles << 8;	/* no scale is larger */
	return cycles * scale >> PT_TIME_SHIFT;
}

/*
 * How many MTC periods from now on certainly end before the horizon; 0 wherever
 * that is not simple: no TSC yet, after an OVF, between a TMA and its first
 * MTC. An MTC is one period late at most; if it is missing, the cycles in
 * max_ticks tell the time.
 */
static uint64_t count_periods(const struct pt *d)
{
	const struct pt_time *t = &d->cur.time;
	uint64_t period = t->period_tsc + 1, horizon = d->host->horizon_tsc;
	uint64_t latest = t->ctc_tsc + t->ctc_bound;

	if (!t->known || !t->have_ctc || t->lost || t->turn || t->tma_last ||
	    !t->scale || t->cycles >> 32 || period > SKIP_PERIOD ||
	    (t->tsc | t->ctc_tsc | t->ctc_bound) >> 61)
		return 0;
	if (latest < t->tsc)
		latest = t->tsc;
	latest += max_ticks(d) + 2 * period;
	return latest < horizon ? (horizon - latest) / period : 0;
}

static uint64_t lazy_periods(const struct pt_fast *r)
{
	const struct pt *d = r->d;

	return d->host->time_step == UINT64_MAX && d->times.have_time &&
	       r->paths == AUX_PATHS_JOINED ? count_periods(d) : 0;
}

/* At the start of a run: goes on with lazy timing or begins it, if that is
 * worth it and the horizon is far; else load_time. The horizon may have changed
 * since the last run. */
void pt_fast_begin_time(struct pt_fast *r)
{
	struct pt *d = r->d;
	struct pt_lazy *skip = &d->lazy;

	r->max_periods = lazy_periods(r);
	/* the horizon is nearer, or times are wanted now */
	if (skip->from && (skip->periods > r->max_periods ||
			   d->host->time_step != UINT64_MAX)) {
		pt_lazy_end(d, r->p);
		r->max_periods = lazy_periods(r);
	}
	if (!skip->from) {
		if (r->max_periods < d->min_periods) {
			pt_fast_load_time(r);
			return;
		}
		*skip = (struct pt_lazy){
			.from = r->p, .guard = r->p + d->guard_bytes,
			.ctc = (uint8_t)(d->cur.time.ctc >> d->cur.time.period) };
	}
	r->lazy = true;
	r->time_due = r->emits_times = false;
}

static bool is_psb(const struct pt *d, const uint8_t *p)
{
	struct ptpkt pkt;

	return ptpkt_decode(p, d->cur.end, &pkt) > 0 && pkt.type == PTPKT_PSB;
}

void pt_lazy_end(struct pt *d, const uint8_t *p)
{
	const uint8_t *at = d->lazy.from;
	struct ptpkt pkt;

	if (d->cur.state == PT_UNSYNCED || is_psb(d, p))
		at = p;
	while (at < p) {
		enum packet_kind kind = (enum packet_kind)packet_kind[*at];
		uint64_t cycles = 0;

		if (kind == CYC) {
			at += read_cyc(d, at, &cycles);
			pt_time_cyc_tsc(&d->cur.time, cycles);
		} else if (kind == MTC) {
			pt_time_mtc(&d->cur.time, at[1]);
			at += 2;
		} else if (kind == PAD || kind == TNT) {
			at++;
		} else {	/* TIPs, long TNTs, and those of pauses */
			ptpkt_decode(at, d->cur.end, &pkt);
			at += pkt.size;
		}
	}
	d->lazy.from = NULL;
}

/* At the end of a run: lazy timing goes on in the next one. */
void pt_fast_end_time(struct pt_fast *r)
{
	if (!r->lazy)
		pt_fast_store_time(r);
}
