/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * session: snapshots that overlap, touch or leave a hole; losses that the recorder reported;
 * and chunks of a stream that cannot be cut.
 */
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/mkperf.h"
#include "tests/unit/mkpt.h"
#include "decode/lib/session/session.h"
#include "decode/lib/session/impl.h"
#include "tests/unit/nofinish.h"
#include "tests/unit/tap.h"

struct seen {
	uint64_t n_insns, n_gaps;
	uint64_t gap_at[16], gap_detail[16];
	uint8_t gap[16];
	uint64_t last_offset;
	bool back;
};

static int see(void *sink, const struct flow_ctx *ctx,
	       const struct aux_flow *ev, size_t n)
{
	struct seen *s = sink;

	(void)ctx;
	for (size_t i = 0; i < n; i++) {
		s->back |= ev[i].offset < s->last_offset;
		s->last_offset = ev[i].offset;
		if (ev[i].kind == AUX_FLOW_RANGE)
			s->n_insns += ev[i].n;
		if (ev[i].kind != AUX_FLOW_GAP || s->n_gaps == 16)
			continue;
		s->gap_detail[s->n_gaps] = ev[i].gap.detail;
		s->gap_at[s->n_gaps] = ev[i].offset;
		s->gap[s->n_gaps++] = ev[i].what;
	}
	return 0;
}

static const struct sink_ops ops = { .name = "seen", .flow = see,
				     .finish = no_finish };

/* Completes and frees the file. */
static int decode(struct mk *m, uint64_t snapshot, struct seen *seen,
		  struct session_stats *st)
{
	char path[] = "/tmp/auxkit-test-XXXXXX";
	struct session_config c = { .tid = -1, .cpu = -1, .path = path,
				    .time_to = UINT64_MAX,
				    .snapshot = snapshot };
	struct aux_diag diag = { 0 };
	struct session *s = NULL;
	int fd = mkstemp(path), rc;

	*seen = (struct seen){ 0 };
	*st = (struct session_stats){ 0 };
	mk_finish(m);
	if (fd < 0 || write(fd, m->p, m->n) != (ssize_t)m->n)
		return -1;
	close(fd);
	rc = session_open(&s, &c, &diag);
	if (rc == 0)
		rc = session_run(s, &ops, seen, st, &diag);
	if (rc < 0)
		printf("# %s\n", diag.text);
	session_close(s);
	unlink(path);
	free(m->p);
	return rc;
}

#define BLOCKS 10

/* BLOCKS times a PSB+ and three instructions. */
static struct pt stream;
static size_t at[BLOCKS + 1];

static void make_stream(void)
{
	stream.n = 0;
	for (unsigned i = 0; i < BLOCKS; i++) {
		at[i] = stream.n;
		pt_psb(&stream, 1000 + 100 * i, 0);
		pt_mode64(&stream);
		pt_tsc(&stream, 1010 + 100 * i);
		pt_pge(&stream, 0x1000);
		pt_pgd(&stream);
	}
	at[BLOCKS] = stream.n;
}

static void start(struct mk *m, bool snapshot)
{
	static const uint8_t code[] = { 0x90, 0x90, 0x0f, 0x05 };

	mk_init(m, 0x400);
	mk_pt_info_mode(m, snapshot);
	mk_code(m, 10, 0, 0x1000, 1, code, sizeof(code));
	mk_switch(m, (struct mk_id){ 10, 10, 1, 0 }, false);
	mk_feature(m, AUX_FEAT_HOSTNAME, "\1\0\0\0", 5);
}

/* stream[from, to) at an offset that says nothing, as perf's of Intel PT. */
static void put(struct mk *m, uint64_t offset, size_t from, size_t to)
{
	mk_auxtrace(m, 0, 0, UINT32_MAX, offset, stream.b + from, to - from);
	mk_aux(m, (struct mk_id){ 10, 10, 1, 0 }, offset + to - from, 4096,
	       PERF_AUX_FLAG_OVERWRITE);
}

static void perf_overlap(void)
{
	struct session_stats st;
	struct seen s;
	struct mk m;

	start(&m, true);
	put(&m, 0, 0, at[6]);
	put(&m, 16, at[2] + 9, at[10]);
	ok(decode(&m, 0, &s, &st) == 0 && s.n_insns == 30,
	   "common bytes are decoded once");
	ok(!s.n_gaps && !st.lossy && !s.back, "and the snapshots joined");

	start(&m, true);
	put(&m, 0, 0, at[6]);
	put(&m, 0, at[2], at[6]);
	put(&m, 0, at[4] + 3, at[10]);
	ok(decode(&m, 0, &s, &st) == 0 && s.n_insns == 30 && !s.n_gaps,
	   "one that is wholly in the one before");

	start(&m, true);
	put(&m, 0, 0, at[6]);
	put(&m, 0, at[1] + 3, at[6] + 9);
	put(&m, 0, at[2] + 3, at[6] + 20);
	put(&m, 0, at[4] + 3, at[10]);
	ok(decode(&m, 0, &s, &st) == 0 && s.n_insns == 30 && !s.n_gaps,
	   "those that add less than a PSB+ to the one before");

	start(&m, true);
	put(&m, 0, 3, at[4]);
	put(&m, 8, at[5] + 20, at[10]);
	ok(decode(&m, 0, &s, &st) == 0 && s.n_insns == 9 + 12, "no overlap");
	ok(s.n_gaps == 1 && s.gap[0] == GAP_SNAPSHOT && !st.lossy && !s.back,
	   "a gap, and no loss");
}

static void perf_overlap_by_tsc(void)
{
	struct session_stats st;
	struct seen s;
	struct mk m;
	struct pt copy = stream;

	start(&m, true);
	put(&m, 0, 0, at[6]);
	stream.b[at[6] - 12] ^= 4;	/* in the IP */
	stream.b[at[4] - 12] ^= 4;
	put(&m, 16, at[2] + 9, at[10]);
	stream = copy;
	ok(decode(&m, 0, &s, &st) == 0 && s.n_insns == 30,
	   "other bytes: what is later by TSC stays");
	ok(s.n_gaps == 1 && s.gap[0] == GAP_SNAPSHOT && !st.lossy,
	   "behind a gap");
}

static void perf_select(void)
{
	struct session_stats st;
	struct seen s;
	struct mk m;

	for (uint64_t i = 1; i <= 4; i++) {
		start(&m, true);
		put(&m, 0, 0, at[3]);
		mk_auxtrace(&m, 1, 1, UINT32_MAX, 0, stream.b, at[1]);
		put(&m, 16, at[4], at[5]);
		mk_auxtrace(&m, 1, 1, UINT32_MAX, 0, stream.b + at[1],
			    at[2] - at[1]);
		put(&m, 16, at[6], at[10]);
		if (i == 4)
			ok(decode(&m, i, &s, &st) == -AUX_E_NOENT,
			   "there is no fourth");
		else
			ok(decode(&m, i, &s, &st) == 0 &&
			   s.n_insns == (i == 1 ? 9u : i == 2 ? 3 : 12) &&
			   (i == 3 ? !s.n_gaps : true),
			   "snapshot %u of three", (unsigned)i);
	}
}

/*
 * The ring has 64 bytes, and the trace is at 640 and 1280 in the stream: where
 * its AUX record ended is all that tells padding from zeros.
 */
static void ring_ends(void)
{
	static const struct {
		uint64_t end, size, len;	/* of both snapshots */
		const char *what;
	} t[] = {
		{ 21, 64, 42, "where the last record says" },
		{ 22, 64, 44, "zeros that are trace stay" },
		{ 24, 64, 48, "no padding" },
		{ 20, 64, 48, "never more than zeros" },
		{ 21, 16, 48, "a record of another ring tells nothing" },
		{ 21, 0, 48, "nor does one without a size" },
	};
	static const uint8_t bytes[24] = { [20] = 0xa6 };

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct session_stats st;
		struct seen s;
		struct mk m;

		start(&m, true);
		for (uint64_t k = 1; k <= 2; k++) {
			mk_aux(&m, (struct mk_id){ 10, 10, 1, 0 }, 17, 64,
			       PERF_AUX_FLAG_OVERWRITE);
			mk_aux(&m, (struct mk_id){ 10, 10, 1, 0 }, t[i].end,
			       t[i].size, PERF_AUX_FLAG_OVERWRITE);
			mk_snapshot(&m, k, "");
			mk_auxtrace(&m, 0, 0, UINT32_MAX, 640 * k, bytes, 24);
		}
		decode(&m, 0, &s, &st);
		is_u64(st.aux_bytes, t[i].len, t[i].what);
	}
}

static void own_snapshots(void)
{
	struct session_stats st;
	struct seen s;
	struct mk m;

	start(&m, true);
	mk_snapshot(&m, 7, "first");
	put(&m, 500, 3, at[2]);
	put(&m, 500 + at[2] - 3, at[2], at[4]);
	mk_snapshot(&m, 8, "");
	put(&m, 500 + at[4] - 3, at[4], at[6]);
	mk_snapshot(&m, 9, "");
	put(&m, 500 + at[5] - 3, at[5], at[8]);
	mk_snapshot(&m, 10, "");
	put(&m, 500 + at[9] - 3, at[9], at[10]);
	ok(decode(&m, 0, &s, &st) == 0 && s.n_insns == 24 && !s.back,
	   "by offset: joined, overlapping, with a hole");
	ok(s.n_gaps == 1 && s.gap[0] == GAP_SNAPSHOT && !st.lossy,
	   "one gap, no loss");

	start(&m, true);
	mk_snapshot(&m, 7, "first");
	put(&m, 500, 3, at[2]);
	mk_snapshot(&m, 8, "");
	put(&m, 5000, at[4] + 5, at[6]);
	ok(decode(&m, 8, &s, &st) == 0 && s.n_insns == 3 && !s.n_gaps &&
	   !st.lossy, "the one numbered 8");
}

#define AUX(m, from, to, flags)                                             \
	mk_aux(m, (struct mk_id){ 10, 10, 1, 0 }, from, (to) - (from), flags)

static void own_losses(void)
{
	struct session_stats st;
	struct seen s;
	struct mk m;

	start(&m, false);
	mk_auxtrace(&m, 0, 0, UINT32_MAX, 0, stream.b, at[2]);
	AUX(&m, 0, at[2], PERF_AUX_FLAG_TRUNCATED);
	mk_loss(&m, 0, AUX_LEDGER_TRUNCATED, at[2], 99);
	mk_auxtrace(&m, 0, 0, UINT32_MAX, at[2], stream.b + at[2],
		    at[4] - at[2]);
	mk_loss(&m, 0, AUX_LEDGER_STALLED, at[3], 0);
	mk_loss(&m, 0, AUX_LEDGER_UNWRITTEN, at[4] + 50, 50);
	mk_auxtrace(&m, 0, 0, UINT32_MAX, at[4] + 50, stream.b, at[1]);
	AUX(&m, at[2], at[4], 0);
	AUX(&m, at[4] + 50, at[4] + 50 + at[1], 0);
	mk_loss(&m, 0, AUX_LEDGER_UNREAD, at[4] + 50 + at[1], 7);
	mk_loss(&m, 0, AUX_LEDGER_PARTIAL, UINT64_MAX, 7);
	mk_loss(&m, 9, AUX_LEDGER_PARTIAL, 0, 7);
	ok(decode(&m, 0, &s, &st) == 0 && s.n_insns == 15,
	   "losses among the bytes");
	ok(s.n_gaps == 4 && !s.back, "one gap for each place");
	ok(s.gap[0] == AUX_GAP_AUX_TRUNCATED && s.gap_at[0] == at[2] &&
	   s.gap_detail[0] == 99, "told by flag and record");
	ok(s.gap[1] == GAP_STALLED && s.gap_at[1] == at[3],
	   "between two bytes");
	ok(s.gap[2] == GAP_UNSAVED && s.gap_at[2] == at[4], "a hole");
	ok(s.gap[3] == GAP_UNSAVED, "at the end");
	ok(st.lossy && st.ledger_lost == 99 + 50 + 7 + 7 + 7, "and the sum");

	start(&m, false);
	mk_auxtrace(&m, 0, 0, UINT32_MAX, 0, stream.b, at[2]);
	mk_loss(&m, 0, AUX_LEDGER_STALLED, UINT64_MAX, 0);
	ok(decode(&m, 0, &s, &st) == 0 && !s.n_gaps && st.lossy,
	   "of unknown size and place: a loss all the same");
}

/* A damaged frame is one gap; what is behind it decodes. */
static void damaged_frame(void)
{
	struct session_stats st;
	struct seen s;
	struct mk m;

	start(&m, false);
	mk_auxtrace(&m, 0, 0, UINT32_MAX, 0, stream.b, at[2]);
	mk_auxtrace_zstd(&m, 0, at[2], "damaged.", 8, at[4] - at[2]);
	mk_auxtrace(&m, 0, 0, UINT32_MAX, at[4], stream.b + at[4],
		    at[10] - at[4]);
#ifdef HAVE_ZSTD
	ok(decode(&m, 0, &s, &st) == 0 && s.n_insns == 24 && s.n_gaps == 1 &&
	   s.gap[0] == AUX_GAP_FILE && st.lossy, "a damaged frame: one gap");
#else
	ok(decode(&m, 0, &s, &st) == 0 && st.lossy, "no libzstd: told");
#endif
}

#define LONG ((size_t)300 << 20)

static void bounded_chunks(void)
{
	uint8_t *p = calloc(1, LONG);
	struct piece piece = { .data = p, .len = LONG };
	struct segment segment = { .end = LONG };
	struct queue q = { .pieces = &piece, .n_pieces = 1, .segments = &segment,
			   .n_segments = 1 };
	struct chunk_iter it;
	uint64_t max = 0, sum = 0;
	unsigned gaps = 0;
	int step;

	if (!p)
		return;
	memcpy(p, stream.b, at[1]);
	chunk_iter_init(&it, &q, AUX_TRACE_INTEL_PT, 1);
	while ((step = chunk_iter_next(&it)) > 0) {
		gaps += step == CHUNK_GAP;
		if (step == CHUNK_GAP)
			continue;
		sum += it.chunk.len;
		if (it.chunk.len > max)
			max = it.chunk.len;
	}
	ok(step == CHUNK_END && max && max <= (size_t)130 << 20,
	   "300 MB without a PSB: no chunk is larger than %u MB",
	   (unsigned)(max >> 20));
	chunk_iter_fini(&it);

	/* With PSBs that do not help: all behind an overflow. */
	for (size_t i = at[1]; i + 64 < LONG; i += 1 << 20) {
		memcpy(p + i, "\x02\xf3", 2);
		memcpy(p + i + 2, stream.b, 16);
		memcpy(p + i + 18, "\x02\x23", 2);
	}
	chunk_iter_init(&it, &q, AUX_TRACE_INTEL_PT, 1);
	for (max = sum = gaps = 0; (step = chunk_iter_next(&it)) > 0;) {
		gaps += step == CHUNK_GAP && it.gap.what == AUX_GAP_DECODER;
		if (step == CHUNK_GAP)
			continue;
		sum += it.chunk.len;
		if (it.chunk.len > max)
			max = it.chunk.len;
	}
	ok(step == CHUNK_END && max <= (size_t)130 << 20 && gaps >= 2 &&
	   sum == LONG, "cut where it cannot be: told, nothing is left out");
	chunk_iter_fini(&it);
	free(p);
}

static void start_sampling(struct mk *m)
{
	static const uint8_t code[] = { 0x90, 0x90, 0x0f, 0x05 };
	struct perf_event_attr attrs[] = {
		mk_attr(MK_PMU, 0x400), mk_attr(PERF_TYPE_SOFTWARE, 0),
	};

	attrs[1].sample_type |= PERF_SAMPLE_AUX;
	mk_init_attrs(m, attrs, 2);
	mk_pt_info(m);
	mk_code(m, 10, 0, 0x1000, 1, code, sizeof(code));
	for (uint32_t cpu = 0; cpu < 2; cpu++)
		mk_switch(m, (struct mk_id){ 10, 10, 1, cpu }, false);
	mk_feature(m, AUX_FEAT_HOSTNAME, "\1\0\0\0", 5);
}

static void put_sample(struct mk *m, uint32_t cpu, size_t from, size_t to)
{
	mk_sample_aux(m, (struct mk_id){ 10, 10, 2, cpu }, stream.b + from,
		      to - from);
}

/* The newest trace at each sample: the same bytes in several. AUX records of
 * such a ring are of what was not asked for. */
static void sampled(void)
{
	struct session_stats st;
	struct seen s;
	struct mk m;

	start_sampling(&m);
	put_sample(&m, 0, 0, at[6]);
	put_sample(&m, 1, 0, at[2]);
	put_sample(&m, 0, at[2] + 9, at[10]);
	mk_aux(&m, (struct mk_id){ 10, 10, 3, 2 }, 512, 4096,
	       PERF_AUX_FLAG_OVERWRITE);
	ok(decode(&m, 0, &s, &st) == 0 && s.n_insns == 36 && !s.n_gaps,
	   "trace in samples: common bytes are decoded once");
	ok(st.n_streams == 2 && st.aux_bytes >= at[10] + at[2] &&
		   st.aux_bytes < at[10] + at[2] + 16,
	   "a stream for each CPU");
	ok(!st.lossy, "what no sample asked for is not lost");

	start_sampling(&m);
	put_sample(&m, 0, 3, at[4]);
	put_sample(&m, 1, 0, at[2]);
	put_sample(&m, 0, at[5] + 20, at[10]);
	mk_aux(&m, (struct mk_id){ 10, 10, 3, 2 }, 512, 4096, 0);
	ok(decode(&m, 0, &s, &st) == 0 && s.n_insns == 9 + 6 + 12 &&
		   s.n_gaps == 1 && s.gap[0] == GAP_SNAPSHOT,
	   "trace between two samples that neither has: a gap");
	ok(st.lossy, "a record of bytes that should be there");
}

int main(void)
{
	make_stream();
	perf_overlap();
	perf_overlap_by_tsc();
	perf_select();
	own_snapshots();
	ring_ends();
	own_losses();
	damaged_frame();
	bounded_chunks();
	sampled();
	return plan_done();
}
