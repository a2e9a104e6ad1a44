/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: packets, one by one. What each says that needs no code becomes an event at
 * once; what the flow goes by waits for the next atom, exception or source address.
 */
#include <string.h>

#include "decode/lib/etm/engine.h"

/*
 * etm: the time of a run before its first instruction.
 *
 * A timestamp comes behind the first P0 element that it is of. Where the flow goes
 * on (behind Trace On, at the beginning of a chunk, back in user code) the packets
 * up to the run's first timestamp are therefore looked through beforehand. Only an
 * exception leaves a run of user code, and behind that nothing is looked at but a
 * timestamp of its own: an exec, a mmap or a switch can lie between two runs, never
 * inside of one. Each byte is looked at once.
 */

struct scan {
	const struct etm *d;
	const uint8_t *p, *end;
	bool moved;	/* an atom was seen: the run is under way */
	bool except;	/* an exception ended the run: */
	bool addressed;	/* its address has come */
	bool left;	/* its context, too */
};

static bool skip(struct scan *s, size_t n)
{
	if ((size_t)(s->end - s->p) < n)
		return false;
	s->p += n;
	return true;
}

/* Up to max bytes, of which the last has no top bit. */
static bool skip_groups(struct scan *s, unsigned max)
{
	while (max--) {
		if (!skip(s, 1))
			return false;
		if (s->p[-1] < 0x80)
			break;
	}
	return true;
}

static bool skip_context(struct scan *s)
{
	return skip(s, 1) && skip(s, (s->p[-1] & 0x40 ? s->d->n_vmid : 0u) +
					     (s->p[-1] & 0x80 ? s->d->n_cid : 0u));
}

/* What it does not tell is as in the timestamp before, if that is much. */
static bool read_timestamp(struct scan *s, uint64_t *ts)
{
	*ts = 0;
	for (unsigned i = 0; i < 9; i++) {
		if (!skip(s, 1))
			return false;
		*ts |= (uint64_t)(s->p[-1] & (i < 8 ? 0x7f : 0xff)) << 7 * i;
		if (s->p[-1] < 0x80) {
			if (i < 6)
				*ts |= s->d->ts >> 7 * (i + 1) << 7 * (i + 1);
			break;
		}
	}
	return true;
}

/* A run has its context before the first atom. Behind the exception that ends it
 * come one address, where it ended, and one context, that it led to. */
static bool may_have(struct scan *s, bool address, bool context)
{
	if (!s->except)
		return !context || !s->moved;
	if ((address && s->addressed) || (context && s->left))
		return false;
	s->addressed |= address;
	s->left |= context;
	return true;
}

static bool pass_address(struct scan *s, uint8_t header)
{
	bool context = header < 0x88;

	if (!may_have(s, true, context))
		return false;
	switch (header) {
	case 0x90: case 0x91: case 0x92:
		return true;
	case 0x95: case 0x96:
		return skip_groups(s, 2);
	case 0x9a: case 0x9b:
		return skip(s, 4);
	case 0x9d: case 0x9e:
		return skip(s, 8);
	case 0x82: case 0x83:
		return skip(s, 4) && skip_context(s);
	case 0x85: case 0x86:
		return skip(s, 8) && skip_context(s);
	default:
		return false;
	}
}

/* Source addresses are P0 elements, as atoms are. */
static bool pass_source(struct scan *s, uint8_t header)
{
	s->moved = true;
	if (s->except)
		return false;
	switch (header) {
	case 0xb0: case 0xb1: case 0xb2:
		return true;
	case 0xb4: case 0xb5:
		return skip_groups(s, 2);
	case 0xb6: case 0xb7:
		return skip(s, 4);
	case 0xb8: case 0xb9:
		return skip(s, 8);
	default:
		return false;
	}
}

static bool pass_cycles(struct scan *s, uint8_t header)
{
	if (header >= 0x10)
		return true;
	if (header <= 0x0d)
		return skip(s, 1);
	if (!(s->d->config->etm.trcidr0 >> 29 & 1) && !skip_groups(s, 4))
		return false;
	return header & 1 || skip_groups(s, 3);
}

static bool pass_exception(struct scan *s)
{
	if (s->except || !skip(s, 1) || (s->p[-1] & 0x80 && !skip(s, 1)))
		return false;
	s->except = true;
	return true;
}

/* All but a timestamp. False: nothing behind it counts. */
static bool pass(struct scan *s, uint8_t header)
{
	if (header >= 0xc0) {
		s->moved = true;
		return !s->except;
	}
	if (header >= 0xb0)
		return pass_source(s, header);
	if (header == 0x06)
		return pass_exception(s);
	if (header >= 0x0c && header <= 0x1f)
		return pass_cycles(s, header);
	if (header == 0x80 || header == 0x81)
		return may_have(s, false, true) &&
		       (header == 0x80 || skip_context(s));
	if (header >= 0x82 && header <= 0x9e && header != 0x88)
		return pass_address(s, header);
	/* padding, events, where a timestamp belongs, transactions */
	return (header >= 0x70 && header <= 0x7f) || header == 0x88 ||
	       header == 0x0a || header == 0x0b;
}

/* Does a run that begins have a time for the host to act on? */
bool etm_may_look(const struct etm *d)
{
	return d->cut && d->config->etm.ts_is_clock && d->timed;
}

void etm_look_ahead(struct etm *d)
{
	struct scan s = { .d = d, .p = d->data + d->pos,
			  .end = d->data + d->len };
	uint64_t ts;
	uint8_t header;

	d->ahead = false;
	do {
		if (s.p == s.end)
			return;
		header = *s.p++;
	} while (header != 0x02 && header != 0x03 && pass(&s, header));
	if ((header == 0x02 || header == 0x03) && read_timestamp(&s, &ts)) {
		etm_push_time(d, ts);
		d->foretold = true;
	}
}

/*
 * etm: sync points, and what loses them.
 *
 * Two things follow the packets, and they can differ where the trace is damaged:
 * the events that need no code (from Trace Info on, until packets are lost), and
 * the flow (from A-Sync and Trace Info on). Behind an overflow or a discard packets
 * go on from byte to byte; behind a bad one, or when the flow makes no sense, the
 * next A-Sync is looked for in whatever bytes come.
 */

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

static void etm_take_bad(struct etm *d)
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
static void etm_find_sync(struct etm *d)
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

/* sync.c */
static void etm_take_extension(struct etm *d)
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
