/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * walk: ranges expanded with the code, the two instruction tables, and ranges that must be
 * refused.
 */
#include "tests/unit/fakehost.h"
#include "tests/unit/tap.h"
#include "decode/lib/session/expand.h"

static unsigned dropped;

static void drop(void *user)
{
	dropped += *(const unsigned char *)user;
}

static struct walk *new_walk(const struct sink_host *host, size_t max_bytes)
{
	struct walk_config c = { .host = host,
				 .user_size = 1,
				 .drop = drop,
				 .max_bytes = max_bytes };
	struct walk *w;

	return walk_new(&w, &c) ? NULL : w;
}

static void good_ranges(void)
{
	static const uint32_t want[] = { 0, 1, 4 };
	struct space s1 = { .id = 1 }, s2 = { .id = 2 };
	struct fake fake = { 0 };
	struct sink_host host = fake_host(&fake);
	struct walk *w = new_walk(&host, 0);
	struct aux_flow ev = range(BASE, BASE + 4, 3, AUX_END_CALL, 5);
	struct walk_range *r, *again;

	if (!ok(!walk_find(w, &s1, &ev, &r), "three instructions"))
		return;
	ok(r->n == 3 && !memcmp(r->off, want, sizeof(want)), "their offsets");
	is_u64(r->last_size, 5, "size of the last");
	ok(!*(char *)r->user, "the sink's room starts zeroed");
	*(char *)r->user = 1;
	ok(!walk_find(w, &s1, &ev, &again) && again == r, "found again");
	ok(!walk_find(w, &s2, &ev, &again) && again == r,
	   "the same bytes in a later space: the same range");
	ev = range(BASE, BASE + 1, 2, AUX_END_FALL, 0);
	ok(!walk_find(w, &s1, &ev, &again) && again != r && again->n == 2,
	   "a shorter one is another");
	is_u64(again->last_size, 3, "a size not given is found");
	ev = range(BASE + 0x17, BASE + 0x17, 1, AUX_END_SYSCALL, 2);
	ok(!walk_find(w, &s1, &ev, &again) && again->n == 1, "the last bytes");
	walk_free(w);
	is_u64(dropped, 1, "what the sink hung on it was dropped");
}

static void bad_ranges(void)
{
	struct space s = { .id = 1 };
	struct fake fake = { 0 };
	struct sink_host host = fake_host(&fake);
	struct walk *w = new_walk(&host, 0);
	/* table */
	const struct {
		uint64_t first, last;
		uint32_t n;
		int err;
		const char *text;
	} rows[] = {
		{ BASE, BASE + 4, 2, -AUX_E_FORMAT, "too few" },
		{ BASE, BASE + 4, 4, -AUX_E_FORMAT, "too many" },
		{ BASE, BASE + 5, 3, -AUX_E_FORMAT, "inside an instruction" },
		{ BASE, BASE - 1, 1, -AUX_E_FORMAT, "backwards" },
		{ BASE, BASE, 0, -AUX_E_FORMAT, "none" },
		{ BASE, BASE, 2, -AUX_E_FORMAT, "more than bytes" },
		{ 0, UINT64_MAX, 9, -AUX_E_FORMAT, "all of memory" },
		{ 0x500000, 0x500001, 2, -AUX_E_NOENT, "no code" },
		{ BASE + 0x17, BASE + 0x1b, 3, -AUX_E_NOENT, "code ends" },
	};
	struct walk_range *r;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct aux_flow ev = range(rows[i].first, rows[i].last,
					   rows[i].n, AUX_END_JUMP, 1);

		ok(walk_find(w, &s, &ev, &r) == rows[i].err && !r,
		   "refused: %s", rows[i].text);
		ok(walk_find(w, &s, &ev, &r) == rows[i].err, "again: %s",
		   rows[i].text);
	}
	walk_free(w);
}

static void odd_ranges(void)
{
	struct space s = { .id = 1 };
	struct fake fake = { 0 };
	struct sink_host host = fake_host(&fake);
	struct walk *w = new_walk(&host, 0);
	struct aux_flow ev = range(0x500000, 0x500000, 1, AUX_END_JUMP, 0);
	struct walk_range *r;
	uint8_t buf[16];

	ok(!walk_find(w, &s, &ev, &r) && r->no_code,
	   "one instruction needs no code");
	ok(!walk_find(w, NULL, &ev, &r) && r->no_code, "nor a space");
	ev = range(BASE, BASE + 0x0c, 4, AUX_END_JUMP, 4);
	ev.flags |= AUX_FLOW_MODE_A64;
	ok(!walk_find(w, &s, &ev, &r) && r->off[3] == 12, "A64: 4 bytes each");
	walk_free(w);

	fake.split = BASE + 6; /* inside the call */
	w = new_walk(&host, 0);
	ev = range(BASE, BASE + 9, 4, AUX_END_FALL, 2);
	ok(!walk_find(w, &s, &ev, &r) && r->off[3] == 9,
	   "an instruction that lies in two areas");
	ok(walk_bytes(w, &s, BASE + 4, buf, 16) == 16 &&
		   !memcmp(buf, fake_code + 4, 16),
	   "bytes across areas");
	is_u64(walk_bytes(w, &s, BASE + 0x17, buf, 16), 2, "bytes at the end");
	walk_free(w);
}

/* As walk_find, but nothing is kept. */
static void once(void)
{
	static const uint32_t want[] = { 0, 1, 4 };
	struct space s = { .id = 1 };
	struct fake fake = { 0 };
	struct sink_host host = fake_host(&fake);
	struct walk *w = new_walk(&host, 0);
	struct aux_flow ev = range(BASE, BASE + 4, 3, AUX_END_CALL, 0);
	struct walk_range r;

	ok(!walk_once(w, &s, &ev, &r) && r.n == 3 && r.last_size == 5 &&
		   !memcmp(r.off, want, sizeof(want)) && !r.user,
	   "three instructions, walked once");
	ev.range.last++;
	ok(walk_once(w, &s, &ev, &r) == -AUX_E_FORMAT, "that do not fit");
	ev.range.last = ev.range.first - 1;
	ok(walk_once(w, &s, &ev, &r) == -AUX_E_FORMAT, "backwards");
	ev = range(0x500000, 0x500001, 2, AUX_END_JUMP, 1);
	ok(walk_once(w, &s, &ev, &r) == -AUX_E_NOENT, "no code");
	walk_free(w);
}

static void x86_32(void)
{
#ifdef HAVE_CAPSTONE
	/* 55, 48, 89 e5, e8.. : dec eax in 32-bit mode */
	struct space s = { .id = 1 };
	struct fake fake = { 0 };
	struct sink_host host = fake_host(&fake);
	struct walk *w = new_walk(&host, 0);
	struct aux_flow ev = range(BASE, BASE + 4, 4, AUX_END_CALL, 5);
	struct walk_range *r;

	ev.flags |= AUX_FLOW_MODE_X86_32;
	ok(!walk_find(w, &s, &ev, &r) && r->off[2] == 2,
	   "32-bit code has other lengths");
	walk_free(w);
#else
	skip("built without capstone");
#endif
}

static void forgetting(void)
{
	struct space s = { .id = 1 };
	struct fake fake = { 0 };
	struct sink_host host = fake_host(&fake);
	struct walk *w = new_walk(&host, 1);
	struct aux_flow a = range(BASE, BASE + 1, 2, AUX_END_FALL, 3);
	struct aux_flow b = range(BASE, BASE + 4, 3, AUX_END_CALL, 5);
	struct walk_range *r;
	int good = 1;

	dropped = 0;
	for (int i = 0; i < 100; i++) {
		good &= !walk_find(w, &s, &a, &r) && r->n == 2;
		*(char *)r->user = 1;
		good &= !walk_find(w, &s, &b, &r) && r->n == 3;
	}
	ok(good, "right answers with a tiny limit");
	ok(dropped >= 99, "and memory is given back (%u)", dropped);
	walk_free(w);
}

/* Many spaces and ranges: the tables grow and nothing is mixed up. */
static void many(void)
{
	struct fake fake = { 0 };
	struct sink_host host = fake_host(&fake);
	struct walk *w = new_walk(&host, 0);
	struct walk_range *r;
	int good = 1;

	for (int round = 0; round < 2; round++) {
		for (uint64_t id = 1; id <= 20000; id++) {
			struct space s = { .id = id };
			struct aux_flow ev = range(BASE, BASE + 4, 3, 0, 5);

			good &= !walk_find(w, &s, &ev, &r) && r->n == 3;
			ev = range(0x700000 + id, 0x700000 + id, 1, 0, 0);
			good &= !walk_find(w, &s, &ev, &r) &&
				r->first == 0x700000 + id && r->no_code;
		}
	}
	ok(good, "40,000 keys, twice");
	walk_free(w);
	walk_free(NULL);
}

int main(void)
{
	good_ranges();
	bad_ranges();
	odd_ranges();
	once();
	x86_32();
	forgetting();
	many();
	return plan_done();
}
