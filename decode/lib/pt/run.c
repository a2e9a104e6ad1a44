/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pt: the quick way: TNT and TIP packets along paths, and the packets of time.
 *
 * Whatever else comes, and whatever does not fit, is left as it is found for the
 * slow way. A TNT that was taken here stands only once it is known that no broken
 * packet follows it (mark), as libipt reads one packet ahead.
 */
#include "decode/lib/pt/engine.h"
#include "decode/lib/pt/packets.h"
#include "decode/lib/pt/quick.h"
#include "decode/lib/pt/stack.h"

#define SHORT_TNT 7	/* events: of its bits, and a TIP behind them */
#define TSC_MASK ((UINT64_C(1) << 56) - 1)
#define TAIL 16		/* no packet that is taken here is longer */

/* ---- events ---- */

/* The RANGEs of a path that is not given as such: their end, NULL: no room. */
static struct aux_flow *put_ranges(const struct pt_quick *r, const struct pt_path *path)
{
	struct aux_flow *o = r->o;

	if ((size_t)(r->end - o) < path->pub.n_ranges)
		return NULL;
	for (uint32_t i = 0; i < path->pub.n_steps; i++) {
		const struct aux_step *s = path->pub.steps[i];

		for (uint32_t k = 0; k < s->n_ranges; k++) {
			*o = s->ranges[k];
			o++->offset = r->offset;
		}
	}
	return o;
}

static bool put_path(struct pt_quick *r, const struct pt_entry *e)
{
	struct aux_flow *o = r->o;

	if (r->paths) {
		*o++ = (struct aux_flow){ .offset = r->offset,
					  .kind = AUX_FLOW_PATH,
					  .n = e->n_insns,
					  .path = { &e->path->pub, 0 } };
	} else {
		o = put_ranges(r, e->path);
		if (!o)
			return false;
	}
	r->o = o;
	return true;
}

/* ---- along paths ---- */

static void push_calls(struct pt *d, const struct pt_entry *e)
{
	const uint64_t *sites = e->path->sites;

	d->depth = (d->depth > e->room ? e->room : d->depth) + e->n_calls;
	/* A path that is not kept does not stay where it is. */
	for (unsigned i = 0; e == &d->entry && i < e->n_calls; i++)
		pt_push_own(d, sites[i]);
	if (e == &d->entry || !e->n_calls)
		return;
	d->calls[d->top++ & (PT_STACK - 1)] =
		(struct pt_calls){ sites, e->n_calls };
}

static const struct pt_entry *find_path(const struct pt_quick *r)
{
	const struct pt_store *s = &r->d->store;
	uint64_t key = r->place | r->mode | pt_key_bits(r->left);
	const struct pt_entry *e = pt_entry_at(s->paths, s->path_mask,
					       pt_path_hash(key));

	e += e->key != key;
	if (e->key == key && s->ready[pt_entry_where(e)] != PT_UNKNOWN)
		return e;
	return pt_path_find(r->d, r->place, r->left);
}

/* To an address that a place can hold. */
static bool can_pop(const struct pt *d)
{
	return d->depth && pt_is_canonical(pt_top_call(d));
}

/* Along the bits that are left, up to the branch that takes the TIP, if there is to be
 * one. False: the slow way has to go on. */
static bool take_bits(struct pt_quick *r)
{
	struct pt *d = r->d;
	const struct pt_entry *e;
	enum pt_path_end end;

	do {
		e = find_path(r);
		if (!e)
			return false;
		end = pt_entry_end(e);
		if ((end == PT_END_POP && !can_pop(d)) ||
		    (e->n_insns && !put_path(r, e)))
			return false;
		push_calls(d, e);
		r->left = e->left | (r->left & PT_TIP);
		r->place = end == PT_END_POP ? pt_place(pt_pop_call(d)) :
					       e->next & PT_PLACE_MASK;
		if (end == PT_END_STOP)
			return false;
	} while (end != PT_END_TIP && r->left > 1);
	return true;
}

static void set_mark(struct pt_quick *r)
{
	r->mark = r->o;
	r->mark_place = r->place;
	r->mark_tip = false;
}

/* The TIP at r->p, behind its branch. */
static void follow_tip(struct pt_quick *r)
{
	const struct quick_tip *t = &quick_tips[*r->p];

	r->last_ip = (r->last_ip & ~t->mask) |
		     (load_le64(r->p + 1) << 16 & t->mask);
	r->place = r->last_ip;
	r->d->have_ip = true;
	r->d->suppressed = false;
	r->mark_tip = true;
	r->p += t->size;
}

/* Bits that the slow way has to take. */
static void leave_bits(struct pt_quick *r)
{
	unsigned left = r->left & ~PT_TIP;
	unsigned k = 31 - (unsigned)__builtin_clz(left);

	r->d->n_bits = k + r->n;
	r->d->bits = (uint64_t)(left & ((1U << k) - 1)) << r->n |
		     (r->rest & ((UINT64_C(1) << r->n) - 1));
}

/* All n bits of r->rest in groups. False: the slow way has to go on. */
static bool take_groups(struct pt_quick *r)
{
	while (r->n) {
		unsigned k = r->n < PT_GROUP ? r->n : PT_GROUP;

		r->n -= k;
		r->left = (unsigned)(r->rest >> r->n & ((1U << k) - 1)) |
			  1U << k;
		if (!take_bits(r))
			return false;
	}
	return true;
}

/* A TNT, at r->p. False: the slow way has to go on, or has to take it. */
static bool take_tnt(struct pt_quick *r, unsigned n, uint64_t bits, unsigned size)
{
	bool whole, tip = size == 1 && r->paths == AUX_PATHS_JOINED &&
			  quick[r->p[1]] == TIP;

	set_mark(r);
	r->n = 0;
	r->rest = bits;
	if (n > PT_GROUP) {
		r->n = n;
		whole = take_groups(r);
	} else {
		r->left = (unsigned)bits | (tip ? PT_TIP : 0);
		whole = take_bits(r);
	}
	if (whole) {
		r->p += size;
		if (tip)
			follow_tip(r);
		return true;
	}
	leave_bits(r);
	if (r->d->n_bits == n) {
		r->d->n_bits = 0;
		r->mark = NULL;
	} else {
		r->p += size;
	}
	return false;
}

/* The TIP at r->p, alone. The same. */
static bool take_tip(struct pt_quick *r)
{
	struct aux_flow *o = r->o;
	uint64_t place = r->place;

	r->left = 1 | PT_TIP;
	if (!take_bits(r))
		return false;
	r->mark = o;
	r->mark_place = place;
	follow_tip(r);
	return true;
}

/* A TNT or TIP, whatever it leads to. The same. */
static bool take_branch(struct pt_quick *r, enum quick kind)
{
	const uint8_t *p = r->p;
	uint64_t bits = kind == EXT ? quick_long(p) : kind == TNT ? *p >> 1 : 2;

	if (!bits)
		return false;
	if (r->end - r->o <= (kind == EXT ? PT_LONG_TNT : SHORT_TNT)) {
		r->stop = r->o != r->out;
		return false;
	}
	r->offset = r->base + (uintptr_t)p;
	if (r->late && !pt_quick_put_time(r))
		return false;
	if (kind == TIP)
		return take_tip(r);
	return take_tnt(r, 63 - (unsigned)__builtin_clzll(bits), bits,
			kind == EXT ? 8 : 1);
}

/* The packet at r->p. False: not here. */
static __attribute__((noinline)) bool take_packet(struct pt_quick *r)
{
	enum quick kind = (enum quick)quick[*r->p];

	switch (kind) {
	case SLOW:
		return false;
	case PAD:
		r->p++;
		return true;
	case TNT: case TIP: case EXT:
		return take_branch(r, kind);
	case CYC:
		return pt_quick_cyc(r);
	case MTC:
		if (r->skips && pt_skip_mtc(r, r->p)) {
			r->p += 2;
			return true;
		}
		pt_quick_give_time(r);
		pt_time_mtc(&r->d->time, r->p[1]);
		r->p += 2;
		break;
	case TSC:
		pt_quick_give_time(r);
		pt_time_tsc(&r->d->time, load_le64(r->p + 1) & TSC_MASK);
		r->p += 8;
		break;
	}
	pt_quick_take_time(r);
	return true;
}

/* ---- runs ---- */

/* Bits of a long TNT that are left. */
static bool take_left(struct pt_quick *r)
{
	bool whole = take_groups(r);

	if (whole)
		r->d->n_bits = 0;
	else
		leave_bits(r);
	return whole;
}

/* The slow way took some of them. */
static bool take_rest(struct pt_quick *r)
{
	struct pt *d = r->d;
	bool whole;

	if (r->end - r->o <= PT_LONG_TNT) {
		r->stop = r->o != r->out;
		return false;
	}
	r->n = d->n_bits;
	r->rest = d->bits;
	r->offset = d->offset;
	set_mark(r);
	whole = take_left(r);
	/* what follows the TNT was looked at before its first bit */
	r->mark_tip = true;
	return whole;
}

/* Packets, until one is not for here. */
static void take_packets(struct pt_quick *r)
{
	do {
		pt_quick_usual(r);
		if (r->n && !take_left(r))
			return;
	} while (r->p < r->last && take_packet(r));
}

static bool can_run(const struct pt *d)
{
	return d->synced && d->enabled && !d->postponed && !d->need_on &&
	       !d->n_ev && d->head == d->tail && !d->block && !d->no_mode &&
	       !d->mode16 && !d->done && !d->held && d->end - d->p >= TAIL &&
	       !(d->flags & AUX_FLOW_IN_TX) && pt_is_canonical(d->ip) &&
	       pt_is_canonical(d->packet_ip);
}

size_t pt_run(struct pt *d, struct aux_flow *out, size_t max, bool *stop)
{
	struct pt_quick r = { .d = d, .p = d->p, .last = d->end - TAIL + 1,
			 .base = d->chunk->stream_offset -
				 (uintptr_t)d->chunk->data,
			 .mode = pt_key_mode(d->flags),
			 .place = pt_place(d->ip),
			 .last_ip = pt_place(d->packet_ip),
			 .out = out, .o = out, .end = out + max,
			 .paths = (enum aux_paths)d->host->paths };

	*stop = false;
	if (!can_run(d))
		return 0;
	pt_quick_skip_time(&r);
	if (!d->n_bits || take_rest(&r))
		take_packets(&r);
	pt_quick_leave_time(&r);
	d->p = r.p;
	d->ip = pt_place_ip(r.place);
	d->packet_ip = pt_place_ip(r.last_ip);
	d->mark = r.mark ? (size_t)(r.mark - out) : SIZE_MAX;
	d->mark_ip = pt_place_ip(r.mark_place);
	d->mark_tip = r.mark_tip;
	d->untraced = 0;
	if (r.o != out)
		d->offset = r.o[-1].offset;
	*stop = r.stop;
	return pt_sync_check(d, out, (size_t)(r.o - out), stop);
}
