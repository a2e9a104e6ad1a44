/* SPDX-License-Identifier: BSD-2-Clause */
/* What a part of the flow has (flowpart.c), for what writes it down (flowsave.c). */
#ifndef DECODE_CALLSTACK_FLOWPART_H
#define DECODE_CALLSTACK_FLOWPART_H

#include <pthread.h>

#include "decode/callstack/flowtree.h"
#include "decode/callstack/impl.h"
#include "decode/lib/session/pack.h"

struct maker;

/* A stretch: see stretch.h. Counts are those since its begin, but for ns. */
struct stretch {
	struct pend from, to;	/* how what ran before ended; how it ends */
	struct call_count now;	/* at its end */
	struct call_count children; /* of the frame in which it begins */
	struct flow_ctx end;	/* its times are those of the end */
	uint64_t from_ns;	/* the thread's time where it begins */
	uint32_t depth;		/* frames there ever were above that one */
	uint32_t frame, n_frames; /* those there are at its end: of part.frames */
	uint32_t root, end_node; /* of part.sums */
	uint32_t slice, n_head, n_tail; /* of part.slices */
	uint32_t jump, n_jumps;	/* of part.jumps */
	uint64_t head_cycles, tail_cycles;
	bool ticked;
	uint8_t stub_kind;	/* a stub runs: struct thread.stub */
	uint64_t stub_from, stub_back;
};

struct item {
	struct flow_ctx ctx;	/* where it begins */
	uint32_t stint;
	uint32_t stretch;	/* of part.stretches; UINT32_MAX: events */
	uint32_t n_met;		/* functions that were met up to its end */
	size_t from, to;	/* words of the pack */
	struct pack_last last;	/* before them */
};

/* A function, where it was first entered. */
struct met {
	const struct func *func;
	const struct space *space;
	uint64_t to;
};

/* Ids of functions in the tree, and one, by those that a part has; 0: not known yet. */
struct func_map {
	uint32_t *ids;
	size_t n;
};

struct part_pool {
	pthread_mutex_t lock;
	struct maker *idle;
	struct flow_part *parts;	/* not in use */
	_Atomic uint32_t n_ids;	/* of functions, of all makers */
	struct func_map funcs;	/* the session's */
};

struct flow_part {
	struct flow_part *next;	/* not in use */
	const struct flowtree *tree;
	struct maker *maker;	/* NULL: no worker is at it */
	uint32_t serial;	/* marks what is in met (the user of a function), or left */
	struct pack pack;
	struct item *items;
	size_t n_items, cap_items, n_joined;
	struct stretch *stretches;
	size_t n_stretches, cap_stretches;
	struct call_frame *frames;
	size_t n_frames, cap_frames;
	struct calltree_slice *slices;
	size_t n_slices, cap_slices;
	struct met *met;
	size_t n_met, cap_met, n_mapped;
	struct met *left;	/* functions that returns were made out of, by the
				 * instruction at `to` */
	size_t n_left, cap_left;
	struct met *jumps;	/* addresses of functions at which nothing goes on */
	size_t n_jumps, cap_jumps;
	struct calltree sums;
	/* the session's: */
	uint32_t *nodes;
	size_t max_nodes;
	int error;
	/* flowsave.c: */
	bool loaded;		/* not of a worker of this process */
	struct func *stand_ins;	/* for the functions of another process */
	size_t cap_stand_ins;
	struct func_map funcs;	/* of those */
};

/* Nothing of it is left to be joined. */
void flowpart_empty(struct flow_part *p);

#endif
