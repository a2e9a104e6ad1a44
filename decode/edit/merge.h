/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * merge: several recordings of one machine as one.
 *
 * Parts of one recording (rotated files, cuts of a file) share their event ids
 * and their streams, and what two of them have in common is there once. Others
 * get ids and stream numbers of their own. Files that count time in different
 * ways, or trace with different units, are refused.
 */
#ifndef DECODE_EDIT_MERGE_H
#define DECODE_EDIT_MERGE_H

#include <stdint.h>

#include <aux/error.h>

#include "decode/lib/import/import.h"
#include "perfdata/rewrite.h"

struct merge;

struct merge_stats {
	uint64_t n_records;	/* without trace */
	uint64_t n_repeated;	/* that were in an earlier file, too */
	uint64_t n_bytes;	/* of trace */
	uint32_t n_parts;	/* files that go on where others ended */
	uint64_t done, total;	/* bytes of the files */
};

/* *which: the file that an error is about; NULL: all. o may be NULL. */
int merge_open(struct merge **m, const char *const *paths, size_t n,
	       const struct container_options *o, const char **which,
	       struct aux_diag *diag);
void merge_close(struct merge *m);

/* The byte order of the files. */
bool merge_swapped(const struct merge *m);
/* Attrs, records, trace, features; show is called now and then, NULL: nobody.
 * 0, or what rewrite_failed says. */
int merge_write(struct merge *m, struct rewrite *w,
		void (*show)(void *priv, const struct merge_stats *stats),
		void *priv);
const struct merge_stats *merge_stats(const struct merge *m);
/* What ended the reading of an input early, or NULL. */
const struct aux_diag *merge_damage(const struct merge *m, size_t i);

#endif
