/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * count, fed with RANGEs and with PATHs of all kinds in batches of all sizes: sums and hash
 * equal those of counting one instruction at a time.
 */
#include <stdlib.h>

#include "common/iphash.h"

#include "tests/unit/fakeoptions.h"
#include "tests/unit/fakehost.h"
#include "common/outbuf.h"
#include "decode/sink/sink.h"
#include "tests/unit/tap.h"

#define CODE (5u << 20)
#define N_INSNS 4000		/* of different lengths, at the start of it */
#define SMALL 32768u		/* they and their ranges end before */
#define APART 16		/* bytes between areas of code */
#define N_STEPS 60
#define N_PATHS 100
#define N_EVENTS 20000
#define HIGH UINT64_C(0xffffffff81000000)	/* ips do not fit the field */

struct program {
	uint8_t *code, *areas;
	uint32_t off[N_INSNS + 1];
	struct aux_flow ranges[N_STEPS][3];
	struct aux_step steps[N_STEPS];
	struct aux_step *of[N_PATHS][4];
	struct aux_path paths[N_PATHS];
	struct aux_flow *ev;
	uint32_t seed;
};

static struct program prog;
static const struct space the_space = { .id = 9, .pid = 7 };

static uint32_t roll(uint32_t n)
{
	prog.seed = prog.seed * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)prog.seed * n >> 32);
}

/* All in one, or in areas of so many bytes each. */
static int get_code(void *priv, const struct space *space, uint64_t ip,
		    struct aux_code *code)
{
	uint64_t size = *(const uint64_t *)priv, i;

	if (!space || ip < HIGH || ip >= HIGH + CODE)
		return -AUX_E_NOENT;
	*code = (struct aux_code){ .start = HIGH, .end = HIGH + CODE,
				   .bytes = prog.code };
	if (!size)
		return 0;
	i = (ip - HIGH) / size;
	if ((i + 1) * (size + APART) > 2 * SMALL)
		return -AUX_E_NOENT;
	code->start = HIGH + i * size;
	code->end = code->start + size;
	code->bytes = prog.areas + i * (size + APART);
	return 0;
}

/* What is between the areas is no instruction. */
static void make_areas(uint64_t size)
{
	memset(prog.areas, 0x06, 2 * SMALL);
	for (uint64_t i = 0; size && (i + 1) * (size + APART) <= 2 * SMALL; i++)
		memcpy(prog.areas + i * (size + APART), prog.code + i * size,
		       size);
}

static void make_code(void)
{
	static const struct {
		uint8_t len, bytes[10];
	} insns[] = {
		{ 1, { 0x90 } }, { 2, { 0x31, 0xc0 } },
		{ 3, { 0x48, 0x89, 0xe5 } }, { 4, { 0xf3, 0x0f, 0x1e, 0xfa } },
		{ 5, { 0xe8, 1, 2, 3, 4 } },
		{ 6, { 0x66, 0x0f, 0x1f, 0x44, 0, 0 } },
		{ 10, { 0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8 } },
	};
	uint32_t at = 0;

	for (uint32_t i = 0; i < N_INSNS; i++) {
		uint32_t k = roll(sizeof(insns) / sizeof(insns[0]));

		prog.off[i] = at;
		memcpy(prog.code + at, insns[k].bytes, insns[k].len);
		at += insns[k].len;
	}
	prog.off[N_INSNS] = at;
}

/* One of three is of words; one of wrong does not fit the code. */
static struct aux_flow make_range(uint32_t wrong)
{
	uint32_t n = 1 + roll(roll(8) ? 12 : 300);
	uint32_t i = roll(N_INSNS - n);
	struct aux_flow ev = range(HIGH + prog.off[i],
				   HIGH + prog.off[i + n - 1], n,
				   roll(3), roll(4));

	if (!roll(3)) {
		ev.flags |= AUX_FLOW_MODE_A64;
		ev.range.last = ev.range.first + 4 * (n - 1);
	}
	if (wrong && !roll(wrong))
		ev.n += n > 1 && roll(2) ? UINT32_MAX : 1;
	return ev;
}

static void make_paths(uint32_t wrong)
{
	for (size_t i = 0; i < N_STEPS; i++) {
		struct aux_step *s = &prog.steps[i];

		*s = (struct aux_step){ .ranges = prog.ranges[i],
					.n_ranges = 1 + roll(3) };
		for (uint32_t k = 0; k < s->n_ranges; k++) {
			prog.ranges[i][k] = make_range(wrong);
			s->n_insns += prog.ranges[i][k].n;
		}
		if (wrong && !roll(wrong))
			s->n_insns++;
	}
	for (size_t i = 0; i < N_PATHS; i++) {
		struct aux_path *p = &prog.paths[i];

		*p = (struct aux_path){ .steps = prog.of[i],
					.n_steps = 1 + roll(4),
					.kept = i < N_PATHS / 2 };
		for (uint32_t k = 0; k < p->n_steps; k++) {
			prog.of[i][k] = &prog.steps[roll(N_STEPS)];
			p->n_ranges += prog.of[i][k]->n_ranges;
			p->n_insns += prog.of[i][k]->n_insns;
		}
		if (!p->kept)	/* it has none */
			memset(p->user, 0x55, sizeof(p->user));
	}
}

/* other: one of so many is no kept PATH. */
static void make_events(uint32_t other, uint32_t wrong)
{
	static const uint8_t gaps[] = { AUX_GAP_OVERFLOW, AUX_GAP_DESYNC };

	for (size_t i = 0; i < N_EVENTS; i++) {
		struct aux_path *p = &prog.paths[roll(N_PATHS / 2)];
		uint32_t k = roll(other) ? 0 : 1 + roll(4);

		if (k == 1)
			p += N_PATHS / 2;
		prog.ev[i] = (struct aux_flow){ .kind = AUX_FLOW_PATH,
						.n = p->n_insns,
						.path = { .path = p } };
		if (k == 2)
			prog.ev[i] = make_range(wrong);
		else if (k == 3)
			prog.ev[i] = (struct aux_flow){ .kind = AUX_FLOW_TIME,
				.time = { .ns = 3, .tsc = i } };
		else if (k == 4)
			prog.ev[i] = (struct aux_flow){ .kind = AUX_FLOW_GAP,
				.what = gaps[roll(2)] };
	}
}

/* ---- what has to come out ---- */

struct model {
	struct iphash hash;
	uint64_t n_insns, n_branches, n_gaps, n_wrong;
};

static void add_range(struct model *m, const struct aux_flow *ev)
{
	uint64_t ip = ev->range.first;
	uint32_t i = 0, n = 0;
	bool words = ev->flags & AUX_FLOW_MODE_A64;

	m->n_insns += ev->n;
	while (!words && HIGH + prog.off[i] != ip)
		i++;
	while (!words && HIGH + prog.off[i + n] != ev->range.last)
		n++;
	n = words ? (uint32_t)(ev->range.last - ip) / 4 + 1 : n + 1;
	if (n != ev->n) {
		m->n_wrong++;
		m->n_gaps++;
		return;
	}
	for (uint32_t k = 0; k < n; k++)
		iphash_add(&m->hash, words ? ip + 4 * k :
					     HIGH + prog.off[i + k]);
	m->n_branches += ev->what != AUX_END_FALL;
}

static void add_event(struct model *m, const struct aux_flow *ev)
{
	const struct aux_path *p = ev->path.path;

	if (ev->kind == AUX_FLOW_GAP)
		m->n_gaps++;
	else if (ev->kind == AUX_FLOW_RANGE)
		add_range(m, ev);
	for (uint32_t i = 0; ev->kind == AUX_FLOW_PATH && i < p->n_steps; i++)
		for (uint32_t k = 0; k < p->steps[i]->n_ranges; k++)
			add_range(m, &p->steps[i]->ranges[k]);
}

/* ---- the sink ---- */

struct run {
	struct sink_host host;
	struct sink_report report;
	struct sink_env env;
	void *sink;
	uint64_t area;		/* see get_code */
	struct aux_diag diag;
};

static bool start(struct run *r)
{
	r->host = (struct sink_host){ .priv = &r->area, .code = get_code };
	r->env = (struct sink_env){ .out = outbuf_new(-1),
		.host = &r->host, .report = &r->report };
	return fake_open(&sink_count, &r->sink, &r->env,
			 &(struct fake_options){ 0 }, &r->diag) == 0;
}

/* The text ends with the line of the total. */
static void check(struct run *r, const struct model *m, const char *what)
{
	char want[160], *text, *last;

	sink_count.finish(r->sink, &r->diag);
	text = strndup(r->env.out->buf,
		       (size_t)(r->env.out->p - r->env.out->buf));
	last = strstr(text, "total ");
	snprintf(want, sizeof(want), "total insns %llu hash %016llx branches "
		 "%llu gaps %llu\n", (unsigned long long)m->hash.n,
		 (unsigned long long)m->hash.value,
		 (unsigned long long)m->n_branches,
		 (unsigned long long)m->n_gaps);
	is_str(last ? last : text, want, what);
	ok(r->report.n_insns == m->n_insns && r->report.n_lines == m->hash.n &&
	   r->report.n_mismatches == m->n_wrong, "and its report");
	sink_count.close(r->sink);
	outbuf_free(r->env.out);
	free(text);
}

static int feed(struct run *r, bool partial)
{
	struct flow_ctx ctx = { .session = NULL, .space = &the_space, .pid = 7,
				.tid = 7 };
	void *p = NULL;
	uint32_t stint = 0;
	size_t n;
	int rc = partial ? sink_count.partial_new(&p, r->sink) : 0;

	for (size_t i = 0; i < N_EVENTS && !rc; i += n) {
		n = 1 + roll(roll(2) ? 4 : 6000);
		if (n > N_EVENTS - i)
			n = N_EVENTS - i;
		ctx.tid = roll(4) ? 7 : 8;
		stint += roll(2);
		rc = partial ? sink_count.partial_flow(p, stint, &ctx,
						       &prog.ev[i], n) :
			       sink_count.flow(r->sink, &ctx, &prog.ev[i], n);
	}
	for (uint32_t i = 0; partial && i <= stint && !rc; i++)
		if (i == stint || roll(3))	/* or with the next */
			rc = sink_count.partial_join(r->sink, p, i);
	sink_count.partial_free(p);
	return rc;
}

static void check_mix(const char *what, uint32_t other, uint32_t wrong,
		      uint64_t size)
{
	struct model m = { .n_gaps = 0 };
	struct run r = { .area = size };

	make_areas(size);
	make_paths(wrong);
	make_events(other, wrong);
	for (size_t i = 0; i < N_EVENTS; i++)
		add_event(&m, &prog.ev[i]);
	ok(start(&r) && !feed(&r, false), "%s: flow", what);
	check(&r, &m, what);
	/* what was learnt of the paths holds */
	r = (struct run){ .area = size };
	ok(start(&r) && !feed(&r, true), "%s: partial_flow", what);
	check(&r, &m, what);
}

/* Paths of so many steps of so many words: not all sums of many fit. */
static void check_long(const char *what, uint32_t n_steps, uint32_t n)
{
	struct aux_flow word = range(HIGH, HIGH + 4 * (uint64_t)(n - 1), n,
				     AUX_END_JUMP, 4);
	struct flow_ctx ctx = { .space = &the_space, .pid = 7, .tid = 7 };
	struct model one = { .n_gaps = 0 }, m = { .n_gaps = 0 };
	struct aux_path *p = &prog.paths[0];
	struct run r = { .area = 0 };
	struct iphash_block block;

	word.flags |= AUX_FLOW_MODE_A64;
	make_paths(0);
	prog.ranges[0][0] = word;
	prog.steps[0].n_ranges = 1;
	prog.steps[0].n_insns = n;
	p->n_steps = p->n_ranges = n_steps;
	p->n_insns = n_steps * n;
	for (uint32_t i = 0; i < n_steps; i++) {
		prog.of[0][i] = &prog.steps[0];
		add_range(&one, &word);
	}
	block = (struct iphash_block){ .value = one.hash.value,
		.power = iphash_power(one.hash.n), .n = one.hash.n };
	for (size_t i = 0; i < N_EVENTS; i++) {
		prog.ev[i] = (struct aux_flow){ .kind = AUX_FLOW_PATH,
			.n = p->n_insns, .path = { .path = p } };
		iphash_append_block(&m.hash, &block);
	}
	m.n_insns = m.hash.n;
	m.n_branches = N_EVENTS * (uint64_t)n_steps;
	ok(start(&r) && m.hash.n >> 32 &&
	   !sink_count.flow(r.sink, &ctx, prog.ev, N_EVENTS), "flow");
	check(&r, &m, what);
}

/* Nothing is read behind the code: zeros, of which two are an instruction. */
static void check_end(void)
{
	struct flow_ctx ctx = { .space = &the_space, .pid = 7, .tid = 7 };
	uint64_t first = HIGH + CODE - 40;
	struct model m = { .n_branches = 1 };
	struct run r = { .area = 0 };
	struct aux_flow ev = { .kind = AUX_FLOW_PATH, .n = 20,
			       .path = { .path = &prog.paths[0] } };

	make_paths(0);
	prog.ranges[0][0] = range(first, first + 38, 20, AUX_END_JUMP, 2);
	prog.steps[0].n_ranges = prog.paths[0].n_steps = 1;
	prog.steps[0].n_insns = prog.paths[0].n_insns = 20;
	prog.of[0][0] = &prog.steps[0];
	for (uint32_t i = 0; i < 20; i++)
		iphash_add(&m.hash, first + 2 * i);
	m.n_insns = 20;
	ok(start(&r) && !sink_count.flow(r.sink, &ctx, &ev, 1), "flow");
	check(&r, &m, "the end of the code");
}

/* Three iphash_extend fit, whatever the numbers are. */
static void check_hash(void)
{
	uint64_t most = (UINT64_C(1) << 61) + 7, power = IPHASH_P - 1;
	uint64_t value = most, want = iphash_reduce(most);

	for (int i = 0; i < 3; i++) {
		value = iphash_extend(value, power << 3, IPHASH_P);
		want = iphash_reduce((unsigned __int128)want * power);
	}
	ok(iphash_fold(value) <= most &&
	   iphash_reduce(iphash_fold(value)) == want, "three in a row");
}

int main(void)
{
	prog.code = calloc(1, CODE);
	prog.areas = malloc(2 * SMALL);
	prog.ev = calloc(N_EVENTS, sizeof(*prog.ev));
	if (!ok(prog.code && prog.areas && prog.ev, "memory"))
		return plan_done();
	make_code();
	ok(prog.off[N_INSNS] + 4 * 300 < SMALL, "the program is small");
	check_mix("kept paths", UINT32_MAX, 0, 0);
	check_mix("mostly kept paths", 20, 0, 0);
	check_mix("code in areas", 20, 0, 777);
	check_mix("code in small areas", 20, 0, 61);
	check_mix("all kinds", 2, 0, 0);
	check_mix("ranges that do not fit", 3, 30, 0);
	check_mix("many that do not fit", 3, 5, 0);
	check_end();
	check_long("the longest path that is learnt", 1, (1u << 20) - 1);
	check_long("a path of long steps", 4, CODE / 16);
	check_long("a step that is too long", 1, CODE / 4);
	check_hash();
	free(prog.code);
	free(prog.areas);
	free(prog.ev);
	return plan_done();
}
