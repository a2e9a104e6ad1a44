/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: packets, one by one. What each says that needs no code becomes an event at
 * once; what the flow goes by waits for the next atom, exception or source address.
 */
#include <string.h>

#include "decode/lib/etm/packet.h"

static void begin_flow(struct etm *d, uint32_t info)
{
	if (d->state != ETM_WAIT_INFO)
		return;
	d->need_context = true;
	d->place = ETM_NOWHERE;
	d->state = ETM_DECODE;
	/* in a transaction */
	if (info & 0x40)
		d->unsupported = true;
}

static void take_info(struct etm *d)
{
	uint8_t sections = etm_take_byte(d), b = sections;
	uint32_t v[5] = { 0 };
	uint64_t at;
	bool odd = false;	/* a field longer than any can be */

	while (b & 0x80 && !d->partial)
		b = etm_take_byte(d);
	for (unsigned i = 0; i < 5; i++) {
		at = d->pos;
		if (sections >> i & 1)
			v[i] = etm_take_groups(d, 5);
		odd |= d->pos - at > 5;
	}
	if (d->partial)
		return;
	d->resumes |= !d->synced && etm_may_look(d);
	d->synced = d->informed = true;
	d->except = false;
	d->clock_known = false;
	d->threshold = v[3];
	memset(d->history, 0, sizeof(d->history));
	memset(d->history_is, 0, sizeof(d->history_is));
	etm_forget_returns(d);
	begin_flow(d, v[0]);
	/* something is speculated */
	if (v[2] || odd)
		d->unsupported = true;
}

static void take_timestamp(struct etm *d, uint8_t header)
{
	uint64_t v = 0, mask = UINT64_MAX;
	uint32_t cycles = 0;

	for (unsigned i = 0; i < 9; i++) {
		uint8_t b = etm_take_byte(d);

		v |= (uint64_t)(b & (i < 8 ? 0x7f : 0xff)) << 7 * i;
		if (b < 0x80) {
			if (i < 8)
				mask = (UINT64_C(1) << 7 * (i + 1)) - 1;
			break;
		}
	}
	if (header & 1)
		cycles = etm_take_groups(d, 3) & d->cycle_mask;
	if (d->partial)
		return;
	if (!d->clock_known && d->informed)
		mask = UINT64_MAX;
	d->clock = (d->clock & ~mask) | v;
	d->clock_known = true;
	d->exc.bad = true;
	if (!d->synced)
		return;
	etm_show_packet(d);
	if (header & 1)
		etm_push_cycles(d, cycles);
	d->ts = d->clock;
	if (d->foretold && d->cycles)	/* what it took is told now */
		d->have_time = false;
	d->foretold = false;
	etm_push_time(d, d->clock);
}

static void take_cycles(struct etm *d, uint8_t header)
{
	bool commits = !(d->config->etm.trcidr0 >> 29 & 1);
	uint32_t n = 0, commit = 0;
	uint8_t b;

	if (header >= 0x10) {
		n = d->threshold + (header & 3);
		commit = commits ? (header >> 2 & 3) + 1u : 0;
	} else if (header < 0x0e) {
		b = etm_take_byte(d);
		n = d->threshold + (b & 0xf);
		commit = !commits || (header & 1 && b >> 4 == 0xf) ? 0 : 1;
	} else {
		if (commits)
			commit = etm_take_groups(d, 5);
		if (!(header & 1))
			n = etm_take_groups(d, 3) + d->threshold;
	}
	if (d->partial)
		return;
	if (commit && d->state == ETM_DECODE)
		d->unsupported = true;
	if (!d->synced)
		return;
	etm_show_packet(d);
	etm_push_cycles(d, n);
}

/* All that comes between an exception and its address makes it none. */
static void take_event(struct etm *d, uint8_t header)
{
	d->exc.bad = true;
	if (d->synced) {
		etm_show_packet(d);
		etm_push(d, AUX_FLOW_EVENT, 0)->payload.value = header & 0xf;
	} else if (d->state == ETM_WAIT_INFO && d->ete) {
		if (d->n_early == ETM_EARLY_MAX)
			d->unsupported = true;
		else
			d->early[d->n_early++] = (struct etm_early){
				d->packet, header & 0xf };
	}
}

static void take_on(struct etm *d)
{
	d->exc.bad = true;
	if (d->synced) {
		etm_show_packet(d);
		etm_push_on(d);
		d->resumes = etm_may_look(d);
	}
	if (d->state != ETM_DECODE)
		return;
	d->on_pending = true;
	etm_forget_returns(d);
}

static void take_exception(struct etm *d)
{
	uint8_t b = etm_take_byte(d), more = b & 0x80 ? etm_take_byte(d) : 0;
	unsigned type = b >> 1 & 0x1f;

	if (d->partial)
		return;
	if (d->ete && (type == 0 || type == 0x18))
		d->unsupported = true; /* reset, failed transaction */
	if (d->synced)
		etm_show_packet(d);
	d->except |= d->synced;
	if (d->state != ETM_DECODE)
		return;
	d->exc = (struct etm_exception){
		.bad = d->exc.waits, .waits = true,
		.target = b & 0x40 && !(b & 1),
		.number = (uint16_t)(type | (more & 0x1fu) << 5),
	};
}

static void take_return(struct etm *d)
{
	d->exc.bad = true;
	if (!d->synced)
		return;
	etm_show_packet(d);
	etm_end_return(d);
}

/* Elements that were not speculated are committed. */
static void take_commit(struct etm *d)
{
	uint32_t n = etm_take_groups(d, 5);

	if (d->partial)
		return;
	if (d->synced)
		etm_show_packet(d);
	if (n && d->state == ETM_DECODE)
		etm_fail(d, AUX_GAP_DECODER);
}

static void take_nothing(struct etm *d)
{
	if (d->synced)
		etm_show_packet(d);
}

static void take_other(struct etm *d, uint8_t header)
{
	switch (header) {
	case 0x00:
		etm_take_extension(d);
		break;
	case 0x01:
		take_info(d);
		break;
	case 0x02: case 0x03:
		take_timestamp(d, header);
		break;
	case 0x04:
		take_on(d);
		break;
	case 0x06:
		take_exception(d);
		break;
	case 0x07:
		take_return(d);
		break;
	case 0x2d: case 0x2e: case 0x2f:
		take_commit(d);
		break;
	case 0x70:
		take_nothing(d);
		break;
	case 0x80: case 0x81:
		etm_take_context(d, header);
		break;
	case 0x88:
		d->exc.bad = true;
		take_nothing(d);
		break;
	default:
		if (header >= 0x71 && header <= 0x7f)
			take_event(d, header);
		else if (header <= 0x1f)
			take_cycles(d, header);
		else
			take_nothing(d);	/* mispredict: not synced */
	}
}

/* Does a packet of groups say anything but 0? */
static bool is_some(const struct etm *d, uint64_t pos)
{
	uint8_t any = 0;

	for (unsigned i = 0; i < 4 && pos < d->len; i++, pos++) {
		any |= d->data[pos] & 0x7f;
		if (d->data[pos] < 0x80)
			return any;
	}
	return true;
}

/* Packets that take back what was speculated, where nothing was; and such as would
 * commit an exception before its address has come. */
static bool is_deadly(const struct etm *d, uint8_t header)
{
	if (!d->synced)
		return false;
	if (d->except)
		return (header >= 0x0c && header <= 0x1f) ||
		       (header >= 0x2d && header <= 0x3f);
	return header == 0x2e ? is_some(d, d->pos + 1) :
				header >= 0x2f && header <= 0x3f;
}

/* The chunk ends in a packet. */
static void end_partial(struct etm *d)
{
	d->pos = d->len;
	if (d->synced)
		etm_at(d, d->packet);
	if (d->state == ETM_DECODE)
		etm_fail(d, AUX_GAP_DESYNC);
}

void etm_take_packet(struct etm *d)
{
	uint8_t header;

	if (!d->framed) {
		etm_find_sync(d);
		return;
	}
	d->packet = d->pos;
	header = d->data[d->pos];
	if (is_deadly(d, header)) {
		etm_fail(d, AUX_GAP_BAD_PACKET);
		return;
	}
	d->pos++;
	d->partial = false;
	switch (d->class[header]) {
	case ETM_ATOMS:
		d->resumes = d->except = false;
		etm_take_atoms(d, d->atoms[header - 0xc0]);
		break;
	case ETM_OTHER:
		take_other(d, header);
		break;
	case ETM_BAD:
		etm_take_bad(d);
		break;
	case ETM_UNSUPPORTED:
		d->unsupported = true;
		break;
	default:
		if (header >= 0xb0)
			etm_take_source_packet(d, d->class[header], header);
		else
			etm_take_address(d, d->class[header], header);
	}
	if (d->partial)
		end_partial(d);
}
