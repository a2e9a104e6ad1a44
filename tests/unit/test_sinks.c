/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * sinks: exact text of insn, branch and count for a small flow, filters, limits,
 * gaps, and what happens when range and code disagree.
 */
#include "common/iphash.h"
#include "common/sha256.h"
#include "tests/unit/sinkrun.h"
#include "tests/unit/tap.h"
#include "decode/cmd/cmd.h"

static const struct space space = { .id = 5, .pid = 7 };

static int start(struct run *r, const char *name, const char *fields)
{
	r->config.fields = fields;
	return run_open(r, cmd_find(name)->sink);
}

static void feed(struct run *r, const struct flow_ctx *ctx,
		 const struct aux_flow *ev, size_t n)
{
	if (!r->last)
		r->last = r->ops->flow(r->sink, ctx, ev, n);
}

static void is_text(struct run *r, const char *want, const char *what)
{
	char *text = run_close(r);

	is_str(text, want, what);
	free(text);
}

static struct flow_ctx ctx_of(uint32_t tid, uint64_t time)
{
	return (struct flow_ctx){ .space = &space,
				  .stream = 0,
				  .pid = 7,
				  .tid = tid,
				  .cpu = 2,
				  .time_ns = time };
}

/* main up to the call, f, back to the branch, which is taken, ... and out */
static void feed_program(struct run *r, uint32_t tid, uint64_t time)
{
	struct flow_ctx ctx = ctx_of(tid, time);
	const struct aux_flow ev[] = {
		{ .kind = AUX_FLOW_TRACE_ON,
		  .flags = AUX_FLOW_HAS_IP,
		  .trace = { .ip = BASE } },
		range(BASE, BASE + 4, 3, AUX_END_CALL, 5),
		range(BASE + 0x10, BASE + 0x16, 3, AUX_END_RET, 1),
		range(BASE + 9, BASE + 0xb, 2, AUX_END_COND_TAKEN, 2),
		range(BASE + 4, BASE + 4, 1, AUX_END_CALL, 5),
		range(BASE + 0x10, BASE + 0x16, 3, AUX_END_RET, 1),
		range(BASE + 9, BASE + 0xb, 2, AUX_END_COND_NOT_TAKEN, 2),
		range(BASE + 0xd, BASE + 0xe, 2, AUX_END_RET, 1),
		range(BASE + 0x17, BASE + 0x17, 1, AUX_END_SYSCALL, 2),
		{ .kind = AUX_FLOW_TRACE_OFF },
	};

	feed(r, &ctx, ev, sizeof(ev) / sizeof(ev[0]));
}

#define PROGRAM_IPS(tid)                                                    \
	tid " 401000\n" tid " 401001\n" tid " 401004\n" tid " 401010\n" tid \
	    " 401014\n" tid " 401016\n" tid " 401009\n" tid " 40100b\n" tid \
	    " 401004\n" tid " 401010\n" tid " 401014\n" tid " 401016\n" tid \
	    " 401009\n" tid " 40100b\n" tid " 40100d\n" tid " 40100e\n" tid \
	    " 401017\n"

static void insn_exact(void)
{
	struct run r = { 0 };

	ok(!start(&r, "insn", "tid,ip"), "insn opens");
	feed_program(&r, 7, 1000);
	feed_program(&r, 12345, 2000);
	feed_program(&r, 8, 3000);
	feed_program(&r, (uint32_t)-1, 3000);
	is_u64(r.fake.n_symbol, 0, "no symbol is looked up unless shown");
	is_u64(r.report.n_lines, 4 * 17, "lines are counted");
	is_text(&r,
		PROGRAM_IPS("7") PROGRAM_IPS("12345") PROGRAM_IPS("8")
			PROGRAM_IPS("-1"),
		"tid,ip is exact, whatever length the tid has");
}

static void insn_aligned(void)
{
	struct run r = { 0 };
	struct flow_ctx ctx = ctx_of(7, 12345678901);
	struct aux_flow ev = range(BASE, BASE + 4, 3, AUX_END_CALL, 5);

	start(&r, "insn", NULL);
	feed(&r, &ctx, &ev, 1);
	ctx.time_ns += 1000;
	ctx.cpu = 11;
	ev = range(BASE + 0x17, BASE + 0x17, 1, AUX_END_SYSCALL, 2);
	feed(&r, &ctx, &ev, 1);
	ctx = ctx_of((uint32_t)-1, 0);
	ctx.cpu = -1;
	ev = range(BASE + 0x10, BASE + 0x10, 1, AUX_END_FALL, 4);
	feed(&r, &ctx, &ev, 1);
#ifdef HAVE_CAPSTONE
	is_text(&r,
		"#cpu       pid/tid              time          address "
		"symbol                           instruction\n"
		"   2           7/7      12.345678901           401000 "
		"main+0x0                         push rbp\n"
		"   2           7/7      12.345678901           401001 "
		"main+0x1                         mov rbp, rsp\n"
		"   2           7/7      12.345678901           401004 "
		"main+0x4                         call 0x401010 <f+0x0>\n"
		"  11           7/7      12.345679901           401017 "
		"[fake]                           syscall\n"
		"   -          7/-1                 -           401010 "
		"f+0x0                            endbr64\n",
		"standard columns, aligned");
#else
	free(run_close(&r));
	skip("built without capstone");
#endif
}

/* A thread's cgroup changes with time alone; foreign text stays in its line. */
static void insn_cgroup(void)
{
	struct run r = { 0 };
	struct flow_ctx ctx = ctx_of(7, 999);
	struct aux_flow ev = range(BASE + 0x17, BASE + 0x17, 1, 0, 2);

	start(&r, "insn", "tid,cgroup,ip");
	feed(&r, &ctx, &ev, 1);
	ctx.time_ns = 1000;
	feed(&r, &ctx, &ev, 1);
	ctx.tid = 8;
	feed(&r, &ctx, &ev, 1);
	is_text(&r, "7 /a?b 401017\n7 /c 401017\n8 - 401017\n", "cgroups");
}

static void insn_columns(void)
{
	struct run r = { 0 }, bad = { 0 };
	struct flow_ctx ctx = ctx_of(7, 5);
	struct aux_flow ev = range(BASE + 0x17, BASE + 0x17, 1, 0, 2);
	struct aux_flow ev2 = range(BASE + 1, BASE + 1, 1, 0, 3);

	start(&r, "insn", "time,cpu,pid,comm,offset,ip,bytes,sym,dso");
	feed(&r, &ctx, &ev, 1);
	ev2.offset = 0x48;
	feed(&r, &ctx, &ev2, 1);
	is_text(&r,
		"0.000000005 2 7 seven 0x40 401017 0f05 - /bin/fake\n"
		"0.000000005 2 7 seven 0x48 401001 4889e5 main+0x1 /bin/fake\n",
		"chosen columns, one space between");
	r = (struct run){ 0 };
	start(&r, "insn", "ip,tid");
	feed(&r, &ctx, &ev, 1);
	ctx.tid = 8;
	feed(&r, &ctx, &ev, 1);
	is_text(&r, "401017 7\n401017 8\n", "a context column at the end");
	ok(start(&bad, "insn", "tid,pi") == -AUX_E_INVAL &&
		   strstr(bad.diag.text, "\"pi\"") &&
		   strstr(bad.diag.text, "cpu,pid,tid,time"),
	   "an unknown column: %s", bad.diag.text);
	outbuf_free(bad.env.out);
	ok(start(&bad, "insn", "") == -AUX_E_INVAL, "no column at all");
	outbuf_free(bad.env.out);
	ok(start(&bad, "insn", "from") == -AUX_E_INVAL,
	   "a column of another sink");
	outbuf_free(bad.env.out);
}

static void insn_filters(void)
{
	struct run r = { .config = { .symbol = "f" } };

	start(&r, "insn", "tid,ip");
	feed_program(&r, 7, 1);
	is_u64(r.report.n_filtered, 11, "filtered lines are counted");
	is_u64(r.report.n_insns, 17, "all instructions are counted");
	is_text(&r,
		"7 401010\n7 401014\n7 401016\n7 401010\n7 401014\n7 401016\n",
		"--symbol");
	for (unsigned limit = 1; limit < 6; limit++) {
		static const char *const want =
			"7 401000\n7 401001\n7 401004\n7 401010\n7 401014\n";
		char *text;

		r = (struct run){ .config = { .limit = limit } };
		start(&r, "insn", "tid,ip");
		feed_program(&r, 7, 1);
		is_u64(r.last, 1, "says that it is enough");
		text = run_close(&r);
		ok(strlen(text) == 9 * limit && !strncmp(text, want, 9 * limit),
		   "-n %u", limit);
		free(text);
	}
}

static void insn_gaps(void)
{
	struct run r = { 0 };
	struct flow_ctx ctx = ctx_of(7, 5);
	const struct aux_flow ev[] = {
		{ .kind = AUX_FLOW_GAP, .what = AUX_GAP_NO_SYNC },
		range(BASE, BASE + 4, 3, AUX_END_CALL, 5),
		{ .kind = AUX_FLOW_GAP,
		  .what = AUX_GAP_OVERFLOW,
		  .offset = 0x1a20,
		  .flags = AUX_FLOW_HAS_IP,
		  .gap = { .ip = BASE + 0x17 } },
		range(BASE + 0x17, BASE + 0x17, 1, AUX_END_SYSCALL, 2),
		{ .kind = AUX_FLOW_GAP,
		  .what = AUX_GAP_NO_CODE,
		  .offset = 0x1a30,
		  .flags = AUX_FLOW_HAS_IP,
		  .gap = { .ip = 0x7f00 } },
		range(BASE, BASE + 5, 3, AUX_END_CALL, 5),
	};

	start(&r, "insn", "tid,ip");
	feed(&r, &ctx, ev, sizeof(ev) / sizeof(ev[0]));
	is_u64(r.report.n_mismatches, 1, "a range that does not fit");
	is_text(&r,
		"# gap no-sync at offset 0x0 after nothing: no sync point: "
		"these bytes cannot be decoded (stream 0, cpu 2, tid 7)\n"
		"7 401000\n7 401001\n7 401004\n"
		"# gap overflow at offset 0x1a20 after 0x401004: the CPU "
		"produced trace faster than it could store and dropped some; "
		"goes on at 0x401017 (stream 0, cpu 2, tid 7)\n"
		"7 401017\n"
		"# gap no-code at offset 0x1a30 after 0x401017: no code at "
		"0x7f00: /lib/gone.so not found (stream 0, cpu 2, tid 7)\n"
		"# gap desync at offset 0x40 after nothing: 3 instructions "
		"from 0x401000 to 0x401005 do not fit the code there and are "
		"not shown (stream 0, cpu 2, tid 7)\n",
		"gap lines; nothing of a bad range is shown");
}

static void branches(void)
{
	struct run r = { 0 };

	ok(!start(&r, "branch", "tid,kind,from,to"), "branch opens");
	feed_program(&r, 7, 1);
	is_text(&r,
		"7 on - 401000\n7 call 401004 401010\n7 ret 401016 401009\n"
		"7 cond 40100b 401004\n7 call 401004 401010\n"
		"7 ret 401016 401009\n7 ret 40100e 401017\n"
		"7 syscall 401017 -\n",
		"every branch taken, once");
	r = (struct run){ .config = { .symbol = "f", .limit = 2 } };
	start(&r, "branch", "kind,from,fromsym,fromdso,to,tosym,todso");
	feed_program(&r, 7, 1);
	is_text(&r,
		"call 401004 main+0x4 /bin/fake 401010 f+0x0 /bin/fake\n"
		"ret 401016 f+0x6 /bin/fake 401009 main+0x9 /bin/fake\n",
		"symbols, --symbol, -n");
	r = (struct run){ 0 };
	start(&r, "branch", NULL);
	feed_program(&r, 7, 1000000000);
	r.config.limit = 0;
	{
		char *text = run_close(&r);

		ok(!strncmp(text, "#cpu       pid/tid ", 19) &&
			   strstr(text,
				  "   2           7/7       1.000000000 call    "
				  "           401004 main+0x4                    "
				  "     ->           401010 f+0x0\n"),
		   "standard columns, aligned");
		free(text);
	}
}

static void branch_events(void)
{
	struct run r = { 0 };
	struct flow_ctx a = ctx_of(7, 1), b = ctx_of(9, 1);
	const struct aux_flow ev[] = {
		range(BASE + 9, BASE + 0xb, 2, AUX_END_COND, 2),
		range(BASE + 0xd, BASE + 0xe, 2, AUX_END_RET, 1),
		{ .kind = AUX_FLOW_TIME },
		{ .kind = AUX_FLOW_ASYNC,
		  .what = AUX_ASYNC_INTERRUPT,
		  .async = { .from = BASE + 0x17 } },
		{ .kind = AUX_FLOW_TRACE_OFF },
		range(BASE + 9, BASE + 0xb, 2, AUX_END_COND, 0),
		range(BASE + 4, BASE + 4, 1, AUX_END_CALL, 5),
		{ .kind = AUX_FLOW_GAP, .what = AUX_GAP_DESYNC },
		range(BASE + 9, BASE + 0xb, 2, AUX_END_COND, 0),
	};

	b.stream = 1;
	start(&r, "branch", "tid,kind,from,to");
	feed(&r, &a, ev, 2);
	feed(&r, &b, ev, 1);
	feed(&r, &a, ev + 2, 7);
	is_text(&r,
		"7 ret 40100e 401017\n7 intr 401017 -\n"
		"7 cond 40100b 401004\n7 call 401004 -\n"
		"# gap desync at offset 0x0 after 0x401004: trace and code "
		"contradict each other: the file is not the one that ran, or "
		"code changed unseen (stream 0, cpu 2, tid 7)\n"
		"7 cond 40100b -\n9 cond 40100b -\n",
		"streams apart, outcome from the target, gaps, the end");
}

static struct aux_flow event_of(unsigned source, unsigned what, uint64_t value,
				uint64_t ip)
{
	return (struct aux_flow){ .kind = AUX_FLOW_EVENT, .n = source,
				  .what = (uint8_t)what,
				  .flags = ip ? AUX_FLOW_HAS_IP : 0,
				  .payload = { .ip = ip, .value = value } };
}

/* Events of the CPU, by their names; with exact columns there are none. */
static void insn_events(void)
{
	struct run r = { 0 };
	struct flow_ctx a = ctx_of(7, 1);
	const struct aux_flow ev[] = {
		event_of(AUX_EVENT_EVD, AUX_EVD_CR2, 0x1234, 0),
		event_of(AUX_EVENT_CFE, AUX_CFE_INTR, 14, BASE + 4),
		event_of(AUX_EVENT_CFE, AUX_CFE_FRED_SYSCALL, 1, 0),
		event_of(AUX_EVENT_CFE, 11, 0, 0),
		event_of(AUX_EVENT_EVD, 9, 1, 0),
		event_of(AUX_EVENT_TRIG, 0x81, AUX_TRIG_HAS_COUNT |
			 AUX_TRIG_SEVERAL | 3, 0),
		event_of(AUX_EVENT_TRIG, 1, AUX_TRIG_HAS_COUNT, BASE),
		event_of(AUX_EVENT_IF, 0, 0, BASE + 9),
		event_of(AUX_EVENT_ETM, 0, 2, 0),
	};
	char *text;

	start(&r, "insn", NULL);
	feed(&r, &a, ev, sizeof(ev) / sizeof(ev[0]));
	text = run_close(&r);
	is_str(strstr(text, "# evd"),
	       "# evd cr2 0x1234 (tid 7)\n# cfe intr vector 14 at 0x401004 (tid 7)\n"
	       "# cfe fred_syscall vector 1 (tid 7)\n# cfe 11 vector 0 (tid 7)\n"
	       "# evd 9 0x1 (tid 7)\n"
	       "# trig 0x81, several after 3 instructions (tid 7)\n"
	       "# trig 0x1 at 0x401000 (tid 7)\n# if off at 0x401009 (tid 7)\n",
	       "events of the CPU");
	free(text);
	start(&r, "insn", "tid,ip");
	feed(&r, &a, ev, sizeof(ev) / sizeof(ev[0]));
	is_text(&r, "", "not between exact columns");
}

static uint64_t hash_of(const uint64_t *ip, size_t n)
{
	struct iphash h = { 0 };

	for (size_t i = 0; i < n; i++)
		iphash_add(&h, ip[i]);
	return h.value;
}

static const uint64_t program_ips[17] = {
	0x401000, 0x401001, 0x401004, 0x401010, 0x401014, 0x401016,
	0x401009, 0x40100b, 0x401004, 0x401010, 0x401014, 0x401016,
	0x401009, 0x40100b, 0x40100d, 0x40100e, 0x401017,
};

static void counts(void)
{
	struct run r = { .config = { .limit = 20 } };
	unsigned long long h17 = hash_of(program_ips, 17);
	unsigned long long h3 = hash_of(program_ips, 3);
	struct iphash all = { .value = h17, .n = 17 };
	char want[512];

	for (int i = 0; i < 3; i++)
		iphash_add(&all, program_ips[i]);
	ok(!start(&r, "count", NULL), "count opens");
	feed_program(&r, 4000, 1);
	feed_program(&r, 7, 1);
	is_u64(r.last, 1, "enough");
	snprintf(want, sizeof(want),
		 "thread 7 insns 3 hash %016llx branches 1 gaps 0\n"
		 "thread 4000 insns 17 hash %016llx branches 8 gaps 0\n"
		 "stream 0 insns 20 hash %016llx branches 9 gaps 0\n"
		 "total insns 20 hash %016llx branches 9 gaps 0\n",
		 h3, h17, (unsigned long long)all.value,
		 (unsigned long long)all.value);
	is_text(&r, want, "count with -n 20");
	ok(!option_find(r.ops->options, "fields"), "count takes no -F");
}

static void count_filters(void)
{
	struct run r = { .config = { .symbol = "f", .sha256 = true } };
	static const uint64_t ip[6] = { 0x401010, 0x401014, 0x401016,
					0x401010, 0x401014, 0x401016 };
	char want[512], sha[65];
	unsigned long long h = hash_of(ip, 6);
	struct sha256 s;

	sha256_init(&s);
	sha256_update(&s, ip, sizeof(ip));
	sha256_final(&s, sha);
	start(&r, "count", NULL);
	feed_program(&r, 7, 1);
	snprintf(want, sizeof(want),
		 "thread 7 insns 6 hash %016llx branches 2 gaps 0 sha256 %s\n"
		 "stream 0 insns 6 hash %016llx branches 2 gaps 0 sha256 %s\n"
		 "total insns 6 hash %016llx branches 2 gaps 0 sha256 %s\n",
		 h, sha, h, sha, h, sha);
	is_text(&r, want, "count with --symbol and --sha256");
}

static void count_threads(void)
{
	struct run r = { 0 };
	const struct aux_flow gap = { .kind = AUX_FLOW_GAP,
				      .what = AUX_GAP_OVERFLOW };
	struct flow_ctx ctx = ctx_of(3, 1);
	const char *line;
	char *text;
	unsigned n = 0;

	start(&r, "count", NULL);
	for (uint32_t i = 0; i < 6000; i++)
		feed_program(&r, 1 + i % 3000, i);
	feed(&r, &ctx, &gap, 1);
	text = run_close(&r);
	for (line = text; (line = strstr(line, "insns 34 ")); line++)
		n++;
	is_u64(n, 3000, "3000 threads, each its own");
	ok(strstr(text, "\ntotal insns 102000 ") != NULL, "and the total");
	ok(strstr(text, "\nthread 3 ") &&
		   strstr(strstr(text, "\nthread 3 "), "gaps 1\n"),
	   "the gap is its thread's");
	free(text);
}

static void hashes(void)
{
	struct iphash a = { 0 }, b = { 0 };
	struct iphash_block blk = iphash_block_init(), none = blk;
	uint64_t x = 1;

	for (int i = 0; i < 1000; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		iphash_add(&a, i & 1 ? x : UINT64_MAX - (x & 3));
		iphash_block_add(&blk, i & 1 ? x : UINT64_MAX - (x & 3));
		if (x >> 61 == 0) {
			iphash_append_block(&b, &blk);
			blk = iphash_block_init();
		}
	}
	iphash_append_block(&b, &blk);
	iphash_append_block(&b, &none);
	ok(a.value == b.value && a.n == b.n,
	   "blocks compose to the hash of the whole");
	ok(a.value < IPHASH_P, "reduced");
}

static void sha_vectors(void)
{
	struct sha256 s;
	char text[65];

	sha256_init(&s);
	sha256_final(&s, text);
	is_str(text,
	       "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852"
	       "b855",
	       "SHA-256 of nothing");
	sha256_init(&s);
	for (int i = 0; i < 1000000 / 8; i++)
		sha256_update(&s, "aaaaaaaa", 8);
	sha256_final(&s, text);
	is_str(text,
	       "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc711"
	       "2cd0",
	       "SHA-256 of a million a");
	for (int n = 54; n < 66; n += 1) {
		char whole[65], cut[65], data[80];

		memset(data, n, sizeof(data));
		sha256_init(&s);
		sha256_update(&s, data, (size_t)n);
		sha256_final(&s, whole);
		sha256_init(&s);
		for (int i = 0; i < n; i++)
			sha256_update(&s, data + i, 1);
		sha256_final(&s, cut);
		ok(!strcmp(whole, cut), "%d bytes, whole and one by one", n);
	}
}

int main(void)
{
	insn_exact();
	insn_aligned();
	insn_columns();
	insn_cgroup();
	insn_filters();
	insn_gaps();
	insn_events();
	branches();
	branch_events();
	counts();
	count_filters();
	count_threads();
	hashes();
	sha_vectors();
	for (size_t i = 0; cmd_get(i); i++)
		if (cmd_get(i)->sink)
			cmd_get(i)->sink->close(NULL);
	ok(!cmd_find("nothing"), "no such sink");
	return plan_done();
}
