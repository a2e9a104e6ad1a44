/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Intel PT packets: decoding, searching, and text.
 *
 * Invariant: a packet is decoded from its own bytes alone, and none at or after
 * end is read. What is no packet here is none for libipt either, so that both
 * decoders resynchronize at the same places; reserved bits that libipt ignores
 * are ignored.
 *
 * Most packets are not at the very end: decode_common reads words, of which all
 * bytes are there, for the kinds that a trace is full of. The rest is read byte
 * by byte. (decode/lib/pt/fast.c has tables of its own for TNT and TIP.)
 *
 * Specification: Intel SDM volume 3, "Intel Processor Trace", "Trace Packets
 * and Data Types".
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/bytes.h"
#include "decode/lib/packet/packet.h"

/* First bytes. A short TNT has bit 0 clear, a CYC has bits 0 and 1 set. */
#define OPC_PAD 0x00
#define OPC_EXT 0x02
#define OPC_TSC 0x19
#define OPC_MTC 0x59
#define OPC_MODE 0x99
#define OPC_TRIG 0xd9
/* IP packets: the low five bits; the high three are IPBytes */
#define OPC_IP_MASK 0x1f
#define OPC_TIP 0x0d
#define OPC_TIP_PGE 0x11
#define OPC_TIP_PGD 0x01
#define OPC_FUP 0x1d

/* Second bytes after OPC_EXT */
#define EXT_CBR 0x03
#define EXT_CFE 0x13
#define EXT_PWRE 0x22
#define EXT_PSBEND 0x23
#define EXT_BEP 0x33
#define EXT_PIP 0x43
#define EXT_EVD 0x53
#define EXT_EXSTOP 0x62
#define EXT_BBP 0x63
#define EXT_TMA 0x73
#define EXT_PSB 0x82
#define EXT_TRACESTOP 0x83
#define EXT_PWRX 0xa2
#define EXT_TNT 0xa3
#define EXT_BEP_IP 0xb3
#define EXT_MWAIT 0xc2
#define EXT_EXT 0xc3
#define EXT_VMCS 0xc8
#define EXT_EXSTOP_IP 0xe2
#define EXT_OVF 0xf3
#define EXT_PTW_MASK 0x1f
#define EXT_PTW 0x12
#define EXT_EXT_MNT 0x88

#define TMA_RESERVED UINT64_C(0xfffffffe00ff0000) /* libipt wants them 0 */

/* n <= 8 bytes, little-endian, as all fields of packets are. */
static uint64_t load_le(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < n; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

/* Returns -1. Nothing that was parsed so far is left in *pkt. */
static int bad(struct ptpkt *pkt)
{
	*pkt = (struct ptpkt){ .type = PTPKT_BAD };
	return -1;
}

/* Sets type and size. Returns the size, 0 if the bytes end before the packet
 * does. */
static int shape(struct ptpkt *pkt, const uint8_t *p, const uint8_t *end,
		 enum ptpkt_type type, unsigned size)
{
	pkt->type = (uint8_t)type;
	if ((size_t)(end - p) < size)
		return 0;
	pkt->size = (uint8_t)size;
	return (int)size;
}

/* v: the TNT bits below a stop bit, which is the highest one set; without one
 * it is no packet. The oldest branch is the bit next to the stop bit. */
static int set_tnt(struct ptpkt *pkt, uint64_t v, unsigned size)
{
	unsigned stop;

	if (!v)
		return bad(pkt);
	stop = 63 - (unsigned)__builtin_clzll(v);
	pkt->type = PTPKT_TNT;
	pkt->size = (uint8_t)size;
	pkt->count = (uint8_t)stop;
	pkt->payload = v & ~(UINT64_C(1) << stop);
	return (int)size;
}

/* count is the code IPBytes, not a number of bytes; 5 and 7 are reserved. The
 * IP is made of payload and Last IP by ptpkt_ip(). */
static int decode_ip(const uint8_t *p, const uint8_t *end,
		     enum ptpkt_type type, struct ptpkt *pkt)
{
	static const int8_t bytes[8] = { 0, 2, 4, 6, 6, -1, 8, -1 };
	int n = bytes[*p >> 5];
	int ret;

	if (n < 0)
		return bad(pkt);
	ret = shape(pkt, p, end, type, 1 + (unsigned)n);
	pkt->count = *p >> 5;
	if (ret)
		pkt->payload = load_le(p + 1, (unsigned)n);
	return ret;
}

/* The high three bits of the second byte are the leaf: 0 MODE.Exec, 1
 * MODE.TSX. */
static int decode_mode(const uint8_t *p, const uint8_t *end, struct ptpkt *pkt)
{
	if (end - p < 2)
		return 0;
	switch (p[1] >> 5) {
	case 0:
		pkt->type = PTPKT_MODE_EXEC;
		pkt->flags = p[1] & 7;
		break;
	case 1:
		pkt->type = PTPKT_MODE_TSX;
		pkt->flags = p[1] & 3;
		break;
	default:
		return bad(pkt);
	}
	pkt->size = 2;
	return 2;
}

/* Two bytes of ICNT, the instructions since the last IP that packets gave,
 * follow if ICNTV is set. */
static int decode_trig(const uint8_t *p, const uint8_t *end, struct ptpkt *pkt)
{
	int ret;

	pkt->type = PTPKT_TRIG;
	if (end - p < 2)
		return 0;
	ret = shape(pkt, p, end, PTPKT_TRIG, p[1] & 0x40 ? 5 : 3);
	pkt->flags = (uint8_t)(p[1] >> 7 | (p[1] >> 5 & 2) | (p[1] >> 3 & 4));
	if (!ret)
		return 0;
	pkt->count = p[2];
	if (ret == 5)
		pkt->payload = load_le(p + 3, 2);
	return ret;
}

/* Five bits of the count, then seven in each byte, whose bit 0 says that
 * another follows. What does not fit 64 bits is no packet. */
static int decode_cyc(const uint8_t *p, const uint8_t *end, struct ptpkt *pkt)
{
	uint64_t v = *p >> 3;
	unsigned shift = 5, n = 1;
	unsigned more = *p & 4;

	pkt->type = PTPKT_CYC;
	while (more) {
		if (p + n == end)
			return 0;
		if (shift + 7 > 64)
			return bad(pkt);
		v |= (uint64_t)(p[n] >> 1) << shift;
		shift += 7;
		more = p[n++] & 1;
	}
	pkt->payload = v;
	pkt->size = (uint8_t)n;
	return (int)n;
}

/* 02 82, eight times. Of a PSB that is cut, all bytes must be right. */
static int decode_psb(const uint8_t *p, const uint8_t *end, struct ptpkt *pkt)
{
	size_t n = (size_t)(end - p);

	if (n > PTPKT_PSB_SIZE)
		n = PTPKT_PSB_SIZE;
	for (size_t i = 0; i < n; i++)
		if (p[i] != (i & 1 ? EXT_PSB : OPC_EXT))
			return bad(pkt);
	return shape(pkt, p, end, PTPKT_PSB, PTPKT_PSB_SIZE);
}

/* PayloadBytes is 0 for 4 bytes, 1 for 8; bit 7 says that a FUP follows. */
static int decode_ptw(const uint8_t *p, const uint8_t *end, struct ptpkt *pkt)
{
	unsigned code = p[1] >> 5 & 3;
	int ret;

	if (code > 1)
		return bad(pkt);
	pkt->count = code ? 8 : 4;
	pkt->flags = p[1] >> 7;
	ret = shape(pkt, p, end, PTPKT_PTW, 2U + pkt->count);
	if (ret)
		pkt->payload = load_le(p + 2, pkt->count);
	return ret;
}

/* The one packet with an opcode of three bytes; the third may not be there
 * yet. */
static int decode_mnt(const uint8_t *p, const uint8_t *end, struct ptpkt *pkt)
{
	int ret;

	if (end - p > 2 && p[2] != EXT_EXT_MNT)
		return bad(pkt);
	ret = shape(pkt, p, end, PTPKT_MNT, 11);
	if (ret)
		pkt->payload = load_le(p + 3, 8);
	return ret;
}

static int decode_tnt64(const uint8_t *p, const uint8_t *end, struct ptpkt *pkt)
{
	if (!shape(pkt, p, end, PTPKT_TNT, 8))
		return 0;
	return set_tnt(pkt, load_le(p + 2, 6), 8);
}

/* A packet of fixed size; *word: its bytes after the opcode, at most 8. */
static int decode_fixed(const uint8_t *p, const uint8_t *end, struct ptpkt *pkt,
			enum ptpkt_type type, unsigned size, uint64_t *word)
{
	int ret = shape(pkt, p, end, type, size);

	*word = ret ? load_le(p + 2, size - 2 < 8 ? size - 2 : 8) : 0;
	return ret;
}

/* CBR: the ratio of core to bus clock, and a reserved byte. TMA: the low 16
 * bits of the crystal clock (CTC), and the TSC's ticks since its last tick, of
 * 9 bits. */
static int decode_timing(const uint8_t *p, const uint8_t *end,
			 struct ptpkt *pkt)
{
	uint64_t w;
	int ret;

	if (p[1] == EXT_CBR) {
		ret = decode_fixed(p, end, pkt, PTPKT_CBR, 4, &w);
		pkt->payload = w & 0xff;
		return ret;
	}
	ret = decode_fixed(p, end, pkt, PTPKT_TMA, 7, &w);
	if (w & TMA_RESERVED)
		return bad(pkt);
	pkt->payload = w & 0xffff;
	pkt->payload2 = w >> 24 & 0x1ff;
	return ret;
}

/* Both have their addresses without the low bits, which are 0: VMCS from bit 12
 * on, PIP (CR3) from bit 5 on, above the bit NR: non-root, a guest. */
static int decode_space(const uint8_t *p, const uint8_t *end,
			struct ptpkt *pkt)
{
	uint64_t w;
	int ret;

	if (p[1] == EXT_VMCS) {
		ret = decode_fixed(p, end, pkt, PTPKT_VMCS, 7, &w);
		pkt->payload = w << 12;
		return ret;
	}
	ret = decode_fixed(p, end, pkt, PTPKT_PIP, 8, &w);
	pkt->flags = w & 1;
	pkt->payload = w >> 1 << 5;
	return ret;
}

/* C-states and sub C-states are the fields of MWAIT hints (SDM, "Power Event
 * Tracing"). */
static int decode_power(const uint8_t *p, const uint8_t *end,
			struct ptpkt *pkt)
{
	uint64_t w;
	int ret;

	switch (p[1]) {
	case EXT_MWAIT:
		ret = decode_fixed(p, end, pkt, PTPKT_MWAIT, 10, &w);
		pkt->payload = (uint32_t)w;
		pkt->payload2 = w >> 32;
		return ret;
	case EXT_PWRE:
		ret = decode_fixed(p, end, pkt, PTPKT_PWRE, 4, &w);
		pkt->flags = w >> 7 & 1;
		pkt->payload = w >> 12 & 15;
		pkt->payload2 = w >> 8 & 15;
		return ret;
	default:
		ret = decode_fixed(p, end, pkt, PTPKT_PWRX, 7, &w);
		pkt->payload = w >> 4 & 15;
		pkt->payload2 = w & 15;
		pkt->flags = w >> 8 & 15;
		return ret;
	}
}

/* Event trace (CFE, EVD) and blocks (BBP). BBP's bit SZ is 1 for items of 4
 * bytes and 0 for items of 8. */
static int decode_event(const uint8_t *p, const uint8_t *end,
			struct ptpkt *pkt)
{
	uint64_t w;
	int ret;

	switch (p[1]) {
	case EXT_CFE:
		ret = decode_fixed(p, end, pkt, PTPKT_CFE, 4, &w);
		pkt->count = w & 0x1f;
		pkt->flags = w >> 7 & 1;
		pkt->payload = w >> 8 & 0xff;
		return ret;
	case EXT_EVD:
		ret = shape(pkt, p, end, PTPKT_EVD, 11);
		if (ret) {
			pkt->count = p[2] & 0x3f;
			pkt->payload = load_le(p + 3, 8);
		}
		return ret;
	default:
		ret = decode_fixed(p, end, pkt, PTPKT_BBP, 3, &w);
		pkt->count = w & 0x1f;
		if (ret)
			pkt->payload = w >> 7 & 1 ? 4 : 8;
		return ret;
	}
}

/* Packets of two bytes. flags: the IP bit, where there is one: a FUP follows.
 * EXSTOP and BEP have it as bit 7 of the second byte, so each has two codes. */
static int decode_bare(const uint8_t *p, const uint8_t *end, struct ptpkt *pkt)
{
	switch (p[1]) {
	case EXT_PSBEND:
		return shape(pkt, p, end, PTPKT_PSBEND, 2);
	case EXT_OVF:
		return shape(pkt, p, end, PTPKT_OVF, 2);
	case EXT_TRACESTOP:
		return shape(pkt, p, end, PTPKT_TRACESTOP, 2);
	case EXT_EXSTOP:
	case EXT_EXSTOP_IP:
		pkt->flags = p[1] == EXT_EXSTOP_IP;
		return shape(pkt, p, end, PTPKT_EXSTOP, 2);
	case EXT_BEP:
	case EXT_BEP_IP:
		pkt->flags = p[1] == EXT_BEP_IP;
		return shape(pkt, p, end, PTPKT_BEP, 2);
	}
	return bad(pkt);
}

/* Packets with an opcode of two bytes. PTW is the only one with its size in the
 * second, and matches by the low bits; all others are compared as a whole. */
static int decode_ext(const uint8_t *p, const uint8_t *end, struct ptpkt *pkt)
{
	if (end - p < 2)
		return 0;
	switch (p[1]) {
	case EXT_TNT:
		return decode_tnt64(p, end, pkt);
	case EXT_PSB:
		return decode_psb(p, end, pkt);
	case EXT_CBR:
	case EXT_TMA:
		return decode_timing(p, end, pkt);
	case EXT_PIP:
	case EXT_VMCS:
		return decode_space(p, end, pkt);
	case EXT_MWAIT:
	case EXT_PWRE:
	case EXT_PWRX:
		return decode_power(p, end, pkt);
	case EXT_CFE:
	case EXT_EVD:
	case EXT_BBP:
		return decode_event(p, end, pkt);
	case EXT_EXT:
		return decode_mnt(p, end, pkt);
	}
	if ((p[1] & EXT_PTW_MASK) == EXT_PTW)
		return decode_ptw(p, end, pkt);
	return decode_bare(p, end, pkt);
}

/* Odd first bytes other than CYC. The IP packets share their low five bits with
 * no other opcode: TSC, MTC, MODE and TRIG are 0x19 there. */
static int decode_odd(const uint8_t *p, const uint8_t *end, struct ptpkt *pkt)
{
	int ret;

	switch (*p & OPC_IP_MASK) {
	case OPC_TIP:
		return decode_ip(p, end, PTPKT_TIP, pkt);
	case OPC_FUP:
		return decode_ip(p, end, PTPKT_FUP, pkt);
	case OPC_TIP_PGE:
		return decode_ip(p, end, PTPKT_TIP_PGE, pkt);
	case OPC_TIP_PGD:
		return decode_ip(p, end, PTPKT_TIP_PGD, pkt);
	}
	switch (*p) {
	case OPC_MTC:
		ret = shape(pkt, p, end, PTPKT_MTC, 2);
		pkt->payload = ret ? p[1] : 0;
		return ret;
	case OPC_TSC:
		ret = shape(pkt, p, end, PTPKT_TSC, 8);
		pkt->payload = ret ? load_le(p + 1, 7) : 0;
		return ret;
	case OPC_MODE:
		return decode_mode(p, end, pkt);
	case OPC_TRIG:
		return decode_trig(p, end, pkt);
	}
	return bad(pkt);
}

#define COMMON_BYTES 16		/* that decode_common may read */
#define PSB_WORD UINT64_C(0x8202820282028202)

static inline int set_common(struct ptpkt *pkt, enum ptpkt_type type,
			     unsigned size, uint64_t payload)
{
	pkt->type = (uint8_t)type;
	pkt->size = (uint8_t)size;
	pkt->payload = payload;
	return (int)size;
}

/* w: the eight bytes at p */
static inline int common_ext(const uint8_t *p, uint64_t w, struct ptpkt *pkt)
{
	switch (p[1]) {
	case EXT_PSB:
		if (w != PSB_WORD || load_le64(p + 8) != PSB_WORD)
			return 0;
		return set_common(pkt, PTPKT_PSB, PTPKT_PSB_SIZE, 0);
	case EXT_PSBEND:
		return set_common(pkt, PTPKT_PSBEND, 2, 0);
	case EXT_CBR:
		return set_common(pkt, PTPKT_CBR, 4, w >> 16 & 0xff);
	case EXT_PIP:
		pkt->flags = w >> 16 & 1;
		return set_common(pkt, PTPKT_PIP, 8, w >> 17 << 5);
	case EXT_VMCS:
		return set_common(pkt, PTPKT_VMCS, 7, w << 8 >> 24 << 12);
	}
	return 0;
}

static inline int common_ip(const uint8_t *p, enum ptpkt_type type,
			    struct ptpkt *pkt)
{
	static const uint8_t sizes[8] = { 1, 3, 5, 7, 7, 0, 9, 0 };
	unsigned count = *p >> 5, size = sizes[count];

	if (!size)
		return 0;
	pkt->count = (uint8_t)count;
	return set_common(pkt, type, size,
			  size == 1 ? 0 :
			  load_le64(p + 1) & UINT64_MAX >> (72 - 8 * size));
}

/* The same as below for the commonest kinds, with COMMON_BYTES to read; 0: it
 * is another. */
static inline int decode_common(const uint8_t *p, struct ptpkt *pkt)
{
	uint64_t w = load_le64(p);

	switch (*p) {
	case OPC_PAD:
		return set_common(pkt, PTPKT_PAD, 1, 0);
	case OPC_EXT:
		return common_ext(p, w, pkt);
	case OPC_MTC:
		return set_common(pkt, PTPKT_MTC, 2, p[1]);
	case OPC_TSC:
		return set_common(pkt, PTPKT_TSC, 8, w >> 8);
	}
	switch (*p & OPC_IP_MASK) {
	case OPC_TIP:
		return common_ip(p, PTPKT_TIP, pkt);
	case OPC_FUP:
		return common_ip(p, PTPKT_FUP, pkt);
	case OPC_TIP_PGE:
		return common_ip(p, PTPKT_TIP_PGE, pkt);
	case OPC_TIP_PGD:
		return common_ip(p, PTPKT_TIP_PGD, pkt);
	}
	return 0;
}

/* Bit 0 is clear in TNT, PAD and the opcodes of two bytes; CYC has bits 0 and 1
 * set. */
static int decode_any(const uint8_t *p, const uint8_t *end, struct ptpkt *pkt)
{
	if (!(*p & 1)) {
		if (*p == OPC_EXT)
			return decode_ext(p, end, pkt);
		if (*p != OPC_PAD)
			return set_tnt(pkt, *p >> 1, 1);
		return shape(pkt, p, end, PTPKT_PAD, 1);
	}
	if ((*p & 3) == 3)
		return decode_cyc(p, end, pkt);
	return decode_odd(p, end, pkt);
}

int ptpkt_decode(const uint8_t *p, const uint8_t *end, struct ptpkt *pkt)
{
	int ret;

	*pkt = (struct ptpkt){ 0 };
	if (end - p >= COMMON_BYTES) {
		ret = decode_common(p, pkt);
		if (ret)
			return ret;
	} else if (p >= end) {
		return 0;
	}
	return decode_any(p, end, pkt);
}

/*
 * Packets that can be inside of a block; all others end it. An overflow may
 * lose the BEP, so a decoder that waited for it would read the TNTs after it as
 * BIPs.
 */
#define IN_BLOCK                                                               \
	(1U << PTPKT_BAD | 1U << PTPKT_PAD | 1U << PTPKT_TSC |                 \
	 1U << PTPKT_TMA | 1U << PTPKT_MTC | 1U << PTPKT_FUP |                 \
	 1U << PTPKT_CYC | 1U << PTPKT_CBR | 1U << PTPKT_MNT |                 \
	 1U << PTPKT_BIP)

int ptpkt_next(const uint8_t *p, const uint8_t *end, unsigned *block,
	       struct ptpkt *pkt)
{
	int ret;

	if (*block && p < end && (*p & 7) == 4) {
		*pkt = (struct ptpkt){ .count = *p >> 3 };
		ret = shape(pkt, p, end, PTPKT_BIP, 1 + *block);
		if (ret)
			pkt->payload = load_le(p + 1, *block);
		return ret;
	}
	ret = ptpkt_decode(p, end, pkt);
	if (ret > 0 && pkt->type == PTPKT_BBP)
		*block = (unsigned)pkt->payload;
	else if (ret > 0 && !(IN_BLOCK >> pkt->type & 1))
		*block = 0;
	return ret;
}

const uint8_t *ptpkt_whole_end(const uint8_t *psb, const uint8_t *end)
{
	const uint8_t *header = NULL, *p = psb; /* header: the PSB that is open */
	unsigned block = 0;
	struct ptpkt pkt;
	int n;

	while ((n = ptpkt_next(p, end, &block, &pkt)) > 0) {
		if (pkt.type == PTPKT_PSB)
			header = p;
		else if (pkt.type == PTPKT_PSBEND || pkt.type == PTPKT_OVF)
			header = NULL;
		p += n;
	}
	return n < 0 ? end : header ? header : p;
}

/* Codes 1, 2 and 4 replace the low 16, 32 and 48 bits and keep the others; 3 is
 * 48 bits to be sign-extended, 6 the full address. */
int ptpkt_ip(const struct ptpkt *pkt, uint64_t *last)
{
	switch (pkt->count) {
	case 1:
		*last = (*last & ~UINT64_C(0xffff)) | pkt->payload;
		return 1;
	case 2:
		*last = (*last & ~UINT64_C(0xffffffff)) | pkt->payload;
		return 1;
	case 3:
		*last = (uint64_t)((int64_t)(pkt->payload << 16) >> 16);
		return 1;
	case 4:
		*last = (*last & ~UINT64_C(0xffffffffffff)) | pkt->payload;
		return 1;
	case 6:
		*last = pkt->payload;
		return 1;
	}
	return 0;
}

/* ---- searching, without decoding packets ---- */

/*
 * A PSB is 16 bytes of two that alternate. Wherever it begins, it covers one of
 * the eight-byte words that are looked at, and that word has one of two values.
 * So one word in eight bytes is compared, and the PSB begins at most eight
 * bytes before it.
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
				const uint8_t **after)
{
	/* A run of n from p on contains the word at p + step: only that is
	 * read. Where it is not 0, no run begins at or before it. */
	size_t step = n - 8;
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
			*after = to;
			return from;
		}
		p = to;
	}
	return NULL;
}

/* ---- text ---- */

/*
 * One line for each packet. TNT bits are '!' for taken and '.' for not taken,
 * the oldest first, as libipt's ptdump prints them; IPs are as in the packet,
 * not decompressed.
 */

/* table */
static const char *const names[PTPKT_N_TYPES] = {
	[PTPKT_BAD] = "bad",
	[PTPKT_PAD] = "pad",
	[PTPKT_TNT] = "tnt",
	[PTPKT_TIP] = "tip",
	[PTPKT_TIP_PGE] = "tip.pge",
	[PTPKT_TIP_PGD] = "tip.pgd",
	[PTPKT_FUP] = "fup",
	[PTPKT_PIP] = "pip",
	[PTPKT_MODE_EXEC] = "mode.exec",
	[PTPKT_MODE_TSX] = "mode.tsx",
	[PTPKT_TRACESTOP] = "tracestop",
	[PTPKT_CBR] = "cbr",
	[PTPKT_TSC] = "tsc",
	[PTPKT_MTC] = "mtc",
	[PTPKT_TMA] = "tma",
	[PTPKT_CYC] = "cyc",
	[PTPKT_VMCS] = "vmcs",
	[PTPKT_OVF] = "ovf",
	[PTPKT_PSB] = "psb",
	[PTPKT_PSBEND] = "psbend",
	[PTPKT_MNT] = "mnt",
	[PTPKT_PTW] = "ptw",
	[PTPKT_EXSTOP] = "exstop",
	[PTPKT_MWAIT] = "mwait",
	[PTPKT_PWRE] = "pwre",
	[PTPKT_PWRX] = "pwrx",
	[PTPKT_BBP] = "bbp",
	[PTPKT_BEP] = "bep",
	[PTPKT_BIP] = "bip",
	[PTPKT_CFE] = "cfe",
	[PTPKT_EVD] = "evd",
	[PTPKT_TRIG] = "trig",
};

const char *ptpkt_name(enum ptpkt_type type)
{
	return (unsigned)type < PTPKT_N_TYPES ? names[type] : "?";
}

const char *ptpkt_cfe_name(unsigned type)
{
	static const char *const cfe[] = {
		NULL, "intr", "iret", "smi", "rsm", "sipi", "init", "vmentry",
		"vmexit", "vmexit_intr", "shutdown", NULL, "uintr", "uiret",
		"fred_int", "fred_syscall",
	};

	return type < sizeof(cfe) / sizeof(cfe[0]) ? cfe[type] : NULL;
}

const char *ptpkt_evd_name(unsigned type)
{
	static const char *const evd[] = { "cr2", "vmxq", "vmxr" };

	return type < sizeof(evd) / sizeof(evd[0]) ? evd[type] : NULL;
}

/* The stop bit is not shown. */
static int text_tnt(char *buf, size_t len, const struct ptpkt *pkt)
{
	char bits[65];
	unsigned n = pkt->count < 64 ? pkt->count : 64;

	for (unsigned i = 0; i < n; i++)
		bits[i] = pkt->payload >> (n - 1 - i) & 1 ? '!' : '.';
	bits[n] = '\0';
	return snprintf(buf, len, "tnt %u: %s", n, bits);
}

static int text_ip(char *buf, size_t len, const struct ptpkt *pkt)
{
	const char *name = ptpkt_name(pkt->type);

	if (!pkt->count)
		return snprintf(buf, len, "%s 0: no ip", name);
	return snprintf(buf, len, "%s %u: %#" PRIx64, name, pkt->count,
			pkt->payload);
}

static int text_mode(char *buf, size_t len, const struct ptpkt *pkt)
{
	const char *name = ptpkt_name(pkt->type);

	if (pkt->type == PTPKT_MODE_TSX)
		return snprintf(buf, len, "%s%s%s", name,
				pkt->flags & 1 ? " intx" : "",
				pkt->flags & 2 ? " abrt" : "");
	return snprintf(buf, len, "%s%s%s%s", name,
			pkt->flags & 1 ? " cs.l" : "",
			pkt->flags & 2 ? " cs.d" : "",
			pkt->flags & 4 ? " if" : "");
}

/* Event trace. A type without a name is a number alone. */
static int text_event_trace(char *buf, size_t len, const struct ptpkt *pkt)
{
	const char *name = ptpkt_name(pkt->type), *type;
	char number[16];

	if (pkt->type == PTPKT_TRIG) {
		int n = snprintf(buf, len, "%s %#x%s%s", name, pkt->count,
				 pkt->flags & 1 ? " ip" : "",
				 pkt->flags & 4 ? " mult" : "");

		return pkt->flags & 2 && n > 0 && (size_t)n < len ?
			       n + snprintf(buf + n, len - (size_t)n,
					    " icnt %" PRIu64, pkt->payload) :
			       n;
	}
	type = pkt->type == PTPKT_CFE ? ptpkt_cfe_name(pkt->count) :
					ptpkt_evd_name(pkt->count);
	snprintf(number, sizeof(number), "%u", pkt->count);
	if (pkt->type == PTPKT_EVD)
		return snprintf(buf, len, "%s type %s: %#" PRIx64, name,
				type ? type : number, pkt->payload);
	return snprintf(buf, len, "%s type %s vector %" PRIu64 "%s", name,
			type ? type : number, pkt->payload,
			pkt->flags & 1 ? " ip" : "");
}

/* Power and block packets, and those without a value */
static int text_event(char *buf, size_t len, const struct ptpkt *pkt)
{
	const char *name = ptpkt_name(pkt->type);
	const char *ip = pkt->flags & 1 ? " ip" : "";

	switch (pkt->type) {
	case PTPKT_MWAIT:
		return snprintf(buf, len, "%s hints %#" PRIx64 " ext %#" PRIx64,
				name, pkt->payload, pkt->payload2);
	case PTPKT_PWRE:
		return snprintf(buf, len, "%s c%" PRIu64 ".%" PRIu64 "%s", name,
				pkt->payload, pkt->payload2,
				pkt->flags ? " hw" : "");
	case PTPKT_PWRX:
		return snprintf(buf, len,
				"%s last c%" PRIu64 " deepest c%" PRIu64
				" wake %#x", name, pkt->payload, pkt->payload2,
				(unsigned)pkt->flags);
	case PTPKT_BBP:
		return snprintf(buf, len, "%s type %u, %" PRIu64 "-byte items",
				name, pkt->count, pkt->payload);
	case PTPKT_BIP:
		return snprintf(buf, len, "%s id %u: %#" PRIx64, name,
				pkt->count, pkt->payload);
	}
	return snprintf(buf, len, "%s%s", name, ip);
}

static int text_value(char *buf, size_t len, const struct ptpkt *pkt)
{
	const char *name = ptpkt_name(pkt->type);

	switch (pkt->type) {
	case PTPKT_PIP:
		return snprintf(buf, len, "%s cr3 %#" PRIx64 "%s", name,
				pkt->payload, pkt->flags ? " nr" : "");
	case PTPKT_TMA:
		return snprintf(buf, len, "%s ctc %#" PRIx64 " fc %#" PRIx64,
				name, pkt->payload, pkt->payload2);
	case PTPKT_PTW:
		return snprintf(buf, len, "%s %u: %#" PRIx64 "%s", name,
				pkt->count, pkt->payload,
				pkt->flags ? " ip" : "");
	case PTPKT_CBR:
	case PTPKT_CYC:
		return snprintf(buf, len, "%s %" PRIu64, name, pkt->payload);
	}
	return snprintf(buf, len, "%s %#" PRIx64, name, pkt->payload);
}

int ptpkt_text(char *buf, size_t len, const struct ptpkt *pkt)
{
	switch (pkt->type) {
	case PTPKT_TNT:
		return text_tnt(buf, len, pkt);
	case PTPKT_TIP:
	case PTPKT_TIP_PGE:
	case PTPKT_TIP_PGD:
	case PTPKT_FUP:
		return text_ip(buf, len, pkt);
	case PTPKT_MODE_EXEC:
	case PTPKT_MODE_TSX:
		return text_mode(buf, len, pkt);
	case PTPKT_PIP:
	case PTPKT_TMA:
	case PTPKT_PTW:
	case PTPKT_CBR:
	case PTPKT_CYC:
	case PTPKT_TSC:
	case PTPKT_MTC:
	case PTPKT_VMCS:
	case PTPKT_MNT:
		return text_value(buf, len, pkt);
	case PTPKT_CFE:
	case PTPKT_EVD:
	case PTPKT_TRIG:
		return text_event_trace(buf, len, pkt);
	}
	return text_event(buf, len, pkt);
}
