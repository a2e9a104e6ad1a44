/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What pprof_merge.c writes, pprof_merge_read.c adds files to. Whatever is met is a
 * row of numbers in one of the sets, and its index there is its number from then on:
 * a row names others by index, so equal rows are equal things.
 */
#ifndef DECODE_PROFILE_PPROF_MERGE_IMPL_H
#define DECODE_PROFILE_PPROF_MERGE_IMPL_H

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"
#include "decode/profile/pprof_merge.h"

/* Rows of numbers, each once. */
struct row_set {
	uint64_t *v; /* all rows */
	size_t n_v, max_v;
	struct row_place {
		size_t at;
		uint32_t n;
	} * rows;
	size_t n, max;
	uint32_t *slots; /* index + 1; 0: free */
	size_t n_slots; /* a power of two */
};

/* The index of a row, a new one if need be; -AUX_E_NOMEM, -AUX_E_LIMIT. */
static inline const uint64_t *merge_pprof_at(const struct row_set *s, size_t i)
{
	return s->v + s->rows[i].at;
}

/* Rows of the sets. */
enum {
	MAP_SIZE,
	MAP_OFFSET,
	MAP_ID,
	MAP_WORDS, /* id: build id or path */
	FUNC_NAME = 0,
	FUNC_SYSTEM,
	FUNC_FILE,
	FUNC_LINE,
	FUNC_WORDS,
	LOC_MAPPING = 0, /* index + 1; 0: none */
	LOC_ADDRESS, /* from the start of the mapping */
	LOC_FOLDED,
	LOC_HEAD, /* then lines: */
	LOC_LINE_FUNC = 0, /* index + 1; 0: none */
	LOC_LINE,
	LOC_COLUMN,
	LOC_LINE_WORDS,
	SAMPLE_N = 0, /* how many locations, which follow; labels: */
	LABEL_KEY = 0,
	LABEL_STR,
	LABEL_NUM,
	LABEL_UNIT,
	LABEL_WORDS,
};

/* Of a mapping, as it was met first. */
struct pprof_mapping {
	uint64_t start, limit, file, build_id;
	uint64_t has[4]; /* functions, filenames, line numbers, inlined */
};

struct pprof_type {
	uint64_t type, unit;
};

struct pprof_sum {
	struct row_set strings; /* length, then bytes; 0 is "" */
	struct row_set mappings, functions, locations, samples;
	struct pprof_mapping *maps; /* by index of mappings */
	size_t max_maps;
	int64_t *values; /* n_types for each sample */
	size_t max_values;
	struct pprof_type *types;
	size_t n_types;
	struct row_set comments; /* of one string each */
	uint64_t drop, keep, default_type, doc; /* strings; 0: none */
	struct pprof_type period_type;
	int64_t period, time, duration;
	bool begun; /* a file was added */
};

/* A profile that is read: pprof_merge_wire.c takes it apart, pprof_merge_read.c and
 * pprof_merge_sample.c put what is in it into the sets of pprof_merge_impl.h. */

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_LEN = 2, WIRE_FIXED32 = 5 };

/* A field of a message: a number, or the bytes [p, end). */
struct pprof_field {
	uint64_t number, v;
	const uint8_t *p, *end;
	unsigned wire;
};

/* An id of the file, and what it is here. */
struct pprof_id {
	uint64_t id, start;
	uint64_t index;
};

struct pprof_ids {
	struct pprof_id *v;
	size_t n, max;
};

struct pprof_words {
	uint64_t *v;
	size_t n, max;
};

struct pprof_file {
	struct pprof_sum *sum;
	const uint8_t *base, *end;
	struct aux_diag *diag;
	struct pprof_words strings; /* by index of the file */
	struct pprof_ids mappings, functions, locations;
	struct pprof_words row, values, types;
};

/* ---- pprof_merge_wire.c: 0 or -AUX_E_* ---- */

#endif
