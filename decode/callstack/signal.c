/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls_signal: what the kernel does to a thread, seen from outside of it (system
 * calls, signals, exec, a filter) or from inside, where the kernel is traced.
 */
#include <string.h>

#include "decode/callstack/impl.h"
#include "decode/lib/sideband/sideband.h"

#define MAX_LOOK 65536

/* Does a system call ask to go on where a signal came? mov $15, %eax; syscall.
 * On aarch64: mov x8, #139; svc #0. */
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

/* Another program, or the same once more. */
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

/* The frame of a handler that goes back to an address; 0: there is none. */
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

/* The handler's frame of a sigreturn that leads elsewhere. What comes was to come
 * when the signal did: another handler, or what this one has put there. */
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

/* It was off; what runs now may be anywhere. */
static int land_on(struct calls *c, struct thread *t, const struct move *m)
{
	uint32_t depth = calls_stack_find_back(t, m->to);
	int rc;

	if (depth != UINT32_MAX) {
		rc = calls_stack_pop_to(c, t, depth + 1, CALL_END_UNWOUND, 0);
		return rc ? rc : calls_stack_pop(c, t, CALL_END_RET, 0);
	}
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

/* In user code, behind a system call, an interruption, a stop of trace. */
static int land_user(struct calls *c, struct thread *t, struct move *m)
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
	return land_on(c, t, m);
}

/* Off to user code: where the kernel was asked, or came in between. */
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

static int enter_kernel(struct calls *c, struct thread *t, const struct move *m)
{
	uint32_t depth = calls_stack_find_back(t, m->to);
	enum call_kind kind = CALL_INTERRUPT;

	if (m->to == m->next)
		return 0;
	if (m->what == AUX_END_SYSCALL || t->pend.syscall)
		kind = CALL_SYSCALL;
	if (m->what == AUX_END_FAR || m->what == PEND_OFF) {
		if (depth == UINT32_MAX)
			return 0;
		return calls_stack_pop_to(c, t, depth, CALL_END_KERNEL, 0);
	}
	return calls_stack_push(c, t, kind, 0, m->func, m->from, m->to,
				m->next);
}

int calls_land_cross(struct calls *c, struct thread *t, const struct move *m)
{
	struct move to = *m;
	int rc;

	if (is_kernel(m->to))
		return enter_kernel(c, t, m);
	if (is_kernel(m->from)) {
		/* out of what was met first in the kernel: nobody knows */
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
	return land_user(c, t, &to);
}
