/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage: the units of all threads (see impl.h), found by their contents.
 *
 * Readers take no lock. A unit is complete before its number is released into the
 * table, and a table before it replaces the one before it, which stays until the end
 * for those that still read it. A reader that finds nothing in a table that is just
 * being replaced looks again with the lock.
 */
#include <stdlib.h>
#include <string.h>

#include <aux/error.h>

#include "decode/coverage/impl.h"

#define FIRST_SLOTS 4096	/* a power of two */
#define LAST_ID (COVER_FIRST_BLOCK * ((1u << COVER_BLOCKS) - 1) - 1)

struct cover_table {
	struct cover_table *before;	/* smaller, and no longer written */
	size_t n_slots;			/* a power of two */
	uint64_t slots[];		/* a unit's hash << 32 | its number; 0: free */
};

static struct cover_table *new_table(struct cover_table *before, size_t n_slots)
{
	struct cover_table *t =
		calloc(1, sizeof(*t) + n_slots * sizeof(t->slots[0]));

	if (t) {
		t->before = before;
		t->n_slots = n_slots;
	}
	return t;
}

int cover_units_init(struct cover_units *u)
{
	pthread_mutex_init(&u->lock, NULL);
	u->n = 1;
	u->table = new_table(NULL, FIRST_SLOTS);
	return u->table ? 0 : -AUX_E_NOMEM;
}

void cover_units_fini(struct cover_units *u)
{
	struct cover_table *t = u->table, *before;

	for (uint32_t i = 1; i < u->n; i++) {
		struct cover_unit *unit = cover_unit_at(u, i);

		free(unit->is_path ? (void *)unit->steps : (void *)unit->ranges);
	}
	for (unsigned i = 0; i < COVER_BLOCKS; i++)
		free(u->blocks[i]);
	for (; t; t = before) {
		before = t->before;
		free(t);
	}
	u->table = NULL;
	pthread_mutex_destroy(&u->lock);
}

static uint64_t mix(uint64_t h, uint64_t word)
{
	h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 29;
}

/* Most that share a slot differ in it: their contents need not be looked at. */
static uint32_t hash_unit(const struct cover_unit *u)
{
	uint64_t h = mix(cover_space_id(u->space), u->is_path);

	for (uint32_t i = 0; i < u->n; i++) {
		if (u->is_path)
			h = mix(h, u->steps[i]);
		else
			h = mix(mix(h, u->ranges[i].first),
				u->ranges[i].last << 8 ^ u->ranges[i].what);
	}
	return (uint32_t)(h >> 32);
}

static bool same_range(const struct cover_range *a, const struct cover_range *b)
{
	return a->first == b->first && a->last == b->last && a->n == b->n &&
	       a->what == b->what && a->flags == b->flags;
}

static bool same_unit(const struct cover_unit *a, const struct cover_unit *b)
{
	bool same = a->is_path == b->is_path && a->n == b->n &&
		    cover_space_id(a->space) == cover_space_id(b->space);

	for (uint32_t i = 0; same && i < a->n; i++)
		same = a->is_path ? a->steps[i] == b->steps[i] :
				    same_range(&a->ranges[i], &b->ranges[i]);
	return same;
}

/* The number of the unit, or 0, and then *at is the slot where it belongs. */
static uint32_t find(const struct cover_units *u, const struct cover_table *t,
		     const struct cover_unit *what, uint32_t hash, size_t *at)
{
	size_t i = hash & (t->n_slots - 1);
	uint64_t slot;

	while ((slot = __atomic_load_n(&t->slots[i], __ATOMIC_ACQUIRE)) &&
	       (slot >> 32 != hash || !same_unit(cover_unit_at(u, (uint32_t)slot), what)))
		i = (i + 1) & (t->n_slots - 1);
	*at = i;
	return (uint32_t)slot;
}

/* A table of twice the size in the place of the one that is half full. With the
 * lock. */
static int grow(struct cover_units *u)
{
	const struct cover_table *old = u->table;
	struct cover_table *t = new_table(u->table, 2 * old->n_slots);

	if (!t)
		return -AUX_E_NOMEM;
	for (size_t k = 0; k < old->n_slots; k++) {
		size_t i = old->slots[k] >> 32 & (t->n_slots - 1);

		if (!old->slots[k])
			continue;
		while (t->slots[i])
			i = (i + 1) & (t->n_slots - 1);
		t->slots[i] = old->slots[k];
	}
	__atomic_store_n(&u->table, t, __ATOMIC_RELEASE);
	return 0;
}

/* Appends a unit with a copy of its contents; its number, or 0: out of memory. With
 * the lock. */
static uint32_t append(struct cover_units *u, const struct cover_unit *what)
{
	size_t size = what->n * (what->is_path ? sizeof(*what->steps) :
						 sizeof(*what->ranges));
	unsigned block = 31 - (unsigned)__builtin_clz(u->n / COVER_FIRST_BLOCK + 1);
	struct cover_unit *unit;
	void *copy;

	if (u->n > LAST_ID)
		return 0;
	if (!u->blocks[block])
		u->blocks[block] = malloc(((size_t)COVER_FIRST_BLOCK << block) *
					  sizeof(*unit));
	copy = u->blocks[block] ? malloc(size) : NULL;
	if (!copy)
		return 0;
	unit = cover_unit_at(u, u->n);
	*unit = *what;
	if (what->is_path)
		unit->steps = memcpy(copy, what->steps, size);
	else
		unit->ranges = memcpy(copy, what->ranges, size);
	return u->n++;
}

uint32_t cover_unit_need(struct cover_units *u, const struct cover_unit *what)
{
	struct cover_table *t = __atomic_load_n(&u->table, __ATOMIC_ACQUIRE);
	uint32_t hash = hash_unit(what);
	size_t at;
	uint32_t id = find(u, t, what, hash, &at);

	if (id)
		return id;
	pthread_mutex_lock(&u->lock);
	if (2 * (size_t)u->n < u->table->n_slots || !grow(u)) {
		id = find(u, u->table, what, hash, &at);
		if (!id) {
			id = append(u, what);
			if (id)
				__atomic_store_n(&u->table->slots[at],
						 (uint64_t)hash << 32 | id, __ATOMIC_RELEASE);
		}
	}
	pthread_mutex_unlock(&u->lock);
	return id;
}
