/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Conversion between cycles and perf time: the arithmetic of
 * perf_event_mmap_page's time fields, exact in 128 bits, so that conversions
 * are monotonic both ways.
 *
 * Header only. self.h reads the parameters from a page; recordings carry them
 * too (PERF_RECORD_TIME_CONV, AUXTRACE_INFO).
 * Specification: the comments at cap_user_time_zero and cap_user_time_short in
 * <linux/perf_event.h>, Linux 6.1.
 */
#ifndef AUX_SELF_CLOCK_H
#define AUX_SELF_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The parameters; aux_self_clock_read in self.h fills them. */
struct aux_self_clock {
	uint64_t zero;		/* ns, perf clock, at 0 cycles */
	uint64_t cycles;	/* a recent count; 0 if the counter has 64 bits */
	uint64_t mask;		/* of the counter's bits; all ones if 64 */
	uint32_t mult;
	uint16_t shift;
};

/*
 * cycles * mult >> shift, exact, hence monotonic as long as the result fits 64
 * bits. shift < 64.
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

/* a * b / c with a 128-bit product; all ones if the result does not fit or c is
 * 0. */
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

/* Extends the value of a counter of few bits to 64, by a recent full value. */
static inline uint64_t aux_self_widen(uint64_t cycles, uint64_t recent,
				      uint64_t mask)
{
	return recent + ((cycles - recent) & mask);
}

/* Cycles (as in trace) to ns of perf's clock (as in samples). Monotonic. */
static inline uint64_t aux_self_to_ns(const struct aux_self_clock *c,
				      uint64_t cycles)
{
	return c->zero + aux_self_scale(aux_self_widen(cycles, c->cycles,
						       c->mask),
					c->mult, c->shift);
}

/*
 * ns of perf's clock to cycles, rounded down; monotonic. aux_self_to_ns of the
 * result is ns, or less by at most the length of a cycle, rounded up to a ns.
 * All ones for times too far after zero.
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
