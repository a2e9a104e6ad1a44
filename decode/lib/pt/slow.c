/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The slow path of the Intel PT decoder: instruction by instruction, asking for
 * packets as the code needs them. It handles all that the fast path leaves:
 * code that leaves a region, events, broken trace, the beginning and the end of
 * a chunk.
 *
 * Instructions that need no packet are only likely to have run: they wait in
 * the queue (committed to tail) until a packet is found where they lead to. If
 * that is not found, they are taken back (sync.c): the flow shows nothing that
 * may not have run.
 *
 * Specification: Intel SDM volume 3, "Intel Processor Trace", "Control Flow
 * Tracing".
 */
#include "decode/lib/pt/impl.h"

#define MAX_UNTRACED (1 << 16)	/* jumps in a row that need no packet */
#define PGD_OPCODE 1		/* the low five bits of a TIP.PGD */

/* ---- walking ---- */

/* Adds walk.insn, at walk.ip, to the last RANGE, or to a new one. */
static int add_insn(struct pt *d)
{
	struct aux_flow *f = d->out.queue + d->out.tail - 1;
	uint8_t end = pt_range_end(d->walk.insn.cls);

	if (d->out.committed == d->out.tail || f->what != AUX_END_FALL ||
	    d->walk.next_ip != d->walk.ip || f->flags != d->walk.flags) {
		if (!pt_queue_room(d))
			return -PT_E_NOMEM;
		f = &d->out.queue[d->out.tail++];
		*f = (struct aux_flow){ .offset = d->out.offset,
					.kind = AUX_FLOW_RANGE,
					.flags = d->walk.flags,
					.range = { d->walk.ip, d->walk.ip } };
	}
	f->n++;
	f->range.last = d->walk.ip;
	f->what = end;
	if (end != AUX_END_FALL)
		f->flags |= d->walk.insn.size;
	d->walk.insn_ip = d->walk.ip;
	d->walk.next_ip = d->walk.ip + d->walk.insn.size;
	return 0;
}

/* Decodes the instruction at walk.ip into walk.insn. *p, *n: its bytes, perhaps
 * in buf. */
static int read_insn(struct pt *d, const uint8_t **p, size_t *n,
		     uint8_t buf[16])
{
	enum x86_mode mode = (d->walk.flags & AUX_FLOW_MODE_MASK) ==
			     AUX_FLOW_MODE_X86_64 ? X86_MODE_64 : X86_MODE_32;

	if (d->walk.mode == PT_MODE_16)
		return -PT_E_UNSUPPORTED;
	*n = pt_memo_code(&d->memo, d->walk.ip, buf, p);
	if (!*n) {
		d->walk.miss_ip = d->walk.ip;
		return d->memo.nomem ? -PT_E_NOMEM : -PT_E_CODE;
	}
	if (d->walk.mode == PT_MODE_NONE ||
	    !x86_insn_decode_in(*p, *n, mode, &d->walk.insn))
		return -PT_E_INSN;
	return 0;
}

/* Jumps that need no packet and come back to where they were never end: code
 * and trace do not belong together. */
static bool is_endless(struct pt *d)
{
	d->walk.untraced++;
	if (d->walk.untraced > MAX_UNTRACED || d->walk.ip == d->walk.loop_ip)
		return true;
	if (d->walk.untraced == 2 * d->walk.loop_mark) {
		d->walk.loop_mark = d->walk.untraced;
		d->walk.loop_ip = d->walk.ip;
	}
	return false;
}

/* TRACE_ON comes with the first instruction that is walked, even for an event
 * that is not emitted itself, and stays if that event is undone: tracing was
 * on. */
void pt_slow_trace_on(struct pt *d)
{
	bool mute = d->out.suppress;

	if (!(d->pending.what & PT_PENDING_ON))
		return;
	d->pending.what &= ~PT_PENDING_ON;
	d->out.suppress = false;
	d->out.undo.tail = 0;
	pt_emit_ip(d, AUX_FLOW_TRACE_ON, 0, true, d->walk.ip);
	d->out.last_ip = d->walk.ip;
	d->out.suppress = mute;
	d->out.undo.tail = UINT32_MAX;
}

static void begin_untraced(struct pt *d)
{
	if (d->walk.untraced)
		return;
	d->walk.untraced = d->walk.loop_mark = 1;
	d->walk.loop_ip = d->walk.ip;
}

/* Walks one instruction. 1: it took no packet, and walk.ip is after it; 0: it
 * needs one; 2: it matches. */
static int walk_insn(struct pt *d, pt_match match)
{
	const uint8_t *p;
	uint8_t buf[16];
	size_t n;
	int r;

	pt_slow_trace_on(d);
	begin_untraced(d);
	r = read_insn(d, &p, &n, buf);
	if (!r)
		r = add_insn(d);
	if (r)
		return r;
	if ((d->walk.insn.cls == X86_CALL && d->walk.insn.disp) ||
	    d->walk.insn.cls == X86_IND_CALL)
		pt_push_call(&d->stack, d->walk.next_ip);
	if (match && match(p, n, &d->walk.insn))
		return 2;
	switch (d->walk.insn.cls) {
	case X86_OTHER:
	case X86_PTWRITE:
		d->walk.ip = d->walk.next_ip;
		return 1;
	case X86_JUMP:
	case X86_CALL:
		d->walk.ip = d->walk.next_ip + (uint64_t)d->walk.insn.disp;
		return is_endless(d) ? -PT_E_QUERY : 1;
	default:
		return 0;
	}
}

#define UNKNOWN (-PT_E_UNSUPPORTED - 1)	/* of walk_known */

/* May the walk be taken as a whole: it begins a RANGE, and ip is not on it? */
static bool is_apart(const struct pt *d, const struct pt_memo_walk *w,
		     const uint64_t *ip)
{
	const struct aux_flow *f = d->out.queue + d->out.tail - 1;

	if (d->out.committed < d->out.tail && f->what == AUX_END_FALL &&
	    d->walk.next_ip == d->walk.ip && f->flags == d->walk.flags)
		return false;
	for (uint32_t i = 0; ip && i < w->n_ranges; i++)
		if (*ip >= w->ranges[i].range.first &&
		    *ip <= w->ranges[i].range.last)
			return false;
	return true;
}

static int queue_walk(struct pt *d, const struct pt_memo_walk *w)
{
	struct aux_flow *f = NULL;

	for (uint32_t i = 0; i < w->n_ranges; i++) {
		if (!pt_queue_room(d))
			return -PT_E_NOMEM;
		f = &d->out.queue[d->out.tail++];
		*f = w->ranges[i];
		f->offset = d->out.offset;
	}
	if (w->insn.cls == X86_COND)
		f->what = AUX_END_COND;
	for (uint32_t i = 0; i < w->n_sites; i++)
		pt_push_call(&d->stack, w->sites[i].ip);
	return 0;
}

/* As walk_insn, for all instructions to the next that needs a packet (0) or
 * leads to another region (1), if the memo has them. UNKNOWN: it has not, or ip
 * may be on the way. */
static int walk_known(struct pt *d, const uint64_t *ip)
{
	struct pt_memo_walk w;
	int r;

	if (d->walk.mode < PT_MODE_32 || !pt_is_canonical(d->walk.ip) ||
	    !pt_memo_walk(&d->memo, d->walk.ip, d->walk.flags, &w) ||
	    !is_apart(d, &w, ip))
		return UNKNOWN;
	pt_slow_trace_on(d);
	begin_untraced(d);
	r = queue_walk(d, &w);
	if (r)
		return r;
	d->walk.insn = w.insn;
	d->walk.insn_ip = d->walk.ip = w.ranges[w.n_ranges - 1].range.last;
	d->walk.next_ip = d->walk.ip + w.insn.size;
	if (!w.leads)
		return 0;
	d->walk.ip = w.to;
	return is_endless(d) ? -PT_E_QUERY : 1;
}

int pt_slow_walk(struct pt *d, const uint64_t *ip)
{
	bool first = true;	/* of the instructions after a branch */
	int r = 1;

	while (r == 1) {
		if (ip && d->walk.ip == *ip)
			return 1;
		r = first ? walk_known(d, ip) : UNKNOWN;
		if (r == UNKNOWN) {
			r = walk_insn(d, NULL);
			first = d->walk.insn.cls == X86_JUMP ||
				d->walk.insn.cls == X86_CALL;
		}
	}
	return r;
}

int pt_slow_walk_match(struct pt *d, pt_match match)
{
	int r;

	while ((r = walk_insn(d, match)) == 1)
		;
	return r == 2 ? 1 : r;
}

/* ---- packets ---- */

/* Loads the bits of the TNT at cur.p. An error in the packets after it is found
 * now, as by libipt. */
static int load_tnt(struct pt *d)
{
	const uint8_t *pos;
	struct ptpkt pkt;
	int err;

	if (ptpkt_decode(d->cur.p, d->cur.end, &pkt) <= 0)
		return -PT_E_PACKET;
	d->cur.p += pkt.size;
	d->cur.bits = pkt.payload;
	d->cur.n_bits = pkt.count;
	err = pt_peek(&d->cur, d->cur.p, &pos);
	return err == -PT_E_EOS ? 0 : err;
}

/* The next item, where a branch needs one. If the packets end and another chunk
 * continues this one, code and trace contradict each other: the walk to end_ip
 * needs no packet. */
static int item_for_branch(struct pt *d)
{
	int r = pt_next_item(&d->cur);

	if (r == -PT_E_EOS && d->chunk->flags & AUX_CHUNK_HAS_END_IP)
		return -PT_E_QUERY;
	return r;
}

/* One TNT bit for the branch at walk.insn. */
static int consume_bit(struct pt *d, bool *taken)
{
	int r;

	if (!d->cur.n_bits) {
		r = item_for_branch(d);
		if (r == -PT_E_EOS && pt_cut_packet(&d->cur) == PTPKT_TIP)
			return -PT_E_QUERY;
		if (r != PT_ITEM_TNT)
			return r < 0 ? r : -PT_E_QUERY;
		r = load_tnt(d);
		if (r < 0)
			return r;
		if (!d->cur.n_bits)
			return -PT_E_QUERY;
	}
	*taken = d->cur.bits >> --d->cur.n_bits & 1;
	return 0;
}

/* A TIP for the branch at walk.insn: walk.ip is its target. A TNT may come
 * first, with bits of later branches: the CPU may defer TIPs until the TNT is
 * full (SDM, "Deferred TIPs"). */
static int consume_tip(struct pt *d)
{
	const uint8_t *pos;
	struct ptpkt pkt;
	int r = item_for_branch(d);

	if (r == PT_ITEM_TNT && !d->cur.n_bits) {
		r = load_tnt(d);
		if (!r)
			r = item_for_branch(d);
	}
	if (r == -PT_E_EOS && d->cur.n_bits && pt_cut_packet(&d->cur) == PTPKT_TNT)
		return -PT_E_QUERY;
	if (r != PT_ITEM_TIP)
		return r < 0 ? r : -PT_E_QUERY;
	if (ptpkt_decode(d->cur.p, d->cur.end, &pkt) <= 0)
		return -PT_E_PACKET;
	d->cur.p += pkt.size;
	if (!pt_update_ip(&d->cur, &pkt))
		return -PT_E_NOIP;
	d->walk.ip = d->cur.last_ip;
	r = pt_peek(&d->cur, d->cur.p, &pos);
	return r == -PT_E_EOS ? 0 : r;
}

/* A return: a bit if it is compressed, else a TIP. */
static int consume_return(struct pt *d)
{
	bool taken;
	int r = consume_bit(d, &taken);

	if (r == -PT_E_QUERY)
		return consume_tip(d);
	if (r < 0)
		return r;
	if (!taken)
		return -PT_E_QUERY;
	if (!d->stack.depth)
		return -PT_E_RETURN;
	d->walk.ip = pt_pop_call(&d->stack);
	return 0;
}

int pt_slow_resolve(struct pt *d)
{
	uint64_t next = d->walk.insn_ip + d->walk.insn.size;
	const uint8_t *pos;
	bool taken, fetched;
	int r;

	if (d->walk.insn.cls == X86_COND) {
		r = consume_bit(d, &taken);
		if (r < 0)
			return r;
		if (d->out.committed < d->out.tail)
			d->out.queue[d->out.tail - 1].what =
				taken ? AUX_END_COND_TAKEN
				      : AUX_END_COND_NOT_TAKEN;
		d->walk.ip = taken ? next + (uint64_t)d->walk.insn.disp : next;
	} else {
		r = d->walk.insn.cls == X86_RET ? consume_return(d)
						: consume_tip(d);
		if (r < 0)
			return r;
	}
	r = pt_look_ahead(&d->cur, &pos, &fetched);
	if (r < 0)
		return r;
	d->walk.untraced = 0;
	pt_commit(d);
	return 0;
}

int pt_slow_pass_branch(struct pt *d)
{
	if (!(d->pending.what & PT_PENDING_BRANCH))
		return 0;
	d->pending.what &= ~PT_PENDING_BRANCH;
	d->pending.joined = 0;
	if (d->walk.insn.cls != X86_OTHER && d->walk.insn.cls != X86_PTWRITE)
		return pt_slow_resolve(d);
	d->walk.ip = d->walk.next_ip;
	return 0;
}

/* ---- steps ---- */

/* err was found at a branch, or on the walk to it. */
static void fail_at_branch(struct pt *d, int err)
{
	const uint8_t *pos = d->cur.p;

	/* By now libipt has read on to the next packet that matters. */
	if (err != -PT_E_CODE || d->cur.n_bits)
		pt_peek(&d->cur, d->cur.p, &pos);
	pt_sync_fail(d, err, pos);
}

int pt_slow_branch(struct pt *d)
{
	int r = pt_slow_pass_branch(d);

	if (!r)
		r = pt_slow_walk(d, NULL);
	return r ? r : pt_slow_resolve(d);
}

static void step_branch(struct pt *d)
{
	int r = d->cur.state == PT_ON ? pt_slow_branch(d) : -PT_E_CONTEXT;

	if (r < 0)
		fail_at_branch(d, r);
}

/* Is the next item an event that belongs to the pending branch, too? One far
 * branch may have a PIP, a VMCS, a CFE and a TIP.PGD. After an OVF the branch does not
 * wait any longer, as its packet is lost. The event is pending then. */
static bool is_joined(struct pt *d)
{
	unsigned join;
	uint8_t type;

	if (pt_next_item(&d->cur) != PT_ITEM_EVENT ||
	    pt_next_event(&d->cur, &d->pending.event))
		return false;
	d->pending.what |= PT_PENDING_EVENT;
	type = d->pending.event.type;
	join = pt_join_of(d, &d->pending.event);
	return type == PT_EV_DISABLED || type == PT_EV_OVERFLOW ||
	       (join && !(d->pending.joined & join));
}

/* The pending branch takes its packet, unless another event belongs to it. If
 * there is no such packet, the event did not happen: what was emitted for it is
 * undone. */
static int pass_branch_of_event(struct pt *d)
{
	int r;

	if (!(d->pending.what & PT_PENDING_BRANCH) ||
	    d->walk.insn.cls == X86_OTHER ||
	    d->walk.insn.cls == X86_PTWRITE || is_joined(d))
		return 0;
	r = pt_slow_pass_branch(d);
	/* For libipt the end of the chunk was an event, so that it looked
	 * no further. */
	if (r == -PT_E_QUERY && d->cur.p == d->cur.end &&
	    d->chunk->flags & AUX_CHUNK_HAS_END_IP)
		r = -PT_E_EOS;
	if (r < 0 && d->out.undo.tail != UINT32_MAX) {
		d->out.tail = d->out.undo.tail;
		d->out.committed = d->out.undo.committed;
		d->out.last_ip = d->out.undo.last_ip;
		pt_commit(d);
	}
	return r;
}

/* Emits the TIME that comes before what is walked for the event: the first one
 * after the sync, as who runs must be known before the first code is asked for;
 * and before code that runs up to a PSB, the last time before that PSB. True:
 * the host has to look. */
static bool reach_horizon_first(struct pt *d)
{
	const struct pt_event *ev = &d->pending.event;

	if (d->pending.what & PT_PENDING_ON)
		return ev->has_ip && pt_reach_horizon(d);
	return ev->status && d->cur.state == PT_ON && d->cur.before_psb &&
	       pt_emit_time(d, d->cur.before_psb) && d->times.at_horizon;
}

/* Does a pause of tracing begin at cur.p, or is one there? */
static bool is_in_pause(const struct pt_cursor *c)
{
	const uint8_t *p = c->p;

	while (p < c->end && !*p)	/* PAD */
		p++;
	return p < c->end && !c->bound.n && !c->block && !c->consumed &&
	       !c->n_bits &&
	       (c->state == PT_OFF || (*p & 0x1f) == PGD_OPCODE);
}

bool pt_slow_is_checked(struct pt *d)
{
	if (d->cur.p >= d->checked && !d->no_checks && is_in_pause(&d->cur))
		d->checked = pt_check_pause(&d->cur);
	return d->cur.p < d->checked;
}

/* Is the event a CBR of a PSB+ that is not the last event of it? A CBR has no
 * ip, and would be emitted before the code that runs up to the PSB. With the
 * next event of the PSB+, which has its ip, it comes after that code, where it
 * also is if a chunk begins at this PSB: the flow does not depend on where the
 * stream is cut (433f14e). */
static bool waits_for_psbend(const struct pt *d)
{
	struct ptpkt pkt;

	return d->pending.event.type == PT_EV_CBR && d->pending.event.status &&
	       pt_has_bound(&d->cur, PT_BIND_PSBEND) &&
	       ptpkt_decode(d->cur.p, d->cur.end, &pkt) > 0 &&
	       pkt.type == PTPKT_PSBEND;
}

/*
 * The next event: read, then applied. libipt reads the item after it first.
 * With an error on the way there the event is lost; with an error in the next
 * event itself, this one changes the state, and what it walked stands, but it
 * is not emitted.
 */
static void step_event(struct pt *d)
{
	const uint8_t *pos, *next;
	bool fetched, checked = false, unapplied = false;
	int r = 0, err;

	if (d->out.offset < pt_offset(d, d->cur.p))
		d->out.offset = pt_offset(d, d->cur.p);
	if (!(d->pending.what & PT_PENDING_EVENT)) {
		checked = pt_slow_is_checked(d);
		r = pt_next_event(&d->cur, &d->pending.event);
		if (r < 0) {
			pt_sync_fail(d, r, d->cur.p);
			return;
		}
		d->pending.what |= PT_PENDING_EVENT;
		if (reach_horizon_first(d))
			return;
	}
	next = d->cur.p;
	err = checked ? 0 : pt_look_ahead(&d->cur, &pos, &fetched);
	d->pending.what &= ~PT_PENDING_EVENT;
	if (!err && waits_for_psbend(d)) {
		pt_apply_late(d);
		d->pending.late = d->pending.event;
		d->pending.what |= PT_PENDING_LATE;
		return;
	}
	if (!err || fetched) {
		d->out.suppress = err;
		d->out.undo.tail = UINT32_MAX;
		r = pt_apply(d, &d->pending.event);
		unapplied = r < 0;
		d->out.suppress = false;
		/* What led there has run; a pending branch only with its
		 * packet. */
		if (!r && (err ? d->out.committed < d->out.tail &&
				 d->out.queue[d->out.tail - 1].what > AUX_END_CALL :
				 !(d->pending.what & PT_PENDING_BRANCH)))
			pt_commit(d);
		if (!r && !err) {
			pt_apply_late(d);
			r = pass_branch_of_event(d);
		}
	}
	d->walk.untraced = 0;
	/* is_joined may have read another one */
	unapplied |= d->pending.what & PT_PENDING_EVENT;
	if (r < 0 && checked)
		pt_peek(&d->cur, next, &pos);
	if (r < 0 || err < 0)
		pt_sync_fail(d, r < 0 ? r : err, pos);
	if (unapplied && d->pending.what & PT_PENDING_LOST)
		pt_resume_event(d);
}

void pt_slow_step(struct pt *d)
{
	int item;

	if (d->lazy.from)
		pt_lazy_end(d, d->cur.p);
	if (d->pending.what & PT_PENDING_LOST) {
		pt_resume_step(d);
		return;
	}
	if (d->cur.state == PT_UNSYNCED) {
		pt_sync_next(d);
		return;
	}
	if (d->cur.n_bits) {
		step_branch(d);
		return;
	}
	item = d->pending.what & PT_PENDING_EVENT ? PT_ITEM_EVENT
						  : pt_next_item(&d->cur);
	if (d->out.offset < pt_offset(d, d->cur.p))
		d->out.offset = pt_offset(d, d->cur.p);
	if (item == -PT_E_EOS)
		pt_sync_end(d);
	else if (item < 0)
		pt_sync_fail(d, item, d->cur.p);
	else if (item == PT_ITEM_EVENT)
		step_event(d);
	else if (!pt_reach_horizon(d))
		step_branch(d);
}
