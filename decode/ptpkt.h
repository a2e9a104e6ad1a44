/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Intel PT packets: scanning and text.
 *
 * Specification: Intel SDM volume 3, chapter "Intel Processor Trace", section
 * "Trace Packets and Data Types"; every packet of the current SDM.
 */
#ifndef AUXDECODE_PTPKT_H
#define AUXDECODE_PTPKT_H

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

struct ptpkt {
	uint8_t type;		/* enum ptpkt_type */
	uint8_t size;		/* bytes of the packet */
	uint8_t count;		/* TNT: bits, oldest first from bit count-1;
				 * IP packets: IPBytes (0 to 6); TMA: FC high
				 * bit apart; BIP: id */
	uint8_t flags;		/* PIP: NR; FUP/PTW/EXSTOP/CFE/BEP: IP bit; MODE
				 * fields; PTW: see payload size in count */
	uint64_t payload;	/* the field(s), zero extended */
	uint64_t payload2;	/* second field: TMA fast counter, PWRX, MWAIT */
};

/*
 * Decodes the packet at p. Returns its size, 0 when the bytes end inside it
 * (pkt->type is set when it is known), -1 when no packet starts so (type BAD).
 */
int ptpkt_decode(const uint8_t *p, const uint8_t *end, struct ptpkt *pkt);

/* First PSB at or after p, or NULL. */
const uint8_t *ptpkt_find_psb(const uint8_t *p, const uint8_t *end);

/* The IP of an IP packet given the last IP; updates *last. Returns 0 when the
 * packet carries none (IPBytes 0). */
int ptpkt_ip(const struct ptpkt *pkt, uint64_t *last);

/* "tip.pge 3: 0x401000": the packet for a person, without offset. Returns the
 * length as snprintf does. */
int ptpkt_text(char *buf, size_t len, const struct ptpkt *pkt);

const char *ptpkt_name(enum ptpkt_type type);

#endif
