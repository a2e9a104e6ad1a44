/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * session: a stream that is cut in places where nothing runs in front of what takes
 * control away.
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

/* A PSB right in front of what takes control away leaves no mark, nor takes one. */
int main(void)
{
	static const struct sink_ops ops = { .name = "kinds",
					     .flow = kinds_flow,
					     .finish = finish };
	char path[] = "/tmp/auxkit-test-XXXXXX";
	struct session_config c = { .path = path, .tid = -1, .cpu = -1,
				    .time_to = UINT64_MAX };
	struct pt p = { .n = 0 };
	struct mk m;
	int fd;

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
	mk_init(&m, 0x400);
	mk_pt_info(&m);
	mk_switch(&m, (struct mk_id){ 10, 10, 1, 0 }, false);
	mk_auxtrace(&m, 0, 0, UINT32_MAX, 0, p.b, p.n);
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
		ok(!strcmp(k.v, "+.!-+..-+.!...-"),
		   "%s, %u worker(s), cut %s: %s", i & 4 ? "libipt" : "pt",
		   c.n_workers, i & 1 ? "at PSBs" : "nowhere", k.v);
		is_u64(st.n_chunks, i & 1 ? 3 : 1, "chunks");
	}
	close(fd);
	unlink(path);
	free(m.p);
	return plan_done();
}
