/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cut: what is wanted of each stream, and which records that needs.
 *
 * All that says who existed and what was mapped is kept up to the end of the
 * time; of who ran when, that time and the last word before it.
 */
#include <stdlib.h>
#include <string.h>

#include <aux/decoder.h>

#include "common/array.h"
#include "common/diag.h"
#include "decode/edit/cut_impl.h"
#include "decode/lib/packet/pt_packet.h"
#include "decode/lib/sideband/sideband.h"

/* cut: where a stream can be cut, and what time it is there. */

/* The TSC of a PSB+; false: it has none. */
static bool find_tsc(const uint8_t *psb, const uint8_t *end, uint64_t *tsc)
{
	struct ptpkt pkt;
	int n;

	for (; (n = ptpkt_decode(psb, end, &pkt)) > 0; psb += n) {
		if (pkt.type == PTPKT_TSC) {
			*tsc = pkt.payload;
			return true;
		}
		if (pkt.type == PTPKT_PSBEND)
			return false;
	}
	return false;
}

/* A PSB that lies in two pieces is not seen: the cut is wider then. */
static bool next_psb(struct cut_points *it, struct cut_point *point)
{
	for (; it->i < it->q->n_pieces; it->i++, it->p = NULL) {
		const struct piece *pc = &it->q->pieces[it->i];
		const uint8_t *end = pc->data + pc->len, *psb;
		uint64_t tsc;

		psb = ptpkt_find_psb(it->p ? it->p : pc->data, end);
		for (; psb; psb = ptpkt_find_psb(psb + PTPKT_PSB_SIZE, end)) {
			if (!find_tsc(psb, end, &tsc))
				continue;
			it->p = psb + PTPKT_PSB_SIZE;
			point->offset = pc->offset + (uint64_t)(psb - pc->data);
			point->time = clock_to_ns(
				timeline_clock(session_timeline(it->s)), tsc);
			return true;
		}
	}
	return false;
}

/* The trace of an AUX record was made after the record before it. */
static bool next_mark(struct cut_points *it, struct cut_point *point)
{
	const struct queue *q = it->q;

	if (q->rebased)
		return false;
	while (it->i < q->n_marks) {
		const struct aux_mark *m = &q->marks[it->i++];

		if (m->flags & PERF_AUX_FLAG_OVERWRITE || !m->size)
			continue;
		point->offset = m->offset;
		point->time = it->i > 1 ? q->marks[it->i - 2].time : 0;
		return true;
	}
	return false;
}

static bool cut_points_next(struct cut_points *it, struct cut_point *point)
{
	return session_chunks(it->s)->trace_type == AUX_TRACE_INTEL_PT ?
		       next_psb(it, point) : next_mark(it, point);
}

/* False behind the last one. */
static uint64_t cut_stream_start(const struct queue *q)
{
	return q->n_pieces ? q->pieces[0].offset : 0;
}

static uint64_t cut_stream_end(const struct queue *q)
{
	const struct piece *last = q->pieces + q->n_pieces - 1;

	return q->n_pieces ? last->offset + last->len : 0;
}

/*
 * cut: from times to spans of a stream, in one walk over its sync points.
 *
 * Before a time wanted the walk remembers the last point; in it, it waits for
 * the first point behind it, then for the next one, where the span ends unless
 * another time has begun meanwhile.
 */

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

/* the spans of a queue for times wanted, by time. */
static int cut_plan_queue(struct cut *c, struct cut_queue *q,
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

#define LAST_KERNEL_TYPE 22

/* ---- times ---- */

struct times {
	struct cut_span *v;
	size_t n, cap;
};

static int add_time(struct times *t, uint64_t from, uint64_t to)
{
	if (from > to)
		return 0;
	if (array_grow(&t->v, t->n, &t->cap, sizeof(*t->v)) < 0)
		return -AUX_E_NOMEM;
	t->v[t->n++] = (struct cut_span){ from, to };
	return 0;
}

/* When the thread ran on a CPU. */
static int add_runs(const struct cut *c, uint32_t cpu, struct times *t)
{
	const struct cut_wanted *want = &c->wanted;
	uint64_t at = want->time_from;
	int rc = 0;

	while (rc == 0 && at <= want->time_to) {
		struct who w = timeline_who(session_timeline(c->s), cpu, at);
		uint64_t to = w.until < want->time_to ? w.until :
							want->time_to;

		if (w.tid == (uint32_t)want->tid)
			rc = add_time(t, at, to);
		if (w.until == UINT64_MAX || w.until <= at)
			break;
		at = w.until;
	}
	return rc;
}

static bool is_wanted(const struct cut *c, const struct queue *q)
{
	const struct cut_wanted *want = &c->wanted;

	if (want->cpu >= 0 && q->cpu >= 0 && q->cpu != want->cpu)
		return false;
	return want->tid < 0 || q->cpu >= 0 || q->tid < 0 ||
	       q->tid == want->tid ||
	       timeline_stream(session_timeline(c->s), q->idx, UINT64_MAX).tid ==
		       (uint32_t)want->tid;
}

static int plan_queue(struct cut *c, struct cut_queue *q)
{
	const struct cut_wanted *want = &c->wanted;
	struct times t = { 0 };
	int rc;

	if (!is_wanted(c, q->q))
		return 0;
	if (want->tid >= 0 && q->q->cpu >= 0 && session_is_timed(c->s))
		rc = add_runs(c, (uint32_t)q->q->cpu, &t);
	else
		rc = add_time(&t, want->time_from, want->time_to);
	if (rc == 0)
		rc = cut_plan_queue(c, q, t.v, t.n);
	free(t.v);
	return rc;
}

/* ---- who ran before ---- */

/* A switch, as SWITCH or as a sample of sched_switch. */
static bool is_switch(const struct aux_event *ev)
{
	if (ev->type == PERF_RECORD_SAMPLE)
		return ev->attr && ev->attr->name &&
		       strstr(ev->attr->name, "sched_switch");
	return ev->type == PERF_RECORD_SWITCH ||
	       ev->type == PERF_RECORD_SWITCH_CPU_WIDE;
}

static bool has_time(const struct aux_event *ev)
{
	return ev->type && ev->type <= LAST_KERNEL_TYPE &&
	       ev->id.present & PERF_SAMPLE_TIME && ev->id.time;
}

static int note_switch(struct cut *c, const struct aux_event *ev,
		       uint64_t number)
{
	struct cut_switch s = { ev->id.cpu, ev->id.time, number };

	if (!has_time(ev) || !(ev->id.present & PERF_SAMPLE_CPU) ||
	    s.time >= c->from_ns)
		return 0;
	for (size_t i = 0; i < c->n_first; i++) {
		if (c->first[i].cpu != s.cpu)
			continue;
		if (s.time >= c->first[i].time)
			c->first[i] = s;
		return 0;
	}
	if (array_grow(&c->first, c->n_first, &c->cap_first, sizeof(s)) < 0)
		return -AUX_E_NOMEM;
	c->first[c->n_first++] = s;
	return 0;
}

static int find_first(struct cut *c)
{
	struct aux_event ev;
	uint64_t number = 0;
	int rc = 0;

	if (!c->from_ns)
		return 0;
	aux_reader_rewind(session_reader(c->s));
	while (rc == 0 && aux_reader_next(session_reader(c->s), &ev, NULL) > 0) {
		if (is_switch(&ev))
			rc = note_switch(c, &ev, ++number);
	}
	return rc;
}

/* ---- the plan ---- */

/* Intel PT tells its times itself; of all else the AUX records have some. */
static bool has_times(const struct cut *c)
{
	const struct chunks *ch = session_chunks(c->s);

	for (size_t i = 0; ch->trace_type != AUX_TRACE_INTEL_PT && i < ch->n;
	     i++)
		if (ch->queues[i].n_marks && ch->queues[i].marks[0].time)
			return true;
	return session_is_timed(c->s);
}

static int check(const struct cut *c, struct aux_diag *diag)
{
	const struct cut_wanted *want = &c->wanted;

	for (size_t i = 0; i < session_chunks(c->s)->n; i++) {
		if (session_chunks(c->s)->queues[i].sampled)
			return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
					"its trace is in samples, which are "
					"not cut");
	}
	if (has_times(c) || (!want->time_from && want->time_to == UINT64_MAX))
		return 0;
	return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			"its trace has no times that its records share: only "
			"--cpu and --tid can cut it");
}

static int plan(struct cut *c, struct aux_diag *diag)
{
	const struct chunks *chunks = session_chunks(c->s);
	int rc = check(c, diag);

	if (rc < 0)
		return rc;
	c->queues = calloc(chunks->n ? chunks->n : 1, sizeof(*c->queues));
	if (!c->queues)
		return -AUX_E_NOMEM;
	c->n = chunks->n;
	c->from_ns = UINT64_MAX;
	for (size_t i = 0; rc == 0 && i < c->n; i++) {
		c->queues[i].q = &chunks->queues[i];
		rc = plan_queue(c, &c->queues[i]);
	}
	if (rc == 0 && !cut_stats(c).n_bytes)
		return diag_set(diag, AUX_E_NOENT, AUX_NO_OFFSET,
				"no trace is left: nothing was recorded there; "
				"`auxdecode info` shows what there is");
	return rc == 0 ? find_first(c) : rc;
}

int cut_new(struct cut **out, struct session *s, const struct cut_wanted *wanted,
	    struct aux_diag *diag)
{
	struct cut *c = calloc(1, sizeof(*c));
	int rc = -AUX_E_NOMEM;

	*out = NULL;
	if (c) {
		c->s = s;
		c->wanted = *wanted;
		rc = plan(c, diag);
	}
	if (rc < 0) {
		cut_free(c);
		return rc == -AUX_E_NOMEM ?
			       diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
					"out of memory") : rc;
	}
	*out = c;
	return 0;
}

void cut_free(struct cut *c)
{
	if (!c)
		return;
	for (size_t i = 0; c->queues && i < c->n; i++)
		free(c->queues[i].kept);
	free(c->queues);
	free(c->first);
	free(c);
}

struct cut_stats cut_stats(const struct cut *c)
{
	struct cut_stats st = { .n_all = session_chunks(c->s)->aux_bytes };

	for (size_t i = 0; i < c->n; i++)
		for (size_t k = 0; k < c->queues[i].n; k++)
			st.n_bytes += c->queues[i].kept[k].to -
				      c->queues[i].kept[k].from;
	return st;
}
