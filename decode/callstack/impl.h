/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls' own: threads and their stacks. What a move means that needs the stack as
 * well (a return that fits nowhere, a longjmp, a signal) is decided when it happens,
 * in land.c.
 */
#ifndef DECODE_CALLSTACK_IMPL_H
#define DECODE_CALLSTACK_IMPL_H

#include "decode/callstack/callstack.h"
#include "decode/lib/code/code.h"
#include "decode/lib/session/expand.h"

/* ---- threads ---- */

/* Where setjmp was called. */
/*
 * calls_code: functions, and moves: what a step from one instruction to another means
 * for calls, as far as the code alone says it. It is found once and kept.
 */

/* ---- functions ---- */

enum func_role {
	FUNC_STUB = 1,		/* PLT entry, thunk, veneer: leads elsewhere */
	FUNC_SETJMP = 2,	/* returns again, by a longjmp */
	FUNC_SWITCH = 4,	/* leaves to another stack; by name or as seen */
	FUNC_RESTORER = 8,	/* where signal handlers return to */
	FUNC_START = 16,	/* where a program begins */
	FUNC_PARK = 32,		/* goes on in another stack (of a scheduler),
				 * which is not kept when it is left */
	FUNC_DEAD = 64,		/* a stack with it is never taken up again */
	FUNC_FORGETS = 128,	/* goes on in another, and keeps nothing of this */
};

struct func {
	struct call_func pub;	/* first */
	uint64_t hash;
	uint64_t offset;	/* in the file */
	uint64_t part_of;	/* hash of the name without .cold, .part.N */
	uint8_t roles;
	struct func *next;	/* of equal slot */
};

static inline struct func *func_of(const struct call_func *f)
{
	return (struct func *)f;
}

/* Is it one function: itself, or another part of it? */
static inline bool func_is_same(const struct func *a, const struct func *b)
{
	return a == b || (a && b && a->part_of == b->part_of);
}

struct funcs;
struct funcs *calls_func_new(const struct sink_host *host, unsigned flags);
void calls_func_free(struct funcs *f);
/* The function that holds ip; of code without a symbol what stands for all of its
 * file. NULL: out of memory. */
struct func *calls_func_at(struct funcs *f, const struct space *space,
			   uint64_t ip);
/* The same of an address that control goes to; begin: the function's first. One
 * that was called and has no symbol is a function of its own. */
struct func *calls_func_to(struct funcs *f, const struct space *space,
			   uint64_t ip, bool called, bool *begin);
/* demangle.c: for free(); NULL: it is not mangled, or nobody can tell. */
char *calls_demangle(const char *name);
size_t calls_func_count(const struct funcs *f);
struct func *calls_func_get(const struct funcs *f, size_t i);

/* ---- moves ---- */

enum move_kind {
	MOVE_NONE = 0,
	MOVE_CALL,
	MOVE_RET,
	MOVE_TAIL,	/* to a function's begin, by a jump, or out of a stub */
	MOVE_LAND,	/* by an indirect jump into the middle of another */
	MOVE_CROSS,	/* syscall, far, async, off: see calls_land_cross */
};

#define MOVE_TO_STUB 1
#define MOVE_IN_STUB 2
#define MOVE_TO_BEGIN 4
#define MOVE_PUSHED 8	/* RET: its target was put on the stack just before */

struct move {
	uint64_t from, to;
	uint64_t next;		/* address behind from */
	struct func *in, *func;	/* of from, of to */
	uint8_t kind, flags;
	uint8_t what;		/* enum aux_range_end, or PEND_* */
	uint32_t space;		/* of the cache: low bits of the id */
};

/* How the last thing that ran ended: what, as in RANGE, or: */
enum {
	PEND_START = 0x40,	/* nothing ran yet, or nobody knows what */
	PEND_ASYNC,		/* from is what did not run */
	PEND_OFF,
	PEND_GAP,
	PEND_SWITCH,		/* in the kernel: another thread ran */
};

struct pend {
	uint64_t from, next;	/* next: address behind it */
	uint16_t flags;		/* as of the RANGE */
	uint8_t what;
	bool syscall;		/* ASYNC: behind a system call */
};

/* A path or step, as calls see it. */
struct seg_move {
	struct move m;
	uint32_t n_insns, n_branches;	/* since the move before it */
};

struct seg {
	uint64_t first;
	/* what its end leads to, as it was met last: */
	uint64_t to;		/* there, by no move, in the space of this id: */
	uint64_t space;		/* 0: none */
	struct func *ret;	/* back from this, which is no stub, in: */
	uint64_t ret_space;
	uint32_t n_insns, n_branches; /* since its last move; not that of last */
	uint32_t n_moves;
	bool taken;
	struct pend last;
	struct seg_move moves[];
};

#define EDGE_SLOTS 16384 /* a power of two */

struct code {
	const struct sink_host *host;
	struct funcs *funcs;
	struct walk *walk;
	struct move *edges;	/* EDGE_SLOTS */
	uint64_t epoch;
	char *arena;
	size_t used;
	struct seg_move *moves;	/* in the making */
	size_t max_moves;
};

int calls_code_init(struct code *c, const struct sink_host *host,
		    struct funcs *funcs);
void calls_code_fini(struct code *c);
/* The end of a range. */
struct pend calls_code_end(struct code *c, const struct space *space,
			   const struct aux_flow *ev);
/* Is a branch that ended so taken, if it goes to an address? */
bool calls_code_taken(const struct pend *p, uint64_t to);
/* What it means to go there; NULL: out of memory. Valid until the next call. */
const struct move *calls_code_move(struct code *c, const struct space *space,
				   const struct pend *p, uint64_t to);
/* A segment's end led there, by m. */
void calls_code_learn(struct seg *s, uint64_t space, const struct move *m,
		      uint64_t to);
/* Of a step, or of a path that is kept, user of which is given; NULL: not yet. */
static inline struct seg *calls_code_known(const struct code *c,
					   const uint64_t *user)
{
	return user[0] == c->epoch ? (struct seg *)(uintptr_t)user[1] : NULL;
}

/* The same, and it is made; NULL: out of memory. What was made before may be gone:
 * epoch tells. */
struct seg *calls_code_step(struct code *c, const struct space *space,
			    struct aux_step *step);
struct seg *calls_code_path(struct code *c, const struct space *space,
			    struct aux_path *path);

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

/* The frames of the kernel begin here; depth: there are none. */
uint32_t calls_stack_kernel(const struct thread *t);
/* How many frames are left when setjmp returns once more, for each frame that called
 * it there, from the top: left[0..max). How many there are. */
uint32_t calls_stack_find_marks(const struct thread *t, const struct stack *s,
				uint64_t to, uint32_t *left, uint32_t max);

/* context.c: the stacks of a thread. */
/* Leaves it for another. */
int calls_context_turn(struct calls *c, struct thread *t, uint32_t i);
/* How many frames of the stack that runs are left, if it goes on itself. */
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
/* What a move does. */
int calls_go(struct calls *c, struct thread *t, const struct move *m);

/* The kernel's half; [vsyscall] is the user's. */
static inline bool is_kernel(uint64_t ip)
{
	return ip >> 63 && ip >> 12 != 0xffffffffff600;
}

#endif
