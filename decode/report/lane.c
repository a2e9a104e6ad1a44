/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread as a lane: its frames as nodes, and where in time they begin and
 * end.
 *
 * l->open has the node of each frame that runs, in step with the thread's
 * stack; frames deeper than REPORT_DEPTH are counted in the node at that depth.
 * When the thread changes its stack (turn), what runs breaks off and the frames
 * of the other stack go on as new nodes.
 */
#include <stdlib.h>

#include "common/array.h"
#include "decode/report/impl.h"

/*
 * ---- time ----
 *
 * Trace gives the time now and then, and hundreds of instructions run between.
 * What happens there waits (pend) until the next time is known, and is then
 * placed in between by its instructions (report_place). While trace is off no
 * instruction runs, so what ran before is taken to have lasted as long as its
 * instructions took the last time (rate), at most what there is; the rest is
 * the span.
 *
 * Where the trace has no time at all, instructions stand for it. If a time
 * comes after all, what was placed so far is moved to it (begin_time).
 */

#define MAX_PEND  65536
#define MAX_SPANS 20000

/* v * mul / div without overflow between; 0 for div 0. */
static uint64_t scale(uint64_t v, uint64_t mul, uint64_t div)
{
	return div ? (uint64_t)((unsigned __int128)v * mul / div) : 0;
}

/* The first and the last time of the page. */
static void note_time(struct report *r, uint64_t at)
{
	if (at < r->first)
		r->first = at;
	if (at > r->last)
		r->last = at;
}

/* A begin or end gets its time. An end of a call that was seen whole is
 * measured for its function. */
static int settle_one(struct report *r, struct report_lane *l,
		      const struct report_pend *p, uint64_t at)
{
	struct report_node *n = &l->nodes[p->node];
	uint64_t began;

	note_time(r, at);
	if (!p->is_end) {
		n->start = at;
		return 0;
	}
	n->end = at > n->start ? at : n->start;
	if (!p->is_slow)
		return 0;
	began = p->began == REPORT_UNKNOWN ? n->start : p->began;
	return report_func_took(r, n, at > began ? at - began : 0);
}

/*
 * Places all that waits: it lies between what was known last and to, by its
 * instructions. insns: the thread's at to. The speed is kept (rate) for the
 * next time without one.
 */
static int report_place(struct report *r, struct report_lane *l, uint64_t to,
			uint64_t insns)
{
	uint64_t until = l->off_insns == REPORT_UNKNOWN ? insns : l->off_insns;
	uint64_t n = until - l->at_insns, took = to - l->at;
	uint64_t usual = scale(n, l->rate, 256);
	int err = 0;

	if (l->off_insns != REPORT_UNKNOWN && usual < took)
		took = usual;
	else if (l->off_insns == REPORT_UNKNOWN && n)
		l->rate = scale(took, 256, n);
	for (uint32_t i = 0; i < l->n_pend && !err; i++) {
		uint64_t ran = l->pend[i].insns - l->at_insns;

		err = settle_one(r, l, &l->pend[i],
				 ran > n ? to : l->at + scale(ran, took, n));
	}
	l->n_pend = 0;
	l->at = to;
	l->at_insns = insns;
	l->off_insns = REPORT_UNKNOWN;
	return err;
}

int report_lane_settle(struct report *r, struct report_lane *l)
{
	struct report_pend *last;
	uint64_t took;

	if (!l->n_pend)
		return 0;
	last = &l->pend[l->n_pend - 1];
	took = scale(last->insns - l->at_insns, l->rate, 256);
	return report_place(r, l, l->at + took, last->insns);
}

/* At most MAX_PEND wait: of more, places are guessed by the last speed. */
static int report_pend_add(struct report *r, struct report_lane *l,
			   struct report_pend p)
{
	int err;

	if (l->n_pend == MAX_PEND) {
		err = report_lane_settle(r, l);
		if (err)
			return err;
	}
	if (array_grow(&l->pend, l->n_pend, &l->max_pend, sizeof(*l->pend)))
		return -AUX_E_NOMEM;
	l->pend[l->n_pend++] = p;
	return 0;
}

/* What was placed at instructions has a time at last: it began here, or
 * before. */
static void begin_time(struct report *r, struct report_lane *l, uint64_t at)
{
	for (uint32_t i = 0; i < l->n; i++)
		l->nodes[i].start = l->nodes[i].end = at;
	for (uint32_t i = 0; i < l->spans.n; i++)
		l->spans.v[i].from = l->spans.v[i].to = at;
	if (!r->timed) {
		r->timed = true;
		r->first = r->last = at;
	}
	note_time(r, at);
	l->timed = true;
	l->at = at;
	l->rate = 0;
}

/* The open span ends now. */
static void end_span(struct report_lane *l, uint32_t *open)
{
	struct report_span *s = &l->spans.v[*open - 1];

	s->to = l->at > s->from ? l->at : s->from;
	s->missing = s->to - s->from;
	*open = 0;
}

/* What lasted until this time is over. */
static void end_spans(struct report_lane *l)
{
	if (l->gap)
		end_span(l, &l->gap);
	if (l->off && l->off_ended)
		end_span(l, &l->off);
}

/* What is no self time (callstack.h) belongs to the frame on top, too; cycles that pass
 * while nothing is traced, or before anything was, are no frame's. */
static void add_away(struct report_lane *l, const struct call_thread *t)
{
	struct call_count n = call_minus(t->now, l->count);
	uint32_t top = l->n_open < REPORT_DEPTH ? l->n_open : REPORT_DEPTH;

	if (!l->tree.away && top)
		l->ran_cycles += n.cycles;
	if (top && l->open[top - 1] != REPORT_NONE)
		l->nodes[l->open[top - 1]].away_ns += n.ns - call_self_ns(&n);
}

/* The thread's clock, before anything else is made of what it is told. */
int report_clock(struct report *r, struct report_lane *l,
		 const struct call_thread *t)
{
	uint64_t at = t->now.ns * REPORT_TICKS, insns = t->now.insns;
	int err;

	add_away(l, t);
	l->count = t->now;
	if (t->now.ns && !l->timed)
		begin_time(r, l, at);
	if (!l->timed)
		at = insns * REPORT_TICKS;
	if (at <= l->at)
		return 0;
	err = report_place(r, l, at, insns);
	end_spans(l);
	return err;
}

/* Short spans of one kind that are near to each other. */
static bool can_join(const struct report_span *a, const struct report_span *b,
		     uint64_t step)
{
	return a->is_gap == b->is_gap && a->cause == b->cause &&
	       a->to - a->from < step && b->to - b->from < step &&
	       b->from <= a->to + step;
}

/* An open span has moved. */
static uint32_t renamed(uint32_t open, uint32_t from, uint32_t to)
{
	return open == from + 1 ? to + 1 : open;
}

/* Neighbours that are short become one. Open ones stay, and keep their number
 * right. */
static void join_spans(struct report_spans *v, uint32_t *off, uint32_t *gap)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < v->n; i++) {
		struct report_span *s = &v->v[i], *last = s;
		bool open = *off == i + 1 || *gap == i + 1;

		if (n)
			last = &v->v[n - 1];
		if (n && !open && *off != n && *gap != n &&
		    can_join(last, s, v->step)) {
			if (s->to > last->to)
				last->to = s->to;
			last->missing += s->missing;
			last->n += s->n;
			continue;
		}
		v->v[n] = *s;
		*off = renamed(*off, i, n);
		*gap = renamed(*gap, i, n);
		n++;
	}
	v->n = n;
}

/* A new one; its index + 1, or 0: out of memory. At MAX_SPANS neighbours are
 * joined, with twice the distance each time, until half is left. */
static uint32_t add_to(struct report_spans *v, uint32_t *off, uint32_t *gap,
		       struct report_span span)
{
	if (v->n >= MAX_SPANS) {
		v->step = v->step ? v->step : REPORT_TICKS;
		for (int i = 0; i < 60 && v->n > MAX_SPANS / 2; i++) {
			v->step *= 2;
			join_spans(v, off, gap);
		}
	}
	if (array_grow(&v->v, v->n, &v->max, sizeof(*v->v)))
		return 0;
	v->v[v->n++] = span;
	return v->n;
}

static uint32_t add_span(struct report_lane *l, struct report_span span)
{
	return add_to(&l->spans, &l->off, &l->gap, span);
}

static int add_ended(struct report_spans *v, uint32_t cause, uint64_t from,
		     uint64_t to)
{
	uint32_t off = 0, gap = 0;

	return add_to(v, &off, &gap, (struct report_span){
		.from = from * REPORT_TICKS, .to = to * REPORT_TICKS,
		.missing = (to - from) * REPORT_TICKS, .n = 1,
		.func = REPORT_NONE, .cause = cause }) ? 0 : -AUX_E_NOMEM;
}

int report_span_away(struct report_lane *l, const struct off_span *span)
{
	return add_ended(&l->away, REPORT_AWAY + span->why, span->from, span->to);
}

int report_span_ran(struct report_lane *l, uint32_t cpu, uint64_t from, uint64_t to)
{
	return add_ended(&l->runs, cpu, from, to);
}

/* No instruction runs from here on: the time up to the next one is not the
 * code's. */
static void stop_clock(struct report_lane *l, const struct call_thread *t)
{
	if (l->off_insns == REPORT_UNKNOWN)
		l->off_insns = t->now.insns;
}

/* Open until the next time (end_spans); that of no thread has no length. */
int report_span_gap(struct report *r, struct report_lane *l,
		    const struct call_thread *t, const struct aux_flow *ev)
{
	struct report_span s = { .from = l->at, .to = l->at, .n = 1,
				 .func = REPORT_NONE, .is_gap = true,
				 .cause = ev->what, .offset = ev->offset,
				 .stream = r->ctx.stream };

	if (t) {
		stop_clock(l, t);
		s.stream = t->stream;
		if (t->depth)
			s.func = t->frames[t->depth - 1].func->id;
	}
	s.from = s.to = l->at + scale(l->count.insns - l->at_insns, l->rate,
				      256);
	l->gap = add_span(l, s);
	if (!l->gap)
		return -AUX_E_NOMEM;
	if (!t)
		l->gap = 0;
	note_time(r, s.from);
	return 0;
}

/* on: trace is on again. Where its time comes later, all of it up to then was
 * off. */
int report_span_off(struct report *r, struct report_lane *l,
		    const struct call_thread *t, bool on)
{
	struct report_span s = { .n = 1, .func = REPORT_NONE,
				 .cause = REPORT_OFF + t->why_off };

	(void)r;
	/* where its time comes later, all of it up to then was off */
	l->off_ended = on;
	if (on && l->off && l->off_insns == REPORT_UNKNOWN)
		end_span(l, &l->off);
	if (on || l->off)
		return 0;
	stop_clock(l, t);
	s.from = s.to = l->at + scale(t->now.insns - l->at_insns, l->rate, 256);
	l->off = add_span(l, s);
	return l->off ? 0 : -AUX_E_NOMEM;
}

/* A lane belongs to the report, which frees it. */
int report_lane_new(struct report *r, struct report_lane **lane)
{
	struct report_lane *l;

	if (array_grow(&r->lanes, r->n_lanes, &r->max_lanes, sizeof(l)))
		return -AUX_E_NOMEM;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -AUX_E_NOMEM;
	l->id = r->n_lanes;
	l->off_insns = REPORT_UNKNOWN;
	r->lanes[r->n_lanes++] = l;
	*lane = l;
	return 0;
}

void report_lane_free(struct report_lane *l)
{
	if (!l)
		return;
	free(l->nodes);
	free(l->open);
	free(l->pend);
	free(l->spans.v);
	free(l->away.v);
	free(l->runs.v);
	free(l);
}

static int grow_open(struct report_lane *l)
{
	return array_grow(&l->open, l->n_open, &l->max_open, sizeof(*l->open));
}

static int grow_nodes(struct report_lane *l)
{
	if (l->n > UINT32_MAX / 4)
		return -AUX_E_LIMIT;
	return array_grow(&l->nodes, l->n, &l->max, sizeof(*l->nodes));
}

/* Frame number depth becomes a node, which begins now. again: it is a later
 * part of a frame, and no new call. */
static int begin_node(struct report *r, struct report_lane *l,
		      const struct call_thread *t, uint32_t depth, bool again)
{
	const struct call_frame *f = &t->frames[depth];
	struct report_pend p = { .node = l->n, .insns = t->now.insns };
	struct report_node *n;
	int err = grow_nodes(l);

	if (err)
		return err;
	n = &l->nodes[l->n];
	*n = (struct report_node){
		.start = l->at, .end = l->at,
		.insns = t->now.insns, .cycles = l->ran_cycles,
		.from = f->from, .func = f->func->id,
		.count = !again, .depth = (uint16_t)depth,
		.kind = f->kind, .how = CALL_END_TRACE,
		.flags = REPORT_OPEN | (again ? REPORT_GOES_ON : 0) |
			 (f->flags & CALL_GUESSED ? REPORT_GUESSED : 0) };
	l->open[depth] = l->n++;
	r->n_nodes++;
	return report_pend_add(r, l, p);
}

/* A frame below REPORT_DEPTH is not drawn: it counts in its deepest ancestor
 * that is. */
static void count_deep(struct report *r, struct report_lane *l, uint32_t depth)
{
	uint32_t at = l->open[REPORT_DEPTH - 1];

	l->open[depth] = REPORT_NONE;
	if (at == REPORT_NONE)
		return;
	l->nodes[at].count++;
	if (l->nodes[at].deep < UINT16_MAX)
		l->nodes[at].deep++;
	r->n_merged++;
}

/* A frame began. Where the lane's frames are not those of the stack below it,
 * all of it is a turn. */
int report_lane_enter(struct report *r, struct report_lane *l,
		      const struct call_thread *t)
{
	uint32_t depth = l->n_open;
	int err;

	if (depth + 1 != t->depth)
		return report_lane_turn(r, l, t);
	err = grow_open(l);
	if (err)
		return err;
	l->n_open++;
	l->n_calls++;
	if (depth < REPORT_DEPTH)
		return begin_node(r, l, t, depth, false);
	count_deep(r, l, depth);
	return 0;
}

/* The node of the topmost frame ends now. insns and cycles held the thread's at
 * its begin until here. */
static int end_node(struct report *r, struct report_lane *l,
		    const struct call_thread *t, struct report_pend p,
		    uint8_t how, uint8_t flags)
{
	uint32_t at = l->open[--l->n_open];
	struct report_node *n;

	if (at == REPORT_NONE)
		return 0;
	n = &l->nodes[at];
	n->insns = t->now.insns - n->insns;
	n->cycles = l->ran_cycles - n->cycles;
	n->how = how;
	n->flags = (uint8_t)((n->flags & ~REPORT_OPEN) | flags);
	p.node = at;
	p.is_end = true;
	p.insns = t->now.insns;
	return report_pend_add(r, l, p);
}

/* A base frame ran before the trace began, and a lost one has no end: neither
 * is measured for its function. */
int report_lane_leave(struct report *r, struct report_lane *l,
		      const struct call_thread *t, enum call_end end,
		      unsigned flags)
{
	const struct call_frame *f = &t->frames[t->depth - 1];
	struct report_pend p = { .began = REPORT_UNKNOWN };
	uint32_t at;
	int err = 0;

	if (l->n_open != t->depth)
		err = report_lane_turn(r, l, t);
	if (err)
		return err;
	at = l->open[l->n_open - 1];
	/* how long a base frame, or one that is lost, took is not known */
	p.is_slow = f->kind != CALL_BASE && end != CALL_END_LOST &&
		    end != CALL_END_TRACE;
	if (at != REPORT_NONE && l->nodes[at].flags & REPORT_GOES_ON)
		p.began = l->timed ? f->at.ns * REPORT_TICKS :
				     f->at.insns * REPORT_TICKS;
	return end_node(r, l, t, p, (uint8_t)end,
			flags & CALL_GUESSED ? REPORT_GUESSED : 0);
}

/* What runs breaks off; the frames that the thread has now go on. */
int report_lane_turn(struct report *r, struct report_lane *l,
		     const struct call_thread *t)
{
	int err = 0;

	while (l->n_open && !err)
		err = end_node(r, l, t, (struct report_pend){ 0 },
			       CALL_END_TRACE, REPORT_BREAKS);
	while (l->n_open < t->depth && !err) {
		err = grow_open(l);
		if (err)
			break;
		if (l->n_open < REPORT_DEPTH)
			err = begin_node(r, l, t, l->n_open, true);
		else
			l->open[l->n_open] = REPORT_NONE;
		l->n_open++;
	}
	return err;
}
