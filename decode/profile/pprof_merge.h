/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * merge_pprof: profiles of pprof as one. All of them have the same sample types, in
 * the same order; strings, functions, mappings, locations and stacks that are equal
 * become one, whatever their numbers were, and the values of equal stacks (with
 * equal labels) are added up. A mapping is equal to one of the same file (build id,
 * else path), size and offset elsewhere in memory, and so are the places in it.
 *
 * Files are gzip'ed or not, in any order of fields, and not trusted.
 *
 * Specification: google/pprof, proto/profile.proto; Protocol Buffers, "Encoding".
 */
#ifndef DECODE_PROFILE_PPROF_MERGE_H
#define DECODE_PROFILE_PPROF_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

struct outbuf;

/* Whether a file begins as one: gzip'ed, or with a sample type. */
bool merge_pprof_is_file(const char *path);
/* Writes a gzip'ed profile. 0; -AUX_E_FORMAT with diag (which: the file, offset: in
 * what was unpacked), -AUX_E_IO, -AUX_E_LIMIT, -AUX_E_NOMEM. Sums stop at the largest
 * number. */
int merge_pprof(const char *const *paths, size_t n, struct outbuf *out,
		const char **which, struct aux_diag *diag);

#endif
