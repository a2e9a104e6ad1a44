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
#include "decode/lib/pt/query.h"

int pt_query_read(const struct pt *d, const uint8_t *p, unsigned *block,
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

struct pt_event *pt_query_add(struct pt *d, enum pt_binding binding,
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

void pt_query_update_ip(struct pt *d, const struct ptpkt *pkt)
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

void pt_query_take_time(struct pt *d, const struct ptpkt *pkt)
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

void pt_query_set_mode(struct pt_event *ev, const struct ptpkt *pkt)
{
	unsigned cs = pkt->flags & 3;

	/* value2: 1 when the bits name no mode */
	ev->value = cs == 1 ? AUX_FLOW_MODE_X86_64 :
		    cs == 2 ? AUX_FLOW_MODE_X86_32 : AUX_FLOW_MODE_X86_16;
	ev->value2 = cs == 3;
}

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
