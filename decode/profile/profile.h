/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_profile's parts. What runs is added up into a branchlist, exactly; at the end
 * that is written in the format that was asked for. Samples with a branch stack
 * alone are written as the flow comes by.
 */
#ifndef DECODE_PROFILE_PROFILE_H
#define DECODE_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode/profile/branchlist.h"
#include "decode/lib/session/sink.h"

/* ---- collect.c: adds up ---- */

/* What is open in a stream: instructions that ran, a branch whose target is what
 * comes next. */
struct profile_open {
	uint64_t from;		/* of the branch; see from_module */
	uint64_t first, last;	/* runtime addresses of the run */
	uint64_t next;		/* behind last; 0: not known */
	const struct space *space; /* of the run */
	uint32_t from_module;
	uint32_t n;		/* instructions of the run; 0: there is none */
	uint8_t kind;		/* of the branch; 0: there is none */
	bool maybe;		/* taken only if what comes is not next */
	bool outside;		/* as in branchlist_range */
};

struct profile_stream {
	uint32_t stream;
	struct profile_open open;
};

struct profile_unit;
struct profile_seam;
struct profile_page;

struct profile_collect {
	const struct sink_host *host;
	struct branchlist *list;
	struct profile_stream *streams;
	size_t n_streams;
	struct profile_unit *units;	/* paths and steps that were met */
	size_t n_units, max_units;
	int32_t *parts;			/* entries of the list, of all units */
	size_t n_parts, max_parts;
	uint32_t epoch;			/* of units */
	struct profile_page *pages;	/* modules by address */
	struct profile_seam *seams;	/* what led from unit to unit */
	uint64_t n_insns;
	int error;			/* sticky: -AUX_E_* */
};

int profile_collect_init(struct profile_collect *c, struct branchlist *list,
			 const struct sink_host *host);
void profile_collect_fini(struct profile_collect *c);
/* As flow in session/sink.h. */
int profile_collect_flow(struct profile_collect *c, const struct flow_ctx *ctx,
			 const struct aux_flow *ev, size_t n);
/* All that was met is in the list now. */
int profile_collect_finish(struct profile_collect *c);

/* place.c: the module of an address, and the offset in it. */
struct profile_page {
	uint64_t space;		/* id; 0: free */
	uint64_t start, end, delta;	/* offset is ip + delta */
	uint32_t module;
};

#define PROFILE_PAGES 1024 /* a power of two */

struct branchlist_place {
	uint32_t module;
	uint64_t offset;
};

/* 0, or -AUX_E_*. */
int profile_place(struct profile_collect *c, const struct space *space,
		  uint64_t ip, struct branchlist_place *at);
/* The entry of the branch that is open and leads to an address (NULL: nobody knows
 * where), and of the run that is open, or -AUX_E_*. */
int profile_branch_entry(struct profile_collect *c, const struct flow_ctx *ctx,
			 struct profile_open *o, const uint64_t *to);
int profile_range_entry(struct profile_collect *c,
			const struct profile_open *o);

/* ---- image.c: the file of a module ---- */

struct elfimage;

/* What formats are made of: one module of the list, and its file. */
struct profile_module {
	const struct branchlist *list;
	uint32_t index;
	struct elfimage *image;	/* NULL: it cannot be read */
};

/* No file is no error: then image is NULL, and offsets are what there is. */
int profile_module_open(struct profile_module *m, const struct branchlist *list,
			uint32_t index, const char *symfs);
void profile_module_close(struct profile_module *m);
/* The address of an offset as the file is linked, without a file the offset. */
uint64_t profile_module_addr(const struct profile_module *m, uint64_t offset);

/* ---- the formats ---- */

/* What came out, and what did not. */
struct profile_result {
	uint64_t n_lines;	/* entries that were written; 0 is an error */
	/* autofdo, gcov: instructions that ran, of the module */
	uint64_t n_no_code;	/* its file cannot be read there */
	uint64_t n_no_line;	/* no source line is known of them */
};

struct profile_config {
	const char *to;		/* --to FORMAT, NULL: list */
	const char *module;	/* --module NAME, NULL: the program */
	const char *period;	/* --period, as given, NULL: none */
	uint64_t limit;		/* -n: entries, 0: all */
};

/* profile.c: a list as --to asks for; env needs no host. The list is sorted, and
 * with --module cut. As finish in session/sink.h, -AUX_E_INVAL for bad options. */
int profile_convert(const struct sink_env *env, const struct profile_config *c,
		    struct branchlist *l, struct aux_diag *diag);

int profile_write_bolt(const struct profile_module *m, struct outbuf *out,
		       uint64_t max, struct profile_result *result,
		       struct aux_diag *diag);
int profile_write_autofdo(const struct profile_module *m, struct outbuf *out,
			  uint64_t max, struct profile_result *result,
			  struct aux_diag *diag);
int profile_write_gcov(const struct profile_module *m, struct outbuf *out,
		       uint64_t max, struct profile_result *result,
		       struct aux_diag *diag);

extern const struct sink_ops sink_profile;

#endif
