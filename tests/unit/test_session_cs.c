/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * session, CoreSight: the chunks that AUX records delimit, framed and raw; the owner of each;
 * reported losses; and offsets in the file.
 */
#include "tests/unit/mkcs.h"
#include "tests/unit/tap.h"

static struct cs_seen s;
static struct session_stats st;

static struct mk_id on(uint32_t cpu, uint64_t time)
{
	return (struct mk_id){ 10, 10, time, cpu };
}

/* One queue of CPU 0 with all of f. */
static void put(struct mk *m, const struct cs_bytes *f, uint64_t offset)
{
	mk_auxtrace(m, 0, 0, UINT32_MAX, offset, f->b, f->n);
}

static void test_records(void)
{
	struct cs_bytes f = { .n = 0 };
	struct mk m;

	mk_init(&m, 0);
	cs_info_v4(&m, 2, 0x41, 0);
	cs_frame(&f, 0x10, "abcdefghijklmnop", 16);
	cs_frame(&f, 0x11, "uvw", 3);
	cs_frame(&f, 0x10, "qr", 2);
	cs_frame(&f, 0x11, "xy", 2);
	mk_aux(&m, on(0, 100), 0, 48, 0);
	mk_aux(&m, on(0, 200), 48, 32, 0);
	put(&m, &f, 0);
	ok(cs_decode(&m, &s, &st) == 0, "two ids in two records");
	is_str(s.text, "[0abcdefghijklmnop[1uvw[0qr[1xy",
	       "a chunk for each id of each record, in their order");
	is_u64(st.n_streams, 2, "two streams");
	ok(!st.lossy && !s.back, "no gap, and offsets grow");
	is_u64(s.ev[14].offset / 16, 1, "the 15th byte is in the second frame");
	is_u64(s.ev[16].offset / 16, 2, "the other id's first byte");
	is_u64(s.ev[19].offset / 16, 3, "behind the first record");
	is_u64(s.ev[21].offset / 16, 4, "the last frame");
}

static void test_mixed(void)
{
	struct cs_bytes f = { .n = 0 };
	struct mk m;

	mk_init(&m, 0);
	cs_info_v4(&m, 2, 0x41, 0);
	cs_frame(&f, 0x11, "ab", 2);
	memcpy(f.b + 16, "raw!rawer", 9);
	f.n = 25;
	mk_aux(&m, on(0, 100), 0, 16, 0);
	mk_aux(&m, on(0, 200), 16, 4, 0x100);
	mk_aux(&m, on(1, 300), 20, 5, 0x100);
	put(&m, &f, 0);
	ok(cs_decode(&m, &s, &st) == 0, "framed and raw in one stream");
	is_str(s.text, "[1ab[0raw![1rawer", "raw: by the record's CPU");
	is_u64(s.ev[2].offset, 16, "where the raw bytes are");
	is_u64(s.ev[6].offset, 20, "and the next ones");
	is_u64(st.n_streams, 3, "an id and two CPUs");
}

static void test_unmarked(void)
{
	struct cs_bytes f = { .n = 0 };
	struct mk m;

	mk_init(&m, 0);
	cs_info_v4(&m, 1, 0x41, 0);
	cs_frame(&f, 0x10, "abc", 3);
	cs_frame(&f, 0x10, "def", 3);
	cs_frame(&f, 0x10, "ghi", 3);
	mk_aux(&m, on(0, 100), 16, 16, 0);
	put(&m, &f, 0);
	ok(cs_decode(&m, &s, &st) == 0 && !st.lossy,
	   "bytes that no record tells of");
	is_str(s.text, "[0abc[0def[0ghi", "are decoded all the same");

	mk_init(&m, 0);
	cs_info_v4(&m, 1, 0x41, 0);
	mk_auxtrace(&m, 0, 0, UINT32_MAX, 0, f.b, 8);
	mk_auxtrace(&m, 0, 0, UINT32_MAX, 8, f.b + 8, 40);
	ok(cs_decode(&m, &s, &st) == 0 && !st.lossy, "a frame in two pieces");
	is_str(s.text, "[0abcdefghi", "no record at all: one run");
}

static void test_missing(void)
{
	struct cs_bytes f = { .n = 0 };
	struct mk m;

	mk_init(&m, 0);
	cs_info_v4(&m, 1, 0x41, 0);
	cs_frame(&f, 0x10, "abc", 3);
	mk_aux(&m, on(0, 100), 0, 16, 0);
	mk_aux(&m, on(0, 200), 16, 16, 0);
	put(&m, &f, 0);
	ok(cs_decode(&m, &s, &st) == 0 && st.lossy, "a record without bytes");
	is_str(s.text, "[0abc!aux-lost", "is a gap");

	mk_init(&m, 0);
	cs_info_v4(&m, 1, 0x41, 0);
	mk_aux(&m, on(0, 100), 0, 16, PERF_AUX_FLAG_TRUNCATED);
	cs_frame(&f, 0x10, "def", 3);
	mk_aux(&m, on(0, 200), 16, 16, 0);
	put(&m, &f, 0);
	ok(cs_decode(&m, &s, &st) == 0 && st.lossy, "a truncated record");
	is_str(s.text, "[0abc!aux-truncated[0def", "has a gap behind it");
	is_u64(s.ev[3].offset, 16, "at its end");
}

static void test_nobody(void)
{
	struct cs_bytes f = { .n = 0 };
	struct mk m;

	mk_init(&m, 0);
	cs_info_v4(&m, 1, 0x41, 0);
	cs_frame(&f, 0x10, "ab", 2);
	cs_frame(&f, 0x33, "xyz", 3);
	cs_frame(&f, 0x33, "xyz", 3);
	cs_frame(&f, 0x7d, "t", 1);
	mk_aux(&m, on(0, 100), 0, 64, 0);
	put(&m, &f, 0);
	ok(cs_decode(&m, &s, &st) == 0 && st.lossy, "an id of nobody's");
	is_str(s.text, "[0ab!unknown-id", "one gap, and none for the trigger");
	is_u64(s.ev[2].value, 0x33, "which id");

	f.n = 0;
	cs_frame(&f, 0x10, "abcdefghijklmnopqrstuvwxyz!!", 28);
	f.b[0] = 'x' & 0xfe;
	mk_init(&m, 0);
	cs_info_v4(&m, 1, 0x41, 0);
	mk_aux(&m, on(0, 100), 0, 32, 0);
	put(&m, &f, 0);
	ok(cs_decode(&m, &s, &st) == 0 && st.lossy, "bytes before any id");
	is_str(s.text, "!no-sync[0opqrstuvwxyz!!", "are a gap");
	is_u64(s.ev[0].value, 15, "of that many bytes");
}

static void test_barrier(void)
{
	struct cs_bytes f = { .n = 0 };
	struct mk m;

	mk_init(&m, 0);
	cs_info_v4(&m, 1, 0x41, 0);
	cs_barrier(&f);
	cs_barrier(&f);
	cs_frame(&f, 0x10, "ab", 2);
	cs_barrier(&f);
	cs_frame(&f, 0x10, "cd", 2);
	mk_aux(&m, on(0, 100), 0, 80, 0);
	put(&m, &f, 0);
	ok(cs_decode(&m, &s, &st) == 0 && st.lossy, "barriers");
	is_str(s.text, "[0ab!aux-lost[0cd", "one inside is a gap and a new start");
	is_u64(s.ev[2].offset, 64, "behind it");
	is_u64(s.ev[3].offset / 16, 4, "the offset goes on");
}

static void test_overwritten(void)
{
	struct cs_bytes f = { .n = 0 };
	struct mk m;

	mk_init(&m, 0);
	cs_info_v4(&m, 1, 0x41, 0);
	cs_frame(&f, 0x10, "abcdefghijklmn", 14);
	f.b[0] = 2;	/* the ring had the id before */
	cs_frame(&f, 0x10, "op", 2);
	cs_frame(&f, 0x10, "qr", 2);
	/* the end of each, in a ring of 48 bytes */
	mk_aux(&m, on(0, 100), 0x1020, 48, PERF_AUX_FLAG_OVERWRITE);
	mk_aux(&m, on(0, 200), 0x1030, 48, PERF_AUX_FLAG_OVERWRITE);
	put(&m, &f, 0x1000);
	ok(cs_decode(&m, &s, &st) == 0 && !st.lossy, "an overwritten ring");
	is_str(s.text, "[0op[0qr", "begins anywhere, and has two records");
	is_u64(s.ev[0].offset / 16, 0x101, "at their true offsets");
}

/* A block of ETMv4 as version 2 has it. */
static void block(uint64_t *w, uint64_t cpu, uint64_t id)
{
	memset(w, 0, 10 * sizeof(*w));
	w[0] = AUX_CS_MAGIC_ETMV4;
	w[1] = cpu;
	w[2] = 7;
	w[3] = 0x41;
	w[4] = id;
}

static void test_hw_ids(void)
{
	uint64_t w[23] = { 2, (uint64_t)MK_PMU << 32 | 2, 0 };
	struct cs_bytes f = { .n = 0 };
	uint64_t minor = (uint64_t)1 << 56;
	struct mk m;

	block(w + 3, 0, 0x80000010);
	block(w + 13, 1, 0x12);	/* stale */
	cs_frame(&f, 0x21, "ab", 2);
	cs_frame(&f, 0x20, "cd", 2);
	cs_frame(&f, 0x12, "ef", 2);
	mk_init(&m, 0);
	cs_info(&m, w, 23);
	cs_hw_id(&m, on(0, 1), 0x20);
	cs_hw_id(&m, on(1, 1), 0x21);
	put(&m, &f, 0);
	ok(cs_decode(&m, &s, &st) == 0, "ids by record");
	is_str(s.text, "!unknown-id[0cd[1ab", "the ones of the blocks mean nothing");

	/* two sinks, and the same id in both */
	mk_init(&m, 0);
	cs_info(&m, w, 23);
	cs_hw_id(&m, on(0, 1), minor | 0x77 << 8 | 0x20);
	cs_hw_id(&m, on(1, 1), minor | 0x78 << 8 | 0x20);
	f.n = 0;
	cs_frame(&f, 0x20, "ab", 2);
	put(&m, &f, 0);
	mk_auxtrace(&m, 1, 1, UINT32_MAX, 0, f.b, f.n);
	ok(cs_decode(&m, &s, &st) == 0 && !st.lossy, "two sinks");
	is_str(s.text, "[0ab[1ab", "each with its own CPU of an id");

	mk_init(&m, 0);
	cs_info(&m, w, 23);
	f.n = 0;
	cs_frame(&f, 0x10, "ab", 2);
	put(&m, &f, 0);
	ok(cs_decode(&m, &s, &st) == 0 && !st.lossy,
	   "no id records: the flagged id holds");
}

static void test_errors(void)
{
	uint64_t w[13] = { 3, (uint64_t)MK_PMU << 32 | 1, 0 };
	struct cs_bytes f = { .n = 0 };
	struct mk m;

	block(w + 3, 0, 0x10);
	cs_frame(&f, 0x10, "ab", 2);
	mk_init(&m, 0);
	cs_info(&m, w, 13);
	put(&m, &f, 0);
	ok(cs_decode(&m, &s, &st) == -AUX_E_UNSUPPORTED &&
	   strstr(s.error, "word 0: version 0x3"), "a new version is refused");

	w[0] = 1;
	w[5] = 700;
	mk_init(&m, 0);
	cs_info(&m, w, 13);
	put(&m, &f, 0);
	ok(cs_decode(&m, &s, &st) == -AUX_E_FORMAT &&
	   strstr(s.error, "word 5: a source has 700 words"),
	   "a block that is cut names the word");

	w[5] = 7;
	mk_init(&m, 0);
	cs_info(&m, w, 13);
	cs_hw_id(&m, on(0, 1), (uint64_t)1 << 60 | 0x10);
	put(&m, &f, 0);
	ok(cs_decode(&m, &s, &st) == -AUX_E_UNSUPPORTED &&
	   strstr(s.error, "version 1"), "id records of a new version");
}

/* A run that is too long for one chunk. */
static void test_long(void)
{
	static const struct csmeta_source meta = { .cpu = 0 };
	struct chunk_source source = { .id = 0x10, .first = true,
				       .meta = &meta };
	struct cs_bytes f = { .n = 0 };
	struct piece piece = { .offset = 0x100, .data = f.b };
	struct segment segment = { .offset = 0x100, .ids = { 1 << 0x10 } };
	struct queue q = { .pieces = &piece, .n_pieces = 1, .segments = &segment,
			   .n_segments = 1 };
	struct chunk_iter it;

	cs_frame(&f, 0x10, "abcdefghijklmnopqrstuvwxyzabcd", 30);
	for (unsigned i = 1; i < 3; i++)	/* no id: the one before */
		f.b[16 * i] = 'x';
	piece.len = f.n;
	segment.end = 0x100 + f.n;
	chunk_iter_init(&it, &q, AUX_TRACE_CS_ETM, 0);
	chunk_iter_pick(&it, &source);
	it.part_max = 32;
	ok(chunk_iter_next(&it) == CHUNK_DATA && it.chunk.len == 29,
	   "a chunk of a long run");
	ok(chunk_iter_next(&it) == CHUNK_GAP &&
	   it.gap.what == AUX_GAP_DECODER && it.gap.offset == 0x120,
	   "a gap where it had to be cut");
	ok(chunk_iter_next(&it) == CHUNK_DATA && it.chunk.len == 15 &&
	   it.chunk.data[1] == 'c' && chunk_iter_place(&it, 1) == 0x121,
	   "behind it the id still holds");
	ok(chunk_iter_next(&it) == CHUNK_END, "the end");
	chunk_iter_fini(&it);
}

int main(void)
{
	test_long();
	test_records();
	test_mixed();
	test_unmarked();
	test_missing();
	test_nobody();
	test_barrier();
	test_overwritten();
	test_hw_ids();
	test_errors();
	return plan_done();
}
