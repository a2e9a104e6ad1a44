/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cycles and perf time: the arithmetic of perf_event_mmap_page's time fields,
 * exact in 128 bits, so that conversions are monotone both ways.
 *
 * Header only; self.h reads the terms from a page, and they also come with
 * recordings (PERF_RECORD_TIME_CONV, AUXTRACE_INFO).
 * Specification: the comments at cap_user_time_zero and cap_user_time_short in
 * <linux/perf_event.h>, Linux 6.1.
 */
#ifndef AUX_SELF_CLOCK_H
#define AUX_SELF_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How cycles become perf time; aux_self_clock_read of self.h fills it. */
struct aux_self_clock {
	uint64_t zero;		/* ns, perf clock, at 0 cycles */
	uint64_t cycles;	/* a recent count; 0 when counters are wide */
	uint64_t mask;		/* of the counter; all ones when wide */
	uint32_t mult;
	uint16_t shift;
};

/*
 * cycles * mult >> shift, exact: never smaller for more cycles, as long as the
 * result fits 64 bits. shift is less than 64.
 */
static inline uint64_t aux_self_scale(uint64_t cycles, uint32_t mult,
				      uint16_t shift)
{
	/* high * 2^32 + low == cycles * mult */
	uint64_t low = (cycles & 0xffffffff) * mult;
	uint64_t high = (cycles >> 32) * mult + (low >> 32);

	low = (low & 0xffffffff) | high << 32;
	high >>= 32;
	return shift ? low >> shift | high << (64 - shift) : low;
}

/* a * b / c with 128 bits between; all ones when it does not fit, or c is 0. */
static inline uint64_t aux_self_muldiv(uint64_t a, uint64_t b, uint64_t c)
{
#if defined(__SIZEOF_INT128__)
	__extension__ typedef unsigned __int128 wide;
	wide product = (wide)a * b;

	if (!c || product / c > UINT64_MAX)
		return UINT64_MAX;
	return (uint64_t)(product / c);
#else
	uint64_t quot = 0, rem = 0;	/* of a * b so far, bit by bit */
	int i;

	if (!c)
		return UINT64_MAX;
	for (i = 63; i >= 0; i--) {
		uint64_t r = rem, step = a % c;

		if (quot >> 63)
			return UINT64_MAX;
		quot <<= 1;
		rem = r >= c - r ? quot++, r - (c - r) : r + r;
		if (!(b >> i & 1))
			continue;
		if (quot > UINT64_MAX - a / c - 1)
			return UINT64_MAX;
		quot += a / c;
		rem = rem >= c - step ? quot++, rem - (c - step) : rem + step;
	}
	return quot;
#endif
}

/* A short counter's value, made wide by a recent one. */
static inline uint64_t aux_self_widen(uint64_t cycles, uint64_t recent,
				      uint64_t mask)
{
	return recent + ((cycles - recent) & mask);
}

/* Cycles (as in a trace) to ns of the perf clock (as in samples). Monotone. */
static inline uint64_t aux_self_to_ns(const struct aux_self_clock *c,
				      uint64_t cycles)
{
	return c->zero + aux_self_scale(aux_self_widen(cycles, c->cycles,
						       c->mask),
					c->mult, c->shift);
}

/*
 * ns of the perf clock to cycles, rounded down; monotone. aux_self_to_ns of the
 * result is ns, or earlier by at most one cycle's length, rounded up to ns. All
 * ones for times too far behind zero.
 */
static inline uint64_t aux_self_to_cycles(const struct aux_self_clock *c,
					  uint64_t ns)
{
	return aux_self_muldiv(ns - c->zero, 1ull << c->shift, c->mult);
}

#ifdef __cplusplus
}
#endif
#endif
