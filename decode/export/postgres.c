/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export_postgres: a directory that psql loads: schema.sql makes the tables, TABLE.copy
 * are their rows as COPY reads them, views.sql makes indexes and views, load.sql does it
 * all in one transaction. Rows of several recordings may be in one database: the column
 * recording tells them apart.
 */
#include <stdlib.h>

#include "common/diag.h"
#include "decode/export/copy_file.h"

struct postgres {
	struct tables t;	/* first: tables.c knows it alone */
	struct tables_dir dir;
	struct copy_file *files[TABLE_N];
};

static int put_postgres(struct tables *t, const struct table_row *r)
{
	return copy_file_put(((struct postgres *)t)->files[r->table], r);
}

/* ---- the end ---- */

static void put_load(struct outbuf *out)
{
	outbuf_str(out, "-- in this directory: psql -f load.sql\n"
			"\\set ON_ERROR_STOP on\n\\encoding UTF8\nBEGIN;\n"
			"\\ir schema.sql\n");
	for (unsigned i = 0; i < TABLE_N; i++)
		outbuf_printf(out, "\\copy %s FROM '%s.copy'\n", export_tables[i].name,
			      export_tables[i].name);
	outbuf_str(out, "\\ir views.sql\nCOMMIT;\nANALYZE;\n");
}

static void put_schema(struct outbuf *out)
{
	outbuf_printf(out, "-- auxdecode export, schema %d\n", TABLES_SCHEMA);
	tables_put_create(out, SQL_POSTGRES);
}

static void put_views(struct outbuf *out)
{
	tables_put_indexes(out, SQL_POSTGRES);
	tables_put_views(out, SQL_POSTGRES);
}

static int write_text(struct postgres *q, const char *name,
		      void (*write)(struct outbuf *out), struct aux_diag *diag)
{
	struct outbuf *out = outbuf_new(-1);
	int err = -AUX_E_NOMEM;

	if (out) {
		write(out);
		err = tables_dir_text(&q->dir, name, out, diag);
	}
	outbuf_free(out);
	return err;
}

/* An empty result replaces nothing. */
static int finish_postgres(void *format, struct aux_diag *diag)
{
	struct postgres *q = format;
	int err = tables_finish(&q->t);

	for (unsigned i = 0; i < TABLE_N && !err; i++)
		err = copy_file_finish(q->files[i]);
	if (!err)
		err = write_text(q, "schema.sql", put_schema, diag);
	if (!err)
		err = write_text(q, "views.sql", put_views, diag);
	if (!err)
		err = write_text(q, "load.sql", put_load, diag);
	if (err || !q->t.x->env.report->n_lines)
		return err;
	return tables_dir_commit(&q->dir, diag);
}

/* On failure close_postgres is called by the sink all the same. */
static int open_postgres(void **format, struct export *x, struct aux_diag *diag)
{
	struct postgres *q = calloc(1, sizeof(*q));
	int err;

	*format = q;
	if (!q)
		return -AUX_E_NOMEM;
	err = tables_init(&q->t, x, put_postgres);
	if (!err)
		err = tables_dir_open(&q->dir, x, diag);
	for (unsigned i = 0; i < TABLE_N && !err; i++) {
		int fd = tables_dir_add(&q->dir, export_tables[i].name, ".copy", &err,
					diag);

		if (err)
			break;
		q->files[i] = copy_file_new(fd, &export_tables[i],
					    i == TABLE_RECORDINGS ? NULL : &q->t.recording);
		err = q->files[i] ? 0 : -AUX_E_NOMEM;
	}
	return err;
}

static void close_postgres(void *format)
{
	struct postgres *q = format;

	for (unsigned i = 0; i < TABLE_N; i++)
		copy_file_free(q->files[i]);
	tables_dir_close(&q->dir);
	tables_fini(&q->t);
	free(q);
}

const struct export_ops export_postgres = {
	.name = "postgres",
	.help = "rows that psql loads, with views; needs -o DIR",
	.flags = EXPORT_OWN_DIR | EXPORT_NEEDS_DIR,
	.open = open_postgres,
	TABLES_OPS,
	.finish = finish_postgres,
	.close = close_postgres,
};
