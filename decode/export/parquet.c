/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export_parquet: a directory with a Parquet file for each table, and the SQL that makes
 * views of them: the tables by their names, and those that answer questions. load.sql is
 * for DuckDB, clickhouse.sql for ClickHouse. Files of many recordings may be read
 * together: the column recording tells them apart.
 */
#include <stdlib.h>

#include "decode/export/parquet_file.h"
#include "decode/export/tables.h"

struct parquet {
	struct tables t;	/* first: tables.c knows it alone */
	struct tables_dir dir;
	struct parquet_file *files[TABLE_N];
};

static int put_parquet(struct tables *t, const struct table_row *r)
{
	struct parquet *q = (struct parquet *)t;

	return parquet_file_put(q->files[r->table], r);
}

static int write_load(struct parquet *q, const char *name, enum tables_sql sql,
		      const char *how, struct aux_diag *diag)
{
	struct outbuf *out = outbuf_new(-1);
	int err = -AUX_E_NOMEM;

	if (out) {
		outbuf_printf(out, "-- in this directory: %s\n", how);
		tables_put_create(out, sql);
		tables_put_views(out, sql);
		err = tables_dir_text(&q->dir, name, out, diag);
	}
	outbuf_free(out);
	return err;
}

/* An empty result replaces nothing. */
static int finish_parquet(void *format, struct aux_diag *diag)
{
	struct parquet *q = format;
	int err = tables_finish(&q->t);

	for (unsigned i = 0; i < TABLE_N && !err; i++)
		err = parquet_file_finish(q->files[i]);
	if (!err)
		err = write_load(q, "load.sql", SQL_DUCKDB, "duckdb -init load.sql", diag);
	if (!err)
		err = write_load(q, "clickhouse.sql", SQL_CLICKHOUSE,
				 "clickhouse local --queries-file clickhouse.sql ...", diag);
	if (err || !q->t.x->env.report->n_lines)
		return err;
	return tables_dir_commit(&q->dir, diag);
}

/* On failure close_parquet is called by the sink all the same. */
static int open_parquet(void **format, struct export *x, struct aux_diag *diag)
{
	struct parquet *q = calloc(1, sizeof(*q));
	int err;

	*format = q;
	if (!q)
		return -AUX_E_NOMEM;
	err = tables_init(&q->t, x, put_parquet);
	if (!err)
		err = tables_dir_open(&q->dir, x, diag);
	for (unsigned i = 0; i < TABLE_N && !err; i++) {
		int fd = tables_dir_add(&q->dir, export_tables[i].name, ".parquet", &err,
					diag);

		if (err)
			break;
		q->files[i] = parquet_file_new(fd, &export_tables[i],
					       i == TABLE_RECORDINGS ? NULL
								     : &q->t.recording);
		err = q->files[i] ? 0 : -AUX_E_NOMEM;
	}
	return err;
}

static void close_parquet(void *format)
{
	struct parquet *q = format;

	for (unsigned i = 0; i < TABLE_N; i++)
		parquet_file_free(q->files[i]);
	tables_dir_close(&q->dir);
	tables_fini(&q->t);
	free(q);
}

const struct export_ops export_parquet = {
	.name = "parquet",
	.help = "columns for DuckDB and other engines; needs -o DIR",
	.flags = EXPORT_OWN_DIR | EXPORT_NEEDS_DIR,
	.open = open_parquet,
	TABLES_OPS,
	.finish = finish_parquet,
	.close = close_parquet,
};
