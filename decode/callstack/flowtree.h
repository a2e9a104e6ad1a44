/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flowtree: the flow as a call tree of all its threads: callstack.h and
 * calltree.h put together, with gaps that end where something runs again, and
 * cycles that go to what they were of.
 */
#ifndef DECODE_CALLSTACK_FLOWTREE_H
#define DECODE_CALLSTACK_FLOWTREE_H

#include "decode/callstack/calltree.h"

struct flowtree_thread {
	struct calltree_thread ct;	/* first */
	struct call_thread *thread;
	struct flowtree_thread *next;
	void *user;			/* the consumer's; NULL first */
};

struct flowtree {
	struct calls *calls;
	struct calltree tree;
	struct flowtree_thread *threads;
	bool ticks;		/* cycles are wanted: see calltree_tick */
	uint32_t n_gapped;	/* threads that a gap has not ended for */
	uint64_t n_guessed;	/* frames */
	/* After each event of a thread, when its counts are added: node is the
	 * one that was on top until then. 0 or an error. NULL: not wanted. */
	int (*seen)(void *priv, struct flowtree_thread *ft, uint32_t node);
	void *priv;
};

/* t is zeroed but for ticks, seen, priv. flags: CALLS_* */
int flowtree_init(struct flowtree *t, const struct sink_host *host,
		  enum calltree_per per, unsigned flags);
void flowtree_fini(struct flowtree *t);
/* As in session/sink.h. */
int flowtree_flow(struct flowtree *t, const struct flow_ctx *ctx,
		  const struct aux_flow *ev, size_t n);
/* The end: all is added up. */
int flowtree_finish(struct flowtree *t);

#endif
