/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chunk_iter: the runs of a queue, in chunks of bounded size.
 *
 * A long run of Intel PT is cut at the first seam (seam.c) behind each
 * multiple of chunk_min from where the run starts: where, depends on the run
 * alone, not on where one begins. The chunk before it ends at the IP of that
 * PSB+. Bytes of several pieces are put together, so no more than a chunk and a
 * little is ever copied.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/lib/trace/chunk.h"
#include "decode/lib/packet/pt_packet.h"

/* A chunk grows no further, whatever is in it: so much, or that many times. */
#define CHUNK_MAX ((uint64_t)64 << 20)
#define CHUNK_MAX_TIMES 32
#define CHUNK_HEAD 512	/* a PSB+ is no longer */
#define ROOM_MORE ((uint64_t)64 << 10)
/* Half of what is looked at for a place to cut, at first. */
#define CUT_WINDOW ((uint64_t)16 << 10)

void chunk_iter_init(struct chunk_iter *it, const struct queue *q,
		     uint32_t trace_type, uint64_t chunk_min)
{
	*it = (struct chunk_iter){ .q = q, .trace_type = trace_type,
				   .chunk_min = chunk_min ?
							chunk_min :
							CHUNK_MIN_DEFAULT,
				   .end = { .run = SIZE_MAX } };
}

void chunk_iter_fini(struct chunk_iter *it)
{
	free(it->joined.p);
	it->joined = (struct chunk_room){ 0 };
	etmframe_pick_fini(&it->pick);
}

static int give_gap(struct chunk_iter *it, uint64_t offset, uint8_t cause,
		    uint64_t detail)
{
	it->gap = (struct aux_flow){ .kind = AUX_FLOW_GAP, .what = cause,
				     .offset = offset,
				     .gap = { .detail = detail } };
	return CHUNK_GAP;
}

/* Chunks are of nearly one size: a page that was written once is there for the next,
 * and none is given back while other threads run. */
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
 * Bytes of a run in one place: in the file, or put together in the room. *piece: one
 * at or before at; it is moved on. NULL: out of memory.
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
	it->chunk = (struct aux_chunk){ .size = sizeof(it->chunk), .len = len,
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

/* Looks in n bytes behind from. 1: found; forced: the last PSB will do, or
 * there. */
static int look_for_cut(const struct chunk_iter *it, uint64_t from, uint64_t n,
			bool forced, struct chunk_cut *cut)
{
	size_t piece = it->piece;
	struct chunk_room room = { 0 };
	const uint8_t *p = join_bytes(it->q, &piece, from, n, &room), *seam;

	if (!p)
		return -AUX_E_NOMEM;
	seam = chunks_find_seam(p, p + n, &cut->end_ip);
	cut->seam = seam;
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

/* The cut behind so many multiples of chunk_min; 1: there is one. */
static int find_cut(const struct chunk_iter *it, const struct run *run,
		    uint64_t cell, struct chunk_cut *cut)
{
	uint64_t max = it->chunk_min * CHUNK_MAX_TIMES > CHUNK_MAX ?
			       it->chunk_min * CHUNK_MAX_TIMES : CHUNK_MAX;
	uint64_t from, n = CUT_WINDOW, left;
	int rc = 0;

	if (it->trace_type != AUX_TRACE_INTEL_PT ||
	    run->end - run->offset <= it->chunk_min * cell)
		return 0;
	from = run->offset + it->chunk_min * cell;
	left = run->end - from;
	do {
		n = n < left / 2 ? 2 * n : left;
		rc = look_for_cut(it, from, n, n > max && n < left, cut);
	} while (!rc && n < left);
	return rc;
}

uint64_t chunk_iter_cells(const struct chunk_iter *it, const struct run *run)
{
	uint64_t len = run->end - run->offset;

	if (run->gap || !len)
		return 0;
	return it->trace_type == AUX_TRACE_INTEL_PT ?
		       (len - 1) / it->chunk_min + 1 : 1;
}

/* What the first PSB at or behind a place says. -AUX_E_NOMEM. */
static int read_place(const struct chunk_iter *it, const struct run *run,
		      struct chunk_place *place)
{
	uint64_t n = CHUNK_HEAD, left = run->end - place->cut.at;
	const uint8_t *p, *psb = NULL;
	size_t piece;
	struct chunk_room room = { 0 };

	do {
		n = n < left / 2 ? 2 * n : left;
		piece = it->piece;
		p = join_bytes(it->q, &piece, place->cut.at, n, &room);
		if (!p)
			return -AUX_E_NOMEM;	/* and no room */
		psb = ptpkt_find_psb(p, p + n);
		/* all of its PSB+ has to be there */
		if (psb && n < left && p + n - psb < CHUNK_HEAD)
			psb = NULL;
		if (psb)
			place->start = chunks_read_start(psb, p + n);
	} while (!psb && n < left);
	free(room.p);
	return psb != NULL;
}

/* The first piece that ends behind a place. */
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
	const struct run *run = &it->q->runs[run_no];
	int rc = 1;

	*place = (struct chunk_place){ .run = run_no,
				       .cut = { .at = run->offset } };
	it->piece = run->piece;
	if (it->trace_type != AUX_TRACE_INTEL_PT)
		return 1;
	if (cell) {
		it->piece = find_piece(it->q,
				       run->offset + cell * it->chunk_min);
		rc = find_cut(it, run, cell, &place->cut);
	}
	return rc > 0 ? read_place(it, run, place) : rc;
}

void chunk_iter_limit(struct chunk_iter *it, const struct chunk_span *span)
{
	it->run = span->first.run;
	it->end = span->end;
	if (it->source || it->run >= it->q->n_runs)
		return;
	it->at = span->first.cut.at;
	it->piece = find_piece(it->q, it->at);
}

/* The bytes of a chunk; if it is lazy, not those that are in several pieces. */
static int take_bytes(struct chunk_iter *it, uint64_t at, uint64_t len,
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
	it->start = chunks_read_start(it->chunk.data, it->chunk.data + head);
	p = &it->q->pieces[it->piece];
	it->chunk.len = len;
	if (len > p->len - (at - p->offset))
		it->chunk.data = NULL;
	return 0;
}

/* The next chunk of a run, from it->at on. */
static int take_chunk(struct chunk_iter *it, const struct run *run)
{
	uint64_t at = it->at;
	struct chunk_cut cut = { .at = run->end };
	uint64_t done = (at - run->offset) / it->chunk_min;
	int rc = find_cut(it, run, done + 1, &cut);

	if (rc < 0)
		return rc;
	if (it->run == it->end.run && cut.at > it->end.cut.at)
		cut = it->end.cut;
	if (take_bytes(it, at, cut.at - at, at == run->offset) < 0)
		return -AUX_E_NOMEM;
	if (cut.seam) {
		it->chunk.flags = AUX_CHUNK_HAS_END_IP;
		it->chunk.end_ip = cut.end_ip;
	}
	it->forced = cut.forced;
	it->at = cut.at;
	if (it->at == run->end)
		it->run++;
	return 0;
}

static bool all_zero(const uint8_t *p, size_t n)
{
	return !n || (!*p && !memcmp(p, p + 1, n - 1));
}

/* Only padding and timing: where a stream starts, before its first PSB, such
 * packets tell nothing that could be lost. */
static bool no_flow(const uint8_t *p, const uint8_t *end)
{
	struct ptpkt pkt;

	while (p < end) {
		int n = ptpkt_decode(p, end, &pkt);

		if (n <= 0 ||
		    (pkt.type != PTPKT_PAD && pkt.type != PTPKT_CYC &&
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
	it->start = chunks_read_start(c->data, c->data + c->len);
	if (padding || (fresh && psb))
		return psb ? CHUNK_DATA : CHUNK_END;
	it->held = psb;
	return give_gap(it, offset, AUX_GAP_NO_SYNC, before);
}

int chunk_iter_next(struct chunk_iter *it)
{
	const struct run *run;
	int step;

	if (it->source)
		return chunk_iter_next_picked(it);
	if (it->held) {
		it->held = false;
		return CHUNK_DATA;
	}
	if (it->forced) {
		it->forced = false;
		return give_gap(it, it->at, AUX_GAP_DECODER, 0);
	}
	while (it->run < it->q->n_runs && it->run <= it->end.run) {
		run = &it->q->runs[it->run];
		if (run->gap) {
			it->run++;
			return give_gap(it, run->offset, run->gap, run->detail);
		}
		if (it->at < run->offset || it->at >= run->end) {
			it->at = run->offset;
			it->piece = run->piece;
		}
		if (it->run == it->end.run && it->at >= it->end.cut.at)
			break;
		if (take_chunk(it, run) < 0)
			return -AUX_E_NOMEM;
		step = it->trace_type == AUX_TRACE_INTEL_PT && it->chunk.data ?
			       start_at_psb(it, run->fresh && it->chunk.
						stream_offset == run->offset) :
			       CHUNK_DATA;
		if (step != CHUNK_END)
			return step;
	}
	return CHUNK_END;
}

void chunks_let_go(const struct queue *q, const struct aux_reader *r,
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
