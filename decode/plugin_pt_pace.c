/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pt: time in the quick way: cycles are added up until they matter.
 */
#include "plugin_pt.h"
#include "plugin_pt_quick.h"

#define OFTEN (UINT64_C(1) << 24) /* ticks; below, TIMEs are no exception */

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

void pt_quick_give_time(const struct pt_quick *r)
{
	struct pt_time *t = &r->d->time;
	uint64_t n = r->cycles - t->cycles;

	if (!n)
		return;
	t->cycles = r->cycles;
	t->total += n;
	t->tsc = t->base + (t->cycles * t->scale >> PT_TIME_SHIFT);
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

bool pt_quick_cyc(struct pt_quick *r)
{
	const uint8_t *p = r->p;
	uint64_t v = p[0] >> 3;
	unsigned n = 1;

	if (p[0] & 4) {
		v |= (uint64_t)(p[1] >> 1) << 5;
		n = 2;
		if (r->d->errata & PT_ERR_SKD007)
			return false;
	}
	if (n == 2 && p[1] & 1) {
		v |= (uint64_t)(p[2] >> 1) << 12;
		n = 3;
		if (p[2] & 1)
			return false;
	}
	pt_time_cyc_tsc(&r->d->time, v);
	r->p += n;
	return true;
}
