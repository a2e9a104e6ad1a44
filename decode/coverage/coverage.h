/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage: the sink that says which lines, functions, branches and blocks ran
 * and how often, and the merging of its output files; annotate: the sink that
 * says it of one function, instruction by instruction.
 */
#ifndef DECODE_COVERAGE_COVERAGE_H
#define DECODE_COVERAGE_COVERAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

#include "decode/lib/session/sink.h"

struct outbuf;

enum cover_format {
	COVER_SUMMARY,
	COVER_LCOV,
	COVER_DRCOV,
	COVER_SANCOV,
	COVER_AFL,
};

struct coverage_config {
	enum cover_format format;	/* --to */
	const char *module;	/* --module NAME, NULL: all files */
};

extern const struct sink_ops sink_coverage, sink_annotate;

/*
 * annotate for a program that shows one function after the other: in the place of
 * the finish of sink_annotate, once, and then as often as is wanted. The text is
 * that of the command. 0 or -AUX_E_NOMEM; of annotate_function also 1: nothing of
 * such a function ran.
 */
int annotate_count(void *sink);
/* Before any flow: the same events go to callstack/ too, which uses the first two user
 * words of steps and paths. Then all flow comes by sink_annotate.flow. */
void annotate_beside_calls(void *sink);
/* name and dso of its symbol. */
int annotate_function(void *sink, const char *name, const char *dso,
		      struct outbuf *out);

/*
 * After annotate_count: objects of JSON with commas between them (annotate_page.c), of
 * the functions that ran most, as many as there is room for. id gives the number that
 * the caller has for a symbol; -1: none, it is left out. 0 or -AUX_E_NOMEM.
 */
int annotate_page(void *sink, uint64_t room,
		  int64_t (*id)(void *priv, const char *name, const char *dso),
		  void *priv, struct outbuf *out);

/*
 * rows.c: what --to lcov writes, as rows that add up: equal ones (all but n and ran) of
 * several recordings are one, with the sum of n.
 */
struct coverage_row {
	enum coverage_what {
		COVERAGE_BRANCH,	/* an outcome of one; name is NULL */
		COVERAGE_FUNCTION,	/* its calls; name may be NULL: not known */
		COVERAGE_LINE,
	} what;
	const char *file, *name;
	uint32_t line, block, way;
	uint64_t n;
	bool ran;		/* of a branch: it was come to */
};

/* In the place of the finish of sink_coverage, opened with --to lcov. 0 or an error, also
 * one of row. */
int coverage_rows(void *sink, int (*row)(void *priv, const struct coverage_row *r),
		  void *priv);

/* Rows as a tracefile; those of a file come together. NULL, -AUX_E_NOMEM. */
struct coverage_sum;
struct coverage_sum *coverage_sum_new(void);
void coverage_sum_free(struct coverage_sum *s);	/* accepts NULL */
int coverage_sum_add(struct coverage_sum *s, const struct coverage_row *r);
int coverage_sum_write(struct coverage_sum *s, struct outbuf *out);

/*
 * Merging: lcov tracefiles are added up, drcov and sancov files are united, and
 * of AFL maps the larger count of each edge is kept; of parts of one recording
 * the counts are added, up to 255, which is what the map of the whole has. All
 * files have one format, recognized by its first bytes. They may come from other
 * tools; nothing in them is trusted.
 */

/* True if the file starts like one of these formats. */
#define COVERAGE_MERGED_PARTS 1

bool coverage_merge_is_file(const char *path);
/* Writes the merged file to out. 0; COVERAGE_MERGED_PARTS: tracefiles of parts of a
 * recording, whose counts of lines can be larger than those of the whole, by one
 * where a line is cut; -AUX_E_FORMAT with diag, -AUX_E_IO,
 * -AUX_E_NOMEM; *which is the file that an error is about. */
int coverage_merge(const char *const *paths, size_t n, struct outbuf *out,
		   const char **which, struct aux_diag *diag);
/* The same for parts of one recording. */
int coverage_merge_parts(const char *const *paths, size_t n, struct outbuf *out,
			 const char **which, struct aux_diag *diag);

#endif
