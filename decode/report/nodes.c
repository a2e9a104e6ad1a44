/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_report_nodes: the lanes' nodes, and the call tree, as blocks of columns; and
 * the places that calls come from, each once.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/report/report.h"
#include "decode/report/write.h"

#define BLOCK_NODES 32768
#define MAX_SITES   65536

/* ---- places of calls ---- */

static uint32_t hash_site(uint64_t addr)
{
	return (uint32_t)(addr * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/* 1 and up; 0: there are too many. */
uint32_t report_site(struct report_sites *s, uint64_t addr, uint32_t func)
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

struct packing {
	struct report_writer *w;
	struct column_bytes c[NODE_N_COLUMNS];
	uint32_t n;		/* in this block */
	uint64_t start;		/* of the one before */
	uint16_t depth;
	uint32_t func[REPORT_DEPTH + 1]; /* of the node at each depth */
};

/* In the file's ticks; both ends are rounded alike, so nothing sticks out. */
static uint64_t place(const struct report_writer *w, uint64_t ticks)
{
	return (ticks - w->r->first) >> w->shift;
}

static void pack_extra(struct packing *p, const struct report_node *n,
		       uint64_t length)
{
	uint64_t busy = n->flags & REPORT_MERGED ? n->from >> p->w->shift :
						   length;

	column_put(&p->c[NODE_EXTRA], n->count ? n->count - 1 : 0);
	column_put(&p->c[NODE_EXTRA], n->deep);
	column_put(&p->c[NODE_EXTRA], busy);
}

static void pack_node(struct packing *p, const struct report_node *n)
{
	const struct report_writer *w = p->w;
	bool merged = n->flags & REPORT_MERGED, extra = merged || n->count > 1;
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
			   (extra ? NODE_HAS_EXTRA : 0));
	column_put(&p->c[NODE_SITE],
		   merged ? 0 : report_site(&p->w->sites, n->from, caller));
	if (extra)
		pack_extra(p, n, length);
	p->start = start;
	p->depth = n->depth;
	p->n++;
}

static int flush_nodes(struct packing *p, const struct report_lane *l)
{
	int err = 0;

	if (p->n)
		err = report_pack_columns(p->w->nodes, "nodes", p->n, l->id,
					  p->c, NODE_N_COLUMNS);
	p->n = 0;
	p->start = 0;
	p->depth = 0;
	return err;
}

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

static void put_branch(struct growth *g, uint32_t depth, uint32_t func,
		       uint64_t calls, const struct call_count *own)
{
	column_put(&g->c[TREE_DEPTH], zigzag((int64_t)depth - g->depth));
	column_put(&g->c[TREE_FUNC], func > UINT32_MAX - 4 ? ~func : func + 4);
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
	report_json(g->w->roots, calltree_name(g->t, g->w->r->calls, i, buf));
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

/* The least share of those that are shown. */
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

/* A gap, or time when the trace was off, is no call. */
static int sum_calls(struct growth *g)
{
	const struct calltree_node *v = g->t->nodes;

	g->calls = calloc(g->t->n, sizeof(*g->calls));
	if (!g->calls)
		return -AUX_E_NOMEM;
	for (uint32_t i = g->t->n; i-- > 1;) {
		if (v[i].func != CALLTREE_GAP && v[i].func != CALLTREE_OFF)
			g->calls[i] += v[i].calls;
		g->calls[v[i].parent] += g->calls[i];
	}
	return 0;
}

int report_pack_tree(struct report_writer *w, struct outbuf *out)
{
	struct growth g = { .w = w, .t = &w->r->tree };
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
		err = report_pack_columns(out, "tree", g.n, 0, g.c,
					  TREE_N_COLUMNS);
	}
	free(g.calls);
	for (unsigned i = 0; i < TREE_N_COLUMNS; i++)
		free(g.c[i].p);
	return err;
}

/*
 * sink_report_func: how long the calls of a function took, and which were the
 * slowest. Those are pinned: their nodes stay, and with them the nodes they are in.
 */

static int grow_funcs(struct report *r, uint32_t n)
{
	uint32_t max = r->n_funcs ? r->n_funcs : 256;
	struct report_func *grown;

	while (max < n)
		max *= 2;
	grown = reallocarray(r->funcs, max, sizeof(*grown));
	if (!grown)
		return -AUX_E_NOMEM;
	memset(grown + r->n_funcs, 0, (max - r->n_funcs) * sizeof(*grown));
	r->funcs = grown;
	r->n_funcs = max;
	return 0;
}

/* A new pin; REPORT_NONE: out of memory. */
static uint32_t add_pin(struct report *r)
{
	uint32_t max = r->max_pins ? 2 * r->max_pins : 1024;
	struct report_pin *grown;

	if (r->n_pins == r->max_pins) {
		grown = reallocarray(r->pins, max, sizeof(*grown));
		if (!grown)
			return REPORT_NONE;
		r->pins = grown;
		r->max_pins = max;
	}
	r->pins[r->n_pins] = (struct report_pin){ .alive = true,
						  .node = REPORT_NONE };
	return r->n_pins++;
}

int report_func_took(struct report *r, struct report_node *node,
		     uint64_t ticks)
{
	struct report_func *f;
	int64_t slot;
	uint32_t pin;
	int err = 0;

	if (node->func >= r->n_funcs)
		err = grow_funcs(r, node->func + 1);
	if (err)
		return err;
	f = &r->funcs[node->func];
	if (!f->slow.max)
		err = slowest_init(&f->slow, REPORT_SLOWEST);
	if (!err)
		err = calltimes_add(&f->times, ticks);
	if (err || !slowest_wants(&f->slow, ticks))
		return err;
	pin = add_pin(r);
	if (pin == REPORT_NONE)
		return -AUX_E_NOMEM;
	if (f->slow.n == f->slow.max)
		r->pins[f->pins[f->slow.v[0].slot]].alive = false;
	slot = slowest_offer(&f->slow, ticks);
	if (slot < 0)
		return 0;
	f->pins[slot] = pin;
	node->pin = pin + 1;
	return 0;
}

void report_func_fini(struct report_func *f)
{
	calltimes_fini(&f->times);
	slowest_fini(&f->slow);
}

/*
 * sink_report_fit: fewer nodes. The time is cut into windows that may each keep as
 * many nodes, those that are longest; where little happens all stay. What a function's
 * slowest calls did inside stays too, within a part of all that may stay. Neighbours that
 * do not stay become one node. A node that stands for many may
 * take more the next time.
 */

#define N_WINDOWS 512
#define N_CLASSES 256	/* of lengths: quarters of powers of two */

struct fit {
	struct report *r;
	uint64_t first, width;	/* of windows */
	uint64_t want;
	uint32_t (*n)[N_CLASSES];	/* nodes by window and class */
	uint8_t above[N_WINDOWS];	/* this class and longer ones stay */
	uint32_t whole;		/* nodes of a slow call that stay whole */
	unsigned ranks;		/* of slow calls that stay */
};

/* 0 for a length of 0, then quarters of powers of two. */
static unsigned class_of(uint64_t ticks)
{
	unsigned top;

	if (ticks < 4)
		return (unsigned)ticks;
	top = 63 - (unsigned)__builtin_clzll(ticks);
	return (top - 1) * 4 + (unsigned)(ticks >> (top - 2) & 3);
}

/* The least length in a class. */
static uint64_t class_begin(unsigned class)
{
	if (class < 4)
		return class;
	return (uint64_t)(4 + class % 4) << (class / 4 - 1);
}

static unsigned window_of(const struct fit *f, uint64_t at)
{
	uint64_t w = at < f->first ? 0 : (at - f->first) / f->width;

	return w < N_WINDOWS ? (unsigned)w : N_WINDOWS - 1;
}

/* Merged ones do not stay for their length: they may take more. */
static bool is_long(const struct fit *f, const struct report_node *n)
{
	return !(n->flags & REPORT_MERGED) &&
	       class_of(n->end - n->start) >= f->above[window_of(f, n->start)];
}

static void count_nodes(struct fit *f)
{
	memset(f->n, 0, N_WINDOWS * sizeof(*f->n));
	for (uint32_t i = 0; i < f->r->n_lanes; i++) {
		const struct report_lane *l = f->r->lanes[i];

		for (uint32_t k = 0; k < l->n; k++) {
			const struct report_node *n = &l->nodes[k];

			f->n[window_of(f, n->start)]
			    [class_of(n->end - n->start)] +=
				!(n->flags & REPORT_MERGED);
		}
	}
}

/* How many nodes would stay when no window has more than max. */
static uint64_t choose(struct fit *f, uint64_t max)
{
	uint64_t all = 0;

	for (unsigned w = 0; w < N_WINDOWS; w++) {
		uint64_t n = 0;
		unsigned c = N_CLASSES;

		while (c && n + f->n[w][c - 1] <= max)
			n += f->n[w][--c];
		f->above[w] = (uint8_t)(c < N_CLASSES ? c : N_CLASSES - 1);
		all += n;
	}
	return all;
}

static void choose_classes(struct fit *f)
{
	uint64_t low = 0, high = f->want;

	while (low < high) {
		uint64_t mid = high - (high - low) / 2;

		if (choose(f, mid) <= f->want)
			low = mid;
		else
			high = mid - 1;
	}
	choose(f, low);
}

/* ---- what stays ---- */

static bool is_pinned(const struct fit *f, const struct report_node *n)
{
	return n->pin && f->r->pins[n->pin - 1].alive &&
	       f->r->pins[n->pin - 1].rank < f->ranks;
}

static void rank_pins(struct report *r)
{
	for (uint32_t i = 0; i < r->n_funcs; i++) {
		const struct report_func *f = &r->funcs[i];

		for (uint32_t k = 0; k < f->slow.n; k++) {
			const struct slow *a = &f->slow.v[k];
			uint8_t rank = 0;

			for (uint32_t m = 0; m < f->slow.n; m++)
				rank += f->slow.v[m].value > a->value ||
					(f->slow.v[m].value == a->value &&
					 f->slow.v[m].order < a->order);
			r->pins[f->pins[a->slot]].rank = rank;
		}
	}
}

/* Nodes that are pinned, and those they are in. */
static uint64_t count_pinned(const struct fit *f)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < f->r->n_lanes; i++) {
		const struct report_lane *l = f->r->lanes[i];
		uint32_t depth = 0;

		for (uint32_t k = l->n; k-- > 0;) {
			if (!is_pinned(f, &l->nodes[k]) &&
			    depth <= l->nodes[k].depth)
				continue;
			depth = l->nodes[k].depth;
			n++;
		}
	}
	return n;
}

/* Nodes inside of node i; 0: too many, or some are merged already. */
static uint32_t inside(const struct fit *f, const struct report_lane *l,
		       uint32_t i)
{
	uint32_t end = i + 1;

	for (; end < l->n && l->nodes[end].depth > l->nodes[i].depth; end++)
		if (end - i > f->whole || l->nodes[end].flags & REPORT_MERGED)
			return 0;
	return end - i - 1;
}

/* Slow calls stay as a whole while they are small enough all together. */
static uint64_t keep_whole(const struct fit *f, struct report_lane *l)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < l->n; i++) {
		uint32_t more;

		if (!is_pinned(f, &l->nodes[i]))
			continue;
		more = inside(f, l, i);
		for (uint32_t k = i + 1; k <= i + more; k++) {
			n += !(l->nodes[k].flags & REPORT_KEEP);
			l->nodes[k].flags |= REPORT_KEEP;
		}
	}
	return n;
}

static void keep_none(struct report *r)
{
	for (uint32_t i = 0; i < r->n_lanes; i++)
		for (uint32_t k = 0; k < r->lanes[i]->n; k++)
			r->lanes[i]->nodes[k].flags &= (uint8_t)~REPORT_KEEP;
}

static void keep_slow(struct fit *f)
{
	uint64_t n;

	do {
		keep_none(f->r);
		n = 0;
		for (uint32_t i = 0; i < f->r->n_lanes && f->whole; i++)
			n += keep_whole(f, f->r->lanes[i]);
		f->whole /= 2;
	} while (n > f->want / 4);
}

/* What is long, pinned or open, and all that these are in. */
static void keep_lane(const struct fit *f, struct report_lane *l)
{
	uint32_t depth = 0; /* what stays behind here is at this depth */

	for (uint32_t i = l->n; i-- > 0;) {
		struct report_node *n = &l->nodes[i];

		if (is_long(f, n) || is_pinned(f, n) || depth > n->depth ||
		    n->flags & REPORT_OPEN)
			n->flags |= REPORT_KEEP;
		if (n->flags & REPORT_KEEP)
			depth = n->depth;
	}
}

/* ---- merging ---- */

/* The function that takes most: by majority vote, each with its time. */
static void vote(struct report_node *to, uint32_t func, uint64_t weight)
{
	if (to->func == func) {
		to->cycles += weight;
	} else if (to->cycles >= weight) {
		to->cycles -= weight;
	} else {
		to->func = func;
		to->cycles = weight - to->cycles;
	}
}

static void make_merged(struct report_node *n)
{
	if (n->flags & REPORT_MERGED)
		return;
	n->flags |= REPORT_MERGED;
	n->from = n->end - n->start;
	n->cycles = n->from + 1;
	n->pin = 0;
}

static void absorb(struct report_node *to, const struct report_node *n)
{
	bool merged = n->flags & REPORT_MERGED;
	uint64_t took = merged ? n->from : n->end - n->start;

	make_merged(to);
	vote(to, n->func, merged ? n->cycles : took + 1);
	if (n->end > to->end)
		to->end = n->end;
	to->from += took;
	to->insns += n->insns;
	to->count += n->count;
	if (n->deep > to->deep)
		to->deep = n->deep;
}

/* A node inside of one that is merged. */
static void absorb_inner(struct report_node *to, const struct report_node *n)
{
	uint32_t deep = (uint32_t)n->depth - to->depth + n->deep;

	make_merged(to);
	to->count += n->count;
	if (deep > to->deep)
		to->deep = (uint16_t)(deep < UINT16_MAX ? deep : UINT16_MAX);
}

static bool can_absorb(const struct fit *f, const struct report_node *to,
		       const struct report_node *n)
{
	uint64_t step = class_begin(f->above[window_of(f, n->start)]);

	return !(to->flags & REPORT_KEEP) && to->depth == n->depth &&
	       n->start <= to->end + step;
}

static void merge_lane(const struct fit *f, struct report_lane *l)
{
	struct report_node *nodes = l->nodes, *to = NULL;
	uint32_t open = 0, out = 0;
	uint32_t inner = REPORT_NONE; /* depth of what goes into to */

	for (uint32_t i = 0; i < l->n; i++) {
		const struct report_node n = nodes[i];

		if (n.depth <= inner)
			inner = REPORT_NONE;
		if (inner != REPORT_NONE) {
			absorb_inner(to, &n);
			continue;
		}
		if (!(n.flags & REPORT_KEEP))
			inner = n.depth;
		if (to && inner != REPORT_NONE && can_absorb(f, to, &n)) {
			absorb(to, &n);
			continue;
		}
		while (open < l->n_open && l->open[open] < i)
			open++;
		if (open < l->n_open && l->open[open] == i)
			l->open[open] = out;
		to = &nodes[out++];
		*to = n;
	}
	l->n = out;
}

static void give_back(struct report_lane *l)
{
	struct report_node *less;
	uint32_t max = l->n + l->n / 2 + 64;

	if (max >= l->max)
		return;
	less = reallocarray(l->nodes, max, sizeof(*less));
	if (!less)
		return;
	l->nodes = less;
	l->max = max;
}

static void fit_once(struct fit *f)
{
	struct report *r = f->r;

	r->n_nodes = 0;
	count_nodes(f);
	choose_classes(f);
	keep_slow(f);
	for (uint32_t i = 0; i < r->n_lanes; i++) {
		keep_lane(f, r->lanes[i]);
		merge_lane(f, r->lanes[i]);
		give_back(r->lanes[i]);
		r->n_nodes += r->lanes[i]->n;
	}
	keep_none(r);
}

int report_fit(struct report *r, uint64_t n)
{
	struct fit *f;
	int err = 0;

	for (uint32_t i = 0; i < r->n_lanes && !err; i++)
		err = report_lane_settle(r, r->lanes[i]);
	if (err || r->n_nodes <= n)
		return err;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -AUX_E_NOMEM;
	f->n = calloc(N_WINDOWS, sizeof(*f->n));
	if (!f->n) {
		free(f);
		return -AUX_E_NOMEM;
	}
	f->r = r;
	f->first = r->first;
	f->width = r->last > r->first ? (r->last - r->first) / N_WINDOWS + 1 : 1;
	rank_pins(r);
	f->ranks = REPORT_SLOWEST;
	while (f->ranks && count_pinned(f) > n / 3)
		f->ranks--;
	for (unsigned turn = 0; turn < 16 && r->n_nodes > n; turn++) {
		f->want = n * 2 / (3 + turn * turn);
		f->whole = turn < 4 ? 4096 >> 3 * turn : 0;
		if (turn > 12)
			f->ranks = 0;
		fit_once(f);
	}
	free(f->n);
	free(f);
	return 0;
}
