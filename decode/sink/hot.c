/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_hot: where the instructions ran: functions, basic blocks or edges, most of
 * them first, all counted, nothing sampled.
 *
 * Functions come from a call tree (hot_print.c). Blocks and edges need no stack,
 * and are counted in two steps, because the decoder's paths are long and come
 * often:
 *
 *	while flow comes  an item (range, step or path) is a number, and an event is
 *	                  one increment; for edges, one more in a table of pairs
 *	                  (item that ran last, item) (hot_count.c)
 *	at the end        what a path counted is given to its steps, theirs to their
 *	                  ranges (hot_code_spread); ranges are taken apart into
 *	                  instructions, and those are put together to blocks
 *
 * Numbers are given once for equal contents, by all threads together, under a
 * lock: equal ranges have equal numbers however often a decoder forgets and finds
 * them anew. So the memory needed depends on the code, not on the length of the
 * trace. step->user[0] and path->user[0] hold the number: a fact of the code, so
 * any thread may write it.
 *
 * Ownership: items belong to the sink, their contents never change once they have
 * a number, so that they are read without the lock; count is the session thread's
 * alone. A counter belongs to one thread.
 */
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"
#include "decode/lib/sideband/sideband.h"
#include "decode/sink/hot.h"
#include "decode/sink/sink.h"

/*
 * ---- items ----
 *
 * An item is a range, or a row of items with smaller numbers. Paths are the
 * ones that could be very many: above MAX_PATHS their steps are counted
 * instead.
 */

#define MAX_PATHS (2u << 20)

/* On failure hot_items_fini may be called. */
static int hot_items_init(struct hot_items *items, const struct sink_host *host)
{
	struct walk_config wc = { .host = host };

	pthread_mutex_init(&items->lock, NULL);
	items->n_slots = 4096;
	items->slots = calloc(items->n_slots, sizeof(*items->slots));
	return items->slots ? walk_new(&items->walk, &wc) : -AUX_E_NOMEM;
}

static void hot_items_fini(struct hot_items *items)
{
	if (!items->slots)
		return;
	for (uint32_t i = 1; i <= items->n; i++)
		if (hot_item(items, i)->n_ids)
			free((void *)(uintptr_t)hot_item(items, i)->ids);
	for (size_t i = 0; i < HOT_PAGES; i++)
		free(items->pages[i]);
	free(items->slots);
	walk_free(items->walk);
	pthread_mutex_destroy(&items->lock);
}

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 32;
}

/* A row by its numbers, a range by what same_item compares. */
static uint64_t hash_item(const struct hot_item *it)
{
	const struct aux_flow *ev = &it->range;
	uint64_t h = it->n_ids;

	for (uint32_t i = 0; i < it->n_ids; i++)
		h = mix(h, it->ids[i]);
	if (it->n_ids)
		return h;
	h = mix(it->space ? it->space->id : 0, ev->range.first);
	h = mix(h, ev->range.last);
	return mix(h, (uint64_t)ev->n << 32 | (uint32_t)ev->flags << 8 |
			      ev->what);
}

/* Ranges are equal when they end alike, too: the edge at the end depends on
 * it. */
static bool same_item(const struct hot_item *a, const struct hot_item *b)
{
	if (a->n_ids != b->n_ids)
		return false;
	if (a->n_ids)
		return !memcmp(a->ids, b->ids, a->n_ids * sizeof(*a->ids));
	return a->range.range.first == b->range.range.first &&
	       a->range.range.last == b->range.range.last &&
	       a->range.n == b->range.n && a->range.what == b->range.what &&
	       a->range.flags == b->range.flags &&
	       (a->space ? a->space->id : 0) == (b->space ? b->space->id : 0);
}

/* The slot of an equal item, or a free one. Never full: next_item. */
static uint32_t find_slot(const struct hot_items *items,
			  const struct hot_item *it)
{
	uint32_t at = (uint32_t)hash_item(it) & (items->n_slots - 1);

	while (items->slots[at] &&
	       !same_item(hot_item(items, items->slots[at]), it))
		at = (at + 1) & (items->n_slots - 1);
	return at;
}

static bool grow_slots(struct hot_items *items)
{
	uint32_t *slots = calloc(items->n_slots * (size_t)2, sizeof(*slots));

	if (!slots)
		return false;
	free(items->slots);
	items->slots = slots;
	items->n_slots *= 2;
	for (uint32_t i = 1; i <= items->n; i++)
		slots[find_slot(items, hot_item(items, i))] = i;
	return true;
}

/*
 * Makes room for the next number; NULL: out of memory, or of numbers (HOT_PAGE *
 * HOT_PAGES). Pages do not move, so that other threads may read items at the same time.
 */
static struct hot_item *next_item(struct hot_items *items)
{
	uint32_t id = items->n + 1;
	struct hot_item **page;

	if (id / HOT_PAGE >= HOT_PAGES ||
	    (id >= items->n_slots / 2 && !grow_slots(items)))
		return NULL;
	page = &items->pages[id / HOT_PAGE];
	if (!*page)
		*page = calloc(HOT_PAGE, sizeof(**page));
	return *page ? hot_item(items, id) : NULL;
}

/* The number of an equal item, or the next one. ids are copied. 0: there is no
 * room. */
static uint32_t intern(struct hot_items *items, const struct hot_item *it)
{
	uint32_t id = items->slots[find_slot(items, it)], *ids = NULL;
	size_t size = it->n_ids * sizeof(*ids);
	struct hot_item *room;

	if (id)
		return id;
	room = next_item(items);
	if (!room || (size && !(ids = malloc(size))))
		return 0;
	*room = *it;
	if (size) {
		memcpy(ids, it->ids, size);
		room->ids = ids;
	}
	id = items->n + 1;
	items->slots[find_slot(items, it)] = id;
	items->n = id;
	if (!it->n_ids)
		room->first = room->last = id;
	return id;
}

/* With the lock. For a COND the size of its last instruction becomes part of
 * the item: hot_edges_settle needs it to tell the fall-through. */
static uint32_t add_range(struct hot_items *items, const struct space *space,
			  const struct aux_flow *ev)
{
	unsigned flags = ev->flags & (AUX_FLOW_MODE_MASK | AUX_FLOW_SIZE_MASK);
	struct hot_item it = { .space = space, .n_insns = ev->n, .range = *ev };
	struct walk_range r;

	it.range.offset = 0;
	if (ev->what == AUX_END_COND && !(flags & AUX_FLOW_SIZE_MASK) &&
	    !walk_once(items->walk, space, ev, &r))
		flags |= r.last_size & AUX_FLOW_SIZE_MASK;
	if (walk_nomem(items->walk))
		return 0;
	it.range.flags = (uint16_t)flags;
	return intern(items, &it);
}

uint32_t hot_items_range(struct hot_items *items, const struct space *space,
			 const struct aux_flow *ev)
{
	uint32_t id;

	pthread_mutex_lock(&items->lock);
	id = add_range(items, space, ev);
	pthread_mutex_unlock(&items->lock);
	return id;
}

/* With the lock: items in a row. A row of one is that item. */
static uint32_t add_row(struct hot_items *items, const uint32_t *ids,
			uint32_t n, uint32_t n_insns)
{
	struct hot_item it = { .n_ids = n, .n_insns = n_insns, .ids = ids,
			       .first = hot_item(items, ids[0])->first,
			       .last = hot_item(items, ids[n - 1])->last };

	return n == 1 ? ids[0] : intern(items, &it);
}

#define ROW 256 /* more than a decoder gives in one */

uint32_t hot_items_step(struct hot_items *items, const struct space *space,
			const struct aux_step *step)
{
	uint32_t ids[ROW], id = 0;

	if (!step->n_ranges || step->n_ranges > ROW)
		return 0;
	pthread_mutex_lock(&items->lock);
	for (uint32_t i = 0; i < step->n_ranges; i++) {
		ids[i] = add_range(items, space, &step->ranges[i]);
		if (!ids[i])
			goto out;
	}
	id = add_row(items, ids, step->n_ranges, step->n_insns);
out:
	pthread_mutex_unlock(&items->lock);
	return id;
}

uint32_t hot_items_path(struct hot_items *items, const struct aux_path *path)
{
	uint32_t ids[ROW], id = 0;

	if (!path->n_steps || path->n_steps > ROW)
		return 0;
	for (uint32_t i = 0; i < path->n_steps; i++) {
		ids[i] = (uint32_t)path->steps[i]->user[0];
		if (!ids[i])
			return 0;
	}
	pthread_mutex_lock(&items->lock);
	if (items->n_paths < MAX_PATHS) {
		id = add_row(items, ids, path->n_steps, path->n_insns);
		items->n_paths++;
	}
	pthread_mutex_unlock(&items->lock);
	return id;
}

/*
 * Partial results: a worker counts a chunk. All that is there by then is added
 * to the sink with the first stint that is joined, for the order matters only
 * between one partial result of a stream and the next.
 */

struct hot_partial {
	struct hot_partial *next;	/* idle */
	struct hot *hot;
	void *tree;		/* functions: flowpart.c; else NULL */
	struct hot_stream stream;
	struct hot_counter counter;
};

/* What came last in a stream; NULL: out of memory. */
static struct hot_stream *stream_of(struct hot *h, uint32_t stream)
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

static void free_partials(struct hot *h)
{
	struct hot_partial *p, *next;

	for (p = h->idle; p; p = next) {
		next = p->next;
		if (h->counter)
			hot_counter_fini(&p->counter);
		free(p);
	}
	h->idle = NULL;
}

static void hot_partial_free(void *partial)
{
	struct hot_partial *p = partial;
	struct hot *h;

	if (!p)
		return;
	h = p->hot;
	flowpart_free(p->tree);
	p->tree = NULL;
	if (h->counter)
		hot_counter_forget(&p->counter);
	pthread_mutex_lock(&h->items.lock);
	p->next = h->idle;
	h->idle = p;
	pthread_mutex_unlock(&h->items.lock);
}

static int hot_partial_new(void **partial, const void *sink)
{
	struct hot *h = (struct hot *)(uintptr_t)sink;
	struct hot_partial *p;

	*partial = NULL;
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
		p->counter.edges = h->config.edges;
	}
	p->stream = (struct hot_stream){ .prev = HOT_HEAD };
	*partial = p;
	if (!h->funcs || !hot_funcs_partial(h, &p->tree))
		return 0;
	hot_partial_free(p);
	*partial = NULL;
	return -AUX_E_NOMEM;
}

static int hot_partial_flow(void *partial, uint32_t stint,
			    const struct flow_ctx *ctx,
			    const struct aux_flow *ev, size_t n)
{
	struct hot_partial *p = partial;

	if (p->tree)
		return flowpart_flow(p->tree, stint, ctx, ev, n);
	p->stream.stream = ctx->stream;
	return hot_counter_flow(&p->counter, &p->stream, ctx, ev, n);
}

static int hot_partial_end(void *partial)
{
	struct hot_partial *p = partial;

	return p->tree ? flowpart_end(p->tree) : 0;
}

static size_t hot_partial_bytes(const void *partial)
{
	const struct hot_partial *p = partial;

	return p->tree ? flowpart_bytes(p->tree) : 0;
}

static int hot_partial_join(void *sink, void *partial, uint32_t stint)
{
	struct hot_partial *p = partial;
	struct hot *h = sink;
	struct hot_stream *s;

	if (p->tree)
		return hot_funcs_join(h, p->tree, stint);
	s = stream_of(h, p->stream.stream);
	if (!s)
		return -AUX_E_NOMEM;
	h->env.report->n_insns += p->counter.n_insns;
	if (hot_counter_drain(&p->counter, &h->edges, s))
		return -AUX_E_NOMEM;
	if (p->stream.prev != HOT_HEAD)
		*s = p->stream;
	return 0;
}

static void close_hot(void *sink)
{
	struct hot *h = sink;

	if (!h)
		return;
	free_partials(h);
	if (h->counter)
		hot_counter_fini(h->counter);
	free(h->counter);
	free(h->streams);
	hot_edges_fini(&h->edges);
	hot_items_fini(&h->items);
	hot_funcs_free(h->funcs);
	free(h);
}

/* For blocks and edges: items, and the counter of what comes by flow. */
static int open_counter(struct hot *h)
{
	int err = hot_items_init(&h->items, h->env.host);

	if (err)
		return err;
	h->counter = calloc(1, sizeof(*h->counter));
	if (!h->counter)
		return -AUX_E_NOMEM;
	h->counter->items = &h->items;
	h->counter->edges = h->config.edges;
	return 0;
}

static int check_config(const struct hot_config *c, struct aux_diag *diag)
{
	if (c->blocks && c->edges)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"--blocks and --edges are two tables: one at "
				"a time");
	if ((c->blocks || c->edges) && c->by != HOT_BY_NONE)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"--by is for functions: blocks and edges are "
				"counted");
	if ((c->blocks || c->edges) && c->stubs)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"--stubs is for functions: blocks and edges "
				"show them anyway");
	return 0;
}

static int open_hot(void **sink, const struct sink_env *env,
		    const void *options, struct aux_diag *diag)
{
	const struct hot_config *config = options;
	struct hot *h;
	int err = check_config(config, diag);

	*sink = NULL;
	if (err)
		return err;
	h = calloc(1, sizeof(*h));
	if (!h)
		return -AUX_E_NOMEM;
	h->env = *env;
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

static int flow_hot(void *sink, const struct flow_ctx *ctx,
		    const struct aux_flow *ev, size_t n)
{
	struct hot *h = sink;
	struct hot_stream *s;
	int err;

	if (h->funcs)
		return hot_funcs_flow(h, ctx, ev, n);
	s = stream_of(h, ctx->stream);
	if (!s)
		return -AUX_E_NOMEM;
	err = hot_counter_flow(h->counter, s, ctx, ev, n);
	h->env.report->n_insns += h->counter->n_insns;
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

/* Drains what flow counted, spreads it to ranges, prints. */
static int finish_hot(void *sink, struct aux_diag *diag)
{
	struct hot *h = sink;
	int err = 0;

	if (h->funcs) {
		err = hot_funcs_print(h, diag);
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
static uint32_t needs_of_hot(const void *options)
{
	const struct hot_config *config = options;

	if (config->blocks || config->edges)
		return SINK_TAKES_PATHS | SINK_ANY_STREAM_ORDER;
	return SINK_NEEDS_TIME | SINK_TAKES_PATHS | SINK_TAKES_TIMES | FLOWPART_NEEDS;
}

static void set_defaults(void *options)
{
	struct hot_config *config = options;

	config->by = HOT_BY_NONE;
}

/* table */
static const struct option_row hot_options[] = {
	SINK_LIMIT(struct hot_config, "show N rows (default 25)"),
	SINK_BY(struct hot_config, FLAME_BY_VALUES, FLAME_BY_HELP),
	{ .name = "blocks",
	  .help = "count basic blocks instead of functions",
	  OPTION_FLAG(struct hot_config, blocks) },
	{ .name = "edges",
	  .help = "count taken branches instead of functions",
	  OPTION_FLAG(struct hot_config, edges) },
	{ .name = "stubs",
	  .help = "PLT entries and thunks as functions of their own",
	  OPTION_FLAG(struct hot_config, stubs) },
	{ .name = NULL },
};

const struct sink_ops sink_hot = {
	.name = "hot",
	.needs = SINK_NEEDS_TIME | SINK_TAKES_PATHS,
	.needs_of = needs_of_hot,
	.options = hot_options,
	.config_size = sizeof(struct hot_config),
	.defaults = set_defaults,
	.open = open_hot,
	.flow = flow_hot,
	.finish = finish_hot,
	.close = close_hot,
	.partial_new = hot_partial_new,
	.partial_flow = hot_partial_flow,
	.partial_end = hot_partial_end,
	.partial_bytes = hot_partial_bytes,
	.partial_join = hot_partial_join,
	.partial_free = hot_partial_free,
};
