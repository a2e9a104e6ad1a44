/* SPDX-License-Identifier: BSD-2-Clause */
/* Time for timeouts and durations; unrelated to the clocks in recordings. */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC in nanoseconds, and in milliseconds. */
static inline uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static inline uint64_t clock_ms(void)
{
	return clock_ns() / 1000000;
}

#endif
