/* SPDX-License-Identifier: BSD-2-Clause */
/* parquet_encode: one column of a row group as the bytes of its pages; see
 * parquet_file.h. */
#ifndef DECODE_EXPORT_PARQUET_ENCODE_H
#define DECODE_EXPORT_PARQUET_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/outbuf.h"
#include "decode/export/export.h"

/* As in the format: enum Encoding. */
enum parquet_encoding {
	PARQUET_PLAIN = 0, PARQUET_RLE = 3, PARQUET_DELTA = 5, PARQUET_DICTIONARY = 8,
};

/* The rows of a column. Starts zeroed. */
struct parquet_column {
	bool text, optional;
	uint64_t *values;	/* that are not NULL; of text: const struct export_name * */
	size_t n;
	uint8_t *present;	/* optional: a bit for each row, from the lowest on */
	unsigned dear;		/* groups left in which no dictionary is tried */
};

/* What became of it. Starts zeroed; outbufs are in memory and used again. */
struct parquet_chunk {
	struct outbuf *dictionary, *data;	/* page bodies, not compressed */
	enum parquet_encoding encoding;		/* of data */
	uint32_t n_dictionary;			/* entries */
	bool has_range;
	struct parquet_bytes {
		const void *p;
		size_t n;
	} least, greatest;			/* as values are in PLAIN, without lengths */
	uint64_t range[2];			/* what those of numbers point to */
};

/* Room that all columns work in. */
struct parquet_encoder;
struct parquet_encoder *parquet_encoder_new(void);	/* NULL: out of memory */
void parquet_encoder_free(struct parquet_encoder *e);	/* accepts NULL */

/* Of n_rows rows. 0, or -AUX_E_NOMEM. */
int parquet_encode(struct parquet_encoder *e, struct parquet_column *c, size_t n_rows,
		   struct parquet_chunk *chunk);

#endif
