/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * parquet_file: the same rows give the same bytes, memory does not grow with them, and a
 * full disk is an error. With a directory as argument it writes there what readers of
 * others are to find (t_tables.sh): rows.parquet, rows.tsv with the same rows as text,
 * and empty.parquet.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "decode/export/parquet_file.h"
#include "tests/unit/tap.h"

#define ROWS (2 * PARQUET_ROWS + 4321)	/* the last group is not full */

static const struct table rows_table = { "rows", true, 15, {
	{ "id", COLUMN_NUMBER }, { "up", COLUMN_NUMBER }, { "walk", COLUMN_NUMBER },
	{ "any", COLUMN_NUMBER }, { "extreme", COLUMN_NUMBER }, { "few", COLUMN_NUMBER },
	{ "runs", COLUMN_NUMBER }, { "same", COLUMN_NUMBER }, { "wide", COLUMN_NUMBER },
	{ "nothing", COLUMN_SOME_NUMBER }, { "some", COLUMN_SOME_NUMBER },
	{ "rare", COLUMN_SOME_NUMBER }, { "word", COLUMN_TEXT }, { "text", COLUMN_TEXT },
	{ "none", COLUMN_TEXT } } };

static uint64_t seed;

static uint64_t random_number(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* ---- text ---- */

#define TEXTS 200000
static struct export_name *names[TEXTS];

/* One of a kind, as the exporter's are: number and text belong together. */
static const struct export_name *name_of(uint32_t i)
{
	static const char *const odd[] = { "", "a", "tab\there", "quote\"'`", "back\\slash",
					   "line\nend\r", "\xe2\x82\xac \xf0\x9f\x98\x80",
					   "\x01\x7f", "\\N", "NULL" };
	char text[400];

	if (names[i])
		return names[i];
	if (i < sizeof(odd) / sizeof(odd[0]))
		snprintf(text, sizeof(text), "%s", odd[i]);
	else
		snprintf(text, sizeof(text), "name %0*u", (int)(i % 60), i);
	names[i] = malloc(sizeof(*names[i]) + strlen(text) + 1);
	names[i]->id = i;
	names[i]->len = (uint32_t)strlen(text);
	memcpy(names[i]->text, text, strlen(text) + 1);
	return names[i];
}

/* ---- rows ---- */

static void put_some(struct table_row *r, uint64_t v, bool known)
{
	r->nulls |= (uint32_t)!known << r->n;
	r->values[r->n++].v = v;
}

static void put_name(struct table_row *r, const struct export_name *name)
{
	r->nulls |= (uint32_t)!name << r->n;
	r->values[r->n++].text = name;
}

static void make_row(struct table_row *r, uint32_t i)
{
	static const uint64_t extremes[] = { 0, 1, UINT64_MAX, INT64_MAX,
					     (uint64_t)INT64_MAX + 1, INT64_MAX - 1,
					     UINT32_MAX, 255, 256 };
	static uint64_t walk, run;
	uint64_t any = random_number();

	if (!i)
		walk = run = 0;
	walk += (any & 0xffff) - 0x8000;
	run += any % 50 == 0;
	r->n = r->nulls = 0;
	put_some(r, i + 1, true);
	put_some(r, (uint64_t)i * 1000 + any % 1000 + (1ull << 50), true);
	put_some(r, walk, true);
	put_some(r, any, true);
	put_some(r, extremes[any % 9], true);
	put_some(r, any % 7 << 40, true);
	put_some(r, run % 5, true);
	put_some(r, 1ull << 60, true);
	put_some(r, any >> (any % 60), true);
	put_some(r, 0, false);
	put_some(r, any % 1000, any % 3);
	put_some(r, any, i % 70000 == 69999);
	put_name(r, name_of((uint32_t)(any % 17)));
	put_name(r, any % 5 ? name_of((uint32_t)(any >> 20) % TEXTS) : NULL);
	put_name(r, NULL);
}

static void write_text(FILE *out, const char *s)
{
	for (; *s; s++)
		if (*s == '\\' || *s == '\t' || *s == '\n' || *s == '\r')
			fprintf(out, "\\%c", *s == '\\' ? '\\' : *s == '\t' ? 't' :
					      *s == '\n' ? 'n' : 'r');
		else
			fputc(*s, out);
}

static void write_row(FILE *out, const struct table_row *r)
{
	for (unsigned i = 0; i < r->n; i++) {
		if (i)
			fputc('\t', out);
		if (table_is_null(r, i))
			fputs("\\N", out);
		else if (rows_table.columns[i].kind == COLUMN_TEXT)
			write_text(out, r->values[i].text->text);
		else
			fprintf(out, "%" PRId64, (int64_t)r->values[i].v);
	}
	fputc('\n', out);
}

/* Into fd, and into text unless that is NULL. */
static int write_rows(int fd, FILE *text, uint32_t n)
{
	struct parquet_file *f = parquet_file_new(fd, &rows_table, NULL);
	struct table_row r;
	int err = f ? 0 : -AUX_E_NOMEM;

	seed = 88172645463325252ull;
	for (uint32_t i = 0; i < n && !err; i++) {
		make_row(&r, i);
		if (text)
			write_row(text, &r);
		err = parquet_file_put(f, &r);
	}
	if (!err)
		err = parquet_file_finish(f);
	parquet_file_free(f);
	return err;
}

static int write_files(const char *dir)
{
	char path[4096];
	FILE *text;
	int fd, err;

	snprintf(path, sizeof(path), "%s/rows.tsv", dir);
	text = fopen(path, "w");
	snprintf(path, sizeof(path), "%s/rows.parquet", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	err = !text || fd < 0 || write_rows(fd, text, ROWS);
	close(fd);
	err |= fclose(text) != 0;
	snprintf(path, sizeof(path), "%s/empty.parquet", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	err |= fd < 0 || write_rows(fd, NULL, 0);
	close(fd);
	return err;
}

/* ---- tests ---- */

static int memory_file(uint32_t n)
{
	int fd = memfd_create("parquet", MFD_CLOEXEC);

	if (write_rows(fd, NULL, n))
		return -1;
	return fd;
}

static bool same_bytes(int a, int b)
{
	static char x[65536], y[65536];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(a, x, sizeof(x), at)) > 0) {
		if (pread(b, y, sizeof(y), at) != n || memcmp(x, y, (size_t)n))
			return false;
		at += n;
	}
	return !n && at > 8 && !pread(b, y, 1, at);
}

static void test_same(void)
{
	int a = memory_file(150000), b = memory_file(150000);

	ok(a >= 0 && b >= 0, "files are written");
	ok(same_bytes(a, b), "the same rows give the same bytes");
	close(a);
	close(b);
}

static void test_full(void)
{
	int fd = open("/dev/full", O_WRONLY);

	errno = 0;
	ok(write_rows(fd, NULL, 10) == -AUX_E_IO && errno == ENOSPC,
	   "a full disk is an error, when the file ends");
	ok(write_rows(fd, NULL, PARQUET_ROWS + 10) == -AUX_E_IO,
	   "and when a group does");
	close(fd);
}

static long memory(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_maxrss;
}

/* Seven more groups take no more than their lines of the footer. ASan keeps what is freed
 * for a while, and that does grow. */
static void test_memory(void)
{
#ifdef __SANITIZE_ADDRESS__
	const long more = 256 << 10;
#else
	const long more = 4 << 10;
#endif
	int fd = open("/dev/null", O_WRONLY);
	long before;

	ok(!write_rows(fd, NULL, 3 * PARQUET_ROWS), "three groups");
	before = memory();
	ok(!write_rows(fd, NULL, 10 * PARQUET_ROWS), "ten groups");
	ok(memory() - before < more, "memory does not grow with rows: %ld KB, %ld KB", before,
	   memory());
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc == 2)
		return write_files(argv[1]);
	for (uint32_t i = 0; i < TEXTS; i++)
		name_of(i);	/* not to be counted as memory */
	test_same();
	test_full();
	test_memory();
	parquet_file_free(NULL);
	for (uint32_t i = 0; i < TEXTS; i++)
		free(names[i]);
	return plan_done();
}
