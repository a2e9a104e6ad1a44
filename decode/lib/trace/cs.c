/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chunks: CoreSight: the runs of AUX records, and who is in them.
 *
 * The trace hardware starts anew for each AUX record, so each is a run of its own
 * (Linux 83d1fc92d4cd), in frames or raw as its flags say. Bytes that no record
 * told of are runs, too.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "decode/lib/trace/trace.h"
#include "decode/lib/sideband/sideband.h"

#define FORMAT_MASK 0xff00u	/* PERF_AUX_FLAG_PMU_FORMAT_TYPE_MASK */
#define FORMAT_FRAMED 0x0000u	/* PERF_AUX_FLAG_CORESIGHT_FORMAT_CORESIGHT */
#define RAW_CPUS_MAX 1024	/* of one queue; the others are of no CPU */

/* Ids of the formatter itself. */
#define ID_FLUSH 0x7b
#define ID_TRIGGER 0x7d

void chunks_take_hw_id(struct chunks *c, const struct aux_event *ev)
{
	uint32_t cpu = ev->id.present & PERF_SAMPLE_CPU ? ev->id.cpu :
							  UINT32_MAX;
	struct aux_diag *diag = &c->cs_error;

	/* Intel PT has such records, too; which it is may come later. */
	if (diag->code)
		return;
	if (csmeta_add_id(&c->cs, ev->aux_output_hw_id.hw_id, cpu, diag) < 0)
		diag->offset = ev->offset;
}

void chunks_read_metadata(struct chunks *c)
{
	struct aux_diag diag = { 0 };

	if (c->trace_type != AUX_TRACE_CS_ETM) {
		c->cs_error = (struct aux_diag){ 0 };
		return;
	}
	if (csmeta_read(&c->cs, c->metadata, c->n_metadata, &diag) < 0)
		c->cs_error = diag;
}

/* What a record tells of. Of an overwritten ring it is what ends there. */
static void get_extent(const struct aux_mark *m, uint64_t *from, uint64_t *to)
{
	if (m->flags & PERF_AUX_FLAG_OVERWRITE) {
		*to = m->offset;
		*from = m->size < *to ? *to - m->size : 0;
	} else {
		*from = m->offset;
		*to = m->size < UINT64_MAX - *from ? *from + m->size :
						     UINT64_MAX;
	}
}

struct split {
	struct queue *q;
	struct run *runs;
	size_t n, cap;
	size_t mark;	/* the first that may still tell of something */
	bool *used;	/* by mark */
};

static int push(struct split *s, struct run run, uint64_t from, uint64_t to,
		size_t mark)
{
	const struct queue *q = s->q;
	size_t like = mark ? mark : s->mark + (s->mark < q->n_marks);

	if (!run.gap && from == to)
		return 0;
	if (array_grow(&s->runs, s->n, &s->cap, sizeof(*s->runs)) < 0)
		return -AUX_E_NOMEM;
	run.fresh &= from == run.offset;
	run.offset = from;
	run.end = to;
	run.mark = mark;
	/* what nobody told of looks like what is told of next, or last */
	run.raw = like && (q->marks[like - 1].flags & FORMAT_MASK) !=
				  FORMAT_FRAMED;
	while (!run.gap && from - q->pieces[run.piece].offset >=
				   q->pieces[run.piece].len)
		run.piece++;
	if (mark)
		s->used[mark - 1] = true;
	s->runs[s->n++] = run;
	return 0;
}

static int split_run(struct split *s, const struct run *run)
{
	const struct queue *q = s->q;
	uint64_t at = run->offset, from, to;
	size_t i;

	for (i = s->mark; i < q->n_marks && !q->rebased; i++) {
		get_extent(&q->marks[i], &from, &to);
		if (from >= run->end)
			break;
		if (to > run->end)
			to = run->end;
		if (to <= at)
			continue;
		s->mark = i;
		if (from > at && push(s, *run, at, from, 0) < 0)
			return -AUX_E_NOMEM;
		if (from < at)
			from = at;
		if (push(s, *run, from, to, i + 1) < 0)
			return -AUX_E_NOMEM;
		at = to;
		if (at == run->end)
			return 0;
	}
	return push(s, *run, at, run->end, 0);
}

/* Records none of whose bytes is here. */
static uint64_t count_orphans(const struct split *s)
{
	const struct queue *q = s->q;
	uint64_t n = 0;

	if (q->part || q->snapshots || q->rebased)
		return 0;
	for (size_t i = 0; i < q->n_marks; i++)
		n += q->marks[i].size && !s->used[i] &&
		     !(q->marks[i].flags & PERF_AUX_FLAG_OVERWRITE);
	return n;
}

int chunks_split_runs(struct chunks *c, struct queue *q)
{
	struct split s = { .q = q };
	int rc = 0;

	s.used = calloc(q->n_marks + 1, sizeof(*s.used));
	if (!s.used)
		return -AUX_E_NOMEM;
	for (size_t i = 0; rc == 0 && i < q->n_runs; i++)
		rc = q->runs[i].gap ? push(&s, q->runs[i], q->runs[i].offset,
					   q->runs[i].end, 0) :
				      split_run(&s, &q->runs[i]);
	c->n_orphan_aux += count_orphans(&s);
	free(s.used);
	free(q->runs);
	q->runs = s.runs;
	q->n_runs = s.n;
	q->cap_runs = s.cap;
	return rc;
}

/* The frames of a run, however they lie in pieces. */
static void scan_frames(const struct queue *q, const struct run *run,
			struct etmframe_ids *ids)
{
	uint8_t cut[ETMFRAME_SIZE];
	size_t n_cut = 0, n, take;
	uint64_t at = run->offset;

	for (size_t i = run->piece; at < run->end; i++) {
		const struct piece *p = &q->pieces[i];
		const uint8_t *data = p->data + (at - p->offset);

		n = (size_t)(p->len - (at - p->offset));
		if (n > run->end - at)
			n = (size_t)(run->end - at);
		at += n;
		while (n_cut && n) {
			take = sizeof(cut) - n_cut < n ? sizeof(cut) - n_cut : n;
			memcpy(cut + n_cut, data, take);
			n_cut += take;
			data += take;
			n -= take;
			if (n_cut < sizeof(cut))
				break;
			etmframe_scan(ids, cut, sizeof(cut));
			n_cut = 0;
		}
		etmframe_scan(ids, data, n);
		if (n % sizeof(cut)) {
			memcpy(cut, data + (n - n % sizeof(cut)),
			       n % sizeof(cut));
			n_cut = n % sizeof(cut);
		}
	}
}

/* The ids of a run, and their bytes into sum. */
static void scan_run(const struct queue *q, struct run *run,
		     struct etmframe_ids *sum)
{
	struct etmframe_ids ids = { .id = ETMFRAME_NO_ID };

	scan_frames(q, run, &ids);
	for (unsigned id = 0; id < ETMFRAME_N_IDS; id++) {
		sum->n[id] += ids.n[id];
		if (ids.n[id])
			run->ids[id / 64] |= UINT64_C(1) << id % 64;
	}
}

static int add_source(struct chunks *c, const struct chunk_source *source)
{
	if (array_grow(&c->sources, c->n_sources, &c->cap_sources,
		       sizeof(*c->sources)) < 0)
		return -AUX_E_NOMEM;
	c->sources[c->n_sources++] = *source;
	return 0;
}

/* The CPU that a raw run is of. */
int32_t chunks_raw_cpu(const struct queue *q, const struct run *run)
{
	uint32_t cpu = run->mark ? q->marks[run->mark - 1].cpu : UINT32_MAX;

	return cpu <= INT32_MAX ? (int32_t)cpu : q->cpu;
}

static int add_raw(struct chunks *c, size_t first, uint32_t queue,
		   const struct run *run)
{
	int32_t cpu = chunks_raw_cpu(&c->queues[queue], run);
	uint64_t n = run->end - run->offset;

	for (size_t i = first; i < c->n_sources; i++) {
		if (c->sources[i].cpu != cpu &&
		    i - first < RAW_CPUS_MAX - 1)
			continue;
		c->sources[i].n_bytes += n;
		return 0;
	}
	return add_source(c, &(struct chunk_source){
		.queue = queue, .raw = true, .cpu = cpu, .n_bytes = n,
		.meta = csmeta_find_cpu(&c->cs, cpu),
	});
}

static bool is_source(unsigned id)
{
	return id && id != ID_FLUSH && id != ID_TRIGGER;
}

static int add_ids(struct chunks *c, uint32_t queue,
		   const struct etmframe_ids *ids)
{
	for (unsigned id = 0; id < ETMFRAME_N_IDS; id++) {
		const struct csmeta_source *meta;

		if (!ids->n[id] || !is_source(id))
			continue;
		meta = id > ETMFRAME_ID_MAX ? NULL :
			csmeta_find_id(&c->cs, c->queues[queue].cpu, id);
		if (add_source(c, &(struct chunk_source){
			    .queue = queue, .id = (uint8_t)id,
			    .cpu = meta ? meta->cpu : -1,
			    .n_bytes = ids->n[id], .meta = meta }) < 0)
			return -AUX_E_NOMEM;
	}
	return 0;
}

static int find_of_queue(struct chunks *c, uint32_t queue)
{
	struct queue *q = &c->queues[queue];
	struct etmframe_ids ids = { 0 };
	size_t first = c->n_sources;

	for (size_t i = 0; i < q->n_runs; i++) {
		struct run *run = &q->runs[i];

		if (run->gap)
			continue;
		if (!run->raw)
			scan_run(q, run, &ids);
		else if (add_raw(c, first, queue, run) < 0)
			return -AUX_E_NOMEM;
	}
	if (add_ids(c, queue, &ids) < 0)
		return -AUX_E_NOMEM;
	/* somebody has to tell of the gaps */
	if (c->n_sources == first && q->n_runs &&
	    add_source(c, &(struct chunk_source){ .queue = queue,
						  .cpu = q->cpu }) < 0)
		return -AUX_E_NOMEM;
	if (c->n_sources > first)
		c->sources[first].first = true;
	return 0;
}

int chunks_find_sources(struct chunks *c)
{
	if (c->sources_found || c->trace_type != AUX_TRACE_CS_ETM)
		return 0;
	c->sources_found = true;
	for (size_t i = 0; i < c->n; i++)
		if (find_of_queue(c, (uint32_t)i) < 0)
			return -AUX_E_NOMEM;
	return 0;
}
