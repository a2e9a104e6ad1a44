/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libipt: blocks as RANGEs, synchronization and errors.
 *
 * A RANGE that took no packet waits until a packet was taken where it leads; what
 * ran into a contradiction is taken back, so the flow shows only what ran.
 */
#include <string.h>

#include "decode/lib/libipt/impl.h"

static void update_offset(struct libipt *d)
{
	uint64_t pos;

	if (pt_blk_get_offset(d->blk, &pos) < 0)
		return;
	if (pos > d->chunk->len)
		pos = d->chunk->len;
	pos += d->chunk->stream_offset;
	if (pos > d->offset)
		d->offset = pos;
}

/* Takes back what no trace has confirmed: the last ip known is where it began. */
static void take_back(struct libipt *d)
{
	if (d->open == NONE && d->sure < d->tail) {
		d->last_ip = d->queue[d->sure].range.first;
		d->tail = d->sure;
	}
	libipt_confirm(d);
}

static inline const struct insn_end *find_end(struct libipt *d,
					      const struct pt_block *b)
{
	struct end_slot *s = &d->ends[(b->end_ip ^ b->end_ip >> 14) &
				      (N_ENDS - 1)];

	if (s->ip != b->end_ip || s->image != d->image->serial ||
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

/* A range that was cut for libipt's own reasons is made whole again. */
static struct aux_flow *last_fall(struct libipt *d, const struct pt_block *b)
{
	struct aux_flow *f = &d->queue[d->tail - 1];

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

	if (d->sure < d->tail) {
		libipt_settle(d, true, b->ip);
		if (d->sure < d->tail)
			f = last_fall(d, b);
	}
	if (!f) {
		f = &d->queue[d->tail++];
		f->offset = d->offset;
		f->kind = AUX_FLOW_RANGE;
		f->n = 0;
		f->range.first = b->ip;
	}
	f->what = end->kind;
	f->flags = mode_flags(b) | end->size;
	f->n += b->ninsn;
	f->range.last = b->end_ip;
	if (end->kind == AUX_END_COND) {
		d->sure = d->open = d->tail - 1;
		d->open_next = end->next;
		d->open_target = end->target;
		d->untraced = 0;
	} else if (end->kind == AUX_END_JUMP || end->kind == AUX_END_CALL ||
		   end->kind == AUX_END_FALL) {
		d->untraced++;
	} else {
		d->sure = d->tail;
		d->untraced = 0;
	}
	d->last_ip = b->end_ip;
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

/* The block's end was confirmed by trace, or never needed it. */
static bool is_certain(int status)
{
	return status >= 0 || status == -pte_nomap || status == -pte_bad_opc ||
	       status == -pte_bad_packet;
}

static void fail(struct libipt *d, int err)
{
	uint64_t ip;

	d->synced = false;
	d->has_late = false;
	d->untraced = 0;
	update_offset(d);
	if (is_certain(err))
		libipt_confirm(d);
	else
		take_back(d);
	ip = err == -pte_nomap && d->missed ? d->miss_ip : d->last_ip;
	if (err == -pte_nomem) {
		d->nomem = true;
	} else if (err == -pte_eos) {
		d->done = true;
	} else if (d->tailed && d->offset >= d->chunk->stream_offset +
						    d->chunk->len) {
		/* The end was not reached: only the walk's last bit is gone. */
		libipt_push_gap(d, AUX_GAP_DESYNC, ip, (uint64_t)-err);
		d->done = true;
	} else {
		libipt_push_gap(d, cause_of(err), ip, (uint64_t)-err);
	}
}

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
	const uint8_t *data = d->tailed ? d->tailed : d->chunk->data;
	const uint8_t *psb;
	uint64_t pos;

	/* A packet that was wrong may have run into a PSB. */
	if (pt_blk_get_offset(d->blk, &pos) == 0 &&
	    pos > d->sync + PSB_SIZE - 1)
		d->sync = pos - (PSB_SIZE - 1);
	psb = d->sync < d->chunk->len ?
		      find_psb(data + d->sync, data + d->chunk->len) : NULL;
	if (!psb) {
		d->done = true;
		return;
	}
	pos = (uint64_t)(psb - data);
	d->sync = pos + PSB_SIZE;
	if (d->offset < d->chunk->stream_offset + pos)
		d->offset = d->chunk->stream_offset + pos;
	d->have_time = false;
	d->timed = false;
	d->cr3 = 0;
	d->vmcs = 0;
	d->status = pt_blk_sync_set(d->blk, pos);
	if (d->status < 0) {
		fail(d, d->status);
		return;
	}
	d->synced = true;
	d->need_on = !(d->status & pts_ip_suppressed);
}

/* True: the event is of the packets that were added behind the chunk. */
static bool is_tail(struct libipt *d, const struct pt_event *e)
{
	uint64_t pos;

	return d->tailed && e->type == ptev_async_disabled &&
	       e->variant.async_disabled.at == d->chunk->end_ip &&
	       pt_blk_get_offset(d->blk, &pos) == 0 && pos >= d->len;
}

/* True: behind this one there are more events of its PSB+, which have its IP. libipt
 * goes behind the PSBEND with the last. */
static bool is_late(struct libipt *d)
{
	static const uint8_t psbend[] = { 0x02, 0x23 };
	const uint8_t *data = d->tailed ? d->tailed : d->chunk->data;
	uint64_t pos;

	return pt_blk_get_offset(d->blk, &pos) == 0 && pos < d->len &&
	       d->len - pos >= sizeof(psbend) &&
	       !memcmp(data + pos, psbend, sizeof(psbend));
}

static void push_event(struct libipt *d, const struct pt_event *e)
{
	if (e->has_tsc)
		libipt_push_time(d, e->tsc);
	libipt_push_event(d, e);
}

static void step_event(struct libipt *d)
{
	struct pt_event e;
	bool late = is_late(d);

	d->status = pt_blk_event(d->blk, &e, sizeof(e));
	if (d->status < 0) {
		fail(d, d->status);
		return;
	}
	if (is_tail(d, &e)) {
		libipt_settle(d, true, d->chunk->end_ip);
		d->done = true;
		return;
	}
	update_offset(d);
	late = late && e.type == ptev_cbr && e.status_update;
	if (!late)
		push_event(d, &e);
	if (d->has_late)
		push_event(d, &d->late);
	d->has_late = late;
	if (late)
		d->late = e;
}

/* ---- blocks ---- */

/* Who runs must be known before the first code is asked for. */
static bool step_time(struct libipt *d)
{
	uint64_t tsc;

	if (d->timed)
		return false;
	d->timed = true;
	if (pt_blk_time(d->blk, &tsc, NULL, NULL) < 0)
		return false;
	libipt_push_time(d, tsc);
	return true;
}

/*
 * Blocks that need no trace and come round again go on for ever: the trace and
 * the code do not fit. The ip at each power of two is compared with later ones.
 */
static bool is_endless(struct libipt *d, uint64_t ip)
{
	if (d->untraced > MAX_UNTRACED || ip == d->loop_ip)
		return true;
	if (d->untraced == 2 * d->loop_mark) {
		d->loop_mark = d->untraced;
		d->loop_ip = ip;
	}
	return false;
}

/* Everything that does not happen in each block. */
static bool prepare_block(struct libipt *d)
{
	if (step_time(d))
		return false;
	d->status = libipt_use_image(d);
	if (d->status < 0) {
		fail(d, d->status);
		return false;
	}
	d->missed = false;
	return true;
}

static void step_block(struct libipt *d)
{
	struct pt_block b;

	d->status = pt_blk_next(d->blk, &b, sizeof(b));
	if (d->n_wanted)
		libipt_map_wanted(d);
	update_offset(d);
	if (d->need_on) {
		d->need_on = false;
		libipt_push_ip(d, AUX_FLOW_TRACE_ON, 0, true, b.ip);
		d->last_ip = b.ip;
	}
	if (!b.ninsn) {
		if (d->status >= 0 && ++d->n_empty > MAX_UNTRACED)
			d->status = -pte_bad_query;
	} else if (!d->untraced) {
		d->loop_mark = 1;
		d->loop_ip = b.ip;
		d->n_empty = 0;
	} else if (d->status >= 0 && is_endless(d, b.ip)) {
		d->status = -pte_bad_query;
	}
	/* With missing code, what came before it did run; and libipt reads the
	 * next packet only after a block's own. With any other error the block
	 * may be the very thing that is wrong. */
	if (b.ninsn && is_certain(d->status))
		push_range(d, &b);
	if (d->status < 0)
		fail(d, d->status);
}

bool libipt_has_room(const struct libipt *d)
{
	return d->tail + N_STEP <= d->cap && d->sure - d->head < N_FILL;
}

void libipt_step(struct libipt *d)
{
	if (!d->synced) {
		synchronize(d);
	} else if (d->status & pts_event_pending) {
		d->untraced = 0;
		step_event(d);
	} else if (d->status & pts_eos) {
		take_back(d);
		d->done = true;
	} else if (prepare_block(d)) {
		do {
			step_block(d);
		} while (!d->status && libipt_has_room(d));
	}
}
