/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chunks: AUXTRACE and AUX records into queues and runs, see chunks.h.
 *
 * An AUXTRACE payload is padded to 8 bytes; its true length comes from the next
 * piece's offset or from the AUX records. AUX records are matched to queues by
 * ID_INDEX, else by CPU, else by thread.
 */
#include <stdlib.h>
#include <string.h>

#include <internal/bytes.h>
#include <internal/diag.h>

#include "chunks.h"
#include "timeline_priv.h"

struct index_entry {
	uint64_t id;
	uint32_t idx;
};

/* An AUX record, until its queue is known. */
struct loose_mark {
	struct aux_mark m;
	uint64_t id;
	uint32_t cpu, tid;
};

struct collect {
	struct chunks *c;
	struct index_entry *index;
	size_t n_index, cap_index;
	struct loose_mark *marks;
	size_t n_marks, cap_marks;
	bool swapped;
};

static struct queue *get_queue(struct chunks *c,
			       const struct aux_rec_auxtrace *h)
{
	struct queue *q;

	for (size_t i = 0; i < c->n; i++) {
		if (c->queues[i].idx == h->idx)
			return &c->queues[i];
	}
	if (timeline_grow(&c->queues, &c->cap, c->n, sizeof(*q)) < 0)
		return NULL;
	q = &c->queues[c->n++];
	*q = (struct queue){ .idx = h->idx, .cpu = (int32_t)h->cpu,
			     .tid = (int32_t)h->tid };
	return q;
}

static int add_piece(struct collect *co, const struct aux_event *ev)
{
	struct queue *q = get_queue(co->c, &ev->auxtrace.h);

	if (!q || timeline_grow(&q->pieces, &q->cap_pieces, q->n_pieces,
				sizeof(*q->pieces)) < 0)
		return -AUX_E_NOMEM;
	q->pieces[q->n_pieces++] = (struct piece){
		.offset = ev->auxtrace.h.offset,
		.data = ev->auxtrace.payload.data,
		.len = ev->auxtrace.payload.len,
		.file_offset = ev->auxtrace.payload_offset,
		.reference = ev->auxtrace.h.reference,
		.clipped = ev->auxtrace.clipped,
	};
	return 0;
}

static int add_mark(struct collect *co, const struct aux_event *ev)
{
	if (timeline_grow(&co->marks, &co->cap_marks, co->n_marks,
			  sizeof(*co->marks)) < 0)
		return -AUX_E_NOMEM;
	co->marks[co->n_marks++] = (struct loose_mark){
		.m = { .offset = ev->aux.offset, .size = ev->aux.size,
		       .flags = ev->aux.flags,
		       .time = ev->id.present & PERF_SAMPLE_TIME ?
				       ev->id.time : 0 },
		.id = ev->id.present &
				      (PERF_SAMPLE_ID |
				       PERF_SAMPLE_IDENTIFIER) ? ev->id.id : 0,
		.cpu = ev->id.present & PERF_SAMPLE_CPU ? ev->id.cpu :
							  UINT32_MAX,
		.tid = ev->id.present & PERF_SAMPLE_TID ? ev->id.tid :
							  UINT32_MAX,
	};
	return 0;
}

static int add_index(struct collect *co, const struct aux_event *ev)
{
	struct cursor c = cursor_init(ev->id_index.entries.data,
				      ev->id_index.entries.len, co->swapped);

	for (uint64_t i = 0; i < ev->id_index.n && cursor_left(&c) >= 32; i++) {
		struct index_entry *e;

		if (timeline_grow(&co->index, &co->cap_index, co->n_index,
				  sizeof(*co->index)) < 0)
			return -AUX_E_NOMEM;
		e = &co->index[co->n_index++];
		e->id = cursor_u64(&c);
		e->idx = (uint32_t)cursor_u64(&c);
		cursor_bytes(&c, 16);
	}
	return 0;
}

static int take_record(struct collect *co, const struct aux_event *ev)
{
	switch (ev->type) {
	case AUX_RECORD_AUXTRACE:
		return add_piece(co, ev);
	case PERF_RECORD_AUX:
		return add_mark(co, ev);
	case AUX_RECORD_ID_INDEX:
		return add_index(co, ev);
	case AUX_RECORD_AUXTRACE_INFO:
		co->c->trace_type = ev->auxtrace_info.trace_type;
		co->c->metadata = ev->auxtrace_info.priv;
		co->c->n_metadata = ev->auxtrace_info.n_priv;
		return 0;
	default:
		return 0;
	}
}

static struct queue *queue_by_idx(struct chunks *c, uint32_t idx)
{
	for (size_t i = 0; i < c->n; i++) {
		if (c->queues[i].idx == idx)
			return &c->queues[i];
	}
	return NULL;
}

static bool fits(const struct queue *q, const struct loose_mark *m)
{
	return q->cpu >= 0 ? m->cpu == (uint32_t)q->cpu :
			     m->tid == (uint32_t)q->tid;
}

/* One id may stand for all queues (soft_pt): then CPU or thread decides. */
static struct queue *find_queue(struct collect *co, const struct loose_mark *m)
{
	struct chunks *c = co->c;
	struct queue *by_id = NULL;

	for (size_t i = 0; m->id && !by_id && i < co->n_index; i++) {
		if (co->index[i].id == m->id)
			by_id = queue_by_idx(c, co->index[i].idx);
	}
	if (by_id && fits(by_id, m))
		return by_id;
	for (size_t i = 0; i < c->n; i++) {
		if (fits(&c->queues[i], m))
			return &c->queues[i];
	}
	return by_id || c->n != 1 ? by_id : &c->queues[0];
}

static int place_marks(struct collect *co)
{
	for (size_t i = 0; i < co->n_marks; i++) {
		struct queue *q = find_queue(co, &co->marks[i]);

		if (!q) {
			co->c->n_orphan_aux++;
			continue;
		}
		if (timeline_grow(&q->marks, &q->cap_marks, q->n_marks,
				  sizeof(*q->marks)) < 0)
			return -AUX_E_NOMEM;
		q->marks[q->n_marks++] = co->marks[i].m;
	}
	return 0;
}

static int by_idx(const void *a, const void *b)
{
	const struct queue *x = a, *y = b;

	return x->idx < y->idx ? -1 : x->idx > y->idx;
}

int chunks_read(struct chunks *c, struct aux_reader *r, struct aux_diag *diag)
{
	struct collect co = { .c = c, .swapped = aux_reader_info(r)->swapped };
	struct aux_event ev;
	int rc;

	*c = (struct chunks){ 0 };
	aux_reader_rewind(r);
	while (aux_reader_next(r, &ev, NULL) > 0) {
		rc = take_record(&co, &ev);
		if (rc < 0)
			goto out;
	}
	if (c->n)
		qsort(c->queues, c->n, sizeof(*c->queues), by_idx);
	rc = place_marks(&co);
	for (size_t i = 0; rc == 0 && i < c->n; i++) {
		rc = chunks_make_runs(&c->queues[i]);
		c->aux_bytes += c->queues[i].n_bytes;
	}
out:
	if (rc < 0)
		diag_set(diag, -rc, AUX_NO_OFFSET, "out of memory");
	free(co.index);
	free(co.marks);
	return rc;
}

void chunks_fini(struct chunks *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->queues[i].pieces);
		free(c->queues[i].marks);
		free(c->queues[i].runs);
	}
	free(c->queues);
	*c = (struct chunks){ 0 };
}
