/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verify: TIME. Decoders may emit one a RANGE sooner or later, may emit it at
 * some places and not at others, and estimate between the packets that carry
 * times. So TIMEs are not matched one to one.
 *
 * The partners of a TIME are those of the other side that are at most AWAY
 * slots from it; a slot is a branch that has a packet. A TIME that a packet
 * carries (TSC; all of CoreSight's) must be among its partners, unless the
 * other side's estimate was past it already, for time does not go back. Of
 * other TIMEs the distance to the nearest partner is kept; one without any is
 * counted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"

#include "decode/compare/impl.h"
#include "decode/lib/packet/packet.h"

#define AWAY 2	/* slots */

/* ---- TSC packets of a chunk ---- */

/* The entry of a TSC, or the free one where it would be: the table is at most
 * half full. */
static struct verify_tsc *find_tsc(const struct verify_side *s, uint64_t tsc)
{
	uint64_t i = tsc * UINT64_C(0x9e3779b97f4a7c15) >> 20;
	struct verify_tsc *at;

	for (;; i++) {
		at = &s->tsc[i & s->tsc_mask];
		if (!at->tsc || at->tsc == tsc)
			return at;
	}
}

/* Counts the TSC packets of a chunk; add: enters each value with its first
 * offset. The first walk finds how large the table must be, the second fills
 * it. */
static uint64_t walk_tsc(struct verify_side *s, const struct aux_chunk *c,
			 bool add)
{
	const uint8_t *end = c->data + c->len, *p = ptpkt_find_psb(c->data, end);
	struct verify_tsc *at;
	unsigned block = 0;
	struct ptpkt pkt;
	uint64_t n = 0;

	while (p && p < end) {
		int size = ptpkt_next(p, end, &block, &pkt);

		if (size <= 0) {
			p = size < 0 ? ptpkt_find_psb(p + 1, end) : NULL;
			block = 0;
			continue;
		}
		p += size;
		if (pkt.type != PTPKT_TSC || !pkt.payload)
			continue;
		n++;
		at = add ? find_tsc(s, pkt.payload) : NULL;
		if (!at || at->tsc)
			continue;
		at->tsc = pkt.payload;
		at->offset = c->stream_offset + (uint64_t)(p - c->data) -
			     (unsigned)size;
	}
	return n;
}

int verify_scan_tsc(struct verify_side *s, const struct aux_chunk *c)
{
	uint64_t n, size = 16;

	if (s->cur.source)
		return 0;
	free(s->tsc);
	n = walk_tsc(s, c, false);
	while (size < 2 * n)
		size *= 2;
	s->tsc = calloc(size, sizeof(*s->tsc));
	if (!s->tsc)
		return -AUX_E_NOMEM;
	s->tsc_mask = size - 1;
	walk_tsc(s, c, true);
	return 0;
}

/* An estimate may be equal to what a later packet carries. */
static bool is_exact(const struct verify_side *s, const struct aux_flow *ev)
{
	const struct verify_tsc *at;

	if (s->cur.source)
		return true;
	if (!s->tsc || !ev->time.tsc)
		return false;
	at = find_tsc(s, ev->time.tsc);
	return at->tsc && at->offset <= ev->offset;
}

/* ---- slots ---- */

static struct verify_slot *slot_at(struct verify_side *s, uint64_t i)
{
	return &s->slots[i % VERIFY_SLOTS];
}

/* What s knows of the neighbourhood of a slot. */
struct near {
	uint64_t distance;	/* to the nearest TIME; UINT64_MAX: none */
	bool beyond;		/* some TIME there is later, or one before is not
				 * earlier: an estimate that was ahead */
};

/* Adds to near what a slot says about tsc. */
static void look_at(const struct verify_slot *slot, uint64_t tsc,
		    struct near *near)
{
	uint64_t n = slot->n < VERIFY_VALUES ? slot->n : VERIFY_VALUES;

	for (uint64_t k = 0; k < n; k++) {
		uint64_t t = slot->v[k], d = t > tsc ? t - tsc : tsc - t;

		if (d < near->distance)
			near->distance = d;
		near->beyond |= t > tsc;
	}
	/* between the first ones and the last there were others */
	if (slot->n > VERIFY_VALUES && slot->v[VERIFY_VALUES - 2] <= tsc &&
	    tsc <= slot->v[VERIFY_VALUES - 1])
		near->distance = 0;
}

/* What s has around a slot. Slots are in order, so those too far before it only
 * say whether s was past tsc already. */
static struct near look_around(struct verify_side *s, uint64_t slot,
			       uint64_t tsc)
{
	struct near near = { .distance = UINT64_MAX };
	uint64_t first = s->n_slots > VERIFY_SLOTS ? s->n_slots - VERIFY_SLOTS :
						     0;

	for (uint64_t i = first; i < s->n_slots; i++) {
		struct verify_slot *at = slot_at(s, i);
		struct near before = { .distance = UINT64_MAX };

		if (at->slot > slot + AWAY)
			break;
		if (at->slot + AWAY >= slot) {
			look_at(at, tsc, &near);
			continue;
		}
		look_at(at, tsc, &before);
		near.beyond |= before.beyond || !before.distance;
	}
	return near;
}

/* Keeps the largest distance of two estimates, in ticks and, at that time, in
 * ns. */
static void keep_distance(struct verify *v, uint64_t tsc, uint64_t ticks)
{
	const struct aux_clock *c = &v->side[0].cur.config.clock;
	uint64_t ns = aux_clock_ns(c, tsc + ticks) - aux_clock_ns(c, tsc);

	if (ticks <= v->r->max_ticks)
		return;
	v->r->max_ticks = ticks;
	v->r->max_ns = ns;
}

static bool check_value(struct verify *v, struct verify_side *o, uint64_t slot,
			uint64_t tsc, bool exact)
{
	struct near near = look_around(o, slot, tsc);

	if (exact && near.distance && !near.beyond) {
		snprintf(v->text, sizeof(v->text),
			 "%s does not have the time %#llx of a packet",
			 o->name,
			 (unsigned long long)tsc);
		return false;
	}
	if (near.distance == UINT64_MAX)
		v->r->n_alone++;
	else
		keep_distance(v, tsc, near.distance);
	return true;
}

/* Each TIME of one slot of s, against the slots of o. */
static bool check_slot(struct verify *v, struct verify_side *s,
		       struct verify_side *o, const struct verify_slot *slot)
{
	uint64_t n = slot->n < VERIFY_VALUES ? slot->n : VERIFY_VALUES;

	for (uint64_t k = 0; k < n; k++)
		if (!check_value(v, o, slot->slot, slot->v[k], slot->exact[k]))
			return false;
	v->r->n_times += s == &v->side[1] ? slot->n : 0;
	return true;
}

/* A slot is due once the other side cannot add a TIME within AWAY of it. */
bool verify_check_times(struct verify *v, bool end)
{
	for (unsigned i = 0; i < 2; i++) {
		struct verify_side *s = &v->side[i], *o = &v->side[!i];

		while (s->n_checked < s->n_slots) {
			struct verify_slot *slot = slot_at(s, s->n_checked);

			if (!end && slot->slot + AWAY >= v->slot)
				break;
			s->n_checked++;
			if (!check_slot(v, s, o, slot))
				return false;
		}
	}
	return true;
}

/* After a chunk that was not compared, slots of the two sides do not
 * correspond. */
void verify_forget_times(struct verify *v)
{
	for (unsigned i = 0; i < 2; i++)
		v->side[i].n_checked = v->side[i].n_slots = 0;
}

/* Also checks that ns and tsc of the TIME agree by the recording's clock. */
bool verify_take_time(struct verify *v, struct verify_side *s)
{
	const struct aux_flow *ev = &s->head;
	uint64_t ns = aux_clock_ns(&s->cur.config.clock, ev->time.tsc);
	bool exact = is_exact(s, ev);
	struct verify_slot *slot;
	uint64_t k;

	if (!(ev->flags & AUX_FLOW_HAS_TSC))
		return true;
	if (ev->time.ns != ns) {
		snprintf(v->text, sizeof(v->text), "the time of %#llx is %llu, "
			 "not %llu", (unsigned long long)ev->time.tsc,
			 (unsigned long long)ns,
			 (unsigned long long)ev->time.ns);
		return false;
	}
	v->r->n_exact += exact && s == &v->side[1];
	slot = s->n_slots ? slot_at(s, s->n_slots - 1) : NULL;
	if (!slot || slot->slot != v->slot) {
		slot = slot_at(s, s->n_slots++);
		*slot = (struct verify_slot){ .slot = v->slot };
	}
	k = slot->n++;
	if (k >= VERIFY_VALUES)
		k = VERIFY_VALUES - 1;
	slot->v[k] = ev->time.tsc;
	slot->exact[k] = exact;
	return true;
}
