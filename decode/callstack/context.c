/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls_context: the stacks of a thread that runs on several, as coroutines do. Which
 * of them control turns to is told by the address that its top frame waits for.
 * Where all of them wait at the same place (they yield in one function), what comes
 * tells: moves are kept back until a return fits one of them alone, or there
 * are too many. Then, and where nothing tells, it is the one that was left first.
 */
#include <stdlib.h>

#include "decode/callstack/impl.h"

#define MAX_STACKS	4096	/* of a thread */
#define MAX_DEEP	64	/* frames that are looked at in each */
#define MAX_CANDIDATES	64
#define MAX_WAIT	4096	/* moves */

struct waiting {
	struct move m;
	struct call_count now;
	struct aux_flow run;	/* kind 0: it is the move */
};

struct wait {
	struct waiting *moves;
	uint32_t n, max;
	/* where control may be: so many frames of a stack were left then, and
	 * are now */
	struct candidate {
		uint32_t stack, land, left;
	} of[MAX_CANDIDATES];
	uint32_t n_of;
	bool jumped;		/* the frames above end without a return */
	uint64_t *backs;	/* of calls since */
	uint32_t depth, max_depth;
};

/* ---- turning ---- */

static int tell_turn(struct calls *c, struct thread *t, uint32_t i)
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
	return i == t->current ? 0 : tell_turn(c, t, i);
}

/* The one that was left first is lost. */
static int drop_oldest(struct calls *c, struct thread *t, uint32_t *freed)
{
	uint32_t here = t->current, best = UINT32_MAX;
	int rc;

	for (uint32_t i = 0; i < t->n_stacks; i++)
		if (i != here && (best == UINT32_MAX ||
				  t->stacks[i].left < t->stacks[best].left))
			best = i;
	rc = tell_turn(c, t, best);
	if (!rc)
		rc = calls_stack_pop_to(c, t, 0, CALL_END_LOST, CALL_GUESSED);
	*freed = best;
	return rc ? rc : tell_turn(c, t, here);
}

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

int calls_context_new(struct calls *c, struct thread *t)
{
	uint32_t i;
	int rc = t->pub.depth ? find_free(c, t, &i) : 0;

	if (rc || !t->pub.depth)
		return rc;
	t->stacks[i].n_marks = 0;
	return tell_turn(c, t, i);
}

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

uint32_t calls_context_find(const struct thread *t, uint64_t to, bool deep,
			    bool *many)
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

/* From the frame on that went to the scheduler's stack, nothing is kept. */
int calls_context_prune(struct calls *c, struct thread *t, bool saved)
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

static int keep(struct thread *t, const struct move *m,
		const struct aux_flow *run)
{
	struct wait *w = t->wait;
	uint32_t max = w->max ? 2 * w->max : 64;
	struct waiting *moves = w->moves;

	if (w->n == w->max) {
		moves = reallocarray(moves, max, sizeof(*moves));
		if (!moves)
			return -AUX_E_NOMEM;
		w->moves = moves;
		w->max = max;
	}
	w->moves[w->n] = (struct waiting){ .now = t->pub.now };
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
	int rc = keep(t, NULL, ev);

	if (rc || t->wait->n < MAX_WAIT)
		return rc;
	return calls_context_decide(c, t);
}

uint32_t calls_context_own(const struct thread *t, uint64_t to)
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

int calls_context_wait(struct thread *t, const struct move *m)
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
	return keep(t, m, NULL);
}

int calls_context_wait_marks(struct thread *t, const struct move *m,
			     const uint32_t *left, uint32_t n)
{
	struct wait *w = calloc(1, sizeof(*w));

	if (!w)
		return -AUX_E_NOMEM;
	t->wait = w;
	w->jumped = true;
	for (uint32_t i = 0; i < n; i++)
		add_candidate(w, t->current, left[i]);
	return keep(t, m, NULL);
}

/* The candidate that was left first; the one that runs comes last, and of its
 * frames the topmost first. */
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

/* To the stack that was picked, as the move said that led there. */
static int take_up(struct calls *c, struct thread *t, const struct wait *w,
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

int calls_context_decide(struct calls *c, struct thread *t)
{
	struct wait *w = t->wait;
	struct call_count now = t->pub.now;
	const struct candidate *picked = pick(t);
	int rc;

	t->wait = NULL;
	t->pub.now = w->moves[0].now;
	rc = take_up(c, t, w, picked);
	for (uint32_t k = 1; k < w->n && !rc; k++) {
		t->pub.now = w->moves[k].now;
		if (!w->moves[k].run.kind)
			rc = calls_go(c, t, &w->moves[k].m);
		else if (c->ops->run)
			rc = c->ops->run(c->priv, &t->pub, &w->moves[k].run);
	}
	t->pub.now = now;
	free(w->moves);
	free(w->backs);
	free(w);
	return rc;
}

static int push_back(struct wait *w, uint64_t back)
{
	uint32_t max = w->max_depth ? 2 * w->max_depth : 64;
	uint64_t *backs = w->backs;

	if (w->depth == w->max_depth) {
		backs = reallocarray(backs, max, sizeof(*backs));
		if (!backs)
			return -AUX_E_NOMEM;
		w->backs = backs;
		w->max_depth = max;
	}
	w->backs[w->depth++] = back;
	return 0;
}

/* A return out of what the candidates have in common leaves those that fit. */
static bool sort_out(struct thread *t, uint64_t to)
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

int calls_context_queue(struct calls *c, struct thread *t, const struct move *m)
{
	struct wait *w = t->wait;
	bool known = w->n >= MAX_WAIT || m->kind == MOVE_LAND ||
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
		known |= w->depth || sort_out(t, m->to);
	if (!rc)
		rc = keep(t, m, NULL);
	return rc || !known ? rc : calls_context_decide(c, t);
}
