/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Trees of a SQLite database, built from the left to the right; see sqlite_pages.h.
 *
 * A page is written when it is full, and what leads to it goes into the page above it. So
 * there is one page of each level in memory, and pages are written in the order of the
 * file; but the root, which has the place that SQLite gave it.
 *
 *	table: rows are in leaves alone. An inner cell is a page and the last number in it.
 *	index: an inner cell is a page and the record after all in it, which no leaf has.
 *
 * So a page that is full gives its last cell to the level above in an index. Records are
 * small: none needs overflow pages.
 *
 * Format: https://www.sqlite.org/fileformat2.html
 */
#include <endian.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <aux/error.h>

#include "decode/export/export.h"
#include "decode/export/sqlite_pages.h"

#define LEVELS 12		/* more than 2^31 pages need */
#define MAX_PAGE 65536
#define MAX_CELL (4 + 9 + 9 + PAGES_RECORD)
#define OUT_SIZE ((size_t)1 << 20)
#define LOCK_BYTE 0x40000000	/* its page holds nothing */

enum { INNER_INDEX = 2, INNER_TABLE = 5, LEAF_INDEX = 10, LEAF_TABLE = 13 };

/* The page of a level that is being filled. Cells grow down from its end, and their
 * places up from its head. */
struct level {
	uint8_t page[MAX_PAGE];
	uint32_t n_cells, start;	/* of the cells */
	bool used;
};

struct pages {
	int fd;
	uint32_t size;		/* of a page */
	uint32_t n_pages;	/* of the file */
	uint32_t root;
	bool is_table;
	uint64_t last_id;
	struct level *levels[LEVELS];	/* 0: leaves */
	uint8_t *out;		/* pages to be written, from out_page on */
	size_t n_out;
	uint32_t out_page;
	uint8_t header[100];
};

/* ---- records ---- */

static void store_be(uint8_t *p, uint64_t v, unsigned n)
{
	while (n--) {
		p[n] = (uint8_t)v;
		v >>= 8;
	}
}

static uint32_t load_be(const uint8_t *p, unsigned n)
{
	uint32_t v = 0;

	while (n--)
		v = v << 8 | *p++;
	return v;
}

/* Returns its size, up to 9. */
static size_t put_varint(uint8_t *p, uint64_t v)
{
	uint8_t buf[10];
	size_t n = 0;

	if (v >> 56) {
		p[8] = (uint8_t)v;
		v >>= 8;
		for (unsigned i = 8; i-- > 0; v >>= 7)
			p[i] = (uint8_t)v | 0x80;
		return 9;
	}
	do {
		buf[n++] = v & 0x7f;
		v >>= 7;
	} while (v);
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(buf[n - 1 - i] | (i + 1 < n ? 0x80 : 0));
	return n;
}

void pages_null(struct pages_record *r)
{
	r->types[r->n_types++] = 0;
}

void pages_int(struct pages_record *r, uint64_t v)
{
	static const uint8_t types[] = { 0, 1, 2, 3, 4, 5, 5, 6, 6 };	/* by bytes */
	static const uint8_t sizes[] = { 0, 1, 2, 3, 4, 6, 8 };
	uint64_t magnitude = v ^ (uint64_t)((int64_t)v >> 63), be;
	unsigned type;

	if (v < 2) {	/* types that need no byte */
		r->types[r->n_types++] = (uint8_t)(8 + v);
		return;
	}
	type = types[(72 - (unsigned)__builtin_clzll(magnitude | 1)) / 8];
	r->types[r->n_types++] = (uint8_t)type;
	/* all eight bytes are written: there is room for them behind each number */
	be = htobe64(v << (64 - 8 * sizes[type]));
	memcpy(r->data + r->n_data, &be, sizeof(be));
	r->n_data += sizes[type];
}

void pages_word(struct pages_record *r, const char *s)
{
	size_t n = strnlen(s, 50);

	r->types[r->n_types++] = (uint8_t)(13 + 2 * n);
	memcpy(r->data + r->n_data, s, n);
	r->n_data += n;
}

/* The size of the header counts itself. */
size_t pages_finish(const struct pages_record *r, uint8_t *to)
{
	size_t n = put_varint(to, r->n_types + 1);

	memcpy(to + n, r->types, r->n_types);
	memcpy(to + n + r->n_types, r->data, r->n_data);
	return n + r->n_types + r->n_data;
}

/* ---- the file ---- */

static int flush_out(struct pages *p)
{
	int err = export_write_at(p->fd, p->out, p->n_out,
			   (uint64_t)(p->out_page - 1) * p->size);

	p->n_out = 0;
	return err;
}

struct pages *pages_new(int fd, int *err)
{
	struct pages *p = calloc(1, sizeof(*p));
	ssize_t n;

	*err = -AUX_E_NOMEM;
	if (!p)
		return NULL;
	p->fd = fd;
	p->out = malloc(OUT_SIZE);
	if (!p->out)
		goto fail;
	n = pread(fd, p->header, sizeof(p->header), 0);
	*err = n < 0 ? -AUX_E_IO : -AUX_E_UNSUPPORTED;
	if (n != sizeof(p->header))
		goto fail;
	p->size = load_be(p->header + 16, 2);
	p->size = p->size == 1 ? MAX_PAGE : p->size;
	p->n_pages = load_be(p->header + 28, 4);
	/* no bytes are reserved, no page is free, none is a pointer map; and columns may
	 * be 0 and 1 by type */
	if (p->size < 4096 || p->header[20] || load_be(p->header + 32, 4) ||
	    load_be(p->header + 52, 4) || load_be(p->header + 44, 4) != 4)
		goto fail;	/* -AUX_E_UNSUPPORTED */
	*err = 0;
	return p;
fail:
	pages_free(p);
	return NULL;
}

void pages_free(struct pages *p)
{
	if (!p)
		return;
	for (unsigned i = 0; i < LEVELS; i++)
		free(p->levels[i]);
	free(p->out);
	free(p);
}

/* ---- pages ---- */

static uint32_t head_size(unsigned level)
{
	return level ? 12 : 8;
}

/* Completes the page of a level; right: the page after its last cell. */
static void finish_page(struct pages *p, unsigned level, uint32_t right)
{
	struct level *l = p->levels[level];
	uint8_t *page = l->page;

	page[0] = level ? (p->is_table ? INNER_TABLE : INNER_INDEX)
			: (p->is_table ? LEAF_TABLE : LEAF_INDEX);
	store_be(page + 1, 0, 2);
	store_be(page + 3, l->n_cells, 2);
	store_be(page + 5, l->start & 0xffff, 2);
	page[7] = 0;
	if (level)
		store_be(page + 8, right, 4);
	/* what is not used is zeros: the file depends on the rows alone */
	memset(page + head_size(level) + 2 * l->n_cells, 0,
	       l->start - head_size(level) - 2 * l->n_cells);
	l->n_cells = 0;
	l->start = p->size;
}

/* Writes the page of a level at the end of the file. Its number, or an error. */
static int64_t append_page(struct pages *p, unsigned level)
{
	int err = 0;

	if (p->n_out + p->size > OUT_SIZE)
		err = flush_out(p);
	if (!err && p->n_pages == LOCK_BYTE / p->size) {
		err = flush_out(p);
		p->n_pages++;
	}
	if (!err && p->n_pages >= INT32_MAX - 1)
		err = -AUX_E_IO;
	if (err)
		return err;
	p->n_pages++;
	if (!p->n_out)
		p->out_page = p->n_pages;
	memcpy(p->out + p->n_out, p->levels[level]->page, p->size);
	p->n_out += p->size;
	return p->n_pages;
}

static int add_cell(struct pages *p, unsigned level, const uint8_t *cell, size_t n);

static uint64_t load_varint(const uint8_t *p, size_t *size)
{
	uint64_t v = 0;
	size_t n = 0;

	while (n < 8 && p[n] & 0x80)
		v = v << 7 | (p[n++] & 0x7f);
	v = n == 8 ? v << 8 | p[n] : v << 7 | p[n];
	*size = n + 1;
	return v;
}

/*
 * The page of a level is full: it is written, and a cell that leads to it goes up. That
 * is made of its last cell: of an inner page, which has one page more than cells, and of
 * an index, whose records are in one page each. Of the leaf of a table it stays.
 */
static int close_page(struct pages *p, unsigned level)
{
	struct level *l = p->levels[level];
	uint8_t *head = l->page + head_size(level), up[MAX_CELL];
	const uint8_t *last = l->page + load_be(head + 2 * (l->n_cells - 1), 2);
	size_t n = 4, size;
	uint32_t right = 0;
	int64_t number;

	if (level) {
		right = load_be(last, 4);
		last += 4;
	}
	if (p->is_table) {
		if (!level) {	/* its size, then its number */
			load_varint(last, &size);
			last += size;
		}
		n += put_varint(up + 4, load_varint(last, &size));
	} else {
		size_t record = load_varint(last, &size);

		memcpy(up + 4, last, size + record);
		n += size + record;
	}
	if (level || !p->is_table) {
		uint32_t before = l->n_cells > 1 ?
				  load_be(head + 2 * (l->n_cells - 2), 2) : p->size;

		l->n_cells--;
		l->start = before;
	}
	finish_page(p, level, right);
	number = append_page(p, level);
	if (number < 0)
		return (int)number;
	store_be(up, (uint64_t)number, 4);
	return add_cell(p, level + 1, up, n);
}

static int add_cell(struct pages *p, unsigned level, const uint8_t *cell, size_t n)
{
	struct level *l;
	int err;

	if (level == LEVELS)
		return -AUX_E_IO;
	if (!p->levels[level]) {
		p->levels[level] = malloc(sizeof(*l));
		if (!p->levels[level])
			return -AUX_E_NOMEM;
		p->levels[level]->used = false;
	}
	l = p->levels[level];
	if (!l->used) {
		l->used = true;
		l->n_cells = 0;
		l->start = p->size;
	}
	if (l->start < head_size(level) + 2 * (l->n_cells + 1) + n) {
		err = close_page(p, level);
		if (err)
			return err;
	}
	l->start -= (uint32_t)n;
	memcpy(l->page + l->start, cell, n);
	store_be(l->page + head_size(level) + 2 * l->n_cells++, l->start, 2);
	return 0;
}

/* ---- trees ---- */

void pages_begin(struct pages *p, uint32_t root, int is_table)
{
	p->root = root;
	p->is_table = is_table;
	p->last_id = 0;
	for (unsigned i = 0; i < LEVELS; i++)
		if (p->levels[i])
			p->levels[i]->used = false;
}

int pages_put(struct pages *p, uint64_t id, const uint8_t *record, size_t n)
{
	uint8_t cell[MAX_CELL];
	size_t size = put_varint(cell, n);

	if (n > PAGES_RECORD)
		return -AUX_E_INVAL;
	if (p->is_table) {
		if (id <= p->last_id && p->levels[0] && p->levels[0]->used)
			return -AUX_E_INVAL;
		p->last_id = id;
		size += put_varint(cell + size, id);
	}
	memcpy(cell + size, record, n);
	return add_cell(p, 0, cell, size + n);
}

/* What is left becomes the right edge of the tree; the highest page its root. */
int pages_end(struct pages *p)
{
	int64_t right = 0;
	unsigned level = 0;
	int err;

	if (!p->levels[0] || !p->levels[0]->used)
		return 0;	/* SQLite has made it empty */
	while (level + 1 < LEVELS && p->levels[level + 1] && p->levels[level + 1]->used) {
		finish_page(p, level, (uint32_t)right);
		right = append_page(p, level);
		if (right < 0)
			return (int)right;
		level++;
	}
	finish_page(p, level, (uint32_t)right);
	err = flush_out(p);
	return err ? err : export_write_at(p->fd, p->levels[level]->page, p->size,
				    (uint64_t)(p->root - 1) * p->size);
}

/* The size of the file, and that it has changed. */
int pages_commit(struct pages *p)
{
	uint32_t changes = load_be(p->header + 24, 4) + 1;

	store_be(p->header + 24, changes, 4);
	store_be(p->header + 28, p->n_pages, 4);
	store_be(p->header + 92, changes, 4);
	return export_write_at(p->fd, p->header, sizeof(p->header), 0);
}
