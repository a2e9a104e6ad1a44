/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_hot: where the instructions ran: functions, basic blocks or edges, most of
 * them first, all counted, nothing sampled. See hot.h.
 */
#include <stdlib.h>

#include "common/diag.h"

#include "decode/sink/hot.h"
#include "decode/sink/sink.h"

static void close_hot(void *sink)
{
	struct hot *h = sink;

	if (!h)
		return;
	hot_parts_free(h);
	if (h->counter)
		hot_counter_fini(h->counter);
	free(h->counter);
	free(h->streams);
	hot_edges_fini(&h->edges);
	hot_items_fini(&h->items);
	hot_funcs_free(h->funcs);
	free(h);
}

static int open_counter(struct hot *h)
{
	int err = hot_items_init(&h->items, h->config.host);

	if (err)
		return err;
	h->counter = calloc(1, sizeof(*h->counter));
	if (!h->counter)
		return -AUX_E_NOMEM;
	h->counter->items = &h->items;
	h->counter->edges = h->config.edges;
	return 0;
}

static int check_config(const struct sink_config *c, struct aux_diag *diag)
{
	if (c->blocks && c->edges)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"--blocks and --edges are two tables: one at "
				"a time");
	if ((c->blocks || c->edges) && c->by)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"--by is for functions: blocks and edges are "
				"counted");
	return 0;
}

static int open_hot(void **sink, const struct sink_config *config,
		    struct aux_diag *diag)
{
	struct hot *h;
	int err = check_config(config, diag);

	*sink = NULL;
	if (err)
		return err;
	h = calloc(1, sizeof(*h));
	if (!h)
		return -AUX_E_NOMEM;
	h->config = *config;
	err = config->blocks || config->edges ? open_counter(h)
					      : hot_funcs_new(h, diag);
	if (err) {
		close_hot(h);
		return err;
	}
	*sink = h;
	return 0;
}

struct hot_stream *hot_stream_of(struct hot *h, uint32_t stream)
{
	struct hot_stream *v = h->streams;

	for (size_t i = 0; i < h->n_streams; i++)
		if (v[i].stream == stream)
			return &v[i];
	v = reallocarray(v, h->n_streams + 1, sizeof(*v));
	if (!v)
		return NULL;
	h->streams = v;
	v[h->n_streams] = (struct hot_stream){ .stream = stream };
	return &v[h->n_streams++];
}

static int flow_hot(void *sink, const struct flow_ctx *ctx,
		    const struct aux_flow *ev, size_t n)
{
	struct hot *h = sink;
	struct hot_stream *s;
	int err;

	if (h->funcs)
		return hot_funcs_flow(h, ctx, ev, n);
	s = hot_stream_of(h, ctx->stream);
	if (!s)
		return -AUX_E_NOMEM;
	err = hot_counter_flow(h->counter, s, ctx, ev, n);
	h->config.report->n_insns += h->counter->n_insns;
	h->counter->n_insns = 0;
	return err;
}

/* Branches at the very end lead nowhere. */
static int settle_all(struct hot *h)
{
	static const struct place nowhere;
	int err = 0;

	for (size_t i = 0; i < h->n_streams && !err; i++)
		if (h->streams[i].prev)
			err = hot_edges_settle(&h->edges, &h->items,
					       h->streams[i].prev, &nowhere, 1);
	return err;
}

static int finish_hot(void *sink, struct aux_diag *diag)
{
	struct hot *h = sink;
	int err = 0;

	if (h->funcs) {
		err = hot_funcs_print(h);
	} else {
		err = hot_counter_drain(h->counter, &h->edges, NULL);
		if (!err && h->config.edges)
			err = settle_all(h);
		if (!err)
			err = hot_code_spread(&h->items, h->config.edges ?
							 &h->edges : NULL);
		if (!err)
			err = h->config.edges ? hot_print_edges(h)
					      : hot_print_blocks(h);
	}
	if (err == -AUX_E_NOMEM)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	return err;
}

/* Blocks and edges have no times; cycles, of functions, come with them. */
static uint32_t needs_of_hot(const struct sink_config *config)
{
	if (config->blocks || config->edges)
		return SINK_TAKES_PATHS;
	return SINK_NEEDS_TIME | SINK_TAKES_PATHS | SINK_TAKES_TIMES;
}

const struct sink_ops sink_hot = {
	.name = "hot",
	.help = "functions, blocks or edges, by what ran in them",
	.needs = SINK_NEEDS_TIME | SINK_TAKES_PATHS,
	.needs_of = needs_of_hot,
	.open = open_hot,
	.flow = flow_hot,
	.finish = finish_hot,
	.close = close_hot,
	.part_open = hot_part_open,
	.part_flow = hot_part_flow,
	.part_cut = hot_part_cut,
	.part_give = hot_part_give,
	.part_close = hot_part_close,
};
