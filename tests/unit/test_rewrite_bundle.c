/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * A bundle of a recording in which two files are mapped at one address: by exec, in a child
 * that inherits code which its parent never runs, and in another child that gets the first
 * one's pid. The files differ in the number of instructions before the jump.
 */
#include <stdlib.h>
#include <unistd.h>

#include "decode/edit/edit.h"
#include "tests/unit/mkperf.h"
#include "tests/unit/mkpt.h"
#include "tests/unit/tap.h"

#define BASE 0x400000
#define PAGE 4096
#define MAX_RUNS 8

static char dir[] = "/tmp/auxkit-bundle-XXXXXX";
static char path_a[64], path_b[64], path_rec[64], path_out[64];

/* n instructions, the last of them an indirect jump. */
static void put_file(const char *path, size_t n)
{
	uint8_t page[PAGE];
	FILE *f = fopen(path, "w");

	memset(page, 0x90, sizeof(page));
	memcpy(page + n - 1, "\xff\xe0", 2);
	if (!f || fwrite(page, 1, sizeof(page), f) != sizeof(page) || fclose(f))
		ok(0, "writing %s", path);
}

static void put_run(struct pt *p, uint64_t time)
{
	pt_tsc(p, time);
	pt_pge(p, BASE);
	pt_pgd(p);
}

static void put_map(struct mk *m, uint32_t pid, uint64_t time, const char *path)
{
	mk_mmap(m, (struct mk_id){ pid, pid, time, 0 }, BASE, PAGE, 0, path);
}

static void put_exec(struct mk *m, uint32_t pid, uint64_t time, const char *path)
{
	mk_comm(m, (struct mk_id){ pid, pid, time, 0 }, true, "program");
	put_map(m, pid, time, path);
}

static void put_switch(struct mk *m, uint32_t pid, uint64_t time)
{
	mk_switch(m, (struct mk_id){ pid, pid, time, 0 }, false);
}

static void put_exit(struct mk *m, uint32_t pid, uint64_t time)
{
	size_t at = mk_begin(m, PERF_RECORD_EXIT, 0);

	mk_u32(m, pid);
	mk_u32(m, 10);
	mk_u32(m, pid);
	mk_u32(m, 10);
	mk_u64(m, time);
	mk_end(m, at, &(struct mk_id){ pid, pid, time, 0 });
}

/* 10 runs a, and has b by exec; 20 inherits and runs b, ends; so does a new 20,
 * which then has a by exec; at last 10 maps a over b. */
static void put_recording(void)
{
	static const uint64_t times[] = { 1500, 3500, 4150, 4500, 5500 };
	struct pt p = { .n = 0 };
	struct mk m;
	FILE *f;

	pt_psb(&p, 5, 0);
	pt_mode64(&p);
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		put_run(&p, times[i]);
	mk_init(&m, 0x400);
	mk_pt_info(&m);
	put_exec(&m, 10, 1000, path_a);
	put_switch(&m, 10, 1001);
	put_exec(&m, 10, 2000, path_b);
	mk_fork(&m, (struct mk_id){ 20, 20, 3000, 0 }, 10, 10);
	put_switch(&m, 20, 3100);
	put_exit(&m, 20, 4000);
	mk_fork(&m, (struct mk_id){ 20, 20, 4100, 0 }, 10, 10);
	put_switch(&m, 20, 4110);
	put_exec(&m, 20, 4200, path_a);
	put_map(&m, 10, 5000, path_a);
	put_switch(&m, 10, 5001);
	mk_aux(&m, (struct mk_id){ 10, 10, 6000, 0 }, 0, p.n, 0);
	mk_auxtrace(&m, 0, 0, UINT32_MAX, 0, p.b, p.n);
	mk_finish(&m);
	f = fopen(path_rec, "w");
	if (!f || fwrite(m.p, 1, m.n, f) != m.n || fclose(f))
		ok(0, "writing the recording");
	free(m.p);
}

/* Who ran how many instructions, one after the other. */
struct runs {
	struct bundle *b;
	uint32_t pid[MAX_RUNS], n[MAX_RUNS];
	size_t len;
	unsigned gaps;
};

static int take_flow(void *priv, const struct flow_ctx *ctx,
		     const struct aux_flow *ev, size_t n)
{
	struct runs *r = priv;

	for (size_t i = 0; i < n; i++) {
		r->gaps += ev[i].kind == AUX_FLOW_GAP;
		if (ev[i].kind == AUX_FLOW_TRACE_ON && r->len < MAX_RUNS)
			r->pid[r->len++] = ctx->pid;
		else if (ev[i].kind == AUX_FLOW_RANGE && r->len)
			r->n[r->len - 1] += ev[i].n;
	}
	return r->b ? bundle_flow(r->b, ctx, ev, n) : 0;
}

static int finish_flow(void *priv, struct aux_diag *diag)
{
	(void)priv, (void)diag;
	return 0;
}

static bool decode(struct session *s, struct runs *r)
{
	const struct sink_ops sink = { .flow = take_flow,
				       .finish = finish_flow };
	struct session_stats stats;
	struct aux_diag diag = { 0 };

	return ok(session_run(s, &sink, r, &stats, &diag) == 0, "decoded%s",
		  diag.text);
}

static struct session *open_session(const char *path)
{
	const struct session_config config = { .path = path, .tid = -1,
					       .cpu = -1,
					       .time_to = UINT64_MAX };
	struct aux_diag diag = { 0 };
	struct session *s;

	if (session_open(&s, &config, &diag) < 0)
		ok(0, "opening %s: %s", path, diag.text);
	return s;
}

static void make_bundle(struct runs *r)
{
	const struct rewrite_filter f = { .source = "bundle=1\n" };
	struct session *s = open_session(path_rec);
	struct bundle_stats stats = { 0 };
	struct aux_diag diag = { 0 };
	struct rewrite *w;

	if (!s)
		return;
	r->b = bundle_new(s);
	decode(s, r);
	ok(rewrite_open(&w, path_out, path_rec, false, &diag) == 0, "begun");
	rewrite_attrs_of(w, session_reader(s));
	rewrite_copy(w, session_reader(s), &f);
	ok(bundle_write(r->b, w, &stats) == 0 && rewrite_close(w, &diag) == 0,
	   "written%s", diag.text);
	is_u64(stats.n_bytes, 2 * PAGE, "each page is there once");
	bundle_free(r->b);
	r->b = NULL;
	session_close(s);
}

static void check_runs(const struct runs *r, const char *what)
{
	static const uint32_t pid[] = { 10, 20, 20, 20, 10 };
	static const uint32_t n[] = { 3, 7, 7, 3, 3 };
	bool same = r->len == 5 && !r->gaps;

	for (size_t i = 0; i < r->len; i++)
		printf("# %u: %u instructions\n", r->pid[i], r->n[i]);
	for (size_t i = 0; i < 5 && same; i++)
		same = r->pid[i] == pid[i] && r->n[i] == n[i];
	ok(same, "%s", what);
}

int main(void)
{
	struct runs before = { 0 }, after = { 0 };
	struct session *s;

#ifndef HAVE_IPT
	skip("no libipt in this build");
	return plan_done();
#endif
	if (!mkdtemp(dir))
		return 1;
	snprintf(path_a, sizeof(path_a), "%s/a", dir);
	snprintf(path_b, sizeof(path_b), "%s/b", dir);
	snprintf(path_rec, sizeof(path_rec), "%s/rec.data", dir);
	snprintf(path_out, sizeof(path_out), "%s/out.data", dir);
	put_file(path_a, 3);
	put_file(path_b, 7);
	put_recording();
	make_bundle(&before);
	check_runs(&before, "the history, with its files");
	put_file(path_a, 20);	/* others in their places */
	unlink(path_b);
	s = open_session(path_out);
	if (s)
		decode(s, &after);
	session_close(s);
	check_runs(&after, "the history, from the bundle");
	unlink(path_a);
	unlink(path_rec);
	unlink(path_out);
	rmdir(dir);
	return plan_done();
}
