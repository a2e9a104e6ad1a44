/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls: where control goes when it is no plain call or return, decided against
 * the stack as it is. Trace tells where control went, never where the stack
 * pointer is.
 *
 * The order of the rules is that of callstack.h: what an address proves comes
 * before what a function's name makes likely, and that before a guess. A frame
 * that is only likely is flagged CALL_GUESSED.
 *
 * Three parts: what the kernel does to a thread (system calls, signals, exec,
 * filters); threads that run on several stacks; returns and jumps that fit no
 * caller.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "decode/callstack/impl.h"
#include "decode/lib/sideband/sideband.h"

/*
 * ---- between kernel and user code ----
 *
 * Seen from user code alone, or from inside the kernel where that is traced.
 */

#define MAX_LOOK 65536	/* frames searched */

/* True if a system call is rt_sigreturn, by the restorer's name or its code:
 * mov $15, %eax; syscall, and on aarch64 mov x8, #139; svc #0. */
static bool is_sigreturn(struct calls *c, const struct move *m)
{
	static const uint8_t x86[9] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f,
					0x05 };
	static const uint8_t x86_short[7] = { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	static const uint8_t a64[8] = { 0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0,
					0xd4 };
	const struct space *space = c->space;
	uint8_t b[9];

	if (m->in->roles & FUNC_RESTORER)
		return true;
	if (walk_bytes(c->code.walk, space, m->from - 7, b, 9) == 9 &&
	    (!memcmp(b, x86, 9) || !memcmp(b + 2, x86_short, 7)))
		return true;
	return walk_bytes(c->code.walk, space, m->from - 4, b, 8) == 8 &&
	       !memcmp(b, a64, 8);
}

/* A system call that leads to a program's entry, or out of code that is no
 * longer mapped. */
static bool is_exec(struct calls *c, const struct move *m)
{
	const struct space *space = c->space;

	if (m->what != AUX_END_SYSCALL)
		return false;
	if (m->func->roles & FUNC_START && m->flags & MOVE_TO_BEGIN)
		return true;
	return space && space->n_maps && !is_kernel(m->from) &&
	       !space_find(space, m->from);
}

/* The depth of the topmost handler that was interrupted at an address; 0: there
 * is none. */
static uint32_t find_signal(const struct thread *t, uint64_t to)
{
	for (uint32_t i = t->pub.depth, n = 0; i && n < MAX_LOOK; i--, n++) {
		const struct call_frame *f = &t->pub.frames[i - 1];

		if (f->kind == CALL_SIGNAL && (f->back == to || f->from == to))
			return i;
	}
	return 0;
}

static int end_signal(struct calls *c, struct thread *t, uint32_t depth)
{
	int rc = calls_stack_pop_to(c, t, depth, CALL_END_UNWOUND, 0);

	return rc ? rc : calls_stack_pop(c, t, CALL_END_RET, 0);
}

/*
 * A sigreturn that leads elsewhere: the next pending signal's handler, or an
 * address that the handler put into the context. Ends the handler, and lets m
 * start where the signal came.
 */
static int chain_signal(struct calls *c, struct thread *t, struct move *m,
			bool *ended)
{
	struct call_frame *top = stack_top(t);

	*ended = false;
	if (m->what != AUX_END_SYSCALL || !is_sigreturn(c, m))
		return 0;
	while (top && top > t->pub.frames && top->kind != CALL_SIGNAL)
		top--;
	if (!top || top->kind != CALL_SIGNAL)
		return 0;
	*ended = true;
	m->from = top->from;
	m->next = top->back;
	return end_signal(c, t, (uint32_t)(top - t->pub.frames) + 1);
}

/* Returns to the caller of the frame at depth; frames above it are unwound. */
static int return_from(struct calls *c, struct thread *t, uint32_t depth)
{
	int rc = calls_stack_pop_to(c, t, depth + 1, CALL_END_UNWOUND, 0);

	return rc ? rc : calls_stack_pop(c, t, CALL_END_RET, 0);
}

/* Trace was off: what runs now may be anywhere in the stack, or nowhere. */
static int resume_trace(struct calls *c, struct thread *t, const struct move *m)
{
	uint32_t depth = calls_stack_find_back(t, m->to);
	int rc;

	if (depth != UINT32_MAX)
		return return_from(c, t, depth);
	depth = calls_stack_find_func(t, m->func);
	if (depth)
		return calls_stack_pop_to(c, t, depth, CALL_END_UNWOUND,
					  CALL_GUESSED);
	if (m->what != PEND_OFF)
		rc = calls_stack_pop_to(c, t, 0, CALL_END_UNWOUND,
					CALL_GUESSED);
	else
		rc = 0;
	return rc ? rc : calls_stack_push(c, t, CALL_BASE,
					  t->pub.depth ? CALL_GUESSED : 0,
					  m->func, 0, m->to, 0);
}

/* In user code after a system call, an interruption, or a stop of trace. */
static int resolve_user(struct calls *c, struct thread *t, struct move *m)
{
	struct call_frame *top = stack_top(t);
	uint32_t depth;
	bool ended;
	int rc;

	if (m->to == m->next || m->to == m->from)
		return 0;
	depth = m->what == PEND_OFF ? 0 : find_signal(t, m->to);
	if (depth)
		return end_signal(c, t, depth);
	if (is_exec(c, m)) {
		rc = calls_stack_pop_to(c, t, 0, CALL_END_EXEC, 0);
		return rc ? rc : calls_stack_push(c, t, CALL_BASE, 0, m->func,
						  0, m->to, 0);
	}
	rc = chain_signal(c, t, m, &ended);
	if (rc)
		return rc;
	if (m->flags & MOVE_TO_BEGIN && m->what != PEND_OFF)
		return calls_stack_push(c, t, CALL_SIGNAL, 0, m->func, m->from,
					m->to, m->next);
	top = stack_top(t);
	if (top && func_is_same(func_of(top->func), m->func))
		return 0;
	return resume_trace(c, t, m);
}

/* Pops the kernel's frames; m then starts where user code called or was
 * interrupted. */
static int leave_kernel(struct calls *c, struct thread *t, struct move *m)
{
	struct call_frame *top;
	int rc = 0;

	while (!rc && (top = stack_top(t)) && is_kernel(top->to)) {
		if (top->back && !is_kernel(top->back)) {
			m->from = top->from;
			m->next = top->back;
			m->what = top->kind == CALL_SYSCALL ? AUX_END_SYSCALL :
							      PEND_ASYNC;
		}
		rc = calls_stack_pop(c, t, CALL_END_KERNEL, 0);
	}
	return rc;
}

/*
 * A far return inside the kernel, or trace that is on again there, pushes nothing: an
 * interrupt of the kernel has returned to it.
 */
static int enter_kernel(struct calls *c, struct thread *t, const struct move *m)
{
	uint32_t depth = calls_stack_find_back(t, m->to);
	enum call_kind kind = CALL_INTERRUPT;

	if (m->to == m->next)
		return 0;
	if (m->what == AUX_END_SYSCALL || t->pend.syscall)
		kind = CALL_SYSCALL;
	if (m->what == AUX_END_FAR || m->what == PEND_OFF)
		return depth == UINT32_MAX ? 0 : return_from(c, t, depth);
	return calls_stack_push(c, t, kind, 0, m->func, m->from, m->to,
				m->next);
}

int calls_resolve_cross(struct calls *c, struct thread *t, const struct move *m)
{
	struct move to = *m;
	int rc;

	if (is_kernel(m->to))
		return enter_kernel(c, t, m);
	if (is_kernel(m->from)) {
		/* the thread was first seen in the kernel: no user address
		 * is known, so the target counts as the next one */
		to.next = m->to;
		rc = leave_kernel(c, t, &to);
		if (rc)
			return rc;
		to.in = calls_func_at(c->funcs, c->space, to.from);
		if (!to.in)
			return -AUX_E_NOMEM;
	} else if (m->what == AUX_END_FAR) {
		to.what = AUX_END_SYSCALL;
	}
	return resolve_user(c, t, &to);
}

/*
 * ---- stacks ----
 *
 * Coroutines and goroutines: a thread runs on several stacks, and which one
 * control turns to follows from the return address of its top frame. Where
 * several wait for the same address (they all yield in one function), later
 * control flow disambiguates: moves wait until a return fits only one of the
 * candidates, or until there are too many of them. Then, and where nothing else
 * is known, it is the stack that was left first, as for a queue of runnable
 * coroutines.
 */

#define MAX_STACKS	4096	/* in one thread */
#define MAX_DEEP	64	/* frames searched in each */
#define MAX_CANDIDATES	64
#define MAX_WAIT	4096	/* moves that may wait */

struct waiting {
	struct move m;
	struct call_count now;
	struct aux_flow run;	/* kind 0: it is the move, or: */
	enum { NO_TRACE_EVENT = 0, TRACE_STOPS, TRACE_STARTS } trace;
	enum call_untraced why_off;
};

struct wait {
	struct waiting *moves;
	size_t n, cap;
	/* where control may be: frames of a stack that were left when the first
	 * move was made, and that are left now */
	struct candidate {
		uint32_t stack, land, left;
	} of[MAX_CANDIDATES];
	uint32_t n_of;
	bool jumped;		/* by longjmp: frames above end without a return */
	uint64_t *backs;	/* return addresses of calls made while waiting */
	size_t depth, max_depth;
};

/* ---- turning ---- */

/* Suspends the current stack, continues in stack i, and reports the turn. What
 * ran in between counts as children of the frame on top. */
static int switch_stack(struct calls *c, struct thread *t, uint32_t i)
{
	uint32_t from = t->current;
	struct call_frame *top;

	t->stacks[from].then = t->pub.now;
	t->stacks[from].depth = t->pub.depth;
	t->stacks[from].left = t->pub.depth ? ++t->n_turns : 0;
	t->current = i;
	t->stacks[i].left = 0;
	t->pub.frames = t->stacks[i].frames;
	t->pub.depth = t->stacks[i].depth;
	t->pub.context = i;
	top = stack_top(t);
	if (top)	/* what ran meanwhile is not its own */
		top->children = call_plus(top->children,
					  call_minus(t->pub.now,
						     t->stacks[i].then));
	return c->ops->turn ? c->ops->turn(c->priv, &t->pub, from) : 0;
}

int calls_context_turn(struct calls *c, struct thread *t, uint32_t i)
{
	return i == t->current ? 0 : switch_stack(c, t, i);
}

/*
 * Too many stacks: the one suspended longest is given up, with its frames lost.
 */
static int drop_oldest(struct calls *c, struct thread *t, uint32_t *freed)
{
	uint32_t here = t->current, best = UINT32_MAX;
	int rc;

	for (uint32_t i = 0; i < t->n_stacks; i++)
		if (i != here && (best == UINT32_MAX ||
				  t->stacks[i].left < t->stacks[best].left))
			best = i;
	rc = switch_stack(c, t, best);
	if (!rc)
		rc = calls_stack_pop_to(c, t, 0, CALL_END_LOST, CALL_GUESSED);
	*freed = best;
	return rc ? rc : switch_stack(c, t, here);
}

/* A stack without frames. */
static int find_free(struct calls *c, struct thread *t, uint32_t *found)
{
	uint32_t max = t->n_stacks + t->n_stacks / 2 + 4;
	struct stack *stacks;

	for (uint32_t i = 0; i < t->n_stacks; i++) {
		*found = i;
		if (i != t->current && !t->stacks[i].depth)
			return 0;
	}
	if (t->n_stacks >= MAX_STACKS)
		return drop_oldest(c, t, found);
	*found = t->n_stacks;
	if (t->n_stacks == t->max_stacks) {
		stacks = reallocarray(t->stacks, max, sizeof(*stacks));
		if (!stacks)
			return -AUX_E_NOMEM;
		t->stacks = stacks;
		t->max_stacks = max;
	}
	t->stacks[t->n_stacks++] = (struct stack){ .depth = 0 };
	return 0;
}

/* Continues in a new stack, unless the current one is empty. */
static int calls_context_new(struct calls *c, struct thread *t)
{
	uint32_t i;
	int rc = t->pub.depth ? find_free(c, t, &i) : 0;

	if (rc || !t->pub.depth)
		return rc;
	t->stacks[i].n_marks = 0;
	return switch_stack(c, t, i);
}

/* True if the top frame returns to an address, or (deep) one of the frames
 * below it. */
static bool waits_for(const struct stack *s, uint64_t to, bool deep)
{
	uint32_t low = deep && s->depth > MAX_DEEP ? s->depth - MAX_DEEP : 0;

	if (!deep)
		low = s->depth - 1;
	for (uint32_t i = s->depth; i > low; i--)
		if (s->frames[i - 1].back == to)
			return true;
	return false;
}

/* Among suspended stacks that wait for an address, the one left first;
 * UINT32_MAX: none. *many: there are others. */
static uint32_t calls_context_find(const struct thread *t, uint64_t to,
				   bool deep, bool *many)
{
	uint32_t best = UINT32_MAX, n = 0;

	for (uint32_t i = 0; i < t->n_stacks; i++) {
		const struct stack *s = &t->stacks[i];

		if (!s->left || !s->depth || !waits_for(s, to, deep))
			continue;
		n++;
		if (best == UINT32_MAX || s->left < t->stacks[best].left)
			best = i;
	}
	*many = n > 1;
	return best;
}

/* Before a switch: frames from the one that went to the scheduler's stack on
 * are popped; of a stack that never runs again, all. */
static int calls_context_prune(struct calls *c, struct thread *t, bool saved)
{
	bool dead = !saved;
	uint32_t n;

	for (n = t->pub.depth; n && t->pub.depth - n < MAX_DEEP; n--) {
		const struct func *f = func_of(t->pub.frames[n - 1].func);

		dead |= !!(f->roles & FUNC_DEAD);
		if (f->roles & FUNC_PARK)
			break;
	}
	if (dead || (t->pub.depth && func_of(t->pub.frames[0].func)->roles &
				     FUNC_DEAD))
		return calls_stack_pop_to(c, t, 0, CALL_END_UNWOUND, 0);
	if (!n || t->pub.depth - n >= MAX_DEEP)
		return 0;
	return calls_stack_pop_to(c, t, n, CALL_END_UNWOUND, 0);
}

/* ---- waiting ---- */

void calls_context_free(struct thread *t)
{
	if (!t->wait)
		return;
	free(t->wait->moves);
	free(t->wait->backs);
	free(t->wait);
	t->wait = NULL;
}

/*
 * Appends a move or a range to those that wait, or, without either, nothing yet, with
 * the counts of this moment.
 */
static int enqueue(struct thread *t, const struct move *m,
		const struct aux_flow *run)
{
	struct wait *w = t->wait;

	if (array_grow(&w->moves, w->n, &w->cap, sizeof(*w->moves)) < 0)
		return -AUX_E_NOMEM;
	w->moves[w->n] = (struct waiting){ .now = t->pub.now, .why_off = t->pub.why_off };
	if (m)
		w->moves[w->n].m = *m;
	if (run)
		w->moves[w->n].run = *run;
	w->n++;
	return 0;
}

int calls_context_run(struct calls *c, struct thread *t,
		      const struct aux_flow *ev)
{
	int rc = enqueue(t, NULL, ev);

	if (rc || t->wait->n < MAX_WAIT)
		return rc;
	return calls_context_decide(c, t);
}

int calls_context_off(struct thread *t, bool on)
{
	int rc = enqueue(t, NULL, NULL);

	if (!rc)
		t->wait->moves[t->wait->n - 1].trace = on ? TRACE_STARTS : TRACE_STOPS;
	return rc;
}

/* How many frames of the current stack are left if control returns to an
 * address in it; UINT32_MAX: it does not. */
static uint32_t calls_context_own(const struct thread *t, uint64_t to)
{
	uint32_t n;

	for (n = t->pub.depth; n && t->pub.depth - n < MAX_DEEP; n--)
		if (func_of(t->pub.frames[n - 1].func)->roles & FUNC_PARK)
			return t->pub.frames[n - 1].back == to ? n - 1 :
								 UINT32_MAX;
	n = t->pub.depth;
	return n && t->pub.frames[n - 1].back == to ? n - 1 : UINT32_MAX;
}

static void add_candidate(struct wait *w, uint32_t stack, uint32_t left)
{
	if (w->n_of < MAX_CANDIDATES)
		w->of[w->n_of++] = (struct candidate){ stack, left, left };
}

/* Which stack continues is decided by what comes: collects candidates; m is the
 * first move that waits. */
static int calls_context_wait(struct thread *t, const struct move *m)
{
	struct wait *w = calloc(1, sizeof(*w));
	uint32_t own = calls_context_own(t, m->to);

	if (!w)
		return -AUX_E_NOMEM;
	t->wait = w;
	for (uint32_t i = 0; i < t->n_stacks; i++) {
		struct stack *s = &t->stacks[i];

		if (i == t->current && own != UINT32_MAX)
			add_candidate(w, i, own);
		if (i != t->current && s->left && s->depth &&
		    waits_for(s, m->to, false))
			add_candidate(w, i, s->depth - 1);
	}
	return enqueue(t, m, NULL);
}

/* The same for several frames of the current stack that called setjmp at one
 * place. */
static int calls_context_wait_marks(struct thread *t, const struct move *m,
				    const uint32_t *left, uint32_t n)
{
	struct wait *w = calloc(1, sizeof(*w));

	if (!w)
		return -AUX_E_NOMEM;
	t->wait = w;
	w->jumped = true;
	for (uint32_t i = 0; i < n; i++)
		add_candidate(w, t->current, left[i]);
	return enqueue(t, m, NULL);
}

/* The candidate suspended first; the current stack (left 0, so left - 1 is the
 * largest) comes last, and among its frames the topmost first. */
static const struct candidate *pick(const struct thread *t)
{
	const struct wait *w = t->wait;
	const struct candidate *best = w->of;

	for (uint32_t i = 1; i < w->n_of; i++)
		if (t->stacks[w->of[i].stack].left - 1 <
		    t->stacks[best->stack].left - 1)
			best = &w->of[i];
	return best;
}

/* Goes to the picked stack, as the first move said. */
static int turn_to(struct calls *c, struct thread *t, const struct wait *w,
		   const struct candidate *at)
{
	unsigned flags = w->n_of > 1 ? CALL_GUESSED : 0;
	int rc = 0;

	if (w->jumped)
		return calls_stack_pop_to(c, t, at->land, CALL_END_UNWOUND,
					  flags);
	if (at->stack != t->current)
		rc = calls_context_prune(c, t, true);
	if (!rc)
		rc = calls_context_turn(c, t, at->stack);
	if (!rc)
		rc = calls_stack_pop_to(c, t, at->land + 1, CALL_END_UNWOUND,
					flags);
	return rc ? rc : calls_stack_pop_to(c, t, at->land, CALL_END_RET,
					    flags);
}

/* What waited, as it would have been done then; it may have to wait again. */
static int carry_out(struct calls *c, struct thread *t, const struct waiting *w)
{
	t->pub.now = w->now;
	t->pub.why_off = w->why_off;
	if (w->trace && t->wait)
		return calls_context_off(t, w->trace == TRACE_STARTS);
	if (w->trace)
		return c->ops->off ? c->ops->off(c->priv, &t->pub, w->trace == TRACE_STARTS) :
				     0;
	if (!w->run.kind)
		return calls_go(c, t, &w->m);
	if (t->wait)
		return enqueue(t, NULL, &w->run);
	return c->ops->run ? c->ops->run(c->priv, &t->pub, &w->run) : 0;
}

int calls_context_decide(struct calls *c, struct thread *t)
{
	struct wait *w = t->wait;
	struct call_count now = t->pub.now;
	enum call_untraced why_off = t->pub.why_off;
	const struct candidate *picked = pick(t);
	int rc;

	t->wait = NULL;
	t->pub.now = w->moves[0].now;
	rc = turn_to(c, t, w, picked);
	for (uint32_t k = 1; k < w->n && !rc; k++)
		rc = carry_out(c, t, &w->moves[k]);
	t->pub.now = now;
	t->pub.why_off = why_off;
	free(w->moves);
	free(w->backs);
	free(w);
	return rc;
}

static int push_back(struct wait *w, uint64_t back)
{
	if (array_grow(&w->backs, w->depth, &w->max_depth,
		       sizeof(*w->backs)) < 0)
		return -AUX_E_NOMEM;
	w->backs[w->depth++] = back;
	return 0;
}

/* A return below all calls made while waiting: keeps the candidates whose frame
 * it fits. True: at most one fits, so the wait is over. */
static bool drop_misfits(struct thread *t, uint64_t to)
{
	struct wait *w = t->wait;
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->n_of; i++) {
		struct candidate at = w->of[i];
		const struct call_frame *frames = t->stacks[at.stack].frames;

		if (!at.left || frames[at.left - 1].back != to)
			continue;
		at.left--;
		w->of[n++] = at;
	}
	if (n)
		w->n_of = n;
	return n <= 1;
}

/* A move while it waits: calls and their returns are balanced; a return below
 * them is evidence; what cannot be balanced ends the wait. */
int calls_context_queue(struct calls *c, struct thread *t, const struct move *m)
{
	struct wait *w = t->wait;
	bool known = w->n >= MAX_WAIT || m->kind == MOVE_INTO ||
		     m->kind == MOVE_CROSS || m->in->roles & FUNC_SWITCH;
	int rc = 0;

	if (m->kind == MOVE_CROSS && m->to == m->next)
		return 0;	/* a system call, from outside */
	if (m->kind == MOVE_CALL)
		rc = push_back(w, m->next);
	else if (m->kind != MOVE_RET ||
		 (m->flags & MOVE_IN_STUB && m->flags & MOVE_TO_BEGIN))
		;
	else if (w->depth && w->backs[w->depth - 1] == m->to)
		w->depth--;
	else
		known |= w->depth || drop_misfits(t, m->to);
	if (!rc)
		rc = enqueue(t, m, NULL);
	return rc || !known ? rc : calls_context_decide(c, t);
}

/* ---- returns and jumps that fit no caller ---- */

/* A function turns out to switch stacks: it is remembered as one. */
static void note_switch(struct calls *c, struct func *f)
{
	c->n_switches += !(f->roles & FUNC_SWITCH);
	f->roles |= FUNC_SWITCH;
}

#define NONE UINT32_MAX
#define MAX_MARKED 32	/* activations of one setjmp that are considered */

/* Nothing fits: all frames end (in the kernel: its own), and what runs is a
 * guessed base frame. */
static int begin_anew(struct calls *c, struct thread *t, struct func *f,
		      uint64_t to, enum call_end end)
{
	uint32_t depth = is_kernel(to) ? calls_stack_kernel(t) : 0;
	int rc = calls_stack_pop_to(c, t, depth, end, CALL_GUESSED);

	return rc ? rc : calls_stack_push(c, t, CALL_BASE, CALL_GUESSED, f, 0,
					  to, 0);
}

/* Unwinds to a frame of f, if there is one: the activation whose exception
 * table leads to this address, else the topmost. */
static int unwind_to_func(struct calls *c, struct thread *t, struct func *f,
			  uint64_t to, bool *found)
{
	uint32_t depth = calls_stack_find_func(t, f), thrown = 0;

	if ((depth && depth < t->pub.depth) || f->roles & FUNC_PART)
		thrown = calls_unwind_find(c, t, f, to);
	if (thrown) {
		*found = true;
		return calls_stack_pop_to(c, t, thrown, CALL_END_UNWOUND, 0);
	}
	*found = depth > (is_kernel(to) ? calls_stack_kernel(t) : 0);
	if (!*found || depth == t->pub.depth)
		return 0;
	return calls_stack_pop_to(c, t, depth, CALL_END_UNWOUND, CALL_GUESSED);
}

bool calls_resolve_is_new(const struct calls *c, const struct thread *t,
			  const struct func *func, uint64_t to)
{
	uint32_t left;
	bool many;

	for (uint32_t i = 0; i < t->n_stacks; i++)
		if (calls_stack_find_marks(t, &t->stacks[i], to, &left, 1))
			return false;
	return calls_stack_find_back(t, to) == NONE &&
	       calls_context_find(t, to, false, &many) == NONE &&
	       !calls_unwind_find(c, t, func, to);
}

/* A longjmp: to where setjmp was called, in the current stack or in a suspended
 * one. */
static int jump_to_mark(struct calls *c, struct thread *t,
			const struct move *m, bool *found)
{
	uint32_t left[MAX_MARKED];
	uint32_t n = calls_stack_find_marks(t, &t->stacks[t->current], m->to,
					    left, MAX_MARKED);
	int rc = 0;

	*found = n;
	if (n > 1)	/* later flow tells which activation it is */
		return calls_context_wait_marks(t, m, left, n);
	for (uint32_t i = 0; i < t->n_stacks && !*found; i++) {
		if (!t->stacks[i].left || !t->stacks[i].n_marks ||
		    !calls_stack_find_marks(t, &t->stacks[i], m->to, left, 1))
			continue;
		*found = true;
		rc = calls_context_turn(c, t, i);
	}
	if (!*found || rc)
		return rc;
	return calls_stack_pop_to(c, t, left[0], CALL_END_UNWOUND, 0);
}

/* A new stack begins with what runs now. */
static int begin_stack(struct calls *c, struct thread *t, const struct move *m,
		       enum call_kind kind, unsigned flags)
{
	int rc = calls_context_prune(c, t, !(m->in->roles & FUNC_FORGETS) ||
					   t->stacks[t->current].n_marks);

	if (!rc)
		rc = calls_context_new(c, t);
	return rc ? rc : calls_stack_push(c, t, kind, flags, m->func, 0, m->to,
					  0);
}

/* Continues in a suspended stack that waits for m->to, if there is one. */
static int turn(struct calls *c, struct thread *t, const struct move *m,
		bool deep, bool *found)
{
	bool many, saved = !(m->in->roles & FUNC_FORGETS) ||
			   t->stacks[t->current].n_marks;
	uint32_t i = calls_context_find(t, m->to, deep, &many);
	int rc;

	*found = i != NONE;
	if (i == NONE)
		return 0;
	if (!deep && (many || calls_context_own(t, m->to) != NONE))
		return calls_context_wait(t, m);
	rc = calls_context_prune(c, t, saved);
	if (!rc)
		rc = calls_context_turn(c, t, i);
	if (rc)
		return rc;
	return return_from(c, t, calls_stack_find_back(t, m->to));
}

/* To a mark of this stack (longjmp), or to where a frame of it returns. found:
 * that is where the move leads. */
static int go_below(struct calls *c, struct thread *t, const struct move *m,
		    bool *found)
{
	int rc = jump_to_mark(c, t, m, found);
	uint32_t depth;

	if (rc || *found)
		return rc;
	depth = calls_stack_find_back(t, m->to);
	*found = depth != NONE;
	return *found ? return_from(c, t, depth) : 0;
}

int calls_resolve_switch(struct calls *c, struct thread *t, const struct move *m)
{
	bool found;
	int rc = turn(c, t, m, false, &found);

	if (!rc && !found)
		rc = go_below(c, t, m, &found);
	if (rc || found)
		return rc;
	rc = turn(c, t, m, true, &found);
	if (rc || found)
		return rc;
	if (m->flags & MOVE_TO_BEGIN)
		return begin_stack(c, t, m, CALL_CONTEXT, 0);
	rc = unwind_to_func(c, t, m->func, m->to, &found);
	if (rc || found)
		return rc;
	return begin_stack(c, t, m, CALL_CONTEXT, CALL_GUESSED);
}

/* ---- returns ---- */

/* A handler returns to the restorer, which calls rt_sigreturn. Its frame stays
 * until that is done. */
static int end_handler(struct calls *c, struct thread *t)
{
	uint32_t depth = t->pub.depth;

	while (depth && t->pub.frames[depth - 1].kind != CALL_SIGNAL)
		depth--;
	return depth ? calls_stack_pop_to(c, t, depth, CALL_END_UNWOUND, 0) : 0;
}

/*
 * To user code that the frame on top, now gone, was not known to return to, after a gap:
 * which frames are still there is a guess then. That it was not called from the one below
 * says nothing of those further down, so they stay until a return or a function finds one.
 */
static int return_after_gap(struct calls *c, struct thread *t, const struct move *m)
{
	bool found;
	int rc = go_below(c, t, m, &found);

	if (!rc && !found)
		rc = turn(c, t, m, false, &found);
	if (!rc && !found)
		rc = unwind_to_func(c, t, m->func, m->to, &found);
	return rc || found ? rc : calls_stack_push(c, t, CALL_BASE, CALL_GUESSED | CALL_KEPT,
						   m->func, 0, m->to, 0);
}

/* The frame's caller was never seen: what runs now is its caller. */
static int return_from_base(struct calls *c, struct thread *t,
			    const struct move *m)
{
	const struct call_frame *top;
	int rc = calls_stack_pop(c, t, CALL_END_RET, 0);

	top = stack_top(t);
	if (rc || (top && (top->kind == CALL_SIGNAL ||
			   func_is_same(func_of(top->func), m->func))))
		return rc;
	if (!top)
		return calls_stack_push(c, t, CALL_BASE, 0, m->func, 0, m->to,
					0);
	if (top->flags & CALL_KEPT && !is_kernel(m->to))
		return return_after_gap(c, t, m);
	return calls_resolve_ret(c, t, m);
}

/* True if the stack begins where a program, a thread or a coroutine starts:
 * then a return out of it leads to another stack. */
static bool is_rooted(const struct thread *t)
{
	const struct call_frame *f = t->pub.frames;

	return t->pub.depth && (f->kind == CALL_CONTEXT ||
				func_of(f->func)->roles & FUNC_START);
}

/* A return that nothing waits for: decided by what runs there. A function that
 * turns out to switch stacks is remembered as one. */
static int resolve_unknown(struct calls *c, struct thread *t, const struct move *m)
{
	const struct call_frame *top;
	bool found;
	int rc = turn(c, t, m, false, &found);

	if (rc || found) {
		note_switch(c, m->in);
		return rc;
	}
	if (m->flags & MOVE_TO_BEGIN) {
		note_switch(c, m->in);
		return begin_stack(c, t, m, CALL_CONTEXT, 0);
	}
	/* as V8 goes on in what it has optimized, in the midst of a loop */
	if (m->flags & MOVE_WRITTEN && !calls_stack_find_func(t, m->func))
		return calls_stack_replace(c, t, m, m->from);
	rc = unwind_to_func(c, t, m->func, m->to, &found);
	if (rc || found)
		return rc;
	top = stack_top(t);
	if (top && top->flags & CALL_KEPT) {
		rc = calls_stack_pop(c, t, CALL_END_RET, CALL_GUESSED);
		return rc ? rc : return_after_gap(c, t, m);
	}
	if (is_rooted(t))
		return begin_stack(c, t, m, CALL_BASE, CALL_GUESSED);
	return begin_anew(c, t, m->func, m->to, CALL_END_UNWOUND);
}

static int resolve_ret_kernel(struct calls *c, struct thread *t,
			   const struct move *m)
{
	bool found;
	int rc = unwind_to_func(c, t, m->func, m->to, &found);

	return rc || found ? rc : begin_anew(c, t, m->func, m->to,
					     CALL_END_UNWOUND);
}

int calls_resolve_ret(struct calls *c, struct thread *t, const struct move *m)
{
	struct call_frame *top = stack_top(t);
	uint32_t depth;
	bool found;
	int rc = 0;

	if (m->in->roles & FUNC_SWITCH)
		return calls_resolve_switch(c, t, m);
	if (m->func->roles & FUNC_RESTORER)
		return end_handler(c, t);
	depth = calls_stack_find_back(t, m->to);
	if (depth != NONE) {
		if (!top->back && top->flags & CALL_KEPT)
			rc = calls_stack_pop(c, t, CALL_END_RET, 0);
		return rc ? rc : return_from(c, t, depth);
	}
	if (top && top->kind == CALL_SIGNAL)
		return 0;	/* the same, without a name */
	if (is_kernel(m->to))
		return resolve_ret_kernel(c, t, m);
	rc = jump_to_mark(c, t, m, &found);
	if (rc || found)
		return rc;
	if (top && !top->back)
		return return_from_base(c, t, m);
	if (m->flags & MOVE_PUSHED)
		return calls_stack_replace(c, t, m, m->from);
	return resolve_unknown(c, t, m);
}

/* The dynamic linker, whose code often has no names. */
static bool is_linker(const char *dso)
{
	const char *name = strrchr(dso, '/');

	name = name ? name + 1 : dso;
	return !strncmp(name, "ld-linux", 8) || !strncmp(name, "ld-musl", 7) ||
	       !strncmp(name, "ld64.so", 7) || !strncmp(name, "ld.so", 5);
}

/* Into code without names, which is one function for each module: that it is on the
 * stack says nothing. What unwinds the stack is a module of its own, or has a place that
 * it leads to. So it is a tail call out of a function with a name in the same module, and
 * out of the dynamic linker, which has bound a function. */
bool calls_resolve_is_tail(const struct calls *c, const struct thread *t,
			   const struct move *m)
{
	const char *from = m->in->pub.dso, *to = m->func->pub.dso;
	bool same;

	if (m->what != AUX_END_IND_JUMP || m->func->pub.name || !from || !to)
		return false;
	same = !strcmp(from, to);
	return (same ? m->in->pub.name != NULL : is_linker(from)) &&
	       !calls_unwind_find(c, t, m->func, m->to);
}

int calls_resolve_jump(struct calls *c, struct thread *t, const struct move *m)
{
	bool found;
	int rc;

	if (m->in->roles & FUNC_SWITCH)
		return calls_resolve_switch(c, t, m);
	rc = go_below(c, t, m, &found);
	if (rc || found)
		return rc;
	if (is_kernel(m->to))
		return 0;
	rc = turn(c, t, m, false, &found);
	if (found)
		note_switch(c, m->in);
	if (rc || found)
		return rc;
	if (!calls_resolve_is_tail(c, t, m)) {
		rc = unwind_to_func(c, t, m->func, m->to, &found);
		if (rc || found)
			return rc;
	}
	if (m->func->roles & FUNC_PART)
		return 0;
	/* Nothing is mapped there yet, as where an emulator sees a file for the
	 * first time: what it is shows only when it runs. */
	if (!m->func->pub.name && !m->func->pub.dso)
		return 0;
	/* into generated code, or back out of it into an interpreter; inside of
	 * such code nothing says where functions begin */
	return m->in->pub.name || m->func->pub.name || calls_code_leaves(m) ?
		       calls_stack_replace(c, t, m, m->from) : 0;
}

/* ---- gaps ---- */

/*
 * After a gap the topmost frame of the same function, if there is one, goes on. Else what
 * runs now was called by one of those that were there, most likely, or by what one of
 * them called: they stay below it, and what it returns to will tell. All are guesses.
 */
int calls_resolve_gap(struct calls *c, struct thread *t, struct func *f,
		   uint64_t to)
{
	uint32_t kernel = calls_stack_kernel(t), low = is_kernel(to) ? kernel : 0;
	uint32_t depth = calls_stack_find_func(t, f);
	bool lost = t->pend.what == PEND_GAP, found = depth > low;
	int rc;

	if (!found && !lost && t->pub.depth > low)
		return 0;	/* still inside the kernel's switch of threads */
	rc = calls_stack_pop_to(c, t, found ? depth : lost ? kernel : low,
				lost ? CALL_END_LOST : CALL_END_UNWOUND,
				CALL_GUESSED);
	if (rc)
		return rc;
	for (uint32_t i = 0; lost && i < t->pub.depth; i++)
		t->pub.frames[i].flags |= CALL_GUESSED | CALL_KEPT;
	return found ? 0 : calls_stack_push(c, t, CALL_BASE,
					    CALL_GUESSED | (lost ? CALL_KEPT : 0), f, 0,
					    to, 0);
}
