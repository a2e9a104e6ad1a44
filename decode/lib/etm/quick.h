/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The etm decoder: the part of its loop that takes packets by windows.
 *
 * Where the next window begins does not hang on what this one does, and nothing here
 * branches by what packets say: so the processor looks the windows up ahead of time.
 */
#ifndef DECODE_LIB_ETM_QUICK_H
#define DECODE_LIB_ETM_QUICK_H

#include "common/bytes.h"

#include "decode/lib/etm/window.h"

#define ALWAYS inline __attribute__((always_inline))

/* The cursor while the loop runs. */
struct etm_hot {
	const uint8_t *p;	/* the next packet */
	struct aux_flow *f;	/* the next event */
	struct etm_path *path;	/* the last one; NULL: none yet */
	uint64_t ip;
	enum etm_place place;
	uint64_t history[3];
	/* constant: */
	uint64_t generation;
	uint64_t base;		/* + address of a byte: its offset */
};

size_t etm_run_windows(struct etm *d, struct etm_hot *hot, size_t n,
		       const uint8_t **last, const uint8_t **until);

#endif
