/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pt: packets as the slow way asks for them, and the events that they make.
 *
 * Some packets are an event alone, some wait for the IP of the next FUP or TIP, and
 * those of a PSB+ wait for its end. What libipt finds wrong in the packets that lie
 * between two that matter, and when, is found here in the same places: pt_query_peek
 * tells it ahead.
 *
 * Specification: Intel SDM volume 3, chapter "Intel Processor Trace".
 */
#include <string.h>

#include "decode/lib/pt/engine.h"

/* A packet of any kind. 0, or -enum pt_error. */
static int pt_query_read(const struct pt *d, const uint8_t *p, unsigned *block,
			 struct ptpkt *pkt)
{
	int n = ptpkt_next(p, d->end, block, pkt);

	/* SKD007: a CYC that an OVF ran into */
	if (n == 2 && pkt->type == PTPKT_CYC && d->errata & PT_ERR_SKD007 &&
	    (pkt->payload & 0xffe0) == 0x20 && p + 2 < d->end && p[2] == 0xf3) {
		*pkt = (struct ptpkt){ .type = PTPKT_PAD, .size = 1 };
		n = 1;
	}
	return n > 0 ? 0 : n < 0 ? -PT_E_PACKET : -PT_E_EOS;
}

bool pt_query_has(const struct pt *d, enum pt_binding binding)
{
	for (unsigned i = 0; i < d->n_ev; i++)
		if (d->ev[i].binding == binding)
			return true;
	return false;
}

unsigned pt_query_cut(const struct pt *d)
{
	struct ptpkt pkt = { 0 };

	if (d->p < d->end)
		ptpkt_decode(d->p, d->end, &pkt);
	return pkt.type;
}

static struct pt_event *find_event(struct pt *d, enum pt_binding binding,
				   enum pt_event_type type)
{
	for (unsigned i = 0; i < d->n_ev; i++)
		if (d->ev[i].binding == binding && d->ev[i].type == type)
			return &d->ev[i];
	return NULL;
}

static struct pt_event *pt_query_add(struct pt *d, enum pt_binding binding,
				     enum pt_event_type type)
{
	struct pt_event *ev = &d->ev[d->n_ev];

	if (d->n_ev == PT_EVENTS)
		return NULL;
	d->n_ev++;
	*ev = (struct pt_event){ .type = (uint8_t)type,
				 .binding = (uint8_t)binding };
	return ev;
}

static bool take_event(struct pt *d, enum pt_binding binding,
		       struct pt_event *ev)
{
	for (unsigned i = 0; i < d->n_ev; i++) {
		if (d->ev[i].binding != binding)
			continue;
		*ev = d->ev[i];
		for (d->n_ev--; i < d->n_ev; i++)
			d->ev[i] = d->ev[i + 1];
		return true;
	}
	return false;
}

static void date(struct pt *d, struct pt_event *ev)
{
	ev->timed = d->time.known;
	ev->tsc = d->time.tsc;
}

/* ---- IPs ---- */

static void pt_query_update_ip(struct pt *d, const struct ptpkt *pkt)
{
	d->suppressed = !ptpkt_ip(pkt, &d->packet_ip);
	d->have_ip |= !d->suppressed;
}

static bool known_ip(const struct pt *d)
{
	return d->have_ip && !d->suppressed;
}

static void place(const struct pt *d, struct pt_event *ev)
{
	ev->has_ip = known_ip(d);
	ev->ip = ev->has_ip ? d->packet_ip : 0;
}

/* ---- time ---- */

static void pt_query_take_time(struct pt *d, const struct ptpkt *pkt)
{
	switch (pkt->type) {
	case PTPKT_TSC:
		pt_time_tsc(&d->time, pkt->payload);
		break;
	case PTPKT_TMA:
		pt_time_tma(&d->time, (uint16_t)pkt->payload,
			    (uint16_t)pkt->payload2);
		break;
	case PTPKT_MTC:
		pt_time_mtc(&d->time, (uint8_t)pkt->payload);
		break;
	case PTPKT_CYC:
		pt_time_cyc(&d->time, pkt->payload);
		break;
	case PTPKT_CBR:
		pt_time_cbr(&d->time, (uint8_t)pkt->payload);
		break;
	}
}

static void pt_query_set_mode(struct pt_event *ev, const struct ptpkt *pkt)
{
	unsigned cs = pkt->flags & 3;

	/* value2: 1 when the bits name no mode */
	ev->value = cs == 1 ? AUX_FLOW_MODE_X86_64 :
		    cs == 2 ? AUX_FLOW_MODE_X86_32 : AUX_FLOW_MODE_X86_16;
	ev->value2 = cs == 3;
}

static int pt_query_meant_item(const struct pt *d, const uint8_t *p);

int pt_query_item(struct pt *d)
{
	struct ptpkt pkt;
	struct pt_event *ev;
	unsigned block;
	int err;

	for (;;) {
		block = d->block;
		err = pt_query_read(d, d->p, &block, &pkt);
		if (err)
			return err == -PT_E_PACKET ? pt_query_meant_item(d, d->p) : err;
		if (pkt.type == PTPKT_PSB) {
			err = pt_query_header(d);
			/* Tracing would be on without a TIP.PGE. */
			if (!err && known_ip(d) && !d->enabled)
				err = -PT_E_UNSUPPORTED;
			if (err)
				return err;
			continue;
		}
		if (pkt.type == PTPKT_TNT)
			return PT_ITEM_TNT;
		if (pkt.type == PTPKT_TIP)
			return pt_query_has(d, PT_BIND_TIP) ? PT_ITEM_EVENT :
							       PT_ITEM_TIP;
		if (pkt.type == PTPKT_FUP) {
			if (pt_query_has(d, PT_BIND_FUP))
				return PT_ITEM_EVENT;
			pt_query_update_ip(d, &pkt);
			if (!known_ip(d))
				return -PT_E_NOIP;
			ev = pt_query_add(d, PT_BIND_TIP, PT_EV_ASYNC_BRANCH);
			if (!ev)
				return -PT_E_LIMIT;
			ev->from = d->packet_ip;
			date(d, ev);
		} else if (pkt.type == PTPKT_PSBEND) {
			if (pt_query_has(d, PT_BIND_PSBEND))
				return PT_ITEM_EVENT;
		} else if (!is_in(&pkt, SKIPPED)) {
			return PT_ITEM_EVENT;
		}
		pt_query_take_time(d, &pkt);
		d->block = block;
		d->p += pkt.size;
	}
}

/* ---- events ---- */

/* What an OVF means: at an IP, with tracing off (0), or nothing that can be. */
static int scan_ovf(struct pt *d, const uint8_t *p)
{
	struct ptpkt pkt;
	unsigned block = 0;

	for (;; p += pkt.size) {
		int err = pt_query_read(d, p, &block, &pkt);

		if (err)
			return err == -PT_E_EOS ? 0 : err;
		if (pkt.type == PTPKT_FUP)
			return 1;
		if (is_in(&pkt, NOT_BEHIND_OVF))
			return -PT_E_CONTEXT;
		if (!is_in(&pkt, BEFORE_FUP))
			return 0;
	}
}

/* 1: an event; 0: it waits for its FUP. */
static int read_ovf(struct pt *d, struct pt_event *ev)
{
	struct pt_event *wait;
	int fup;

	d->have_ip = d->suppressed = false;
	d->packet_ip = 0;
	d->n_ev = 0;
	pt_time_ovf(&d->time);
	fup = scan_ovf(d, d->p);
	/* What libipt makes of errata there is its own. */
	if ((fup <= 0 && d->errata & PT_ERR_SKD010) ||
	    (fup == -PT_E_CONTEXT && d->errata & PT_ERR_APL11) ||
	    (fup > 0 && d->errata & PT_ERR_APL12))
		return -PT_E_UNSUPPORTED;
	if (fup < 0)
		return fup;
	if (!fup) {
		*ev = (struct pt_event){ .type = PT_EV_OVERFLOW };
		date(d, ev);
		return 1;
	}
	wait = pt_query_add(d, PT_BIND_FUP, PT_EV_OVERFLOW);
	date(d, wait);
	return 0;
}

/* CR3 and VMCS go with an interrupt that is under way. */
static int read_space(struct pt *d, const struct ptpkt *pkt,
		      struct pt_event *ev)
{
	bool pip = pkt->type == PTPKT_PIP;
	struct pt_event *paging = find_event(d, PT_BIND_TIP,
					     PT_EV_ASYNC_PAGING);
	struct pt_event *wait;

	if (!find_event(d, PT_BIND_TIP, PT_EV_ASYNC_BRANCH) &&
	    (pip || !paging)) {
		*ev = (struct pt_event){ .type = pip ? PT_EV_PAGING :
						       PT_EV_VMCS,
					 .value = pkt->payload };
		date(d, ev);
		return 1;
	}
	wait = pt_query_add(d, PT_BIND_TIP, pip ? PT_EV_ASYNC_PAGING :
					       PT_EV_ASYNC_VMCS);
	if (!wait)
		return -PT_E_LIMIT;
	if (!pip && paging) { /* in front of it */
		*wait = *paging;
		*paging = (struct pt_event){ .type = PT_EV_ASYNC_VMCS,
					     .binding = PT_BIND_TIP };
		wait = paging;
	} else if (pip) {
		date(d, wait);
	}
	wait->value = pkt->payload;
	return 0;
}

static int read_mode(struct pt *d, const struct ptpkt *pkt,
		     struct pt_event *ev)
{
	struct pt_event *wait;

	if (pkt->type == PTPKT_MODE_TSX && !d->enabled) {
		*ev = (struct pt_event){ .type = PT_EV_TSX,
					 .value = pkt->flags };
		date(d, ev);
		return 1;
	}
	if (pkt->type == PTPKT_MODE_TSX) {
		wait = pt_query_add(d, PT_BIND_FUP, PT_EV_TSX);
	} else {
		wait = pt_query_add(d, PT_BIND_TIP, PT_EV_MODE);
	}
	if (!wait)
		return -PT_E_LIMIT;
	wait->value = pkt->flags;
	if (pkt->type == PTPKT_MODE_EXEC)
		pt_query_set_mode(wait, pkt);
	date(d, wait);
	return 0;
}

/* Events that are complete, or wait for a FUP if fup. */
static int read_plain(struct pt *d, const struct ptpkt *pkt,
		      enum pt_event_type type, bool fup, bool timed,
		      struct pt_event *ev)
{
	if (fup) {
		ev = pt_query_add(d, PT_BIND_FUP, type);
		if (!ev)
			return -PT_E_LIMIT;
	} else {
		*ev = (struct pt_event){ .type = (uint8_t)type };
	}
	ev->size = pkt->count;
	ev->what = pkt->count;
	ev->value = pkt->payload;
	ev->value2 = pkt->payload2;
	if (timed)
		date(d, ev);
	return !fup;
}

static int read_event(struct pt *d, const struct ptpkt *pkt,
		      struct pt_event *ev)
{
	switch (pkt->type) {
	case PTPKT_TRACESTOP:
		return read_plain(d, pkt, PT_EV_STOP, false, true, ev);
	case PTPKT_CBR:
		return read_plain(d, pkt, PT_EV_CBR, false, true, ev);
	case PTPKT_MNT:
		return read_plain(d, pkt, PT_EV_NOTHING, false, true, ev);
	case PTPKT_EXSTOP:
		return read_plain(d, pkt, PT_EV_EXSTOP, pkt->flags, false, ev);
	case PTPKT_MWAIT:
		return read_plain(d, pkt, PT_EV_MWAIT, true, false, ev);
	case PTPKT_PWRE:
		return read_plain(d, pkt, PT_EV_PWRE, false, false, ev);
	case PTPKT_PWRX:
		return read_plain(d, pkt, PT_EV_PWRX, false, false, ev);
	case PTPKT_PTW:
		return read_plain(d, pkt, PT_EV_PTWRITE, pkt->flags, false, ev);
	case PTPKT_BEP:
		return read_plain(d, pkt, PT_EV_NOTHING, pkt->flags, true, ev);
	case PTPKT_CFE:
		return read_plain(d, pkt, PT_EV_CFE, pkt->flags, true, ev);
	case PTPKT_EVD:
		return read_plain(d, pkt, PT_EV_EVD, false, true, ev);
	case PTPKT_PIP:
	case PTPKT_VMCS:
		return read_space(d, pkt, ev);
	case PTPKT_MODE_EXEC:
	case PTPKT_MODE_TSX:
		return read_mode(d, pkt, ev);
	}
	return -PT_E_CONTEXT;
}

/* A FUP that a CFE asked for is that of the interrupt too, if there is one. */
static bool begins_branch(const struct pt *d, const uint8_t *p)
{
	unsigned block = 0;
	struct ptpkt pkt;

	for (;; p += pkt.size) {
		if (pt_query_read(d, p, &block, &pkt))
			return false;
		if (pkt.type == PTPKT_TIP || pkt.type == PTPKT_TIP_PGD)
			return true;
		if (!is_in(&pkt, SKIPPED | 1U << PTPKT_PIP | 1U << PTPKT_VMCS |
					 1U << PTPKT_MODE_EXEC))
			return false;
	}
}

/* One event of a FUP. d->consumed: the packet goes with the last one. */
static int take_fup(struct pt *d, const struct ptpkt *pkt, struct pt_event *ev)
{
	take_event(d, PT_BIND_FUP, ev);
	place(d, ev);
	if (ev->type == PT_EV_OVERFLOW && !ev->has_ip)
		return -PT_E_NOIP;
	if (ev->type == PT_EV_CFE || ev->type == PT_EV_NOTHING)
		d->consumed |= !begins_branch(d, d->p + pkt->size);
	else
		d->consumed |= ev->type != PT_EV_TSX || !(ev->value & 2);
	return pt_query_has(d, PT_BIND_FUP) || !d->consumed;
}

static int take_pge(struct pt *d, struct pt_event *ev)
{
	if (!d->consumed) {
		*ev = (struct pt_event){ .type = PT_EV_ENABLED };
		place(d, ev);
		date(d, ev);
		if (!ev->has_ip)
			return -PT_E_PACKET;
		d->consumed = true;
	} else {
		take_event(d, PT_BIND_TIP, ev);
		place(d, ev);
		if (ev->type != PT_EV_MODE)
			return -PT_E_CONTEXT;
	}
	return pt_query_has(d, PT_BIND_TIP);
}

static int take_pgd(struct pt *d, struct pt_event *ev)
{
	bool bound = take_event(d, PT_BIND_TIP, ev);

	if (!bound) {
		*ev = (struct pt_event){ .type = PT_EV_DISABLED };
		date(d, ev);
	}
	if (!bound || ev->type == PT_EV_ASYNC_BRANCH) {
		if (bound)
			ev->type = PT_EV_ASYNC_DISABLED;
		place(d, ev);
		d->consumed = true;
	} else if (!d->consumed) {
		/* A MODE, or so, that only a TIP can have. */
		return -PT_E_UNSUPPORTED;
	}
	return pt_query_has(d, PT_BIND_TIP);
}

static int take_tip(struct pt *d, struct pt_event *ev)
{
	take_event(d, PT_BIND_TIP, ev);
	place(d, ev);
	d->consumed |= ev->type == PT_EV_ASYNC_BRANCH;
	return pt_query_has(d, PT_BIND_TIP) || !d->consumed;
}

static int take_psbend(struct pt *d, struct pt_event *ev)
{
	take_event(d, PT_BIND_PSBEND, ev);
	date(d, ev);
	if (ev->type != PT_EV_CBR && ev->type != PT_EV_NOTHING)
		place(d, ev);
	return 1;
}

/* The packets that others wait for: each may give several events. */
static int read_bound(struct pt *d, const struct ptpkt *pkt,
		      struct pt_event *ev)
{
	int stays;

	if (pkt->type == PTPKT_PSBEND || pkt->type == PTPKT_OVF)
		return take_psbend(d, ev);
	pt_query_update_ip(d, pkt);
	stays = pkt->type == PTPKT_FUP ? take_fup(d, pkt, ev) :
		pkt->type == PTPKT_TIP ? take_tip(d, ev) :
		pkt->type == PTPKT_TIP_PGE ? take_pge(d, ev) : take_pgd(d, ev);
	if (stays < 0)
		return stays;
	if (!stays) {
		d->consumed = false;
		d->p += pkt->size;
	}
	return 1;
}

static bool is_bound(const struct pt *d, const struct ptpkt *pkt)
{
	return is_in(pkt, 1U << PTPKT_FUP | 1U << PTPKT_TIP |
				  1U << PTPKT_TIP_PGE | 1U << PTPKT_TIP_PGD) ||
	       (is_in(pkt, 1U << PTPKT_PSBEND | 1U << PTPKT_OVF) &&
		pt_query_has(d, PT_BIND_PSBEND));
}

int pt_query_event(struct pt *d, struct pt_event *ev)
{
	struct ptpkt pkt;
	int r;

	for (;;) {
		r = pt_query_item(d);
		if (r < 0)
			return r;
		if (r != PT_ITEM_EVENT)
			return -PT_E_QUERY;
		r = pt_query_read(d, d->p, &d->block, &pkt);
		if (r < 0)
			return r;
		if (is_bound(d, &pkt)) {
			r = read_bound(d, &pkt, ev);
		} else {
			pt_query_take_time(d, &pkt);
			d->p += pkt.size;
			r = pkt.type == PTPKT_OVF ? read_ovf(d, ev) :
						    read_event(d, &pkt, ev);
		}
		if (r)
			return r < 0 ? r : 0;
	}
}

/*
 * pt: the header of a PSB+, and what lies ahead.
 *
 * libipt reads one item ahead, and what is broken there it finds before it tells of
 * what it has. So that the same is told here, it is looked for at the same times.
 * Nothing is changed by looking.
 */

static unsigned pt_query_meant(const uint8_t *p, const uint8_t *end)
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

/* What bytes that are no packet would be, of the kinds that libipt knows by their
 * beginning and reads only later; 0: another one. */
static int pt_query_meant_item(const struct pt *d, const uint8_t *p)
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
