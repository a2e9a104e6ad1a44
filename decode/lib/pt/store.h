/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The store of the Intel PT engine: code in the form that the flow needs.
 *
 * A region is one answer of the host; a node goes from an ip to the next instruction
 * that takes a packet; a path goes along nodes by the bits of a TNT. All of it is
 * dropped as a whole. No part of it knows where decoding is.
 */
#ifndef DECODE_LIB_PT_STORE_H
#define DECODE_LIB_PT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/decoder.h>

#include "decode/lib/pt/entry.h"

#define NODE_RANGES 64		/* of one node, at most */
#define PATH_CALLS 32		/* above the stack of the path's begin */
#define PT_READY 1
#define PT_UNKNOWN 2

/* One answer of the host. */
struct pt_region {
	uint64_t start, end;
	const uint8_t *bytes;
	uint16_t index;		/* from 1 on; 0: there was none left */
	struct pt_region *next;
};

/* How a node ends. */
enum pt_node_kind {
	PT_NODE_NEW = 0,	/* not decoded yet */
	PT_NODE_COND,		/* a TNT bit */
	PT_NODE_RET,		/* a TNT bit, or a TIP */
	PT_NODE_TIP,		/* an indirect or far branch */
	PT_NODE_SLOW,		/* it leaves the region, or cannot go on */
};

/* Where a call returns to. node may be NULL: look ip up. */
struct pt_site {
	uint64_t ip;
	struct pt_node *node;
};

/*
 * From an ip to the next instruction that takes a packet; direct jumps and calls
 * are followed inside the region. One cache line: what a path is made of is looked
 * up all over.
 */
struct pt_node {
	uint64_t ip;
	struct pt_region *region;
	uint64_t next_ip;	/* behind its last instruction */
	int32_t disp;		/* COND: from there, where it is taken */
	uint16_t flags;		/* AUX_FLOW_MODE_*, AUX_FLOW_IN_TX */
	uint8_t kind;		/* enum pt_node_kind */
	uint8_t n_sites : 7;	/* calls in it, an indirect one at its end too */
	uint8_t first : 1;	/* of steps, the one with the sites */
	struct pt_node *next[2]; /* COND, by outcome, once looked up; else NULL */
	struct aux_step *steps[2]; /* by outcome; others have the first alone */
};

/* Where a COND leads. */
static inline uint64_t pt_node_to(const struct pt_node *n, bool taken)
{
	return n->next_ip + (taken ? (uint64_t)(int64_t)n->disp : 0);
}

/* Ip to node. */
struct pt_slot {
	uint64_t ip;
	struct pt_node *node;	/* NULL: free */
};

static inline uint32_t pt_node_hash(uint64_t ip)
{
	return (uint32_t)(ip * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

struct pt_block {
	struct pt_block *next;
	size_t size;
};

struct pt_store {
	const struct aux_decoder_host *host;
	uint64_t generation;
	struct pt_region *regions, *last;
	uint32_t n_regions;	/* from 1 on */
	uint16_t *ready;	/* by pt_entry_where: 0: the bits alone lead there,
				 * PT_TIP: they and a TIP. Else another way:
				 * PT_READY, and if it is not known whether the
				 * region is current, PT_UNKNOWN */
	uint16_t *ready_regions; /* those that are */
	uint32_t n_ready;
	struct pt_slot *nodes;
	uint32_t n_nodes, node_mask;
	struct pt_entry *paths;
	uint32_t n_paths, max_paths; /* power of two */
	size_t path_mask;	/* of pt_path_hash */
	uint32_t turn;
	uint16_t *seen;		/* PT_SEEN tags of paths that were taken once;
				 * NULL until it matters */
	struct pt_block *blocks; /* all of the above but the tables */
	struct pt_block *spare;	/* that were tables */
	uint8_t *free;
	size_t n_free, used;
	uint8_t *free_line;
	size_t n_free_line;
	struct pt_region *free_regions;
	size_t limit;		/* bytes; then nothing is added but regions */
	bool full, nomem;
};

#define PT_SEEN 1048576

int pt_store_init(struct pt_store *s, const struct aux_decoder_host *host);
void pt_store_fini(struct pt_store *s);
/* There is little room left. */
static inline bool pt_store_is_worn(const struct pt_store *s)
{
	return s->full || s->used > s->limit - s->limit / 4 ||
	       s->n_regions == PT_REGIONS;
}

/* Empties it; what it held is the host's until nothing leads there. */
void pt_store_drop(struct pt_store *s);
/* Another generation: no region is known to be current. */
void pt_store_forget_ready(struct pt_store *s);
/* NULL: the store is full, or memory is. */
void *pt_store_alloc(struct pt_store *s, size_t size);
/* The same, on cache lines of its own. */
void *pt_store_lines(struct pt_store *s, size_t size);
/* A region; NULL: memory is full, the store never. */
struct pt_region *pt_store_region(struct pt_store *s);
/* Zeros. */
void *pt_store_table(size_t size);
/* A table that a larger one follows. */
void pt_store_reuse(struct pt_store *s, void *table, size_t size);

/* Is what was found in the region still there? */
static inline bool pt_is_current(const struct pt_store *s,
				 const struct pt_region *r)
{
	return s->ready[r->index] != PT_UNKNOWN;
}

/* The region that ip is in now, or NULL. */
struct pt_region *pt_code_region(struct pt_store *s, uint64_t ip);
/* The node at ip; NULL: there is no code, or the store is full. */
struct pt_node *pt_code_node(struct pt_store *s, uint64_t ip, uint16_t flags);
/* Decodes a node that is new, and makes its step: of a COND, for that outcome.
 * False: the store is full. */
bool pt_code_fill(struct pt_store *s, struct pt_node *n, bool taken);
/* Where a COND goes on, in its region: NULL if that is elsewhere. */
struct pt_node *pt_code_next(struct pt_store *s, struct pt_node *n, bool taken);
const struct pt_site *pt_code_site(struct pt_store *s, struct pt_node *n,
				   unsigned i);
struct aux_step *pt_code_step(struct pt_store *s, struct pt_node *n, bool taken);

/* Up to so many instruction bytes at ip, in one place; 0: none. */
size_t pt_code_bytes(struct pt_store *s, uint64_t ip, uint8_t buf[16],
		     const uint8_t **bytes);

#endif
