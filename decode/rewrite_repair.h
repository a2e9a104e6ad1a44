/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rewrite_repair: a whole file from one whose writer was killed, perf's or ours.
 *
 * All whole records go into a new file, with the index and the features that its
 * writer had no time for; it takes the place of the old one in one step.
 */
#ifndef AUXDECODE_REWRITE_REPAIR_H
#define AUXDECODE_REWRITE_REPAIR_H

#include "rewrite.h"

struct repair_options {
	const char *output;	/* NULL: in the place of the file */
	bool dry_run;		/* nothing is written */
};

struct repair_result {
	bool complete;		/* there was nothing to do */
	uint64_t cut;		/* bytes at the end that are no whole record */
	uint64_t missing;	/* of the last trace, announced but not there */
	uint64_t n_records, n_auxtrace;
	uint64_t aux_bytes;	/* payload, padding included */
	bool writing;		/* an error is of the new file, and names it */
};

/* 0, or -AUX_E_*: then nothing was changed. */
int rewrite_repair(const char *path, const struct repair_options *o,
		   struct repair_result *r, struct aux_diag *diag);

#endif
