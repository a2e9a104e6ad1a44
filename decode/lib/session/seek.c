/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * seek: where each stream begins and ends for what was asked: a time, or chunks
 * by number. Outside that nothing is decoded, and little of the file is read.
 *
 * In Intel PT the PSB+ at a cut tells its time, and where the cuts are does not
 * depend on what is before them (chunk_iter_find): a binary search over cells
 * finds the first one. That needs times that never go back; where they do (a
 * recording repeated or merged) all is decoded and the filter alone decides.
 * CoreSight goes by its AUX records. Times inside a chunk may be estimates that
 * segment ahead of those of the next, so decoding begins MARGIN_NS and two
 * cells early: the filter drops the surplus, and the flow is the same as
 * without seeking.
 */
#include <stdlib.h>

#include "common/diag.h"

#include "decode/lib/packet/packet.h"
#include "decode/lib/session/impl.h"

#define MARGIN_NS 50000
#define PROBES	  32 /* to see whether times go back */
#define TRIES	  64 /* cuts in a row that tell no time */
#define TAIL	  ((uint64_t)64 << 10) /* looked at for the last time, at first */
#define TAIL_MAX  ((uint64_t)64 << 20)

struct search {
	struct chunk_iter it;
	const struct aux_clock *clock;
	uint64_t *before; /* cells before each segment, and of all */
	uint64_t n; /* cells */
};

struct dated {
	struct chunk_place place;
	uint64_t ns;
};

static int open_search(struct search *se, struct session *s,
		       const struct stream *st)
{
	const struct queue *q = st->q;

	*se = (struct search){ .clock = &s->dec_config.clock };
	chunk_iter_init(&se->it, q, s->chunks.trace_type, s->config.chunk_min);
	se->it.errata = ptpkt_errata(&s->dec_config.pt);
	se->before = calloc(q->n_segments + 1, sizeof(*se->before));
	if (!se->before)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < q->n_segments; i++) {
		se->before[i] = se->n;
		se->n += chunk_iter_cells(&se->it, &q->segments[i]);
	}
	se->before[q->n_segments] = se->n;
	return 0;
}

static void close_search(struct search *se)
{
	chunk_iter_fini(&se->it);
	free(se->before);
}

/* The segment that has a cell; the cell is below se->n. */
static size_t find_segment(const struct search *se, uint64_t cell)
{
	size_t lo = 0, hi = se->it.q->n_segments;

	while (lo + 1 < hi) { /* the last with so few before it */
		size_t mid = lo + (hi - lo) / 2;

		if (se->before[mid] <= cell)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

/* The first cut from a cell on with a time. 1, or 0: there is none;
 * -AUX_E_UNSUPPORTED: TRIES in a row had none. */
static int find_dated(struct search *se, uint64_t cell, struct dated *d)
{
	for (unsigned i = 0; cell < se->n; i++) {
		size_t segment = find_segment(se, cell);
		int rc = chunk_iter_find(&se->it, segment,
					 cell - se->before[segment], &d->place);

		if (rc < 0)
			return rc;
		if (rc && d->place.start.has_tsc) {
			d->ns = aux_clock_ns(se->clock, d->place.start.tsc);
			return 1;
		}
		if (i == TRIES)
			return -AUX_E_UNSUPPORTED;
		cell = se->before[segment + 1];
		if (rc)
			cell = se->before[segment] + 1 +
			       (d->place.cut.at -
				se->it.q->segments[segment].offset) /
				       se->it.chunk_min;
	}
	return 0;
}

/* Do the times of the AUX records go back? */
static bool marks_go_back(const struct queue *q)
{
	uint64_t last = 0;

	for (size_t i = 0; i < q->n_marks; i++) {
		if (q->marks[i].time && q->marks[i].time < last)
			return true;
		if (q->marks[i].time)
			last = q->marks[i].time;
	}
	return false;
}

/* -AUX_E_UNSUPPORTED: times go back, or are unknown, as PROBES of them show. */
static int check_order(struct search *se)
{
	uint64_t last = 0, step = se->n / PROBES ? se->n / PROBES : 1;
	struct dated d;
	int rc;

	if (marks_go_back(se->it.q))
		return -AUX_E_UNSUPPORTED;
	for (uint64_t cell = 0; cell < se->n; cell += step) {
		rc = find_dated(se, cell, &d);
		if (rc <= 0)
			return rc;
		if (d.ns < last)
			return -AUX_E_UNSUPPORTED;
		last = d.ns;
	}
	return 0;
}

/* Binary search for the first cell whose cut is at ns or later; se->n: there is
 * none. */
static int find_time(struct search *se, uint64_t ns, uint64_t *cell)
{
	uint64_t lo = 0, hi = se->n, mid;
	struct dated d;
	int rc;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		rc = find_dated(se, mid, &d);
		if (rc < 0)
			return rc;
		if (rc && d.ns < ns)
			lo = mid + 1;
		else
			hi = mid;
	}
	*cell = lo;
	return 0;
}

/*
 * Back to a cell at which a decoder that comes from the start begins a chunk
 * too: it does after a cell that contains its own cut. With cells of few PSBs
 * there may be none near; then only estimated times may differ.
 */
static int meet_grid(struct search *se, uint64_t *cell)
{
	struct chunk_place place;
	uint64_t at = *cell;

	for (unsigned i = 0; at && i < TRIES; i++, at--) {
		size_t segment = find_segment(se, at);
		const struct segment *r = &se->it.q->segments[segment];
		uint64_t k = at - se->before[segment];
		int rc = 1;

		if (k > 1)
			rc = chunk_iter_find(&se->it, segment, k - 1, &place);
		if (rc < 0)
			return rc;
		if (k < 2 ||
		    (rc &&
		     (place.cut.at - r->offset) / se->it.chunk_min == k - 1)) {
			*cell = at;
			return 0;
		}
	}
	if (!at)
		*cell = 0;
	return 0;
}

/* Narrows the span to a time; leaves it as it is where the times do not allow
 * that. */
static int seek_time(struct search *se, uint64_t from, uint64_t to,
		     struct chunk_span *span)
{
	struct dated first = { 0 }, end = { .place = span->end };
	uint64_t cell = 0;
	int rc = check_order(se);

	if (rc == 0 && from > MARGIN_NS)
		rc = find_time(se, from - MARGIN_NS, &cell);
	cell -= cell > 2 ? 2 : cell;
	if (rc == 0)
		rc = meet_grid(se, &cell);
	if (rc == 0 && cell)
		rc = find_dated(se, cell, &first);
	if (rc >= 0 && to != UINT64_MAX) {
		rc = find_time(se, to + 1, &cell);
		if (rc == 0)
			rc = find_dated(se, cell, &end);
		if (rc == 0)
			end.place = span->end;
	}
	if (rc >= 0)
		*span = (struct chunk_span){ first.place, end.place };
	return rc == -AUX_E_UNSUPPORTED || rc > 0 ? 0 : rc;
}

/* Chunks by number, with the gaps between them. */
static int seek_chunks(struct search *se, uint64_t from, uint64_t to,
		       struct chunk_span *span)
{
	const struct queue *q = se->it.q;
	uint64_t last = to < se->n ? to : se->n - 1;
	int rc = 0;

	*span = (struct chunk_span){ .first = { .segment = q->n_segments },
				     .end = { .segment = SIZE_MAX } };
	while (!rc && from <= to && from < se->n) {
		size_t segment = find_segment(se, from);

		rc = chunk_iter_find(&se->it, segment,
				     from - se->before[segment], &span->first);
		from = se->before[segment + 1]; /* it has no more cuts */
	}
	if (rc <= 0) {
		span->first = (struct chunk_place){ .segment = q->n_segments };
		return rc;
	}
	span->end.segment = find_segment(se, last);
	rc = 0;
	if (last + 1 < se->before[span->end.segment + 1])
		rc = chunk_iter_find(&se->it, span->end.segment,
				     last + 1 - se->before[span->end.segment],
				     &span->end);
	if (!rc)
		span->end = (struct chunk_place){
			.segment = find_segment(se, last),
			.cut = { .at = q->segments[find_segment(se, last)]
					       .end },
		};
	return rc < 0 ? rc : 0;
}

/* ---- CoreSight ---- */

static const struct aux_mark *mark_of(const struct queue *q, size_t segment)
{
	return q->segments[segment].mark
		       ? &q->marks[q->segments[segment].mark - 1]
		       : NULL;
}

/* Whole segments; two early, for a record without a time has that of the one
 * before. */
static void seek_records(const struct queue *q, uint64_t from, uint64_t to,
			 struct chunk_span *span)
{
	size_t i, last[2] = { 0, 0 };

	if (marks_go_back(q))
		return;
	for (i = 0; i < q->n_segments; i++) {
		const struct aux_mark *m = mark_of(q, i);

		if (q->segments[i].gap)
			continue;
		if (!m || !m->time || m->time + MARGIN_NS >= from)
			break;
		last[0] = last[1];
		last[1] = i;
	}
	span->first.segment = last[0];
	for (; i < q->n_segments && to < UINT64_MAX - MARGIN_NS; i++) {
		const struct aux_mark *m = mark_of(q, i);

		if (m > q->marks && m[-1].time > to + MARGIN_NS) {
			span->end.segment = i;
			return;
		}
	}
}

static void seek_source(struct session *s, const struct stream *st,
			struct search *se, struct chunk_span *span)
{
	const struct session_config *c = &s->config;
	uint64_t n = se->n;

	if (!c->chunks) {
		seek_records(st->q, c->time_from, c->time_to, span);
		return;
	}
	span->first.segment = c->chunk_from < n
				      ? find_segment(se, c->chunk_from)
				      : st->q->n_segments;
	if (c->chunk_to < n)
		span->end.segment = find_segment(se, c->chunk_to) + 1;
}

/* ---- all ---- */

/* Is there anything to seek for? */
static bool is_asked(const struct session_config *c)
{
	return c->chunks ||
	       (!c->no_seek && (c->time_from || c->time_to != UINT64_MAX));
}

int session_seek(struct session *s, size_t i)
{
	const struct session_config *c = &s->config;
	const struct stream *st = &s->streams[i];
	struct chunk_span *span = &s->spans[i];
	struct search se;
	int rc;

	*span = (struct chunk_span){ .end = { .segment = SIZE_MAX } };
	if (!is_asked(c))
		return 0;
	rc = open_search(&se, s, st);
	if (rc == 0 && st->source)
		seek_source(s, st, &se, span);
	else if (rc == 0 && c->chunks)
		rc = seek_chunks(&se, c->chunk_from, c->chunk_to, span);
	else if (rc == 0 && s->timed &&
		 s->chunks.trace_type == AUX_TRACE_INTEL_PT)
		rc = seek_time(&se, c->time_from, c->time_to, span);
	close_search(&se);
	return rc;
}

uint64_t session_span_bytes(const struct session *s, size_t i)
{
	const struct stream *st = &s->streams[i];
	const struct chunk_span *span = &s->spans[i];
	uint64_t all = 0, n = 0, from, to;

	for (size_t k = 0; k < st->q->n_segments; k++) {
		const struct segment *segment = &st->q->segments[k];

		if (segment->gap)
			continue;
		all += segment->end - segment->offset;
		if (k < span->first.segment || k > span->end.segment)
			continue;
		from = k == span->first.segment && span->first.cut.at
			       ? span->first.cut.at
			       : segment->offset;
		to = k == span->end.segment ? span->end.cut.at : segment->end;
		n += to > from ? to - from : 0;
	}
	if (!st->source || !all)
		return n;
	/* the segments are of all sources */
	return (uint64_t)((double)st->source->n_bytes * (double)n /
			  (double)all);
}

/* ---- the end of the recording ---- */

/* The last TSC of a segment, in ns; 0: there is none. Looks at ever more of its
 * end. */
static uint64_t find_end(struct search *se, const struct segment *segment)
{
	uint64_t len = segment->end - segment->offset, n = TAIL / 2, first,
		 last, at;

	do {
		n = n < len / 2 ? 2 * n : len;
		at = segment->end - n;
		se->it.piece = segment->piece;
		if (chunk_iter_bytes(&se->it, at, n) < 0)
			return 0;
		if (chunks_tsc_span(se->it.chunk.data, se->it.chunk.data + n,
				    &first, &last))
			return aux_clock_ns(se->clock, last);
	} while (n < len && n < TAIL_MAX);
	return 0;
}

static int find_stream_end(struct session *s, const struct stream *st,
			   uint64_t *end)
{
	const struct queue *q = st->q;
	struct search se;
	uint64_t ns = 0;
	int rc = open_search(&se, s, st);

	for (size_t k = q->n_segments;
	     rc == 0 && k-- && !ns && s->timed &&
	     s->chunks.trace_type == AUX_TRACE_INTEL_PT;)
		if (!q->segments[k].gap)
			ns = find_end(&se, &q->segments[k]);
	for (size_t k = 0; k < q->n_marks; k++)
		if (q->marks[k].time > ns)
			ns = q->marks[k].time;
	if (ns > *end)
		*end = ns;
	close_search(&se);
	return rc;
}

/* The first time that a stream tells, if that is before *begin. -AUX_E_UNSUPPORTED: its
 * times go back. */
static int find_stream_begin(struct session *s, const struct stream *st,
			     uint64_t *begin)
{
	const struct queue *q = st->q;
	uint64_t ns = UINT64_MAX;
	struct dated d = { .ns = 0 };
	struct search se;
	int rc = open_search(&se, s, st);

	if (rc == 0 && s->timed && s->chunks.trace_type == AUX_TRACE_INTEL_PT) {
		rc = check_order(&se);
		if (rc == 0 && find_dated(&se, 0, &d) > 0)
			ns = d.ns;
	}
	for (size_t k = 0; k < q->n_marks; k++)
		if (q->marks[k].time && q->marks[k].time < ns)
			ns = q->marks[k].time;
	if (ns < *begin)
		*begin = ns;
	close_search(&se);
	return rc;
}

int session_times(struct session *s, uint64_t *from, uint64_t *to)
{
	uint64_t begin = UINT64_MAX, end = 0;

	*from = *to = 0;
	for (size_t i = 0; i < s->n_streams; i++) {
		int rc = find_stream_begin(s, &s->streams[i], &begin);

		if (!rc)
			rc = find_stream_end(s, &s->streams[i], &end);
		if (rc)
			return rc == -AUX_E_UNSUPPORTED ? 0 : rc;
	}
	if (begin > end)
		return 0;
	*from = begin;
	*to = end;
	return 0;
}

int session_find_last(struct session *s, struct aux_diag *diag)
{
	struct session_config *c = &s->config;
	uint64_t end = 0;

	for (size_t i = 0; i < s->n_streams && c->last_ns; i++)
		if (find_stream_end(s, &s->streams[i], &end) < 0)
			return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
					"out of memory");
	if (!c->last_ns || !s->n_streams)
		return 0;
	if (!end)
		return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"nothing in it tells when the trace ends, so "
				"there is no last part of it");
	if (end > c->last_ns && end - c->last_ns > c->time_from)
		c->time_from = end - c->last_ns;
	return 0;
}
