/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * xorshift.h: the same numbers in every run (xorshift64).
 */
#ifndef TESTS_UNIT_XORSHIFT_H
#define TESTS_UNIT_XORSHIFT_H

#include <stdint.h>

/* *s is the state, never 0. */
static inline uint64_t next_random(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

#endif
