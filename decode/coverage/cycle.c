/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage_cycle: how often control went round inside of the blocks of one line: a
 * cycle is found, as often as its rarest arc allows it is taken out, and so on
 * until there is none. Each takes an arc away, so there are at most as many as arcs.
 */
#include <stdlib.h>

#include <aux/error.h>

#include "decode/coverage/graph.h"

#define MAX_BLOCKS 4096 /* of a line; above it is not looked for cycles */

struct search {
	const struct graph *g;
	const uint32_t *blocks;	/* sorted */
	size_t n;
	uint64_t *left;		/* of each arc */
	uint32_t *via;		/* of each block of the line: the arc that the
				 * search left it by */
	bool *seen;
	uint32_t *stack;	/* blocks of the line, by index */
	size_t depth;
};

/* The index of a block in the line; n: it is not in it. */
static size_t index_of(const struct search *s, uint32_t block)
{
	size_t lo = 0, n = s->n;

	while (n) {
		size_t half = n / 2;

		if (s->blocks[lo + half] < block) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo < s->n && s->blocks[lo] == block ? lo : s->n;
}

static size_t first_arc(const struct graph *g, uint32_t from)
{
	size_t lo = 0, n = g->n_arcs;

	while (n) {
		size_t half = n / 2;

		if (g->arcs[lo + half].from < from) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo;
}

/* One step of a search for a way from start to itself: 1 found, -1 given up. */
static int step(struct search *s, size_t start)
{
	size_t at = s->stack[s->depth - 1], to;
	uint32_t *via = &s->via[at];

	for (; *via < s->g->n_arcs &&
	       s->g->arcs[*via].from == s->blocks[at]; ++*via) {
		to = s->left[*via] ? index_of(s, s->g->arcs[*via].to) : s->n;
		if (to == s->n || to < start)
			continue;
		if (to == start)
			return 1;
		if (s->seen[to])
			continue;
		s->seen[to] = true;
		s->via[to] = (uint32_t)first_arc(s->g, s->blocks[to]);
		s->stack[s->depth++] = (uint32_t)to;
		return 0;
	}
	if (!--s->depth)
		return -1;
	s->via[s->stack[s->depth - 1]]++;
	return 0;
}

/* Takes a cycle out; 0: there is none. */
static uint64_t take_cycle(struct search *s, size_t start)
{
	uint64_t min = UINT64_MAX;
	int rc;

	for (size_t i = 0; i < s->n; i++)
		s->seen[i] = false;
	s->depth = 1;
	s->stack[0] = (uint32_t)start;
	s->via[start] = (uint32_t)first_arc(s->g, s->blocks[start]);
	while ((rc = step(s, start)) == 0)
		;
	if (rc < 0)
		return 0;
	for (size_t i = 0; i < s->depth; i++) {
		if (s->left[s->via[s->stack[i]]] < min)
			min = s->left[s->via[s->stack[i]]];
	}
	for (size_t i = 0; i < s->depth; i++)
		s->left[s->via[s->stack[i]]] -= min;
	return min;
}

uint64_t graph_cycles(const struct graph *g, const uint32_t *blocks, size_t n)
{
	struct search s = { .g = g, .blocks = blocks, .n = n };
	uint64_t sum = 0, some;

	if (!g->n_arcs || n > MAX_BLOCKS)
		return 0;
	s.left = reallocarray(NULL, g->n_arcs, sizeof(*s.left));
	s.via = reallocarray(NULL, n, sizeof(*s.via));
	s.stack = reallocarray(NULL, n, sizeof(*s.stack));
	s.seen = calloc(n, sizeof(*s.seen));
	for (size_t i = 0; s.left && i < g->n_arcs; i++)
		s.left[i] = g->arcs[i].n;
	for (size_t i = 0; s.left && s.via && s.stack && s.seen && i < n; i++) {
		while ((some = take_cycle(&s, i)))
			sum += some;
	}
	free(s.left);
	free(s.via);
	free(s.stack);
	free(s.seen);
	return sum;
}
