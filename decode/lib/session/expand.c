/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * expand: RANGEs into the addresses of their instructions, see expand.h.
 *
 * Invariant: a range in a table was walked over its code bytes and ended
 * exactly at last with n instructions; nothing else gets in. A disagreement is
 * reported, so that no sink shows an address that did not run.
 *
 * Two tables find the same nodes. by_space has the key of a RANGE as it comes:
 * one lookup for each RANGE of the flow, so its slots carry the key. by_code
 * has the place of the code bytes in memory, asked when by_space knows nothing:
 * a new mapping makes a new space, in which the same file's code costs a lookup
 * for each range and not another walk and rendering. A walk belongs to one
 * thread.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "decode/lib/elf/insn.h"
#include "decode/lib/sideband/sideband.h"
#include "decode/lib/session/expand.h"

#define MAX_INSN	  15 /* bytes; x86: SDM Vol. 2, 2.3.11 */
#define DEFAULT_MAX_BYTES ((size_t)512 << 20)
#define MIN_SLOTS	  4096

struct node {
	struct walk_range r;
	struct node *next; /* all nodes, for freeing */
};

struct key {
	uint64_t where; /* space id or code place, and the mode */
	uint64_t first;
	uint32_t span; /* last - first */
	uint32_t n;
};

struct slot {
	struct key key;
	struct node *node; /* NULL: free */
};

struct table {
	struct slot *slots;
	size_t mask; /* size - 1, a power of two */
	size_t used;
};

struct walk {
	struct walk_config config;
	struct table by_space, by_code;
	struct node *nodes;
	size_t bytes, max_bytes;
	struct disasm *disasm; /* lengths in x86 32- and 16-bit mode */
	/* the area that code came from last */
	struct aux_code area;
	uint64_t area_space; /* 0: none */
	uint32_t *off; /* of the range being walked */
	size_t max_off;
	bool nomem;
};

/*
 * Zeroed by writing. With calloc each page would be mapped to the zero page at
 * its first read and copied at its first write: two faults, and the second
 * interrupts the other threads (TLB shootdown). gcc turns malloc and memset
 * into calloc, hence aligned_alloc.
 */
static int table_init(struct table *t, size_t n)
{
	size_t size = n * sizeof(*t->slots);

	t->slots = aligned_alloc(64, size);
	if (!t->slots)
		return -AUX_E_NOMEM;
	memset(t->slots, 0, size);
	t->mask = n - 1;
	t->used = 0;
	return 0;
}

/* Two odd 64-bit constants (golden ratio; xxHash64's second prime) spread
 * addresses that differ in few bits; the shifts bring the high bits down to the
 * mask. */
static inline size_t hash_key(const struct key *k)
{
	uint64_t h = k->first * UINT64_C(0x9e3779b97f4a7c15);

	h ^= (k->where + ((uint64_t)k->span << 32 | k->n)) *
	     UINT64_C(0xc2b2ae3d27d4eb4f);
	return (size_t)(h ^ h >> 29 ^ h >> 47);
}

static inline bool same_key(const struct key *a, const struct key *b)
{
	return a->first == b->first && a->where == b->where &&
	       a->span == b->span && a->n == b->n;
}

/* The slot of the key, or the free one where it belongs. At most half of the
 * slots are used (table_add), so there is one. */
static inline struct slot *table_find(const struct table *t,
				      const struct key *k)
{
	size_t i = hash_key(k) & t->mask;

	while (t->slots[i].node && !same_key(&t->slots[i].key, k))
		i = (i + 1) & t->mask;
	return &t->slots[i];
}

static int table_add(struct table *t, const struct key *k, struct node *node)
{
	struct table bigger;
	struct slot *s;

	if (t->used * 2 > t->mask) {
		if (table_init(&bigger, (t->mask + 1) * 2))
			return -AUX_E_NOMEM;
		for (size_t i = 0; i <= t->mask; i++) {
			if (t->slots[i].node)
				*table_find(&bigger, &t->slots[i].key) =
					t->slots[i];
		}
		bigger.used = t->used;
		free(t->slots);
		*t = bigger;
	}
	s = table_find(t, k);
	s->key = *k;
	s->node = node;
	t->used++;
	return 0;
}

int walk_new(struct walk **out, const struct walk_config *config)
{
	struct walk *w = calloc(1, sizeof(*w));

	*out = NULL;
	if (!w)
		return -AUX_E_NOMEM;
	w->config = *config;
	w->max_bytes =
		config->max_bytes ? config->max_bytes : DEFAULT_MAX_BYTES;
	if (table_init(&w->by_space, MIN_SLOTS) ||
	    table_init(&w->by_code, MIN_SLOTS)) {
		walk_free(w);
		return -AUX_E_NOMEM;
	}
	*out = w;
	return 0;
}

/* Frees all nodes; what the sink hung on them goes with them. */
static void forget_all(struct walk *w)
{
	struct node *node = w->nodes, *next;

	for (; node; node = next) {
		next = node->next;
		if (w->config.drop)
			w->config.drop(node->r.user);
		free(node);
	}
	w->nodes = NULL;
	w->bytes = 0;
}

static void clear_table(struct table *t)
{
	memset(t->slots, 0, (t->mask + 1) * sizeof(*t->slots));
	t->used = 0;
}

void walk_free(struct walk *w)
{
	if (!w)
		return;
	forget_all(w);
	free(w->by_space.slots);
	free(w->by_code.slots);
	free(w->off);
	disasm_free(w->disasm);
	free(w);
}

bool walk_nomem(const struct walk *w)
{
	return w->nomem;
}

void walk_charge(struct walk *w, size_t bytes)
{
	w->bytes += bytes;
}

/* Makes area contain ip: the host is asked once for each area, not for each
 * range. -AUX_E_NOENT. */
static int find_area(struct walk *w, const struct space *space, uint64_t ip)
{
	const struct sink_host *host = w->config.host;

	if (space && w->area_space == space->id && ip >= w->area.start &&
	    ip < w->area.end)
		return 0;
	w->area_space = 0;
	if (!space || host->code(host->priv, space, ip, &w->area) ||
	    ip < w->area.start || ip >= w->area.end)
		return -AUX_E_NOENT;
	w->area_space = space->id;
	return 0;
}

size_t walk_bytes(struct walk *w, const struct space *space, uint64_t ip,
		  uint8_t *buf, size_t max)
{
	size_t n = 0;

	while (n < max && !find_area(w, space, ip + n)) {
		uint64_t left = w->area.end - (ip + n);
		size_t take = left < max - n ? (size_t)left : max - n;

		memcpy(buf + n, w->area.bytes + (ip + n - w->area.start), take);
		n += take;
	}
	return n;
}

/* Length of the instruction at ip; 0: these bytes are none; -AUX_E_NOENT: no
 * code. Capstone may know what our own decoder of lengths does not. */
static int length_at(struct walk *w, const struct space *space, uint64_t ip,
		     unsigned mode)
{
	uint8_t buf[MAX_INSN];
	const uint8_t *p = buf;
	size_t len;
	int n;

	if (!find_area(w, space, ip) && w->area.end - ip >= MAX_INSN) {
		p = w->area.bytes + (ip - w->area.start);
		len = MAX_INSN;
	} else {
		len = walk_bytes(w, space, ip, buf, MAX_INSN);
	}
	if (!len)
		return -AUX_E_NOENT;
	n = insn_length(p, len, mode);
	if (n > 0)
		return n;
	n = w->disasm ? 0 : disasm_new(&w->disasm, DISASM_INTEL, NULL);
	return n < 0 ? n : disasm_text(w->disasm, p, len, ip, mode, NULL, 0);
}

/* Fills w->off with n offsets; last comes from the event, the others from the
 * code bytes. 0, or as walk_find. */
static int walk_range(struct walk *w, const struct space *space,
		      const struct aux_flow *ev)
{
	uint64_t ip = ev->range.first;
	unsigned mode = ev->flags & AUX_FLOW_MODE_MASK;
	int err;

	for (uint32_t i = 0;; i++) {
		if (i >= ev->n)
			return -AUX_E_FORMAT;
		if (array_grow(&w->off, i, &w->max_off, sizeof(*w->off)))
			return -AUX_E_NOMEM;
		w->off[i] = (uint32_t)(ip - ev->range.first);
		if (ip >= ev->range.last)
			return ip == ev->range.last && i + 1 == ev->n
				       ? 0
				       : -AUX_E_FORMAT;
		err = length_at(w, space, ip, mode);
		if (err < 0)
			return err;
		if (!err)
			return -AUX_E_FORMAT;
		ip += (uint64_t)err;
	}
}

/* One allocation: the node, the sink's user bytes, the offsets. */
static struct node *new_node(struct walk *w, const struct walk_range *r)
{
	size_t user = (w->config.user_size + 15) & ~(size_t)15;
	size_t head = (sizeof(struct node) + 15) & ~(size_t)15;
	size_t size = head + user + r->n * sizeof(uint32_t);
	struct node *node = calloc(1, size);
	char *base = (char *)node;

	if (!node)
		return NULL;
	node->r = *r;
	node->r.user = base + head;
	memcpy(base + head + user, r->off, r->n * sizeof(uint32_t));
	node->r.off = (const uint32_t *)(const void *)(base + head + user);
	node->next = w->nodes;
	w->nodes = node;
	w->bytes += size;
	return node;
}

/* Could there be such a range? A decoder may be wrong, or a plugin. */
static bool is_sound(const struct aux_flow *ev)
{
	uint64_t span = ev->range.last - ev->range.first;

	return ev->n && ev->range.last >= ev->range.first &&
	       span < UINT32_MAX && ev->n <= span + 1;
}

int walk_once(struct walk *w, const struct space *space,
	      const struct aux_flow *ev, struct walk_range *range)
{
	bool single = ev->n == 1 && ev->range.first == ev->range.last;
	bool have = is_sound(ev) && !find_area(w, space, ev->range.first);
	int size, err;

	*range = (struct walk_range){ .first = ev->range.first,
				      .last = ev->range.last,
				      .n = ev->n,
				      .mode = ev->flags & AUX_FLOW_MODE_MASK,
				      .last_size =
					      ev->flags & AUX_FLOW_SIZE_MASK,
				      .no_code = single && !have };
	err = is_sound(ev) ? walk_range(w, space, ev) : -AUX_E_FORMAT;
	range->off = w->off;
	if (!err && !range->last_size && !range->no_code) {
		size = length_at(w, space, ev->range.last, range->mode);
		range->last_size = size > 0 ? (uint8_t)size : 0;
		w->nomem |= size == -AUX_E_NOMEM;
	}
	w->nomem |= err == -AUX_E_NOMEM;
	return err;
}

/* Walks a range that no table knows. */
static int add_range(struct walk *w, const struct space *space,
		     const struct aux_flow *ev, struct node **out)
{
	struct walk_range r;
	int err = walk_once(w, space, ev, &r);

	if (!err && !(*out = new_node(w, &r)))
		err = -AUX_E_NOMEM;
	w->nomem |= err == -AUX_E_NOMEM;
	return err;
}

/* The same range by the place of its bytes, when one area holds them all. */
static bool code_key(struct walk *w, const struct space *space,
		     const struct aux_flow *ev, struct key *key)
{
	uint64_t off;

	if (find_area(w, space, ev->range.first) ||
	    w->area.end - ev->range.first < (uint64_t)key->span + MAX_INSN)
		return false;
	off = ev->range.first - w->area.start;
	key->where = (uint64_t)(uintptr_t)(w->area.bytes + off) << 3 |
		     (key->where & 7);
	return true;
}

/* by_space does not know the range: by_code, or a walk. Above max_bytes all is
 * forgotten first: simpler than to age, and rare (512 MiB of expanded code). */
static int miss(struct walk *w, const struct space *space,
		const struct aux_flow *ev, const struct key *key,
		struct node **out)
{
	struct key by_code = *key;
	struct slot *s;
	bool placed;
	int err;

	if (w->bytes > w->max_bytes) {
		clear_table(&w->by_space);
		clear_table(&w->by_code);
		forget_all(w);
	}
	placed = code_key(w, space, ev, &by_code);
	if (placed) {
		s = table_find(&w->by_code, &by_code);
		if (s->node) {
			*out = s->node;
			w->bytes += sizeof(*s);
			return table_add(&w->by_space, key, *out);
		}
	}
	err = add_range(w, space, ev, out);
	if (!err && placed)
		err = table_add(&w->by_code, &by_code, *out);
	return err ? err : table_add(&w->by_space, key, *out);
}

int walk_find(struct walk *w, const struct space *space,
	      const struct aux_flow *ev, struct walk_range **range)
{
	struct node *node;
	struct slot *s;
	struct key key;
	int err;

	*range = NULL;
	if (!is_sound(ev))
		return -AUX_E_FORMAT;
	key.where = (space ? space->id : 0) << 3 |
		    (ev->flags & AUX_FLOW_MODE_MASK) >> 4;
	key.first = ev->range.first;
	key.span = (uint32_t)(ev->range.last - ev->range.first);
	key.n = ev->n;
	s = table_find(&w->by_space, &key);
	node = s->node;
	if (!node) {
		err = miss(w, space, ev, &key, &node);
		if (err)
			return err;
	}
	*range = &node->r;
	return 0;
}
