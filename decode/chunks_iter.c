/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chunk_iter: the runs of a queue, in chunks of bounded size.
 *
 * A long run of Intel PT is cut at a PSB, and the chunk before it ends at the IP
 * of that PSB+: a decoder that starts there knows all it needs, and the return
 * stack is empty there by the SDM. Where anything is in doubt (no FUP in the
 * PSB+ while tracing may be on, a packet before it that belongs to the next one,
 * an overflow) the run is not cut. Bytes of several pieces are put together, so
 * no more than a chunk and a little is ever copied.
 */
#include <stdlib.h>
#include <string.h>

#include "chunks.h"
#include "ptpkt.h"

/* A chunk grows no further, whatever is in it: so much, or that many times. */
#define CHUNK_MAX ((uint64_t)64 << 20)
#define CHUNK_MAX_TIMES 32

void chunk_iter_init(struct chunk_iter *it, const struct queue *q,
		     uint32_t trace_type, uint64_t chunk_min)
{
	*it = (struct chunk_iter){ .q = q, .trace_type = trace_type,
				   .chunk_min = chunk_min ?
							chunk_min :
							CHUNK_MIN_DEFAULT };
}

static void drop_joined(struct chunk_iter *it)
{
	free(it->joined);
	it->joined = NULL;
}

void chunk_iter_fini(struct chunk_iter *it)
{
	drop_joined(it);
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

/* In one place: in the file, or joined. */
int chunk_iter_bytes(struct chunk_iter *it, uint64_t at, uint64_t len)
{
	const struct piece *p = &it->q->pieces[it->piece];
	uint64_t skip, n = 0;

	for (; at - p->offset >= p->len; p++)
		it->piece++;
	skip = at - p->offset;
	it->chunk = (struct aux_chunk){ .size = sizeof(it->chunk), .len = len,
					.stream_offset = at };
	drop_joined(it);
	if (len <= p->len - skip) {
		it->chunk.data = p->data + skip;
		return 0;
	}
	it->joined = malloc(len);
	if (!it->joined)
		return -AUX_E_NOMEM;
	for (; n < len; p++, skip = 0) {
		uint64_t part = p->len - skip;

		if (part > len - n)
			part = len - n;
		memcpy(it->joined + n, p->data + skip, part);
		n += part;
	}
	it->chunk.data = it->joined;
	return 0;
}

/* Is the trace whole between these two PSBs, so that it may end at the later? */
static bool may_end(const uint8_t *p, const uint8_t *psb)
{
	struct ptpkt pkt;
	uint8_t last = PTPKT_BAD;
	unsigned block = 0;

	while (p < psb) {
		int n = ptpkt_next(p, psb, &block, &pkt);

		if (n <= 0 || pkt.type == PTPKT_OVF)
			return false;
		if (pkt.type != PTPKT_PAD && pkt.type != PTPKT_CYC &&
		    pkt.type != PTPKT_MTC && pkt.type != PTPKT_CBR &&
		    pkt.type != PTPKT_TSC && pkt.type != PTPKT_TMA)
			last = pkt.type;
		p += n;
	}
	return p == psb && !block &&
	       (last == PTPKT_TNT || last == PTPKT_TIP ||
		last == PTPKT_TIP_PGE || last == PTPKT_PSBEND);
}

/* Where the PSB+ says that the flow is. False: it does not. */
static bool psb_ip(const uint8_t *p, const uint8_t *end, uint64_t *ip)
{
	struct ptpkt pkt;
	bool found = false;
	int n;

	*ip = 0;
	for (; (n = ptpkt_decode(p, end, &pkt)) > 0; p += n) {
		switch (pkt.type) {
		case PTPKT_FUP:
			found = ptpkt_ip(&pkt, ip);
			break;
		case PTPKT_PSBEND:
			return found;
		case PTPKT_PSB: case PTPKT_PAD: case PTPKT_CYC: case PTPKT_MTC:
		case PTPKT_CBR: case PTPKT_TSC: case PTPKT_TMA: case PTPKT_VMCS:
		case PTPKT_PIP: case PTPKT_MODE_EXEC: case PTPKT_MODE_TSX:
		case PTPKT_MNT:
			break;
		default:
			return false;
		}
	}
	return false;
}

/* Ends the chunk at a PSB behind its first chunk_min bytes, if there is one. */
static bool cut_at_psb(struct aux_chunk *c, uint64_t chunk_min)
{
	const uint8_t *end = c->data + c->len, *next;
	const uint8_t *psb = ptpkt_find_psb(c->data + chunk_min, end);

	for (; psb; psb = next) {
		next = ptpkt_find_psb(psb + 16, end);
		if (next && may_end(psb, next) &&
		    psb_ip(next, end, &c->end_ip)) {
			c->len = (uint64_t)(next - c->data);
			c->flags = AUX_CHUNK_HAS_END_IP;
			return true;
		}
	}
	return false;
}

/* Nowhere can the chunk be cut well: then at its last PSB, or where it is. */
static void force_cut(struct chunk_iter *it)
{
	struct aux_chunk *c = &it->chunk;
	const uint8_t *end = c->data + c->len, *last = NULL;
	const uint8_t *psb = c->len ? ptpkt_find_psb(c->data + 1, end) : NULL;

	for (; psb; psb = ptpkt_find_psb(psb + 1, end))
		last = psb;
	if (!last)
		return;
	c->len = (uint64_t)(last - c->data);
	it->forced = true;
}

/* The next chunk of a run, from it->at on. */
static int take_chunk(struct chunk_iter *it, const struct run *run)
{
	uint64_t left = run->end - it->at;
	/* and so many bytes behind in which to look for a PSB, at first */
	uint64_t want = it->chunk_min + it->chunk_min / 32 + 4096;
	uint64_t max = it->chunk_min * CHUNK_MAX_TIMES > CHUNK_MAX ?
			       it->chunk_min * CHUNK_MAX_TIMES : CHUNK_MAX;
	bool cut = false;

	for (; it->trace_type == AUX_TRACE_INTEL_PT && want < left && !cut;
	     want *= 2) {
		if (chunk_iter_bytes(it, it->at, want) < 0)
			return -AUX_E_NOMEM;
		cut = cut_at_psb(&it->chunk, it->chunk_min);
		if (!cut && want > max) {
			force_cut(it);
			cut = true;
		}
	}
	if (!cut && chunk_iter_bytes(it, it->at, left) < 0)
		return -AUX_E_NOMEM;
	it->at += it->chunk.len;
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
	while (it->run < it->q->n_runs) {
		run = &it->q->runs[it->run];
		if (run->gap) {
			it->run++;
			return give_gap(it, run->offset, run->gap, run->detail);
		}
		if (it->at < run->offset || it->at >= run->end) {
			it->at = run->offset;
			it->piece = run->piece;
		}
		if (take_chunk(it, run) < 0)
			return -AUX_E_NOMEM;
		step = it->trace_type == AUX_TRACE_INTEL_PT ?
			       start_at_psb(it, run->fresh && it->chunk.
						stream_offset == run->offset) :
			       CHUNK_DATA;
		if (step != CHUNK_END)
			return step;
	}
	drop_joined(it);
	return CHUNK_END;
}
