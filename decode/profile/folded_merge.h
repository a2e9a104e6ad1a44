/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * merge_folded: folded stacks (`flame`, stackcollapse-*) of several runs as one:
 * the numbers of equal stacks are added up. Nothing in a file is trusted.
 */
#ifndef DECODE_PROFILE_FOLDED_MERGE_H
#define DECODE_PROFILE_FOLDED_MERGE_H

#include <stdbool.h>
#include <stddef.h>

#include <aux/error.h>

struct outbuf;

/* Whether a file begins with a line of text that ends in a blank and a number;
 * lines that begin with "# " are comments, as in all of it. */
bool merge_folded_is_file(const char *path);
/*
 * Stacks by name, callers before what they call, as `flame` writes them; sums stop
 * at the largest number. 0; -AUX_E_FORMAT with diag (which: the file, offset: of the
 * line), -AUX_E_IO, -AUX_E_LIMIT (larger than 1 GB), -AUX_E_NOMEM.
 */
int merge_folded(const char *const *paths, size_t n, struct outbuf *out,
		 const char **which, struct aux_diag *diag);

#endif
