/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pt: synchronization, errors, and the end of a chunk.
 *
 * After an error decoding goes on at a later PSB, always: each try starts behind
 * the one before. What no packet bore out is never shown.
 */
#include "decode/lib/pt/impl.h"

static enum aux_gap_cause cause_of(int err)
{
	switch (-err) {
	case PT_E_CODE:
		return AUX_GAP_NO_CODE;
	case PT_E_PACKET:
		return AUX_GAP_BAD_PACKET;
	case PT_E_LIMIT:
		return AUX_GAP_DECODER;
	default:
		return AUX_GAP_DESYNC;
	}
}

/* The last ip known is where what is taken back began. */
static void retract(struct pt *d)
{
	if (d->out.committed == d->out.tail)
		return;
	d->out.last_ip = d->out.queue[d->out.committed].range.first;
	d->out.tail = d->out.committed;
}

static void drop_failed_branch(struct pt *d)
{
	/* The run that the failing branch ends was never told of. */
	if (d->out.committed < d->out.tail &&
	    d->out.queue[d->out.tail - 1].what != AUX_END_JUMP &&
	    d->out.queue[d->out.tail - 1].what != AUX_END_CALL &&
	    d->out.queue[d->out.tail - 1].what != AUX_END_FALL)
		d->out.tail--;
}

static void emit_gap(struct pt *d, enum aux_gap_cause cause, uint64_t ip,
		     int err)
{
	struct aux_flow *f = pt_emit(d, AUX_FLOW_GAP, cause);

	f->flags = AUX_FLOW_HAS_IP;
	f->gap.ip = ip;
	f->gap.detail = (uint64_t)-err;
}

static void reset(struct pt *d)
{
	d->cur.state = PT_UNSYNCED;
	d->cur.ip_state = PT_IP_NONE;
	d->cur.consumed = false;
	d->pending.what = 0;
	d->cur.n_bits = 0;
	d->cur.bound.n = 0;
	d->pending.joined = 0;
	d->cur.block = 0;
	d->walk.untraced = 0;
	d->stack.depth = 0;
}

void pt_sync_fail(struct pt *d, int err, const uint8_t *pos)
{
	bool more = d->chunk->flags & AUX_CHUNK_HAS_END_IP;
	bool tail = more && pos == d->cur.end;
	uint64_t ip;

	/* Where another chunk takes over, packets do not just end. */
	if (more && err == -PT_E_EOS)
		err = -PT_E_QUERY;
	reset(d);
	if (d->cur.p < pos)
		d->cur.p = pos;
	if (d->out.offset < pt_offset(d, d->cur.p))
		d->out.offset = pt_offset(d, d->cur.p);
	if (err == -PT_E_CODE || err == -PT_E_PACKET) {
		pt_commit(d);
	} else {
		drop_failed_branch(d);
		retract(d);
	}
	ip = err == -PT_E_CODE ? d->walk.miss_ip : d->out.last_ip;
	switch (-err) {
	case PT_E_NOMEM:
		pt_finish(d, PT_NOMEM);
		break;
	case PT_E_UNSUPPORTED:
		pt_finish(d, PT_UNSUPPORTED);
		break;
	case PT_E_EOS:
		pt_finish(d, PT_DONE);
		break;
	default:
		/* The end was not reached: only the walk's last bit is gone. */
		emit_gap(d, tail ? AUX_GAP_DESYNC : cause_of(err), ip, err);
		if (tail)
			pt_finish(d, PT_DONE);
	}
}

/* At a PSB nothing is known. */
static void begin_at(struct pt *d, const uint8_t *psb)
{
	reset(d);
	d->cur.p = psb;
	d->sync = psb + PTPKT_PSB_SIZE;
	if (d->out.offset < pt_offset(d, psb))
		d->out.offset = pt_offset(d, psb);
	d->times.have_time = false;
	d->context.cr3 = d->context.vmcs = 0;
	d->walk.ip = 0;
	d->walk.flags = AUX_FLOW_MODE_X86_64;
	d->walk.mode = PT_MODE_NONE;
}

void pt_sync_next(struct pt *d)
{
	const uint8_t *psb, *pos;
	bool fetched;
	int err;

	/* A packet that was wrong may have run into a PSB. */
	if (d->cur.p - d->sync > PTPKT_PSB_SIZE - 1)
		d->sync = d->cur.p - (PTPKT_PSB_SIZE - 1);
	psb = d->sync < d->cur.end ? ptpkt_find_psb(d->sync, d->cur.end) : NULL;
	if (!psb) {
		pt_finish(d, PT_DONE);
		return;
	}
	begin_at(d, psb);
	err = pt_read_psb(&d->cur);
	/* libipt takes what comes first for the place where it begins. */
	d->cur.state = PT_ON;
	if (!err && d->cur.ip_state == PT_IP_NONE && !d->cur.bound.n) {
		err = pt_next_item(&d->cur);
		err = err > 0 ? 0 : err;
	}
	d->cur.state = PT_OFF;
	if (!err && d->cur.ip_state == PT_IP_KNOWN) {
		d->cur.state = PT_ON;
		d->pending.what |= PT_PENDING_ON;
		d->walk.ip = d->cur.last_ip;
	}
	pos = d->cur.p;
	if (!err)
		err = pt_look_ahead(&d->cur, &pos, &fetched);
	if (err < 0)
		pt_sync_fail(d, err, pos);
}

/* To where the next chunk takes over. */
static void walk_to_end_ip(struct pt *d)
{
	uint64_t ip;
	int r;

	if (!(d->chunk->flags & AUX_CHUNK_HAS_END_IP)) {
		retract(d);
		pt_finish(d, PT_DONE);
		return;
	}
	if (d->cur.bound.n || d->cur.state != PT_ON) {
		pt_finish(d, PT_UNSUPPORTED);
		return;
	}
	r = pt_slow_pass_branch(d);
	if (!r)
		r = pt_slow_walk(d, &d->chunk->end_ip);
	pt_finish(d, PT_DONE);
	if (r == 1) {
		pt_commit(d);
		return;
	}
	if (r == -PT_E_UNSUPPORTED) {
		pt_finish(d, PT_UNSUPPORTED);
		return;
	}
	if (r == -PT_E_CODE)
		pt_commit(d);
	else
		drop_failed_branch(d);
	retract(d);
	ip = r == -PT_E_CODE ? d->walk.miss_ip : d->out.last_ip;
	emit_gap(d, AUX_GAP_DESYNC, ip, r ? r : -PT_E_QUERY);
}

/* Is a packet that is cut one that libipt walks to a branch for? */
static bool is_walked_for(const struct pt *d)
{
	switch (pt_cut_packet(&d->cur)) {
	case PTPKT_TIP:
		return !pt_has_bound(&d->cur, PT_BIND_TIP);
	case PTPKT_FUP:
		return !pt_has_bound(&d->cur, PT_BIND_FUP);
	case PTPKT_TNT: case PTPKT_TSC: case PTPKT_TMA: case PTPKT_MTC:
	case PTPKT_CYC: case PTPKT_PSB:
		return true;
	default:
		return false;
	}
}

static bool is_time_cut(const struct pt *d)
{
	unsigned type = pt_cut_packet(&d->cur);

	return type == PTPKT_TSC || type == PTPKT_TMA || type == PTPKT_MTC ||
	       type == PTPKT_CYC;
}

/* The packets end, at d->cur.p, or inside of the last one. */
void pt_sync_end(struct pt *d)
{
	int r;

	if (!is_walked_for(d) || (d->cur.state != PT_ON && is_time_cut(d))) {
		/* What runs up to the next chunk runs after the last CYC. */
		if (!(d->chunk->flags & AUX_CHUNK_HAS_END_IP) ||
		    d->cur.state != PT_ON || !pt_reach_horizon(d))
			walk_to_end_ip(d);
		return;
	}
	if (d->cur.state != PT_ON) {
		pt_sync_fail(d, -PT_E_CONTEXT, d->cur.p);
		return;
	}
	if (pt_reach_horizon(d))
		return;
	r = pt_slow_branch(d);
	pt_sync_fail(d, r < 0 ? r : -PT_E_EOS, d->cur.p);
}

/* ---- what the quick way gave too early ---- */

/* A TNT of the quick way was none: the packets behind it are broken. */
static void undo_tnt(struct pt *d, int err, const uint8_t *pos)
{
	int r;

	d->walk.ip = d->mark.ip;
	d->cur.n_bits = 0;
	d->walk.untraced = 0;
	r = pt_slow_walk(d, NULL);
	pt_sync_fail(d, r < 0 ? r : err, pos);
}

/* The last step of the quick way was none: what is behind it is broken. */
static size_t undo_step(struct pt *d, struct aux_flow *out, size_t n, int err,
		   const uint8_t *pos)
{
	const struct aux_path *p = out[n - 1].path.path;
	struct aux_flow *f;

	d->cur.n_bits = 0;
	/* Its RANGEs are put into the queue, to be taken back. */
	if (out[n - 1].kind == AUX_FLOW_PATH) {
		n--;
		for (uint32_t i = 0; i < p->n_steps; i++) {
			pt_commit(d);
			for (uint32_t k = 0; k < p->steps[i]->n_ranges; k++) {
				if (!pt_queue_room(d))
					break;
				f = &d->out.queue[d->out.tail++];
				*f = p->steps[i]->ranges[k];
				f->offset = out[n].offset;
			}
		}
	} else {
		uint32_t k = 1;

		while (n > k && out[n - k - 1].kind == AUX_FLOW_RANGE &&
		       (out[n - k - 1].what == AUX_END_JUMP ||
			out[n - k - 1].what == AUX_END_CALL))
			k++;
		n -= k;
		for (uint32_t i = 0; i < k && pt_queue_room(d); i++)
			d->out.queue[d->out.tail++] = out[n + i];
	}
	pt_sync_fail(d, err, pos);
	return n;
}

/* The last instruction that these events give. */
static void find_last_ip(struct pt *d, const struct aux_flow *out, size_t n)
{
	while (n--) {
		if (out[n].kind == AUX_FLOW_RANGE) {
			d->out.last_ip = out[n].range.last;
			return;
		}
		if (out[n].kind == AUX_FLOW_PATH) {
			const struct aux_path *p = out[n].path.path;
			const struct aux_step *s = p->steps[p->n_steps - 1];

			d->out.last_ip = s->ranges[s->n_ranges - 1].range.last;
			return;
		}
	}
}

/* libipt would not have taken the last packet, were a broken one the next. */
size_t pt_sync_verify(struct pt *d, struct aux_flow *out, size_t n, bool *stop)
{
	const uint8_t *pos;
	bool fetched;
	int err = d->mark.at < n ? pt_look_ahead(&d->cur, &pos, &fetched) : 0;

	if (!err) {
		find_last_ip(d, out, n);
		return n;
	}
	*stop = false;
	if (fetched && err == -PT_E_PACKET) {	/* an event: the step stands */
		find_last_ip(d, out, n);
		d->cur.n_bits = 0;
		pt_sync_fail(d, err, pos);
		return n;
	}
	if (fetched || d->mark.tip) {
		find_last_ip(d, out, n - 1);
		return undo_step(d, out, n, err, pos);
	}
	n = d->mark.at;
	find_last_ip(d, out, n);
	undo_tnt(d, err, pos);
	return n;
}
