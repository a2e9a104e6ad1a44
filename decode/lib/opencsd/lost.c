/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * OpenCSD: what code that is missing takes with it.
 *
 * Code that is missing calls and returns, too. The library keeps its return stack
 * all the same, and takes addresses from it that are another call's; behind a source
 * address without code it goes on from where it was before. What it would show then
 * never ran. So from missing code up to the next sync point it gets atoms one by
 * one, and none that needs an address that only the trace unit knows: that is a GAP,
 * up to the next address in the trace.
 */
#include "decode/lib/opencsd/impl.h"

#define ATOMS 0xc0	/* headers from here on */
#define STACK 16	/* addresses */

static bool compresses_returns(const struct opencsd *d)
{
	return d->config->etm.trcconfigr >> 12 & 1;
}

/* The code of this packet's P0 element is missing at ip. */
void opencsd_lose_code(struct opencsd *d, uint64_t ip, bool source)
{
	if (!d->early)
		return;
	d->adrift = source;
	d->unsure |= compresses_returns(d);
	d->unsure_ip = ip;
	d->n_pushed = 0;
	d->hold = true;
}

/* The next range begins where the stack says; and what the range before pushed. */
void opencsd_follow_stack(struct opencsd *d, bool pops, bool pushes)
{
	if (pops && d->n_pushed)
		d->n_pushed--;
	if (pushes && d->n_pushed < STACK)
		d->n_pushed++;
}

static bool is_lost(const struct opencsd *d)
{
	return d->adrift || (d->unsure && d->indirect && !d->addressed &&
			     !d->n_pushed);
}

/* The first atom is bit 0. Returns how many. */
static unsigned get_atoms(uint8_t header, uint32_t *atoms)
{
	static const uint8_t four[] = { 0x0e, 0x00, 0x0a, 0x05 };
	static const uint8_t five[] = { 0, 0x00, 0x0a, 0x15 };
	unsigned n;

	switch (header >> 2) {
	case 0xf8 >> 2: case 0xfc >> 2:
		*atoms = header & 7;
		return 3;
	case 0xd8 >> 2:
		*atoms = header & 3;
		return 2;
	case 0xdc >> 2:
		*atoms = four[header & 3];
		return 4;
	}
	if (header >= 0xf6) {
		*atoms = header & 1;
		return 1;
	}
	if (header == 0xf5 || (header > 0xd4 && header < 0xd8)) {
		*atoms = header == 0xf5 ? 0x1e : five[header & 3];
		return 5;
	}
	n = 3 + (header & 0x1f);
	*atoms = ((UINT32_C(1) << n) - 1) | !(header & 0x20) << n;
	return n + 1;
}

/* Atoms that nobody can follow. */
static void drop_atoms(struct opencsd *d)
{
	d->n_single = 0;
	d->resumes = false;
	if (d->adrift)
		return;
	opencsd_push_gap(d, AUX_GAP_NO_CODE, true, d->unsure_ip,
			 OCSD_ERR_RET_STACK_OVERFLOW);
	d->on = d->adrift = true;
}

/*
 * What comes next, where the library does not get it as it is. True: that is
 * done, or d->n_single atoms are to be fed from d->single.
 */
bool opencsd_take_care(struct opencsd *d)
{
	uint8_t header;

	if (d->n_single) {
		if (is_lost(d))
			drop_atoms(d);
		return true;
	}
	if (!(d->unsure || d->adrift) || d->pos >= d->chunk->len ||
	    !d->synced || d->packet_end != d->pos)
		return false;
	header = d->chunk->data[d->pos];
	if (header < ATOMS)
		return false;
	d->packet_end = ++d->pos;
	d->n_single = get_atoms(header, &d->single);
	if (is_lost(d))
		drop_atoms(d);
	return true;
}

/* An exception: the library would walk from where the flow is not. */
bool opencsd_is_misled(const struct opencsd *d)
{
	return d->pos < d->chunk->len && d->synced && !d->n_single &&
	       d->packet_end == d->pos && is_lost(d) &&
	       d->chunk->data[d->pos] == ETM4_PKT_I_EXCEPT;
}
