/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * packets: the bytes of one AUX stream, fed piece by piece, as lines of packets.
 *
 * A packet cut by the end of a piece goes on in the next. Bytes before a sync
 * point are skipped and counted. Trace that is not Intel PT comes out as hex.
 */
#ifndef DECODE_LIB_PACKET_DUMP_H
#define DECODE_LIB_PACKET_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/outbuf.h"

#define PACKET_MAX 16	/* bytes of the longest packet: PSB */

struct packets {
	struct outbuf *out;
	bool hex;		/* not Intel PT */
	uint64_t limit;		/* stop after so many lines; 0: none */
	uint64_t n_lines;
	uint64_t n_skipped;	/* bytes without sync, in all */
	uint64_t n_bad;		/* bytes that are no packet */
	/* the stream */
	uint64_t offset;	/* of the next byte expected */
	bool synced;
	uint64_t skipped;	/* since sync was lost */
	uint64_t last_ip;
	unsigned block;
	uint64_t n_pads;	/* not yet printed */
	uint8_t carry[2 * PACKET_MAX];
	size_t n_carry;
};

void packets_init(struct packets *p, struct outbuf *out, bool hex,
		  uint64_t limit);
/* Forgets the stream; the next feed may start anywhere. */
void packets_restart(struct packets *p, uint64_t offset);
/* Bytes at a stream offset; a jump in offsets restarts. */
void packets_feed(struct packets *p, const uint8_t *data, size_t len,
		  uint64_t offset);
/* Bytes as they are, in lines of PACKET_HEX; the first is at place. */
#define PACKET_HEX 16
void packets_hex(struct packets *p, const uint8_t *data, size_t len,
		 uint64_t place);
/* The stream ends: says what is left over. */
void packets_finish(struct packets *p);

static inline bool packets_full(const struct packets *p)
{
	return (p->limit && p->n_lines >= p->limit) || outbuf_failed(p->out);
}

#endif
