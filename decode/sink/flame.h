/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_flame's parts: the flow as a call tree, which sink_hot takes too.
 */
#ifndef DECODE_SINK_FLAME_H
#define DECODE_SINK_FLAME_H

#include <stdbool.h>

#include "decode/callstack/calltree.h"

/* ---- flame_tree.c ---- */

struct flame_thread {
	struct calltree_thread ct;	/* first */
	struct call_thread *thread;
	struct flame_thread *next;
};

struct flame_tree {
	struct calls *calls;
	struct calltree tree;
	struct flame_thread *threads;
	bool ticks;		/* cycles are wanted: see calltree_tick */
	struct flame_thread *ran;	/* whom they were told of last */
	uint32_t n_gapped;	/* threads that a gap has not ended for */
	uint64_t n_guessed;	/* frames */
};

/* t is zeroed but for ticks. flags: CALLS_* */
int flame_tree_init(struct flame_tree *t, const struct sink_host *host,
		    enum calltree_per per, unsigned flags);
void flame_tree_fini(struct flame_tree *t);
/* As in session/sink.h. */
int flame_tree_flow(struct flame_tree *t, const struct flow_ctx *ctx,
		    const struct aux_flow *ev, size_t n);
/* The end: all is added up. */
int flame_tree_finish(struct flame_tree *t);

/* --by; -AUX_E_INVAL with diag. NULL: instructions. */
int flame_parse_by(const char *name, enum calltree_by *by,
		   struct aux_diag *diag);
/* "instructions", "ns", ... */
const char *flame_unit(enum calltree_by by);

#endif
