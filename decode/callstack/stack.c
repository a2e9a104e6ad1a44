/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls_stack: frames begin and end. Whoever listens is told of each, in order: what
 * an enter has begun, a leave ends, in the same stack.
 */
#include <stdlib.h>

#include "decode/callstack/impl.h"

#define MAX_DEPTH (1u << 20)	/* deeper than any stack of usual size */
#define MAX_LOOK  65536		/* frames that are looked at for a match */
#define MAX_MARKS 65536

static int grow(struct thread *t)
{
	struct stack *s = &t->stacks[t->current];
	uint32_t max = s->max ? 2 * s->max : 64;
	struct call_frame *frames =
		reallocarray(s->frames, max, sizeof(*frames));

	if (!frames)
		return -AUX_E_NOMEM;
	s->frames = frames;
	s->max = max;
	t->pub.frames = frames;
	return 0;
}

int calls_stack_push(struct calls *c, struct thread *t, enum call_kind kind,
		     unsigned flags, struct func *func, uint64_t from,
		     uint64_t to, uint64_t back)
{
	struct call_frame *f;
	int rc = 0;

	if (t->pub.depth >= MAX_DEPTH)
		rc = calls_stack_pop_to(c, t, 0, CALL_END_LOST, CALL_GUESSED);
	if (!rc && t->pub.depth == t->stacks[t->current].max)
		rc = grow(t);
	if (rc)
		return rc;
	f = &t->pub.frames[t->pub.depth++];
	f->func = &func->pub;
	f->from = from;
	f->to = to;
	f->back = back;
	f->at = t->pub.now;
	f->children = (struct call_count){ 0 };
	f->serial = ++c->n_frames;
	f->kind = (uint8_t)kind;
	f->flags = (uint8_t)flags;
	f->user = NULL;
	return c->ops->enter ? c->ops->enter(c->priv, &t->pub) : 0;
}

int calls_stack_pop(struct calls *c, struct thread *t, enum call_end end,
		    unsigned flags)
{
	struct call_frame *f = stack_top(t);
	int rc = 0;

	if (!f)
		return 0;
	if (c->ops->leave)
		rc = c->ops->leave(c->priv, &t->pub, end, flags);
	if (t->pub.depth > 1)
		f[-1].children = call_plus(f[-1].children,
					   call_minus(t->pub.now, f->at));
	t->pub.depth--;
	return rc;
}

/* A handler's frame stays: the kernel goes back behind it. */
int calls_stack_replace(struct calls *c, struct thread *t,
			const struct move *m, uint64_t from)
{
	struct call_frame *top = stack_top(t);
	uint64_t back = top && top->kind != CALL_SIGNAL ? top->back : 0;
	int rc = 0;

	if (top && top->kind != CALL_SIGNAL)
		rc = calls_stack_pop(c, t, CALL_END_TAIL, 0);
	return rc ? rc : calls_stack_push(c, t, CALL_TAIL, 0, m->func, from,
					  m->to, back);
}

int calls_stack_pop_to(struct calls *c, struct thread *t, uint32_t depth,
		       enum call_end end, unsigned flags)
{
	int rc = 0;

	while (!rc && t->pub.depth > depth)
		rc = calls_stack_pop(c, t, end, flags);
	return rc;
}

uint32_t calls_stack_kernel(const struct thread *t)
{
	uint32_t n = t->pub.depth;

	while (n && is_kernel(t->pub.frames[n - 1].to))
		n--;
	return n;
}

/* The kernel's frames and the user's are apart. */
static uint32_t lowest(const struct thread *t, uint64_t to)
{
	return is_kernel(to) ? calls_stack_kernel(t) : 0;
}

uint32_t calls_stack_find_back(const struct thread *t, uint64_t to)
{
	uint32_t low = lowest(t, to);

	for (uint32_t i = t->pub.depth, n = 0; i > low && n < MAX_LOOK; i--, n++)
		if (t->pub.frames[i - 1].back == to)
			return i - 1;
	return UINT32_MAX;
}

uint32_t calls_stack_find_func(const struct thread *t, const struct func *f)
{
	for (uint32_t i = t->pub.depth, n = 0; i && n < MAX_LOOK; i--, n++)
		if (func_is_same(func_of(t->pub.frames[i - 1].func), f))
			return i;
	return 0;
}

/* ---- setjmp ---- */

/* Serials go up with the depth. How many frames there are up to one; 0: it is gone. */
static uint32_t find_serial(const struct call_frame *frames, uint32_t depth,
			    uint64_t serial)
{
	uint32_t low = 0, high = depth;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (frames[mid].serial < serial)
			low = mid + 1;
		else
			high = mid;
	}
	return low < depth && frames[low].serial == serial ? low + 1 : 0;
}

/* Without those whose frames are gone. */
static void drop_marks(struct thread *t, struct stack *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_marks; i++)
		if (find_serial(t->pub.frames, t->pub.depth,
				s->marks[i].serial))
			s->marks[n++] = s->marks[i];
	s->n_marks = n;
}

static int make_room(struct thread *t, struct stack *s)
{
	uint32_t max = s->max_marks ? 2 * s->max_marks : 16;
	struct mark *marks = s->marks;

	drop_marks(t, s);
	if (s->n_marks < s->max_marks / 2)
		return 0;
	if (s->max_marks >= MAX_MARKS) {
		s->n_marks = 0;
		return 0;
	}
	marks = reallocarray(marks, max, sizeof(*marks));
	if (!marks)
		return -AUX_E_NOMEM;
	s->marks = marks;
	s->max_marks = max;
	return 0;
}

int calls_stack_mark(struct thread *t)
{
	struct stack *s = &t->stacks[t->current];
	struct call_frame *top = stack_top(t);
	struct mark m;

	if (t->pub.depth < 2 || !top->back)
		return 0;
	m = (struct mark){ .back = top->back, .serial = top[-1].serial };
	if (s->n_marks && s->marks[s->n_marks - 1].back == m.back &&
	    s->marks[s->n_marks - 1].serial == m.serial)
		return 0;
	if (s->n_marks == s->max_marks && make_room(t, s))
		return -AUX_E_NOMEM;
	s->marks[s->n_marks++] = m;
	return 0;
}

uint32_t calls_stack_find_marks(const struct thread *t, const struct stack *s,
				uint64_t to, uint32_t *left, uint32_t max)
{
	bool runs = s == &t->stacks[t->current];
	uint32_t depth = runs ? t->pub.depth : s->depth, n = 0, at;

	for (uint32_t i = s->n_marks; i && n < max; i--) {
		if (s->marks[i - 1].back != to)
			continue;
		at = find_serial(s->frames, depth, s->marks[i - 1].serial);
		if (at && (!n || at < left[n - 1]))
			left[n++] = at;
	}
	return n;
}

void calls_stack_free(struct thread *t)
{
	for (uint32_t i = 0; i < t->n_stacks; i++) {
		free(t->stacks[i].frames);
		free(t->stacks[i].marks);
	}
	free(t->stacks);
}
