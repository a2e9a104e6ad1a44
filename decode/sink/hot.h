/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_hot's parts: where the instructions ran, by function, basic block or
 * edge.
 *
 * Functions are those of callstack/callstack.h. Blocks and edges need no stack:
 * each path and step that comes is an item with a number, which stays with it
 * in user[0], and all that is done with it is to count it. What the items stand
 * for is worked out at the end, once for each.
 */
#ifndef DECODE_SINK_HOT_H
#define DECODE_SINK_HOT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode/lib/session/sink.h"
#include "decode/sink/impl.h"
#include "decode/lib/session/expand.h"

/* ---- hot.c: all items there are, for all threads ---- */

/* A range, or items in a row; of smaller numbers than its own. Never changes
 * but for count. */
struct hot_item {
	uint32_t n_ids;		/* 0: a range */
	uint32_t n_insns;
	uint32_t first, last;	/* ranges that it begins and ends with */
	uint64_t count;		/* how often; the session's thread's */
	const struct space *space;
	union {
		struct aux_flow range;
		const uint32_t *ids;
	};
};

#define HOT_PAGE  4096
#define HOT_PAGES 8192

struct hot_items {
	pthread_mutex_t lock;
	struct walk *walk;	/* with the lock: sizes of last instructions */
	struct hot_item *pages[HOT_PAGES];
	uint32_t n;		/* numbers are 1 to n */
	uint32_t *slots, n_slots; /* by contents */
	uint32_t n_paths;
};

/* By number. */
static inline struct hot_item *hot_item(const struct hot_items *items,
					uint32_t id)
{
	return &items->pages[id / HOT_PAGE][id % HOT_PAGE];
}

/* The number of what is equal to it. 0: out of memory, or of numbers. Each
 * takes the lock. */
uint32_t hot_items_range(struct hot_items *items, const struct space *space,
			 const struct aux_flow *ev);
uint32_t hot_items_step(struct hot_items *items, const struct space *space,
			const struct aux_step *step);
/* Of a path whose steps have numbers. 0 also: count the steps. */
uint32_t hot_items_path(struct hot_items *items, const struct aux_path *path);

/* ---- hot_count.c: edges ---- */

struct hot_edge {
	struct place from, to;
	uint64_t count;
	uint8_t kind;		/* enum edge_kind; 0: free slot */
};

struct hot_edges {
	struct hot_edge *v;
	size_t n, n_slots;
};

void hot_edges_fini(struct hot_edges *t);
/* The end of an item leads to a place so many times; no edge where it does not
 * branch, or where that is the next instruction. */
int hot_edges_settle(struct hot_edges *t, const struct hot_items *items,
		     uint32_t item, const struct place *to, uint64_t count);

/* One stream, as far as edges go. */
struct hot_stream {
	uint32_t stream;
	uint32_t prev;		/* item that ran last; 0: none, or settled */
	bool left;		/* an interrupt that leads nowhere was told */
};

/* ---- hot_count.c: counts items, in one thread ---- */

#define HOT_HEAD UINT32_MAX	/* prev: what the part before ended with */

struct hot_pair {
	uint64_t key;		/* prev << 32 | item; 0: free */
	uint64_t count;
};

struct hot_cached {
	uint64_t first, last, space;
	uint32_t n, how, id;
};

#define HOT_CACHE 4096		/* a power of two */

struct hot_counter {
	struct hot_items *items;
	bool edges;
	uint64_t n_insns;	/* since it was emptied */
	uint64_t *counts;	/* by item */
	uint32_t n_counts;
	uint32_t *touched;	/* whose count is not 0 */
	uint32_t n_touched;
	size_t max_touched;
	struct hot_pair *pairs;
	size_t n_pairs, n_slots;
	struct hot_edges others;
	/* what came before anything ran, while prev was HOT_HEAD */
	struct hot_event {
		const struct space *space;
		struct aux_flow ev;
	} *head;
	size_t n_head, max_head;
	struct hot_cached cache[HOT_CACHE];
};

void hot_counter_fini(struct hot_counter *c);
/* As flow in session/sink.h; s is the stream's. */
int hot_counter_flow(struct hot_counter *c, struct hot_stream *s,
		     const struct flow_ctx *ctx, const struct aux_flow *ev,
		     size_t n);
/* Adds all to items and edges, and is empty then. s: what HOT_HEAD stands
 * for. */
int hot_counter_drain(struct hot_counter *c, struct hot_edges *edges,
		      struct hot_stream *s);
/* Is empty then, and adds nothing. */
void hot_counter_forget(struct hot_counter *c);

/* ---- hot_count.c: items as instructions ---- */

struct hot_insn {
	uint64_t key;		/* place of its code bytes: equal in all spaces */
	uint64_t ip;
	const struct space *space;
	uint64_t count;
	uint8_t size;
	bool ends;		/* a block: it branches somewhere */
};

struct hot_block {
	const struct space *space;
	uint64_t first, last;	/* addresses of instructions */
	uint64_t count;
	uint64_t n;		/* instructions */
};

struct hot_code {
	const struct sink_host *host;
	struct hot_insn *insns;	/* by key */
	size_t n_insns, max_insns;
	uint64_t n_total;	/* instructions that ran */
};

/* What a row of items counted is that of each, and (edges not NULL) of the
 * edges between them; afterwards only ranges have counts. */
int hot_code_spread(const struct hot_items *items, struct hot_edges *edges);
/* What the ranges are made of; tells mismatch of one that does not fit the
 * code. code is zeroed. */
int hot_code_build(struct hot_code *code, const struct sink_host *host,
		   const struct hot_items *items,
		   void (*mismatch)(void *priv, const struct hot_item *range,
				    int err),
		   void *priv);
void hot_code_fini(struct hot_code *code);
/* All blocks, most instructions first; the caller frees them. NULL: no
 * memory. */
struct hot_block *hot_code_blocks(const struct hot_code *code, size_t *n);
/* The place of the code bytes at an address, the same for all spaces. */
uint64_t hot_code_key(const struct sink_host *host, const struct space *space,
		      uint64_t ip);
/* How often the instruction there ran. */
uint64_t hot_code_count(const struct hot_code *code, uint64_t key);

/* ---- hot.c ---- */
struct hot_config {
	uint64_t limit;	/* -n, 0: the default */
	unsigned by;	/* --by: an enum calltree_by, HOT_BY_NONE: not given */
	bool blocks, edges;	/* --blocks, --edges */
	bool stubs;		/* --stubs */
};

#define HOT_BY_NONE UINT32_MAX

struct hot {
	struct sink_env env;
	struct hot_config config;
	/* blocks, edges */
	struct hot_items items;
	struct hot_counter *counter;	/* of what comes by flow; NULL: functions */
	struct hot_stream *streams;
	size_t n_streams;
	struct hot_edges edges;
	struct hot_partial *idle;		/* with the lock of items */
	/* functions: hot_print.c */
	struct hot_funcs *funcs;
};

/* hot_print.c: the tables */
int hot_print_blocks(struct hot *h);
int hot_print_edges(struct hot *h);

/* hot_print.c: functions, from a call tree */
int hot_funcs_new(struct hot *h, struct aux_diag *diag);
void hot_funcs_free(struct hot_funcs *f);
int hot_funcs_flow(struct hot *h, const struct flow_ctx *ctx,
		   const struct aux_flow *ev, size_t n);
/* Partial results: see flowpart_new and flowpart_join. */
int hot_funcs_partial(const struct hot *h, void **part);
int hot_funcs_join(struct hot *h, void *part, uint32_t stint);
int hot_funcs_print(struct hot *h, struct aux_diag *diag);

#endif
