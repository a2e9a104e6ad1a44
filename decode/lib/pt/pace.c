/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pt: time in the quick way: cycles are added up until they matter, and where no time
 * does, up to a horizon that is far, packets of time are gone over.
 */
#include "decode/lib/pt/engine.h"
#include "decode/lib/pt/packets.h"
#include "decode/lib/pt/quick.h"

#define OFTEN (UINT64_C(1) << 24) /* ticks; below, TIMEs are no exception */
#define SKIP_PERIOD 4096	/* ticks; what is longer has many CYCs */
#define CYCLES_SHIFT 11		/* so many bits of cycles in a byte of a CYC */

/* Before it no TIME is. In the quick way the last one pushed is the last one given. */
static uint64_t find_due(const struct pt *d)
{
	uint64_t due = d->tsc + d->host->time_step;

	if (!d->time.known || !d->have_time)
		return 0;
	if (due < d->tsc || due > d->host->horizon_tsc)
		due = d->host->horizon_tsc;
	return due > d->tsc ? due : d->tsc + 1;
}

/* No more cycles than this lead below a time; a few less do no harm. */
static uint64_t find_limit(struct pt_quick *r, const struct pt_time *t, uint64_t tsc)
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

void pt_quick_take_time(struct pt_quick *r)
{
	const struct aux_decoder_host *host = r->d->host;
	const struct pt_time *t = &r->d->time;
	uint64_t limit;

	r->due = find_due(r->d);
	r->timed = r->due && host->time_step < OFTEN;
	r->cycles = t->cycles;
	r->late = t->tsc >= r->due;
	limit = r->timed ? host->horizon_tsc : r->late ? UINT64_MAX : r->due;
	r->limit = find_limit(r, t, limit < t->limit ? limit : t->limit);
}

void pt_quick_give_time(struct pt_quick *r)
{
	struct pt_time *t = &r->d->time;
	uint64_t n;

	if (r->skips) {
		r->skips = false;
		pt_skip_end(r->d, r->p);
		return;
	}
	n = r->cycles - t->cycles;
	if (!n)
		return;
	t->cycles = r->cycles;
	t->total += n;
	t->tsc = t->base + (t->cycles * t->scale >> PT_TIME_SHIFT);
}

/* The CYC at p, of three bytes at most: its size, 0: it is for the slow way, and never
 * skipped. */
static unsigned read_cyc(const struct pt *d, const uint8_t *p, uint64_t *cycles)
{
	uint64_t v = p[0] >> 3;
	unsigned n = 1;

	if (p[0] & 4) {
		v |= (uint64_t)(p[1] >> 1) << 5;
		n = 2;
		if (d->errata & PT_ERR_SKD007)
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

bool pt_quick_cyc(struct pt_quick *r)
{
	uint64_t cycles;
	unsigned n = read_cyc(r->d, r->p, &cycles);

	if (!n)
		return false;
	if (r->skips && r->d->skip.guard - r->p >
				(ptrdiff_t)(cycles >> CYCLES_SHIFT)) {
		r->d->skip.guard -= cycles >> CYCLES_SHIFT;
	} else {
		pt_quick_give_time(r);
		pt_time_cyc_tsc(&r->d->time, cycles);
		pt_quick_take_time(r);
	}
	r->p += n;
	return true;
}

/* ---- time that nobody asks for ---- */

/* Ticks that the CYCs up to the guard take at most, and those before. */
static uint64_t max_ticks(const struct pt *d)
{
	const struct pt_time *t = &d->time;
	uint64_t cycles = t->cycles + ((uint64_t)d->skip_bytes << CYCLES_SHIFT);
	uint64_t scale = t->scale > t->high ? t->scale : t->high;

	if (!t->nominal_given || !t->ratio || !t->high)
		return cycles << 8;	/* no scale is larger */
	return cycles * scale >> PT_TIME_SHIFT;
}

/* So many periods of MTCs from here on surely end below the horizon. An MTC is one
 * period late at most; without it cycles tell the time. */
static uint64_t count_periods(const struct pt *d)
{
	const struct pt_time *t = &d->time;
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

static uint64_t find_periods(const struct pt_quick *r)
{
	const struct pt *d = r->d;

	return d->host->time_step == UINT64_MAX && d->have_time &&
	       r->paths == AUX_PATHS_JOINED ? count_periods(d) : 0;
}

void pt_quick_skip_time(struct pt_quick *r)
{
	struct pt *d = r->d;
	struct pt_skip *skip = &d->skip;

	r->max_periods = find_periods(r);
	if (skip->from && skip->periods > r->max_periods) { /* another horizon */
		pt_skip_end(d, d->p);
		r->max_periods = find_periods(r);
	}
	if (!skip->from) {
		if (r->max_periods < d->skip_periods) {
			pt_quick_take_time(r);
			return;
		}
		*skip = (struct pt_skip){
			.from = d->p, .guard = d->p + d->skip_bytes,
			.ctc = (uint8_t)(d->time.ctc >> d->time.period) };
	}
	r->skips = true;
	r->late = r->timed = false;
}

static bool is_psb(const struct pt *d, const uint8_t *p)
{
	struct ptpkt pkt;

	return ptpkt_decode(p, d->end, &pkt) > 0 && pkt.type == PTPKT_PSB;
}

void pt_skip_end(struct pt *d, const uint8_t *p)
{
	const uint8_t *at = d->skip.from;

	if (!d->synced || is_psb(d, p))
		at = p;
	while (at < p) {
		enum quick kind = (enum quick)quick[*at];
		uint64_t cycles = 0;

		if (kind == CYC) {
			at += read_cyc(d, at, &cycles);
			pt_time_cyc_tsc(&d->time, cycles);
		} else if (kind == MTC) {
			pt_time_mtc(&d->time, at[1]);
			at += 2;
		} else {
			at += kind == TIP ? quick_tips[*at].size :
			      kind == EXT ? 8 : 1;
		}
	}
	d->skip.from = NULL;
}

void pt_quick_leave_time(struct pt_quick *r)
{
	if (!r->skips)
		pt_quick_give_time(r);
}

bool pt_quick_put_time(struct pt_quick *r)
{
	struct pt *d = r->d;
	uint64_t tsc;

	r->late = false;
	pt_quick_give_time(r);
	if (!d->time.known)
		return true;
	tsc = d->time.tsc;
	r->stop = tsc >= d->host->horizon_tsc || tsc < d->given_tsc;
	d->have_time = true;
	d->tsc = d->pushed_tsc = d->given_tsc = tsc;
	*r->o++ = (struct aux_flow){
		.offset = r->offset, .kind = AUX_FLOW_TIME,
		.flags = AUX_FLOW_HAS_TSC, .n = pt_take_cycles(d),
		.time = { aux_clock_ns(&d->config->clock, tsc), tsc } };
	pt_quick_take_time(r);
	return !r->stop;
}
