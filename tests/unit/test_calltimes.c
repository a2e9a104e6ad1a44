/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * calltimes: percentiles, histogram rows and the slowest N, compared with a sorted array of
 * the same values.
 */
#include <stdlib.h>

#include "decode/callstack/calltimes.h"
#include "tests/unit/tap.h"
#include "tests/unit/xorshift.h"

#define N 20000

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Values of all sizes: some bits of a random number. */
static void make_values(uint64_t *v, size_t n, unsigned bits)
{
	uint64_t state = 88172645463325252;

	for (size_t i = 0; i < n; i++) {
		uint64_t r = next_random(&state);

		v[i] = r >> (63 - r % bits);
	}
}

static void percentiles(unsigned bits)
{
	static const double qs[] = { 0,	   0.001, 0.1,	 0.25, 0.5,
				     0.75, 0.9,	  0.99,	 0.999, 1 };
	static uint64_t v[N];
	struct calltimes t = { 0 };
	uint64_t sum = 0;
	bool near = true;

	make_values(v, N, bits);
	for (size_t i = 0; i < N; i++) {
		sum += v[i];
		calltimes_add(&t, v[i]);
	}
	qsort(v, N, sizeof(*v), by_value);
	for (size_t i = 0; i < sizeof(qs) / sizeof(qs[0]); i++) {
		size_t rank = (size_t)(qs[i] * N + 0.999999);
		uint64_t want = v[rank ? rank - 1 : 0];
		uint64_t got = calltimes_at(&t, qs[i]);

		near &= got >= want && got - want <= want / 64;
	}
	ok(near, "values of up to %u bits: percentiles", bits);
	ok(t.n == N && t.min == v[0] && t.max == v[N - 1],
	   "number, least and largest are exact");
	ok(bits > 40 || t.sum == sum, "the sum, too");
	calltimes_fini(&t);
}

static void edges(void)
{
	struct calltimes t = { 0 };

	is_u64(calltimes_at(&t, 0.5), 0, "no values: 0");
	for (uint64_t i = 1; i <= 100; i++)
		calltimes_add(&t, i);
	is_u64(calltimes_at(&t, 0.5), 50, "p50 of 1 to 100");
	is_u64(calltimes_at(&t, 0.9), 90, "p90");
	is_u64(calltimes_at(&t, 0.99), 99, "p99");
	is_u64(calltimes_at(&t, 0.999), 100, "p99.9");
	calltimes_add(&t, UINT64_MAX);
	is_u64(calltimes_at(&t, 1), UINT64_MAX, "the largest there can be");
	is_u64(t.sum, UINT64_MAX, "the sum stops, it does not wrap");
	calltimes_fini(&t);
}

static void rows(unsigned bits)
{
	static uint64_t v[N];
	struct callrows r = { 0 };
	struct callrow row[CALLROWS_SHOWN];
	unsigned n;
	uint64_t sum = 0;
	bool good = true;

	make_values(v, N, bits);
	for (size_t i = 0; i < N; i++)
		callrows_add(&r, v[i]);
	n = callrows_get(&r, row);
	for (unsigned i = 0; i < n; i++) {
		uint64_t in = 0;

		for (size_t k = 0; k < N; k++)
			in += v[k] >= row[i].from &&
			      (v[k] < row[i].to || row[i].to == UINT64_MAX);
		good &= in == row[i].n;
		good &= i == 0 || row[i].from == row[i - 1].to;
		sum += row[i].n;
	}
	ok(good, "rows, up to %u bits: each has what is in its bounds", bits);
	is_u64(sum, N, "none is left out");
}

static void narrow_rows(void)
{
	struct callrows r = { 0 };
	struct callrow row[CALLROWS_SHOWN];
	unsigned n;

	for (uint64_t i = 1000; i < 2000; i++)
		callrows_add(&r, i);
	n = callrows_get(&r, row);
	ok(n == 3 && row[0].from == 1000 && row[0].n == 200 &&
	   row[1].from == 1200 && row[1].n == 300 && row[2].n == 500,
	   "a narrow span is shown in finer rows");
	callrows_add(&r, 0);
	callrows_add(&r, 1);
	callrows_add(&r, 9);
	n = callrows_get(&r, row);
	ok(row[0].from == 0 && row[0].to == 1 && row[0].n == 1,
	   "0 has a row of its own");
	ok(row[1].from == 1 && row[1].to == 2 && row[2].to == 5 &&
	   row[3].to == 10 && row[3].n == 1, "a wide one in 1, 2, 5");
	is_u64(row[n - 1].from, 1000, "up to the last");
}

static void slow(uint32_t max)
{
	static uint64_t v[N];
	static uint64_t kept[64];
	struct slowest s;
	bool good = true;

	make_values(v, N, 12); /* many are equal */
	slowest_init(&s, max);
	for (size_t i = 0; i < N; i++) {
		bool wants = slowest_wants(&s, v[i]);
		int64_t slot = slowest_offer(&s, v[i]);

		good &= wants == (slot >= 0) && slot < (int64_t)max;
		if (slot >= 0)
			kept[slot] = i;
	}
	ok(good, "slowest %u: wants and offer agree", max);
	slowest_sort(&s);
	good = s.n == max;
	for (uint32_t i = 0; i < s.n; i++) {
		size_t n_before = 0, at = kept[s.v[i].slot];

		for (size_t k = 0; k < N; k++)
			n_before += v[k] > v[at] || (v[k] == v[at] && k < at);
		good &= n_before == i && s.v[i].value == v[at];
	}
	ok(good, "they are the largest, of equal ones the first, in order");
	slowest_fini(&s);
}

int main(void)
{
	percentiles(6);
	percentiles(20);
	percentiles(40);
	percentiles(63);
	edges();
	rows(10);
	rows(40);
	narrow_rows();
	slow(0);
	slow(1);
	slow(5);
	slow(33);
	return plan_done();
}
