/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * parquet_file: row groups, pages and the footer; see parquet_file.h.
 *
 *	file:	"PAR1" page... footer length-of-footer "PAR1"
 *	page:	PageHeader, then its body, compressed
 *	footer:	FileMetaData: the columns, and of each group where its pages are
 *
 * Headers and footer are Thrift structures in the compact protocol. What the footer says
 * of a group is written into memory when the group is.
 *
 * Formats: github.com/apache/parquet-format, README.md and parquet.thrift;
 * thrift-compact-protocol.md.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include "common/version.h"
#include "decode/export/parquet_encode.h"
#include "decode/export/parquet_file.h"

#define ZSTD_LEVEL 1
#define ROWS 64			/* a multiple of 8, of which PARQUET_ROWS is one */
#define MAX_DEPTH 8		/* of structures in structures */

enum { TYPE_INT64 = 2, TYPE_BYTES = 6 };
enum { REQUIRED = 0, OPTIONAL = 1 };
enum { PAGE_DATA = 0, PAGE_DICTIONARY = 2 };
#ifdef HAVE_ZSTD
enum { CODEC = 6 };
#else
enum { CODEC = 0 };
#endif

struct parquet_file {
	const struct table *table;
	unsigned n_columns;		/* with that of the recording */
	bool has_recording;
	int64_t recording;
	struct parquet_column columns[TABLE_COLUMNS + 1];
	size_t n_rows, max_rows;	/* that wait, and for which there is room */
	/* rows that are not in the columns yet, which are far apart in memory: each gets some
	 * at a time */
	struct {
		union table_value values[ROWS][TABLE_COLUMNS];
		uint32_t nulls[ROWS];
		unsigned n;
	} rows;
	uint64_t all_rows;
	struct parquet_encoder *encoder;
	struct parquet_chunk chunk;
	struct outbuf *out, *groups;	/* groups: in memory, for the footer */
	unsigned n_groups;
	uint64_t offset;		/* of what comes next */
	struct outbuf *packed;		/* a page, compressed */
#ifdef HAVE_ZSTD
	ZSTD_CCtx *zstd;
#endif
};

/* ---- Thrift ---- */

enum { T_I32 = 5, T_I64 = 6, T_BYTES = 8, T_LIST = 9, T_STRUCT = 12 };

struct thrift {
	struct outbuf *out;
	unsigned last[MAX_DEPTH], depth;	/* the field before, of each structure */
};

static void put_varint(struct outbuf *out, uint64_t v)
{
	char buf[10];
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		buf[n++] = (char)(v | 0x80);
	buf[n++] = (char)v;
	outbuf_put(out, buf, n);
}

static void put_byte(struct outbuf *out, unsigned v)
{
	char c = (char)v;

	outbuf_put(out, &c, 1);
}

/* Fields of a structure come in order, less than 16 apart. */
static void put_field(struct thrift *t, unsigned id, unsigned type)
{
	put_byte(t->out, (id - t->last[t->depth]) << 4 | type);
	t->last[t->depth] = id;
}

static void put_zigzag(struct outbuf *out, int64_t v)
{
	put_varint(out, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}

static void put_i32(struct thrift *t, unsigned id, int32_t v)
{
	put_field(t, id, T_I32);
	put_zigzag(t->out, v);
}

static void put_i64(struct thrift *t, unsigned id, uint64_t v)
{
	put_field(t, id, T_I64);
	put_zigzag(t->out, (int64_t)v);
}

static void put_bytes(struct thrift *t, unsigned id, const void *p, size_t n)
{
	put_field(t, id, T_BYTES);
	put_varint(t->out, n);
	outbuf_put(t->out, p, n);
}

static void put_list(struct thrift *t, unsigned id, unsigned type, size_t n)
{
	put_field(t, id, T_LIST);
	put_byte(t->out, (unsigned)(n < 15 ? n : 15) << 4 | type);
	if (n >= 15)
		put_varint(t->out, n);
}

/* The elements of lists of structures have no field. */
static void begin_element(struct thrift *t)
{
	t->last[++t->depth] = 0;
}

static void begin_struct(struct thrift *t, unsigned id)
{
	put_field(t, id, T_STRUCT);
	begin_element(t);
}

static void end_struct(struct thrift *t)
{
	put_byte(t->out, 0);
	t->depth--;
}

/* ---- pages ---- */

/* What the footer says of a column's pages. */
struct pages {
	uint64_t dictionary, data;	/* where they are; dictionary 0: none */
	uint64_t size, packed;		/* of all bytes, without and with compression */
};

static int flush_to_file(struct parquet_file *f)
{
	int err = outbuf_flush(f->out);

	errno = err ? f->out->error : errno;
	return err;
}

/* The body as it is stored: *p, *n. */
static int compress_body(struct parquet_file *f, const char **p, size_t *n)
{
#ifdef HAVE_ZSTD
	size_t bound = ZSTD_compressBound(*n);
	char *to;

	f->packed->p = f->packed->buf;
	to = outbuf_room(f->packed, bound);
	if (!to)
		return -AUX_E_NOMEM;
	*n = ZSTD_compressCCtx(f->zstd, to, bound, *p, *n, ZSTD_LEVEL);
	*p = to;
	return ZSTD_isError(*n) ? -AUX_E_NOMEM : 0;
#else
	(void)f;
	(void)p;
	(void)n;
	return 0;
#endif
}

static void put_page_header(struct thrift *t, const struct parquet_chunk *k, bool is_data,
			    size_t size, size_t packed, size_t n_rows)
{
	put_i32(t, 1, is_data ? PAGE_DATA : PAGE_DICTIONARY);
	put_i32(t, 2, (int32_t)size);
	put_i32(t, 3, (int32_t)packed);
	begin_struct(t, is_data ? 5 : 7);
	put_i32(t, 1, is_data ? (int32_t)n_rows : (int32_t)k->n_dictionary);
	put_i32(t, 2, is_data ? (int32_t)k->encoding : PARQUET_PLAIN);
	if (is_data) {		/* of the levels */
		put_i32(t, 3, PARQUET_RLE);
		put_i32(t, 4, PARQUET_RLE);
	}
	end_struct(t);
	put_byte(t->out, 0);
}

/* A page: its place in the file is that before it. */
static int put_page(struct parquet_file *f, struct pages *pages, bool is_data)
{
	const struct outbuf *body = is_data ? f->chunk.data : f->chunk.dictionary;
	struct outbuf *head = outbuf_new(-1);
	struct thrift t = { .out = head };
	const char *p = body->buf;
	size_t size = (size_t)(body->p - body->buf), packed = size, n_head;
	int err = head ? compress_body(f, &p, &packed) : -AUX_E_NOMEM;

	if (!err) {
		put_page_header(&t, &f->chunk, is_data, size, packed, f->n_rows);
		err = outbuf_failed(head) ? -AUX_E_NOMEM : 0;
	}
	if (!err) {
		n_head = (size_t)(head->p - head->buf);
		outbuf_put(f->out, head->buf, n_head);
		outbuf_put(f->out, p, packed);
		*(is_data ? &pages->data : &pages->dictionary) = f->offset;
		f->offset += n_head + packed;
		pages->size += n_head + size;
		pages->packed += n_head + packed;
	}
	outbuf_free(head);
	if (!err && outbuf_failed(f->out))
		err = flush_to_file(f);
	return err;
}

/* ---- the footer, piece by piece ---- */

static const char *column_name(const struct parquet_file *f, unsigned i)
{
	return i < f->table->n_columns ? f->table->columns[i].name : RECORDING_COLUMN;
}

static void put_statistics(struct thrift *t, const struct parquet_chunk *k, size_t n_null)
{
	begin_struct(t, 12);
	put_i64(t, 3, n_null);
	if (k->has_range) {
		put_bytes(t, 5, k->greatest.p, k->greatest.n);
		put_bytes(t, 6, k->least.p, k->least.n);
	}
	end_struct(t);
}

/* A ColumnChunk. */
static void put_column(const struct parquet_file *f, struct thrift *t, unsigned i,
		       const struct pages *pages)
{
	const struct parquet_chunk *k = &f->chunk;
	const struct parquet_column *c = &f->columns[i];
	const char *name = column_name(f, i);

	begin_element(t);
	put_i64(t, 2, 0);
	begin_struct(t, 3);
	put_i32(t, 1, c->text ? TYPE_BYTES : TYPE_INT64);
	put_list(t, 2, T_I32, 3);
	put_zigzag(t->out, PARQUET_PLAIN);
	put_zigzag(t->out, PARQUET_RLE);
	put_zigzag(t->out, (int64_t)k->encoding);
	put_list(t, 3, T_BYTES, 1);
	put_varint(t->out, strlen(name));
	outbuf_str(t->out, name);
	put_i32(t, 4, CODEC);
	put_i64(t, 5, f->n_rows);
	put_i64(t, 6, pages->size);
	put_i64(t, 7, pages->packed);
	put_i64(t, 9, pages->data);
	if (pages->dictionary)
		put_i64(t, 11, pages->dictionary);
	put_statistics(t, k, f->n_rows - c->n);
	end_struct(t);
	end_struct(t);
}

static int write_column(struct parquet_file *f, struct thrift *t, unsigned i,
			struct pages *sum)
{
	struct pages pages = { 0 };
	int err;

	if (!f->columns[i].optional)
		f->columns[i].n = f->n_rows;
	err = parquet_encode(f->encoder, &f->columns[i], f->n_rows, &f->chunk);
	if (!err && f->chunk.n_dictionary)
		err = put_page(f, &pages, false);
	if (!err)
		err = put_page(f, &pages, true);
	if (!err)
		put_column(f, t, i, &pages);
	sum->size += pages.size;
	sum->packed += pages.packed;
	return err;
}

/* A RowGroup; what waits is gone then. */
static int write_group(struct parquet_file *f)
{
	struct thrift t = { .out = f->groups };
	struct pages sum = { .data = f->offset };
	int err = 0;

	put_list(&t, 1, T_STRUCT, f->n_columns);
	for (unsigned i = 0; i < f->n_columns && !err; i++)
		err = write_column(f, &t, i, &sum);
	put_i64(&t, 2, sum.size);
	put_i64(&t, 3, f->n_rows);
	put_i64(&t, 5, sum.data);
	put_i64(&t, 6, sum.packed);
	put_byte(f->groups, 0);
	if (!err && outbuf_failed(f->groups))
		err = -AUX_E_NOMEM;
	f->n_groups++;
	f->all_rows += f->n_rows;
	f->n_rows = 0;
	for (unsigned i = 0; i < f->n_columns; i++)
		f->columns[i].n = 0;
	return err;
}

static void put_schema(const struct parquet_file *f, struct thrift *t)
{
	put_list(t, 2, T_STRUCT, f->n_columns + 1);
	begin_element(t);
	put_bytes(t, 4, f->table->name, strlen(f->table->name));
	put_i32(t, 5, (int32_t)f->n_columns);
	end_struct(t);
	for (unsigned i = 0; i < f->n_columns; i++) {
		const struct parquet_column *c = &f->columns[i];
		const char *name = column_name(f, i);

		begin_element(t);
		put_i32(t, 1, c->text ? TYPE_BYTES : TYPE_INT64);
		put_i32(t, 3, c->optional ? OPTIONAL : REQUIRED);
		put_bytes(t, 4, name, strlen(name));
		if (c->text) {
			put_i32(t, 6, 0);	/* UTF8, for old readers */
			begin_struct(t, 10);
			begin_struct(t, 1);	/* STRING */
			end_struct(t);
			end_struct(t);
		}
		end_struct(t);
	}
}

static void put_pair(struct thrift *t, const char *key, const char *value)
{
	begin_element(t);
	put_bytes(t, 1, key, strlen(key));
	put_bytes(t, 2, value, strlen(value));
	end_struct(t);
}

#define TEXT_OF(X) #X
#define TEXT(X) TEXT_OF(X)

/* Bytes are ordered as such, numbers with their sign: so minimum and maximum mean it. */
static void put_orders(const struct parquet_file *f, struct thrift *t)
{
	put_list(t, 7, T_STRUCT, f->n_columns);
	for (unsigned i = 0; i < f->n_columns; i++) {
		begin_element(t);
		begin_struct(t, 1);
		end_struct(t);
		end_struct(t);
	}
}

static void put_footer(const struct parquet_file *f, struct outbuf *out)
{
	struct thrift t = { .out = out };
	size_t n = (size_t)(f->groups->p - f->groups->buf);

	put_i32(&t, 1, 1);
	put_schema(f, &t);
	put_i64(&t, 3, f->all_rows);
	put_list(&t, 4, T_STRUCT, f->n_groups);
	outbuf_put(out, f->groups->buf, n);
	put_list(&t, 5, T_STRUCT, 2);
	put_pair(&t, "auxkit.schema", TEXT(TABLES_SCHEMA));
	put_pair(&t, "auxkit.table", f->table->name);
	put_bytes(&t, 6, "auxkit version " AUXKIT_VERSION, 15 + strlen(AUXKIT_VERSION));
	put_orders(f, &t);
	put_byte(out, 0);
}

/* ---- rows ---- */

/* Room in all columns for more rows than there are. */
static int grow_columns(struct parquet_file *f)
{
	size_t max = f->max_rows ? f->max_rows * 2 : ROWS;

	max = max < PARQUET_ROWS ? max : PARQUET_ROWS;
	for (unsigned i = 0; i < f->n_columns; i++) {
		struct parquet_column *c = &f->columns[i];
		uint64_t *values = reallocarray(c->values, max, sizeof(*values));
		uint8_t *present = values ? realloc(c->present, max / 8 + 1) : NULL;

		c->values = values ? values : c->values;
		c->present = present ? present : c->present;
		if (!present)
			return -AUX_E_NOMEM;
	}
	f->max_rows = max;
	return 0;
}

/* NULLs take no place among the values, and the bytes of present are of 8 rows. */
static void add_some(struct parquet_file *f, unsigned column)
{
	struct parquet_column *c = &f->columns[column];
	uint64_t *to = c->values + c->n;
	uint64_t present = 0;

	for (unsigned i = 0; i < f->rows.n; i++) {
		const union table_value *v = &f->rows.values[i][column];
		unsigned is_there = !(f->rows.nulls[i] >> column & 1);

		*to = c->text ? (uintptr_t)v->text : v->v;
		to += is_there;
		present |= (uint64_t)is_there << i;
	}
	c->n = (size_t)(to - c->values);
	present = htole64(present);
	memcpy(c->present + f->n_rows / 8, &present, (f->rows.n + 7) / 8);
}

static void add_all(struct parquet_file *f, unsigned column)
{
	uint64_t *to = f->columns[column].values + f->n_rows;

	for (unsigned i = 0; i < f->rows.n; i++)
		to[i] = f->rows.values[i][column].v;
}

/* The rows become ends of columns. */
static int flush_rows(struct parquet_file *f)
{
	int err = f->n_rows + ROWS <= f->max_rows ? 0 : grow_columns(f);

	if (err)
		return err;
	for (unsigned i = 0; i < f->table->n_columns; i++) {
		if (f->columns[i].optional)
			add_some(f, i);
		else
			add_all(f, i);
	}
	for (unsigned i = 0; i < f->rows.n && f->has_recording; i++)
		f->columns[f->table->n_columns].values[f->n_rows + i] = (uint64_t)f->recording;
	f->n_rows += f->rows.n;
	f->rows.n = 0;
	return f->n_rows < PARQUET_ROWS ? 0 : write_group(f);
}

int parquet_file_put(struct parquet_file *f, const struct table_row *r)
{
	unsigned n = f->rows.n++;

	memcpy(f->rows.values[n], r->values, f->table->n_columns * sizeof(r->values[0]));
	f->rows.nulls[n] = r->nulls;
	return n + 1 < ROWS ? 0 : flush_rows(f);
}

/* ---- begin and end ---- */

int parquet_file_finish(struct parquet_file *f)
{
	int err = f->rows.n ? flush_rows(f) : 0;
	struct outbuf *footer;
	uint32_t n;

	if (!err && f->n_rows)
		err = write_group(f);
	footer = err ? NULL : outbuf_new(-1);
	if (!footer)
		return err ? err : -AUX_E_NOMEM;
	put_footer(f, footer);
	n = htole32((uint32_t)(footer->p - footer->buf));
	if (outbuf_failed(footer)) {
		err = -AUX_E_NOMEM;
	} else {
		outbuf_put(f->out, footer->buf, (size_t)(footer->p - footer->buf));
		outbuf_put(f->out, (const char *)&n, sizeof(n));
		outbuf_put(f->out, "PAR1", 4);
		err = flush_to_file(f);
	}
	outbuf_free(footer);
	return err;
}

static bool is_complete(const struct parquet_file *f)
{
#ifdef HAVE_ZSTD
	if (!f->zstd)
		return false;
#endif
	return f->encoder && f->out && f->groups && f->packed && f->chunk.data &&
	       f->chunk.dictionary;
}

struct parquet_file *parquet_file_new(int fd, const struct table *t,
				      const int64_t *recording)
{
	struct parquet_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->table = t;
	f->has_recording = recording;
	f->recording = recording ? *recording : 0;
	f->n_columns = t->n_columns + f->has_recording;
	for (unsigned i = 0; i < t->n_columns; i++) {
		f->columns[i].text = t->columns[i].kind == COLUMN_TEXT;
		f->columns[i].optional = t->columns[i].kind != COLUMN_NUMBER;
	}
	f->encoder = parquet_encoder_new();
	f->out = outbuf_new(fd);
	f->groups = outbuf_new(-1);
	f->packed = outbuf_new(-1);
	f->chunk.data = outbuf_new(-1);
	f->chunk.dictionary = outbuf_new(-1);
#ifdef HAVE_ZSTD
	f->zstd = ZSTD_createCCtx();
#endif
	if (!is_complete(f)) {
		parquet_file_free(f);
		return NULL;
	}
	outbuf_put(f->out, "PAR1", 4);
	f->offset = 4;
	return f;
}

void parquet_file_free(struct parquet_file *f)
{
	if (!f)
		return;
	for (unsigned i = 0; i < f->n_columns; i++) {
		free(f->columns[i].values);
		free(f->columns[i].present);
	}
	parquet_encoder_free(f->encoder);
	outbuf_free(f->out);
	outbuf_free(f->groups);
	outbuf_free(f->packed);
	outbuf_free(f->chunk.data);
	outbuf_free(f->chunk.dictionary);
#ifdef HAVE_ZSTD
	ZSTD_freeCCtx(f->zstd);
#endif
	free(f);
}
