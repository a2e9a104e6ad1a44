/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Truth files: the addresses of all instructions that ran, as the tracer saw
 * them, written before anything is encoded. Tests compare decode with them.
 *
 * "AUXTRUTH", u32 version (1), u32 0; then blocks, little endian:
 *   u32 tid, u32 n_insns, u32 n_bytes, u32 0, then n_bytes of LEB128 numbers:
 *   zigzag(ip - previous ip of this tid), the first against 0.
 * A thread that execs keeps its tid and its sequence.
 */
#ifndef CAPTURE_SOFT_TRUTH_H
#define CAPTURE_SOFT_TRUTH_H

#include <stdint.h>
#include <stddef.h>

#define TRUTH_MAGIC "AUXTRUTH"
#define TRUTH_VERSION 1
#define TRUTH_MAX_DELTA 10	/* bytes of one number */

struct truth_block {
	uint32_t tid;
	uint32_t n_insns;
	uint32_t n_bytes;
	uint32_t reserved;
};

/* Writes one delta, returns its length (1 to TRUTH_MAX_DELTA). */
static inline size_t truth_put(uint8_t *p, uint64_t ip, uint64_t prev)
{
	int64_t d = (int64_t)(ip - prev);
	uint64_t z = ((uint64_t)d << 1) ^ (uint64_t)(d >> 63);
	size_t n = 0;

	while (z >= 0x80) {
		p[n++] = (uint8_t)(z | 0x80);
		z >>= 7;
	}
	p[n++] = (uint8_t)z;
	return n;
}

/* Reads one delta; returns its length, 0 when the bytes end or are no
 * number. */
static inline size_t truth_get(const uint8_t *p, const uint8_t *end,
			       uint64_t *ip)
{
	uint64_t z = 0;
	size_t n = 0;

	do {
		if (p + n == end || n == TRUTH_MAX_DELTA)
			return 0;
		z |= (uint64_t)(p[n] & 0x7f) << (7 * n);
	} while (p[n++] & 0x80);
	*ip += (z >> 1) ^ -(z & 1);
	return n;
}

#endif
