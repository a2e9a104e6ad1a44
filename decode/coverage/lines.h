/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage: source lines, functions and branches with how often they ran.
 *
 * A line counts as gcov counts it: how often control came into its code from
 * elsewhere, and round the loops that lie on it alone. What gcov takes from the
 * compiler's flow graph comes from the code here: blocks end at branches, calls
 * and where branches lead to; the line of a block is the last in it, others in it
 * run as often as the block does.
 */
#ifndef DECODE_COVERAGE_LINES_H
#define DECODE_COVERAGE_LINES_H

#include "decode/coverage/tally.h"

struct cover_line {
	uint32_t file, line;
	uint64_t n;
};

struct cover_function {
	uint32_t file, line;
	const char *name;	/* linkage name, or plain one */
	uint64_t n;		/* calls */
	uint32_t n_lines, n_hit;
};

/* An outcome of a conditional branch. */
struct cover_branch {
	uint32_t file, line, block, way;
	bool ran;		/* the branch itself ran */
	uint64_t n;
};

struct cover_lines {
	char **files;		/* sorted when done; indexes are into it */
	size_t n_files, cap_files;
	struct cover_line *lines; /* by file, line */
	size_t n_lines, cap_lines;
	struct cover_function *functions; /* by file, line, name */
	size_t n_functions, cap_functions;
	struct cover_branch *branches;	/* by file, line, block, way */
	size_t n_branches, cap_branches;
	char **kept;		/* names that are in no file */
	size_t n_kept, cap_kept;
	uint64_t n_bare;	/* runs of blocks of files without lines */
	uint32_t n_files_bare;
	char bare[256];		/* such a file; "": none */
};

/* Of all modules of a sorted tally. 0 or -AUX_E_NOMEM. l is zeroed. */
int cover_lines_make(struct cover_lines *l, const struct cover_tally *t);
void cover_lines_fini(struct cover_lines *l);

/* files.c: a copy that lives as l does; NULL: out of memory. */
char *cover_lines_keep(struct cover_lines *l, const char *name);
/* Everything in order; used by cover_lines_make. */
int cover_lines_sort(struct cover_lines *l);
/* Text into out; what it wrote, in lines of the output. */
uint64_t cover_print_lcov(const struct cover_lines *l, struct outbuf *out);
uint64_t cover_print_summary(const struct cover_lines *l, struct outbuf *out);

#endif
