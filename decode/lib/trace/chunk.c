/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chunk_iter: the segments of a queue, in chunks of bounded size.
 *
 * A long segment of Intel PT is cut at the first resume point (below) after
 * each multiple of chunk_min from where the segment starts: where that is
 * depends on the segment alone and not on where decoding begins, so that any
 * part of a recording is cut like the whole. The chunk before ends at the IP of
 * that PSB+. Bytes of several pieces are put together, so no more than a chunk
 * and a little is ever copied.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/lib/packet/packet.h"
#include "decode/lib/trace/gap.h"
#include "decode/lib/trace/trace.h"

/*
 * CoreSight: the bytes of one source, segment by segment.
 *
 * A chunk is what a segment has of the source; at a barrier packet inside the
 * segment it ends and the next one begins, with a gap between them. Gaps of the
 * queue are gaps of each source. Bytes whose ID no source has are reported
 * once, by the queue's first source.
 */

#define NO_SOURCE 0xfe	/* no frame has this ID: they have seven bits */
/* cs_frame_pick has 32-bit positions; a part of this size stays well below. */
#define PART_MAX ((uint64_t)1 << 30)

void chunk_iter_pick(struct chunk_iter *it, const struct chunk_source *source)
{
	it->source = source;
	it->part_max = PART_MAX;
	/* a source without an ID picks nothing, not the null ID's bytes */
	cs_frame_pick_init(&it->pick, source->id ? source->id : NO_SOURCE);
}

/* Is the segment one in which this source may have bytes, or has to report
 * some? */
static bool is_in(const struct chunk_iter *it, const struct segment *segment)
{
	const struct chunk_source *s = it->source;

	if (segment->raw != s->raw)
		return false;
	if (s->raw)
		return chunks_raw_cpu(it->q, segment) == s->cpu;
	/* bytes without a source may be in a segment with any IDs */
	return s->first || segment->ids[s->id / 64] >> s->id % 64 & 1;
}

/* A segment that begins inside of a packet, by its record or by how it
 * looks. */
static bool starts_anywhere(const struct chunk_iter *it,
			    const struct segment *segment)
{
	const struct aux_mark *m =
		segment->mark ? &it->q->marks[segment->mark - 1] : NULL;

	return segment->fresh || (m && m->flags & PERF_AUX_FLAG_OVERWRITE) ||
	       (!segment->raw && it->n_left >= CS_FRAME_SIZE &&
		cs_frame_is_barrier(it->left));
}

/* A byte equal to its predecessor all along: memcmp is vectorized, a loop is
 * not. */
static bool all_zero(const uint8_t *p, uint64_t n)
{
	return !n || (!*p && !memcmp(p, p + 1, n - 1));
}

/* Skips barriers; returns how many. */
static unsigned skip_barriers(struct chunk_iter *it)
{
	unsigned n = 0;

	while (it->n_left >= CS_FRAME_SIZE && cs_frame_is_barrier(it->left)) {
		it->left += CS_FRAME_SIZE;
		it->n_left -= CS_FRAME_SIZE;
		n++;
	}
	return n;
}

/*
 * Why there is a gap before the picked bytes; 0: there is none. Bytes before
 * the first ID have no owner: only the first source reports them, and not where
 * the segment may begin anywhere (the ID was in a frame before it), or where
 * they are all padding.
 */
static uint8_t cause_before(const struct chunk_iter *it, bool lost,
			    const uint8_t *frames, uint64_t n, uint64_t *detail)
{
	if (it->forced)
		return AUX_GAP_DECODER;
	if (lost)
		return AUX_GAP_AUX_LOST;
	if (!it->source->first || it->anywhere)
		return 0;
	*detail = cs_frame_unowned(frames, n);
	return *detail && !all_zero(frames, n < *detail ? n : *detail)
		       ? AUX_GAP_NO_SYNC
		       : 0;
}

/* Picks the source's bytes up to the next barrier, or as many as a chunk may
 * have. The current ID goes on only over a cut that part_max forced. Returns
 * bytes of frames. */
static int64_t pick_part(struct chunk_iter *it)
{
	uint8_t now = it->pick.now;
	uint64_t max = it->n_left < it->part_max ? it->n_left : it->part_max;
	int64_t n;

	cs_frame_pick_reset(&it->pick);
	if (it->forced)
		it->pick.now = now;
	it->base = it->now->end - it->n_left;
	n = cs_frame_pick_add(&it->pick, it->left, max);
	if (n < 0)
		return n;
	it->left += n;
	it->n_left -= (uint64_t)n;
	it->chunk = (struct aux_chunk){ .size = sizeof(it->chunk),
					.data = it->pick.data,
					.len = it->pick.n };
	return n;
}

static int emit_gap(struct chunk_iter *it, uint64_t offset, uint8_t cause,
		    uint64_t detail);

/* The next chunk of a segment's frames. CHUNK_END: the source has none here.
 * With a gap before it, the chunk is held until the gap has been returned. */
static int next_part(struct chunk_iter *it)
{
	bool inside = it->now->end - it->n_left > it->now->offset;
	bool barrier = skip_barriers(it);
	const uint8_t *frames = it->left;
	uint64_t detail = 0;
	uint8_t cause;
	int64_t n;

	it->forced &= !barrier;
	it->anywhere |= barrier;
	n = pick_part(it);
	if (n < 0)
		return (int)n;
	cause = cause_before(it, inside && barrier, frames, (uint64_t)n,
			     &detail);
	it->forced =
		it->n_left >= CS_FRAME_SIZE && !cs_frame_is_barrier(it->left);
	if (!cause)
		return it->pick.n ? CHUNK_DATA : CHUNK_END;
	it->held = it->pick.n;
	return emit_gap(it, it->base, cause, detail);
}

/* Bytes at the end of a segment that are less than a frame cannot be unpacked;
 * zeros are padding. */
static int gap_of_tail(struct chunk_iter *it)
{
	uint64_t n = it->n_left;

	it->n_left = 0;
	if (!it->source->first || all_zero(it->left, n))
		return CHUNK_END;
	return emit_gap(it, it->now->end - n, AUX_GAP_NO_SYNC, n);
}

/* The gap for all bytes of a source that AUXTRACE_INFO does not describe, once:
 * without its registers they cannot be decoded. */
static int gap_of_unknown(struct chunk_iter *it, const struct segment *segment)
{
	unsigned id = it->source->id;

	if (it->reported || (id && !(segment->ids[id / 64] >> id % 64 & 1)))
		return CHUNK_END;
	it->reported = true;
	return emit_gap(it, segment->offset, GAP_UNKNOWN_ID, id);
}

/* Enters a segment of bytes. CHUNK_END: its frames are to be looked through, if
 * it has any. */
static int enter_segment(struct chunk_iter *it, const struct segment *segment)
{
	it->now = segment;
	it->piece = segment->piece;
	if (!it->source->meta && (it->source->id || segment->raw))
		return gap_of_unknown(it, segment);
	if (chunk_iter_bytes(it, segment->offset,
			     segment->end - segment->offset) < 0)
		return -AUX_E_NOMEM;
	it->left = it->chunk.data;
	it->n_left = it->chunk.len;
	it->anywhere = starts_anywhere(it, segment);
	it->forced = false;
	if (!segment->raw)
		return CHUNK_END;
	it->n_left = 0;
	return CHUNK_DATA;
}

static int chunk_iter_next_picked(struct chunk_iter *it)
{
	const struct segment *segment;
	int step = CHUNK_END;

	if (it->held) {
		it->held = false;
		return CHUNK_DATA;
	}
	for (;;) {
		while (step == CHUNK_END && it->n_left >= CS_FRAME_SIZE)
			step = next_part(it);
		if (step == CHUNK_END && it->n_left)
			step = gap_of_tail(it);
		if (step != CHUNK_END || it->segment == it->q->n_segments ||
		    it->segment >= it->end.segment)
			return step;
		segment = &it->q->segments[it->segment++];
		if (segment->gap)
			return emit_gap(it, segment->offset, segment->gap,
					segment->detail);
		if (is_in(it, segment))
			step = enter_segment(it, segment);
	}
}

struct cs_frame_run chunk_iter_run(struct chunk_iter *it, uint64_t offset)
{
	struct cs_frame_run run = { .pos = (size_t)offset,
				    .len = SIZE_MAX,
				    .offset = offset };

	if (!it->source || it->source->raw)
		return run;
	run = cs_frame_run(&it->pick, (size_t)offset);
	run.offset += it->base;
	return run;
}

uint64_t chunk_iter_place(struct chunk_iter *it, uint64_t offset)
{
	struct cs_frame_run run = chunk_iter_run(it, offset);

	return cs_frame_at(&run, (size_t)offset);
}

/*
 * Resume points: where Intel PT may be cut, at a PSB whose PSB+ says where the
 * flow is.
 *
 * A decoder that starts there knows all that it needs (IP, mode, time), and the
 * stack of return compression is empty after a PSB (SDM Vol. 3, "Packet Stream
 * Boundary"). Where there is any doubt it is no place to cut: no FUP in the
 * PSB+ while tracing may be on, a packet before it that belongs to the one
 * after it, an overflow. The packets before it are read from the PSB before,
 * for packets cannot be read backwards; nothing else of the trace is looked at,
 * which makes the cut independent of where decoding began.
 */

/* The size of the most common packets, by their first byte alone: whole PSB
 * periods are read for each cut. 0: decode it in full. *last becomes PTPKT_TNT
 * for any short TNT and PTPKT_TIP for a TIP; timing packets leave it. */
static size_t skip_packet(const uint8_t *p, const uint8_t *end, uint8_t *last)
{
	static const uint8_t ip_bytes[8] = { 1, 3, 5, 7, 7, 0, 9, 0 };
	uint8_t b = *p;
	size_t n = 1;

	if (!(b & 1)) {
		if (b > 2)
			*last = PTPKT_TNT;
		return b != 2;
	}
	if ((b & 3) == 3) { /* CYC; more of it while a bit says so */
		for (bool more = b & 4; more; n++) {
			if (p + n == end || n > 8)
				return 0;
			more = p[n] & 1;
		}
		return n;
	}
	if (b == 0x59)
		return 2;
	if ((b & 0x1f) != 0x0d)
		return 0;
	*last = PTPKT_TIP;
	return ip_bytes[b >> 5];
}

static bool is_timing(uint8_t type)
{
	return type == PTPKT_PAD || type == PTPKT_CYC || type == PTPKT_MTC ||
	       type == PTPKT_CBR || type == PTPKT_TSC || type == PTPKT_TMA;
}

/*
 * Is the trace undamaged between these two PSBs, so that it may end at the
 * later one? The last packet that is not timing must leave nothing open: after
 * a FUP, say, the packet that belongs to it would be past the PSB+.
 */
static bool may_end(const uint8_t *p, const uint8_t *psb, unsigned errata)
{
	struct ptpkt pkt;
	uint8_t last = PTPKT_BAD;
	unsigned block = 0;

	while (p < psb) {
		size_t skip = block ? 0 : skip_packet(p, psb, &last);
		int n = (int)skip;

		if (!skip) {
			n = ptpkt_next_on(p, psb, errata, &block, &pkt);
			if (n <= 0 || pkt.type == PTPKT_OVF)
				return false;
			if (!is_timing(pkt.type))
				last = pkt.type;
		}
		p += n;
	}
	return p == psb && !block &&
	       (last == PTPKT_TNT || last == PTPKT_TIP ||
		last == PTPKT_TIP_PGE || last == PTPKT_PSBEND);
}

/* Reads a PSB+. True: it is complete, and has only the packets that the SDM
 * allows in it ("PSB+"). False leaves in *s what was read up to there. */
static bool read_psb(const uint8_t *p, const uint8_t *end, unsigned errata,
		     struct chunk_start *s)
{
	struct ptpkt pkt;
	unsigned block = 0;
	int n;

	*s = (struct chunk_start){ 0 };
	for (;; p += n) {
		p = ptpkt_skip_pads(p, end);
		n = ptpkt_next_on(p, end, errata, &block, &pkt);
		if (n <= 0)
			return false;
		switch (pkt.type) {
		case PTPKT_FUP:
			s->has_ip = ptpkt_ip(&pkt, &s->ip);
			break;
		case PTPKT_TSC:
			s->has_tsc = true;
			s->tsc = pkt.payload;
			break;
		case PTPKT_PSBEND:
			return true;
		case PTPKT_PSB:
		case PTPKT_PAD:
		case PTPKT_CYC:
		case PTPKT_MTC:
		case PTPKT_CBR:
		case PTPKT_TMA:
		case PTPKT_VMCS:
		case PTPKT_PIP:
		case PTPKT_MODE_EXEC:
		case PTPKT_MODE_TSX:
		case PTPKT_MNT:
			break;
		default:
			return false;
		}
	}
}

/* What a chunk's first PSB+ says, as far as it goes; nothing more is
 * decoded. */
static struct chunk_start chunks_read_start(const struct chunk_iter *it,
					    const uint8_t *p,
					    const uint8_t *end)
{
	struct chunk_start s;

	read_psb(p, end, it->errata, &s);
	return s;
}

#define CHUNK_HEAD	512 /* a PSB+ is no longer */

/* *done: of the bytes at p, so many need no second look if there are more after end. */
static const uint8_t *chunks_find_seam(const struct chunk_iter *it,
				       const uint8_t *p, const uint8_t *end,
				       uint64_t *ip, size_t *done)
{
	const uint8_t *psb = ptpkt_find_psb(p + *done, end), *next;
	struct chunk_start s;

	for (; psb; psb = next) {
		next = ptpkt_find_psb(psb + PTPKT_PSB_SIZE, end);
		if (end - psb >= CHUNK_HEAD)
			*done = (size_t)(psb - p);
		if (next && read_psb(next, end, it->errata, &s) && s.has_ip &&
		    may_end(psb, next, it->errata)) {
			*ip = s.ip;
			return next;
		}
	}
	return NULL;
}

#define LAST_WINDOW ((size_t)4 << 10) /* most PSBs are closer */

/* From the end, in windows that double: the last one is mostly near. */
const uint8_t *chunks_last_psb(const uint8_t *p, const uint8_t *end)
{
	size_t n = LAST_WINDOW;
	const uint8_t *last = NULL, *at;

	for (;; n *= 2) {
		at = n < (size_t)(end - p) ? end - n : p;
		while ((at = ptpkt_find_psb(at, end)))
			last = at++;
		if (last || n >= (size_t)(end - p))
			return last;
	}
}

/* A chunk is cut at any PSB when it would grow beyond this, or that many times
 * chunk_min. */
#define CHUNK_MAX	((uint64_t)64 << 20)
#define CHUNK_MAX_TIMES 32
#define ROOM_MORE	((uint64_t)64 << 10)
/* Half of what is looked at for a place to cut, at first. */
#define CUT_WINDOW ((uint64_t)16 << 10)

void chunk_iter_init(struct chunk_iter *it, const struct queue *q,
		     uint32_t trace_type, uint64_t chunk_min)
{
	*it = (struct chunk_iter){ .q = q,
				   .trace_type = trace_type,
				   .chunk_min = chunk_min ? chunk_min
							  : CHUNK_MIN_DEFAULT,
				   .end = { .segment = SIZE_MAX } };
}

void chunk_iter_fini(struct chunk_iter *it)
{
	free(it->joined.p);
	it->joined = (struct chunk_room){ 0 };
	cs_frame_pick_fini(&it->pick);
}

static int emit_gap(struct chunk_iter *it, uint64_t offset, uint8_t cause,
		    uint64_t detail)
{
	it->gap = (struct aux_flow){ .kind = AUX_FLOW_GAP,
				     .what = cause,
				     .offset = offset,
				     .gap = { .detail = detail } };
	return CHUNK_GAP;
}

/* Chunks are of nearly one size: a buffer whose pages were written once serves
 * the next chunk, and none is freed while other threads run (unmapping
 * interrupts them). */
static bool make_room(struct chunk_room *room, uint64_t len)
{
	if (len <= room->size && len >= room->size / 8)
		return true;
	free(room->p);
	room->size = len + ROOM_MORE;
	room->p = malloc(room->size);
	if (!room->p)
		room->size = 0;
	return room->p;
}

/*
 * Bytes of a segment in one place: in the file, or put together in the room. *piece is
 * one at or before at, and is moved on. NULL: out of memory.
 */
static const uint8_t *join_bytes(const struct queue *q, size_t *piece,
				 uint64_t at, uint64_t len,
				 struct chunk_room *room)
{
	const struct piece *p = &q->pieces[*piece];
	uint64_t skip, n = 0;

	for (; at - p->offset >= p->len; p++)
		++*piece;
	skip = at - p->offset;
	if (len <= p->len - skip)
		return p->data + skip;
	if (!make_room(room, len))
		return NULL;
	for (; n < len; p++, skip = 0) {
		uint64_t part = p->len - skip;

		if (part > len - n)
			part = len - n;
		memcpy(room->p + n, p->data + skip, part);
		n += part;
	}
	return room->p;
}

int chunk_iter_bytes(struct chunk_iter *it, uint64_t at, uint64_t len)
{
	it->chunk = (struct aux_chunk){ .size = sizeof(it->chunk),
					.len = len,
					.stream_offset = at };
	it->chunk.data = join_bytes(it->q, &it->piece, at, len, &it->joined);
	return it->chunk.data ? 0 : -AUX_E_NOMEM;
}

int chunk_iter_join(const struct chunk_iter *it, size_t piece,
		    struct aux_chunk *c, struct chunk_room *room)
{
	c->data = join_bytes(it->q, &piece, c->stream_offset, c->len, room);
	return c->data ? 0 : -AUX_E_NOMEM;
}

/* Looks for a cut in n bytes after from, of which *done were looked at. forced:
 * where there is no resume point the last PSB will do, and without a PSB the end
 * of the n bytes. 1: found; 0; -AUX_E_NOMEM. */
static int look_for_cut(const struct chunk_iter *it, uint64_t from, uint64_t n,
			bool forced, struct chunk_cut *cut, size_t *done)
{
	size_t piece = it->piece;
	struct chunk_room room = { 0 };
	const uint8_t *p = join_bytes(it->q, &piece, from, n, &room), *seam;

	if (!p)
		return -AUX_E_NOMEM;
	seam = chunks_find_seam(it, p, p + n, &cut->end_ip, done);
	cut->continues = seam;
	if (!seam && forced) {
		seam = chunks_last_psb(p, p + n);
		cut->forced = seam;
		if (!seam)
			seam = p + n;
	}
	if (seam)
		cut->at = from + (uint64_t)(seam - p);
	free(room.p);
	return seam != NULL;
}

/*
 * The cut after cell multiples of chunk_min. 1: there is one; 0: the segment
 * ends before; -AUX_E_NOMEM. The window doubles, which keeps the work linear;
 * past max a cut is forced, which bounds the memory of a trace without resume
 * points.
 */
static int find_cut(const struct chunk_iter *it, const struct segment *segment,
		    uint64_t cell, struct chunk_cut *cut)
{
	uint64_t max = it->chunk_min * CHUNK_MAX_TIMES > CHUNK_MAX
			       ? it->chunk_min * CHUNK_MAX_TIMES
			       : CHUNK_MAX;
	uint64_t from, n = CUT_WINDOW, left;
	size_t done = 0;
	int rc = 0;

	if (it->trace_type != AUX_TRACE_INTEL_PT ||
	    segment->end - segment->offset <= it->chunk_min * cell)
		return 0;
	from = segment->offset + it->chunk_min * cell;
	left = segment->end - from;
	do {
		n = n < left / 2 ? 2 * n : left;
		rc = look_for_cut(it, from, n, n > max && n < left, cut,
				  &done);
	} while (!rc && n < left);
	return rc;
}

uint64_t chunk_iter_cells(const struct chunk_iter *it,
			  const struct segment *segment)
{
	uint64_t len = segment->end - segment->offset;

	if (segment->gap || !len)
		return 0;
	return it->trace_type == AUX_TRACE_INTEL_PT
		       ? (len - 1) / it->chunk_min + 1
		       : 1;
}

/* Reads the first PSB+ at or after place->cut.at. 1: there is one; 0;
 * -AUX_E_NOMEM. */
static int read_place(const struct chunk_iter *it,
		      const struct segment *segment, struct chunk_place *place)
{
	uint64_t n = CHUNK_HEAD, left = segment->end - place->cut.at;
	const uint8_t *p, *psb = NULL;
	size_t piece;
	struct chunk_room room = { 0 };

	do {
		n = n < left / 2 ? 2 * n : left;
		piece = it->piece;
		p = join_bytes(it->q, &piece, place->cut.at, n, &room);
		if (!p)
			return -AUX_E_NOMEM; /* and no room */
		psb = ptpkt_find_psb(p, p + n);
		/* all of its PSB+ has to be there */
		if (psb && n < left && p + n - psb < CHUNK_HEAD)
			psb = NULL;
		if (psb)
			place->start = chunks_read_start(it, psb, p + n);
	} while (!psb && n < left);
	free(room.p);
	return psb != NULL;
}

/* The first piece that ends after a stream offset; q->n_pieces: none does. */
static size_t find_piece(const struct queue *q, uint64_t at)
{
	size_t lo = 0, n = q->n_pieces;

	while (n) {
		const struct piece *p = &q->pieces[lo + n / 2];

		if (p->offset + p->len <= at) {
			lo += n / 2 + 1;
			n -= n / 2 + 1;
		} else {
			n /= 2;
		}
	}
	return lo;
}

int chunk_iter_find(struct chunk_iter *it, size_t run_no, uint64_t cell,
		    struct chunk_place *place)
{
	const struct segment *segment = &it->q->segments[run_no];
	int rc = 1;

	*place = (struct chunk_place){ .segment = run_no,
				       .cut = { .at = segment->offset } };
	it->piece = segment->piece;
	if (it->trace_type != AUX_TRACE_INTEL_PT)
		return 1;
	if (cell) {
		it->piece = find_piece(it->q,
				       segment->offset + cell * it->chunk_min);
		rc = find_cut(it, segment, cell, &place->cut);
	}
	return rc > 0 ? read_place(it, segment, place) : rc;
}

void chunk_iter_limit(struct chunk_iter *it, const struct chunk_span *span)
{
	it->segment = span->first.segment;
	it->end = span->end;
	if (it->source || it->segment >= it->q->n_segments)
		return;
	it->at = span->first.cut.at;
	it->piece = find_piece(it->q, it->at);
}

/* The bytes of a chunk; if the iterator is lazy, not those that are in several
 * pieces: only the PSB+ is read, and a worker thread joins the rest
 * (chunk_iter_join). */
static int read_bytes(struct chunk_iter *it, uint64_t at, uint64_t len,
		      bool first)
{
	uint64_t head = len < CHUNK_HEAD ? len : CHUNK_HEAD;
	const struct piece *p;

	if (!it->lazy || first)
		return chunk_iter_bytes(it, at, len);
	if (chunk_iter_bytes(it, at, head) < 0)
		return -AUX_E_NOMEM;
	if (ptpkt_find_psb(it->chunk.data, it->chunk.data + head) !=
	    it->chunk.data)
		return chunk_iter_bytes(it, at, len);
	it->start = chunks_read_start(it, it->chunk.data,
				      it->chunk.data + head);
	p = &it->q->pieces[it->piece];
	it->chunk.len = len;
	if (len > p->len - (at - p->offset))
		it->chunk.data = NULL;
	return 0;
}

/* The next chunk of a segment, from it->at on; moves it->at past it. */
static int cut_chunk(struct chunk_iter *it, const struct segment *segment)
{
	uint64_t at = it->at;
	struct chunk_cut cut = { .at = segment->end };
	uint64_t done = (at - segment->offset) / it->chunk_min;
	int rc = find_cut(it, segment, done + 1, &cut);

	if (rc < 0)
		return rc;
	if (it->segment == it->end.segment && cut.at > it->end.cut.at)
		cut = it->end.cut;
	if (read_bytes(it, at, cut.at - at, at == segment->offset) < 0)
		return -AUX_E_NOMEM;
	if (cut.continues) {
		it->chunk.flags = AUX_CHUNK_HAS_END_IP;
		it->chunk.end_ip = cut.end_ip;
	}
	it->forced = cut.forced;
	it->at = cut.at;
	if (it->at == segment->end)
		it->segment++;
	return 0;
}

/* Only padding and timing packets? Before the first PSB of a stream such
 * packets say nothing that could be lost. */
static bool no_flow(const uint8_t *p, const uint8_t *end)
{
	struct ptpkt pkt;

	while (p < end) {
		int n = ptpkt_decode(p, end, &pkt);

		if (n <= 0 || (pkt.type != PTPKT_PAD && pkt.type != PTPKT_CYC &&
			       pkt.type != PTPKT_MTC && pkt.type != PTPKT_CBR))
			return false;
		p += n;
	}
	return true;
}

/* Intel PT decodes from its first PSB on. CHUNK_END: only padding here. What a
 * snapshot has before that is part of what was not recorded (fresh). */
static int start_at_psb(struct chunk_iter *it, bool fresh)
{
	struct aux_chunk *c = &it->chunk;
	const uint8_t *psb = ptpkt_find_psb(c->data, c->data + c->len);
	size_t before = psb ? (size_t)(psb - c->data) : c->len;
	uint64_t offset = c->stream_offset;
	bool padding = all_zero(c->data, before) ||
		       (!offset && psb && no_flow(c->data, psb));

	c->data += before;
	c->len -= before;
	c->stream_offset += before;
	it->start = chunks_read_start(it, c->data, c->data + c->len);
	if (padding || (fresh && psb))
		return psb ? CHUNK_DATA : CHUNK_END;
	it->held = psb;
	return emit_gap(it, offset, AUX_GAP_NO_SYNC, before);
}

/* A gap comes before the chunk that begins at its place, never after it. */
int chunk_iter_next(struct chunk_iter *it)
{
	const struct segment *segment;
	int step;

	if (it->source)
		return chunk_iter_next_picked(it);
	if (it->held) {
		it->held = false;
		return CHUNK_DATA;
	}
	if (it->forced) {
		it->forced = false;
		return emit_gap(it, it->at, AUX_GAP_DECODER, 0);
	}
	while (it->segment < it->q->n_segments &&
	       it->segment <= it->end.segment) {
		segment = &it->q->segments[it->segment];
		if (segment->gap) {
			it->segment++;
			return emit_gap(it, segment->offset, segment->gap,
					segment->detail);
		}
		if (it->at < segment->offset || it->at >= segment->end) {
			it->at = segment->offset;
			it->piece = segment->piece;
		}
		if (it->segment == it->end.segment && it->at >= it->end.cut.at)
			break;
		if (cut_chunk(it, segment) < 0)
			return -AUX_E_NOMEM;
		step = it->trace_type == AUX_TRACE_INTEL_PT && it->chunk.data
			       ? start_at_psb(it,
					      segment->fresh &&
						      it->chunk.stream_offset ==
							      segment->offset)
			       : CHUNK_DATA;
		if (step != CHUNK_END)
			return step;
	}
	return CHUNK_END;
}

/* Pieces lie anywhere in the file, so each one's part of the range is released
 * alone. */
void chunks_release(const struct queue *q, const struct aux_reader *r,
		    uint64_t from, uint64_t to)
{
	size_t lo = find_piece(q, from);

	for (; lo < q->n_pieces && q->pieces[lo].offset < to; lo++) {
		const struct piece *p = &q->pieces[lo];
		uint64_t a = from > p->offset ? from - p->offset : 0;
		uint64_t b = to - p->offset < p->len ? to - p->offset : p->len;

		aux_reader_let_go(r, p->data + a, b - a);
	}
}
