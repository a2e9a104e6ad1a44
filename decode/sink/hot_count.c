/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counting for hot --blocks and --edges: items as they come, and at the end
 * items as instructions and blocks. See hot.c.
 *
 * A counter works in one thread. It has a count per item, and for edges a count
 * per pair (item that ran before, item). What a pair means is worked out when
 * the counter is drained: the end of the first leads to the beginning of the
 * second. Events between (interrupts, trace on and off, gaps) settle the item
 * before at once.
 *
 * A part begins in the middle of a stream and does not know what ran before:
 * its first pair has HOT_HEAD in front, and events that come before anything
 * ran wait in head. When it is drained, in the order of the stream, the
 * stream's state stands in for HOT_HEAD.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "decode/lib/sideband/sideband.h"
#include "decode/sink/hot.h"

/*
 * ---- edges ----
 *
 * By (from, to, kind), in a hash table. What is an edge, and where it leads, is
 * as in branch.c: the end of what runs waits for what comes next.
 */

void hot_edges_fini(struct hot_edges *t)
{
	free(t->v);
	*t = (struct hot_edges){ .v = NULL };
}

/* 0: no address space is known. */
static uint64_t space_id(const struct space *space)
{
	return space ? space->id : 0;
}

/* Spaces are compared by id: the same space may be another struct. */
static bool same_place(const struct place *a, const struct place *b)
{
	return a->known == b->known &&
	       (!a->known ||
		(a->ip == b->ip && space_id(a->space) == space_id(b->space)));
}

/* The slot of an edge, or the free one where it belongs. */
static struct hot_edge *find_edge(const struct hot_edges *t, unsigned kind,
				  const struct place *from,
				  const struct place *to)
{
	uint64_t h = (from->known ? from->ip : 1) *
		     UINT64_C(0x9e3779b97f4a7c15);
	size_t at;

	h ^= ((to->known ? to->ip : 1) + kind) * UINT64_C(0xc2b2ae3d27d4eb4f);
	at = (size_t)(h ^ h >> 31) & (t->n_slots - 1);
	while (t->v[at].kind &&
	       (t->v[at].kind != kind || !same_place(&t->v[at].from, from) ||
		!same_place(&t->v[at].to, to)))
		at = (at + 1) & (t->n_slots - 1);
	return &t->v[at];
}

static int grow_edges(struct hot_edges *t)
{
	struct hot_edges bigger = { .n = t->n,
				    .n_slots = t->n_slots ? t->n_slots * 2
							  : 256 };

	bigger.v = calloc(bigger.n_slots, sizeof(*bigger.v));
	if (!bigger.v)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < t->n_slots; i++) {
		struct hot_edge *e = &t->v[i];

		if (e->kind)
			*find_edge(&bigger, e->kind, &e->from, &e->to) = *e;
	}
	free(t->v);
	*t = bigger;
	return 0;
}

/* Adds count to an edge. */
static int hot_edges_add(struct hot_edges *t, unsigned kind,
			 const struct place *from, const struct place *to,
			 uint64_t count)
{
	struct hot_edge *e;

	if (t->n >= t->n_slots / 2 && grow_edges(t))
		return -AUX_E_NOMEM;
	e = find_edge(t, kind, from, to);
	if (!e->kind) {
		*e = (struct hot_edge){ .from = *from, .to = *to,
					.kind = (uint8_t)kind };
		t->n++;
	}
	e->count += count;
	return 0;
}

/* The range that an item ends with. */
static const struct hot_item *last_of(const struct hot_items *items,
				      uint32_t item)
{
	return hot_item(items, hot_item(items, item)->last);
}

/* Which edge the range ends with; 0: it falls through. */
static unsigned kind_of(const struct hot_item *range)
{
	return edge_of_range(range->range.what);
}

/* Whether an item ends with a branch. */
static bool ends_in_branch(const struct hot_items *items, uint32_t item)
{
	return kind_of(last_of(items, item)) != 0;
}

int hot_edges_settle(struct hot_edges *t, const struct hot_items *items,
		     uint32_t item, const struct place *to, uint64_t count)
{
	const struct hot_item *r = last_of(items, item);
	uint64_t last = r->range.range.last;
	struct place from = { .known = true, .space = r->space, .ip = last };
	unsigned kind = kind_of(r);

	if (!kind || (r->range.what == AUX_END_COND && to->known &&
		      to->ip == last + (r->range.flags & AUX_FLOW_SIZE_MASK)))
		return 0;
	return hot_edges_add(t, kind, &from, to, count);
}

static const struct place nowhere;

/* What ran last leads to a place, once. It is settled then. */
static int settle_stream(struct hot_edges *t, const struct hot_items *items,
			 struct hot_stream *s, const struct place *to)
{
	uint32_t prev = s->prev;

	s->prev = 0;
	return prev ? hot_edges_settle(t, items, prev, to, 1) : 0;
}

/* See on_async of branch.c: the same rules, with counts. */
static int on_async(struct hot_edges *t, const struct hot_items *items,
		    struct hot_stream *s, const struct space *space,
		    const struct aux_flow *ev)
{
	struct place from = { .known = true, .space = space,
			      .ip = ev->async.from };
	struct place to = { .known = true, .space = space,
			    .ip = ev->async.to };
	unsigned kind = ev->what == AUX_ASYNC_INTERRUPT	  ? EDGE_INTERRUPT
			: ev->what == AUX_ASYNC_EXCEPTION ? EDGE_EXCEPTION
							  : EDGE_ASYNC;
	int err = settle_stream(t, items, s, &from);

	s->left = !ev->async.to;
	if (err)
		return err;
	return hot_edges_add(t, kind, &from, ev->async.to ? &to : &nowhere, 1);
}

/* See on_trace of branch.c. */
static int on_trace(struct hot_edges *t, const struct hot_items *items,
		    struct hot_stream *s, const struct space *space,
		    const struct aux_flow *ev)
{
	bool had = s->left || (s->prev && ends_in_branch(items, s->prev));
	struct place at = { .known = ev->flags & AUX_FLOW_HAS_IP,
			    .space = space, .ip = ev->trace.ip };
	bool on = ev->kind == AUX_FLOW_TRACE_ON;
	int err = settle_stream(t, items, s, on ? &nowhere : &at);

	s->left = false;
	if (err || (!on && had))
		return err;
	return hot_edges_add(t, on ? EDGE_ON : EDGE_OFF, on ? &nowhere : &at,
			     on ? &at : &nowhere, 1);
}

/* An event between items: everything but RANGE and PATH. */
static int add_event(struct hot_edges *t, const struct hot_items *items,
			   struct hot_stream *s, const struct space *space,
			   const struct aux_flow *ev)
{
	switch (ev->kind) {
	case AUX_FLOW_ASYNC:
		return on_async(t, items, s, space, ev);
	case AUX_FLOW_TRACE_ON:
	case AUX_FLOW_TRACE_OFF:
		return on_trace(t, items, s, space, ev);
	case AUX_FLOW_GAP:
		return settle_stream(t, items, s, &nowhere);
	}
	return 0;
}

void hot_counter_fini(struct hot_counter *c)
{
	free(c->counts);
	free(c->touched);
	free(c->pairs);
	free(c->head);
	hot_edges_fini(&c->others);
}

/* ---- items ---- */

/* Room for item id; new counts are 0. */
static int grow_counts(struct hot_counter *c, uint32_t id)
{
	uint32_t n = c->n_counts ? c->n_counts : 4096;
	uint64_t *v;

	while (n <= id)
		n *= 2;
	v = reallocarray(c->counts, n, sizeof(*v));
	if (!v)
		return -AUX_E_NOMEM;
	memset(v + c->n_counts, 0, (n - c->n_counts) * sizeof(*v));
	c->counts = v;
	c->n_counts = n;
	return 0;
}

/* Remembers an item whose count was 0, so that draining a part costs what it
 * counted, not what the code has. */
static int touch(struct hot_counter *c, uint32_t id)
{
	if (array_grow(&c->touched, c->n_touched, &c->max_touched,
		       sizeof(*c->touched)))
		return -AUX_E_NOMEM;
	c->touched[c->n_touched++] = id;
	return 0;
}

/* ---- pairs ---- */

/* The slot of a pair, or the free one where it belongs. */
static struct hot_pair *find_pair(struct hot_pair *v, size_t n_slots,
				  uint64_t key)
{
	uint64_t h = key * UINT64_C(0x9e3779b97f4a7c15);
	size_t at = (size_t)(h >> 24) & (n_slots - 1);

	while (v[at].key && v[at].key != key)
		at = (at + 1) & (n_slots - 1);
	return &v[at];
}

static int grow_pairs(struct hot_counter *c)
{
	size_t n = c->n_slots ? c->n_slots * 2 : 4096;
	struct hot_pair *v = calloc(n, sizeof(*v));

	if (!v)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < c->n_slots; i++)
		if (c->pairs[i].key)
			*find_pair(v, n, c->pairs[i].key) = c->pairs[i];
	free(c->pairs);
	c->pairs = v;
	c->n_slots = n;
	return 0;
}

/* prev 0: nothing ran before, or it is settled. */
static inline int add_pair(struct hot_counter *c, uint32_t prev, uint32_t id)
{
	uint64_t key = (uint64_t)prev << 32 | id;
	struct hot_pair *p;

	if (!prev)
		return 0;
	if (c->n_pairs >= c->n_slots / 2 && grow_pairs(c))
		return -AUX_E_NOMEM;
	p = find_pair(c->pairs, c->n_slots, key);
	c->n_pairs += !p->key;
	p->key = key;
	p->count++;
	return 0;
}

/* An item ran: the work of each event. */
static inline int hit(struct hot_counter *c, struct hot_stream *s, uint32_t id)
{
	if (id >= c->n_counts && grow_counts(c, id))
		return -AUX_E_NOMEM;
	if (!c->counts[id]++ && touch(c, id))
		return -AUX_E_NOMEM;
	if (c->edges) {
		if (add_pair(c, s->prev, id))
			return -AUX_E_NOMEM;
		s->prev = id;
		s->left = false;
	}
	return 0;
}

/* ---- what is not known yet ---- */

/* A range without a path. The cache is direct mapped and saves the lock. */
static int hit_range(struct hot_counter *c, struct hot_stream *s,
		     const struct flow_ctx *ctx, const struct aux_flow *ev)
{
	uint64_t space = ctx->space ? ctx->space->id : 0;
	uint64_t h = ev->range.first ^ ev->range.last << 5;
	struct hot_cached *hot = &c->cache[(h ^ h >> 12) & (HOT_CACHE - 1)];
	uint32_t how = ev->what | (uint32_t)ev->flags << 8;

	if (!hot->id || hot->first != ev->range.first ||
	    hot->last != ev->range.last || hot->space != space ||
	    hot->n != ev->n || hot->how != how) {
		uint32_t id = hot_items_range(c->items, ctx->space, ev);

		if (!id)
			return -AUX_E_NOMEM;
		*hot = (struct hot_cached){ .first = ev->range.first,
					    .last = ev->range.last,
					    .space = space, .n = ev->n,
					    .how = how, .id = id };
	}
	return hit(c, s, hot->id);
}

/* A step without room for its number is counted range by range. */
static int hit_step(struct hot_counter *c, struct hot_stream *s,
		    const struct flow_ctx *ctx, struct aux_step *step)
{
	int err = 0;

	if (!step->user[0])
		step->user[0] = hot_items_step(c->items, ctx->space, step);
	if (step->user[0])
		return hit(c, s, (uint32_t)step->user[0]);
	for (uint32_t i = 0; i < step->n_ranges && !err; i++)
		err = hit_range(c, s, ctx, &step->ranges[i]);
	return err;
}

/* A path that has no number: its steps, which get theirs, and then it gets one,
 * if the decoder keeps it. */
static int hit_path(struct hot_counter *c, struct hot_stream *s,
		    const struct flow_ctx *ctx, struct aux_path *path)
{
	int err = 0;

	for (uint32_t i = 0; i < path->n_steps && !err; i++)
		err = hit_step(c, s, ctx, path->steps[i]);
	if (!err && path->kept)
		path->user[0] = hot_items_path(c->items, path);
	return err;
}

/* An event that must wait until it is known what ran before the part. */
static int keep_head(struct hot_counter *c, const struct space *space,
		     const struct aux_flow *ev)
{
	if (array_grow(&c->head, c->n_head, &c->max_head, sizeof(*c->head)))
		return -AUX_E_NOMEM;
	c->head[c->n_head++] = (struct hot_event){ .space = space, .ev = *ev };
	return 0;
}

/* Events that edges depend on; blocks need none of them. */
static int on_other(struct hot_counter *c, struct hot_stream *s,
		    const struct flow_ctx *ctx, const struct aux_flow *ev)
{
	switch (ev->kind) {
	case AUX_FLOW_ASYNC:
	case AUX_FLOW_TRACE_ON:
	case AUX_FLOW_TRACE_OFF:
	case AUX_FLOW_GAP:
		break;
	default:
		return 0;
	}
	if (!c->edges)
		return 0;
	if (s->prev == HOT_HEAD)
		return keep_head(c, ctx->space, ev);
	return add_event(&c->others, c->items, s, ctx->space, ev);
}

/* What has no number yet. */
static int on_event(struct hot_counter *c, struct hot_stream *s,
		    const struct flow_ctx *ctx, const struct aux_flow *ev)
{
	if (ev->kind == AUX_FLOW_PATH) {
		c->n_insns += ev->n;
		return hit_path(c, s, ctx, ev->path.path);
	}
	if (ev->kind == AUX_FLOW_RANGE) {
		c->n_insns += ev->n;
		return hit_range(c, s, ctx, ev);
	}
	return on_other(c, s, ctx, ev);
}

int hot_counter_flow(struct hot_counter *c, struct hot_stream *s,
		     const struct flow_ctx *ctx, const struct aux_flow *ev,
		     size_t n)
{
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		const struct aux_path *path = ev[i].path.path;

		if (ev[i].kind == AUX_FLOW_PATH && path->kept &&
		    path->user[0]) {
			c->n_insns += path->n_insns;
			err = hit(c, s, (uint32_t)path->user[0]);
		} else {
			err = on_event(c, s, ctx, &ev[i]);
		}
	}
	return err;
}

/* ---- draining ---- */

/* HOT_HEAD stands for what the stream ended with before (s), which may be
 * nothing. */
static int drain_pair(struct hot_counter *c, struct hot_edges *edges,
		      struct hot_stream *s, const struct hot_pair *p)
{
	uint32_t prev = (uint32_t)(p->key >> 32), id = (uint32_t)p->key;
	const struct hot_item *to =
		hot_item(c->items, hot_item(c->items, id)->first);
	struct place at = { .known = true, .space = to->space,
			    .ip = to->range.range.first };

	if (prev == HOT_HEAD)
		prev = s->prev;
	return prev ? hot_edges_settle(edges, c->items, prev, &at, p->count)
		    : 0;
}

/* First what waited, in order; the order of pairs does not matter. */
static int drain_edges(struct hot_counter *c, struct hot_edges *edges,
		       struct hot_stream *s)
{
	int err = 0;

	for (size_t i = 0; i < c->n_head && !err; i++)
		err = add_event(edges, c->items, s, c->head[i].space,
				      &c->head[i].ev);
	for (size_t i = 0; i < c->n_slots && !err && c->n_pairs; i++)
		if (c->pairs[i].key)
			err = drain_pair(c, edges, s, &c->pairs[i]);
	for (size_t i = 0; i < c->others.n_slots && !err; i++) {
		const struct hot_edge *e = &c->others.v[i];

		if (e->kind)
			err = hot_edges_add(edges, e->kind, &e->from, &e->to,
					    e->count);
	}
	return err;
}

void hot_counter_forget(struct hot_counter *c)
{
	for (uint32_t i = 0; i < c->n_touched; i++)
		c->counts[c->touched[i]] = 0;
	c->n_touched = 0;
	c->n_insns = 0;
	c->n_head = 0;
	if (c->n_pairs)
		memset(c->pairs, 0, c->n_slots * sizeof(*c->pairs));
	c->n_pairs = 0;
	hot_edges_fini(&c->others);
}

int hot_counter_drain(struct hot_counter *c, struct hot_edges *edges,
		      struct hot_stream *s)
{
	int err;

	for (uint32_t i = 0; i < c->n_touched; i++) {
		uint32_t id = c->touched[i];

		hot_item(c->items, id)->count += c->counts[id];
	}
	err = c->edges ? drain_edges(c, edges, s) : 0;
	hot_counter_forget(c);
	return err;
}

/*
 * ---- instructions and blocks ----
 *
 * Ranges overlap: a jump may lead into the middle of one. So each is taken
 * apart into its instructions, these are added up, and a block is what runs one
 * after the other, equally often, up to a branch. An instruction's key is the
 * place of its bytes in memory (hot_code_key): code that two processes map from
 * one file has one key, and is counted together.
 */

#define MIN_INSNS (1u << 16)

void hot_code_fini(struct hot_code *code)
{
	free(code->insns);
	code->insns = NULL;
}

uint64_t hot_code_key(const struct sink_host *host, const struct space *space,
		      uint64_t ip)
{
	struct aux_code area;

	if (!space || host->code(host->priv, space, ip, &area) ||
	    ip < area.start || ip >= area.end)
		return ip | UINT64_C(1) << 63;
	return (uint64_t)(uintptr_t)(area.bytes + (ip - area.start));
}

static int compare_keys(const void *a, const void *b)
{
	const struct hot_insn *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

/* Of equal keys the lowest address stands for all, so that output does not
 * depend on the order of counting. */
static int compare_insns(const void *a, const void *b)
{
	const struct hot_insn *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (x->ip != y->ip)
		return x->ip < y->ip ? -1 : 1;
	return space_id(x->space) < space_id(y->space) ?
		       -1 :
		       space_id(x->space) > space_id(y->space);
}

/* Sorts, and makes one of equal ones. */
static void compact(struct hot_code *code)
{
	struct hot_insn *v = code->insns;
	size_t n = 0;

	if (!v)
		return;
	qsort(v, code->n_insns, sizeof(*v), compare_insns);
	for (size_t i = 0; i < code->n_insns; i++) {
		if (n && v[n - 1].key == v[i].key) {
			v[n - 1].count += v[i].count;
			v[n - 1].ends |= v[i].ends;
		} else {
			v[n++] = v[i];
		}
	}
	code->n_insns = n;
}

/* Room for n more. Equal ones are put together before the array grows, and it
 * grows only when that leaves it more than half full. */
static int make_room(struct hot_code *code, size_t n)
{
	size_t max = code->max_insns ? code->max_insns : MIN_INSNS;
	struct hot_insn *v;

	if (code->insns && code->max_insns - code->n_insns >= n)
		return 0;
	compact(code);
	while (max - code->n_insns < n || max / 2 < code->n_insns)
		max *= 2;
	if (max == code->max_insns)
		return 0;
	v = reallocarray(code->insns, max, sizeof(*v));
	if (!v)
		return -AUX_E_NOMEM;
	code->insns = v;
	code->max_insns = max;
	return 0;
}

/* The instructions of a range, each with the range's count. */
static int add_insns(struct hot_code *code, const struct hot_item *it,
		     const struct walk_range *r)
{
	uint64_t key = hot_code_key(code->host, it->space, r->first);
	uint64_t end = hot_code_key(code->host, it->space, r->last);
	bool apart = end - key != r->last - r->first; /* two pieces of code */
	struct hot_insn *insn;

	if (make_room(code, r->n))
		return -AUX_E_NOMEM;
	for (uint32_t i = 0; i < r->n; i++) {
		uint64_t ip = r->first + r->off[i];
		bool last = i + 1 == r->n;

		insn = &code->insns[code->n_insns++];
		*insn = (struct hot_insn){
			.key = apart ? hot_code_key(code->host, it->space, ip)
				     : key + r->off[i],
			.ip = ip,
			.space = it->space,
			.count = it->count,
			.size = last ? r->last_size
				     : (uint8_t)(r->off[i + 1] - r->off[i]),
			.ends = last && it->range.what != AUX_END_FALL,
		};
	}
	code->n_total += it->count * r->n;
	return 0;
}

/* Edges inside of a row: from each item to the next. */
static int add_inner(struct hot_edges *edges, const struct hot_items *items,
		     const struct hot_item *it)
{
	int err = 0;

	for (uint32_t i = 1; i < it->n_ids && !err; i++) {
		const struct hot_item *to = hot_item(items, it->ids[i]);
		struct place at = { .known = true };

		to = hot_item(items, to->first);
		at.space = to->space;
		at.ip = to->range.range.first;
		err = hot_edges_settle(edges, items, it->ids[i - 1], &at,
				       it->count);
	}
	return err;
}

int hot_code_spread(const struct hot_items *items, struct hot_edges *edges)
{
	int err = 0;

	for (uint32_t id = items->n; id && !err; id--) {
		struct hot_item *it = hot_item(items, id);

		if (!it->n_ids || !it->count)
			continue;
		for (uint32_t i = 0; i < it->n_ids; i++)
			hot_item(items, it->ids[i])->count += it->count;
		if (edges)
			err = add_inner(edges, items, it);
		it->count = 0;
	}
	return err;
}

int hot_code_build(struct hot_code *code, const struct sink_host *host,
		   const struct hot_items *items,
		   void (*mismatch)(void *priv, const struct hot_item *range,
				    int err),
		   void *priv)
{
	struct walk_range r;
	int err = make_room(code, 1);

	code->host = host;
	for (uint32_t id = 1; id <= items->n && !err; id++) {
		const struct hot_item *it = hot_item(items, id);

		if (it->n_ids || !it->count)
			continue;
		err = walk_once(items->walk, it->space, &it->range, &r);
		if (!err) {
			err = add_insns(code, it, &r);
		} else if (err != -AUX_E_NOMEM) {
			mismatch(priv, it, err);
			err = 0;
		}
	}
	compact(code);
	return err;
}

uint64_t hot_code_count(const struct hot_code *code, uint64_t key)
{
	struct hot_insn want = { .key = key }, *found;

	found = bsearch(&want, code->insns, code->n_insns, sizeof(want),
			compare_keys);
	return found ? found->count : 0;
}

/* Whether b belongs to the block of a: it follows in memory, ran equally often,
 * and a is no branch. */
static bool goes_on(const struct hot_insn *a, const struct hot_insn *b)
{
	return !a->ends && a->size && a->key + a->size == b->key &&
	       a->count == b->count;
}

/* By instructions that ran, then by address. */
static int compare_blocks(const void *a, const void *b)
{
	const struct hot_block *x = a, *y = b;
	uint64_t n = x->count * x->n, m = y->count * y->n;

	if (n != m)
		return n > m ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

struct hot_block *hot_code_blocks(const struct hot_code *code, size_t *n)
{
	struct hot_block *v = calloc(code->n_insns + 1, sizeof(*v)), *b = v;
	uint64_t key = 0;

	*n = 0;
	if (!v)
		return NULL;
	for (size_t i = 0; i < code->n_insns; i++) {
		const struct hot_insn *insn = &code->insns[i];

		if (!i || !goes_on(insn - 1, insn)) {
			b = &v[(*n)++];
			*b = (struct hot_block){ .space = insn->space,
						 .first = insn->ip,
						 .count = insn->count };
			key = insn->key;
		}
		b->last = b->first + (insn->key - key);
		b->n++;
	}
	qsort(v, *n, sizeof(*v), compare_blocks);
	return v;
}
