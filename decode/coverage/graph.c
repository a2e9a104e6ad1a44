/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage_graph: see graph.h. The code of a function is decoded from its
 * begin to its end, whether it ran or not: where a branch leads that never ran, a
 * block begins all the same.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include <aux/error.h>
#include <aux/flow.h>

#include "common/a64_insn.h"
#include "common/array.h"
#include "common/x86_insn.h"
#include "decode/coverage/graph.h"

/* ---- counts ---- */

static int by_off(const void *a, const void *b)
{
	const struct graph_step *x = a, *y = b;

	return x->off < y->off ? -1 : x->off > y->off;
}

int graph_counts_init(struct graph_counts *c, const struct cover_tally *t,
		      const struct cover_module *m)
{
	const struct cover_block *b = t->blocks + m->block;
	uint64_t sum = 0;
	size_t n = 0;

	*c = (struct graph_counts){ .tally = t, .module = m };
	c->v = reallocarray(NULL, 2 * m->n_blocks + 1, sizeof(*c->v));
	if (!c->v)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < m->n_blocks; i++) {
		c->v[c->n++] = (struct graph_step){ b[i].off, b[i].n };
		c->v[c->n++] = (struct graph_step){ b[i].off + b[i].size,
						    -b[i].n };
	}
	if (c->n)
		qsort(c->v, c->n, sizeof(*c->v), by_off);
	for (size_t i = 0; i < c->n; i++) {
		sum += c->v[i].n;
		if (n && c->v[n - 1].off == c->v[i].off)
			n--;
		c->v[n++] = (struct graph_step){ c->v[i].off, sum };
	}
	c->n = n;
	return 0;
}

void graph_counts_fini(struct graph_counts *c)
{
	free(c->v);
}

/* How many begin at off or before. */
static size_t find_step(const struct graph_counts *c, uint64_t off)
{
	size_t lo = 0, n = c->n;

	while (n) {
		size_t half = n / 2;

		if (c->v[lo + half].off <= off) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo;
}

uint64_t graph_count(const struct graph_counts *c, uint64_t off)
{
	size_t i = find_step(c, off);

	return i ? c->v[i - 1].n : 0;
}

bool graph_ran(const struct graph_counts *c, uint64_t start, uint64_t end)
{
	size_t i = find_step(c, start);

	if (i && c->v[i - 1].n)
		return true;
	for (; i < c->n && c->v[i].off < end; i++) {
		if (c->v[i].n)
			return true;
	}
	return false;
}

/* ---- instructions ---- */

/* Size and kind of what is at p; false: it is no instruction. */
static bool decode(const uint8_t *p, uint64_t left, unsigned mode,
		   struct graph_insn *in)
{
	struct x86_insn x;
	struct a64_insn a;
	uint32_t word;

	if (mode == AUX_FLOW_MODE_A64) {
		if (left < 4)
			return false;
		word = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
		       (uint32_t)p[3] << 24;
		a64_insn_decode(word, &a);
		in->size = 4;
		in->cls = a.cls;
		in->to = in->off + (uint64_t)(int64_t)a.disp;
		return true;
	}
	if (!x86_insn_decode_in(p, left < 15 ? left : 15,
				mode == AUX_FLOW_MODE_X86_32 ? X86_MODE_32 :
							       X86_MODE_64,
				&x))
		return false;
	in->size = x.size;
	in->cls = x.cls;
	in->to = in->off + x.size + (uint64_t)x.disp;
	return true;
}

/* All of [a->start, a->end). */
static int add_area(struct graph *g, const struct graph_counts *c,
		    const struct elfimage_area *a)
{
	const struct source_row *row = NULL, *rows;
	const struct cover_module *m = c->module;
	uint64_t off, left, len, at = a->start;
	const uint8_t *data = elfimage_data(m->image, &len);
	size_t n = elfimage_rows(m->image, a->start, &rows);

	if (!elfimage_offset(m->image, at, &off, &left)) {
		g->broken = true;
		return 0;
	}
	if (left > a->end - at)
		left = a->end - at;
	if (n)
		row = rows;
	while (left) {
		struct graph_insn in = { .off = off - m->shift };

		if (!decode(data + off, left, m->mode, &in) || in.size > left) {
			g->broken = true;
			return 0;
		}
		while (n > 1 && row[1].addr <= at) {
			row++;
			n--;
		}
		in.row = row && row->file && row->line ? row : NULL;
		if (array_grow(&g->insns, g->n_insns, &g->cap_insns,
			 sizeof(*g->insns)) < 0)
			return -AUX_E_NOMEM;
		g->insns[g->n_insns++] = in;
		off += in.size;
		at += in.size;
		left -= in.size;
	}
	return 0;
}

struct graph_insn *graph_find(const struct graph *g, uint64_t off)
{
	size_t lo = 0, n = g->n_insns;

	while (n) {
		size_t half = n / 2;

		if (g->insns[lo + half].off < off) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo < g->n_insns && g->insns[lo].off == off ? &g->insns[lo] :
							    NULL;
}

/* ---- blocks and arcs ---- */

/* The part of the edges that begins in [start, end). */
static const struct cover_edge *find_edges(const struct graph_counts *c,
					   uint64_t off)
{
	const struct cover_edge *e = c->tally->edges + c->module->edge;
	size_t lo = 0, n = c->module->n_edges;

	while (n) {
		size_t half = n / 2;

		if (e[lo + half].from < off) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return e + lo;
}

static bool is_jump(const struct cover_edge *e)
{
	return e->module == e->to_module &&
	       (e->what == AUX_END_COND_TAKEN || e->what == AUX_END_COND ||
		e->what == AUX_END_COND_NOT_TAKEN || e->what == AUX_END_JUMP ||
		e->what == AUX_END_IND_JUMP);
}

static void mark_leaders(struct graph *g, const struct graph_counts *c)
{
	const struct cover_edge *e, *end = c->tally->edges + c->module->edge +
					   c->module->n_edges;

	for (size_t i = 0; i < g->n_insns; i++) {
		struct graph_insn *in = &g->insns[i], *to;

		in->leads |= !i || g->insns[i - 1].off + g->insns[i - 1].size !=
					   in->off;
		if (in->cls == X86_OTHER || in->cls == X86_PTWRITE)
			continue;
		if (i + 1 < g->n_insns)
			g->insns[i + 1].leads = true;
		to = in->cls == X86_COND || in->cls == X86_JUMP ?
			     graph_find(g, in->to) : NULL;
		if (to)
			to->leads = true;
		for (e = find_edges(c, in->off);
		     e < end && e->from == in->off; e++) {
			to = is_jump(e) ? graph_find(g, e->to) : NULL;
			if (to)
				to->leads = true;
		}
	}
}

static int make_blocks(struct graph *g, const struct graph_counts *c)
{
	for (size_t i = 0; i < g->n_insns; i++) {
		if (g->insns[i].leads) {
			if (array_grow(&g->blocks, g->n_blocks, &g->cap_blocks,
				 sizeof(*g->blocks)) < 0)
				return -AUX_E_NOMEM;
			g->blocks[g->n_blocks++] = (struct graph_block){
				.first = (uint32_t)i,
				.n = graph_count(c, g->insns[i].off),
			};
		}
		g->blocks[g->n_blocks - 1].last = (uint32_t)i;
	}
	return 0;
}

static uint32_t block_of(const struct graph *g, const struct graph_insn *in)
{
	uint32_t i = (uint32_t)(in - g->insns), lo = 0;
	size_t n = g->n_blocks;

	while (n) {
		size_t half = n / 2;

		if (g->blocks[lo + half].first <= i) {
			lo += (uint32_t)half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo - 1;
}

static int add_arc(struct graph *g, uint32_t from, uint32_t to, uint64_t n)
{
	struct graph_arc *last = g->n_arcs ? &g->arcs[g->n_arcs - 1] : NULL;

	if (!n)
		return 0;
	g->blocks[to].in += n;
	if (last && last->from == from && last->to == to) {
		last->n += n;
		return 0;
	}
	if (array_grow(&g->arcs, g->n_arcs, &g->cap_arcs, sizeof(*g->arcs)) < 0)
		return -AUX_E_NOMEM;
	g->arcs[g->n_arcs++] = (struct graph_arc){ from, to, n };
	return 0;
}

/* Where branches went, and what simply goes on. */
static int add_jumps(struct graph *g, const struct graph_counts *c)
{
	const struct cover_edge *e, *end = c->tally->edges + c->module->edge +
					   c->module->n_edges;
	int rc = 0;

	for (uint32_t i = 0; i < g->n_blocks && !rc; i++) {
		const struct graph_insn *in = &g->insns[g->blocks[i].last], *to;

		if (in->cls == X86_OTHER && i + 1 < g->n_blocks &&
		    g->insns[g->blocks[i].last + 1].off == in->off + in->size)
			rc = add_arc(g, i, i + 1, graph_count(c, in->off));
		for (e = find_edges(c, in->off);
		     e < end && e->from == in->off && !rc; e++) {
			to = is_jump(e) ? graph_find(g, e->to) : NULL;
			if (to)
				rc = add_arc(g, i, block_of(g, to), e->n);
		}
	}
	return rc;
}

static bool goes_on(const struct graph_insn *in)
{
	return in->cls == X86_CALL || in->cls == X86_IND_CALL ||
	       in->cls == X86_SYSCALL || in->cls == X86_FAR ||
	       in->cls == X86_PTWRITE;
}

static int by_from(const void *a, const void *b)
{
	const struct graph_arc *x = a, *y = b;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	return x->to < y->to ? -1 : x->to > y->to;
}

/* Whether a call can come back more often than it was made. */
static bool is_setjmp(const struct graph_counts *c, const struct graph_insn *in)
{
	struct elfimage_symbol sym;
	const char *name;

	if (in->cls != X86_CALL ||
	    elfimage_symbol(c->module->image, in->to + c->module->shift,
			    &sym) < 0)
		return false;
	name = sym.name + strspn(sym.name, "_");
	return !strncmp(name, "setjmp", 6) || !strncmp(name, "sigsetjmp", 9) ||
	       !strncmp(name, "vfork", 5);
}

/* What comes back behind a call: all that nothing else brings there. */
static int add_returns(struct graph *g, const struct graph_counts *c)
{
	int rc = 0;

	for (uint32_t i = 0; i + 1 < g->n_blocks && !rc; i++) {
		const struct graph_block *b = &g->blocks[i], *next = b + 1;
		uint64_t n = next->n > next->in ? next->n - next->in : 0;

		if (!goes_on(&g->insns[b->last]))
			continue;
		if (n > b->n && !is_setjmp(c, &g->insns[b->last]))
			n = b->n;
		rc = add_arc(g, i, i + 1, n);
	}
	if (g->n_arcs)
		qsort(g->arcs, g->n_arcs, sizeof(*g->arcs), by_from);
	return rc;
}

int graph_make(struct graph *g, const struct graph_counts *c,
	       const struct elfimage_function *f,
	       const struct cover_labels *source)
{
	g->n_insns = g->n_blocks = g->n_arcs = 0;
	g->broken = false;
	for (size_t i = 0; i < f->n_areas; i++) {
		if (add_area(g, c, &f->areas[i]) < 0)
			return -AUX_E_NOMEM;
	}
	graph_mend_rows(g, c, f, source);
	mark_leaders(g, c);
	if (make_blocks(g, c) < 0 || add_jumps(g, c) < 0)
		return -AUX_E_NOMEM;
	return add_returns(g, c);
}

void graph_fini(struct graph *g)
{
	free(g->insns);
	free(g->blocks);
	free(g->arcs);
}

/*
 * coverage_cycle: how often control went round inside of the blocks of one line: a
 * cycle is found, as often as its rarest arc allows it is taken out, and so on
 * until there is none. Each takes an arc away, so there are at most as many as arcs.
 */

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
