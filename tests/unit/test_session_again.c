/* SPDX-License-Identifier: BSD-2-Clause */
/* needs: IPT */
/* links: decode */
/*
 * session: PATHs, and chunks that a decoder gives up: the flow is always that of libipt.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/x86_insn.h"

#include "tests/unit/odddec.h"
#include "decode/lib/session/impl.h"
#include "common/sha256.h"
#include "tests/unit/nofinish.h"
#include "tests/unit/tap.h"

extern const struct aux_decoder_ops aux_decoder_libipt;

/* RANGEs one after the other, and all that is no TIME, as bytes. */
struct seq {
	struct sha256 insns;
	uint64_t n, n_paths, n_back, n_wrong;
	uint64_t offset;
	struct session *s;
};

/* Address by address, by the project's own length decoder: a RANGE that was cut
 * in two tells the same. */
static void add_insns(struct seq *q, const struct flow_ctx *ctx,
		      const struct aux_flow *ev)
{
	uint64_t v[] = { ctx->stream, ctx->pid, ctx->tid, ev->range.first };
	struct x86_insn insn;
	struct aux_code c;

	q->n += ev->n;
	for (uint32_t i = 0; i < ev->n; i++) {
		sha256_update(&q->insns, (const uint8_t *)v, sizeof(v));
		if (codeview_code(session_codeview(q->s), ctx->space, v[3],
				  &c) ||
		    !x86_insn_decode(c.bytes + (v[3] - c.start), c.end - v[3],
				     &insn))
			break;
		q->n_wrong += i + 1 == ev->n && v[3] != ev->range.last;
		v[3] += insn.size;
	}
}

static void add_event(struct seq *q, const struct flow_ctx *ctx,
		      const struct aux_flow *ev)
{
	uint64_t v[] = { ev->kind, ev->what, ev->trace.ip };

	q->n_back += ev->offset < q->offset;
	q->offset = ev->offset;
	if (ev->kind == AUX_FLOW_PATH) {
		const struct aux_path *p = ev->path.path;

		q->n_paths++;
		for (uint32_t i = 0; i < p->n_steps; i++)
			for (uint32_t k = 0; k < p->steps[i]->n_ranges; k++)
				add_insns(q, ctx, &p->steps[i]->ranges[k]);
	} else if (ev->kind == AUX_FLOW_RANGE) {
		add_insns(q, ctx, ev);
	} else if (ev->kind != AUX_FLOW_TIME) {
		sha256_update(&q->insns, (const uint8_t *)v, sizeof(v));
	}
}

static int seq_flow(void *sink, const struct flow_ctx *ctx,
		    const struct aux_flow *ev, size_t n)
{
	for (size_t i = 0; i < n; i++)
		add_event(sink, ctx, &ev[i]);
	return 0;
}

static const struct sink_ops seq_ops = { .name = "seq", .flow = seq_flow,
					 .finish = no_finish };
static const struct sink_ops path_ops = { .name = "paths",
					  .needs = SINK_TAKES_PATHS,
					  .flow = seq_flow,
					  .finish = no_finish };

static char file[PATH_MAX];
static const char *symfs;

static int decode(const struct sink_ops *sink, const char *decoder,
		  struct seq *q, struct session_stats *st, char hex[65])
{
	struct session_config c = { .path = file, .tid = -1, .cpu = -1,
				    .time_to = UINT64_MAX, .chunk_min = 1,
				    .decoder = decoder };
	struct aux_diag diag = { 0 };
	int rc;

	c.code.symfs = symfs;
	*q = (struct seq){ .n = 0 };
	sha256_init(&q->insns);
	rc = session_open(&q->s, &c, &diag);
	if (rc == 0) {
		if (odd_ways.real)
			q->s->plugin_ops = &odd_ops;
		rc = session_run(q->s, sink, q, st, &diag);
	}
	if (rc < 0)
		printf("# %s: %s\n", c.path, diag.text);
	session_close(q->s);
	sha256_final(&q->insns, hex);
	return rc;
}

static char want[65];
static uint64_t want_n;

static void paths(void)
{
	struct session_stats st;
	struct seq q;
	char hex[65];

	odd_ways = (struct odd_ways){ .real = &aux_decoder_libipt,
				      .paths = true };
	ok(decode(&path_ops, NULL, &q, &st, hex) == 0 && q.n_paths,
	   "PATHs for a sink that takes them");
	ok(!strcmp(hex, want) && q.n == want_n && st.n_insns == want_n,
	   "the same flow");
	ok(decode(&seq_ops, NULL, &q, &st, hex) == 0 && !q.n_paths &&
	   !strcmp(hex, want), "none for one that does not");
	ok(!odd_n_stores, "all stores are released");
}

/* Chunks are given up after some events. */
static void given_up(bool with_paths, bool half)
{
	bool same = true, counted = true, forward = true;
	struct session_stats st;
	uint64_t n_part = 0;
	struct seq q;
	char hex[65];

	for (uint64_t after = 0; after < 600; after += 1 + after / 3) {
		odd_ways = (struct odd_ways){ .real = &aux_decoder_libipt,
					      .paths = with_paths,
					      .give_up = 1 + after % 3,
					      .after = after, .half = half };
		odd_n_given_up = 0;
		if (decode(with_paths ? &path_ops : &seq_ops, NULL, &q, &st,
			   hex) < 0)
			break;
		same &= !strcmp(hex, want) && q.n == want_n && !q.n_wrong;
		counted &= st.n_handed_whole + st.n_handed_part ==
			   odd_n_given_up && !st.n_left;
		forward &= !q.n_back;
		n_part += st.n_handed_part;
	}
	ok(same, "given up anywhere%s%s: the same flow",
	   with_paths ? ", with PATHs" : "", half ? ", in a RANGE" : "");
	ok(counted && n_part, "they are counted");
	ok(forward, "no offset goes back");
}

/* A decoder that was asked for has no reference. */
static void forced(void)
{
	struct session_stats st;
	struct seq q;
	char hex[65];

	odd_ways = (struct odd_ways){ .real = &aux_decoder_libipt,
				      .give_up = 2, .after = 20 };
	odd_n_given_up = 0;
	ok(decode(&seq_ops, "odd", &q, &st, hex) == 0, "--decoder odd");
	ok(odd_n_given_up && st.n_left == odd_n_given_up &&
	   st.n_gaps[AUX_GAP_DECODER] == st.n_left && st.lossy &&
	   q.n < want_n, "the rest of such a chunk is a gap");
	odd_ways.after = 0;
	odd_n_given_up = 0;
	decode(&seq_ops, "odd", &q, &st, hex);
	ok(odd_n_given_up && st.n_gaps[AUX_GAP_DECODER] == odd_n_given_up,
	   "or all of it");
}

static void file_again(uint64_t at_least)
{
	struct session_stats st;
	struct seq q;
	int rc;

	odd_ways = (struct odd_ways){ .real = NULL };
	rc = decode(&seq_ops, "libipt", &q, &st, want);

	ok(rc == 0 && q.n >= at_least, "%s: %llu instructions, %llu chunks", file,
	   (unsigned long long)q.n, (unsigned long long)st.n_chunks);
	odd_ways.real = &aux_decoder_libipt;
	want_n = q.n;
	paths();
	for (int k = 0; k < 4; k++)
		given_up(k & 1, k & 2);
	forced();
}

int main(void)
{
	symfs = getenv("AUXKIT_CORPUS");
	if (!symfs)
		symfs = "../shared/corpus";
	snprintf(file, sizeof(file), "%s/wrapped/libxdc-foo.perf.data", symfs);
	if (access(file, R_OK) < 0)
		skip("corpus: the recorded traces are not here");
	else
		file_again(100000);
	symfs = "fixtures/symfs";
	snprintf(file, sizeof(file), "fixtures/hello_cyc.data");
	file_again(57);
	return plan_done();
}
