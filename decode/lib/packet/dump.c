/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * packets: prints the packets of an AUX stream (packet.h). Offsets are those in
 * the stream.
 *
 * A packet that a piece of the stream cuts is kept in carry, and parsed there
 * once the next piece has brought its rest; all other packets are parsed in
 * place.
 */
#include <inttypes.h>
#include <string.h>

#include "decode/lib/packet/packet.h"

void packets_init(struct packets *p, struct outbuf *out, bool hex,
		  uint64_t limit)
{
	*p = (struct packets){ .out = out, .hex = hex, .limit = limit };
}

/* Begins a line and counts it. A failure of the output is kept in out, and ends
 * the dump by packets_full(). */
static void start_line(struct packets *p, uint64_t offset)
{
	char *s = outbuf_room(p->out, 32);

	p->n_lines++;
	if (!s)
		return;
	*s++ = ' ';
	*s++ = ' ';
	s = fmt_hex_pad(s, offset, 16);
	*s++ = ' ';
	*s++ = ' ';
	p->out->p = s;
}

/* PAD packets in a row are one line, printed before the next packet at
 * offset. */
static void flush_pads(struct packets *p, uint64_t offset)
{
	if (!p->n_pads)
		return;
	start_line(p, offset - p->n_pads);
	if (p->n_pads == 1)
		outbuf_str(p->out, "pad\n");
	else
		outbuf_printf(p->out, "pad x %" PRIu64 "\n", p->n_pads);
	p->n_pads = 0;
}

static bool is_ip_packet(const struct ptpkt *pkt)
{
	return pkt->type >= PTPKT_TIP && pkt->type <= PTPKT_FUP;
}

/* last_ip is what IP compression refers to (SDM, "TIP packets"); PSB clears
 * it. */
static void print_packet(struct packets *p, const struct ptpkt *pkt)
{
	char text[128];
	int n;

	if (pkt->type == PTPKT_PAD) {
		p->n_pads++;
		return;
	}
	flush_pads(p, p->offset);
	if (packets_full(p))
		return;
	start_line(p, p->offset);
	n = ptpkt_text(text, sizeof(text), pkt);
	outbuf_put(p->out, text, (size_t)n);
	if (pkt->type == PTPKT_PSB)
		p->last_ip = 0;
	if (is_ip_packet(pkt) && ptpkt_ip(pkt, &p->last_ip) && pkt->count < 6)
		outbuf_printf(p->out, ", ip %#" PRIx64, p->last_ip);
	outbuf_put(p->out, "\n", 1);
}

/* Remarks ('#') are no packets and do not count against the limit of lines. */
static void print_skipped(struct packets *p)
{
	if (!p->skipped)
		return;
	outbuf_printf(p->out, "# %" PRIu64 " bytes without sync, from %#" PRIx64
			      "\n", p->skipped, p->offset - p->skipped);
	p->n_skipped += p->skipped;
	p->skipped = 0;
}

/* After bytes that are no packet every boundary would be a guess. The PSB is
 * the one pattern that no other sequence of packets contains (SDM, "Packet
 * Stream Boundary"). */
static void lose_sync(struct packets *p, const uint8_t *at)
{
	flush_pads(p, p->offset);
	if (!packets_full(p)) {
		start_line(p, p->offset);
		outbuf_printf(p->out, "bad %02x: no packet starts so\n", *at);
	}
	p->n_bad++;
	p->synced = false;
	p->block = 0;
}

/* Skips to the next PSB; without one, all bytes but those that could begin
 * one. */
static size_t skip_to_psb(struct packets *p, const uint8_t *data,
			  const uint8_t *end)
{
	const uint8_t *psb = ptpkt_find_psb(data, end);
	size_t n, left = (size_t)(end - data);

	if (psb)
		n = (size_t)(psb - data);
	else
		n = left >= PACKET_MAX ? left - (PACKET_MAX - 1) : 0;
	p->skipped += n;
	p->offset += n;
	if (!psb)
		return n;
	print_skipped(p);
	p->synced = true;
	return n;
}

/* Consumes packets that start before stop; returns how many bytes. [stop, len)
 * may be read to complete the last one. Fewer than stop: the rest is an
 * incomplete packet, or could begin a PSB; less than PACKET_MAX bytes in both
 * cases. */
static size_t scan(struct packets *p, const uint8_t *data, size_t len,
		   size_t stop)
{
	const uint8_t *end = data + len;
	struct ptpkt pkt;
	size_t at = 0, n;
	int ret;

	while (at < stop && !packets_full(p)) {
		if (!p->synced) {
			n = skip_to_psb(p, data + at, end);
			at += n;
			if (!p->synced)
				break;
			continue;
		}
		ret = ptpkt_next(data + at, end, &p->block, &pkt);
		if (!ret)
			break;
		if (ret < 0) {
			lose_sync(p, data + at);
			p->skipped++;
			p->offset++;
			at++;
			continue;
		}
		print_packet(p, &pkt);
		p->offset += (unsigned)ret;
		at += (unsigned)ret;
	}
	return at;
}

/*
 * Completes the packet that the last piece cut. Returns how many bytes of data
 * that consumed. Less than PACKET_MAX bytes are in carry, which is twice that:
 * whatever is there can be completed, unless data itself is shorter than a
 * packet.
 */
static size_t scan_carry(struct packets *p, const uint8_t *data, size_t len)
{
	size_t old = p->n_carry, at;
	size_t add = sizeof(p->carry) - old;

	if (add > len)
		add = len;
	memcpy(p->carry + old, data, add);
	at = scan(p, p->carry, old + add, old);
	if (at >= old) {
		p->n_carry = 0;
		return at - old;
	}
	/* Still incomplete: data was shorter than a packet and is all in
	 * carry. */
	p->n_carry = old + add - at;
	memmove(p->carry, p->carry + at, p->n_carry);
	return add;
}

void packets_hex(struct packets *p, const uint8_t *data, size_t len,
		 uint64_t offset)
{
	for (size_t at = 0; at < len && !packets_full(p); at += PACKET_HEX) {
		size_t n = len - at < PACKET_HEX ? len - at : PACKET_HEX;

		start_line(p, offset + at);
		for (size_t i = 0; i < n; i++)
			outbuf_printf(p->out, "%s%02x", i ? " " : "",
				      data[at + i]);
		outbuf_put(p->out, "\n", 1);
	}
}

void packets_line(struct packets *p, uint64_t offset, const char *text)
{
	start_line(p, offset);
	outbuf_str(p->out, text);
	outbuf_put(p->out, "\n", 1);
}

void packets_restart(struct packets *p, uint64_t offset)
{
	packets_finish(p);
	p->offset = offset;
}

void packets_feed(struct packets *p, const uint8_t *data, size_t len,
		  uint64_t offset)
{
	size_t at = 0;

	if (!len)	/* a damaged frame can be empty */
		return;
	if (p->offset + p->n_carry != offset)
		packets_restart(p, offset);
	if (p->hex) {
		packets_hex(p, data, len, p->offset);
		p->offset += len;
		return;
	}
	if (p->n_carry)
		at = scan_carry(p, data, len);
	if (p->n_carry || packets_full(p))
		return;
	at += scan(p, data + at, len - at, len - at);
	if (packets_full(p))
		return;
	p->n_carry = len - at;
	memcpy(p->carry, data + at, p->n_carry);
}

/* A dump that stopped at its limit has left bytes unread, which are neither cut
 * nor without sync: nothing is said of them. */
void packets_finish(struct packets *p)
{
	if (packets_full(p)) {
		p->n_carry = 0;
		return;
	}
	flush_pads(p, p->offset);
	if (!p->synced) {
		p->skipped += p->n_carry;
		p->offset += p->n_carry;
		print_skipped(p);
	} else if (p->n_carry) {
		start_line(p, p->offset);
		outbuf_printf(p->out, "cut: %zu bytes of a packet\n",
			      p->n_carry);
		p->n_bad++;
	}
	p->n_carry = 0;
	p->synced = false;
	p->block = 0;
	p->last_ip = 0;
}
