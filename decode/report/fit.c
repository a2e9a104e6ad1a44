/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * report_fit: which nodes stay when there are too many.
 *
 * The recording's time is cut into N_WINDOWS windows. Each may keep the same
 * number of nodes, its longest ones, so a busy second does not cost a quiet one
 * its detail. The calls that were the slowest of their function stay (pins),
 * and what ran inside of them while that is at most a quarter of all.
 * Neighbours that do not stay become one merged node, which may take in more
 * the next time.
 *
 * Fitting runs while the flow still comes, whenever memory holds max_nodes, and
 * again at the end for the size of the file. Nodes of frames that still run are
 * never merged: lane->open points at them by index.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "decode/report/impl.h"

/*
 * ---- functions: how long their calls took, and the slowest ----
 *
 * The slowest calls are pinned: their nodes stay, and with them the nodes they
 * are in. A pin dies when its call is not among the slowest any more; then its
 * node may be merged like any other.
 */

/* Room for functions up to n - 1; new ones are zero. */
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
	if (array_grow(&r->pins, r->n_pins, &r->max_pins, sizeof(*r->pins)))
		return REPORT_NONE;
	r->pins[r->n_pins] = (struct report_pin){ .alive = true,
						  .node = REPORT_NONE };
	return r->n_pins++;
}

/* Counts the call, and pins its node if it is among the slowest. */
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

#define N_WINDOWS 512
#define N_CLASSES 256	/* of lengths: quarters of powers of two */

/* One call of report_fit. */
struct fit {
	struct report *r;
	uint64_t first, width;	/* of windows */
	uint64_t want;
	uint32_t (*n)[N_CLASSES];	/* nodes by window and class */
	uint8_t above[N_WINDOWS];	/* this class and longer ones stay */
	uint32_t whole;		/* nodes of a slow call that stay whole */
	unsigned ranks;		/* of slow calls that stay */
	/* the window of the node before: [from, to) */
	unsigned window;
	uint64_t from, to;
	struct pinned {
		struct report_lane *lane;
		uint32_t node;
	} *pinned;		/* nodes; room for all of r->pins */
	size_t n_pinned;
};

/* A logarithm: 0 for a length of 0, then quarters of powers of two. */
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

/* Nodes are asked for in order: the next one is most often in the same window, and a
 * division for each costs more than all else. */
static unsigned window_of(struct fit *f, uint64_t at)
{
	uint64_t w;

	if (at >= f->from && at < f->to)
		return f->window;
	w = at < f->first ? 0 : (at - f->first) / f->width;
	f->window = w < N_WINDOWS ? (unsigned)w : N_WINDOWS - 1;
	if (at >= f->first && w < N_WINDOWS) {
		f->from = f->first + w * f->width;
		f->to = f->from + f->width;
	}
	return f->window;
}

/* Merged ones do not stay for their length: they may take in more. */
static bool is_long(struct fit *f, const struct report_node *n)
{
	return !(n->flags & REPORT_MERGED) &&
	       class_of(n->end - n->start) >= f->above[window_of(f, n->start)];
}

/* A histogram of lengths for each window. */
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

/* The largest number per window with which all together fit, by bisection. */
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

/* Its call is still one of the slowest, and of a rank that stays. */
static bool is_pinned(const struct fit *f, const struct report_node *n)
{
	return n->pin && f->r->pins[n->pin - 1].alive &&
	       f->r->pins[n->pin - 1].rank < f->ranks;
}

/* 0 for the slowest of a function. */
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

/* Nodes that are pinned, and those they are in: backwards, for parents come
 * first. */
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

static void find_pinned(struct fit *f)
{
	f->n_pinned = 0;
	for (uint32_t i = 0; i < f->r->n_lanes && f->ranks; i++) {
		struct report_lane *l = f->r->lanes[i];

		for (uint32_t k = 0; k < l->n; k++)
			if (is_pinned(f, &l->nodes[k]))
				f->pinned[f->n_pinned++] = (struct pinned){ l, k };
	}
}

/* Marks what is inside of slow calls, or takes the marks back; returns how many
 * were set. */
static uint64_t mark_whole(const struct fit *f, bool keep)
{
	uint64_t n = 0;

	for (size_t i = 0; i < f->n_pinned; i++) {
		struct report_lane *l = f->pinned[i].lane;
		uint32_t k = f->pinned[i].node, end = k + inside(f, l, k);

		for (k++; k <= end; k++) {
			uint8_t *flags = &l->nodes[k].flags;

			n += keep && !(*flags & REPORT_KEEP);
			*flags = keep ? *flags | REPORT_KEEP :
					*flags & (uint8_t)~REPORT_KEEP;
		}
	}
	return n;
}

/* What ran inside of slow calls stays while that is at most a quarter of all:
 * otherwise only that of smaller ones. No node is marked before. */
static void keep_slow(struct fit *f)
{
	uint64_t n;

	find_pinned(f);
	do {
		n = f->whole ? mark_whole(f, true) : 0;
		if (n > f->want / 4)
			mark_whole(f, false);
		f->whole /= 2;
	} while (n > f->want / 4);
}

/* Marks what is long, pinned or open, and all that these are in. Backwards:
 * depth is that of the marked node that follows. */
static void keep_lane(struct fit *f, struct report_lane *l)
{
	uint32_t depth = 0; /* depth of the marked node that follows */

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

/*
 * The function that takes most, by majority vote (Boyer and Moore), each with
 * its time as weight; the weight so far is in cycles, which a merged node has
 * no other use for.
 */
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

/* from is the time in calls from now on: the node may be longer than what it
 * stands for. */
static void make_merged(struct report_node *n)
{
	if (n->flags & REPORT_MERGED)
		return;
	n->flags |= REPORT_MERGED;
	n->from = n->end - n->start;
	n->cycles = n->from + 1;
	n->pin = 0;
}

/* n goes into to, which stands for both. */
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

/* A node inside of one that is merged: counted, and its depth. */
static void absorb_inner(struct report_node *to, const struct report_node *n)
{
	uint32_t deep = (uint32_t)n->depth - to->depth + n->deep;

	make_merged(to);
	to->count += n->count;
	if (deep > to->deep)
		to->deep = (uint16_t)(deep < UINT16_MAX ? deep : UINT16_MAX);
}

/* Neighbours of one depth, no further apart than what is short here. */
static bool can_absorb(struct fit *f, const struct report_node *to,
		       const struct report_node *n)
{
	uint64_t step = class_begin(f->above[window_of(f, n->start)]);

	return !(to->flags & REPORT_KEEP) && to->depth == n->depth &&
	       n->start <= to->end + step;
}

/* In place, in order, without the marks. Open frames keep the number of their node
 * right. */
static void merge_lane(struct fit *f, struct report_lane *l)
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
		if (to)
			to->flags &= (uint8_t)~REPORT_KEEP;
		to = &nodes[out++];
		*to = n;
	}
	if (to)
		to->flags &= (uint8_t)~REPORT_KEEP;
	l->n = out;
}

/* Memory that merging has freed. */
static void give_back(struct report_lane *l)
{
	struct report_node *less;
	size_t max = (size_t)l->n + l->n / 2 + 64;

	if (max >= l->max)
		return;
	less = reallocarray(l->nodes, max, sizeof(*less));
	if (!less)
		return;
	l->nodes = less;
	l->max = max;
}

/* All lanes, by one choice of classes. */
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
}

static void free_fit(struct fit *f)
{
	free(f->pinned);
	free(f->n);
	free(f);
}

/* Merging does not reach the number at once, since parents of what stays stay
 * too: each turn wants less than the one before, and lets pins go at last. */
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
	f->pinned = reallocarray(NULL, r->n_pins + (size_t)1, sizeof(*f->pinned));
	if (!f->n || !f->pinned) {
		free_fit(f);
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
	free_fit(f);
	return 0;
}
