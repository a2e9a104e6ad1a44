/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * session: a stream that is cut in places where nothing runs in front of what takes
 * control away, and one that has zeros in it.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mkperf.h"
#include "mkpt.h"
#include "session.h"
#include "tap.h"

/* A sink that notes what happens, but the time. */
struct kinds {
	char v[64];
	size_t n;
};

static int kinds_flow(void *sink, const struct flow_ctx *ctx,
		      const struct aux_flow *ev, size_t n)
{
	struct kinds *k = sink;

	(void)ctx;
	for (size_t i = 0; i < n; i++) {
		const char *c = ev[i].kind == AUX_FLOW_TRACE_ON ? "+" :
				ev[i].kind == AUX_FLOW_TRACE_OFF ? "-" :
				ev[i].kind == AUX_FLOW_ASYNC ? "!" :
				ev[i].kind == AUX_FLOW_GAP ? "?" : "";

		for (uint32_t left = ev[i].n; ev[i].kind == AUX_FLOW_RANGE &&
		     left && k->n < sizeof(k->v) - 1; left--)
			k->v[k->n++] = '.';
		if (*c && k->n < sizeof(k->v) - 1)
			k->v[k->n++] = *c;
	}
	return 0;
}

static int finish(void *sink, struct aux_diag *diag)
{
	(void)sink;
	(void)diag;
	return 0;
}

/* nop; nop; syscall */
static const struct {
	struct aux_feat_code head;
	struct aux_code_entry e[1];
	uint8_t blob[8];
} code = {
	{ 1, 1, 8 }, { { 0, 0x1000, 4, 0, 10, AUX_CODE_ANON } },
	{ 0x90, 0x90, 0x0f, 0x05 },
};

static const struct sink_ops ops = { .name = "kinds", .flow = kinds_flow,
				     .finish = finish };

/* A stream of these packets, decoded in all ways. cuts: chunks if it is cut at
 * PSBs; whole: if it is not. */
static void decode(const struct pt *p, const char *want, uint64_t cuts,
		   uint64_t whole, uint64_t zeros)
{
	char path[] = "/tmp/auxkit-test-XXXXXX";
	struct session_config c = { .path = path, .tid = -1, .cpu = -1,
				    .time_to = UINT64_MAX };
	struct mk m;
	int fd;

	mk_init(&m, 0x400);
	mk_pt_info(&m);
	mk_switch(&m, (struct mk_id){ 10, 10, 1, 0 }, false);
	mk_auxtrace(&m, 0, 0, UINT32_MAX, 0, p->b, p->n);
	mk_feature(&m, AUX_FEAT_AUXKIT_CODE, &code, sizeof(code));
	mk_finish(&m);
	fd = mkstemp(path);
	ok(fd >= 0 && write(fd, m.p, m.n) == (ssize_t)m.n, "a file");
	for (unsigned i = 0; i < 8; i++) {
		struct session_stats st = { 0 };
		struct aux_diag diag = { 0 };
		struct kinds k = { .n = 0 };
		struct session *s;

		c.chunk_min = i & 1;
		c.n_workers = i & 2 ? 2 : 1;
		c.decoder = i & 4 ? "libipt" : NULL;
		if (session_open(&s, &c, &diag) < 0 ||
		    session_run(s, &ops, &k, &st, &diag) < 0)
			printf("# %s\n", diag.text);
		session_close(s);
		ok(!strcmp(k.v, want), "%s, %u worker(s), cut %s: %s",
		   i & 4 ? "libipt" : "pt", c.n_workers,
		   i & 1 ? "at PSBs" : "nowhere", k.v);
		is_u64(st.n_chunks, i & 1 ? cuts : whole, "chunks");
		is_u64(st.n_gaps[AUX_GAP_AUX_ZEROS], zeros, "gaps of zeros");
		is_u64(st.aux_decoded, st.aux_wanted, "all bytes counted");
	}
	close(fd);
	unlink(path);
	free(m.p);
}

/* A PSB right in front of what takes control away leaves no mark, nor takes one. */
static void seams(void)
{
	struct pt p = { .n = 0 };

	pt_psb(&p, 5, 0);
	pt_mode64(&p);
	pt_tsc(&p, 100);
	pt_pge(&p, 0x1000);
	pt_psb(&p, 105, 0x1000);
	pt_psb(&p, 110, 0x1001);
	pt_fup(&p, 0x1001);	/* tracing goes off, and on again */
	pt_pgd(&p);
	pt_tsc(&p, 120);
	pt_pge(&p, 0x1001);
	pt_pgd(&p);
	pt_pge(&p, 0x1000);
	pt_psb(&p, 125, 0x1000);
	pt_psb(&p, 130, 0x1001);
	pt_fup(&p, 0x1001);	/* an interrupt */
	pt_tip(&p, 0x1000);
	pt_pgd(&p);
	decode(&p, "+.!-+..-+.!...-", 3, 1, 0);
}

/* A packet that ends in no zero, so many zeros */
static void pads(struct pt *p, size_t n)
{
	pt_u8(p, 0x0b);		/* CYC */
	while (n--)
		pt_u8(p, 0);
}

/* Nothing contradicts what is behind zeros, and yet it was not all. */
static void zeros(size_t n, const char *want, uint64_t cuts, uint64_t whole,
		  uint64_t gaps)
{
	struct pt p = { .n = 0 };

	pt_psb(&p, 5, 0);
	pt_mode64(&p);
	pt_tsc(&p, 100);
	pt_pge(&p, 0x1000);
	pads(&p, n);
	pt_pgd(&p);
	pt_pge(&p, 0x1000);
	pt_psb(&p, 110, 0x1000);
	pt_psb(&p, 115, 0x1001);
	pt_pgd(&p);
	pt_psb(&p, 120, 0);
	pt_pge(&p, 0x1000);
	pads(&p, n);		/* right in front of a seam */
	pt_psb(&p, 130, 0x1000);
	pt_pgd(&p);
	pads(&p, n);		/* what the trace ends with is no loss */
	decode(&p, want, cuts, whole, gaps);
}

int main(void)
{
	seams();
	zeros(255, "+...-+...-+...-", 3, 1, 0);
	zeros(256, "+?+...-+?+...-", 4, 3, 2);
	return plan_done();
}
