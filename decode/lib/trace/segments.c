/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * segments: where a stream must be divided.
 *
 * A segment ends where bytes are missing, where an AUX record says that data
 * was dropped, and where the file is cut. Pieces that overlap earlier ones (two
 * snapshots) lose the common bytes. Invariant: segments are disjoint, by
 * offset, and between two of them stands the gap that says why.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "decode/lib/sideband/sideband.h"
#include "decode/lib/trace/gap.h"
#include "decode/lib/trace/trace.h"

#define PAD 8 /* an AUXTRACE payload has less than this of padding */

/* How many AUX records start before a stream offset (binary search). */
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

/* How much of a snapshot is padding, from where its last AUX record ended in
 * the ring; 0 also where that cannot be: padding is less than 8 bytes. */
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

/*
 * The true length of a piece's payload: without padding. The offset of the next
 * piece says it best; else an AUX record that ends within the last 8 bytes;
 * else, of an overwritten ring, where its write pointer was. Zeros alone prove
 * nothing: they are PADs in Intel PT.
 */
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

		/* In overwrite mode an AUX record's offset is the end. */
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
 * What p has in common with the piece before is taken off that one, whose end
 * may be padding; unless it contains all of p, or the file lacks its end.
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
	if (!p->len)	/* of one that was clipped its gap stays, in order */
		p->offset = end;
}

/* Removes padding and overlap from the pieces; empty ones go. */
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

static int add_segment(struct queue *q, struct segment segment)
{
	if (!segment.gap && segment.offset == segment.end)
		return 0;
	if (array_grow_within(q->memory, &q->segments, q->n_segments, &q->cap_segments,
		       sizeof(*q->segments)) < 0)
		return -AUX_E_NOMEM;
	q->segments[q->n_segments++] = segment;
	return 0;
}

static int add_gap(struct queue *q, uint64_t offset, uint8_t cause)
{
	return add_segment(q, (struct segment){ .offset = offset,
						.end = offset,
						.gap = cause });
}

/* One record may have several flags; a buffer that was full is the strongest
 * reason. */
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

/* Closes a segment, divided after each AUX record that reports a loss: the flag
 * says that trace was dropped at the end of the record. *mark: the first record
 * not seen yet. */
static int close_segment(struct queue *q, struct segment segment, size_t *mark)
{
	while (*mark < q->n_marks && !q->rebased) {
		const struct aux_mark *m = &q->marks[*mark];
		uint64_t at = m->offset + m->size;
		uint8_t cause = cause_of(m->flags);
		struct segment head = segment;

		if (at < m->offset || at > segment.end)
			break;
		(*mark)++;
		if (!cause || m->flags & PERF_AUX_FLAG_OVERWRITE)
			continue;
		head.end = at < segment.offset ? segment.offset : at;
		if (add_segment(q, head) < 0 || add_gap(q, head.end, cause) < 0)
			return -AUX_E_NOMEM;
		segment.fresh = false;
		segment.offset = head.end;
		while (segment.offset >= q->pieces[segment.piece].offset +
						 q->pieces[segment.piece].len &&
		       segment.piece + 1 < q->n_pieces)
			segment.piece++;
	}
	return add_segment(q, segment);
}

/* AUX records for bytes that no AUXTRACE record has: they were not written. */
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

/* Why the segment ends before piece i. 0: it does not. */
static uint8_t break_before(const struct queue *q, size_t i, uint64_t end)
{
	const struct piece *p = &q->pieces[i];

	if (!i || (p->offset <= end && !p->fresh))
		return 0;
	if (p->snapshot != q->pieces[i - 1].snapshot)
		return GAP_SNAPSHOT;
	return AUX_GAP_AUX_LOST;
}

/* Extends the segment by a piece, or closes it and starts another. */
static int add_piece(struct queue *q, size_t i, struct segment *segment,
		     size_t *mark)
{
	const struct piece *p = &q->pieces[i];
	uint8_t cause = break_before(q, i, segment->end);
	bool reported = i && q->pieces[i - 1].clipped;

	if (cause && (close_segment(q, *segment, mark) < 0 ||
		      (!reported && add_gap(q, segment->end, cause) < 0)))
		return -AUX_E_NOMEM;
	if (!i || cause)
		*segment = (struct segment){ .offset = p->offset,
					     .piece = i,
					     .fresh = p->fresh };
	segment->end = p->offset + p->len;
	if (!p->clipped)
		return 0;
	if (close_segment(q, *segment, mark) < 0 ||
	    add_gap(q, segment->end, AUX_GAP_FILE) < 0)
		return -AUX_E_NOMEM;
	*segment = (struct segment){ .offset = segment->end,
				     .end = segment->end,
				     .piece = i };
	return 0;
}

int chunks_make_segments(struct queue *q)
{
	struct segment segment = { 0 };
	size_t mark = 0;

	if (array_sort_within(q->memory, q->marks, q->n_marks, sizeof(*q->marks),
			      by_offset) < 0)
		return -AUX_E_NOMEM;
	trim_pieces(q);
	for (size_t i = 0; i < q->n_pieces; i++)
		if (add_piece(q, i, &segment, &mark) < 0)
			return -AUX_E_NOMEM;
	if (close_segment(q, segment, &mark) < 0)
		return -AUX_E_NOMEM;
	return misses_tail(q, segment.end)
		       ? add_gap(q, segment.end, AUX_GAP_AUX_LOST)
		       : 0;
}

/*
 * The recorder's losses, among the segments of a stream.
 *
 * Invariant: where bytes end there is at most one gap, however often the loss
 * was noted: by a flag of an AUX record, by a jump of the offset, by the
 * recorder.
 */

struct list {
	struct array_limit *memory;
	struct segment *v;
	size_t n, cap;
};

/* How much a cause explains; of two at one place the higher one stays. */
static unsigned rank(uint8_t gap)
{
	return gap == GAP_SNAPSHOT ? 0 : gap == AUX_GAP_AUX_LOST ? 1 : 2;
}

/* Appends a segment. A gap next to another is merged into it, which keeps the
 * invariant. */
static int push(struct list *l, const struct segment *segment)
{
	struct segment *last = l->n ? &l->v[l->n - 1] : NULL;

	if (!segment->gap && segment->offset == segment->end)
		return 0;
	if (segment->gap && last && last->gap) {
		if (rank(segment->gap) > rank(last->gap))
			last->gap = segment->gap;
		if (!last->detail)
			last->detail = segment->detail;
		return 0;
	}
	if (array_grow_within(l->memory, &l->v, l->n, &l->cap, sizeof(*l->v)) < 0)
		return -AUX_E_NOMEM;
	l->v[l->n++] = *segment;
	return 0;
}

static int push_loss(struct list *l, const struct loss_mark *m, uint64_t offset)
{
	struct segment gap = { .offset = offset,
			       .end = offset,
			       .gap = m->gap,
			       .detail = m->bytes };

	return push(l, &gap);
}

/* One segment, divided at each loss inside it. */
static int push_cut(struct list *l, const struct queue *q,
		    struct segment segment, size_t *next)
{
	while (*next < q->n_losses && q->losses[*next].offset < segment.end) {
		const struct loss_mark *m = &q->losses[(*next)++];
		struct segment head = segment;

		head.end =
			m->offset < segment.offset ? segment.offset : m->offset;
		if (push(l, &head) < 0 || push_loss(l, m, head.end) < 0)
			return -AUX_E_NOMEM;
		segment.fresh &= head.end == segment.offset;
		segment.offset = head.end;
		while (segment.offset >= q->pieces[segment.piece].offset +
						 q->pieces[segment.piece].len &&
		       segment.piece + 1 < q->n_pieces)
			segment.piece++;
	}
	return push(l, &segment);
}

static int loss_by_offset(const void *a, const void *b)
{
	const struct loss_mark *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Losses before and after the bytes that are here, where more was recorded. */
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
	struct list l = { .memory = q->memory };
	uint64_t end, last = 0;
	size_t next;
	int rc = array_sort_within(q->memory, q->losses, q->n_losses,
				   sizeof(*q->losses), loss_by_offset);

	if (q->rebased)
		q->n_losses = 0;
	next = skip_losses(q, &end);
	for (size_t i = 0; rc == 0 && i < q->n_segments; i++) {
		last = q->segments[i].end;
		rc = q->segments[i].gap
			     ? push(&l, &q->segments[i])
			     : push_cut(&l, q, q->segments[i], &next);
	}
	for (; rc == 0 && next < q->n_losses && q->losses[next].offset < end;
	     next++)
		rc = push_loss(&l, &q->losses[next], last);
	free(q->segments);
	array_give(q->memory, q->cap_segments * sizeof(*q->segments));
	q->segments = l.v;
	q->n_segments = l.n;
	q->cap_segments = l.cap;
	return rc;
}

/*
 * CoreSight: segments by AUX record, and the trace IDs in them.
 *
 * The kernel flushes and restarts the trace hardware for each AUX record (Linux
 * 83d1fc92d4cd), so each is a segment of its own, formatted or raw as its flags
 * say; a decoder must not go on from one into the next. Bytes without a record
 * are segments, too.
 */

#define FORMAT_MASK   0xff00u /* PERF_AUX_FLAG_PMU_FORMAT_TYPE_MASK */
#define FORMAT_FRAMED 0x0000u /* PERF_AUX_FLAG_CORESIGHT_FORMAT_CORESIGHT */
#define RAW_CPUS_MAX  1024 /* of one queue; the others are of no CPU */

/* Ids of the formatter itself. */
#define ID_FLUSH   0x7b
#define ID_TRIGGER 0x7d

void chunks_take_hw_id(struct chunks *c, const struct aux_event *ev)
{
	uint32_t cpu =
		ev->id.present & PERF_SAMPLE_CPU ? ev->id.cpu : UINT32_MAX;
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

/* The bytes that a record is about. Of an overwritten ring they end at its
 * offset. */
static void get_extent(const struct aux_mark *m, uint64_t *from, uint64_t *to)
{
	if (m->flags & PERF_AUX_FLAG_OVERWRITE) {
		*to = m->offset;
		*from = m->size < *to ? *to - m->size : 0;
	} else {
		*from = m->offset;
		*to = m->size < UINT64_MAX - *from ? *from + m->size
						   : UINT64_MAX;
	}
}

struct split {
	struct queue *q;
	struct segment *segments;
	size_t n, cap;
	size_t mark; /* the first whose bytes may still come */
	bool *used; /* by mark */
};

/* Appends [from, to) of a segment, as what the AUX record mark - 1 is about (0:
 * none). */
static int cs_push(struct split *s, struct segment segment, uint64_t from,
		   uint64_t to, size_t mark)
{
	const struct queue *q = s->q;
	size_t like = mark ? mark : s->mark + (s->mark < q->n_marks);

	if (!segment.gap && from == to)
		return 0;
	if (array_grow_within(s->q->memory, &s->segments, s->n, &s->cap,
			      sizeof(*s->segments)) < 0)
		return -AUX_E_NOMEM;
	segment.fresh &= from == segment.offset;
	segment.offset = from;
	segment.end = to;
	segment.mark = mark;
	/* bytes without a record are like those of the next one, or of
	 * the last */
	segment.raw = like &&
		      (q->marks[like - 1].flags & FORMAT_MASK) != FORMAT_FRAMED;
	while (!segment.gap && from - q->pieces[segment.piece].offset >=
				       q->pieces[segment.piece].len)
		segment.piece++;
	if (mark)
		s->used[mark - 1] = true;
	s->segments[s->n++] = segment;
	return 0;
}

/* Divides a segment at the borders of AUX records, which may overlap and leave
 * holes. */
static int split_segment(struct split *s, const struct segment *segment)
{
	const struct queue *q = s->q;
	uint64_t at = segment->offset, from, to;
	size_t i;

	for (i = s->mark; i < q->n_marks && !q->rebased; i++) {
		get_extent(&q->marks[i], &from, &to);
		if (from >= segment->end)
			break;
		if (to > segment->end)
			to = segment->end;
		if (to <= at)
			continue;
		s->mark = i;
		if (from > at && cs_push(s, *segment, at, from, 0) < 0)
			return -AUX_E_NOMEM;
		if (from < at)
			from = at;
		if (cs_push(s, *segment, from, to, i + 1) < 0)
			return -AUX_E_NOMEM;
		at = to;
		if (at == segment->end)
			return 0;
	}
	return cs_push(s, *segment, at, segment->end, 0);
}

/* Records whose bytes are all missing. */
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

int chunks_split_segments(struct chunks *c, struct queue *q)
{
	struct split s = { .q = q };
	int rc = 0;

	s.used = calloc(q->n_marks + 1, sizeof(*s.used));
	if (!s.used)
		return -AUX_E_NOMEM;
	for (size_t i = 0; rc == 0 && i < q->n_segments; i++)
		rc = q->segments[i].gap ? cs_push(&s, q->segments[i],
						  q->segments[i].offset,
						  q->segments[i].end, 0)
					: split_segment(&s, &q->segments[i]);
	c->n_orphan_aux += count_orphans(&s);
	free(s.used);
	free(q->segments);
	array_give(q->memory, q->cap_segments * sizeof(*q->segments));
	q->segments = s.segments;
	q->n_segments = s.n;
	q->cap_segments = s.cap;
	return rc;
}

/* Scans the frames of a segment. A frame may begin in one piece and end in the
 * next, or in a later one: it is put together in cut. */
static void scan_frames(const struct queue *q, const struct segment *segment,
			struct cs_frame_ids *ids)
{
	uint8_t cut[CS_FRAME_SIZE];
	size_t n_cut = 0, n, take;
	uint64_t at = segment->offset;

	for (size_t i = segment->piece; at < segment->end; i++) {
		const struct piece *p = &q->pieces[i];
		const uint8_t *data = p->data + (at - p->offset);

		n = (size_t)(p->len - (at - p->offset));
		if (n > segment->end - at)
			n = (size_t)(segment->end - at);
		at += n;
		while (n_cut && n) {
			take = sizeof(cut) - n_cut < n ? sizeof(cut) - n_cut
						       : n;
			memcpy(cut + n_cut, data, take);
			n_cut += take;
			data += take;
			n -= take;
			if (n_cut < sizeof(cut))
				break;
			cs_frame_scan(ids, cut, sizeof(cut));
			n_cut = 0;
		}
		cs_frame_scan(ids, data, n);
		if (n % sizeof(cut)) {
			memcpy(cut, data + (n - n % sizeof(cut)),
			       n % sizeof(cut));
			n_cut = n % sizeof(cut);
		}
	}
}

/* Collects the trace IDs of a segment, and adds their bytes to sum. */
static void scan_segment(const struct queue *q, struct segment *segment,
			 struct cs_frame_ids *sum)
{
	struct cs_frame_ids ids = { .id = CS_FRAME_NO_ID };

	scan_frames(q, segment, &ids);
	for (unsigned id = 0; id < CS_FRAME_N_IDS; id++) {
		sum->n[id] += ids.n[id];
		if (ids.n[id])
			segment->ids[id / 64] |= UINT64_C(1) << id % 64;
	}
}

static int add_source(struct chunks *c, const struct chunk_source *source)
{
	if (array_grow_within(&c->memory, &c->sources, c->n_sources, &c->cap_sources,
		       sizeof(*c->sources)) < 0)
		return -AUX_E_NOMEM;
	c->sources[c->n_sources++] = *source;
	return 0;
}

/* The CPU that a raw segment is of. */
int32_t chunks_raw_cpu(const struct queue *q, const struct segment *segment)
{
	uint32_t cpu =
		segment->mark ? q->marks[segment->mark - 1].cpu : UINT32_MAX;

	return cpu <= INT32_MAX ? (int32_t)cpu : q->cpu;
}

/* Adds a raw segment to the source of its CPU. The last of RAW_CPUS_MAX sources
 * gets what is left: a damaged file may name any number of CPUs. */
static int add_raw(struct chunks *c, size_t first, uint32_t queue,
		   const struct segment *segment)
{
	int32_t cpu = chunks_raw_cpu(&c->queues[queue], segment);
	uint64_t n = segment->end - segment->offset;

	for (size_t i = first; i < c->n_sources; i++) {
		if (c->sources[i].cpu != cpu && i - first < RAW_CPUS_MAX - 1)
			continue;
		c->sources[i].n_bytes += n;
		return 0;
	}
	return add_source(c, &(struct chunk_source){
				     .queue = queue,
				     .raw = true,
				     .cpu = cpu,
				     .n_bytes = n,
				     .meta = csmeta_find_cpu(&c->cs, cpu),
			     });
}

/* IHI 0029: 0 is padding; flush and trigger IDs carry no trace. Other reserved
 * IDs are reported as unknown sources. */
static bool is_source(unsigned id)
{
	return id && id != ID_FLUSH && id != ID_TRIGGER;
}

static int add_ids(struct chunks *c, uint32_t queue,
		   const struct cs_frame_ids *ids)
{
	for (unsigned id = 0; id < CS_FRAME_N_IDS; id++) {
		const struct csmeta_source *meta;

		if (!ids->n[id] || !is_source(id))
			continue;
		meta = id > CS_FRAME_ID_MAX
			       ? NULL
			       : csmeta_find_id(&c->cs, c->queues[queue].cpu,
						id);
		if (add_source(c, &(struct chunk_source){
					  .queue = queue,
					  .id = (uint8_t)id,
					  .cpu = meta ? meta->cpu : -1,
					  .n_bytes = ids->n[id],
					  .meta = meta }) < 0)
			return -AUX_E_NOMEM;
	}
	return 0;
}

/* Appends the sources of a queue; the first of them reports what belongs to
 * none. */
static int find_sources(struct chunks *c, uint32_t queue)
{
	struct queue *q = &c->queues[queue];
	struct cs_frame_ids ids = { 0 };
	size_t first = c->n_sources;

	for (size_t i = 0; i < q->n_segments; i++) {
		struct segment *segment = &q->segments[i];

		if (segment->gap)
			continue;
		if (!segment->raw)
			scan_segment(q, segment, &ids);
		else if (add_raw(c, first, queue, segment) < 0)
			return -AUX_E_NOMEM;
	}
	if (add_ids(c, queue, &ids) < 0)
		return -AUX_E_NOMEM;
	/* without a source nothing would report the gaps */
	if (c->n_sources == first && q->n_segments &&
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
		if (find_sources(c, (uint32_t)i) < 0)
			return -AUX_E_NOMEM;
	return 0;
}
