/* SPDX-License-Identifier: BSD-2-Clause */
/* What query.c and ahead.c share of reading packets. */
#ifndef DECODE_LIB_PT_QUERY_H
#define DECODE_LIB_PT_QUERY_H

#include "decode/lib/pt/engine.h"

/* The packets that may be between an OVF and its FUP. */
#define BEFORE_FUP                                                             \
	(1U << PTPKT_PAD | 1U << PTPKT_MNT | 1U << PTPKT_CBR |                 \
	 1U << PTPKT_TSC | 1U << PTPKT_TMA | 1U << PTPKT_MTC | 1U << PTPKT_CYC)
/* and those that cannot be there at all */
#define NOT_BEHIND_OVF                                                         \
	(1U << PTPKT_PSBEND | 1U << PTPKT_TIP | 1U << PTPKT_TIP_PGD |          \
	 1U << PTPKT_TNT)
#define IN_HEADER                                                              \
	(BEFORE_FUP | 1U << PTPKT_FUP | 1U << PTPKT_PIP | 1U << PTPKT_VMCS |   \
	 1U << PTPKT_MODE_EXEC | 1U << PTPKT_MODE_TSX)
/* nothing for the flow, beyond time */
#define SKIPPED                                                                \
	(1U << PTPKT_PAD | 1U << PTPKT_TSC | 1U << PTPKT_TMA |                 \
	 1U << PTPKT_MTC | 1U << PTPKT_CYC | 1U << PTPKT_BBP |                 \
	 1U << PTPKT_BIP)

static inline bool is_in(const struct ptpkt *pkt, uint32_t set)
{
	return set >> pkt->type & 1;
}

/* A packet of any kind. 0, or -enum pt_error. */
int pt_query_read(const struct pt *d, const uint8_t *p, unsigned *block,
		  struct ptpkt *pkt);
/* What bytes that are no packet would be, of the kinds that libipt knows by their
 * beginning and reads only later; 0: another one. */
unsigned pt_query_meant(const uint8_t *p, const uint8_t *end);
int pt_query_meant_item(const struct pt *d, const uint8_t *p);
/* NULL: too many wait. */
struct pt_event *pt_query_add(struct pt *d, enum pt_binding binding,
			      enum pt_event_type type);
void pt_query_update_ip(struct pt *d, const struct ptpkt *pkt);
void pt_query_take_time(struct pt *d, const struct ptpkt *pkt);
void pt_query_set_mode(struct pt_event *ev, const struct ptpkt *pkt);

#endif
