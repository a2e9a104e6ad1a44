/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_hot_part: counts a chunk in a thread of its own. What it has counted is added
 * to the sink when it is given: all that is there by then, for the order matters
 * only between one part of a stream and the next.
 */
#include <stdlib.h>

#include "decode/sink/hot.h"

struct hot_part {
	struct hot_part *next;	/* idle */
	struct hot *hot;
	struct hot_stream stream;
	struct hot_counter counter;
};

void hot_parts_free(struct hot *h)
{
	struct hot_part *p, *next;

	for (p = h->idle; p; p = next) {
		next = p->next;
		hot_counter_fini(&p->counter);
		free(p);
	}
	h->idle = NULL;
}

int hot_part_open(void **part, const void *sink)
{
	struct hot *h = (struct hot *)(uintptr_t)sink;
	struct hot_part *p;

	*part = NULL;
	if (!h->counter)
		return -AUX_E_UNSUPPORTED;
	pthread_mutex_lock(&h->items.lock);
	p = h->idle;
	if (p)
		h->idle = p->next;
	pthread_mutex_unlock(&h->items.lock);
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return -AUX_E_NOMEM;
		p->hot = h;
		p->counter.items = &h->items;
		p->counter.edges = h->counter->edges;
	}
	p->stream = (struct hot_stream){ .prev = HOT_HEAD };
	*part = p;
	return 0;
}

void hot_part_close(void *part)
{
	struct hot_part *p = part;
	struct hot *h;

	if (!p)
		return;
	h = p->hot;
	hot_counter_forget(&p->counter);
	pthread_mutex_lock(&h->items.lock);
	p->next = h->idle;
	h->idle = p;
	pthread_mutex_unlock(&h->items.lock);
}

int hot_part_flow(void *part, const struct flow_ctx *ctx,
		  const struct aux_flow *ev, size_t n)
{
	struct hot_part *p = part;

	p->stream.stream = ctx->stream;
	return hot_counter_flow(&p->counter, &p->stream, ctx, ev, n);
}

int hot_part_cut(void *part)
{
	(void)part;
	return 0;
}

int hot_part_give(void *sink, void *part)
{
	struct hot_part *p = part;
	struct hot *h = sink;
	struct hot_stream *s;

	s = hot_stream_of(h, p->stream.stream);
	if (!s)
		return -AUX_E_NOMEM;
	h->config.report->n_insns += p->counter.n_insns;
	if (hot_counter_drain(&p->counter, &h->edges, s))
		return -AUX_E_NOMEM;
	if (p->stream.prev != HOT_HEAD)
		*s = p->stream;
	return 0;
}
