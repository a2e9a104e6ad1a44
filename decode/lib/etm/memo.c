/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: the memo (memo.h): its memory and hashes, code as nodes, and the tables
 * of packet headers.
 *
 * Entries lie in slabs and are freed with the whole memo. Windows alone lie in
 * their hash: looking one up costs one cache miss, not two.
 */
#include <stdlib.h>
#include <string.h>

#include "common/a64_insn.h"
#include "decode/lib/etm/impl.h"
#include "decode/lib/etm/memo.h"

/* The first tables and slab: most streams of a file with thousands run through
 * little code. */
#define BITS_MIN 6
#define SLAB_MIN (4u << 10)
#define SLAB_MAX (256u << 10)

struct etm_slab {
	struct etm_slab *next;
	size_t used, size;
	_Alignas(64) uint8_t bytes[];
};

struct etm_memo *etm_memo_new(uint64_t limit)
{
	struct etm_memo *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->limit = limit;
	s->node_bits = s->path_bits = BITS_MIN;
	s->window_shift = 64 - BITS_MIN;
	s->nodes = calloc((size_t)1 << BITS_MIN, sizeof(*s->nodes));
	s->paths = calloc((size_t)1 << BITS_MIN, sizeof(*s->paths));
	s->windows = calloc((size_t)1 << BITS_MIN, sizeof(*s->windows));
	if (!s->nodes || !s->paths || !s->windows) {
		etm_memo_free(s);
		return NULL;
	}
	return s;
}

void etm_memo_free(void *store)
{
	struct etm_memo *s = store;

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

/* With room for n bytes, and as much again as there is. */
static struct etm_slab *add_slab(struct etm_memo *s, size_t n)
{
	struct etm_slab *slab = NULL;
	size_t size = SLAB_MIN;

	while (size < SLAB_MAX && (size < s->n_bytes || size < n + sizeof(*slab)))
		size *= 2;
	if (s->n_bytes < s->limit && size >= n + sizeof(*slab))
		slab = aligned_alloc(64, size);
	if (!slab)
		return NULL;
	memset(slab, 0, size);
	slab->size = size - sizeof(*slab);
	slab->next = s->slabs;
	s->slabs = slab;
	s->n_bytes += size;
	return slab;
}

void *etm_memo_alloc(struct etm_memo *s, size_t n, size_t align)
{
	struct etm_slab *slab = s->slabs;
	size_t at = slab ? (slab->used + align - 1) & ~(align - 1) : 0;

	if (!slab || at > slab->size || slab->size - at < n) {
		slab = add_slab(s, n);
		at = 0;
	}
	if (!slab)
		return NULL;
	slab->used = at + n;
	return slab->bytes + at;
}

/* ---- nodes: a chained hash ---- */

static bool grow_nodes(struct etm_memo *s)
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

static bool add_node(struct etm_memo *s, struct etm_node *n)
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

static bool grow_paths(struct etm_memo *s)
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

bool etm_memo_add_path(struct etm_memo *s, struct etm_path *p)
{
	if ((uint64_t)s->n_paths * 2 >= (uint64_t)1 << s->path_bits &&
	    !grow_paths(s))
		return false;
	insert_path(s->paths, s->path_bits, p);
	s->n_paths++;
	return true;
}

/* ---- windows: open addressing in place, at most a quarter full: the loop that
 * follows them looks at the first slot alone ---- */

static struct etm_window *find_free(struct etm_window *in, unsigned shift,
				    const struct etm_window *w)
{
	size_t i = etm_window_hash(w) >> shift;

	while (in[i].bytes)
		i = (i + 1) & (UINT64_MAX >> shift);
	return &in[i];
}

static bool grow_windows(struct etm_memo *s)
{
	unsigned shift = s->window_shift - 1;
	size_t n = (size_t)1 << (63 - shift);
	struct etm_window *to = NULL;

	if (64 - shift <= ETM_WINDOW_BITS &&
	    s->n_bytes + n * sizeof(*to) <= s->limit)
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

const struct etm_window *etm_memo_add_window(struct etm_memo *s,
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

/*
 * ---- code as nodes ----
 *
 * A region is current in a generation if the host then gives the same bytes for
 * the same addresses; a node is valid while its region is. Which instructions
 * are P0 elements: Arm IHI 0064, "P0 elements"; DDI 0487, C4.1.
 */

static bool is_same(const struct aux_code *a, const struct aux_code *b)
{
	return a->bytes == b->bytes && a->start == b->start && a->end == b->end;
}

/* The region that the host has at ip, out of the memo if it was seen before. */
static struct etm_region *ask_host(struct etm *d, uint64_t ip)
{
	struct aux_code code = { 0 };
	struct etm_region *r;

	if (d->host->code(d->host->priv, ip, &code) < 0 || ip < code.start ||
	    ip >= code.end)
		return NULL;
	for (r = d->memo->regions; r; r = r->next)
		if (is_same(&r->code, &code))
			break;
	if (!r) {
		r = etm_memo_alloc(d->memo, sizeof(*r), 8);
		if (!r) {	/* the memo is full: for this time only */
			r = &d->code.spare;
			r->code = code;
			r->generation = d->code.generation;
			return r;
		}
		r->code = code;
		r->next = d->memo->regions;
		d->memo->regions = r;
	}
	r->generation = d->code.generation;
	return r;
}

static bool has_ip(const struct etm *d, const struct etm_region *r, uint64_t ip)
{
	return r && r->generation == d->code.generation && ip >= r->code.start &&
	       ip < r->code.end;
}

static struct etm_region *etm_find_region(struct etm *d, uint64_t ip)
{
	struct etm_region *r;

	if (has_ip(d, d->code.last, ip))
		return d->code.last;
	for (r = d->memo->regions; r; r = r->next)
		if (has_ip(d, r, ip))
			break;
	if (!r)
		r = ask_host(d, ip);
	if (r && r != &d->code.spare)
		d->code.last = r;
	return r;
}

bool etm_is_current(struct etm *d, struct etm_region *r, uint64_t ip)
{
	struct aux_code code = { 0 };

	if (r->generation == d->code.generation)
		return true;
	if (d->host->code(d->host->priv, ip, &code) < 0 ||
	    !is_same(&r->code, &code))
		return false;
	r->generation = d->code.generation;
	return true;
}

/* Copies up to n bytes of code at ip, of adjoining regions. Returns how many
 * there are. */
static unsigned copy_code(struct etm *d, uint64_t ip, uint8_t *to, unsigned n)
{
	unsigned got = 0;

	while (got < n) {
		const struct etm_region *r = etm_find_region(d, ip + got);
		uint64_t left;

		if (!r)
			break;
		left = r->code.end - (ip + got);
		if (left > n - got)
			left = n - got;
		memcpy(to + got, r->code.bytes + (ip + got - r->code.start),
		       left);
		got += (unsigned)left;
	}
	return got;
}

static uint32_t load32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
	       (uint32_t)p[3] << 24;
}

bool etm_read_insn(struct etm *d, uint64_t ip, uint32_t *word)
{
	uint8_t b[4];

	if (copy_code(d, ip, b, 4) < 4)
		return false;
	*word = load32(b);
	return true;
}

uint64_t etm_find_hole(struct etm *d, uint64_t ip, uint64_t end)
{
	const struct etm_region *r;
	uint32_t word;

	while (ip < end) {
		r = etm_find_region(d, ip);
		if (r && r->code.end - ip >= 4)
			ip += (r->code.end - ip) & ~UINT64_C(3);
		else if (etm_read_insn(d, ip, &word))
			ip += 4;
		else
			return ip;
	}
	return end;
}

/* wfi, wfe and their forms with a timeout are P0 elements from ETMv4.3 on, if
 * TRCIDR2 says so. */
static bool is_wait(const struct etm *d, uint32_t word)
{
	return d->src.wfx_is_p0 && ((word & 0xffffffdf) == 0xd503205f || /* wfe, wfi */
			    (word & 0xffffffc0) == 0xd5031000); /* wfet, wfit */
}

bool etm_classify(const struct etm *d, uint32_t word, uint64_t ip,
		  struct etm_node *node)
{
	static const uint8_t ends[] = {
		[A64_COND] = AUX_END_COND_TAKEN, [A64_JUMP] = AUX_END_JUMP,
		[A64_CALL] = AUX_END_CALL, [A64_RET] = AUX_END_RET,
		[A64_IND_JUMP] = AUX_END_IND_JUMP,
		[A64_IND_CALL] = AUX_END_IND_CALL, [A64_FAR] = AUX_END_FAR,
		[A64_ISB] = AUX_END_FALL,
	};
	struct a64_insn insn;
	int cls = a64_insn_decode(word, &insn);

	node->link = cls == A64_CALL || cls == A64_IND_CALL;
	node->taken = cls < (int)sizeof(ends) ? ends[cls] : AUX_END_FALL;
	node->target = ip + (uint64_t)(int64_t)insn.disp;
	switch (cls) {
	case A64_COND: case A64_JUMP: case A64_CALL:
		node->kind = ETM_DIRECT;
		return true;
	case A64_RET: case A64_IND_JUMP: case A64_IND_CALL: case A64_FAR:
		node->kind = ETM_INDIRECT;
		return true;
	case A64_UNKNOWN:
		node->kind = ETM_UNKNOWN;
		return true;
	default:
		node->kind = ETM_WAYPOINT;
		return cls == A64_ISB || is_wait(d, word);
	}
}

/* Does r contain all four bytes of the instruction at ip? */
static bool has_insn(const struct etm_region *r, uint64_t ip)
{
	return ip >= r->code.start && ip < r->code.end &&
	       r->code.end - ip >= 4;
}

bool etm_walk(struct etm *d, uint64_t ip, struct etm_node *node)
{
	const struct etm_region *r = etm_find_region(d, ip);
	uint32_t word;
	bool ends;

	memset(node, 0, sizeof(*node));
	node->ip = node->last = node->next = ip;
	for (;;) {
		if (r && has_insn(r, node->next))
			word = load32(r->code.bytes +
				      (node->next - r->code.start));
		else if (etm_read_insn(d, node->next, &word))
			node->crosses = true;
		else
			return false;
		if (node->n * UINT64_C(4) >= ETM_WALK_MAX) {
			d->unsupported = true;
			return false;
		}
		ends = etm_classify(d, word, node->next, node);
		if (node->kind == ETM_UNKNOWN)
			return false;
		node->last = node->next;
		node->next += 4;
		node->n++;
		if (ends)
			return true;
	}
}

struct etm_node *etm_find_node(struct etm *d, uint64_t ip)
{
	struct etm_memo *s = d->memo;
	struct etm_node *n, made;
	struct etm_region *r;

	for (n = s->nodes[etm_hash(ip, s->node_bits)]; n; n = n->chain)
		if (n->ip == ip && n->region->generation == d->code.generation)
			return n;
	r = etm_find_region(d, ip);
	if (!r || r == &d->code.spare)
		return NULL;
	for (n = s->nodes[etm_hash(ip, s->node_bits)]; n; n = n->chain)
		if (n->ip == ip && n->region == r)
			return n;
	if (!etm_walk(d, ip, &made) || made.crosses)
		return NULL;
	made.region = r;
	n = etm_memo_alloc(s, sizeof(*n), 8);
	if (!n)
		return NULL;
	*n = made;
	return add_node(s, n) ? n : NULL;
}

struct aux_flow etm_range(const struct etm_node *n, bool taken)
{
	return (struct aux_flow){
		.kind = AUX_FLOW_RANGE,
		.what = n->kind == ETM_WAYPOINT || n->kind == ETM_UNKNOWN ?
				AUX_END_FALL :
			taken ? n->taken : AUX_END_COND_NOT_TAKEN,
		.flags = AUX_FLOW_MODE_A64 | 4,
		.n = n->n,
		.range = { n->ip, n->last },
	};
}

/*
 * ---- packet headers ----
 *
 * What follows each header, and the atoms in headers that have some. Arm IHI
 * 0064, "Descriptions of trace protocols"; DDI 0487, "ETE protocol".
 */

/* Atom formats 1 to 6: 1 is an E, 0 an N atom. */
static uint32_t decode_atoms(uint8_t h)
{
	static const uint8_t four[4] = { 0x0e, 0x00, 0x0a, 0x05 };
	uint32_t n, bits;

	if (h >= 0xf8) {
		n = 3;
		bits = h & 7;
	} else if (h >= 0xf6) {
		n = 1;
		bits = h & 1;
	} else if (h >= 0xd8 && h <= 0xdb) {
		n = 2;
		bits = h & 3;
	} else if (h >= 0xdc && h <= 0xdf) {
		n = 4;
		bits = four[h & 3];
	} else if (h == 0xf5 || (h >= 0xd5 && h <= 0xd7)) {
		n = 5;
		bits = h == 0xf5 ? 0x1e : h == 0xd5 ? 0 : h == 0xd6 ? 0x0a :
								      0x15;
	} else {
		n = (h & 0x1f) + 4u;
		bits = (UINT32_C(1) << (n - 1)) - 1;
		if (!(h & 0x20))
			bits |= UINT32_C(1) << (n - 1);
	}
	return n << ETM_ATOM_BITS | bits;
}

static void set_classes(struct etm *d, unsigned from, unsigned to,
			enum etm_class class)
{
	for (unsigned i = from; i <= to; i++)
		d->src.class[i] = (uint8_t)class;
}

static void set_addresses(struct etm *d)
{
	static const struct { uint8_t from, to, class; } all[] = {
		{ 0x82, 0x83, ETM_LONG32 }, { 0x85, 0x86, ETM_LONG64 },
		{ 0x90, 0x92, ETM_MATCH }, { 0x95, 0x96, ETM_SHORT },
		{ 0x9a, 0x9b, ETM_LONG32 }, { 0x9d, 0x9e, ETM_LONG64 },
		{ 0xb0, 0xb2, ETM_MATCH }, { 0xb4, 0xb5, ETM_SHORT },
		{ 0xb6, 0xb7, ETM_LONG32 }, { 0xb8, 0xb9, ETM_LONG64 },
	};

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (d->src.ete || all[i].from < 0xb0)
			set_classes(d, all[i].from, all[i].to,
				    (enum etm_class)all[i].class);
}

void etm_fill_headers(struct etm *d)
{
	set_classes(d, 0x00, 0x07, ETM_OTHER);
	set_classes(d, 0x05, 0x05, ETM_BAD);
	if (d->src.ete) {
		set_classes(d, 0x07, 0x07, ETM_BAD);
		if (etm_has_ite(&d->config->etm))
			set_classes(d, 0x09, 0x09, ETM_OTHER);
		set_classes(d, 0x0a, 0x0b, ETM_UNSUPPORTED);
		set_classes(d, 0x88, 0x88, ETM_OTHER);
	}
	set_classes(d, 0x0c, 0x1f, ETM_OTHER);
	set_classes(d, 0x2d, 0x3f, ETM_OTHER);
	if (d->src.version >= 0x43)
		set_classes(d, 0x70, 0x70, ETM_OTHER);
	set_classes(d, 0x71, 0x7f, ETM_OTHER);
	set_classes(d, 0x80, 0x81, ETM_OTHER);
	if (d->src.version >= 0x46 && !d->src.ete)
		set_classes(d, 0x88, 0x88, ETM_UNSUPPORTED);
	set_addresses(d);
	if (d->config->etm.trcidr0 >> 15 & 3)
		for (unsigned i = 0xa0; i < 0xb0; i++)
			if (0x9c67 >> (i & 0xf) & 1)
				d->src.class[i] = ETM_OTHER;
	set_classes(d, 0xc0, 0xff, ETM_ATOMS);
	for (unsigned i = 0; i < 64; i++)
		d->src.atoms[i] = decode_atoms((uint8_t)(0xc0 + i));
}
