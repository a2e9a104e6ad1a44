/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls: the flow as calls and returns: one stack of frames for each context
 * that runs, as the program itself would see it.
 *
 * Trace tells where control went, never where the stack pointer is. So a return
 * is matched by its address, and what is not a plain call or return (longjmp,
 * throw, a signal, swapcontext, a goroutine, a gap) by the rules in resolve.c,
 * in the order that is least wrong; each frame and each step says how sure it
 * is. A frame is never invented where the program has none: what ran before the
 * trace began is a base frame, nothing above it is guessed.
 *
 * Rules in short. A call pushes, unless it goes to its own next instruction. A
 * jump into another function at its begin replaces the frame (a tail call), out
 * of a stub (name@plt, __x86_indirect_thunk*, veneers) without a trace. A
 * return pops to the frame that it fits. Signals and interrupts push a frame
 * that ends where control goes back to what they interrupted. Kernel frames end
 * where user code goes on. A context that is left by a switch of stacks is kept
 * and taken up again when control goes back into it.
 */
#ifndef DECODE_CALLSTACK_CALLSTACK_H
#define DECODE_CALLSTACK_CALLSTACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode/lib/session/sink.h"
#include "decode/lib/sideband/sideband.h"

/*
 * What is counted, of one thread.
 *
 * Each moment of a thread's time is just one of four. It is
 *
 *	off CPU		between the records that it was switched out and in again:
 *			blocked, if it waited, preempted, if it could have run
 *	lost		else, from a gap until something is traced again
 *	not traced	else, while trace is off: in the kernel, which only user code is
 *			traced of; filtered, where a filter leaves out what runs; or
 *			neither, as far as is known (enum call_untraced)
 *	self		else: time of the function on top of the stack, and of no
 *			other
 *
 * So of a call: total is from its begin to its end; on CPU is total without off
 * CPU; and its own part of each of the four, what it has without its children,
 * is shown where it happens. Every command takes these from here, with
 * call_self_ns. Instructions belong to the frame on top, those of a stub to the
 * frame that called it.
 */
struct call_count {
	uint64_t ns;		/* time, all of it; 0: unknown */
	uint64_t off_ns;	/* of it: off CPU, */
	uint64_t blocked_ns, preempted_ns; /* of that, where it is known */
	uint64_t untraced_ns;	/* not traced, */
	uint64_t kernel_ns, filtered_ns; /* of that, where it is known */
	uint64_t lost_ns;	/* lost */
	uint64_t insns;
	uint64_t branches;	/* that were taken */
	uint64_t cycles;	/* as far as the trace counts them */
};

/* Why trace is off. */
enum call_untraced {
	UNTRACED_UNKNOWN = 0,	/* a pause, a gap before it, or user code where
				 * the kernel alone is traced */
	UNTRACED_KERNEL,	/* a system call, interrupt or exception */
	UNTRACED_FILTERED,	/* a branch to, or the way into, code that a filter
				 * leaves out; with all that runs from there on */
	UNTRACED_N,
};

/* A function: of one name at one place of one file, whatever process runs
 * it. */
struct call_func {
	const char *name;	/* as shown (names.h); NULL: no symbol */
	const char *raw;	/* as the file has it; NULL: no symbol */
	const char *dso;	/* as in struct symbol; NULL: no mapping */
	uint64_t start, size;	/* runtime address where it was first met */
	const struct space *space; /* in which it was */
	uint32_t id;		/* from 0, in the order of being met */
	bool is_stub;
	bool wanted;		/* --symbol means it, or there is none */
	void *user;		/* the consumer's; NULL first */
};

/* How a frame began. */
enum call_kind {
	CALL_BASE = 0,		/* it ran when the trace (or what follows a gap,
				 * an exec, a filter) began */
	CALL_CALL,		/* by a call instruction */
	CALL_TAIL,		/* by a jump: it took the place of its caller */
	CALL_SIGNAL,		/* a signal handler */
	CALL_INTERRUPT,		/* an interrupt or exception, in the kernel */
	CALL_SYSCALL,		/* the kernel, asked for */
	CALL_CONTEXT,		/* the first frame of a context of its own: a
				 * coroutine, a goroutine */
};

/* How a frame ended. */
enum call_end {
	CALL_END_RET = 0,	/* it returned to its caller */
	CALL_END_TAIL,		/* another function took its place */
	CALL_END_UNWOUND,	/* longjmp, throw: without a return of its own */
	CALL_END_KERNEL,	/* back to user code */
	CALL_END_LOST,		/* in a gap, at an unknown time */
	CALL_END_EXEC,		/* the process runs another program */
	CALL_END_TRACE,		/* it still ran at the end of the trace */
};

#define CALL_GUESSED 1	/* the flow does not prove it: rebuilt after a gap, or
			 * the likeliest of several */
#define CALL_KEPT 2	/* it was there at a gap, or who called it is not known after one:
			 * nothing proves that what is below called it */

struct call_frame {
	struct call_func *func;
	uint64_t from;		/* address of the call; 0: none is known */
	uint64_t to;		/* of the first instruction */
	uint64_t back;		/* where it is to return to; 0: unknown */
	struct call_count at;	/* the thread's, where it began */
	struct call_count children; /* of frames above it that have ended, and of
				     * other stacks that ran in between */
	uint64_t serial;	/* counts frames of all threads from 1 */
	uint8_t kind;		/* enum call_kind */
	uint8_t flags;		/* CALL_GUESSED, CALL_KEPT */
	void *user;		/* the consumer's; NULL when it begins. A tail
				 * call is a new frame */
};

/* A thread, as consumers see it. */
struct call_thread {
	uint32_t pid, tid;	/* -1: unknown; then one for each stream */
	uint32_t stream;
	struct call_count now;
	struct call_frame *frames; /* from the base up; valid until the call
				    * of the consumer returns */
	uint32_t depth;		/* how many */
	uint32_t context;	/* which of its stacks this is, from 0 */
	enum call_untraced why_off; /* while trace is off, and when it comes on */
	const struct flow_ctx *ctx;
	void *user;		/* the consumer's; NULL first */
};

/*
 * What a consumer gets, in the order of the flow (threads are mixed). Each may
 * be NULL. Returns are those of flow in session/sink.h: 0, 1 for "enough", or
 * an error.
 */
struct calls_ops {
	/* frames[depth - 1] began */
	int (*enter)(void *priv, struct call_thread *t);
	/* frames[depth - 1] ends now; inclusive is now - at, its own part of it
	 * that without children. flags: CALL_GUESSED */
	int (*leave)(void *priv, struct call_thread *t, enum call_end end,
		     unsigned flags);
	/* the thread goes on in another of its stacks, which is frames now.
	 * from: the number of the one that it left */
	int (*turn)(void *priv, struct call_thread *t, uint32_t from);
	/* flow of t is missing (NULL: the thread is unknown). Frames that are
	 * not found again after it end with CALL_END_LOST, before what runs
	 * then begins. */
	int (*gap)(void *priv, struct call_thread *t, const struct aux_flow *ev);
	/* the thread was off the CPU in the meantime; now is the end of that */
	int (*away)(void *priv, struct call_thread *t,
		    const struct off_span *span);
	/* The thread had a CPU from then to then, as far as its trace and the records of
	 * switches say; it may have been in the kernel, or not traced, there. Comes
	 * when that is over. Not told of the idle thread, and where the trace has no
	 * CPUs or no times. */
	int (*ran)(void *priv, struct call_thread *t, uint32_t cpu,
		   uint64_t from, uint64_t to);
	/* Trace is off or on again (a filter, user or kernel code alone). */
	int (*off)(void *priv, struct call_thread *t, bool on);
	/* Any other event that is no RANGE, PATH or TIME: PAYLOAD, POWER,
	 * ... */
	int (*event)(void *priv, struct call_thread *t,
		     const struct aux_flow *ev);
	/* A TIME brings cycles, which are added after this; not while it waits to be seen
	 * in which stack or frame the thread is. What it returns ends the flow at the end of
	 * the batch. */
	int (*tick)(void *priv, struct call_thread *t);
	/* Instructions that ran in frames[depth - 1], one after the other; with
	 * CALLS_NEEDS_RUNS alone. Of a PATH each RANGE comes on its own. */
	int (*run)(void *priv, struct call_thread *t, const struct aux_flow *ev);
};

#define CALLS_NEEDS_RUNS 1
#define CALLS_KEEPS_STUBS 2	/* stubs (PLT, thunks) are frames as others */

struct calls;

/* flags: CALLS_*. host, ops and priv outlive c. 0, or -AUX_E_NOMEM. */
int calls_new(struct calls **c, const struct sink_host *host, unsigned flags,
	      const struct calls_ops *ops, void *priv);
/* What flow of a sink with SINK_TAKES_PATHS gets. The user fields of steps and
 * paths are calls'. */
int calls_flow(struct calls *c, const struct flow_ctx *ctx,
	       const struct aux_flow *ev, size_t n);
/* Instructions that reached it. */
uint64_t calls_n_insns(const struct calls *c);
/* Ends what still runs (CALL_END_TRACE). */
int calls_finish(struct calls *c);
void calls_free(struct calls *c);

/* Functions that were met: id < calls_n_funcs. They live as long as c. */
size_t calls_n_funcs(const struct calls *c);
struct call_func *calls_func(const struct calls *c, uint32_t id);
/* What to show: the name, or for want of it "[libfoo.so+0x1234]", "0x7f..". */
size_t call_func_name(const struct call_func *f, char *buf, size_t len);
/* PLT entries, retpolines and return thunks of Linux, LLVM's retpolines, linker
 * veneers: is_stub, of a symbol. */
bool call_name_is_stub(const char *name);

static inline struct call_count call_minus(struct call_count a,
					   struct call_count b)
{
	return (struct call_count){
		.ns = a.ns - b.ns,
		.off_ns = a.off_ns - b.off_ns,
		.blocked_ns = a.blocked_ns - b.blocked_ns,
		.preempted_ns = a.preempted_ns - b.preempted_ns,
		.untraced_ns = a.untraced_ns - b.untraced_ns,
		.kernel_ns = a.kernel_ns - b.kernel_ns,
		.filtered_ns = a.filtered_ns - b.filtered_ns,
		.lost_ns = a.lost_ns - b.lost_ns,
		.insns = a.insns - b.insns,
		.branches = a.branches - b.branches,
		.cycles = a.cycles - b.cycles,
	};
}

/* What is neither in the kernel nor filtered, of what is not traced. */
static inline uint64_t call_other_ns(const struct call_count *n)
{
	return n->untraced_ns - n->kernel_ns - n->filtered_ns;
}

/* Self time; n is what a frame counted without its children. */
static inline uint64_t call_self_ns(const struct call_count *n)
{
	return n->ns - n->off_ns - n->untraced_ns - n->lost_ns;
}

/* All of its time is self time. */
static inline void call_all_self(struct call_count *n)
{
	n->off_ns = n->blocked_ns = n->preempted_ns = 0;
	n->untraced_ns = n->kernel_ns = n->filtered_ns = n->lost_ns = 0;
}

static inline struct call_count call_plus(struct call_count a,
					  struct call_count b)
{
	return (struct call_count){
		.ns = a.ns + b.ns,
		.off_ns = a.off_ns + b.off_ns,
		.blocked_ns = a.blocked_ns + b.blocked_ns,
		.preempted_ns = a.preempted_ns + b.preempted_ns,
		.untraced_ns = a.untraced_ns + b.untraced_ns,
		.kernel_ns = a.kernel_ns + b.kernel_ns,
		.filtered_ns = a.filtered_ns + b.filtered_ns,
		.lost_ns = a.lost_ns + b.lost_ns,
		.insns = a.insns + b.insns,
		.branches = a.branches + b.branches,
		.cycles = a.cycles + b.cycles,
	};
}

#endif
