/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * ptpkt on a table of packets made by hand: text, size, and bytes that are not a packet; and
 * the search for PSB compared with a slow one.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "decode/lib/packet/packet.h"
#include "tests/unit/tap.h"
#include "tests/unit/xorshift.h"

struct row {
	const char *text;
	uint8_t n;
	uint8_t bytes[16];
};

/* table */
static const struct row rows[] = {
	{ "pad", 1, { 0 } },
	{ "tnt 1: .", 1, { 0x04 } },
	{ "tnt 6: !!!!!!", 1, { 0xfe } },
	{ "tnt 4: !.!.", 1, { 0x34 } },
	{ "tnt 47: !..............................................", 8,
	  { 0x02, 0xa3, 0, 0, 0, 0, 0, 0xc0 } },
	{ "tip 0: no ip", 1, { 0x0d } },
	{ "tip 1: 0x1234", 3, { 0x2d, 0x34, 0x12 } },
	{ "tip.pge 2: 0x401000", 5, { 0x51, 0x00, 0x10, 0x40, 0x00 } },
	{ "tip.pgd 3: 0xffff12345678", 7,
	  { 0x61, 0x78, 0x56, 0x34, 0x12, 0xff, 0xff } },
	{ "fup 4: 0x7f0012345678", 7,
	  { 0x9d, 0x78, 0x56, 0x34, 0x12, 0x00, 0x7f } },
	{ "fup 6: 0xff00000012345678", 9,
	  { 0xdd, 0x78, 0x56, 0x34, 0x12, 0x00, 0x00, 0x00, 0xff } },
	{ "pip cr3 0x12345000 nr", 8,
	  { 0x02, 0x43, 0x01, 0x45, 0x23, 0x01, 0, 0 } },
	{ "mode.exec cs.l", 2, { 0x99, 0x01 } },
	{ "mode.exec cs.d if", 2, { 0x99, 0x06 } },
	{ "mode.tsx intx abrt", 2, { 0x99, 0x23 } },
	{ "tracestop", 2, { 0x02, 0x83 } },
	{ "cbr 29", 4, { 0x02, 0x03, 0x1d, 0x00 } },
	{ "tsc 0x7654321fedcba", 8,
	  { 0x19, 0xba, 0xdc, 0xfe, 0x21, 0x43, 0x65, 0x07 } },
	{ "mtc 0x48", 2, { 0x59, 0x48 } },
	{ "tma ctc 0xb23c fc 0x130", 7,
	  { 0x02, 0x73, 0x3c, 0xb2, 0x00, 0x30, 0x01 } },
	{ "cyc 31", 1, { 0xfb } },
	{ "cyc 32", 2, { 0x07, 0x02 } },
	{ "cyc 4096", 3, { 0x07, 0x01, 0x02 } },
	{ "vmcs 0x123456789a000", 7,
	  { 0x02, 0xc8, 0x9a, 0x78, 0x56, 0x34, 0x12 } },
	{ "ovf", 2, { 0x02, 0xf3 } },
	{ "psb", 16, { 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
		       2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82 } },
	{ "psbend", 2, { 0x02, 0x23 } },
	{ "mnt 0x807060504030201", 11,
	  { 0x02, 0xc3, 0x88, 1, 2, 3, 4, 5, 6, 7, 8 } },
	{ "ptw 4: 0x4030201", 6, { 0x02, 0x12, 1, 2, 3, 4 } },
	{ "ptw 8: 0x807060504030201 ip", 10,
	  { 0x02, 0xb2, 1, 2, 3, 4, 5, 6, 7, 8 } },
	{ "exstop", 2, { 0x02, 0x62 } },
	{ "exstop ip", 2, { 0x02, 0xe2 } },
	{ "mwait hints 0x21 ext 0x1", 10,
	  { 0x02, 0xc2, 0x21, 0, 0, 0, 1, 0, 0, 0 } },
	{ "pwre c6.1 hw", 4, { 0x02, 0x22, 0x80, 0x61 } },
	{ "pwrx last c6 deepest c3 wake 0x4", 7,
	  { 0x02, 0xa2, 0x63, 0x04, 0, 0, 0 } },
	{ "bbp type 5, 8-byte items", 3, { 0x02, 0x63, 0x05 } },
	{ "bbp type 1, 4-byte items", 3, { 0x02, 0x63, 0x81 } },
	{ "bep", 2, { 0x02, 0x33 } },
	{ "bep ip", 2, { 0x02, 0xb3 } },
	{ "cfe type intr vector 14 ip", 4, { 0x02, 0x13, 0x81, 0x0e } },
	{ "cfe type vmexit_intr vector 32", 4, { 0x02, 0x13, 0x09, 0x20 } },
	{ "cfe type uiret vector 0", 4, { 0x02, 0x13, 0x0d, 0 } },
	{ "cfe type fred_int vector 128 ip", 4, { 0x02, 0x13, 0x8e, 0x80 } },
	{ "cfe type fred_syscall vector 1", 4, { 0x02, 0x13, 0x0f, 1 } },
	{ "cfe type 11 vector 0", 4, { 0x02, 0x13, 0x0b, 0 } },
	{ "cfe type 31 vector 0", 4, { 0x02, 0x13, 0x1f, 0 } },
	{ "trig 0x1a", 3, { 0xd9, 0x00, 0x1a } },
	{ "trig 0xa1 mult", 3, { 0xd9, 0x20, 0xa1 } },
	{ "trig 0x1 icnt 515", 5, { 0xd9, 0x40, 0x01, 3, 2 } },
	{ "trig 0xff ip mult icnt 0", 5, { 0xd9, 0xe0, 0xff, 0, 0 } },
	{ "evd type cr2: 0x1", 11, { 0x02, 0x53, 0, 1 } },
	{ "evd type 63: 0x1", 11, { 0x02, 0x53, 0x3f, 1 } },
	{ "evd type vmxr: 0x807060504030201", 11,
	  { 0x02, 0x53, 0x02, 1, 2, 3, 4, 5, 6, 7, 8 } },
};

static void test_table(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		struct ptpkt pkt;
		char text[128] = "";
		bool cut = true;

		if (ptpkt_decode(r->bytes, r->bytes + r->n, &pkt) == r->n)
			ptpkt_text(text, sizeof(text), &pkt);
		is_str(text, r->text, "a packet's text");
		for (uint8_t n = 0; n < r->n; n++) {
			uint8_t *copy = malloc(n ? n : 1);

			memcpy(copy, r->bytes, n);
			cut &= ptpkt_decode(copy, copy + n, &pkt) == 0;
			free(copy);
		}
		ok(cut, "%s: incomplete at every shorter length", r->text);
	}
}

static void test_bad(void)
{
	static const uint8_t bad[][3] = {
		{ 0x05 }, { 0xad }, { 0xed }, { 0x99, 0x40 }, { 0x02, 0x00 },
		{ 0x02, 0x52 }, { 0x02, 0xc3, 0x87 }, { 0x02, 0x82, 0x03 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ptpkt pkt;

		ok(ptpkt_decode(bad[i], bad[i] + 3, &pkt) == -1 &&
		   pkt.type == PTPKT_BAD,
		   "%02x %02x %02x is no packet", bad[i][0], bad[i][1],
		   bad[i][2]);
	}
}

static void test_block(void)
{
	static const uint8_t b[] = {
		0x02, 0x63, 0x84,		/* bbp, 4 byte items */
		0x0c, 1, 2, 3, 4,		/* bip id 1 */
		0x59, 0x01,			/* mtc stays inside */
		0x24, 5, 6, 7, 8,		/* bip id 4 */
		0x02, 0x33,			/* bep */
		0x0c,				/* tnt again */
	};
	static const uint8_t want[] = { PTPKT_BBP, PTPKT_BIP, PTPKT_MTC,
					PTPKT_BIP, PTPKT_BEP, PTPKT_TNT };
	const uint8_t *p = b, *end = b + sizeof(b);
	unsigned block = 0;
	struct ptpkt pkt;

	for (size_t i = 0; i < sizeof(want); i++) {
		int n = ptpkt_next(p, end, &block, &pkt);

		ok(n > 0 && pkt.type == want[i], "block packet %zu is %s", i,
		   ptpkt_name(want[i]));
		if (pkt.type == PTPKT_BIP)
			ok(pkt.payload == (i == 1 ? 0x04030201 : 0x08070605) &&
			   pkt.count == (i == 1 ? 1 : 4), "item %zu", i);
		p += n > 0 ? n : 1;
	}
	ok(p == end && !block, "the block ends with BEP");
}

static void test_ip(void)
{
	struct ptpkt pkt = { .type = PTPKT_TIP };
	uint64_t last = UINT64_C(0x1122334455667788);
	static const struct {
		uint8_t count;
		uint64_t payload, want;
	} t[] = {
		{ 0, 0, UINT64_C(0x1122334455667788) },
		{ 1, 0xaaaa, UINT64_C(0x112233445566aaaa) },
		{ 2, 0xbbbbbbbb, UINT64_C(0x11223344bbbbbbbb) },
		{ 4, UINT64_C(0xcccccccccccc), UINT64_C(0x1122cccccccccccc) },
		{ 3, UINT64_C(0x800000000000), UINT64_C(0xffff800000000000) },
		{ 3, UINT64_C(0x7fffffffffff), UINT64_C(0x7fffffffffff) },
		{ 6, UINT64_C(0x0123456789abcdef),
		  UINT64_C(0x0123456789abcdef) },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		pkt.count = t[i].count;
		pkt.payload = t[i].payload;
		ok(ptpkt_ip(&pkt, &last) == (t[i].count != 0),
		   "IPBytes %u: an ip or none", t[i].count);
		is_u64(last, t[i].want, "the expanded ip");
	}
}

static const uint8_t *find_slowly(const uint8_t *p, const uint8_t *end)
{
	for (; end - p >= 16; p++) {
		size_t i = 0;

		while (i < 16 && p[i] == (i & 1 ? 0x82 : 0x02))
			i++;
		if (i == 16)
			return p;
	}
	return NULL;
}

/* Buffers made of long and short runs of the pattern, at every alignment. */
static void test_psb(void)
{
	uint64_t seed = 42;
	unsigned wrong = 0, found = 0;

	for (int round = 0; round < 20000; round++) {
		size_t n = next_random(&seed) % 80;
		uint8_t *b = malloc(n ? n : 1);

		for (size_t i = 0; i < n;) {
			size_t run = next_random(&seed) % 24;

			while (run-- && i < n) {
				b[i] = run & 1 ? 0x02 : 0x82;
				i++;
			}
			if (i < n)
				b[i++] = (uint8_t)next_random(&seed);
		}
		found += ptpkt_find_psb(b, b + n) != NULL;
		wrong += ptpkt_find_psb(b, b + n) != find_slowly(b, b + n);
		free(b);
	}
	ok(!wrong && found > 1000, "PSB search: %u buffers with one, %u wrong",
	   found, wrong);
}

static const uint8_t *zeros_slowly(const uint8_t *p, const uint8_t *end,
				   size_t n, const uint8_t **behind)
{
	for (; p < end; p++) {
		for (*behind = p; *behind < end && !**behind; ++*behind)
			;
		if ((size_t)(*behind - p) >= n)
			return p;
	}
	return NULL;
}

/* In buffers of their size. */
static void test_zeros(void)
{
	uint64_t seed = 9;
	unsigned found = 0, wrong = 0;

	for (unsigned k = 0; k < 20000; k++) {
		size_t size = next_random(&seed) % 160;
		size_t n = 9 + next_random(&seed) % 24;
		uint8_t *b = malloc(size ? size : 1);
		const uint8_t *at, *want, *to = NULL, *want_to = NULL;

		for (size_t i = 0; i < size;) {
			size_t run = next_random(&seed) % 40;

			while (run-- && i < size)
				b[i++] = 0;
			if (i < size)
				b[i++] = (uint8_t)next_random(&seed);
		}
		at = ptpkt_find_zeros(b, b + size, n, &to);
		want = zeros_slowly(b, b + size, n, &want_to);
		found += at != NULL;
		wrong += at != want || (at && to != want_to);
		free(b);
	}
	ok(!wrong && found > 1000 && found < 19000,
	   "zeros: %u buffers with enough, %u wrong", found, wrong);
}

int main(void)
{
	test_table();
	test_bad();
	test_block();
	test_ip();
	test_psb();
	test_zeros();
	return plan_done();
}
