/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pt: the header of a PSB+, and what lies ahead.
 *
 * libipt reads one item ahead, and what is broken there it finds before it tells of
 * what it has. So that the same is told here, it is looked for at the same times.
 * Nothing is changed by looking.
 */
#include <string.h>

#include "decode/lib/pt/query.h"

unsigned pt_query_meant(const uint8_t *p, const uint8_t *end)
{
	switch (p[0] & 0x1f) {
	case 0x0d:
		return PTPKT_TIP;
	case 0x11:
		return PTPKT_TIP_PGE;
	case 0x01:
		return PTPKT_TIP_PGD;
	}
	if (p[0] == 0x99)
		return PTPKT_MODE_EXEC;
	if (p[0] != 0x02 || end - p < 2)
		return 0;
	return p[1] == 0xa3 ? PTPKT_TNT : p[1] == 0x82 ? PTPKT_PSB :
	       (p[1] & 0x1f) == 0x12 ? PTPKT_PTW : 0;
}

int pt_query_meant_item(const struct pt *d, const uint8_t *p)
{
	switch (pt_query_meant(p, d->end)) {
	case 0:
	case PTPKT_PSB:
		return -PT_E_PACKET;
	case PTPKT_TNT:
		return PT_ITEM_TNT;
	case PTPKT_TIP:
		return pt_query_has(d, PT_BIND_TIP) ? PT_ITEM_EVENT :
						      PT_ITEM_TIP;
	default:
		return PT_ITEM_EVENT;
	}
}

/* ---- PSB+ ---- */

static int header_event(struct pt *d, const struct ptpkt *pkt)
{
	static const uint8_t types[] = {
		[PTPKT_PIP] = PT_EV_ASYNC_PAGING,
		[PTPKT_VMCS] = PT_EV_ASYNC_VMCS, [PTPKT_MODE_EXEC] = PT_EV_MODE,
		[PTPKT_MODE_TSX] = PT_EV_TSX, [PTPKT_CBR] = PT_EV_CBR,
		[PTPKT_MNT] = PT_EV_NOTHING,
	};
	struct pt_event *ev;

	if (pkt->type >= sizeof(types) || !types[pkt->type])
		return 0;
	ev = pt_query_add(d, PT_BIND_PSBEND, types[pkt->type]);
	if (!ev)
		return -PT_E_LIMIT;
	ev->status = true;
	ev->value = pkt->payload;
	if (pkt->type == PTPKT_MODE_EXEC)
		pt_query_set_mode(ev, pkt);
	else if (pkt->type == PTPKT_MODE_TSX)
		ev->value = pkt->flags;
	return 0;
}

/* BDM70: a FUP in a PSB+ that is none, if a TIP.PGE follows at once. */
static int is_bdm70(const struct pt *d, const uint8_t *p)
{
	struct ptpkt pkt;
	unsigned block = 0;

	for (;; p += pkt.size) {
		int err = pt_query_read(d, p, &block, &pkt);

		if (err)
			return err == -PT_E_EOS ? 0 : err;
		if (pkt.type == PTPKT_TIP_PGE)
			return 1;
		if (!is_in(&pkt, (IN_HEADER & ~(1U << PTPKT_FUP)) |
					 1U << PTPKT_PSBEND))
			return 0;
	}
}

static int header_fup(struct pt *d, const struct ptpkt *pkt, const uint8_t *p)
{
	int skip = 0;

	if (d->errata & PT_ERR_BDM70 && !d->enabled)
		skip = is_bdm70(d, p + pkt->size);
	if (skip)
		return skip < 0 ? skip : 0;
	pt_query_update_ip(d, pkt);
	return 0;
}

/* libipt says of some packets that they cannot be in a header, before it looks
 * whether they are packets, and whether they are there as a whole. */
static int name_error(int err, const uint8_t *p, const uint8_t *end)
{
	bool meant = err == -PT_E_PACKET || (err == -PT_E_EOS && p < end);
	unsigned type = meant ? pt_query_meant(p, end) : 0;

	return type && type != PTPKT_MODE_EXEC ? -PT_E_CONTEXT : err;
}

/* From the PSB at d->p on to what ends its header, which stays. */
int pt_query_header(struct pt *d)
{
	const uint8_t *p = d->p + 16;
	unsigned block = 0, kept = d->n_ev;
	struct ptpkt pkt;
	int err;

	d->before_psb = d->time.known ? d->time.tsc : 0;
	pt_time_psb(&d->time);
	d->have_ip = d->suppressed = false;
	d->packet_ip = 0;
	d->block = 0;
	for (;; p += pkt.size) {
		err = pt_query_read(d, p, &block, &pkt);
		if (err)
			err = name_error(err, p, d->end);
		if (!err && (pkt.type == PTPKT_PSBEND || pkt.type == PTPKT_OVF))
			break;
		if (!err && !is_in(&pkt, IN_HEADER))
			err = -PT_E_CONTEXT;
		if (!err && pkt.type == PTPKT_FUP)
			err = header_fup(d, &pkt, p);
		if (!err)
			err = header_event(d, &pkt);
		if (err) {
			d->n_ev = kept;
			return err;
		}
		pt_query_take_time(d, &pkt);
	}
	d->p = p;
	return 0;
}

/* ---- looking ahead ---- */

/* From a PSB: behind its PSBEND (1), or at the end of a header that makes events
 * (0). */
static int peek_header(const struct pt *d, const uint8_t **at, bool *ip)
{
	const uint8_t *p = *at + 16;
	unsigned block = 0;
	struct ptpkt pkt;
	bool event = false;

	*ip = false;
	for (;; p += pkt.size) {
		int err = pt_query_read(d, p, &block, &pkt);

		if (err)
			return name_error(err, p, d->end);
		if (pkt.type == PTPKT_OVF || pkt.type == PTPKT_PSBEND)
			break;
		if (!is_in(&pkt, IN_HEADER))
			return -PT_E_CONTEXT;
		if (pkt.type == PTPKT_FUP)
			*ip = pkt.count;
		event |= is_in(&pkt, IN_HEADER & ~(1U << PTPKT_FUP)) &&
			 !is_in(&pkt, SKIPPED);
	}
	*at = p;
	if (event || pkt.type == PTPKT_OVF)
		return 0;
	*at += pkt.size;
	return 1;
}

int pt_query_peek(const struct pt *d, const uint8_t *p, const uint8_t **pos)
{
	bool ip, fup = pt_query_has(d, PT_BIND_FUP);
	unsigned block = d->block;
	struct ptpkt pkt;

	for (;; p += pkt.size) {
		int err = pt_query_read(d, p, &block, &pkt);

		*pos = p;
		if (err == -PT_E_PACKET && pt_query_meant_item(d, p) > 0)
			return 0;
		if (err)
			return err;
		if (pkt.type == PTPKT_PSB) {
			err = peek_header(d, &p, &ip);
			if (err <= 0) {
				if (!err)
					*pos = p;
				return err;
			}
			pkt.size = 0;
		} else if (pkt.type == PTPKT_FUP && !fup) {
			if (!pkt.count)
				return -PT_E_NOIP;
		} else if (pkt.type == PTPKT_PSBEND) {
			if (pt_query_has(d, PT_BIND_PSBEND))
				return 0;
		} else if (!is_in(&pkt, SKIPPED)) {
			return 0;
		}
	}
}

/*
 * libipt takes what comes next before it tells of what it has: 0, or the error
 * that it meets there. *fetched: in the next event, not on the way to it.
 */
int pt_query_ahead(const struct pt *d, const uint8_t **pos, bool *fetched)
{
	const uint8_t *near;
	struct pt_event ev;
	struct pt *c = d->ahead;
	int r;

	*fetched = false;
	r = pt_query_peek(d, d->p, pos);
	if (r < 0)
		return r == -PT_E_EOS ? 0 : r;
	near = *pos;
	if (d->n_bits)
		return 0;
	memcpy(c, d, sizeof(*d));
	r = pt_query_item(c);
	if (r != PT_ITEM_EVENT)
		return 0;
	*fetched = true;
	r = pt_query_event(c, &ev);
	*pos = c->p;
	if (r < 0)
		return r;
	r = pt_query_peek(c, c->p, pos);
	if (r < 0 && r != -PT_E_EOS)
		return r;
	*pos = near;
	return 0;
}
