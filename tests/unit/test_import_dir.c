/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * perf.data as a directory: all records of `data` and data.N, in either byte order, each
 * file with a zstd stream of its own; truncated or missing files, unknown versions. Intact
 * files are read; damage is reported last.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include "decode/lib/import/import.h"
#include "tests/unit/readerfile.h"
#include "tests/unit/tap.h"

#define PER_FILE 40

static char dir[4096];

static void write_file(const char *name, const void *p, size_t n)
{
	char path[4200];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "wb");
	if (!f || fwrite(p, 1, n, f) != n || fclose(f))
		ok(false, "cannot write %s", path);
}

static void remove_file(const char *name)
{
	char path[4200];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	unlink(path);
}

/* n AUX records that count from first. */
static void aux_records(struct buf *b, bool swap, unsigned first, unsigned n)
{
	b->n = 0;
	b->swap = swap;
	for (unsigned i = first; i < first + n; i++) {
		size_t at = begin(b, PERF_RECORD_AUX, 0);

		u64(b, i);
		u64(b, 1);
		u64(b, 0);
		trailer(b, 1, 1, 0, 77);
		end(b, at);
	}
}

/* Reads all: the AUX records that count from 0, then the error or 0. */
static int count_aux(struct aux_reader *r, unsigned *n, struct aux_diag *diag)
{
	struct aux_event e;
	int ret;

	*n = 0;
	while ((ret = aux_reader_next(r, &e, diag)) == 1)
		if (e.type == PERF_RECORD_AUX && e.aux.size == 1)
			*n += e.aux.offset == *n;
	return ret;
}

static void expect(unsigned want, int code, const char *what)
{
	struct aux_diag diag = { 0 };
	struct aux_reader *r;
	unsigned first, second;
	int ret1, ret2;

	if (!ok(!import_open(&r, dir, NULL, &diag), "%s opens %s", what,
		diag.text))
		return;
	ret1 = count_aux(r, &first, &diag);
	aux_reader_rewind(r);
	ret2 = count_aux(r, &second, &diag);
	ok(first == want && ret1 == -code && second == first && ret2 == ret1 &&
	   (!code || !strncmp(diag.text, "in data.2: ", 11)),
	   "%s: %u of %u records, status %d; again %u, %d %s", what, first,
	   want, ret1, second, ret2, ret1 ? diag.text : "");
	aux_reader_close(r);
}

static void refuse(int code, const char *what)
{
	struct aux_diag diag = { 0 };
	struct aux_reader *r;
	int ret = import_open(&r, dir, NULL, &diag);

	ok(ret == -code && !r && diag.text[0], "%s: %s", what, diag.text);
}

static void test_parts(bool swap)
{
	static struct buf b;
	char name[16];
	const char *order = swap ? "foreign order" : "native order";

	build_file(&b, swap, 128);
	write_file("data", b.p, b.n);
	expect(0, 0, order);
	for (unsigned i = 0; i < 12; i++) {
		aux_records(&b, swap, i * PER_FILE, PER_FILE);
		snprintf(name, sizeof(name), "data.%u", i);
		write_file(name, b.p, b.n);
	}
	expect(12 * PER_FILE, 0, "twelve files, by number, not by name");
	write_file("data.12", b.p, 0);
	expect(12 * PER_FILE, 0, "an empty one");
	/* the last record of the third is cut; those behind it count on */
	aux_records(&b, swap, 2 * PER_FILE, PER_FILE);
	write_file("data.2", b.p, b.n - 8);
	aux_records(&b, swap, 3 * PER_FILE - 1, PER_FILE);
	write_file("data.3", b.p, b.n);
	for (unsigned i = 4; i < 12; i++) {
		aux_records(&b, swap, i * PER_FILE - 1, PER_FILE);
		snprintf(name, sizeof(name), "data.%u", i);
		write_file(name, b.p, b.n);
	}
	expect(12 * PER_FILE - 1, AUX_E_TRUNCATED, "a cut file takes its own");
	remove_file("data.3");
	refuse(AUX_E_FORMAT, "a file is missing");
	for (unsigned i = 0; i < 13; i++) {
		snprintf(name, sizeof(name), "data.%u", i);
		remove_file(name);
	}
}

#ifdef HAVE_ZSTD
static void test_zstd(void)
{
	static struct buf b, in;
	static uint8_t z[1 << 17];
	char name[16];

	build_file(&b, false, 128);
	write_file("data", b.p, b.n);
	for (unsigned i = 0; i < 3; i++) {
		ZSTD_CStream *s = ZSTD_createCStream();
		ZSTD_outBuffer out = { z, sizeof(z), 0 };
		ZSTD_inBuffer from;
		size_t at;

		aux_records(&in, false, i * PER_FILE, PER_FILE);
		from = (ZSTD_inBuffer){ in.p, in.n, 0 };
		ZSTD_compressStream(s, &out, &from);
		ZSTD_flushStream(s, &out); /* as perf: the frame stays open */
		ZSTD_freeCStream(s);
		b.n = 0;
		at = begin(&b, AUX_RECORD_COMPRESSED, 0);
		put(&b, z, out.pos);
		end(&b, at);
		snprintf(name, sizeof(name), "data.%u", i);
		write_file(name, b.p, b.n);
	}
	expect(3 * PER_FILE, 0, "a stream in each file");
	for (unsigned i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "data.%u", i);
		remove_file(name);
	}
}
#endif

/* DIR_FORMAT in the place of HOSTNAME. */
static void test_version(void)
{
	static struct buf b;
	size_t table;
	uint64_t at;

	build_file(&b, false, 128);
	memcpy(&at, b.p + 40, 8);
	memcpy(&table, b.p + 48, 8);
	table += at;
	patch(&b, 72, 1 << AUX_FEAT_DIR_FORMAT | 1 << AUX_FEAT_CMDLINE, 8);
	memcpy(&at, b.p + table, 8);
	memcpy(b.p + table, b.p + table + 16, 16);
	patch(&b, table + 16, at, 8);
	patch(&b, table + 24, 8, 8);
	patch(&b, at, 1, 8);
	write_file("data", b.p, b.n);
	aux_records(&b, false, 0, 3);
	write_file("data.0", b.p, b.n);
	expect(3, 0, "version 1");
	build_file(&b, false, 128);
	patch(&b, 72, 1 << AUX_FEAT_DIR_FORMAT | 1 << AUX_FEAT_CMDLINE, 8);
	memcpy(b.p + table, b.p + table + 16, 16);
	patch(&b, table + 16, at, 8);
	patch(&b, table + 24, 8, 8);
	patch(&b, at, 2, 8);
	write_file("data", b.p, b.n);
	refuse(AUX_E_UNSUPPORTED, "version 2");
	remove_file("data.0");
}

/* A writer that was killed has set no size of `data`, and no features. */
static void test_killed(void)
{
	static struct buf b;
	struct place pl = build_file(&b, false, 128);

	patch(&b, 48, 0, 8);
	write_file("data", b.p, pl.data_end);
	aux_records(&b, false, 0, 5);
	write_file("data.0", b.p, b.n);
	aux_records(&b, false, 5, 5);
	write_file("data.1", b.p, b.n);
	expect(10, 0, "a killed writer's");
	remove_file("data.0");
	remove_file("data.1");
}

static void test_kcore(void)
{
	char path[4200];
	char *kcore;

	ok(!import_kcore(dir), "no kcore");
	snprintf(path, sizeof(path), "%s/kcore_dir", dir);
	mkdir(path, 0700);
	ok(!import_kcore(dir), "kcore_dir without one");
	write_file("kcore_dir/kcore", "x", 1);
	kcore = import_kcore(dir);
	is_str(kcore, path, "kcore_dir with one");
	free(kcore);
	remove_file("kcore_dir/kcore");
	rmdir(path);
}

static void test_others(void)
{
	write_file("data", "", 0);
	refuse(AUX_E_FORMAT, "an empty `data`");
	remove_file("data");
	refuse(AUX_E_FORMAT, "a directory without `data`");
}

int main(void)
{
	const char *scratch = getenv("SCRATCH");

	snprintf(dir, sizeof(dir), "%s/perf-dir-XXXXXX",
		 scratch ? scratch : "/tmp");
	if (!mkdtemp(dir))
		return 1;
	test_parts(false);
	test_parts(true);
#ifdef HAVE_ZSTD
	test_zstd();
#endif
	test_version();
	test_killed();
	test_kcore();
	test_others();
	rmdir(dir);
	return plan_done();
}
