/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chunks: where a stream has to be cut.
 *
 * A run ends where bytes are missing, where an AUX record says that data was
 * dropped, and where the file is cut. Pieces that overlap earlier ones (of two
 * snapshots) lose the common bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "decode/lib/trace/trace.h"
#include "decode/lib/trace/gap.h"
#include "decode/lib/sideband/sideband.h"

#define PAD 8	/* an AUXTRACE payload has less than this of padding */

/* Marks that start before a stream offset. */
static size_t first_mark(const struct queue *q, uint64_t offset)
{
	size_t lo = 0, n = q->n_marks;

	while (n) {
		size_t half = n / 2;

		if (q->marks[lo + half].offset < offset) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo;
}

/* How much of a snapshot is padding, by the place in the ring where its last AUX
 * record ended; 0 also when that cannot be. */
static uint64_t ring_padding(const struct piece *p)
{
	uint64_t size = p->ring_size, end = p->offset + p->len, pad;

	if (!p->len || size < p->len)
		return 0;
	pad = (end % size + size - p->ring_end % size) % size;
	if (pad >= PAD || pad >= p->len)
		return 0;
	for (uint64_t i = p->len - pad; i < p->len; i++)
		if (p->data[i])
			return 0;
	return pad;
}

/* The true length of a piece's payload: without padding. */
static uint64_t true_length(const struct queue *q, size_t i)
{
	const struct piece *p = &q->pieces[i];
	uint64_t len = p->len, best = 0;

	if (p->clipped || p->exact || q->rebased)
		return len;
	if (i + 1 < q->n_pieces && q->pieces[i + 1].offset > p->offset) {
		uint64_t next = q->pieces[i + 1].offset - p->offset;

		if (next <= len && len - next < PAD)
			return next;
	}
	for (size_t j = first_mark(q, p->offset + len); j > 0; j--) {
		const struct aux_mark *m = &q->marks[j - 1];
		uint64_t end = m->offset;

		/* Of an overwritten ring only the end is told. */
		if (!(m->flags & PERF_AUX_FLAG_OVERWRITE))
			end += m->size;
		if (end + PAD < p->offset + len)
			break;
		if (end > p->offset && end - p->offset <= len &&
		    len - (end - p->offset) < PAD && end - p->offset > best)
			best = end - p->offset;
	}
	return best ? best : len - ring_padding(p);
}

/*
 * What p has in common with the one before goes from that one, whose end may be
 * padding; unless it holds all of p, or the file lacks its end.
 */
static void cut_overlap(struct queue *q, size_t *n, struct piece *p)
{
	struct piece *last = &q->pieces[*n - 1];
	uint64_t end = last->offset + last->len, skip;

	if (p->offset >= end)
		return;
	if (p->offset >= last->offset && p->offset + p->len > end &&
	    !last->clipped) {
		q->n_bytes -= end - p->offset;
		last->len = p->offset - last->offset;
		if (!last->len) {
			p->fresh |= last->fresh;
			(*n)--;
		}
		return;
	}
	skip = end - p->offset < p->len ? end - p->offset : p->len;
	p->offset += skip;
	p->data += skip;
	p->file_offset += skip;
	p->len -= skip;
}

/* Takes padding and overlap off the pieces; empty ones go. */
static void trim_pieces(struct queue *q)
{
	size_t n = 0;

	for (size_t i = 0; i < q->n_pieces; i++)
		q->pieces[i].len = true_length(q, i);
	for (size_t i = 0; i < q->n_pieces; i++) {
		struct piece p = q->pieces[i];
		const struct piece *last = n ? &q->pieces[n - 1] : NULL;

		if (p.len > UINT64_MAX - p.offset)
			p.len = UINT64_MAX - p.offset;
		if (last && p.snapshot != last->snapshot &&
		    p.offset > last->offset + last->len)
			p.fresh = true;
		if (last)
			cut_overlap(q, &n, &p);
		if (!p.len && !p.clipped)
			continue;
		q->n_bytes += p.len;
		q->pieces[n++] = p;
	}
	q->n_pieces = n;
}

static int add_run(struct queue *q, struct run run)
{
	if (!run.gap && run.offset == run.end)
		return 0;
	if (array_grow(&q->runs, q->n_runs, &q->cap_runs,
		       sizeof(*q->runs)) < 0)
		return -AUX_E_NOMEM;
	q->runs[q->n_runs++] = run;
	return 0;
}

static int add_gap(struct queue *q, uint64_t offset, uint8_t cause)
{
	return add_run(q, (struct run){ .offset = offset, .end = offset,
					.gap = cause });
}

static uint8_t cause_of(uint64_t flags)
{
	if (flags & PERF_AUX_FLAG_TRUNCATED)
		return AUX_GAP_AUX_TRUNCATED;
	if (flags & PERF_AUX_FLAG_PARTIAL)
		return AUX_GAP_AUX_PARTIAL;
	if (flags & PERF_AUX_FLAG_COLLISION)
		return AUX_GAP_AUX_COLLISION;
	return 0;
}

/* Closes a run at end, cut in two at each mark that says so. */
static int close_run(struct queue *q, struct run run, size_t *mark)
{
	while (*mark < q->n_marks && !q->rebased) {
		const struct aux_mark *m = &q->marks[*mark];
		uint64_t at = m->offset + m->size;
		uint8_t cause = cause_of(m->flags);
		struct run head = run;

		if (at < m->offset || at > run.end)
			break;
		(*mark)++;
		if (!cause || m->flags & PERF_AUX_FLAG_OVERWRITE)
			continue;
		head.end = at < run.offset ? run.offset : at;
		if (add_run(q, head) < 0 || add_gap(q, head.end, cause) < 0)
			return -AUX_E_NOMEM;
		run.fresh = false;
		run.offset = head.end;
		while (run.offset >= q->pieces[run.piece].offset +
					     q->pieces[run.piece].len &&
		       run.piece + 1 < q->n_pieces)
			run.piece++;
	}
	return add_run(q, run);
}

/* AUX records may speak of bytes that no AUXTRACE record has. */
static bool misses_tail(const struct queue *q, uint64_t end)
{
	for (size_t i = 0; i < q->n_marks; i++) {
		const struct aux_mark *m = &q->marks[i];

		if (m->flags & PERF_AUX_FLAG_OVERWRITE || q->part ||
		    q->snapshots)
			return false;
		if (m->size && m->offset >= end)
			return true;
	}
	return false;
}

static int by_offset(const void *a, const void *b)
{
	const struct aux_mark *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return x->size < y->size ? -1 : x->size > y->size;
}

/* Why the run ends before piece i. 0: it does not. */
static uint8_t break_before(const struct queue *q, size_t i, uint64_t end)
{
	const struct piece *p = &q->pieces[i];

	if (!i || (p->offset <= end && !p->fresh))
		return 0;
	if (p->snapshot != q->pieces[i - 1].snapshot)
		return GAP_SNAPSHOT;
	return AUX_GAP_AUX_LOST;
}

/* Adds a piece to the run, or closes that and starts another. */
static int add_piece(struct queue *q, size_t i, struct run *run, size_t *mark)
{
	const struct piece *p = &q->pieces[i];
	uint8_t cause = break_before(q, i, run->end);
	bool told = i && q->pieces[i - 1].clipped;

	if (cause && (close_run(q, *run, mark) < 0 ||
		      (!told && add_gap(q, run->end, cause) < 0)))
		return -AUX_E_NOMEM;
	if (!i || cause)
		*run = (struct run){ .offset = p->offset, .piece = i,
				     .fresh = p->fresh };
	run->end = p->offset + p->len;
	if (!p->clipped)
		return 0;
	if (close_run(q, *run, mark) < 0 ||
	    add_gap(q, run->end, AUX_GAP_FILE) < 0)
		return -AUX_E_NOMEM;
	*run = (struct run){ .offset = run->end, .end = run->end, .piece = i };
	return 0;
}

int chunks_make_runs(struct queue *q)
{
	struct run run = { 0 };
	size_t mark = 0;

	if (q->n_marks)
		qsort(q->marks, q->n_marks, sizeof(*q->marks), by_offset);
	trim_pieces(q);
	for (size_t i = 0; i < q->n_pieces; i++)
		if (add_piece(q, i, &run, &mark) < 0)
			return -AUX_E_NOMEM;
	if (close_run(q, run, &mark) < 0)
		return -AUX_E_NOMEM;
	return misses_tail(q, run.end) ? add_gap(q, run.end, AUX_GAP_AUX_LOST) :
					 0;
}
