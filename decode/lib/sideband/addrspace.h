/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * addrspace: address spaces as persistent balanced trees (treaps).
 *
 * A tree is a root pointer and never changes; inserting gives a new root that
 * shares all but O(log n) nodes with the old one. So each version of each
 * process costs little, a fork costs nothing, and readers need no lock.
 * Mappings of one tree are disjoint.
 */
#ifndef DECODE_LIB_SIDEBAND_ADDRSPACE_H
#define DECODE_LIB_SIDEBAND_ADDRSPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "decode/lib/sideband/sideband.h"

struct map_node {
	const struct map_node *left, *right;
	const struct mapping *map;
	uint32_t prio;
	uint32_t n;		/* mappings in this subtree */
	uint64_t sum[2];	/* digests of the subtree's mappings, added */
};

/* Memory of all trees; freed as one. */
struct map_arena {
	struct map_arena_block *blocks;
	uint64_t seed, salt;	/* random, so that no file can make trees deep or
				 * digests equal */
	bool oom;	/* sticky: something could not be allocated */
};

void *map_arena_alloc(struct map_arena *a, size_t size);
void map_arena_free(struct map_arena *a);

/*
 * root with m added, and what m overlaps cut away. m is copied into the arena.
 * Only valid while !a->oom.
 */
const struct map_node *addrspace_insert(struct map_arena *a,
					const struct map_node *root,
					const struct mapping *m);
/* The same, but m only fills what is free. */
const struct map_node *addrspace_insert_under(struct map_arena *a,
					      const struct map_node *root,
					      const struct mapping *m);
/* root with its mappings in [start, end) replaced by those of from; from NULL: with
 * nothing there. */
const struct map_node *addrspace_copy(struct map_arena *a,
				      const struct map_node *root,
				      const struct map_node *from,
				      uint64_t start, uint64_t end);
/* The mapping that contains addr, or NULL. */
const struct mapping *addrspace_find(const struct map_node *root,
				     uint64_t addr);
/* The first mapping that ends after addr, or NULL. */
const struct mapping *addrspace_next(const struct map_node *root,
				     uint64_t addr);

#endif
