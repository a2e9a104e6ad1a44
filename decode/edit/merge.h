/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * merge: several recordings of one machine as one.
 *
 * Parts of one recording (rotated files, cuts of a file) share their event ids
 * and their streams, and what two of them have in common is written once. Other
 * recordings get ids and stream numbers of their own. Files whose clocks or trace
 * units differ are refused.
 */
#ifndef DECODE_EDIT_MERGE_H
#define DECODE_EDIT_MERGE_H

#include <stdint.h>

#include <aux/error.h>

#include "decode/lib/import/import.h"
#include "perfdata/rewrite.h"

struct merge;

struct merge_stats {
	uint64_t n_records;	/* written, AUXTRACE aside */
	uint64_t n_repeated;	/* left out: an earlier file has them */
	uint64_t n_bytes;	/* of trace, written */
	uint32_t n_parts;	/* files of the recording of an earlier one */
	uint64_t done, total;	/* bytes of the files: read, and in all */
};

/* Opens and reads n files, and decides how they fit together. o may be NULL. *which: the
 * file that an error is about; NULL: no single one. merge_close is due on success. */
int merge_open(struct merge **m, const char *const *paths, size_t n,
	       const struct container_options *o, const char **which,
	       struct aux_diag *diag);
void merge_close(struct merge *m);

/* The byte order of the files. */
bool merge_swapped(const struct merge *m);
/* Writes events, records, trace and features, once. show, if not NULL, is called every few
 * thousand records. 0, or what rewrite_failed returns. */
int merge_write(struct merge *m, struct rewrite *w,
		void (*show)(void *priv, const struct merge_stats *stats),
		void *priv);
const struct merge_stats *merge_stats(const struct merge *m);
/* Why input i (as on the command line) could not be read to its end, or NULL. */
const struct aux_diag *merge_damage(const struct merge *m, size_t i);

#endif
