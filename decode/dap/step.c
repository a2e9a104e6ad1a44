/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dap: steps by line, over calls and out of functions, forwards and back.
 *
 * A frame is told from others by the call that made it: its time and its place among the
 * calls of that time. So a step over a call goes on until the same frame runs again,
 * however deep a recursion was in between.
 */
#include "decode/dap/impl.h"

#define LINE_STEPS 1000000	/* instructions of one line, at most */

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

/* Runs a thread to an address in the frame. Breakpoints stop on the way. */
static int run_to(struct server *s, struct replay_place *at, uint32_t tid,
		  uint64_t addr, const struct frame *frame, bool back,
		  struct replay_why *why)
{
	uint64_t both[257];
	struct replay_points points = { both, 0 };
	struct replay_state st;
	struct frame f;
	size_t n = s->points.n_addrs < 256 ? s->points.n_addrs : 256, i = 0;
	int err;

	for (; i < n && s->points.addrs[i] < addr; i++)
		both[points.n++] = s->points.addrs[i];
	both[points.n++] = addr;
	for (; i < n; i++)
		if (s->points.addrs[i] != addr)
			both[points.n++] = s->points.addrs[i];
	for (;;) {
		err = replay_run(s->replay, at, &points, back, ask, s, why, s->diag);
		if (!err && why->stop == REPLAY_GAP && !s->stops_at_gaps)
			continue;
		if (!err && why->stop == REPLAY_POINT)
			err = replay_state(s->replay, at, &st, s->diag);
		if (err || why->stop != REPLAY_POINT)
			return err;
		if (st.pc == addr && st.tid == tid) {
			err = find_frame(s, at, &f);
			if (err)
				return err;
			if (is_same(&f, frame)) {
				why->stop = REPLAY_DONE;
				return 0;
			}
		}
		if (is_wanted(s, at))
			return 0;
	}
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

/* One instruction, with a call that it is as one of the frame. */
static int step_instruction(struct server *s, struct replay_place *at, uint32_t tid,
			    bool over, bool back, const struct frame *frame,
			    struct replay_why *why)
{
	struct frame f;
	int err = replay_step(s->replay, at, tid, back, why, s->diag);

	if (!err && why->stop == REPLAY_GAP && !s->stops_at_gaps)
		why->stop = REPLAY_DONE;
	if (err || why->stop != REPLAY_DONE || !over)
		return err;
	err = find_frame(s, at, &f);
	/* deeper than the frame: what runs was called by it */
	if (err || is_same(&f, frame) || !f.known)
		return err;
	for (struct replay_frame callers[2];;) {
		struct frame outer = { .known = false };
		int n = replay_callers(s->replay, at, callers, 2, s->diag);

		if (n < 0)
			return n;
		if (n > 1)
			outer = (struct frame){ callers[1], true };
		if (!n || !is_same(&outer, frame))
			return 0;	/* it returned, or something else runs */
		return run_to(s, at, tid, back ? callers[0].call : callers[0].back,
			      frame, back, why);
	}
}

/* Where a line step is: its line, and whose. */
struct spot {
	struct place_line line;
	struct frame frame;
	uint64_t pc;
};

static int find_spot(struct server *s, const struct replay_place *at,
		     struct spot *spot)
{
	struct replay_state st;
	int err = replay_state(s->replay, at, &st, s->diag);

	if (err)
		return err;
	spot->pc = st.pc;
	spot->line = source_line_of(s, st.space, st.pc);
	return find_frame(s, at, &spot->frame);
}

static bool is_other(const struct spot *a, const struct spot *b)
{
	return a->line.line != b->line.line || a->line.file != b->line.file ||
	       !is_same(&a->frame, &b->frame);
}

/* Back to the first instruction of the line on end of which it is. */
static int back_to_begin(struct server *s, struct replay_place *at, uint32_t tid,
			 const struct spot *line, struct replay_why *why)
{
	struct replay_place before = *at;
	struct spot spot;
	int err;

	for (unsigned n = 0; n < LINE_STEPS; n++) {
		err = step_instruction(s, &before, tid, true, true, &line->frame, why);
		if (!err && why->stop == REPLAY_DONE)
			err = find_spot(s, &before, &spot);
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

	for (unsigned n = 0; !err && n < LINE_STEPS; n++) {
		err = step_instruction(s, at, tid, over || !from.line.file, back,
				       &from.frame, why);
		if (!err && why->stop == REPLAY_DONE)
			err = find_spot(s, at, &spot);
		if (err || why->stop != REPLAY_DONE)
			return err;
		if (!spot.line.file && !is_same(&spot.frame, &from.frame) &&
		    from.line.file) {
			err = step_out(s, at, tid, back, why);
			if (!err && why->stop == REPLAY_DONE)
				err = find_spot(s, at, &spot);
			if (err || why->stop != REPLAY_DONE)
				return err;
		}
		if (spot.line.file && is_other(&spot, &from))
			break;
	}
	return err || !back ? err : back_to_begin(s, at, tid, &spot, why);
}

int step_thread(struct server *s, uint32_t tid, enum step_by by, bool back,
		bool by_instruction, struct replay_why *why)
{
	struct replay_place at;
	struct frame frame;
	int rc = dap_place(s, tid, &at);

	*why = (struct replay_why){ .stop = REPLAY_DONE };
	if (!rc)
		at = s->at;
	if (rc >= 0 && by == STEP_OUT)
		rc = step_out(s, &at, tid, back, why);
	else if (rc >= 0 && by_instruction)
		rc = find_frame(s, &at, &frame) ? :
		     step_instruction(s, &at, tid, by == STEP_OVER, back, &frame, why);
	else if (rc >= 0)
		rc = step_line(s, &at, tid, by == STEP_OVER, back, why);
	return rc < 0 ? rc : dap_go(s, &at);
}
