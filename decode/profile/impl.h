/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to decode/profile.
 *
 *	flow --(collect.c, place.c)--> branchlist --> list (branchlist.c)
 *	    --> BOLT (bolt.c)
 *	    --(lines.c, order.c)--> profile_lines --> autofdo.c, gcov.c
 *	flow --(samples.c)--> perf.data of samples (file.c)
 *
 * All of it runs in the session's thread; there are no locks.
 */
#ifndef DECODE_PROFILE_IMPL_H
#define DECODE_PROFILE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode/profile/branchlist.h"
#include "decode/profile/profile.h"

/* ---- collect.c: adds up branches and runs ---- */

/*
 * What is not complete yet in a stream: a run of instructions without a taken
 * branch, and the branch after it, whose target is the address that comes next.
 */
struct profile_open {
	uint64_t from;		/* of the branch: offset in from_module */
	uint64_t first, last;	/* runtime addresses of the run */
	uint64_t next;		/* address after the run; 0: not known */
	const struct space *space; /* of the run */
	uint32_t from_module;
	uint32_t n;		/* instructions of the run; 0: no run */
	uint8_t kind;		/* enum branchlist_kind; 0: no branch */
	bool maybe;		/* taken only if flow does not go on at next */
	bool headed;		/* the run came from the part before */
	bool outside;		/* as in branchlist_range */
};

struct profile_stream {
	uint32_t stream;
	struct sink_part part;		/* its open ends */
	const struct space *space;	/* where flow was last */
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
	struct profile_unit *units;	/* paths and steps met in this epoch */
	size_t n_units, max_units;
	int32_t *parts;			/* the entries of all units */
	size_t n_parts, max_parts;
	uint32_t epoch;			/* counts how often units were dropped */
	struct profile_page *pages;	/* cache: modules by address */
	struct profile_seam *seams;	/* cache: from unit to unit */
	uint64_t n_insns;
	bool no_ranges;			/* the list gets branches alone */
	int error;			/* sticky: -AUX_E_* */
};

int profile_collect_init(struct profile_collect *c, struct branchlist *list,
			 const struct sink_host *host);
void profile_collect_fini(struct profile_collect *c);
/* As flow in session/sink.h. */
int profile_collect_flow(struct profile_collect *c, const struct flow_ctx *ctx,
			 const struct aux_flow *ev, size_t n);
/* Ends what is open, and brings the list up to date. 0, or -AUX_E_*. */
int profile_collect_finish(struct profile_collect *c);

/* ---- place.c: modules and offsets of addresses ---- */

/* A direct-mapped cache of mappings. */
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
/*
 * The index in the list of the open branch, which leads to *to (NULL: not known
 * where), and of the open run; or -AUX_E_*. The first also sets o->outside for
 * the run after it.
 */
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

/* 0, also if there is no file (image is NULL then), or -AUX_E_NOMEM. */
int profile_module_open(struct profile_module *m, const struct branchlist *list,
			uint32_t index, const char *symfs);
void profile_module_close(struct profile_module *m);
/* The address of an offset as the file is linked; the offset itself without a
 * file. */
uint64_t profile_module_addr(const struct profile_module *m, uint64_t offset);

/* ---- the formats ---- */

/* What was written, and why the rest was not. */
struct profile_result {
	uint64_t n_lines;	/* entries that were written; 0 is an error */
	/* autofdo, gcov: instructions that ran, of the module */
	uint64_t n_no_code;	/* its file cannot be read there */
	uint64_t n_no_line;	/* no source line is known of them */
};

int profile_write_bolt(const struct profile_module *m, struct outbuf *out,
		       uint64_t max, struct profile_result *result,
		       struct aux_diag *diag);
int profile_write_autofdo(const struct profile_module *m, struct outbuf *out,
			  uint64_t max, struct profile_result *result,
			  struct aux_diag *diag);
int profile_write_gcov(const struct profile_module *m, struct outbuf *out,
		       uint64_t max, struct profile_result *result,
		       struct aux_diag *diag);

/* ---- lines.c, order.c: counts by function and source line ---- */

#define PROFILE_LINES_ROOT UINT32_MAX

/* In all three, the fields before the first count are the key
 * (branchlist_table). */
struct profile_lines_func {
	uint32_t parent;	/* function, or PROFILE_LINES_ROOT */
	uint32_t name;
	uint32_t line, disc;	/* where it is inlined; 0 for a root */
	uint64_t head;		/* how often a root was entered */
	uint64_t total;		/* sum of its places and inlined functions */
};

struct profile_lines_place {
	uint32_t func;
	uint32_t line, disc;
	uint32_t reserved;	/* 0 */
	uint64_t count;
};

/* Calls from a place to one function. */
struct profile_lines_call {
	uint32_t func;
	uint32_t line, disc;
	uint32_t name;		/* of the callee */
	uint64_t count;
	uint64_t indirect;	/* the part of count made indirectly */
};

struct profile_lines {
	struct branchlist_table funcs, places, calls;
	char **names;
	size_t n_names, max_names;
	uint32_t *name_slots;	/* by hash: index + 1 */
	size_t n_name_slots;
	uint32_t *order;	/* indexes of funcs: by parent, then as shown */
	bool clang;		/* discriminators as LLVM encodes them */
};

/*
 * lines.c: makes the lines of a module. A place in a function is how many lines
 * it lies after the function's own, and a discriminator (DWARF 4, 6.2.2). Its
 * count is the maximum over its instructions, not the sum: a line has many
 * instructions. clang: disc is the base discriminator, and counts are
 * multiplied by the duplication factor; else disc is 0. profile_lines_free is
 * due after an error, too.
 */
int profile_lines_new(struct profile_lines *l, const struct profile_module *m,
		      bool clang, struct profile_result *result);
void profile_lines_free(struct profile_lines *l);

/* order.c: sorts; the functions below need it. 0, or -AUX_E_NOMEM. */
int profile_lines_sort(struct profile_lines *l);
/* The functions inlined into func, by place; for PROFILE_LINES_ROOT the roots,
 * the largest total first. *n indexes of funcs. */
const uint32_t *profile_lines_inside(const struct profile_lines *l,
				     uint32_t func, size_t *n);
const struct profile_lines_place *
profile_lines_places(const struct profile_lines *l, uint32_t func, size_t *n);
/* Calls from a place, the most frequent first. */
const struct profile_lines_call *
profile_lines_calls(const struct profile_lines *l,
		    const struct profile_lines_place *place, size_t *n);

static inline const struct profile_lines_func *
profile_lines_func(const struct profile_lines *l, uint32_t i)
{
	return (const struct profile_lines_func *)l->funcs.v + i;
}

/* ---- file.c: a perf.data of samples in place of trace ---- */

#define PROFILE_DEPTH 64	/* branches of a stack, as perf inject has them */

struct profile_file;

struct profile_branch {
	uint64_t from, to;
};

struct profile_sample {
	uint64_t ip, period;	/* period: instructions */
	const struct flow_ctx *ctx;
	const struct profile_branch *stack;	/* the latest first */
	uint32_t n;
};

/* Opens env->out_path. Writes go on after an error, which profile_file_failed
 * and profile_file_close return. */
int profile_file_open(struct profile_file **f, const struct session *session,
		      const struct sink_env *env, const char *period);
void profile_file_sample(struct profile_file *f, const struct profile_sample *s);
/* A gap in the flow, as PERF_RECORD_AUXTRACE_ERROR. */
void profile_file_gap(struct profile_file *f, const struct flow_ctx *ctx,
		      const struct aux_flow *ev);
/* 0, or the first error so far. */
int profile_file_failed(const struct profile_file *f);
/* Writes the rest; frees f. */
int profile_file_close(struct profile_file *f, struct aux_diag *diag);
void profile_file_discard(struct profile_file *f);

/* ---- samples.c: samples with branch stacks, as the flow comes ---- */

struct profile_samples;

/*
 * Each sample has the branches taken before it, as a CPU's last branch records
 * (LBR) would, for tools that read perf.data but no trace. period: the text of
 * --period, NULL: the default; limit: how many samples, 0: all. -AUX_E_INVAL
 * with diag for bad options.
 */
int profile_samples_new(struct profile_samples **s,
			const struct sink_env *env,
			const char *period, uint64_t limit,
			struct aux_diag *diag);
void profile_samples_free(struct profile_samples *s);
/* As flow and finish of struct sink_ops. */
int profile_samples_flow(struct profile_samples *s, const struct flow_ctx *ctx,
			 const struct aux_flow *ev, size_t n);
int profile_samples_finish(struct profile_samples *s, struct aux_diag *diag);

#endif
