/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the etm decoder learned of the traced code, and keeps across chunks.
 *
 *	region	bytes that the host gave for addresses, in some generations
 *	node	the instructions from an ip to the next P0 element
 *	step	a node with its atom: one RANGE
 *	path	the steps from an ip on, by the atoms of a packet
 *	window	a path with the addresses between its packets, by their raw bytes
 *
 * Most packets of a trace repeat earlier ones at the same ip, so following them is
 * one look-up of a path or a window. An entry is used only in a generation for which
 * all its code was checked against the host, and never changes otherwise.
 *
 * Nothing is removed alone: the memo grows to its limit and is then replaced as a
 * whole, in start. Paths are handed to the host by reference, so the old memo goes to
 * host->forget, which releases it once no event leads there. A memo belongs to one
 * decoder, hence to one thread.
 */
#ifndef DECODE_LIB_ETM_MEMO_H
#define DECODE_LIB_ETM_MEMO_H

#include <stdbool.h>

#include <aux/decoder.h>

#define ETM_ATOM_BITS 25	/* atoms: number << 25 | bits, the first lowest */
#define ETM_MEMO_MAX (UINT64_C(48) << 20) /* bytes, for limit */
#define ETM_MEMO_MIN (UINT64_C(16) << 10)
#define ETM_WINDOW_BITS 16	/* the hash of windows has at most 2^16 slots */
#define ETM_SEEN_BITS 12

struct etm_region {
	struct aux_code code;
	uint64_t generation;	/* the last one in which the host had it */
	struct etm_region *next;
};

/* What the last instruction of a node does. */
enum etm_kind {
	ETM_WAYPOINT,		/* isb, wfi, wfe: continues after it */
	ETM_DIRECT,
	ETM_INDIRECT,
	ETM_UNKNOWN,		/* a branch, perhaps, that is not known: the
				 * instruction at node->next, and not in the node */
};

struct etm_node {
	uint64_t ip;
	uint64_t last;		/* address of the last instruction */
	uint64_t next;		/* the one after it */
	uint64_t target;	/* of a direct branch */
	struct etm_region *region;
	struct etm_node *chain;	/* in the hash */
	struct etm_step *steps[2];	/* by the atom; NULL: not made yet */
	uint32_t n;		/* instructions */
	uint8_t kind;		/* enum etm_kind */
	bool link;		/* a call, when taken */
	bool crosses;		/* out of its region: is not kept */
	uint8_t taken;		/* enum aux_range_end of an E atom */
};

struct etm_step {
	struct aux_step s;
	struct aux_flow range;
	struct etm_node *node;
};

/* Where the flow continues. */
enum etm_where {
	ETM_AT_IP,		/* at the ip that is known */
	ETM_AT_ADDRESS,		/* at the next address packet */
	ETM_AT_RETURN,		/* there, or at the top of the return stack */
	ETM_ADRIFT,		/* at the next address packet, and an exception
				 * before that did not return to ip either */
};

/*
 * A path ends at the last atom, or early at an indirect branch. Return
 * addresses of the calls that it makes and does not return from are in sites;
 * at most peak calls are open at once. The fields that the fast loop needs come
 * first: one cache line.
 */
struct etm_path {
	uint64_t ip;
	uint64_t generation;	/* the last one in which all its code was there */
	uint64_t end_ip;
	uint32_t atoms;		/* number << ETM_ATOM_BITS | bits */
	uint32_t n_insns;
	uint8_t where;		/* enum etm_where, after it */
	bool irregular;		/* makes calls, or stops before the last atom */
	uint8_t n_atoms;	/* it follows */
	uint8_t peak, n_sites;
	uint64_t last, next;	/* the last instruction and the one after it */
	uint64_t *sites;
	struct aux_path p;
};

/*
 * What the first packets from an ip on do, up to eight bytes of whole packets,
 * after three given addresses. Address packets are relative to these; windows
 * without one do not depend on them and have 0 there. path joins the steps of
 * all packets; NULL: there are no atoms among them.
 */
struct etm_window {
	/* the key */
	uint64_t ip;
	uint64_t bytes;		/* the first packet lowest; 0 past the last */
	uint64_t history[3];
	/* what follows from it */
	uint64_t generation;	/* as in path */
	struct aux_path *path;	/* of an etm_path */
	uint64_t end_ip;
	uint64_t to[3];		/* history after it, if has_address; else 0 */
	uint32_t n_insns;	/* of path */
	uint8_t n;		/* bytes; 0: these packets make no window */
	uint8_t first, last;	/* offsets of the first atoms, the last packet */
	uint8_t where;		/* enum etm_where, after it */
	bool has_address;
};

struct etm_slab;

struct etm_memo {
	struct etm_slab *slabs;	/* memory of all entries but windows */
	uint64_t n_bytes, limit;
	struct etm_region *regions;
	struct etm_node **nodes;	/* hash by ip, chained */
	struct etm_path **paths;	/* hash by ip and atoms, open */
	struct etm_window *windows;	/* hash by the key, open, in place */
	unsigned node_bits, path_bits, window_shift; /* 64 - bits */
	uint32_t n_nodes, n_paths, n_windows;
	uint32_t seen[1 << ETM_SEEN_BITS];	/* keys that came once */
};

struct etm_memo *etm_memo_new(uint64_t limit);
void etm_memo_free(void *memo);
/* Zeroed and aligned; NULL without memory, or when the memo is full. */
void *etm_memo_alloc(struct etm_memo *s, size_t n, size_t align);
bool etm_memo_add_path(struct etm_memo *s, struct etm_path *p);
/* NULL: there is no room. The result is valid until the next call. */
const struct etm_window *etm_memo_add_window(struct etm_memo *s,
					     const struct etm_window *w);

static inline size_t etm_hash(uint64_t key, unsigned bits)
{
	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - bits));
}

static inline struct etm_path *etm_path_of(struct aux_path *p)
{
	return (struct etm_path *)((uint8_t *)p - offsetof(struct etm_path, p));
}

/* Atoms without the first n. */
static inline uint32_t etm_skip_atoms(uint32_t atoms, uint32_t n)
{
	uint32_t bits = atoms & ((UINT32_C(1) << ETM_ATOM_BITS) - 1);

	return ((atoms >> ETM_ATOM_BITS) - n) << ETM_ATOM_BITS | bits >> n;
}

static inline size_t etm_hash_path(uint64_t ip, uint32_t atoms, unsigned bits)
{
	return etm_hash(ip ^ (uint64_t)atoms << 32, bits);
}

/* Independent products: their latencies overlap. */
static inline uint64_t etm_window_hash(const struct etm_window *w)
{
	return w->ip * UINT64_C(0x9e3779b97f4a7c15) ^
	       w->bytes * UINT64_C(0xc2b2ae3d27d4eb4f) ^
	       w->history[0] * UINT64_C(0xff51afd7ed558ccd) ^
	       (w->history[1] + w->history[2]) * UINT64_C(0xd6e8feb86659fd93);
}

/* Do the keys match? One branch, not five. */
static inline bool etm_window_matches(const struct etm_window *a,
				      const struct etm_window *b)
{
	return !((a->ip ^ b->ip) | (a->bytes ^ b->bytes) |
		 (a->history[0] ^ b->history[0]) |
		 (a->history[1] ^ b->history[1]) |
		 (a->history[2] ^ b->history[2]));
}

#endif
