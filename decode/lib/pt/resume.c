/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Going on after an error before the next PSB.
 *
 * Where code is missing, or is not the code that ran, the packets are still
 * whole and in order. So they are read on, as the slow path reads them: time,
 * mode, address space and Last IP stay known. The flow goes on where a packet
 * says exactly where the CPU is, and nothing before it has an influence on what
 * follows:
 *
 *	TIP.PGE				at its IP
 *	FUP, then TIP: an interrupt	at the IP of the TIP
 *	MODE, PTW, EVD, CFE, TRIG,
 *	EXSTOP, MWAIT with the FUP after it	at the IP of the FUP, with that event
 *	OVF				as always, see apply_overflow
 *	PSB				as always, also at one that the flow did not
 *					come to (pt_sync_at)
 *	TIP				at its IP, if no TNT is open
 *	TIP between a partial TNT and a TNT	at its IP
 *
 * A TNT is open if some of its bits may belong to branches after the TIP: the
 * CPU may defer TIPs (SDM, "Deferred TIPs"), and only by walking from branch to
 * branch is it known which bits come first. TNTs and the TIPs deferred with
 * them come before any other packet but those of time, so that one of these
 * closes all TNTs. (Going on at every TIP gave wrong instructions with
 * soft_pt/defer_tip/, which nothing contradicts.)
 *
 * But a TNT with TIPs deferred after it is sent only once it is full, or once
 * another packet is generated, which then comes after the TIPs (same place). So
 * after a TNT of one to five bits the last of its TIPs was not deferred if a TNT
 * comes next: that TIP itself made the CPU send the others, and all bits belong
 * before it. Nothing but CYC, which goes with each of these packets, may stand in
 * between: MTC and TSC are packets that could have been the cause. A full TNT
 * tells nothing, and a longer one may be full for its CPU.
 *
 * Of a TIP with an open TNT no branch can be decided; but the CPU was at its IP, and
 * from there came to the first branch that takes a bit, if another TNT or TIP
 * follows. An indirect branch on the way takes the next TIP, as TIPs stay in
 * order. This much is shown as a piece of its own between two GAPs.
 *
 * The return stack is empty then. A compressed return to a call that was made
 * before is an error of its own (AUX_GAP_LOST_CALL), and the flow is lost again.
 *
 * Nothing is begun where there is no code, so that one GAP stands for all that
 * runs in a missing file. If code and trace contradict each other, the trace
 * itself may be damaged: then an IP packet must have all of its bytes before
 * Last IP is believed.
 *
 * This is more than libipt does, which goes on at a PSB only. A host that needs
 * the same flow of both asks for it (sync_only).
 *
 * Specification: Intel SDM volume 3, "Intel Processor Trace", "Packet
 * Definitions", "Packet Generation Scenarios".
 */
#include "decode/lib/pt/impl.h"

#define FULL_TNT 6	/* bits; of a short TNT */
#define CONFIG_NO_RETC 0x800	/* IA32_RTIT_CTL.DisRETC */

/* Can the flow begin at an ip? */
enum begin {
	BEGIN_NO,
	BEGIN_YES,
	BEGIN_WAIT,	/* the host has to look at a TIME before code is asked
			 * for */
};

bool pt_resume_allowed(const struct pt *d, int err)
{
	return !d->host->sync_only &&
	       (err == -PT_E_CODE || err == -PT_E_RETURN ||
		err == -PT_E_QUERY || err == -PT_E_INSN);
}

void pt_resume_begin(struct pt *d, int err, unsigned n_bits)
{
	d->pending.what = PT_PENDING_LOST;
	/* as which packets are read */
	d->cur.state = PT_ON;
	d->cur.whole_ip = err == -PT_E_CODE ||
			  (err == -PT_E_RETURN && d->resume.early);
	d->resume.whole = d->cur.whole_ip;
	d->resume.piece = false;
	d->resume.open = n_bits;
	d->resume.run = NULL;
	d->resume.psb = d->cur.psb;
	if (pt_has_bound(&d->cur, PT_BIND_PSBEND) && d->cur.psb >= d->sync)
		pt_sync_at(d, d->cur.psb);
}

/* The rest of the packets cannot be read: the next PSB is looked for. */
static void give_up(struct pt *d)
{
	const uint8_t *p = d->cur.p;

	pt_sync_at(d, d->sync);
	d->cur.p = p;
}

static enum begin can_begin(struct pt *d, uint64_t ip)
{
	const struct pt_time *t = &d->cur.time;
	const uint8_t *bytes;
	uint8_t buf[16];

	if (!d->cur.whole_ip)
		return BEGIN_NO;
	if (t->known && (t->tsc >= d->host->horizon_tsc ||
			 t->tsc < d->times.queued_tsc) &&
	    pt_emit_time(d, t->tsc))
		return BEGIN_WAIT;
	if (!pt_memo_code(&d->memo, ip, buf, &bytes))
		return BEGIN_NO;
	pt_reach_horizon(d);
	return BEGIN_YES;
}

/* The flow goes on at ip, with what is pending. */
static void begin_on(struct pt *d, uint64_t ip, unsigned pending)
{
	d->pending.what = PT_PENDING_ON | pending;
	d->walk.ip = ip;
	d->resume.early = true;
}

/* The type of the first packet from p on that is no CYC; *at: where it begins. */
static int type_after(const uint8_t *p, const uint8_t *end, const uint8_t **at)
{
	struct ptpkt pkt;

	for (; ptpkt_decode(p, end, &pkt) > 0 && pkt.type == PTPKT_CYC;
	     p += pkt.size)
		;
	*at = p;
	return pkt.type;
}

/*
 * Is the TIP at cur.p, which ends at next, in the run of TIPs directly after a
 * partial TNT? *last: a TNT follows it. The whole packet must be there: its first
 * byte may be all that is left of a damaged file.
 */
static bool is_in_run(struct pt *d, const uint8_t *next, bool *last)
{
	const uint8_t *at;
	struct ptpkt pkt;

	*last = false;
	if (!d->resume.run)
		return false;
	type_after(d->resume.run, d->cur.end, &at);
	if (at != d->cur.p)
		return false;
	*last = type_after(next, d->cur.end, &at) == PTPKT_TNT &&
		ptpkt_decode(at, d->cur.end, &pkt) > 0;
	return true;
}

/* The piece that was shown, if any, ends at ip. */
static void end_piece(struct pt *d, enum aux_gap_cause cause, uint64_t ip, int err)
{
	if (d->resume.piece)
		pt_emit_gap(d, cause, ip, err);
	d->resume.piece = false;
}

/* May a TNT have a bit for a branch of this class? */
static bool takes_bit(const struct pt *d, enum x86_class cls)
{
	return cls == X86_COND ||
	       (cls == X86_RET &&
		!(d->config->pt.attr_config & CONFIG_NO_RETC));
}

/* From ip on, which a TIP with an open TNT had: what ran there for sure. */
static void show_piece(struct pt *d, uint64_t ip)
{
	int item = pt_next_item(&d->cur), r;
	enum x86_class cls;

	if (d->cur.psb != d->resume.psb ||
	    (item != PT_ITEM_TNT && item != PT_ITEM_TIP)) {
		end_piece(d, AUX_GAP_LOST_CALL, ip, -PT_E_RETURN);
		return;
	}
	if (!d->resume.piece)
		d->pending.what |= PT_PENDING_ON;
	d->resume.piece = d->resume.early = true;
	d->walk.ip = ip;
	r = pt_slow_walk(d, NULL);
	d->walk.untraced = 0;
	d->stack.depth = 0;
	cls = d->walk.insn.cls;
	if (r < 0 && r != -PT_E_CODE)
		pt_retract(d);
	pt_commit(d);
	if (r == -PT_E_CODE)
		end_piece(d, AUX_GAP_NO_CODE, d->walk.miss_ip, r);
	else if (r == -PT_E_NOMEM)
		pt_finish(d, PT_NOMEM);
	else if (r < 0)
		end_piece(d, AUX_GAP_DESYNC, ip, r);
	else if (takes_bit(d, cls) || item != PT_ITEM_TIP)
		end_piece(d, AUX_GAP_LOST_CALL, d->walk.insn_ip, -PT_E_RETURN);
}

/* TIP at cur.p. */
static void take_tip(struct pt *d)
{
	bool in_run, last = false;
	enum begin begin = BEGIN_NO;
	struct ptpkt pkt;
	uint64_t ip = d->cur.last_ip;

	if (ptpkt_decode(d->cur.p, d->cur.end, &pkt) <= 0) {
		end_piece(d, AUX_GAP_BAD_PACKET, ip, -PT_E_PACKET);
		give_up(d);
		return;
	}
	in_run = is_in_run(d, d->cur.p + pkt.size, &last);
	last |= !d->resume.open;
	if ((last || d->resume.whole) && ptpkt_ip(&pkt, &ip)) {
		d->cur.whole_ip |= pkt.count == 3 || pkt.count == 6;
		begin = can_begin(d, ip);
	}
	if (begin == BEGIN_WAIT)
		return;
	d->out.offset = pt_offset(d, d->cur.p);
	d->cur.p += pkt.size;
	d->resume.run = in_run ? d->cur.p : NULL;
	pt_update_ip(&d->cur, &pkt);
	if (begin == BEGIN_NO) {
		end_piece(d, AUX_GAP_NO_CODE, ip, -PT_E_CODE);
	} else if (last) {
		begin_on(d, ip, 0);
		if (d->resume.piece)
			d->pending.what = 0;
		d->resume.piece = false;
	} else {
		show_piece(d, ip);
	}
}

static void take_tnt(struct pt *d)
{
	struct ptpkt pkt;

	if (ptpkt_decode(d->cur.p, d->cur.end, &pkt) <= 0) {
		give_up(d);
		return;
	}
	d->cur.p += pkt.size;
	d->resume.open = true;
	d->resume.run = pkt.count < FULL_TNT ? d->cur.p : NULL;
}

/* Does ev happen at its IP, once that was reached, and needs nothing else? */
static bool is_at_ip(const struct pt_event *ev)
{
	switch (ev->type) {
	case PT_EV_TSX: case PT_EV_PTWRITE: case PT_EV_CFE: case PT_EV_TRIG:
	case PT_EV_EVD: case PT_EV_EXSTOP: case PT_EV_MWAIT:
		break;
	case PT_EV_MODE:
		if (ev->binding != PT_BIND_FUP)
			return false;
		break;
	default:
		return false;
	}
	return ev->has_ip && !ev->status && !ev->retried;
}

/* Is ev of a packet that may come between a TNT and its TIPs? */
static bool is_of_time(const struct pt_event *ev)
{
	switch (ev->type) {
	case PT_EV_CBR: case PT_EV_NOTHING: case PT_EV_STOP:
	case PT_EV_PWRE: case PT_EV_PWRX:
		return true;
	case PT_EV_EVD: case PT_EV_EXSTOP: case PT_EV_TRIG:
		return !ev->has_ip;
	default:
		return false;
	}
}

/* The pending event: the flow goes on at it, or it only changes the state. */
static void take_event(struct pt *d)
{
	struct pt_event *ev = &d->pending.event;
	bool entry = ev->type == PT_EV_ENABLED;
	bool branch = ev->type == PT_EV_ASYNC_BRANCH;
	enum begin begin = BEGIN_NO;

	if (ev->type == PT_EV_OVERFLOW) {
		d->pending.what = PT_PENDING_EVENT;
		d->cur.state = PT_OFF;
		d->resume.early = true;
		return;
	}
	if (entry || (branch && ev->has_ip) || is_at_ip(ev))
		begin = can_begin(d, ev->ip);
	if (begin == BEGIN_WAIT) {
		d->pending.what |= PT_PENDING_EVENT;
		return;
	}
	if (!is_of_time(ev))
		d->resume.open = false;
	d->pending.what &= ~PT_PENDING_EVENT;
	if (begin == BEGIN_NO) {
		pt_apply_state(d, ev);
		return;
	}
	ev->retried = true;
	begin_on(d, ev->ip, branch ? 0 : PT_PENDING_EVENT);
	if (entry) {
		d->pending.what = PT_PENDING_EVENT;
		d->cur.state = PT_OFF;
	}
}

void pt_resume_event(struct pt *d)
{
	/* It happened at a PSB: that is the place to go on. */
	if (d->pending.event.status && d->cur.psb >= d->sync)
		pt_sync_at(d, d->cur.psb);
	else
		take_event(d);
}

/* Reads the next packet that matters. False: it is no event. */
static bool read_on(struct pt *d)
{
	int r = pt_next_item(&d->cur);
	bool event = r == PT_ITEM_EVENT;

	if (event)
		r = pt_next_event(&d->cur, &d->pending.event);
	if (d->cur.psb != d->resume.psb)
		pt_sync_at(d, d->cur.psb);
	else if (r == -PT_E_EOS)
		pt_finish(d, PT_DONE);
	else if (r < 0)
		give_up(d);
	else if (event)
		return true;
	else if (r == PT_ITEM_TNT)
		take_tnt(d);
	else
		take_tip(d);
	return false;
}

void pt_resume_step(struct pt *d)
{
	do {
		if (d->pending.what & PT_PENDING_EVENT || read_on(d))
			take_event(d);
	} while (d->pending.what & PT_PENDING_LOST && !d->end &&
		 d->out.head == d->out.committed);
	if (d->out.offset < pt_offset(d, d->cur.p))
		d->out.offset = pt_offset(d, d->cur.p);
}
