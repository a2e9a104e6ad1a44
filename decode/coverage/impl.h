/* SPDX-License-Identifier: BSD-2-Clause */
/* What lines.c and sums.c share: the making of cover_lines. */
#ifndef DECODE_COVERAGE_IMPL_H
#define DECODE_COVERAGE_IMPL_H

#include "decode/coverage/graph.h"
#include "decode/coverage/labels.h"
#include "decode/coverage/lines.h"

#define NO_FILE UINT32_MAX

/* What is summed up of a line. */
struct sum {
	uint32_t file, line;
	uint64_t plain;		/* of blocks that go on with other lines */
	uint64_t last;		/* of blocks that it is the last of */
	uint64_t group;		/* of functions that were counted apart */
	bool has_last, used;
	/* of the function at hand: */
	uint64_t own_plain, own_last;
	bool own_has_last, listed, looked_above;
};

/* A block of the function at hand, and its last line. */
struct last {
	uint32_t block;
	struct sum *sum;
};

struct maker {
	struct cover_lines *l;
	const struct cover_module *module;
	struct graph_counts counts;
	struct graph graph;
	struct sum **sums;	/* hashed; they stay where they are */
	size_t n_sums, cap_sums;
	uint32_t *slots;	/* of files, + 1 */
	size_t n_slots;
	const char *last_name;	/* the file that was asked for last */
	uint32_t last_file;
	struct last *lasts;
	size_t n_lasts, cap_lasts;
	struct sum **listed;	/* lines of the function at hand */
	size_t n_listed, cap_listed;
	uint32_t *blocks;
	size_t cap_blocks;
	struct cover_labels *labels;	/* of: */
	uint32_t labels_file;
};

#endif
