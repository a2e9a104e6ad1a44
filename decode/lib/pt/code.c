/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pt: code as regions and nodes.
 *
 * A node belongs to one region and is right wherever that region is mapped. When
 * the host's generation changes, a region is asked for again at its first use: the
 * same answer, and all its nodes are good.
 */
#include <string.h>

#include "decode/lib/pt/engine.h"

_Static_assert(sizeof(struct pt_node) == PT_LINE, "one is a cache line");

/* ---- regions ---- */

static bool same_region(const struct pt_region *r, const struct aux_code *c)
{
	return r->start == c->start && r->end == c->end && r->bytes == c->bytes;
}

/* The region is so in this generation. */
static void be_current(struct pt_store *s, const struct pt_region *r)
{
	if (!r->index || pt_is_current(s, r))
		return;
	for (unsigned end = 0; end < PT_N_ENDS; end++)
		s->ready[end * PT_REGIONS + r->index] =
			end == PT_END_NODE ? 0 :
			end == PT_END_TIP ? PT_TIP : PT_READY;
	s->ready_regions[s->n_ready++] = r->index;
}

static struct pt_region *find_region(struct pt_store *s, const struct aux_code *c)
{
	struct pt_region *r = s->regions;

	while (r && !same_region(r, c))
		r = r->next;
	if (!r) {
		r = pt_store_region(s);
		if (!r)
			return NULL;
		*r = (struct pt_region){ .start = c->start, .end = c->end,
					 .bytes = c->bytes,
					 .next = s->regions };
		if (s->n_regions < PT_REGIONS)
			r->index = (uint16_t)s->n_regions++;
		s->regions = r;
	}
	be_current(s, r);
	return r;
}

/* To the half of the addresses that ip is in: all of it is canonical then. */
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

struct pt_region *pt_code_region(struct pt_store *s, uint64_t ip)
{
	struct pt_region *r = s->last;
	struct aux_code c;

	if (r && pt_is_current(s, r) && ip >= r->start && ip < r->end)
		return r;
	c = (struct aux_code){ 0 };
	if (s->host->code(s->host->priv, ip, &c) < 0 || ip < c.start ||
	    ip >= c.end)
		return NULL;
	clip(&c, ip);
	return s->last = find_region(s, &c);
}

/* Is the node's code mapped where it was? */
static bool is_current(struct pt_store *s, const struct pt_node *n)
{
	return pt_is_current(s, n->region) ||
	       pt_code_region(s, n->ip) == n->region;
}

size_t pt_code_bytes(struct pt_store *s, uint64_t ip, uint8_t buf[16],
		     const uint8_t **bytes)
{
	struct pt_region *r = pt_code_region(s, ip);
	size_t n = 0;
	uint64_t left;

	if (!r)
		return 0;
	left = r->end - ip;
	if (left >= 15) {
		*bytes = r->bytes + (ip - r->start);
		return 15;
	}
	/* The rest is in another one. */
	*bytes = buf;
	for (; r && n < 15; r = pt_code_region(s, ip + n)) {
		left = r->end - (ip + n);
		if (left > 15 - n)
			left = 15 - n;
		memcpy(buf + n, r->bytes + (ip + n - r->start), left);
		n += left;
	}
	return n;
}

/* ---- nodes ---- */

static bool grow_nodes(struct pt_store *s)
{
	size_t n = 2 * (s->node_mask + (size_t)1);
	struct pt_slot *old = s->nodes;
	struct pt_slot *slots = pt_store_table(n * sizeof(*slots));

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
	pt_store_reuse(s, old, n / 2 * sizeof(*old));
	s->nodes = slots;
	s->node_mask = (uint32_t)(n - 1);
	return true;
}

static struct pt_node *add_node(struct pt_store *s, struct pt_region *r,
				uint64_t ip, uint16_t flags)
{
	struct pt_node *n;
	uint32_t h;

	if (s->n_nodes > s->node_mask / 2 && !grow_nodes(s))
		return NULL;
	n = pt_store_lines(s, sizeof(*n));
	if (!n)
		return NULL;
	*n = (struct pt_node){ .ip = ip, .region = r, .flags = flags };
	s->n_nodes++;
	for (h = pt_node_hash(ip); s->nodes[h & s->node_mask].node; h++)
		;
	s->nodes[h & s->node_mask] = (struct pt_slot){ ip, n };
	return n;
}

/* The node in this region: made when there is none. */
static struct pt_node *node_in(struct pt_store *s, struct pt_region *r,
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

struct pt_node *pt_code_node(struct pt_store *s, uint64_t ip, uint16_t flags)
{
	struct pt_region *r;

	for (uint32_t h = pt_node_hash(ip);; h++) {
		const struct pt_slot *slot = &s->nodes[h & s->node_mask];
		struct pt_node *n = slot->node;

		if (!n)
			break;
		if (slot->ip == ip && n->flags == flags && is_current(s, n))
			return n;
	}
	r = pt_code_region(s, ip);
	return r ? add_node(s, r, ip, flags) : NULL;
}

/* ---- what is in a node ---- */

static const uint8_t range_ends[] = {
	[X86_OTHER] = AUX_END_FALL, [X86_COND] = AUX_END_COND,
	[X86_JUMP] = AUX_END_JUMP, [X86_CALL] = AUX_END_CALL,
	[X86_RET] = AUX_END_RET, [X86_IND_JUMP] = AUX_END_IND_JUMP,
	[X86_IND_CALL] = AUX_END_IND_CALL, [X86_SYSCALL] = AUX_END_SYSCALL,
	[X86_FAR] = AUX_END_FAR, [X86_PTWRITE] = AUX_END_FALL,
};

static enum x86_mode mode_of(uint16_t flags)
{
	return (flags & AUX_FLOW_MODE_MASK) == AUX_FLOW_MODE_X86_64 ?
		       X86_MODE_64 : X86_MODE_32;
}

struct build {
	struct aux_flow ranges[NODE_RANGES];
	struct pt_site sites[NODE_RANGES + 1];
	uint32_t n_ranges, n_sites, n_insns;
	uint64_t ip;		/* of the instruction, then of the next one */
	struct x86_insn insn;
};

/* One contiguous run up to a branch. False: it does not end in the region. */
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
		if (range_ends[b->insn.cls] != AUX_END_FALL)
			break;
	}
	*f = (struct aux_flow){ .kind = AUX_FLOW_RANGE,
				.what = range_ends[b->insn.cls],
				.flags = n->flags | b->insn.size, .n = count,
				.range = { b->ip, ip } };
	b->n_ranges++;
	b->n_insns += count;
	b->ip = ip;
	return true;
}

/* The jump or call at b->ip goes on inside of the node. */
static bool follow(struct build *b, const struct pt_node *n)
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

/* A step and its ranges, with room for sites behind them. */
static struct aux_step *make_step(struct pt_store *s, const struct aux_flow *ranges,
				  uint32_t n_ranges, uint32_t n_insns,
				  size_t n_sites)
{
	struct aux_step *step = pt_store_alloc(s, sizeof(*step) +
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

/* Of its first step. */
static struct pt_site *sites_of(const struct pt_node *n)
{
	struct aux_step *step = n->steps[n->first];

	return (struct pt_site *)((struct aux_flow *)(step + 1) +
				  step->n_ranges);
}

static bool keep(struct pt_store *s, struct pt_node *n, const struct build *b,
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

bool pt_code_fill(struct pt_store *s, struct pt_node *n, bool taken)
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
		if (!follow(&b, n))
			break;
	}
	if (kind == PT_NODE_SLOW) {
		n->kind = kind;
		return true;
	}
	if (b.insn.cls == X86_IND_CALL)
		b.sites[b.n_sites++] = (struct pt_site){
			.ip = b.ip + b.insn.size };
	if (!keep(s, n, &b, taken))
		return false;
	n->next_ip = b.ip + b.insn.size;
	if (kind == PT_NODE_COND)
		n->disp = (int32_t)b.insn.disp;
	n->kind = kind;
	return true;
}

struct pt_node *pt_code_next(struct pt_store *s, struct pt_node *n, bool taken)
{
	uint64_t ip = pt_node_to(n, taken);

	if (n->next[taken])
		return n->next[taken];
	if (ip < n->region->start || ip >= n->region->end)
		return NULL;
	return n->next[taken] = node_in(s, n->region, ip, n->flags);
}

const struct pt_site *pt_code_site(struct pt_store *s, struct pt_node *n,
				   unsigned i)
{
	struct pt_site *site = &sites_of(n)[i];

	if (!site->node && site->ip >= n->region->start &&
	    site->ip < n->region->end)
		site->node = node_in(s, n->region, site->ip, n->flags);
	return site;
}

struct aux_step *pt_code_step(struct pt_store *s, struct pt_node *n, bool taken)
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
