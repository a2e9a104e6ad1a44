/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls' own: threads and their stacks. What a move means that needs the stack as
 * well (a return that fits nowhere, a longjmp, a signal) is decided when it happens,
 * in land.c.
 */
#ifndef DECODE_CALLSTACK_IMPL_H
#define DECODE_CALLSTACK_IMPL_H

#include "decode/callstack/callstack.h"
#include "decode/callstack/code.h"

/* ---- threads ---- */

/* Where setjmp was called. */
struct mark {
	uint64_t back;		/* where it returns to */
	uint64_t serial;	/* of the frame that called it */
};

/* One of a thread's stacks. frames and depth are those of call_thread while it
 * runs. */
struct stack {
	struct call_frame *frames;
	uint32_t depth, max;
	uint64_t left;		/* when it was suspended, counts up; 0: it
				 * runs, or is free */
	struct call_count then;	/* the thread's, when it was left */
	struct mark *marks;
	uint32_t n_marks, max_marks;
};

struct thread {
	struct call_thread pub;	/* first */
	struct thread *next;	/* of all */
	struct thread *same;	/* of equal slot */
	struct flow_ctx ctx;
	struct pend pend;
	struct seg *last;	/* pend is its end; NULL: not of one */
	uint64_t epoch;		/* last is gone in another */
	struct {
		uint8_t kind;	/* CALL_CALL, CALL_TAIL; 0: none */
		uint64_t from, back;
	} stub;			/* a stub runs that was called so */
	struct stack *stacks;
	uint32_t n_stacks, max_stacks, current;
	uint64_t n_turns;
	struct wait *wait;	/* NULL: it is known which stack runs */
	bool off;
};

/* Who ran last in a stream. */
struct lane {
	uint32_t stream;
	struct thread *last;
};

#define THREAD_SLOTS 1024 /* a power of two */

struct calls {
	const struct calls_ops *ops;
	void *priv;
	unsigned flags;
	struct funcs *funcs;
	struct code code;
	const struct space *space;	/* of what flows now */
	uint64_t space_id;		/* UINT64_MAX: none */
	struct thread *threads, **end;	/* all, in the order they came */
	struct thread *slots[THREAD_SLOTS];	/* by tid */
	struct lane *lanes;
	size_t n_lanes, lane;
	uint64_t n_frames;
	uint64_t n_insns;
};

static inline struct call_frame *stack_top(const struct thread *t)
{
	return t->pub.depth ? &t->pub.frames[t->pub.depth - 1] : NULL;
}

static inline void set_pend(struct thread *t, struct pend p)
{
	t->pend = p;
	t->last = NULL;
}

/* stack.c: returns as those of flow. */
int calls_stack_push(struct calls *c, struct thread *t, enum call_kind kind,
		     unsigned flags, struct func *func, uint64_t from,
		     uint64_t to, uint64_t back);
int calls_stack_pop(struct calls *c, struct thread *t, enum call_end end,
		    unsigned flags);
/* By a jump at from: the frame on top gives way to another function's. */
int calls_stack_replace(struct calls *c, struct thread *t,
			const struct move *m, uint64_t from);
/* Until so many are left. */
int calls_stack_pop_to(struct calls *c, struct thread *t, uint32_t depth,
		       enum call_end end, unsigned flags);
/* How many frames are left when control is back at an address, from the top;
 * UINT32_MAX: no frame waits for it. */
uint32_t calls_stack_find_back(const struct thread *t, uint64_t to);
/* How many are left where the topmost of a function runs; 0: there is none. */
uint32_t calls_stack_find_func(const struct thread *t, const struct func *f);
void calls_stack_free(struct thread *t);

/* The frames of the kernel begin here; depth: there are none. */
uint32_t calls_stack_kernel(const struct thread *t);
/* A frame of setjmp or its like began: its caller may be come back to. */
int calls_stack_mark(struct thread *t);
/* How many frames are left when setjmp returns once more, for each frame that called
 * it there, from the top: left[0..max). How many there are. */
uint32_t calls_stack_find_marks(const struct thread *t, const struct stack *s,
				uint64_t to, uint32_t *left, uint32_t max);

/* context.c: the stacks of a thread. */
/* Leaves the stack that runs for a new one. */
int calls_context_new(struct calls *c, struct thread *t);
/* Leaves it for another. */
int calls_context_turn(struct calls *c, struct thread *t, uint32_t i);
/* The one, of those that were left, that was left first of those whose top frame
 * (or any: deep) waits for an address. UINT32_MAX: none. many: there are more. */
uint32_t calls_context_find(const struct thread *t, uint64_t to, bool deep,
			    bool *many);
/* Frames of a stack that is left that do not wait for anything any more. */
int calls_context_prune(struct calls *c, struct thread *t, bool saved);
/* Which stack goes on is told by what comes: from now on moves wait, up to the one
 * that tells. */
int calls_context_wait(struct thread *t, const struct move *m);
/* The same of frames of the stack that runs: how many are left, the fewest last. */
int calls_context_wait_marks(struct thread *t, const struct move *m,
			     const uint32_t *left, uint32_t n);
/* How many frames of the stack that runs are left, if it goes on itself. */
uint32_t calls_context_own(const struct thread *t, uint64_t to);
int calls_context_queue(struct calls *c, struct thread *t,
			const struct move *m);
int calls_context_run(struct calls *c, struct thread *t,
		      const struct aux_flow *ev);
void calls_context_free(struct thread *t);
/* It has to be decided now. */
int calls_context_decide(struct calls *c, struct thread *t);

/* land.c */
int calls_land_ret(struct calls *c, struct thread *t, const struct move *m);
int calls_land_jump(struct calls *c, struct thread *t, const struct move *m);
/* Out of a function that goes on in another stack. */
int calls_land_switch(struct calls *c, struct thread *t, const struct move *m);
/* Behind a gap, or another thread in the kernel. */
int calls_land_gap(struct calls *c, struct thread *t, struct func *f,
		   uint64_t to);

/* signal.c: between the kernel and user code. */
int calls_land_cross(struct calls *c, struct thread *t, const struct move *m);

/* throw.c: how many frames are left when an exception lands at an address of
 * f; 0: no tables say so. */
uint32_t calls_throw_find(const struct calls *c, const struct thread *t,
			  const struct func *f, uint64_t to);

/* run.c */
/* The events that run, or just take time, up to the first other. How many. */
size_t calls_run(struct calls *c, struct thread *t, const struct aux_flow *ev,
		 size_t n, int *rc);
/* Control comes to an address, but nothing runs there. */
int calls_run_stop(struct calls *c, struct thread *t, uint64_t to);
/* What a move does. */
int calls_go(struct calls *c, struct thread *t, const struct move *m);

/* The kernel's half; [vsyscall] is the user's. */
static inline bool is_kernel(uint64_t ip)
{
	return ip >> 63 && ip >> 12 != 0xffffffffff600;
}

#endif
