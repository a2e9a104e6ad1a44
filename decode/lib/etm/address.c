/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: address, source address and context packets.
 *
 * An address is compressed against the last three; each one, an exact match
 * included, becomes the newest of these. Where 32 bits are sent, the upper half stays
 * only for a context of 64 bits (ctx.sf).
 *
 * Specification: Arm IHI 0064, "Address and Context packets"; DDI 0487 for source
 * addresses.
 */
#include <string.h>

#include "decode/lib/etm/impl.h"

static void push_history(struct etm *d, uint64_t ip, unsigned is)
{
	memmove(d->history.ip + 1, d->history.ip, 2 * sizeof(d->history.ip[0]));
	memmove(d->history.is + 1, d->history.is, 2);
	d->history.ip[0] = ip;
	d->history.is[0] = (uint8_t)is;
}

/* is: the instruction set says by how much addresses are shifted. */
static uint64_t read_long(struct etm *d, unsigned is, bool wide)
{
	uint64_t v = etm_read_bytes(d, wide ? 8 : 4);
	uint64_t low = is ? (v & 0x7f) << 1 | (v & 0xff00) :
			    (v & 0x7f) << 2 | (v >> 8 & 0x7f) << 9;

	v = (v & ~UINT64_C(0xffff)) | low;
	if (!wide && d->ctx.sf_known && d->ctx.sf)
		v |= d->history.ip[0] >> 32 << 32;
	return v;
}

static uint64_t read_short(struct etm *d, unsigned is)
{
	unsigned shift = is ? 1 : 2, bits = 7;
	uint8_t b = etm_read_byte(d);
	uint64_t v = b & 0x7f;

	if (b & 0x80) {
		v |= (uint64_t)etm_read_byte(d) << 7;
		bits = 15;
	}
	return d->history.ip[0] >> (bits + shift) << (bits + shift) | v << shift;
}

/* The address of a target or source packet, and in set the instruction set that goes
 * with it. False: the chunk ends inside it. */
static bool read_address(struct etm *d, enum etm_class class, uint8_t header,
		    unsigned is, uint64_t *ip, unsigned *set)
{
	unsigned i = header & 3;

	*set = is;
	switch (class) {
	case ETM_MATCH:
		*ip = d->history.ip[i];
		*set = d->history.is[i];
		break;
	case ETM_SHORT:
		*ip = read_short(d, is);
		break;
	default:
		*ip = read_long(d, is, class == ETM_LONG64);
		break;
	}
	if (d->in.truncated)
		return false;
	push_history(d, *ip, *set);
	return true;
}

/* The context bytes of a packet, which become ctx.last. False: the chunk ends inside
 * them, or this source cannot have them. */
static bool read_ids(struct etm *d, struct etm_ids *ids)
{
	uint8_t b = etm_read_byte(d);

	*ids = (struct etm_ids){
		.el = b & 3, .is_64 = b >> 4 & 1,
		.secure = !(b >> 5 & 1) && !(b >> 3 & 1),
		.has_vmid = b >> 6 & 1, .has_cid = b >> 7,
	};

	if ((ids->has_vmid && !d->src.n_vmid) || (ids->has_cid && !d->src.n_cid))
		d->unsupported = true;
	if (ids->has_vmid)
		ids->vmid = (uint32_t)etm_read_bytes(d, d->src.n_vmid);
	if (ids->has_cid)
		ids->cid = (uint32_t)etm_read_bytes(d, d->src.n_cid);
	if (d->in.truncated || d->unsupported)
		return false;
	d->ctx.sf_known = true;
	d->ctx.sf = ids->is_64;
	d->ctx.last = *ids;
	d->ctx.last_known = true;
	d->ctx.last.has_cid = d->ctx.last.has_vmid = false;
	return true;
}

/* A change to EL0 resumes user code: a run begins at the next address. */
static void show_context(struct etm *d, const struct etm_ids *ids)
{
	uint8_t what = (uint8_t)(AUX_CONTEXT_EL_KNOWN | ids->el |
				 (ids->secure ? AUX_CONTEXT_SECURE : 0));

	if (!ids->el && d->ctx.emitted && d->ctx.event.what != what)
		d->ts.lookahead = etm_wants_lookahead(d) ?
					  ETM_LOOKAHEAD_AT_ADDRESS :
					  ETM_LOOKAHEAD_NONE;
	etm_push_context(d, ids);
}

/* An exception keeps its context until its address comes. A discard before the next
 * instruction takes any other context back, hence old_64. */
static void apply_context(struct etm *d, const struct etm_ids *ids)
{
	if (d->sync.state != ETM_DECODE)
		return;
	if (d->exc.pending) {
		d->exc.broken |= d->exc.has_context;
		d->exc.has_context = true;
		d->exc.context = *ids;
		return;
	}
	if (!d->ctx.pending)
		d->ctx.old_64 = d->ctx.is_64;
	d->ctx.pending = true;
	d->ctx.is_64 = d->flow.code_64 = ids->is_64;
	d->ctx.needed = false;
}

void etm_parse_context(struct etm *d, uint8_t header)
{
	struct etm_ids ids = d->ctx.last;	/* bit 0 clear: as before */

	if (header & 1 && !read_ids(d, &ids))
		return;
	if (d->sync.emitting)
		etm_emit_at_packet(d);
	if (d->sync.emitting && !d->sync.in_exception && header & 1)
		show_context(d, &ids);
	if (header & 1 || d->exc.pending)
		apply_context(d, &ids);
}

static void apply_address(struct etm *d, uint64_t ip)
{
	if (d->sync.state != ETM_DECODE)
		return;
	if (d->exc.pending) {
		etm_apply_exception(d, ip);
		return;
	}
	etm_continue_at(d, ip);
	d->flow.code_64 = d->ctx.is_64;
	d->flow.where = ETM_AT_IP;
}

void etm_parse_address(struct etm *d, enum etm_class class, uint8_t header)
{
	bool context = header < 0x88;
	struct etm_ids ids;
	unsigned is;
	uint64_t ip;

	is = header == 0x83 || header == 0x86 || header == 0x96 ||
	     header == 0x9b || header == 0x9e;
	if (!read_address(d, class, header, is, &ip, &is))
		return;
	if (context && !read_ids(d, &ids))
		return;
	if (d->sync.emitting)
		etm_emit_at_packet(d);
	if (d->sync.emitting && !d->sync.in_exception) {
		etm_settle(d, ip);
		if (context)
			show_context(d, &ids);
		if (d->ts.lookahead)
			d->ts.lookahead = ETM_LOOKAHEAD_NOW;
	}
	if (context)
		apply_context(d, &ids);
	d->sync.in_exception &= !d->sync.emitting;
	apply_address(d, ip);
}

void etm_parse_source(struct etm *d, enum etm_class class, uint8_t header)
{
	unsigned is = header == 0xb5 || header == 0xb7 || header == 0xb9;
	uint64_t ip;

	if (!read_address(d, class, header, is, &ip, &is))
		return;
	if (d->sync.emitting)
		etm_emit_at_packet(d);
	if (d->sync.state != ETM_DECODE)
		return;
	etm_commit(d);
	if (d->exc.pending) {
		etm_fail(d, AUX_GAP_DESYNC);
	} else {
		etm_apply_source(d, ip);
	}
}
