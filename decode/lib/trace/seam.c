/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chunks: where Intel PT may be cut: at a PSB whose PSB+ says where the flow is.
 *
 * A decoder that starts there knows all it needs, and the return stack is empty
 * there by the SDM. Where anything is in doubt (no FUP in the PSB+ while tracing
 * may be on, a packet before it that belongs to the next one, an overflow) it is
 * no place to cut. The packets before it are read from the PSB before it on, for
 * packets cannot be read backwards; nothing else of the trace is looked at.
 */
#include "decode/lib/trace/chunk.h"
#include "decode/lib/packet/pt_packet.h"

/* The common packets of one look; returns their size, 0: look closer. */
static size_t skip_packet(const uint8_t *p, const uint8_t *end, uint8_t *last)
{
	static const uint8_t ip_bytes[8] = { 1, 3, 5, 7, 7, 0, 9, 0 };
	uint8_t b = *p;
	size_t n = 1;

	if (!(b & 1)) {
		if (b > 2)
			*last = PTPKT_TNT;
		return b != 2;
	}
	if ((b & 3) == 3) {	/* CYC; more of it while a bit says so */
		for (bool more = b & 4; more; n++) {
			if (p + n == end || n > 8)
				return 0;
			more = p[n] & 1;
		}
		return n;
	}
	if (b == 0x59)
		return 2;
	if ((b & 0x1f) != 0x0d)
		return 0;
	*last = PTPKT_TIP;
	return ip_bytes[b >> 5];
}

static bool is_timing(uint8_t type)
{
	return type == PTPKT_PAD || type == PTPKT_CYC || type == PTPKT_MTC ||
	       type == PTPKT_CBR || type == PTPKT_TSC || type == PTPKT_TMA;
}

/* Is the trace whole between these two PSBs, so that it may end at the later? */
static bool may_end(const uint8_t *p, const uint8_t *psb)
{
	struct ptpkt pkt;
	uint8_t last = PTPKT_BAD;
	unsigned block = 0;

	while (p < psb) {
		size_t skip = block ? 0 : skip_packet(p, psb, &last);
		int n = (int)skip;

		if (!skip) {
			n = ptpkt_next(p, psb, &block, &pkt);
			if (n <= 0 || pkt.type == PTPKT_OVF)
				return false;
			if (!is_timing(pkt.type))
				last = pkt.type;
		}
		p += n;
	}
	return p == psb && !block &&
	       (last == PTPKT_TNT || last == PTPKT_TIP ||
		last == PTPKT_TIP_PGE || last == PTPKT_PSBEND);
}

/* What a PSB+ says. True: it is whole, and holds nothing else. */
static bool read_psb(const uint8_t *p, const uint8_t *end,
		     struct chunk_start *s)
{
	struct ptpkt pkt;
	int n;

	*s = (struct chunk_start){ 0 };
	for (; (n = ptpkt_decode(p, end, &pkt)) > 0; p += n) {
		switch (pkt.type) {
		case PTPKT_FUP:
			s->has_ip = ptpkt_ip(&pkt, &s->ip);
			break;
		case PTPKT_TSC:
			s->has_tsc = true;
			s->tsc = pkt.payload;
			break;
		case PTPKT_PSBEND:
			return true;
		case PTPKT_PSB: case PTPKT_PAD: case PTPKT_CYC: case PTPKT_MTC:
		case PTPKT_CBR: case PTPKT_TMA: case PTPKT_VMCS:
		case PTPKT_PIP: case PTPKT_MODE_EXEC: case PTPKT_MODE_TSX:
		case PTPKT_MNT:
			break;
		default:
			return false;
		}
	}
	return false;
}

struct chunk_start chunks_read_start(const uint8_t *p, const uint8_t *end)
{
	struct chunk_start s;

	read_psb(p, end, &s);
	return s;
}

const uint8_t *chunks_find_seam(const uint8_t *p, const uint8_t *end,
				uint64_t *ip)
{
	const uint8_t *psb = ptpkt_find_psb(p, end), *next;
	struct chunk_start s;

	for (; psb; psb = next) {
		next = ptpkt_find_psb(psb + PTPKT_PSB_SIZE, end);
		if (next && may_end(psb, next) && read_psb(next, end, &s) &&
		    s.has_ip) {
			*ip = s.ip;
			return next;
		}
	}
	return NULL;
}

const uint8_t *chunks_last_psb(const uint8_t *p, const uint8_t *end)
{
	const uint8_t *last = NULL;

	while ((p = ptpkt_find_psb(p, end)))
		last = p++;
	return last;
}
