/* SPDX-License-Identifier: BSD-2-Clause */
/* timeline: TSC <-> perf clock, as perf_event_mmap_page defines it. */
#include "decode/lib/sideband/sideband.h"

uint64_t clock_to_ns(const struct aux_clock *c, uint64_t tsc)
{
	return aux_clock_ns(c, tsc);
}

uint64_t clock_to_tsc(const struct aux_clock *c, uint64_t ns)
{
	uint64_t t = ns - c->zero;

	if (!c->mult || c->shift > 63)
		return 0;
	return (t / c->mult << c->shift) +
	       (uint64_t)(((unsigned __int128)(t % c->mult) << c->shift) /
			  c->mult);
}

uint64_t clock_horizon(const struct aux_clock *c, uint64_t ns)
{
	uint64_t tsc;

	if (ns == UINT64_MAX || !c->mult || c->shift > 63)
		return UINT64_MAX;
	tsc = clock_to_tsc(c, ns);
	/* Rounding goes down on both ways: off by a tick, or by a few when
	 * many ticks share one nanosecond. */
	for (int i = 0; i < 4 && clock_to_ns(c, tsc) < ns; i++)
		tsc++;
	for (int i = 0; i < 64 && tsc && clock_to_ns(c, tsc - 1) >= ns; i++)
		tsc--;
	return tsc;
}
