/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/* decode/callstack/callstack.h: coroutines, gaps, filters, threads, over flows made by hand. */
#include "tests/unit/tap.h"
#include "tests/unit/test_callstack.h"

#define C AUX_END_CALL
#define R AUX_END_RET
#define I AUX_END_IND_JUMP
#define S AUX_END_SYSCALL
#define N AUX_END_FALL

static struct made m;

/* main switches to a coroutine that begins at to, by a function. */
static void start_coroutine(uint64_t by, uint64_t to, uint64_t at)
{
	go(&m, MAIN + at, MAIN + at + 0x10, C);
	go(&m, by, by + 0x10, R);
	go(&m, to, to + 0x10, C);
}

static void test_coroutine(uint64_t by, const char *name)
{
	char want[200];

	made_begin(&m, 0);
	start_coroutine(by, CO, 0);
	go(&m, by, by + 0x10, R);		/* back in main */
	go(&m, MAIN + 0x15, MAIN + 0x30, C);
	go(&m, by, by + 0x10, R);		/* once more in co */
	go(&m, CO + 0x15, CO + 0x30, C);
	go(&m, by, by + 0x10, R);
	go(&m, MAIN + 0x35, MAIN + 0x40, N);
	snprintf(want, sizeof(want), "+=main +%s @1 +*co +%s @0 -%s +%s @1 "
		 "-%s +%s @0 -%s -main. @1 -%s. -co.", name, name, name, name,
		 name, name, name, name);
	is_str(made_end(&m), want, name);
}

/* Two coroutines yield at one place; which goes on is told by its caller. */
static void test_one_place(void)
{
	made_begin(&m, 0);
	start_coroutine(SWAP, CO, 0);
	go(&m, YIELD, YIELD + 0x10, C);
	go(&m, SWAP, SWAP + 0x10, R);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	start_coroutine(SWAP, CO2, 0x25);
	go(&m, YIELD, YIELD + 0x10, C);
	go(&m, SWAP, SWAP + 0x10, R);
	go(&m, MAIN + 0x3a, MAIN + 0x50, C);
	go(&m, SWAP, SWAP + 0x10, R);
	go(&m, YIELD + 0x15, YIELD + 0x20, R);	/* one of the two */
	go(&m, CO2 + 0x15, CO2 + 0x20, N);	/* the second */
	is_str(made_end(&m),
	       "+=main +swapcontext @1 +*co +yield +swapcontext @0 "
	       "-swapcontext +swapcontext @2 +*co2 +yield +swapcontext @0 "
	       "-swapcontext +swapcontext @2 -swapcontext -yield -co2. @0 "
	       "-swapcontext. -main. @1 -swapcontext. -yield. -co.",
	       "two wait at one place");
}

static void test_pushed(void)
{
	made_begin(&m, 0);
	m.code[3] = 0x50; /* push %rax, right before f+0x44 */
	go(&m, MAIN, MAIN + 0x10, C);
	go(&m, F, F + 0x44, R);
	go(&m, G, G + 0x10, R);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	is_str(made_end(&m), "+=main +f -f> +=>g -g -main.",
	       "push and ret to a begin is a jump");
}

/* V8 goes on in what it has optimized meanwhile, in the midst of a loop. */
static void test_written(void)
{
	static const uint8_t mov[4] = { 0x48, 0x89, 0x04, 0x24 };	/* mov %rax, (%rsp) */

	made_begin(&m, 0);
	memcpy(m.code, mov, sizeof(mov));
	go(&m, START, START + 0x10, C);
	go(&m, MAIN, MAIN + 0x10, C);
	go(&m, G, G + 0x10, C);
	go(&m, F, F + 0x44, R);			/* f has looked for it */
	go(&m, JITTED + 0x20, JITTED + 0x30, R);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	is_str(made_end(&m), "+=_start +main +g +f -f> +=>[[anon]] -[[anon]]/ -g -main. -_start.",
	       "mov to (%rsp) and ret into the midst of code is a jump");
}

static void gap_in_g(uint64_t to)
{
	made_begin(&m, 0);
	go(&m, MAIN, MAIN + 0x10, C);
	go(&m, F, F + 0x10, C);
	go(&m, G, G + 0x10, N);
	event(&m, AUX_FLOW_GAP, 0);
	go(&m, to, to + 0x10, R);
}

static void test_gaps(void)
{
	gap_in_g(F + 0x40);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	is_str(made_end(&m), "+=main +f +g # -gl? -f -main.",
	       "behind a gap: frames down to the one that runs");
	gap_in_g(REC + 0x40);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	is_str(made_end(&m), "+=main +f +g # +=rec? -rec -gl -f -main.",
	       "one that was not there, called by what was");
	gap_in_g(REC + 0x40);
	go(&m, COLD + 0x15, COLD + 0x20, R);	/* called rec, and what did is on the stack */
	go(&m, MAIN + 0x25, MAIN + 0x30, N);
	is_str(made_end(&m), "+=main +f +g # +=rec? -rec -gl? -fl? -main.",
	       "its caller is, and so is what called that, elsewhere");
}

/* The stack has a beginning; a return to elsewhere is none to another stack. */
static void test_gap_in_program(uint64_t to, const char *want, const char *what)
{
	made_begin(&m, 0);
	go(&m, START, START + 0x10, C);
	go(&m, MAIN, MAIN + 0x10, C);
	go(&m, F, F + 0x10, C);
	go(&m, G, G + 0x10, N);
	event(&m, AUX_FLOW_GAP, 0);
	go(&m, to, to + 0x10, R);		/* not called by f */
	go(&m, REC + 0x15, REC + 0x20, R);	/* nor is this */
	go(&m, CO + 0x15, CO + 0x20, R);
	go(&m, MAIN + 0x50, MAIN + 0x60, R);
	go(&m, START + 0x15, START + 0x20, N);
	is_str(made_end(&m), want, what);
}

static void test_filter(void)
{
	made_begin(&m, 0);
	go(&m, MAIN, MAIN + 0x10, C);
	event(&m, AUX_FLOW_TRACE_OFF, NOWHERE);
	event(&m, AUX_FLOW_TRACE_ON, MAIN + 0x15);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	event(&m, AUX_FLOW_TRACE_OFF, MAIN + 0x25);
	event(&m, AUX_FLOW_TRACE_ON, MAIN + 0x60);
	go(&m, MAIN + 0x60, MAIN + 0x70, N);
	is_str(made_end(&m), "+=main +[made+0xf000] -[made+0xf000] -main.",
	       "a filter that leaves out a call, or a piece of main");
}

static void test_threads(void)
{
	made_begin(&m, 0);
	go(&m, MAIN, MAIN + 0x10, C);
	m.ctx.tid = 8;
	go(&m, CO, CO + 0x10, C);
	m.ctx.tid = 7;
	m.ctx.stream = 3;
	go(&m, F, F + 0x10, R);
	go(&m, MAIN + 0x15, MAIN + 0x20, N);
	m.ctx.tid = 8;
	go(&m, G, G + 0x10, R);
	go(&m, CO + 0x15, CO + 0x20, N);
	is_str(made_end(&m), "+=main +=co +f -f +g -g -main. -co.",
	       "threads, from CPU to CPU");
}

static bool made_off_cpu(void *priv, uint32_t tid, uint64_t from, uint64_t to,
			 struct off_span *span)
{
	struct made *made = priv;

	(void)tid;
	*span = made->away;
	return made->away.from >= from && made->away.to <= to && made->away.from;
}

/* Whatever the trace says of it first, and whether the time passes between batches or in one:
 * before anything of a thread runs it may have been off its CPU. */
static void test_begin_off_cpu(bool in_batch, bool on)
{
	char what[80];

	struct aux_flow ev[] = {
		{ .kind = AUX_FLOW_TIME, .time.ns = 1600 },
		{ .kind = AUX_FLOW_RANGE, .what = N, .flags = SIZE, .n = 2,
		  .range = { MAIN, MAIN + 0x10 } },
	};

	made_begin(&m, 0);
	m.host.off_cpu = made_off_cpu;
	m.away = (struct off_span){ .from = 1200, .to = 1500, .cpu = -1 };
	event(&m, AUX_FLOW_POWER, 0);
	if (on)
		event(&m, AUX_FLOW_TRACE_ON, MAIN);
	m.ctx.time_ns = in_batch ? 1000 : 1600;
	calls_flow(m.c, &m.ctx, in_batch ? ev : ev + 1, in_batch ? 2 : 1);
	made_end(&m);
	snprintf(what, sizeof(what), "off its CPU before it ran%s%s", on ? ", trace on" : "",
		 in_batch ? ", in one batch" : "");
	is_str(m.lane, "0:1000-1200 -:1200-1500 0:1500-1600 ", what);
}

/* A path gives what its ranges do; so does one that is not kept. */
static void test_paths(void)
{
	static const struct aux_flow r1[] = {
		{ .kind = AUX_FLOW_RANGE, .what = C, .flags = SIZE, .n = 3,
		  .range = { MAIN, MAIN + 0x10 } },
		{ .kind = AUX_FLOW_RANGE, .what = R, .flags = SIZE, .n = 4,
		  .range = { F, F + 0x10 } },
	}, r2[] = {
		{ .kind = AUX_FLOW_RANGE, .what = AUX_END_COND_TAKEN,
		  .flags = SIZE, .n = 5,
		  .range = { MAIN + 0x15, MAIN + 0x20 } },
	};
	struct aux_step s1 = { .ranges = r1, .n_ranges = 2, .n_insns = 7 };
	struct aux_step s2 = { .ranges = r2, .n_ranges = 1, .n_insns = 5 };
	struct aux_step *steps[] = { &s1, &s2 };
	struct aux_path path = { .steps = steps, .n_steps = 2, .n_ranges = 3,
				 .n_insns = 12, .kept = 1 };
	struct aux_flow ev = { .kind = AUX_FLOW_PATH, .n = 12,
			       .path = { .path = &path } };

	made_begin(&m, 0);
	for (unsigned i = 0; i < 3; i++) {
		path.kept = i < 2;
		calls_flow(m.c, &m.ctx, &ev, 1);
	}
	go(&m, MAIN + 0x80, MAIN + 0x90, N);
	is_str(made_end(&m), "+=main +f -f +f -f +f -f -main.", "paths");
	is_u64(m.own, 38, "with all their instructions");
}

/* Trace stops after that, and comes on again elsewhere. */
static void stops(uint64_t last, unsigned what)
{
	go(&m, last - 0x10, last, what);
	event(&m, AUX_FLOW_TRACE_OFF, 0);
	event(&m, AUX_FLOW_TRACE_ON, MAIN + 0x15);
}

static void test_why_off(void)
{
	made_begin(&m, 0);
	event(&m, AUX_FLOW_TRACE_OFF, 0);	/* before anything ran */
	event(&m, AUX_FLOW_TRACE_ON, MAIN);
	stops(MAIN + 0x20, S);
	go(&m, MAIN + 0x25, MAIN + 0x30, N);
	event(&m, AUX_FLOW_ASYNC, MAIN + 0x34);
	event(&m, AUX_FLOW_TRACE_OFF, MAIN + 0x34);
	event(&m, AUX_FLOW_TRACE_ON, MAIN + 0x34);
	stops(MAIN + 0x50, C);
	stops(MAIN + 0x50, N);
	stops(KFUNC + 0x20, AUX_END_FAR);
	stops(KFUNC + 0x20, N);
	stops(KFUNC + 0x20, AUX_END_CALL);
	event(&m, AUX_FLOW_GAP, 0);
	event(&m, AUX_FLOW_TRACE_OFF, 0);
	made_end(&m);
	is_str(m.why, "?kkff??f?", "why trace stopped");
}

int main(void)
{
	test_why_off();
	test_coroutine(SWAP, "swapcontext");
	test_coroutine(SWITCH, "my_switch");
	test_one_place();
	test_pushed();
	test_written();
	test_gaps();
	test_gap_in_program(G + 0x40, "+=_start +main +f +g # -g? +=rec? -rec +=co? -co -fl? "
			    "-main -_start.",
			    "a return to elsewhere of what was there at the gap");
	test_gap_in_program(CO2 + 0x40, "+=_start +main +f +g # +=co2? -co2 +=rec? -rec +=co? "
			    "-co -gl? -fl? -main -_start.",
			    "the same of what was not");
	test_filter();
	test_threads();
	for (int i = 0; i < 4; i++)
		test_begin_off_cpu(i & 1, i & 2);
	test_paths();
	return plan_done();
}
