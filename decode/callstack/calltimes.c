/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calltimes: see calltimes.h. Buckets as in HdrHistogram: a value's bucket
 * follows from the position of its highest bit and the six bits below it, so
 * the relative error is at most 1/64 at any size, and adding is a shift.
 *
 * Reference: Gil Tene, HdrHistogram (hdrhistogram.org).
 */
#include <stdlib.h>
#include <string.h>

#include <aux/error.h>

#include "decode/callstack/calltimes.h"

#define SUB_BITS 6
#define SUB	 (1u << SUB_BITS)

/* Values below 2 * SUB are their own bucket. */
uint32_t calltimes_bucket(uint64_t v)
{
	unsigned high;

	if (v < 2 * SUB)
		return (uint32_t)v;
	high = 63 - (unsigned)__builtin_clzll(v);
	return (high - SUB_BITS) * SUB + (uint32_t)(v >> (high - SUB_BITS));
}

/* The largest value of a bucket. */
static uint64_t last_of(uint32_t bucket)
{
	unsigned shift;

	if (bucket < 2 * SUB)
		return bucket;
	shift = bucket / SUB - 1;
	return ((uint64_t)(bucket % SUB + SUB) << shift) +
	       ((UINT64_C(1) << shift) - 1);
}

/* Makes room for buckets lo to hi: the array spans those in use. */
static int widen(struct calltimes *t, uint32_t lo, uint32_t hi)
{
	uint32_t first = t->first, end = t->first + t->n_buckets, n;
	uint64_t *count;

	if (t->n_buckets && lo >= first && hi < end)
		return 0;
	if (!t->n_buckets) {
		first = lo;
		end = lo;
	}
	first = lo < first ? lo : first;
	end = hi >= end ? hi + 1 : end;
	n = end - first;
	count = calloc(n, sizeof(*count));
	if (!count)
		return -AUX_E_NOMEM;
	if (t->n_buckets)
		memcpy(count + (t->first - first), t->count,
		       t->n_buckets * sizeof(*count));
	free(t->count);
	t->count = count;
	t->first = first;
	t->n_buckets = n;
	return 0;
}

int calltimes_add(struct calltimes *t, uint64_t v)
{
	uint32_t b = calltimes_bucket(v);
	int err = widen(t, b, b);

	if (err)
		return err;
	t->count[b - t->first]++;
	if (!t->n || v < t->min)
		t->min = v;
	if (v > t->max)
		t->max = v;
	t->n++;
	if (__builtin_add_overflow(t->sum, v, &t->sum))
		t->sum = UINT64_MAX;
	return 0;
}

int calltimes_add_bucket(struct calltimes *t, uint32_t bucket, uint64_t n, uint64_t sum,
			 uint64_t min, uint64_t max)
{
	int err = n ? widen(t, bucket, bucket) : 0;

	if (err || !n)
		return err;
	t->count[bucket - t->first] += n;
	t->min = !t->n || min < t->min ? min : t->min;
	t->max = max > t->max ? max : t->max;
	t->n += n;
	if (__builtin_add_overflow(t->sum, sum, &t->sum))
		t->sum = UINT64_MAX;
	return 0;
}

uint64_t calltimes_at(const struct calltimes *t, double q)
{
	double want = q * (double)t->n;
	uint64_t rank, seen = 0, v;

	if (!t->n)
		return 0;
	/* 0.99 * 100 may be 99.00000000000001: that is rank 99 */
	rank = want <= 1 ? 1 : (uint64_t)(want - 1e-6) + 1;
	for (uint32_t i = 0; i < t->n_buckets; i++) {
		seen += t->count[i];
		if (seen >= rank) {
			v = last_of(t->first + i);
			return v > t->max ? t->max : v;
		}
	}
	return t->max;
}

void calltimes_fini(struct calltimes *t)
{
	free(t->count);
	*t = (struct calltimes){ 0 };
}

/* ---- rows ---- */

#define DECADE 10 /* rows of a power of ten */

/* table */
static const uint8_t row_begins[DECADE] = { 10, 12, 15, 20, 25,
					    30, 40, 50, 60, 80 };

/* Where row i begins: row 0 at 0, row 1 at 1, and so on up. */
static uint64_t row_begin(unsigned i)
{
	unsigned __int128 v;

	if (!i)
		return 0;
	i--;
	v = row_begins[i % DECADE];
	for (unsigned d = i / DECADE; d; d--)
		v *= 10;
	v = (v + 9) / 10;
	return v > UINT64_MAX ? UINT64_MAX : (uint64_t)v;
}

void callrows_add(struct callrows *r, uint64_t v)
{
	uint64_t unit = 1;
	unsigned i = 1;

	if (!v) {
		r->n[0]++;
		return;
	}
	for (; v / 10 >= unit; i += DECADE)
		if (__builtin_mul_overflow(unit, 10, &unit))
			break;
	while (i + 1 < CALLROWS_MAX && row_begin(i + 1) <= v)
		i++;
	r->n[i]++;
}

/* The row after i that begins at 1, 2 or 5 of its power of ten; fine: that
 * begins elsewhere at all (below 10 several rows begin at the same integer). */
static unsigned next_row(unsigned i, bool fine)
{
	uint64_t from = row_begin(i);

	do
		i++;
	while (i < CALLROWS_MAX &&
	       (row_begin(i) == from ||
		(!fine && row_begins[(i - 1) % DECADE] != 10 &&
		 row_begins[(i - 1) % DECADE] != 20 &&
		 row_begins[(i - 1) % DECADE] != 50)));
	return i;
}

static unsigned put_rows(const struct callrows *r, bool fine,
			 struct callrow out[CALLROWS_SHOWN])
{
	unsigned n = 0, last = 0, end;

	for (unsigned i = 0; i < CALLROWS_MAX && n < CALLROWS_SHOWN; i = end) {
		struct callrow row = { .from = row_begin(i) };

		end = next_row(i, fine);
		row.to = end < CALLROWS_MAX ? row_begin(end) : UINT64_MAX;
		for (unsigned k = i; k < end && k < CALLROWS_MAX; k++)
			row.n += r->n[k];
		if (!row.n && !n)
			continue;
		out[n++] = row;
		if (row.n)
			last = n;
	}
	return last;
}

/* Few rows say little: then ten for each power of ten. */
unsigned callrows_get(const struct callrows *r,
		      struct callrow out[CALLROWS_SHOWN])
{
	const unsigned few = 6;
	unsigned n = put_rows(r, false, out);

	return n < few ? put_rows(r, true, out) : n;
}

/* ---- slowest ---- */

int slowest_init(struct slowest *s, uint32_t max)
{
	*s = (struct slowest){ .max = max };
	if (max)
		s->v = calloc(max, sizeof(*s->v));
	return max && !s->v ? -AUX_E_NOMEM : 0;
}

/* The heap's order: the least value on top; among equal ones the latest, so
 * that those offered first stay. */
static bool is_less(const struct slow *a, const struct slow *b)
{
	return a->value != b->value ? a->value < b->value : a->order > b->order;
}

static void sift_down(struct slowest *s, uint32_t i, uint32_t n)
{
	for (;;) {
		uint32_t least = i, child = 2 * i + 1;
		struct slow keep;

		for (uint32_t k = child; k < n && k < child + 2; k++)
			if (is_less(&s->v[k], &s->v[least]))
				least = k;
		if (least == i)
			return;
		keep = s->v[i];
		s->v[i] = s->v[least];
		s->v[least] = keep;
		i = least;
	}
}

static void sift_up(struct slowest *s, uint32_t i)
{
	while (i && is_less(&s->v[i], &s->v[(i - 1) / 2])) {
		struct slow keep = s->v[i];

		s->v[i] = s->v[(i - 1) / 2];
		s->v[(i - 1) / 2] = keep;
		i = (i - 1) / 2;
	}
}

bool slowest_wants(const struct slowest *s, uint64_t value)
{
	return s->n < s->max || (s->max && value > s->v[0].value);
}

int64_t slowest_offer(struct slowest *s, uint64_t value)
{
	struct slow e = { .value = value, .order = s->n_offered++ };

	if (!slowest_wants(s, value))
		return -1;
	if (s->n < s->max) {
		e.slot = s->n;
		s->v[s->n] = e;
		sift_up(s, s->n++);
	} else {
		e.slot = s->v[0].slot;
		s->v[0] = e;
		sift_down(s, 0, s->n);
	}
	return e.slot;
}

/* Heap sort: the least goes to the end. */
void slowest_sort(struct slowest *s)
{
	for (uint32_t n = s->n; n > 1; n--) {
		struct slow keep = s->v[0];

		s->v[0] = s->v[n - 1];
		s->v[n - 1] = keep;
		sift_down(s, 0, n - 1);
	}
}

void slowest_fini(struct slowest *s)
{
	free(s->v);
	*s = (struct slowest){ 0 };
}
