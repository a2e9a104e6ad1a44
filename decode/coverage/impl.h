/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to decode/coverage. How counts become output:
 *
 *	flow --(count.c)--> units (units.c) --(coverage.c)--> blocks and edges (tally.c)
 *	    --> drcov, sancov, AFL (formats.c)
 *	    --> lines, functions, branches (lines.c, by the flow graph of graph.c)
 *	        --> lcov, summary (files.c)
 *	    --> instructions of a function (annotate.c) --> text, JSON, HTML
 *	        (annotate_print.c); for these, cycles, too (cycles.c)
 *
 * While the flow comes only units are counted: a unit is a step, a path or a lone range,
 * and has a number that stays with the step or path (user[0]). One event thus costs
 * one addition, as in count. Blocks, edges and lines are made once, at the end,
 * from what the units sum to.
 */
#ifndef DECODE_COVERAGE_IMPL_H
#define DECODE_COVERAGE_IMPL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode/coverage/coverage.h"
#include "decode/lib/elf/elf.h"
#include "decode/lib/sideband/sideband.h"

struct disasm;
struct elfimage;
struct space;
struct symbol;

/* ---- tally.c: blocks and edges of files, by offset ---- */

/* An AUX_FLOW_RANGE event, reduced to what tells ranges apart. */
struct cover_range {
	uint64_t first, last;
	uint32_t n;
	uint16_t flags;		/* AUX_FLOW_MODE_*, AUX_FLOW_SIZE_MASK */
	uint8_t what;		/* enum aux_range_end */
};

/* Where a part of a module was mapped; the first such place. */
struct cover_view {
	const struct space *space;
	uint64_t off, end;	/* in the module */
	uint64_t ip;		/* of off */
};

/* A file, by its recorded path and build id; with all_code also a piece of code
 * that is in no file. */
struct cover_module {
	const char *path;	/* as recorded */
	uint8_t build_id[20];
	uint8_t build_id_size;
	uint8_t kind;		/* enum mapping_kind */
	uint16_t mode;		/* AUX_FLOW_MODE_* of its code */
	uint32_t pid;		/* of the process that ran it first */
	uint64_t base, end;	/* addresses of a mapping */
	struct elfimage *image;	/* codeview's; NULL: it cannot be read */
	uint64_t shift;		/* offset in image - offset in the module */
	const uint8_t *code;	/* of no file: its bytes; else NULL */
	struct cover_view *views;	/* with all_code only */
	size_t n_views, cap_views;
	/* set by cover_tally_sort: the module's part of blocks and edges */
	size_t block, n_blocks;	/* sorted by offset */
	size_t edge, n_edges;	/* sorted by from, to */
};

/* Code without a branch before its end. size is in bytes, n counts runs. */
struct cover_block {
	uint64_t off;
	uint64_t n;
	uint64_t cycles;	/* see COVER_CYCLE_BITS */
	uint32_t module;
	uint32_t size;
	uint32_t n_insns;
	uint16_t mode;		/* AUX_FLOW_MODE_* */
};

/* From a branch to its target, or to the instruction after it if it was not
 * taken. */
struct cover_edge {
	uint64_t from, to;	/* offsets in their modules */
	uint64_t n;
	uint32_t module, to_module;
	uint8_t what;		/* enum aux_range_end */
};

/* Where an array has an equal element: numbers from 1 on, open addressing. */
struct cover_index {
	uint32_t *slots;	/* 0: free */
	size_t n_slots;		/* a power of two, or 0 */
};

struct cover_tally {
	const struct sink_host *host;
	const char *only;	/* --module: path or name; NULL: all */
	bool by_base;		/* a file at two addresses is two modules */
	bool all_code;		/* that of no file, too, and --symbol leaves
				 * nothing out */
	struct cover_module *modules;
	size_t n_modules, cap_modules;
	struct cover_block *blocks;
	size_t n_blocks, cap_blocks;
	struct cover_edge *edges;
	size_t n_edges, cap_edges;
	struct cover_index block_index, edge_index;
	uint64_t cycles;	/* of all that ran, see COVER_CYCLE_BITS */
	uint64_t n_insns;	/* all that were counted; of these: */
	uint64_t n_homeless;	/* in no file, or not in --module */
	uint64_t n_filtered;	/* not in --symbol */
	uint64_t n_mismatches;	/* runs of ranges that do not fit the code */
	bool nomem;		/* something is missing for want of memory */
	/* the module of mappings seen lately, by a hash of the pointer */
	const void *last_map[64];
	uint32_t last_module[64];
	uint32_t last_code[1024];	/* module + 1 of code of no file */
	struct walk *walk;
	struct cover_ahead *ahead;	/* is told of images; NULL: nobody is. The tally's */
};

int cover_tally_init(struct cover_tally *t, const struct sink_host *host);
void cover_tally_fini(struct cover_tally *t);
/* Adds n runs of a range, which took so many cycles in all. 0 or -AUX_E_NOMEM, as the
 * next two. */
int cover_tally_range(struct cover_tally *t, const struct space *space,
		      const struct cover_range *r, uint64_t n, uint64_t cycles);
/* Adds n jumps from the end of the range to an address in the space
 * to_space. */
int cover_tally_edge(struct cover_tally *t, const struct space *space,
		     const struct cover_range *r, const struct space *to_space,
		     uint64_t to, uint64_t n);
/* The same for a range whose target follows from the code; no-op for others. */
int cover_tally_end(struct cover_tally *t, const struct space *space,
		    const struct cover_range *r, uint64_t n);
/* Sorts modules by path, blocks and edges by place, adds up equal ones, and sets
 * the parts of modules. Once. 0 or -AUX_E_NOMEM. */
int cover_tally_sort(struct cover_tally *t);
/* Of a sorted tally: the edges of a module from an offset on; the first of them
 * and, *end, the end of all of the module. */
const struct cover_edge *cover_edges_from(const struct cover_tally *t,
					  const struct cover_module *m,
					  uint64_t off,
					  const struct cover_edge **end);
/* With all_code: the address of an offset of a module, and a space that has it;
 * false: it was not mapped. */
bool cover_address(const struct cover_module *m, uint64_t off,
		   const struct space **space, uint64_t *ip);

/* ---- units.c: what is counted ---- */

/* Never changes once it has a number. */
struct cover_unit {
	const struct space *space;
	uint32_t n;		/* of ranges, or of steps */
	bool is_path;
	union {
		struct cover_range *ranges;
		uint32_t *steps; /* unit numbers of a path's steps */
	};
};

/*
 * user[0] of a step or path: the number of its unit (never 0) shifted left by
 * one, and COVER_DYNAMIC if the target of its last branch follows from the
 * trace alone, not from the code. user[1] of a path: the address of its first
 * instruction, stored before user[0] is released.
 *
 * Beside a callstack, which has user[0] and user[1] (counter.word is 2), the word is in
 * user[2], and the address is where the path has it.
 */
#define COVER_DYNAMIC 1
#define COVER_ID(word) ((uint32_t)((word) >> 1))

/*
 * Units of all threads. Each worker's decoder has steps and paths of its own for the
 * same code, and asks for the unit of each of them; nearly always there is one, and
 * that is found without a lock. Units are in blocks that do not move: the first of
 * 1024, each twice as large as the one before.
 */
#define COVER_FIRST_BLOCK 1024
#define COVER_BLOCKS 21

struct cover_table;

/* Spaces with equal contents have equal ids. */
static inline uint64_t cover_space_id(const struct space *space)
{
	return space ? space->id : 0;
}

struct cover_units {
	pthread_mutex_t lock;		/* of whoever adds */
	uint32_t n;			/* numbers from 1 to n - 1 are units */
	struct cover_unit *blocks[COVER_BLOCKS];
	struct cover_table *table;	/* by contents; replaced when it grows */
};

int cover_units_init(struct cover_units *u);
void cover_units_fini(struct cover_units *u);
/* The number of a unit, which is added if there is none like it, with a copy of its
 * ranges or steps; 0: out of memory. Any thread. */
uint32_t cover_unit_need(struct cover_units *u, const struct cover_unit *what);

static inline struct cover_unit *cover_unit_at(const struct cover_units *u,
					       uint32_t id)
{
	unsigned block = 31 - (unsigned)__builtin_clz(id / COVER_FIRST_BLOCK + 1);

	return &u->blocks[block][id - COVER_FIRST_BLOCK * ((1u << block) - 1)];
}

/* ---- cycles.c: the cycles in which they ran ---- */

/* Cycles are counted in parts of so many bits: an instruction has a fraction of one. */
#define COVER_CYCLE_BITS 16

struct cover_run {
	uint32_t id;		/* of a unit */
	uint64_t n_insns;
};

/* What ran in a stream since the last TIME, and what it took in all. */
struct cover_interval {
	uint32_t stream, tid;
	struct cover_run *runs;
	size_t n, cap;
	uint64_t n_insns;	/* of all runs */
	uint64_t waiting;	/* cycles, for what runs */
	bool away;		/* nothing is traced: cycles are nobody's */
};

struct cover_cycles {
	uint64_t *v;		/* by unit */
	size_t cap;
	struct cover_interval *intervals;	/* of each stream */
	size_t n_intervals, cap_intervals;
	size_t at;		/* the one whose flow comes */
};

/* All return 0 or -AUX_E_NOMEM. Flow of that stream and thread comes, before any
 * other call. */
int cover_cycles_at(struct cover_cycles *c, uint32_t stream, uint32_t tid);
int cover_cycles_ran(struct cover_cycles *c, uint32_t id, uint64_t n_insns);
/* A TIME with n cycles. */
int cover_cycles_pass(struct cover_cycles *c, uint64_t n);
void cover_cycles_pause(struct cover_cycles *c, bool away);
/* All flow has come. */
int cover_cycles_end(struct cover_cycles *c);
/* Of and to a unit; c NULL: none. */
uint64_t cover_cycles_of(const struct cover_cycles *c, uint32_t id);
int cover_cycles_add(struct cover_cycles *c, uint32_t id, uint64_t n);
/* n * part / all, for part <= all. */
uint64_t cover_cycles_share(uint64_t n, uint64_t part, uint64_t all);
void cover_cycles_free(struct cover_cycles *c);

static inline uint64_t cover_whole_cycles(uint64_t n)
{
	return (n + (1 << (COVER_CYCLE_BITS - 1))) >> COVER_CYCLE_BITS;
}

/* ---- count.c: how often they ran ---- */

/*
 * Unit id ended with a jump to address to, n times. space is that of the
 * target: the unit's own is the one in which it was met first, by whichever
 * thread, and may be older than the mapping at the target.
 */
struct cover_jump {
	uint64_t to;
	uint64_t n;
	const struct space *space;
	uint32_t id;		/* 0: free */
};

/* A direct-mapped cache of lone ranges, which saves a look into cover_units. */
struct cover_hot {
	uint64_t first, last, space;
	uint32_t n;
	uint16_t mode;
	uint8_t what;
	uint64_t word;		/* 0: free */
};

#define COVER_HOT 4096

/* Counts of one thread: the session's own, or a worker's partial result. */
struct cover_counter {
	struct cover_units *units;
	struct cover_cycles *cycles;	/* NULL: not wanted */
	unsigned word;		/* which user word is its own: 0, or 2 */
	uint64_t *counts;	/* by unit */
	uint32_t cap;
	uint32_t *touched;	/* units whose count is not 0 */
	size_t n_touched, max_touched;
	struct cover_jump *jumps;
	size_t n_jumps, n_slots;
	uint32_t prev;		/* the last unit, if its branch is dynamic
				 * and its target not seen yet; else 0 */
	uint64_t paused;	/* of prev: its target, where the flow broke off
				 * and is to go on; 0: it runs on */
	const struct space *paused_space;
	bool head_on;		/* the flow to head came by a TRACE_ON */
	bool open;		/* no flow came since the start, or since the
				 * last clear; then head is not known yet */
	uint64_t head;		/* the first address since then; 0: none, or
				 * flow broke before it */
	const struct space *head_space;
	const struct space *space;	/* where flow was last */
	uint32_t tid, stream;
	struct sink_report report;
	void *room;		/* n_room bytes, where a unit is put together */
	size_t n_room;
	struct cover_hot hot[COVER_HOT];
};

/* c is zeroed. 0 or -AUX_E_NOMEM, as all of them. */
int cover_counter_init(struct cover_counter *c, struct cover_units *units);
void cover_counter_fini(struct cover_counter *c);
int cover_counter_flow(struct cover_counter *c, const struct flow_ctx *ctx,
		       const struct aux_flow *ev, size_t n);
int cover_counter_add(struct cover_counter *c, uint32_t id, uint64_t n);

struct coverage {
	struct sink_env env;
	struct coverage_config config;
	struct cover_units units;
	struct cover_counter counter;	/* of the session's thread */
	struct cover_pending {	/* prev of streams that are not at hand */
		uint32_t stream, tid, id;
		uint64_t paused;
		const struct space *paused_space, *space;
	} *pending;
	size_t n_pending;
	uint32_t pid;		/* the lowest that ran; UINT32_MAX: none */
	pthread_mutex_t lock;	/* guards idle */
	struct cover_partial *idle;
};

/* coverage.c, of any sink that begins with a struct coverage: c is zeroed; after
 * an error, too, coverage_fini is due. As in session/sink.h. */
int coverage_init(struct coverage *c, const struct sink_env *env);
void coverage_fini(struct coverage *c);
int coverage_flow(void *sink, const struct flow_ctx *ctx,
		  const struct aux_flow *ev, size_t n);
/* What was counted, as blocks and edges in a sorted tally, which is initialized.
 * Once. 0 or -AUX_E_NOMEM. */
int coverage_tally(struct coverage *c, struct cover_tally *t);

/* count.c: as in session/sink.h */
int cover_partial_new(void **partial, const void *sink);
int cover_partial_flow(void *partial, uint32_t stint,
		       const struct flow_ctx *ctx, const struct aux_flow *ev,
		       size_t n);
int cover_partial_join(void *sink, void *partial, uint32_t stint);
void cover_partial_free(void *partial);
void cover_partials_free(struct coverage *c);
static inline void cover_take_pid(uint32_t *lowest, uint32_t pid)
{
	if (pid && pid < *lowest)
		*lowest = pid;
}
/* The entry of a stream, a new one if need be; NULL: out of memory. */
struct cover_pending *cover_pending_of(struct coverage *c, uint32_t stream);
/* Where a stream paused, its flow does not go on. 0 or -AUX_E_NOMEM. */
int cover_end_pause(struct coverage *c, struct cover_pending *p);
/* The jump that is open where a part of a stream ends leads to where the next
 * part begins. Once, at the end. 0 or -AUX_E_NOMEM. */
int cover_join_parts(struct coverage *c);

/* ---- lines.c: lines, functions and branches ---- */

struct cover_labels;

#define COVER_LABEL 1	/* nothing but labels */
#define COVER_RETURN 2	/* there is "return;" in it */

/* What a line of source holds: a set of COVER_*. l may be NULL: nothing is
 * known. */
unsigned cover_labels_of(const struct cover_labels *l, uint32_t line);

struct cover_line {
	uint32_t file, line;
	uint64_t n;
};

struct cover_function {
	uint32_t file, line;
	const char *name;	/* linkage name, or plain one */
	uint64_t n;		/* calls */
	uint32_t n_lines, n_hit;
};

/* An outcome of a conditional branch. */
struct cover_branch {
	uint32_t file, line, block;
	uint32_t way;		/* 0: taken, 1: not taken */
	bool ran;		/* the branch itself ran */
	uint64_t n;
};

struct cover_lines {
	char **files;		/* sorted when done; indexes are into it */
	size_t n_files, cap_files;
	struct cover_line *lines; /* by file, line */
	size_t n_lines, cap_lines;
	struct cover_function *functions; /* by file, line, name */
	size_t n_functions, cap_functions;
	struct cover_branch *branches;	/* by file, line, block, way */
	size_t n_branches, cap_branches;
	char **kept;		/* names that are in no file */
	size_t n_kept, cap_kept;
	bool part;		/* of a part of a recording, with open ends */
	/* what ran in files without debug information */
	uint64_t n_bare;	/* runs of blocks */
	uint32_t n_files_bare;
	char bare[256];		/* the first such file; "": none */
	bool nomem;		/* something is missing for want of memory */
};

/* Lines of all modules of a sorted tally. l is zeroed. 0, or -AUX_E_NOMEM;
 * then, too, cover_lines_fini is due. */
int cover_lines_make(struct cover_lines *l, const struct cover_tally *t);

/*
 * ahead.c: reads the debug information of images in other threads, of which there are
 * n_threads - 1; NULL: there are none, or no memory. All take NULL for it, and do without.
 */
struct cover_ahead *cover_ahead_new(unsigned n_threads);
void cover_ahead_add(struct cover_ahead *a, struct elfimage *image);
/* As elfimage_functions, once for each image; waits until it was read. */
int cover_ahead_take(struct cover_ahead *a, struct elfimage *image,
		     struct elfimage_function **v, size_t *n);
void cover_ahead_free(struct cover_ahead *a);
void cover_lines_fini(struct cover_lines *l);
/* The lines of the one function of a module that has code at an offset; no
 * lines: it has no debug information. As cover_lines_make. */
int cover_lines_of(struct cover_lines *l, const struct cover_tally *t,
		   const struct cover_module *module, uint64_t off);

/* The test name of a tracefile of a part. */
#define COVER_PART "part_of_a_recording"

/* files.c: a copy of name that lives as long as l; NULL: out of memory. */
char *cover_lines_keep(struct cover_lines *l, const char *name);
/* files.c: sorts everything and adds up equal entries. 0, or -AUX_E_NOMEM. */
int cover_lines_sort(struct cover_lines *l);
/* files.c: write sorted lines; return how many source lines ran. */
uint64_t cover_print_lcov(const struct cover_lines *l, struct outbuf *out);
/* rows.c: of sorted lines. 0, or what row gave. */
int cover_lines_each(const struct cover_lines *l,
		     int (*row)(void *priv, const struct coverage_row *r), void *priv);
/* bare.c: functions and blocks of all modules by address; adds how many blocks to *n. 0 or
 * -AUX_E_NOMEM. */
int cover_print_bare(const struct cover_tally *t, struct names *names,
		     struct outbuf *out, uint64_t *n);

uint64_t cover_print_summary(const struct cover_lines *l, struct names *names,
			     struct outbuf *out);
/* The same as members of an object, for --json; files of which nothing ran are
 * among them. */
uint64_t cover_put_json(const struct cover_lines *l, struct names *names,
			struct outbuf *out);

/* ---- formats.c: formats of fuzzers and binary tools ---- */

#define AFL_MAP_SIZE 65536	/* AFL's MAP_SIZE */
#define SANCOV_64 UINT64_C(0xc0bfffffffffff64)	/* magic: 64-bit addresses */

/* Each writes a sorted tally; *n is how many blocks (AFL: edges) it wrote. 0 or
 * -AUX_E_NOMEM. DynamoRIO's drcov, version 2, as lighthouse reads it. */
int cover_print_drcov(const struct cover_tally *t, struct outbuf *out, uint64_t *n);
/* "EDGE:COUNT" lines, as afl-showmap -r writes them. */
int cover_print_afl(const struct cover_tally *t, struct outbuf *out, uint64_t *n);
/*
 * NAME.PID.sancov in a directory for each file with code that ran: the
 * addresses of its blocks, as linked; DIR/2/NAME.PID.sancov for a second file
 * of that name. -AUX_E_IO with diag.
 */
int cover_write_sancov(const struct cover_tally *t, const char *dir,
		       uint32_t pid, uint64_t *n, struct aux_diag *diag);
/* Sorts addresses and drops duplicates; returns how many are left. */
size_t cover_sort_pcs(uint64_t *v, size_t n);

/*
 * coverage: the flow graph of one function: its blocks, how often each ran, and
 * how often control went from one to another. graph.c makes it, lines.c counts
 * lines by it.
 */

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

/* How often each offset of a module ran: steps at which the count changes,
 * sorted. */
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

/* Makes the graph of f. g is zeroed, or was used for another function: its
 * memory is used again. source: the labels of f's file, or NULL. 0, or
 * -AUX_E_NOMEM. */
int graph_make(struct graph *g, const struct graph_counts *c,
	       const struct elfimage_function *f,
	       const struct cover_labels *source);
void graph_fini(struct graph *g);
/* Adds to *sum how many complete cycles ran within a set of blocks, given in
 * ascending order. 0, or -AUX_E_NOMEM. */
int graph_cycles(const struct graph *g, const uint32_t *blocks, size_t n,
		 uint64_t *sum);

/* ---- annotate.c: one function, instruction by instruction ---- */

enum annotate_format { ANNOTATE_TEXT, ANNOTATE_JSON, ANNOTATE_HTML };

struct annotate_config {
	uint64_t limit;		/* -n: functions; 0: the default */
	enum annotate_format format;
	unsigned syntax;	/* enum disasm_syntax */
	bool lines;		/* --lines: source lines alone */
};

struct annotate_insn {
	uint64_t off;		/* in the module */
	uint64_t n;		/* how often it ran */
	uint64_t cycles;	/* in which it did, see COVER_CYCLE_BITS */
	uint8_t size;
	bool is_data;		/* bytes that are no instruction */
};

/* Another function that called this one, or was called by it. */
struct annotate_peer {
	const char *name;	/* NULL: none is known */
	uint64_t ip;		/* of that code, where there is no name */
	uint64_t n;
};

struct annotate_peers {
	struct annotate_peer *v;
	size_t n, cap;
};

struct annotate_function {
	const struct cover_module *module;
	const char *name, *dso;	/* as in struct symbol */
	uint64_t off, end;	/* in the module */
	uint64_t entered;	/* runs of the first instruction */
	uint64_t n_insns;	/* runs of all of them */
	uint64_t cycles;	/* of all of them */
	uint16_t mode;		/* AUX_FLOW_MODE_* */
	/* sorted by off; those that did not run, too */
	struct annotate_insn *insns;
	size_t n, cap;
	struct annotate_peers callers, callees;	/* most calls first */
	struct cover_lines lines;	/* none without debug information */
};

/* What becomes of the conditional or indirect branch at an offset. */
struct annotate_branch {
	uint64_t taken, not_taken;
	struct annotate_peers targets;	/* of an indirect one */
};

struct annotate {
	struct coverage coverage;	/* first */
	struct annotate_config config;
	struct disasm *disasm;
	struct cover_tally tally;
};

/* At most len bytes of code; returns how many there are. */
size_t annotate_code(const struct annotate *a, const struct cover_module *m,
		     uint64_t off, uint8_t *code, size_t len);
/* b->targets.v is the caller's to free. 0 or -AUX_E_NOMEM. */
int annotate_branch(const struct annotate *a, const struct annotate_function *f,
		    const struct annotate_insn *in, struct annotate_branch *b);

/* annotate_print.c: writes functions, those that ran most first; n_all is how
 * many fit. 0 or -AUX_E_NOMEM. */
int annotate_print(const struct annotate *a, const struct annotate_function *v,
		   size_t n, size_t n_all);

#endif
