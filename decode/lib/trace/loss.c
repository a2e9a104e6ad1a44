/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chunks: the losses that the recorder tells of, among the runs of a stream.
 *
 * Invariant: where bytes end there is at most one gap, however often the loss was
 * told: by an AUX flag, by a jump of the offset, by the recorder.
 */
#include <stdlib.h>

#include "common/array.h"
#include "decode/lib/trace/trace.h"
#include "decode/lib/trace/gap.h"
#include "decode/lib/sideband/sideband.h"

struct list {
	struct run *v;
	size_t n, cap;
};

/* How much a cause tells of what happened. */
static unsigned rank(uint8_t gap)
{
	return gap == GAP_SNAPSHOT ? 0 : gap == AUX_GAP_AUX_LOST ? 1 : 2;
}

static int push(struct list *l, const struct run *run)
{
	struct run *last = l->n ? &l->v[l->n - 1] : NULL;

	if (!run->gap && run->offset == run->end)
		return 0;
	if (run->gap && last && last->gap) {
		if (rank(run->gap) > rank(last->gap))
			last->gap = run->gap;
		if (!last->detail)
			last->detail = run->detail;
		return 0;
	}
	if (array_grow(&l->v, l->n, &l->cap, sizeof(*l->v)) < 0)
		return -AUX_E_NOMEM;
	l->v[l->n++] = *run;
	return 0;
}

static int push_loss(struct list *l, const struct loss_mark *m, uint64_t offset)
{
	struct run gap = { .offset = offset, .end = offset, .gap = m->gap,
			   .detail = m->bytes };

	return push(l, &gap);
}

/* One run, cut in two at each loss inside of it. */
static int push_cut(struct list *l, const struct queue *q, struct run run,
		    size_t *next)
{
	while (*next < q->n_losses && q->losses[*next].offset < run.end) {
		const struct loss_mark *m = &q->losses[(*next)++];
		struct run head = run;

		head.end = m->offset < run.offset ? run.offset : m->offset;
		if (push(l, &head) < 0 || push_loss(l, m, head.end) < 0)
			return -AUX_E_NOMEM;
		run.fresh &= head.end == run.offset;
		run.offset = head.end;
		while (run.offset >= q->pieces[run.piece].offset +
					     q->pieces[run.piece].len &&
		       run.piece + 1 < q->n_pieces)
			run.piece++;
	}
	return push(l, &run);
}

static int by_offset(const void *a, const void *b)
{
	const struct loss_mark *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Losses before and behind what is here, if that is not all there was. */
static size_t skip_losses(const struct queue *q, uint64_t *end)
{
	size_t i = 0;

	*end = UINT64_MAX;
	if (!q->part)
		return 0;
	if (!q->n_pieces)
		return q->n_losses;
	*end = q->pieces[q->n_pieces - 1].offset +
	       q->pieces[q->n_pieces - 1].len;
	while (i < q->n_losses && q->losses[i].offset <= q->pieces[0].offset)
		i++;
	return i;
}

int chunks_place_losses(struct queue *q)
{
	struct list l = { 0 };
	uint64_t end, last = 0;
	size_t next;
	int rc = 0;

	if (q->n_losses)
		qsort(q->losses, q->n_losses, sizeof(*q->losses), by_offset);
	if (q->rebased)
		q->n_losses = 0;
	next = skip_losses(q, &end);
	for (size_t i = 0; rc == 0 && i < q->n_runs; i++) {
		last = q->runs[i].end;
		rc = q->runs[i].gap ? push(&l, &q->runs[i]) :
				      push_cut(&l, q, q->runs[i], &next);
	}
	for (; rc == 0 && next < q->n_losses && q->losses[next].offset < end;
	     next++)
		rc = push_loss(&l, &q->losses[next], last);
	free(q->runs);
	q->runs = l.v;
	q->n_runs = l.n;
	q->cap_runs = l.cap;
	return rc;
}
