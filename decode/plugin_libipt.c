/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libipt: Intel PT through libipt's block decoder, the reference.
 *
 * libipt reads ahead, so what it says comes through a small queue: a RANGE waits
 * there until the next ip tells how its conditional branch went, and nothing is
 * asked of libipt while a TIME that reaches the host's horizon is queued. After
 * an error decoding goes on at a later PSB, always: each try starts behind the
 * one before.
 *
 * Blocks end at each branch (end_on_call, end_on_jump), so they are contiguous.
 * Specification: Intel SDM volume 3, chapter "Intel Processor Trace"; libipt 2.0.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <intel-pt.h>

#include <aux/decoder.h>

#define N_QUEUE 64
#define N_STEP 8		/* events of one step, at most */
#define N_IMAGES 32
#define N_ENDS 4096		/* power of two */
#define N_WANTED 4
#define ISCACHE_LIMIT (UINT64_C(1) << 30)
#define MAX_UNTRACED (1 << 16)	/* blocks in a row that need no trace */
#define PSB_SIZE 16
#define TAIL_SIZE 10		/* FUP with a full IP, TIP.PGD without one */

/* What the last instruction of a block does. */
struct insn_end {
	uint8_t size;		/* 0: not a branch, not known */
	uint8_t kind;		/* enum aux_range_end */
	uint64_t next;		/* behind it */
	uint64_t target;	/* of a direct branch */
};

struct end_slot {
	uint64_t ip, generation;
	uint8_t mode, used;
	struct insn_end end;
};

struct image_slot {
	struct pt_image *image;
	uint64_t generation;
	uint64_t used;		/* the clock of the last use */
};

struct libipt {
	const struct aux_decoder_config *config;
	const struct aux_decoder_host *host;
	struct pt_image_section_cache *iscache;
	struct image_slot images[N_IMAGES], *image;
	uint64_t image_clock;
	struct aux_code wanted[N_WANTED]; /* read by callback: to be mapped */
	unsigned n_wanted;
	struct end_slot ends[N_ENDS];

	struct pt_block_decoder *blk;
	const struct aux_chunk *chunk;
	uint8_t *tailed;	/* copy of the chunk with an end packet */
	uint64_t len;		/* of what libipt reads */
	uint64_t sync;		/* next offset to look for a PSB */
	uint64_t offset;	/* of the last event */
	int status;		/* of the last libipt call */
	bool synced, done, nomem;
	bool need_on;		/* TRACE_ON is due before the next RANGE */
	bool have_time, timed;	/* ever; since the last sync */
	uint64_t tsc;
	uint64_t pushed_tsc, given_tsc; /* of the last TIME, ever */
	uint64_t last_ip, miss_ip, cr3, vmcs;
	bool missed;
	uint32_t untraced;	/* blocks since trace was last needed */
	uint32_t loop_mark;	/* untraced, when loop_ip was the block's ip */
	uint64_t loop_ip, loop_offset;

	struct aux_flow queue[N_QUEUE];
	unsigned n_queue;
	int open;		/* RANGE in queue that may change, or -1 */
	struct insn_end open_end;
	bool at_horizon;	/* a TIME in queue reaches it */
};

/* ---- code bytes ---- */

/* libipt asks here for what is in no section yet. */
static int read_memory(uint8_t *buf, size_t size, const struct pt_asid *asid,
		       uint64_t ip, void *priv)
{
	struct libipt *d = priv;
	struct aux_code c = { 0 };
	uint64_t left;

	(void)asid;
	if (d->host->code(d->host->priv, ip, &c) < 0 || ip < c.start ||
	    ip >= c.end) {
		d->missed = true;
		d->miss_ip = ip;
		return -pte_nomap;
	}
	left = c.end - ip;
	if (size > left)
		size = left;
	memcpy(buf, c.bytes + (ip - c.start), size);
	if (c.path && d->n_wanted < N_WANTED)
		d->wanted[d->n_wanted++] = c;
	return (int)size;
}

/* Maps what was read by callback, so that libipt can cache its blocks. */
static void map_wanted(struct libipt *d)
{
	for (unsigned i = 0; i < d->n_wanted; i++) {
		const struct aux_code *c = &d->wanted[i];
		int isid = pt_iscache_add_file(d->iscache, c->path,
					       c->path_offset,
					       c->end - c->start, c->start);

		if (isid > 0)
			pt_image_add_cached(d->image->image, d->iscache, isid,
					    NULL);
	}
	d->n_wanted = 0;
}

static struct image_slot *oldest_image(struct libipt *d)
{
	struct image_slot *old = &d->images[0];

	for (unsigned i = 1; i < N_IMAGES && old->image; i++) {
		if (!d->images[i].image || d->images[i].used < old->used)
			old = &d->images[i];
	}
	return old;
}

/* The image of the host's generation; libipt hears of it only on a change. */
static int use_image(struct libipt *d)
{
	uint64_t generation = d->host->generation;
	struct image_slot *slot = NULL;

	if (d->image && d->image->generation == generation)
		return 0;
	for (unsigned i = 0; i < N_IMAGES && !slot; i++) {
		if (d->images[i].image &&
		    d->images[i].generation == generation)
			slot = &d->images[i];
	}
	if (!slot) {
		struct pt_image *image = pt_image_alloc(NULL);

		if (!image)
			return -pte_nomem;
		pt_image_set_callback(image, read_memory, d);
		slot = oldest_image(d);
		/* The slot in use is never the oldest one. */
		pt_image_free(slot->image);
		slot->image = image;
		slot->generation = generation;
	}
	slot->used = ++d->image_clock;
	d->image = slot;
	return pt_blk_set_image(d->blk, slot->image);
}

/* ---- the last instruction of a block ---- */

static unsigned modrm_size(const uint8_t *p, size_t n, bool addr16)
{
	unsigned mod, rm, size = 1;

	if (!n)
		return 0;
	mod = p[0] >> 6;
	rm = p[0] & 7;
	if (mod == 3)
		return 1;
	if (addr16)
		return mod == 0 ? (rm == 6 ? 3 : 1) : 1 + mod;
	if (rm == 4) {
		size++;
		if (n > 1 && mod == 0 && (p[1] & 7) == 5)
			size += 4;
	} else if (mod == 0 && rm == 5) {
		size += 4;
	}
	return size + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
}

static int64_t get_disp(const uint8_t *p, unsigned size)
{
	int32_t d32;
	int16_t d16;

	if (size == 1)
		return (int8_t)*p;
	if (size == 2) {
		memcpy(&d16, p, 2);
		return d16;
	}
	memcpy(&d32, p, 4);
	return d32;
}

/* Opcodes behind 0F. Sets kind; returns bytes of displacement. */
static unsigned classify_0f(const uint8_t *p, size_t n, unsigned wide,
			    unsigned *len, uint8_t *kind)
{
	if (!n)
		return 0;
	*len += 1;
	if (p[0] >= 0x80 && p[0] <= 0x8f) {
		*kind = AUX_END_COND;
		return wide;
	}
	if (p[0] == 0x05 || p[0] == 0x34)
		*kind = AUX_END_SYSCALL;
	else if (p[0] == 0x07 || p[0] == 0x35 || p[0] == 0xaa)
		*kind = AUX_END_FAR;
	else if (p[0] == 0x01 && n > 1 && p[1] >= 0xc1 && p[1] <= 0xc4) {
		*kind = AUX_END_FAR; /* vmcall, vmlaunch, vmresume, vmxoff */
		*len += 1;
	}
	return 0;
}

/* One-byte opcodes. Sets kind and adds to len; returns displacement bytes. */
static unsigned classify_1(uint8_t op, const uint8_t *p, size_t n,
			   unsigned wide, bool addr16, unsigned *len,
			   uint8_t *kind)
{
	switch (op) {
	case 0x70 ... 0x7f:
	case 0xe0 ... 0xe3:
		*kind = AUX_END_COND;
		return 1;
	case 0xeb:
		*kind = AUX_END_JUMP;
		return 1;
	case 0xe9:
		*kind = AUX_END_JUMP;
		return wide;
	case 0xe8:
		*kind = AUX_END_CALL;
		return wide;
	case 0xc2:
		*len += 2;
		/* fall through */
	case 0xc3:
		*kind = AUX_END_RET;
		return 0;
	case 0xca:
		*len += 2;
		/* fall through */
	case 0xcb:
	case 0xcf:
		*kind = AUX_END_FAR;
		return 0;
	case 0xcd:
		*len += 1;
		/* fall through */
	case 0xcc:
	case 0xce:
	case 0xf1:
		*kind = AUX_END_SYSCALL;
		return 0;
	case 0x9a:
	case 0xea:
		*len += wide + 2;
		*kind = AUX_END_FAR;
		return 0;
	case 0xff:
		if (!n || (p[0] >> 3 & 7) < 2 || (p[0] >> 3 & 7) > 5)
			return 0;
		*len += modrm_size(p, n, addr16);
		*kind = (p[0] >> 3 & 7) == 2 ? AUX_END_IND_CALL :
			(p[0] >> 3 & 7) == 4 ? AUX_END_IND_JUMP : AUX_END_FAR;
		return 0;
	case 0x0f:
		return classify_0f(p, n, wide, len, kind);
	default:
		return 0;
	}
}

/* Branches alone are told apart; size stays 0 for all else. */
static void classify(const uint8_t *p, size_t n, uint64_t ip,
		     enum pt_exec_mode mode, struct insn_end *end)
{
	bool opsize = mode == ptem_16bit, addr16 = mode == ptem_16bit;
	unsigned i = 0, len, disp;

	*end = (struct insn_end){ .kind = AUX_END_FALL };
	for (; i < n; i++) {
		uint8_t b = p[i];

		if (b == 0x66)
			opsize = mode != ptem_16bit;
		else if (b == 0x67)
			addr16 = mode == ptem_32bit;
		else if (b != 0xf2 && b != 0xf3 && b != 0xf0 && b != 0x2e &&
			 b != 0x36 && b != 0x3e && b != 0x26 && b != 0x64 &&
			 b != 0x65 &&
			 !(mode == ptem_64bit && (b & 0xf0) == 0x40))
			break;
	}
	if (i >= n)
		return;
	len = i + 1;
	disp = classify_1(p[i], p + i + 1, n - i - 1,
			  opsize && mode != ptem_64bit ? 2 : 4, addr16, &len,
			  &end->kind);
	if (end->kind == AUX_END_FALL)
		return;
	if (len + disp > n) {
		end->kind = AUX_END_FALL;
		return;
	}
	end->size = (uint8_t)(len + disp);
	end->next = ip + end->size;
	if (disp)
		end->target = end->next + (uint64_t)get_disp(p + len, disp);
	if (mode != ptem_64bit)
		end->target &= opsize ? 0xffff : 0xffffffff;
}

/* What libipt calls a branch is one, though its bytes say nothing to us. */
static void trust_class(struct insn_end *end, enum pt_insn_class iclass)
{
	static const uint8_t kinds[] = {
		[ptic_call] = AUX_END_IND_CALL, [ptic_return] = AUX_END_RET,
		[ptic_jump] = AUX_END_IND_JUMP, [ptic_cond_jump] = AUX_END_COND,
		[ptic_far_call] = AUX_END_FAR, [ptic_far_return] = AUX_END_FAR,
		[ptic_far_jump] = AUX_END_FAR,
	};

	if (end->kind == AUX_END_FALL &&
	    (unsigned)iclass < sizeof(kinds) / sizeof(kinds[0]))
		end->kind = kinds[iclass];
}

static const struct insn_end *find_end(struct libipt *d,
				       const struct pt_block *b)
{
	uint64_t generation = d->host->generation;
	struct end_slot *s = &d->ends[(b->end_ip ^ b->end_ip >> 12) &
				      (N_ENDS - 1)];
	struct aux_code c;
	uint64_t left;

	if (s->used && s->ip == b->end_ip && s->generation == generation &&
	    s->mode == b->mode && !b->truncated)
		return &s->end;
	*s = (struct end_slot){ .ip = b->end_ip, .generation = generation,
				.mode = (uint8_t)b->mode,
				.used = !b->truncated };
	if (b->truncated) {
		classify(b->raw, b->size <= sizeof(b->raw) ? b->size : 0,
			 b->end_ip, b->mode, &s->end);
	} else if (d->host->code(d->host->priv, b->end_ip, &c) == 0) {
		left = c.end - b->end_ip;
		classify(c.bytes + (b->end_ip - c.start), left < 15 ? left : 15,
			 b->end_ip, b->mode, &s->end);
	}
	trust_class(&s->end, b->iclass);
	return &s->end;
}

/* ---- the queue ---- */

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

static struct aux_flow *push(struct libipt *d, enum aux_flow_kind kind,
			     unsigned what)
{
	struct aux_flow *f = &d->queue[d->n_queue++];

	*f = (struct aux_flow){ .offset = d->offset, .kind = (uint8_t)kind,
				.what = (uint8_t)what };
	return f;
}

/* The flow goes on at ip: settles how the open range ended. */
static void settle(struct libipt *d, bool known, uint64_t ip)
{
	struct aux_flow *f = &d->queue[d->open >= 0 ? d->open : 0];

	if (d->open < 0)
		return;
	d->open = -1;
	if (f->what != AUX_END_COND || !known)
		return;
	if (ip == d->open_end.next)
		f->what = AUX_END_COND_NOT_TAKEN;
	else if (ip == d->open_end.target)
		f->what = AUX_END_COND_TAKEN;
}

static uint64_t to_ns(const struct aux_clock *c, uint64_t tsc)
{
	uint64_t quot, rem;

	if (!c->mult || c->shift > 63)
		return 0;
	if (c->mask && c->mask != UINT64_MAX)
		tsc = c->cycles + ((tsc - c->cycles) & c->mask);
	quot = tsc >> c->shift;
	rem = tsc & ((UINT64_C(1) << c->shift) - 1);
	return c->zero + quot * c->mult + (rem * c->mult >> c->shift);
}

/* Estimated time may step back; TIME does so only at a new sync. */
static void push_time(struct libipt *d, uint64_t tsc)
{
	struct aux_flow *f;

	d->timed = true;
	if (d->have_time && tsc <= d->tsc)
		return;
	d->have_time = true;
	d->tsc = tsc;
	f = push(d, AUX_FLOW_TIME, 0);
	f->flags = AUX_FLOW_HAS_TSC;
	f->time.tsc = tsc;
	f->time.ns = to_ns(&d->config->clock, tsc);
	if (tsc >= d->host->horizon_tsc || tsc < d->pushed_tsc)
		d->at_horizon = true;
	d->pushed_tsc = tsc;
}

static void push_ip(struct libipt *d, enum aux_flow_kind kind, unsigned what,
		    bool known, uint64_t ip)
{
	struct aux_flow *f = push(d, kind, what);

	if (!known)
		return;
	f->flags = AUX_FLOW_HAS_IP;
	f->trace.ip = ip;
}

static void push_gap(struct libipt *d, enum aux_gap_cause cause, uint64_t ip,
		     uint64_t detail)
{
	struct aux_flow *f;

	settle(d, false, 0);
	f = push(d, AUX_FLOW_GAP, cause);
	f->flags = AUX_FLOW_HAS_IP;
	f->gap.ip = ip;
	f->gap.detail = detail;
}

static uint16_t mode_flags(const struct pt_block *b)
{
	uint16_t mode = b->mode == ptem_32bit ? AUX_FLOW_MODE_X86_32 :
			b->mode == ptem_16bit ? AUX_FLOW_MODE_X86_16 :
						AUX_FLOW_MODE_X86_64;

	return mode | (b->speculative ? AUX_FLOW_IN_TX : 0);
}

/* A range that was cut for libipt's own reasons is made whole again. */
static struct aux_flow *extend_open(struct libipt *d, uint64_t ip,
				    uint16_t mode)
{
	struct aux_flow *f;

	if (d->open < 0 || (unsigned)d->open != d->n_queue - 1)
		return NULL;
	f = &d->queue[d->open];
	if (f->what != AUX_END_FALL || f->n > UINT32_MAX - UINT16_MAX ||
	    ip - f->range.last - 1 >= pt_max_insn_size ||
	    (f->flags & ~AUX_FLOW_SIZE_MASK) != mode)
		return NULL;
	return f;
}

static void push_range(struct libipt *d, const struct pt_block *b)
{
	const struct insn_end *end = find_end(d, b);
	uint16_t mode = mode_flags(b);
	struct aux_flow *f = extend_open(d, b->ip, mode);

	if (!f) {
		settle(d, true, b->ip);
		f = push(d, AUX_FLOW_RANGE, 0);
		f->range.first = b->ip;
	}
	f->what = end->kind;
	f->flags = mode | (end->size & AUX_FLOW_SIZE_MASK);
	f->n += b->ninsn;
	f->range.last = b->end_ip;
	d->last_ip = b->end_ip;
	d->open = -1;
	if (end->kind == AUX_END_COND || end->kind == AUX_END_FALL) {
		d->open = (int)(f - d->queue);
		d->open_end = *end;
	}
	if (end->kind == AUX_END_JUMP || end->kind == AUX_END_CALL ||
	    end->kind == AUX_END_FALL)
		d->untraced++;
	else
		d->untraced = 0;
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

static void fail(struct libipt *d, int err)
{
	uint64_t ip = err == -pte_nomap && d->missed ? d->miss_ip : d->last_ip;

	d->synced = false;
	d->untraced = 0;
	update_offset(d);
	if (err == -pte_nomem) {
		d->nomem = true;
	} else if (err == -pte_eos) {
		d->done = true;
		settle(d, false, 0);
	} else if (d->tailed && d->offset >= d->chunk->stream_offset +
						    d->chunk->len) {
		/* The end was not reached: only the walk's last bit is gone. */
		push_gap(d, AUX_GAP_DESYNC, ip, (uint64_t)-err);
		d->done = true;
	} else {
		push_gap(d, cause_of(err), ip, (uint64_t)-err);
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

	if (pt_blk_get_offset(d->blk, &pos) == 0 && pos > d->sync)
		d->sync = pos;
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

/* ---- libipt's events ---- */

static void push_context(struct libipt *d)
{
	struct aux_flow *f = push(d, AUX_FLOW_CONTEXT, 0);

	f->context.cr3 = d->cr3;
	f->context.vmcs = d->vmcs;
}

static void push_power(struct libipt *d, enum aux_power_kind what, bool known,
		       uint64_t ip, uint64_t value)
{
	struct aux_flow *f = push(d, AUX_FLOW_POWER, what);

	f->flags = known ? AUX_FLOW_HAS_IP : 0;
	f->payload.ip = known ? ip : 0;
	f->payload.value = value;
}

static void push_tsx(struct libipt *d, const struct pt_event *e)
{
	if (e->status_update && !e->variant.tsx.speculative)
		return;
	push_ip(d, AUX_FLOW_TX,
		e->variant.tsx.aborted ? AUX_TX_ABORT :
		e->variant.tsx.speculative ? AUX_TX_BEGIN : AUX_TX_COMMIT,
		!e->ip_suppressed, e->variant.tsx.ip);
}

static void push_async(struct libipt *d, uint64_t from, uint64_t to)
{
	struct aux_flow *f;

	settle(d, true, from);
	f = push(d, AUX_FLOW_ASYNC, AUX_ASYNC_UNKNOWN);
	f->flags = AUX_FLOW_HAS_IP;
	f->async.from = from;
	f->async.to = to;
}

/* Events about control flow. False: it is another one. */
static bool push_flow_event(struct libipt *d, const struct pt_event *e)
{
	bool ip = !e->ip_suppressed;

	switch (e->type) {
	case ptev_enabled:
		d->need_on = false;
		settle(d, false, 0);
		push_ip(d, AUX_FLOW_TRACE_ON, 0, ip, e->variant.enabled.ip);
		d->last_ip = e->variant.enabled.ip;
		return true;
	case ptev_disabled:
		d->need_on = false;
		settle(d, ip, e->variant.disabled.ip);
		push_ip(d, AUX_FLOW_TRACE_OFF, 0, ip, e->variant.disabled.ip);
		return true;
	case ptev_async_disabled:
		d->need_on = false;
		push_async(d, e->variant.async_disabled.at, 0);
		push_ip(d, AUX_FLOW_TRACE_OFF, 0, ip,
			e->variant.async_disabled.ip);
		return true;
	case ptev_async_branch:
		push_async(d, e->variant.async_branch.from,
			   ip ? e->variant.async_branch.to : 0);
		return true;
	case ptev_overflow:
		d->need_on = false;
		push_gap(d, AUX_GAP_OVERFLOW, ip ? e->variant.overflow.ip : 0,
			 0);
		if (!ip)
			d->queue[d->n_queue - 1].flags = 0;
		return true;
	default:
		return false;
	}
}

static void push_event(struct libipt *d, const struct pt_event *e)
{
	struct aux_flow *f;
	bool ip = !e->ip_suppressed;

	if (push_flow_event(d, e))
		return;
	switch (e->type) {
	case ptev_paging:
	case ptev_async_paging:
		d->cr3 = e->variant.paging.cr3;
		push_context(d);
		break;
	case ptev_vmcs:
	case ptev_async_vmcs:
		d->vmcs = e->variant.vmcs.base;
		push_context(d);
		break;
	case ptev_tsx:
		push_tsx(d, e);
		break;
	case ptev_ptwrite:
		f = push(d, AUX_FLOW_PAYLOAD, 0);
		f->n = e->variant.ptwrite.size;
		f->flags = ip ? AUX_FLOW_HAS_IP : 0;
		f->payload.ip = ip ? e->variant.ptwrite.ip : 0;
		f->payload.value = e->variant.ptwrite.payload;
		break;
	case ptev_exstop:
		push_power(d, AUX_POWER_STOPPED, ip, e->variant.exstop.ip, 0);
		break;
	case ptev_mwait:
		push_power(d, AUX_POWER_MWAIT, ip, e->variant.mwait.ip,
			   e->variant.mwait.hints |
				   (uint64_t)e->variant.mwait.ext << 32);
		break;
	case ptev_pwre:
		push_power(d, AUX_POWER_ENTRY, false, 0,
			   e->variant.pwre.state |
				   e->variant.pwre.sub_state << 8);
		break;
	case ptev_pwrx:
		push_power(d, AUX_POWER_EXIT, false, 0,
			   e->variant.pwrx.last |
				   e->variant.pwrx.deepest << 8);
		break;
	case ptev_cbr:
		push_power(d, AUX_POWER_RATIO, false, 0, e->variant.cbr.ratio);
		break;
	default: /* tick, exec_mode, stop, mnt: nothing beyond their time */
		break;
	}
}

/* True: the event is of the packets that were added behind the chunk. */
static bool is_tail(struct libipt *d, const struct pt_event *e)
{
	uint64_t pos;

	return d->tailed && e->type == ptev_async_disabled &&
	       e->variant.async_disabled.at == d->chunk->end_ip &&
	       pt_blk_get_offset(d->blk, &pos) == 0 && pos >= d->len;
}

static void step_event(struct libipt *d)
{
	struct pt_event e;

	d->status = pt_blk_event(d->blk, &e, sizeof(e));
	if (d->status < 0) {
		fail(d, d->status);
		return;
	}
	if (is_tail(d, &e)) {
		settle(d, true, d->chunk->end_ip);
		d->done = true;
		return;
	}
	update_offset(d);
	if (e.has_tsc)
		push_time(d, e.tsc);
	push_event(d, &e);
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
	push_time(d, tsc);
	return true;
}

/*
 * Blocks that need no trace and come round again go on for ever: the trace and
 * the code do not fit. The ip at each power of two is compared with later ones.
 */
static bool is_endless(struct libipt *d, uint64_t ip)
{
	if (d->untraced > MAX_UNTRACED)
		return true;
	if (d->untraced && ip == d->loop_ip && d->offset == d->loop_offset)
		return true;
	if (!d->untraced || d->untraced == 2 * d->loop_mark) {
		d->loop_mark = d->untraced ? d->untraced : 1;
		d->loop_ip = ip;
		d->loop_offset = d->offset;
	}
	return false;
}

/* The block's end was confirmed by trace, or never needed it. */
static bool is_certain(int status)
{
	return status >= 0 || status == -pte_nomap || status == -pte_bad_opc ||
	       status == -pte_bad_packet;
}

static void step_block(struct libipt *d)
{
	struct pt_block b;

	if (step_time(d))
		return;
	d->status = use_image(d);
	if (d->status < 0) {
		fail(d, d->status);
		return;
	}
	d->missed = false;
	d->status = pt_blk_next(d->blk, &b, sizeof(b));
	map_wanted(d);
	update_offset(d);
	if (d->need_on) {
		d->need_on = false;
		push_ip(d, AUX_FLOW_TRACE_ON, 0, true, b.ip);
		d->last_ip = b.ip;
	}
	if (d->status >= 0 && is_endless(d, b.ip))
		d->status = -pte_bad_query;
	/* With missing code, what came before it did run; and libipt reads the
	 * next packet only after a block's own. With any other error the block
	 * may be the very thing that is wrong. */
	if (b.ninsn && is_certain(d->status))
		push_range(d, &b);
	else
		d->untraced++;
	if (d->status < 0)
		fail(d, d->status);
}

static void step(struct libipt *d)
{
	if (!d->synced) {
		synchronize(d);
	} else if (d->status & pts_event_pending) {
		d->untraced = 0;
		step_event(d);
	} else if (d->status & pts_eos) {
		settle(d, false, 0);
		d->done = true;
	} else {
		step_block(d);
	}
}

/* ---- the interface ---- */

static void set_cpu(struct pt_config *c, const struct aux_pt_config *pt)
{
	if (!pt->cpu_intel || !pt->cpu_family)
		return;
	c->cpu.vendor = pcv_intel;
	c->cpu.family = pt->cpu_family;
	c->cpu.model = pt->cpu_model;
	c->cpu.stepping = pt->cpu_stepping;
	if (pt_cpu_errata(&c->errata, &c->cpu) < 0)
		memset(&c->errata, 0, sizeof(c->errata));
}

static void set_filters(struct pt_config *c,
			const struct aux_decoder_config *config)
{
	uint64_t *const a[] = {
		&c->addr_filter.addr0_a, &c->addr_filter.addr1_a,
		&c->addr_filter.addr2_a, &c->addr_filter.addr3_a,
	};

	for (uint32_t i = 0; i < config->n_filters && i < 4; i++) {
		c->addr_filter.config.addr_cfg |= UINT64_C(1) << (4 * i);
		a[i][0] = config->filters[i].start;
		a[i][1] = config->filters[i].end - 1;
	}
}

static void set_config(struct pt_config *c,
		       const struct aux_decoder_config *config)
{
	pt_config_init(c);
	c->flags.variant.block.end_on_call = 1;
	c->flags.variant.block.end_on_jump = 1;
	c->flags.variant.block.enable_tick_events = 1;
	c->cpuid_0x15_eax = config->pt.tsc_ctc_ratio_d;
	c->cpuid_0x15_ebx = config->pt.tsc_ctc_ratio_n;
	c->mtc_freq = (uint8_t)config->pt.mtc_period;
	c->nom_freq = (uint8_t)config->pt.max_nonturbo_ratio;
	set_cpu(c, &config->pt);
	set_filters(c, config);
}

static void close_libipt(void *dec)
{
	struct libipt *d = dec;

	if (!d)
		return;
	pt_blk_free_decoder(d->blk);
	for (unsigned i = 0; i < N_IMAGES; i++)
		pt_image_free(d->images[i].image);
	pt_iscache_free(d->iscache);
	free(d->tailed);
	free(d);
}

static int open_libipt(void **dec, const struct aux_decoder_config *config,
		       const struct aux_decoder_host *host,
		       struct aux_diag *diag)
{
	struct libipt *d = calloc(1, sizeof(*d));

	(void)diag;
	*dec = NULL;
	if (!d)
		return -AUX_E_NOMEM;
	d->config = config;
	d->host = host;
	d->iscache = pt_iscache_alloc(NULL);
	if (!d->iscache) {
		close_libipt(d);
		return -AUX_E_NOMEM;
	}
	pt_iscache_set_limit(d->iscache, ISCACHE_LIMIT);
	*dec = d;
	return 0;
}

/* The chunk, and behind it: "tracing ended asynchronously at end_ip". */
static int add_tail(struct libipt *d)
{
	uint8_t *p = malloc(d->chunk->len + TAIL_SIZE);

	if (!p)
		return -AUX_E_NOMEM;
	d->tailed = p;
	memcpy(p, d->chunk->data, d->chunk->len);
	p += d->chunk->len;
	*p++ = 0xdd; /* FUP, full IP */
	memcpy(p, &d->chunk->end_ip, 8);
	p[8] = 0x01; /* TIP.PGD without an IP */
	d->len += TAIL_SIZE;
	return 0;
}

static int start_libipt(void *dec, const struct aux_chunk *chunk)
{
	struct libipt *d = dec;
	struct pt_config c;

	pt_blk_free_decoder(d->blk);
	free(d->tailed);
	d->blk = NULL;
	d->tailed = NULL;
	d->image = NULL;
	d->chunk = chunk;
	d->len = chunk->len;
	d->sync = 0;
	d->offset = chunk->stream_offset;
	d->synced = d->nomem = d->need_on = d->at_horizon = false;
	d->have_time = false;
	d->last_ip = 0;
	d->untraced = 0;
	d->n_queue = 0;
	d->open = -1;
	d->done = !chunk->len;
	if (d->done)
		return 0;
	if (chunk->flags & AUX_CHUNK_HAS_END_IP && add_tail(d) < 0)
		return -AUX_E_NOMEM;
	set_config(&c, d->config);
	/* libipt only reads, though it takes pointers to non-const. */
	c.begin = (uint8_t *)(uintptr_t)(d->tailed ? d->tailed : chunk->data);
	c.end = c.begin + d->len;
	d->blk = pt_blk_alloc_decoder(&c);
	return d->blk ? 0 : -AUX_E_NOMEM;
}

/*
 * Gives what is settled. Stops behind a TIME that reaches the horizon, and
 * tells so: then what waits for its end will not learn it.
 */
static size_t drain(struct libipt *d, struct aux_flow *out, size_t max,
		    bool *stop)
{
	size_t n = 0;

	if (d->at_horizon || d->done || d->n_queue > N_QUEUE - N_STEP)
		settle(d, false, 0);
	d->at_horizon = false;
	*stop = false;
	while (n < max && n < d->n_queue && (int)n != d->open && !*stop) {
		out[n] = d->queue[n];
		if (out[n].kind == AUX_FLOW_TIME) {
			*stop = out[n].time.tsc >= d->host->horizon_tsc ||
				out[n].time.tsc < d->given_tsc;
			d->given_tsc = out[n].time.tsc;
		}
		n++;
	}
	d->n_queue -= (unsigned)n;
	memmove(d->queue, d->queue + n, d->n_queue * sizeof(*d->queue));
	if (d->open >= 0)
		d->open -= (int)n;
	return n;
}

static int decode_libipt(void *dec, struct aux_flow *out, size_t max)
{
	struct libipt *d = dec;
	size_t n = 0;
	bool stop;

	for (;;) {
		n += drain(d, out + n, max - n, &stop);
		if (stop || n == max)
			return (int)n;
		if (d->done && !d->n_queue)
			return (int)n;
		if (d->nomem)
			return -AUX_E_NOMEM;
		while (!d->done && !d->nomem && !d->at_horizon &&
		       d->n_queue <= N_QUEUE - N_STEP)
			step(d);
	}
}

#ifdef AUX_PLUGIN
#define aux_decoder_libipt aux_decoder_plugin
#endif
extern const struct aux_decoder_ops aux_decoder_libipt;

const struct aux_decoder_ops aux_decoder_libipt = {
	.abi = AUX_DECODER_ABI,
	.size = sizeof(struct aux_decoder_ops),
	.name = "libipt",
	.help = "Intel PT by libipt, the reference",
	.trace_type = AUX_TRACE_INTEL_PT,
	.open = open_libipt,
	.start = start_libipt,
	.decode = decode_libipt,
	.close = close_libipt,
};
