/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * session_seek: decoding a part gives the same flow as decoding everything, and reads little
 * of the rest. Streams made by hand: holes, several CPUs, times that go back, no times.
 */
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/mkperf.h"
#include "tests/unit/mkpt.h"
#include "decode/lib/session/session.h"
#include "common/sha256.h"
#include "tests/unit/tap.h"

#define PSBS 400	/* of each stream */
#define STEP 10000	/* ns from one to the next */
#define END  ((uint64_t)PSBS * STEP)

struct seen {
	struct sha256 sha;
	uint64_t n_insns, first_ns, last_ns;
	char hex[65];
};

static int seen_flow(void *sink, const struct flow_ctx *ctx,
		     const struct aux_flow *ev, size_t n)
{
	struct seen *q = sink;

	for (size_t i = 0; i < n; i++) {
		bool range = ev[i].kind == AUX_FLOW_RANGE;
		uint64_t v[] = { ctx->stream, ctx->cpu, ctx->tid, ctx->time_ns,
				 ev[i].kind, ev[i].what, ev[i].offset,
				 range ? ev[i].range.first : 0 };

		sha256_update(&q->sha, (const uint8_t *)v, sizeof(v));
		if (!range)
			continue;
		if (!q->n_insns)
			q->first_ns = ctx->time_ns;
		q->n_insns += ev[i].n;
		q->last_ns = ctx->time_ns;
	}
	return 0;
}

static int seen_finish(void *sink, struct aux_diag *diag)
{
	struct seen *q = sink;

	(void)diag;
	sha256_final(&q->sha, q->hex);
	return 0;
}

static const struct sink_ops seen_ops = { .name = "seen",
					  .needs = SINK_NEEDS_TIME,
					  .flow = seen_flow,
					  .finish = seen_finish };

static char path[] = "/tmp/auxkit-test-XXXXXX";

static int decode(const struct session_config *config, struct seen *q,
		  struct session_stats *st)
{
	struct session_config c = *config;
	struct aux_diag diag = { 0 };
	struct session *s;
	int rc;

	*q = (struct seen){ .n_insns = 0 };
	*st = (struct session_stats){ 0 };
	sha256_init(&q->sha);
	c.path = path;
	rc = session_open(&s, &c, &diag);
	if (rc == 0)
		rc = session_run(s, &seen_ops, q, st, &diag);
	session_close(s);
	return rc;
}

static const struct session_config all = { .tid = -1, .cpu = -1,
					   .time_to = UINT64_MAX,
					   .chunk_min = 500 };

struct way {
	const char *name;
	int holes;		/* so many in a stream */
	bool snapshots;		/* one behind each hole */
	bool back;		/* the second half is as the first */
	bool seamless;		/* no PSB+ tells an IP: no place to cut */
	bool timeless;		/* nor a time */
};

/* One slice of user code a PSB, and the next one inside of code. */
static void put_slice(struct pt *p, const struct way *w, int i, uint64_t tsc)
{
	uint64_t at = i & 1 ? 0x2000 : 0x1000;

	p->n = 0;
	pt_psb(p, w->timeless ? 0 : tsc, 0);
	if (!w->timeless)
		pt_tsc(p, tsc + 1000);
	pt_mode64(p);
	pt_pge(p, at);
	if (!w->seamless) {
		pt_psb(p, w->timeless ? 0 : tsc + 2000, at);
		if (!w->timeless)
			pt_tsc(p, tsc + 3000);
	}
	pt_pgd(p);
}

static void put_piece(struct mk *m, const struct way *w, uint32_t cpu, int i,
		      uint64_t *offset)
{
	uint64_t t = (uint64_t)(w->back ? i % (PSBS / 2) : i) * STEP + 1 +
		     cpu * 100;
	struct pt p;

	mk_switch(m, i & 1 ? (struct mk_id){ 20, 20, t, cpu } :
			     (struct mk_id){ 10, 10, t, cpu }, false);
	put_slice(&p, w, i, t);
	if (w->holes && i % (PSBS / w->holes) == 5)
		*offset += 4096;
	mk_auxtrace(m, cpu, cpu, UINT32_MAX, *offset, p.b, p.n);
	mk_aux(m, (struct mk_id){ 10, 10, t + 4000, cpu }, *offset, p.n, 0);
	*offset += p.n;
}

static void put_streams(struct mk *m, const struct way *w)
{
	uint64_t offset[2] = { 0, 0 };

	for (int i = 0; i < PSBS; i++) {
		if (w->snapshots && i % (PSBS / w->holes) == 5)
			mk_snapshot(m, (uint64_t)i, "");
		put_piece(m, w, 0, i, &offset[0]);
		put_piece(m, w, 1, i, &offset[1]);
	}
}

static bool make(const struct way *w)
{
	struct mk m;
	bool good;
	int fd;

	memcpy(path + sizeof(path) - 7, "XXXXXX", 6);
	fd = mkstemp(path);
	mk_init(&m, w->timeless ? 0 : 0x400);
	mk_pt_info_mode(&m, w->snapshots);
	put_streams(&m, w);
	mk_feature(&m, AUX_FEAT_AUXKIT_CODE, &mk_syscalls, sizeof(mk_syscalls));
	mk_finish(&m);
	good = fd >= 0 && write(fd, m.p, m.n) == (ssize_t)m.n;
	free(m.p);
	return close(fd) == 0 && good;
}

/* What is asked, of all and of the part. False: they differ. */
static bool same(const struct session_config *asked, struct session_stats *st)
{
	struct session_config c = *asked;
	struct session_stats full;
	struct seen a, b;

	c.no_seek = true;
	c.n_workers = 1;
	decode(&c, &a, &full);
	c.no_seek = false;
	for (c.n_workers = 1; c.n_workers < 4; c.n_workers++) {
		decode(&c, &b, st);
		if (strcmp(a.hex, b.hex) || a.n_insns != b.n_insns ||
		    memcmp(full.n_gaps, st->n_gaps, sizeof(full.n_gaps)) ||
		    full.lossy != st->lossy) {
			printf("# %llu,%llu -j%u: %llu insns, not %llu\n",
			       (unsigned long long)c.time_from,
			       (unsigned long long)c.time_to, c.n_workers,
			       (unsigned long long)b.n_insns,
			       (unsigned long long)a.n_insns);
			return false;
		}
		if (st->aux_decoded > full.aux_decoded)
			return false;
	}
	return true;
}

static void times(const struct way *w)
{
	struct session_config c = all;
	struct session_stats st;
	bool good = true;

	for (unsigned i = 0; good && i < 60; i++) {
		c.time_from = i * 7919 % 61 * END / 61;
		c.time_to = i % 5 ? c.time_from + i % 7 * i * 3000 :
				    UINT64_MAX;
		c.chunk_min = i % 3 ? i % 3 * 700 : 1;
		good = same(&c, &st);
	}
	ok(good, "%s: any time", w->name);
}

/* Bytes decoded for a short time in the middle. */
static void cost(const struct way *w, bool seeks)
{
	struct session_config c = all;
	struct session_stats st;

	c.time_from = END / 4;
	c.time_to = c.time_from + 2 * STEP;
	ok(same(&c, &st), "%s: a short time", w->name);
	ok(seeks ? st.aux_decoded < st.aux_bytes / 10 :
		   st.aux_decoded == st.aux_bytes,
	   "%s: %llu of %llu bytes are decoded", w->name,
	   (unsigned long long)st.aux_decoded,
	   (unsigned long long)st.aux_bytes);
	ok(st.aux_wanted >= st.aux_decoded &&
	   st.aux_wanted <= st.aux_decoded + 2 * 4096, "as was thought");
}

static void last(const struct way *w)
{
	struct session_config c = all;
	struct session_stats st;
	struct seen q;

	c.last_ns = 10 * STEP;
	ok(decode(&c, &q, &st) == 0 && st.aux_decoded < st.aux_bytes / 10,
	   "%s: the last of it", w->name);
	/* it ends with the last AUX record of CPU 1 */
	ok(q.first_ns >= END - STEP + 4101 - c.last_ns &&
	   q.first_ns < END - STEP + 4101 - c.last_ns + STEP &&
	   q.last_ns > END - STEP, "%s: up to the end", w->name);
}

static void numbers(const struct way *w)
{
	struct session_config c = all;
	struct session_stats st;
	uint64_t n = 0, bytes = 0, most = 0;
	struct seen whole, q;

	decode(&c, &whole, &st);
	c.chunks = true;
	for (uint64_t i = 0; i < 200; i++) {
		c.chunk_from = c.chunk_to = i;
		c.n_workers = 1 + i % 3;
		decode(&c, &q, &st);
		n += q.n_insns;
		bytes += st.aux_decoded;
		if (st.aux_decoded > most)
			most = st.aux_decoded;
	}
	is_u64(n, whole.n_insns, "the sum of all chunks");
	is_u64(bytes, st.aux_bytes, "their bytes");
	ok(most < 4 * 500, "each is small");
	c.chunk_from = 0;
	c.chunk_to = UINT64_MAX - 1;
	decode(&c, &q, &st);
	ok(q.n_insns == whole.n_insns && st.aux_decoded == st.aux_bytes,
	   "%s: all chunks", w->name);
}

int main(void)
{
	static const struct way ways[] = {
		{ .name = "two CPUs" },
		{ .name = "holes", .holes = 20 },
		{ .name = "snapshots", .holes = 20, .snapshots = true },
		{ .name = "a time that goes back", .back = true },
		{ .name = "no place to cut", .seamless = true },
		{ .name = "holes, no place to cut", .holes = 20,
		  .seamless = true },
		{ .name = "no times", .timeless = true },
	};

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		const struct way *w = &ways[i];

		if (!ok(make(w), "%s", w->name))
			break;
		times(w);
		cost(w, !w->back && !w->timeless &&
		     (w->holes || !w->seamless));
		if (!w->back && !w->timeless && !w->seamless) {
			last(w);
			numbers(w);
		}
		unlink(path);
	}
	return plan_done();
}
