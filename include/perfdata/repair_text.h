/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is asked of a repair, what it found, and how both programs tell it.
 */
#ifndef PERFDATA_REPAIR_TEXT_H
#define PERFDATA_REPAIR_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct repair_options {
	const char *output;	/* NULL: in the place of the file */
	bool dry_run;		/* nothing is written */
};

struct repair_result {
	bool complete;		/* there was nothing to do */
	uint64_t data_size;	/* auxcap: of the whole records */
	uint64_t declared;	/* auxcap: as the header had it before */
	uint64_t cut;		/* bytes at the end that are no whole record */
	uint64_t missing;	/* of the last trace, announced but not there */
	uint64_t n_records, n_auxtrace;
	uint64_t aux_bytes;	/* payload, padding included */
	bool writing;		/* auxdecode: an error is of the new file, and
				 * names it */
};

/* "repaired: 5 records, 48 bytes of trace", of a file that was not complete;
 * shorter than 400 bytes. */
void repair_text(char *buf, size_t len, const struct repair_result *r,
		 bool dry_run);

#endif
