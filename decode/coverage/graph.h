/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage: the flow graph of one function: its blocks, how often each ran, and how
 * often control went from one to another. Private to graph.c, which makes it, and
 * lines.c, which counts lines by it.
 */
#ifndef DECODE_COVERAGE_GRAPH_H
#define DECODE_COVERAGE_GRAPH_H

#include "decode/coverage/impl.h"
#include "decode/lib/elf/elf.h"

struct graph_insn {
	uint64_t off;		/* in the module */
	const struct source_row *row;	/* NULL: the code has no line */
	uint8_t size, cls;	/* enum x86_class, a64_class */
	bool leads;		/* starts a block */
	uint64_t to;		/* of a direct branch: offset */
};

struct graph_block {
	uint32_t first, last;	/* instructions */
	uint64_t n;
	uint64_t in;		/* the part of n that came along arcs */
};

struct graph_arc {
	uint32_t from, to;	/* blocks */
	uint64_t n;
};

struct graph {
	struct source_row head;	/* stands for the line of the declaration */
	bool broken;		/* some code could not be decoded */
	struct graph_insn *insns;
	size_t n_insns, cap_insns;
	struct graph_block *blocks;
	size_t n_blocks, cap_blocks;
	struct graph_arc *arcs;	/* sorted by from, to */
	size_t n_arcs, cap_arcs;
};

/* How often each offset of a module ran: steps at which the count changes, sorted. */
struct graph_counts {
	const struct cover_tally *tally;
	const struct cover_module *module;
	struct graph_step {
		uint64_t off;
		uint64_t n;	/* from here to the next */
	} *v;
	size_t n;
};

int graph_counts_init(struct graph_counts *c, const struct cover_tally *t,
		      const struct cover_module *m);
void graph_counts_fini(struct graph_counts *c);
uint64_t graph_count(const struct graph_counts *c, uint64_t off);
/* Whether anything of [start, end) ran. */
bool graph_ran(const struct graph_counts *c, uint64_t start, uint64_t end);

/* Makes the graph of f. g is zeroed, or was used for another function: its memory is
 * used again. source: the labels of f's file, or NULL. 0, or -AUX_E_NOMEM. */
int graph_make(struct graph *g, const struct graph_counts *c,
	       const struct elfimage_function *f,
	       const struct cover_labels *source);
void graph_fini(struct graph *g);
/* How many complete cycles ran within a set of blocks, given in ascending order. */
uint64_t graph_cycles(const struct graph *g, const uint32_t *blocks, size_t n);

#endif
