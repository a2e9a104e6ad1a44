/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memo of the Intel PT engine: what packets do at a place, and how it is looked up.
 *
 * Two entries are a cache line. The search for a key begins at a line; the quick way
 * looks at that one alone, and an entry found behind it moves there.
 */
#ifndef DECODE_LIB_PT_ENTRY_H
#define DECODE_LIB_PT_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/decoder.h>

#define PT_REGIONS 8192		/* that the quick way goes along */

/*
 * An ip as the quick way holds it: its 48 bits that count above 16 that are free for
 * what goes with it.
 */
#define PT_PLACE_MASK (~UINT64_C(0xffff))

static inline uint64_t pt_place(uint64_t ip)
{
	return ip << 16;
}

static inline uint64_t pt_place_ip(uint64_t place)
{
	return (uint64_t)((int64_t)place >> 16);
}

static inline bool pt_is_canonical(uint64_t ip)
{
	return pt_place_ip(pt_place(ip)) == ip;
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
	uint64_t next;		/* place where it ends, and pt_entry_where */
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
static inline uint16_t pt_entry_where(const struct pt_entry *e)
{
	return (uint16_t)e->next;
}

static inline enum pt_path_end pt_entry_end(const struct pt_entry *e)
{
	return (enum pt_path_end)(pt_entry_where(e) / PT_REGIONS);
}

static inline unsigned pt_entry_region(const struct pt_entry *e)
{
	return pt_entry_where(e) % PT_REGIONS;
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

#endif
