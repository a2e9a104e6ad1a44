/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calltree: calls added up in a tree: a node is a function called from where
 * its parent is, with how often, and what it took.
 *
 * It lives beside a consumer of callstack.h, which passes on its events.
 * Everything that a thread counts is added to exactly one node, the one that
 * was on top then: the sum of all nodes' own is what all threads counted,
 * whatever frames were guessed, left out or lost. Memory is bounded: below
 * max_depth, and once there are max_nodes, calls go into one node "[folded]" of
 * their parent.
 */
#ifndef DECODE_CALLSTACK_CALLTREE_H
#define DECODE_CALLSTACK_CALLTREE_H

#include "decode/callstack/callstack.h"

/* Which roots there are below node 0: the threads, the processes, or none. */
enum calltree_per {
	CALLTREE_PER_THREAD = 0,
	CALLTREE_PER_PROCESS,
	CALLTREE_PER_ALL,
};

/* What a number is of. */
enum calltree_by {
	CALLTREE_BY_INSNS = 0,
	CALLTREE_BY_NS,
	CALLTREE_BY_CYCLES,
	CALLTREE_BY_BRANCHES,
};

/* node.func, where it is no function's id */
#define CALLTREE_ROOT	UINT32_MAX	  /* node 0, and the roots below it */
#define CALLTREE_GAP	(UINT32_MAX - 1)  /* "[gap]": time, cycles lost */
#define CALLTREE_OFF	(UINT32_MAX - 2)  /* "[not traced]": time, cycles */
#define CALLTREE_OFF_CPU (UINT32_MAX - 3) /* "[off CPU]": time */
#define CALLTREE_IN_KERNEL (UINT32_MAX - 4) /* "[in the kernel]": as OFF */
#define CALLTREE_FILTERED (UINT32_MAX - 5) /* "[filtered]": as OFF */
#define CALLTREE_FOLDED (UINT32_MAX - 6)  /* "[folded]"; the smallest */
#define CALLTREE_N_OTHERS 6	/* that are no function's and no root's */

/* A node's func for time that is not traced. */
static inline uint32_t calltree_untraced(enum call_untraced why)
{
	return why == UNTRACED_KERNEL ? CALLTREE_IN_KERNEL :
	       why == UNTRACED_FILTERED ? CALLTREE_FILTERED : CALLTREE_OFF;
}

/* Nobody's: neither a function's nor a root's nor folded. */
static inline bool calltree_is_away(uint32_t func)
{
	return func > CALLTREE_FOLDED && func != CALLTREE_ROOT;
}

struct calltree_node {
	uint32_t parent;	/* an index smaller than the node's own */
	uint32_t func;		/* struct call_func.id, or CALLTREE_* */
	uint32_t child, next;	/* first child, next sibling; 0: none. In no
				 * order before they are sorted */
	uint32_t depth;		/* of node 0: 0 */
	uint32_t recent, recent_func; /* the child that was called last: the
				 * tree's own */
	uint8_t kind;		/* enum call_kind of the first that came */
	bool is_kernel;
	bool is_inner;		/* its function is among its ancestors too: what
				 * a function took in all is the sum of total
				 * of its nodes that are not */
	uint64_t calls;		/* frames that began; of a base frame too */
	struct call_count own;	/* its ns are self time, or those of what is no
				 * function */
	struct call_count total; /* after calltree_sum: with all below it */
	/* of a root: pid or tid, stream when that is -1 */
	uint32_t id, stream;
	const char *comm;	/* NULL: not known */
};

/* Of a function, all its nodes and what is folded taken together. */
struct calltree_func {
	uint64_t calls;
	struct call_count own;
	struct call_count total; /* what is folded is in it but once */
};

struct calltree_config {
	const struct sink_host *host;	/* for comm */
	unsigned per;			/* enum calltree_per */
	bool no_inner;			/* is_inner is not asked for */
	uint32_t max_nodes;		/* 0: 2 million */
	uint32_t max_depth;		/* 0: 1024 */
};

struct calltree {
	struct calltree_config config;
	struct calltree_node *nodes;	/* nodes[0] is all together */
	uint32_t n, max;
	uint64_t *slots;		/* by (parent, func): the index, and above it
				 * bits of their hash; 0: free */
	uint32_t n_slots;		/* a power of two */
	struct calltree_func *folded;	/* by function, of what is folded */
	uint32_t n_folded;
	uint64_t n_folded_calls;	/* 0: nothing was folded */
};

/* Nodes that ran since the last tick, and the cycles that they share. */
#define CALLTREE_SLICES 32
struct calltree_slices {
	uint64_t cycles, insns;
	uint32_t n;
	bool on;		/* calltree_tick is used */
	struct calltree_slice {
		uint32_t node;
		uint32_t func;	/* where node is folded */
		uint64_t insns;
	} v[CALLTREE_SLICES];
};

/* The tree's state of one thread, zeroed at first, in memory of the caller. */
struct calltree_thread {
	uint32_t root, current;		/* nodes; root 0: none yet */
	uint32_t func;			/* of current, where that is folded */
	uint32_t away;			/* CALLTREE_GAP, calltree_untraced; 0: not */
	struct call_count last;		/* what is added up so far */
	bool seen;
	bool begun;			/* seen, and its root is there if it has one */
	struct calltree_slices slices;
};

int calltree_init(struct calltree *t, const struct calltree_config *config);
void calltree_fini(struct calltree *t);
/* As after init, with the memory that it has. */
void calltree_empty(struct calltree *t);

/*
 * As calls_ops delivers them, before the caller does anything else with them.
 * 0, or -AUX_E_NOMEM. In each frame's user the lower 32 bits are the tree's
 * (its node), the upper 32 the caller's. thread is never NULL: gaps of unknown
 * threads are left out.
 */
int calltree_enter(struct calltree *t, struct calltree_thread *ct,
		   struct call_thread *thread);
int calltree_leave(struct calltree *t, struct calltree_thread *ct,
		   struct call_thread *thread, enum call_end end);
int calltree_turn(struct calltree *t, struct calltree_thread *ct,
		  struct call_thread *thread);
int calltree_gap(struct calltree *t, struct calltree_thread *ct,
		 struct call_thread *thread);
int calltree_off(struct calltree *t, struct calltree_thread *ct,
		 struct call_thread *thread, bool on);
/* After a gap, before anything runs: the time up to now was lost. Without this
 * a gap ends with the next frame that begins or ends. */
int calltree_back(struct calltree *t, struct calltree_thread *ct,
		  struct call_thread *thread);
/*
 * Before a number of cycles is added (a TIME): they belong to everything that
 * runs from here to the next tick, and each node gets its share by its
 * instructions. If nothing runs they go to the node on top. Without ticks, all
 * cycles go to the node that is on top when they are added.
 */
int calltree_tick(struct calltree *t, struct calltree_thread *ct,
		  struct call_thread *thread);
/* Adds what was counted since. After calls_finish nothing is left to add. */
int calltree_flush(struct calltree *t, struct calltree_thread *ct,
		   struct call_thread *thread);

/* The node of a frame that was entered. */
static inline uint32_t calltree_node_of(const struct call_frame *f)
{
	return (uint32_t)(uintptr_t)f->user;
}

/* Computes total of all nodes, of what was added until now. */
void calltree_sum(struct calltree *t);
/* Children of each node by total, largest first; equal ones as they were
 * met. */
int calltree_sort(struct calltree *t, enum calltree_by by);
/* The same by name. */
int calltree_sort_names(struct calltree *t, const struct calls *c);
/* After calltree_sum: by function id < n, which is calls_n_funcs. The caller
 * frees it. NULL: out of memory. */
struct calltree_func *calltree_funcs(const struct calltree *t, size_t n);
/* The same of what is below the roots that are wanted, folded calls left out:
 * whose those are is not known. */
struct calltree_func *calltree_funcs_below(const struct calltree *t, size_t n,
					   bool (*want)(const void *priv,
							const struct calltree_node *root),
					   const void *priv);

/* What is no function, CALLTREE_FOLDED to CALLTREE_GAP: "[not traced]". */
const char *calltree_other(uint32_t func);

/* What to show for a node: in buf, or what lives as long as the functions do. A
 * thread is "comm/1234", a process "comm/1234" of its pid, an unknown one
 * "[unknown]/stream 3". */
#define CALLTREE_NAME 512
const char *calltree_name(const struct calltree *t, const struct calls *c,
			  uint32_t node, char buf[CALLTREE_NAME]);

/* folded.c: the node after one, depth first; 0: it was the last. below: those below it
 * are wanted, too. */
uint32_t calltree_next(const struct calltree *t, uint32_t node, bool below);

/*
 * Lines of folded stacks. The line so far is that of the node before (of node 0: empty);
 * it is that of node then, which calltree_next gave. starts[0..calltree_depth]: where the
 * name of each depth begins in it.
 */
struct outbuf;
void calltree_fold(struct outbuf *line, size_t *starts, const struct calltree *t,
		   const struct calls *c, uint32_t before, uint32_t node);
/* How deep the deepest node is. */
uint32_t calltree_depth(const struct calltree *t);

/*
 * A part of the flow that was added up in another tree, from one root of it on: what it
 * has below the root comes below the current node, and the root's own is that node's. What
 * ran before and after it is told as ever.
 */
struct calltree_graft {
	const struct calltree *from;
	uint32_t root, end;	/* of its nodes: the root, and those below it up to end */
	const uint32_t *funcs;	/* ids, and one, by those that it has */
	uint32_t *nodes;	/* out: nodes, by its index, from the root on */
	/* Where cycles are wanted (calltree_tick): what ran up to the first tick, if there
	 * was one, and since the last, if not. Nodes are the other tree's. */
	bool ticked;
	struct {
		const struct calltree_slice *v;
		uint32_t n;
		uint64_t cycles;
	} head, tail;
};

/* The root of such a part. 0: out of memory. */
uint32_t calltree_add_root(struct calltree *t);
/* Adds it up; the caller then moves the thread on, and calls calltree_resume. */
int calltree_add_graft(struct calltree *t, struct calltree_thread *ct,
		       struct call_thread *thread, const struct calltree_graft *g);
/* The thread has counted what it has counted, and its top frame is the current node:
 * all of that is in the tree already. */
void calltree_resume(struct calltree_thread *ct, const struct call_thread *thread);
/* Adds up what was counted up to now, and nothing else. */
int calltree_add_up(struct calltree *t, struct calltree_thread *ct,
		    struct call_thread *thread);

static inline uint64_t calltree_get(const struct call_count *c,
				    enum calltree_by by)
{
	switch (by) {
	case CALLTREE_BY_NS:
		return c->ns;
	case CALLTREE_BY_CYCLES:
		return c->cycles;
	case CALLTREE_BY_BRANCHES:
		return c->branches;
	default:
		return c->insns;
	}
}

#endif
