/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * repair: completes a perf.data file whose writer was killed, perf's or ours.
 *
 * Invariant: the records that reached the file stay where they are; what makes
 * the file whole comes behind them, the header last. A file that is complete, or
 * that is not understood, is not touched.
 */
#ifndef AUXCAP_REPAIR_H
#define AUXCAP_REPAIR_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/error.h>

struct repair_options {
	const char *output;	/* NULL: in place */
	bool dry_run;		/* nothing is written */
};

struct repair_result {
	bool complete;		/* there was nothing to do */
	uint64_t data_size;	/* of the whole records */
	uint64_t declared;	/* of the data before, as the header had it */
	uint64_t cut;		/* bytes behind them that are no whole record */
	uint64_t missing;	/* of the last trace, announced but not there */
	uint64_t n_records, n_auxtrace;
	uint64_t aux_bytes;	/* payload, padding included */
};

/* 0, or -AUX_E_*: then nothing was changed, except that after an error in
 * writing (AUX_E_IO) it can be tried again. */
int repair_file(const char *path, const struct repair_options *o,
		struct repair_result *r, struct aux_diag *diag);

#endif
