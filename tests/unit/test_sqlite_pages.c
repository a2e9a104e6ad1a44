/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * sqlite_pages and sorter: rows in any order become a table and its index; SQLite finds no
 * fault in them and reads what was put.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "decode/export/sorter.h"
#include "decode/export/sqlite_pages.h"
#include "tests/unit/tap.h"

/* ---- sorter ---- */

/* Numbers below n, each once, in an order that is none. */
static uint64_t shuffle(uint64_t i, uint64_t n)
{
	return i * 7919 % n;	/* n is no multiple of it */
}

/* Sorts n records with so much memory. */
static void check_sorter(const char *what, uint64_t n, size_t memory)
{
	struct sorter *s = sorter_new(memory);
	struct sorter_item item;
	uint8_t data[SORTER_DATA];
	uint64_t i, bad = 0;

	for (i = 0; i < n; i++) {
		uint64_t v = shuffle(i, n);

		item = (struct sorter_item){ .key = { v / 1000, v % 1000 << 40, 7 },
					     .data = data,
					     .len = v % 97 ? v % 40 : SORTER_DATA };
		memset(data, (int)v, item.len);
		bad += sorter_put(s, &item) != 0;
	}
	for (i = 0; sorter_next(s, &item) == 1; i++)
		bad += item.key[0] != i / 1000 || item.key[1] != i % 1000 << 40 ||
		       item.len != (i % 97 ? i % 40 : SORTER_DATA) ||
		       (item.len && item.data[item.len - 1] != (uint8_t)i);
	ok(i == n && !bad, "sorter: %s", what);
	ok(sorter_next(s, &item) == 0, "sorter: %s: the end stays", what);
	sorter_free(s);
}

static void test_sorter(void)
{
	check_sorter("nothing", 0, 1 << 20);
	check_sorter("one", 1, 1 << 20);
	check_sorter("in memory", 5000, 64 << 20);
	check_sorter("in parts", 50000, 1 << 20);
	check_sorter("a part for each", 300, 1);
	sorter_free(NULL);
}

#ifdef HAVE_SQLITE
#include <sqlite3.h>

static sqlite3 *db;

/* The number that the statement gives; -1: it fails, -2: a text other than "ok". */
static int64_t ask(const char *sql)
{
	sqlite3_stmt *st;
	int64_t v = -1;

	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
		return -1;
	if (sqlite3_step(st) == SQLITE_ROW) {
		v = sqlite3_column_int64(st, 0);
		if (sqlite3_column_type(st, 0) == SQLITE_TEXT)
			v = strcmp((const char *)sqlite3_column_text(st, 0), "ok") ? -2 : 1;
	}
	sqlite3_finalize(st);
	return v;
}

/* Of row i; every kind of number there is. */
static int64_t value_of(uint64_t i)
{
	int64_t v = (int64_t)(UINT64_C(1) << i % 63) - (int64_t)(i % 3);

	return i % 2 ? v : -v;
}

/* Table t: (id, v, w) with w "odd" or NULL. Its index: (v). */
static int write_rows(struct pages *p, uint32_t table, uint32_t index, uint64_t n)
{
	struct sorter *s = sorter_new(1 << 20);
	uint8_t buf[PAGES_RECORD];
	struct sorter_item e;
	int err = 0;

	pages_begin(p, table, 1);
	for (uint64_t i = 0; i < n && !err; i++) {
		struct pages_record r = { .n_types = 0 };
		uint64_t id = i < 4 ? i + 1 : i * 3, v = (uint64_t)value_of(i);

		pages_null(&r);
		pages_int(&r, v);
		if (i % 2)
			pages_word(&r, "odd");
		else
			pages_null(&r);
		err = pages_put(p, id, buf, pages_finish(&r, buf));
		e = (struct sorter_item){ .key = { v ^ UINT64_C(1) << 63, id } };
		err = err ? err : sorter_put(s, &e);
	}
	err = err ? err : pages_end(p);
	pages_begin(p, index, 0);
	while (!err && sorter_next(s, &e) == 1) {
		struct pages_record r = { .n_types = 0 };

		pages_int(&r, e.key[0] ^ UINT64_C(1) << 63);
		pages_int(&r, e.key[1]);
		err = pages_put(p, 0, buf, pages_finish(&r, buf));
	}
	sorter_free(s);
	err = err ? err : pages_end(p);
	return err ? err : pages_commit(p);
}

/* 0 if all rows are as they were put. */
static uint64_t compare_rows(uint64_t n)
{
	uint64_t i = 0, bad = 0;
	sqlite3_stmt *st;

	if (sqlite3_prepare_v2(db, "SELECT id, v, w FROM t ORDER BY id", -1, &st, NULL))
		return 1;
	for (; sqlite3_step(st) == SQLITE_ROW; i++)
		bad += sqlite3_column_int64(st, 0) != (int64_t)(i < 4 ? i + 1 : i * 3) ||
		       sqlite3_column_int64(st, 1) != value_of(i) ||
		       (sqlite3_column_type(st, 2) == SQLITE_NULL) != !(i % 2);
	sqlite3_finalize(st);
	return bad + (i != n);
}

static void check_pages(const char *path, const char *page_size, uint64_t n)
{
	uint32_t table, index;
	struct pages *p;
	int fd, err;

	unlink(path);
	sqlite3_open(path, &db);
	ask(page_size);
	sqlite3_exec(db, "CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER, w TEXT);"
			 "CREATE INDEX i ON t (v); CREATE TABLE other (x);"
			 "INSERT INTO other VALUES (5)", NULL, NULL, NULL);
	table = (uint32_t)ask("SELECT rootpage FROM sqlite_master WHERE name = 't'");
	index = (uint32_t)ask("SELECT rootpage FROM sqlite_master WHERE name = 'i'");
	sqlite3_close(db);
	fd = open(path, O_RDWR | O_CLOEXEC);
	p = pages_new(fd, &err);
	ok(p && !write_rows(p, table, index, n), "%" PRIu64 " rows are written, %s", n,
	   page_size);
	pages_free(p);
	close(fd);
	sqlite3_open(path, &db);
	ok(ask("PRAGMA integrity_check") == 1, "  SQLite finds no fault");
	ok(!compare_rows(n), "  and reads what was put");
	ok(ask("SELECT count(*) FROM t INDEXED BY i WHERE v < 0") ==
	   ask("SELECT count(*) FROM t NOT INDEXED WHERE v < 0"), "  and what the index has");
	ok(ask("INSERT INTO t VALUES (NULL, 1, 'x') RETURNING 1") == 1 &&
	   ask("DELETE FROM t WHERE v > 100 RETURNING 1") == (n > 20 ? 1 : -1) &&
	   ask("PRAGMA integrity_check") == 1, "  and can change it");
	sqlite3_close(db);
	unlink(path);
}

static void test_pages(void)
{
	static const uint64_t sizes[] = { 0, 1, 2, 150, 300, 3000, 200000 };
	const char *dir = getenv("SCRATCH");
	char path[4096];

	snprintf(path, sizeof(path), "%s/pages-%d.db", dir ? dir : "/tmp", (int)getpid());
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		check_pages(path, "PRAGMA page_size=4096", sizes[i]);
	for (uint64_t n = 200; n < 260; n += 20)
		check_pages(path, "PRAGMA page_size=4096", n);
	check_pages(path, "PRAGMA page_size=65536", 20000);
}
#else
static void test_pages(void)
{
	skip("no SQLite here");
}
#endif

int main(void)
{
	test_sorter();
	test_pages();
	return plan_done();
}
