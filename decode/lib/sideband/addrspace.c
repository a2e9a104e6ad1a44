/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * addrspace: persistent treaps of mappings, see sideband.h.
 *
 * Invariants: in order by start, disjoint, heap order by prio. A node is never
 * written once its tree was returned, so every root stays valid. What one change
 * takes apart and puts together on its way is written in place (is_fresh): copying
 * that, too, would take more memory than what stays.
 * Random priorities keep the depth logarithmic on average, whatever the order
 * of insertion; the seed is random, so no file can choose a bad order.
 *
 * Failed allocations set the arena's oom flag and make results meaningless; the
 * caller tests the flag once and discards everything.
 *
 * Reference: Seidel and Aragon, "Randomized Search Trees", 1996.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "decode/lib/sideband/sideband.h"

#define ARENA_BLOCK (256 * 1024)

/* A mapping of a tree, with its digest. */
struct own_mapping {
	struct mapping map;	/* first */
	uint64_t sum[2];
};

struct map_arena_block {
	struct map_arena_block *next;
	size_t used, size;
	uint8_t data[];
};

/* Zeroed, aligned to 16 bytes. NULL: out of memory, also noted in a->oom. */
void *map_arena_alloc(struct map_arena *a, size_t size)
{
	struct map_arena_block *b = a->blocks;
	void *p;

	size = (size + 15) & ~(size_t)15;
	if (!b || b->size - b->used < size) {
		size_t room = size > ARENA_BLOCK ? size : ARENA_BLOCK;

		if (!a->oom && a->limit)
			a->oom = array_take(a->limit, room) < 0;
		b = a->oom ? NULL : malloc(sizeof(*b) + room);
		if (!b) {
			a->oom = true;
			return NULL;
		}
		b->next = a->blocks;
		b->used = 0;
		b->size = room;
		a->blocks = b;
		a->fresh = 0;
	}
	p = b->data + b->used;
	b->used += size;
	return memset(p, 0, size);
}

void map_arena_free(struct map_arena *a)
{
	while (a->blocks) {
		struct map_arena_block *b = a->blocks;

		a->blocks = b->next;
		if (a->limit)
			array_give(a->limit, b->size);
		free(b);
	}
}

/* The increment and multiplier of SplitMix64. */
static uint32_t next_prio(struct map_arena *a)
{
	a->seed += 0x9e3779b97f4a7c15;
	return (uint32_t)((a->seed * 0xbf58476d1ce4e5b9) >> 32);
}

/* The finalizer of MurmurHash3, with one value more. */
static uint64_t mix(uint64_t h, uint64_t v)
{
	h ^= v;
	h *= 0xff51afd7ed558ccd;
	h ^= h >> 32;
	h *= 0xc4ceb9fe1a85ec53;
	return h ^ (h >> 29);
}

/* Digests what a decoder sees through a mapping: not its time, so that mapping
 * the same file again gives equal contents. */
static void digest(const struct map_arena *a, const struct mapping *m,
		   uint64_t sum[2])
{
	for (int i = 0; i < 2; i++) {
		uint64_t h = mix(a->salt + (uint64_t)i, m->start);

		h = mix(mix(h, m->end), m->pgoff);
		h = mix(h, m->saved ? m->saved_offset + 1 : 0);
		h = mix(mix(h, m->kind), m->ref_addr);
		for (const char *c = m->path; *c; c++)
			h = mix(h, (uint8_t)*c);
		for (int j = 0; j < m->build_id_size; j++)
			h = mix(h, m->build_id[j]);
		sum[i] = h;
	}
}

/* From here on nodes are those of a new change. */
static void begin_change(struct map_arena *a)
{
	if (!a->goes_on)
		a->fresh = a->blocks ? a->blocks->used : 0;
}

/* Was the node made by this change? No root that was returned leads to it. Nodes in a
 * block that is full count as old: they are few. */
static bool is_fresh(const struct map_arena *a, const struct map_node *n)
{
	const struct map_arena_block *b = a->blocks;
	uintptr_t at = b ? (uintptr_t)n - (uintptr_t)b->data : 0;

	return b && at >= a->fresh && at < b->used;
}

/* A node with from's mapping and other children: from itself, where nothing else
 * leads to it. */
static const struct map_node *link_node(struct map_arena *a,
					const struct map_node *from,
					const struct map_node *left,
					const struct map_node *right)
{
	const struct own_mapping *own = (const struct own_mapping *)from->map;
	struct map_node *n = is_fresh(a, from) ?
				     (struct map_node *)(uintptr_t)from :
				     map_arena_alloc(a, sizeof(*n));

	if (!n)
		return NULL;
	n->map = from->map;
	n->prio = from->prio;
	n->left = left;
	n->right = right;
	n->n = 1 + (left ? left->n : 0) + (right ? right->n : 0);
	for (int i = 0; i < 2; i++)
		n->sum[i] = own->sum[i] + (left ? left->sum[i] : 0) +
			    (right ? right->sum[i] : 0);
	return n;
}

/* lo: mappings that start below key; hi: the others. Copies the path to key. */
static void split(struct map_arena *a, const struct map_node *root,
		  uint64_t key, const struct map_node **lo,
		  const struct map_node **hi)
{
	const struct map_node *part;

	if (!root) {
		*lo = *hi = NULL;
	} else if (root->map->start < key) {
		split(a, root->right, key, &part, hi);
		*lo = link_node(a, root, root->left, part);
	} else {
		split(a, root->left, key, lo, &part);
		*hi = link_node(a, root, part, root->right);
	}
}

/* All of lo lies below all of hi. */
static const struct map_node *merge(struct map_arena *a, const struct map_node *lo,
				    const struct map_node *hi)
{
	if (!lo)
		return hi;
	if (!hi)
		return lo;
	if (lo->prio > hi->prio)
		return link_node(a, lo, lo->left, merge(a, lo->right, hi));
	return link_node(a, hi, merge(a, lo, hi->left), hi->right);
}

/* A tree with one mapping: the part [start, end) of m. */
static const struct map_node *single(struct map_arena *a, const struct mapping *m,
				     uint64_t start, uint64_t end)
{
	struct own_mapping *own = map_arena_alloc(a, sizeof(*own));
	struct map_node proto = { .prio = next_prio(a) };
	struct mapping *copy;

	if (!own)
		return NULL;
	copy = &own->map;
	*copy = *m;
	copy->start = start;
	copy->end = end;
	copy->pgoff += start - m->start;
	if (copy->saved) {
		copy->saved += start - m->start;
		copy->saved_offset += start - m->start;
	}
	proto.map = copy;
	digest(a, copy, own->sum);
	return link_node(a, &proto, NULL, NULL);
}

static const struct mapping *last_of(const struct map_node *root)
{
	while (root && root->right)
		root = root->right;
	return root ? root->map : NULL;
}

/* Like split, but a mapping that crosses key is cut in two. */
static void cut(struct map_arena *a, const struct map_node *root, uint64_t key,
		const struct map_node **lo, const struct map_node **hi)
{
	const struct map_node *left, *drop;
	const struct mapping *last;

	split(a, root, key, &left, hi);
	last = last_of(left);
	*lo = left;
	if (!last || last->end <= key)
		return;
	split(a, left, last->start, lo, &drop);
	*lo = merge(a, *lo, single(a, last, last->start, key));
	*hi = merge(a, single(a, last, key, last->end), *hi);
}

/* Inserts one, a tree with one mapping, where nothing overlaps it. */
static const struct map_node *add_one(struct map_arena *a,
				      const struct map_node *root,
				      const struct map_node *one)
{
	const struct map_node *lo, *hi;
	uint64_t start = one->map->start;

	if (!root)
		return one;
	if (one->prio > root->prio) {
		split(a, root, start, &lo, &hi);
		return link_node(a, one, lo, hi);
	}
	if (start < root->map->start)
		return link_node(a, root, add_one(a, root->left, one),
				 root->right);
	return link_node(a, root, root->left, add_one(a, root->right, one));
}

/* Puts one in the place of the mapping with the same start and end, which has
 * to be there. */
static const struct map_node *replace_one(struct map_arena *a,
					  const struct map_node *root,
					  const struct map_node *one)
{
	struct map_node same;

	if (one->map->start < root->map->start)
		return link_node(a, root, replace_one(a, root->left, one),
				 root->right);
	if (one->map->start > root->map->start)
		return link_node(a, root, root->left,
				 replace_one(a, root->right, one));
	same = *one;
	same.prio = root->prio;
	return link_node(a, &same, root->left, root->right);
}

const struct map_node *addrspace_insert(struct map_arena *a,
					const struct map_node *root,
					const struct mapping *m)
{
	const struct mapping *old = addrspace_next(root, m->start);
	const struct map_node *lo, *mid, *hi, *one;

	if (m->start >= m->end)
		return root;
	begin_change(a);
	one = single(a, m, m->start, m->end);
	if (!one)
		return root;
	if (!old || old->start >= m->end)
		return add_one(a, root, one);
	if (old->start == m->start && old->end == m->end)
		return replace_one(a, root, one);
	cut(a, root, m->start, &lo, &mid);
	cut(a, mid, m->end, &mid, &hi);
	return merge(a, merge(a, lo, one), hi);
}

const struct map_node *addrspace_copy(struct map_arena *a,
				      const struct map_node *root,
				      const struct map_node *from,
				      uint64_t start, uint64_t end)
{
	const struct map_node *lo, *mid, *hi, *drop;

	if (start >= end)
		return root;
	begin_change(a);
	cut(a, root, start, &lo, &mid);
	cut(a, mid, end, &drop, &hi);
	cut(a, from, start, &drop, &mid);
	cut(a, mid, end, &mid, &drop);
	return merge(a, merge(a, lo, mid), hi);
}

const struct map_node *addrspace_insert_under(struct map_arena *a,
					      const struct map_node *root,
					      const struct mapping *m)
{
	const struct map_node *under = addrspace_insert(a, NULL, m);
	const struct mapping *old;
	uint64_t at = m->start;

	for (old = addrspace_next(root, at); old && old->start < m->end;
	     old = addrspace_next(root, at)) {
		under = addrspace_copy(a, under, root,
				       old->start > at ? old->start : at,
				       old->end);
		at = old->end;
		if (a->oom)
			return root;
	}
	return addrspace_copy(a, root, under, m->start, m->end);
}

const struct mapping *addrspace_next(const struct map_node *root, uint64_t addr)
{
	const struct mapping *best = NULL;

	while (root) {
		if (root->map->end > addr) {
			best = root->map;
			root = root->left;
		} else {
			root = root->right;
		}
	}
	return best;
}

const struct mapping *addrspace_find(const struct map_node *root, uint64_t addr)
{
	while (root && (addr < root->map->start || addr >= root->map->end))
		root = addr < root->map->start ? root->left : root->right;
	return root ? root->map : NULL;
}
