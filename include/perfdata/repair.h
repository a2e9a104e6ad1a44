/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * repair: completes a perf.data file whose writer was killed, perf's or ours.
 *
 * What such a file lacks is made from its records: the size of the data, the
 * index of AUXTRACE records, and the feature sections, which a writer writes
 * last. A file that is complete, and one that is damaged elsewhere than at its
 * end, is not touched. A record of ours says from when on the recording is
 * missing.
 */
#ifndef PERFDATA_REPAIR_H
#define PERFDATA_REPAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

enum repair_way {
	/*
	 * All records stay where they are, compressed ones too, and the rest of
	 * the file is written after them, the header last: it costs no room,
	 * and what cannot be decompressed is kept. Of trace that was cut, the
	 * record's size is corrected. Native byte order only.
	 */
	REPAIR_APPEND,
	/*
	 * The whole records go into a new file, unpacked, which then takes the
	 * place of the old one: there is the old file or the new one at any
	 * time.
	 */
	REPAIR_REWRITE,
};

struct repair_options {
	enum repair_way way;
	const char *output;	/* NULL: in the place of the file */
	bool dry_run;		/* nothing is written */
};

struct repair_result {
	bool complete;		/* there was nothing to do */
	uint64_t data_size;	/* of the whole records */
	uint64_t declared;	/* as the header had it before */
	uint64_t cut;		/* bytes at the end that are no whole record */
	uint64_t missing;	/* of the last trace, announced but not there */
	uint64_t n_records, n_auxtrace;
	uint64_t aux_bytes;	/* payload, padding included */
	bool writing;		/* an error is of the file that was written,
				 * and names it */
};

/*
 * 0, or -AUX_E_*: then nothing was changed, except that after an error in
 * writing (AUX_E_IO) REPAIR_APPEND can be tried again. The text of an error
 * names the file only when it is AUX_E_INVAL, or when r->writing is set.
 */
int repair_file(const char *path, const struct repair_options *o,
		struct repair_result *r, struct aux_diag *diag);

/* "repaired: 5 records, 48 bytes of trace", of a file that was not complete;
 * shorter than 400 bytes. */
void repair_text(char *buf, size_t len, const struct repair_result *r,
		 bool dry_run);

#endif
