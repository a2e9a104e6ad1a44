/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pt: paths, the memo of what a TNT, a TIP, or a TNT and the TIP right behind it do
 * at a node.
 *
 * A path stays in one region. While there is much room it is kept at once, then the
 * second time it is taken: most of cold code runs once. Calls that return inside of
 * a path leave no trace in it but the height that the stack reached.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/lib/pt/engine.h"

#define STEPS 64

_Static_assert(sizeof(struct pt_entry) == 32, "two are a cache line");

/* The one behind e in the search for a key. */
static struct pt_entry *find_next(struct pt_entry *table, size_t mask,
				  struct pt_entry *e)
{
	size_t offset = (size_t)((uint8_t *)(e + 1) - (uint8_t *)table);

	return offset & (PT_LINE - 1) ? e + 1 : pt_entry_at(table, mask, offset);
}

/* The first free place of a key. */
static struct pt_entry *find_free(struct pt_entry *table, size_t mask,
				  uint64_t key)
{
	struct pt_entry *e = pt_entry_at(table, mask, pt_path_hash(key));

	while (e->key)
		e = find_next(table, mask, e);
	return e;
}

static bool grow_paths(struct pt_store *s)
{
	uint32_t n = 2 * s->max_paths;
	size_t mask = pt_path_mask(n);
	struct pt_entry *old = s->paths;
	struct pt_entry *table = pt_store_table(n * sizeof(*table));

	if (!table) {
		s->nomem = true;
		return false;
	}
	for (uint32_t i = 0; i < s->max_paths; i++)
		if (old[i].key)
			*find_free(table, mask, old[i].key) = old[i];
	pt_store_reuse(s, old, s->max_paths * sizeof(*old));
	s->paths = table;
	s->max_paths = n;
	s->path_mask = mask;
	return true;
}

struct trial {
	struct aux_step *steps[STEPS];
	struct pt_site sites[PATH_CALLS];
	struct aux_path pub;
	unsigned left, n_calls, height;
	enum pt_path_end end;
	struct pt_node *node;	/* END_NODE: there */
	uint64_t ip;		/* where it ends; canonical */
};

/* The calls of a node. False: too many. */
static bool call(struct trial *t, struct pt_store *s, struct pt_node *n)
{
	if (t->n_calls + n->n_sites > PATH_CALLS)
		return false;
	for (unsigned i = 0; i < n->n_sites; i++)
		t->sites[t->n_calls++] = *pt_code_site(s, n, i);
	if (t->height < t->n_calls)
		t->height = t->n_calls;
	return true;
}

static void add_step(struct trial *t, struct aux_step *step)
{
	struct aux_path *p = &t->pub;

	t->steps[p->n_steps++] = step;
	p->n_ranges += step->n_ranges;
	p->n_insns += step->n_insns;
}

/* Takes one bit at n: the next node, or NULL at the end of the path. */
static struct pt_node *take_bit(struct trial *t, struct pt_store *s,
				struct pt_node *n, bool bit)
{
	if (n->kind == PT_NODE_COND) {
		t->end = PT_END_IP;
		t->ip = pt_node_to(n, bit);
		return pt_code_next(s, n, bit);
	}
	if (!t->n_calls) {
		t->end = PT_END_POP;
		t->ip = 0;
		return NULL;
	}
	t->end = PT_END_IP;
	t->ip = t->sites[--t->n_calls].ip;
	return t->sites[t->n_calls].node;
}

static bool takes_bit(const struct pt_node *n, bool bit)
{
	return n->kind == PT_NODE_COND || (n->kind == PT_NODE_RET && bit);
}

/* To an address that a place can hold? */
static bool leads_on(const struct trial *t, const struct pt_node *n, bool bit)
{
	if (n->kind == PT_NODE_COND)
		return pt_is_canonical(pt_node_to(n, bit));
	return !t->n_calls || pt_is_canonical(t->sites[t->n_calls - 1].ip);
}

/* The step of one bit at n. 0: there is none, -1: no memory */
static int try_step(struct trial *t, struct pt_store *s, struct pt_node *n,
		    bool bit)
{
	unsigned n_calls = t->n_calls, height = t->height;
	struct aux_step *step;

	if (n->kind == PT_NODE_NEW && !pt_code_fill(s, n, bit))
		return -1;
	if (!takes_bit(n, bit) || t->pub.n_steps == STEPS || !call(t, s, n))
		return 0;
	if (!leads_on(t, n, bit)) {
		t->n_calls = n_calls;
		t->height = height;
		return 0;
	}
	step = pt_code_step(s, n, n->kind == PT_NODE_COND && bit);
	if (!step)
		return -1;
	add_step(t, step);
	return 1;
}

/* The branch at the end of n takes a TIP. False: it does not, or there is no room. */
static bool take_tip(struct trial *t, struct pt_store *s, struct pt_node *n)
{
	struct aux_step *step;

	if ((n->kind == PT_NODE_NEW && !pt_code_fill(s, n, false)) ||
	    (n->kind != PT_NODE_TIP && n->kind != PT_NODE_RET) ||
	    t->pub.n_steps == STEPS)
		return false;
	step = pt_code_step(s, n, false);
	if (!step || !call(t, s, n))
		return false;
	add_step(t, step);
	t->end = PT_END_TIP;
	return true;
}

/* Bits below a stop bit. False: no memory. */
static bool take_bits(struct trial *t, struct pt_store *s, struct pt_node *n,
		      unsigned bits)
{
	unsigned k = 31 - (unsigned)__builtin_clz(bits);

	while (k) {
		bool bit = bits >> (k - 1) & 1;
		int r = try_step(t, s, n, bit);

		if (r < 0)
			return false;
		t->left = (bits & ((1U << k) - 1)) | 1U << k;
		if (!r) {
			t->end = PT_END_STOP;
			t->ip = n->ip;
			return true;
		}
		k--;
		t->left = (bits & ((1U << k) - 1)) | 1U << k;
		n = take_bit(t, s, n, bit);
		if (!n)
			return true;
	}
	t->end = PT_END_NODE;
	t->left = 1;
	t->node = n;
	t->ip = n->ip;
	return true;
}

/* False: no memory, or a TIP alone that the node does not take. */
static bool try_path(struct trial *t, struct pt_store *s, struct pt_node *n,
		     unsigned bits)
{
	bool tip = bits & PT_TIP, taken;

	t->pub = (struct aux_path){ 0 };
	t->n_calls = t->height = 0;
	bits &= PT_BITS;
	if (!take_bits(t, s, n, bits))
		return false;
	if (!tip || t->end != PT_END_NODE)
		return true;
	taken = take_tip(t, s, t->node);
	return taken || bits > 1;
}

static size_t size_of_steps(const struct trial *t)
{
	return t->pub.n_steps * sizeof(struct aux_step *);
}

static void copy_to(struct pt_path *p, void *steps, const struct trial *t)
{
	p->pub = t->pub;
	p->pub.steps = memcpy(steps, t->steps, size_of_steps(t));
	for (unsigned i = 0; i < t->n_calls; i++)
		p->sites[i] = t->sites[i].ip;
}

static struct pt_entry entry_of(const struct trial *t, uint64_t key,
				struct pt_path *p, const struct pt_region *r)
{
	return (struct pt_entry){ .key = key, .path = p,
				  .next = pt_place(t->ip) |
					  ((unsigned)t->end * PT_REGIONS +
					   r->index),
				  .n_insns = t->pub.n_insns,
				  .left = (uint16_t)t->left,
				  .n_calls = (uint8_t)t->n_calls,
				  .room = (uint8_t)(PT_STACK - t->height) };
}

/* NULL: there is no room. */
static const struct pt_entry *keep_path(struct pt_store *s,
					const struct trial *t, uint64_t key,
					const struct pt_region *r)
{
	struct pt_entry *e;
	struct pt_path *p;
	void *steps;

	/* dense: what is looked for often is in its line all the same */
	if (!r->index ||
	    (s->n_paths >= s->max_paths / 8 * 7 && !grow_paths(s)))
		return NULL;
	p = pt_store_lines(s, sizeof(*p) + t->n_calls * sizeof(*p->sites));
	steps = p ? pt_store_alloc(s, size_of_steps(t)) : NULL;
	if (!steps)
		return NULL;
	copy_to(p, steps, t);
	p->pub.kept = 1;
	e = find_free(s->paths, s->path_mask, key);
	*e = entry_of(t, key, p, r);
	s->n_paths++;
	return e;
}

/* While there is much room, or from the second time on that it is taken. */
static bool is_kept(struct pt_store *s, uint64_t key)
{
	size_t h = pt_path_hash(key);
	uint16_t tag = (uint16_t)(h >> 22 | 1), *seen;
	bool again;

	if (s->used < s->limit / 2)
		return true;
	if (!s->seen && !(s->seen = pt_store_table(PT_SEEN * sizeof(*seen))))
		return true;
	seen = &s->seen[h / PT_LINE & (PT_SEEN - 1)];
	again = *seen == tag;
	*seen = tag;
	return again;
}

static const struct pt_entry *make_path(struct pt *d, struct pt_node *n,
					unsigned bits, uint64_t key)
{
	struct pt_store *s = &d->store;
	const struct pt_entry *e = NULL;
	struct pt_path *p;
	struct trial t;
	size_t before, size;

	if (!try_path(&t, s, n, bits))
		return NULL;
	if (is_kept(s, key))
		e = keep_path(s, &t, key, n->region);
	before = sizeof(*p) + t.n_calls * sizeof(*p->sites);
	size = before + size_of_steps(&t);
	if (e || d->n_scratch + size > PT_SCRATCH)
		return e;
	p = (struct pt_path *)(d->scratch + d->n_scratch);
	d->n_scratch += size;
	copy_to(p, (uint8_t *)p + before, &t);
	d->entry = entry_of(&t, key, p, n->region);
	return &d->entry;
}

/* An entry that the quick way did not find goes to the line where it looks. */
static const struct pt_entry *promote(struct pt_store *s, struct pt_entry *e)
{
	struct pt_entry *home = pt_entry_at(s->paths, s->path_mask,
					    pt_path_hash(e->key));
	struct pt_entry other;

	if (e == home || e == home + 1)
		return e;
	home += s->turn++ & 1;
	other = *home;
	*home = *e;
	*e = other;
	return home;
}

const struct pt_entry *pt_path_find(struct pt *d, uint64_t place, unsigned bits)
{
	struct pt_store *s = &d->store;
	uint64_t key = place | pt_key_mode(d->flags) | pt_key_bits(bits);
	struct pt_entry *first = pt_entry_at(s->paths, s->path_mask,
					     pt_path_hash(key)), *e;
	struct pt_node *n;

	for (e = first; e->key; e = find_next(s->paths, s->path_mask, e))
		if (e->key == key && s->ready[pt_entry_where(e)] != PT_UNKNOWN)
			return promote(s, e);
	n = pt_code_node(s, pt_place_ip(place), d->flags);
	if (!n)
		return NULL;
	for (e = first; e->key; e = find_next(s->paths, s->path_mask, e))
		if (e->key == key && pt_entry_region(e) == n->region->index)
			return promote(s, e);
	return make_path(d, n, bits, key);
}
