/* SPDX-License-Identifier: BSD-2-Clause */
/* ptpkt: what is found in Intel PT without decoding it. */
#include <string.h>

#include "decode/lib/packet/pt_packet.h"

/*
 * A PSB covers eight bytes at every distance of eight, whichever way they lie:
 * so one compare in eight bytes finds it, and the start is at most eight back.
 */
const uint8_t *ptpkt_find_psb(const uint8_t *p, const uint8_t *end)
{
	static const uint8_t psb[PTPKT_PSB_SIZE + 1] = {
		2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2,
		0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2,
	};
	uint64_t even, odd, v;

	memcpy(&even, psb, 8);
	memcpy(&odd, psb + 1, 8);
	for (const uint8_t *at = p; end - at >= 8; at += 8) {
		const uint8_t *s = at - p > 8 ? at - 8 : p;

		memcpy(&v, at, 8);
		if (v != even && v != odd)
			continue;
		for (; s <= at + 1 && end - s >= PTPKT_PSB_SIZE; s++)
			if (!memcmp(s, psb, PTPKT_PSB_SIZE))
				return s;
	}
	return NULL;
}

const uint8_t *ptpkt_find_zeros(const uint8_t *p, const uint8_t *end, size_t n,
				const uint8_t **behind)
{
	size_t step = n - 8;	/* eight bytes of any such run are looked at */
	uint64_t v;

	while ((size_t)(end - p) >= n) {
		const uint8_t *from = p + step, *to = from;

		memcpy(&v, from, 8);
		if (v) {
			p = from;
			continue;
		}
		while (from > p && !from[-1])
			from--;
		while (to < end && !*to)
			to++;
		if ((size_t)(to - from) >= n) {
			*behind = to;
			return from;
		}
		p = to;
	}
	return NULL;
}
