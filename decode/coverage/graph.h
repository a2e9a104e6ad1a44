/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage: the flow graph of one function: its blocks, how often each ran, and how
 * often control went from one to another.
 */
#ifndef DECODE_COVERAGE_GRAPH_H
#define DECODE_COVERAGE_GRAPH_H

#include "decode/coverage/labels.h"
#include "decode/coverage/tally.h"
#include "decode/lib/elf/elf.h"

struct graph_insn {
	uint64_t off;		/* in the module */
	const struct source_row *row;	/* NULL: none */
	uint8_t size, cls;	/* enum x86_class, a64_class */
	bool leads;		/* begins a block */
	uint64_t to;		/* of a direct branch: offset */
};

struct graph_block {
	uint32_t first, last;	/* instructions */
	uint64_t n;
	uint64_t in;		/* of it along arcs */
};

struct graph_arc {
	uint32_t from, to;	/* blocks */
	uint64_t n;
};

struct graph {
	struct source_row head;	/* the line of the declaration */
	bool broken;		/* not all of it could be read */
	struct graph_insn *insns;
	size_t n_insns, cap_insns;
	struct graph_block *blocks;
	size_t n_blocks, cap_blocks;
	struct graph_arc *arcs;	/* by from */
	size_t n_arcs, cap_arcs;
};

/* How often the code of a module ran, by offset. */
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

/* The instruction at an offset; NULL: none begins there. */
struct graph_insn *graph_find(const struct graph *g, uint64_t off);
/* mend.c: gives instructions at both ends the rows that count. */
void graph_mend_rows(struct graph *g, const struct graph_counts *c,
		     const struct elfimage_function *f,
		     const struct cover_labels *source);
/* Of a function; g is zeroed, or was used before. source may be NULL. 0,
 * -AUX_E_NOMEM. */
int graph_make(struct graph *g, const struct graph_counts *c,
	       const struct elfimage_function *f,
	       const struct cover_labels *source);
void graph_fini(struct graph *g);
/* How often control went round inside of some blocks (sorted) alone. */
uint64_t graph_cycles(const struct graph *g, const uint32_t *blocks, size_t n);

#endif
