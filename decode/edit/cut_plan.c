/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cut: from times to spans of a stream, in one walk over its sync points.
 *
 * Before a time wanted the walk remembers the last point; in it, it waits for
 * the first point behind it, then for the next one, where the span ends unless
 * another time has begun meanwhile.
 */
#include "common/array.h"
#include "decode/edit/cut_impl.h"
#include "decode/lib/sideband/sideband.h"

enum state { BEFORE, WITHIN, BEHIND };

struct walk {
	struct cut *c;
	struct cut_queue *q;
	const struct cut_span *times;
	size_t n, i;		/* times[i] is the next that did not begin */
	enum state state;
	struct cut_point last;	/* the point before this one */
	uint64_t from;		/* of the span that is open */
	uint64_t until;		/* its time */
};

static int add_span(struct walk *w, uint64_t to, uint64_t to_ns)
{
	struct cut_queue *q = w->q;

	if (w->from >= to)
		return 0;
	if (array_grow(&q->kept, q->n, &q->cap, sizeof(*q->kept)) < 0)
		return -AUX_E_NOMEM;
	q->kept[q->n++] = (struct cut_span){ w->from, to };
	w->c->several |= q->n > 1;
	if (to_ns > w->c->to_ns)
		w->c->to_ns = to_ns;
	return 0;
}

/* Times that begin before ns belong to the open span. */
static void take_times(struct walk *w, uint64_t ns)
{
	while (w->i < w->n && w->times[w->i].from < ns) {
		if (w->times[w->i].to > w->until)
			w->until = w->times[w->i].to;
		w->i++;
	}
}

static void open_span(struct walk *w)
{
	w->from = w->last.offset;
	w->until = 0;
	w->state = WITHIN;
	if (w->last.time < w->c->from_ns)
		w->c->from_ns = w->last.time;
}

static int take_point(struct walk *w, const struct cut_point *p)
{
	bool begins = w->i < w->n && w->times[w->i].from < p->time;
	int rc = 0;

	if (w->state == BEHIND && !begins) {
		rc = add_span(w, p->offset, p->time);
		w->state = BEFORE;
	} else if (w->state == BEHIND) {
		w->state = WITHIN;
	} else if (w->state == BEFORE && begins) {
		open_span(w);
	}
	if (w->state == WITHIN) {
		take_times(w, p->time);
		if (p->time > w->until)
			w->state = BEHIND;
	}
	w->last = *p;
	return rc;
}

int cut_plan_queue(struct cut *c, struct cut_queue *q,
		   const struct cut_span *times, size_t n)
{
	struct walk w = { .c = c, .q = q, .times = times, .n = n,
			  .last = { cut_stream_start(q->q), 0 } };
	struct cut_points it = { .s = c->s, .q = q->q };
	struct cut_point p;
	int rc = 0;

	while (rc == 0 && (w.state != BEFORE || w.i < n) &&
	       cut_points_next(&it, &p))
		rc = take_point(&w, &p);
	/* How late the last bytes are nobody knows. */
	if (rc == 0 && w.state == BEFORE && w.i < n)
		open_span(&w);
	if (rc == 0 && w.state != BEFORE)
		rc = add_span(&w, cut_stream_end(q->q), UINT64_MAX);
	return rc;
}
