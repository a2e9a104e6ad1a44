/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the call stack share. Three levels:
 *
 * A move is a step from one instruction to another that is not just the next
 * one. What it means as far as the code alone says (call, return, tail call;
 * moves.c) is found once for each pair of addresses and kept.
 *
 * A segment is what a step or path of the decoder contains: its moves in order,
 * with the counts between them. Paths repeat millions of times, so stack.c does
 * no more for a known segment than add counts, push and pop.
 *
 * What needs the stack as well (a return that fits nowhere, a longjmp, a
 * signal, a switch of stacks) is decided each time, in resolve.c.
 *
 * One struct calls is used by one thread of the program.
 */
#ifndef DECODE_CALLSTACK_IMPL_H
#define DECODE_CALLSTACK_IMPL_H

#include "decode/callstack/callstack.h"
#include "decode/lib/code/code.h"
#include "decode/lib/session/expand.h"

/* ---- functions.c ---- */

enum func_role {
	FUNC_STUB = 1,		/* PLT entry, thunk, veneer: leads elsewhere */
	FUNC_SETJMP = 2,	/* returns again, by a longjmp */
	FUNC_SWITCH = 4,	/* continues in another stack: by its name, or as
				 * observed */
	FUNC_RESTORER = 8,	/* where signal handlers return to */
	FUNC_START = 16,	/* where a program begins */
	FUNC_PARK = 32,		/* continues in a scheduler's stack, which starts
				 * anew each time */
	FUNC_DEAD = 64,		/* a stack with it never runs again */
	FUNC_FORGETS = 128,	/* continues in another stack and abandons this */
	FUNC_PART = 256,	/* of a function without a name, it is not known which */
};

struct func {
	struct call_func pub;	/* first */
	uint64_t hash;
	uint64_t offset;	/* in the file */
	uint64_t part_of;	/* hash of the name without .cold, .part.N */
	uint16_t roles;
	uint32_t left;		/* a worker's: struct calls.stretch.mark */
	struct func *next;	/* in the same hash slot */
};

static inline struct func *func_of(const struct call_func *f)
{
	return (struct func *)f;
}

/* True for one function, or two parts of it (foo and foo.cold). */
static inline bool func_is_same(const struct func *a, const struct func *b)
{
	return a == b || (a && b && a->part_of == b->part_of);
}

struct funcs;
struct funcs *calls_func_new(const struct sink_host *host, unsigned flags);
void calls_func_free(struct funcs *f);
/* The function that contains ip; for code without a symbol, one that stands for
 * the whole file. NULL: out of memory. */
struct func *calls_func_at(struct funcs *f, const struct space *space,
			   uint64_t ip);
/* The same for the target of a move; *begin: it is the function's first
 * address. A target that was called and has no symbol is a function of its
 * own. */
struct func *calls_func_to(struct funcs *f, const struct space *space,
			   uint64_t ip, bool called, bool *begin);
size_t calls_func_count(const struct funcs *f);
struct func *calls_func_get(const struct funcs *f, size_t i);
/* From now on ids are taken from there: no two functions of several tables have the same.
 * calls_func_get goes by the order in this one as ever. */
void calls_func_share_ids(struct funcs *f, _Atomic uint32_t *ids);

/* ---- moves.c ---- */

enum move_kind {
	MOVE_NONE = 0,
	MOVE_CALL,
	MOVE_RET,
	MOVE_TAIL,	/* to a function's begin, by a jump, or out of a stub */
	MOVE_INTO,	/* by a jump into the middle of another, or into code
			 * without a name */
	MOVE_CROSS,	/* syscall, far, async, off: see calls_land_cross */
};

#define MOVE_TO_STUB 1
#define MOVE_IN_STUB 2
#define MOVE_TO_BEGIN 4
#define MOVE_PUSHED 8	/* RET: the code pushed its target just before: a jump */
#define MOVE_WRITTEN 16	/* the same, but the target is in the midst of a function */

struct move {
	uint64_t from, to;
	uint64_t next;		/* address after from */
	struct func *in, *func;	/* with from, with to */
	uint8_t kind, flags;
	uint8_t what;		/* enum aux_range_end, or PEND_* */
	uint32_t space;		/* key of the cache: low bits of the space's id */
};

/* How the last range of a thread ended: enum aux_range_end, or: */
enum {
	PEND_START = 0x40,	/* nothing ran yet, or it is unknown what */
	PEND_ASYNC,		/* from: the instruction that did not run */
	PEND_OFF,
	PEND_GAP,
	PEND_SWITCH,		/* in the kernel: another thread ran */
};

struct pend {
	uint64_t from, next;	/* last instruction, and the address after it */
	uint16_t flags;		/* the RANGE's */
	uint8_t what;
	bool syscall;		/* ASYNC: after a system call */
};

/* A move inside a segment. */
struct seg_move {
	struct move m;
	uint32_t n_insns, n_branches;	/* since the move before it */
};

/*
 * A step or path. What its end led to last is remembered, since it mostly leads
 * there again: to another segment without a move, or out of a function by a
 * return. An id of a space (0: none) says for which address space that was
 * found.
 */
struct seg {
	uint64_t first;		/* address of its first instruction */
	uint64_t to;		/* its end leads here without a move.. */
	uint64_t space;		/* ..in the space with this id */
	struct func *ret;	/* it returns out of this, which is no stub.. */
	uint64_t ret_space;	/* ..in the space with this id */
	uint32_t n_insns, n_branches; /* since its last move, without that of last */
	uint32_t n_moves;
	bool taken;		/* the branch to `to` is a taken one */
	struct pend last;	/* how it ends */
	struct seg_move moves[];
};

#define CALLS_RAW_NAMES	4	/* names are those of the file: for workers, where nothing
				 * may be asked of sink_host.names */
#define EDGE_SLOTS 16384 /* a power of two */

/* Caches of what code alone says. */
struct code {
	const struct sink_host *host;
	struct funcs *funcs;
	struct walk *walk;
	struct move *edges;	/* EDGE_SLOTS, a cache without chains */
	uint64_t epoch;		/* of this struct alone; see calls_code_known */
	bool shares_words;	/* of the user words a worker has two, this struct the third */
	char *arena;		/* all segments of this epoch */
	size_t used;
	struct seg_move *moves;	/* of the segment being made */
	size_t max_moves;
};

int calls_code_init(struct code *c, const struct sink_host *host,
		    struct funcs *funcs);
void calls_code_fini(struct code *c);
/* How a range ends. */
struct pend calls_code_end(struct code *c, const struct space *space,
			   const struct aux_flow *ev);
/* Whether going to an address after that end is a taken branch. */
bool calls_code_taken(const struct pend *p, uint64_t to);
/* Does a move lead into code without a name in another file, or in none, or out
 * of such code? In the same file it may be a part of the function (f.cold). */
bool calls_code_leaves(const struct move *m);
/* What it means to go there; NULL: out of memory. Valid until the next call. */
const struct move *calls_code_move(struct code *c, const struct space *space,
				   const struct pend *p, uint64_t to);
/* Remembers that a segment's end led there, by m. */
void calls_code_learn(struct seg *s, uint64_t space, const struct move *m,
		      uint64_t to);
/*
 * The user words of steps, and of paths that are kept: [0] is the epoch in which the segment
 * at [1] was made. Where the words are shared, [2] has both: the place in the arena, in units
 * of SEG_ALIGN, and above it the epoch.
 */
#define SEG_ALIGN 16
#define SEG_PLACE_BITS 22
#define CODE_EPOCH_BITS 16	/* of the epochs of one struct code, below its own number */

static inline struct seg *calls_code_place(const struct code *c, const uint64_t *user)
{
	if (!c->shares_words)
		return (struct seg *)(uintptr_t)user[1];
	return (struct seg *)(c->arena + (user[2] & ((1u << SEG_PLACE_BITS) - 1)) * SEG_ALIGN);
}

/* The segment of a step or of a path that is kept; NULL: not made in this epoch. */
static inline struct seg *calls_code_known(const struct code *c, const uint64_t *user)
{
	uint64_t epoch = c->shares_words ? user[2] >> SEG_PLACE_BITS : user[0];

	return epoch == c->epoch ? calls_code_place(c, user) : NULL;
}

/* The same, made if needed; NULL: out of memory. A full arena starts a new
 * epoch, and all older segments are gone. */
struct seg *calls_code_step(struct code *c, const struct space *space,
			    struct aux_step *step);
struct seg *calls_code_path(struct code *c, const struct space *space,
			    struct aux_path *path);

/* ---- stack.c ---- */

#define CALLS_MAX_DEPTH (1u << 20)	/* frames; 8 MiB of stack hold half as many */

/* A call of setjmp: control may come back there later. */
struct mark {
	uint64_t back;		/* where it returns to */
	uint64_t serial;	/* of the frame that called it */
};

/* One of a thread's stacks. While it runs, call_thread has the current frames
 * and depth. */
struct stack {
	struct call_frame *frames;
	uint32_t depth, max;
	uint64_t left;		/* ordinal of its suspension; 0: it runs, or is
				 * free */
	struct call_count then;	/* the thread's, when it was suspended */
	struct mark *marks;
	uint32_t n_marks, max_marks;
};

struct thread {
	struct call_thread pub;	/* first */
	struct thread *next;	/* in the list of all */
	struct thread *same;	/* in the same hash slot */
	struct flow_ctx ctx;
	struct pend pend;	/* how what ran last ended */
	struct seg *last;	/* the segment whose end pend is; NULL: none */
	uint64_t epoch;		/* in which last is valid */
	struct {
		uint8_t kind;	/* CALL_CALL, CALL_TAIL; 0: none */
		uint64_t from, back;
	} stub;			/* a stub runs, and this is how it was entered */
	struct stack *stacks;
	uint32_t n_stacks, max_stacks, current;
	uint64_t n_turns;
	struct wait *wait;	/* moves wait (resolve.c); NULL: it is known which
				 * stack runs */
	int32_t cpu;		/* where it runs */
	uint64_t run_from;	/* since then; 0: it is not known to */
	bool off;		/* trace is off */
	bool left_kernel;	/* to a program that is not traced: leaves_kernel() */
	bool lost;		/* a gap came, and nothing was traced since */
	bool aside;		/* in the page of uprobes: pass_aside() */
	bool unseen;		/* pend leads to unseen_at: see is_unseen() */
	uint64_t unseen_at;
};

/* The thread that ran last in a stream. */
struct stream_tail {
	uint32_t stream;
	struct thread *last;
};

#define THREAD_SLOTS 1024 /* a power of two */

#define CALLS_STOP 2	/* what functions return, where moves of a stretch stop */

struct calls {
	const struct sink_host *host;
	const struct calls_ops *ops;
	void *priv;
	unsigned flags;
	struct funcs *funcs;
	struct code code;
	const struct space *space;	/* code at this moment */
	uint64_t space_id;		/* UINT64_MAX: none */
	struct thread *threads, **end;	/* all, in the order they came */
	struct thread *slots[THREAD_SLOTS];	/* by tid */
	struct stream_tail *tails;
	size_t n_tails, tail;	/* tail: of the current stream */
	uint64_t n_frames;
	uint64_t n_insns;
	int failed;			/* what ops->away, ran or tick returned */
	uint64_t n_switches;	/* functions that were seen to switch stacks */
	uint32_t base;		/* frames at the bottom that no return may end: 1 in a
				 * stretch, else 0 */
	struct {		/* of a stretch (stretch.h) */
		/* a return out of a function, by the instruction at from: the first since
		 * mark changed, which is never 0 */
		uint32_t mark;
		void (*left)(void *priv, struct func *func, uint64_t from);
		/* a jump that is a tail call if nothing that is not known goes on there */
		void (*jumped)(void *priv, struct func *func, uint64_t to);
		struct pend pend;	/* where it stopped: how what ran before ended */
		uint32_t moves;	/* of the last segment that were made, and one; 0: not
				 * even the move into it was */
	} stretch;
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

/* Functions return as calls_ops: 0, 1 for "enough", or an error. */
int calls_stack_push(struct calls *c, struct thread *t, enum call_kind kind,
		     unsigned flags, struct func *func, uint64_t from,
		     uint64_t to, uint64_t back);
int calls_stack_pop(struct calls *c, struct thread *t, enum call_end end,
		    unsigned flags);
/* A tail call at from: another function's frame replaces the one on top. */
int calls_stack_replace(struct calls *c, struct thread *t,
			const struct move *m, uint64_t from);
/* Pops until depth frames are left. */
int calls_stack_pop_to(struct calls *c, struct thread *t, uint32_t depth,
		       enum call_end end, unsigned flags);
/* How many frames are left when the topmost frame that returns to an address
 * has done so; UINT32_MAX: no frame returns there. */
uint32_t calls_stack_find_back(const struct thread *t, uint64_t to);
/* The depth at which the topmost frame of a function is on top; 0: there is
 * none. */
uint32_t calls_stack_find_func(const struct thread *t, const struct func *f);
/* The depth below the kernel's frames: how many frames the user's code has. */
uint32_t calls_stack_kernel(const struct thread *t);
/* For each frame that called setjmp with this return address, from the top, how
 * many frames are left when setjmp returns once more: left[0..max). Returns how
 * many. */
uint32_t calls_stack_find_marks(const struct thread *t, const struct stack *s,
				uint64_t to, uint32_t *left, uint32_t max);

/* ---- resolve.c: the stacks of a thread ---- */

/* Suspends the stack that runs, and continues in stack i. */
int calls_context_turn(struct calls *c, struct thread *t, uint32_t i);
/* A move, or a range, while it is not known which stack runs. */
int calls_context_queue(struct calls *c, struct thread *t,
			const struct move *m);
int calls_context_run(struct calls *c, struct thread *t,
		      const struct aux_flow *ev);
/* The same when trace stops or starts. */
int calls_context_off(struct thread *t, bool on);
void calls_context_free(struct thread *t);
/* Decides to which of its stacks the thread switched, and carries out the moves
 * that were put off until that was clear (t->wait). */
int calls_context_decide(struct calls *c, struct thread *t);

/* ---- resolve.c: moves that need the stack ---- */

/* A return that does not return to the top frame's caller. */
int calls_resolve_ret(struct calls *c, struct thread *t, const struct move *m);
/* An indirect jump into the middle of a function: longjmp, or a computed
 * goto. */
int calls_resolve_jump(struct calls *c, struct thread *t, const struct move *m);
/* Out of a function that continues in another stack. */
int calls_resolve_switch(struct calls *c, struct thread *t, const struct move *m);
/* Whether such a jump is a tail call, whatever the stack is, unless it leads to where a
 * frame of it goes on. */
bool calls_resolve_is_tail(const struct calls *c, const struct thread *t,
			   const struct move *m);
/* Whether nothing of the thread goes on at an address of func: no frame, no setjmp, no
 * handler of an exception. */
bool calls_resolve_is_new(const struct calls *c, const struct thread *t,
			  const struct func *func, uint64_t to);
/* After a gap, or after another thread ran in the kernel. */
int calls_resolve_gap(struct calls *c, struct thread *t, struct func *f,
		   uint64_t to);

/* Between the kernel and user code: system calls, signals, exec. */
int calls_resolve_cross(struct calls *c, struct thread *t, const struct move *m);

/* unwind.c: how many frames are left when an exception is caught at an address
 * of f; 0: no table says so. */
/* Whether an exception that leaves the call which returns to back is caught at `to`. */
bool calls_unwind_leads(const struct calls *c, uint64_t back, uint64_t to);
uint32_t calls_unwind_find(const struct calls *c, const struct thread *t,
			  const struct func *f, uint64_t to);

/* ---- stretches: see stretch.h ---- */

/* Where a stretch stopped. */
struct stretch_stop {
	uint32_t n_ranges;	/* of the event, that ran */
	struct pend pend;	/* how they ended, or what came before them */
};

/*
 * stack.c: runs TIMEs and code as long as nothing stops the stretch; returns how many
 * events. CALLS_STOP in *rc: the next event ran up to *stop.
 */
size_t calls_run_stretch(struct calls *c, struct thread *t, const struct aux_flow *ev,
			 size_t n, int *rc, struct stretch_stop *stop);
/* The thread of a batch, its time and its space. NULL: out of memory. */
struct thread *calls_find_thread(struct calls *c, const struct flow_ctx *ctx);
/* A TIME that no consumer is told of. */
void calls_pass_time(struct calls *c, struct thread *t, const struct aux_flow *ev);
/* Puts a frame on top that consumers know of, or need not. */
int calls_stack_add(struct thread *t, const struct call_frame *frame);

/* stack.c: carries out a move. */
int calls_go(struct calls *c, struct thread *t, const struct move *m);

/* The upper half of addresses, except the page [vsyscall], which is user
 * code. */
static inline bool is_kernel(uint64_t ip)
{
	return ip >> 63 && ip >> 12 != 0xffffffffff600;
}

#endif
