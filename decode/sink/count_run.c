/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_count_run: see count.h. The hash of a range, a step or a path is
 * computed once and appended in constant time (common/iphash.h).
 */
#include <stdlib.h>

#include "decode/lib/trace/gap.h"
#include "decode/sink/count.h"
#include "decode/lib/sideband/sideband.h"

#define AHEAD 16 /* events: paths of large programs are in no near cache */
#define MAX_WALK ((size_t)32 << 20) /* bytes kept of ranges */

int counter_init(struct counter *c, const struct sink_host *host)
{
	struct walk_config wc = { .host = host,
				  .user_size = sizeof(struct iphash_block),
				  .max_bytes = MAX_WALK };

	if (walk_new(&c->walk, &wc))
		return -AUX_E_NOMEM;
	count_lore_init(&c->lore, host, c->walk);
	return 0;
}

void counter_fini(struct counter *c)
{
	walk_free(c->walk);
}

/* Instructions and branches, as user[2] has them, of COUNT_SUMS at most. */
static inline void add_sums(struct count_run *run, uint64_t sums)
{
	run->n += sums >> 32;
	run->n_branches += (uint32_t)sums;
}

/* user of a step or path */
static inline void join(struct count_run *run, const uint64_t user[3])
{
	run->value = iphash_join(run->value, user[1], user[0]);
	add_sums(run, user[2]);
}

static struct iphash_block hash_range(const struct walk_range *r)
{
	struct iphash_block b = iphash_block_init();

	for (uint32_t i = 0; i < r->n; i++)
		iphash_block_add(&b, r->first + r->off[i]);
	return b;
}

static inline struct count_hot *find_hot(struct counter *c,
					 const struct aux_flow *ev)
{
	uint64_t h = ev->range.first ^ ev->range.last << 5;

	return &c->hot[(h ^ h >> 12) & (COUNT_HOT - 1)];
}

/* Is it this range, and in this space? */
static inline bool is_hot(const struct count_hot *h, const struct aux_flow *ev,
			  uint64_t space)
{
	return h->first == ev->range.first && h->last == ev->range.last &&
	       h->n == ev->n && h->mode == (ev->flags & AUX_FLOW_MODE_MASK) &&
	       h->space == space;
}

static inline void join_hot(struct count_run *run, const struct count_hot *h,
			    const struct aux_flow *ev)
{
	run->value = iphash_join(run->value, h->power8, h->value);
	run->n += h->n;
	run->n_branches += ev->what != AUX_END_FALL;
}

static int add_range(struct counter *c, const struct flow_ctx *ctx,
		     const struct aux_flow *ev)
{
	struct iphash_block *b;
	struct walk_range *r;
	struct count_hot *hot = find_hot(c, ev);
	int err = walk_find(c->walk, ctx->space, ev, &r);

	if (err == -AUX_E_NOMEM)
		return err;
	if (err) {
		c->report.n_insns += ev->n;
		c->report.n_mismatches++;
		c->run.n_gaps++;
		return c->mismatch(c->priv, ctx, ev, err);
	}
	b = r->user;
	if (!b->power)
		*b = hash_range(r);
	*hot = (struct count_hot){ .first = ev->range.first,
				   .last = ev->range.last,
				   .n = ev->n,
				   .mode = ev->flags & AUX_FLOW_MODE_MASK,
				   .space = ctx->space ? ctx->space->id : 0,
				   .value = b->value,
				   .power8 = b->power << 3 };
	join_hot(&c->run, hot, ev);
	return 0;
}

/* The ranges of a step, one by one, each at the place of the path. */
static int add_ranges(struct counter *c, const struct flow_ctx *ctx,
		      const struct aux_step *step, uint64_t offset)
{
	struct aux_flow ev;
	int err = 0;

	for (uint32_t i = 0; i < step->n_ranges && !err; i++) {
		ev = step->ranges[i];
		ev.offset = offset;
		err = add_range(c, ctx, &ev);
	}
	return err;
}

/* Counts a step, known or not. */
static int add_step(struct counter *c, const struct flow_ctx *ctx,
		    struct aux_step *step, uint64_t offset)
{
	int err;

	if (!step->user[1]) {
		err = count_learn_step(&c->lore, ctx->space, step);
		if (err)
			return err;
	}
	if (!step->user[1])
		return add_ranges(c, ctx, step, offset);
	join(&c->run, step->user);
	return 0;
}

static int add_path(struct counter *c, const struct flow_ctx *ctx,
		    const struct aux_flow *ev)
{
	struct aux_path *path = ev->path.path;
	int err = 0;

	if (path->kept)	/* most of its steps were in others before */
		count_learn_path(path);
	if (path->kept && path->user[1]) {
		join(&c->run, path->user);
		return 0;
	}
	for (uint32_t i = 0; i < path->n_steps && !err; i++)
		err = add_step(c, ctx, path->steps[i], ev->offset);
	if (!err && path->kept)
		count_learn_path(path);
	return err;
}

/* What is not known yet. */
static int add_new(struct counter *c, const struct flow_ctx *ctx,
		   const struct aux_flow *ev)
{
	if (ev->kind == AUX_FLOW_PATH)
		return add_path(c, ctx, ev);
	return add_range(c, ctx, ev);
}

/* Adds all of a path that is not kept; false, and nothing, if a step is new. */
static inline bool join_steps(struct count_run *run, const struct aux_path *path)
{
	struct count_run sum = *run;

	for (uint32_t i = 0; i < path->n_steps; i++) {
		if (!path->steps[i]->user[1])
			return false;
		join(&sum, path->steps[i]->user);
	}
	*run = sum;
	return true;
}

static inline bool join_path(struct count_run *run, const struct aux_path *path)
{
	if (!path->kept)
		return join_steps(run, path);
	if (!path->user[1])
		return false;
	join(run, path->user);
	return true;
}

/* False: it is not known. */
static inline bool join_event(struct count_run *run, struct counter *c,
			      const struct aux_flow *ev, uint64_t space)
{
	const struct count_hot *hot;

	if (ev->kind == AUX_FLOW_PATH)
		return join_path(run, ev->path.path);
	if (ev->kind == AUX_FLOW_RANGE) {
		hot = find_hot(c, ev);
		if (!is_hot(hot, ev, space))
			return false;
		join_hot(run, hot, ev);
	} else if (ev->kind == AUX_FLOW_GAP) {
		run->n_gaps += ev->what != GAP_SNAPSHOT;
	}
	return true;
}

/* A path that is kept and known: most of all events. */
static inline bool is_ready(const struct aux_flow *ev)
{
	const struct aux_path *path = ev->path.path;

	return ev->kind == AUX_FLOW_PATH && path->kept && path->user[1];
}

static inline uint64_t extend(uint64_t value, const struct aux_path *path)
{
	return iphash_extend(value, path->user[1], path->user[0]);
}

/* What the event will add; if it is no PATH, nobody knows what is fetched. */
static inline void fetch(const struct aux_flow *ev)
{
	uintptr_t path = (uintptr_t)ev->path.path;

	__builtin_prefetch((void *)(path + offsetof(struct aux_path, user)));
}

/*
 * Counts pairs of events that are ready, of n <= COUNT_SUMS; ahead more can be
 * looked at. Returns where they end. A chain of multiplications is all that one
 * event waits for. A function of its own: all is in registers.
 */
static __attribute__((noinline)) const struct aux_flow *
join_pairs(struct count_run *run, const struct aux_flow *ev, size_t n,
	   size_t ahead)
{
	const struct aux_flow *end = ev + n - 1;
	uint64_t value = run->value, sums = 0;

	for (; ev < end && is_ready(&ev[0]) && is_ready(&ev[1]); ev += 2) {
		fetch(&ev[ahead]);
		fetch(&ev[ahead + 1]);
		value = extend(value, ev[0].path.path);
		value = extend(value, ev[1].path.path);
		value = iphash_fold(value);
		sums += ev[0].path.path->user[2];
		sums += ev[1].path.path->user[2];
	}
	run->value = value;
	add_sums(run, sums);
	return ev;
}

/* Counts events up to the first that is not known. Returns how many. */
static size_t add_known(struct counter *c, uint64_t space,
			const struct aux_flow *ev, size_t n)
{
	const struct aux_flow *p = ev, *end = ev + n;
	struct count_run run = c->run;
	size_t left;

	while (p < end) {
		left = (size_t)(end - p);
		if (left > COUNT_SUMS)
			left = COUNT_SUMS;
		p = left > AHEAD ? join_pairs(&run, p, left - AHEAD, AHEAD) :
				   join_pairs(&run, p, left, 0);
		if (p < end && !join_event(&run, c, p, space))
			break;
		p += p < end;
	}
	c->run = run;
	return (size_t)(p - ev);
}

int counter_add(struct counter *c, const struct flow_ctx *ctx,
		const struct aux_flow *ev, size_t n)
{
	uint64_t space = ctx->space ? ctx->space->id : 0, before = c->run.n;
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		i += add_known(c, space, ev + i, n - i);
		if (i < n)
			err = add_new(c, ctx, &ev[i]);
	}
	c->report.n_insns += c->run.n - before;
	c->report.n_lines += c->run.n - before;
	return err;
}
