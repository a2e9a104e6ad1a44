/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * session: a stream cut into chunks where no instruction runs before the next change of
 * control, or after code that needs no packet; and a stream that contains zeros.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/mkperf.h"
#include "tests/unit/mkpt.h"
#include "decode/lib/session/decoders.h"
#include "decode/lib/session/session.h"
#include "tests/unit/nofinish.h"
#include "tests/unit/tap.h"

/* A sink that notes what happens; of the time its changes, from 'a' on, if asked to. */
struct kinds {
	char v[64];
	size_t n;
	bool timed;
	uint64_t tsc;
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
				ev[i].kind == AUX_FLOW_POWER ? "%" :
				ev[i].kind == AUX_FLOW_GAP ? "?" : "";
		bool time = k->timed && ev[i].kind == AUX_FLOW_TIME &&
			    ev[i].time.tsc != k->tsc;

		if (time)
			k->tsc = ev[i].time.tsc;
		if (time && k->n < sizeof(k->v) - 1)
			k->v[k->n++] = (char)('a' + (k->tsc - 1) % 26);
		for (uint32_t left = ev[i].n; ev[i].kind == AUX_FLOW_RANGE &&
		     left && k->n < sizeof(k->v) - 1; left--)
			k->v[k->n++] = '.';
		if (*c && k->n < sizeof(k->v) - 1)
			k->v[k->n++] = *c;
	}
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

static const struct sink_ops ops = { .name = "kinds", .needs = SINK_NEEDS_TIME,
				     .flow = kinds_flow, .finish = no_finish };

/* A stream of these packets, decoded in all ways, but by libipt for the times: it is
 * behind a PSB when it walks up to it. cuts: chunks if it is cut at PSBs; whole: if it
 * is not; 0, 0: not looked at. */
static void decode(const struct pt *p, bool timed, const char *want,
		   uint64_t cuts, uint64_t whole, uint64_t zeros)
{
	char path[] = "/tmp/auxkit-test-XXXXXX";
	struct session_config c = { .path = path, .tid = -1, .cpu = -1,
				    .time_to = UINT64_MAX };
	struct mk m;
	int fd;

	mk_init(&m, 0x400);
	mk_pt_info(&m);
	mk_switch(&m, (struct mk_id){ 10, 10, 1, 0 }, false);
	mk_aux(&m, (struct mk_id){ 10, 10, 1, 0 }, 0, p->n, 0);
	mk_auxtrace(&m, 0, 0, UINT32_MAX, 0, p->b, p->n);
	mk_feature(&m, AUX_FEAT_AUXKIT_CODE, &code, sizeof(code));
	mk_finish(&m);
	fd = mkstemp(path);
	ok(fd >= 0 && write(fd, m.p, m.n) == (ssize_t)m.n, "a file");
	for (unsigned i = 0; i < (timed || !decoders_find("libipt", 0, NULL) ? 4 : 8);
	     i++) {
		struct session_stats st = { 0 };
		struct aux_diag diag = { 0 };
		struct kinds k = { .timed = timed };
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
		if (cuts)
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
	decode(&p, false, "+.!-+..-+.!...-", 3, 1, 0);
}

/* PSB+ with a CBR, in front of the MODE or behind it */
static void psb_cbr(struct pt *p, uint64_t tsc, uint64_t ip, bool first)
{
	for (int i = 0; i < 8; i++)
		pt_bytes(p, "\x02\x82", 2);
	pt_tsc(p, tsc);
	for (int i = 0; i < 2; i++)
		if ((i == 0) == first)
			pt_bytes(p, "\x02\x03\x0a\x00", 4);
		else
			pt_mode64(p);
	pt_fup(p, ip);
	pt_bytes(p, "\x02\x23", 2);
}

/* What a PSB+ tells happens at its IP, behind what ran up to there. */
static void headers(void)
{
	struct pt p = { .n = 0 };

	pt_psb(&p, 1, 0);
	pt_mode64(&p);
	pt_pge(&p, 0x1000);
	pt_tsc(&p, 3);
	psb_cbr(&p, 5, 0x1001, false);
	pt_tsc(&p, 7);
	psb_cbr(&p, 9, 0x1002, true);
	pt_pgd(&p);
	pt_pge(&p, 0x1000);
	pt_ovf(&p);
	pt_fup(&p, 0x1000);
	pt_tsc(&p, 10);
	psb_cbr(&p, 11, 0x1002, true);
	pt_pgd(&p);
	decode(&p, false, "+.%.%.-+?..%.-", 2, 1, 0);
	decode(&p, true, "a+c.e%g.i%.-+?j..k%.-", 2, 1, 0);
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
	decode(&p, false, want, cuts, whole, gaps);
}

/* The buffer ends at any byte of a PSB+ while tracing is off, or of a packet: a cut, and
 * nothing else is wrong. */
static void cuts(void)
{
	struct pt p = { .n = 0 };
	size_t psb, end;

	pt_psb(&p, 5, 0);
	pt_mode64(&p);
	pt_tsc(&p, 100);
	pt_pge(&p, 0x1000);
	pt_pgd(&p);
	psb = p.n;
	pt_psb(&p, 125, 0);
	pt_bytes(&p, "\x02\x03\x0a\0", 4);	/* CBR */
	end = p.n;
	p.n = psb;
	decode(&p, false, "+...-", 0, 0, 0);
	for (p.n++; p.n < end; p.n++)
		decode(&p, false, p.n == end - 4 ? "+...-" : "+...-?", 0, 0, 0);
	decode(&p, false, "+...-%", 0, 0, 0);
}

int main(void)
{
	cuts();
	seams();
	headers();
	zeros(255, "+...-+...-+...-", 3, 1, 0);
	zeros(256, "+?+...-+?+...-", 4, 3, 2);
	return plan_done();
}
