/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * The reader: files built here in both byte orders, cut at every place, pipes
 * and compressed records; then every perf.data of the corpus against the counts
 * of perf and of an independent walker. Inputs are exact-size heap copies, so
 * that a sanitizer sees every read past the end.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include <aux/reader.h>

#include "tap.h"

/* ---- building ---- */

struct buf {
	uint8_t p[1 << 18];
	size_t n;
	bool swap;
};

static void put(struct buf *b, const void *p, size_t n)
{
	memcpy(b->p + b->n, p, n);
	b->n += n;
}

static void put_num(struct buf *b, uint64_t v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		b->p[b->n + (b->swap ? n - 1 - i : i)] = (uint8_t)(v >> 8 * i);
	b->n += n;
}

static void u16(struct buf *b, uint16_t v) { put_num(b, v, 2); }
static void u32(struct buf *b, uint32_t v) { put_num(b, v, 4); }
static void u64(struct buf *b, uint64_t v) { put_num(b, v, 8); }

static void zeros(struct buf *b, size_t n)
{
	memset(b->p + b->n, 0, n);
	b->n += n;
}

static void string(struct buf *b, const char *s, size_t n)
{
	size_t len = strlen(s);

	put(b, s, len);
	zeros(b, n - len);
}

/* A number at an earlier place. */
static void patch(struct buf *b, size_t at, uint64_t v, size_t n)
{
	size_t save = b->n;

	b->n = at;
	put_num(b, v, n);
	b->n = save;
}

static size_t begin(struct buf *b, uint32_t type, uint16_t misc)
{
	size_t at = b->n;

	u32(b, type);
	u16(b, misc);
	u16(b, 0);
	return at;
}

static void end(struct buf *b, size_t at)
{
	patch(b, at + 6, b->n - at, 2);
}

#define TYPE                                                                   \
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |                \
	 PERF_SAMPLE_IDENTIFIER)

static void trailer(struct buf *b, uint32_t pid, uint64_t time, uint32_t cpu,
		    uint64_t id)
{
	u32(b, pid);
	u32(b, pid + 1);
	u64(b, time);
	u32(b, cpu);
	u32(b, 0);
	u64(b, id);
}

/* Flags mmap (8), comm (9), sample_id_all (18), context_switch (26). */
static void attr(struct buf *b, size_t size, uint64_t sample_type)
{
	static const uint8_t le[8] = { 0, 3, 4, 4 };
	static const uint8_t be[8] = { 0, 0xc0, 0x20, 0x20 };
	size_t at = b->n;

	u32(b, 9);
	u32(b, (uint32_t)size);
	u64(b, 0x300e601);
	u64(b, 1);
	u64(b, sample_type);
	u64(b, 4);
	put(b, b->swap ? be : le, 8);
	u32(b, 7);
	u32(b, 8);
	zeros(b, 8);
	if (size >= 112) {
		zeros(b, 24);
		u32(b, 0x1234);	/* sample_stack_user */
		u32(b, (uint32_t)-3);
		zeros(b, 8);
		u32(b, 0x8000);	/* aux_watermark */
		u16(b, 127);
		u16(b, 0);
	}
	zeros(b, at + size - b->n);
}

static const uint8_t payload[24] = { 2, 0x82, 2, 0x82, 0, 1, 2, 3 };

/* The records that all files here hold. */
enum { N_RECORDS = 8 };

static void records(struct buf *b)
{
	size_t at;

	at = begin(b, PERF_RECORD_COMM, 1 << 13);
	u32(b, 10);
	u32(b, 11);
	string(b, "prog", 8);
	trailer(b, 10, 1000, 3, 77);
	end(b, at);

	at = begin(b, PERF_RECORD_MMAP2, 1 << 14);
	u32(b, 10);
	u32(b, 11);
	u64(b, 0x401000);
	u64(b, 0x2000);
	u64(b, 0x1000);
	put(b, "\x14\0\0\0ABCDEFGHIJKLMNOPQRST", 24);
	u32(b, 5);
	u32(b, 2);
	string(b, "/bin/prog", 16);
	trailer(b, 10, 1001, 3, 78);
	end(b, at);

	at = begin(b, AUX_RECORD_AUXTRACE_INFO, 0);
	u32(b, 1);
	u32(b, 0);
	u64(b, 0x1122334455667788);
	u64(b, 31);
	end(b, at);

	at = begin(b, PERF_RECORD_SWITCH_CPU_WIDE, 3 << 13);
	u32(b, 20);
	u32(b, 21);
	trailer(b, 10, 1002, 2, 77);
	end(b, at);

	at = begin(b, PERF_RECORD_SAMPLE, 2);
	u64(b, 78);
	u32(b, 10);
	u32(b, 11);
	u64(b, 1003);
	u32(b, 1);
	u32(b, 0);
	end(b, at);

	at = begin(b, PERF_RECORD_AUX, 0);
	u64(b, 64);
	u64(b, sizeof(payload) - 3);
	u64(b, 5);
	trailer(b, 10, 1004, 3, 77);
	end(b, at);

	at = begin(b, AUX_RECORD_AUXTRACE, 0);
	u64(b, sizeof(payload));
	u64(b, 64);
	u64(b, 99);
	u32(b, 3);
	u32(b, (uint32_t)-1);
	u32(b, 3);
	u32(b, 0);
	end(b, at);
	put(b, payload, sizeof(payload));

	at = begin(b, AUX_RECORD_FINISHED_ROUND, 0);
	end(b, at);
}

static void feature_string(struct buf *b, const char *s)
{
	u32(b, 64);
	string(b, s, 64);
}

static void cmdline(struct buf *b)
{
	u32(b, 3);
	feature_string(b, "perf");
	feature_string(b, "record");
	feature_string(b, "ls");
}

static const char source_text[] = "source=soft_pt\nbackend=step\n";

static void source(struct buf *b)
{
	u32(b, 1);
	u32(b, sizeof(source_text) - 1);
	put(b, source_text, sizeof(source_text) - 1);
}

/* Where things are in a file from build_file. */
struct place {
	size_t data, data_end;
};

static void section(struct buf *b, size_t at, size_t offset)
{
	patch(b, at, offset, 8);
	patch(b, at + 8, b->n - offset, 8);
}

static struct place build_file(struct buf *b, bool swap, size_t attr_size)
{
	struct place pl;
	size_t at, ids;

	b->n = 0;
	b->swap = swap;
	u64(b, AUX_PERF_MAGIC2);
	u64(b, 104);
	u64(b, attr_size + 16);
	zeros(b, 80);
	ids = b->n;
	u64(b, 77);
	u64(b, 78);
	patch(b, 24, b->n, 8);
	patch(b, 32, attr_size + 16, 8);
	attr(b, attr_size, TYPE);
	u64(b, ids);
	u64(b, 16);
	pl.data = b->n;
	records(b);
	pl.data_end = b->n;
	section(b, 40, pl.data);
	/* features 3, 11 and 240 */
	patch(b, 72, 1 << AUX_FEAT_HOSTNAME | 1 << AUX_FEAT_CMDLINE, 8);
	patch(b, 96, UINT64_C(1) << (AUX_FEAT_AUXKIT_SOURCE - 192), 8);
	zeros(b, 48);
	at = b->n;
	feature_string(b, "box");
	section(b, pl.data_end, at);
	at = b->n;
	cmdline(b);
	section(b, pl.data_end + 16, at);
	at = b->n;
	source(b);
	section(b, pl.data_end + 32, at);
	return pl;
}

/* ---- reading ---- */

static void *copy_of(const struct buf *b, size_t n)
{
	void *p = malloc(n ? n : 1);

	memcpy(p, b->p, n);
	return p;
}

static void check_records(struct aux_reader *r, const char *what)
{
	struct aux_event e;
	bool good = true;
	unsigned n = 0;

	while (aux_reader_next(r, &e, NULL) == 1) {
		if (e.type == PERF_RECORD_COMM)
			good &= e.comm.pid == 10 && e.comm.tid == 11 &&
				e.comm.exec && !strcmp(e.comm.comm, "prog") &&
				e.id.pid == 10 && e.id.tid == 11 &&
				e.id.time == 1000 && e.id.cpu == 3 &&
				e.id.id == 77 && e.id.present == TYPE &&
				e.attr == aux_reader_attr(r, 0);
		else if (e.type == PERF_RECORD_MMAP2)
			good &= e.mmap.addr == 0x401000 && e.mmap.prot == 5 &&
				e.mmap.pgoff == 0x1000 && e.mmap.flags == 2 &&
				e.mmap.build_id_size == 20 &&
				!memcmp(e.mmap.build_id, "ABCDE", 5) &&
				!strcmp(e.mmap.path, "/bin/prog");
		else if (e.type == AUX_RECORD_AUXTRACE_INFO)
			good &= e.auxtrace_info.trace_type == 1 &&
				e.auxtrace_info.n_priv == 2 &&
				e.auxtrace_info.priv[0] ==
					0x1122334455667788 &&
				e.auxtrace_info.priv[1] == 31;
		else if (e.type == PERF_RECORD_SWITCH_CPU_WIDE)
			good &= e.sw.out && e.sw.preempt && e.sw.cpu_wide &&
				e.sw.next_prev_tid == 21 && e.id.cpu == 2;
		else if (e.type == PERF_RECORD_SAMPLE)
			good &= e.id.id == 78 && e.id.tid == 11 &&
				e.id.time == 1003 && e.id.cpu == 1;
		else if (e.type == PERF_RECORD_AUX)
			good &= e.aux.offset == 64 && e.aux.size == 21 &&
				e.aux.flags == 5 && e.id.time == 1004;
		else if (e.type == AUX_RECORD_AUXTRACE)
			good &= e.auxtrace.h.size == sizeof(payload) &&
				e.auxtrace.h.idx == 3 &&
				e.auxtrace.h.tid == UINT32_MAX &&
				e.auxtrace.payload.len == sizeof(payload) &&
				!memcmp(e.auxtrace.payload.data, payload,
					sizeof(payload));
		else
			continue;
		n++;
		if (!good) {
			ok(false, "%s: fields of type %u", what, e.type);
			return;
		}
	}
	ok(n == N_RECORDS - 1, "%s: every field of %u records", what, n);
}

static void check_attr(const struct aux_reader *r, size_t size,
		       const char *what)
{
	const struct aux_attr *a = aux_reader_attr(r, 0);

	ok(a && a->file_size == size && a->attr.type == 9 &&
	   a->attr.config == 0x300e601 && a->attr.sample_type == TYPE &&
	   a->attr.mmap && a->attr.comm && a->attr.sample_id_all &&
	   a->attr.context_switch && !a->attr.inherit && !a->attr.freq &&
	   a->attr.wakeup_events == 7 && a->attr.bp_type == 8 &&
	   a->n_ids == 2 && a->ids[0] == 77 && a->ids[1] == 78 &&
	   aux_reader_attr_by_id(r, 78) == a && !aux_reader_attr_by_id(r, 1) &&
	   !aux_reader_attr(r, 1), "%s: the attr", what);
	if (a && size >= 112)
		ok(a->attr.sample_stack_user == 0x1234 &&
		   a->attr.clockid == -3 && a->attr.aux_watermark == 0x8000 &&
		   a->attr.sample_max_stack == 127, "%s: its tail", what);
}

static void check_features(const struct aux_reader *r, const char *what)
{
	const struct aux_file_info *f = aux_reader_info(r);
	const char *s = aux_reader_source(r, "backend");

	ok(f->hostname && !strcmp(f->hostname, "box") && f->cmdline &&
	   !strcmp(f->cmdline, "perf record ls") && !f->arch && s &&
	   !strcmp(s, "step") && !aux_reader_source(r, "back"),
	   "%s: the features", what);
}

static void test_files(struct buf *b)
{
	static const size_t sizes[] = { 64, 72, 112, 128, 136, 4096 };

	for (unsigned i = 0; i < 12; i++) {
		bool swap = i & 1;
		size_t size = sizes[i / 2];
		struct aux_diag diag = { 0 };
		struct aux_reader *r;
		char what[64];
		void *p;

		build_file(b, swap, size);
		p = copy_of(b, b->n);
		snprintf(what, sizeof(what), "attr of %zu bytes, %s order",
			 size, swap ? "foreign" : "native");
		if (!ok(!aux_reader_open_mem(&r, p, b->n, "x", &diag), "%s%s",
			what, diag.text))
			continue;
		check_attr(r, size, what);
		check_features(r, what);
		check_records(r, what);
		aux_reader_rewind(r);
		check_records(r, "once more");
		aux_reader_close(r);
		free(p);
	}
}

/* Offsets of the ends of the records (and payloads) of b. */
static size_t whole_records(const size_t *ends, size_t n, size_t cut)
{
	size_t k = 0;

	while (k < n && ends[k] <= cut)
		k++;
	return k;
}

/* A file cut anywhere: all whole records, then -AUX_E_TRUNCATED. */
static void test_cuts(struct buf *b, bool unfinished)
{
	struct place pl = build_file(b, false, 112);
	size_t ends[N_RECORDS], n = 0, wrong = 0, clipped = 0;
	struct aux_reader *r;
	struct aux_event e;

	if (unfinished)
		patch(b, 48, 0, 8);
	for (size_t at = pl.data; at < pl.data_end; n++) {
		at += b->p[at + 6] | b->p[at + 7] << 8;
		if (n == 6)
			at += sizeof(payload);
		ends[n] = at;
	}
	for (size_t cut = 0; cut < pl.data_end; cut++) {
		struct aux_diag diag = { .offset = 1 };
		void *p = copy_of(b, cut);
		size_t want = whole_records(ends, n, cut), got = 0;
		int ret = aux_reader_open_mem(&r, p, cut, "x", &diag);

		if (ret) {
			wrong += cut >= pl.data || !diag.text[0];
			free(p);
			continue;
		}
		while ((ret = aux_reader_next(r, &e, &diag)) == 1) {
			if (e.type == AUX_RECORD_AUXTRACE &&
			    e.auxtrace.clipped) {
				want++;
				clipped++;
				wrong += e.auxtrace.payload.len !=
					 cut - e.auxtrace.payload_offset;
			}
			got++;
		}
		if (unfinished && cut == (want ? ends[want - 1] : pl.data))
			wrong += ret != 0;
		else
			wrong += ret != -AUX_E_TRUNCATED || !diag.text[0] ||
				 diag.offset > cut;
		wrong += got != want || aux_reader_next(r, &e, NULL) != ret;
		aux_reader_close(r);
		free(p);
	}
	ok(!wrong && clipped == sizeof(payload),
	   "%s file cut at each of %zu places", unfinished ? "an unfinished" :
	   "a finished", pl.data_end);
}

static void build_pipe(struct buf *b, bool swap)
{
	size_t at;

	b->n = 0;
	b->swap = swap;
	u64(b, AUX_PERF_MAGIC2);
	u64(b, 16);
	at = begin(b, AUX_RECORD_HEADER_ATTR, 0);
	attr(b, 136, TYPE);
	u64(b, 77);
	u64(b, 78);
	end(b, at);
	at = begin(b, AUX_RECORD_EVENT_UPDATE, 0);
	u64(b, 2);
	u64(b, 78);
	string(b, "intel_pt//u", 16);
	end(b, at);
	at = begin(b, AUX_RECORD_HEADER_FEATURE, 0);
	u64(b, AUX_FEAT_HOSTNAME);
	feature_string(b, "box");
	end(b, at);
	at = begin(b, AUX_RECORD_HEADER_FEATURE, 0);
	u64(b, AUX_FEAT_CMDLINE);
	cmdline(b);
	end(b, at);
	at = begin(b, AUX_RECORD_HEADER_FEATURE, 0);
	u64(b, AUX_FEAT_AUXKIT_SOURCE);
	source(b);
	end(b, at);
	records(b);
}

/* Through a real pipe, so that the bytes are spooled. */
static void test_pipe(struct buf *b, bool swap)
{
	const char *what = swap ? "a foreign pipe" : "a pipe";
	struct aux_reader *r;
	struct aux_diag diag = { 0 };
	char path[32];
	int fd[2];

	build_pipe(b, swap);
	if (pipe(fd) || write(fd[1], b->p, b->n) != (ssize_t)b->n) {
		ok(false, "cannot fill a pipe");
		return;
	}
	close(fd[1]);
	snprintf(path, sizeof(path), "/dev/fd/%d", fd[0]);
	if (ok(!aux_reader_open(&r, path, &diag), "%s%s", what, diag.text)) {
		check_attr(r, 136, what);
		is_str(aux_reader_attr(r, 0)->name, "intel_pt//u",
		       "EVENT_UPDATE names it");
		check_features(r, what);
		check_records(r, what);
		ok(aux_reader_info(r)->pipe, "%s is known as one", what);
		aux_reader_close(r);
	}
	close(fd[0]);
}

/* Attrs whose trailers differ: the id at the end tells which. */
static void test_two_attrs(struct buf *b)
{
	const uint64_t type[2] = { TYPE, TYPE & ~(uint64_t)PERF_SAMPLE_CPU };
	struct aux_reader *r;
	struct aux_event e[4];
	unsigned n = 0;
	size_t at;

	b->n = 0;
	b->swap = false;
	u64(b, AUX_PERF_MAGIC2);
	u64(b, 16);
	for (uint64_t i = 0; i < 2; i++) {
		at = begin(b, AUX_RECORD_HEADER_ATTR, 0);
		attr(b, 128, type[i]);
		u64(b, 77 + i);
		end(b, at);
	}
	for (uint64_t i = 0; i < 3; i++) {
		at = begin(b, PERF_RECORD_COMM, 0);
		u64(b, 0);
		string(b, "x", 8);
		u64(b, 5);
		u64(b, 100 + i);
		if (i != 1)
			u64(b, 6);
		u64(b, i < 2 ? 77 + i : 0);
		end(b, at);
	}
	at = begin(b, PERF_RECORD_SAMPLE, 0);
	u64(b, 78);
	u64(b, 5);
	u64(b, 103);
	end(b, at);
	if (!ok(!aux_reader_open_mem(&r, b->p, b->n, "x", NULL), "opens"))
		return;
	while (n < 4 && aux_reader_next(r, &e[n], NULL) == 1)
		n += e[n].type < 64;
	ok(n == 4 && e[0].attr == aux_reader_attr(r, 0) &&
	   e[0].id.time == 100 && e[0].id.cpu == 6 &&
	   e[1].attr == aux_reader_attr(r, 1) && e[1].id.time == 101 &&
	   e[1].id.present == type[1] && e[1].id.pid == 5 &&
	   !strcmp(e[1].comm.comm, "x"), "each record by its own attr");
	ok(n == 4 && e[2].attr == aux_reader_attr(r, 0) && !e[2].id.present,
	   "id 0 where trailers differ: nothing is guessed");
	ok(n == 4 && e[3].attr == aux_reader_attr(r, 1) &&
	   e[3].id.time == 103 && e[3].id.id == 78, "a sample by its attr");
	aux_reader_close(r);
}

/* ---- compression ---- */

#ifdef HAVE_ZSTD

static void put_compressed(struct buf *b, uint32_t type, const uint8_t *p,
			   size_t n)
{
	size_t at = begin(b, type, 0);

	if (type == AUX_RECORD_COMPRESSED2)
		u64(b, n);
	put(b, p, n);
	if (type == AUX_RECORD_COMPRESSED2)
		zeros(b, -n & 7);
	end(b, at);
}

/* As perf 6.16 does when its 16 bits overflow: total in the first, no pad. */
static void put_overflown(struct buf *b, const uint8_t *p, size_t n)
{
	size_t at = begin(b, AUX_RECORD_COMPRESSED2, 0), start = b->n;
	size_t first = n > 65519 ? 65519 : n, sub;

	u64(b, 0);
	put(b, p, first);
	if (n > first) {
		sub = begin(b, AUX_RECORD_COMPRESSED2, 0);
		u64(b, 0xdeadbeef);
		put(b, p + first, n - first);
		end(b, sub);
	}
	patch(b, start, b->n - at - 16, 8);
	patch(b, at + 6, (b->n - at + 7) & ~7UL, 2);
}

/* n records whose bytes do not compress well. */
static void many_records(struct buf *b, unsigned n)
{
	uint64_t s = 88172645463325252;

	b->n = 0;
	b->swap = false;
	for (unsigned i = 0; i < n; i++) {
		size_t at = begin(b, PERF_RECORD_AUX, 0);

		for (int k = 0; k < 3; k++) {
			s ^= s << 13;
			s ^= s >> 7;
			s ^= s << 17;
			u64(b, k ? s : i);
		}
		trailer(b, i, i + 1, 0, 77);
		end(b, at);
	}
}

/* Reads all; returns how many AUX records came in order, ~0 on an error. */
static unsigned count_in_order(struct aux_reader *r, const void **last)
{
	struct aux_diag diag;
	struct aux_event e;
	unsigned n = 0;
	int ret;

	while ((ret = aux_reader_next(r, &e, &diag)) == 1) {
		if (e.type != PERF_RECORD_AUX)
			continue;
		if (e.aux.offset != n || e.id.time != n + 1)
			return ~0U;
		*last = e.raw.data;
		n++;
	}
	if (ret)
		printf("# %s\n", diag.text);
	return ret ? ~0U : n;
}

static void test_compressed(struct buf *b, uint32_t type, size_t step,
			    bool overflow)
{
	static struct buf in;
	static uint8_t z[1 << 18];
	const unsigned want = overflow ? 3500 : 400;
	const void *first = NULL, *second = NULL;
	struct aux_reader *r;
	size_t n, at;
	void *p;

	many_records(&in, want);
	n = ZSTD_compress(z, sizeof(z), in.p, in.n, 1);
	b->n = 0;
	b->swap = false;
	u64(b, AUX_PERF_MAGIC2);
	u64(b, 16);
	at = begin(b, AUX_RECORD_HEADER_ATTR, 0);
	attr(b, 128, TYPE);
	u64(b, 77);
	end(b, at);
	for (size_t k = 0; k < n && !overflow; k += step)
		put_compressed(b, type, z + k, n - k < step ? n - k : step);
	if (overflow && step)
		put_overflown(b, z, n);
	else if (overflow) {
		put_overflown(b, z, 65519);
		put_compressed(b, type, z + 65519, n - 65519);
	}
	p = copy_of(b, b->n);
	if (!ok(!aux_reader_open_mem(&r, p, b->n, "x", NULL), "opens"))
		return;
	is_u64(count_in_order(r, &first), want,
	       overflow ? "records of an overflown COMPRESSED2" :
	       type == AUX_RECORD_COMPRESSED ? "records of COMPRESSED" :
					       "records of COMPRESSED2");
	aux_reader_rewind(r);
	ok(count_in_order(r, &second) == want && first == second,
	   "a second pass gives the same pointers");
	aux_reader_close(r);
	free(p);
	/* Cut: an error or (between records) the end, equal on every pass. */
	for (size_t cut = 200; cut < b->n; cut += 1 + b->n / 64) {
		struct aux_event e;
		int ret1, ret2;

		p = copy_of(b, cut);
		if (aux_reader_open_mem(&r, p, cut, "x", NULL))
			continue;
		while ((ret1 = aux_reader_next(r, &e, NULL)) == 1)
			;
		aux_reader_rewind(r);
		while ((ret2 = aux_reader_next(r, &e, NULL)) == 1)
			;
		if (ret1 != ret2)
			ok(false, "cut at %zu: %d, then %d", cut, ret1, ret2);
		aux_reader_close(r);
		free(p);
	}
}

static void test_zstd(struct buf *b)
{
	test_compressed(b, AUX_RECORD_COMPRESSED, 1001, false);
	test_compressed(b, AUX_RECORD_COMPRESSED, 7, false);
	test_compressed(b, AUX_RECORD_COMPRESSED2, 1001, false);
	test_compressed(b, AUX_RECORD_COMPRESSED2, 1, true);
	test_compressed(b, AUX_RECORD_COMPRESSED2, 0, true);
}
#else
static void test_zstd(struct buf *b)
{
	(void)b;
	skip("built without libzstd");
}
#endif

/* ---- refusals ---- */

static void refuse(const char *path, int code, const char *what)
{
	struct aux_diag diag = { 0 };
	struct aux_reader *r;
	int ret = aux_reader_open(&r, path, &diag);

	ok(ret == -code && !r && diag.code == code && diag.text[0], "%s: %s",
	   what, diag.text);
}

static void test_refusals(struct buf *b)
{
	struct aux_reader *r;
	struct aux_event e;
	struct aux_diag diag;
	struct place pl;
	int n = 0, ret;

	refuse("/", AUX_E_UNSUPPORTED, "a directory");
	refuse("/dev/null", AUX_E_FORMAT, "an empty file");
	refuse("/proc/self/exe", AUX_E_FORMAT, "another format");
	refuse("/no/such/file", AUX_E_IO, "no file");

	pl = build_file(b, false, 112);
	patch(b, pl.data + 56 + 6, 0, 2);
	if (!ok(!aux_reader_open_mem(&r, b->p, b->n, "x", NULL), "opens"))
		return;
	while ((ret = aux_reader_next(r, &e, &diag)) == 1)
		n++;
	ok(n == 1 && ret == -AUX_E_FORMAT && diag.offset == pl.data + 56,
	   "a record of size 0 ends the reading, and is named");
	aux_reader_close(r);
}

/* ---- the corpus ---- */

/* Names of the tables in the corpus for types. table */
static const struct {
	const char *name;
	uint32_t type;
} type_names[] = {
	{ "MMAP", 1 }, { "LOST", 2 }, { "COMM", 3 }, { "EXIT", 4 },
	{ "THROTTLE", 5 }, { "UNTHROTTLE", 6 }, { "FORK", 7 }, { "READ", 8 },
	{ "SAMPLE", 9 }, { "MMAP2", 10 }, { "AUX", 11 },
	{ "ITRACE_START", 12 }, { "LOST_SAMPLES", 13 }, { "SWITCH", 14 },
	{ "SWITCH_CPU_WIDE", 15 }, { "NAMESPACES", 16 }, { "ATTR", 64 },
	{ "EVENT_TYPE", 65 }, { "FINISHED_ROUND", 68 }, { "ID_INDEX", 69 },
	{ "AUXTRACE_INFO", 70 }, { "AUXTRACE", 71 }, { "THREAD_MAP", 73 },
	{ "CPU_MAP", 74 }, { "EVENT_UPDATE", 78 }, { "TIME_CONV", 79 },
	{ "FEATURE", 80 }, { "FINISHED_INIT", 82 },
};

static uint32_t type_of(const char *name)
{
	for (size_t i = 0; i < sizeof(type_names) / sizeof(type_names[0]); i++)
		if (!strcmp(type_names[i].name, name))
			return type_names[i].type;
	return 127;
}

/*
 * "COMM=2 MMAP=3" against counts; counts that the list lacks must be 0. perf
 * counts attrs of file mode as ATTR: those are no records.
 */
static bool same_counts(const char *list, const uint64_t *got, bool pipe_mode)
{
	uint64_t want[128] = { 0 };
	char name[32];
	unsigned long n;
	int used;

	while (sscanf(list, " %31[A-Z0-9_]=%lu%n", name, &n, &used) == 2) {
		want[type_of(name)] = n;
		list += used;
	}
	if (!pipe_mode)
		want[64] = 0;
	return !memcmp(want, got, sizeof(want));
}

static void check_file(const char *dir, char **field)
{
	uint64_t counts[128] = { 0 }, total = 0;
	struct aux_diag diag = { 0 };
	struct aux_reader *r;
	struct aux_event e;
	char path[4096];
	bool pipe_mode;
	int ret;

	snprintf(path, sizeof(path), "%s/%s", dir, field[0] + 2);
	if (!ok(!aux_reader_open(&r, path, &diag), "%s opens", field[0]))
		return;
	pipe_mode = aux_reader_info(r)->pipe;
	while ((ret = aux_reader_next(r, &e, &diag)) == 1) {
		counts[e.type < 127 ? e.type : 127]++;
		total++;
	}
	ok(total == strtoull(field[7], NULL, 10) &&
	   same_counts(field[9], counts, pipe_mode) &&
	   same_counts(field[10], counts, pipe_mode) &&
	   !!ret == (field[8][0] != '\0'),
	   "%s: %lu records by type as perf and the walker%s%s", field[0] + 2,
	   (unsigned long)total, ret ? ": " : "", diag.text);
	aux_reader_close(r);
}

static void test_corpus(void)
{
	const char *dir = getenv("AUXKIT_CORPUS");
	char line[4096], path[4096];
	FILE *f;

	if (!dir)
		dir = "../shared/corpus";
	snprintf(path, sizeof(path), "%s/robustness/summary.tsv", dir);
	f = fopen(path, "r");
	if (!f) {
		skip("no recorded traces: set AUXKIT_CORPUS");
		return;
	}
	while (fgets(line, sizeof(line), f)) {
		char *field[12] = { NULL }, *p = line;
		int n = 0;

		while (p && n < 12)
			field[n++] = strsep(&p, "\t\n");
		if (n == 12 && strcmp(field[0], "file"))
			check_file(dir, field);
	}
	fclose(f);
}

int main(void)
{
	static struct buf b;

	test_files(&b);
	test_cuts(&b, false);
	test_cuts(&b, true);
	test_pipe(&b, false);
	test_pipe(&b, true);
	test_two_attrs(&b);
	test_zstd(&b);
	test_refusals(&b);
	test_corpus();
	return plan_done();
}
