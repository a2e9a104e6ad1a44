/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tables: a recording as rows of tables. The one source of rows for all formats that
 * are tables (SQLite, Parquet, PostgreSQL), so that they tell the same: which tables
 * there are, their columns, when a row is complete and what is in it, the views, and
 * the SQL that makes both.
 *
 * A format has a struct tables as its first member, these functions in its export_ops,
 * and a function that takes a row. Rows come when they are complete: of calls in the
 * order they end in, of threads, functions, branches and the recording at the end.
 */
#ifndef DECODE_EXPORT_TABLES_H
#define DECODE_EXPORT_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/outfile.h"
#include "decode/export/export.h"

#define TABLES_SCHEMA 1		/* its version: more columns and tables do not change it */
#define TABLE_COLUMNS 26	/* at most */

enum table_id {
	TABLE_RECORDINGS, TABLE_THREADS, TABLE_FUNCTIONS, TABLE_CALLS, TABLE_GAPS,
	TABLE_UNTRACED, TABLE_OFF_CPU, TABLE_ON_CPU, TABLE_EVENTS, TABLE_COUNTERS,
	TABLE_SPANS, TABLE_FIELDS, TABLE_BRANCHES, TABLE_N,
};

/* Of what is in a column. All numbers have 64 bits with a sign; addresses and values of
 * the program above 2^63 are negative. */
enum column_kind {
	COLUMN_NUMBER,		/* never NULL */
	COLUMN_SOME_NUMBER,	/* or NULL */
	COLUMN_TEXT,		/* may be NULL; valid UTF-8 without NUL */
};

struct table {
	const char *name;
	bool has_id;		/* the first column is the number of the row */
	unsigned n_columns;
	struct table_column {
		const char *name;
		enum column_kind kind;
	} columns[TABLE_COLUMNS];
};
extern const struct table export_tables[TABLE_N];

/* Columns of calls that formats know by place. */
enum { CALLS_ID, CALLS_PARENT, CALLS_THREAD, CALLS_FUNCTION, CALLS_START };

/* Values in the order of the columns. */
struct table_row {
	enum table_id table;
	unsigned n;
	uint32_t nulls;		/* a bit for each column */
	union table_value {
		uint64_t v;
		const struct export_name *text;	/* NULL where it is NULL */
	} values[TABLE_COLUMNS];
};

static inline bool table_is_null(const struct table_row *r, unsigned column)
{
	return r->nulls >> column & 1;
}

struct tables_state;

struct tables {
	struct export *x;
	int64_t recording;	/* what tells it from others: of its content alone */
	/* 0, or an error. The row is valid in the call. */
	int (*put)(struct tables *t, const struct table_row *r);
	struct tables_state *state;
};

/* put is called from then on. 0, or -AUX_E_NOMEM; tables_fini is due all the same. */
int tables_init(struct tables *t, struct export *x,
		int (*put)(struct tables *t, const struct table_row *r));
void tables_fini(struct tables *t);
/* The rows that come at the end. */
int tables_finish(struct tables *t);

/* For export_ops; format is the struct tables. */
int tables_track(void *format, struct export_track *t);
int tables_begin(void *format, struct export_track *t, const struct export_slice *s);
int tables_end(void *format, struct export_track *t, const struct export_slice *s);
int tables_instant(void *format, struct export_track *t, const struct export_instant *i);
int tables_counter(void *format, struct export_track *t, const struct export_counter *c);
int tables_span(void *format, struct export_track *t, const struct export_span *s);
int tables_ran(void *format, struct export_track *t, uint32_t cpu, uint64_t from,
	       uint64_t to);
int tables_flow(void *format, const struct flow_ctx *ctx, const struct aux_flow *ev,
		size_t n);

/* table */
#define TABLES_OPS                                                      \
	.track = tables_track, .begin = tables_begin, .end = tables_end,\
	.ran = tables_ran, .instant = tables_instant,                   \
	.counter = tables_counter, .span = tables_span, .flow = tables_flow

/* ---- tables_sql.c ---- */

/* The dialects differ in little: where several recordings may be in one place (all but
 * SQLite) each row has the number of its recording, in a last column
 * RECORDING_COLUMN, and views join by it, too. */
enum tables_sql { SQL_SQLITE, SQL_POSTGRES, SQL_DUCKDB, SQL_CLICKHOUSE };
#define RECORDING_COLUMN "recording"

/* Statements, each with a newline. */
void tables_put_create(struct outbuf *out, enum tables_sql sql);
void tables_put_indexes(struct outbuf *out, enum tables_sql sql);
void tables_put_views(struct outbuf *out, enum tables_sql sql);

/* ---- tables_dir.c: a directory with a file for each table ---- */

struct tables_dir {
	const char *path;
	bool made;		/* by us */
	struct outfile *files;
	unsigned n;
};

/* Makes the directory, if need be; -AUX_E_INVAL, -AUX_E_IO with diag. */
int tables_dir_open(struct tables_dir *d, const struct export *x, struct aux_diag *diag);
/* A new file in it, to write to: its descriptor, or -1 with *err. */
int tables_dir_add(struct tables_dir *d, const char *name, const char *suffix, int *err,
		   struct aux_diag *diag);
/* A file with text, which is in memory. */
int tables_dir_text(struct tables_dir *d, const char *name, struct outbuf *text,
		    struct aux_diag *diag);
/* All files get their names. */
int tables_dir_commit(struct tables_dir *d, struct aux_diag *diag);
/* What has no name yet is gone, and the directory if it was made and is empty. */
void tables_dir_close(struct tables_dir *d);

#endif
