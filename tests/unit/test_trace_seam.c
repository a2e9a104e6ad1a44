/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * chunks: where Intel PT is cut: on a grid that depends neither on where a piece begins nor
 * on how the bytes are stored, and never between packets that belong together.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/lib/packet/packet.h"
#include "decode/lib/trace/trace.h"
#include "tests/unit/mkpt.h"
#include "tests/unit/tap.h"

#define N_SYNCS 400
#define MAX 64

static uint8_t bytes[N_SYNCS * 80];
static size_t n_bytes, psb_at[N_SYNCS];
static bool fine[N_SYNCS];	/* it may be cut there */

/* Stretches of different length; some end so that no cut is possible. */
static void make_bytes(void)
{
	int bad = 1;	/* so many PSBs from here on are no place */

	for (int i = 0; i < N_SYNCS; i++) {
		struct pt p = { .n = 0 };

		psb_at[i] = n_bytes;
		fine[i] = !bad && i % 5 != 4;
		bad -= bad > 0;
		pt_psb(&p, 1000 + (uint64_t)i, i % 5 == 4 ? 0 : 0x1000);
		for (int k = 0; k < i % 7; k++)
			pt_tnt(&p, "TNTNTN");
		pt_bytes(&p, "\x59\x10\x0b\x03", 4);	/* MTC, CYC */
		pt_tip(&p, 0x2000);
		switch (i % 11) {
		case 3:	/* OVF */
			pt_ovf(&p);
			pt_fup(&p, 0x1000);
			pt_tnt(&p, "T");
			bad = 1;
			break;
		case 6:	/* MODE.Exec belongs to what comes */
			pt_mode64(&p);
			bad = 1;
			break;
		case 8:	/* PTW: a PSB seems to begin in it */
			pt_bytes(&p, "\x02\x32\x02\x82\x02\x82\x02\x82\x02"
				 "\x82", 10);
			bad = 2;
			break;
		}
		memcpy(bytes + n_bytes, p.b, p.n);
		n_bytes += p.n;
	}
}

struct cuts {
	struct aux_chunk c[MAX];
	struct chunk_start start[MAX];
	bool same_bytes;
	size_t n;
};

/* All chunks from at on. */
static struct cuts cut(const struct queue *q, uint64_t chunk_min, uint64_t at,
		       bool lazy)
{
	struct cuts cuts = { .same_bytes = true };
	struct chunk_room room = { 0 };
	struct chunk_iter it;

	chunk_iter_init(&it, q, AUX_TRACE_INTEL_PT, chunk_min);
	it.lazy = lazy;
	it.at = at;
	while (cuts.n < MAX && chunk_iter_next(&it) == CHUNK_DATA) {
		struct aux_chunk c = it.chunk;

		cuts.c[cuts.n] = c;
		cuts.start[cuts.n++] = it.start;
		if (!c.data)
			chunk_iter_join(&it, it.piece, &c, &room);
		cuts.same_bytes &= !memcmp(c.data, bytes + c.stream_offset,
					   c.len);
	}
	free(room.p);
	chunk_iter_fini(&it);
	return cuts;
}

static bool same_cuts(const struct cuts *a, const struct cuts *b, size_t from)
{
	bool same = a->n == b->n + from;

	for (size_t i = 0; same && i < b->n; i++) {
		const struct aux_chunk *c = &a->c[from + i], *d = &b->c[i];

		same = c->stream_offset == d->stream_offset &&
		       c->len == d->len && c->flags == d->flags &&
		       c->end_ip == d->end_ip &&
		       a->start[from + i].tsc == b->start[i].tsc;
	}
	return same;
}

/* The first place behind each multiple, by the list of what was made. */
static bool on_grid(const struct cuts *cuts, uint64_t chunk_min)
{
	size_t i = 0, n = 1;
	uint64_t at = 0;
	bool unseen;

	for (;;) {
		uint64_t from = (at / chunk_min + 1) * chunk_min;

		while (i < N_SYNCS && psb_at[i] < from)
			i++;
		/* what is before the first PSB there is not looked at, not even
		 * a PTW that looks like one */
		unseen = i < N_SYNCS && i % 11 == 9 && psb_at[i] - from < 2;
		for (i++; i < N_SYNCS && !fine[i]; i++) {
			if (unseen && i % 11 == 10 && i % 5 != 4)
				break;
		}
		if (i >= N_SYNCS)
			break;
		at = psb_at[i];
		if (n >= cuts->n || cuts->c[n].stream_offset != at ||
		    !cuts->start[n].has_tsc || cuts->start[n].tsc != 1000 + i ||
		    cuts->c[n - 1].end_ip != 0x1000)
			return false;
		n++;
	}
	return n == cuts->n;
}

static void sizes(const struct queue *one, const struct queue *many)
{
	static const uint64_t min[] = { 700, 1024, 3000, 10000 };

	for (size_t k = 0; k < sizeof(min) / sizeof(min[0]); k++) {
		struct cuts all = cut(one, min[k], 0, false);
		struct cuts lazy = cut(many, min[k], 0, true);
		bool anywhere = true;

		ok(on_grid(&all, min[k]), "every %u bytes: %zu chunks",
		   (unsigned)min[k], all.n);
		ok(same_cuts(&all, &lazy, 0) && all.same_bytes &&
		   lazy.same_bytes, "however the bytes are stored");
		for (size_t i = 1; i < all.n; i++) {
			struct cuts rest = cut(i & 1 ? one : many, min[k],
					       all.c[i].stream_offset, i & 2);

			anywhere &= same_cuts(&all, &rest, i) &&
				    rest.same_bytes;
		}
		ok(anywhere, "wherever one begins");
	}
}

/* SKZ84: a TMA with reserved bits, and a byte too many. How many chunks there are,
 * and whether each begins at a PSB and is continued. */
static size_t cut_guest(unsigned errata, bool *whole)
{
	struct pt p = { .n = 0 };
	struct piece piece = { .data = p.b };
	struct segment segment = { 0 };
	struct queue q = { .pieces = &piece, .n_pieces = 1,
			   .segments = &segment, .n_segments = 1 };
	struct chunk_iter it;
	size_t n = 0;

	for (int i = 0; i < 40; i++) {
		for (int k = 0; k < 8; k++)
			pt_bytes(&p, "\x02\x82", 2);
		pt_tsc(&p, 1000 + (uint64_t)i);
		pt_bytes(&p, "\x02\x73\x12\x34\xff\x56\x78\x9a", 8);
		pt_mode64(&p);
		pt_fup(&p, 0x1000);
		pt_bytes(&p, "\x02\x23", 2);
		pt_tnt(&p, "TNTNTN");
	}
	piece.len = segment.end = p.n;
	chunk_iter_init(&it, &q, AUX_TRACE_INTEL_PT, 200);
	it.errata = (uint16_t)errata;
	*whole = true;
	for (; chunk_iter_next(&it) == CHUNK_DATA; n++) {
		uint64_t end = it.chunk.stream_offset + it.chunk.len;

		*whole &= it.start.has_tsc && it.start.ip == 0x1000 &&
			  (end == p.n || it.chunk.end_ip == 0x1000);
	}
	chunk_iter_fini(&it);
	return n;
}

static void guests(void)
{
	bool whole;

	ok(cut_guest(PT_ERR_SKZ84, &whole) > 5 && whole,
	   "cut at a PSB+ with a wrong TMA");
	is_u64(cut_guest(0, &whole), 1, "not where that is damage");
}

int main(void)
{
	struct piece pieces[40], whole;
	struct segment segment = { 0 };
	struct queue one = { .pieces = &whole, .n_pieces = 1, .segments = &segment,
			     .n_segments = 1 };
	struct queue many = { .pieces = pieces, .n_pieces = 40, .segments = &segment,
			      .n_segments = 1 };
	size_t part;

	make_bytes();
	part = n_bytes / 40;
	segment.end = n_bytes;
	whole = (struct piece){ .data = bytes, .len = n_bytes };
	for (size_t i = 0; i < 40; i++)
		pieces[i] = (struct piece){
			.offset = i * part, .data = bytes + i * part,
			.len = i == 39 ? n_bytes - i * part : part,
		};
	sizes(&one, &many);
	guests();
	return plan_done();
}
