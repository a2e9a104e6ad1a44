/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rewrite_features: feature sections that a killed writer did not come to, made
 * from its records: build ids of what was mapped, the time of samples, formats of
 * tracepoints, and what stands as HEADER_FEATURE among the data.
 */
#ifndef PERFDATA_REWRITE_FEATURES_H
#define PERFDATA_REWRITE_FEATURES_H

#include "perfdata/rewrite.h"

struct rewrite_found {
	bool swap;
	uint64_t first_ns, last_ns;	/* 0: no record has a time */
	uint8_t times[16];
	struct rewrite_bytes build_ids;
	struct rewrite_bytes pieces;	/* of the section in hand */
	uint64_t pieces_total;
	struct aux_bytes features[AUX_FEAT_BITS];
};

/* Looks at one record. -AUX_E_NOMEM at worst. */
int rewrite_found_take(struct rewrite_found *f, const struct aux_reader *r,
		       const struct aux_event *ev);
/* Sets those features that w has not. f outlives w. */
void rewrite_found_set(struct rewrite_found *f, struct rewrite *w);
void rewrite_found_fini(struct rewrite_found *f);

#endif
