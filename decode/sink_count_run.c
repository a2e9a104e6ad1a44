/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_count_run: see sink_count.h. The hash of a range, a step or a path is
 * computed once and appended in constant time (iphash.h).
 *
 * user of a step and of a path that is kept: [0] the hash, [1] 8 * M^n, [2]
 * branches. [1] is 0 until all its ranges were found to fit the code; it stays 0
 * where one does not, and they are counted one by one. These are facts of the
 * code alone: whoever is first computes them for all.
 */
#include <stdlib.h>

#include "gap.h"
#include "sink_count.h"
#include "timeline.h"

#define AHEAD 8 /* events: paths of large programs are in no near cache */
#define MAX_WALK ((size_t)32 << 20) /* bytes kept of ranges */

int counter_init(struct counter *c, const struct sink_host *host)
{
	struct walk_config wc = { .host = host,
				  .user_size = sizeof(struct iphash_block),
				  .max_bytes = MAX_WALK };

	return walk_new(&c->walk, &wc);
}

void counter_fini(struct counter *c)
{
	walk_free(c->walk);
}

/* Appends n instructions. */
static inline void join(struct count_run *run, uint64_t value, uint64_t power8,
			uint64_t n)
{
	run->value = iphash_join(run->value, power8, value);
	run->n += n;
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
	join(&c->run, hot->value, hot->power8, ev->n);
	c->run.n_branches += ev->what != AUX_END_FALL;
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

/* What a step adds, if all of it fits the code. */
static int learn_step(struct counter *c, const struct flow_ctx *ctx,
		      struct aux_step *step)
{
	struct iphash_block sum = iphash_block_init(), b;
	uint64_t n_branches = 0;
	struct walk_range r;
	int err;

	for (uint32_t i = 0; i < step->n_ranges; i++) {
		err = walk_once(c->walk, ctx->space, &step->ranges[i], &r);
		if (err)
			return err == -AUX_E_NOMEM ? err : 0;
		b = hash_range(&r);
		iphash_block_append(&sum, &b);
		n_branches += step->ranges[i].what != AUX_END_FALL;
	}
	if (sum.n != step->n_insns)
		return 0;
	step->user[0] = sum.value;
	step->user[1] = sum.power << 3;
	step->user[2] = n_branches;
	return 0;
}

/* Counts a step, known or not. */
static int add_step(struct counter *c, const struct flow_ctx *ctx,
		    struct aux_step *step, uint64_t offset)
{
	int err;

	if (!step->user[1]) {
		err = learn_step(c, ctx, step);
		if (err)
			return err;
	}
	if (!step->user[1])
		return add_ranges(c, ctx, step, offset);
	join(&c->run, step->user[0], step->user[1], step->n_insns);
	c->run.n_branches += step->user[2];
	return 0;
}

/* What a path adds, when all its steps are known. */
static void learn_path(struct aux_path *path)
{
	uint64_t value = 0, power = 1, n_branches = 0, n = 0;

	for (uint32_t i = 0; i < path->n_steps; i++) {
		const struct aux_step *step = path->steps[i];

		if (!step->user[1])
			return;
		value = iphash_join(value, step->user[1], step->user[0]);
		power = iphash_reduce((unsigned __int128)power *
				      (step->user[1] >> 3));
		n_branches += step->user[2];
		n += step->n_insns;
	}
	if (n != path->n_insns)
		return;
	path->user[0] = iphash_reduce(value);
	path->user[1] = power << 3;
	path->user[2] = n_branches;
}

static int add_path(struct counter *c, const struct flow_ctx *ctx,
		    const struct aux_flow *ev)
{
	struct aux_path *path = ev->path.path;
	int err = 0;

	for (uint32_t i = 0; i < path->n_steps && !err; i++)
		err = add_step(c, ctx, path->steps[i], ev->offset);
	if (!err && path->kept)
		learn_path(path);
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
		const struct aux_step *step = path->steps[i];

		if (!step->user[1])
			return false;
		join(&sum, step->user[0], step->user[1], step->n_insns);
		sum.n_branches += step->user[2];
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
	join(run, path->user[0], path->user[1], path->n_insns);
	run->n_branches += path->user[2];
	return true;
}

static inline bool join_hot(struct count_run *run, struct counter *c,
			    const struct aux_flow *ev, uint64_t space)
{
	const struct count_hot *h = find_hot(c, ev);

	if (!is_hot(h, ev, space))
		return false;
	join(run, h->value, h->power8, h->n);
	run->n_branches += ev->what != AUX_END_FALL;
	return true;
}

/*
 * Counts events up to the first that is not known. Returns how many. The run is
 * held in registers: a chain of multiplications is all that one event waits for.
 */
static size_t add_known(struct counter *c, uint64_t space,
			const struct aux_flow *ev, size_t n)
{
	struct count_run run = c->run;
	size_t i;

	for (i = 0; i < n; i++) {
		if (i + AHEAD < n)
			__builtin_prefetch(ev[i + AHEAD].path.path);
		if (ev[i].kind == AUX_FLOW_PATH) {
			if (!join_path(&run, ev[i].path.path))
				break;
		} else if (ev[i].kind == AUX_FLOW_RANGE) {
			if (!join_hot(&run, c, &ev[i], space))
				break;
		} else if (ev[i].kind == AUX_FLOW_GAP) {
			run.n_gaps += ev[i].what != GAP_SNAPSHOT;
		}
	}
	c->run = run;
	return i;
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
