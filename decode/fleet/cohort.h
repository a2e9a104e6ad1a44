/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cohorts: what tells two groups of recordings apart. Each recording is a part of
 * --do hot, flame, ... of one unit; of each function, stack or branch, the numbers of all
 * recordings of one group are compared with those of the other.
 *
 * The test is that of Mann and Whitney (1947): it asks for ranks, not for a distribution,
 * so one slow outlier does not decide. Its probability is exact, of all ways to choose a group
 * of that size from these very ranks, where that can be counted in time; else that of the
 * normal approximation, with the corrections for ties and continuity. As there are thousands of
 * functions, some differ by chance: what is shown is limited by the rate of false
 * discoveries (Benjamini and Hochberg, 1995), q.
 */
#ifndef DECODE_FLEET_COHORT_H
#define DECODE_FLEET_COHORT_H

#include "decode/fleet/fleet.h"

#define COHORT_MIN 4	/* recordings in a group: fewer can prove nothing */

struct cohort_found {
	char *key;		/* with tabs between its fields */
	unsigned value;		/* of the kind: which number differs */
	double q;		/* share of what is shown up to here that is chance */
	double p;
	double effect;		/* -1 to 1: how often a number of the second group is larger
				 * than one of the first, less how often smaller (Cliff) */
	double median[2];
	size_t farthest;	/* the file that is farthest from the first group's median */
};

struct cohort_result {
	struct cohort_found *v;	/* by p, then by effect, by value, by the difference of the
				 * medians, by key */
	size_t n, cap;
	size_t n_tests;		/* numbers that differ at all */
};

/*
 * paths[0..n[0]) are the first group, the others the second. -AUX_E_INVAL: a group has
 * less than COHORT_MIN files, or a file is of several recordings; else as fleet_reduce.
 * All that differs comes back; the caller looks at q. values: which of the kind's values
 * are compared, as bits.
 */
int cohort_compare(struct cohort_result *r, const char *const *paths, const size_t n[2],
		   uint32_t values, const struct fleet_kind **kind, const char **which,
		   struct aux_diag *diag);
/* What a part is of. */
int cohort_kind(const struct fleet_kind **kind, const char *path, const char **which,
		struct aux_diag *diag);
void cohort_fini(struct cohort_result *r);

#endif
