/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * pack: what is unpacked is what was packed, whatever the events and however they are
 * handed over; a path that is not kept comes as its ranges.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "decode/lib/session/pack.h"
#include "tests/unit/tap.h"

#define N 5000

static uint64_t state = 1;

static uint32_t roll(uint32_t n)
{
	state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(state >> 33) % n;
}

static const struct aux_flow two[2] = {
	{ .kind = AUX_FLOW_RANGE, .n = 3, .range = { 0x1000, 0x1004 } },
	{ .kind = AUX_FLOW_RANGE, .n = 4, .range = { 0x2000, 0x2004 } },
};
static struct aux_step step = { .ranges = two, .n_ranges = 2, .n_insns = 7 };
static struct aux_step *const steps[] = { &step };
static struct aux_path kept = { steps, 1, 2, 7, 1, { 0 } };
static struct aux_path lost = { steps, 1, 2, 7, 0, { 0 } };

/* what goes in, and what is to come out */
static struct aux_flow in[N], want[2 * N], out[2 * N];
static size_t n_want;

/* Often a little more, sometimes much, sometimes less. */
static uint64_t go_on(uint64_t v)
{
	if (roll(40))
		return v + roll(roll(3) ? 100 : 70000);
	return roll(2) ? v - roll(1000) : (uint64_t)roll(UINT32_MAX) << 30;
}

static struct aux_flow make_time(uint64_t *tsc, uint64_t *ns)
{
	*tsc = go_on(*tsc);
	*ns = go_on(*ns);
	return (struct aux_flow){ .kind = AUX_FLOW_TIME,
				  .flags = roll(20) ? AUX_FLOW_HAS_TSC : 0,
				  .n = roll(roll(5) ? 100 : 100000),
				  .time = { *ns, *tsc } };
}

/* mostly: paths in a row, as they are */
static void make_events(bool mostly)
{
	uint64_t offset = 0, tsc = 0, ns = 0;
	struct aux_flow ev;

	n_want = 0;
	for (size_t i = 0; i < N; i++) {
		uint32_t kind = mostly ? roll(200) : roll(6);

		if (kind == 1)
			ev = make_time(&tsc, &ns);
		else if (kind == 2)
			ev = two[roll(2)];
		else if (kind == 3)
			ev = (struct aux_flow){ .kind = AUX_FLOW_GAP,
						.what = 3, .n = 9,
						.gap = { 5, 6 } };
		else
			ev = (struct aux_flow){
				.kind = AUX_FLOW_PATH, .n = 7,
				.flags = roll(50) ? 0 : 4,
				.path = { kind == 4 ? &lost : &kept, 0 } };
		ev.offset = offset = go_on(offset);
		in[i] = want[n_want++] = ev;
		if (ev.kind == AUX_FLOW_PATH && ev.path.path == &lost) {
			want[n_want - 1] = two[0];
			want[n_want] = two[1];
			want[n_want - 1].offset = want[n_want].offset = offset;
			n_want++;
		}
	}
}

static void pack_all(struct pack *p)
{
	size_t n;

	for (size_t i = 0; i < N; i += n) {
		n = 1 + roll(600);
		if (n > N - i)
			n = N - i;
		if (pack_events(p, in + i, n) < 0)
			abort();
	}
}

/* What is said of the plain ones is true. */
static bool is_plain_sum(const struct aux_flow *ev, size_t n, uint64_t n_insns)
{
	for (size_t i = 0; i < n; i++) {
		if (ev[i].kind != AUX_FLOW_RANGE && ev[i].kind != AUX_FLOW_PATH)
			return false;
		n_insns -= ev[i].n;
	}
	return !n_insns;
}

static void check(const char *what, bool mostly)
{
	struct pack p = { .n = 0 };
	struct unpack u;
	size_t n = 0, max, got, n_plain;
	uint64_t n_insns;
	bool plain = true;

	make_events(mostly);
	pack_all(&p);
	u = (struct unpack){ .at = p.words, .end = p.words + p.n };
	for (;;) {
		max = 1 + roll(300);
		max = max < 2 * N - n ? max : 2 * N - n;
		got = unpack_events(&u, out + n, max, &n_plain, &n_insns);
		if (!got)
			break;
		plain &= n_plain <= got && is_plain_sum(out + n, n_plain, n_insns);
		n += got;
	}
	ok(n == n_want && !memcmp(out, want, n * sizeof(*out)),
	   "%s: %zu events come back", what, n);
	ok(plain, "%s: so many plain ones, and their instructions", what);
	ok(!mostly || p.n < 2 * n, "%s: %zu words", what, p.n);
	free(p.words);
}

int main(void)
{
	struct pack p = { .n = 0 };

	check("all kinds", false);
	check("mostly paths", true);
	ok(pack_events(&p, in, 0) == 0 && p.n == 0, "no events are no words");
	free(p.words);
	return plan_done();
}
