/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_hot_edge: edges by (from, to, kind). What is one, and where it leads, is as
 * in branch.c: the end of what runs waits for what comes next.
 */
#include <stdlib.h>

#include "decode/sink/hot.h"
#include "decode/lib/sideband/sideband.h"

void hot_edges_fini(struct hot_edges *t)
{
	free(t->v);
	*t = (struct hot_edges){ .v = NULL };
}

static uint64_t id_of(const struct space *space)
{
	return space ? space->id : 0;
}

static bool same_place(const struct place *a, const struct place *b)
{
	return a->known == b->known &&
	       (!a->known ||
		(a->ip == b->ip && id_of(a->space) == id_of(b->space)));
}

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

int hot_edges_add(struct hot_edges *t, unsigned kind, const struct place *from,
		  const struct place *to, uint64_t count)
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

static const struct hot_item *last_of(const struct hot_items *items,
				      uint32_t item)
{
	return hot_item(items, hot_item(items, item)->last);
}

static unsigned kind_of(const struct hot_item *range)
{
	return edge_of_range(range->range.what);
}

bool hot_item_branches(const struct hot_items *items, uint32_t item)
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

static int settle_stream(struct hot_edges *t, const struct hot_items *items,
			 struct hot_stream *s, const struct place *to)
{
	uint32_t prev = s->prev;

	s->prev = 0;
	return prev ? hot_edges_settle(t, items, prev, to, 1) : 0;
}

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

static int on_trace(struct hot_edges *t, const struct hot_items *items,
		    struct hot_stream *s, const struct space *space,
		    const struct aux_flow *ev)
{
	bool had = s->left || (s->prev && hot_item_branches(items, s->prev));
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

int hot_edges_event(struct hot_edges *t, const struct hot_items *items,
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
