/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session: zeros where Intel PT should be.
 *
 * A zero byte is a PAD, so a page that was lost or never written reads as packets
 * that say nothing, and a decoder would go on behind it as if nothing had run.
 * Where a program repeats itself no later packet contradicts that. CPUs align with
 * a few PADs (no more than 21 in a row in any recording met); a run of many is a
 * GAP, and its chunk goes on at the next PSB. Zeros that the trace ends with are
 * the rest of a buffer.
 */
#include "decode/lib/packet/pt_packet.h"
#include "decode/lib/session/impl.h"

#define ZEROS_MIN 256

/* Without the packet that the zeros begin in: it may be any. */
static const uint8_t *cut_packet(const uint8_t *p, const uint8_t *zeros)
{
	const uint8_t *psb = chunks_last_psb(p, zeros);
	unsigned block = 0;
	struct ptpkt pkt;
	int n;

	p = psb ? psb : p;
	while ((n = ptpkt_next(p, zeros, &block, &pkt)) > 0)
		p += n;
	return n ? zeros : p;
}

void session_cut_zeros(struct feed *f)
{
	struct aux_chunk *c = &f->it.chunk, *rest = &f->rest;
	const uint8_t *end = c->data + c->len, *zeros, *behind;
	bool ends = !(c->flags & AUX_CHUNK_HAS_END_IP);
	uint64_t skip;

	*rest = (struct aux_chunk){ 0 };
	f->zeros = false;
	if (f->it.trace_type != AUX_TRACE_INTEL_PT)
		return;
	zeros = ptpkt_find_zeros(c->data, end, ZEROS_MIN, &behind);
	if (!zeros || (ends && behind == end))
		return;
	skip = (uint64_t)(cut_packet(c->data, zeros) - c->data);
	f->zeros = true;
	*rest = *c;
	rest->data += skip;
	rest->len -= skip;
	rest->stream_offset += skip;
	c->len = skip;
	c->flags &= ~AUX_CHUNK_HAS_END_IP;
}

struct aux_flow session_zeros_gap(struct feed *f)
{
	struct aux_chunk *rest = &f->rest;
	const uint8_t *end = rest->data + rest->len;
	const uint8_t *psb = ptpkt_find_psb(rest->data, end);
	uint64_t skip = (uint64_t)((psb ? psb : end) - rest->data);
	struct aux_flow gap = { .kind = AUX_FLOW_GAP,
				.what = AUX_GAP_AUX_ZEROS,
				.offset = rest->stream_offset,
				.gap = { .detail = skip } };

	f->zeros = false;
	rest->data += skip;
	rest->len -= skip;
	rest->stream_offset += skip;
	f->in_gap = f->gave = true;
	return gap;
}
