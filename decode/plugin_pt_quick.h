/* SPDX-License-Identifier: BSD-2-Clause */
/* The packets that the quick way of the Intel PT engine takes (SDM 33.4). */
#ifndef PLUGIN_PT_QUICK_H
#define PLUGIN_PT_QUICK_H

#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum quick { SLOW = 0, PAD, TNT, TIP, CYC, MTC, TSC, EXT };

/* table: by the first byte */
static const uint8_t quick[256] = {
	PAD, SLOW, EXT, CYC, TNT, SLOW, TNT, CYC,	/* 00 */
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, TSC, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,	/* 20 */
	TNT, SLOW, TNT, CYC, TNT, TIP, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,	/* 40 */
	TNT, SLOW, TNT, CYC, TNT, TIP, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, MTC, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,	/* 60 */
	TNT, SLOW, TNT, CYC, TNT, TIP, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,	/* 80 */
	TNT, SLOW, TNT, CYC, TNT, TIP, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,	/* a0 */
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,	/* c0 */
	TNT, SLOW, TNT, CYC, TNT, TIP, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,	/* e0 */
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
};

INLINE uint64_t load_le(const uint8_t *p, unsigned n)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return n == 8 ? v : v & ((UINT64_C(1) << 8 * n) - 1);
}

INLINE unsigned quick_tip_size(const uint8_t *p)
{
	static const uint8_t sizes[8] = { 1, 3, 5, 7, 7, 1, 9, 1 };

	return sizes[*p >> 5];
}

/* The ip of the TIP at p, which the table knows. */
INLINE uint64_t quick_ip(const uint8_t *p, uint64_t last_ip)
{
	static const uint64_t masks[8] = {
		0, 0xffff, 0xffffffff, UINT64_C(0xffffffffffff),
		UINT64_C(0xffffffffffff), 0, ~UINT64_C(0), 0 };
	uint64_t mask = masks[*p >> 5], ip;

	memcpy(&ip, p + 1, 8);
	ip &= mask;
	if (__builtin_expect(*p >> 5 == 3, 0))
		return (uint64_t)((int64_t)(ip << 16) >> 16);
	return ip | (last_ip & ~mask);
}

#endif
