/* SPDX-License-Identifier: BSD-2-Clause */
/* cut: where a stream can be cut, and what time it is there. */
#include <aux/decoder.h>

#include "decode/edit/cut_impl.h"
#include "decode/lib/packet/pt_packet.h"
#include "decode/lib/session/impl.h"

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
				timeline_clock(it->s->timeline), tsc);
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

bool cut_points_next(struct cut_points *it, struct cut_point *point)
{
	return it->s->chunks.trace_type == AUX_TRACE_INTEL_PT ?
		       next_psb(it, point) : next_mark(it, point);
}

uint64_t cut_stream_start(const struct queue *q)
{
	return q->n_pieces ? q->pieces[0].offset : 0;
}

uint64_t cut_stream_end(const struct queue *q)
{
	const struct piece *last = q->pieces + q->n_pieces - 1;

	return q->n_pieces ? last->offset + last->len : 0;
}
