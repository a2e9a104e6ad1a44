/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * profile_lines: counts by function and source line, with inlined functions as the
 * compiler nested them: what AutoFDO profiles are made of.
 *
 * A place in a function is how many lines it lies behind the function's own, and
 * a discriminator. It ran as often as that instruction of it which ran most: a
 * line has many instructions, and a compiler that copies them says so with
 * discriminators.
 */
#ifndef DECODE_PROFILE_LINES_H
#define DECODE_PROFILE_LINES_H

#include "decode/profile/profile.h"

#define PROFILE_LINES_ROOT UINT32_MAX

/* Of each kind, the fields before the first count tell them apart. */
struct profile_lines_func {
	uint32_t parent;	/* function, or PROFILE_LINES_ROOT */
	uint32_t name;
	uint32_t line, disc;	/* where it is inlined; 0 of a root */
	uint64_t head;		/* how often it was entered; of a root */
	uint64_t total;		/* of its places and of what is inlined */
};

struct profile_lines_place {
	uint32_t func;
	uint32_t line, disc;
	uint32_t reserved;	/* 0 */
	uint64_t count;
};

/* A function that was called from a place. */
struct profile_lines_call {
	uint32_t func;
	uint32_t line, disc;
	uint32_t name;		/* of the callee */
	uint64_t count;
	uint64_t indirect;	/* of them */
};

struct profile_lines {
	struct branchlist_table funcs, places, calls;
	char **names;
	size_t n_names, max_names;
	uint32_t *name_slots;	/* by hash: index + 1 */
	size_t n_name_slots;
	uint32_t *order;	/* of funcs: by parent, then as they are shown */
	bool clang;		/* discriminators as LLVM encodes them */
};

/* clang: of discriminators the base alone is kept, and counts are multiplied by
 * the factor of duplication. Else there are none: disc is 0. */
int profile_lines_new(struct profile_lines *l, const struct profile_module *m,
		      bool clang, struct profile_result *result);
void profile_lines_free(struct profile_lines *l);

/* order.c. After profile_lines_new: 0, or -AUX_E_NOMEM. Then the others. */
int profile_lines_sort(struct profile_lines *l);
/* Functions inside of one by their place, or roots (PROFILE_LINES_ROOT) by total,
 * the largest first; as indexes of funcs. */
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

/* names.c: the number of a name, or -AUX_E_NOMEM. */
int profile_lines_name(struct profile_lines *l, const char *name);

#endif
