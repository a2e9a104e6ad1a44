/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * session, CoreSight: which thread runs, whose code is used, and the order of the streams;
 * with timestamps of a known clock and without.
 */
#include "tests/unit/mkcs.h"
#include "tests/unit/tap.h"

#define CID 0x40u
#define VMID 0x8080u

static struct cs_seen s;
static struct session_stats st;
static const uint8_t code_a = 'a', code_b = 'b';

static struct mk_id id(uint32_t tid, uint32_t cpu, uint64_t time)
{
	return (struct mk_id){ tid, tid, time, cpu };
}

static void put(struct mk *m, uint32_t cpu, const struct cs_bytes *f)
{
	mk_auxtrace(m, cpu, cpu, UINT32_MAX, 0, f->b, f->n);
}

/* Processes 10 and 20 with other code at 0x1000 each. */
static void start(struct mk *m, unsigned n_cpus, uint64_t trcconfigr,
		  uint64_t ts_source)
{
	mk_init(m, 0);
	cs_info_v4(m, n_cpus, trcconfigr, ts_source);
	mk_comm(m, id(10, 0, 1), false, "ten");
	mk_comm(m, id(20, 0, 1), false, "twenty");
	mk_code(m, 10, 1, 0x1000, 1, &code_a, 1);
	mk_code(m, 20, 1, 0x1000, 2, &code_b, 1);
}

static void test_context(void)
{
	struct cs_bytes f = { .n = 0 };
	struct mk m;

	start(&m, 1, CID, 0);
	cs_frame(&f, 0x10, "C\12P\1C\24P\1P\1C\12P\1C\60P\1", 18);
	mk_aux(&m, id(10, 0, 100), 0, f.n, 0);
	put(&m, 0, &f);
	ok(cs_decode(&m, &s, &st) == 0, "context ids");
	is_str(s.text, "[0abba.ff", "the code of the thread that runs");
	ok(s.ev[0].tid == 10 && s.ev[1].pid == 20 && s.ev[3].tid == 10,
	   "which thread that is");
	ok(s.ev[4].tid == 48 && s.ev[4].pid == UINT32_MAX,
	   "a thread that the records do not know");

	f.n = 0;
	start(&m, 1, VMID, 0);
	cs_frame(&f, 0x10, "C\12V\24P\1C\12P\1V\12P\1", 14);
	mk_aux(&m, id(10, 0, 100), 0, f.n, 0);
	put(&m, 0, &f);
	ok(cs_decode(&m, &s, &st) == 0, "VMIDs that are threads");
	is_str(s.text, "[0bba", "the context id is not asked then");
}

/* A context does not outlive its record. */
static void test_reset(void)
{
	struct cs_bytes f = { .n = 0 };
	struct mk m;

	start(&m, 1, CID, 0);
	cs_frame(&f, 0x10, "C\24P\1", 4);
	cs_frame(&f, 0x10, "P\1", 2);
	mk_aux(&m, id(10, 0, 100), 0, 16, 0);
	mk_aux(&m, id(10, 0, 200), 16, 16, 0);
	put(&m, 0, &f);
	cs_decode(&m, &s, &st);
	is_str(s.text, "[0b[0a", "then it is the thread of the AUX record");
	is_u64(s.ev[1].tid, 10, "that one");
}

static void map(struct mk *m, uint64_t time, char c, uint64_t blob)
{
	mk_code(m, 10, time, 0x1000, blob, &c, 1);
}

/* Without times in the trace the record's own time counts. */
static void test_history(void)
{
	struct cs_bytes f = { .n = 0 };
	struct mk m;

	start(&m, 1, 0, 0);
	cs_frame(&f, 0x10, "P\1", 2);
	cs_frame(&f, 0x10, "T\7P\1", 4);
	cs_frame(&f, 0x10, "P\1T\1", 4);
	mk_aux(&m, id(10, 0, 100), 0, 16, 0);
	map(&m, 150, 'x', 3);
	mk_aux(&m, id(10, 0, 200), 16, 16, 0);
	map(&m, 250, 'y', 4);
	mk_aux(&m, id(10, 0, 300), 32, 16, 0);
	put(&m, 0, &f);
	ok(cs_decode(&m, &s, &st) == 0, "code that is replaced");
	is_str(s.text, "[0a[0x[0y", "each record sees what was there then");
	is_u64(s.ev[1].time_ns, 0, "and no time is made up");
}

/* Two CPUs, a thread on each, and the order of their records. */
static void test_order(void)
{
	struct cs_bytes a = { .n = 0 }, b = { .n = 0 };
	struct mk m;

	start(&m, 2, 0, 0);
	cs_frame(&a, 0x10, "12", 2);
	cs_frame(&a, 0x10, "56", 2);
	cs_frame(&b, 0x11, "34", 2);
	cs_frame(&b, 0x11, "78", 2);
	mk_aux(&m, id(10, 0, 100), 0, 16, 0);
	mk_aux(&m, id(10, 0, 300), 16, 16, 0);
	mk_aux(&m, id(20, 1, 200), 0, 16, 0);
	mk_aux(&m, id(20, 1, 400), 16, 16, 0);
	put(&m, 0, &a);
	put(&m, 1, &b);
	cs_decode(&m, &s, &st);
	is_str(s.text, "[012[134[056[178", "records by their time");
	is_u64(s.ev[2].tid, 20, "the other CPU's thread");

	/* one buffer of both, and timestamps of no clock */
	a.n = 0;
	cs_frame(&a, 0x10, "T\1" "1T\3" "3T\5" "5", 9);
	cs_frame(&a, 0x11, "T\2" "2T\4" "4T\6" "6", 9);
	start(&m, 2, 0, 0);
	mk_aux(&m, id(10, 0, 100), 0, a.n, 0);
	put(&m, 0, &a);
	cs_decode(&m, &s, &st);
	is_str(s.text, "[0[1123456", "inside of a record by timestamp");
	ok(s.ev[0].tid == 10 && s.ev[1].tid == UINT32_MAX,
	   "the record's thread is its own CPU's");
}

/* A thread's file that has no times: it moves between CPUs. */
static void test_thread(void)
{
	struct perf_event_attr attr = mk_attr(MK_PMU, 0);
	struct cs_bytes f = { .n = 0 };
	struct mk_id none = { 10, 10, 0, 0 };
	struct mk m;

	attr.sample_type &= ~(uint64_t)PERF_SAMPLE_TIME;
	mk_init_attrs(&m, &attr, 1);
	cs_info_v4(&m, 2, 0, 0);
	mk_code(&m, 10, 0, 0x1000, 1, &code_a, 1);
	cs_frame(&f, 0x11, "P\1" "1", 3);
	cs_frame(&f, 0x10, "2", 1);
	cs_frame(&f, 0x11, "3", 1);
	cs_frame(&f, 0x10, "4", 1);
	/* the trailer without a time: 8 bytes less */
	for (unsigned i = 0; i < 4; i++) {
		size_t at = mk_begin(&m, PERF_RECORD_AUX, 0);

		mk_u64(&m, 16 * i);
		mk_u64(&m, 16);
		mk_u64(&m, 0);
		mk_u32(&m, none.pid);
		mk_u32(&m, none.tid);
		mk_u32(&m, i % 2 ? 0 : 1);
		mk_u32(&m, 0);
		mk_u64(&m, 1);
		mk_end(&m, at, NULL);
	}
	mk_auxtrace(&m, 0, UINT32_MAX, 10, 0, f.b, f.n);
	ok(cs_decode(&m, &s, &st) == 0 && !st.lossy, "a thread without times");
	is_str(s.text, "[1a1[02[13[04", "in the order of the AUX records");
	ok(s.ev[0].tid == 10 && s.ev[2].tid == 10, "one thread");
}

/* Timestamps of the clock, and switches between two threads. */
static void test_clock(void)
{
	struct cs_bytes f = { .n = 0 }, g = { .n = 0 };
	struct mk m;

	start(&m, 2, 0, AUX_CS_TS_VIRTUAL);
	cs_clock(&m);
	mk_switch(&m, id(10, 0, 50), false);
	mk_switch(&m, id(10, 0, 250), true);
	mk_switch(&m, id(20, 0, 250), false);
	cs_frame(&f, 0x10, "P\1T\1P\1T\2P\1T\3P\1T\5P\1", 18);
	cs_frame(&g, 0x11, "T\4" "!", 3);
	mk_aux(&m, id(10, 0, 600), 0, f.n, 0);
	mk_aux(&m, id(20, 1, 600), 0, g.n, 0);
	put(&m, 0, &f);
	put(&m, 1, &g);
	ok(cs_decode(&m, &s, &st) == 0, "timestamps of the clock");
	is_str(s.text, "[0baab[1!b", "the thread of each moment runs, and "
	       "before the first the one of the record's time");
	ok(s.ev[1].tid == 10 && s.ev[1].time_ns == 100 &&
	   s.ev[3].tid == 20 && s.ev[3].time_ns == 300, "and when");
}

/* A TIME comes behind the first events that it is of. */
static void test_late_time(void)
{
	struct cs_bytes a = { .n = 0 }, b = { .n = 0 };
	char x = 'x';
	struct mk m;

	start(&m, 2, CID, AUX_CS_TS_VIRTUAL);
	cs_clock(&m);
	cs_frame(&a, 0x10, "C\12T\1" "1T\3" "3", 8);
	cs_frame(&b, 0x11, "C\24T\2" "bC\12" "4T\4" "5", 11);
	mk_aux(&m, id(10, 0, 600), 0, a.n, 0);
	mk_aux(&m, id(20, 1, 600), 0, b.n, 0);
	put(&m, 0, &a);
	put(&m, 1, &b);
	ok(cs_decode(&m, &s, &st) == 0, "a thread that moves to another CPU");
	is_str(s.text, "[01[1b345", "does not go on before it ended there");
	ok(s.ev[3].tid == 10 && s.ev[3].cpu == 1 && s.ev[4].time_ns == 400,
	   "where and when");

	/* a process that begins behind the last TIME, by its mappings */
	start(&m, 1, CID, AUX_CS_TS_VIRTUAL);
	cs_clock(&m);
	mk_code(&m, 30, 500, 0x1000, 3, &x, 1);
	a.n = 0;
	cs_frame(&a, 0x10, "C\12T\1P\1C\36P\1T\6P\1", 14);
	mk_aux(&m, id(10, 0, 700), 0, a.n, 0);
	put(&m, 0, &a);
	ok(cs_decode(&m, &s, &st) == 0, "a new process");
	is_str(s.text, "[0axx", "its code is there before a TIME is");

	/* code that is replaced while the thread is away, by its switch */
	start(&m, 1, CID, AUX_CS_TS_VIRTUAL);
	cs_clock(&m);
	mk_switch(&m, id(10, 0, 50), false);
	mk_switch(&m, id(20, 0, 150), false);
	map(&m, 250, 'y', 4);
	mk_switch(&m, id(10, 0, 300), false);
	a.n = 0;
	cs_frame(&a, 0x10, "C\12T\1P\1C\24T\2P\1C\12P\1", 16);
	mk_aux(&m, id(10, 0, 700), 0, a.n, 0);
	put(&m, 0, &a);
	ok(cs_decode(&m, &s, &st) == 0, "code that is replaced meanwhile");
	is_str(s.text, "[0aby", "the thread comes back behind its switch");
}

/* A switch that is not the one, as a TIME tells; and no TIME that could. */
static void test_guess(void)
{
	struct cs_bytes f = { .n = 0 };
	struct mk m;

	start(&m, 1, CID, AUX_CS_TS_VIRTUAL);
	cs_clock(&m);
	mk_switch(&m, id(20, 0, 50), false);
	cs_frame(&f, 0x10, "C\24T\2P\1", 6);
	cs_frame(&f, 0x10, "C\12P\1T\3P\1", 8);
	mk_aux(&m, id(20, 0, 500), 0, 16, 0);
	map(&m, 650, 'y', 4);
	mk_switch(&m, id(10, 0, 700), false);
	mk_aux(&m, id(10, 0, 900), 16, 16, 0);
	put(&m, 0, &f);
	ok(cs_decode(&m, &s, &st) == 0, "a switch in the records");
	is_str(s.text, "[0b[0ya", "counts until there is a time");

	f.n = 0;
	start(&m, 1, CID | CS_UNTIMED, AUX_CS_TS_VIRTUAL);
	cs_clock(&m);
	map(&m, 150, 'x', 3);
	cs_frame(&f, 0x10, "C\12P\1", 4);
	mk_aux(&m, id(10, 0, 200), 0, f.n, 0);
	put(&m, 0, &f);
	ok(cs_decode(&m, &s, &st) == 0, "a clock, but no timestamps");
	is_str(s.text, "[0x", "then the record's time counts");
}

/* An exec between two TIMEs: what the decoder walked behind it was old code. */
static void test_exec(void)
{
	struct cs_bytes f = { .n = 0 };
	char y = 'y';
	struct mk m;

	start(&m, 1, CID, AUX_CS_TS_VIRTUAL);
	cs_clock(&m);
	mk_code(&m, 10, 1, 0x2000, 5, &y, 1);
	map(&m, 250, 'y', 4);
	cs_frame(&f, 0x10, "C\12T\1R\1R\2OR\1R\2T\3R\1OR\1T\4R\1", 24);
	mk_aux(&m, id(10, 0, 700), 0, f.n, 0);
	put(&m, 0, &f);
	ok(cs_decode(&m, &s, &st) == 0 && st.lossy, "code that changed unseen");
	is_str(s.text, "[0R1R2[0!desync[0R1R1",
	       "is a gap, up to where tracing goes on");

	/* the same, but of a page that stays */
	f.n = 0;
	start(&m, 1, CID, AUX_CS_TS_VIRTUAL);
	cs_clock(&m);
	mk_code(&m, 10, 1, 0x2000, 5, &y, 1);
	map(&m, 250, 'y', 4);
	cs_frame(&f, 0x10, "C\12T\1R\1OR\2T\3R\1", 13);
	mk_aux(&m, id(10, 0, 700), 0, f.n, 0);
	put(&m, 0, &f);
	ok(cs_decode(&m, &s, &st) == 0 && !st.lossy, "other code that changed");
	is_str(s.text, "[0R1[0R2R1", "is none");
}

int main(void)
{
	test_exec();
	test_late_time();
	test_guess();
	test_context();
	test_reset();
	test_history();
	test_order();
	test_thread();
	test_clock();
	return plan_done();
}
