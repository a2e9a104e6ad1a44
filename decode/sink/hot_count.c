/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_hot_count: counts items as they come, and for edges pairs of them. user[0]
 * of a step, and of a path that is kept, is its item's number; it belongs to the
 * code, whoever finds it first.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/sink/hot.h"
#include "decode/lib/sideband/sideband.h"

void hot_counter_fini(struct hot_counter *c)
{
	free(c->counts);
	free(c->touched);
	free(c->pairs);
	free(c->head);
	hot_edges_fini(&c->others);
}

/* ---- items ---- */

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

/* Its count was 0. */
static int touch(struct hot_counter *c, uint32_t id)
{
	uint32_t max = c->max_touched ? c->max_touched * 2 : 4096, *v;

	if (c->n_touched == c->max_touched) {
		v = reallocarray(c->touched, max, sizeof(*v));
		if (!v)
			return -AUX_E_NOMEM;
		c->touched = v;
		c->max_touched = max;
	}
	c->touched[c->n_touched++] = id;
	return 0;
}

/* ---- pairs ---- */

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

/* An item ran. */
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

static int keep_head(struct hot_counter *c, const struct space *space,
		     const struct aux_flow *ev)
{
	size_t max = c->max_head ? c->max_head * 2 : 8;
	struct hot_event *v = c->head;

	if (c->n_head == c->max_head) {
		v = reallocarray(v, max, sizeof(*v));
		if (!v)
			return -AUX_E_NOMEM;
		c->head = v;
		c->max_head = max;
	}
	v[c->n_head++] = (struct hot_event){ .space = space, .ev = *ev };
	return 0;
}

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
	return hot_edges_event(&c->others, c->items, s, ctx->space, ev);
}

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

static int drain_edges(struct hot_counter *c, struct hot_edges *edges,
		       struct hot_stream *s)
{
	int err = 0;

	for (size_t i = 0; i < c->n_head && !err; i++)
		err = hot_edges_event(edges, c->items, s, c->head[i].space,
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
