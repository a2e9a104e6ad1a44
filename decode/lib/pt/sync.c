/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pt: synchronization, errors, and the end of a chunk.
 *
 * After an error decoding goes on at a later PSB, always: each try starts behind
 * the one before. What no packet bore out is never shown.
 */
#include "decode/lib/pt/engine.h"

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
static void take_back(struct pt *d)
{
	if (d->sure == d->tail)
		return;
	d->last_ip = d->queue[d->sure].range.first;
	d->tail = d->sure;
}

static void drop_last(struct pt *d)
{
	/* The run that the failing branch ends was never told of. */
	if (d->sure < d->tail && d->queue[d->tail - 1].what != AUX_END_JUMP &&
	    d->queue[d->tail - 1].what != AUX_END_CALL &&
	    d->queue[d->tail - 1].what != AUX_END_FALL)
		d->tail--;
}

static void tell_gap(struct pt *d, enum aux_gap_cause cause, uint64_t ip,
		     int err)
{
	struct aux_flow *f = pt_event_push(d, AUX_FLOW_GAP, cause);

	f->flags = AUX_FLOW_HAS_IP;
	f->gap.ip = ip;
	f->gap.detail = (uint64_t)-err;
}

static void reset(struct pt *d)
{
	d->synced = d->enabled = d->postponed = d->held = d->consumed = false;
	d->has_late = false;
	d->need_on = d->suppressed = d->have_ip = d->mode16 = false;
	d->n_bits = 0;
	d->n_ev = 0;
	d->bound = 0;
	d->block = 0;
	d->untraced = 0;
	d->depth = 0;
}

void pt_sync_fail(struct pt *d, int err, const uint8_t *pos)
{
	bool more = d->chunk->flags & AUX_CHUNK_HAS_END_IP;
	bool tail = more && pos == d->end;
	uint64_t ip;

	/* Where another chunk takes over, packets do not just end. */
	if (more && err == -PT_E_EOS)
		err = -PT_E_QUERY;
	reset(d);
	if (d->p < pos)
		d->p = pos;
	if (d->offset < pt_offset(d, d->p))
		d->offset = pt_offset(d, d->p);
	if (err == -PT_E_CODE || err == -PT_E_PACKET) {
		pt_confirm(d);
	} else {
		drop_last(d);
		take_back(d);
	}
	ip = err == -PT_E_CODE ? d->miss_ip : d->last_ip;
	switch (-err) {
	case PT_E_NOMEM:
		d->failed_mem = true;
		break;
	case PT_E_UNSUPPORTED:
		d->unsupported = true;
		break;
	case PT_E_EOS:
		d->done = true;
		break;
	default:
		/* The end was not reached: only the walk's last bit is gone. */
		tell_gap(d, tail ? AUX_GAP_DESYNC : cause_of(err), ip, err);
		d->done |= tail;
	}
}

/* At a PSB nothing is known. */
static void begin_at(struct pt *d, const uint8_t *psb)
{
	reset(d);
	d->p = psb;
	d->sync = psb + PTPKT_PSB_SIZE;
	if (d->offset < pt_offset(d, psb))
		d->offset = pt_offset(d, psb);
	d->have_time = false;
	d->cr3 = d->vmcs = 0;
	d->ip = 0;
	d->flags = AUX_FLOW_MODE_X86_64;
	d->no_mode = true;
}

void pt_sync_next(struct pt *d)
{
	const uint8_t *psb, *pos;
	bool fetched;
	int err;

	/* A packet that was wrong may have run into a PSB. */
	if (d->p - d->sync > PTPKT_PSB_SIZE - 1)
		d->sync = d->p - (PTPKT_PSB_SIZE - 1);
	psb = d->sync < d->end ? ptpkt_find_psb(d->sync, d->end) : NULL;
	if (!psb) {
		d->done = true;
		return;
	}
	begin_at(d, psb);
	err = pt_query_header(d);
	/* libipt takes what comes first for the place where it begins. */
	d->enabled = true;
	if (!err && !d->have_ip && !d->n_ev) {
		err = pt_query_item(d);
		err = err > 0 ? 0 : err;
	}
	d->enabled = false;
	if (!err && d->have_ip && !d->suppressed) {
		d->enabled = d->need_on = true;
		d->ip = d->packet_ip;
	}
	pos = d->p;
	if (!err)
		err = pt_query_ahead(d, &pos, &fetched);
	if (err < 0)
		pt_sync_fail(d, err, pos);
	else
		d->synced = true;
}

/* To where the next chunk takes over. */
static void walk_on(struct pt *d)
{
	uint64_t ip;
	int r;

	if (!(d->chunk->flags & AUX_CHUNK_HAS_END_IP)) {
		take_back(d);
		d->done = true;
		return;
	}
	if (d->n_ev || !d->enabled) {
		d->unsupported = true;
		return;
	}
	r = pt_slow_proceed(d);
	if (!r)
		r = pt_slow_walk(d, &d->chunk->end_ip);
	d->done = true;
	if (r == 1) {
		pt_confirm(d);
		return;
	}
	if (r == -PT_E_UNSUPPORTED) {
		d->unsupported = true;
		return;
	}
	if (r == -PT_E_CODE)
		pt_confirm(d);
	else
		drop_last(d);
	take_back(d);
	ip = r == -PT_E_CODE ? d->miss_ip : d->last_ip;
	tell_gap(d, AUX_GAP_DESYNC, ip, r ? r : -PT_E_QUERY);
}

/* Is a packet that is cut one that libipt walks to a branch for? */
static bool is_walked_for(const struct pt *d)
{
	switch (pt_query_cut(d)) {
	case PTPKT_TIP:
		return !pt_query_has(d, PT_BIND_TIP);
	case PTPKT_FUP:
		return !pt_query_has(d, PT_BIND_FUP);
	case PTPKT_TNT: case PTPKT_TSC: case PTPKT_TMA: case PTPKT_MTC:
	case PTPKT_CYC: case PTPKT_PSB:
		return true;
	default:
		return false;
	}
}

static bool is_time_cut(const struct pt *d)
{
	unsigned type = pt_query_cut(d);

	return type == PTPKT_TSC || type == PTPKT_TMA || type == PTPKT_MTC ||
	       type == PTPKT_CYC;
}

/* The packets end, at d->p, or inside of the last one. */
void pt_sync_end(struct pt *d)
{
	int r;

	if (!is_walked_for(d) || (!d->enabled && is_time_cut(d))) {
		/* What runs up to the next chunk runs after the last CYC. */
		if (!(d->chunk->flags & AUX_CHUNK_HAS_END_IP) || !d->enabled ||
		    !pt_is_time_up(d))
			walk_on(d);
		return;
	}
	if (!d->enabled) {
		pt_sync_fail(d, -PT_E_CONTEXT, d->p);
		return;
	}
	if (pt_is_time_up(d))
		return;
	r = pt_slow_branch(d);
	pt_sync_fail(d, r < 0 ? r : -PT_E_EOS, d->p);
}

/* ---- what the quick way gave too early ---- */

/* A TNT of the quick way was none: the packets behind it are broken. */
static void undo(struct pt *d, int err, const uint8_t *pos)
{
	int r;

	d->ip = d->mark_ip;
	d->n_bits = 0;
	d->untraced = 0;
	r = pt_slow_walk(d, NULL);
	pt_sync_fail(d, r < 0 ? r : err, pos);
}

/* The last step of the quick way was none: what is behind it is broken. */
static size_t trim(struct pt *d, struct aux_flow *out, size_t n, int err,
		   const uint8_t *pos)
{
	const struct aux_path *p = out[n - 1].path.path;
	struct aux_flow *f;

	d->n_bits = 0;
	/* Its RANGEs are put into the queue, to be taken back. */
	if (out[n - 1].kind == AUX_FLOW_PATH) {
		n--;
		for (uint32_t i = 0; i < p->n_steps; i++) {
			pt_confirm(d);
			for (uint32_t k = 0; k < p->steps[i]->n_ranges; k++) {
				if (!pt_queue_room(d))
					break;
				f = &d->queue[d->tail++];
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
			d->queue[d->tail++] = out[n + i];
	}
	pt_sync_fail(d, err, pos);
	return n;
}

/* The last instruction that these events give. */
static void find_last_ip(struct pt *d, const struct aux_flow *out, size_t n)
{
	while (n--) {
		if (out[n].kind == AUX_FLOW_RANGE) {
			d->last_ip = out[n].range.last;
			return;
		}
		if (out[n].kind == AUX_FLOW_PATH) {
			const struct aux_path *p = out[n].path.path;
			const struct aux_step *s = p->steps[p->n_steps - 1];

			d->last_ip = s->ranges[s->n_ranges - 1].range.last;
			return;
		}
	}
}

/* libipt would not have taken the last packet, were a broken one the next. */
size_t pt_sync_check(struct pt *d, struct aux_flow *out, size_t n, bool *stop)
{
	const uint8_t *pos;
	bool fetched;
	int err = d->mark < n ? pt_query_ahead(d, &pos, &fetched) : 0;

	if (!err) {
		find_last_ip(d, out, n);
		return n;
	}
	*stop = false;
	if (fetched && err == -PT_E_PACKET) {	/* an event: the step stands */
		find_last_ip(d, out, n);
		d->n_bits = 0;
		pt_sync_fail(d, err, pos);
		return n;
	}
	if (fetched || d->mark_tip) {
		find_last_ip(d, out, n - 1);
		return trim(d, out, n, err, pos);
	}
	n = d->mark;
	find_last_ip(d, out, n);
	undo(d, err, pos);
	return n;
}
