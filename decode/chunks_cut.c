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

#include "chunks.h"
#include "timeline_priv.h"

#define PAD 8	/* an AUXTRACE payload has less than this of padding */
#define PSB_SIZE 16

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

/* The true length of a piece's payload: without padding. */
static uint64_t true_length(const struct queue *q, size_t i)
{
	const struct piece *p = &q->pieces[i];
	uint64_t len = p->len, best = 0;

	if (p->clipped)
		return len;
	if (i + 1 < q->n_pieces && q->pieces[i + 1].offset > p->offset) {
		uint64_t next = q->pieces[i + 1].offset - p->offset;

		if (next <= len && len - next < PAD)
			return next;
	}
	for (size_t j = first_mark(q, p->offset + len); j > 0; j--) {
		uint64_t end = q->marks[j - 1].offset + q->marks[j - 1].size;

		if (end + PAD < p->offset + len)
			break;

		if (end > p->offset && end - p->offset <= len &&
		    len - (end - p->offset) < PAD && end - p->offset > best)
			best = end - p->offset;
	}
	return best ? best : len;
}

/* Takes padding and overlap off the pieces; empty ones go. */
static void trim_pieces(struct queue *q)
{
	uint64_t end = 0;
	size_t n = 0;

	for (size_t i = 0; i < q->n_pieces; i++)
		q->pieces[i].len = true_length(q, i);
	for (size_t i = 0; i < q->n_pieces; i++) {
		struct piece p = q->pieces[i];
		uint64_t skip = n && p.offset < end ? end - p.offset : 0;

		if (p.len > UINT64_MAX - p.offset)
			p.len = UINT64_MAX - p.offset;
		if (skip > p.len)
			skip = p.len;
		p.offset += skip;
		p.data += skip;
		p.file_offset += skip;
		p.len -= skip;
		if (!p.len && !p.clipped)
			continue;
		end = p.offset + p.len;
		q->n_bytes += p.len;
		q->pieces[n++] = p;
	}
	q->n_pieces = n;
}

static int add_run(struct queue *q, struct run run)
{
	if (!run.gap && run.offset == run.end)
		return 0;
	if (timeline_grow(&q->runs, &q->cap_runs, q->n_runs,
			  sizeof(*q->runs)) < 0)
		return -AUX_E_NOMEM;
	q->runs[q->n_runs++] = run;
	return 0;
}

static int add_gap(struct queue *q, uint64_t offset, uint8_t cause)
{
	return add_run(q, (struct run){ offset, offset, 0, cause });
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
	while (*mark < q->n_marks) {
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

		if (m->flags & PERF_AUX_FLAG_OVERWRITE)
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

int chunks_make_runs(struct queue *q)
{
	struct run run = { 0 };
	size_t mark = 0;

	if (q->n_marks)
		qsort(q->marks, q->n_marks, sizeof(*q->marks), by_offset);
	trim_pieces(q);
	for (size_t i = 0; i < q->n_pieces; i++) {
		const struct piece *p = &q->pieces[i];
		bool hole = i && p->offset > run.end;

		if (hole && (close_run(q, run, &mark) < 0 ||
			     add_gap(q, run.end, AUX_GAP_AUX_LOST) < 0))
			return -AUX_E_NOMEM;
		if (!i || hole)
			run = (struct run){ p->offset, p->offset, i, 0 };
		run.end = p->offset + p->len;
		if (!p->clipped)
			continue;
		if (close_run(q, run, &mark) < 0 ||
		    add_gap(q, run.end, AUX_GAP_FILE) < 0)
			return -AUX_E_NOMEM;
		run = (struct run){ run.end, run.end, i, 0 };
	}
	if (close_run(q, run, &mark) < 0)
		return -AUX_E_NOMEM;
	return misses_tail(q, run.end) ? add_gap(q, run.end, AUX_GAP_AUX_LOST) :
					 0;
}

const uint8_t *chunks_find_psb(const uint8_t *p, const uint8_t *end)
{
	static const uint8_t psb[PSB_SIZE] = {
		2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
		2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
	};

	return memmem(p, (size_t)(end - p), psb, sizeof(psb));
}
