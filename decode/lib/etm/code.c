/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: code as nodes: the instructions from an ip up to the next P0 element.
 *
 * A region is good in a generation if the host then gives the same bytes for the
 * same addresses; a node is good where its region is. Which instructions are P0
 * elements: Arm IHI 0064, "P0 elements"; DDI 0487, C4.1.
 */
#include <string.h>

#include "common/a64_insn.h"

#include "decode/lib/etm/engine.h"

static bool is_same(const struct aux_code *a, const struct aux_code *b)
{
	return a->bytes == b->bytes && a->start == b->start && a->end == b->end;
}

/* The region that the host has at ip, from the store if it was known. */
static struct etm_region *ask_host(struct etm *d, uint64_t ip)
{
	struct aux_code code = { 0 };
	struct etm_region *r;

	if (d->host->code(d->host->priv, ip, &code) < 0 || ip < code.start ||
	    ip >= code.end)
		return NULL;
	for (r = d->store->regions; r; r = r->next)
		if (is_same(&r->code, &code))
			break;
	if (!r) {
		r = etm_store_alloc(d->store, sizeof(*r), 8);
		if (!r) {	/* the store is full: it is for this once */
			r = &d->spare_region;
			r->code = code;
			r->generation = d->generation;
			return r;
		}
		r->code = code;
		r->next = d->store->regions;
		d->store->regions = r;
	}
	r->generation = d->generation;
	return r;
}

static bool has_ip(const struct etm *d, const struct etm_region *r, uint64_t ip)
{
	return r && r->generation == d->generation && ip >= r->code.start &&
	       ip < r->code.end;
}

struct etm_region *etm_find_region(struct etm *d, uint64_t ip)
{
	struct etm_region *r;

	if (has_ip(d, d->last_region, ip))
		return d->last_region;
	for (r = d->store->regions; r; r = r->next)
		if (has_ip(d, r, ip))
			break;
	if (!r)
		r = ask_host(d, ip);
	if (r && r != &d->spare_region)
		d->last_region = r;
	return r;
}

/* False: it is no longer what the host has at ip. */
bool etm_is_good(struct etm *d, struct etm_region *r, uint64_t ip)
{
	struct aux_code code = { 0 };

	if (r->generation == d->generation)
		return true;
	if (d->host->code(d->host->priv, ip, &code) < 0 ||
	    !is_same(&r->code, &code))
		return false;
	r->generation = d->generation;
	return true;
}

/* As much as there is of the instruction at ip; it may lie in two regions. */
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

static bool is_wait(const struct etm *d, uint32_t word)
{
	return d->waits && ((word & 0xffffffdf) == 0xd503205f || /* wfe, wfi */
			    (word & 0xffffffc0) == 0xd5031000); /* wfet, wfit */
}

/* Is it a P0 element? Then node has what it does. */
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
	default:
		node->kind = ETM_WAYPOINT;
		return cls == A64_ISB || is_wait(d, word);
	}
}

/* Is all of the instruction at ip in r? */
static bool has_insn(const struct etm_region *r, uint64_t ip)
{
	return ip >= r->code.start && ip < r->code.end &&
	       r->code.end - ip >= 4;
}

/*
 * From ip to the next P0 element. False: there is no code at node->next, or it
 * went on for too long; node has what there is up to there.
 */
bool etm_walk(struct etm *d, uint64_t ip, struct etm_node *node)
{
	const struct etm_region *r = etm_find_region(d, ip);
	uint32_t word;

	memset(node, 0, sizeof(*node));
	node->ip = node->last = node->next = ip;
	for (;;) {
		if (r && has_insn(r, node->next))
			word = load32(r->code.bytes +
				      (node->next - r->code.start));
		else if (etm_read_insn(d, node->next, &word))
			node->spread = true;
		else
			return false;
		if (node->n * UINT64_C(4) >= ETM_WALK_MAX) {
			d->unsupported = true;
			return false;
		}
		node->last = node->next;
		node->next += 4;
		node->n++;
		if (etm_classify(d, word, node->last, node))
			return true;
	}
}

struct etm_node *etm_find_node(struct etm *d, uint64_t ip)
{
	struct etm_store *s = d->store;
	struct etm_node *n, made;
	struct etm_region *r;

	for (n = s->nodes[etm_hash(ip, s->node_bits)]; n; n = n->chain)
		if (n->ip == ip && n->region->generation == d->generation)
			return n;
	r = etm_find_region(d, ip);
	if (!r || r == &d->spare_region)
		return NULL;
	for (n = s->nodes[etm_hash(ip, s->node_bits)]; n; n = n->chain)
		if (n->ip == ip && n->region == r)
			return n;
	if (!etm_walk(d, ip, &made) || made.spread)
		return NULL;
	made.region = r;
	n = etm_store_alloc(s, sizeof(*n), 8);
	if (!n)
		return NULL;
	*n = made;
	return etm_store_add_node(s, n) ? n : NULL;
}

/* The RANGE of a node and its atom. */
struct aux_flow etm_range(const struct etm_node *n, bool taken)
{
	return (struct aux_flow){
		.kind = AUX_FLOW_RANGE,
		.what = n->kind == ETM_WAYPOINT ? AUX_END_FALL :
			taken ? n->taken : AUX_END_COND_NOT_TAKEN,
		.flags = AUX_FLOW_MODE_A64 | 4,
		.n = n->n,
		.range = { n->ip, n->last },
	};
}
