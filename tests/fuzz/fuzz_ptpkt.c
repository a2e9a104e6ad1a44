/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The packet path over any bytes: each packet moves forward and has text, the
 * PSB search finds the first one, and a stream gives the same lines however it
 * is cut into pieces. The first byte says how.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/outbuf.h"
#include "decode/lib/packet/packet.h"

#define ASSERT(c)                                                              \
	do {                                                                   \
		if (!(c))                                                      \
			abort();                                               \
	} while (0)

static void check_packets(const uint8_t *p, const uint8_t *end)
{
	uint64_t last = 0;
	struct ptpkt pkt;
	char text[128];
	unsigned block = 0;
	int n;

	while (p < end) {
		n = ptpkt_next(p, end, &block, &pkt);
		ASSERT(n >= -1 && n <= 16 && n <= end - p);
		ASSERT(n <= 0 || (n == pkt.size && pkt.type != PTPKT_BAD));
		ASSERT(n >= 0 || pkt.type == PTPKT_BAD);
		ASSERT(n || end - p < 16);
		ASSERT(block == 0 || block == 4 || block == 8);
		n = ptpkt_text(text, sizeof(text), &pkt);
		ASSERT(n > 0 && (size_t)n < sizeof(text));
		if (pkt.type >= PTPKT_TIP && pkt.type <= PTPKT_FUP)
			ptpkt_ip(&pkt, &last);
		p += pkt.size ? pkt.size : 1;
	}
}

static void check_psb(const uint8_t *p, const uint8_t *end)
{
	const uint8_t *psb = ptpkt_find_psb(p, end);
	struct ptpkt pkt;

	for (; p < end; p++) {
		if (ptpkt_decode(p, end, &pkt) == 16) {
			ASSERT(p == psb);
			return;
		}
	}
	ASSERT(!psb);
}

static struct outbuf *list(const uint8_t *data, size_t len, size_t step)
{
	struct outbuf *out = outbuf_new(-1);
	struct packets p;

	ASSERT(out);
	packets_init(&p, out, false, 0);
	for (size_t at = 0; at < len; at += step)
		packets_feed(&p, data + at, len - at < step ? len - at : step,
			     at);
	packets_finish(&p);
	return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct outbuf *whole, *cut;
	size_t step;

	if (!len)
		return 0;
	step = 1 + data[0] % 40;
	data++;
	len--;
	check_packets(data, data + len);
	check_psb(data, data + len);
	whole = list(data, len, len ? len : 1);
	cut = list(data, len, step);
	ASSERT(whole->p - whole->buf == cut->p - cut->buf &&
	       !memcmp(whole->buf, cut->buf,
		       (size_t)(whole->p - whole->buf)));
	outbuf_free(whole);
	outbuf_free(cut);
	return 0;
}
