/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm_packet: ETMv4 and ETE packets as text (packet.h).
 *
 * The decoder (lib/etm/packet.c) has a parser of its own, whose head says why;
 * test_etm_noise compares where their packets begin.
 *
 * A parse reads bytes through struct parse, which remembers that there were too
 * few: the state of the source changes only with a whole packet.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/etm_lookahead.h"
#include "decode/lib/packet/packet.h"

#define ASYNC_ZEROS 11

struct parse {
	struct etmpkt *s;
	const uint8_t *data;
	size_t len, at;
	bool cut;		/* bytes are missing */
	bool bad;
	char *text;
	size_t n;
};

static __attribute__((format(printf, 2, 3)))
void say(struct parse *p, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(p->text + p->n, ETMPKT_TEXT - p->n, format, ap);
	va_end(ap);
	p->n += n > 0 && (size_t)n < ETMPKT_TEXT - p->n ? (size_t)n : 0;
}

static uint8_t byte(struct parse *p)
{
	if (p->at < p->len)
		return p->data[p->at++];
	p->cut = true;
	return 0;
}

static uint64_t bytes(struct parse *p, unsigned n)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < n; i++)
		v |= (uint64_t)byte(p) << 8 * i;
	return v;
}

/* A ULEB128 field of any length; bytes past max, and past 32 bits, do not count. */
static uint32_t uleb(struct parse *p, unsigned max)
{
	uint32_t v = 0;

	for (unsigned i = 0;; i++) {
		uint8_t b = byte(p);

		if (i < max)
			v |= (uint32_t)(b & 0x7f) << 7 * i;
		if (b < 0x80)
			return v;
	}
}

/* ---- addresses and contexts ---- */

static void push_address(struct parse *p, uint64_t ip, unsigned is)
{
	struct etmpkt *s = p->s;

	if (p->cut)
		return;
	memmove(s->ip + 1, s->ip, 2 * sizeof(s->ip[0]));
	memmove(s->is + 1, s->is, 2);
	s->ip[0] = ip;
	s->is[0] = (uint8_t)is;
}

static void match_address(struct parse *p, unsigned i)
{
	uint64_t ip = p->s->ip[i];

	push_address(p, ip, p->s->is[i]);
	say(p, " [%u] 0x%" PRIx64, i, ip);
}

static void short_address(struct parse *p, unsigned is)
{
	unsigned shift = is ? 1 : 2, bits = 7;
	uint8_t b = byte(p);
	uint64_t v = b & 0x7f;

	if (b & 0x80) {
		v |= (uint64_t)byte(p) << 7;
		bits = 15;
	}
	v = p->s->ip[0] >> (bits + shift) << (bits + shift) | v << shift;
	push_address(p, v, is);
	say(p, " 0x%" PRIx64, v);
}

static void long_address(struct parse *p, unsigned is, bool wide)
{
	uint64_t v = bytes(p, wide ? 8 : 4);
	uint64_t low = is ? (v & 0x7f) << 1 | (v & 0xff00) :
			    (v & 0x7f) << 2 | (v >> 8 & 0x7f) << 9;

	v = (v & ~UINT64_C(0xffff)) | low;
	if (!wide && p->s->wide)
		v |= p->s->ip[0] >> 32 << 32;
	push_address(p, v, is);
	say(p, " 0x%" PRIx64, v);
}

static void context(struct parse *p)
{
	uint8_t b = byte(p);
	uint64_t v;

	if ((b & 0x40 && !p->s->n_vmid) || (b & 0x80 && !p->s->n_cid))
		p->bad = true;
	say(p, " %s el%u %s", b & 0x10 ? "aarch64" : "aarch32", b & 3u,
	    b & 8 ? (b & 0x20 ? "realm" : "root") : b & 0x20 ? "ns" : "s");
	if (b & 0x40) {
		v = bytes(p, p->s->n_vmid);
		say(p, " vmid 0x%" PRIx64, v);
	}
	if (b & 0x80) {
		v = bytes(p, p->s->n_cid);
		say(p, " cid 0x%" PRIx64, v);
	}
	p->s->wide = p->cut ? p->s->wide : b >> 4 & 1;
}

/* table */
static const struct address {
	uint8_t header;
	char kind;		/* match, short, long, wide */
	uint8_t is;
	bool context, source;
	const char *name;
} addresses[] = {
	{ 0x82, 'l', 0, true, false, "I_ADDR_CTXT_L_32IS0" },
	{ 0x83, 'l', 1, true, false, "I_ADDR_CTXT_L_32IS1" },
	{ 0x85, 'w', 0, true, false, "I_ADDR_CTXT_L_64IS0" },
	{ 0x86, 'w', 1, true, false, "I_ADDR_CTXT_L_64IS1" },
	{ 0x90, 'm', 0, false, false, "I_ADDR_MATCH" },
	{ 0x91, 'm', 1, false, false, "I_ADDR_MATCH" },
	{ 0x92, 'm', 2, false, false, "I_ADDR_MATCH" },
	{ 0x95, 's', 0, false, false, "I_ADDR_S_IS0" },
	{ 0x96, 's', 1, false, false, "I_ADDR_S_IS1" },
	{ 0x9a, 'l', 0, false, false, "I_ADDR_L_32IS0" },
	{ 0x9b, 'l', 1, false, false, "I_ADDR_L_32IS1" },
	{ 0x9d, 'w', 0, false, false, "I_ADDR_L_64IS0" },
	{ 0x9e, 'w', 1, false, false, "I_ADDR_L_64IS1" },
	{ 0xb0, 'm', 0, false, true, "I_SRC_ADDR_MATCH" },
	{ 0xb1, 'm', 1, false, true, "I_SRC_ADDR_MATCH" },
	{ 0xb2, 'm', 2, false, true, "I_SRC_ADDR_MATCH" },
	{ 0xb4, 's', 0, false, true, "I_SRC_ADDR_S_IS0" },
	{ 0xb5, 's', 1, false, true, "I_SRC_ADDR_S_IS1" },
	{ 0xb6, 'l', 0, false, true, "I_SRC_ADDR_L_32IS0" },
	{ 0xb7, 'l', 1, false, true, "I_SRC_ADDR_L_32IS1" },
	{ 0xb8, 'w', 0, false, true, "I_SRC_ADDR_L_64IS0" },
	{ 0xb9, 'w', 1, false, true, "I_SRC_ADDR_L_64IS1" },
};

static bool parse_address(struct parse *p, uint8_t header)
{
	const struct address *a = addresses;
	const struct address *end = a + sizeof(addresses) / sizeof(addresses[0]);

	while (a < end && a->header != header)
		a++;
	if (a == end || (a->source && !p->s->ete))
		return false;
	say(p, "%s", a->name);
	if (a->kind == 'm')
		match_address(p, a->is);
	else if (a->kind == 's')
		short_address(p, a->is);
	else
		long_address(p, a->is, a->kind == 'w');
	if (a->context)
		context(p);
	return true;
}

/* Q: instructions without atoms; their number, and where it goes on. */
static bool parse_q(struct parse *p, uint8_t header)
{
	unsigned type = header & 0xf;

	if (!(p->s->config->trcidr0 >> 15 & 3) || !(0x9c67 >> type & 1))
		return false;
	say(p, "I_Q");
	if (type < 3)
		match_address(p, type);
	else if (type == 5 || type == 6)
		short_address(p, type == 6);
	else if (type == 10 || type == 11)
		long_address(p, type == 11, false);
	if (type != 15)
		say(p, " count %u", uleb(p, 5));
	return true;
}

/* ---- the rest ---- */

static void parse_atoms(struct parse *p, uint8_t h)
{
	static const char *const four[] = { "NEEE", "NNNN", "NENE", "ENEN" };
	static const char *const five[] = { "", "NNNNN", "NENEN", "ENENE" };
	unsigned n = 3 + (h & 0x1fu);

	if (h >= 0xf8)
		say(p, "I_ATOM_F3 %c%c%c", h & 1 ? 'E' : 'N', h & 2 ? 'E' : 'N',
		    h & 4 ? 'E' : 'N');
	else if (h >= 0xf6)
		say(p, "I_ATOM_F1 %c", h & 1 ? 'E' : 'N');
	else if (h == 0xf5)
		say(p, "I_ATOM_F5 NEEEE");
	else if (h >= 0xd5 && h <= 0xd7)
		say(p, "I_ATOM_F5 %s", five[h & 3]);
	else if (h >= 0xd8 && h <= 0xdb)
		say(p, "I_ATOM_F2 %c%c", h & 1 ? 'E' : 'N', h & 2 ? 'E' : 'N');
	else if (h >= 0xdc && h <= 0xdf)
		say(p, "I_ATOM_F4 %s", four[h & 3]);
	else
		say(p, "I_ATOM_F6 %.*s%c", (int)n, "EEEEEEEEEEEEEEEEEEEEEEEEEE",
		    h & 0x20 ? 'N' : 'E');
}

/* table: names of exceptions, by number */
static const char *const exceptions[32] = {
	[0] = "reset", [1] = "debug-halt", [2] = "call", [3] = "trap",
	[4] = "system-error", [6] = "inst-debug", [7] = "data-debug",
	[10] = "alignment", [11] = "inst-fault", [12] = "data-fault",
	[14] = "irq", [15] = "fiq",
};
static const char *const m_exceptions[32] = {
	[1] = "reset", [2] = "nmi", [3] = "hard-fault", [4] = "mem-manage",
	[5] = "bus-fault", [6] = "usage-fault", [11] = "svc", [12] = "debug-monitor",
	[14] = "pend-sv", [15] = "sys-tick",
	[24] = "debug-halt", [25] = "lazy-fp", [26] = "lockup",
};

/* Of M profile: interrupts 0 to 7 after the others, and 8 to 495 from 0x208 on. */
static void say_exception(struct parse *p, unsigned number)
{
	bool m = p->s->config->core_profile == 'M';
	const char *name = number < 32 ? (m ? m_exceptions : exceptions)[number] :
					 NULL;

	say(p, "I_EXCEPT %u", number);
	if (m && number >= 16 && number < 24)
		say(p, " irq%u", number - 16);
	else if (m && number >= 0x208 && number < 0x3f0)
		say(p, " irq%u", number - 0x200);
	else if (name)
		say(p, " %s", name);
}

/* Two of ETE have one byte more, and stand for an address of 0. */
static void parse_exception(struct parse *p)
{
	uint8_t b = byte(p), more = b & 0x80 ? byte(p) : 0;
	unsigned number = (b >> 1 & 0x1fu) | (more & 0x1fu) << 5;

	if (p->s->ete && !(b & 0x80) && (number == 0 || number == 0x18))
		byte(p);
	if (p->s->ete && (number == 0 || number == 0x18)) {
		say(p, number ? "I_TRANS_FAIL" : "I_PE_RESET");
		push_address(p, 0, 0);
		return;
	}
	say_exception(p, number);
	if (more & 0x20 && p->s->config->core_profile == 'M')
		say(p, " fault-pending");
	if ((b & 0x41) == 0x41)
		say(p, " reserved-addr");
	else if (b & 0x41)
		say(p, b & 1 ? " ret-addr" : " ret-addr branch-target");
}

/* The first byte after the header says which fields there are. */
static void parse_trace_info(struct parse *p)
{
	static const char *const names[] = { "info", "key", "spec", "threshold",
					     "window" };
	uint8_t sections = byte(p), b = sections;
	uint32_t v;

	say(p, "I_TRACE_INFO");
	while (b & 0x80 && !p->cut)
		b = byte(p);
	p->s->threshold = 0;
	for (unsigned i = 0; i < 5; i++) {
		if (!(sections >> i & 1))
			continue;
		v = uleb(p, 5);
		say(p, " %s 0x%x", names[i], v);
		if (i == 3)
			p->s->threshold = v;
	}
	if (p->cut)
		return;
	memset(p->s->ip, 0, sizeof(p->s->ip));
	memset(p->s->is, 0, sizeof(p->s->is));
	p->s->ts = 0;
}

/* High bits that are left out are those of the last one. */
static void parse_timestamp(struct parse *p, uint8_t header)
{
	uint64_t v = 0, mask = UINT64_MAX;

	for (unsigned i = 0; i < 9; i++) {
		uint8_t b = byte(p);

		v |= (uint64_t)(b & (i < 8 ? 0x7f : 0xff)) << 7 * i;
		if (b < 0x80 && i < 8) {
			mask = (UINT64_C(1) << 7 * (i + 1)) - 1;
			break;
		}
	}
	v |= p->s->ts & ~mask;
	say(p, "I_TIMESTAMP 0x%" PRIx64, v);
	if (header & 1)
		say(p, " cc 0x%x", uleb(p, 3) & p->s->cycle_mask);
	if (!p->cut)
		p->s->ts = v;
}

static void parse_cycles(struct parse *p, uint8_t h)
{
	bool commits = !(p->s->config->trcidr0 >> 29 & 1);
	uint8_t b;

	if (h >= 0x10) {
		say(p, "I_CCNT_F3 0x%x", p->s->threshold + (h & 3));
		if (commits)
			say(p, " commit %u", (h >> 2 & 3) + 1u);
	} else if (h < 0x0e) {
		b = byte(p);
		say(p, "I_CCNT_F2 0x%x", p->s->threshold + (b & 0xf));
		if (commits)
			say(p, " commit %d", (b >> 4) + (h & 1 ?
			    (int)p->s->config->trcidr8 - 15 : 1));
	} else {
		uint32_t commit = commits ? uleb(p, 5) : 0;

		say(p, "I_CCNT_F1");
		if (h & 1)
			say(p, " unknown");
		else
			say(p, " 0x%x", uleb(p, 3) + p->s->threshold);
		if (commits)
			say(p, " commit %u", commit);
	}
}

static void parse_speculation(struct parse *p, uint8_t h)
{
	static const char *const atoms[] = { "", " E", " EE", " N" };

	if (h == 0x2d)
		say(p, "I_COMMIT %u", uleb(p, 5));
	else if (h < 0x30)
		say(p, "I_CANCEL_F1%s %u", h & 1 ? "_MISPRED" : "", uleb(p, 5));
	else if (h < 0x34)
		say(p, "I_MISPREDICT%s", atoms[h & 3]);
	else if (h < 0x38)
		say(p, "I_CANCEL_F2%s", atoms[h & 3]);
	else
		say(p, "I_CANCEL_F3%s %u", h & 1 ? " E" : "", (h >> 1 & 3) + 2u);
}

/* A result, and the key of the instruction that it is of: 4 bits of the first byte,
 * then 3 and 7 at a time. */
static void say_result(struct parse *p, unsigned ci)
{
	uint8_t b = byte(p);
	uint32_t key = b >> 4 & 7;

	say(p, " result 0x%x", b & 0xfu);
	for (unsigned shift = 3; b & 0x80 && !p->cut; shift += 7) {
		b = byte(p);
		if (shift < 32)
			key |= (uint32_t)(b & 0x7f) << shift;
	}
	say(p, " key 0x%x%s", key, ci ? " ci" : "");
}

/* Conditional instructions and their results. */
static bool parse_conditional(struct parse *p, uint8_t h)
{
	if (!(p->s->config->trcconfigr >> 8 & 7))
		return false;
	if (h <= 0x42) {
		say(p, "I_COND_I_F2 %u%s", h == 0x42 ? 2u : 1u, h == 0x41 ? "" : " key +1");
	} else if (h == 0x43) {
		say(p, "I_COND_FLUSH");
	} else if (h <= 0x46) {
		say(p, "I_COND_RES_F4 %u", h & 3u);
	} else if ((h >= 0x48 && h <= 0x4a) || (h >= 0x4c && h <= 0x4e)) {
		say(p, "I_COND_RES_F2 token %u key +%u", h & 3u, (h >> 2 & 1) + 1u);
	} else if (h >= 0x50 && h <= 0x5f) {
		say(p, "I_COND_RES_F3 0x%x", (h & 0xfu) << 8 | byte(p));
	} else if (h == 0x6c) {
		say(p, "I_COND_I_F1 key 0x%x", uleb(p, 5));
	} else if (h == 0x6d) {
		h = byte(p);
		say(p, "I_COND_I_F3 %u%s", (h >> 1 & 0x3fu) + (h & 1u), h & 1 ? " last" : "");
	} else if (h >= 0x68 && h <= 0x6f) {
		say(p, "I_COND_RES_F1");
		say_result(p, h & 1);
		if (h < 0x6c)
			say_result(p, h >> 1 & 1);
	} else {
		return false;
	}
	return true;
}

/* Two zeros and more: an A-Sync. A zero and another byte: an extension. */
static bool parse_extension(struct parse *p)
{
	uint8_t b = byte(p);

	if (b == 3) {
		say(p, "I_DISCARD");
		return true;
	}
	if (b == 5) {
		say(p, "I_OVERFLOW");
		return true;
	}
	for (unsigned i = 2; b == 0 && i < ASYNC_ZEROS && !p->cut; i++)
		b = byte(p);
	if (b == 0)
		p->bad |= byte(p) != 0x80;
	say(p, "I_ASYNC");
	return b == 0;
}

/* Headers of one packet each. */
static bool parse_single(struct parse *p, uint8_t h)
{
	const struct etmpkt *s = p->s;
	uint64_t v;

	switch (h) {
	case 0x04:
		say(p, "I_TRACE_ON");
		return true;
	case 0x05:
		say(p, "I_FUNC_RET");
		return s->config->core_profile == 'M' && s->version >= 0x42;
	case 0x06:
		parse_exception(p);
		return true;
	case 0x07:
		say(p, "I_EXCEPT_RTN");
		return !s->ete;
	case 0x09:
		h = byte(p);
		v = bytes(p, 8);
		say(p, "I_ITE el%u 0x%" PRIx64, h & 3u, v);
		return etm_has_ite(s->config);
	case 0x0a:
		say(p, "I_TRANS_ST");
		return s->ete;
	case 0x0b:
		say(p, "I_TRANS_COMMIT");
		return s->ete;
	case 0x70:
		say(p, "I_IGNORE");
		return s->version >= 0x43;
	case 0x80: case 0x81:
		say(p, "I_CTXT");
		if (h & 1)
			context(p);
		return true;
	case 0x88:
		say(p, "I_TS_MARKER");
		return s->ete || s->version >= 0x46;
	default:
		return false;
	}
}

static bool parse(struct parse *p)
{
	uint8_t h = byte(p);

	if (h >= 0xc0) {
		parse_atoms(p, h);
		return true;
	}
	if (h >= 0xa0 && h < 0xb0)
		return parse_q(p, h);
	if (h >= 0x40 && h < 0x70)
		return parse_conditional(p, h);
	if (h >= 0x20 && h < 0x2d) {
		say(p, h < 0x28 ? "I_NUM_DS_MKR %u" : "I_UNNUM_DS_MKR %u", h & 7u);
		return p->s->config->trcconfigr >> 16 & 3;
	}
	if (h >= 0x71 && h < 0x80)
		say(p, "I_EVENT 0x%x", h & 0xfu);
	else if (h >= 0x2d && h < 0x40)
		parse_speculation(p, h);
	else if (h >= 0x0c && h < 0x20)
		parse_cycles(p, h);
	else if (h == 0x02 || h == 0x03)
		parse_timestamp(p, h);
	else if (h == 0x01)
		parse_trace_info(p);
	else if (h == 0x00)
		return parse_extension(p);
	else
		return parse_single(p, h) || parse_address(p, h);
	return true;
}

/* TRCIDR2: only these sizes are not reserved, and ETMv4.0 has VMIDs of a byte. */
static uint8_t vmid_size(uint32_t idr2, uint8_t version)
{
	uint8_t n = idr2 >> 10 & 0x1f;

	return n == 1 || (version > 0x40 && (n == 2 || n == 4)) ? n : 0;
}

bool etmpkt_knows(const struct aux_etm_config *config)
{
	return config->arch == AUX_ETM_V4 || config->arch == AUX_ETM_ETE;
}

void etmpkt_init(struct etmpkt *p, const struct aux_etm_config *config)
{
	uint8_t version = config->arch == AUX_ETM_ETE ? 0x50 :
				  (uint8_t)(config->trcidr1 >> 4);

	*p = (struct etmpkt){
		.config = config, .ete = config->arch == AUX_ETM_ETE,
		.version = version,
		.n_cid = (config->trcidr2 >> 5 & 0x1f) == 4 ? 4 : 0,
		.n_vmid = vmid_size(config->trcidr2, version),
		.cycle_mask = (1u << (12 + (config->trcidr2 >> 25 & 0xf))) - 1,
	};
}

int etmpkt_next(struct etmpkt *p, const uint8_t *data, size_t len,
		char text[ETMPKT_TEXT])
{
	struct etmpkt before = *p;
	struct parse s = { .s = p, .data = data, .len = len, .text = text };
	bool known = parse(&s);

	if (known && !s.bad && !s.cut)
		return (int)s.at;
	*p = before;
	return s.cut && known ? 0 : -1;
}

size_t etmpkt_find_sync(const uint8_t *data, size_t len)
{
	size_t zeros = 0;

	for (size_t i = 0; i < len; i++) {
		if (data[i] == 0x80 && zeros >= ASYNC_ZEROS)
			return i - ASYNC_ZEROS;
		zeros = data[i] ? 0 : zeros + 1;
	}
	return len;
}
