/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dap: steps by line, over calls and out of functions, forwards and back.
 *
 * A frame is told from others by the call that made it: its time and its place among the
 * calls of that time. So a step over a call goes on until the same frame runs again,
 * however deep a recursion was in between.
 */
#include <stdlib.h>

#include "decode/dap/impl.h"

#define ASK_EVERY 1024	/* instructions, between two questions whether to stop */

/* Which activation of a function runs; and where it was called and goes on. */
struct frame {
	struct replay_frame caller;
	bool known;		/* else nothing is known of who called */
};

static int find_frame(struct server *s, const struct replay_place *at,
		      struct frame *f)
{
	int n = replay_callers(s->replay, at, &f->caller, 1, s->diag);

	f->known = n > 0;
	return n < 0 ? n : 0;
}

static bool is_same(const struct frame *a, const struct frame *b)
{
	return a->known == b->known &&
	       (!a->known || (a->caller.time_ns == b->caller.time_ns &&
			      a->caller.order == b->caller.order));
}

static bool ask(void *priv)
{
	struct server *s = priv;

	return wire_is_broken(&s->wire);
}

/* Whether the breakpoint that was hit stops. */
static bool is_wanted(struct server *s, const struct replay_place *at)
{
	struct replay_state st;
	bool stops = false;

	if (replay_state(s->replay, at, &st, s->diag))
		return true;
	for (size_t i = 0; i < s->points.n; i++) {
		struct point *p = &s->points.v[i];

		if (p->addr != st.pc || (p->tid >= 0 && p->tid != st.tid))
			continue;
		stops |= ++p->n_hits > p->ignore;
	}
	return stops;
}

int step_run(struct server *s, bool back, struct replay_why *why)
{
	const struct replay_points points = { s->points.addrs, s->points.n_addrs };
	int err;

	do {
		err = replay_run(s->replay, &s->at, &points, back, ask, s, why,
				 s->diag);
	} while (!err && ((why->stop == REPLAY_POINT && !is_wanted(s, &s->at)) ||
			  (why->stop == REPLAY_GAP && !s->stops_at_gaps)));
	return err;
}

/* The breakpoints and one more; v is the caller's to free. NULL: out of memory. */
static uint64_t *add_point(const struct server *s, uint64_t addr, size_t *n)
{
	size_t n_before = 0, n_all = s->points.n_addrs;
	uint64_t *v = reallocarray(NULL, n_all + 1, sizeof(*v));

	if (!v)
		return NULL;
	while (n_before < n_all && s->points.addrs[n_before] < addr) {
		v[n_before] = s->points.addrs[n_before];
		n_before++;
	}
	*n = n_before;
	v[(*n)++] = addr;
	for (size_t i = n_before; i < n_all; i++)
		if (s->points.addrs[i] != addr)
			v[(*n)++] = s->points.addrs[i];
	return v;
}

/* Whether a thread is at an address in the frame. 1, 0, or an error. */
static int is_there(struct server *s, const struct replay_place *at, uint32_t tid,
		    uint64_t addr, const struct frame *frame)
{
	struct replay_state st;
	struct frame f;
	int err = replay_state(s->replay, at, &st, s->diag);

	if (err || st.pc != addr || st.tid != tid)
		return err;
	err = find_frame(s, at, &f);
	return err ? err : is_same(&f, frame);
}

/* Runs a thread to an address in the frame. Breakpoints stop on the way. */
static int run_to(struct server *s, struct replay_place *at, uint32_t tid,
		  uint64_t addr, const struct frame *frame, bool back,
		  struct replay_why *why)
{
	struct replay_points points = { NULL, 0 };
	uint64_t *v = add_point(s, addr, &points.n);
	int rc = v ? 0 : -AUX_E_NOMEM;

	points.v = v;
	while (!rc) {
		rc = replay_run(s->replay, at, &points, back, ask, s, why, s->diag);
		if (rc || (why->stop == REPLAY_GAP && !s->stops_at_gaps))
			continue;
		if (why->stop != REPLAY_POINT)
			break;
		rc = is_there(s, at, tid, addr, frame);
		if (rc > 0)
			why->stop = REPLAY_DONE;
		else if (!rc && is_wanted(s, at))
			break;
	}
	free(v);
	return rc < 0 ? rc : 0;
}

/* To the caller: where it goes on, or (back) the call. */
static int step_out(struct server *s, struct replay_place *at, uint32_t tid, bool back,
		    struct replay_why *why)
{
	struct replay_frame callers[2];
	struct frame outer = { .known = false };
	int n = replay_callers(s->replay, at, callers, 2, s->diag);

	if (n < 0)
		return n;
	if (!n) {	/* nobody is known: to the end, or begin */
		why->stop = REPLAY_EDGE;
		return back ? replay_first(s->replay, at, s->diag) < 0 :
			      replay_last(s->replay, at, s->diag) < 0;
	}
	if (n > 1)
		outer = (struct frame){ callers[1], true };
	return run_to(s, at, tid, back ? callers[0].call : callers[0].back, &outer,
		      back, why);
}

/* In a function that the frame has called: to where that goes on, or (back) to the call.
 * Anything else that runs instead, a signal's handler or what the frame returned to, stays
 * where it is. */
static int skip_call(struct server *s, struct replay_place *at, uint32_t tid, bool back,
		     const struct frame *frame, struct replay_why *why)
{
	struct frame outer = { .known = false };
	struct replay_frame callers[2];
	int n = replay_callers(s->replay, at, callers, 2, s->diag);

	if (n < 0)
		return n;
	if (n > 1)
		outer = (struct frame){ callers[1], true };
	if (!n || !is_same(&outer, frame))
		return 0;
	return run_to(s, at, tid, back ? callers[0].call : callers[0].back, frame, back,
		      why);
}

/* Where a step is: whose frame, which line. */
struct spot {
	struct place_line line;
	struct frame frame;
};

/* frame of it is known. */
static int find_line(struct server *s, const struct replay_place *at, struct spot *spot)
{
	struct replay_state st;
	int err = replay_state(s->replay, at, &st, s->diag);

	if (!err)
		spot->line = source_line_of(s, st.space, st.pc);
	return err;
}

static int find_spot(struct server *s, const struct replay_place *at, struct spot *spot)
{
	int err = find_frame(s, at, &spot->frame);

	return err ? err : find_line(s, at, spot);
}

/* One instruction, with a call that it is as one of the frame. spot is that of at, before
 * and after; who called is looked for only where that may have changed, for it may be far
 * back. */
static int step_instruction(struct server *s, struct replay_place *at, uint32_t tid,
			    bool over, bool back, struct spot *spot,
			    struct replay_why *why)
{
	struct frame frame = spot->frame;
	int err = replay_step(s->replay, at, tid, back, why, s->diag);

	if (!err && why->stop == REPLAY_GAP && !s->stops_at_gaps)
		why->stop = REPLAY_DONE;
	if (err || why->stop != REPLAY_DONE)
		return err;
	if (why->crossed)
		err = find_frame(s, at, &spot->frame);
	if (!err && over && !is_same(&spot->frame, &frame)) {
		err = skip_call(s, at, tid, back, &frame, why);
		if (!err)
			err = find_frame(s, at, &spot->frame);
	}
	return err ? err : find_line(s, at, spot);
}

static bool is_other(const struct spot *a, const struct spot *b)
{
	return a->line.line != b->line.line || a->line.file != b->line.file ||
	       !is_same(&a->frame, &b->frame);
}

/* Whether to go on with a line: it may be a loop that takes long. */
static bool is_patient(struct server *s, unsigned n, struct replay_why *why)
{
	if (n % ASK_EVERY || !ask(s))
		return true;
	why->stop = REPLAY_INTERRUPTED;
	return false;
}

/* Back to the first instruction of the line on whose last one it is. */
static int back_to_begin(struct server *s, struct replay_place *at, uint32_t tid,
			 const struct spot *line, struct replay_why *why)
{
	struct replay_place before = *at;
	struct spot spot = *line;
	int err;

	for (unsigned n = 1; is_patient(s, n, why); n++) {
		err = step_instruction(s, &before, tid, true, true, &spot, why);
		if (err)
			return err;
		if (why->stop != REPLAY_DONE || is_other(&spot, line))
			break;
		*at = before;
	}
	if (why->stop == REPLAY_EDGE)
		why->stop = REPLAY_DONE;
	return 0;
}

/* By line: until another one begins, or another frame of a known line runs. What has no
 * line is passed as a whole. */
static int step_line(struct server *s, struct replay_place *at, uint32_t tid, bool over,
		     bool back, struct replay_why *why)
{
	struct spot from, spot;
	int err = find_spot(s, at, &from);

	spot = from;
	for (unsigned n = 1; !err && is_patient(s, n, why); n++) {
		err = step_instruction(s, at, tid, over || !from.line.file, back, &spot,
				       why);
		if (!err && why->stop == REPLAY_DONE && !spot.line.file &&
		    from.line.file && !is_same(&spot.frame, &from.frame)) {
			err = step_out(s, at, tid, back, why);
			if (!err && why->stop == REPLAY_DONE)
				err = find_spot(s, at, &spot);
		}
		if (err || why->stop != REPLAY_DONE)
			return err;
		if (spot.line.file && is_other(&spot, &from))
			break;
	}
	if (err || !back || why->stop != REPLAY_DONE)
		return err;
	return back_to_begin(s, at, tid, &spot, why);
}

int step_thread(struct server *s, uint32_t tid, enum step_by by, bool back,
		bool by_instruction, struct replay_why *why)
{
	struct replay_place at;
	struct spot spot;
	int rc = dap_place(s, tid, &at);

	*why = (struct replay_why){ .stop = REPLAY_DONE };
	if (!rc)
		at = s->at;
	if (rc >= 0 && by == STEP_OUT)
		rc = step_out(s, &at, tid, back, why);
	else if (rc >= 0 && by_instruction)
		rc = find_spot(s, &at, &spot) ? :
		     step_instruction(s, &at, tid, by == STEP_OVER, back, &spot, why);
	else if (rc >= 0)
		rc = step_line(s, &at, tid, by == STEP_OVER, back, why);
	return rc < 0 ? rc : dap_go(s, &at);
}
