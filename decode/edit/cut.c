/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cut: decides which bytes of each stream and which records to keep, and writes them.
 *
 * A decode of the cut, with the filter that it was cut for, must show what a decode of
 * the whole shows. This takes
 * - trace from a sync point at or before the wanted time (a decoder cannot start
 *   anywhere else) to the second sync point after it, so that what is before the first
 *   of these two is decoded with the same packets after it as in the whole;
 * - all records of tasks and mappings from the start of the file, since state
 *   accumulates, up to the end of the kept time;
 * - context switches of the kept time, and the last one of each CPU before it.
 */
#include <stdlib.h>
#include <string.h>

#include <aux/decoder.h>

#include "common/array.h"
#include "common/diag.h"
#include "decode/edit/edit.h"
#include "decode/lib/packet/packet.h"
#include "decode/lib/sideband/sideband.h"
#include "decode/lib/trace/trace.h"
#include "perfdata/perfdata.h"

/* [from, to): byte offsets in a stream, or times in ns. */
struct cut_span {
	uint64_t from, to;
};

struct cut_queue {
	const struct queue *q;
	struct cut_span *kept;	/* byte offsets; ascending and disjoint */
	size_t n, cap;
};

/*
 * The last context switch of a CPU before from_ns: without it a decode of the
 * cut would not know which thread that CPU runs first. number counts the
 * switches of the file from 1, in file order.
 */
struct cut_switch {
	uint32_t cpu;
	uint64_t time, number;
};

struct cut {
	struct session *s;
	struct cut_wanted wanted;
	struct cut_queue *queues;
	size_t n;
	bool several;		/* some stream has more than one span */
	uint64_t from_ns, to_ns; /* time covered by the spans of all streams */
	struct cut_switch *first;	/* one for each CPU, unordered */
	size_t n_first, cap_first;
	uint64_t n_switches;	/* that cut_keep has seen so far */
};

/* ---- Sync points: where a decoder can start, and the time there ---- */

struct cut_point {
	uint64_t offset;	/* in the stream */
	uint64_t time;		/* ns */
};

/* Walks the sync points of a stream, in the order of offsets. */
struct cut_points {
	const struct session *s;
	const struct queue *q;
	size_t i;		/* piece (Intel PT), or AUX record (all else) */
	const uint8_t *p;	/* in the piece; NULL: at its start */
};

/*
 * The TSC of a PSB+ (SDM vol. 3, "Packet Generation: PSB+"), which precedes its
 * PSBEND. False if it has none: then the PSB tells no time and is no cut point.
 */
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

/*
 * The next PSB with a time. A PSB that crosses the border of two pieces is
 * missed, which only makes the cut wider.
 */
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

/*
 * All traces but Intel PT: the start of each AUX record, since the times in the trace
 * itself would take a decoder to find.
 * The record's own time is that of its end, so the earliest time of its trace is the
 * time of the record before it. Overwritten (snapshot) buffers have no such order,
 * and offsets of a rebased queue do not match the records'.
 */
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

/* False after the last one. */
static bool cut_points_next(struct cut_points *it, struct cut_point *point)
{
	return session_chunks(it->s)->trace_type == AUX_TRACE_INTEL_PT ?
		       next_psb(it, point) : next_mark(it, point);
}

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
 * ---- From wanted times to spans of bytes ----
 *
 * One walk over the sync points of a stream. BEFORE a wanted time the walk
 * remembers the last point, where a span would start. WITHIN, it waits for the
 * first point after the end of the time. PAST_END, the next point ends the
 * span, unless another wanted time starts before it: then both share the span.
 */

enum state { BEFORE, WITHIN, PAST_END };

struct walk {
	struct cut *c;
	struct cut_queue *q;
	const struct cut_span *times;
	size_t n, i;		/* times[i] is the next that has not started */
	enum state state;
	struct cut_point last;	/* the point before this one */
	uint64_t from;		/* offset at which the open span starts */
	uint64_t until;		/* ns: end of the wanted times in it */
};

/* Ends the open span at offset to; to_ns is the time there. */
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

/* Wanted times that start before ns belong to the open span. */
static void extend_span(struct walk *w, uint64_t ns)
{
	while (w->i < w->n && w->times[w->i].from < ns) {
		if (w->times[w->i].to > w->until)
			w->until = w->times[w->i].to;
		w->i++;
	}
}

/* Starts a span at the point before, which is not later than the wanted
 * time. */
static void open_span(struct walk *w)
{
	w->from = w->last.offset;
	w->until = 0;
	w->state = WITHIN;
	if (w->last.time < w->c->from_ns)
		w->c->from_ns = w->last.time;
}

/* Advances the state by one sync point. 0, or -AUX_E_NOMEM. */
static int handle_point(struct walk *w, const struct cut_point *p)
{
	bool begins = w->i < w->n && w->times[w->i].from < p->time;
	int rc = 0;

	if (w->state == PAST_END && !begins) {
		rc = add_span(w, p->offset, p->time);
		w->state = BEFORE;
	} else if (w->state == PAST_END) {
		w->state = WITHIN;
	} else if (w->state == BEFORE && begins) {
		open_span(w);
	}
	if (w->state == WITHIN) {
		extend_span(w, p->time);
		if (p->time > w->until)
			w->state = PAST_END;
	}
	w->last = *p;
	return rc;
}

/* Sets q->kept for n wanted times, which are sorted. */
static int plan_spans(struct cut *c, struct cut_queue *q,
		      const struct cut_span *times, size_t n)
{
	struct walk w = { .c = c, .q = q, .times = times, .n = n,
			  .last = { cut_stream_start(q->q), 0 } };
	struct cut_points it = { .s = c->s, .q = q->q };
	struct cut_point p;
	int rc = 0;

	while (rc == 0 && (w.state != BEFORE || w.i < n) &&
	       cut_points_next(&it, &p))
		rc = handle_point(&w, &p);
	/* The bytes after the last point have no known end: keep them. */
	if (rc == 0 && w.state == BEFORE && w.i < n)
		open_span(&w);
	if (rc == 0 && w.state != BEFORE)
		rc = add_span(&w, cut_stream_end(q->q), UINT64_MAX);
	return rc;
}

/* ---- Which times are wanted of a stream ---- */

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

/*
 * The times at which the wanted thread ran on a CPU, for traces of a whole CPU.
 * The timeline answers with the task at a time and until when that holds.
 */
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

/*
 * A stream of a CPU is wanted for any thread (add_runs selects its times); a
 * stream of a thread only for that thread. A stream's thread may be known to
 * the timeline alone.
 */
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
		rc = plan_spans(c, q, t.v, t.n);
	free(t.v);
	return rc;
}

/* ---- The last context switch before the cut ---- */

/* True for a context switch, either PERF_RECORD_SWITCH(_CPU_WIDE) or a sample
 * of the tracepoint sched:sched_switch. */
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

/* Remembers ev if it is the latest switch of its CPU before the kept time. */
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

/*
 * Fills c->first. cut_keep sees the same records in the same order and counts
 * switches in the same way, so a number identifies a record.
 */
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

/*
 * False if nothing dates the trace. Intel PT has TSC packets; for the others
 * the times of AUX records serve.
 */
static bool has_times(const struct cut *c)
{
	const struct chunks *ch = session_chunks(c->s);

	for (size_t i = 0; ch->trace_type != AUX_TRACE_INTEL_PT && i < ch->n;
	     i++)
		if (ch->queues[i].n_marks && ch->queues[i].marks[0].time)
			return true;
	return session_is_timed(c->s);
}

/*
 * Refuses what cannot be cut: trace in samples (AUX_SAMPLE) is bound to its
 * sample, and a time range needs times.
 */
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

/*
 * ---- writing ----
 *
 * Decides which records are kept, and writes the trace as AUXTRACE records.
 *
 * If any stream has several spans, each is written as a snapshot: a decoder
 * then starts anew at each, instead of reporting the bytes between them as
 * lost.
 */

/* ---- records ---- */

/*
 * True if the bytes of a record, [from, end) of the stream, are kept. A record
 * that crosses the start of a span is kept, one that crosses its end is not. An
 * empty record (from == end) stands for the place itself.
 */
static bool is_kept(const struct cut_queue *q, uint64_t from, uint64_t end)
{
	for (size_t i = 0; i < q->n; i++) {
		const struct cut_span *s = &q->kept[i];

		if (end > s->from && end <= s->to)
			return true;
		if (from == end && from >= s->from && from < s->to)
			return true;
	}
	return false;
}

/*
 * True if the AUX record is among the marks that the queue was built with: the
 * same offset, size, flags and time. Marks are sorted by offset.
 */
static bool has_mark(const struct queue *q, const struct aux_event *ev,
		     uint64_t time)
{
	size_t lo = 0, n = q->n_marks;

	while (n) {
		if (q->marks[lo + n / 2].offset < ev->aux.offset) {
			lo += n / 2 + 1;
			n -= n / 2 + 1;
		} else {
			n /= 2;
		}
	}
	for (; lo < q->n_marks && q->marks[lo].offset == ev->aux.offset; lo++)
		if (q->marks[lo].size == ev->aux.size &&
		    q->marks[lo].flags == ev->aux.flags &&
		    q->marks[lo].time == time)
			return true;
	return false;
}

static bool keep_aux(const struct cut *c, const struct aux_event *ev)
{
	uint64_t time = ev->id.present & PERF_SAMPLE_TIME ? ev->id.time : 0;

	for (size_t i = 0; i < c->n; i++) {
		const struct cut_queue *q = &c->queues[i];

		if (q->n && !q->q->rebased && has_mark(q->q, ev, time) &&
		    is_kept(q, ev->aux.offset, ev->aux.offset + ev->aux.size))
			return true;
	}
	return false;
}

/*
 * Snapshot records are made anew by write_snapshot; a loss is kept if its place
 * is, and if its stream or place is unknown; auxkit's other records are kept.
 */
static bool keep_own(const struct cut *c, const struct aux_event *ev)
{
	const struct aux_own_loss *l = &ev->own.loss;

	if (ev->own.kind == AUX_OWN_SNAPSHOT)
		return false;
	if (ev->own.kind != AUX_OWN_LOSS || l->offset == UINT64_MAX)
		return true;
	for (size_t i = 0; i < c->n; i++) {
		if (c->queues[i].q->idx == l->idx)
			return is_kept(&c->queues[i], l->offset, l->offset);
	}
	return true;
}

/* True if trace of the CPU of ev, or of some thread on any CPU, is kept. */
static bool cpu_kept(const struct cut *c, const struct aux_event *ev)
{
	if (!(ev->id.present & PERF_SAMPLE_CPU))
		return true;
	for (size_t i = 0; i < c->n; i++) {
		int32_t cpu = c->queues[i].q->cpu;

		if (c->queues[i].n && (cpu < 0 || (uint32_t)cpu == ev->id.cpu))
			return true;
	}
	return false;
}

/* Switches of the kept time, and the last one of each CPU before it. */
static bool keep_switch(const struct cut *c, const struct aux_event *ev,
			uint64_t number)
{
	if (!cpu_kept(c, ev))
		return false;
	if (ev->id.time >= c->from_ns)
		return true;
	for (size_t i = 0; i < c->n_first; i++)
		if (c->first[i].number == number)
			return true;
	return false;
}

/*
 * Records that describe a moment. All others (MMAP, COMM, FORK, ...) change
 * the state of later times and are kept from the start of the file.
 */
static bool is_momentary(uint32_t type)
{
	return type == PERF_RECORD_SAMPLE || type == PERF_RECORD_READ ||
	       type == PERF_RECORD_LOST || type == PERF_RECORD_LOST_SAMPLES ||
	       type == PERF_RECORD_THROTTLE || type == PERF_RECORD_UNTHROTTLE;
}

bool cut_keep(void *priv, const struct aux_event *ev)
{
	struct cut *c = priv;
	uint64_t number = is_switch(ev) ? ++c->n_switches : 0;

	if (ev->type == PERF_RECORD_AUX)
		return keep_aux(c, ev);
	if (ev->type == AUX_RECORD_EVENT_TYPE)
		return keep_own(c, ev);
	if (!ev->type || ev->type > LAST_KERNEL_TYPE ||
	    !(ev->id.present & PERF_SAMPLE_TIME) || !ev->id.time)
		return true;
	if (ev->id.time > c->to_ns)
		return false;
	if (number)
		return keep_switch(c, ev, number);
	return !is_momentary(ev->type) ||
	       (ev->id.time >= c->from_ns && cpu_kept(c, ev));
}

/* ---- trace ---- */

struct writer_state {
	const struct cut *c;
	struct rewrite *w;
	bool snapshots;		/* each span, and each snapshot, is one */
	uint64_t number;
};

/*
 * Announces a snapshot: the one of the input that the piece belongs to (number
 * from 1), or one that stands for the cut. Snapshots are numbered anew.
 */
static void write_snapshot(struct writer_state *st, uint32_t snapshot)
{
	const struct chunks *ch = session_chunks(st->c->s);
	const struct snapshot *from = snapshot && snapshot <= ch->n_snapshots ?
					      &ch->snapshots[snapshot - 1] :
					      NULL;
	struct rewrite_bytes b = {
		.swap = aux_reader_info(session_reader(st->c->s))->swapped,
	};
	uint32_t len = from ? (uint32_t)from->label.len : 0;

	rewrite_bytes_u64(&b, ++st->number);
	rewrite_bytes_u64(&b, from ? from->time_ns : 0);
	rewrite_bytes_u32(&b, from && from->reason ? from->reason :
						     AUX_SNAPSHOT_CUT);
	rewrite_bytes_u32(&b, len);
	if (len)
		rewrite_bytes_put(&b, from->label.data, len);
	rewrite_own_bytes(st->w, AUX_OWN_SNAPSHOT, &b);
	free(b.data);
}

/* [from, to) of a piece, at its old offset in the stream: losses and marks keep
 * theirs. */
static void write_part(struct writer_state *st, const struct queue *q,
		       const struct piece *p, uint64_t from, uint64_t to)
{
	const struct aux_rec_auxtrace h = {
		.offset = from,
		.reference = p->reference,
		.idx = q->idx,
		.tid = (uint32_t)q->tid,
		.cpu = (uint32_t)q->cpu,
	};

	rewrite_auxtrace(st->w, &h, p->data + (from - p->offset), to - from);
}

static void write_span(struct writer_state *st, const struct queue *q,
		       const struct cut_span *s)
{
	uint32_t snapshot = UINT32_MAX;

	for (size_t i = 0; i < q->n_pieces; i++) {
		const struct piece *p = &q->pieces[i];
		uint64_t from = p->offset > s->from ? p->offset : s->from;
		uint64_t end = p->offset + p->len;
		uint64_t to = end < s->to ? end : s->to;

		if (from >= to)
			continue;
		if (st->snapshots && snapshot != p->snapshot)
			write_snapshot(st, p->snapshot);
		snapshot = p->snapshot;
		write_part(st, q, p, from, to);
	}
}

void cut_write_trace(const struct cut *c, struct rewrite *w)
{
	const struct chunks *ch = session_chunks(c->s);
	struct writer_state st = { .c = c, .w = w,
				   .snapshots = c->several || ch->n_snapshots ||
						ch->snapshot_mode };

	for (size_t i = 0; i < c->n; i++)
		for (size_t k = 0; k < c->queues[i].n; k++)
			write_span(&st, c->queues[i].q, &c->queues[i].kept[k]);
}
