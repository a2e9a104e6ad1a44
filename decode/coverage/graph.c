/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage: the flow graph of a function, rebuilt from its machine code.
 *
 * gcov counts lines by the compiler's flow graph (gcc/gcov.cc). Here the code
 * itself stands for that graph: blocks start at branch targets and end at
 * branches and calls. All code of the function is decoded, whether it ran or
 * not, so that blocks do not depend on the run: a branch that never ran splits
 * blocks all the same.
 *
 * Block counts are exact (they come from the trace); arc counts are those of
 * the branches, of falling through, and, after calls, what remains
 * (add_returns).
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include <aux/error.h>
#include <aux/flow.h>

#include "common/a64_insn.h"
#include "common/array.h"
#include "common/x86_insn.h"
#include "decode/coverage/impl.h"

/* ---- Counts by offset ---- */

static int by_off(const void *a, const void *b)
{
	const struct graph_step *x = a, *y = b;

	return x->off < y->off ? -1 : x->off > y->off;
}

/*
 * Turns blocks, which may overlap, into steps: +n at the start of each, -n at
 * its end, sorted and summed up. Unsigned wrap-around makes the differences
 * work out.
 */
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

/* How many steps start at off or before. */
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

/* ---- Instructions ---- */

/*
 * Sets size, class and direct target of the instruction at p, of which left
 * bytes can be read. False if it is none. in->off is set already.
 */
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

/*
 * Appends the instructions of [a->start, a->end), addresses as linked, with
 * their rows of the line table. Data in the code, or a truncated file, stops it
 * and sets broken; then lines are listed from the line table instead.
 */
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

/* The instruction that starts at an offset, or NULL. */
static struct graph_insn *find_insn(const struct graph *g, uint64_t off)
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

/* ---- Blocks and arcs ---- */

/* True for edges within a function's graph. Calls and returns leave it. */
static bool is_jump(const struct cover_edge *e)
{
	return e->module == e->to_module &&
	       (e->what == AUX_END_COND_TAKEN || e->what == AUX_END_COND ||
		e->what == AUX_END_COND_NOT_TAKEN || e->what == AUX_END_JUMP ||
		e->what == AUX_END_IND_JUMP);
}

/*
 * A block starts at the function's start and after each gap, after a branch or
 * call, and at each target: of direct branches by the code, of indirect ones by
 * the edges that were seen.
 */
static void mark_leaders(struct graph *g, const struct graph_counts *c)
{
	const struct cover_edge *e, *end;

	for (size_t i = 0; i < g->n_insns; i++) {
		struct graph_insn *in = &g->insns[i], *to;

		in->leads |= !i || g->insns[i - 1].off + g->insns[i - 1].size !=
					   in->off;
		if (in->cls == X86_OTHER || in->cls == X86_PTWRITE)
			continue;
		if (i + 1 < g->n_insns)
			g->insns[i + 1].leads = true;
		to = in->cls == X86_COND || in->cls == X86_JUMP ?
			     find_insn(g, in->to) : NULL;
		if (to)
			to->leads = true;
		for (e = cover_edges_from(c->tally, c->module, in->off, &end);
		     e < end && e->from == in->off; e++) {
			to = is_jump(e) ? find_insn(g, e->to) : NULL;
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

/* The block that holds an instruction. */
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

/*
 * Adds n to an arc; calls for one pair of blocks are consecutive, and arcs that
 * did not run are not kept.
 */
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

/*
 * Arcs of branches, from the edges, and of blocks that end only because the
 * next one is a branch target: these run on as often as they ran.
 */
static int add_jumps(struct graph *g, const struct graph_counts *c)
{
	const struct cover_edge *e, *end;
	int rc = 0;

	for (uint32_t i = 0; i < g->n_blocks && !rc; i++) {
		const struct graph_insn *in = &g->insns[g->blocks[i].last], *to;

		if (in->cls == X86_OTHER && i + 1 < g->n_blocks &&
		    g->insns[g->blocks[i].last + 1].off == in->off + in->size)
			rc = add_arc(g, i, i + 1, graph_count(c, in->off));
		for (e = cover_edges_from(c->tally, c->module, in->off, &end);
		     e < end && e->from == in->off && !rc; e++) {
			to = is_jump(e) ? find_insn(g, e->to) : NULL;
			if (to)
				rc = add_arc(g, i, block_of(g, to), e->n);
		}
	}
	return rc;
}

/* True for branches that come back to the next instruction. */
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

/*
 * True for calls that may return more often than they were made: setjmp by
 * longjmp, vfork once in the child and once in the parent.
 */
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

/*
 * Arcs from calls to the instruction after them. Returns are not matched with
 * calls in the tally; the arc gets what no other arc brings to the next block,
 * at most as much as the call ran.
 */
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

/*
 * ---- Lines at both ends of a function ----
 *
 * The line table and the graph of the compiler, by which gcov counts, differ
 * about how a function starts and ends. In the line table the prologue has the
 * line of the brace, in the graph that of the declaration; the epilogue may
 * have a line in the table alone. These functions change rows so that counts
 * agree with gcov's.
 */

/* True if in follows "je 1f; call __stack_chk_fail; 1:" (-fstack-protector). */
static bool is_guard(const struct graph *g, const struct graph_insn *in)
{
	return in >= g->insns + 2 && in[-1].cls == X86_CALL &&
	       in[-2].cls == X86_COND && in[-2].to == in->off;
}

/* Clears the rows of the epilogue: the instructions up to a return with its
 * row. */
static void drop_end(struct graph *g, struct graph_insn *ret)
{
	const struct source_row *row = ret->row;
	struct graph_insn *in = ret;

	while (in > g->insns && in[-1].row == row) {
		if (is_guard(g, in))
			in--;
		else if (in[-1].cls != X86_OTHER)
			break;
		in--;
	}
	for (; in <= ret; in++)
		in->row = NULL;
}

/* The same, and for jumps to that epilogue that have its line. */
static void drop_ends(struct graph *g, struct graph_insn *ret)
{
	const struct source_row *row = ret->row;
	struct graph_insn *in, *end = g->insns + g->n_insns, *first = ret;

	drop_end(g, ret);
	while (first > g->insns && !first[-1].row &&
	       first[-1].cls == X86_OTHER)
		first--;
	for (in = g->insns; in < end; in++) {
		if (in->cls == X86_JUMP && in->to == first->off && in->row &&
		    in->row->line == row->line)
			drop_end(g, in);
	}
}

/* True for "mov %fs:0x28,%rax", which loads the canary of -fstack-protector. */
static bool is_canary(const struct cover_module *m, const struct graph_insn *in)
{
	static const uint8_t code[] = { 0x64, 0x48, 0x8b, 0x04, 0x25, 0x28 };
	uint64_t len, off = in->off + m->shift;
	const uint8_t *data = elfimage_data(m->image, &len);

	return off < len && len - off >= sizeof(code) &&
	       !memcmp(data + off, code, sizeof(code));
}

/*
 * Gives the prologue the line of the declaration. It reaches to the next row of
 * the line table, but a row that starts with the canary belongs to it as well.
 */
static void mend_head(struct graph *g, const struct cover_module *m,
		      struct graph_insn *in, const struct elfimage_function *f)
{
	const struct graph_insn *end = g->insns + g->n_insns;
	const struct source_row *first = in->row, *row = first;

	if (!first || !f->line || first->line == f->line)
		return;
	g->head = *first;
	g->head.line = f->line;
	for (; in < end && in->row && in->row->line == first->line; in++) {
		if (in->row != row && !is_canary(m, in))
			break;
		row = in->row;
		in->row = &g->head;
	}
}

/*
 * True if the line of the epilogue counts: for functions that return nothing
 * and have no return statement, where gcov counts the closing brace.
 */
static bool counts_end(const struct graph *g, const struct elfimage_function *f,
		       const struct cover_labels *source)
{
	if (f->has_value)
		return false;
	for (size_t i = 0; source && i < g->n_insns; i++) {
		const struct source_row *row = g->insns[i].row;

		if (row && cover_labels_of(source, row->line) & COVER_RETURN)
			return false;
	}
	return true;
}

static void mend_rows(struct graph *g, const struct graph_counts *c,
		      const struct elfimage_function *f,
		      const struct cover_labels *source)
{
	struct graph_insn *in;
	uint64_t off, left;

	if (!elfimage_offset(c->module->image, f->entry, &off, &left))
		return;
	in = find_insn(g, off - c->module->shift);
	if (in)
		mend_head(g, c->module, in, f);
	if (counts_end(g, f, source))
		return;
	for (size_t i = 0; i < g->n_insns; i++) {
		if (g->insns[i].cls == X86_RET && g->insns[i].row)
			drop_ends(g, &g->insns[i]);
	}
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
	mend_rows(g, c, f, source);
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
 * ---- Cycles within a line ----
 *
 * How often control went round inside the blocks of one line, as gcov's
 * get_cycles_count. A cycle is found, its smallest arc count is subtracted from
 * all its arcs and added to the result, until no cycle is left. Each
 * subtraction removes an arc, so there are at most as many cycles as arcs.
 */

/* In lines with more blocks cycles are not sought: it would take too long. */
#define MAX_BLOCKS 4096

struct search {
	const struct graph *g;
	const uint32_t *blocks;	/* sorted */
	size_t n;
	uint64_t *left;		/* what is left of each arc's count */
	uint32_t *via;		/* for each block of the line: the arc by
				 * which the search left it */
	bool *seen;
	uint32_t *stack;	/* blocks of the line, by index */
	size_t depth;
};

/* The index of a block among those of the line; n if it is not one. */
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

/*
 * One step of a depth-first search for a path from start back to itself, over
 * blocks from start on (smaller ones were searched before). 1: found, -1: there
 * is none, 0: go on. The search has a stack of its own, since a line may have
 * many blocks.
 */
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

/* Removes one cycle through start; returns its count, 0 if there is none. */
static uint64_t remove_cycle(struct search *s, size_t start)
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

int graph_cycles(const struct graph *g, const uint32_t *blocks, size_t n,
		 uint64_t *sum)
{
	struct search s = { .g = g, .blocks = blocks, .n = n };
	uint64_t some;
	bool ready;

	if (!g->n_arcs || !n || n > MAX_BLOCKS)
		return 0;
	s.left = reallocarray(NULL, g->n_arcs, sizeof(*s.left));
	s.via = reallocarray(NULL, n, sizeof(*s.via));
	s.stack = reallocarray(NULL, n, sizeof(*s.stack));
	s.seen = calloc(n, sizeof(*s.seen));
	ready = s.left && s.via && s.stack && s.seen;
	for (size_t i = 0; ready && i < g->n_arcs; i++)
		s.left[i] = g->arcs[i].n;
	for (size_t i = 0; ready && i < n; i++) {
		while ((some = remove_cycle(&s, i)))
			*sum += some;
	}
	free(s.left);
	free(s.via);
	free(s.stack);
	free(s.seen);
	return ready ? 0 : -AUX_E_NOMEM;
}
