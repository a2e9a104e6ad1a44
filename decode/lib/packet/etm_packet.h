/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm_packet: one ETMv4 or ETE packet at a time, as text. Names are those of OpenCSD's
 * packet lister, so that the two can be compared line by line.
 *
 * Specification: Arm IHI 0064, "Descriptions of trace protocols"; DDI 0487, "ETE
 * protocol".
 */
#ifndef DECODE_LIB_PACKET_ETM_PACKET_H
#define DECODE_LIB_PACKET_ETM_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/decoder.h>

#define ETMPKT_TEXT 256	/* bytes that a packet's text fits into */

/* What packets are relative to. One for each trace source. */
struct etmpkt {
	const struct aux_etm_config *config;
	bool ete;
	uint8_t version;	/* 0x42: ETMv4.2; ETE is 0x50 */
	uint8_t n_vmid, n_cid;	/* bytes in a context */
	uint64_t ip[3];		/* the last addresses, the newest first */
	uint8_t is[3];		/* their instruction sets, 0 or 1 */
	bool wide;		/* the last context is of 64 bits */
	uint32_t threshold;	/* added to each cycle count */
	uint64_t ts;
};

/* Is there a text for packets of this source? */
bool etmpkt_knows(const struct aux_etm_config *config);
/* config outlives p. Also after bytes that are lost. */
void etmpkt_init(struct etmpkt *p, const struct aux_etm_config *config);
/*
 * The packet at data[0..len), and its text. Returns its bytes, 0: it is not all there,
 * -1: no packet of this source starts so.
 */
int etmpkt_next(struct etmpkt *p, const uint8_t *data, size_t len,
		char text[ETMPKT_TEXT]);
/* Where the next A-Sync begins in data; len: nowhere. */
size_t etmpkt_find_sync(const uint8_t *data, size_t len);

#endif
