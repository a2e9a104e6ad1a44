/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cut: which part of a recording shows what ran in a time, on a CPU, in a thread.
 *
 * A stream is cut at its sync points: PSBs of Intel PT, starts of AUX records of
 * all else. What is kept goes from the last one not later than the time wanted
 * to the second one behind it: so the instructions up to the first of these two
 * come out as in the whole, and a decode with the same filter is the same.
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
	uint64_t n_bytes, n_all;	/* of trace: kept, and before */
};

/* The session has no filters and outlives the cut. -AUX_E_NOENT: nothing is left;
 * -AUX_E_UNSUPPORTED: what is wanted cannot be found out. */
int cut_new(struct cut **c, struct session *s, const struct cut_wanted *wanted,
	    struct aux_diag *diag);
void cut_free(struct cut *c);
struct cut_stats cut_stats(const struct cut *c);

/* Whether a record is needed; to be asked of all, but AUXTRACE, in order. */
bool cut_keep(void *cut, const struct aux_event *ev);
/* The AUXTRACE records. */
void cut_write_trace(const struct cut *c, struct rewrite *w);

#endif
