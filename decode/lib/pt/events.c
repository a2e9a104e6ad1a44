/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets as the slow path asks for them, and the events that they make.
 *
 * Some packets are an event alone. Others wait for the IP of the next FUP or TIP (cur.bound
 * holds them), and those of a PSB+ wait for its PSBEND:
 *
 *	FUP		<- MODE.TSX, OVF; EXSTOP, PTW, BEP, CFE and TRIG with an IP; MWAIT
 *			   before such an EXSTOP; MODE.Exec for the interrupt flag alone
 *	TIP, TIP.PGD	<- MODE.Exec; the FUP of an interrupt, and PIP and VMCS after it
 *	TIP.PGE		<- MODE.Exec
 *	PSBEND		<- PIP, VMCS, MODE.*, CBR and MNT inside of the PSB+
 *
 * One packet may give several events: it stays at p until it gave all (cur.consumed).
 *
 * libipt reads one item ahead, and finds what is broken there before it reports what it
 * has. To emit the same flow on broken trace, pt_look_ahead looks at the same times, on a
 * copy of the cursor; and errors are found in the order in which libipt finds them, even
 * where more could be said.
 *
 * Specification: Intel SDM volume 3, "Intel Processor Trace", "Trace Packets and Data
 * Types", "Packet Generation Scenarios"; errata: the specification updates.
 */
#include <string.h>

#include "common/bytes.h"
#include "decode/lib/pt/impl.h"

/* Packets that may be between an OVF and its FUP; */
#define BEFORE_FUP                                                             \
	(1U << PTPKT_PAD | 1U << PTPKT_MNT | 1U << PTPKT_CBR |                 \
	 1U << PTPKT_TSC | 1U << PTPKT_TMA | 1U << PTPKT_MTC | 1U << PTPKT_CYC)
/* and those that cannot be there at all. */
#define NOT_AFTER_OVF                                                          \
	(1U << PTPKT_PSBEND | 1U << PTPKT_TIP | 1U << PTPKT_TIP_PGD |          \
	 1U << PTPKT_TNT)
/* Packets of a PSB+. */
#define IN_PSB                                                                 \
	(BEFORE_FUP | 1U << PTPKT_FUP | 1U << PTPKT_PIP | 1U << PTPKT_VMCS |   \
	 1U << PTPKT_MODE_EXEC | 1U << PTPKT_MODE_TSX)
/* Packets that mean nothing to the flow, beyond time. */
#define SKIPPED                                                                \
	(1U << PTPKT_PAD | 1U << PTPKT_TSC | 1U << PTPKT_TMA |                 \
	 1U << PTPKT_MTC | 1U << PTPKT_CYC | 1U << PTPKT_BBP |                 \
	 1U << PTPKT_BIP)

static bool is_one_of(const struct ptpkt *pkt, uint32_t set)
{
	return set >> pkt->type & 1;
}

/* The packet at p, of any kind. 0, or -enum pt_error. */
static int read_packet(const struct pt_cursor *c, const uint8_t *p, unsigned *block,
			 struct ptpkt *pkt)
{
	int n = ptpkt_next_on(p, c->end, c->errata, block, pkt);

	return n > 0 ? 0 : n < 0 ? -PT_E_PACKET : -PT_E_EOS;
}

bool pt_has_bound(const struct pt_cursor *c, enum pt_binding binding)
{
	for (unsigned i = 0; i < c->bound.n; i++)
		if (c->bound.ev[i].binding == binding)
			return true;
	return false;
}

unsigned pt_cut_packet(const struct pt_cursor *c)
{
	struct ptpkt pkt = { 0 };

	if (c->p < c->end)
		ptpkt_decode(c->p, c->end, &pkt);
	return pkt.type;
}

static struct pt_event *find_bound(struct pt_cursor *c, enum pt_binding binding,
				   enum pt_event_type type)
{
	for (unsigned i = 0; i < c->bound.n; i++)
		if (c->bound.ev[i].binding == binding &&
		    c->bound.ev[i].type == type)
			return &c->bound.ev[i];
	return NULL;
}

static struct pt_event *add_bound(struct pt_cursor *c, enum pt_binding binding,
				     enum pt_event_type type)
{
	struct pt_event *ev = &c->bound.ev[c->bound.n];

	if (c->bound.n == PT_EVENTS)
		return NULL;
	c->bound.n++;
	*ev = (struct pt_event){ .type = (uint8_t)type,
				 .binding = (uint8_t)binding };
	return ev;
}

/* Removes the oldest event that is bound so. False: there is none. */
static bool pop_bound(struct pt_cursor *c, enum pt_binding binding,
		       struct pt_event *ev)
{
	for (unsigned i = 0; i < c->bound.n; i++) {
		if (c->bound.ev[i].binding != binding)
			continue;
		*ev = c->bound.ev[i];
		for (c->bound.n--; i < c->bound.n; i++)
			c->bound.ev[i] = c->bound.ev[i + 1];
		return true;
	}
	return false;
}

/* Dates the event: now. */
static void set_time(struct pt_cursor *c, struct pt_event *ev)
{
	ev->timed = c->time.known;
	ev->tsc = c->time.tsc;
}

/* ---- IPs ---- */

static bool is_ip_known(const struct pt_cursor *c)
{
	return c->ip_state == PT_IP_KNOWN;
}

/* The event is at Last IP, unless that is suppressed. */
static void set_ip(const struct pt_cursor *c, struct pt_event *ev)
{
	ev->has_ip = is_ip_known(c);
	ev->ip = ev->has_ip ? c->last_ip : 0;
}

/* ---- time ---- */

void pt_update_time(struct pt_cursor *c, const struct ptpkt *pkt)
{
	switch (pkt->type) {
	case PTPKT_TSC:
		pt_time_tsc(&c->time, pkt->payload);
		break;
	case PTPKT_TMA:
		pt_time_tma(&c->time, (uint16_t)pkt->payload,
			    (uint16_t)pkt->payload2);
		break;
	case PTPKT_MTC:
		pt_time_mtc(&c->time, (uint8_t)pkt->payload);
		break;
	case PTPKT_CYC:
		pt_time_cyc(&c->time, pkt->payload);
		break;
	case PTPKT_CBR:
		pt_time_cbr(&c->time, (uint8_t)pkt->payload);
		break;
	}
}

void pt_set_mode(struct pt_event *ev, const struct ptpkt *pkt)
{
	unsigned cs = pkt->flags & 3;

	/* CS.L and CS.D; both set name no mode: value2 */
	ev->value = cs == 1 ? AUX_FLOW_MODE_X86_64 :
		    cs == 2 ? AUX_FLOW_MODE_X86_32 : AUX_FLOW_MODE_X86_16;
	ev->value2 = cs == 3;
}

/* ---- bytes that are no packet ---- */

/* The type that the first bytes name, of those that libipt knows by these; 0:
 * none. */
static unsigned intended_type(const uint8_t *p, const uint8_t *end)
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

/* What pt_next_item says of bytes that are no packet: libipt knows some kinds
 * by their opcode, and finds out that the rest is wrong only when it needs the
 * packet. */
static int intended_item(const struct pt_cursor *c, const uint8_t *p)
{
	switch (intended_type(p, c->end)) {
	case 0:
	case PTPKT_PSB:
		return -PT_E_PACKET;
	case PTPKT_TNT:
		return PT_ITEM_TNT;
	case PTPKT_TIP:
		return pt_has_bound(c, PT_BIND_TIP) ? PT_ITEM_EVENT :
						      PT_ITEM_TIP;
	default:
		return PT_ITEM_EVENT;
	}
}

int pt_next_item(struct pt_cursor *c)
{
	struct ptpkt pkt;
	struct pt_event *ev;
	unsigned block;
	int err;

	for (;;) {
		block = c->block;
		c->p = ptpkt_skip_pads(c->p, c->end);
		err = read_packet(c, c->p, &block, &pkt);
		if (err)
			return err == -PT_E_PACKET ? intended_item(c, c->p) : err;
		if (pkt.type == PTPKT_PSB) {
			err = pt_read_psb(c);
			/* Tracing would be on without a TIP.PGE. */
			if (!err && is_ip_known(c) && c->state != PT_ON)
				err = -PT_E_UNSUPPORTED;
			if (err)
				return err;
			continue;
		}
		if (pkt.type == PTPKT_TNT)
			return PT_ITEM_TNT;
		if (pkt.type == PTPKT_TIP)
			return pt_has_bound(c, PT_BIND_TIP) ? PT_ITEM_EVENT :
							       PT_ITEM_TIP;
		if (pkt.type == PTPKT_FUP) {
			if (pt_has_bound(c, PT_BIND_FUP))
				return PT_ITEM_EVENT;
			pt_update_ip(c, &pkt);
			if (!is_ip_known(c))
				return -PT_E_NOIP;
			ev = add_bound(c, PT_BIND_TIP, PT_EV_ASYNC_BRANCH);
			if (!ev)
				return -PT_E_LIMIT;
			ev->from = c->last_ip;
			set_time(c, ev);
		} else if (pkt.type == PTPKT_PSBEND) {
			if (pt_has_bound(c, PT_BIND_PSBEND))
				return PT_ITEM_EVENT;
		} else if (!is_one_of(&pkt, SKIPPED)) {
			return PT_ITEM_EVENT;
		}
		pt_update_time(c, &pkt);
		c->block = block;
		c->p += pkt.size;
	}
}

/* ---- events ---- */

/* The type of the first packet from p on that is not in skip, and the packet; 0:
 * they end before; or an error. */
static int find_past(const struct pt_cursor *c, const uint8_t *p, uint32_t skip,
		     struct ptpkt *pkt)
{
	unsigned block = 0;

	for (;; p += pkt->size) {
		int err = read_packet(c, p, &block, pkt);

		if (err)
			return err == -PT_E_EOS ? 0 : err;
		if (!is_one_of(pkt, skip))
			return pkt->type;
	}
}

static int scan_past(const struct pt_cursor *c, const uint8_t *p, uint32_t skip)
{
	struct ptpkt pkt;

	return find_past(c, p, skip, &pkt);
}

/* What follows the OVF before p. 1: a FUP, where the flow resumes; 0: tracing
 * is off; or an error. */
static int scan_ovf(const struct pt_cursor *c, const uint8_t *p)
{
	int type = scan_past(c, p, BEFORE_FUP);

	if (type < 0)
		return type;
	if (NOT_AFTER_OVF >> type & 1)
		return -PT_E_CONTEXT;
	return type == PTPKT_FUP;
}

/* SKD010: an OVF may lack its FUP. Not where the next packet that depends on it
 * says that tracing was off: a TIP.PGE, or a PSB+ without an IP. */
static bool is_off_after_ovf(const struct pt_cursor *c, const uint8_t *p)
{
	int type = scan_past(c, p, IN_PSB & ~(1U << PTPKT_FUP));

	if (type == PTPKT_PSB) {
		p = ptpkt_find_psb(p, c->end);
		type = scan_past(c, p + PTPKT_PSB_SIZE,
				 IN_PSB & ~(1U << PTPKT_FUP));
		return type == PTPKT_PSBEND;
	}
	return type == PTPKT_TIP_PGE;
}

/* 1: an event; 0: it waits for its FUP. */
static int read_ovf(struct pt_cursor *c, struct pt_event *ev)
{
	struct pt_event *wait;
	int fup;

	c->ip_state = PT_IP_NONE;
	c->last_ip = 0;
	c->bound.n = 0;
	pt_time_ovf(&c->time);
	fup = scan_ovf(c, c->p);
	/* How libipt works around these errata is left to it. */
	if ((fup <= 0 && c->errata & PT_ERR_SKD010 &&
	     !is_off_after_ovf(c, c->p)) ||
	    (fup == -PT_E_CONTEXT && c->errata & PT_ERR_APL11) ||
	    (fup > 0 && c->errata & PT_ERR_APL12))
		return -PT_E_UNSUPPORTED;
	if (fup < 0)
		return fup;
	if (!fup) {
		*ev = (struct pt_event){ .type = PT_EV_OVERFLOW };
		set_time(c, ev);
		return 1;
	}
	wait = add_bound(c, PT_BIND_FUP, PT_EV_OVERFLOW);
	set_time(c, wait);
	return 0;
}

/* A PIP or VMCS: an event (1), or it goes with the interrupt whose FUP came
 * before (0). */
static int read_space(struct pt_cursor *c, const struct ptpkt *pkt,
		      struct pt_event *ev)
{
	bool pip = pkt->type == PTPKT_PIP;
	struct pt_event *paging = find_bound(c, PT_BIND_TIP,
					     PT_EV_ASYNC_PAGING);
	struct pt_event *wait;

	if (!find_bound(c, PT_BIND_TIP, PT_EV_ASYNC_BRANCH) &&
	    (pip || !paging)) {
		*ev = (struct pt_event){ .type = pip ? PT_EV_PAGING :
						       PT_EV_VMCS,
					 .value = pkt->payload };
		set_time(c, ev);
		return 1;
	}
	wait = add_bound(c, PT_BIND_TIP, pip ? PT_EV_ASYNC_PAGING :
					       PT_EV_ASYNC_VMCS);
	if (!wait)
		return -PT_E_LIMIT;
	if (!pip && paging) { /* the VMCS comes before it */
		*wait = *paging;
		*paging = (struct pt_event){ .type = PT_EV_ASYNC_VMCS,
					     .binding = PT_BIND_TIP };
		wait = paging;
	} else if (pip) {
		set_time(c, wait);
	}
	wait->value = pkt->payload;
	return 0;
}

/* Does a FUP come next, from p on? Only then an event that says so waits for it: one that
 * never comes would lose the event, and take the FUP of a branch from it. */
static bool is_fup_next(const struct pt_cursor *c, const uint8_t *p)
{
	return scan_past(c, p, SKIPPED | 1U << PTPKT_CBR | 1U << PTPKT_MNT) ==
	       PTPKT_FUP;
}

/* A MODE: an event (1), or it waits for its FUP or TIP (0). A MODE.Exec has a FUP
 * of its own where an instruction that is no branch, such as CLI, changed the
 * interrupt flag; the FUP of an interrupt comes before the MODE.Exec of it. */
static int read_mode(struct pt_cursor *c, const struct ptpkt *pkt,
		     struct pt_event *ev)
{
	struct pt_event *wait;

	if (pkt->type == PTPKT_MODE_TSX && c->state != PT_ON) {
		*ev = (struct pt_event){ .type = PT_EV_TSX,
					 .value = pkt->flags };
		set_time(c, ev);
		return 1;
	}
	if (pkt->type == PTPKT_MODE_TSX) {
		wait = add_bound(c, PT_BIND_FUP, PT_EV_TSX);
	} else {
		bool alone = !find_bound(c, PT_BIND_TIP, PT_EV_ASYNC_BRANCH) &&
			     is_fup_next(c, c->p);

		wait = add_bound(c, alone ? PT_BIND_FUP : PT_BIND_TIP,
				 PT_EV_MODE);
	}
	if (!wait)
		return -PT_E_LIMIT;
	wait->value = pkt->flags;
	wait->what = pkt->flags >> 2 & 1;
	if (pkt->type == PTPKT_MODE_EXEC)
		pt_set_mode(wait, pkt);
	set_time(c, wait);
	return 0;
}

/* Events that need nothing else (1), or wait for a FUP if fup (0). */
static int read_plain(struct pt_cursor *c, const struct ptpkt *pkt,
		      enum pt_event_type type, bool fup, bool timed,
		      struct pt_event *ev)
{
	if (fup) {
		ev = add_bound(c, PT_BIND_FUP, type);
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
		set_time(c, ev);
	return !fup;
}

/* An MWAIT has the IP of the EXSTOP after it, or none. */
static int read_mwait(struct pt_cursor *c, const struct ptpkt *pkt,
		      struct pt_event *ev)
{
	struct ptpkt stop;
	int type = find_past(c, c->p, SKIPPED | 1U << PTPKT_CBR |
				      1U << PTPKT_MNT | 1U << PTPKT_PWRE, &stop);

	return read_plain(c, pkt, PT_EV_MWAIT,
			  type == PTPKT_EXSTOP && stop.flags, true, ev);
}

/* With its IP bit a CFE has a FUP of its own. Without, the FUP after it is that
 * of the branch which the CFE explains; returns and VM entries have none. */
static bool shares_fup(const struct pt_cursor *c, const struct ptpkt *cfe)
{
	return !cfe->flags && c->state == PT_ON &&
	       cfe->count != AUX_CFE_IRET && cfe->count != AUX_CFE_VMENTRY &&
	       cfe->count != AUX_CFE_SHUTDOWN && cfe->count != AUX_CFE_UIRET;
}

/* pkt with the CFE before p, or that CFE itself. */
static int read_cfe(struct pt_cursor *c, const struct ptpkt *pkt,
		    const struct ptpkt *cfe, const uint8_t *p,
		    struct pt_event *ev)
{
	bool shares = shares_fup(c, cfe);
	bool fup = (cfe->flags || shares) && is_fup_next(c, p);
	int r = read_plain(c, pkt, pkt == cfe ? PT_EV_CFE : PT_EV_EVD, fup, true,
			   ev);

	if (!r)
		c->bound.ev[c->bound.n - 1].shares = shares;
	return r;
}

/* An EVD is where its CFE is, which comes after it; no event has more than two.
 * Without a limit a run of them would be read for each of them. */
#define MAX_EVD 2
static int read_evd(struct pt_cursor *c, const struct ptpkt *pkt,
		    struct pt_event *ev)
{
	const uint8_t *p = c->p;
	struct ptpkt next;
	unsigned block = 0, n = 1;

	do {
		if (read_packet(c, p, &block, &next))
			next = (struct ptpkt){ .type = PTPKT_BAD };
		p += next.size;
	} while (is_one_of(&next, SKIPPED | 1U << PTPKT_CBR) ||
		 (next.type == PTPKT_EVD && n++ < MAX_EVD));
	if (next.type != PTPKT_CFE)
		return read_plain(c, pkt, PT_EV_EVD, false, true, ev);
	return read_cfe(c, pkt, &next, p, ev);
}

static int read_trig(struct pt_cursor *c, const struct ptpkt *pkt,
		     struct pt_event *ev)
{
	struct ptpkt trig = *pkt;

	trig.payload |= pkt->flags & 2 ? AUX_TRIG_HAS_COUNT : 0;
	trig.payload |= pkt->flags & 4 ? AUX_TRIG_SEVERAL : 0;
	return read_plain(c, &trig, PT_EV_TRIG, pkt->flags & 1 && is_fup_next(c, c->p),
			  true, ev);
}

/* A packet that nothing waits for. 1: *ev is there; 0: it waits; or an
 * error. */
static int read_event(struct pt_cursor *c, const struct ptpkt *pkt,
		      struct pt_event *ev)
{
	switch (pkt->type) {
	case PTPKT_TRACESTOP:
		return read_plain(c, pkt, PT_EV_STOP, false, true, ev);
	case PTPKT_CBR:
		return read_plain(c, pkt, PT_EV_CBR, false, true, ev);
	case PTPKT_MNT:
		return read_plain(c, pkt, PT_EV_NOTHING, false, true, ev);
	case PTPKT_EXSTOP:
		return read_plain(c, pkt, PT_EV_EXSTOP, pkt->flags, true, ev);
	case PTPKT_MWAIT:
		return read_mwait(c, pkt, ev);
	case PTPKT_PWRE:
		return read_plain(c, pkt, PT_EV_PWRE, false, true, ev);
	case PTPKT_PWRX:
		return read_plain(c, pkt, PT_EV_PWRX, false, true, ev);
	case PTPKT_PTW:
		return read_plain(c, pkt, PT_EV_PTWRITE, pkt->flags, true, ev);
	case PTPKT_BEP:
		return read_plain(c, pkt, PT_EV_NOTHING, pkt->flags, true, ev);
	case PTPKT_CFE:
		return read_cfe(c, pkt, pkt, c->p, ev);
	case PTPKT_EVD:
		return read_evd(c, pkt, ev);
	case PTPKT_TRIG:
		return read_trig(c, pkt, ev);
	case PTPKT_PIP:
	case PTPKT_VMCS:
		return read_space(c, pkt, ev);
	case PTPKT_MODE_EXEC:
	case PTPKT_MODE_TSX:
		return read_mode(c, pkt, ev);
	}
	return -PT_E_CONTEXT;
}

/* event_of_*: one event of the IP packet at p. They return whether the packet
 * stays, as more events need it, or an error. */
static int event_of_fup(struct pt_cursor *c, struct pt_event *ev)
{
	pop_bound(c, PT_BIND_FUP, ev);
	set_ip(c, ev);
	if (ev->type == PT_EV_OVERFLOW && !ev->has_ip)
		return -PT_E_NOIP;
	c->consumed |= !ev->shares && (ev->type != PT_EV_TSX || !(ev->value & 2));
	return pt_has_bound(c, PT_BIND_FUP) || !c->consumed;
}

static int event_of_pge(struct pt_cursor *c, struct pt_event *ev)
{
	if (!c->consumed) {
		*ev = (struct pt_event){ .type = PT_EV_ENABLED };
		set_ip(c, ev);
		set_time(c, ev);
		if (!ev->has_ip)
			return -PT_E_PACKET;
		c->consumed = true;
	} else {
		pop_bound(c, PT_BIND_TIP, ev);
		set_ip(c, ev);
		if (ev->type != PT_EV_MODE)
			return -PT_E_CONTEXT;
	}
	return pt_has_bound(c, PT_BIND_TIP);
}

/* Tracing ends first: the code up to there is in the mode of before. */
static int event_of_pgd(struct pt_cursor *c, struct pt_event *ev)
{
	if (!c->consumed && !find_bound(c, PT_BIND_TIP, PT_EV_ASYNC_BRANCH)) {
		*ev = (struct pt_event){ .type = PT_EV_DISABLED };
		set_time(c, ev);
	} else {
		pop_bound(c, PT_BIND_TIP, ev);
		if (ev->type == PT_EV_ASYNC_BRANCH)
			ev->type = PT_EV_ASYNC_DISABLED;
		else if (!c->consumed)	/* what only a TIP can complete */
			return -PT_E_UNSUPPORTED;
	}
	if (!c->consumed)
		set_ip(c, ev);
	c->consumed = true;
	return pt_has_bound(c, PT_BIND_TIP);
}

static int event_of_tip(struct pt_cursor *c, struct pt_event *ev)
{
	pop_bound(c, PT_BIND_TIP, ev);
	set_ip(c, ev);
	c->consumed |= ev->type == PT_EV_ASYNC_BRANCH;
	return pt_has_bound(c, PT_BIND_TIP) || !c->consumed;
}

/* Events of a PSB+ have its IP and time; but a CBR and an MNT have no IP. */
static int event_of_psbend(struct pt_cursor *c, struct pt_event *ev)
{
	pop_bound(c, PT_BIND_PSBEND, ev);
	set_time(c, ev);
	if (ev->type != PT_EV_CBR && ev->type != PT_EV_NOTHING)
		set_ip(c, ev);
	return 1;
}

/* An event of a packet that others wait for. 1, or an error. */
static int read_bound(struct pt_cursor *c, const struct ptpkt *pkt,
		      struct pt_event *ev)
{
	int stays;

	if (pkt->type == PTPKT_PSBEND || pkt->type == PTPKT_OVF)
		return event_of_psbend(c, ev);
	pt_update_ip(c, pkt);
	stays = pkt->type == PTPKT_FUP	     ? event_of_fup(c, ev)
		: pkt->type == PTPKT_TIP     ? event_of_tip(c, ev)
		: pkt->type == PTPKT_TIP_PGE ? event_of_pge(c, ev)
					     : event_of_pgd(c, ev);
	if (stays < 0)
		return stays;
	if (!stays) {
		c->consumed = false;
		c->p += pkt->size;
	}
	return 1;
}

static bool is_bound(const struct pt_cursor *c, const struct ptpkt *pkt)
{
	return is_one_of(pkt, 1U << PTPKT_FUP | 1U << PTPKT_TIP |
				  1U << PTPKT_TIP_PGE | 1U << PTPKT_TIP_PGD) ||
	       (is_one_of(pkt, 1U << PTPKT_PSBEND | 1U << PTPKT_OVF) &&
		pt_has_bound(c, PT_BIND_PSBEND));
}

int pt_next_event(struct pt_cursor *c, struct pt_event *ev)
{
	struct ptpkt pkt;
	int r;

	for (;;) {	/* c is at an item */
		r = read_packet(c, c->p, &c->block, &pkt);
		if (r < 0)
			return r;
		if (is_bound(c, &pkt)) {
			r = read_bound(c, &pkt, ev);
		} else {
			pt_update_time(c, &pkt);
			c->p += pkt.size;
			r = pkt.type == PTPKT_OVF ? read_ovf(c, ev) :
						    read_event(c, &pkt, ev);
		}
		if (r)
			return r < 0 ? r : 0;
		r = pt_next_item(c);
		if (r < 0)
			return r;
		if (r != PT_ITEM_EVENT)
			return -PT_E_QUERY;
	}
}

/* ---- PSB+ ---- */

static int header_event(struct pt_cursor *c, const struct ptpkt *pkt)
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
	ev = add_bound(c, PT_BIND_PSBEND, types[pkt->type]);
	if (!ev)
		return -PT_E_LIMIT;
	ev->status = true;
	ev->value = pkt->payload;
	if (pkt->type == PTPKT_MODE_EXEC)
		pt_set_mode(ev, pkt);
	else if (pkt->type == PTPKT_MODE_TSX)
		ev->value = pkt->flags;
	return 0;
}

/* BDM70: is the FUP of this PSB+ stale, as tracing is off? Then a TIP.PGE
 * follows the PSB+ at once. 1, 0, or an error. */
static int is_bdm70(const struct pt_cursor *c, const uint8_t *p)
{
	int type = scan_past(c, p, (IN_PSB & ~(1U << PTPKT_FUP)) |
					   1U << PTPKT_PSBEND);

	return type < 0 ? type : type == PTPKT_TIP_PGE;
}

static int header_fup(struct pt_cursor *c, const struct ptpkt *pkt,
		      const uint8_t *p)
{
	int skip = 0;

	if (c->errata & PT_ERR_BDM70 && c->state != PT_ON)
		skip = is_bdm70(c, p + pkt->size);
	if (skip)
		return skip < 0 ? skip : 0;
	pt_update_ip(c, pkt);
	return 0;
}

/* In a header, libipt rejects some packets by their opcode, before it looks at
 * their other bytes or whether they are all there. */
static int name_error(int err, const uint8_t *p, const uint8_t *end)
{
	bool meant = err == -PT_E_PACKET || (err == -PT_E_EOS && p < end);
	unsigned type = meant ? intended_type(p, end) : 0;

	return type && type != PTPKT_MODE_EXEC ? -PT_E_CONTEXT : err;
}

int pt_read_psb(struct pt_cursor *c)
{
	const uint8_t *p = c->p + 16;
	unsigned block = 0, kept = c->bound.n;
	struct ptpkt pkt;
	int err;

	c->psb = c->p;
	c->before_psb = c->time.known ? c->time.tsc : 0;
	pt_time_psb(&c->time);
	c->ip_state = PT_IP_NONE;
	c->last_ip = 0;
	c->block = 0;
	for (;; p += pkt.size) {
		p = ptpkt_skip_pads(p, c->end);
		err = read_packet(c, p, &block, &pkt);
		if (err)
			err = name_error(err, p, c->end);
		if (!err && (pkt.type == PTPKT_PSBEND || pkt.type == PTPKT_OVF))
			break;
		if (!err && !is_one_of(&pkt, IN_PSB))
			err = -PT_E_CONTEXT;
		if (!err && pkt.type == PTPKT_FUP)
			err = header_fup(c, &pkt, p);
		if (!err)
			err = header_event(c, &pkt);
		if (err) {
			c->bound.n = kept;
			return err;
		}
		pt_update_time(c, &pkt);
	}
	c->p = p;
	return 0;
}

/* ---- looking ahead ---- */

/* pt_read_psb without a change. 1: *at is after the PSBEND; 0: *at is the end
 * of a header that makes events; or an error. *ip: the PSB+ has an IP. */
static int peek_header(const struct pt_cursor *c, const uint8_t **at, bool *ip)
{
	const uint8_t *p = *at + 16;
	unsigned block = 0;
	struct ptpkt pkt;
	bool event = false;

	*ip = false;
	for (;; p += pkt.size) {
		int err = read_packet(c, p, &block, &pkt);

		if (err)
			return name_error(err, p, c->end);
		if (pkt.type == PTPKT_OVF || pkt.type == PTPKT_PSBEND)
			break;
		if (!is_one_of(&pkt, IN_PSB))
			return -PT_E_CONTEXT;
		if (pkt.type == PTPKT_FUP)
			*ip = pkt.count;
		event |= is_one_of(&pkt, IN_PSB & ~(1U << PTPKT_FUP)) &&
			 !is_one_of(&pkt, SKIPPED);
	}
	*at = p;
	if (event || pkt.type == PTPKT_OVF)
		return 0;
	*at += pkt.size;
	return 1;
}

int pt_peek(const struct pt_cursor *c, const uint8_t *p, const uint8_t **pos)
{
	bool ip, fup = pt_has_bound(c, PT_BIND_FUP);
	unsigned block = c->block;
	struct ptpkt pkt;

	for (;; p += pkt.size) {
		int err = read_packet(c, p, &block, &pkt);

		*pos = p;
		if (err == -PT_E_PACKET && intended_item(c, p) > 0)
			return 0;
		if (err)
			return err;
		if (pkt.type == PTPKT_PSB) {
			err = peek_header(c, &p, &ip);
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
			if (pt_has_bound(c, PT_BIND_PSBEND))
				return 0;
		} else if (!is_one_of(&pkt, SKIPPED)) {
			return 0;
		}
	}
}

int pt_look_ahead(const struct pt_cursor *c, const uint8_t **pos, bool *fetched)
{
	const uint8_t *near;
	struct pt_cursor ahead;
	struct pt_event ev;
	int r;

	*fetched = false;
	r = pt_peek(c, c->p, pos);
	if (r < 0)
		return r == -PT_E_EOS ? 0 : r;
	near = *pos;
	if (c->n_bits)
		return 0;
	ahead = *c;
	r = pt_next_item(&ahead);
	if (r != PT_ITEM_EVENT)
		return 0;
	*fetched = true;
	r = pt_next_event(&ahead, &ev);
	*pos = ahead.p;
	if (r < 0)
		return r;
	r = pt_peek(&ahead, ahead.p, pos);
	if (r < 0 && r != -PT_E_EOS)
		return r;
	*pos = near;
	return 0;
}

/* ---- pauses ---- */

/* Packets in a PSB+ that make an event. */
#define PSB_EVENTS (IN_PSB & ~SKIPPED & ~(1U << PTPKT_FUP))
/* Events of one packet, while tracing is off */
#define OFF_EVENTS                                                             \
	(1U << PTPKT_PIP | 1U << PTPKT_VMCS | 1U << PTPKT_CBR |                \
	 1U << PTPKT_MODE_TSX | 1U << PTPKT_TRACESTOP)

/* After the PSB+ at p, if it is whole, has no IP, and few events; else NULL. */
static const uint8_t *check_psb(const struct pt_cursor *c, const uint8_t *p)
{
	unsigned block = 0, n = 0;
	struct ptpkt pkt;

	p = ptpkt_skip_pads(p + PTPKT_PSB_SIZE, c->end);
	for (; !read_packet(c, p, &block, &pkt);
	     p = ptpkt_skip_pads(p + pkt.size, c->end)) {
		if (pkt.type == PTPKT_PSBEND)
			return p + pkt.size;
		if (!is_one_of(&pkt, IN_PSB & ~(1U << PTPKT_FUP)))
			return NULL;
		n += is_one_of(&pkt, PSB_EVENTS);
		if (n > PT_EVENTS / 2)
			return NULL;
	}
	return NULL;
}

#define PLAIN_BYTES 16		/* from where check_plain looks at a packet */

/* After PADs, MTCs and CYCs of one byte. */
static const uint8_t *skip_small(const uint8_t *p, const uint8_t *end)
{
	while (end - p >= PLAIN_BYTES) {
		if (!*p || (*p & 7) == 3)
			p++;
		else if (*p == 0x59)
			p += 2;
		else
			break;
	}
	return p;
}

/* The next packet from p on that matters, or NULL; *pkt. */
static const uint8_t *skip_to_item(const struct pt_cursor *c, const uint8_t *p,
				   struct ptpkt *pkt)
{
	unsigned block = 0;

	do {
		p = ptpkt_skip_pads(skip_small(p, c->end), c->end);
		if (read_packet(c, p, &block, pkt) || block)
			return NULL;
		p += pkt->size;
	} while (is_one_of(pkt, SKIPPED));
	return p - pkt->size;
}

/* After the item of a pause that begins with *pkt at p; NULL: it is none. *on:
 * whether tracing is on. */
static const uint8_t *check_item(const struct pt_cursor *c, const uint8_t *p,
				 struct ptpkt *pkt, bool *on)
{
	bool pge = !*on && pkt->type == PTPKT_TIP_PGE;

	if (*on && pkt->type == PTPKT_TIP_PGD) {
		*on = false;
		return p + pkt->size;
	}
	if (!*on && pkt->type == PTPKT_PSB)
		return check_psb(c, p);
	if (!*on && pkt->type == PTPKT_MODE_EXEC) {
		p = skip_to_item(c, p + pkt->size, pkt);
		pge = p && pkt->type == PTPKT_TIP_PGE;
	}
	if (pge && pkt->count) {
		*on = true;
		return p + pkt->size;
	}
	return !*on && p && is_one_of(pkt, OFF_EVENTS) ? p + pkt->size : NULL;
}

/* Is a TNT at p, short or long? */
static bool is_tnt(const uint8_t *p, const uint8_t *end)
{
	if (end - p < PLAIN_BYTES || *p & 1)
		return false;
	return *p > 2 || (*p == 2 && p[1] == 0xa3 && load_le64(p) >> 16);
}

/* The size of the IP packet at p, if its low bits are these; else 0. */
static unsigned ip_size(const uint8_t *p, const uint8_t *end, unsigned opcode)
{
	static const uint8_t sizes[8] = { 1, 3, 5, 7, 7, 0, 9, 0 };

	return end - p >= PLAIN_BYTES && (*p & 0x1f) == opcode ? sizes[*p >> 5] : 0;
}

/* The commonest pause: a TIP.PGD, a TIP.PGE with an IP, then a TNT or TIP, which is
 * returned. NULL: it is another. */
static const uint8_t *check_plain(const struct pt_cursor *c)
{
	const uint8_t *p = skip_small(c->p, c->end);
	unsigned n = ip_size(p, c->end, 0x01);

	if (!n || c->state != PT_ON)
		return NULL;
	p = skip_small(p + n, c->end);
	n = ip_size(p, c->end, 0x11);
	if (n < 2)
		return NULL;
	p = skip_small(p + n, c->end);
	return ip_size(p, c->end, 0x0d) || is_tnt(p, c->end) ? p : NULL;
}

/* pt_look_ahead reads the two items after one; of a TNT or TIP no more than
 * that it is one. */
const uint8_t *pt_check_pause(const struct pt_cursor *c)
{
	const uint8_t *p = c->p, *item, *again, *items[2] = { NULL, NULL };
	bool on = c->state == PT_ON, any = false;
	struct ptpkt pkt;

	p = check_plain(c);
	if (p)
		return p;
	p = c->p;
	while ((item = skip_to_item(c, p, &pkt))) {
		if (on && (pkt.type == PTPKT_TNT || pkt.type == PTPKT_TIP))
			return any ? item : c->p;
		p = check_item(c, item, &pkt, &on);
		if (!p)
			break;
		if (any) {
			items[0] = items[1];
			items[1] = item;
		}
		any = true;
		while (pkt.type == PTPKT_PSB &&
		       (again = pt_find_same_psb(item, p, c->end))) {
			p = again + (p - item);
			item = again;
			items[0] = items[1];
			items[1] = item;
		}
	}
	return items[0] ? items[0] : c->p;
}
