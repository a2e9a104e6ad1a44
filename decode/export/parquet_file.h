/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * parquet_file: the rows of one table as an Apache Parquet file. Rows wait in memory
 * column by column until there are PARQUET_ROWS: a row group, which is then written; so
 * memory does not grow with the file, but for some 3 KB of the footer for each group.
 *
 * What is written is what old and new readers have in common: numbers are INT64, text is
 * UTF-8; columns that may be NULL are OPTIONAL, no other nesting; each column of a group is
 * one data page (v1), in the encoding that takes least:
 *
 *	dictionary (RLE_DICTIONARY)	text, always; numbers with few different values
 *	delta (DELTA_BINARY_PACKED)	other numbers
 *	plain				where the differences are too large for that
 *
 * and compressed by zstd, if that is in the build. Each has its least and greatest value
 * and the number of NULLs. Times are INT64 nanoseconds, not TIMESTAMP, which readers turn
 * into dates of less precision.
 *
 * The same rows give the same bytes.
 */
#ifndef DECODE_EXPORT_PARQUET_FILE_H
#define DECODE_EXPORT_PARQUET_FILE_H

#include "decode/export/tables.h"

#define PARQUET_ROWS 122880	/* in a group; readers work on groups side by side */

struct parquet_file;

/* recording: the value of a last column of that name; NULL: without it. fd is written to
 * from its position on, and not closed. NULL: out of memory. */
struct parquet_file *parquet_file_new(int fd, const struct table *t,
				      const int64_t *recording);
void parquet_file_free(struct parquet_file *f);	/* accepts NULL */
/* 0, -AUX_E_NOMEM, or -AUX_E_IO with errno. */
int parquet_file_put(struct parquet_file *f, const struct table_row *r);
/* The last group and the footer: once. */
int parquet_file_finish(struct parquet_file *f);

#endif
