/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of rewrite share; nobody else includes this. */
#ifndef PERFDATA_REWRITE_IMPL_H
#define PERFDATA_REWRITE_IMPL_H

#include "perfdata/rewrite.h"

#define REWRITE_AUXTRACE 48	/* bytes of the record without its payload */

struct rewrite_attr {
	struct aux_attr a;	/* ids and name are our own */
};

struct rewrite {
	int fd;
	char *path;		/* what it will be called */
	char *temp;		/* its name until then; NULL: it has none */
	bool swap;
	bool started;		/* the data have begun */
	struct aux_file_header h;
	struct rewrite_attr *attrs;
	size_t n_attrs;
	size_t attr_size;	/* of the largest */
	uint64_t *index;	/* places of AUXTRACE records */
	size_t n_index, cap_index;
	struct aux_bytes features[AUX_FEAT_BITS];	/* data NULL: not set */
	struct rewrite_bytes desc;
	struct rewrite_bytes build_ids;	/* collected by rewrite_copy */
	uint64_t pos;		/* in the file, of the next byte */
	uint8_t *buf;
	size_t used;
	int error;		/* the first AUX_E_*, 0: none */
	struct aux_diag diag;
};

/* rewrite_file.c */
__attribute__((format(printf, 3, 4)))

#endif
