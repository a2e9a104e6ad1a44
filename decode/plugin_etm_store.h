/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The store of the etm decoder: what was made of code. Regions are answers of the
 * host; a node goes from an ip to the next P0 instruction; a step is a node with
 * what its atom says; a path is the way from an ip on by the atoms of a packet.
 */
#ifndef PLUGIN_ETM_STORE_H
#define PLUGIN_ETM_STORE_H

#include <stdbool.h>

#include <aux/decoder.h>

#define ETM_ATOM_BITS 25	/* atoms: number << 25 | bits, the first lowest */
#define ETM_STORE_MAX (UINT64_C(48) << 20) /* bytes; more is not kept */

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

struct etm_slab;

struct etm_store {
	struct etm_slab *slabs;
	uint64_t n_bytes;
	struct etm_region *regions;
	struct etm_node **nodes;	/* hash by ip */
	struct etm_path **paths;	/* hash by ip and atoms */
	unsigned node_bits, path_bits;
	uint32_t n_nodes, n_paths;
};

struct etm_store *etm_store_new(void);
void etm_store_free(void *store);
/* Zeroed and aligned; NULL without memory, or when that much is not kept. */
void *etm_store_alloc(struct etm_store *s, size_t n, size_t align);
bool etm_store_add_node(struct etm_store *s, struct etm_node *n);
bool etm_store_add_path(struct etm_store *s, struct etm_path *p);

static inline size_t etm_hash(uint64_t key, unsigned bits)
{
	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - bits));
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

#endif
