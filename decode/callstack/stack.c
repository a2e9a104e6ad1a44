/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls: see callstack.h. The flow of each thread, as moves from what ran to
 * what runs next.
 *
 * Nearly all of the flow is paths that are known, and nearly all of these stay
 * where they are, call, or return to their caller: run_known() adds their
 * counts, pushes and pops. Everything else takes the general way: a move
 * (moves.c), then go(), then resolve.c.
 *
 * Consumers see enter and leave in order: what an enter began, a leave ends, in
 * the same stack. A thread that moves to another stream (CPU) keeps its stacks
 * and its last instruction.
 */
#include <stdlib.h>

#include "common/uprobes.h"
#include "decode/callstack/stretch.h"
#include "decode/lib/sideband/sideband.h"

/* ---- frames ---- */

#define MAX_LOOK  65536		/* frames searched for a match */
#define MAX_MARKS 65536		/* calls of setjmp remembered in one stack */

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

/* A stack that gets too deep has gone wrong (returns that were never seen): it
 * starts anew, with a base frame as the only truth. */
int calls_stack_push(struct calls *c, struct thread *t, enum call_kind kind,
		     unsigned flags, struct func *func, uint64_t from,
		     uint64_t to, uint64_t back)
{
	struct call_frame *f;
	int rc = 0;

	if (t->pub.depth >= CALLS_MAX_DEPTH)
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

/* The caller's children get all that the frame counted, its own children
 * included. */
int calls_stack_pop(struct calls *c, struct thread *t, enum call_end end,
		    unsigned flags)
{
	struct call_frame *f = stack_top(t);
	int rc = 0;

	if (!f)
		return 0;
	if (end == CALL_END_UNWOUND && f->flags & CALL_KEPT)
		end = CALL_END_LOST;
	if (c->ops->leave)
		rc = c->ops->leave(c->priv, &t->pub, end, flags);
	if (t->pub.depth > 1)
		f[-1].children = call_plus(f[-1].children,
					   call_minus(t->pub.now, f->at));
	t->pub.depth--;
	return rc;
}

/* A handler's frame stays below: the kernel returns after it, whatever function
 * it ends in. */
int calls_stack_replace(struct calls *c, struct thread *t,
			const struct move *m, uint64_t from)
{
	struct call_frame *top = stack_top(t);
	uint64_t back = 0;
	unsigned kept = 0;
	int rc = 0;

	if (top && top->kind != CALL_SIGNAL) {
		back = top->back;
		kept = top->flags & CALL_KEPT;
		rc = calls_stack_pop(c, t, CALL_END_TAIL, 0);
	}
	return rc ? rc : calls_stack_push(c, t, CALL_TAIL, kept, m->func, from,
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

/*
 * User code never returns into frames of the kernel, nor the other way round.
 */
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

/* Serials increase with depth. The depth of the frame with a serial; 0: it is
 * gone. */
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

/* Drops marks whose frames are gone. */
static void drop_marks(struct thread *t, struct stack *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_marks; i++)
		if (find_serial(t->pub.frames, t->pub.depth,
				s->marks[i].serial))
			s->marks[n++] = s->marks[i];
	s->n_marks = n;
}

/* Doubles the marks if more than half are in use. When there are too many, all
 * are forgotten: a longjmp is then resolved by its function. */
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

/* A frame of setjmp began: control may come back to its caller later. */
static int calls_stack_mark(struct thread *t)
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

static void calls_stack_free(struct thread *t)
{
	for (uint32_t i = 0; i < t->n_stacks; i++) {
		free(t->stacks[i].frames);
		free(t->stacks[i].marks);
	}
	free(t->stacks);
}

/* ---- what a move does ---- */

/* A stub was called or jumped to. It gets no frame; how it was entered counts
 * for the function that it leads to. */
static int enter_stub(struct thread *t, const struct move *m,
		      enum call_kind kind)
{
	if (t->stub.kind && kind == CALL_TAIL)
		return 0;	/* from stub to stub */
	t->stub.kind = (uint8_t)kind;
	t->stub.from = m->from;
	t->stub.back = m->next;
	return 0;
}

static int push(struct calls *c, struct thread *t, const struct move *m,
		uint64_t from, uint64_t back)
{
	int rc = calls_stack_push(c, t, CALL_CALL, 0, m->func, from, m->to,
				  back);

	if (rc || !(m->func->roles & FUNC_SETJMP))
		return rc;
	return calls_stack_mark(t);
}

static int go_call(struct calls *c, struct thread *t, const struct move *m)
{
	if (m->flags & MOVE_TO_STUB)
		return enter_stub(t, m, CALL_CALL);
	t->stub.kind = 0;
	return push(c, t, m, m->from, m->next);
}

static int go_tail(struct calls *c, struct thread *t, const struct move *m)
{
	unsigned kind = t->stub.kind;
	int rc;

	if (m->flags & MOVE_TO_STUB)
		return enter_stub(t, m, CALL_TAIL);
	if (m->in->roles & FUNC_SWITCH)
		return calls_resolve_switch(c, t, m);
	t->stub.kind = 0;
	if (kind == CALL_CALL)
		return push(c, t, m, t->stub.from, t->stub.back);
	rc = calls_stack_replace(c, t, m, kind ? t->stub.from : m->from);
	if (rc || !(m->func->roles & FUNC_SETJMP))
		return rc;
	return calls_stack_mark(t);
}

/* A stub that returns is a retpoline or a return thunk: a jump, unless its
 * target waits. */
static int go_stub_ret(struct calls *c, struct thread *t, const struct move *m)
{
	struct call_frame *top = stack_top(t);

	if (m->flags & MOVE_TO_BEGIN)
		return go_tail(c, t, m);
	if (t->stub.kind == CALL_CALL && m->to == t->stub.back) {
		t->stub.kind = 0;
		return 0;
	}
	t->stub.kind = 0;
	if (top && top->back == m->to)
		return calls_stack_pop(c, t, CALL_END_RET, 0);
	if (top && func_is_same(func_of(top->func), m->func))
		return 0;	/* a jump inside of a function */
	return calls_resolve_ret(c, t, m);
}

/* A signal or a fault while a stub runs: it becomes a frame, so that it can be
 * interrupted. */
static int settle_stub(struct calls *c, struct thread *t, const struct move *m)
{
	unsigned kind = t->stub.kind;
	struct move stub = *m;

	if (!kind || m->to == m->next || m->to == m->from)
		return 0;
	t->stub.kind = 0;
	stub.func = m->in;
	stub.to = m->from;
	if (kind == CALL_TAIL)
		return calls_stack_replace(c, t, &stub, t->stub.from);
	return calls_stack_push(c, t, CALL_CALL, 0, m->in, t->stub.from,
				m->from, t->stub.back);
}

static inline int go(struct calls *c, struct thread *t, const struct move *m)
{
	struct call_frame *top = stack_top(t);
	int rc;

	if (t->wait)
		return calls_context_queue(c, t, m);
	if (c->base && stretch_stops(c, t, m)) {
		c->stretch.pend = t->pend;
		return CALLS_STOP;
	}
	switch (m->kind) {
	case MOVE_CALL:
		return go_call(c, t, m);
	case MOVE_RET:
		if (uprobes_has(m->to))	/* its own return goes to the caller */
			return 0;
		if (m->flags & MOVE_IN_STUB)
			return go_stub_ret(c, t, m);
		if (top && top->back == m->to && !(m->in->roles & FUNC_SWITCH))
			return calls_stack_pop(c, t, CALL_END_RET, 0);
		return calls_resolve_ret(c, t, m);
	case MOVE_TAIL:
		return go_tail(c, t, m);
	case MOVE_INTO:	/* out of a PLT's first entry: a stub without a name */
		return t->stub.kind ? go_tail(c, t, m) :
				      calls_resolve_jump(c, t, m);
	case MOVE_CROSS:
		rc = settle_stub(c, t, m);
		return rc ? rc : calls_resolve_cross(c, t, m);
	}
	return 0;
}

int calls_go(struct calls *c, struct thread *t, const struct move *m)
{
	return go(c, t, m);
}

/* ---- what runs ---- */

/* The kernel is entered from a program that is not traced, so no instruction says why. The
 * name of the entry does: those of system calls are entry_SYSCALL_64 and the like. */
static enum call_kind entry_kind(const struct func *f)
{
	const char *name = f->pub.name ? f->pub.name : "";

	return !strncmp(name, "entry_", 6) ? CALL_SYSCALL : CALL_INTERRUPT;
}

/* What runs first gets a base frame: nothing is known of its callers. */
static int begin(struct calls *c, struct thread *t, uint64_t to)
{
	struct func *f = calls_func_at(c->funcs, c->space, to);
	enum call_kind kind = CALL_BASE;

	if (!f)
		return -AUX_E_NOMEM;
	if (t->left_kernel && is_kernel(to) && f->pub.start == to)
		kind = entry_kind(f);
	t->left_kernel = false;
	return calls_stack_push(c, t, kind, 0, f, 0, to, 0);
}

/* Goes from pend to an address. last: the segment that ended with pend; NULL:
 * none. */
static int arrive(struct calls *c, struct thread *t, uint64_t to,
		  struct seg *last)
{
	const struct move *m = calls_code_move(&c->code, c->space, &t->pend, to);

	if (!m)
		return -AUX_E_NOMEM;
	if (last)
		calls_code_learn(last, c->space_id, m, to);
	t->pub.now.branches += calls_code_taken(&t->pend, to);
	return m->kind != MOVE_NONE ? go(c, t, m) : 0;
}

/* Control reached an address, but nothing ran there: an interrupt, or the trace
 * stopped. */
static int calls_run_stop(struct calls *c, struct thread *t, uint64_t to)
{
	if (t->pend.what == PEND_START || t->pend.what >= PEND_GAP)
		return 0;
	return arrive(c, t, to, NULL);
}

/* The next instruction that runs is at an address. */
static int enter_at(struct calls *c, struct thread *t, uint64_t to,
		   struct seg *last)
{
	struct func *f;
	int rc = 0;

	if (t->pend.what >= PEND_GAP) {
		f = calls_func_at(c->funcs, c->space, to);
		return f ? calls_resolve_gap(c, t, f, to) : -AUX_E_NOMEM;
	}
	if (t->pend.what != PEND_START)
		rc = arrive(c, t, to, last);
	return rc || t->pub.depth ? rc : begin(c, t, to);
}

static int run_range(struct calls *c, struct thread *t,
		     const struct aux_flow *ev)
{
	int rc = enter_at(c, t, ev->range.first, NULL);

	t->pub.now.insns += ev->n;
	set_pend(t, calls_code_end(&c->code, c->space, ev));
	if (rc || !c->ops->run || !(c->flags & CALLS_NEEDS_RUNS))
		return rc;
	if (t->wait)
		return calls_context_run(c, t, ev);
	return c->ops->run(c->priv, &t->pub, ev);
}

/* Each RANGE of a path on its own. */
static int run_ranges(struct calls *c, struct thread *t,
		      const struct aux_flow *ev)
{
	struct path_ranges ranges = { .path = ev };
	struct aux_flow range;
	int rc = 0;

	while (!rc && path_next_range(&ranges, &range))
		rc = run_range(c, t, &range);
	return rc;
}

/* ---- segments ---- */

/* noinline: most segments have no moves, and then run_seg() needs to save no
 * registers. */
static __attribute__((noinline)) int
run_moves(struct calls *c, struct thread *t, const struct seg *s)
{
	int rc = 0;

	for (uint32_t i = 0; i < s->n_moves && !rc; i++) {
		const struct seg_move *sm = &s->moves[i];

		t->pub.now.insns += sm->n_insns;
		t->pub.now.branches += sm->n_branches;
		rc = go(c, t, &sm->m);
		c->stretch.moves = i + 1;
		if (!rc && !t->pub.depth)
			rc = calls_stack_push(c, t, CALL_BASE, 0, sm->m.func, 0,
					      sm->m.to, 0);
	}
	return rc;
}

/* True for the usual return, out of last to the caller: decided without a look
 * at the code. */
static inline bool is_back(const struct calls *c, const struct thread *t,
			   const struct seg *last, uint64_t to)
{
	const struct call_frame *top = stack_top(t);

	return last->ret_space == c->space_id && t->pub.depth > c->base &&
	       top->back == to && !t->wait && !(last->ret->roles & FUNC_SWITCH) &&
	       is_kernel(to) == is_kernel(last->last.from);
}

/* Goes from the end of last, or from pend (NULL), to the first instruction of
 * s, and through all its moves. */
static int enter_seg(struct calls *c, struct thread *t, struct seg *last,
		     const struct seg *s)
{
	uint64_t to = s->first;
	int rc;

	c->stretch.moves = 0;
	if (last && is_back(c, t, last, to)) {
		t->pub.now.branches++;
		if (c->base)
			stretch_left(c, last->ret, last->last.from);
		rc = calls_stack_pop(c, t, CALL_END_RET, 0);
		if (!rc && !t->pub.depth)
			rc = begin(c, t, to);
	} else {
		if (last)
			t->pend = last->last;
		rc = enter_at(c, t, to, last);
	}
	return !rc && s->n_moves ? run_moves(c, t, s) : rc;
}

/* The common case: last led to s the last time, too, without a move. */
static inline int run_seg(struct calls *c, struct thread *t, struct seg *last,
			  const struct seg *s)
{
	int rc = 0;

	if (!last || last->to != s->first || last->space != c->space_id) {
		rc = enter_seg(c, t, last, s);
	} else {
		t->pub.now.branches += last->taken;
		if (s->n_moves)
			rc = run_moves(c, t, s);
	}
	t->pub.now.insns += s->n_insns;
	t->pub.now.branches += s->n_branches;
	return rc;
}

static inline struct seg *last_of(const struct calls *c, const struct thread *t)
{
	return t->epoch == c->code.epoch ? t->last : NULL;
}

static inline void set_last(const struct calls *c, struct thread *t,
			    struct seg *s)
{
	t->pend = s->last;
	t->last = s;
	t->epoch = c->code.epoch;
}

/* The thread's time up to ns, which it was not off the CPU. */
static void pass_on(struct thread *t, uint64_t ns)
{
	struct call_count *now = &t->pub.now;
	uint64_t more = ns - now->ns;

	now->ns = ns;
	if (t->lost) {
		now->lost_ns += more;
	} else if (t->off) {
		now->untraced_ns += more;
		now->kernel_ns += t->pub.why_off == UNTRACED_KERNEL ? more : 0;
		now->filtered_ns +=
			t->pub.why_off == UNTRACED_FILTERED ? more : 0;
	}
}

/* It had its CPU until then. */
static void end_run(struct calls *c, struct thread *t, uint64_t to)
{
	if (t->run_from && to > t->run_from && c->ops->ran && !c->failed)
		c->failed = c->ops->ran(c->priv, &t->pub, (uint32_t)t->cpu,
					t->run_from, to);
	t->run_from = 0;
}

/* The same for a time that it was. */
static void pass_away(struct calls *c, struct thread *t,
		      const struct off_span *span)
{
	struct call_count *now = &t->pub.now;
	uint64_t ns = span->to - span->from;
	bool runs = t->run_from;

	end_run(c, t, span->from);
	t->run_from = runs ? span->to : 0;
	if (runs && span->cpu >= 0)
		t->cpu = span->cpu;
	now->ns = span->to;
	now->off_ns += ns;
	now->blocked_ns += span->why == OFF_BLOCKED ? ns : 0;
	now->preempted_ns += span->why == OFF_PREEMPTED ? ns : 0;
	if (c->ops->away && !c->failed)
		c->failed = c->ops->away(c->priv, &t->pub, span);
}

/* Nothing of it is traced now, so it may be off the CPU without a word in the trace. Where
 * nothing of it ran yet, trace was not said to be off. */
static inline bool is_unwatched(const struct thread *t)
{
	return t->off || t->lost || t->pend.what == PEND_START;
}

/* The thread's time up to ns, and of which kind it was; see struct
 * call_count. away: the thread may have been off the CPU. */
static void pass_time(struct calls *c, struct thread *t, uint64_t ns, bool away)
{
	const struct sink_host *host = c->host;
	struct off_span span;

	if (!t->pub.now.ns) {
		t->pub.now.ns = ns;
		return;
	}
	while ((away || is_unwatched(t)) && host->off_cpu &&
	       host->off_cpu(host->priv, t->pub.tid, t->pub.now.ns, ns, &span)) {
		pass_on(t, span.from);
		pass_away(c, t, &span);
	}
	pass_on(t, ns);
}

/* Between batches ctx has the time; inside one, TIME events do. Time never goes
 * back. */
static inline void advance_time(struct calls *c, struct thread *t,
				const struct aux_flow *ev)
{
	/* what waits is told of later, with the counts of its own moment */
	if (ev->n && c->ops->tick && !t->wait && !c->failed)
		c->failed = c->ops->tick(c->priv, &t->pub);
	t->pub.now.cycles += ev->n;
	if (ev->time.ns <= t->ctx.time_ns)
		return;
	t->ctx.time_ns = ev->time.ns;
	t->ctx.tsc = ev->flags & AUX_FLOW_HAS_TSC ? ev->time.tsc : 0;
	if (ev->time.ns <= t->pub.now.ns)
		return;
	if (is_unwatched(t))
		pass_time(c, t, ev->time.ns, false);
	else
		t->pub.now.ns = ev->time.ns;
}

/*
 * Runs events as long as they are TIMEs and paths that have a segment; returns
 * how many. The user words and segments of later paths are prefetched: there
 * are too many for the caches.
 */
static size_t run_known(struct calls *c, struct thread *t,
			const struct aux_flow *ev, size_t n, int *rc)
{
	struct seg *last = last_of(c, t), *s;
	size_t i;

	for (i = 0; i < n && !*rc; i++) {
		if (i + 4 < n && ev[i + 4].kind == AUX_FLOW_PATH)
			__builtin_prefetch(ev[i + 4].path.path->user);
		if (i + 2 < n && ev[i + 2].kind == AUX_FLOW_PATH)
			__builtin_prefetch(calls_code_place(&c->code, ev[i + 2].path.path->user));
		if (ev[i].kind == AUX_FLOW_TIME) {
			advance_time(c, t, &ev[i]);
			continue;
		}
		if (ev[i].kind != AUX_FLOW_PATH || !ev[i].path.path->kept)
			break;
		s = calls_code_known(&c->code, ev[i].path.path->user);
		if (!s)
			break;
		*rc = run_seg(c, t, last, s);
		if (!last)	/* pend is not the end of a segment */
			t->pend = s->last;
		last = s;
	}
	if (last)
		set_last(c, t, last);
	return i;
}

/* Runs a segment that was just made; making it may have begun a new epoch. */
static int run_new(struct calls *c, struct thread *t, struct seg *s)
{
	int rc;

	if (!s)
		return -AUX_E_NOMEM;
	rc = run_seg(c, t, last_of(c, t), s);
	set_last(c, t, s);
	return rc;
}

/*
 * How a new segment is entered is looked up before what is in it: functions are
 * numbered, and unnamed ones made, in the order in which they ran, however the
 * decoder cuts the flow into paths. 0 or -AUX_E_NOMEM.
 */
static int meet(struct calls *c, struct thread *t, const struct aux_step *step)
{
	uint64_t to = step->ranges[0].range.first;

	if (t->pend.what >= PEND_GAP || t->pend.what == PEND_START)
		return calls_func_at(c->funcs, c->space, to) ? 0 : -AUX_E_NOMEM;
	return calls_code_move(&c->code, c->space, &t->pend, to) ? 0 :
								   -AUX_E_NOMEM;
}

static int run_path(struct calls *c, struct thread *t,
		    const struct aux_flow *ev)
{
	struct aux_path *path = ev->path.path;
	int rc;

	if (c->flags & CALLS_NEEDS_RUNS)
		return run_ranges(c, t, ev);
	if (path->kept) {
		rc = meet(c, t, path->steps[0]);
		return rc ? rc : run_new(c, t, calls_code_path(&c->code,
							       c->space, path));
	}
	rc = 0;
	for (uint32_t i = 0; i < path->n_steps && !rc; i++) {
		rc = meet(c, t, path->steps[i]);
		if (!rc)
			rc = run_new(c, t, calls_code_step(&c->code, c->space,
							   path->steps[i]));
	}
	return rc;
}

/*
 * Runs events up to the first that is neither code nor TIME; returns how many.
 */
static size_t calls_run(struct calls *c, struct thread *t,
			const struct aux_flow *ev, size_t n, int *rc)
{
	size_t i = 0;

	*rc = 0;
	while (i < n && !*rc) {
		if (!(c->flags & CALLS_NEEDS_RUNS))
			i += run_known(c, t, ev + i, n - i, rc);
		if (i == n || *rc)
			break;
		if (ev[i].kind == AUX_FLOW_PATH)
			*rc = run_path(c, t, &ev[i++]);
		else if (ev[i].kind == AUX_FLOW_RANGE)
			*rc = run_range(c, t, &ev[i++]);
		else if (ev[i].kind == AUX_FLOW_TIME)
			advance_time(c, t, &ev[i++]);
		else
			break;
	}
	return i;
}

/* ---- stretches ---- */

/* How the last of the first n ranges of an event ended, and with it the number of those
 * before a move of a segment that begins with range first. */
static void find_move(struct calls *c, const struct aux_flow *ev, uint32_t first,
		      uint32_t move, struct stretch_stop *stop)
{
	struct path_ranges ranges = { .path = ev };
	struct aux_flow range;
	struct pend end = { .what = PEND_START };
	const struct move *m;
	uint64_t n_insns = 0;
	uint32_t n_moves = 0, i;

	for (i = 0; path_next_range(&ranges, &range); i++) {
		if (i > first && (n_insns || n_moves)) {
			m = calls_code_move(&c->code, c->space, &end, range.range.first);
			if (m && m->kind != MOVE_NONE && n_moves++ == move)
				break;
		}
		n_insns += i >= first ? range.n : 0;
		end = calls_code_end(&c->code, c->space, &range);
	}
	*stop = (struct stretch_stop){ .n_ranges = i, .pend = end };
}

/*
 * A segment that begins with range first of an event was not run to its end: what was
 * counted for the rest of it is taken back.
 */
static void stop_in(struct calls *c, struct thread *t, const struct aux_flow *ev,
		    uint32_t first, const struct seg *s, struct stretch_stop *stop)
{
	struct call_count *now = &t->pub.now;
	uint32_t made = c->stretch.moves;

	now->insns -= s->n_insns;
	now->branches -= s->n_branches;
	if (made) {
		const struct move *m = &s->moves[made - 1].m;
		struct pend p = { .next = m->next, .what = m->what };

		now->branches -= calls_code_taken(&p, m->to);
		find_move(c, ev, first, made - 1, stop);
		return;
	}
	now->branches -= calls_code_taken(&c->stretch.pend, s->first);
	*stop = (struct stretch_stop){ .n_ranges = first, .pend = c->stretch.pend };
}

/* A PATH without a segment. */
static int stretch_path(struct calls *c, struct thread *t, const struct aux_flow *ev,
			struct stretch_stop *stop)
{
	struct aux_path *path = ev->path.path;
	uint32_t first = 0;
	struct seg *s;
	int rc = 0;

	if (path->kept) {
		s = calls_code_path(&c->code, c->space, path);
		rc = run_new(c, t, s);
		if (rc == CALLS_STOP)
			stop_in(c, t, ev, 0, s, stop);
		return rc;
	}
	for (uint32_t i = 0; i < path->n_steps && !rc; i++) {
		s = calls_code_step(&c->code, c->space, path->steps[i]);
		rc = run_new(c, t, s);
		if (rc == CALLS_STOP)
			stop_in(c, t, ev, first, s, stop);
		first += path->steps[i]->n_ranges;
	}
	return rc;
}

static int stretch_range(struct calls *c, struct thread *t, const struct aux_flow *ev,
			 struct stretch_stop *stop)
{
	int rc = run_range(c, t, ev);

	if (rc != CALLS_STOP)
		return rc;
	t->pub.now.insns -= ev->n;
	t->pub.now.branches -= calls_code_taken(&c->stretch.pend, ev->range.first);
	*stop = (struct stretch_stop){ .n_ranges = 0, .pend = c->stretch.pend };
	return rc;
}

size_t calls_run_stretch(struct calls *c, struct thread *t, const struct aux_flow *ev,
			 size_t n, int *rc, struct stretch_stop *stop)
{
	size_t i = 0;

	*rc = 0;
	while (i < n && !*rc) {
		i += run_known(c, t, ev + i, n - i, rc);
		if (*rc == CALLS_STOP)
			stop_in(c, t, &ev[i - 1], 0,
				calls_code_known(&c->code, ev[i - 1].path.path->user),
				stop);
		if (i == n || *rc)
			break;
		if (ev[i].kind == AUX_FLOW_PATH)
			*rc = stretch_path(c, t, &ev[i++], stop);
		else if (ev[i].kind == AUX_FLOW_RANGE)
			*rc = stretch_range(c, t, &ev[i++], stop);
		else
			break;
	}
	return *rc == CALLS_STOP ? i - 1 : i;
}

int calls_stack_add(struct thread *t, const struct call_frame *frame)
{
	if (t->pub.depth == t->stacks[t->current].max && grow(t))
		return -AUX_E_NOMEM;
	t->pub.frames[t->pub.depth++] = *frame;
	return 0;
}

void calls_pass_time(struct calls *c, struct thread *t, const struct aux_flow *ev)
{
	struct aux_flow quiet = *ev;

	quiet.n = 0;
	advance_time(c, t, &quiet);
}

int calls_new(struct calls **calls, const struct sink_host *host,
	      unsigned flags, const struct calls_ops *ops, void *priv)
{
	struct calls *c = calloc(1, sizeof(*c));

	*calls = NULL;
	if (!c)
		return -AUX_E_NOMEM;
	c->host = host;
	c->ops = ops;
	c->priv = priv;
	c->flags = flags;
	c->end = &c->threads;
	c->funcs = calls_func_new(host, flags);
	if (!c->funcs || calls_code_init(&c->code, host, c->funcs)) {
		calls_free(c);
		return -AUX_E_NOMEM;
	}
	*calls = c;
	return 0;
}

void calls_free(struct calls *c)
{
	struct thread *t, *next;

	if (!c)
		return;
	for (t = c->threads; t; t = next) {
		next = t->next;
		calls_context_free(t);
		calls_stack_free(t);
		free(t);
	}
	free(c->tails);
	calls_code_fini(&c->code);
	calls_func_free(c->funcs);
	free(c);
}

size_t calls_n_funcs(const struct calls *c)
{
	return calls_func_count(c->funcs);
}

struct call_func *calls_func(const struct calls *c, uint32_t id)
{
	struct func *f = calls_func_get(c->funcs, id);

	return f ? &f->pub : NULL;
}


/* ---- threads ---- */

/* tid 0 (idle) and unknown tids stand for one thread in each stream. */
static bool is_thread_of(const struct thread *t, const struct flow_ctx *ctx)
{
	if (t->pub.tid != ctx->tid)
		return false;
	/* idle, and what is unknown, are one for each stream */
	return (ctx->tid && ctx->tid != UINT32_MAX) ||
	       t->pub.stream == ctx->stream;
}

static struct thread *add_thread(struct calls *c, const struct flow_ctx *ctx)
{
	struct thread **slot = &c->slots[ctx->tid % THREAD_SLOTS];
	struct thread *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->stacks = calloc(1, sizeof(*t->stacks));
	if (!t->stacks) {
		free(t);
		return NULL;
	}
	t->n_stacks = t->max_stacks = 1;
	t->pend.what = PEND_START;
	t->pub.pid = ctx->pid;
	t->pub.tid = ctx->tid;
	t->pub.stream = ctx->stream;
	t->pub.ctx = &t->ctx;
	t->same = *slot;
	*slot = t;
	*c->end = t;
	c->end = &t->next;
	return t;
}

/* Streams are few, and events come in batches of one: the last one is tried
 * first. */
static struct stream_tail *find_stream(struct calls *c, uint32_t stream)
{
	struct stream_tail *tails;

	if (c->tail < c->n_tails && c->tails[c->tail].stream == stream)
		return &c->tails[c->tail];
	for (c->tail = 0; c->tail < c->n_tails; c->tail++)
		if (c->tails[c->tail].stream == stream)
			return &c->tails[c->tail];
	tails = reallocarray(c->tails, c->n_tails + 1, sizeof(*tails));
	if (!tails)
		return NULL;
	c->tails = tails;
	tails[c->n_tails++] = (struct stream_tail){ .stream = stream };
	return &tails[c->tail];
}

/* Another thread ran in between. In the kernel a switch happens in the middle
 * of a function, so where this one continues says nothing. */
static void mark_switched(struct thread *t)
{
	if (t->pend.what >= PEND_START || !is_kernel(t->pend.from))
		return;
	t->pend.what = PEND_SWITCH;
	t->last = NULL;
}

/*
 * The thread runs where ctx says. before: its time when it was last seen, until when it
 * was on the CPU where it was then; unless it has come back from off the CPU since.
 */
static void place_run(struct calls *c, struct thread *t, uint64_t before)
{
	bool back = t->run_from > before;

	if (!back)
		end_run(c, t, before);
	t->cpu = t->ctx.cpu;
	if (t->cpu < 0 || !t->pub.tid || t->pub.tid == UINT32_MAX)
		t->run_from = 0;
	else if (!back)
		t->run_from = t->pub.now.ns;
}

/* The thread of a batch, with ctx as it is now. NULL: out of memory. */
struct thread *calls_find_thread(struct calls *c, const struct flow_ctx *ctx)
{
	struct stream_tail *tail = find_stream(c, ctx->stream);
	struct thread *t;
	uint64_t before;
	bool away = false;

	if (!tail)
		return NULL;
	t = tail->last;
	if (!t || !is_thread_of(t, ctx) || t->pub.stream != ctx->stream) {
		for (t = c->slots[ctx->tid % THREAD_SLOTS]; t && !is_thread_of(t, ctx);
		     t = t->same)
			;
		if (!t)
			t = add_thread(c, ctx);
		if (!t)
			return NULL;
		mark_switched(t);
		if (tail->last && !c->host->off_cpu)
			end_run(c, tail->last, tail->last->pub.now.ns);
		tail->last = t;
		away = true;
	}
	t->pub.pid = ctx->pid;
	t->pub.stream = ctx->stream;
	t->ctx = *ctx;
	before = t->pub.now.ns;
	if (ctx->time_ns > before)
		pass_time(c, t, ctx->time_ns, away);
	if (t->cpu != ctx->cpu || !t->run_from)
		place_run(c, t, before);
	c->space = ctx->space;
	c->space_id = ctx->space ? ctx->space->id : UINT64_MAX;
	return t;
}

/* ---- events ---- */

/*
 * Whether control leads to code that was made at run time. A software source stops there to
 * save a page that is new or was written to: what is there is told by the view that
 * begins then. So pend stays what it is until trace is on again.
 */
static bool is_unseen(struct calls *c, const struct thread *t, uint64_t to)
{
	const struct func *f;

	if (t->pend.what == AUX_END_FALL || t->pend.what >= PEND_START || is_kernel(to))
		return false;
	f = calls_func_at(c->funcs, c->space, to);
	return f && f->pub.dso &&
	       (!strcmp(f->pub.dso, "[jit]") || !strcmp(f->pub.dso, "[anon]"));
}

/* It was something else: an interrupt before the first instruction. */
static int settle_unseen(struct calls *c, struct thread *t)
{
	int rc;

	if (!t->unseen)
		return 0;
	t->unseen = false;
	rc = calls_run_stop(c, t, t->unseen_at);
	set_pend(t, (struct pend){ .from = t->unseen_at, .next = t->unseen_at,
				   .what = PEND_ASYNC });
	return rc;
}

/* async.from is the instruction that did not run, so control reached it. After
 * a system call it is where that returns to. */
static int on_async(struct calls *c, struct thread *t,
		    const struct aux_flow *ev)
{
	bool syscall = t->pend.what == AUX_END_SYSCALL;
	int rc = settle_unseen(c, t);

	if (rc)
		return rc;
	if (uprobes_has(ev->async.from)) {	/* a return with a probe: it goes on later */
		t->aside = true;
		return 0;
	}
	if (!syscall && is_unseen(c, t, ev->async.from)) {
		t->unseen = true;
		t->unseen_at = ev->async.from;
		return 0;
	}
	if (syscall)
		t->pub.now.branches++;	/* it came back, to async.from */
	else
		rc = calls_run_stop(c, t, ev->async.from);
	set_pend(t, (struct pend){ .from = ev->async.from,
				   .next = ev->async.from,
				   .what = PEND_ASYNC, .syscall = syscall });
	return rc;
}

/*
 * What ran last tells why trace stops after it. A system call and an interrupt lead
 * into the kernel. All other ways are a filter's: a branch or a step to what it leaves
 * out. Out of the kernel no filter is needed, and there a pause looks like a step.
 */
static enum call_untraced why_off(const struct thread *t)
{
	const struct pend *p = &t->pend;

	if (p->what == AUX_END_SYSCALL || p->what == PEND_ASYNC)
		return UNTRACED_KERNEL;
	if (p->what >= PEND_START ||
	    (is_kernel(p->from) &&
	     (p->what == AUX_END_FAR || p->what == AUX_END_FALL)))
		return UNTRACED_UNKNOWN;
	return UNTRACED_FILTERED;
}

/*
 * Only the kernel is traced, and it returned to the program: a far branch ends the trace, and
 * no address follows (a filter's TIP.PGD has one). All its frames have ended; whatever the
 * kernel does next is a new entry.
 */
static bool leaves_kernel(const struct thread *t, const struct aux_flow *ev)
{
	return !t->off && !(ev->flags & AUX_FLOW_HAS_IP) && t->pend.what == AUX_END_FAR &&
	       is_kernel(t->pend.from) && !t->wait && !calls_stack_kernel(t);
}

/* The first stop of trace ends what ran; later ones, and filters inside the
 * kernel, change nothing. */
static int on_trace(struct calls *c, struct thread *t,
		    const struct aux_flow *ev)
{
	bool on = ev->kind == AUX_FLOW_TRACE_ON;
	int rc = 0;

	t->lost = false;
	if (t->unseen && on) {
		if (ev->flags & AUX_FLOW_HAS_IP && ev->trace.ip == t->unseen_at)
			t->unseen = false;
		rc = settle_unseen(c, t);
	}
	if (!on && !t->off)
		t->pub.why_off = t->aside || t->unseen ? UNTRACED_KERNEL : why_off(t);
	if (!on && !t->aside && !t->unseen && ev->flags & AUX_FLOW_HAS_IP &&
	    t->pend.what != AUX_END_SYSCALL && t->pend.what < PEND_START) {
		rc = calls_run_stop(c, t, ev->trace.ip);
		set_pend(t, (struct pend){ .from = ev->trace.ip,
					   .next = ev->trace.ip,
					   .what = PEND_OFF });
	}
	if (!on && leaves_kernel(t, ev)) {
		rc = calls_stack_pop_to(c, t, 0, CALL_END_KERNEL, 0);
		set_pend(t, (struct pend){ .what = PEND_START });
		t->left_kernel = true;
	}
	t->aside = on && ev->flags & AUX_FLOW_HAS_IP && uprobes_has(ev->trace.ip) &&
		   (t->pend.what != AUX_END_SYSCALL || t->pend.next != ev->trace.ip);
	if (t->off == !on)
		return rc;
	t->off = !on;
	if (rc || !c->ops->off)
		return rc;
	return t->wait ? calls_context_off(t, on) : c->ops->off(c->priv, &t->pub, on);
}

/* What waits is decided first. A gap of an unknown thread is reported without
 * one. */
static int on_gap(struct calls *c, struct thread *t, const struct aux_flow *ev)
{
	bool known = t->pub.tid != UINT32_MAX || t->pub.depth;
	int rc = t->wait ? calls_context_decide(c, t) : 0;

	if (!rc)
		rc = settle_unseen(c, t);
	if (rc)
		return rc;
	if (t->pend.what != PEND_START)
		set_pend(t, (struct pend){ .what = PEND_GAP });
	t->stub.kind = 0;
	t->lost = true;
	return c->ops->gap ? c->ops->gap(c->priv, known ? &t->pub : NULL, ev) :
			     0;
}

/* noinline: rare. */
static __attribute__((noinline)) int
on_event(struct calls *c, struct thread *t, const struct aux_flow *ev)
{
	switch (ev->kind) {
	case AUX_FLOW_TRACE_ON:
	case AUX_FLOW_TRACE_OFF:
		return on_trace(c, t, ev);
	case AUX_FLOW_GAP:
		return on_gap(c, t, ev);
	}
	if (ev->kind == AUX_FLOW_ASYNC) {
		int rc = on_async(c, t, ev);

		if (rc)
			return rc;
	}
	return c->ops->event ? c->ops->event(c->priv, &t->pub, ev) : 0;
}

/*
 * What the kernel runs of the program beside it, in the page of uprobes: the program is still
 * where it was. Until the kernel takes over again, or something is lost.
 */
static void pass_aside(struct calls *c, struct thread *t,
		       const struct aux_flow **ev, size_t *n)
{
	for (; *n && (*ev)->kind != AUX_FLOW_TRACE_OFF && (*ev)->kind != AUX_FLOW_GAP &&
	       (*ev)->kind != AUX_FLOW_TRACE_ON; ++*ev, --*n) {
		if ((*ev)->kind == AUX_FLOW_TIME)
			advance_time(c, t, *ev);
		if ((*ev)->kind == AUX_FLOW_RANGE || (*ev)->kind == AUX_FLOW_PATH)
			t->pub.now.insns += (*ev)->n;
	}
	if (*n && (*ev)->kind == AUX_FLOW_GAP)
		t->aside = false;
}

/* The gap lasts until something runs: the times before that are still in it. */
static void end_gap(struct calls *c, struct thread *t,
		    const struct aux_flow **ev, size_t *n)
{
	for (; *n && (*ev)->kind == AUX_FLOW_TIME; ++*ev, --*n)
		advance_time(c, t, *ev);
	if (*n && ((*ev)->kind == AUX_FLOW_RANGE ||
		   (*ev)->kind == AUX_FLOW_PATH))
		t->lost = false;
}

/* After an error, instructions are still counted, so that totals stay right. */
int calls_flow(struct calls *c, const struct flow_ctx *ctx,
	       const struct aux_flow *ev, size_t n)
{
	struct thread *t = calls_find_thread(c, ctx);
	uint64_t before;
	int rc = 0;

	if (!t)
		return -AUX_E_NOMEM;
	before = t->pub.now.insns;
	while (n && !rc) {
		size_t done;

		if (t->lost)
			end_gap(c, t, &ev, &n);
		if (t->aside)
			pass_aside(c, t, &ev, &n);
		if (t->unseen && n && (ev->kind == AUX_FLOW_RANGE || ev->kind == AUX_FLOW_PATH))
			rc = settle_unseen(c, t);
		if (rc)
			break;
		done = calls_run(c, t, ev, n, &rc);

		ev += done;
		n -= done;
		if (!n || rc)
			break;
		rc = on_event(c, t, ev++);
		n--;
	}
	c->n_insns += t->pub.now.insns - before;
	for (; n; n--, ev++)
		if (ev->kind == AUX_FLOW_RANGE || ev->kind == AUX_FLOW_PATH)
			c->n_insns += ev->n;
	return rc ? rc : c->failed;
}

uint64_t calls_n_insns(const struct calls *c)
{
	return c->n_insns;
}

/* Ends the frames of all stacks of a thread. */
static int finish_thread(struct calls *c, struct thread *t)
{
	int rc = t->wait ? calls_context_decide(c, t) : 0;

	if (!rc)
		rc = calls_stack_pop_to(c, t, 0, CALL_END_TRACE, 0);
	for (uint32_t i = 0; i < t->n_stacks && !rc; i++) {
		if (i == t->current || !t->stacks[i].depth)
			continue;
		rc = calls_context_turn(c, t, i);
		if (!rc)
			rc = calls_stack_pop_to(c, t, 0, CALL_END_TRACE, 0);
	}
	return rc;
}

int calls_finish(struct calls *c)
{
	int rc = 0;

	for (struct thread *t = c->threads; t && !rc; t = t->next) {
		end_run(c, t, t->pub.now.ns);
		rc = c->failed ? c->failed : finish_thread(c, t);
	}
	return !rc && walk_nomem(c->code.walk) ? -AUX_E_NOMEM : rc;
}
