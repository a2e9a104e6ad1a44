/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The return stack of the Intel PT engine: calls that compressed returns may go back
 * to, the newest PT_STACK of them.
 *
 * Specification: Intel SDM volume 3, chapter "Intel Processor Trace", "Indirect
 * Transfer Compression for Returns (RET)".
 */
#ifndef DECODE_LIB_PT_STACK_H
#define DECODE_LIB_PT_STACK_H

#include "decode/lib/pt/engine.h"

static inline void pt_push_own(struct pt *d, uint64_t ip)
{
	uint32_t i = d->top++ & (PT_STACK - 1);

	d->own[i] = ip;
	d->calls[i] = (struct pt_calls){ &d->own[i], 1 };
}

static inline void pt_push_call(struct pt *d, uint64_t ip)
{
	pt_push_own(d, ip);
	if (d->depth < PT_STACK)
		d->depth++;
}

/* Where the last call returns to; depth is not 0. */
static inline uint64_t pt_top_call(const struct pt *d)
{
	const struct pt_calls *c = &d->calls[(d->top - 1) & (PT_STACK - 1)];

	return c->sites[c->n - 1];
}

static inline uint64_t pt_pop_call(struct pt *d)
{
	struct pt_calls *c = &d->calls[(d->top - 1) & (PT_STACK - 1)];
	uint64_t ip = pt_top_call(d);

	d->top -= !--c->n;
	d->depth--;
	return ip;
}

#endif
