/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export_postgres: a directory that psql loads: schema.sql makes the tables, TABLE.copy
 * are their rows as COPY reads them, views.sql makes indexes and views, load.sql does it
 * all in one transaction. Rows of several recordings may be in one database: the column
 * recording tells them apart.
 *
 * Format: PostgreSQL, "COPY", text format.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"
#include "decode/export/tables.h"

struct postgres {
	struct tables t;	/* first: tables.c knows it alone */
	struct tables_dir dir;
	struct outbuf *out[TABLE_N];
};

/* Backslashes and what ends a column or a row. */
static void put_text(struct outbuf *out, const struct export_name *n)
{
	const char *p = n->text, *end = p + n->len;

	while (p < end) {
		size_t plain = strcspn(p, "\\\t\n\r");

		outbuf_put(out, p, plain);
		p += plain;
		if (p == end)
			break;
		outbuf_str(out, *p == '\\' ? "\\\\" : *p == '\t' ? "\\t" :
				*p == '\n' ? "\\n" : "\\r");
		p++;
	}
}

static void put_number(struct outbuf *out, int64_t v)
{
	char *p = outbuf_room(out, 24);

	if (p)
		out->p = fmt_sdec(p, v);
}

static int put_postgres(struct tables *t, const struct table_row *r)
{
	struct postgres *q = (struct postgres *)t;
	const struct table_column *c = export_tables[r->table].columns;
	struct outbuf *out = q->out[r->table];

	for (unsigned i = 0; i < r->n; i++) {
		if (i)
			outbuf_put(out, "\t", 1);
		if (table_is_null(r, i))
			outbuf_put(out, "\\N", 2);
		else if (c[i].kind == COLUMN_TEXT)
			put_text(out, r->values[i].text);
		else
			put_number(out, (int64_t)r->values[i].v);
	}
	if (r->table != TABLE_RECORDINGS) {
		outbuf_put(out, "\t", 1);
		put_number(out, t->recording);
	}
	outbuf_put(out, "\n", 1);
	if (!outbuf_failed(out))
		return 0;
	errno = out->error;
	return -AUX_E_IO;
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

	for (unsigned i = 0; i < TABLE_N && !err; i++) {
		err = outbuf_flush(q->out[i]);
		errno = q->out[i]->error;
	}
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

		q->out[i] = err ? NULL : outbuf_new(fd);
		if (!err && !q->out[i])
			err = -AUX_E_NOMEM;
	}
	return err;
}

static void close_postgres(void *format)
{
	struct postgres *q = format;

	for (unsigned i = 0; i < TABLE_N; i++)
		outbuf_free(q->out[i]);
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
