/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: what is kept of code: memory in slabs that go all at once, and two hashes.
 * Nothing in it is ever taken out alone; when it has grown too much it is left to
 * the host, which may still hold paths, and a new one begins.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/lib/etm/store.h"

#define SLAB_SIZE (256u << 10)
#define BITS_MIN 10

struct etm_slab {
	struct etm_slab *next;
	size_t used;
	_Alignas(64) uint8_t bytes[SLAB_SIZE - 64];
};

struct etm_store *etm_store_new(void)
{
	struct etm_store *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->node_bits = s->path_bits = BITS_MIN;
	s->window_shift = 64 - BITS_MIN;
	s->nodes = calloc((size_t)1 << BITS_MIN, sizeof(*s->nodes));
	s->paths = calloc((size_t)1 << BITS_MIN, sizeof(*s->paths));
	s->windows = calloc((size_t)1 << BITS_MIN, sizeof(*s->windows));
	if (!s->nodes || !s->paths || !s->windows) {
		etm_store_free(s);
		return NULL;
	}
	return s;
}

void etm_store_free(void *store)
{
	struct etm_store *s = store;

	if (!s)
		return;
	while (s->slabs) {
		struct etm_slab *next = s->slabs->next;

		free(s->slabs);
		s->slabs = next;
	}
	free(s->nodes);
	free(s->paths);
	free(s->windows);
	free(s);
}

static struct etm_slab *add_slab(struct etm_store *s)
{
	struct etm_slab *slab = NULL;

	if (s->n_bytes < ETM_STORE_MAX)
		slab = aligned_alloc(64, sizeof(*slab));
	if (!slab)
		return NULL;
	memset(slab, 0, sizeof(*slab));
	slab->next = s->slabs;
	s->slabs = slab;
	s->n_bytes += sizeof(*slab);
	return slab;
}

void *etm_store_alloc(struct etm_store *s, size_t n, size_t align)
{
	struct etm_slab *slab = s->slabs;
	size_t at = slab ? (slab->used + align - 1) & ~(align - 1) : 0;

	if (n > sizeof(slab->bytes))
		return NULL;
	if (!slab || at > sizeof(slab->bytes) || sizeof(slab->bytes) - at < n) {
		slab = add_slab(s);
		at = 0;
	}
	if (!slab)
		return NULL;
	slab->used = at + n;
	return slab->bytes + at;
}

/* ---- nodes: chained ---- */

static bool grow_nodes(struct etm_store *s)
{
	unsigned bits = s->node_bits + 1;
	struct etm_node **to = calloc((size_t)1 << bits, sizeof(*to)), *n, *next;

	if (!to)
		return false;
	for (size_t i = 0; i < (size_t)1 << s->node_bits; i++) {
		for (n = s->nodes[i]; n; n = next) {
			struct etm_node **at = &to[etm_hash(n->ip, bits)];

			next = n->chain;
			n->chain = *at;
			*at = n;
		}
	}
	free(s->nodes);
	s->nodes = to;
	s->node_bits = bits;
	return true;
}

bool etm_store_add_node(struct etm_store *s, struct etm_node *n)
{
	struct etm_node **at;

	if (s->n_nodes >> s->node_bits && !grow_nodes(s))
		return false;
	at = &s->nodes[etm_hash(n->ip, s->node_bits)];
	n->chain = *at;
	*at = n;
	s->n_nodes++;
	return true;
}

/* ---- paths: open addressing, at most half full ---- */

static void insert_path(struct etm_path **to, unsigned bits, struct etm_path *p)
{
	size_t mask = ((size_t)1 << bits) - 1;
	size_t i = etm_hash_path(p->ip, p->atoms, bits);

	while (to[i])
		i = (i + 1) & mask;
	to[i] = p;
}

static bool grow_paths(struct etm_store *s)
{
	unsigned bits = s->path_bits + 1;
	struct etm_path **to = calloc((size_t)1 << bits, sizeof(*to));

	if (!to)
		return false;
	for (size_t i = 0; i < (size_t)1 << s->path_bits; i++)
		if (s->paths[i])
			insert_path(to, bits, s->paths[i]);
	free(s->paths);
	s->paths = to;
	s->path_bits = bits;
	return true;
}

bool etm_store_add_path(struct etm_store *s, struct etm_path *p)
{
	if ((uint64_t)s->n_paths * 2 >= (uint64_t)1 << s->path_bits &&
	    !grow_paths(s))
		return false;
	insert_path(s->paths, s->path_bits, p);
	s->n_paths++;
	return true;
}

/* ---- windows: as paths, but in place, and a quarter full ---- */

static struct etm_window *find_free(struct etm_window *in, unsigned shift,
				    const struct etm_window *w)
{
	size_t i = etm_hash_window(w) >> shift;

	while (in[i].bytes)
		i = (i + 1) & (UINT64_MAX >> shift);
	return &in[i];
}

static bool grow_windows(struct etm_store *s)
{
	unsigned shift = s->window_shift - 1;
	size_t n = (size_t)1 << (63 - shift);
	struct etm_window *to = NULL;

	if (64 - shift <= ETM_WINDOW_BITS)
		to = calloc(2 * n, sizeof(*to));
	if (!to)
		return false;
	for (size_t i = 0; i < n; i++)
		if (s->windows[i].bytes)
			*find_free(to, shift, &s->windows[i]) = s->windows[i];
	free(s->windows);
	s->windows = to;
	s->window_shift = shift;
	s->n_bytes += n * sizeof(*to);
	return true;
}

const struct etm_window *etm_store_add_window(struct etm_store *s,
					      const struct etm_window *w)
{
	struct etm_window *to;

	if ((uint64_t)s->n_windows * 4 >> (64 - s->window_shift) &&
	    !grow_windows(s))
		return NULL;
	to = find_free(s->windows, s->window_shift, w);
	*to = *w;
	s->n_windows++;
	return to;
}
