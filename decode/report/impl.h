/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * report: one HTML file with everything in it. What its parts share.
 *
 * A lane is a thread. Its frames are nodes in the order in which they began,
 * each with its depth, so parents come before their children. There are at most
 * max_nodes of all lanes together: before that, short ones are merged into
 * nodes that stand for many (fit.c). What is counted exactly (calltree,
 * calltimes) is counted before.
 *
 * Places in time are ticks of 1/16 ns. Where the trace has no time at all, they
 * are 1/16 instructions. Between two times of the trace a place follows from
 * the instructions that ran.
 */
#ifndef DECODE_REPORT_IMPL_H
#define DECODE_REPORT_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/markup.h"
#include "common/outbuf.h"
#include "decode/callstack/callstack.h"
#include "decode/callstack/calltimes.h"
#include "decode/callstack/calltree.h"
#include "decode/lib/session/sink.h"
#include "decode/lib/trace/gap.h"

#define REPORT_TICKS 16		/* of a nanosecond */
#define REPORT_DEPTH 1000	/* deeper frames are counted, not drawn */
#define REPORT_SLOWEST 5	/* of each function */
#define REPORT_SIZE ((uint64_t)20 << 20)	/* of the file */
#define REPORT_NONE UINT32_MAX

/* node.flags */
#define REPORT_MERGED 1		/* stands for many calls */
#define REPORT_GUESSED 2
#define REPORT_GOES_ON 4	/* is a later part of a frame: the thread was on
				 * another stack in between */
#define REPORT_BREAKS 8		/* there is a later part */
#define REPORT_OPEN 16		/* has not ended; never in the file */
#define REPORT_KEEP 32		/* of fit.c */

struct report_node {
	uint64_t start, end;	/* ticks; while it is not known: see pend */
	uint64_t insns;
	uint64_t cycles;	/* merged: weight of func, see absorb */
	uint64_t from;		/* address of the call; merged: ticks in calls */
	uint64_t away_ns;	/* of its own time: off CPU, not traced, or lost */
	uint32_t func;		/* merged: the one that took most of it */
	uint32_t count;		/* calls, with those inside when merged */
	uint32_t pin;		/* id + 1 of a slow call; 0: none */
	uint16_t depth, deep;	/* merged: so many levels below */
	uint8_t kind, how;	/* enum call_kind, call_end */
	uint8_t flags;		/* REPORT_* */
};

/* A node's begin or end whose time is not known yet. */
struct report_pend {
	uint32_t node;
	uint8_t is_end, is_slow; /* is_slow: the call is to be measured */
	uint64_t insns;		/* the thread's */
	uint64_t began;		/* ticks; REPORT_UNKNOWN: the node's start */
};
#define REPORT_UNKNOWN UINT64_MAX

/* What a span tells, beside a gap. */
enum report_why {
	REPORT_OFF = 0,		/* + enum call_untraced */
	REPORT_AWAY = UNTRACED_N, /* off the CPU, + enum off_why */
};

/* No frames: tracing was off, or flow is missing, or the thread was off the CPU. */
struct report_span {
	uint64_t from, to;	/* ticks */
	uint64_t missing;	/* of it; less when several were merged */
	uint64_t offset;	/* gap: in its stream */
	uint32_t stream;
	uint32_t n;
	uint32_t func;		/* that ran before; REPORT_NONE */
	uint8_t is_gap;
	uint32_t cause;		/* of a gap: enum aux_gap_cause and host_gap_cause; of a
				 * run: the CPU; else enum report_why */
};

/* Spans in the order in which they were known, short neighbours as one. */
struct report_spans {
	struct report_span *v;
	uint32_t n;
	size_t max;
	uint64_t step;		/* ticks: shorter spans are merged */
};

struct report_lane {
	uint32_t pid, tid, stream, id;
	const char *comm;	/* the host's; NULL: unknown */
	struct report_node *nodes;
	uint32_t n;
	size_t max;
	uint32_t *open;		/* node of each frame; REPORT_NONE: not drawn */
	uint32_t n_open;
	size_t max_open;
	struct report_pend *pend;
	uint32_t n_pend;
	size_t max_pend;
	uint64_t at, at_insns;	/* ticks that are known, and where */
	uint64_t rate;		/* ticks of 256 instructions */
	uint64_t off_insns;	/* since at, the trace was off; else UNKNOWN */
	struct report_spans spans; /* gaps, and where trace was off */
	uint32_t off, gap;	/* open ones of spans, index + 1; 0: none */
	struct report_spans away, runs; /* off the CPU; on which CPU it was */
	struct calltree_thread tree;
	struct call_count count;
	uint64_t ran_cycles;	/* while it was traced */
	uint64_t n_calls;
	bool timed, off_ended;
};

/* What is known of a function. */
struct report_func {
	struct calltimes times;
	struct slowest slow;
	uint32_t pins[REPORT_SLOWEST]; /* by slot */
};

/* One of a function's slowest calls. */
struct report_pin {
	bool alive;
	uint8_t rank;		/* 0: the slowest; set by report_fit */
	uint32_t lane, node;	/* set when all is written */
};

struct report_config {
	uint64_t max_size;	/* --max-size: of the page, bytes */
	uint64_t limit;		/* -n: calls, 0: all */
};

struct report {
	struct sink_env env;
	struct report_config config;
	struct calls *calls;
	struct calltree tree;
	struct report_lane **lanes;
	uint32_t n_lanes;
	size_t max_lanes;
	struct report_func *funcs;
	uint32_t n_funcs;
	struct report_pin *pins;
	uint32_t n_pins;
	size_t max_pins;
	uint64_t n_nodes;	/* of all lanes */
	uint64_t max_nodes;
	uint64_t n_merged;	/* calls that are in merged nodes */
	uint64_t first, last;	/* ticks */
	uint64_t n_calls;
	uint64_t n_gaps[GAP_N_CAUSES];
	const struct session *session;
	struct flow_ctx ctx;	/* of the last flow */
	struct report_lane *threadless; /* gaps of no thread; NULL: none */
	void *code;		/* annotate, which gets the same flow; NULL: none */
	struct sink_report code_report;
	bool timed;
};

/* lane.c: the lanes, from the calls that calls_ops reports. 0 or an error. */
int report_lane_new(struct report *r, struct report_lane **lane);
void report_lane_free(struct report_lane *lane);
int report_lane_enter(struct report *r, struct report_lane *l,
		      const struct call_thread *t);
int report_lane_leave(struct report *r, struct report_lane *l,
		      const struct call_thread *t, enum call_end end,
		      unsigned flags);
int report_lane_turn(struct report *r, struct report_lane *l,
		     const struct call_thread *t);
/* Gives all places that are not known yet; needed before nodes are looked
 * at. */
int report_lane_settle(struct report *r, struct report_lane *l);

int report_clock(struct report *r, struct report_lane *l,
		 const struct call_thread *t);
int report_span_gap(struct report *r, struct report_lane *l,
		    const struct call_thread *t, const struct aux_flow *ev);
int report_span_off(struct report *r, struct report_lane *l,
		    const struct call_thread *t, bool on);
/* Both have ended: in ns. */
int report_span_away(struct report_lane *l, const struct off_span *span);
int report_span_ran(struct report_lane *l, uint32_t cpu, uint64_t from, uint64_t to);

/* fit.c: fewer nodes: at most about n of all lanes. */
int report_fit(struct report *r, uint64_t n);

/* fit.c: a call that took so long; sets the node's pin. */
int report_func_took(struct report *r, struct report_node *node,
		     uint64_t ticks);
void report_func_fini(struct report_func *f);

/* page.c: everything, within config.max_size. */
int report_write(struct report *r, struct aux_diag *diag);

/*
 * Blocks: what the page's script reads. A block is bytes, deflated (zlib) where
 * this build can, in base64, in a script element of its own:
 *
 *   <script type="text/plain" class="block" data-kind="nodes" data-z="1">..
 *
 * json, sites, code: UTF-8 JSON. nodes, tree: u32 LE n, n_columns, more (nodes: the
 * lane), 0; then of each column its length as u32 LE, and its bytes: one varint
 * (LEB128) for each of the n; columns are in enum report_*_column's order.
 */

enum report_node_column {
	NODE_DEPTH = 0,		/* minus the one before, zigzag */
	NODE_START,		/* minus the one before */
	NODE_LENGTH,
	NODE_INSNS,
	NODE_CYCLES,		/* merged: 0 */
	NODE_FUNC,
	NODE_WHAT,		/* kind | how << 3 | flags << 6, and bits 14, 15 */
	NODE_SITE,		/* index + 1 in sites; 0: none */
	NODE_EXTRA,		/* with bit 15 of WHAT: count, deep, ticks in
				 * calls; of others nothing */
	NODE_AWAY,		/* with bit 14: ticks off CPU, not traced, or lost */
	NODE_N_COLUMNS,
};
#define NODE_HAS_AWAY (1 << 14)
#define NODE_HAS_EXTRA (1 << 15)

enum report_tree_column {
	TREE_DEPTH = 0,		/* minus the one before, zigzag */
	TREE_FUNC,		/* id + CALLTREE_N_OTHERS + 1, or ~CALLTREE_* */
	TREE_CALLS,
	TREE_NS,		/* its own */
	TREE_INSNS,
	TREE_BRANCHES,
	TREE_CYCLES,
	TREE_N_COLUMNS,
};

struct column_bytes {
	uint8_t *p;
	size_t n, max;
	int failed;
};

void column_put(struct column_bytes *c, uint64_t v);
static inline uint64_t zigzag(int64_t v)
{
	return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

/* Blocks on their way into the page. Zeroed at first. */
struct report_blocks {
	struct report_block *v;
	size_t n, max;
};

/* Appends a block of columns, which it empties. kind outlives the blocks. 0 or
 * -AUX_E_NOMEM. */
int report_add_columns(struct report_blocks *b, const char *kind, uint32_t n,
		       uint32_t more, struct column_bytes *columns,
		       unsigned n_columns);
/* Deflates the blocks, several at a time where there are threads, and puts them at
 * the end of out (in memory). 0 or -AUX_E_NOMEM. */
int report_put_blocks(struct report_blocks *b, struct outbuf *out,
		      unsigned n_threads);
void report_blocks_fini(struct report_blocks *b);
/* One block of bytes. */
int report_pack(struct outbuf *out, const char *kind, const void *bytes,
		size_t len);

/*
 * Writing the report: what its parts share. Texts are gathered in memory first,
 * for the nodes get what the rest leaves of the file's size.
 */

/* A place that calls come from. */
struct report_site {
	uint64_t addr;
	uint32_t func;
};

struct report_sites {
	struct report_site *v;
	uint32_t *slots, n;
};

struct report_writer {
	struct report *r;
	unsigned shift;		/* ticks of the file are 2^shift of ours */
	struct outbuf *nodes, *tree, *json, *roots, *places, *code; /* in memory */
	struct report_sites sites;
	uint64_t n_merged;	/* calls that are drawn as part of many */
	uint64_t over;		/* the page's size, where it is more than was
				 * asked for; else 0 */
};

/* nodes.c */
int report_sites_init(struct report_sites *s);
void report_sites_fini(struct report_sites *s);
int report_pack_nodes(struct report_writer *w);
int report_pack_tree(struct report_writer *w, struct outbuf *out);

/* json.c: names, functions, lanes and their spans, into json; places of
 * calls into places. As blocks. */
int report_put_json(struct report_writer *w);
int report_put_sites(struct report_writer *w);

/* code.c: annotate, beside the calls; then source and instructions of the functions
 * that ran most, as a block in w->code. */
int report_code_open(struct report *r);
int report_put_code(struct report_writer *w);

/* text.c: what was recorded and what is missing, as HTML. */
void report_put_title(struct report_writer *w, struct outbuf *out);
void report_put_head(struct report_writer *w, struct outbuf *out);

#endif
