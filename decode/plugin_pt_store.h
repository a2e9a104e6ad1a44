/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The store of the Intel PT engine: code in the form that the flow needs.
 *
 * A region is one answer of the host; a node goes from an ip to the next instruction
 * that takes a packet; a path goes along nodes by the bits of a TNT. All of it is
 * dropped as a whole. No part of it knows where decoding is.
 */
#ifndef PLUGIN_PT_STORE_H
#define PLUGIN_PT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/decoder.h>

#define NODE_RANGES 64		/* of one node, at most */
#define PATH_CALLS 32		/* above the stack of the path's begin */
#define STORE_LIMIT ((size_t)96 << 20)	/* bytes; then nothing is added */

/* One answer of the host. */
struct pt_region {
	uint64_t start, end;
	const uint8_t *bytes;
	uint64_t generation;	/* it was so in that one, last */
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
	uint32_t seed;		/* of node */
};

/*
 * From an ip to the next instruction that takes a packet; direct jumps and calls
 * are followed inside the region.
 */
struct pt_node {
	uint64_t ip;
	struct pt_region *region;
	uint16_t flags;		/* AUX_FLOW_MODE_*, AUX_FLOW_IN_TX */
	uint8_t kind;		/* enum pt_node_kind */
	uint8_t n_sites;	/* calls in it, an indirect one at its end too */
	uint32_t seed;		/* its own: of the hash of paths */
	uint32_t n_ranges, n_insns;
	struct aux_flow *ranges; /* the outcome of a COND is open, or that of
				  * the first step that was made */
	struct pt_site *sites;
	uint64_t ips[2];	/* COND: not taken, taken */
	struct pt_node *next[2]; /* the same, once looked up; else NULL */
	struct aux_step *steps[2]; /* by outcome; others have the first alone */
};

enum pt_path_end {
	PT_END_NODE = 0,	/* at node; all bits are used up */
	PT_END_TIP,		/* behind node, which takes the TIP */
	PT_END_POP,		/* a return that needs the stack of before */
	PT_END_IP,		/* at ip, in another region */
	PT_END_STOP,		/* before node, which cannot take the next bit */
};

/* Along nodes by the bits of a TNT, up to the branch that takes the TIP behind it. */
struct pt_path {
	struct aux_path pub;	/* in front of it: n_calls sites */
	union {
		struct pt_node *node;
		uint64_t ip;
	};
	uint32_t seed;		/* of node */
	uint32_t left : 13;	/* bits below a stop bit; 1: none */
	uint32_t end : 3;	/* enum pt_path_end */
	uint32_t n_calls : 8;	/* that are open at its end */
	uint32_t height : 8;	/* of the stack above that at its begin */
};

/* Ip to node, with what the quick way needs of it, as in a pt_entry. */
struct pt_slot {
	uint64_t ip;
	struct pt_node *node;	/* NULL: free */
	struct pt_region *region;
	uint32_t seed;
	uint16_t flags;
};

/* Node and bits to path, with what the quick way needs of it in most cases, so that
 * it touches no other line. */
struct pt_entry {
	uint64_t key;		/* pt_path_key; 0: free */
	struct pt_path *path;
	uint32_t seed, n_insns;
	uint16_t left;
	uint8_t end, n_calls, height;
};

/*
 * In both tables a search begins at an even place: two of them are a cache line, and
 * the quick way looks at these alone.
 */
static inline uint32_t pt_node_hash(uint64_t ip)
{
	return (uint32_t)(ip * UINT64_C(0x9e3779b97f4a7c15) >> 32) & ~1U;
}

#define PT_TIP	0x8000U		/* among bits: a TIP follows these */
#define PT_SEED UINT32_C(0x9e3779b1)	/* odd: no two nodes have the same */
#define PT_BITS UINT32_C(0x85ebca6b)

static inline uint64_t pt_path_key(uint32_t seed, unsigned bits)
{
	return (uint64_t)seed << 16 | bits;
}

static inline uint32_t pt_path_hash(uint32_t seed, unsigned bits)
{
	return (seed ^ bits * PT_BITS) & ~1U;
}

/* A first look that misses costs more than a table that is small anyway. */
static inline bool pt_is_crowded(uint32_t n, uint32_t mask)
{
	return n > mask / (mask < 65536 ? 4 : 2);
}

/* The calls that a path leaves open. */
static inline struct pt_site *pt_path_sites(const struct pt_path *p, unsigned n)
{
	return (struct pt_site *)p - n;
}

struct pt_block {
	struct pt_block *next;
};

struct pt_store {
	const struct aux_decoder_host *host;
	uint64_t generation;
	struct pt_region *regions, *last;
	struct pt_slot *nodes;
	uint32_t n_nodes, node_mask;
	struct pt_entry *paths;
	uint32_t n_paths, path_mask;
	uint16_t *seen;		/* PT_SEEN tags of paths that were taken once */
	struct pt_block *blocks; /* all of the above but the tables */
	uint8_t *free;
	size_t n_free, used;
	struct pt_path *free_paths;
	size_t n_free_paths;
	bool nomem;
};

#define PT_SEEN 65536

int pt_store_init(struct pt_store *s, const struct aux_decoder_host *host);
void pt_store_fini(struct pt_store *s);
/* Empties it; what it held is the host's until nothing leads there. */
void pt_store_drop(struct pt_store *s);
/* NULL: the store is full, or memory is. */
void *pt_store_alloc(struct pt_store *s, size_t size);
void *pt_store_table(size_t size);
void pt_store_free_table(void *table, size_t size);
/* A path, on a cache line of its own, behind so many sites. */
struct pt_path *pt_store_path(struct pt_store *s, unsigned n_sites);

/* The region that ip is in now, or NULL. */
struct pt_region *pt_code_region(struct pt_store *s, uint64_t ip);
/* The node at ip; NULL: there is no code, or the store is full. It is decoded. */
struct pt_node *pt_code_node(struct pt_store *s, uint64_t ip, uint16_t flags);
/* Decodes a node that is new; false: the store is full. */
bool pt_code_fill(struct pt_store *s, struct pt_node *n);
/* Where a COND goes on, in its region: NULL if that is elsewhere. */
struct pt_node *pt_code_next(struct pt_store *s, struct pt_node *n, bool taken);
const struct pt_site *pt_code_site(struct pt_store *s, struct pt_node *n,
				   unsigned i);
struct aux_step *pt_code_step(struct pt_store *s, struct pt_node *n, bool taken);

/* Up to so many instruction bytes at ip, in one place; 0: none. */
size_t pt_code_bytes(struct pt_store *s, uint64_t ip, uint8_t buf[16],
		     const uint8_t **bytes);

#endif
