/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export_sqlite: a database: tables of what happened, views that answer
 * questions (tables.h). A row is written when it is complete, by statements that are
 * prepared once, in one transaction; indexes and views come last. The file is
 * new: a failed export leaves no journal, but what is there of it.
 *
 * Calls are most of it. SQLite took 2.5 us for the row of one and its place in three
 * indexes; so they are sorted here, and their pages are written without it when all else
 * is in the file (sqlite_pages.h).
 *
 * Numbers of 64 bits go in as they are: SQLite shows addresses above 2^63
 * negative.
 */
#ifdef HAVE_SQLITE
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/outfile.h"
#include "decode/export/sorter.h"
#include "decode/export/sqlite_pages.h"
#include "decode/export/tables.h"

#define CALLS_MEMORY ((size_t)48 << 20)	/* of rows that wait to be sorted, */
#define INDEX_MEMORY ((size_t)16 << 20)	/* and of the entries of an index */

/* The trees of calls: the table, then its indexes. */
enum { CALLS, BY_PARENT, BY_FUNCTION, BY_THREAD, N_TREES };

struct sqlite {
	struct tables t;		/* first: tables.c knows it alone */
	struct export *x;
	struct sorter *sorters[N_TREES];
	uint32_t roots[N_TREES];	/* their first pages */
	struct outfile file;
	sqlite3 *db;
	sqlite3_stmt *put[TABLE_N];
	bool failed;
	struct aux_diag diag;
};

/* Keeps the first error; q->diag is what finish reports. */
static int fail(struct sqlite *q)
{
	char *text = q->x->env.report->error;

	if (!q->failed) {
		snprintf(q->diag.text, sizeof(q->diag.text), "%.400s: %s",
			 q->x->env.out_path, sqlite3_errmsg(q->db));
		snprintf(text, sizeof(q->x->env.report->error), "%s", q->diag.text);
	}
	q->failed = true;
	q->diag.code = AUX_E_IO;
	q->diag.offset = AUX_NO_OFFSET;
	return -AUX_E_IO;
}

/* Statements without parameters. */
static int run(struct sqlite *q, const char *sql)
{
	return sqlite3_exec(q->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0
								      : fail(q);
}

/* Statements that a function writes. */
static int run_text(struct sqlite *q, void (*write)(struct outbuf *out))
{
	struct outbuf *out = outbuf_new(-1);
	int err = -AUX_E_NOMEM;

	if (out) {
		write(out);
		outbuf_put(out, "", 1);
		if (!outbuf_failed(out))
			err = run(q, out->buf);
	}
	outbuf_free(out);
	return err;
}

/* ---- rows ---- */

static void bind_value(sqlite3_stmt *st, int at, const struct table_row *r, unsigned column)
{
	const union table_value *v = &r->values[column];

	if (table_is_null(r, column))
		sqlite3_bind_null(st, at);
	else if (export_tables[r->table].columns[column].kind == COLUMN_TEXT)
		sqlite3_bind_text(st, at, v->text->text, (int)v->text->len, SQLITE_STATIC);
	else
		sqlite3_bind_int64(st, at, (sqlite3_int64)v->v);
}

static int step_row(struct sqlite *q, sqlite3_stmt *st)
{
	int rc = sqlite3_step(st);

	sqlite3_reset(st);
	return rc == SQLITE_DONE ? 0 : fail(q);
}

/* Of the recording each column is a row: key and value. Bindings stay: each column is
 * bound anew in each row. */
static int put_row(struct sqlite *q, const struct table_row *r)
{
	sqlite3_stmt *st = q->put[r->table];
	int err = 0;

	if (r->table != TABLE_RECORDINGS) {
		for (unsigned i = 0; i < r->n; i++)
			bind_value(st, (int)i + 1, r, i);
		return step_row(q, st);
	}
	for (unsigned i = 0; i < r->n && !err; i++) {
		if (table_is_null(r, i))
			continue;
		sqlite3_bind_text(st, 1, export_tables[r->table].columns[i].name, -1,
				  SQLITE_STATIC);
		bind_value(st, 2, r, i);
		err = step_row(q, st);
	}
	return err;
}

static void put_some(struct pages_record *r, uint64_t v, bool known)
{
	if (known)
		pages_int(r, v);
	else
		pages_null(r);
}

/* What the indexes need of a row stands before its record. */
struct call_keys {
	uint32_t thread, function;
};

/* As with fail, of what is not SQLite's; of most errors others say enough. */
static int fail_with(struct sqlite *q, int err)
{
	q->failed = true;
	if (err != -AUX_E_UNSUPPORTED)
		return err;
	q->diag.code = AUX_E_UNSUPPORTED;
	q->diag.offset = AUX_NO_OFFSET;
	snprintf(q->diag.text, sizeof(q->diag.text),
		 "%.300s: the installed SQLite makes files of another form than is known "
		 "here: export --to jsonl or perfetto instead", q->x->env.out_path);
	return err;
}

/* The row waits to be sorted: calls end in another order than they begin. The first
 * column of the record is the row's number, which SQLite has elsewhere. */
static int keep_call(struct sqlite *q, const struct table_row *row)
{
	const union table_value *v = row->values;
	uint8_t data[sizeof(struct call_keys) + PAGES_RECORD];
	struct call_keys keys = { (uint32_t)v[CALLS_THREAD].v,
				  (uint32_t)v[CALLS_FUNCTION].v };
	struct pages_record r;
	struct sorter_item item = {
		.key = { v[CALLS_ID].v, v[CALLS_PARENT].v, v[CALLS_START].v },
		.data = data };
	int err;

	r.n_types = r.n_data = 0;
	pages_null(&r);
	for (unsigned i = 1; i < row->n; i++)
		if (table_is_null(row, i))
			pages_null(&r);
		else if (export_tables[TABLE_CALLS].columns[i].kind == COLUMN_TEXT)
			pages_word(&r, v[i].text->text);
		else
			pages_int(&r, v[i].v);
	memcpy(data, &keys, sizeof(keys));
	item.len = (uint32_t)(sizeof(keys) + pages_finish(&r, data + sizeof(keys)));
	err = sorter_put(q->sorters[CALLS], &item);
	return err ? fail_with(q, err) : 0;
}

static int put_sqlite(struct tables *t, const struct table_row *r)
{
	struct sqlite *q = (struct sqlite *)t;

	return r->table == TABLE_CALLS ? keep_call(q, r) : put_row(q, r);
}

/* ---- the end ---- */

static void close_db(struct sqlite *q)
{
	for (unsigned i = 0; i < TABLE_N; i++) {
		sqlite3_finalize(q->put[i]);
		q->put[i] = NULL;
	}
	sqlite3_close(q->db);
	q->db = NULL;
}

/* ---- calls ---- */

static int read_roots(struct sqlite *q)
{
	/* table */
	static const char *const names[N_TREES] = { "calls", "calls_parent",
						    "calls_function", "calls_thread" };
	const char *sql = "SELECT rootpage FROM sqlite_master WHERE name = ?";
	sqlite3_stmt *st;
	int err = 0;

	if (sqlite3_prepare_v2(q->db, sql, -1, &st, NULL) != SQLITE_OK)
		return fail(q);
	for (unsigned i = 0; i < N_TREES && !err; i++) {
		sqlite3_bind_text(st, 1, names[i], -1, SQLITE_STATIC);
		if (sqlite3_step(st) != SQLITE_ROW)
			err = fail(q);
		else
			q->roots[i] = (uint32_t)sqlite3_column_int64(st, 0);
		sqlite3_reset(st);
	}
	sqlite3_finalize(st);
	return err;
}

/* Numbers as SQLite orders them, as those without a sign. */
static uint64_t order_of(uint64_t v)
{
	return v ^ UINT64_C(1) << 63;
}

/* Entries of the row for the indexes, which are sorted in turn. A parent of 0 is NULL. */
static int index_call(struct sqlite *q, const struct sorter_item *row,
		      const struct call_keys *keys)
{
	uint64_t id = row->key[0], start = order_of(row->key[2]);
	int err = sorter_put(q->sorters[BY_PARENT],
			     &(struct sorter_item){ .key = { row->key[1], id } });

	if (!err)
		err = sorter_put(q->sorters[BY_FUNCTION],
				 &(struct sorter_item){ .key = { keys->function, start, id } });
	if (!err)
		err = sorter_put(q->sorters[BY_THREAD],
				 &(struct sorter_item){ .key = { keys->thread, start, id } });
	return err;
}

static int write_table(struct sqlite *q, struct pages *p)
{
	struct sorter_item row;
	struct call_keys keys;
	int err;

	pages_begin(p, q->roots[CALLS], true);
	while ((err = sorter_next(q->sorters[CALLS], &row)) > 0) {
		memcpy(&keys, row.data, sizeof(keys));
		err = pages_put(p, row.key[0], row.data + sizeof(keys),
				row.len - sizeof(keys));
		if (!err)
			err = index_call(q, &row, &keys);
		if (err)
			return err;
	}
	return err ? err : pages_end(p);
}

static int write_index(struct sqlite *q, struct pages *p, unsigned which)
{
	uint8_t record[PAGES_RECORD];
	struct sorter_item e;
	int err;

	pages_begin(p, q->roots[which], false);
	while ((err = sorter_next(q->sorters[which], &e)) > 0) {
		struct pages_record r;

		r.n_types = r.n_data = 0;
		if (which == BY_PARENT) {
			put_some(&r, e.key[0], e.key[0]);
			pages_int(&r, e.key[1]);
		} else {
			pages_int(&r, e.key[0]);
			pages_int(&r, order_of(e.key[1]));
			pages_int(&r, e.key[2]);
		}
		err = pages_put(p, 0, record, pages_finish(&r, record));
		if (err)
			return err;
	}
	return err ? err : pages_end(p);
}

/* The database is closed. What is written is freed: the next needs the memory. */
static int write_calls(struct sqlite *q)
{
	int err;
	struct pages *p = pages_new(q->file.fd, &err);

	for (unsigned i = BY_PARENT; i < N_TREES && !err; i++) {
		q->sorters[i] = sorter_new(INDEX_MEMORY);
		err = q->sorters[i] ? 0 : -AUX_E_NOMEM;
	}
	for (unsigned i = CALLS; i < N_TREES && !err; i++) {
		err = i == CALLS ? write_table(q, p) : write_index(q, p, i);
		sorter_free(q->sorters[i]);
		q->sorters[i] = NULL;
	}
	if (!err)
		err = pages_commit(p);
	pages_free(p);
	return err ? fail_with(q, err) : 0;
}

static void finish_text(struct outbuf *out)
{
	tables_put_indexes(out, SQL_SQLITE);
	tables_put_views(out, SQL_SQLITE);
}

static void begin_text(struct outbuf *out)
{
	tables_put_create(out, SQL_SQLITE);
}

/* Indexes come last: one sort each, instead of an insertion per row. An empty
 * database replaces nothing. */
static int finish_sqlite(void *format, struct aux_diag *diag)
{
	struct sqlite *q = format;
	int err = q->failed ? -AUX_E_IO : tables_finish(&q->t);

	if (!err)
		err = run_text(q, finish_text);
	if (!err)
		err = run(q, "COMMIT");
	if (!err && outbuf_failed(q->x->out))	/* without a name, perhaps */
		err = -AUX_E_IO;
	if (!err)
		err = read_roots(q);
	if (!err && q->x->env.report->n_lines) {
		close_db(q);
		err = write_calls(q);
	}
	if (err && diag)
		*diag = q->diag;
	if (err || !q->x->env.report->n_lines)
		return err;
	return outfile_commit(&q->file, diag);
}

static int prepare(struct sqlite *q, unsigned table)
{
	const struct table *t = &export_tables[table];
	char sql[200];
	size_t n;

	if (table == TABLE_RECORDINGS) {
		n = (size_t)snprintf(sql, sizeof(sql), "INSERT INTO recording VALUES (?,?)");
	} else {
		n = (size_t)snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES (?", t->name);
		for (unsigned i = 1; i < t->n_columns; i++)
			n += (size_t)snprintf(sql + n, sizeof(sql) - n, ",?");
		n += (size_t)snprintf(sql + n, sizeof(sql) - n, ")");
	}
	if (sqlite3_prepare_v2(q->db, sql, (int)n, &q->put[table], NULL) != SQLITE_OK)
		return fail(q);
	return 0;
}

/* No journal and no sync: a new file that is written once needs neither. No
 * mutex: one thread writes, and each value that is bound would take it. */
static int open_file(struct sqlite *q)
{
	int err;

	if (sqlite3_open_v2(q->file.temp, &q->db, SQLITE_OPEN_READWRITE |
			    SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
		return fail(q);
	err = run(q, "PRAGMA journal_mode=OFF;PRAGMA synchronous=OFF;"
		     "PRAGMA locking_mode=EXCLUSIVE;PRAGMA temp_store=FILE;"
		     "PRAGMA cache_size=-16384;BEGIN");
	if (!err)
		err = run_text(q, begin_text);
	for (unsigned i = 0; i < TABLE_N && !err; i++)
		if (i != TABLE_CALLS)	/* whose rows are written without it */
			err = prepare(q, i);
	return err;
}

/* On failure close_sqlite is called by the sink all the same. */
static int open_sqlite(void **format, struct export *x, struct aux_diag *diag)
{
	struct sqlite *q = calloc(1, sizeof(*q));
	int err;

	*format = q;
	if (!q)
		return -AUX_E_NOMEM;
	q->x = x;
	err = tables_init(&q->t, x, put_sqlite);
	if (err)
		return err;
	q->sorters[CALLS] = sorter_new(CALLS_MEMORY);
	if (!q->sorters[CALLS])
		return -AUX_E_NOMEM;
	err = outfile_open(&q->file, x->env.out_path, 0666,
			   OUTFILE_REGULAR | OUTFILE_NAMED, diag);
	if (err)
		return err;
	err = open_file(q);
	if (err)
		*diag = q->diag;
	return err;
}

static void close_sqlite(void *format)
{
	struct sqlite *q = format;

	tables_fini(&q->t);
	close_db(q);
	for (unsigned i = 0; i < N_TREES; i++)
		sorter_free(q->sorters[i]);
	outfile_discard(&q->file);
	free(q);
}

const struct export_ops export_sqlite = {
	.name = "sqlite",
	.help = "a database, with views that answer questions; needs -o",
	.flags = EXPORT_BINARY | EXPORT_OWN_FILE,
	.open = open_sqlite,
	TABLES_OPS,
	.finish = finish_sqlite,
	.close = close_sqlite,
};
#endif
