/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_report_lane: the frames of a thread as nodes. l->open has the node of each
 * frame that runs, so that it holds as many as the thread's stack has frames.
 */
#include <stdlib.h>

#include "decode/report/report.h"

int report_lane_new(struct report *r, struct report_lane **lane)
{
	struct report_lane **grown, *l;
	uint32_t max = r->max_lanes ? 2 * r->max_lanes : 16;

	if (r->n_lanes == r->max_lanes) {
		grown = reallocarray(r->lanes, max, sizeof(*grown));
		if (!grown)
			return -AUX_E_NOMEM;
		r->lanes = grown;
		r->max_lanes = max;
	}
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
	free(l->spans);
	free(l);
}

static int grow_open(struct report_lane *l)
{
	uint32_t max = l->max_open ? 2 * l->max_open : 64;
	uint32_t *grown;

	if (l->n_open < l->max_open)
		return 0;
	grown = reallocarray(l->open, max, sizeof(*grown));
	if (!grown)
		return -AUX_E_NOMEM;
	l->open = grown;
	l->max_open = max;
	return 0;
}

static int grow_nodes(struct report_lane *l)
{
	uint32_t max = l->max ? 2 * l->max : 256;
	struct report_node *grown;

	if (l->n < l->max)
		return 0;
	if (l->max > UINT32_MAX / 4)
		return -AUX_E_LIMIT;
	grown = reallocarray(l->nodes, max, sizeof(*grown));
	if (!grown)
		return -AUX_E_NOMEM;
	l->nodes = grown;
	l->max = max;
	return 0;
}

/* Frame number depth becomes a node, which begins now. */
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
		.insns = t->now.insns, .cycles = t->now.cycles,
		.from = f->from, .func = f->func->id,
		.count = !again, .depth = (uint16_t)depth,
		.kind = f->kind, .how = CALL_END_TRACE,
		.flags = REPORT_OPEN | (again ? REPORT_GOES_ON : 0) |
			 (f->flags & CALL_GUESSED ? REPORT_GUESSED : 0) };
	l->open[depth] = l->n++;
	r->n_nodes++;
	return report_pend_add(r, l, p);
}

/* The frame is deeper than what is drawn: its ancestor stands for it. */
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

/* Node of the topmost frame ends now. */
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
	n->cycles = t->now.cycles - n->cycles;
	n->how = how;
	n->flags = (uint8_t)((n->flags & ~REPORT_OPEN) | flags);
	p.node = at;
	p.is_end = true;
	p.insns = t->now.insns;
	return report_pend_add(r, l, p);
}

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
	/* of a base frame, or one that is lost, nobody knows how long it took */
	p.is_slow = f->kind != CALL_BASE && end != CALL_END_LOST &&
		    end != CALL_END_TRACE;
	if (at != REPORT_NONE && l->nodes[at].flags & REPORT_GOES_ON)
		p.began = l->timed ? f->at.ns * REPORT_TICKS :
				     f->at.insns * REPORT_TICKS;
	return end_node(r, l, t, p, (uint8_t)end,
			flags & CALL_GUESSED ? REPORT_GUESSED : 0);
}

/* What ran breaks off; the frames that the thread has now go on. */
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
