/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage: several files of coverage as one: lcov tracefiles are added up, drcov and
 * sancov files united, of AFL's maps the larger count of each edge is kept. All of
 * them are of one format, told by the first bytes. Nothing in a file is trusted.
 */
#ifndef DECODE_COVERAGE_MERGE_H
#define DECODE_COVERAGE_MERGE_H

#include <stdbool.h>
#include <stddef.h>

#include <aux/error.h>

struct outbuf;

/* Whether a file begins as one of these. */
bool coverage_merge_is_file(const char *path);
/* 0; -AUX_E_FORMAT with diag (which: the file), -AUX_E_IO, -AUX_E_NOMEM. */
int coverage_merge(const char *const *paths, size_t n, struct outbuf *out,
		   const char **which, struct aux_diag *diag);

#endif
