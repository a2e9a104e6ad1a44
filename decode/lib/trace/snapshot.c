/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * snapshot: snapshots of one stream, put end to end.
 *
 * A snapshot is what a ring contained; the next one may contain some of it
 * again. The common bytes are taken off the later one: by offset where offsets
 * are true. perf's offsets of Intel PT are places in the ring, so there a PSB+
 * with the same TSC must be in both and everything after it be equal; otherwise
 * what is not later by TSC is dropped. Unless the bytes prove it, two snapshots
 * are never joined: a flow that jumps from one to the other would be wrong
 * without any error.
 */
#include <string.h>

#include <aux/decoder.h>

#include "decode/lib/packet/packet.h"
#include "decode/lib/trace/trace.h"

#define PAD 8	/* an AUXTRACE payload has less than this of padding */

/* The TSC of a PSB+; false: it has none. */
static bool psb_tsc(const uint8_t *psb, const uint8_t *end, uint64_t *tsc)
{
	struct ptpkt pkt;
	int n;

	for (const uint8_t *p = psb; (n = ptpkt_decode(p, end, &pkt)) > 0;
	     p += n) {
		if (pkt.type == PTPKT_TSC) {
			*tsc = pkt.payload;
			return true;
		}
		if (pkt.type == PTPKT_PSBEND)
			break;
	}
	return false;
}

/* The first PSB+ from p on that has a TSC, and that. */
static const uint8_t *timed_psb(const uint8_t *p, const uint8_t *end,
				uint64_t *tsc)
{
	const uint8_t *psb = ptpkt_find_psb(p, end);

	while (psb && !psb_tsc(psb, end, tsc))
		psb = ptpkt_find_psb(psb + PTPKT_PSB_SIZE, end);
	return psb;
}

bool chunks_tsc_span(const uint8_t *p, const uint8_t *end, uint64_t *first,
		     uint64_t *last)
{
	const uint8_t *psb = timed_psb(p, end, first), *next;
	unsigned block = 0;
	struct ptpkt pkt;
	int n;

	if (!psb)
		return false;
	*last = *first;
	while ((next = timed_psb(psb + PTPKT_PSB_SIZE, end, last)))
		psb = next;
	while ((n = ptpkt_next(psb, end, &block, &pkt)) > 0) {
		if (pkt.type == PTPKT_TSC)
			*last = pkt.payload;
		psb += n;
	}
	return true;
}

static size_t equal_bytes(const uint8_t *a, const uint8_t *b, size_t n)
{
	size_t i = 0;

	while (n - i >= 4096 && !memcmp(a + i, b + i, 4096))
		i += 4096;
	while (i < n && a[i] == b[i])
		i++;
	return i;
}

/*
 * How many bytes at the start of b are at the end of a. False: that cannot be
 * shown. Padding at the end of a is removed.
 */
static bool find_overlap(struct piece *a, const struct piece *b, uint64_t *skip)
{
	const uint8_t *a_end = a->data + a->len, *b_end = b->data + b->len;
	uint64_t want, tsc;
	const uint8_t *in_b = timed_psb(b->data, b_end, &want);
	const uint8_t *in_a = in_b ? timed_psb(a->data, a_end, &tsc) : NULL;

	for (; in_a; in_a = timed_psb(in_a + PTPKT_PSB_SIZE, a_end, &tsc)) {
		size_t before = (size_t)(in_b - b->data);
		size_t left = (size_t)(a_end - in_a), same, n;

		if (tsc != want || before > (size_t)(in_a - a->data) ||
		    memcmp(in_a - before, b->data, before) != 0)
			continue;
		n = (size_t)(b_end - in_b) < left ? (size_t)(b_end - in_b) :
						    left;
		same = equal_bytes(in_a, in_b, n);
		if (same == (size_t)(b_end - in_b)) {
			*skip = b->len;
			return true;
		}
		while (left > same && left - same < PAD && !in_a[left - 1])
			left--;
		if (left != same)
			continue;
		a->len = (uint64_t)(in_a - a->data) + same;
		*skip = before + same;
		return true;
	}
	return false;
}

/* Without a match: how much of b is no later than the end of a. What is later
 * but has no PSB stays, and will be reported as trace that cannot be
 * decoded. */
static uint64_t not_later(const struct piece *a, const struct piece *b)
{
	const uint8_t *end = b->data + b->len, *psb, *next;
	uint64_t first, last, tsc, b_last;

	if (!chunks_tsc_span(a->data, a->data + a->len, &first, &last) ||
	    !chunks_tsc_span(b->data, end, &first, &b_last) || first > last)
		return 0;
	if (b_last <= last)
		return b->len;
	next = psb = timed_psb(b->data, end, &tsc);
	while (next && tsc <= last) {
		psb = next + PTPKT_PSB_SIZE;
		next = timed_psb(psb, end, &tsc);
	}
	return (uint64_t)((next ? next : psb) - b->data);
}

static void skip_bytes(struct piece *p, uint64_t n)
{
	p->offset += n;
	p->data += n;
	p->file_offset += n;
	p->len -= n;
}

/*
 * Places b after a, whatever their offsets say. whole is the snapshot that a is
 * what was left of: where much is in both, a is too short to have a PSB of b.
 */
static void join_by_packets(struct piece *a, struct piece *whole,
			    struct piece *b, uint32_t trace_type)
{
	uint64_t skip = 0, len = whole->len;
	bool same = false;

	if (trace_type == AUX_TRACE_INTEL_PT && !a->clipped) {
		same = find_overlap(whole, b, &skip);
		if (!same)
			skip = not_later(whole, b);
		len -= whole->len;
		a->len -= len < a->len ? len : a->len;
	}
	skip_bytes(b, skip);
	b->fresh = !same;
	b->offset = a->offset + a->len;
}

/* Whether the recorded offsets cannot place the pieces one after the other. */
static bool needs_rebase(const struct queue *q, uint32_t trace_type,
			 bool trusted)
{
	if (q->sampled || (!trusted && trace_type == AUX_TRACE_INTEL_PT))
		return true;
	for (size_t i = 1; i < q->n_pieces; i++)
		if (q->pieces[i].offset < q->pieces[i - 1].offset)
			return true;
	return false;
}

void chunks_join_snapshots(struct queue *q, uint32_t trace_type, bool trusted)
{
	struct piece whole = { 0 }, now;
	size_t n = 0;

	if (q->n_pieces)
		q->pieces[0].fresh = true;
	q->rebased = needs_rebase(q, trace_type, trusted);
	if (!q->rebased)
		return;
	for (size_t i = 0; i < q->n_pieces; i++) {
		struct piece *p = &q->pieces[i];
		struct piece *last = n ? &q->pieces[n - 1] : NULL;

		now = *p;
		if (last && p->snapshot != last->snapshot)
			join_by_packets(last, &whole, p, trace_type);
		else if (last)
			p->offset = last->offset + last->len;
		if (last && !p->len && !p->clipped)
			continue;
		q->pieces[n++] = *p;
		whole = now;
	}
	q->n_pieces = n;
}
