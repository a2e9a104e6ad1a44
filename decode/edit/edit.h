/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What makes recordings of recordings: bundle adds the code that a flow used,
 * cut keeps a part, merge joins several. Each reads through the session or the
 * reader, and writes through perfdata/rewrite.h.
 */
#ifndef DECODE_EDIT_EDIT_H
#define DECODE_EDIT_EDIT_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/error.h>

#include "decode/lib/import/import.h"
#include "decode/lib/session/session.h"
#include "decode/lib/session/sink.h"
#include "perfdata/rewrite.h"

/*
 * bundle: the code that a flow used, as records that make a recording
 * self-contained.
 *
 * A sink notes the pages that RANGE events touch, and the session's on_code
 * hook those that decoders read. Pages are written as AUX_OWN_CODE with the
 * time of their mapping and its process, so that exec, dlopen and fork do to
 * them what they did to the mapping. Code that the recording has saved already
 * stays as it is. Names go into AUX_OWN_SYMBOLS, logs of JIT compilers into
 * AUX_OWN_FILE.
 */

struct bundle;

struct bundle_stats {
	uint64_t n_pages;	/* distinct, of 4 KB */
	uint64_t n_bytes;	/* of code, each blob once */
	uint64_t n_symbols;
	uint64_t n_insns;
};

/* The session outlives the bundle. NULL: out of memory. */
struct bundle *bundle_new(struct session *s);
void bundle_free(struct bundle *b);

/* The flow function of a sink whose priv is the bundle. 0, or -AUX_E_NOMEM. */
int bundle_flow(void *bundle, const struct flow_ctx *ctx,
		const struct aux_flow *ev, size_t n);
/* Notes the page at ip, which a decoder reads. bundle is its priv; out of
 * memory is reported by bundle_write. */
void bundle_ask(void *bundle, const struct space *space, uint64_t ip);

/* Writes all code and names, once. 0, -AUX_E_NOMEM, or what rewrite_failed
 * returns. */
int bundle_write(struct bundle *b, struct rewrite *w,
		 struct bundle_stats *stats);
/* Writes the logs of JIT compilers that r maps but does not hold. symfs: the
 * directory in front of their paths, or NULL. 0, or -AUX_E_NOMEM. */
int bundle_write_logs(struct aux_reader *r, struct rewrite *w,
		      const char *symfs);

/*
 * cut: the part of a recording that shows what ran in a time, on a CPU or in a
 * thread.
 *
 * Streams are cut at sync points: PSBs of Intel PT, starts of AUX records of
 * all other traces. A cut keeps the trace from the last one not later than the
 * wanted time to the second one after it. So a decode with the filter of the
 * cut shows the same as with the whole recording.
 */

struct cut;

struct cut_wanted {
	uint64_t time_from, time_to;	/* ns; 0 and UINT64_MAX: all */
	int64_t tid, cpu;		/* -1: all */
};

struct cut_stats {
	uint64_t n_bytes, n_all;	/* of trace: kept, and in the recording */
};

/* The session has no filters and outlives the cut. -AUX_E_NOENT: no trace is
 * left; -AUX_E_UNSUPPORTED: the trace cannot be cut so. Both with diag. */
int cut_new(struct cut **c, struct session *s, const struct cut_wanted *wanted,
	    struct aux_diag *diag);
void cut_free(struct cut *c);
struct cut_stats cut_stats(const struct cut *c);

/* True if a record is kept. Called for all records but AUXTRACE, in the order
 * of the file, since it counts context switches. */
bool cut_keep(void *cut, const struct aux_event *ev);
/* Writes the AUXTRACE records, after all others. */
void cut_write_trace(const struct cut *c, struct rewrite *w);

/*
 * merge: several recordings of one machine as one.
 *
 * Parts of one recording (rotated files, cuts of a file) share their event ids
 * and their streams, and what two of them have in common is written once. Other
 * recordings get ids and stream numbers of their own. Files whose clocks or
 * trace units differ are refused.
 */

struct merge;

struct merge_stats {
	uint64_t n_records;	/* written, AUXTRACE aside */
	uint64_t n_repeated;	/* left out: an earlier file has them */
	uint64_t n_bytes;	/* of trace, written */
	uint32_t n_parts;	/* files of the recording of an earlier one */
	uint64_t done, total;	/* bytes of the files: read, and in all */
};

/* Opens and reads n files, and decides how they fit together. o may be NULL. memory:
 * bytes for what is kept of all of them, 0: as many as it takes. *which: the file that an
 * error is about; NULL: no single one. merge_close is due on success. */
int merge_open(struct merge **m, const char *const *paths, size_t n,
	       const struct import_options *o, uint64_t memory, const char **which,
	       struct aux_diag *diag);
void merge_close(struct merge *m);

/* The byte order of the files. */
bool merge_swapped(const struct merge *m);
/* Writes events, records, trace and features, once. show, if not NULL, is
 * called every few thousand records. 0, what rewrite_failed returns, or
 * -AUX_E_NOMEM or -AUX_E_LIMIT, with its text in diag. */
int merge_write(struct merge *m, struct rewrite *w,
		void (*show)(void *priv, const struct merge_stats *stats),
		void *priv, struct aux_diag *diag);
const struct merge_stats *merge_stats(const struct merge *m);
/* Why input i (as on the command line) could not be read to its end, or
 * NULL. */
const struct aux_diag *merge_damage(const struct merge *m, size_t i);

#endif
