/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * cs_frame on frames made by hand; compared with a simple deframer on random frames; and
 * compared with the bytes and offsets in OpenCSD's packet lists of recorded buffers.
 */
#include <stdlib.h>

#include "decode/lib/packet/packet.h"
#include "tests/unit/tap.h"

#define FSYNC 0xff, 0xff, 0xff, 0x7f
#define FILE_MAX ((size_t)1 << 20)

/* The offset in the framed bytes of the byte picked at pos. */
static uint64_t place_of(struct cs_frame_pick *p, size_t pos)
{
	struct cs_frame_run run = cs_frame_run(p, pos);

	return cs_frame_at(&run, pos);
}

/* table: test_hand says which byte has which id */
static const uint8_t hand[3 * CS_FRAME_SIZE] = {
	0x21, 1, 2, 3, 0x23, 4, 4, 5, 0x21, 6, 6, 7, 8, 9, 10, 0x86,
	10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 0x55,
	0x25, 25, 0x21, 26, 0x25, 27, 0x01, 28, 0, 29, 0, 30, 0, 31, 0x23, 0x05,
};

static void test_hand(void)
{
	static const uint8_t want[] = {
		1, 3, 3, 4, 6, 6, 7, 8, 9, 11,
		11, 11, 12, 13, 15, 15, 16, 17, 19, 19, 20, 21, 23, 23, 24,
		25, 26, 27,
	};
	struct cs_frame_ids ids = { .id = CS_FRAME_NO_ID };
	struct cs_frame_pick p;

	cs_frame_scan(&ids, hand, sizeof(hand));
	is_u64(ids.n[0x10], sizeof(want), "bytes of id 0x10");
	is_u64(ids.n[0x11], 2, "bytes of id 0x11");
	is_u64(ids.n[0x12], 0, "an id that changes before its first byte");
	is_u64(ids.n[0], 7, "bytes of the null id");
	is_u64(ids.n_unowned + ids.n_barriers, 0, "neither bytes without an id nor barriers");
	is_u64(ids.id, 0x11, "byte 14 sets the id of the next frame");
	cs_frame_pick_init(&p, 0x10);
	is_u64(cs_frame_pick_add(&p, hand, sizeof(hand)), sizeof(hand),
	       "all is taken");
	ok(p.n == sizeof(want) && !memcmp(p.data, want, p.n),
	   "the bytes of id 0x10");
	is_u64(place_of(&p, 10), 16, "the first byte of a plain frame");
	is_u64(place_of(&p, 24), 30, "its last byte");
	is_u64(place_of(&p, 25) / 16, 2, "the next byte: in the third frame");
	is_u64(place_of(&p, 3) / 16, 0, "a position before: in the first frame");
	is_u64(place_of(&p, 99) / 16, 2, "past the end: the last frame");
	cs_frame_pick_fini(&p);
	cs_frame_pick_init(&p, 0x11);
	cs_frame_pick_add(&p, hand, sizeof(hand));
	ok(p.n == 2 && p.data[0] == 4 && p.data[1] == 5, "those of id 0x11");
	cs_frame_pick_fini(&p);
}

static void test_barrier(void)
{
	uint8_t in[5 * CS_FRAME_SIZE];
	static const uint8_t barrier[] = { FSYNC, FSYNC, FSYNC, FSYNC };
	struct cs_frame_ids ids = { .id = CS_FRAME_NO_ID };
	struct cs_frame_pick p;

	memcpy(in, barrier, 16);
	memcpy(in + 16, hand + 16, 16);
	memcpy(in + 32, hand, 16);
	memcpy(in + 48, barrier, 16);
	memcpy(in + 64, hand + 16, 16);
	cs_frame_scan(&ids, in, sizeof(in));
	is_u64(ids.n_barriers, 2, "two barriers");
	is_u64(ids.n_unowned, 30, "after a barrier bytes have no id");
	cs_frame_pick_init(&p, 0x10);
	is_u64(cs_frame_pick_add(&p, in, sizeof(in)), 0,
	       "data begins with a barrier: nothing is taken");
	is_u64(cs_frame_pick_add(&p, in + 16, sizeof(in) - 16), 32,
	       "up to the next one");
	is_u64(p.n, 10, "bytes in between");
	cs_frame_pick_reset(&p);
	is_u64(cs_frame_pick_add(&p, in + 64, 16), 16, "frames after the barrier are taken");
	is_u64(p.n, 0, "nothing without an id");
	is_u64(cs_frame_pick_add(&p, in + 32, 15), 0, "a partial frame is not taken");
	is_u64(place_of(&p, 0), 0, "offset 0 when nothing was picked");
	cs_frame_pick_fini(&p);
}

/* A byte, as the simple deframer gives it. */
struct plain {
	uint8_t id, value;
	uint32_t frame;
};

static size_t deframe(const uint8_t *in, size_t len, struct plain *out)
{
	unsigned id = CS_FRAME_NO_ID, later = CS_FRAME_NO_ID;
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned at = i % 16, bit = in[i - at + 15] >> at / 2 & 1;

		if (at == 15)
			continue;
		if (at % 2) {
			out[n++] = (struct plain){ (uint8_t)id, in[i],
						   (uint32_t)(i / 16) };
		} else if (!(in[i] & 1)) {
			out[n++] = (struct plain){ (uint8_t)id,
						   (uint8_t)(in[i] + bit),
						   (uint32_t)(i / 16) };
		} else if (bit && at < 14) {
			later = in[i] / 2;
			continue;
		} else {
			later = in[i] / 2;
		}
		if (later != CS_FRAME_NO_ID)
			id = later;
		later = CS_FRAME_NO_ID;
	}
	return n;
}

/* Frames with four ids; a third of the frames change none. */
static void fill(uint8_t *in, size_t n_frames)
{
	for (size_t i = 0; i < n_frames * 16; i++) {
		unsigned r = (unsigned)rand(), at = i % 16;

		in[i] = (uint8_t)(r >> 8);
		if (at % 2 || at == 15)
			continue;
		if (i / 16 % 3 == 0 || r % 7)
			in[i] &= 0xfe;
		else
			in[i] = (uint8_t)(1 | (r >> 20 & 3) << 1);
	}
}

static bool same_bytes(struct cs_frame_pick *p, const struct plain *want,
		       size_t n)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		if (want[i].id != p->id)
			continue;
		if (at == p->n || p->data[at] != want[i].value ||
		    place_of(p, at) / 16 != want[i].frame)
			return false;
		at++;
	}
	return at == p->n;
}

static void test_random(void)
{
	enum { N = 500 };
	uint8_t *in = malloc(N * 16);
	struct plain *want = malloc(N * 16 * sizeof(*want));
	unsigned bad = 0, scans = 0;

	srand(1);
	for (int round = 0; round < 40; round++) {
		struct cs_frame_ids ids = { .id = CS_FRAME_NO_ID };
		size_t n, cut = (size_t)rand() % N * 16;

		fill(in, N);
		n = deframe(in, N * 16, want);
		cs_frame_scan(&ids, in, cut);
		cs_frame_scan(&ids, in + cut, N * 16 - cut);
		for (unsigned id = 0; id < 4; id++) {
			struct cs_frame_pick p;

			cs_frame_pick_init(&p, (uint8_t)id);
			cs_frame_pick_add(&p, in, cut);
			cs_frame_pick_add(&p, in + cut, N * 16 - cut);
			bad += !same_bytes(&p, want, n);
			scans += ids.n[id] == p.n;
			cs_frame_pick_fini(&p);
		}
	}
	is_u64(bad, 0, "random frames: bytes and places of each id");
	is_u64(scans, 160, "random frames: the scan counts the same");
	free(in);
	free(want);
}

static uint8_t *load(const char *path, size_t *len)
{
	uint8_t *data = malloc(FILE_MAX);
	FILE *f = fopen(path, "rb");

	*len = f && data ? fread(data, 1, FILE_MAX, f) : 0;
	if (f)
		fclose(f);
	return data;
}

/*
 * Compares the bytes of one listed packet with the next picked ones. OpenCSD lists a
 * packet that began in another frame at an inexact offset: those that are off by more
 * than 32 bytes are counted in *far.
 */
static bool check_line(struct cs_frame_pick *p, size_t *at, const char *line,
		       unsigned long idx, unsigned *far)
{
	uint64_t place = place_of(p, *at);
	char *end;

	line = strstr(line, "; [");
	if (!line)
		return true;
	*far += place > idx + 32 || idx > place + 32;
	for (line += 3; *line == '0'; line = end + 1) {
		unsigned long v = strtoul(line, &end, 16);

		if (end == line || *at == p->n || p->data[(*at)++] != v)
			return false;
	}
	return true;
}

/* A buffer's frames against OpenCSD's list of its packets. */
static void test_list(const char *corpus, const char *name, const char *file)
{
	struct cs_frame_pick p[CS_FRAME_ID_MAX + 1];
	size_t at[CS_FRAME_ID_MAX + 1] = { 0 }, len, n = 0, left = 0;
	char cmd[1024], line[4096];
	unsigned bad = 0, far = 0, id;
	unsigned long idx;
	uint8_t *data;
	FILE *f;

	snprintf(cmd, sizeof(cmd), "%s/opencsd/snapshots/%s/%s", corpus, name,
		 file);
	data = load(cmd, &len);
	for (id = 0; id <= CS_FRAME_ID_MAX; id++) {
		cs_frame_pick_init(&p[id], (uint8_t)id);
		cs_frame_pick_add(&p[id], data, len);
	}
	snprintf(cmd, sizeof(cmd), "zcat '%s/opencsd/ref-1.8.0/%s.ppl.gz'",
		 corpus, name);
	f = popen(cmd, "r");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Idx:%lu; ID:%x", &idx, &id) == 2 && id > 0 &&
		    id <= CS_FRAME_ID_MAX)
			bad += !check_line(&p[id], &at[id], line, idx, &far);
	}
	if (f)
		pclose(f);
	for (id = 0; id <= CS_FRAME_ID_MAX; id++) {
		n += at[id];
		left += at[id] ? p[id].n - at[id] : 0;
		cs_frame_pick_fini(&p[id]);
	}
	ok(far < 5, "%s: places", name);
	ok(!bad && n, "%s: %zu bytes in %zu as OpenCSD lists them", name, n,
	   len);
	ok(left < 16, "%s: %zu bytes are not listed", name, left);
	free(data);
}

int main(void)
{
	const char *corpus = getenv("AUXKIT_CORPUS");
	char path[1024];
	FILE *f;

	test_hand();
	test_barrier();
	test_random();
	corpus = corpus ? corpus : "../shared/corpus";
	snprintf(path, sizeof(path), "%s/cases.tsv", corpus);
	f = fopen(path, "r");
	if (!f) {
		skip("corpus: not here (set AUXKIT_CORPUS)");
		return plan_done();
	}
	fclose(f);
	test_list(corpus, "juno_r1_1", "cstrace.bin");
	test_list(corpus, "TC2", "cstrace.bin");
	test_list(corpus, "juno-uname-001", "uname_trace.bin");
	test_list(corpus, "test-file-mem-offsets", "trace.bin");
	test_list(corpus, "a57_single_step", "CSTMC_TRACE_FIFO.bin");
	return plan_done();
}
