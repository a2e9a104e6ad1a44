/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * profile: the sink that writes how often everything ran for compilers and
 * other tools, the conversion of branch lists (branchlist.h) to the same
 * formats, and the merging of pprof profiles and folded stacks.
 */
#ifndef DECODE_PROFILE_PROFILE_H
#define DECODE_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

#include "decode/lib/session/sink.h"

struct branchlist;
struct branchlist_module;
struct elfimage;
struct outbuf;

struct profile_config {
	const char *to;		/* --to FORMAT, NULL: list */
	const char *module;	/* --module NAME, NULL: the program */
	const char *period;	/* --period, as given, NULL: none */
	uint64_t limit;		/* -n: entries, 0: all */
};

/* profile.c: writes a list in the format of --to. env needs no host. Sorts the
 * list, and with --module drops what is not of that module. Returns as finish
 * in session/sink.h, -AUX_E_INVAL for bad options. */
int profile_convert(const struct sink_env *env, const struct profile_config *c,
		    struct branchlist *l, struct aux_diag *diag);

extern const struct sink_ops sink_profile;

/*
 * branches.c: the branches that a flow adds to a list, and ranges if they are wanted,
 * beside what another sink makes of it, which may have calls of the same flow.
 */
struct profile_branches;

/* NULL: out of memory. host outlives it. */
struct profile_branches *profile_branches_new(const struct sink_host *host, bool ranges);
void profile_branches_free(struct profile_branches *p);	/* accepts NULL */
/* As flow in session/sink.h, with SINK_TAKES_PATHS. */
int profile_branches_flow(struct profile_branches *p, const struct flow_ctx *ctx,
			  const struct aux_flow *ev, size_t n);
/* The sorted list, which lives as p does: after the last flow, once. NULL: *err. */
const struct branchlist *profile_branches_finish(struct profile_branches *p, int *err);

/* image.c: the file of a module, as it was when it ran; *image is NULL if that cannot be
 * read, else the caller closes it. 0 or -AUX_E_NOMEM. */
int profile_module_image(struct elfimage **image, const struct branchlist_module *module,
			 const char *symfs);

/*
 * ---- folded_merge.c: folded stacks (`flame`, stackcollapse-*.pl) of several runs ----
 *
 * The counts of equal stacks are added up. Nothing in a file is trusted.
 */

/* True if the first line, comments ("# ...") aside, is text that ends in a
 * blank and a number. */
bool merge_folded_is_file(const char *path);
/* True if all lines are, those of the first 64 KB: then it is no other format, whatever
 * the first name begins with. */
bool merge_folded_is_all(const char *path);
/*
 * Writes stacks sorted by name, callers first, as `flame` does. Sums saturate.
 * 0; -AUX_E_FORMAT with diag (*which: the file, offset: of the line),
 * -AUX_E_IO, -AUX_E_LIMIT (larger than 1 GB), -AUX_E_NOMEM.
 */
int merge_folded(const char *const *paths, size_t n, struct outbuf *out,
		 const char **which, struct aux_diag *diag);

/*
 * ---- pprof_merge.c: profiles of pprof ----
 *
 * All have the same sample types, in the same order. Equal strings, functions,
 * mappings, locations and stacks become one, whatever their ids were, and
 * values of equal stacks (with equal labels) are added up. Mappings are equal
 * if they have the same file (build id, else path), size and offset, wherever
 * they are in memory; locations are compared relative to their mapping.
 *
 * Files may be gzip'ed or not, with fields in any order. Nothing in them is
 * trusted.
 */

/* True if a file starts like a profile: gzip'ed, or with a sample type. */
bool merge_pprof_is_file(const char *path);
/* Writes a gzip'ed profile. Sums saturate. 0; -AUX_E_FORMAT with diag (*which:
 * the file, offset: in its unpacked bytes), -AUX_E_IO, -AUX_E_LIMIT,
 * -AUX_E_NOMEM. */
int merge_pprof(const char *const *paths, size_t n, struct outbuf *out,
		const char **which, struct aux_diag *diag);

#endif
