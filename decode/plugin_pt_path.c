/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pt: paths, the memo of what a TNT, a TIP, or a TNT and the TIP right behind it do
 * at a node.
 *
 * A path stays in one region. It is kept the second time it is taken: most of cold
 * code runs once. Calls that return inside of a path leave no trace in it but the
 * height that the stack reached.
 */
#include <stdlib.h>
#include <string.h>

#include "plugin_pt.h"

#define STEPS 64

_Static_assert(sizeof(struct pt_path) == 64, "a path is a cache line");

static inline uint32_t hash_key(uint64_t key)
{
	return pt_path_hash((uint32_t)(key >> 16), key & 0xffff);
}

static bool grow_paths(struct pt_store *s)
{
	size_t n = 2 * (s->path_mask + (size_t)1);
	struct pt_entry *old = s->paths;
	struct pt_entry *e = pt_store_table(n * sizeof(*e));

	if (!e) {
		s->nomem = true;
		return false;
	}
	for (size_t i = 0; i <= s->path_mask; i++) {
		uint32_t h = hash_key(old[i].key);

		if (!old[i].key)
			continue;
		while (e[h & (n - 1)].key)
			h++;
		e[h & (n - 1)] = old[i];
	}
	pt_store_free_table(old, n / 2 * sizeof(*old));
	s->paths = e;
	s->path_mask = (uint32_t)(n - 1);
	return true;
}

struct trial {
	struct aux_step *steps[STEPS];
	struct pt_site sites[PATH_CALLS];
	struct pt_path path;
};

/* The calls of a node. False: too many. */
static bool call(struct trial *t, struct pt_store *s, struct pt_node *n)
{
	struct pt_path *p = &t->path;

	if (p->n_calls + n->n_sites > PATH_CALLS)
		return false;
	for (unsigned i = 0; i < n->n_sites; i++)
		t->sites[p->n_calls++] = *pt_code_site(s, n, i);
	if (p->height < p->n_calls)
		p->height = p->n_calls;
	return true;
}

static void add_step(struct trial *t, struct aux_step *step)
{
	struct aux_path *p = &t->path.pub;

	t->steps[p->n_steps++] = step;
	p->n_ranges += step->n_ranges;
	p->n_insns += step->n_insns;
}

static void stop_at(struct pt_path *p, struct pt_node *n, unsigned bits)
{
	p->end = PT_END_STOP;
	p->node = n;
	p->left = bits & 0x1fff;
}

/* Takes one bit at n: the next node, or NULL at the end of the path. */
static struct pt_node *take_bit(struct trial *t, struct pt_store *s,
				struct pt_node *n, bool bit, unsigned left)
{
	struct pt_path *p = &t->path;

	p->left = left & 0x1fff;
	if (n->kind == PT_NODE_COND) {
		p->end = PT_END_IP;
		p->ip = n->ips[bit];
		return pt_code_next(s, n, bit);
	}
	if (!p->n_calls) {
		p->end = PT_END_POP;
		return NULL;
	}
	p->end = PT_END_IP;
	p->ip = t->sites[--p->n_calls].ip;
	return t->sites[p->n_calls].node;
}

/* The branch at the end of n takes a TIP. False: it does not, or there is no room. */
static bool take_tip(struct trial *t, struct pt_store *s, struct pt_node *n)
{
	struct pt_path *p = &t->path;
	struct aux_step *step;

	if ((n->kind == PT_NODE_NEW && !pt_code_fill(s, n)) ||
	    (n->kind != PT_NODE_TIP && n->kind != PT_NODE_RET) ||
	    p->pub.n_steps == STEPS)
		return false;
	step = pt_code_step(s, n, false);
	if (!step || !call(t, s, n))
		return false;
	add_step(t, step);
	p->end = PT_END_TIP;
	return true;
}

/* Bits below a stop bit. False: no memory. */
static bool take_bits(struct trial *t, struct pt_store *s, struct pt_node *n,
		      unsigned bits)
{
	struct pt_path *p = &t->path;
	unsigned k = 31 - (unsigned)__builtin_clz(bits);

	while (k) {
		struct aux_step *step;
		bool bit = bits >> (k - 1) & 1;
		unsigned left = (bits & ((1U << k) - 1)) | 1U << k;

		if (n->kind == PT_NODE_NEW && !pt_code_fill(s, n))
			return false;
		if ((n->kind != PT_NODE_COND &&
		     (n->kind != PT_NODE_RET || !bit)) ||
		    p->pub.n_steps == STEPS || !call(t, s, n)) {
			stop_at(p, n, left);
			return true;
		}
		step = pt_code_step(s, n, n->kind == PT_NODE_COND && bit);
		if (!step)
			return false;
		add_step(t, step);
		k--;
		left = (bits & ((1U << k) - 1)) | 1U << k;
		n = take_bit(t, s, n, bit, left);
		if (!n)
			return true;
	}
	p->end = PT_END_NODE;
	p->left = 1;
	p->node = n;
	return true;
}

/* False: no memory, or a TIP alone that the node does not take. */
static bool try_path(struct trial *t, struct pt_store *s, struct pt_node *n,
		     unsigned bits)
{
	bool tip = bits & PT_TIP, taken;

	memset(&t->path, 0, sizeof(t->path));
	bits &= ~PT_TIP;
	if (!take_bits(t, s, n, bits))
		return false;
	if (!tip || t->path.end != PT_END_NODE)
		return true;
	taken = take_tip(t, s, t->path.node);
	return taken || bits > 1;
}

static size_t size_of_sites(const struct pt_path *p)
{
	return p->n_calls * sizeof(struct pt_site);
}

static size_t size_of_steps(const struct pt_path *p)
{
	return p->pub.n_steps * sizeof(struct aux_step *);
}

static void copy_to(struct pt_path *p, void *steps, const struct trial *t)
{
	*p = t->path;
	memcpy(pt_path_sites(p, p->n_calls), t->sites, size_of_sites(p));
	p->pub.steps = memcpy(steps, t->steps, size_of_steps(p));
	if (p->end == PT_END_NODE && p->node)
		p->seed = p->node->seed;
}

static struct pt_entry entry_of(struct pt_path *p, uint64_t key)
{
	return (struct pt_entry){ .key = key, .path = p, .seed = p->seed,
				  .n_insns = p->pub.n_insns,
				  .left = (uint16_t)p->left,
				  .end = (uint8_t)p->end,
				  .n_calls = (uint8_t)p->n_calls,
				  .height = (uint8_t)p->height };
}

static const struct pt_entry *keep_path(struct pt_store *s,
					const struct trial *t, uint64_t key)
{
	struct pt_path *p;
	void *steps;
	uint32_t h;

	if (pt_is_crowded(s->n_paths, s->path_mask) && !grow_paths(s))
		return NULL;
	p = pt_store_path(s, t->path.n_calls);
	steps = p ? pt_store_alloc(s, size_of_steps(&t->path)) : NULL;
	if (!steps)
		return NULL;
	copy_to(p, steps, t);
	p->pub.kept = 1;
	for (h = hash_key(key); s->paths[h & s->path_mask].key; h++)
		;
	s->paths[h & s->path_mask] = entry_of(p, key);
	s->n_paths++;
	return &s->paths[h & s->path_mask];
}

static const struct pt_entry *make_path(struct pt *d, struct pt_node *n,
					unsigned bits, uint64_t key)
{
	struct pt_store *s = &d->store;
	uint32_t h = hash_key(key);
	uint16_t *seen = &s->seen[h & (PT_SEEN - 1)];
	uint16_t tag = (uint16_t)(h >> 16 | 1);
	const struct pt_entry *e = NULL;
	struct pt_path *p;
	struct trial t;
	size_t before, size;

	if (!try_path(&t, s, n, bits))
		return NULL;
	if (*seen == tag)
		e = keep_path(s, &t, key);
	*seen = tag;
	before = size_of_sites(&t.path);
	size = before + sizeof(*p) + size_of_steps(&t.path);
	if (e || d->n_scratch + size > PT_SCRATCH)
		return e;
	p = (struct pt_path *)(d->scratch + d->n_scratch + before);
	d->n_scratch += size;
	copy_to(p, p + 1, &t);
	d->entry = entry_of(p, key);
	return &d->entry;
}

const struct pt_entry *pt_path_find(struct pt *d, struct pt_node *n,
				    unsigned bits)
{
	struct pt_store *s = &d->store;
	uint64_t key = pt_path_key(n->seed, bits);

	for (uint32_t h = hash_key(key);; h++) {
		struct pt_entry *e = &s->paths[h & s->path_mask];

		if (e->key == key)
			return e;
		if (!e->key)
			return make_path(d, n, bits, key);
	}
}
