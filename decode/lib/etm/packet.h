/* SPDX-License-Identifier: BSD-2-Clause */
/* The etm decoder: what its files that read packets share. */
#ifndef DECODE_LIB_ETM_PACKET_H
#define DECODE_LIB_ETM_PACKET_H

#include "decode/lib/etm/engine.h"

/* address.c */
void etm_take_context(struct etm *d, uint8_t header);
void etm_take_address(struct etm *d, enum etm_class class, uint8_t header);
void etm_take_source_packet(struct etm *d, enum etm_class class,
			    uint8_t header);

/* except.c */
void etm_take_exception(struct etm *d, uint64_t from);
void etm_take_source(struct etm *d, uint64_t ip);

/* sync.c */
void etm_find_sync(struct etm *d);
void etm_take_extension(struct etm *d);
void etm_take_bad(struct etm *d);

/* event.c */
void etm_end_return(struct etm *d);
void etm_tell_loss(struct etm *d, enum etm_loss why);

/* The packet is one that events are told from. */
static inline void etm_show_packet(struct etm *d)
{
	etm_at(d, d->packet);
	if (!d->except)
		d->n_early = 0;
}

static inline void etm_forget_returns(struct etm *d)
{
	d->n_returns = 0;
	d->unsure = false;
	if (d->place == ETM_RETURN)
		d->place = ETM_NOWHERE;
}

/* 0 at the end of the chunk, which then is in the middle of the packet. */
static inline uint8_t etm_take_byte(struct etm *d)
{
	if (d->pos < d->len)
		return d->data[d->pos++];
	d->partial = true;
	return 0;
}

static inline uint64_t etm_take_bytes(struct etm *d, unsigned n)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < n; i++)
		v |= (uint64_t)etm_take_byte(d) << 8 * i;
	return v;
}

/* Groups of 7 bits; the first max bytes tell the value. */
static inline uint32_t etm_take_groups(struct etm *d, unsigned max)
{
	uint32_t v = 0;

	for (unsigned i = 0;; i++) {
		uint8_t b = etm_take_byte(d);

		if (i < max)
			v |= (uint32_t)(b & 0x7f) << 7 * i;
		if (b < 0x80)
			return v;
	}
}

#endif
