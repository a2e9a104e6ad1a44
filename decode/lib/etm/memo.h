/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The store of the etm decoder: what was made of code. Regions are answers of the
 * host; a node goes from an ip to the next P0 instruction; a step is a node with
 * what its atom says; a path is the way from an ip on by the atoms of a packet.
 */
#ifndef DECODE_LIB_ETM_MEMO_H
#define DECODE_LIB_ETM_MEMO_H

#include <stdbool.h>

#include <aux/decoder.h>

#define ETM_ATOM_BITS 25	/* atoms: number << 25 | bits, the first lowest */
#define ETM_STORE_MAX (UINT64_C(48) << 20) /* bytes; more is not kept */
#define ETM_WINDOW_BITS 16	/* of their hash, at most */
#define ETM_SEEN_BITS 12

struct etm_region {
	struct aux_code code;
	uint64_t generation;	/* it is what the host has then */
	struct etm_region *next;
};

/* What the last instruction of a node does. */
enum etm_kind {
	ETM_WAYPOINT,		/* isb, wfi, wfe: goes on behind it */
	ETM_DIRECT,
	ETM_INDIRECT,
};

struct etm_node {
	uint64_t ip;
	uint64_t last;		/* address of the last instruction */
	uint64_t next;		/* behind it */
	uint64_t target;	/* of a direct branch */
	struct etm_region *region;
	struct etm_node *chain;	/* the next one in the hash */
	struct etm_step *steps[2];	/* by the atom; NULL: not yet made */
	uint32_t n;		/* instructions */
	uint8_t kind;		/* enum etm_kind */
	bool link;
	bool spread;		/* over more than one region: is not kept */
	uint8_t taken;		/* enum aux_range_end of an E */
};

struct etm_step {
	struct aux_step s;
	struct aux_flow range;
	struct etm_node *node;
};

/* Where the flow goes on. */
enum etm_place {
	ETM_HERE,		/* at ip */
	ETM_NOWHERE,		/* where the next address is */
	ETM_RETURN,		/* the same; there or on the return stack */
	ETM_ADRIFT,		/* as NOWHERE, and what comes before it is not at
				 * ip either */
};

/*
 * The way from an ip on, by the atoms of a packet: up to the last one, or to an
 * indirect branch. The calls that it makes and does not return from are in sites;
 * at most peak calls are open at once. What the loop needs is in front.
 */
struct etm_path {
	uint64_t ip;
	uint64_t generation;	/* all its code is there then */
	uint64_t end_ip;
	uint32_t atoms;		/* as in etm.atoms */
	uint32_t n_insns;
	uint8_t place;		/* enum etm_place, behind it */
	bool odd;		/* it has calls, or takes not all of the atoms */
	uint8_t n_atoms;	/* that it takes */
	uint8_t peak, n_sites;
	uint64_t last, next;	/* of its last instruction */
	uint64_t *sites;
	struct aux_path p;
};

/*
 * The first packets from an ip on, in whole, of up to eight bytes, with the three
 * addresses before them: what they do. Atoms without addresses do it whatever these
 * are: they are 0 then. path may be one of several packets; NULL: they have no atoms.
 */
struct etm_window {
	uint64_t ip;
	uint64_t bytes;		/* the first lowest; 0 behind the packets */
	uint64_t history[3];
	uint64_t generation;	/* of path, as there */
	struct aux_path *path;	/* of an etm_path */
	uint64_t end_ip;
	uint64_t to[3];		/* history behind it, if it moved; else 0 */
	uint32_t n_insns;	/* of path */
	uint8_t n;		/* bytes; 0: these are not for a window */
	uint8_t first, last;	/* where its first atoms, its last packet is */
	uint8_t place;		/* enum etm_place, behind it */
	bool moved;
};

struct etm_slab;

struct etm_store {
	struct etm_slab *slabs;
	uint64_t n_bytes;
	struct etm_region *regions;
	struct etm_node **nodes;	/* hash by ip */
	struct etm_path **paths;	/* hash by ip and atoms */
	struct etm_window *windows;	/* hash of all before generation */
	unsigned node_bits, path_bits, window_shift; /* 64 - bits */
	uint32_t n_nodes, n_paths, n_windows;
	uint32_t seen[1 << ETM_SEEN_BITS];	/* windows that came once */
};

struct etm_store *etm_store_new(void);
void etm_store_free(void *store);
/* Zeroed and aligned; NULL without memory, or when that much is not kept. */
void *etm_store_alloc(struct etm_store *s, size_t n, size_t align);
bool etm_store_add_path(struct etm_store *s, struct etm_path *p);
/* NULL: there is no room. What it returns is valid until the next one. */
const struct etm_window *etm_store_add_window(struct etm_store *s,
					      const struct etm_window *w);

static inline size_t etm_hash(uint64_t key, unsigned bits)
{
	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - bits));
}

static inline struct etm_path *etm_path_of(struct aux_path *p)
{
	return (struct etm_path *)((uint8_t *)p - offsetof(struct etm_path, p));
}

/* Without the first n. */
static inline uint32_t etm_skip_atoms(uint32_t atoms, uint32_t n)
{
	uint32_t bits = atoms & ((UINT32_C(1) << ETM_ATOM_BITS) - 1);

	return ((atoms >> ETM_ATOM_BITS) - n) << ETM_ATOM_BITS | bits >> n;
}

static inline size_t etm_hash_path(uint64_t ip, uint32_t atoms, unsigned bits)
{
	return etm_hash(ip ^ (uint64_t)atoms << 32, bits);
}

static inline uint64_t etm_hash_window(const struct etm_window *w)
{
	return w->ip * UINT64_C(0x9e3779b97f4a7c15) ^
	       w->bytes * UINT64_C(0xc2b2ae3d27d4eb4f) ^
	       w->history[0] * UINT64_C(0xff51afd7ed558ccd) ^
	       (w->history[1] + w->history[2]) * UINT64_C(0xd6e8feb86659fd93);
}

/* Are they of the same place, packets and addresses? */
static inline bool etm_is_window(const struct etm_window *a,
				 const struct etm_window *b)
{
	return !((a->ip ^ b->ip) | (a->bytes ^ b->bytes) |
		 (a->history[0] ^ b->history[0]) |
		 (a->history[1] ^ b->history[1]) |
		 (a->history[2] ^ b->history[2]));
}

#endif
