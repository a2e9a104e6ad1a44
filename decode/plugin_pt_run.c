/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pt: the quick way: TNT and TIP packets along paths, and the packets of time.
 *
 * Whatever else comes, and whatever does not fit, is left as it is found for the
 * slow way. A TNT that was taken here stands only once it is known that no broken
 * packet follows it (mark), as libipt reads one packet ahead.
 */
#include "plugin_pt.h"
#include "plugin_pt_quick.h"

#define SHORT_TNT 7	/* events: of its bits, and a TIP behind them */
#define LONG_TNT 47
#define TAIL 16			/* no packet that is taken here is longer */
#define GROUP 12		/* bits of a long one at a time; a path's left has room */

/*
 * What the loop changes all the time. No function that is not inlined may have its
 * address: then it is in registers.
 */
struct run {
	const uint8_t *p;
	const struct pt_path *path; /* it is where this one ends, or */
	struct pt_node *node;	/* here when that is NULL */
	uint32_t seed;		/* of the node */
	struct aux_flow *o;	/* the next event */
	uint64_t due;		/* before it no TIME is */
	bool dirty;		/* time may have passed since the last TIME */
	bool stop;		/* the host has to look at the last event */
	/* the last item: as pt.mark */
	struct aux_flow *mark;
	const struct pt_path *mark_path;
	struct pt_node *mark_node;
	bool mark_tip;
};

/* What it only reads. */
struct batch {
	struct pt *d;
	struct aux_flow *out, *end;
	struct aux_flow *near_end; /* from there on a short TNT may find no room */
	const uint8_t *last;	/* from there on packets are left to the slow way */
	uint64_t base;		/* of offsets: of address 0 */
	enum aux_paths paths;
};

/* Bits of a TNT: the next ones below a stop bit, and n behind those. */
struct bits {
	unsigned next;
	unsigned n;
	uint64_t rest;
	unsigned tip;		/* PT_TIP: one follows, and may be taken too */
	bool tip_taken;		/* as far as the branch */
};

/* ---- events ---- */

INLINE uint64_t offset_of(const struct batch *b, const struct run *r)
{
	return b->base + (uintptr_t)r->p;
}

/* In the quick way the last TIME pushed is the last one given. */
INLINE uint64_t find_due(const struct pt *d)
{
	uint64_t due = d->tsc + d->host->time_step;

	if (!d->time.known || !d->have_time)
		return 0;
	if (due < d->tsc || due > d->host->horizon_tsc)
		due = d->host->horizon_tsc;
	return due;
}

INLINE void put_time(const struct batch *b, struct run *r)
{
	struct pt *d = b->d;
	uint64_t tsc = d->time.tsc;

	r->dirty = false;
	if (__builtin_expect(tsc < r->due, 1))
		return;
	if (!d->time.known || (d->have_time && tsc <= d->tsc))
		return;
	r->stop = tsc >= d->host->horizon_tsc || tsc < d->given_tsc;
	if (!r->stop && d->have_time && tsc - d->tsc < d->host->time_step)
		return;
	d->have_time = true;
	d->tsc = d->pushed_tsc = d->given_tsc = tsc;
	r->due = find_due(d);
	*r->o++ = (struct aux_flow){
		.offset = offset_of(b, r), .kind = AUX_FLOW_TIME,
		.flags = AUX_FLOW_HAS_TSC, .n = pt_take_cycles(d),
		.time = { aux_clock_ns(&d->config->clock, tsc), tsc } };
}

/* The RANGEs of a path that is not given as such: their end, NULL: no room. */
static struct aux_flow *put_ranges(const struct batch *b, struct aux_flow *o,
				   const struct pt_path *path, uint64_t offset)
{
	if ((size_t)(b->end - o) < path->pub.n_ranges)
		return NULL;
	for (uint32_t i = 0; i < path->pub.n_steps; i++) {
		const struct aux_step *s = path->pub.steps[i];

		for (uint32_t k = 0; k < s->n_ranges; k++) {
			*o = s->ranges[k];
			o++->offset = offset;
		}
	}
	return o;
}

INLINE bool put_path(const struct batch *b, struct run *r,
		     const struct pt_entry *e)
{
	uint64_t offset = offset_of(b, r);
	struct aux_flow *o;

	if (__builtin_expect(!b->paths, 0)) {
		o = put_ranges(b, r->o, e->path, offset);
		r->o = o ? o : r->o;
		return o;
	}
	*r->o++ = (struct aux_flow){ .offset = offset, .kind = AUX_FLOW_PATH,
				     .n = e->n_insns,
				     .path = { &e->path->pub, 0 } };
	return true;
}

/* ---- the return stack ---- */

/* A path that is not kept does not stay where it is. */
static void push_copies(struct pt *d, const struct pt_site *sites, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		pt_push_own(d, sites[i]);
}

/* Without a branch, and without a look at the sites: both would wait for memory. */
INLINE void push_calls(struct pt *d, const struct pt_entry *e)
{
	uint32_t room = PT_STACK - e->height, depth = d->depth;
	const struct pt_site *sites = pt_path_sites(e->path, e->n_calls);
	struct pt_calls *c = &d->calls[d->top & (PT_STACK - 1)];

	d->depth = (depth > room ? room : depth) + e->n_calls;
	if (__builtin_expect(e == &d->entry, 0)) {
		push_copies(d, sites, e->n_calls);
		return;
	}
	c->sites = sites;
	c->n = e->n_calls;
	c->stale = false;
	d->top += e->n_calls > 0;
}

INLINE struct pt_node *node_of(const struct run *r)
{
	return r->path ? r->path->node : r->node;
}

/* ---- along paths ---- */

/* Leaves for the slow way at ip; seed 0: no node is there. */
static void leave(struct pt *d, uint64_t ip, unsigned next, unsigned n,
		  uint64_t rest)
{
	unsigned k = 31 - (unsigned)__builtin_clz(next);

	d->ip = ip;
	d->n_bits = k + n;
	d->bits = (uint64_t)(next & ((1U << k) - 1)) << n |
		  (rest & ((UINT64_C(1) << n) - 1));
}

INLINE const struct pt_entry *find_path(struct pt *d, const struct run *r,
					unsigned bits)
{
	const struct pt_store *s = &d->store;
	const struct pt_entry *e = &s->paths[pt_path_hash(r->seed, bits) &
					     s->path_mask];
	uint64_t key = pt_path_key(r->seed, bits);

	if (__builtin_expect(e->key == key, 1))
		return e;
	if (__builtin_expect(e[1].key == key, 1))
		return e + 1;
	return pt_path_find(d, node_of(r), bits);
}

INLINE void be_at(struct run *r, struct pt_node *n)
{
	r->path = NULL;
	r->node = n;
	r->seed = n ? n->seed : 0;
}

/* Where a path goes on. False: unknown here; d->ip tells the place. */
INLINE bool go_on(struct pt *d, struct run *r, const struct pt_entry *e)
{
	struct pt_site site;

	if (e->end == PT_END_POP) {
		site = pt_pop_site(d);
		if (site.node) {
			r->path = NULL;
			r->node = site.node;
			r->seed = site.seed;
			return true;
		}
		d->ip = site.ip;
	} else {
		d->ip = e->path->ip;
	}
	be_at(r, pt_code_node(&d->store, d->ip, d->flags));
	return r->node;
}

/* To where a packet leads, most often. False: pt_code_node has to tell. */
INLINE bool be_at_ip(const struct pt *d, struct run *r, uint64_t ip)
{
	const struct pt_store *s = &d->store;
	const struct pt_slot *slot = &s->nodes[pt_node_hash(ip) & s->node_mask];

	slot += slot->ip != ip;
	if (__builtin_expect(slot->ip != ip || slot->flags != d->flags ||
			     !slot->node ||
			     slot->region->generation != s->generation, 0))
		return false;
	r->path = NULL;
	r->node = slot->node;
	r->seed = slot->seed;
	return true;
}

/* Along paths by the bits. False: the slow way has to go on. */
INLINE bool take_bits(const struct batch *b, struct run *r, struct bits *bits)
{
	struct pt *d = b->d;
	const struct pt_entry *e;

	do {
		e = find_path(d, r, bits->next | bits->tip);
		if (__builtin_expect(!e, 0))
			break;
		if (__builtin_expect(e->end <= PT_END_TIP, 1)) {
			if (!put_path(b, r, e))
				break;
			push_calls(d, e);
			r->path = e->path;
			r->seed = e->seed;
			bits->tip_taken = e->end == PT_END_TIP;
			return true;
		}
		if ((e->end == PT_END_POP && !d->depth) ||
		    (e->n_insns && !put_path(b, r, e)))
			break;
		push_calls(d, e);
		bits->next = e->left;
		if (e->end == PT_END_STOP) {
			be_at(r, e->path->node);
			break;
		}
		if (!go_on(d, r, e))
			break;
	} while ((bits->next | bits->tip) > 1);
	if (bits->next == 1 && r->node)
		return true;
	if (r->path || r->node)
		d->ip = node_of(r)->ip;
	leave(d, d->ip, bits->next, bits->n, bits->rest);
	return false;
}

INLINE void set_mark(struct run *r)
{
	r->mark = r->o;
	r->mark_path = r->path;
	r->mark_node = r->node;
	r->mark_tip = false;
}

/* The TNT at r->p was taken as far as it goes: not at all, and it stays. */
INLINE bool end_tnt(const struct batch *b, struct run *r, bool whole,
		    unsigned n_bits, unsigned size)
{
	struct pt *d = b->d;

	if (!whole && d->n_bits == n_bits) {
		d->n_bits = 0;
		r->mark = NULL;
		return false;
	}
	r->p += size;
	return whole;
}

/* To where the TIP at r->p leads. False: there is no code. */
INLINE bool follow_tip(const struct batch *b, struct run *r)
{
	struct pt *d = b->d;
	uint64_t ip = quick_ip(r->p, d->packet_ip);

	d->packet_ip = d->ip = ip;
	d->have_ip = true;
	d->suppressed = false;
	r->mark_tip = true;
	r->p += quick_tip_size(r->p);
	if (__builtin_expect(!be_at_ip(d, r, ip), 0))
		be_at(r, pt_code_node(&d->store, ip, d->flags));
	return r->node;
}

/* A short one, and the TIP right behind it if both make one path. */
INLINE bool take_tnt(const struct batch *b, struct run *r)
{
	struct bits bits = { .next = *r->p >> 1 };
	bool whole;

	if (b->paths == AUX_PATHS_JOINED && quick[r->p[1]] == TIP)
		bits.tip = PT_TIP;
	set_mark(r);
	whole = take_bits(b, r, &bits);
	if (!bits.tip_taken)
		return end_tnt(b, r, whole,
			       31 - (unsigned)__builtin_clz(*r->p >> 1), 1);
	r->p++;
	return follow_tip(b, r);
}

/* A long one. */
INLINE bool take_long(const struct batch *b, struct run *r)
{
	uint64_t v = load_le(r->p + 2, 6);
	unsigned n = 63 - (unsigned)__builtin_clzll(v);
	struct bits bits = { .n = n, .rest = v };
	bool whole = true;

	set_mark(r);
	while (whole && bits.n) {
		unsigned k = bits.n < GROUP ? bits.n : GROUP;

		bits.n -= k;
		bits.next = (unsigned)(bits.rest >> bits.n &
				       ((1U << k) - 1)) | 1U << k;
		whole = take_bits(b, r, &bits);
	}
	return end_tnt(b, r, whole, n, 8);
}

/* The TIP at r->p. False: not here, or no code where it leads. */
INLINE bool take_tip(const struct batch *b, struct run *r)
{
	const struct pt_entry *e = find_path(b->d, r, 1 | PT_TIP);

	if (__builtin_expect(!e, 0))
		return false;
	set_mark(r);
	if (!put_path(b, r, e))
		return false;
	push_calls(b->d, e);
	return follow_tip(b, r);
}

/* ---- time ---- */

/* False: a long one. */
INLINE bool take_cyc(const struct batch *b, struct run *r)
{
	const uint8_t *p = r->p;
	unsigned more = p[0] >> 2 & 1;
	uint64_t v = p[0] >> 3 | (unsigned)(p[1] >> 1 << 5) * more;

	if (__builtin_expect(more & p[1], 0)) {
		if (p[2] & 1)
			return false;
		v |= (uint64_t)(p[2] >> 1) << 12;
		more = 2;
	}
	if (__builtin_expect(more && b->d->errata & PT_ERR_SKD007, 0))
		return false;
	pt_time_cyc_tsc(&b->d->time, v);
	r->dirty = true;
	r->p += 1 + more;
	return true;
}

/* The time it has is told before a branch. False: the host has to look at it. */
INLINE bool settle_time(const struct batch *b, struct run *r)
{
	if (r->dirty)
		put_time(b, r);
	return !r->stop;
}

INLINE bool is_full(const struct batch *b, struct run *r)
{
	r->stop = r->o != b->out;
	return true;
}

/* Up to where the slow way is needed, or the batch is full, or time says so. */
INLINE struct run run(const struct batch *b, struct run r)
{
	while (r.p < b->last) {
		switch (quick[*r.p]) {
		case PAD:
			r.p++;
			break;
		case TNT:
			if ((r.o >= b->near_end && is_full(b, &r)) ||
			    !settle_time(b, &r) || !take_tnt(b, &r))
				return r;
			break;
		case EXT:
			if (r.p[1] != 0xa3 || load_le(r.p + 2, 6) < 2 ||
			    (b->end - r.o <= LONG_TNT && is_full(b, &r)) ||
			    !settle_time(b, &r) || !take_long(b, &r))
				return r;
			break;
		case TIP:
			if ((r.o >= b->near_end && is_full(b, &r)) ||
			    !settle_time(b, &r) || !take_tip(b, &r))
				return r;
			break;
		case CYC:
			if (!take_cyc(b, &r))
				return r;
			break;
		case MTC:
			pt_time_mtc(&b->d->time, r.p[1]);
			r.dirty = true;
			r.p += 2;
			break;
		case TSC:
			pt_time_tsc(&b->d->time, load_le(r.p + 1, 7));
			r.dirty = true;
			r.p += 8;
			break;
		default:
			return r;
		}
	}
	return r;
}

/* The common case, with all that it need not ask. */
static struct run run_joined(struct batch b, struct run r)
{
	b.paths = AUX_PATHS_JOINED;
	return run(&b, r);
}

static bool can_run(const struct pt *d)
{
	return d->synced && d->enabled && !d->postponed && !d->need_on &&
	       !d->n_bits && !d->n_ev && d->head == d->tail && !d->block &&
	       !d->no_mode && !d->mode16 && !d->done && !d->held &&
	       d->end - d->p >= TAIL;
}

size_t pt_run(struct pt *d, struct aux_flow *out, size_t max, bool *stop)
{
	const struct batch b = {
		.d = d, .out = out, .end = out + max,
		.near_end = max > SHORT_TNT ? out + max - SHORT_TNT : out,
		.last = d->end - TAIL + 1,
		.base = d->chunk->stream_offset - (uintptr_t)d->chunk->data,
		.paths = (enum aux_paths)d->host->paths };
	struct run r = { .p = d->p, .o = out, .dirty = true, .node = d->node,
			 .due = find_due(d) };

	*stop = false;
	if (!can_run(d))
		return 0;
	if (!r.node)
		r.node = pt_code_node(&d->store, d->ip, d->flags);
	if (!r.node)
		return 0;
	be_at(&r, r.node);
	r = b.paths == AUX_PATHS_JOINED ? run_joined(b, r) : run(&b, r);
	d->node = node_of(&r);
	if (d->node && !d->n_bits)
		d->ip = d->node->ip;
	d->p = r.p;
	d->mark = r.mark ? (size_t)(r.mark - out) : SIZE_MAX;
	d->mark_path = r.mark_path;
	d->mark_node = r.mark_node;
	d->mark_tip = r.mark_tip;
	*stop = r.stop;
	d->untraced = 0;
	if (r.o != out)
		d->offset = r.o[-1].offset;
	return pt_sync_check(d, out, (size_t)(r.o - out), stop);
}
