/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * copy_file: the rows of one table as PostgreSQL's COPY reads them: a row is a line, with
 * tabs between columns, \N for NULL, and backslashes before what would end either.
 *
 * Format: PostgreSQL, "COPY", text format.
 */
#ifndef DECODE_EXPORT_COPY_FILE_H
#define DECODE_EXPORT_COPY_FILE_H

#include "decode/export/tables.h"

struct copy_file;

/* recording: the value of a last column; NULL: without it. fd is not closed. NULL: out of
 * memory. */
struct copy_file *copy_file_new(int fd, const struct table *t, const int64_t *recording);
void copy_file_free(struct copy_file *f);	/* accepts NULL */
/* 0, -AUX_E_NOMEM, or -AUX_E_IO with errno. */
int copy_file_put(struct copy_file *f, const struct table_row *r);
/* What is not written yet. */
int copy_file_finish(struct copy_file *f);

#endif
