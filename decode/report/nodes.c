/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lanes' nodes, and the call tree, as blocks of columns (impl.h has the
 * format); and the places that calls come from, each once. A column holds
 * numbers that are alike, as differences where they grow, so that zlib finds
 * the pattern: about ten bytes of the page for a node.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/report/impl.h"

#define BLOCK_NODES 32768
#define MAX_SITES   65536

/* ---- places of calls ---- */

static uint32_t hash_site(uint64_t addr)
{
	return (uint32_t)(addr * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/* The number of a place, from 1; 0: none, or there are too many. */
static uint32_t add_site(struct report_sites *s, uint64_t addr, uint32_t func)
{
	uint32_t mask = 2 * MAX_SITES - 1, at = hash_site(addr) & mask;

	if (!addr)
		return 0;
	for (; s->slots[at]; at = (at + 1) & mask)
		if (s->v[s->slots[at] - 1].addr == addr)
			return s->slots[at];
	if (s->n == MAX_SITES)
		return 0;
	s->v[s->n] = (struct report_site){ .addr = addr, .func = func };
	s->slots[at] = ++s->n;
	return s->n;
}

/* On failure report_sites_fini may be called. */
int report_sites_init(struct report_sites *s)
{
	s->v = calloc(MAX_SITES, sizeof(*s->v));
	s->slots = calloc(2 * MAX_SITES, sizeof(*s->slots));
	s->n = 0;
	return s->v && s->slots ? 0 : -AUX_E_NOMEM;
}

void report_sites_fini(struct report_sites *s)
{
	free(s->v);
	free(s->slots);
}

/* ---- nodes ---- */

/* The block that is being filled. Differences start anew with each block, so
 * that blocks can be read alone. */
struct packing {
	struct report_writer *w;
	struct report_blocks blocks;
	struct column_bytes c[NODE_N_COLUMNS];
	uint32_t n;		/* in this block */
	uint64_t start;		/* of the one before */
	uint16_t depth;
	uint32_t func[REPORT_DEPTH + 1]; /* of the node at each depth */
};

/* In the file's ticks. Both ends of a node are rounded down alike, so nothing
 * sticks out of its parent. */
static uint64_t place(const struct report_writer *w, uint64_t ticks)
{
	return (ticks - w->r->first) >> w->shift;
}

/* Columns that few nodes have: only of nodes that stand for many. */
static void pack_extra(struct packing *p, const struct report_node *n,
		       uint64_t length)
{
	uint64_t busy = n->flags & REPORT_MERGED ? n->from >> p->w->shift :
						   length;

	/* 0: a call that began before, alone or with its inner ones */
	column_put(&p->c[NODE_EXTRA], n->count);
	column_put(&p->c[NODE_EXTRA], n->deep);
	column_put(&p->c[NODE_EXTRA], busy);
}

/* The function of the caller is known from the depth: nodes come parents
 * first. */
static void pack_node(struct packing *p, const struct report_node *n)
{
	const struct report_writer *w = p->w;
	bool merged = n->flags & REPORT_MERGED, extra = merged || n->count > 1;
	uint64_t away = merged ? 0 : n->away_ns * REPORT_TICKS >> w->shift;
	uint32_t caller = n->depth ? p->func[n->depth - 1] : n->func;
	uint64_t start = place(w, n->start);
	uint64_t length = place(w, n->end) - start;

	p->func[n->depth] = n->func;
	column_put(&p->c[NODE_DEPTH], zigzag(n->depth - (int64_t)p->depth));
	column_put(&p->c[NODE_START], start - p->start);
	column_put(&p->c[NODE_LENGTH], length);
	column_put(&p->c[NODE_INSNS], n->insns);
	column_put(&p->c[NODE_CYCLES], merged ? 0 : n->cycles);
	column_put(&p->c[NODE_FUNC], n->func);
	column_put(&p->c[NODE_WHAT],
		   n->kind | (uint64_t)n->how << 3 |
			   (uint64_t)(n->flags & 15) << 6 |
			   (extra ? NODE_HAS_EXTRA : 0) |
			   (away ? NODE_HAS_AWAY : 0));
	column_put(&p->c[NODE_SITE],
		   merged ? 0 : add_site(&p->w->sites, n->from, caller));
	if (extra)
		pack_extra(p, n, length);
	if (away)
		column_put(&p->c[NODE_AWAY], away);
	p->start = start;
	p->depth = n->depth;
	p->n++;
}

/* A block is at most BLOCK_NODES: the page unpacks one in a task of its own. */
static int flush_nodes(struct packing *p, const struct report_lane *l)
{
	int err = 0;

	if (p->n)
		err = report_add_columns(&p->blocks, "nodes", p->n, l->id,
					 p->c, NODE_N_COLUMNS);
	p->n = 0;
	p->start = 0;
	p->depth = 0;
	return err;
}

/* Slow calls learn the number of their node here. */
static int pack_lane(struct packing *p, struct report_lane *l)
{
	struct report *r = p->w->r;
	int err = 0;

	for (uint32_t i = 0; i < l->n && !err; i++) {
		struct report_node *n = &l->nodes[i];

		pack_node(p, n);
		if (n->flags & REPORT_MERGED)
			p->w->n_merged += n->count;
		if (n->pin) {
			r->pins[n->pin - 1].lane = l->id;
			r->pins[n->pin - 1].node = i;
		}
		if (p->n == BLOCK_NODES)
			err = flush_nodes(p, l);
	}
	return err ? err : flush_nodes(p, l);
}

/* All lanes, anew: what an earlier call packed is dropped. */
int report_pack_nodes(struct report_writer *w)
{
	struct report *r = w->r;
	struct packing *p = calloc(1, sizeof(*p));
	int err = p ? 0 : -AUX_E_NOMEM;

	if (err)
		return err;
	p->w = w;
	w->n_merged = 0;
	w->nodes->p = w->nodes->buf;
	w->sites.n = 0;
	memset(w->sites.slots, 0, 2 * MAX_SITES * sizeof(*w->sites.slots));
	for (uint32_t i = 0; i < r->n_pins; i++)
		r->pins[i].node = REPORT_NONE;
	for (uint32_t i = 0; i < r->n_lanes && !err; i++)
		err = pack_lane(p, r->lanes[i]);
	if (!err)
		err = report_put_blocks(&p->blocks, w->nodes, r->env.n_threads);
	report_blocks_fini(&p->blocks);
	for (unsigned i = 0; i < NODE_N_COLUMNS; i++)
		free(p->c[i].p);
	free(p);
	return err;
}

/* ---- the tree ---- */

#define MAX_TREE 40000	/* of the page's bytes a hundredth, at most */

struct growth {
	struct column_bytes c[TREE_N_COLUMNS];
	struct report_writer *w;
	const struct calltree *t;
	double least;		/* smaller ones are put together */
	uint64_t *calls;	/* of each node with all below it */
	uint32_t n, n_roots;
	uint32_t depth;
};

/* The largest share that a node has of any sum: what is much by one measure is
 * shown, whichever one the reader chooses. */
static double share(const struct calltree *t, uint32_t i)
{
	const struct call_count *all = &t->nodes[0].total;
	const struct call_count *c = &t->nodes[i].total;
	double s[4] = { all->ns ? (double)c->ns / (double)all->ns : 0,
			all->insns ? (double)c->insns / (double)all->insns : 0,
			all->branches ? (double)c->branches /
						(double)all->branches : 0,
			all->cycles ? (double)c->cycles / (double)all->cycles :
				      0 };

	for (int k = 1; k < 4; k++)
		if (s[k] > s[0])
			s[0] = s[k];
	return s[0];
}

/* One node of the tree. */
static void put_branch(struct growth *g, uint32_t depth, uint32_t func,
		       uint64_t calls, const struct call_count *own)
{
	column_put(&g->c[TREE_DEPTH], zigzag((int64_t)depth - g->depth));
	column_put(&g->c[TREE_FUNC], func >= CALLTREE_FOLDED ? ~func :
			   func + CALLTREE_N_OTHERS + 1);
	column_put(&g->c[TREE_CALLS], calls);
	column_put(&g->c[TREE_NS], own->ns);
	column_put(&g->c[TREE_INSNS], own->insns);
	column_put(&g->c[TREE_BRANCHES], own->branches);
	column_put(&g->c[TREE_CYCLES], own->cycles);
	g->depth = depth;
	g->n++;
}

/* Children that are too small, as one. */
static void put_rest(struct growth *g, uint32_t node)
{
	struct call_count sum = { 0 };
	uint64_t calls = 0;
	uint32_t i = g->t->nodes[node].child;

	for (; i; i = g->t->nodes[i].next) {
		if (share(g->t, i) >= g->least)
			continue;
		sum = call_plus(sum, g->t->nodes[i].total);
		calls += g->calls[i];
	}
	if (calls | sum.ns | sum.insns)
		put_branch(g, g->t->nodes[node].depth + 1, CALLTREE_FOLDED,
			   calls, &sum);
}

/* The first of these siblings that is not too small; 0: none. */
static uint32_t large_one(const struct growth *g, uint32_t i)
{
	while (i && share(g->t, i) < g->least)
		i = g->t->nodes[i].next;
	return i;
}

/* A thread's name, in the order of the tree. */
static void put_root(struct growth *g, uint32_t i)
{
	char buf[CALLTREE_NAME];

	if (g->n_roots++)
		outbuf_put(g->w->roots, ",", 1);
	outbuf_json(g->w->roots, calltree_name(g->t, g->w->r->calls, i, buf));
}

/* Below node 0, which is the sum; parents before their children. */
static void put_tree(struct growth *g)
{
	const struct calltree_node *v = g->t->nodes;
	uint32_t i = 0, next;

	do {
		put_branch(g, v[i].depth, v[i].func, v[i].calls, &v[i].own);
		if (i && v[i].func == CALLTREE_ROOT)
			put_root(g, i);
		put_rest(g, i);
		next = large_one(g, v[i].child);
		while (i && !next) {
			next = large_one(g, v[i].next);
			i = v[i].parent;
		}
		i = next;
	} while (i);
}

static int compare_shares(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x < y) - (x > y);
}

/* The least share of those that are shown: at most max nodes are, within
 * MAX_TREE. */
static int choose_least(const struct calltree *t, uint64_t max, double *least)
{
	double *v;

	*least = 0;
	if (max > MAX_TREE)
		max = MAX_TREE;
	if (t->n <= max)
		return 0;
	v = calloc(t->n, sizeof(*v));
	if (!v)
		return -AUX_E_NOMEM;
	for (uint32_t i = 0; i < t->n; i++)
		v[i] = share(t, i);
	qsort(v, t->n, sizeof(*v), compare_shares);
	*least = v[max];
	free(v);
	return 0;
}

/* Calls of each node with all below it. A gap, or time when the trace was off,
 * is no call. */
static int sum_calls(struct growth *g)
{
	const struct calltree_node *v = g->t->nodes;

	g->calls = calloc(g->t->n, sizeof(*g->calls));
	if (!g->calls)
		return -AUX_E_NOMEM;
	for (uint32_t i = g->t->n; i-- > 1;) {
		if (!calltree_is_away(v[i].func))
			g->calls[i] += v[i].calls;
		g->calls[v[i].parent] += g->calls[i];
	}
	return 0;
}

int report_pack_tree(struct report_writer *w, struct outbuf *out)
{
	struct growth g = { .w = w, .t = &w->r->tree };
	struct report_blocks blocks = { 0 };
	int err;

	calltree_sum(&w->r->tree);
	err = calltree_sort(&w->r->tree, w->r->tree.nodes[0].total.ns ?
				CALLTREE_BY_NS : CALLTREE_BY_INSNS);
	if (!err)
		err = choose_least(g.t, w->r->config.max_size / 100, &g.least);
	if (!err)
		err = sum_calls(&g);
	if (!err) {
		put_tree(&g);
		err = report_add_columns(&blocks, "tree", g.n, 0, g.c,
					 TREE_N_COLUMNS);
	}
	if (!err)
		err = report_put_blocks(&blocks, out, 1);
	free(g.calls);
	for (unsigned i = 0; i < TREE_N_COLUMNS; i++)
		free(g.c[i].p);
	return err;
}
