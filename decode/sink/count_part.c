/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Partial results of counting. A worker adds up a chunk; what comes of it is a list
 * of runs, one for each stint, and a list of the ranges that do not fit the code.
 * The session's thread hands them to the sink, stint by stint.
 *
 * A counter is with the partial result that a worker fills, and then goes to the
 * sink's pool with all that it knows of the code: the next chunk needs the same. So
 * there are few, however many partial results wait for their turn. Partial results go
 * there too, with their memory.
 */
#include <pthread.h>
#include <stdlib.h>

#include "common/array.h"

#include "decode/sink/count.h"

/*
 * Filled by the worker that has the chunk, then read by the session's thread,
 * never by both at a time (session/sink.h).
 */
struct partial {
	struct partial *next;	/* in the pool, with its lock */
	struct count_pool *pool;
	struct idle_counter *counter;	/* NULL: from the pool when flow comes. Its
					 * run is that of: */
	uint32_t pid, tid, stream, stint;
	struct count_part_run *runs;	/* by stint */
	struct count_part_mismatch *mismatches;	/* by stint */
	size_t n_runs, cap_runs, n_mismatches, cap_mismatches;
	/* the session's: */
	size_t joined_runs, joined_mismatches;
};

struct idle_counter {
	struct idle_counter *next;	/* in the pool, with its lock */
	struct counter c;
};

struct count_pool {
	pthread_mutex_t lock;
	const struct sink_host *host;
	struct idle_counter *idle;
	struct partial *partials;
};

int count_pool_new(struct count_pool **pool, const struct sink_host *host)
{
	struct count_pool *p = calloc(1, sizeof(*p));

	*pool = p;
	if (!p)
		return -AUX_E_NOMEM;
	p->host = host;
	pthread_mutex_init(&p->lock, NULL);
	return 0;
}

static void free_counter(struct idle_counter *i)
{
	counter_fini(&i->c);
	free(i);
}

static void free_partial(struct partial *p)
{
	free(p->runs);
	free(p->mismatches);
	free(p);
}

void count_pool_free(struct count_pool *pool)
{
	struct idle_counter *i, *next;

	if (!pool)
		return;
	for (i = pool->idle; i; i = next) {
		next = i->next;
		free_counter(i);
	}
	while (pool->partials) {
		struct partial *p = pool->partials;

		pool->partials = p->next;
		free_partial(p);
	}
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

static int keep_mismatch(void *priv, const struct flow_ctx *ctx,
			 const struct aux_flow *ev, int err)
{
	struct partial *p = priv;

	if (array_grow(&p->mismatches, p->n_mismatches, &p->cap_mismatches,
		       sizeof(*p->mismatches)))
		return -AUX_E_NOMEM;
	p->mismatches[p->n_mismatches++] =
		(struct count_part_mismatch){ p->stint, *ctx, *ev, err };
	return 0;
}

/* A counter that is idle, or a new one. */
static int take_counter(struct partial *p)
{
	struct count_pool *pool = p->pool;
	struct idle_counter *i;

	pthread_mutex_lock(&pool->lock);
	i = pool->idle;
	if (i)
		pool->idle = i->next;
	pthread_mutex_unlock(&pool->lock);
	if (!i) {
		i = calloc(1, sizeof(*i));
		if (!i)
			return -AUX_E_NOMEM;
		i->c.mismatch = keep_mismatch;
		if (counter_init(&i->c, pool->host)) {
			free_counter(i);
			return -AUX_E_NOMEM;
		}
	}
	i->c.priv = p;
	p->counter = i;
	return 0;
}

static void give_counter(struct partial *p)
{
	struct idle_counter *i = p->counter;

	if (!i)
		return;
	i->c.run = (struct count_run){ 0 };
	i->c.report = (struct sink_report){ 0 };
	pthread_mutex_lock(&p->pool->lock);
	i->next = p->pool->idle;
	p->pool->idle = i;
	pthread_mutex_unlock(&p->pool->lock);
	p->counter = NULL;
}

/* A partial result from the pool, with the memory that it had, or a new one. */
static struct partial *take_partial(struct count_pool *pool)
{
	struct partial *p;

	pthread_mutex_lock(&pool->lock);
	p = pool->partials;
	if (p)
		pool->partials = p->next;
	pthread_mutex_unlock(&pool->lock);
	if (!p)
		return calloc(1, sizeof(*p));
	*p = (struct partial){
		.runs = p->runs, .cap_runs = p->cap_runs,
		.mismatches = p->mismatches,
		.cap_mismatches = p->cap_mismatches,
	};
	return p;
}

int count_part_new(void **partial, struct count_pool *pool)
{
	struct partial *p = take_partial(pool);

	*partial = p;
	if (!p)
		return -AUX_E_NOMEM;
	p->pool = pool;
	return 0;
}

void count_part_free(void *partial)
{
	struct partial *p = partial;

	if (!p)
		return;
	give_counter(p);
	pthread_mutex_lock(&p->pool->lock);
	p->next = p->pool->partials;
	p->pool->partials = p;
	pthread_mutex_unlock(&p->pool->lock);
}

/* The counter's run ends with its stint. */
static int save_run(struct partial *p)
{
	struct count_run *run = p->counter ? &p->counter->c.run : NULL;

	if (!run || (!run->n && !run->n_gaps && !run->n_payloads))
		return 0;
	if (array_grow(&p->runs, p->n_runs, &p->cap_runs, sizeof(*p->runs)))
		return -AUX_E_NOMEM;
	p->runs[p->n_runs++] = (struct count_part_run){
		p->pid, p->tid, p->stream, p->stint, *run,
	};
	*run = (struct count_run){ 0 };
	return 0;
}

int count_part_flow(void *partial, uint32_t stint, const struct flow_ctx *ctx,
		    const struct aux_flow *ev, size_t n)
{
	struct partial *p = partial;

	if (!p->counter && take_counter(p))
		return -AUX_E_NOMEM;
	if ((p->stint != stint || p->tid != ctx->tid || p->stream != ctx->stream ||
	     p->pid != ctx->pid) && save_run(p))
		return -AUX_E_NOMEM;
	p->pid = ctx->pid;
	p->tid = ctx->tid;
	p->stream = ctx->stream;
	p->stint = stint;
	return counter_add(&p->counter->c, ctx, ev, n);
}

int count_part_end(void *partial)
{
	struct partial *p = partial;
	int rc = save_run(p);

	if (rc == 0)
		give_counter(p);
	return rc;
}

int count_part_join(void *partial, uint32_t stint, const struct count_part_to *to)
{
	struct partial *p = partial;
	int rc = save_run(p);

	for (; p->joined_mismatches < p->n_mismatches; p->joined_mismatches++) {
		struct count_part_mismatch *m = &p->mismatches[p->joined_mismatches];

		if (m->stint > stint)
			break;
		to->mismatch(to->priv, m);
	}
	while (rc == 0 && p->joined_runs < p->n_runs &&
	       p->runs[p->joined_runs].stint <= stint)
		rc = to->run(to->priv, &p->runs[p->joined_runs++]);
	return rc;
}
