/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * readerfile: perf.data byte by byte, in either byte order, for the reader's
 * tests: attrs of any size, records, feature sections.
 */
#ifndef TESTS_UNIT_READERFILE_H
#define TESTS_UNIT_READERFILE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <aux/reader.h>

struct buf {
	uint8_t p[1 << 18];
	size_t n;
	bool swap;
};

__attribute__((unused))
static void put(struct buf *b, const void *p, size_t n)
{
	memcpy(b->p + b->n, p, n);
	b->n += n;
}

__attribute__((unused))
static void put_num(struct buf *b, uint64_t v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		b->p[b->n + (b->swap ? n - 1 - i : i)] = (uint8_t)(v >> 8 * i);
	b->n += n;
}

__attribute__((unused))
static void u16(struct buf *b, uint16_t v) { put_num(b, v, 2); }
__attribute__((unused))
static void u32(struct buf *b, uint32_t v) { put_num(b, v, 4); }
__attribute__((unused))
static void u64(struct buf *b, uint64_t v) { put_num(b, v, 8); }

__attribute__((unused))
static void zeros(struct buf *b, size_t n)
{
	memset(b->p + b->n, 0, n);
	b->n += n;
}

__attribute__((unused))
static void string(struct buf *b, const char *s, size_t n)
{
	size_t len = strlen(s);

	put(b, s, len);
	zeros(b, n - len);
}

/* A number at an earlier place. */
__attribute__((unused))
static void patch(struct buf *b, size_t at, uint64_t v, size_t n)
{
	size_t save = b->n;

	b->n = at;
	put_num(b, v, n);
	b->n = save;
}

__attribute__((unused))
static size_t begin(struct buf *b, uint32_t type, uint16_t misc)
{
	size_t at = b->n;

	u32(b, type);
	u16(b, misc);
	u16(b, 0);
	return at;
}

__attribute__((unused))
static void end(struct buf *b, size_t at)
{
	patch(b, at + 6, b->n - at, 2);
}

#define TYPE                                                                   \
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |                \
	 PERF_SAMPLE_IDENTIFIER)

__attribute__((unused))
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
__attribute__((unused))
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

__attribute__((unused))
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

__attribute__((unused))
static void feature_string(struct buf *b, const char *s)
{
	u32(b, 64);
	string(b, s, 64);
}

__attribute__((unused))
static void cmdline(struct buf *b)
{
	u32(b, 3);
	feature_string(b, "perf");
	feature_string(b, "record");
	feature_string(b, "ls");
}

static const char source_text[] = "source=soft_pt\nbackend=step\n";

__attribute__((unused))
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

__attribute__((unused))
static void section(struct buf *b, size_t at, size_t offset)
{
	patch(b, at, offset, 8);
	patch(b, at + 8, b->n - offset, 8);
}

__attribute__((unused))
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

/* An exact-size heap copy, so that a sanitizer sees a read past the end. */
__attribute__((unused))
static void *copy_of(const struct buf *b, size_t n)
{
	void *p = malloc(n ? n : 1);

	memcpy(p, b->p, n);
	return p;
}

#endif
