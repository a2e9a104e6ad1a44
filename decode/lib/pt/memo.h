/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The store of the Intel PT engine: code in the form that the flow needs.
 *
 * A region is one answer of the host; a node goes from an ip to the next instruction
 * that takes a packet; a path goes along nodes by the bits of a TNT. All of it is
 * dropped as a whole. No part of it knows where decoding is.
 */
#ifndef DECODE_LIB_PT_MEMO_H
#define DECODE_LIB_PT_MEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/decoder.h>

/*
 * The memo of the Intel PT engine: what packets do at a place, and how it is looked up.
 *
 * Two entries are a cache line. The search for a key begins at a line; the quick way
 * looks at that one alone, and an entry found behind it moves there.
 */

#define PT_REGIONS 8192		/* that the quick way goes along */

/*
 * An ip as the quick way holds it: its 48 bits that count above 16 that are free for
 * what goes with it.
 */
#define PT_KEY_IP_MASK (~UINT64_C(0xffff))

static inline uint64_t pt_key_ip(uint64_t ip)
{
	return ip << 16;
}

static inline uint64_t pt_ip_of_key(uint64_t key_ip)
{
	return (uint64_t)((int64_t)key_ip >> 16);
}

static inline bool pt_is_canonical(uint64_t ip)
{
	return pt_ip_of_key(pt_key_ip(ip)) == ip;
}

enum pt_path_end {
	PT_END_NODE = 0,	/* at next; all bits are used up */
	PT_END_TIP,		/* behind the branch that takes the TIP */
	PT_END_POP,		/* a return that needs the stack of before */
	PT_END_IP,		/* at next, in another region, bits are left */
	PT_END_STOP,		/* at next, which cannot take the next bit */
	PT_N_ENDS,
};

/* Along nodes by the bits of a TNT, up to the branch that takes the TIP behind it. */
struct pt_path {
	struct aux_path pub;
	uint64_t sites[];	/* ips of the calls that are open at its end */
};

#define PT_LINE 64		/* paths begin on a cache line */

/* What the bits of a TNT do at a place, with all that the quick way needs of it. */
struct pt_entry {
	uint64_t key;		/* place, mode and packets; 0: free */
	struct pt_path *path;
	uint64_t next;		/* place where it ends, and pt_entry_tag */
	uint32_t n_insns;
	uint16_t left;		/* bits below a stop bit; 1: none */
	uint8_t n_calls;	/* that are open at its end */
	uint8_t room;		/* in the stack at its begin, for all its calls */
};

/* The entry at that place, or later. */
static inline struct pt_entry *pt_entry_at(struct pt_entry *table, size_t mask,
					   size_t offset)
{
	return (struct pt_entry *)((uint8_t *)table + (offset & mask));
}

/* Region and end of an entry in one: PT_REGIONS times the end above the index. */
static inline uint16_t pt_entry_tag(const struct pt_entry *e)
{
	return (uint16_t)e->next;
}

static inline enum pt_path_end pt_entry_end(const struct pt_entry *e)
{
	return (enum pt_path_end)(pt_entry_tag(e) / PT_REGIONS);
}

static inline unsigned pt_entry_region(const struct pt_entry *e)
{
	return pt_entry_tag(e) % PT_REGIONS;
}

/*
 * A key is exact: the place, and in its free bits the packets' and the mode. What it
 * does not tell is the region, which may be another one in another space.
 */
#define PT_BITS 0x1fffU		/* of a TNT, below a stop bit */
#define PT_X86_32 0x4000U
#define PT_TIP	0x8000U		/* a TIP follows the bits */

/* bits and PT_TIP as in a key */
static inline unsigned pt_key_bits(unsigned bits)
{
	return (bits & PT_BITS) << 1 | ((bits & PT_BITS) > 1) | (bits & PT_TIP);
}

/* flags: of an instruction outside of transactions, 64 or 32 bits */
static inline unsigned pt_key_mode(uint16_t flags)
{
	return (flags & AUX_FLOW_MODE_MASK) == AUX_FLOW_MODE_X86_32 ? PT_X86_32
								     : 0;
}

/* Where in the table the search for a key begins, in bytes: a line, which is all
 * that the quick way looks at. */
static inline size_t pt_path_hash(uint64_t key)
{
	return key * UINT64_C(0x9e3779b97f4a7c15) >> 27;
}

static inline size_t pt_path_mask(uint32_t max_paths)
{
	return max_paths * sizeof(struct pt_entry) - PT_LINE;
}

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

struct pt_memo {
	const struct aux_decoder_host *host;
	uint64_t generation;
	struct pt_region *regions, *last;
	uint32_t n_regions;	/* from 1 on */
	uint16_t *ready;	/* by pt_entry_tag: 0: the bits alone lead there,
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
	uint8_t *scratch;
	size_t n_scratch;
	struct pt_entry temp_entry; /* of the last path that is not kept */
};

#define PT_SEEN 1048576
#define PT_STACK 64		/* calls of the return stack, power of two */

int pt_memo_init(struct pt_memo *s, const struct aux_decoder_host *host);
void pt_memo_fini(struct pt_memo *s);
/* There is little room left. */
static inline bool pt_memo_is_nearly_full(const struct pt_memo *s)
{
	return s->full || s->used > s->limit - s->limit / 4 ||
	       s->n_regions == PT_REGIONS;
}

/* Empties it; what it held is the host's until nothing leads there. */
void pt_memo_drop(struct pt_memo *s);
/* Another generation: no region is known to be current. */
void pt_memo_invalidate(struct pt_memo *s);

/* Is what was found in the region still there? */
static inline bool pt_region_is_current(const struct pt_memo *s,
				 const struct pt_region *r)
{
	return s->ready[r->index] != PT_UNKNOWN;
}

const struct pt_entry *pt_memo_find(struct pt_memo *s, uint64_t key_ip,
				    unsigned bits, uint16_t flags);

/* Up to so many instruction bytes at ip, in one place; 0: none. */
size_t pt_memo_code(struct pt_memo *s, uint64_t ip, uint8_t buf[16],
		     const uint8_t **bytes);

#endif
