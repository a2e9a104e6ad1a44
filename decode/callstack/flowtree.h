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

struct part_pool;

struct flowtree {
	struct calls *calls;
	struct part_pool *pool;	/* of flowpart.c */
	struct calltree tree;
	struct flowtree_thread *threads;
	unsigned flags;		/* of flowtree_init */
	bool ticks;		/* cycles are wanted: see calltree_tick */
	bool keeps_short;	/* makes short stretches, too: for parts that are saved, where
				 * events take more room than the trees made of them */
	uint32_t n_gapped;	/* threads that a gap has not ended for */
	uint64_t n_guessed;	/* frames */
	/* After each event of a thread, when its counts are added: node is the
	 * one that was on top until then. 0 or an error. NULL: not wanted. */
	int (*seen)(void *priv, struct flowtree_thread *ft, uint32_t node);
	void *priv;
};

/* t is zeroed but for ticks, keeps_short, seen, priv. flags: CALLS_* */
int flowtree_init(struct flowtree *t, const struct sink_host *host,
		  enum calltree_per per, unsigned flags);
void flowtree_fini(struct flowtree *t);
/* As in session/sink.h. */
int flowtree_flow(struct flowtree *t, const struct flow_ctx *ctx,
		  const struct aux_flow *ev, size_t n);
/*
 * flowpart.c: partial results, as in session/sink.h, of a tree without seen and with no
 * option but ticks. Needs SINK_THREAD_ORDER; the result is that of flowtree_flow,
 * but that nodes and functions of different threads may come in another order.
 */
#define FLOWPART_NEEDS (SINK_THREAD_ORDER | SINK_KEEPS_PATHS)
int flowpart_new(void **part, const struct flowtree *t);
int flowpart_flow(void *part, uint32_t stint, const struct flow_ctx *ctx,
		  const struct aux_flow *ev, size_t n);
int flowpart_end(void *part);
int flowpart_join(struct flowtree *t, void *part, uint32_t stint);
size_t flowpart_bytes(const void *part);
void flowpart_free(void *part);
/*
 * flowsave.c: a partial result as bytes, for another process that has the recording open,
 * but need not decode its trace. The events of stretches are left out: where the flow that
 * is joined needs them, flowpart_join is -AUX_E_UNSUPPORTED, and nothing but decoding helps.
 */
struct outbuf;
/* All of it, if all of its stints up to this one are there (1; it is empty then), else
 * nothing (0). -AUX_E_UNSUPPORTED: it has code of a space that has no name. */
int flowpart_save(void *part, uint32_t stint, struct outbuf *out);
/* Bytes of trace from its first event to its last. */
uint64_t flowpart_span(const void *part);
/* Into a new part, of which flowpart_flow is not asked. -AUX_E_FORMAT: no such bytes; every
 * field is checked. -AUX_E_UNSUPPORTED: they are of another version. */
int flowpart_load(void *part, uint32_t stream, const uint8_t *p, size_t n);
/* The stint that is joined next, and when it begins (0: unknown); false: there is none. */
bool flowpart_next(const void *part, uint32_t *stint, uint64_t *ns);
/* Whether its flow ends in a GAP. */
bool flowpart_ends_in_gap(const void *part);
/* For flowtree.c. */
struct part_pool *part_pool_new(void);
void part_pool_free(struct part_pool *pool);

/* The end: all is added up. */
int flowtree_finish(struct flowtree *t);

#endif
