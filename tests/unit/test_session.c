/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * session: recorded hardware traces against their references, and files made by
 * hand: a thread that moves between CPUs, holes, cuts, filters.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/x86_insn.h"

#include "tests/unit/mkperf.h"
#include "tests/unit/mkpt.h"
#include "decode/lib/session/session.h"
#include "common/sha256.h"
#include "tests/unit/nofinish.h"
#include "tests/unit/tap.h"

/* A sink that expands ranges by the project's own length decoder. */
struct seq {
	struct session *s;
	struct sha256 sha;
	uint64_t n, first[64];
	uint32_t tids[64];
	bool wrong;
};

static void add_range(struct seq *q, const struct flow_ctx *ctx,
		      const struct aux_flow *e)
{
	uint64_t ip = e->range.first;

	for (uint32_t i = 0; i < e->n; i++) {
		struct aux_code c;
		struct x86_insn insn;

		sha256_update(&q->sha, &ip, 8);
		if (q->n < 64) {
			q->first[q->n] = ip;
			q->tids[q->n] = ctx->tid;
		}
		q->n++;
		if (i + 1 == e->n) {
			q->wrong |= ip != e->range.last;
			return;
		}
		if (codeview_code(session_codeview(q->s), ctx->space, ip, &c) ||
		    !x86_insn_decode(c.bytes + (ip - c.start), c.end - ip,
				     &insn)) {
			q->wrong = true;
			return;
		}
		ip += insn.size;
	}
}

static int seq_flow(void *sink, const struct flow_ctx *ctx,
		    const struct aux_flow *ev, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (ev[i].kind == AUX_FLOW_RANGE)
			add_range(sink, ctx, &ev[i]);
	}
	return 0;
}

static const struct sink_ops seq_ops = { .name = "seq", .flow = seq_flow,
					 .finish = no_finish };

static int decode(const struct session_config *config, struct seq *q,
		  struct session_stats *st, char hex[65])
{
	struct aux_diag diag = { 0 };
	int rc;

	*q = (struct seq){ .s = NULL };
	*st = (struct session_stats){ 0 };
	sha256_init(&q->sha);
	rc = session_open(&q->s, config, &diag);
	if (rc == 0)
		rc = session_run(q->s, &seq_ops, q, st, &diag);
	if (rc < 0)
		printf("# %s: %s\n", config->path, diag.text);
	session_close(q->s);
	sha256_final(&q->sha, hex);
	return rc;
}

static const struct session_config all = { .tid = -1, .cpu = -1,
					   .time_to = UINT64_MAX };

static void recorded(const char *dir, const char *file, const char *symfs,
		     uint64_t n, const char *sha, uint64_t gaps)
{
	char path[PATH_MAX], root[PATH_MAX], hex[65];
	struct session_config c = all;
	struct session_stats st;
	struct stat sb;
	struct seq q;
	uint64_t found = 0;

	snprintf(path, sizeof(path), "%s/wrapped/%s.perf.data", dir, file);
	snprintf(root, sizeof(root), "%s/%s", dir, symfs);
	if (stat(path, &sb) < 0) {
		skip("the recorded traces are not here (AUXKIT_CORPUS)");
		return;
	}
	c.path = path;
	c.code.symfs = root;
	ok(decode(&c, &q, &st, hex) == 0 && !q.wrong, "%s decodes", file);
	is_u64(q.n, n, "instructions");
	if (sha)
		is_str(hex, sha, "sequence of addresses");
	for (size_t i = 0; i < AUX_GAP_N_CAUSES; i++)
		found += st.n_gaps[i];
	is_u64(found, gaps, "gaps");
}

static void corpus(void)
{
	static const uint64_t multi[] = {
		0x40066f, 0x400540, 0x400546, 0x40054b, 0x400510, 0x400516,
		/* after a gap, where ptxed waits for the next PSB */
		0x7ffff7bd96e0, 0x7ffff7bd96e1, 0x7ffff7bd96e4, 0x7ffff7bd96e8,
		0x7ffff7bd95d0, 0x7ffff7bd95d6, 0x7ffff7bd95db, 0x7ffff7bd95b0,
		0x7ffff7bd95b6, 0x7ffff79d7690, 0x7ffff79d7691, 0x7ffff79d7694,
		0x7ffff79d769b, 0x7ffff79d769e, 0x7ffff79d76a3, 0x7ffff79d76a6,
	};
	const char *dir = getenv("AUXKIT_CORPUS");
	char path[PATH_MAX], hex[65];
	struct session_config c = all;
	struct session_stats st;
	struct seq q;

	if (!dir)
		dir = "../shared/corpus";
	recorded(dir, "lldb-single", ".", 21, "44041e6a314fe861dbb253704658d3cd"
		 "6d61455fb6d30827ed49e6529edb97af", 0);
	recorded(dir, "lldb-multi-file", ".", 63, NULL, 3);
	recorded(dir, "dynamorio-hello", "dynamorio/clients/drcachesim/"
		 "drpt2trace/test_simple.raw", 8, "9b26f26c892c0ac07f592199f277"
		 "46f731b256ef88abcf6acae12becb92d0643", 0);
	recorded(dir, "libxdc-foo", ".", 117967, "34428840abacfea998be81f1ad84e"
		 "40838dd2e7d53a299ca019de035df461b88", 0);
	snprintf(path, sizeof(path), "%s/wrapped/lldb-multi-file.perf.data",
		 dir);
	if (access(path, R_OK) < 0)
		return;
	c.path = path;
	c.code.symfs = dir;
	decode(&c, &q, &st, hex);
	ok(!memcmp(q.first, multi, sizeof(multi)), "the 63 of perf, in order");
}

/* One slice of user code from entry to system call. */
static void slice(struct pt *p, uint64_t tsc, uint64_t ip)
{
	pt_tsc(p, tsc);
	pt_pge(p, ip);
	pt_pgd(p);
}

static int decode_mem(struct mk *m, const struct session_config *config,
		      struct seq *q, struct session_stats *st)
{
	char path[] = "/tmp/auxkit-test-XXXXXX", hex[65];
	struct session_config c = *config;
	int fd = mkstemp(path), rc;

	if (fd < 0 || write(fd, m->p, m->n) != (ssize_t)m->n)
		return -1;
	close(fd);
	c.path = path;
	rc = decode(&c, q, st, hex);
	unlink(path);
	return rc;
}

/* Thread 10 runs on CPU 0, then 1, then 0; thread 20 the other way round. */
static void make_migration(struct mk *m)
{
	struct pt p[2] = { { .n = 0 }, { .n = 0 } };

	for (int cpu = 0; cpu < 2; cpu++) {
		pt_psb(&p[cpu], 5, 0);
		pt_mode64(&p[cpu]);
	}
	slice(&p[0], 100, 0x1000);
	slice(&p[0], 200, 0x2001);
	slice(&p[0], 300, 0x1000);
	slice(&p[1], 150, 0x2000);
	slice(&p[1], 250, 0x1001);
	slice(&p[1], 350, 0x2000);
	mk_init(m, 0x400);
	mk_pt_info(m);
	for (uint64_t t = 100; t < 400; t += 100) {
		bool odd = t == 200;

		mk_switch(m, odd ? (struct mk_id){ 20, 20, t, 0 } :
				   (struct mk_id){ 10, 10, t, 0 }, false);
		mk_switch(m, odd ? (struct mk_id){ 10, 10, t + 50, 1 } :
				   (struct mk_id){ 20, 20, t + 50, 1 }, false);
	}
	mk_auxtrace(m, 1, 1, UINT32_MAX, 0, p[1].b, p[1].n);
	mk_auxtrace(m, 0, 0, UINT32_MAX, 0, p[0].b, p[0].n);
	mk_feature(m, AUX_FEAT_AUXKIT_CODE, &mk_syscalls, sizeof(mk_syscalls));
	mk_finish(m);
}

static void migration(void)
{
	static const uint32_t who[] = { 10, 10, 10, 20, 20, 20, 20, 20,
					10, 10, 10, 10, 10, 20, 20, 20 };
	struct session_config c = all;
	struct session_stats st;
	struct seq q;
	struct mk m;

	make_migration(&m);
	ok(decode_mem(&m, &c, &q, &st) == 0 && !q.wrong, "two CPUs");
	ok(q.n == 16 && !memcmp(q.tids, who, sizeof(who)),
	   "threads in the order they ran");
	ok(q.first[6] == 0x2001 && q.first[8] == 0x1001, "each in its code");
	ok(!st.lossy && st.n_insns == 16, "nothing lost");
	c.tid = 10;
	decode_mem(&m, &c, &q, &st);
	ok(q.n == 8 && q.first[3] == 0x1001, "one thread");
	c.tid = -1;
	c.cpu = 1;
	decode_mem(&m, &c, &q, &st);
	ok(q.n == 8 && q.first[0] == 0x2000, "one CPU");
	c.cpu = -1;
	c.time_from = 200;
	c.time_to = 250;
	decode_mem(&m, &c, &q, &st);
	ok(q.n == 4 && q.first[0] == 0x2001, "a time range");
	free(m.p);
}

/* perf names the thread it launched in the streams of all CPUs. */
static void named_streams(void)
{
	struct pt p = { .n = 0 };
	struct session_config c = all;
	struct session_stats st;
	struct seq q;
	struct mk m;

	pt_psb(&p, 5, 0);
	pt_mode64(&p);
	slice(&p, 100, 0x1000);
	slice(&p, 200, 0x2000);
	mk_init(&m, 0x400);
	mk_pt_info(&m);
	mk_switch(&m, (struct mk_id){ 10, 10, 100, 0 }, false);
	mk_switch(&m, (struct mk_id){ 20, 20, 200, 0 }, false);
	mk_auxtrace(&m, 0, 0, 10, 0, p.b, p.n);
	mk_feature(&m, AUX_FEAT_AUXKIT_CODE, &mk_syscalls, sizeof(mk_syscalls));
	mk_finish(&m);
	ok(decode_mem(&m, &c, &q, &st) == 0 && !q.wrong, "a CPU's stream");
	ok(q.n == 6 && q.tids[2] == 10 && q.tids[3] == 20,
	   "that names a thread: who ran there decides");
	c.tid = 20;
	decode_mem(&m, &c, &q, &st);
	ok(q.n == 3 && q.first[0] == 0x2000, "one thread of it");
	free(m.p);
}

static void cuts(void)
{
	struct session_stats st;
	struct seq q;
	struct mk m;
	bool fine = true;
	size_t full;

	make_migration(&m);
	full = m.n;
	for (int i = 0; i < 64; i++) {
		m.n = full * (size_t)i / 64;
		if (decode_mem(&m, &all, &q, &st) == 0)
			fine &= !q.wrong && q.n <= 16 && st.lossy;
	}
	ok(fine, "cut at 64 places: an error, or told as a loss");
	free(m.p);
}

/* A hole, a truncation and a piece's padding in one stream. */
static void breaks(void)
{
	struct pt p = { .n = 0 };
	struct session_stats st;
	struct seq q;
	struct mk m;
	size_t a;

	pt_psb(&p, 5, 0);
	pt_mode64(&p);
	slice(&p, 100, 0x1000);
	a = p.n - 7;	/* in the middle of a packet */
	mk_init(&m, 0x400);
	mk_pt_info(&m);
	mk_switch(&m, (struct mk_id){ 10, 10, 1, 0 }, false);
	mk_auxtrace(&m, 0, 0, UINT32_MAX, 0, p.b, a);
	mk_auxtrace(&m, 0, 0, UINT32_MAX, a, p.b + a, p.n - a);
	mk_aux(&m, (struct mk_id){ 10, 10, 120, 0 }, 0, p.n,
	       PERF_AUX_FLAG_TRUNCATED);
	mk_auxtrace(&m, 0, 0, UINT32_MAX, p.n, p.b, p.n);
	mk_aux(&m, (struct mk_id){ 10, 10, 130, 0 }, p.n, p.n, 0);
	mk_auxtrace(&m, 0, 0, UINT32_MAX, 3 * p.n + 64, p.b, p.n);
	mk_aux(&m, (struct mk_id){ 10, 10, 140, 0 }, 3 * p.n + 64, p.n, 0);
	mk_feature(&m, AUX_FEAT_AUXKIT_CODE, &mk_syscalls, sizeof(mk_syscalls));
	mk_finish(&m);
	ok(decode_mem(&m, &all, &q, &st) == 0 && !q.wrong, "a broken stream");
	is_u64(q.n, 9, "all that is there decodes");
	is_u64(st.n_gaps[AUX_GAP_AUX_TRUNCATED], 1, "the truncation");
	is_u64(st.n_gaps[AUX_GAP_AUX_LOST], 1, "the hole");
	is_u64(st.aux_bytes, 3 * p.n, "bytes, without padding");
	ok(st.lossy, "a loss");
	free(m.p);
}

/* A sink that notes when, where and by whom each range ran. */
struct notes {
	struct note {
		uint64_t time, first;
		uint32_t tid;
		int32_t cpu;
	} v[64];
	size_t n, n_calls;
	uint64_t time;
};

static int note_flow(void *sink, const struct flow_ctx *ctx,
		     const struct aux_flow *ev, size_t n)
{
	struct notes *t = sink;

	t->n_calls++;
	t->time = ctx->time_ns;
	for (size_t i = 0; i < n; i++) {
		if (ev[i].kind == AUX_FLOW_TIME && ev[i].time.ns > t->time)
			t->time = ev[i].time.ns;
		if (ev[i].kind == AUX_FLOW_RANGE && t->n < 64)
			t->v[t->n++] = (struct note){ t->time,
						      ev[i].range.first,
						      ctx->tid, ctx->cpu };
	}
	return 0;
}

static void take_notes(const char *path, uint32_t needs, struct notes *t)
{
	const struct sink_ops ops = { .name = "notes", .flow = note_flow,
				      .finish = no_finish,
				      .needs = SINK_NEEDS_TIME | needs };
	struct session_config c = all;
	struct session_stats st = { 0 };
	struct aux_diag diag = { 0 };
	struct session *s;

	*t = (struct notes){ .n = 0 };
	c.path = path;
	if (session_open(&s, &c, &diag) < 0 ||
	    session_run(s, &ops, t, &st, &diag) < 0)
		printf("# %s\n", diag.text);
	session_close(s);
}

/* Times inside of batches: two CPUs in turn, and a change of threads. */
static void ticks(void)
{
	static const uint64_t at[2][5] = { { 100, 110, 120, 200, 215 },
					   { 105, 112, 113, 210, 220 } };
	char path[] = "/tmp/auxkit-test-XXXXXX";
	struct pt p[2] = { { .n = 0 }, { .n = 0 } };
	struct notes each, some;
	struct mk m;
	int fd;

	mk_init(&m, 0x400);
	mk_pt_info(&m);
	for (uint32_t cpu = 0; cpu < 2; cpu++) {
		uint32_t tid = cpu ? 20 : 10, next = cpu ? 10 : 20;

		pt_psb(&p[cpu], 5, 0);
		pt_mode64(&p[cpu]);
		for (int i = 0; i < 5; i++)
			slice(&p[cpu], at[cpu][i],
			      (i < 3) == !cpu ? 0x1000 : 0x2000);
		mk_switch(&m, (struct mk_id){ tid, tid, 90, cpu }, false);
		mk_switch(&m, (struct mk_id){ next, next, 150, cpu }, false);
		mk_auxtrace(&m, cpu, cpu, UINT32_MAX, 0, p[cpu].b, p[cpu].n);
	}
	mk_feature(&m, AUX_FEAT_AUXKIT_CODE, &mk_syscalls, sizeof(mk_syscalls));
	mk_finish(&m);
	fd = mkstemp(path);
	ok(fd >= 0 && write(fd, m.p, m.n) == (ssize_t)m.n, "a file");
	take_notes(path, 0, &each);
	take_notes(path, SINK_TAKES_TIMES, &some);
	ok(each.n == 10 && each.v[0].time == 100 && each.v[1].time == 105,
	   "who, where and when, one time after another");
	ok(some.n == each.n && !memcmp(some.v, each.v, each.n * sizeof(*each.v)),
	   "the same to a sink that reads times itself");
	ok(some.n_calls < each.n_calls, "in fewer calls: %zu, not %zu",
	   some.n_calls, each.n_calls);
	close(fd);
	unlink(path);
	free(m.p);
}

int main(void)
{
	corpus();
	migration();
	named_streams();
	cuts();
	breaks();
	ticks();
	return plan_done();
}
