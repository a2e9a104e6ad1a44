/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memo of the Intel PT decoder: code in the form in which packets need it.
 *
 *   region	one answer of the host: bytes of code, mapped at an address
 *   set	regions that a path leads through, where these are more than one
 *   node	from an ip in a region to the next instruction that takes a packet, or
 *		a direct branch to another region
 *   step	the RANGEs of a node, for one outcome of its branch (aux_step)
 *   path	the steps that the bits of a TNT, a TIP, or a TNT and the TIP directly after
 *		it lead along (aux_path)
 *   entry	a key (address, mode and packets) and the path for it
 *
 * Regions, nodes and paths are right wherever and whenever their region is mapped: they
 * outlive chunks and address spaces. All of it is dropped at once, at the start of a chunk
 * when there is little room left. Nothing here knows where decoding is.
 *
 * Owner: one decoder, and so one thread at a time. What the host sees of it (steps, paths)
 * lives until the host has released it: pt_memo_drop.
 */
#ifndef DECODE_LIB_PT_MEMO_H
#define DECODE_LIB_PT_MEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/decoder.h>

#include "common/x86_insn.h"

#define PT_REGIONS 6144		/* with an index; the fast path needs one */
#define PT_SETS 2048		/* of regions that paths lead through */
#define PT_SET 4		/* regions in a set, at most */
#define PT_ENDS	8		/* places for enum pt_path_end in a tag */
#define PT_STACK 64		/* calls of the return stack, power of two */
#define PT_LINE 64		/* of the cache */
#define PT_SEEN 1048576		/* tags, power of two */

/*
 * Keys.
 *
 *	 63                                     16   15   14   13 ........ 1   0
 *	+-----------------------------------------+-----+-----+-----------------+
 *	| ip, its 48 bits that count              | TIP | 32  | TNT bits below  |
 *	|                                         |     | bit | a stop bit      |
 *	+-----------------------------------------+-----+-----+-----------------+
 *
 * bit 0: there is at least one TNT bit. The stop bit is always there, so no key is 0, which
 * marks a free entry. key_ip is the upper part, an ip shifted left by 16: what a TIP packet
 * holds becomes a part of a key by a shift and an or.
 *
 * A key is exact, no hash of what it stands for: equal keys mean the same packets at the
 * same address in the same mode. What it does not say is the region, as another
 * space may have other code there. The entry does: its tag is region (or set) and end of the
 * path in one number, and ready[tag] says in one load whether the region is mapped in the
 * host's generation (of a set, all are) and whether the path ends as the key's packets do.
 *
 * Entries are 32 bytes, two to a cache line. The search for a key begins at the line that
 * its hash names and goes on from there. The loop of the fast path looks at the first line
 * alone; an entry found elsewhere moves there (promote in memo.c).
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

/* Where a path ends. */
enum pt_path_end {
	PT_END_NODE = 0,	/* at next, and all bits are used up */
	PT_END_TIP,		/* after the branch that takes the TIP */
	PT_END_POP,		/* at a return to a call before the path */
	PT_END_IP,		/* at next, outside of the set, or before a branch
				 * out of it; bits are left. All of them: the path is
				 * a lead, that branch alone */
	PT_END_STOP,		/* at next, which cannot take the next bit */
	PT_N_ENDS,
};

/* Begins on a cache line, as the fast path hands it to the host, which reads
 * it. */
struct pt_path {
	struct aux_path pub;
	uint64_t sites[];	/* return addresses of calls open at its end */
};

/* What packets do at an address, with all that the fast path needs to know of
 * it. */
struct pt_entry {
	uint64_t key;		/* 0: free */
	struct pt_path *path;
	uint64_t next;		/* key_ip where it ends; pt_entry_tag below */
	uint32_t n_insns;
	uint16_t left;		/* bits not used, below a stop bit; 1: none */
	uint8_t n_calls;	/* open at its end */
	uint8_t room;		/* PT_STACK less the most calls open inside of it:
				 * so many older ones survive in the return stack */
};

/* The entry at that offset in bytes, of a hash or one that went past the
 * end. */
static inline struct pt_entry *pt_entry_at(struct pt_entry *table, size_t mask,
					   size_t offset)
{
	return (struct pt_entry *)((uint8_t *)table + (offset & mask));
}

/* Region or set and end of an entry in one: PT_ENDS times the index plus the end. The
 * indexes of sets begin at PT_REGIONS. What belongs to a region is in one place: few
 * regions touch little memory. */
static inline uint16_t pt_entry_tag(const struct pt_entry *e)
{
	return (uint16_t)e->next;
}

static inline enum pt_path_end pt_entry_end(const struct pt_entry *e)
{
	return (enum pt_path_end)(pt_entry_tag(e) % PT_ENDS);
}

static inline unsigned pt_entry_index(const struct pt_entry *e)
{
	return pt_entry_tag(e) / PT_ENDS;
}

#define PT_BITS 0x1fffU		/* of a TNT, below a stop bit */
#define PT_X86_32 0x4000U
#define PT_TIP	0x8000U		/* a TIP follows the bits */

/* Bits below a stop bit, and PT_TIP, as they are in a key. */
static inline unsigned pt_key_bits(unsigned bits)
{
	return (bits & PT_BITS) << 1 | ((bits & PT_BITS) > 1) | (bits & PT_TIP);
}

/* flags of RANGEs, outside of transactions, as they are in a key. */
static inline unsigned pt_key_mode(uint16_t flags)
{
	return (flags & AUX_FLOW_MODE_MASK) == AUX_FLOW_MODE_X86_32 ? PT_X86_32
								     : 0;
}

/* Where the search for a key begins: an offset in bytes, to be masked
 * (path_mask). The constant is 2^64 / golden ratio (Knuth, vol. 3, 6.4). */
static inline size_t pt_path_hash(uint64_t key)
{
	return key * UINT64_C(0x9e3779b97f4a7c15) >> 27;
}

static inline size_t pt_path_mask(uint32_t max_paths)
{
	return max_paths * sizeof(struct pt_entry) - PT_LINE;
}

/* Values of pt_memo.ready, besides 0 and PT_TIP. */
#define PT_READY 1
#define PT_UNKNOWN 2

/* One answer of the host, cut to one half of the address space: all of it is
 * canonical. */
struct pt_region {
	uint64_t start, end;
	const uint8_t *bytes;
	uint16_t index;		/* from 1 on; 0: none was left: no entry has it */
	struct pt_region *next;
	struct pt_region *same_hash;
};

/* Regions that are mapped at once, the first one where its paths begin. */
struct pt_set {
	struct pt_region *regions[PT_SET];
	uint16_t n;
	uint16_t next;		/* of its hash: index from 1 on; 0: none */
};

/* How a RANGE ends (enum aux_range_end) whose last instruction is of that
 * class. */
static inline uint8_t pt_range_end(uint8_t cls)
{
	static const uint8_t ends[] = {
		[X86_OTHER] = AUX_END_FALL, [X86_COND] = AUX_END_COND,
		[X86_JUMP] = AUX_END_JUMP, [X86_CALL] = AUX_END_CALL,
		[X86_RET] = AUX_END_RET, [X86_IND_JUMP] = AUX_END_IND_JUMP,
		[X86_IND_CALL] = AUX_END_IND_CALL,
		[X86_SYSCALL] = AUX_END_SYSCALL, [X86_FAR] = AUX_END_FAR,
		[X86_PTWRITE] = AUX_END_FALL,
	};

	return ends[cls];
}

/* How a node ends. */
enum pt_node_kind {
	PT_NODE_NEW = 0,	/* not decoded yet */
	PT_NODE_COND,		/* a TNT bit */
	PT_NODE_RET,		/* a TNT bit, or a TIP */
	PT_NODE_TIP,		/* an indirect or far branch */
	PT_NODE_LEAD,		/* none: a direct jump or call to another region */
	PT_NODE_SLOW,		/* it runs out of the region, or cannot go on */
};

/* Where a call returns to. node: NULL until it is looked up, or in another
 * region. */
struct pt_site {
	uint64_t ip;
	struct pt_node *node;
};

/*
 * From an ip to the next instruction that takes a packet; direct jumps and
 * calls on the way are followed inside of the region. Exactly a cache line:
 * making a path visits nodes all over memory.
 */
struct pt_node {
	uint64_t ip;
	struct pt_region *region;
	uint64_t next_ip;	/* after its last instruction; LEAD: where it leads */
	int32_t disp;		/* COND: from next_ip to where it leads, taken */
	uint16_t flags;		/* AUX_FLOW_MODE_*, AUX_FLOW_IN_TX */
	uint8_t kind;		/* enum pt_node_kind */
	uint8_t n_sites : 7;	/* its calls, with an indirect one at its end */
	uint8_t first : 1;	/* index of the step that was made first: its block
				 * holds the sites */
	struct pt_node *next[2]; /* COND, by outcome; NULL: not looked up */
	struct aux_step *steps[2]; /* COND, by outcome; others: [0] alone */
};

/* Where a COND leads, by its outcome. */
static inline uint64_t pt_node_to(const struct pt_node *n, bool taken)
{
	return n->next_ip + (taken ? (uint64_t)(int64_t)n->disp : 0);
}

/* Slot of the table from ip to node. */
struct pt_slot {
	uint64_t ip;
	struct pt_node *node;	/* NULL: free */
};

static inline uint32_t pt_node_hash(uint64_t ip)
{
	return (uint32_t)(ip * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/* The head of an allocation; what is in it follows after PT_LINE bytes. */
struct pt_block {
	struct pt_block *next;
	size_t size;
};

#define PT_RECENT 1024

struct pt_memo {
	const struct aux_decoder_host *host;

	/* regions */
	uint64_t generation;	/* the host's, for which ready holds */
	struct pt_region *regions; /* all */
	struct pt_region *last;	/* the one found last, or NULL */
	struct pt_region **recent; /* PT_RECENT, by place: found before, or NULL; itself NULL
				    * as long as they are few */
	struct pt_region **region_heads; /* by hash; NULL: they are few */
	uint32_t region_mask;
	uint32_t n_all_regions;	/* with those without an index */
	uint32_t n_regions;	/* the next index: from 1 on */
	struct pt_set *sets;	/* n_sets; NULL: none yet */
	uint16_t *set_heads;	/* PT_SETS, by hash: indexes from 1 on */
	uint32_t n_sets;

	/*
	 * By pt_entry_tag. 0: the region is mapped, and a path that ends so
	 * takes TNT bits alone; PT_TIP: it takes them and a TIP. So the fast
	 * loop compares it with the PT_TIP bit of its packets. PT_READY: it is
	 * mapped, but the path needs more than the loop does. PT_UNKNOWN: ask
	 * the host. Written for indexes that are in use alone.
	 */
	uint16_t *ready;
	uint16_t *ready_regions; /* indexes that are not PT_UNKNOWN */
	uint32_t n_ready;

	/* tables, open addressing, sizes are powers of two */
	struct pt_slot *nodes;
	uint32_t n_nodes, node_mask;
	struct pt_entry *paths;
	uint32_t n_paths, max_paths;
	size_t path_mask;	/* for pt_path_hash */
	uint32_t turn;		/* which entry of a line promote replaces */
	uint16_t *seen;		/* PT_SEEN tags of keys that were asked for once;
				 * NULL until memory gets scarce */

	/* memory of all of the above but the tables */
	struct pt_block *blocks;
	struct pt_block *spare;	/* former tables, to be used as blocks */
	uint8_t *free;		/* n_free bytes for steps */
	size_t n_free;
	uint8_t *free_line;	/* n_free_line bytes for nodes and paths */
	size_t n_free_line;
	struct pt_region *free_regions;
	size_t used, limit;	/* bytes of blocks; at the limit only regions are
				 * added */
	bool full;		/* an allocation met the limit */
	bool nomem;		/* an allocation failed; reset at a chunk's start */

	/* Paths that are not kept: valid during one call of decode, as one
	 * batch may hold several. temp_entry is that of the last. */
	uint8_t *scratch;
	size_t n_scratch;
	struct pt_entry temp_entry;
};

/* 0 or -AUX_E_NOMEM; pt_memo_fini either way. */
int pt_memo_init(struct pt_memo *s, const struct aux_decoder_host *host);
void pt_memo_fini(struct pt_memo *s);

/* Little room is left: drop it before the next chunk. */
static inline bool pt_memo_is_nearly_full(const struct pt_memo *s)
{
	return s->full || s->used > s->limit - s->limit / 4 ||
	       s->n_regions == PT_REGIONS;
}

/* It may keep so many bytes from now on; 0: as many as it likes. Drop follows if
 * it has more. */
void pt_memo_limit(struct pt_memo *s, uint64_t memory);
/* Empties it. What it held belongs to the host until no event leads there
 * (forget). */
void pt_memo_drop(struct pt_memo *s);
/* The host has another generation: no region is known to be mapped. */
void pt_memo_invalidate(struct pt_memo *s);

/* Is the region known to be mapped in this generation? */
static inline bool pt_region_is_current(const struct pt_memo *s,
				 const struct pt_region *r)
{
	return s->ready[r->index * PT_ENDS] != PT_UNKNOWN;
}

/* What bits (below a stop bit, with PT_TIP) do at key_ip. Made if it is not
 * there. NULL: no code, the branch there takes no such packet, or no memory.
 * Valid until the next call. */
const struct pt_entry *pt_memo_find(struct pt_memo *s, uint64_t key_ip,
				    unsigned bits, uint16_t flags);

/* A walk to the branch that takes a packet, or leads to another region. */
struct pt_memo_walk {
	const struct aux_flow *ranges;	/* as of a step; a COND has an outcome */
	uint32_t n_ranges;	/* >= 1 */
	const struct pt_site *sites; /* of its calls */
	uint32_t n_sites;
	bool leads;		/* to another region: */
	uint64_t to;
	struct x86_insn insn;	/* the last one */
};

/* The walk from ip, which is canonical. False: there is no code, it is not so
 * simple, or no memory. Valid until the memo is dropped. */
bool pt_memo_walk(struct pt_memo *s, uint64_t ip, uint16_t flags,
		  struct pt_memo_walk *w);

/* Up to 15 bytes of code at ip: *bytes, in buf if they span two regions.
 * Returns how many, 0: there is no code. */
size_t pt_memo_code(struct pt_memo *s, uint64_t ip, uint8_t buf[16],
		     const uint8_t **bytes);

/* The n bytes of code at ip, if they are in one region; else NULL. */
const uint8_t *pt_memo_bytes(struct pt_memo *s, uint64_t ip, size_t n);

#endif
