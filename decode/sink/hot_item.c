/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_hot_item: see hot.h. Equal items have one number, so that there are as
 * many as the code has ways, however often a decoder forgets what it knew. Paths
 * are the ones that could be very many: above a limit their steps are counted.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/sink/hot.h"
#include "decode/lib/sideband/sideband.h"

#define MAX_PATHS (2u << 20)

int hot_items_init(struct hot_items *items, const struct sink_host *host)
{
	struct walk_config wc = { .host = host };

	pthread_mutex_init(&items->lock, NULL);
	items->n_slots = 4096;
	items->slots = calloc(items->n_slots, sizeof(*items->slots));
	return items->slots ? walk_new(&items->walk, &wc) : -AUX_E_NOMEM;
}

void hot_items_fini(struct hot_items *items)
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

/* Makes room for the next item; NULL: there is none. */
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

/* The number of an equal item, or of this one, which is new then. ids are copied. */
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

/* With the lock. */
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

/* With the lock: items in a row. */
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
