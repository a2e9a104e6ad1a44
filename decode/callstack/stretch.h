/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls: how far the moves of a thread can be made without its stack.
 *
 * As long as nothing returns out of the frame in which a stretch of the flow begins, and
 * as long as calls, returns and tail calls are plain ones, what they do depends on nothing
 * below that frame, nor on other stacks: so a worker can make them, on a stack that
 * begins there, while what comes before is not yet known. All else stops the stretch: it
 * is left to the rules of resolve.c and to the thread that has the whole stack.
 *
 * One thing does depend on what came before: that a function was seen to switch stacks
 * (FUNC_SWITCH) makes its later returns doubtful. Functions that returns were made out of
 * are told of (stretch.left), so that this can be asked later.
 *
 * Inline, for it is asked before each move.
 */
#ifndef DECODE_CALLSTACK_STRETCH_H
#define DECODE_CALLSTACK_STRETCH_H

#include "decode/callstack/impl.h"

#define MAX_FRAMES 1000	/* of a stretch: the tree has no more levels */

static inline void stretch_left(const struct calls *c, struct func *func, uint64_t from)
{
	if (func->left == c->stretch.mark)
		return;
	func->left = c->stretch.mark;
	c->stretch.left(c->priv, func, from);
}

static inline bool may_push(const struct thread *t, const struct func *func)
{
	return !(func->roles & FUNC_SETJMP) && t->pub.depth < MAX_FRAMES;
}

/* See go_tail in stack.c. */
static inline bool stops_tail(const struct calls *c, const struct thread *t, const struct move *m)
{
	if (m->flags & MOVE_TO_STUB)
		return false;
	if (m->in->roles & FUNC_SWITCH || !may_push(t, m->func))
		return true;
	return t->stub.kind != CALL_CALL && t->pub.depth <= c->base;
}

/* See go_stub_ret. */
static inline bool stops_stub_ret(const struct calls *c, const struct thread *t,
			   const struct move *m)
{
	const struct call_frame *top = stack_top(t);

	if (m->flags & MOVE_TO_BEGIN)
		return stops_tail(c, t, m);
	if (t->stub.kind == CALL_CALL && m->to == t->stub.back)
		return false;
	return t->pub.depth <= c->base ||
	       (top->back != m->to && !func_is_same(func_of(top->func), m->func));
}

static inline bool stops_ret(const struct calls *c, const struct thread *t, const struct move *m)
{
	if (m->flags & MOVE_IN_STUB)
		return stops_stub_ret(c, t, m);
	if (t->pub.depth <= c->base || stack_top(t)->back != m->to ||
	    m->in->roles & FUNC_SWITCH)
		return true;
	stretch_left(c, m->in, m->from);
	return false;
}

/*
 * A jump into code without a name: see calls_resolve_jump. What is below the stretch is
 * asked for later (calls_resolve_is_new); the call out of the frame in which it begins is
 * of a function that is not known, and so asked for here.
 */
static bool stops_jump(const struct calls *c, const struct thread *t, const struct move *m)
{
	if (t->stub.kind)
		return stops_tail(c, t, m);
	if (t->pub.depth <= c->base || !m->to || is_kernel(m->to) ||
	    m->in->roles & FUNC_SWITCH || m->func->roles & FUNC_SETJMP ||
	    !calls_resolve_is_tail(c, t, m) ||
	    calls_stack_find_back(t, m->to) != UINT32_MAX ||
	    calls_unwind_leads(c, t->pub.frames[c->base].back, m->to))
		return true;
	stretch_left(c, m->in, m->from);
	c->stretch.jumped(c->priv, m->func, m->to);
	return false;
}

/* A system call, seen from outside, and what leads nowhere in the kernel. */
static bool stops_cross(const struct thread *t, const struct move *m)
{
	if (is_kernel(m->from) != is_kernel(m->to) || t->pend.syscall)
		return true;
	return m->to != m->next && (is_kernel(m->to) || m->to != m->from);
}

/* Whether a move of a stretch needs more than what is known of the stack: the stretch stops
 * before it. */
static inline bool stretch_stops(const struct calls *c, const struct thread *t,
				 const struct move *m)
{
	switch (m->kind) {
	case MOVE_CALL:
		return !(m->flags & MOVE_TO_STUB) && !may_push(t, m->func);
	case MOVE_RET:
		return stops_ret(c, t, m);
	case MOVE_TAIL:
		return stops_tail(c, t, m);
	case MOVE_INTO:
		return stops_jump(c, t, m);
	case MOVE_CROSS:
		return stops_cross(t, m);
	}
	return false;
}

#endif
