/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cut: decides which records are kept, and writes the trace as AUXTRACE records.
 *
 * If any stream has several spans, each is written as a snapshot: a decoder then
 * starts anew at each, instead of reporting the bytes between them as lost.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/edit/impl.h"

/* ---- records ---- */

/*
 * True if the bytes of a record, [from, end) of the stream, are kept. A record
 * that crosses the start of a span is kept, one that crosses its end is not. An empty
 * record (from == end) stands for the place itself.
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
 * True if the AUX record is among the marks that the queue was built with: the same
 * offset, size, flags and time. Marks are sorted by offset.
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
 * Snapshot records are made anew by write_snapshot; a loss is kept if its place is, and
 * if its stream or place is unknown; auxkit's other records are kept.
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
	uint64_t number = cut_is_switch(ev) ? ++c->n_switches : 0;

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
 * Announces a snapshot: the one of the input that the piece belongs to (number from 1),
 * or one that stands for the cut. Snapshots are numbered anew.
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
	if (!b.oom)
		rewrite_own(st->w, AUX_OWN_SNAPSHOT, b.data, b.len);
	free(b.data);
}

/* [from, to) of a piece, at its old offset in the stream: losses and marks keep theirs. */
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
