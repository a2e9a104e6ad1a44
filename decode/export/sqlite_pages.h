/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sqlite_pages: rows written as pages of a database, without SQLite, which takes 1 us for
 * each row and as much for its indexes. The database has the empty table and its indexes,
 * and is closed; rows come in the order of their tree.
 */
#ifndef DECODE_EXPORT_SQLITE_PAGES_H
#define DECODE_EXPORT_SQLITE_PAGES_H

#include <stddef.h>
#include <stdint.h>

/* A record in the making. Columns are put in order. */
#define PAGES_COLUMNS 26
struct pages_record {
	uint8_t types[2 * PAGES_COLUMNS], data[9 * PAGES_COLUMNS + 128];
	size_t n_types, n_data;
};
void pages_null(struct pages_record *r);
void pages_int(struct pages_record *r, uint64_t v);
void pages_word(struct pages_record *r, const char *s);	/* up to 50 bytes */
/* The record as it is in a cell; returns its size: at most PAGES_RECORD. */
#define PAGES_RECORD (3 + sizeof(struct pages_record))
size_t pages_finish(const struct pages_record *r, uint8_t *to);

struct pages;

/* The database, open for reading and writing. NULL: *err: -AUX_E_NOMEM, -AUX_E_IO, or
 * -AUX_E_UNSUPPORTED: it is of another form than is written here. */
struct pages *pages_new(int fd, int *err);
/* The tree whose root is that page, from now on. */
void pages_begin(struct pages *p, uint32_t root, int is_table);
/* A row, after all those with a smaller number or key; id: of a table. */
int pages_put(struct pages *p, uint64_t id, const uint8_t *record, size_t n);
int pages_end(struct pages *p);
/* After the last tree: 0, or -AUX_E_IO. */
int pages_commit(struct pages *p);
void pages_free(struct pages *p);	/* accepts NULL */

#endif
