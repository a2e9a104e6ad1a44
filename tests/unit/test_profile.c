/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * profile: the exact list of a small flow; a flow of paths and steps, cut at random, gives
 * the same list as its ranges; a list survives being written and read; damaged text does no
 * harm.
 */
#include <stdlib.h>

#include "decode/profile/branchlist.h"
#include "tests/unit/fakehost.h"
#include "common/outbuf.h"
#include "decode/profile/impl.h"
#include "tests/unit/tap.h"
#include "tests/unit/xorshift.h"

static const struct space space = { .id = 5, .pid = 7 };
static const struct flow_ctx ctx = { .space = &space, .tid = 7, .pid = 7 };

struct run {
	struct fake fake;
	struct sink_host host;
	struct branchlist list;
	struct profile_collect collect;
};

static void start(struct run *r)
{
	*r = (struct run){ 0 };
	r->host = fake_host(&r->fake);
	branchlist_init(&r->list);
	profile_collect_init(&r->collect, &r->list, &r->host);
}

/* The list as text; the caller's to free. */
static char *text_of(struct branchlist *l)
{
	struct outbuf *out = outbuf_new(-1);
	char *text;

	branchlist_sort(l);
	branchlist_write(l, out, 0);
	text = strndup(out->buf, (size_t)(out->p - out->buf));
	outbuf_free(out);
	return text;
}

static char *finish(struct run *r)
{
	char *text;

	profile_collect_finish(&r->collect);
	text = text_of(&r->list);
	profile_collect_fini(&r->collect);
	branchlist_fini(&r->list);
	return text;
}

static const char *body_of(const char *text)
{
	const char *p = strstr(text, "\nmodule ");

	return p ? p + 1 : text;
}

static void test_exact(void)
{
	const struct aux_flow ev[] = {
		{ .kind = AUX_FLOW_TRACE_ON, .flags = AUX_FLOW_HAS_IP,
		  .trace = { .ip = BASE } },
		range(BASE, BASE + 4, 3, AUX_END_CALL, 5),
		range(BASE + 0x10, BASE + 0x16, 3, AUX_END_RET, 1),
		range(BASE + 9, BASE + 0xb, 2, AUX_END_COND_TAKEN, 2),
		range(BASE + 4, BASE + 4, 1, AUX_END_CALL, 5),
		range(BASE + 0x10, BASE + 0x10, 1, AUX_END_FALL, 4),
		{ .kind = AUX_FLOW_ASYNC, .async = { BASE + 0x14, 0 } },
		{ .kind = AUX_FLOW_TRACE_ON, .flags = AUX_FLOW_HAS_IP,
		  .trace = { .ip = BASE + 0x14 } },
		range(BASE + 0x14, BASE + 0x16, 2, AUX_END_RET, 1),
		range(BASE + 9, BASE + 0xb, 2, AUX_END_COND, 2),
		range(BASE + 0xd, BASE + 0xd, 1, AUX_END_FALL, 1),
		{ .kind = AUX_FLOW_GAP, .what = AUX_GAP_OVERFLOW },
		range(BASE + 0xe, BASE + 0xe, 1, AUX_END_RET, 1),
	};
	struct run r;
	char *text;

	start(&r);
	profile_collect_flow(&r.collect, &ctx, ev, sizeof(ev) / sizeof(ev[0]));
	is_u64(r.collect.n_insns, 16, "all instructions are counted");
	text = finish(&r);
	is_str(body_of(text),
	       "module 0 - lib [unknown]\n"
	       "gaps 1\n"
	       "branch 0 401004 0 401010 call 2\n"
	       "branch 0 40100b 0 401004 cond 1\n"
	       "branch 0 40100e - - ret 1\n"
	       "branch 0 401014 - - async 1\n"
	       "branch 0 401016 0 401009 ret 2\n"
	       "range 0 401000 401004 3 1 out\n"
	       "range 0 401004 401004 1 1 in\n"
	       "range 0 401009 40100b 2 1 out\n"
	       "range 0 401009 40100d 3 1 out\n"
	       "range 0 40100e 40100e 1 1 out\n"
	       "range 0 401010 401010 1 1 out\n"
	       "range 0 401010 401016 3 1 out\n"
	       "range 0 401014 401016 2 1 out\n",
	       "a call, an interrupt, a branch that was not taken, a gap");
	free(text);
}

/* ---- paths ---- */

#define N_BLOCKS 40
#define N_EVENTS 4000
#define N_STEPS  600

/* Blocks of three instructions of 4 bytes lie one behind the other; some jump. */
static struct aux_flow random_block(uint64_t *seed, unsigned *at)
{
	static const uint8_t ends[] = { AUX_END_COND_TAKEN, AUX_END_COND_NOT_TAKEN,
					AUX_END_COND, AUX_END_FALL,
					AUX_END_COND_NOT_TAKEN, AUX_END_CALL,
					AUX_END_IND_JUMP, AUX_END_COND };
	uint64_t first = BASE + 0x1000 + *at * 12;
	struct aux_flow ev = range(first, first + 8, 3, AUX_END_FALL, 4);

	ev.offset = 0;
	ev.what = ends[next_random(seed) % sizeof(ends)];
	if (ev.what == AUX_END_COND_NOT_TAKEN || ev.what == AUX_END_FALL ||
	    (ev.what == AUX_END_COND && next_random(seed) % 2))
		*at = (*at + 1) % N_BLOCKS; /* at the end: not contiguous */
	else
		*at = (unsigned)(next_random(seed) % N_BLOCKS);
	return ev;
}

static struct aux_flow random_event(uint64_t *seed, unsigned *at)
{
	struct aux_flow ev = { .kind = AUX_FLOW_GAP, .what = AUX_GAP_DESYNC };

	switch (next_random(seed) % 60) {
	case 0:
		return ev;
	case 1:
		ev = (struct aux_flow){ .kind = AUX_FLOW_TRACE_OFF };
		return ev;
	case 2:
		ev = (struct aux_flow){ .kind = AUX_FLOW_ASYNC };
		ev.async.from = BASE + 0x1000 + *at * 12;
		*at = (unsigned)(next_random(seed) % N_BLOCKS);
		ev.async.to = BASE + 0x1000 + *at * 12;
		return ev;
	default:
		return random_block(seed, at);
	}
}

/* Steps by what they are, each once, as a decoder has them. */
struct steps {
	struct aux_step v[N_STEPS];
	struct aux_flow ranges[N_STEPS][4];
	struct aux_path paths[N_STEPS];
	struct aux_step *of[N_STEPS];
	unsigned n;
};

static unsigned find_step(struct steps *s, const struct aux_flow *ev, unsigned n)
{
	unsigned i;

	for (i = 0; i < s->n; i++)
		if (s->v[i].n_ranges == n &&
		    !memcmp(s->ranges[i], ev, n * sizeof(*ev)))
			return i;
	if (s->n == N_STEPS)
		return N_STEPS;
	memcpy(s->ranges[i], ev, n * sizeof(*ev));
	s->v[i] = (struct aux_step){ s->ranges[i], n, 3 * n, { 0 } };
	s->of[i] = &s->v[i];
	s->paths[i] = (struct aux_path){ &s->of[i], 1, n, 3 * n, 1, { 0 } };
	s->n++;
	return i;
}

/* The ranges at ev as one event, and how many they are. */
static unsigned make_path(struct steps *s, uint64_t *seed,
			  const struct aux_flow *ev, size_t left,
			  struct aux_flow *out, struct aux_path *loose)
{
	unsigned n = 0, want = 1 + (unsigned)(next_random(seed) % 4), i;

	*out = *ev;
	while (n < want && n < left && ev[n].kind == AUX_FLOW_RANGE)
		n++;
	i = n ? find_step(s, ev, n) : N_STEPS;
	if (i == N_STEPS || next_random(seed) % 8 == 0)
		return 1;
	*out = (struct aux_flow){ .kind = AUX_FLOW_PATH, .n = 3 * n };
	*loose = s->paths[i];
	loose->kept = 0;
	out->path.path = next_random(seed) % 3 ? &s->paths[i] : loose;
	return n;
}

static void test_paths(uint64_t seed)
{
	struct aux_flow *ev = calloc(N_EVENTS, sizeof(*ev)), one;
	struct steps *steps = calloc(1, sizeof(*steps));
	struct aux_path loose;
	struct run a, b;
	char *want, *got;
	unsigned at = 0;

	for (size_t i = 0; i < N_EVENTS; i++)
		ev[i] = random_event(&seed, &at);
	start(&a);
	profile_collect_flow(&a.collect, &ctx, ev, N_EVENTS);
	want = finish(&a);
	start(&b);
	for (size_t i = 0; i < N_EVENTS;) {
		i += make_path(steps, &seed, ev + i, N_EVENTS - i, &one, &loose);
		profile_collect_flow(&b.collect, &ctx, &one, 1);
	}
	got = finish(&b);
	if (!ok(!strcmp(want, got), "paths give the list of their ranges"))
		printf("# %zu and %zu bytes\n", strlen(want), strlen(got));
	free(want);
	free(got);
	free(steps);
	free(ev);
}

/* ---- text ---- */

static const char list_text[] =
	BRANCHLIST_MAGIC
	"module 0 - lib /lib/with\\040space\n"
	"module 1 00ff main /bin/x\n"
	"gaps 3\n"
	"branch 0 10 1 20 indcall 18446744073709551615\n"
	"branch 1 fffffffffffffff0 - - ret 7\n"
	"range 1 20 28 3 5 in\n";

static int read_text(struct branchlist *l, const char *text, size_t len)
{
	struct aux_diag diag = { 0 };

	branchlist_init(l);
	return branchlist_read(l, text, len, &diag);
}

static void test_text(void)
{
	struct branchlist l, sum;
	struct aux_diag diag = { 0 };
	char *text, *again;

	is_u64((uint64_t)read_text(&l, list_text, sizeof(list_text) - 1), 0,
	      "a list is read");
	branchlist_init(&sum);
	for (int i = 0; i < 2; i++)
		branchlist_read(&sum, list_text, sizeof(list_text) - 1, &diag);
	text = text_of(&sum);
	ok(strstr(text, "18446744073709551615") &&
	   strstr(text, "ret 14\n") && strstr(text, "3 10 in\n") &&
	   strstr(text, "gaps 6\n") && strstr(text, "/lib/with space\n"),
	   "twice is twice, as far as numbers go");
	branchlist_fini(&l);
	is_u64((uint64_t)read_text(&l, text, strlen(text)), 0,
	      "what is written is read");
	again = text_of(&l);
	is_str(again, text, "and comes back the same");
	branchlist_fini(&l);
	branchlist_fini(&sum);
	free(text);
	free(again);
}

static void test_bad(void)
{
	/* table */
	static const char *const bad[] = {
		"module 1 - lib /x\n", "module 0 xy lib /x\n",
		"module 0 - other /x\n", "module 0 - lib \n", "module 0\n",
		"branch 0 1 0 2 call 1\n", "nonsense\n", "gaps -1\n",
		"module 0 - lib /x\nrange 0 5 4 1 1 in\n",
		"module 0 - lib /x\nrange 0 4 5 3 1 in\n",
		"module 0 - lib /x\nrange 0 4 5 1 1 around\n",
		"module 0 - lib /x\nrange 0 4 5 4294967297 1 in\n",
		"module 0 - lib /x\nbranch 0 1 - 2 call 1\n",
		"module 0 - lib /x\nbranch 0 1 0 2 leap 1\n",
		"module 0 - lib /x\nbranch 0 1 0 2 call 18446744073709551616\n",
		"module 0 - lib /x\nbranch 0 1 0 2 call 1 1\n",
	};
	struct branchlist l;
	char text[256];
	int n = 0;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "%s%s", BRANCHLIST_MAGIC, bad[i]);
		n += read_text(&l, text, strlen(text)) == -AUX_E_FORMAT;
		if (n != (int)i + 1)
			printf("# accepted: %s", bad[i]);
		branchlist_fini(&l);
	}
	is_u64((uint64_t)n, sizeof(bad) / sizeof(bad[0]), "bad lines are refused");
	is_u64((uint64_t)-read_text(&l, list_text, sizeof(list_text) - 2),
	      AUX_E_TRUNCATED, "and a line that is cut");
	branchlist_fini(&l);
}

/* Whatever is made of a list: no crash, and what is taken can be written. */
static void test_noise(void)
{
	size_t len = sizeof(list_text) - 1, n;
	uint64_t seed = 7;
	struct branchlist l;
	unsigned taken = 0;
	char *text = malloc(len);

	for (int k = 0; k < 20000; k++) {
		memcpy(text, list_text, len);
		for (n = 1 + next_random(&seed) % 3; n; n--)
			text[next_random(&seed) % len] =
				list_text[next_random(&seed) % len];
		n = next_random(&seed) % 4 ? len : next_random(&seed) % len;
		if (!read_text(&l, text, n)) {
			free(text_of(&l));
			taken++;
		}
		branchlist_fini(&l);
	}
	free(text);
	ok(taken > 100 && taken < 19000, "lists with noise: %u are lists", taken);
}

int main(void)
{
	test_exact();
	for (uint64_t seed = 1; seed < 9; seed++)
		test_paths(seed * UINT64_C(0x9e3779b97f4a7c15));
	test_text();
	test_bad();
	test_noise();
	return plan_done();
}
