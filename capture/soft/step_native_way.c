/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is run often is copied once more, along the way that the program was seen to take:
 * through all branches, so that a thousand instructions leave a few records instead of a
 * hundred. The records show what is run often, and its way: of each few batches of them one
 * is looked at.
 *
 * The new copy takes the old one's place in all links and doors. Threads may be in the old
 * one, or on their way to it: it stays.
 */
#include <stdlib.h>
#include <string.h>

#include "capture/soft/step_native.h"

#define LOOKED_AT 4	/* one of so many batches */
#define HOT 16		/* records of an exit in those, before a way begins there */
#define WAY_INSNS 160
#define MAX_PLACES 16
#define MIN_PLACES 4
#define MAX_WAYS 32	/* of one batch */
#define MAX_TRIES 8	/* to find a way from one place */
#define MOST 4		/* one of so many times the way is taken to its end, at least */
#define LONG_INSNS 100	/* then it ends where another one begins, or it began */

struct way {
	uint64_t start;
	uint64_t to[NATIVE_MAX_INSNS];
	unsigned n, n_insns, n_exits;
};

/* Records at which a unit is left that begins at one place. */
struct places {
	uint32_t at[MAX_PLACES];
	unsigned n;
};

/* The newest unit that begins there is of a way. */
static bool is_way(const struct step_native *nc, uint64_t ip)
{
	return nc->units[step_native_unit_of(nc, ip)].way;
}

/* Where the branches go until the unit is left by this exit. next: where the one after it
 * begins; 0: not known. False: there is no more to follow. */
static bool add_path(const struct step_native *nc, struct way *w, uint32_t id, uint64_t next)
{
	const struct native_exit *e = &nc->exits[id];
	const struct native_insn *in = nc->insns + nc->units[e->unit].first_insn;
	unsigned i;

	for (i = 0; i < e->n_insns; i++) {
		uint64_t to = i + 1u < e->n_insns ? in[i + 1].ip : next;

		if (in[i].cls != X86_OTHER)
			w->to[w->n++] = to;
	}
	w->n_insns += e->n_insns;
	w->n_exits++;
	return next && !nc->paths[id].enters_kernel;
}

/* Which record most of the places go on with, depth records on; those that go on with
 * another one are dropped from them. Returns how many are left. */
static unsigned vote(struct places *p, const uint32_t *ids, size_t n, size_t depth)
{
	unsigned i, k, count, most = 0, left = 0;
	uint32_t best = 0;

	for (i = 0; i < p->n; i++) {
		if (p->at[i] + depth >= n)
			continue;
		for (k = i, count = 0; k < p->n; k++)
			count += p->at[k] + depth < n &&
				 ids[p->at[k] + depth] == ids[p->at[i] + depth];
		if (count > most)
			best = ids[p->at[i] + depth];
		most = count > most ? count : most;
	}
	for (i = 0; i < p->n; i++)
		if (p->at[i] + depth < n && ids[p->at[i] + depth] == best)
			p->at[left++] = p->at[i];
	p->n = left;
	return left;
}

/* The way that most of the times is taken from where start's unit begins. */
static void find_way(const struct step_native *nc, struct way *w, struct places *places,
		     const uint32_t *ids, size_t n)
{
	unsigned all = places->n;
	size_t depth;
	uint64_t next;

	for (depth = 0; vote(places, ids, n, depth) * MOST >= all; depth++) {
		size_t at = places->at[0] + depth;
		const struct soft_path *p = &nc->paths[ids[at]];
		const struct native_exit *e = &nc->exits[ids[at]];

		if (nc->units[e->unit].dead || w->n_insns + e->n_insns > WAY_INSNS)
			return;
		if (depth && w->n_insns >= LONG_INSNS &&
		    (p->start == w->start || is_way(nc, p->start)))
			return;
		next = !p->by_tip ? p->next : at + 1 < n ? nc->paths[ids[at + 1]].start : 0;
		if (!add_path(nc, w, ids[at], next))
			return;
	}
}

static void make_way(struct step_thread *t, uint64_t start, const uint32_t *ids, size_t n)
{
	struct step_native *nc = t->proc->native;
	uint32_t old = step_native_unit_of(nc, start);
	struct places places = { .n = 0 };
	struct way w = { .start = start };
	struct native_way way;
	size_t i;

	if (!old || nc->units[old].way || !nc->units[old].n_insns ||
	    ++nc->units[old].tries > MAX_TRIES)
		return;
	for (i = 0; i + 1 < n && places.n < MAX_PLACES; i++)
		if (nc->paths[ids[i]].start == start)
			places.at[places.n++] = (uint32_t)i;
	if (places.n < MIN_PLACES)
		return;
	find_way(nc, &w, &places, ids, n);
	way = (struct native_way){ w.to, w.n };
	if (w.n_exits > 1)
		step_native_replace(t, old, &way);
}

void step_native_keep(struct step_native *nc, const uint32_t *ids, size_t n)
{
	if (nc->n_seen || nc->failed || nc->n_batches++ % LOOKED_AT || n > NATIVE_SEEN)
		return;
	memcpy(nc->seen, ids, n * sizeof(*ids));
	nc->n_seen = n;
}

/* Room for what is counted of each exit. */
static bool grow_heat(struct step_native *nc)
{
	uint8_t *heat;

	if (nc->n_heat >= nc->n_exits)
		return true;
	heat = realloc(nc->heat, nc->cap_exits);
	if (!heat)
		return false;
	memset(heat + nc->n_heat, 0, nc->cap_exits - nc->n_heat);
	nc->heat = heat;
	nc->n_heat = nc->cap_exits;
	return true;
}

void step_native_look(struct step_thread *t)
{
	struct step_native *nc = t->proc->native;
	const uint32_t *ids = nc->seen;
	unsigned left = MAX_WAYS;
	size_t i, n = nc->n_seen;

	if (!n || nc->looking || nc->translating)
		return;
	nc->looking = true;
	for (i = 0; grow_heat(nc) && left && i + 1 < n; i++) {
		if (++nc->heat[ids[i]] < HOT)
			continue;
		nc->heat[ids[i]] = 0;
		left--;
		if (!nc->paths[ids[i]].enters_kernel)
			make_way(t, nc->paths[ids[i + 1]].start, ids, n);
	}
	nc->looking = false;
	nc->n_seen = 0;
}
