/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: sync points, and what loses them.
 *
 * Two things follow the packets, and they can differ where the trace is damaged:
 * the events that need no code (from Trace Info on, until packets are lost), and
 * the flow (from A-Sync and Trace Info on). Behind an overflow or a discard packets
 * go on from byte to byte; behind a bad one, or when the flow makes no sense, the
 * next A-Sync is looked for in whatever bytes come.
 */
#include "decode/lib/etm/packet.h"

#define DETAIL_BAD 9	/* invalid data */

static void reset_flow(struct etm *d)
{
	d->need_context = true;
	d->place = ETM_NOWHERE;
	d->has_ip = false;
	d->overflowed = d->on_pending = false;
	d->exc.waits = d->context_pending = false;
	d->n_early = 0;
}

/* Nothing is known but that a sync point will come. */
static void lose_all(struct etm *d)
{
	reset_flow(d);
	d->is_64 = false;
	d->synced = d->except = d->resumes = d->ahead = d->foretold = false;
	d->ts = d->clock = 0;
	d->clock_known = d->sf_known = d->informed = false;
	d->threshold = 0;
	d->on = d->last_known = d->have_context = false;
	d->told = ETM_LOSS_BAD;
	d->state = ETM_WAIT_SYNC;
	d->framed = false;
}

void etm_fail(struct etm *d, enum aux_gap_cause cause)
{
	etm_at(d, d->pos);
	etm_push_gap(d, cause, d->last_known, d->last_ip, DETAIL_BAD);
	lose_all(d);
}

void etm_take_bad(struct etm *d)
{
	d->synced = d->except = d->resumes = false;
	if (d->state == ETM_DECODE)
		etm_fail(d, AUX_GAP_BAD_PACKET);
}

static void take_discard(struct etm *d, enum etm_loss why)
{
	d->synced = d->except = d->resumes = false;
	if (d->state != ETM_DECODE)
		return;
	etm_push_early(d);
	if (d->overflowed)
		why = ETM_LOSS_OVERFLOW;
	if (d->context_pending)
		d->is_64 = d->old_64;
	reset_flow(d);
	d->overflowed = why == ETM_LOSS_OVERFLOW;
	etm_at(d, d->packet);
	etm_tell_loss(d, why);
	d->state = ETM_WAIT_SYNC;
}

/* Bytes in front of the first sync point, other than padding, are lost. */
static void tell_unsynced(struct etm *d, uint64_t n)
{
	if (d->found)
		return;
	d->found = true;
	for (uint64_t i = 0; i < n; i++) {
		if (d->data[i] && d->data[i] != 0x70) {
			etm_push_gap(d, AUX_GAP_NO_SYNC, false, 0, n);
			return;
		}
	}
}

/* Eleven zeros or more and 0x80, wherever they are. */
void etm_find_sync(struct etm *d)
{
	uint64_t zeros = 0, pos = d->pos;

	for (; pos < d->len; pos++) {
		if (!d->data[pos]) {
			zeros++;
			continue;
		}
		if (zeros >= 11 && d->data[pos] == 0x80)
			break;
		zeros = 0;
	}
	d->packet = pos - zeros;
	d->pos = pos;
	if (pos == d->len)
		return;
	d->pos++;
	d->framed = true;
	tell_unsynced(d, d->packet);
	d->state = ETM_WAIT_INFO;
}

static void take_sync(struct etm *d)
{
	for (unsigned i = 2; i < 12; i++) {
		uint8_t b = etm_take_byte(d);

		if (d->partial)
			return;
		if (b != (i == 11 ? 0x80 : 0)) {
			etm_take_bad(d);
			return;
		}
	}
	if (d->state == ETM_WAIT_SYNC)
		d->state = ETM_WAIT_INFO;
}

void etm_take_extension(struct etm *d)
{
	uint8_t b = etm_take_byte(d);

	if (d->partial)
		return;
	if (b == 0)
		take_sync(d);
	else if (b == 3)
		take_discard(d, ETM_LOSS_DISCARD);
	else if (b == 5)
		take_discard(d, ETM_LOSS_OVERFLOW);
	else
		etm_take_bad(d);
}

/* Events before Trace Info come out if nothing else was told since. */
void etm_push_early(struct etm *d)
{
	for (unsigned i = 0; i < d->n_early; i++) {
		etm_at(d, d->early[i].pos);
		etm_push(d, AUX_FLOW_EVENT, 0)->payload.value =
			d->early[i].value;
	}
	d->n_early = 0;
}

/*
 * Where bytes without a sync point end, for the last event: OpenCSD drops them by
 * eight, or up to a zero, and what is left is an incomplete packet.
 */
static uint64_t find_rest(const struct etm *d)
{
	enum { NOTHING, ZERO, ZEROS } seen = NOTHING;
	uint64_t n = 0, at = 0, given = 0;

	for (uint64_t i = 0; i < d->len; i++) {
		uint8_t b = d->data[i];
		bool last = i + 1 == d->len;

		n++;
		if (seen == NOTHING && !b) {
			at = n == 1 || !last ? i : at;
			n = 1;
			seen = ZERO;
		} else if (seen == NOTHING && n >= 8 && !last) {
			at = i + 1;
			n = 0;
		} else if (seen == ZERO) {
			seen = b ? NOTHING : ZEROS;
		} else if (seen == ZEROS && b && n == 12) {
			given = at;
			at = i + 1;
			n = 0;
			seen = NOTHING;
		} else if (seen == ZEROS && b) {
			seen = NOTHING;
		} else if (seen == ZEROS && n == 12) {
			n--;
		}
	}
	return n ? at : given;
}

/* Nothing more comes: was there a sync point at all? */
void etm_finish(struct etm *d)
{
	d->done = true;
	etm_push_early(d);
	if (d->overflowed) {
		etm_at(d, d->packet);
		etm_tell_loss(d, ETM_LOSS_OVERFLOW);
	}
	d->waiting = ETM_NONE;
	if (!d->found)
		etm_at(d, find_rest(d));
	tell_unsynced(d, d->len);
}
