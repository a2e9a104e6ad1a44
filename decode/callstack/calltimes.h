/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calltimes: how long many calls took (in whatever is measured: nanoseconds,
 * instructions, cycles): sums, percentiles, rows of a histogram, and the N
 * slowest. Memory depends on the span of the values, never on how many there
 * are.
 */
#ifndef DECODE_CALLSTACK_CALLTIMES_H
#define DECODE_CALLSTACK_CALLTIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Values below 128 are counted each on its own, larger ones in buckets of 1/64
 * of their power of two. n, sum, min and max are exact (sum stops at
 * UINT64_MAX). Starts zeroed.
 */
struct calltimes {
	uint64_t n, sum, min, max;
	uint64_t *count;	/* of the buckets first, first + 1, ... */
	uint32_t first, n_buckets;
};

/* The bucket of a value. */
uint32_t calltimes_bucket(uint64_t v);
#define CALLTIMES_BUCKETS (59 * 64)

/* 0 or -AUX_E_NOMEM; then nothing was added. */
int calltimes_add(struct calltimes *t, uint64_t v);
/* The same of n values that are in one bucket, of which sum, smallest and largest are
 * known. */
int calltimes_add_bucket(struct calltimes *t, uint32_t bucket, uint64_t n, uint64_t sum,
			 uint64_t min, uint64_t max);
/*
 * The nearest-rank percentile: the smallest value that at least q of all (0 to
 * 1, 0.99 for p99) do not exceed; as the highest value of its bucket, so at
 * most 1.6 % above the true one, never above max. 0 without values.
 */
uint64_t calltimes_at(const struct calltimes *t, double q);
void calltimes_fini(struct calltimes *t);

/*
 * Rows of a histogram for people: from 1, 2, 5, 10, 20, ... on, or ten rows for
 * a power of ten where that would be too few rows. Exact counts. Starts zeroed.
 */
#define CALLROWS_MAX 192
struct callrows {
	uint64_t n[CALLROWS_MAX];
};
struct callrow {
	uint64_t from, to;	/* from <= v < to; to UINT64_MAX: no end */
	uint64_t n;
};

void callrows_add(struct callrows *r, uint64_t v);
/* The rows from the first to the last that is not empty (those between may be);
 * how many of out were filled. */
#define CALLROWS_SHOWN 64
unsigned callrows_get(const struct callrows *r,
		      struct callrow out[CALLROWS_SHOWN]);

/*
 * The N of largest value; of equal ones those that were offered first. What is
 * kept of each is the consumer's, in an array of its own: it has a slot there
 * (0 to max - 1) that does not change while it is kept.
 */
struct slowest {
	struct slow {
		uint64_t value, order;
		uint32_t slot;
	} *v;			/* a heap, the least one on top */
	uint32_t n, max;
	uint64_t n_offered;
};

int slowest_init(struct slowest *s, uint32_t max);
/* Would offer take it? */
bool slowest_wants(const struct slowest *s, uint64_t value);
/* The slot it has now (whatever was there is out), or -1: not taken. */
int64_t slowest_offer(struct slowest *s, uint64_t value);
/* From the largest on, v[0..n); nothing can be offered after that. */
void slowest_sort(struct slowest *s);
void slowest_fini(struct slowest *s);

#endif
