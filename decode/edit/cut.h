/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cut: the part of a recording that shows what ran in a time, on a CPU or in a thread.
 *
 * Streams are cut at sync points: PSBs of Intel PT, starts of AUX records of all other
 * traces. A cut keeps the trace from the last one not later than the wanted time to the
 * second one after it. So a decode with the filter of the cut shows the same as with
 * the whole recording.
 */
#ifndef DECODE_EDIT_CUT_H
#define DECODE_EDIT_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/error.h>

#include "perfdata/rewrite.h"
#include "decode/lib/session/session.h"

struct cut;

struct cut_wanted {
	uint64_t time_from, time_to;	/* ns; 0 and UINT64_MAX: all */
	int64_t tid, cpu;		/* -1: all */
};

struct cut_stats {
	uint64_t n_bytes, n_all;	/* of trace: kept, and in the recording */
};

/* The session has no filters and outlives the cut. -AUX_E_NOENT: no trace is left;
 * -AUX_E_UNSUPPORTED: the trace cannot be cut so. Both with diag. */
int cut_new(struct cut **c, struct session *s, const struct cut_wanted *wanted,
	    struct aux_diag *diag);
void cut_free(struct cut *c);
struct cut_stats cut_stats(const struct cut *c);

/* True if a record is kept. Called for all records but AUXTRACE, in the order of the file,
 * since it counts context switches. */
bool cut_keep(void *cut, const struct aux_event *ev);
/* Writes the AUXTRACE records, after all others. */
void cut_write_trace(const struct cut *c, struct rewrite *w);

#endif
