/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pt: the slow way: instruction by instruction, asking for packets as they are
 * needed. It does all that the quick way leaves: what leaves a region, events,
 * broken trace and the beginnings and ends.
 *
 * What was walked waits in the queue until a packet bears it out.
 */
#include "decode/lib/pt/engine.h"

#define MAX_UNTRACED (1 << 16)	/* jumps in a row that need no trace */

/* ---- walking ---- */

static const uint8_t ends[] = {
	[X86_OTHER] = AUX_END_FALL, [X86_COND] = AUX_END_COND,
	[X86_JUMP] = AUX_END_JUMP, [X86_CALL] = AUX_END_CALL,
	[X86_RET] = AUX_END_RET, [X86_IND_JUMP] = AUX_END_IND_JUMP,
	[X86_IND_CALL] = AUX_END_IND_CALL, [X86_SYSCALL] = AUX_END_SYSCALL,
	[X86_FAR] = AUX_END_FAR, [X86_PTWRITE] = AUX_END_FALL,
};

/* d->insn at d->ip runs. */
static int note_insn(struct pt *d)
{
	struct aux_flow *f = d->queue + d->tail - 1;
	uint8_t end = ends[d->insn.cls];

	if (d->sure == d->tail || f->what != AUX_END_FALL ||
	    d->next_seq != d->ip || f->flags != d->flags) {
		if (!pt_queue_room(d))
			return -PT_E_NOMEM;
		f = &d->queue[d->tail++];
		*f = (struct aux_flow){ .offset = d->offset,
					.kind = AUX_FLOW_RANGE,
					.flags = d->flags,
					.range = { d->ip, d->ip } };
	}
	f->n++;
	f->range.last = d->ip;
	f->what = end;
	if (end != AUX_END_FALL)
		f->flags |= d->insn.size;
	d->insn_ip = d->ip;
	d->next_seq = d->ip + d->insn.size;
	return 0;
}

/* Reads the instruction at d->ip, whatever it has to lead to. */
static int read_insn(struct pt *d, const uint8_t **p, size_t *n,
		     uint8_t buf[16])
{
	enum x86_mode mode = (d->flags & AUX_FLOW_MODE_MASK) ==
			     AUX_FLOW_MODE_X86_64 ? X86_MODE_64 : X86_MODE_32;

	if (d->mode16)
		return -PT_E_UNSUPPORTED;
	*n = pt_code_bytes(&d->store, d->ip, buf, p);
	if (!*n) {
		d->miss_ip = d->ip;
		return d->store.nomem ? -PT_E_NOMEM : -PT_E_CODE;
	}
	if (d->no_mode || !x86_insn_decode_in(*p, *n, mode, &d->insn))
		return -PT_E_INSN;
	return 0;
}

/* Jumps that need no trace and come round again go on for ever. */
static bool is_endless(struct pt *d)
{
	d->untraced++;
	if (d->untraced > MAX_UNTRACED || d->ip == d->loop_ip)
		return true;
	if (d->untraced == 2 * d->loop_mark) {
		d->loop_mark = d->untraced;
		d->loop_ip = d->ip;
	}
	return false;
}

/* Something is walked at last: that tracing is on is told. */
void pt_slow_turn_on(struct pt *d)
{
	bool mute = d->mute;

	if (!d->need_on)
		return;
	d->need_on = d->mute = false;
	d->told = 0;
	pt_event_ip(d, AUX_FLOW_TRACE_ON, 0, true, d->ip);
	d->last_ip = d->ip;
	d->mute = mute;
	d->told = UINT32_MAX;
}

/* One instruction; 1: it takes no packet, and d->ip is behind it. */
static int walk_insn(struct pt *d, pt_match match)
{
	const uint8_t *p;
	uint8_t buf[16];
	size_t n;
	int r;

	pt_slow_turn_on(d);
	if (!d->untraced) {
		d->untraced = d->loop_mark = 1;
		d->loop_ip = d->ip;
	}
	r = read_insn(d, &p, &n, buf);
	if (!r)
		r = note_insn(d);
	if (r)
		return r;
	if ((d->insn.cls == X86_CALL && d->insn.disp) ||
	    d->insn.cls == X86_IND_CALL)
		pt_push_call(d, d->next_seq);
	if (match && match(p, n, &d->insn))
		return 2;
	switch (d->insn.cls) {
	case X86_OTHER:
	case X86_PTWRITE:
		d->ip = d->next_seq;
		return 1;
	case X86_JUMP:
	case X86_CALL:
		d->ip = d->next_seq + (uint64_t)d->insn.disp;
		return is_endless(d) ? -PT_E_QUERY : 1;
	default:
		return 0;
	}
}

int pt_slow_walk(struct pt *d, const uint64_t *ip)
{
	int r = 1;

	while (r == 1) {
		if (ip && d->ip == *ip)
			return 1;
		r = walk_insn(d, NULL);
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

/* The TNT at d->p. */
static int load_tnt(struct pt *d)
{
	const uint8_t *pos;
	struct ptpkt pkt;
	int err;

	if (ptpkt_decode(d->p, d->end, &pkt) <= 0)
		return -PT_E_PACKET;
	d->p += pkt.size;
	d->bits = pkt.payload;
	d->n_bits = pkt.count;
	err = pt_query_peek(d, d->p, &pos);
	return err == -PT_E_EOS ? 0 : err;
}

/* The end of the packets, where a branch needs one: what comes behind them, the
 * end of the chunk, is none for it. */
static int item_of(struct pt *d)
{
	int r = pt_query_item(d);

	if (r == -PT_E_EOS && d->chunk->flags & AUX_CHUNK_HAS_END_IP)
		return -PT_E_QUERY;
	return r;
}

static int take_bit(struct pt *d, bool *taken)
{
	int r;

	if (!d->n_bits) {
		r = item_of(d);
		if (r == -PT_E_EOS && pt_query_cut(d) == PTPKT_TIP)
			return -PT_E_QUERY;
		if (r != PT_ITEM_TNT)
			return r < 0 ? r : -PT_E_QUERY;
		r = load_tnt(d);
		if (r < 0)
			return r;
		if (!d->n_bits)
			return -PT_E_QUERY;
	}
	*taken = d->bits >> --d->n_bits & 1;
	return 0;
}

/* The target of an indirect branch: a TIP, though bits may come first. */
static int take_tip(struct pt *d)
{
	const uint8_t *pos;
	struct ptpkt pkt;
	int r = item_of(d);

	if (r == PT_ITEM_TNT && !d->n_bits) {
		r = load_tnt(d);
		if (!r)
			r = item_of(d);
	}
	if (r == -PT_E_EOS && d->n_bits && pt_query_cut(d) == PTPKT_TNT)
		return -PT_E_QUERY;
	if (r != PT_ITEM_TIP)
		return r < 0 ? r : -PT_E_QUERY;
	if (ptpkt_decode(d->p, d->end, &pkt) <= 0)
		return -PT_E_PACKET;
	d->p += pkt.size;
	d->suppressed = !ptpkt_ip(&pkt, &d->packet_ip);
	if (d->suppressed)
		return -PT_E_NOIP;
	d->have_ip = true;
	d->ip = d->packet_ip;
	r = pt_query_peek(d, d->p, &pos);
	return r == -PT_E_EOS ? 0 : r;
}

static int take_return(struct pt *d)
{
	bool taken;
	int r = take_bit(d, &taken);

	if (r == -PT_E_QUERY)
		return take_tip(d);
	if (r < 0)
		return r;
	if (!taken || !d->depth)
		return -PT_E_RETURN;
	d->ip = pt_pop_call(d);
	return 0;
}

int pt_slow_take(struct pt *d)
{
	uint64_t next = d->insn_ip + d->insn.size;
	const uint8_t *pos;
	bool taken, fetched;
	int r;

	if (d->insn.cls == X86_COND) {
		r = take_bit(d, &taken);
		if (r < 0)
			return r;
		if (d->sure < d->tail)
			d->queue[d->tail - 1].what = taken ? AUX_END_COND_TAKEN :
					  AUX_END_COND_NOT_TAKEN;
		d->ip = taken ? next + (uint64_t)d->insn.disp : next;
	} else {
		r = d->insn.cls == X86_RET ? take_return(d) : take_tip(d);
		if (r < 0)
			return r;
	}
	r = pt_query_ahead(d, &pos, &fetched);
	if (r < 0)
		return r;
	d->untraced = 0;
	pt_confirm(d);
	return 0;
}

int pt_slow_proceed(struct pt *d)
{
	if (!d->postponed)
		return 0;
	d->postponed = false;
	d->bound = 0;
	if (d->insn.cls != X86_OTHER && d->insn.cls != X86_PTWRITE)
		return pt_slow_take(d);
	d->ip = d->next_seq;
	return 0;
}

/* ---- steps ---- */

static void fail_here(struct pt *d, int err)
{
	const uint8_t *pos = d->p;

	/* libipt has read on to the next packet that matters. */
	if (err != -PT_E_CODE || d->n_bits)
		pt_query_peek(d, d->p, &pos);
	pt_sync_fail(d, err, pos);
}

int pt_slow_branch(struct pt *d)
{
	int r = pt_slow_proceed(d);

	if (!r)
		r = pt_slow_walk(d, NULL);
	return r ? r : pt_slow_take(d);
}

static void step_branch(struct pt *d)
{
	int r = d->enabled ? pt_slow_branch(d) : -PT_E_CONTEXT;

	if (r < 0)
		fail_here(d, r);
}

/* Does the next event, if it is one, go with the branch that waits, too? Behind an OVF
 * that does not wait any more. */
static bool is_bound_too(struct pt *d)
{
	uint8_t type;

	if (pt_query_item(d) != PT_ITEM_EVENT || pt_query_event(d, &d->event))
		return false;
	d->held = true;
	type = d->event.type;
	return type == PT_EV_DISABLED || type == PT_EV_OVERFLOW ||
	       (type == PT_EV_PAGING && !(d->bound & PT_BOUND_PAGING)) ||
	       (type == PT_EV_VMCS && !(d->bound & PT_BOUND_VMCS));
}

/* An event of a branch is told only if the branch then finds its packet. */
static int go_behind(struct pt *d)
{
	int r;

	if (!d->postponed || d->insn.cls == X86_OTHER ||
	    d->insn.cls == X86_PTWRITE || is_bound_too(d))
		return 0;
	r = pt_slow_proceed(d);
	/* libipt has taken the end of the chunk for an event, in vain. */
	if (r == -PT_E_QUERY && d->p == d->end &&
	    d->chunk->flags & AUX_CHUNK_HAS_END_IP)
		r = -PT_E_EOS;
	if (r < 0 && d->told != UINT32_MAX) {
		d->tail = d->told;
		d->sure = d->told_sure;
		d->last_ip = d->told_ip;
		pt_confirm(d);
	}
	return r;
}

/* Time comes before what is walked now: where nothing was given yet, and what runs up
 * to a PSB runs after the last time in front of it. */
static bool is_event_time_up(struct pt *d)
{
	const struct pt_event *ev = &d->event;

	if (d->need_on)
		return ev->has_ip && pt_is_time_up(d);
	return ev->status && d->enabled && d->before_psb &&
	       pt_event_time(d, d->before_psb) && d->at_horizon;
}

/* A CBR of a PSB+ has no IP. Where an event behind it has that of the PSB+, it goes
 * with that: there it is told, too, where a chunk begins with the PSB. */
static bool is_late(const struct pt *d)
{
	struct ptpkt pkt;

	return d->event.type == PT_EV_CBR && d->event.status &&
	       pt_query_has(d, PT_BIND_PSBEND) &&
	       ptpkt_decode(d->p, d->end, &pkt) > 0 &&
	       pkt.type == PTPKT_PSBEND;
}

static void step_event(struct pt *d)
{
	const uint8_t *pos;
	bool fetched;
	int r = 0, err;

	d->offset = pt_offset(d, d->p);
	if (!d->held) {
		r = pt_query_event(d, &d->event);
		if (r < 0) {
			pt_sync_fail(d, r, d->p);
			return;
		}
		d->held = true;
		if (is_event_time_up(d))
			return;
	}
	err = pt_query_ahead(d, &pos, &fetched);
	d->held = false;
	if (!err && is_late(d)) {
		pt_event_late(d);
		d->late = d->event;
		d->has_late = true;
		return;
	}
	if (!err || fetched) {
		/* With an error in the next one it happens, but is not told. */
		d->mute = err;
		d->told = UINT32_MAX;
		r = pt_event_apply(d, &d->event);
		d->mute = false;
		/* What led there has run, and a branch that it waits at. */
		if (!r && (err ? d->sure < d->tail &&
				 d->queue[d->tail - 1].what > AUX_END_CALL :
				 !d->postponed))
			pt_confirm(d);
		if (!r && !err) {
			pt_event_late(d);
			r = go_behind(d);
		}
	}
	d->untraced = 0;
	if (r < 0 || err < 0)
		pt_sync_fail(d, r < 0 ? r : err, pos);
}

void pt_slow_step(struct pt *d)
{
	int item;

	if (d->skip.from)
		pt_skip_end(d, d->p);
	if (!d->synced) {
		pt_sync_next(d);
		return;
	}
	if (d->n_bits) {
		step_branch(d);
		return;
	}
	item = d->held ? PT_ITEM_EVENT : pt_query_item(d);
	if (d->offset < pt_offset(d, d->p))
		d->offset = pt_offset(d, d->p);
	if (item == -PT_E_EOS)
		pt_sync_end(d);
	else if (item < 0)
		pt_sync_fail(d, item, d->p);
	else if (item == PT_ITEM_EVENT)
		step_event(d);
	else if (!pt_is_time_up(d))
		step_branch(d);
}
