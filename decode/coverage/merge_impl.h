/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of coverage_merge share. */
#ifndef DECODE_COVERAGE_MERGE_IMPL_H
#define DECODE_COVERAGE_MERGE_IMPL_H

#include "decode/coverage/formats.h"
#include "decode/coverage/lines.h"
#include "common/outbuf.h"

enum merge_kind {
	MERGE_NONE = 0,
	MERGE_LCOV,
	MERGE_DRCOV,
	MERGE_SANCOV,
	MERGE_AFL,
};

/* A file that was read; a NUL follows. */
struct merge_text {
	char *p;
	size_t n;
	struct aux_diag *diag;
};

struct merged {
	enum merge_kind kind;
	struct cover_lines lines;
	struct cover_tally tally;	/* of drcov: modules and blocks */
	uint64_t *pcs;
	size_t n_pcs;
	char **texts;
	size_t n_texts;
	uint8_t map[AFL_MAP_SIZE];
};

#endif
