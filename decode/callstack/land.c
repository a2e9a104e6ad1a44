/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls_land: where control goes that is no plain call or return, against the stack
 * as it is. The order of the rules is that of callstack.h: what is proved by an address
 * comes before what is likely by a name.
 */
#include "decode/callstack/impl.h"

#define NONE UINT32_MAX
#define MAX_MARKED 32

/* All frames are gone, of the kernel alone where it is the kernel that runs; what
 * runs is all that is known. */
static int begin_anew(struct calls *c, struct thread *t, struct func *f,
		      uint64_t to, enum call_end end)
{
	uint32_t depth = is_kernel(to) ? calls_stack_kernel(t) : 0;
	int rc = calls_stack_pop_to(c, t, depth, end, CALL_GUESSED);

	return rc ? rc : calls_stack_push(c, t, CALL_BASE, CALL_GUESSED, f, 0,
					  to, 0);
}

/* Unwinds to a frame of a function, if there is one: that in which an exception
 * lands here, else the topmost. */
static int unwind_to_func(struct calls *c, struct thread *t, struct func *f,
			  uint64_t to, bool *found)
{
	uint32_t depth = calls_stack_find_func(t, f), thrown = 0;

	if (depth && depth < t->pub.depth)
		thrown = calls_throw_find(c, t, f, to);
	if (thrown) {
		*found = true;
		return calls_stack_pop_to(c, t, thrown, CALL_END_UNWOUND, 0);
	}
	*found = depth > (is_kernel(to) ? calls_stack_kernel(t) : 0);
	if (!*found || depth == t->pub.depth)
		return 0;
	return calls_stack_pop_to(c, t, depth, CALL_END_UNWOUND, CALL_GUESSED);
}

/* Returns to what the frame at depth waits for. */
static int return_from(struct calls *c, struct thread *t, uint32_t depth)
{
	int rc = calls_stack_pop_to(c, t, depth + 1, CALL_END_UNWOUND, 0);

	return rc ? rc : calls_stack_pop(c, t, CALL_END_RET, 0);
}

/* Where setjmp was called, in the stack that runs, or in another. */
static int land_on_mark(struct calls *c, struct thread *t,
			const struct move *m, bool *found)
{
	uint32_t left[MAX_MARKED];
	uint32_t n = calls_stack_find_marks(t, &t->stacks[t->current], m->to,
					    left, MAX_MARKED);
	int rc = 0;

	*found = n;
	if (n > 1)	/* what comes tells in which activation */
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

/* A stack of its own begins. */
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

/* Control turns to one of the stacks that were left, if one waits for it. */
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

int calls_land_switch(struct calls *c, struct thread *t, const struct move *m)
{
	uint32_t depth;
	bool found;
	int rc = turn(c, t, m, false, &found);

	if (!rc && !found)
		rc = land_on_mark(c, t, m, &found);
	if (rc || found)
		return rc;
	depth = calls_stack_find_back(t, m->to);
	if (depth != NONE)
		return return_from(c, t, depth);
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

/* The handler of a signal returns to what asks the kernel to go on. Its frame stays
 * until that is done. */
static int end_handler(struct calls *c, struct thread *t)
{
	uint32_t depth = t->pub.depth;

	while (depth && t->pub.frames[depth - 1].kind != CALL_SIGNAL)
		depth--;
	return depth ? calls_stack_pop_to(c, t, depth, CALL_END_UNWOUND, 0) : 0;
}

/* A frame of which it is not known who called it. */
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
	return calls_land_ret(c, t, m);
}

/* Does the stack begin where stacks do? */
static bool is_rooted(const struct thread *t)
{
	const struct call_frame *f = t->pub.frames;

	return t->pub.depth && (f->kind == CALL_CONTEXT ||
				func_of(f->func)->roles & FUNC_START);
}

/* To where nothing waits: by what runs there. */
static int land_unknown(struct calls *c, struct thread *t, const struct move *m)
{
	bool found;
	int rc = turn(c, t, m, false, &found);

	if (rc || found) {
		m->in->roles |= FUNC_SWITCH;
		return rc;
	}
	if (m->flags & MOVE_TO_BEGIN) {
		m->in->roles |= FUNC_SWITCH;
		return begin_stack(c, t, m, CALL_CONTEXT, 0);
	}
	rc = unwind_to_func(c, t, m->func, m->to, &found);
	if (rc || found)
		return rc;
	if (is_rooted(t))
		return begin_stack(c, t, m, CALL_BASE, CALL_GUESSED);
	return begin_anew(c, t, m->func, m->to, CALL_END_UNWOUND);
}

static int land_ret_kernel(struct calls *c, struct thread *t,
			   const struct move *m)
{
	bool found;
	int rc = unwind_to_func(c, t, m->func, m->to, &found);

	return rc || found ? rc : begin_anew(c, t, m->func, m->to,
					     CALL_END_UNWOUND);
}

int calls_land_ret(struct calls *c, struct thread *t, const struct move *m)
{
	struct call_frame *top = stack_top(t);
	uint32_t depth;
	bool found;
	int rc;

	if (m->in->roles & FUNC_SWITCH)
		return calls_land_switch(c, t, m);
	if (m->func->roles & FUNC_RESTORER)
		return end_handler(c, t);
	depth = calls_stack_find_back(t, m->to);
	if (depth != NONE)
		return return_from(c, t, depth);
	if (top && top->kind == CALL_SIGNAL)
		return 0;	/* the same, without a name */
	if (is_kernel(m->to))
		return land_ret_kernel(c, t, m);
	rc = land_on_mark(c, t, m, &found);
	if (rc || found)
		return rc;
	if (top && !top->back)
		return return_from_base(c, t, m);
	if (m->flags & MOVE_PUSHED)
		return calls_stack_replace(c, t, m, m->from);
	return land_unknown(c, t, m);
}

int calls_land_jump(struct calls *c, struct thread *t, const struct move *m)
{
	uint32_t depth;
	bool found;
	int rc;

	if (m->in->roles & FUNC_SWITCH)
		return calls_land_switch(c, t, m);
	rc = land_on_mark(c, t, m, &found);
	if (rc || found)
		return rc;
	depth = calls_stack_find_back(t, m->to);
	if (depth != NONE)
		return return_from(c, t, depth);
	if (is_kernel(m->to))
		return 0;
	rc = turn(c, t, m, false, &found);
	if (found)
		m->in->roles |= FUNC_SWITCH;
	if (rc || found)
		return rc;
	return unwind_to_func(c, t, m->func, m->to, &found);
}

/* ---- gaps ---- */

int calls_land_gap(struct calls *c, struct thread *t, struct func *f,
		   uint64_t to)
{
	uint32_t low = is_kernel(to) ? calls_stack_kernel(t) : 0;
	uint32_t depth = calls_stack_find_func(t, f);
	bool lost = t->pend.what == PEND_GAP;
	int rc;

	if (depth <= low && !lost && t->pub.depth > low)
		return 0;	/* somewhere in the switch of threads */
	rc = calls_stack_pop_to(c, t, depth > low ? depth : low,
				lost ? CALL_END_LOST : CALL_END_UNWOUND,
				CALL_GUESSED);
	if (rc)
		return rc;
	for (uint32_t i = 0; lost && i < t->pub.depth; i++)
		t->pub.frames[i].flags |= CALL_GUESSED;
	return depth > low ? 0 : calls_stack_push(c, t, CALL_BASE, CALL_GUESSED,
						  f, 0, to, 0);
}
