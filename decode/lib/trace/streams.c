/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * streams: AUXTRACE and AUX records into queues of trace and their segments,
 * see trace.h. A queue is perf's word (auxtrace_queue) for the trace of one
 * buffer, which everything else calls an AUX stream.
 *
 * An AUXTRACE payload is padded to 8 bytes; its true length comes from the
 * offset of the next piece, or from the AUX records. AUX records name no queue:
 * they are matched by ID_INDEX, else by CPU, else by thread.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/bytes.h"
#include "common/diag.h"
#include "common/idmap.h"

#include "decode/lib/trace/trace.h"
#include "decode/lib/trace/gap.h"
#include "decode/lib/sideband/sideband.h"

/* An entry of perf's ID_INDEX: which buffer the records of an event's id belong
 * to. */
struct index_entry {
	uint64_t id;
	uint32_t idx, cpu, tid;
};

/* An AUX record, until its queue is known (after the last record). */
struct loose_mark {
	struct aux_mark m;
	uint64_t id;
};

/* The pass over the records; one thread, gone when chunks_read() returns. */
struct collect {
	struct chunks *c;	/* what is filled */
	struct index_entry *index;
	size_t n_index, cap_index;
	struct idmap ids;	/* of index, by id */
	/* of c->queues: by idx, until these are sorted; then the first of a CPU,
	 * and the first of a thread alone */
	struct idmap queues, cpus, tids;
	struct loose_mark *marks;
	size_t n_marks, cap_marks;
	bool swapped;
	uint32_t snapshot;	/* of the next piece */
};

/* The queue idx, made if it is new; NULL: out of memory. Pointers to queues are
 * not valid after the next call: the array grows. */
static struct queue *get_queue(struct collect *co, uint32_t idx, uint32_t cpu,
			       uint32_t tid)
{
	struct chunks *c = co->c;
	struct queue *q;

	int64_t slot;

	if (array_grow_within(&c->memory, &c->queues, c->n, &c->cap, sizeof(*q)) < 0)
		return NULL;
	slot = idmap_add(&co->queues, idx, (uint32_t)c->n);
	if (slot < 0)
		return NULL;
	q = &c->queues[slot];
	if ((size_t)slot < c->n)
		return q;
	*q = (struct queue){ .idx = idx, .cpu = (int32_t)cpu,
			     .tid = (int32_t)tid, .memory = &c->memory };
	c->n++;
	return q;
}

/* All pieces from here on belong to it. */
static int add_snapshot(struct collect *co, const struct snapshot *snap)
{
	struct chunks *c = co->c;

	if (array_grow_within(&c->memory, &c->snapshots, c->n_snapshots,
			      &c->cap_snapshots, sizeof(*c->snapshots)) < 0)
		return -AUX_E_NOMEM;
	c->snapshots[c->n_snapshots++] = *snap;
	co->snapshot = (uint32_t)c->n_snapshots;
	return 0;
}

/* perf marks no border between two snapshots: the next one starts when a queue
 * comes that the last one has already. */
static int guess_snapshot(struct collect *co, const struct queue *q)
{
	struct chunks *c = co->c;
	struct snapshot snap = { .number = c->n_snapshots + 1 };

	if (!c->snapshot_mode || c->own_snapshots)
		return 0;
	if (co->snapshot && (!q->n_pieces ||
			     q->pieces[q->n_pieces - 1].snapshot !=
				     co->snapshot))
		return 0;
	return add_snapshot(co, &snap);
}

/* The payload is not copied: it stays the reader's. n_before is what orders
 * pieces and AUX records, which only the file does: their offsets are of one
 * ring, but in snapshots they repeat. */
static int add_piece(struct collect *co, const struct aux_event *ev)
{
	const struct aux_rec_auxtrace *h = &ev->auxtrace.h;
	struct queue *q = get_queue(co, h->idx, h->cpu, h->tid);

	if (!q || guess_snapshot(co, q) < 0 ||
	    array_grow_within(q->memory, &q->pieces, q->n_pieces, &q->cap_pieces,
		       sizeof(*q->pieces)) < 0)
		return -AUX_E_NOMEM;
	q->snapshots |= co->snapshot != 0;
	co->c->n_damaged += ev->auxtrace.damage != NULL;
	q->pieces[q->n_pieces++] = (struct piece){
		.offset = ev->auxtrace.h.offset,
		.data = ev->auxtrace.payload.data,
		.len = ev->auxtrace.payload.len,
		.file_offset = ev->auxtrace.payload_offset,
		.reference = ev->auxtrace.h.reference,
		.clipped = ev->auxtrace.clipped,
		.exact = ev->auxtrace.exact,
		.snapshot = co->snapshot,
		.n_before = co->n_marks,
	};
	return 0;
}

/* Of two entries with one id the first counts. */
static const struct index_entry *find_index(const struct collect *co, uint64_t id)
{
	int64_t slot = idmap_find(&co->ids, id);

	return slot < 0 ? NULL : &co->index[slot];
}

/* The queue that the sampled event belongs to. Samples have no buffer index;
 * without an ID_INDEX the CPU stands for it, or the thread. */
static struct queue *queue_of_sample(struct collect *co,
				     const struct aux_sample_id *id)
{
	uint32_t cpu = id->present & PERF_SAMPLE_CPU ? id->cpu : UINT32_MAX;

	const struct index_entry *e = find_index(co, id->id);

	if (e)
		return get_queue(co, e->idx, e->cpu,
				 e->cpu == UINT32_MAX ? e->tid : UINT32_MAX);
	return cpu != UINT32_MAX ? get_queue(co, cpu, cpu, UINT32_MAX) :
				   get_queue(co, id->tid, cpu, id->tid);
}

/* The newest trace at a sample (aux-sample-size): a snapshot of its own, which
 * may begin inside a packet and overlap the one before. */
static int add_sample(struct collect *co, const struct aux_event *ev)
{
	const struct aux_bytes *b = &ev->sample.aux;
	struct queue *q;

	if (!b->len)
		return 0;
	q = queue_of_sample(co, &ev->id);
	if (!q || array_grow_within(q->memory, &q->pieces, q->n_pieces, &q->cap_pieces,
			     sizeof(*q->pieces)) < 0)
		return -AUX_E_NOMEM;
	q->snapshots = q->sampled = true;
	q->pieces[q->n_pieces++] = (struct piece){
		.data = b->data,
		.len = b->len,
		.file_offset = ev->offset + (uint64_t)(b->data - ev->raw.data),
		.snapshot = (uint32_t)++co->c->n_samples,
		.n_before = co->n_marks,
	};
	return 0;
}

/* To which queue an AUX record belongs may depend on an ID_INDEX that comes
 * later. */
static int add_mark(struct collect *co, const struct aux_event *ev)
{
	uint64_t has = ev->id.present;

	if (array_grow_within(&co->c->memory, &co->marks, co->n_marks, &co->cap_marks,
		       sizeof(*co->marks)) < 0)
		return -AUX_E_NOMEM;
	co->marks[co->n_marks] = (struct loose_mark){
		.m = { .offset = ev->aux.offset, .size = ev->aux.size,
		       .flags = ev->aux.flags,
		       .time = has & PERF_SAMPLE_TIME ? ev->id.time : 0,
		       .number = co->n_marks + 1,
		       .cpu = has & PERF_SAMPLE_CPU ? ev->id.cpu : UINT32_MAX,
		       .pid = has & PERF_SAMPLE_TID ? ev->id.pid : UINT32_MAX,
		       .tid = has & PERF_SAMPLE_TID ? ev->id.tid :
						      UINT32_MAX },
		.id = has & (PERF_SAMPLE_ID | PERF_SAMPLE_IDENTIFIER) ?
			      ev->id.id : 0,
	};
	co->n_marks++;
	return 0;
}

/* Entries are of 32 bytes: id, idx, cpu, tid, all u64 (perf's struct
 * id_index_entry); a count beyond the record is ignored. */
static int add_index(struct collect *co, const struct aux_event *ev)
{
	struct cursor c = cursor_init(ev->id_index.entries.data,
				      ev->id_index.entries.len, co->swapped);

	for (uint64_t i = 0; i < ev->id_index.n && cursor_left(&c) >= 32; i++) {
		struct index_entry *e;
		size_t n = co->n_index;
		int64_t slot;

		if (array_grow_within(&co->c->memory, &co->index, co->n_index,
				      &co->cap_index, sizeof(*co->index)) < 0)
			return -AUX_E_NOMEM;
		e = &co->index[n];
		e->id = cursor_u64(&c);
		e->idx = (uint32_t)cursor_u64(&c);
		e->cpu = (uint32_t)cursor_u64(&c);
		e->tid = (uint32_t)cursor_u64(&c);
		slot = idmap_add(&co->ids, e->id, (uint32_t)n);
		if (slot < 0)
			return -AUX_E_NOMEM;
		co->n_index += slot == (int64_t)n;
	}
	return 0;
}

/* auxcap's own records are of a type that perf skips because it is obsolete. */
static int handle_own(struct collect *co, const struct aux_event *ev)
{
	struct chunks *c = co->c;
	struct snapshot snap = { 0 };

	switch (ev->own.kind) {
	case AUX_OWN_LEDGER:
		c->ledger = ev->own.ledger;
		return 0;
	case AUX_OWN_LOSS:
		if (array_grow_within(&c->memory, &c->losses, c->n_losses, &c->cap_losses,
			       sizeof(*c->losses)) < 0)
			return -AUX_E_NOMEM;
		c->losses[c->n_losses++] = ev->own.loss;
		return 0;
	case AUX_OWN_SNAPSHOT:
		c->own_snapshots = true;
		snap.number = ev->own.snapshot.h.number;
		snap.time_ns = ev->own.snapshot.h.time_ns;
		snap.reason = ev->own.snapshot.h.reason;
		snap.label.data = ev->own.snapshot.label;
		snap.label.len = ev->own.snapshot.h.label_len;
		return add_snapshot(co, &snap);
	default:
		return 0;
	}
}

/* Intel PT and CoreSight have a word for it in AUXTRACE_INFO's private part;
 * others are taken to be no snapshots. */
static bool says_snapshot(const struct aux_event *ev)
{
	uint32_t type = ev->auxtrace_info.trace_type;
	uint32_t word = type == AUX_TRACE_INTEL_PT ? AUX_PT_SNAPSHOT_MODE : 2;

	return (type == AUX_TRACE_INTEL_PT || type == AUX_TRACE_CS_ETM) &&
	       word < ev->auxtrace_info.n_priv && ev->auxtrace_info.priv[word];
}

static int handle_record(struct collect *co, const struct aux_event *ev)
{
	switch (ev->type) {
	case AUX_RECORD_EVENT_TYPE:
		return handle_own(co, ev);
	case AUX_RECORD_AUXTRACE:
		return add_piece(co, ev);
	case PERF_RECORD_AUX:
		return add_mark(co, ev);
	case PERF_RECORD_SAMPLE:
		return add_sample(co, ev);
	case AUX_RECORD_ID_INDEX:
		return add_index(co, ev);
	case PERF_RECORD_AUX_OUTPUT_HW_ID:
		chunks_take_hw_id(co->c, ev);
		return 0;
	case AUX_RECORD_AUXTRACE_INFO:
		co->c->trace_type = ev->auxtrace_info.trace_type;
		co->c->metadata = ev->auxtrace_info.priv;
		co->c->n_metadata = ev->auxtrace_info.n_priv;
		co->c->snapshot_mode = says_snapshot(ev);
		return 0;
	default:
		return 0;
	}
}

static int by_idx(const void *a, const void *b)
{
	const struct queue *x = a, *y = b;

	return x->idx < y->idx ? -1 : x->idx > y->idx;
}

/* After they are sorted. */
static struct queue *queue_by_idx(struct chunks *c, uint32_t idx)
{
	const struct queue key = { .idx = idx };

	return c->n ? bsearch(&key, c->queues, c->n, sizeof(key), by_idx) : NULL;
}

/* In the order in which a stream comes first in the file, so that get_queue() may
 * not be called any more. */
static int sort_queues(struct collect *co)
{
	struct chunks *c = co->c;

	if (array_sort_within(&c->memory, c->queues, c->n, sizeof(*c->queues),
			      by_idx) < 0)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < c->n; i++) {
		const struct queue *q = &c->queues[i];
		bool is_cpu = q->cpu >= 0;

		if (idmap_add(is_cpu ? &co->cpus : &co->tids,
			      (uint32_t)(is_cpu ? q->cpu : q->tid),
			      (uint32_t)i) < 0)
			return -AUX_E_NOMEM;
	}
	return 0;
}

/* A queue of a CPU has the trace of all its threads, one without that of one
 * thread. */
static bool fits(const struct queue *q, const struct loose_mark *m)
{
	return q->cpu >= 0 ? m->m.cpu == (uint32_t)q->cpu :
			     m->m.tid == (uint32_t)q->tid;
}

/* By ID, unless CPU or thread contradict: one ID may stand for all queues
 * (soft_pt). NULL: the record is an orphan, except that a lone queue takes all
 * of them. */
static struct queue *find_queue(struct collect *co, const struct loose_mark *m)
{
	struct chunks *c = co->c;
	const struct index_entry *e = m->id ? find_index(co, m->id) : NULL;
	struct queue *by_id = e ? queue_by_idx(c, e->idx) : NULL;
	int64_t cpu, tid;

	if (by_id && fits(by_id, m))
		return by_id;
	cpu = idmap_find(&co->cpus, m->m.cpu);
	tid = idmap_find(&co->tids, m->m.tid);
	if (cpu >= 0 || tid >= 0)
		return &c->queues[cpu < 0 || (tid >= 0 && tid < cpu) ? tid : cpu];
	return by_id || c->n != 1 ? by_id : &c->queues[0];
}

/* The i-th AUX record is q's: the first piece after it ends there, unless a
 * later record comes before that piece, too. */
static void note_end(struct queue *q, size_t i, const struct aux_mark *m)
{
	struct piece *p;

	while (q->n_settled < q->n_pieces && q->pieces[q->n_settled].n_before <= i)
		q->n_settled++;
	if (q->n_settled == q->n_pieces)
		return;
	p = &q->pieces[q->n_settled];
	if (m->time && (!p->first_ns || m->time < p->first_ns))
		p->first_ns = m->time;
	if (m->time > p->last_ns)
		p->last_ns = m->time;
	if (!(m->flags & PERF_AUX_FLAG_OVERWRITE))
		return;
	p->ring_end = m->offset;
	p->ring_size = m->size;
}

/* Gives each AUX record to its queue, in the order of the file. */
static int assign_marks(struct collect *co)
{
	for (size_t i = 0; i < co->n_marks; i++) {
		struct queue *q = find_queue(co, &co->marks[i]);

		if (!q) {
			/* between two samples nothing was to be kept: no gap */
			co->c->n_orphan_aux +=
				!co->c->sampling ||
				!(co->marks[i].m.flags &
				  PERF_AUX_FLAG_OVERWRITE);
			continue;
		}
		note_end(q, i, &co->marks[i].m);
		if (array_grow_within(q->memory, &q->marks, q->n_marks, &q->cap_marks,
			       sizeof(*q->marks)) < 0)
			return -AUX_E_NOMEM;
		q->marks[q->n_marks++] = co->marks[i].m;
	}
	return 0;
}

/* The GAP of a loss that the recorder noted; 0: none. */
static uint8_t gap_of_loss(uint32_t cause)
{
	switch (cause) {
	case AUX_LEDGER_TRUNCATED:
		return AUX_GAP_AUX_TRUNCATED;
	case AUX_LEDGER_PARTIAL:
		return AUX_GAP_AUX_PARTIAL;
	case AUX_LEDGER_COLLISION:
		return AUX_GAP_AUX_COLLISION;
	case AUX_LEDGER_STALLED:
	case AUX_LEDGER_ENDED:
		return GAP_STALLED;
	case AUX_LEDGER_OFFLINE:
		return GAP_OFFLINE;
	case AUX_LEDGER_UNWRITTEN:
	case AUX_LEDGER_UNREAD:
		return GAP_UNSAVED;
	case AUX_LEDGER_THROTTLED:
		return AUX_GAP_AUX_LOST;
	}
	return 0;
}

/* Losses of an unknown place (offset -1) are in the ledger only. */
static int assign_losses(struct chunks *c)
{
	for (size_t i = 0; i < c->n_losses; i++) {
		const struct aux_own_loss *l = &c->losses[i];
		struct queue *q = queue_by_idx(c, l->idx);
		uint8_t gap = gap_of_loss(l->cause);

		if (!q || !gap || l->offset == UINT64_MAX)
			continue;
		if (array_grow_within(q->memory, &q->losses, q->n_losses, &q->cap_losses,
			       sizeof(*q->losses)) < 0)
			return -AUX_E_NOMEM;
		q->losses[q->n_losses++] = (struct loss_mark){
			.offset = l->offset, .bytes = l->bytes, .gap = gap,
		};
	}
	return 0;
}

/* Drops the pieces of all snapshots but one. What is then missing at both ends
 * of a queue is no loss: part says so. */
static int select_snapshot(struct chunks *c, uint64_t number,
			   struct aux_diag *diag)
{
	uint32_t want = 0;

	for (size_t i = 0; i < c->n_snapshots && !want; i++)
		if (c->snapshots[i].number == number)
			want = (uint32_t)i + 1;
	if (!want)
		return diag_set(diag, AUX_E_NOENT, AUX_NO_OFFSET,
				"there is no snapshot %llu in this file, which "
				"has %zu; `auxdecode info` lists them",
				(unsigned long long)number, c->n_snapshots);
	for (size_t i = 0; i < c->n; i++) {
		struct queue *q = &c->queues[i];
		size_t n = 0;

		for (size_t k = 0; k < q->n_pieces; k++)
			if (q->pieces[k].snapshot == want)
				q->pieces[n++] = q->pieces[k];
		q->part = true;
		q->n_pieces = n;
	}
	return 0;
}

/* In this order: joining moves offsets, which segments and losses refer to. */
static int make_segments(struct chunks *c)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < c->n; i++) {
		struct queue *q = &c->queues[i];

		if (q->snapshots)
			chunks_join_snapshots(q, c->trace_type,
					      c->own_snapshots);
		rc = chunks_make_segments(q);
		if (rc == 0)
			rc = chunks_place_losses(q);
		if (rc == 0 && c->trace_type == AUX_TRACE_CS_ETM)
			rc = chunks_split_segments(c, q);
		c->aux_bytes += q->n_bytes;
	}
	return rc;
}

/* Damage ends the reading and is no error here: what came before it stands. */
static int collect_records(struct collect *co, struct aux_reader *r)
{
	const struct aux_attr *a;
	struct aux_event ev;
	int rc;

	aux_reader_rewind(r);
	while (aux_reader_next(r, &ev, NULL) > 0) {
		rc = handle_record(co, &ev);
		if (rc < 0)
			return rc;
	}
	/* attributes may come as records (a pipe): all were read by now */
	for (size_t i = 0; (a = aux_reader_attr(r, i)); i++)
		co->c->sampling |= !!(a->attr.sample_type & PERF_SAMPLE_AUX);
	rc = sort_queues(co);
	if (rc == 0)
		rc = assign_marks(co);
	return rc < 0 ? rc : assign_losses(co->c);
}

static void free_collect(struct collect *co)
{
	struct array_limit *l = &co->c->memory;

	free(co->index);
	array_give(l, co->cap_index * sizeof(*co->index));
	free(co->marks);
	array_give(l, co->cap_marks * sizeof(*co->marks));
	idmap_fini(&co->ids);
	idmap_fini(&co->queues);
	idmap_fini(&co->cpus);
	idmap_fini(&co->tids);
}

static int say_failure(const struct chunks *c, int rc, struct aux_diag *diag)
{
	if (!c->memory.full)
		return diag_set(diag, -rc, AUX_NO_OFFSET, "out of memory");
	diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
		 "the pieces of its trace need more than %llu MiB",
		 (unsigned long long)(c->memory.max >> 20));
	return diag_why(diag, AUX_WHY_MEMORY, -AUX_E_LIMIT);
}

int chunks_read(struct chunks *c, struct aux_reader *r, uint64_t snapshot,
		uint64_t memory, struct aux_diag *diag)
{
	struct collect co = { .c = c, .swapped = aux_reader_info(r)->swapped };
	int rc;

	*c = (struct chunks){ .memory.max = memory };
	co.ids.salt = co.queues.salt = co.cpus.salt = co.tids.salt = idmap_salt();
	co.ids.limit = co.queues.limit = co.cpus.limit = co.tids.limit = &c->memory;
	rc = collect_records(&co, r);
	free_collect(&co);
	if (rc == 0 && snapshot) {
		rc = select_snapshot(c, snapshot, diag);
		if (rc < 0)
			return rc;
	}
	chunks_read_metadata(c);
	if (rc == 0)
		rc = make_segments(c);
	return rc < 0 ? say_failure(c, rc, diag) : rc;
}

void chunks_fini(struct chunks *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->queues[i].pieces);
		free(c->queues[i].marks);
		free(c->queues[i].losses);
		free(c->queues[i].segments);
	}
	free(c->queues);
	free(c->snapshots);
	free(c->losses);
	free(c->sources);
	csmeta_fini(&c->cs);
	*c = (struct chunks){ 0 };
}
