/* SPDX-License-Identifier: BSD-2-Clause */
/* The first timestamp of a run of user code: see etm_lookahead.h. */
#include <stddef.h>

#include "common/etm_lookahead.h"

struct scan {
	const struct etm_scan_config *config;
	const uint8_t *p, *end;
	bool moved;		/* an atom was seen: the run is under way */
	bool in_exception;	/* an exception ended the run: */
	bool has_address;	/* its address was seen */
	bool has_context;	/* so was its context */
};

/* false: the packet reaches past the end of the bytes, and the scan ends. */
static bool skip(struct scan *s, size_t n)
{
	if ((size_t)(s->end - s->p) < n)
		return false;
	s->p += n;
	return true;
}

/* A ULEB128 field of at most max bytes. */
static bool skip_uleb(struct scan *s, unsigned max)
{
	while (max--) {
		if (!skip(s, 1))
			return false;
		if (s->p[-1] < 0x80)
			break;
	}
	return true;
}

/* The information byte: bit 6 a VMID follows, bit 7 a context ID. */
static bool skip_context(struct scan *s)
{
	unsigned n = 0;

	if (!skip(s, 1))
		return false;
	if (s->p[-1] & 0x40)
		n += s->config->n_vmid;
	if (s->p[-1] & 0x80)
		n += s->config->n_cid;
	return skip(s, n);
}

/* Bits that a packet of up to 6 bytes leaves out are those of the last
 * timestamp; longer ones replace it whole, as OpenCSD has it. */
static bool read_timestamp(struct scan *s, uint64_t last, uint64_t *ts)
{
	*ts = 0;
	for (unsigned i = 0; i < 9; i++) {
		if (!skip(s, 1))
			return false;
		*ts |= (uint64_t)(s->p[-1] & (i < 8 ? 0x7f : 0xff)) << 7 * i;
		if (s->p[-1] < 0x80) {
			if (i < 6)
				*ts |= last >> 7 * (i + 1) << 7 * (i + 1);
			break;
		}
	}
	return true;
}

/* A run has its context before its first atom. After the exception that ends it
 * come one address (where it ended) and one context (where it led): more belong
 * to what follows the run. */
static bool may_have(struct scan *s, bool address, bool context)
{
	if (!s->in_exception)
		return !context || !s->moved;
	if ((address && s->has_address) || (context && s->has_context))
		return false;
	s->has_address |= address;
	s->has_context |= context;
	return true;
}

static bool skip_address(struct scan *s, uint8_t header)
{
	bool context = header < 0x88;

	if (!may_have(s, true, context))
		return false;
	switch (header) {
	case 0x90: case 0x91: case 0x92:
		return true;
	case 0x95: case 0x96:
		return skip_uleb(s, 2);
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
static bool skip_source(struct scan *s, uint8_t header)
{
	s->moved = true;
	if (s->in_exception)
		return false;
	switch (header) {
	case 0xb0: case 0xb1: case 0xb2:
		return true;
	case 0xb4: case 0xb5:
		return skip_uleb(s, 2);
	case 0xb6: case 0xb7:
		return skip(s, 4);
	case 0xb8: case 0xb9:
		return skip(s, 8);
	default:
		return false;
	}
}

/* Cycle count formats 3 (0x10 on: no payload), 2 (0x0c, 0x0d) and 1 (0x0e,
 * 0x0f). */
static bool skip_cycles(struct scan *s, uint8_t header)
{
	if (header >= 0x10)
		return true;
	if (header <= 0x0d)
		return skip(s, 1);
	if (s->config->has_commit && !skip_uleb(s, 4))
		return false;
	return header & 1 || skip_uleb(s, 3);
}

static bool skip_exception(struct scan *s)
{
	if (s->in_exception || !skip(s, 1) || (s->p[-1] & 0x80 && !skip(s, 1)))
		return false;
	s->in_exception = true;
	return true;
}

/* Any packet but a timestamp. False: it ends the scan. */
static bool skip_packet(struct scan *s, uint8_t header)
{
	if (header >= 0xc0) {
		s->moved = true;
		return !s->in_exception;
	}
	if (header >= 0xb0)
		return skip_source(s, header);
	if (header == 0x06)
		return skip_exception(s);
	if (header >= 0x0c && header <= 0x1f)
		return skip_cycles(s, header);
	if (header == 0x09)	/* instrumentation (ETE) */
		return skip(s, 9);
	if (header == 0x80 || header == 0x81)
		return may_have(s, false, true) &&
		       (header == 0x80 || skip_context(s));
	if (header >= 0x82 && header <= 0x9e && header != 0x88)
		return skip_address(s, header);
	/* padding, events, timestamp markers, transactions */
	return (header >= 0x70 && header <= 0x7f) || header == 0x88 ||
	       header == 0x0a || header == 0x0b;
}

bool etm_scan_timestamp(const struct etm_scan_config *config, const uint8_t *p,
			const uint8_t *end, uint64_t last, uint64_t *ts)
{
	struct scan s = { .config = config, .p = p, .end = end };

	while (s.p < s.end) {
		uint8_t header = *s.p++;

		if (header == 0x02 || header == 0x03)
			return read_timestamp(&s, last, ts);
		if (!skip_packet(&s, header))
			break;
	}
	return false;
}
