/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memo of the Intel PT decoder: its memory, code as regions and nodes, and
 * paths. memo.h says what these are, and how a key is made.
 *
 * Invariants. A node belongs to one region, and is right wherever that region
 * is mapped. A path stays inside of one region. After the host's generation
 * changed, a region is asked for again when it is used first: if the answer is
 * the same, all its nodes and paths are good. What an event may lead to (steps,
 * paths) never moves, and is freed in whole blocks through the host's forget.
 *
 * Instruction formats: common/x86_insn.h.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "decode/lib/pt/memo.h"

#define BLOCK_MIN 4096
#define NODE_RANGES 64		/* of one node, at most */
#define PATH_CALLS 32		/* open at one time inside of a path, at most */
#define SLOTS_FIRST 64
#define SLOTS_SMALL 4096		/* below, tables grow in larger steps */
#define FEW_REGIONS 16		/* found without a table */
#define HUGE_PAGE ((size_t)2 << 20)
#define N_INDEXES (PT_REGIONS + PT_SETS)
#define N_TAGS (N_INDEXES * PT_ENDS)	/* values of pt_entry_tag */
#define LIMIT ((size_t)96 << 20)	/* of blocks */
#define LIMIT_MIN ((size_t)16 << 10)
#define SEEN_MIN ((size_t)16 << 20)	/* the limit below which the table of seen
					 * keys is too large */
#define SCRATCH 131072		/* bytes of paths that are not kept */

/* ---- memory ---- */

/*
 * A zeroed table. It is written at once, not by calloc: a page that is read
 * first is mapped to the page of zeros, and the first write to it costs a
 * second fault and a TLB shootdown in all other threads (a seventh of a short
 * run on two cores, 396eb3b). Tables are accessed all over: huge pages spare
 * TLB misses.
 */
static void *alloc_table(size_t size)
{
	void *p = aligned_alloc(size < HUGE_PAGE ? PT_LINE : HUGE_PAGE, size);

	if (!p)
		return NULL;
	if (size >= HUGE_PAGE)
		madvise(p, size, MADV_HUGEPAGE);
	return memset(p, 0, size);
}

static uint32_t grow_slots(uint32_t n)
{
	return n < SLOTS_SMALL ? 8 * n : 2 * n;
}

/* Uses the memory of a former table for blocks: fresh pages were a sixth of the
 * time of decoding a compiler's run (396eb3b). */
static void reuse_table(struct pt_memo *s, void *table, size_t size)
{
	struct pt_block *b = table;

	if (size < BLOCK_MIN) {
		free(table);
		return;
	}
	b->size = size;
	b->next = s->spare;
	s->spare = b;
}

/* Small tables: most streams of a file with thousands run through little
 * code. */
static int alloc_tables(struct pt_memo *s)
{
	s->nodes = alloc_table(SLOTS_FIRST * sizeof(*s->nodes));
	s->paths = alloc_table(SLOTS_FIRST * sizeof(*s->paths));
	s->node_mask = SLOTS_FIRST - 1;
	s->max_paths = SLOTS_FIRST;
	s->path_mask = pt_path_mask(SLOTS_FIRST);
	return s->nodes && s->paths ? 0 : -AUX_E_NOMEM;
}

/* The region of that index has not been asked for. */
static void clear_ready(struct pt_memo *s, unsigned index)
{
	for (unsigned end = 0; end < PT_ENDS; end++)
		s->ready[index * PT_ENDS + end] = PT_UNKNOWN;
}

int pt_memo_init(struct pt_memo *s, const struct aux_decoder_host *host)
{
	*s = (struct pt_memo){ .host = host, .limit = LIMIT };
	s->ready = malloc(N_TAGS * sizeof(*s->ready));
	s->ready_regions = malloc(N_INDEXES * sizeof(*s->ready_regions));
	s->n_regions = 1;
	s->scratch = aligned_alloc(PT_LINE, SCRATCH);
	if (alloc_tables(s) < 0 || !s->ready || !s->ready_regions ||
	    !s->scratch)
		return -AUX_E_NOMEM;
	clear_ready(s, 0);
	return 0;
}

static void free_blocks(void *what)
{
	struct pt_block *b = what, *next;

	for (; b; b = next) {
		next = b->next;
		free(b);
	}
}

void pt_memo_fini(struct pt_memo *s)
{
	free_blocks(s->blocks);
	free_blocks(s->spare);
	free(s->nodes);
	free(s->paths);
	free(s->seen);
	free(s->ready);
	free(s->ready_regions);
	free(s->sets);
	free(s->set_heads);
	free(s->region_heads);
	free(s->recent);
	free(s->scratch);
}

void pt_memo_invalidate(struct pt_memo *s)
{
	for (uint32_t i = 0; i < s->n_ready; i++)
		clear_ready(s, s->ready_regions[i]);
	s->n_ready = 0;
}

void pt_memo_limit(struct pt_memo *s, uint64_t memory)
{
	/* tables come to as much as blocks, at most */
	size_t limit = memory && memory / 2 < LIMIT ? (size_t)memory / 2 : LIMIT;

	s->limit = limit < LIMIT_MIN ? LIMIT_MIN : limit;
}

/* Tables that grew under a higher limit are given back. If there is no memory for
 * small ones the large ones stay. */
static void shrink_tables(struct pt_memo *s)
{
	size_t size = (s->node_mask + (size_t)1) * sizeof(*s->nodes) +
		      s->max_paths * sizeof(*s->paths);
	struct pt_slot *nodes = s->nodes;
	struct pt_entry *paths = s->paths;
	struct pt_memo old = *s;

	if (size <= s->limit)
		return;
	free_blocks(s->spare);
	s->spare = NULL;
	if (s->limit < SEEN_MIN) {
		free(s->seen);
		s->seen = NULL;
	}
	if (alloc_tables(s) == 0) {
		free(nodes);
		free(paths);
		return;
	}
	free(s->nodes);
	free(s->paths);
	s->nodes = nodes;
	s->paths = paths;
	s->node_mask = old.node_mask;
	s->max_paths = old.max_paths;
	s->path_mask = old.path_mask;
}

void pt_memo_drop(struct pt_memo *s)
{
	if (s->host->forget && s->blocks)
		s->host->forget(s->host->priv, free_blocks, s->blocks);
	else
		free_blocks(s->blocks);
	s->blocks = NULL;
	s->free = NULL;
	s->free_regions = NULL;
	s->n_free = s->used = s->n_free_line = 0;
	s->full = false;
	pt_memo_invalidate(s);
	s->regions = s->last = NULL;
	free(s->recent);
	s->recent = NULL;
	free(s->region_heads);
	s->region_heads = NULL;
	s->n_all_regions = 0;
	s->n_regions = 1;
	s->n_sets = 0;
	if (s->set_heads)
		memset(s->set_heads, 0, PT_SETS * sizeof(*s->set_heads));
	s->n_nodes = s->n_paths = 0;
	shrink_tables(s);
	memset(s->nodes, 0, (s->node_mask + (size_t)1) * sizeof(*s->nodes));
	memset(s->paths, 0, s->max_paths * sizeof(*s->paths));
	if (s->seen)
		memset(s->seen, 0, PT_SEEN * sizeof(*s->seen));
}

static struct pt_block *make_block(struct pt_memo *s, size_t size)
{
	struct pt_block *b;

	b = aligned_alloc(size < HUGE_PAGE ? PT_LINE : HUGE_PAGE, size);
	if (!b) {
		s->nomem = true;
		return NULL;
	}
	if (size >= HUGE_PAGE)
		madvise(b, size, MADV_HUGEPAGE);
	b->size = size;
	return b;
}

static void link_block(struct pt_memo *s, struct pt_block *b)
{
	b->next = s->blocks;
	s->blocks = b;
	s->used += b->size;
}

/* A block of at least size bytes. NULL: the memo is full, or there is no
 * memory. */
static struct pt_block *add_block(struct pt_memo *s, size_t size)
{
	struct pt_block **at = &s->spare, *b;

	while (*at && (*at)->size < size)
		at = &(*at)->next;
	b = *at;
	if (s->used + (b ? b->size : size) > s->limit) {
		s->full = true;
		return NULL;
	}
	if (b)
		*at = b->next;
	else
		b = make_block(s, size);
	if (b)
		link_block(s, b);
	return b;
}

/* Not subject to the limit, as without a region there is no code, which is a
 * GAP; and there are few. NULL: no memory. */
static struct pt_region *alloc_region(struct pt_memo *s)
{
	struct pt_region *r = s->free_regions, *end;
	struct pt_block *b;

	if (!r) {
		b = make_block(s, BLOCK_MIN);
		if (!b)
			return NULL;
		link_block(s, b);
		end = (struct pt_region *)((uint8_t *)b + BLOCK_MIN);
		for (r = (struct pt_region *)((uint8_t *)b + PT_LINE);
		     r + 1 <= end; r++) {
			r->next = s->free_regions;
			s->free_regions = r;
		}
		r = s->free_regions;
	}
	s->free_regions = r->next;
	return r;
}

/* As much again as there is, for most traces are short; then huge pages. */
static size_t block_size(const struct pt_memo *s)
{
	size_t most = s->limit / 384 & ~(size_t)(PT_LINE - 1);

	if (s->used >= HUGE_PAGE && s->limit >= 16 * HUGE_PAGE)
		return HUGE_PAGE;
	if (most > s->used)
		most = s->used & ~(size_t)(PT_LINE - 1);
	return most > BLOCK_MIN ? most : BLOCK_MIN;
}

/* Bytes aligned to 16. NULL: the memo is full, or there is no memory. */
static void *alloc_bytes(struct pt_memo *s, size_t size)
{
	struct pt_block *b;
	void *p;

	size = (size + 15) & ~(size_t)15;
	if (size > block_size(s) / 4) {
		b = add_block(s, (size + PT_LINE + PT_LINE - 1) &
				 ~(size_t)(PT_LINE - 1));
		return b ? (uint8_t *)b + PT_LINE : NULL;
	}
	if (s->n_free < size) {
		b = add_block(s, block_size(s));
		if (!b)
			return NULL;
		s->free = (uint8_t *)b + PT_LINE;
		s->n_free = b->size - PT_LINE;
	}
	p = s->free;
	s->free += size;
	s->n_free -= size;
	return p;
}

/* The same, on cache lines of its own. */
static void *alloc_lines(struct pt_memo *s, size_t size)
{
	struct pt_block *b;
	void *p;

	size = (size + PT_LINE - 1) & ~(size_t)(PT_LINE - 1);
	if (s->n_free_line < size) {
		b = add_block(s, block_size(s));
		if (!b)
			return NULL;
		s->free_line = (uint8_t *)b + PT_LINE;
		s->n_free_line = b->size - PT_LINE;
	}
	p = s->free_line;
	s->free_line += size;
	s->n_free_line -= size;
	return p;
}

_Static_assert(sizeof(struct pt_node) == PT_LINE, "one is a cache line");

/* ---- regions ---- */

static bool same_region(const struct pt_region *r, const struct aux_code *c)
{
	return r->start == c->start && r->end == c->end && r->bytes == c->bytes;
}

/* What has that index is mapped in this generation. */
static void set_ready(struct pt_memo *s, unsigned index)
{
	for (unsigned end = 0; end < PT_N_ENDS; end++)
		s->ready[index * PT_ENDS + end] =
			end == PT_END_NODE ? 0 :
			end == PT_END_TIP ? PT_TIP : PT_READY;
	s->ready_regions[s->n_ready++] = (uint16_t)index;
}

/* The region is mapped in this generation. */
static void mark_current(struct pt_memo *s, const struct pt_region *r)
{
	if (r->index && !pt_region_is_current(s, r))
		set_ready(s, r->index);
}

static struct pt_region **region_head(const struct pt_memo *s, uint64_t start)
{
	uint64_t hash = start * UINT64_C(0x9e3779b97f4a7c15);

	return &s->region_heads[hash >> 32 & s->region_mask];
}

static void hash_region(struct pt_memo *s, struct pt_region *r)
{
	struct pt_region **head = region_head(s, r->start);

	r->same_hash = *head;
	*head = r;
}

/* A program with a JIT has thousands of regions, each asked for again in each generation.
 * Without memory for more heads the search is longer. */
static bool grow_region_heads(struct pt_memo *s)
{
	uint32_t n = s->region_heads ? (s->region_mask + 1) * 4 : 4 * FEW_REGIONS;
	struct pt_region **heads = calloc(n, sizeof(struct pt_region *));

	if (!heads)
		return false;
	free(s->region_heads);
	s->region_heads = heads;
	s->region_mask = n - 1;
	if (!s->recent)	/* without memory for it the host is asked */
		s->recent = calloc(PT_RECENT, sizeof(struct pt_region *));
	for (struct pt_region *r = s->regions; r; r = r->next)
		hash_region(s, r);
	return true;
}

static void keep_region(struct pt_memo *s, struct pt_region *r)
{
	r->next = s->regions;
	s->regions = r;
	s->n_all_regions++;
	if (s->n_all_regions > (s->region_heads ? s->region_mask : FEW_REGIONS) &&
	    grow_region_heads(s))
		return;
	if (s->region_heads)
		hash_region(s, r);
}

static struct pt_region *look_up_region(const struct pt_memo *s, const struct aux_code *c)
{
	struct pt_region *r = s->region_heads ? *region_head(s, c->start) : s->regions;

	while (r && !same_region(r, c))
		r = s->region_heads ? r->same_hash : r->next;
	return r;
}

static struct pt_region *find_region(struct pt_memo *s,
				     const struct aux_code *c)
{
	struct pt_region *r = look_up_region(s, c);

	if (!r) {
		r = alloc_region(s);
		if (!r)
			return NULL;
		*r = (struct pt_region){ .start = c->start, .end = c->end,
					 .bytes = c->bytes };
		if (s->n_regions < PT_REGIONS) {
			r->index = (uint16_t)s->n_regions++;
			clear_ready(s, r->index);
		}
		keep_region(s, r);
	}
	mark_current(s, r);
	return r;
}

/* Cuts c to the half of the address space that ip is in, so that all of it is
 * canonical. */
static void clip(struct aux_code *c, uint64_t ip)
{
	uint64_t low_end = UINT64_C(1) << 47, high = -low_end;

	if (ip < low_end && c->end > low_end) {
		c->end = low_end;
	} else if (ip >= high && c->start < high) {
		c->bytes += high - c->start;
		c->start = high;
	}
}

static bool is_in(const struct pt_memo *s, const struct pt_region *r, uint64_t ip)
{
	return r && pt_region_is_current(s, r) && ip >= r->start && ip < r->end;
}

/* The region that contains ip in this generation, or NULL. Among the thousands of a JIT
 * the host has to search, and control goes to and fro between a few of them. */
static struct pt_region *region_at(struct pt_memo *s, uint64_t ip)
{
	size_t place = (ip >> 7 ^ ip >> 17) % PT_RECENT;
	struct pt_region *r = s->recent ? s->recent[place] : NULL;
	struct aux_code c;

	if (is_in(s, s->last, ip))
		return s->last;
	if (is_in(s, r, ip))
		return s->last = r;
	c = (struct aux_code){ 0 };
	if (s->host->code(s->host->priv, ip, &c) < 0 || ip < c.start ||
	    ip >= c.end)
		return NULL;
	clip(&c, ip);
	s->last = find_region(s, &c);
	if (s->recent)
		s->recent[place] = s->last;
	return s->last;
}

/* Is the node's region mapped in this generation? May ask the host. */
static bool is_node_current(struct pt_memo *s, const struct pt_node *n)
{
	return pt_region_is_current(s, n->region) ||
	       region_at(s, n->ip) == n->region;
}

/* ---- sets of regions ---- */

/* Most streams of a file with thousands need none. */
static bool alloc_sets(struct pt_memo *s)
{
	s->sets = malloc(PT_SETS * sizeof(*s->sets));
	s->set_heads = calloc(PT_SETS, sizeof(*s->set_heads));
	if (s->sets && s->set_heads)
		return true;
	free(s->sets);
	free(s->set_heads);
	s->sets = NULL;
	s->set_heads = NULL;
	return false;
}

static size_t hash_set(struct pt_region *const regions[], unsigned n)
{
	uint32_t h = 0;

	for (unsigned i = 0; i < n; i++)
		h = (h + regions[i]->index) * UINT32_C(0x9e3779b1);
	return h >> 16 & (PT_SETS - 1);
}

/* The index for these regions, which are mapped now, two or more. 0: no memory; there
 * is room for a set (n_sets). */
static unsigned index_of_set(struct pt_memo *s, struct pt_region *const regions[],
			     unsigned n)
{
	struct pt_set *set;
	uint16_t *head;
	unsigned index;

	if (!s->sets && !alloc_sets(s))
		return 0;
	head = &s->set_heads[hash_set(regions, n)];
	for (index = *head; index; index = set->next) {
		set = &s->sets[index - 1];
		if (set->n == n && !memcmp(set->regions, regions,
					   n * sizeof(*regions)))
			break;
	}
	if (!index) {
		set = &s->sets[s->n_sets++];
		*set = (struct pt_set){ .n = (uint16_t)n, .next = *head };
		memcpy(set->regions, regions, n * sizeof(*regions));
		index = s->n_sets;
		*head = (uint16_t)index;
		clear_ready(s, PT_REGIONS + index - 1);
	}
	index += PT_REGIONS - 1;
	if (s->ready[index * PT_ENDS] == PT_UNKNOWN)
		set_ready(s, index);
	return index;
}

/* Is what the entry's path leads through mapped now? It begins in r, which is. */
static bool is_entry_current(struct pt_memo *s, const struct pt_entry *e,
			     const struct pt_region *r)
{
	unsigned index = pt_entry_index(e);
	const struct pt_set *set;

	if (index < PT_REGIONS)
		return index == r->index;
	set = &s->sets[index - PT_REGIONS];
	if (set->regions[0] != r)
		return false;
	for (unsigned i = 1; i < set->n; i++) {
		const struct pt_region *other = set->regions[i];

		if (!pt_region_is_current(s, other) &&
		    region_at(s, other->start) != other)
			return false;
	}
	set_ready(s, index);
	return true;
}

size_t pt_memo_code(struct pt_memo *s, uint64_t ip, uint8_t buf[16],
		     const uint8_t **bytes)
{
	struct pt_region *r = region_at(s, ip);
	size_t n = 0;
	uint64_t left;

	if (!r)
		return 0;
	left = r->end - ip;
	if (left >= 15) {
		*bytes = r->bytes + (ip - r->start);
		return 15;
	}
	/* The instruction may go on in the next region. */
	*bytes = buf;
	for (; r && n < 15; r = region_at(s, ip + n)) {
		left = r->end - (ip + n);
		if (left > 15 - n)
			left = 15 - n;
		memcpy(buf + n, r->bytes + (ip + n - r->start), left);
		n += left;
	}
	return n;
}

const uint8_t *pt_memo_bytes(struct pt_memo *s, uint64_t ip, size_t n)
{
	const struct pt_region *r = region_at(s, ip);

	return r && r->end - ip >= n ? r->bytes + (ip - r->start) : NULL;
}

/* ---- nodes ---- */

static bool grow_nodes(struct pt_memo *s)
{
	size_t n = grow_slots(s->node_mask + 1);
	struct pt_slot *old = s->nodes;
	struct pt_slot *slots = alloc_table(n * sizeof(*slots));

	if (!slots) {
		s->nomem = true;
		return false;
	}
	for (size_t i = 0; i <= s->node_mask; i++) {
		uint32_t h = pt_node_hash(old[i].ip);

		if (!old[i].node)
			continue;
		while (slots[h & (n - 1)].node)
			h++;
		slots[h & (n - 1)] = old[i];
	}
	reuse_table(s, old, (s->node_mask + (size_t)1) * sizeof(*old));
	s->nodes = slots;
	s->node_mask = (uint32_t)(n - 1);
	return true;
}

static struct pt_node *add_node(struct pt_memo *s, struct pt_region *r,
				uint64_t ip, uint16_t flags)
{
	struct pt_node *n;
	uint32_t h;

	if (s->n_nodes > s->node_mask / 2 && !grow_nodes(s))
		return NULL;
	n = alloc_lines(s, sizeof(*n));
	if (!n)
		return NULL;
	*n = (struct pt_node){ .ip = ip, .region = r, .flags = flags };
	s->n_nodes++;
	for (h = pt_node_hash(ip); s->nodes[h & s->node_mask].node; h++)
		;
	s->nodes[h & s->node_mask] = (struct pt_slot){ ip, n };
	return n;
}

/* The node at ip in region r; made if there is none. NULL: no room. */
static struct pt_node *node_in(struct pt_memo *s, struct pt_region *r,
			       uint64_t ip, uint16_t flags)
{
	for (uint32_t h = pt_node_hash(ip);; h++) {
		const struct pt_slot *slot = &s->nodes[h & s->node_mask];
		struct pt_node *n = slot->node;

		if (!n)
			return add_node(s, r, ip, flags);
		if (slot->ip == ip && n->flags == flags && n->region == r)
			return n;
	}
}

/* The node at ip in this generation. NULL: there is no code, or no room. */
static struct pt_node *node_at(struct pt_memo *s, uint64_t ip,
				    uint16_t flags)
{
	struct pt_region *r;

	for (uint32_t h = pt_node_hash(ip);; h++) {
		const struct pt_slot *slot = &s->nodes[h & s->node_mask];
		struct pt_node *n = slot->node;

		if (!n)
			break;
		if (slot->ip == ip && n->flags == flags && is_node_current(s, n))
			return n;
	}
	r = region_at(s, ip);
	return r ? add_node(s, r, ip, flags) : NULL;
}

/* ---- what is in a node ---- */

static enum x86_mode mode_of(uint16_t flags)
{
	return (flags & AUX_FLOW_MODE_MASK) == AUX_FLOW_MODE_X86_64 ?
		       X86_MODE_64 : X86_MODE_32;
}

/* A node while it is decoded. */
struct build {
	struct aux_flow ranges[NODE_RANGES];
	struct pt_site sites[NODE_RANGES + 1];
	uint32_t n_ranges, n_sites, n_insns;
	uint64_t ip;		/* of the instruction that is decoded next; of insn
				 * after scan_range */
	struct x86_insn insn;
};

/* Adds the range from b->ip to the next branch. False: it leaves the region, or
 * bytes that are no instruction come first. */
static bool scan_range(struct build *b, const struct pt_node *n)
{
	const struct pt_region *r = n->region;
	enum x86_mode mode = mode_of(n->flags);
	struct aux_flow *f = &b->ranges[b->n_ranges];
	uint64_t ip = b->ip;
	uint32_t count = 0;

	for (;; ip += b->insn.size) {
		uint64_t left = r->end - ip;

		if (ip < r->start || ip >= r->end ||
		    !x86_insn_decode_in(r->bytes + (ip - r->start),
					left < 15 ? left : 15, mode, &b->insn))
			return false;
		count++;
		if (pt_range_end(b->insn.cls) != AUX_END_FALL)
			break;
	}
	*f = (struct aux_flow){ .kind = AUX_FLOW_RANGE,
				.what = pt_range_end(b->insn.cls),
				.flags = n->flags | b->insn.size, .n = count,
				.range = { b->ip, ip } };
	b->n_ranges++;
	b->n_insns += count;
	b->ip = ip;
	return true;
}

/* Follows the direct jump or call at b->ip. False: it leaves the region, makes
 * a loop, or there are too many ranges. A call to the next instruction reads
 * the ip and pushes no call, as the CPU does not expect a return (SDM, RET
 * compression). */
static bool follow_branch(struct build *b, const struct pt_node *n)
{
	uint64_t next = b->ip + b->insn.size;
	uint64_t to = next + (uint64_t)b->insn.disp;

	if (b->insn.cls == X86_CALL && b->insn.disp)
		b->sites[b->n_sites++] = (struct pt_site){ .ip = next };
	if (to < n->region->start || to >= n->region->end)
		return false;
	for (uint32_t i = 0; i < b->n_ranges; i++)
		if (b->ranges[i].range.first == to)
			return false;
	b->ip = to;
	return b->n_ranges < NODE_RANGES;
}

/* A step, its ranges, and room for sites, in one allocation. NULL: no room. */
static struct aux_step *make_step(struct pt_memo *s,
				  const struct aux_flow *ranges,
				  uint32_t n_ranges, uint32_t n_insns,
				  size_t n_sites)
{
	struct aux_step *step = alloc_bytes(s, sizeof(*step) +
			n_ranges * sizeof(*ranges) +
			n_sites * sizeof(struct pt_site));

	if (!step)
		return NULL;
	*step = (struct aux_step){ .n_ranges = n_ranges, .n_insns = n_insns };
	step->ranges = memcpy(step + 1, ranges, n_ranges * sizeof(*ranges));
	return step;
}

static void set_outcome(struct aux_step *step, bool taken)
{
	struct aux_flow *ranges = (struct aux_flow *)(step + 1);

	ranges[step->n_ranges - 1].what = taken ? AUX_END_COND_TAKEN :
						  AUX_END_COND_NOT_TAKEN;
}

/* The sites are in the allocation of the node's first step. */
static struct pt_site *sites_of(const struct pt_node *n)
{
	struct aux_step *step = n->steps[n->first];

	return (struct pt_site *)((struct aux_flow *)(step + 1) +
				  step->n_ranges);
}

/* Does the direct branch at b->ip lead to another region, and to an address that
 * a key can hold? */
static bool is_lead(const struct build *b, const struct pt_node *n)
{
	uint64_t to = b->ip + b->insn.size + (uint64_t)b->insn.disp;

	return (to < n->region->start || to >= n->region->end) &&
	       pt_is_canonical(to);
}

static bool keep_step(struct pt_memo *s, struct pt_node *n, const struct build *b,
		 bool taken)
{
	struct aux_step *step = make_step(s, b->ranges, b->n_ranges, b->n_insns,
					  b->n_sites);

	if (!step)
		return false;
	n->first = b->insn.cls == X86_COND && taken;
	n->steps[n->first] = step;
	n->n_sites = b->n_sites & 0x7f;
	memcpy(sites_of(n), b->sites, b->n_sites * sizeof(b->sites[0]));
	if (b->insn.cls == X86_COND)
		set_outcome(step, taken);
	return true;
}

/* Decodes a node that is new, and makes its step; for a COND, that of the
 * outcome. False: no room. */
static bool fill_node(struct pt_memo *s, struct pt_node *n, bool taken)
{
	struct build b;
	uint8_t kind = PT_NODE_SLOW;

	b.n_ranges = b.n_sites = b.n_insns = 0;
	b.ip = n->ip;
	while (scan_range(&b, n)) {
		if (b.insn.cls != X86_JUMP && b.insn.cls != X86_CALL) {
			kind = b.insn.cls == X86_COND ? PT_NODE_COND :
			       b.insn.cls == X86_RET ? PT_NODE_RET :
						       PT_NODE_TIP;
			break;
		}
		if (!follow_branch(&b, n)) {
			if (is_lead(&b, n))
				kind = PT_NODE_LEAD;
			break;
		}
	}
	if (kind == PT_NODE_SLOW) {
		n->kind = kind;
		return true;
	}
	if (b.insn.cls == X86_IND_CALL)
		b.sites[b.n_sites++] = (struct pt_site){
			.ip = b.ip + b.insn.size };
	if (!keep_step(s, n, &b, taken))
		return false;
	n->next_ip = b.ip + b.insn.size;
	if (kind == PT_NODE_LEAD)
		n->next_ip += (uint64_t)b.insn.disp;
	if (kind == PT_NODE_COND)
		n->disp = (int32_t)b.insn.disp;
	n->kind = kind;
	return true;
}

/* The node after a COND, by its outcome. NULL: in another region, or no
 * room. */
static struct pt_node *next_node(struct pt_memo *s, struct pt_node *n,
				    bool taken)
{
	uint64_t ip = pt_node_to(n, taken);

	if (n->next[taken])
		return n->next[taken];
	if (ip < n->region->start || ip >= n->region->end)
		return NULL;
	return n->next[taken] = node_in(s, n->region, ip, n->flags);
}

static const struct pt_site *site_at(struct pt_memo *s, struct pt_node *n,
				   unsigned i)
{
	struct pt_site *site = &sites_of(n)[i];

	if (!site->node && site->ip >= n->region->start &&
	    site->ip < n->region->end)
		site->node = node_in(s, n->region, site->ip, n->flags);
	return site;
}

/* The step of a node, for a COND by its outcome; made if it is not there. NULL:
 * no room. */
static struct aux_step *step_of(struct pt_memo *s, struct pt_node *n,
				     bool taken)
{
	struct aux_step *step = n->steps[taken];
	const struct aux_step *other = n->steps[!taken];

	if (step)
		return step;
	step = make_step(s, other->ranges, other->n_ranges, other->n_insns, 0);
	if (!step)
		return NULL;
	set_outcome(step, taken);
	return n->steps[taken] = step;
}

/*
 * ---- paths ----
 *
 * A path is tried first (struct trial) and kept at once while there is much
 * room; later only when it is asked for a second time, as most cold code runs
 * once. Calls that return inside of a path leave nothing in it but the height
 * that the stack reached.
 */

#define STEPS 64		/* of a path, at most */
#define LEADS 4			/* of them without a packet, one after the other */

_Static_assert(sizeof(struct pt_entry) == 32, "two are a cache line");

/* The entry after e in the search for a key: the next of its line, then the
 * next line. */
static struct pt_entry *find_next(struct pt_entry *table, size_t mask,
				  struct pt_entry *e)
{
	size_t offset = (size_t)((uint8_t *)(e + 1) - (uint8_t *)table);

	return offset & (PT_LINE - 1) ? e + 1 : pt_entry_at(table, mask, offset);
}

/* The first free entry for a key. */
static struct pt_entry *find_free(struct pt_entry *table, size_t mask,
				  uint64_t key)
{
	struct pt_entry *e = pt_entry_at(table, mask, pt_path_hash(key));

	while (e->key)
		e = find_next(table, mask, e);
	return e;
}

/* Doubles the table of paths. False: out of memory, and s->nomem says so. */
static bool grow_paths(struct pt_memo *s)
{
	uint32_t n = grow_slots(s->max_paths);
	size_t mask = pt_path_mask(n);
	struct pt_entry *old = s->paths;
	struct pt_entry *table = alloc_table(n * sizeof(*table));

	if (!table) {
		s->nomem = true;
		return false;
	}
	for (uint32_t i = 0; i < s->max_paths; i++)
		if (old[i].key)
			*find_free(table, mask, old[i].key) = old[i];
	reuse_table(s, old, s->max_paths * sizeof(*old));
	s->paths = table;
	s->max_paths = n;
	s->path_mask = mask;
	return true;
}

/* A path while it is made, with the nodes of its calls. */
struct trial {
	struct aux_step *steps[STEPS];
	struct pt_site sites[PATH_CALLS];
	struct aux_path pub;
	unsigned left;		/* bits below a stop bit */
	unsigned n_calls, height; /* open now, and at most */
	enum pt_path_end end;
	struct pt_node *node;	/* with PT_END_NODE: where it ends */
	uint64_t ip;		/* where it ends; canonical; 0 with PT_END_POP */
	struct pt_region *regions[PT_SET]; /* through which it leads */
	unsigned n_regions, max_regions;
	uint16_t flags;		/* of all its nodes */
};

/* What steps add to a trial, so that they can be taken back: a branch to another region
 * is known to have run only when what it leads to takes a packet. */
struct trial_mark {
	struct aux_path pub;
	unsigned n_calls, height, n_regions;
};

static struct trial_mark mark_trial(const struct trial *t)
{
	return (struct trial_mark){ t->pub, t->n_calls, t->height,
				    t->n_regions };
}

/* Calls that returned since are still in their place: nothing but leads was added,
 * which do not return. */
static void reset_trial(struct trial *t, const struct trial_mark *m)
{
	t->pub = m->pub;
	t->n_calls = m->n_calls;
	t->height = m->height;
	t->n_regions = m->n_regions;
}

/* The path leads through r as well. False: those would be too many. */
static bool add_region(struct trial *t, struct pt_region *r)
{
	for (unsigned i = 0; i < t->n_regions; i++)
		if (t->regions[i] == r)
			return true;
	if (!r->index || t->n_regions == t->max_regions)
		return t->n_regions == 0;
	t->regions[t->n_regions++] = r;
	return true;
}

/* The node at ip in whatever region is mapped there. NULL: none, or the path may not
 * leave its region. */
static struct pt_node *node_across(const struct trial *t, struct pt_memo *s,
				   uint64_t ip)
{
	return t->max_regions > 1 ? node_at(s, ip, t->flags) : NULL;
}

/* Adds the calls of a node. False: too many. */
static bool add_calls(struct trial *t, struct pt_memo *s, struct pt_node *n)
{
	if (t->n_calls + n->n_sites > PATH_CALLS)
		return false;
	for (unsigned i = 0; i < n->n_sites; i++)
		t->sites[t->n_calls++] = *site_at(s, n, i);
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

/* Applies one TNT bit at the end of n. The next node; NULL: the path ends
 * here. */
static struct pt_node *apply_bit(struct trial *t, struct pt_memo *s,
				struct pt_node *n, bool bit)
{
	if (n->kind == PT_NODE_COND) {
		t->end = PT_END_IP;
		t->ip = pt_node_to(n, bit);
		return next_node(s, n, bit);
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

/* A compressed return is a TNT bit that is set (SDM, RET compression). */
static bool takes_bit(const struct pt_node *n, bool bit)
{
	return n->kind == PT_NODE_COND || (n->kind == PT_NODE_RET && bit);
}

/* Does the branch lead to an address that a key can hold? */
static bool leads_on(const struct trial *t, const struct pt_node *n, bool bit)
{
	if (n->kind == PT_NODE_COND)
		return pt_is_canonical(pt_node_to(n, bit));
	return !t->n_calls || pt_is_canonical(t->sites[t->n_calls - 1].ip);
}

/* Adds the step of n for one bit. 0: n takes no such bit, or the path is full;
 * -1: no room. */
static int try_step(struct trial *t, struct pt_memo *s, struct pt_node *n,
		    bool bit)
{
	unsigned n_calls = t->n_calls, height = t->height;
	struct aux_step *step;

	if (n->kind == PT_NODE_NEW && !fill_node(s, n, bit))
		return -1;
	if (!takes_bit(n, bit) || t->pub.n_steps == STEPS || !add_calls(t, s, n))
		return 0;
	if (!leads_on(t, n, bit)) {
		t->n_calls = n_calls;
		t->height = height;
		return 0;
	}
	step = step_of(s, n, n->kind == PT_NODE_COND && bit);
	if (!step)
		return -1;
	add_step(t, step);
	return 1;
}

/* A path that begins at a LEAD is that alone. 0: it cannot be; -1: no room. */
static int try_lead(struct trial *t, struct pt_memo *s, struct pt_node *n,
		    unsigned bits)
{
	struct aux_step *step = step_of(s, n, false);

	if (!step)
		return -1;
	if (!add_calls(t, s, n))
		return 0;
	add_step(t, step);
	t->end = PT_END_IP;
	t->ip = n->next_ip;
	t->left = bits;
	return 1;
}

/* Follows branches to other regions, from n on, to the first node that is not such a
 * branch. NULL: they lead to no code, too far, or into too many regions; *nomem: there
 * is no room. */
static struct pt_node *pass_leads(struct trial *t, struct pt_memo *s, struct pt_node *n,
				  bool bit, bool *nomem)
{
	for (unsigned i = 0;; i++) {
		struct aux_step *step;

		if (!add_region(t, n->region))
			return NULL;
		*nomem = n->kind == PT_NODE_NEW && !fill_node(s, n, bit);
		if (*nomem || n->kind != PT_NODE_LEAD)
			return *nomem ? NULL : n;
		if (t->max_regions < 2 || i == LEADS ||
		    t->pub.n_steps == STEPS || !add_calls(t, s, n))
			return NULL;
		step = step_of(s, n, false);
		*nomem = !step;
		if (!step)
			return NULL;
		add_step(t, step);
		n = node_across(t, s, n->next_ip);
		if (!n)
			return NULL;
	}
}

/* The path ends before n, which takes no bit, or leads out of its regions. */
static void end_before(struct trial *t, const struct pt_node *n, bool leads)
{
	t->end = leads && t->pub.n_steps ? PT_END_IP : PT_END_STOP;
	t->ip = n->ip;
}

/* Applies bits (below a stop bit) from n on; tip: a TIP follows them. False: no
 * room. */
static bool apply_bits(struct trial *t, struct pt_memo *s, struct pt_node *n,
		       unsigned bits, bool tip)
{
	unsigned k = 31 - (unsigned)__builtin_clz(bits);

	while (k) {
		bool bit = bits >> (k - 1) & 1, nomem = false;
		struct trial_mark before = mark_trial(t);
		struct pt_node *at = pass_leads(t, s, n, bit, &nomem);
		int r = at ? try_step(t, s, at, bit) : 0;

		if (nomem || r < 0)
			return false;
		t->left = (bits & ((1U << k) - 1)) | 1U << k;
		if (!r) {
			reset_trial(t, &before);
			end_before(t, n, at != n);
			return true;
		}
		k--;
		t->left = (bits & ((1U << k) - 1)) | 1U << k;
		n = apply_bit(t, s, at, bit);
		if (!n && t->end == PT_END_IP && (k || tip))
			n = node_across(t, s, t->ip);
		if (!n) {
			if (t->end == PT_END_IP && !k)
				t->end = PT_END_NODE;	/* wherever that is */
			t->node = NULL;
			return true;
		}
	}
	t->end = PT_END_NODE;
	t->left = 1;
	t->node = n;
	t->ip = n->ip;
	return true;
}

/* The branch at the end of n, or where that leads, takes the TIP, and the path ends.
 * False: it does not, or there is no room. */
static bool end_at_tip(struct trial *t, struct pt_memo *s, struct pt_node *n)
{
	struct trial_mark before = mark_trial(t);
	struct aux_step *step;
	bool nomem = false;

	n = pass_leads(t, s, n, false, &nomem);
	if (n && (n->kind == PT_NODE_TIP || n->kind == PT_NODE_RET) &&
	    t->pub.n_steps < STEPS && (step = step_of(s, n, false)) &&
	    add_calls(t, s, n)) {
		add_step(t, step);
		t->end = PT_END_TIP;
		return true;
	}
	reset_trial(t, &before);
	return false;
}

/* Tries bits, with PT_TIP, from n on. False: no room, or a TIP alone that n
 * does not take. */
static bool try_path(struct trial *t, struct pt_memo *s, struct pt_node *n,
		     unsigned bits)
{
	bool tip = bits & PT_TIP, taken;

	t->pub = (struct aux_path){ 0 };
	t->n_calls = t->height = t->n_regions = 0;
	t->max_regions = n->region->index && s->n_sets < PT_SETS ? PT_SET : 1;
	t->flags = n->flags;
	bits &= PT_BITS;
	if (n->kind == PT_NODE_NEW && !fill_node(s, n, false))
		return false;
	if (!apply_bits(t, s, n, bits, tip))
		return false;
	taken = tip && t->end == PT_END_NODE && t->node &&
		end_at_tip(t, s, t->node);
	if (!t->pub.n_steps && n->kind == PT_NODE_LEAD)
		return try_lead(t, s, n, bits) > 0;
	return taken || !tip || bits > 1;
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
				struct pt_path *p, unsigned index)
{
	return (struct pt_entry){ .key = key, .path = p,
				  .next = pt_key_ip(t->ip) |
					  (index * PT_ENDS +
					   (unsigned)t->end),
				  .n_insns = t->pub.n_insns,
				  .left = (uint16_t)t->left,
				  .n_calls = (uint8_t)t->n_calls,
				  .room = (uint8_t)(PT_STACK - t->height) };
}

/* Keeps a path under its key. NULL: no room. */
static const struct pt_entry *keep_path(struct pt_memo *s,
					const struct trial *t, uint64_t key,
					unsigned index)
{
	struct pt_entry *e;
	struct pt_path *p;
	void *steps;

	/* Dense, 7 of 8 entries: what is looked up often is in its line anyway
	 * (promote), and half the memory is near (1.17 to 1.10 s, b143d79). */
	if (!index ||
	    (s->n_paths >= s->max_paths / 8 * 7 && !grow_paths(s)))
		return NULL;
	p = alloc_lines(s, sizeof(*p) + t->n_calls * sizeof(*p->sites));
	steps = p ? alloc_bytes(s, size_of_steps(t)) : NULL;
	if (!steps)
		return NULL;
	copy_to(p, steps, t);
	p->pub.kept = 1;
	e = find_free(s->paths, s->path_mask, key);
	*e = entry_of(t, key, p, index);
	s->n_paths++;
	return e;
}

/* While there is much room, yes; then from the second time on that the key is
 * asked for. A tag that another key overwrote costs one more try. */
static bool is_kept(struct pt_memo *s, uint64_t key)
{
	size_t h = pt_path_hash(key);
	uint16_t tag = (uint16_t)(h >> 22 | 1), *seen;
	bool again;

	if (s->used < s->limit / 2 || s->limit < SEEN_MIN)
		return true;
	if (!s->seen && !(s->seen = alloc_table(PT_SEEN * sizeof(*seen))))
		return true;
	seen = &s->seen[h / PT_LINE & (PT_SEEN - 1)];
	again = *seen == tag;
	*seen = tag;
	return again;
}

/* The path for a key that has none yet: kept, or in scratch until the next
 * decode. */
static const struct pt_entry *make_path(struct pt_memo *s, struct pt_node *n,
					unsigned bits, uint64_t key)
{
	const struct pt_entry *e = NULL;
	struct pt_path *p;
	struct trial t;
	size_t before, size;
	unsigned index;

	if (!try_path(&t, s, n, bits))
		return NULL;
	index = t.n_regions > 1 ? index_of_set(s, t.regions, t.n_regions) :
				  n->region->index;
	if (is_kept(s, key))
		e = keep_path(s, &t, key, index);
	before = sizeof(*p) + t.n_calls * sizeof(*p->sites);
	size = before + size_of_steps(&t);
	if (e || s->n_scratch + size > SCRATCH)
		return e;
	p = (struct pt_path *)(s->scratch + s->n_scratch);
	s->n_scratch += size;
	copy_to(p, (uint8_t *)p + before, &t);
	s->temp_entry = entry_of(&t, key, p, index);
	return &s->temp_entry;
}

/* An entry that the fast loop did not find moves to the line where it looks, in
 * exchange for one that is there. */
static const struct pt_entry *promote(struct pt_memo *s, struct pt_entry *e)
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

/* First an entry whose region is known to be mapped; then, if there is none,
 * the host says which region is mapped there, and an entry of that one. */
const struct pt_entry *pt_memo_find(struct pt_memo *s, uint64_t key_ip,
				    unsigned bits, uint16_t flags)
{
	uint64_t key = key_ip | pt_key_mode(flags) | pt_key_bits(bits);
	struct pt_entry *first = pt_entry_at(s->paths, s->path_mask,
					     pt_path_hash(key)), *e;
	struct pt_node *n;

	for (e = first; e->key; e = find_next(s->paths, s->path_mask, e))
		if (e->key == key && s->ready[pt_entry_tag(e)] != PT_UNKNOWN)
			return promote(s, e);
	n = node_at(s, pt_ip_of_key(key_ip), flags);
	if (!n)
		return NULL;
	for (e = first; e->key; e = find_next(s->paths, s->path_mask, e))
		if (e->key == key && is_entry_current(s, e, n->region))
			return promote(s, e);
	return make_path(s, n, bits, key);
}

bool pt_memo_walk(struct pt_memo *s, uint64_t ip, uint16_t flags,
		  struct pt_memo_walk *w)
{
	struct pt_node *n = node_at(s, ip, flags);
	const struct pt_region *r;
	const struct aux_step *step;
	uint64_t last;

	if (!n || (n->kind == PT_NODE_NEW && !fill_node(s, n, false)) ||
	    n->kind == PT_NODE_SLOW)
		return false;
	r = n->region;
	step = n->steps[n->first];
	last = step->ranges[step->n_ranges - 1].range.last;
	*w = (struct pt_memo_walk){ .ranges = step->ranges,
				    .n_ranges = step->n_ranges,
				    .sites = sites_of(n),
				    .n_sites = n->n_sites,
				    .leads = n->kind == PT_NODE_LEAD,
				    .to = n->next_ip };
	return x86_insn_decode_in(r->bytes + (last - r->start),
				  r->end - last < 15 ? r->end - last : 15,
				  mode_of(flags), &w->insn);
}
