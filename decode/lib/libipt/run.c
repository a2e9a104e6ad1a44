/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks as RANGEs, synchronization and errors.
 *
 * A RANGE that consumed no packet waits until a packet was consumed where it
 * leads; what runs into a contradiction is taken back, so the flow shows only
 * what ran.
 */
#include <string.h>

#include "decode/lib/libipt/impl.h"

/* Events carry the offset that libipt has read to, but not that of
 * END_PACKETS. */
static void update_offset(struct libipt *d)
{
	uint64_t pos;

	if (pt_blk_get_offset(d->in.blk, &pos) < 0)
		return;
	if (pos > d->chunk->len)
		pos = d->chunk->len;
	pos += d->chunk->stream_offset;
	if (pos > d->out.offset)
		d->out.offset = pos;
}

/* Drops the queued ranges that no packet confirmed. The last known ip is then
 * the start of the first of them. */
static void retract(struct libipt *d)
{
	if (d->out.open == NONE && d->out.committed < d->out.tail) {
		d->out.last_ip = d->out.queue[d->out.committed].range.first;
		d->out.tail = d->out.committed;
	}
	libipt_commit(d);
}

static inline const struct insn_end *find_end(struct libipt *d,
					      const struct pt_block *b)
{
	struct end_slot *s = &d->code.ends[(b->end_ip ^ b->end_ip >> 14) &
				      (N_ENDS - 1)];

	if (s->ip != b->end_ip || s->image != d->code.image->serial ||
	    s->mode != b->mode || b->truncated)
		libipt_fill_end(d, b, s);
	return &s->end;
}

static uint16_t mode_flags(const struct pt_block *b)
{
	uint16_t mode = b->mode == ptem_32bit ? AUX_FLOW_MODE_X86_32 :
			b->mode == ptem_16bit ? AUX_FLOW_MODE_X86_16 :
						AUX_FLOW_MODE_X86_64;

	return mode | (b->speculative ? AUX_FLOW_IN_TX : 0);
}

/* The last RANGE, if b only continues it: libipt ends blocks for reasons of its
 * own, such as the end of a section. */
static struct aux_flow *range_to_extend(struct libipt *d, const struct pt_block *b)
{
	struct aux_flow *f = &d->out.queue[d->out.tail - 1];

	if (f->what != AUX_END_FALL || f->n > UINT32_MAX - UINT16_MAX ||
	    b->ip - f->range.last - 1 >= pt_max_insn_size ||
	    (f->flags & ~AUX_FLOW_SIZE_MASK) != mode_flags(b))
		return NULL;
	return f;
}

static inline void push_range(struct libipt *d, const struct pt_block *b)
{
	const struct insn_end *end = find_end(d, b);
	struct aux_flow *f = NULL;

	if (d->out.committed < d->out.tail) {
		libipt_settle(d, true, b->ip);
		if (d->out.committed < d->out.tail)
			f = range_to_extend(d, b);
	}
	if (!f) {
		f = &d->out.queue[d->out.tail++];
		f->offset = d->out.offset;
		f->kind = AUX_FLOW_RANGE;
		f->n = 0;
		f->range.first = b->ip;
	}
	f->what = end->kind;
	f->flags = mode_flags(b) | end->size;
	f->n += b->ninsn;
	f->range.last = b->end_ip;
	if (end->kind == AUX_END_COND) {
		d->out.committed = d->out.open = d->out.tail - 1;
		d->out.open_next = end->next;
		d->out.open_target = end->target;
		d->loop.untraced = 0;
	} else if (end->kind == AUX_END_JUMP || end->kind == AUX_END_CALL ||
		   end->kind == AUX_END_FALL) {
		d->loop.untraced++;
	} else {
		d->out.committed = d->out.tail;
		d->loop.untraced = 0;
	}
	d->out.last_ip = b->end_ip;
	d->out.at_insn = true;
}

/* ---- errors and synchronization ---- */

static enum aux_gap_cause cause_of(int err)
{
	switch (-err) {
	case pte_nomap:
		return AUX_GAP_NO_CODE;
	case pte_bad_opc:
	case pte_bad_packet:
		return AUX_GAP_BAD_PACKET;
	case pte_internal:
	case pte_invalid:
	case pte_bad_image:
	case pte_bad_file:
	case pte_bad_lock:
	case pte_not_supported:
	case pte_overflow:
		return AUX_GAP_DECODER;
	default:
		return AUX_GAP_DESYNC;
	}
}

/* Did the block that libipt returned with this status run? Its end was
 * confirmed by a packet, or what is wrong comes after it. */
static bool is_certain(int status)
{
	return status >= 0 || status == -pte_nomap || status == -pte_bad_opc ||
	       status == -pte_bad_packet;
}

/* An error of libipt: a GAP, and the next PSB is looked for. */
static void fail(struct libipt *d, int err)
{
	uint64_t ip;

	d->synced = false;
	d->pending.has_late = false;
	d->loop.untraced = 0;
	update_offset(d);
	if (is_certain(err))
		libipt_commit(d);
	else
		retract(d);
	ip = err == -pte_nomap && d->code.missed ? d->code.miss_ip : d->out.last_ip;
	if (err == -pte_nomem) {
		d->end = LIBIPT_NOMEM;
	} else if (err == -pte_eos) {
		d->end = LIBIPT_DONE;
	} else if (d->in.tailed && d->out.offset >= d->chunk->stream_offset +
						    d->chunk->len) {
		/* At the very end: only the walk to end_ip is lost. */
		libipt_push_gap(d, AUX_GAP_DESYNC, ip, (uint64_t)-err);
		d->end = LIBIPT_DONE;
	} else {
		libipt_push_gap(d, cause_of(err), ip, (uint64_t)-err);
	}
}

/* libipt itself would go on searching where it failed; this finds a PSB that a
 * wrong packet ran into, too. */
static const uint8_t *find_psb(const uint8_t *p, const uint8_t *end)
{
	static const uint8_t half[8] = { 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82 };

	while ((p = memmem(p, (size_t)(end - p), half, sizeof(half)))) {
		if (end - p < PSB_SIZE)
			return NULL;
		if (!memcmp(p + 8, half, sizeof(half)))
			return p;
		p++;
	}
	return NULL;
}

static void synchronize(struct libipt *d)
{
	const uint8_t *data = d->in.tailed ? d->in.tailed : d->chunk->data;
	const uint8_t *psb;
	uint64_t pos;

	/* a packet that was wrong may have run into a PSB */
	if (pt_blk_get_offset(d->in.blk, &pos) == 0 &&
	    pos > d->in.sync + PSB_SIZE - 1)
		d->in.sync = pos - (PSB_SIZE - 1);
	psb = d->in.sync < d->chunk->len ?
		      find_psb(data + d->in.sync, data + d->chunk->len) : NULL;
	if (!psb) {
		d->end = LIBIPT_DONE;
		return;
	}
	pos = (uint64_t)(psb - data);
	d->in.sync = pos + PSB_SIZE;
	if (d->out.offset < d->chunk->stream_offset + pos)
		d->out.offset = d->chunk->stream_offset + pos;
	d->times.have_time = false;
	d->times.asked = false;
	d->out.at_insn = false;
	d->context.cr3 = 0;
	d->context.vmcs = 0;
	d->in.status = pt_blk_sync_set(d->in.blk, pos);
	if (d->in.status < 0) {
		fail(d, d->in.status);
		return;
	}
	d->synced = true;
	d->pending.trace_on = !(d->in.status & pts_ip_suppressed);
}

/* Is the event that of END_PACKETS? */
static bool is_end_packet(struct libipt *d, const struct pt_event *e)
{
	uint64_t pos;

	return d->in.tailed && e->type == ptev_async_disabled &&
	       e->variant.async_disabled.at == d->chunk->end_ip &&
	       pt_blk_get_offset(d->in.blk, &pos) == 0 && pos >= d->in.len;
}

/* Does libipt stand at a PSBEND? *pos: where it stands. */
static bool is_at_psbend(struct libipt *d, uint64_t *pos)
{
	static const uint8_t psbend[] = { 0x02, 0x23 };
	const uint8_t *data = d->in.tailed ? d->in.tailed : d->chunk->data;

	return pt_blk_get_offset(d->in.blk, pos) == 0 && *pos < d->in.len &&
	       d->in.len - *pos >= sizeof(psbend) &&
	       !memcmp(data + *pos, psbend, sizeof(psbend));
}

/* Are there more events of this PSB+ after that which pt_blk_event gave? They
 * have its ip, a CBR has not, and is emitted with them (as in
 * decode/lib/pt/slow.c). libipt 2.0 moves past the PSBEND with the last one,
 * libipt 2.1 after it. */
static bool waits_for_psbend(struct libipt *d, bool was_at, uint64_t at)
{
	uint64_t pos;

	return was_at && (!d->is_v21 || (is_at_psbend(d, &pos) && pos == at));
}

/* From libipt 2.1 on each PSB+ also says whether tracing is on. The status after
 * synchronizing says so in all versions, and in the middle of a trace nothing
 * changes with it. */
static bool repeats_state(const struct pt_event *e)
{
	return e->status_update &&
	       (e->type == ptev_enabled || e->type == ptev_disabled);
}

static void push_event(struct libipt *d, const struct pt_event *e)
{
	if (repeats_state(e))
		return;
	if (e->has_tsc)
		libipt_push_time(d, e->tsc);
	libipt_push_event(d, e);
}

static void step_event(struct libipt *d)
{
	struct pt_event e;
	uint64_t at;
	bool was_at = is_at_psbend(d, &at), late;

	d->in.status = pt_blk_event(d->in.blk, &e, sizeof(e));
	if (d->in.status < 0) {
		fail(d, d->in.status);
		return;
	}
	if (is_end_packet(d, &e)) {
		libipt_settle(d, true, d->chunk->end_ip);
		d->end = LIBIPT_DONE;
		return;
	}
	update_offset(d);
	late = e.type == ptev_cbr && e.status_update &&
	       waits_for_psbend(d, was_at, at);
	if (!late)
		push_event(d, &e);
	if (d->pending.has_late)
		push_event(d, &d->pending.late);
	d->pending.has_late = late;
	if (late)
		d->pending.late = e;
}

/* ---- blocks ---- */

/* The first TIME after a sync comes before the first code is asked for, as that
 * depends on who runs. True: it was emitted. */
static bool step_time(struct libipt *d)
{
	uint64_t tsc;

	if (d->times.asked)
		return false;
	d->times.asked = true;
	if (pt_blk_time(d->in.blk, &tsc, NULL, NULL) < 0)
		return false;
	libipt_push_time(d, tsc);
	return true;
}

/*
 * Blocks that need no packet and come back to where they were never end: code
 * and trace do not belong together. The ip at each power of two is compared
 * with later ones (Brent).
 */
static bool is_endless(struct libipt *d, uint64_t ip)
{
	if (d->loop.untraced > MAX_UNTRACED || ip == d->loop.ip)
		return true;
	if (d->loop.untraced == 2 * d->loop.mark) {
		d->loop.mark = d->loop.untraced;
		d->loop.ip = ip;
	}
	return false;
}

/* What is not needed for each block. False: no block now. */
static bool prepare_block(struct libipt *d)
{
	if (step_time(d))
		return false;
	d->in.status = libipt_use_image(d);
	if (d->in.status < 0) {
		fail(d, d->in.status);
		return false;
	}
	d->code.missed = false;
	return true;
}

static void step_block(struct libipt *d)
{
	struct pt_block b;

	d->in.status = pt_blk_next(d->in.blk, &b, sizeof(b));
	if (d->code.n_wanted)
		libipt_map_files(d);
	update_offset(d);
	if (d->pending.trace_on) {
		d->pending.trace_on = false;
		libipt_push_ip(d, AUX_FLOW_TRACE_ON, 0, true, b.ip);
		d->out.last_ip = b.ip;
	}
	if (!b.ninsn) {
		if (d->in.status >= 0 && ++d->loop.n_empty > MAX_UNTRACED)
			d->in.status = -pte_bad_query;
	} else if (!d->loop.untraced) {
		d->loop.mark = 1;
		d->loop.ip = b.ip;
		d->loop.n_empty = 0;
	} else if (d->in.status >= 0 && is_endless(d, b.ip)) {
		d->in.status = -pte_bad_query;
	}
	/* With missing code, what came before it did run, and libipt reads the
	 * next packet only after a block's own. With any other error the block
	 * itself may be what is wrong. */
	if (b.ninsn && is_certain(d->in.status))
		push_range(d, &b);
	if (d->in.status < 0)
		fail(d, d->in.status);
}

bool libipt_has_room(const struct libipt *d)
{
	return d->out.tail + N_STEP <= d->out.cap && d->out.committed - d->out.head < N_FILL;
}

void libipt_step(struct libipt *d)
{
	if (!d->synced) {
		synchronize(d);
	} else if (d->in.status & pts_event_pending) {
		d->loop.untraced = 0;
		step_event(d);
	} else if (d->in.status & pts_eos) {
		retract(d);
		d->end = LIBIPT_DONE;
	} else if (prepare_block(d)) {
		do {
			step_block(d);
		} while (!d->in.status && libipt_has_room(d));
	}
}
