/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lanes: what each thread did over time, as parts of buckets. The parts are
 * those of struct call_count, so a lane adds up to what the call tree has of its
 * thread. How long the recording is shows only as it is decoded: where the axis
 * becomes too short, two buckets are made one, of all lanes.
 */
#include <stdlib.h>

#include "common/array.h"
#include "decode/tui/impl.h"

#define MAX_LANES 1000
#define ALL_BUCKETS (2u << 20)	/* of all lanes */
#define MIN_WIDTH 64

void lanes_fini(struct lanes *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i]->v);
		free(l->v[i]);
	}
	free(l->v);
	*l = (struct lanes){ .from = UINT64_MAX };
}

static void vote(struct lane_bucket *b, uint32_t func, float votes)
{
	if (b->func == func) {
		b->votes += votes;
	} else if (votes > b->votes) {
		b->func = func;
		b->votes = votes - b->votes;
	} else {
		b->votes -= votes;
	}
}

/* Adds a share of b to sum. */
static void join(struct lane_bucket *sum, const struct lane_bucket *b, float share)
{
	for (unsigned i = 0; i < LANE_N_WHATS; i++)
		sum->part[i] += b->part[i] * share;
	sum->insns += b->insns * share;
	vote(sum, b->func, b->votes * share);
}

static void halve(struct lane *lane)
{
	static const struct lane_bucket none = { .func = CALLTREE_ROOT };

	for (uint32_t i = 0; i < lane->n; i += 2) {
		struct lane_bucket sum = none;

		join(&sum, &lane->v[i], 1);
		if (i + 1 < lane->n)
			join(&sum, &lane->v[i + 1], 1);
		lane->v[i / 2] = sum;
	}
	lane->n = (lane->n + 1) / 2;
}

/* Buckets up to and with i, the new ones empty. */
static int reach(struct lane *lane, uint32_t i)
{
	static const struct lane_bucket none = { .func = CALLTREE_ROOT };

	while (lane->n <= i) {
		size_t n = lane->n;

		if (array_append(&lane->v, &n, &lane->cap, &none, sizeof(none)))
			return -AUX_E_NOMEM;
		lane->n = (uint32_t)n;
	}
	return 0;
}

/* How many buckets a lane may have: many of few lanes, to look at closely. */
static uint64_t max_buckets(const struct lanes *l)
{
	uint64_t n = l->n ? ALL_BUCKETS / l->n : LANE_BUCKETS;

	return n > LANE_BUCKETS ? LANE_BUCKETS : n < LANE_LEAST ? LANE_LEAST : n;
}

/* The axis has both places then. */
static void extend(struct lanes *l, uint64_t from, uint64_t to)
{
	if (l->from == UINT64_MAX) {
		l->from = from;
		l->width = MIN_WIDTH;
	}
	if (to > l->to)
		l->to = to;
	while (l->to >= l->from && (l->to - l->from) / l->width >= max_buckets(l)) {
		for (size_t i = 0; i < l->n; i++)
			halve(l->v[i]);
		l->width *= 2;
	}
}

/* Spreads b evenly over [from, to]. What is before the axis begins counts where
 * it begins: streams are nearly in order. */
static int spread(struct lanes *l, struct lane *lane, uint64_t from, uint64_t to,
		  const struct lane_bucket *b)
{
	uint64_t first, last, start, end;

	extend(l, from, to);
	from = from < l->from ? l->from : from;
	to = to < from ? from : to;
	first = (from - l->from) / l->width;
	last = (to - l->from) / l->width;
	if (reach(lane, (uint32_t)last))
		return -AUX_E_NOMEM;
	for (uint64_t i = first; i <= last; i++) {
		start = l->from + i * l->width;
		end = start + l->width;
		start = start < from ? from : start;
		end = end > to ? to : end;
		join(&lane->v[i], b,
		     to == from ? 1 : (float)(end - start) / (float)(to - from));
	}
	return 0;
}

/* NULL: out of memory, or there are too many. */
static struct lane *add_lane(struct lanes *l, uint32_t root)
{
	struct lane *lane;

	if (l->n >= MAX_LANES) {
		l->n_left_out++;
		return NULL;
	}
	lane = calloc(1, sizeof(*lane));
	if (!lane)
		return NULL;
	lane->root = root;
	if (array_append(&l->v, &l->n, &l->cap, &lane, sizeof(struct lane *))) {
		free(lane);
		return NULL;
	}
	return lane;
}

/* The lane of a thread; an exec begins another one. NULL: it has none. */
static struct lane *lane_of(struct lanes *l, struct flowtree_thread *ft)
{
	struct lane *lane = ft->user;

	if (!ft->ct.root || (lane && lane->root == ft->ct.root))
		return lane;
	for (size_t i = 0; i < l->n; i++) {
		if (l->v[i]->root == ft->ct.root) {
			ft->user = l->v[i];
			return l->v[i];
		}
	}
	ft->user = add_lane(l, ft->ct.root);
	return ft->user;
}

int lanes_seen(struct lanes *l, struct flowtree *t, struct flowtree_thread *ft,
	       uint32_t node)
{
	struct lane *lane = lane_of(l, ft);
	struct call_count now = ft->thread->now, more;
	uint64_t at = l->timed ? now.ns : calls_n_insns(t->calls), from;
	struct lane_bucket b = { .func = t->tree.nodes[node].func };

	if (!lane)
		return 0;
	more = call_minus(now, lane->last);
	from = lane->at;
	lane->last = now;
	lane->at = at;
	if (!lane->seen || !from || at < from) {
		lane->seen = true;
		return 0;
	}
	b.insns = (float)more.insns;
	if (l->timed) {
		b.part[LANE_SELF] = (float)call_self_ns(&more);
		b.part[LANE_OFF] = (float)more.off_ns;
		b.part[LANE_KERNEL] = (float)more.kernel_ns;
		b.part[LANE_UNTRACED] =
			(float)(more.untraced_ns - more.kernel_ns);
		b.part[LANE_LOST] = (float)more.lost_ns;
	} else {
		b.part[LANE_SELF] = b.insns;
		from = at - (more.insns < at ? more.insns : at);
	}
	b.votes = b.part[LANE_SELF];
	return spread(l, lane, from, at, &b);
}

struct lane_bucket lane_sum(const struct lanes *l, const struct lane *lane,
			    uint64_t from, uint64_t to)
{
	struct lane_bucket sum = { .func = CALLTREE_ROOT };
	double part[LANE_N_WHATS] = { 0 }, insns = 0;	/* of very many */
	uint64_t i, start, end, has;
	float share;

	if (from < l->from)
		from = l->from;
	for (i = l->width ? (from - l->from) / l->width : UINT64_MAX;
	     i < lane->n; i++) {
		start = l->from + i * l->width;
		end = start + l->width;
		end = end > l->to ? l->to + 1 : end; /* of the axis so far */
		has = end - start;
		if (start >= to)
			break;
		start = start < from ? from : start;
		end = end > to ? to : end;
		if (start >= end)
			continue;
		share = (float)(end - start) / (float)has;
		for (unsigned k = 0; k < LANE_N_WHATS; k++)
			part[k] += lane->v[i].part[k] * share;
		insns += lane->v[i].insns * share;
		vote(&sum, lane->v[i].func, lane->v[i].votes * share);
	}
	for (unsigned k = 0; k < LANE_N_WHATS; k++)
		sum.part[k] = (float)part[k];
	sum.insns = (float)insns;
	return sum;
}
