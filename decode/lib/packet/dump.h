/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * packets: prints the packets of one AUX stream, which is fed in pieces, as lines.
 *
 * A packet may continue in the next piece. Bytes before a sync point are skipped and
 * counted. Trace other than Intel PT is printed as hex.
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
	bool hex;		/* not Intel PT: no packets are parsed */
	uint64_t limit;		/* of lines; 0: none */
	uint64_t n_lines;
	uint64_t n_skipped;	/* bytes without sync, in all streams */
	uint64_t n_bad;		/* bytes that are no packet */
	/* the stream: */
	uint64_t offset;	/* of the next byte expected */
	bool synced;
	uint64_t skipped;	/* bytes since sync was lost */
	uint64_t last_ip;
	unsigned block;
	uint64_t n_pads;	/* PAD packets in a row, not printed yet */
	uint8_t carry[2 * PACKET_MAX];	/* the start of a packet that the last
					 * piece cut, room for its rest */
	size_t n_carry;
};

void packets_init(struct packets *p, struct outbuf *out, bool hex,
		  uint64_t limit);
/* Forgets the stream; the next feed may start anywhere. */
void packets_restart(struct packets *p, uint64_t offset);
/* Bytes at a stream offset; a jump in offsets restarts. */
void packets_feed(struct packets *p, const uint8_t *data, size_t len,
		  uint64_t offset);
/* Prints bytes as hex, PACKET_HEX per line; the first is at offset. */
#define PACKET_HEX 16
void packets_hex(struct packets *p, const uint8_t *data, size_t len,
		 uint64_t offset);
/* One packet that was parsed elsewhere. */
void packets_line(struct packets *p, uint64_t offset, const char *text);
/* The stream ends: reports what is left over. */
void packets_finish(struct packets *p);

static inline bool packets_full(const struct packets *p)
{
	return (p->limit && p->n_lines >= p->limit) || outbuf_failed(p->out);
}

#endif
