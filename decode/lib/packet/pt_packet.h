/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Intel PT packets: decoding, searching, and text.
 *
 * Specification: Intel SDM volume 3, chapter "Intel Processor Trace", section
 * "Trace Packets and Data Types"; every packet of the current SDM.
 */
#ifndef DECODE_LIB_PACKET_PT_PACKET_H
#define DECODE_LIB_PACKET_PT_PACKET_H

#include <stddef.h>
#include <stdint.h>

enum ptpkt_type {
	PTPKT_BAD = 0,	/* no packet starts with these bytes */
	PTPKT_PAD,
	PTPKT_TNT,	/* short and long: payload, n bits */
	PTPKT_TIP,
	PTPKT_TIP_PGE,
	PTPKT_TIP_PGD,
	PTPKT_FUP,
	PTPKT_PIP,
	PTPKT_MODE_EXEC,
	PTPKT_MODE_TSX,
	PTPKT_TRACESTOP,
	PTPKT_CBR,
	PTPKT_TSC,
	PTPKT_MTC,
	PTPKT_TMA,
	PTPKT_CYC,
	PTPKT_VMCS,
	PTPKT_OVF,
	PTPKT_PSB,
	PTPKT_PSBEND,
	PTPKT_MNT,
	PTPKT_PTW,
	PTPKT_EXSTOP,
	PTPKT_MWAIT,
	PTPKT_PWRE,
	PTPKT_PWRX,
	PTPKT_BBP,
	PTPKT_BEP,
	PTPKT_BIP,
	PTPKT_CFE,
	PTPKT_EVD,
	PTPKT_N_TYPES,
};

/*
 * The fields by type (all others 0):
 *
 *  TNT		count bits in payload, the oldest is bit count - 1
 *  TIP*, FUP	count IPBytes (0 to 6), payload as in the packet
 *  PIP		payload CR3, flags NR
 *  MODE_EXEC	flags CS.L (1), CS.D (2), IF (4)
 *  MODE_TSX	flags InTX (1), TXAbort (2)
 *  TMA		payload CTC, payload2 fast counter (9 bits)
 *  VMCS	payload base address
 *  PTW		count payload bytes (4, 8), flags IP bit
 *  EXSTOP, BEP	flags IP bit
 *  MWAIT	payload hints, payload2 extensions
 *  PWRE	payload C-state, payload2 sub C-state, flags HW
 *  PWRX	payload last core C-state, payload2 deepest, flags wake reason
 *  BBP		count type, payload bytes of each item (4, 8)
 *  BIP		count id, payload value
 *  CFE		count type, payload vector, flags IP bit
 *  EVD		count type, payload value
 *  CBR, TSC, MTC, CYC, MNT	payload
 */
struct ptpkt {
	uint8_t type;		/* enum ptpkt_type */
	uint8_t size;		/* bytes of the packet */
	uint8_t count;
	uint8_t flags;
	uint64_t payload;
	uint64_t payload2;
};

/*
 * Decodes the packet at p, of which the bytes before end may be read. Returns its size, 0 if
 * the bytes end inside of it (pkt->type is set if it is known), -1 if no packet begins
 * so (type BAD). All other fields of *pkt are set, too.
 */
int ptpkt_decode(const uint8_t *p, const uint8_t *end, struct ptpkt *pkt);

/*
 * The same where blocks (BBP to BEP, PEBS records) can occur: inside of one, bytes that are
 * short TNTs elsewhere begin BIP packets. *block is 0 outside of blocks, else the size of the
 * items. Set it to 0 before the first packet; it is kept up to date.
 */
int ptpkt_next(const uint8_t *p, const uint8_t *end, unsigned *block,
	       struct ptpkt *pkt);

#define PTPKT_PSB_SIZE 16
/* First PSB at or after p, or NULL. */
const uint8_t *ptpkt_find_psb(const uint8_t *p, const uint8_t *end);

/* Where the whole packets end, of which psb is the first: before the packet, or the PSB+,
 * that end cuts. end itself where none is cut, or where bytes are no packet. */
const uint8_t *ptpkt_whole_end(const uint8_t *psb, const uint8_t *end);

/* The first run of n or more zero bytes (n > 8), or NULL; *after is its end. */
const uint8_t *ptpkt_find_zeros(const uint8_t *p, const uint8_t *end, size_t n,
				const uint8_t **after);

/* Updates Last IP, *last, by an IP packet (SDM, "IP Compression"). Returns 1, or 0 if the
 * packet suppresses its IP (IPBytes 0). */
int ptpkt_ip(const struct ptpkt *pkt, uint64_t *last);

/* The packet as text, without its offset: "tip.pge 3: 0x401000". Returns the length as
 * snprintf does. */
int ptpkt_text(char *buf, size_t len, const struct ptpkt *pkt);

/* The name of a type in that text. */
const char *ptpkt_name(enum ptpkt_type type);

#endif
