/* SPDX-License-Identifier: BSD-2-Clause */
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
#include "decode/lib/etm/engine.h"

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
