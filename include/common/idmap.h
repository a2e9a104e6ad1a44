/* SPDX-License-Identifier: BSD-2-Clause */
/* Hash table from an id to an index, by linear probing. */
#ifndef COMMON_IDMAP_H
#define COMMON_IDMAP_H

#include <stdint.h>

struct array_limit;

struct idmap {
	struct idmap_entry {
		uint64_t key;
		uint32_t slot;	/* + 1; 0: free */
	} *e;
	uint32_t n, cap;	/* cap: power of two */
	uint64_t salt;		/* random, so that no file can make it slow */
	struct array_limit *limit;	/* of its memory; NULL: none */
};

/* A random one. */
uint64_t idmap_salt(void);
/* The slot of key, or -1. */
int64_t idmap_find(const struct idmap *m, uint64_t key);
/* The slot of key, which becomes new_slot if it is new. Negative: out of
 * memory. */
int64_t idmap_add(struct idmap *m, uint64_t key, uint32_t new_slot);
void idmap_fini(struct idmap *m);

#endif
