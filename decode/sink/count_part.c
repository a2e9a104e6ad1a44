/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * count: partial results. A worker adds up a chunk; what comes of it is a list
 * of runs, one for each stint, and a list of the ranges that do not fit the code.
 * The session's thread appends the runs to the totals and prints the mismatches.
 *
 * A counter is with the partial result that a worker fills, and then goes to the
 * sink's pool with all that it knows of the code: the next chunk needs the same. So
 * there are few, however many partial results wait for their turn. Partial results go
 * there too, with their memory.
 */
#include <pthread.h>
#include <stdlib.h>

#include "common/array.h"

#include "decode/sink/columns.h"
#include "decode/sink/count.h"

/* What one thread ran in one stint. */
struct partial_run {
	uint32_t tid, stream, stint;
	struct count_run run;
};

/* A range that does not fit the code; it is printed when its stint is
 * joined. */
struct mismatch {
	uint32_t stint;
	struct flow_ctx ctx;
	struct aux_flow ev;
	int err;
};

/*
 * Filled by the worker that has the chunk, then read by the session's thread,
 * never by both at a time (session/sink.h).
 */
struct partial {
	struct partial *next;	/* in the pool, with its lock */
	struct count_pool *pool;
	struct idle_counter *counter;	/* NULL: from the pool when flow comes. Its
					 * run is that of: */
	uint32_t tid, stream, stint;
	struct partial_run *runs;	/* by stint */
	struct mismatch *mismatches;	/* by stint */
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
		(struct mismatch){ p->stint, *ctx, *ev, err };
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

int count_partial_new(void **partial, const void *sink)
{
	const struct count *c = sink;
	struct partial *p;

	*partial = NULL;
	if (!c->pool)
		return -AUX_E_UNSUPPORTED;
	p = take_partial(c->pool);
	if (!p)
		return -AUX_E_NOMEM;
	p->pool = c->pool;
	*partial = p;
	return 0;
}

void count_partial_free(void *partial)
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
	p->runs[p->n_runs++] = (struct partial_run){
		p->tid, p->stream, p->stint, *run,
	};
	*run = (struct count_run){ 0 };
	return 0;
}

int count_partial_flow(void *partial, uint32_t stint,
		       const struct flow_ctx *ctx, const struct aux_flow *ev,
		       size_t n)
{
	struct partial *p = partial;

	if (!p->counter && take_counter(p))
		return -AUX_E_NOMEM;
	if ((p->stint != stint || p->tid != ctx->tid || p->stream != ctx->stream) && save_run(p))
		return -AUX_E_NOMEM;
	p->tid = ctx->tid;
	p->stream = ctx->stream;
	p->stint = stint;
	return counter_add(&p->counter->c, ctx, ev, n);
}

int count_partial_end(void *partial)
{
	struct partial *p = partial;
	int rc = save_run(p);

	if (rc == 0)
		give_counter(p);
	return rc;
}

static void join_mismatches(struct count *c, struct partial *p, uint32_t stint)
{
	struct sink_report *report = c->env.report;

	for (; p->joined_mismatches < p->n_mismatches; p->joined_mismatches++) {
		struct mismatch *m = &p->mismatches[p->joined_mismatches];

		if (m->stint > stint)
			break;
		report->n_mismatches++;
		report->n_insns += m->ev.n;
		if (!c->env.json)
			print_mismatch(c->env.out, c->env.host, &m->ctx,
				       &m->ev, m->err);
	}
}

/* The report follows from the runs and the mismatches: it is not kept by
 * stint. */
int count_partial_join(void *sink, void *partial, uint32_t stint)
{
	struct count *c = sink;
	struct sink_report *report = c->env.report;
	struct partial *p = partial;
	int rc = save_run(p);

	if (rc == 0)
		count_flush(c);
	join_mismatches(c, p, stint);
	while (rc == 0 && p->joined_runs < p->n_runs) {
		struct partial_run *run = &p->runs[p->joined_runs];

		if (run->stint > stint)
			break;
		if (count_totals_select(&c->totals, run->tid, run->stream))
			return -AUX_E_NOMEM;
		report->n_insns += run->run.n;
		report->n_lines += run->run.n;
		report->n_payloads += run->run.n_payloads;
		count_totals_add(&c->totals, &run->run);
		p->joined_runs++;
	}
	return rc;
}
