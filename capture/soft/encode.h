/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the two trace encoders share: their hottest fields, when the inline path
 * must stop, and how long an overflow lasts that tests asked for. They share no
 * more than that: they differ in every packet, and a common buffer type would
 * put an indirection on the hot path.
 */
#ifndef CAPTURE_SOFT_ENCODE_H
#define CAPTURE_SOFT_ENCODE_H

#include <stdint.h>

/* What the recorder's loop holds in registers. */
struct encode_hot {
	uint64_t bits;		/* that wait for a packet: TNT bits, atoms */
	uint32_t n_bits;
	uint64_t tsc;		/* now; the caller's to advance */
};

#define ENCODE_LOST_MIN 40	/* instructions an injected overflow takes */
#define ENCODE_LOST_SPREAD 2000

/*
 * The address at which the inline path must stop, in a buffer whose first byte
 * has position done in the stream: stop, where room may run out, or earlier
 * where synchronization is due, at stream position due. One comparison then
 * covers both.
 */
static inline uint8_t *encode_limit(uint8_t *buf, const uint8_t *stop,
				    uint64_t done, uint64_t due)
{
	uint64_t room = (uint64_t)(stop - buf);
	uint64_t sync = due > done ? due - done : 0;

	return buf + (sync < room ? sync : room);
}

/* Ticks; the same numbers for the same seed. */
static inline uint64_t encode_lost_time(uint32_t *seed)
{
	*seed = *seed * 1103515245 + 12345;
	return ENCODE_LOST_MIN + (*seed >> 8) % ENCODE_LOST_SPREAD;
}

#endif
