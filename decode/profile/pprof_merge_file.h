/* SPDX-License-Identifier: BSD-2-Clause */
/* A profile that is read: pprof_merge_wire.c takes it apart, pprof_merge_read.c and
 * pprof_merge_sample.c put what is in it into the sets of pprof_merge_impl.h. */
#ifndef DECODE_PROFILE_PPROF_MERGE_FILE_H
#define DECODE_PROFILE_PPROF_MERGE_FILE_H

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"

#include "decode/profile/pprof_merge_impl.h"

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

/* -AUX_E_FORMAT; at: in the file. */
int merge_pprof_bad(const struct pprof_file *f, const uint8_t *at,
		    const char *what);
int merge_pprof_push(struct pprof_words *w, uint64_t v);
/* 1: a field, and *p is behind it; 0: the end. */
int merge_pprof_next(const struct pprof_file *f, const uint8_t **p,
		     const uint8_t *end, struct pprof_field *to);
/* A repeated number, packed or not. */
int merge_pprof_push_numbers(const struct pprof_file *f,
			     const struct pprof_field *fd,
			     struct pprof_words *to);
/* The numbers of a message: v[number], for numbers < n. Others are passed over. */
int merge_pprof_numbers(const struct pprof_file *f,
			const struct pprof_field *message, uint64_t *v,
			size_t n);
/* A string by its index in the file: that of the sum. */
int merge_pprof_string(const struct pprof_file *f, const struct pprof_field *at,
		       uint64_t i, uint64_t *to);
/* NULL: it is not there. After merge_pprof_sort. */
const struct pprof_id *merge_pprof_find(const struct pprof_ids *ids,
					uint64_t id);
/* No id may be there twice. */
int merge_pprof_sort(const struct pprof_file *f, struct pprof_ids *ids);
/* index: as merge_pprof_row gave it. */
int merge_pprof_add_id(const struct pprof_file *f, const struct pprof_field *at,
		       struct pprof_ids *ids, uint64_t id, uint64_t start,
		       int64_t index);
/* Up to the largest number. */
void merge_pprof_add(int64_t *sum, int64_t v);

/* pprof_merge_sample.c: all else was read. */
int merge_pprof_sample(struct pprof_file *f, const struct pprof_field *fd);

#endif
