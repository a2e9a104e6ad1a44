/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: addresses and contexts. An address leans on the three before it; each one
 * becomes the newest of these, an exact match, too.
 */
#include <string.h>

#include "decode/lib/etm/engine.h"

static void push_history(struct etm *d, uint64_t ip, unsigned is)
{
	memmove(d->history + 1, d->history, 2 * sizeof(d->history[0]));
	memmove(d->history_is + 1, d->history_is, 2);
	d->history[0] = ip;
	d->history_is[0] = (uint8_t)is;
}

/* header & 1 of the three pairs of formats tells the instruction set. */
static uint64_t take_long(struct etm *d, unsigned is, bool wide)
{
	uint64_t v = etm_take_bytes(d, wide ? 8 : 4);
	uint64_t low = is ? (v & 0x7f) << 1 | (v & 0xff00) :
			    (v & 0x7f) << 2 | (v >> 8 & 0x7f) << 9;

	v = (v & ~UINT64_C(0xffff)) | low;
	if (!wide && d->sf_known && d->sf)
		v |= d->history[0] >> 32 << 32;
	return v;
}

static uint64_t take_short(struct etm *d, unsigned is)
{
	unsigned shift = is ? 1 : 2, bits = 7;
	uint8_t b = etm_take_byte(d);
	uint64_t v = b & 0x7f;

	if (b & 0x80) {
		v |= (uint64_t)etm_take_byte(d) << 7;
		bits = 15;
	}
	return d->history[0] >> (bits + shift) << (bits + shift) | v << shift;
}

/* Of a target or a source address; False: the chunk ends in it. */
static bool take_ip(struct etm *d, enum etm_class class, uint8_t header,
		    unsigned is, uint64_t *ip, unsigned *set)
{
	unsigned i = header & 3;

	*set = is;
	switch (class) {
	case ETM_MATCH:
		*ip = d->history[i];
		*set = d->history_is[i];
		break;
	case ETM_SHORT:
		*ip = take_short(d, is);
		break;
	default:
		*ip = take_long(d, is, class == ETM_LONG64);
		break;
	}
	if (d->partial)
		return false;
	push_history(d, *ip, *set);
	return true;
}

static struct etm_ids take_ids(struct etm *d)
{
	uint8_t b = etm_take_byte(d);
	struct etm_ids ids = {
		.el = b & 3, .is_64 = b >> 4 & 1,
		.secure = !(b >> 5 & 1) && !(b >> 3 & 1),
		.has_vmid = b >> 6 & 1, .has_cid = b >> 7,
	};

	if ((ids.has_vmid && !d->n_vmid) || (ids.has_cid && !d->n_cid))
		d->unsupported = true;
	if (ids.has_vmid)
		ids.vmid = (uint32_t)etm_take_bytes(d, d->n_vmid);
	if (ids.has_cid)
		ids.cid = (uint32_t)etm_take_bytes(d, d->n_cid);
	return ids;
}

/* User code goes on when the context says so. */
static void show_context(struct etm *d, const struct etm_ids *ids)
{
	uint8_t what = (uint8_t)(AUX_CONTEXT_EL_KNOWN | ids->el |
				 (ids->secure ? AUX_CONTEXT_SECURE : 0));

	if (!ids->el && d->have_context && d->context.what != what)
		d->resumes = etm_may_look(d);
	etm_push_context(d, ids);
}

static void apply_context(struct etm *d, const struct etm_ids *ids)
{
	if (d->state != ETM_DECODE)
		return;
	if (d->exc.waits) {
		d->exc.bad |= d->exc.has_context;
		d->exc.has_context = true;
		d->exc.context = *ids;
		return;
	}
	if (!d->context_pending)
		d->old_64 = d->is_64;
	d->context_pending = true;
	d->is_64 = d->code_64 = ids->is_64;
	d->need_context = false;
}

void etm_take_context(struct etm *d, uint8_t header)
{
	struct etm_ids ids = d->ids;

	if (header & 1) {
		ids = take_ids(d);
		if (d->partial || d->unsupported)
			return;
		d->sf_known = true;
		d->sf = ids.is_64;
		d->ids = ids;
		d->ids.has_cid = d->ids.has_vmid = false;
	}
	if (d->synced)
		etm_show_packet(d);
	if (d->synced && !d->except && header & 1)
		show_context(d, &ids);
	if (header & 1 || d->exc.waits)
		apply_context(d, &ids);
}

static void apply_address(struct etm *d, uint64_t ip)
{
	if (d->state != ETM_DECODE)
		return;
	if (d->exc.waits) {
		etm_take_exception(d, ip);
		return;
	}
	etm_go(d, ip);
	d->code_64 = d->is_64;
	d->place = ETM_HERE;
}

void etm_take_address(struct etm *d, enum etm_class class, uint8_t header)
{
	bool context = header < 0x88;
	struct etm_ids ids;
	unsigned is;
	uint64_t ip;

	is = header == 0x83 || header == 0x86 || header == 0x96 ||
	     header == 0x9b || header == 0x9e;
	if (!take_ip(d, class, header, is, &ip, &is))
		return;
	if (context) {
		ids = take_ids(d);
		if (d->partial || d->unsupported)
			return;
		d->sf_known = true;
		d->sf = ids.is_64;
		d->ids = ids;
		d->ids.has_cid = d->ids.has_vmid = false;
	}
	if (d->synced)
		etm_show_packet(d);
	if (d->synced && !d->except) {
		if (d->waiting != ETM_NONE)
			etm_settle(d, ip);
		if (context)
			show_context(d, &ids);
		d->ahead |= d->resumes;
		d->resumes = false;
	}
	if (context)
		apply_context(d, &ids);
	d->except &= !d->synced;
	apply_address(d, ip);
}

void etm_take_source_packet(struct etm *d, enum etm_class class, uint8_t header)
{
	unsigned is = header == 0xb5 || header == 0xb7 || header == 0xb9;
	uint64_t ip;

	if (!take_ip(d, class, header, is, &ip, &is))
		return;
	if (d->synced)
		etm_show_packet(d);
	if (d->state != ETM_DECODE)
		return;
	etm_commit(d);
	if (d->exc.waits) {
		etm_fail(d, AUX_GAP_DESYNC);
	} else {
		etm_take_source(d, ip);
	}
}
