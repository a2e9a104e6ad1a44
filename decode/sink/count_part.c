/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_count_part: counts a chunk in a thread of its own. What it has is a list of
 * runs, in order, which the session's thread appends to the totals: the hash
 * composes. What is to be printed waits in a list too.
 *
 * A part that is done goes back to the sink's pool with all that it knows of the
 * code: the next chunk needs the same.
 */
#include <pthread.h>
#include <stdlib.h>

#include "common/array.h"

#include "decode/sink/columns.h"
#include "decode/sink/count.h"

struct part_run {
	uint32_t tid, stream;
	struct count_run run;
};

/* A range that does not fit the code. */
struct part_note {
	struct flow_ctx ctx;
	struct aux_flow ev;
	int err;
};

/* What a part has up to a cut. */
struct part_segment {
	size_t n_runs, n_notes;
	struct sink_report report;
};

struct part {
	struct part *next;	/* in the pool */
	struct count_parts *pool;
	struct counter counter;
	uint32_t tid, stream;	/* of counter.run */
	struct part_run *runs;
	struct part_note *notes;
	struct part_segment *segments;
	size_t n_runs, n_notes, n_segments;
	size_t max_runs, max_notes, max_segments;
	/* given: */
	size_t given_runs, given_notes, given_segments;
};

struct count_parts {
	pthread_mutex_t lock;
	const struct sink_host *host;
	struct part *idle;
};

int count_parts_new(struct count_parts **parts, const struct sink_host *host)
{
	struct count_parts *p = calloc(1, sizeof(*p));

	*parts = p;
	if (!p)
		return -AUX_E_NOMEM;
	p->host = host;
	pthread_mutex_init(&p->lock, NULL);
	return 0;
}

static void free_part(struct part *p)
{
	counter_fini(&p->counter);
	free(p->runs);
	free(p->notes);
	free(p->segments);
	free(p);
}

void count_parts_free(struct count_parts *parts)
{
	struct part *p, *next;

	if (!parts)
		return;
	for (p = parts->idle; p; p = next) {
		next = p->next;
		free_part(p);
	}
	pthread_mutex_destroy(&parts->lock);
	free(parts);
}

static int save_note(void *priv, const struct flow_ctx *ctx,
		     const struct aux_flow *ev, int err)
{
	struct part *p = priv;

	if (array_grow(&p->notes, p->n_notes, &p->max_notes, sizeof(*p->notes)))
		return -AUX_E_NOMEM;
	p->notes[p->n_notes++] = (struct part_note){ *ctx, *ev, err };
	return 0;
}

int count_part_open(void **part, const void *sink)
{
	const struct count *c = sink;
	struct count_parts *pool = c->parts;
	struct part *p;

	*part = NULL;
	if (!pool)
		return -AUX_E_UNSUPPORTED;
	pthread_mutex_lock(&pool->lock);
	p = pool->idle;
	if (p)
		pool->idle = p->next;
	pthread_mutex_unlock(&pool->lock);
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return -AUX_E_NOMEM;
		p->pool = pool;
		p->counter.mismatch = save_note;
		p->counter.priv = p;
		if (counter_init(&p->counter, pool->host)) {
			free_part(p);
			return -AUX_E_NOMEM;
		}
	}
	*part = p;
	return 0;
}

void count_part_close(void *part)
{
	struct part *p = part;

	if (!p)
		return;
	p->counter.run = (struct count_run){ 0 };
	p->counter.report = (struct sink_report){ 0 };
	p->n_runs = p->n_notes = p->n_segments = 0;
	p->given_runs = p->given_notes = p->given_segments = 0;
	pthread_mutex_lock(&p->pool->lock);
	p->next = p->pool->idle;
	p->pool->idle = p;
	pthread_mutex_unlock(&p->pool->lock);
}

/* Ends the counter's run. */
static int save_run(struct part *p)
{
	struct count_run *run = &p->counter.run;

	if (!run->n && !run->n_gaps)
		return 0;
	if (array_grow(&p->runs, p->n_runs, &p->max_runs, sizeof(*p->runs)))
		return -AUX_E_NOMEM;
	p->runs[p->n_runs++] = (struct part_run){ p->tid, p->stream, *run };
	*run = (struct count_run){ 0 };
	return 0;
}

int count_part_flow(void *part, const struct flow_ctx *ctx,
		    const struct aux_flow *ev, size_t n)
{
	struct part *p = part;

	if (p->tid != ctx->tid || p->stream != ctx->stream) {
		if (save_run(p))
			return -AUX_E_NOMEM;
		p->tid = ctx->tid;
		p->stream = ctx->stream;
	}
	return counter_add(&p->counter, ctx, ev, n);
}

int count_part_cut(void *part)
{
	struct part *p = part;

	if (save_run(p) || array_grow(&p->segments, p->n_segments, &p->max_segments,
				sizeof(*p->segments)))
		return -AUX_E_NOMEM;
	p->segments[p->n_segments++] = (struct part_segment){
		p->n_runs, p->n_notes, p->counter.report
	};
	p->counter.report = (struct sink_report){ 0 };
	return 0;
}

static void add_report(struct sink_report *to, const struct sink_report *r)
{
	to->n_insns += r->n_insns;
	to->n_lines += r->n_lines;
	to->n_mismatches += r->n_mismatches;
}

int count_part_give(void *sink, void *part)
{
	struct count *c = sink;
	struct part *p = part;
	const struct part_segment *s;

	if (p->given_segments == p->n_segments && count_part_cut(p))
		return -AUX_E_NOMEM;
	s = &p->segments[p->given_segments++];
	count_flush(c);
	for (; p->given_notes < s->n_notes; p->given_notes++) {
		struct part_note *note = &p->notes[p->given_notes];

		print_mismatch(c->env.out, c->env.host, &note->ctx,
			       &note->ev, note->err);
	}
	for (; p->given_runs < s->n_runs; p->given_runs++) {
		struct part_run *run = &p->runs[p->given_runs];

		if (count_totals_select(&c->totals, run->tid, run->stream))
			return -AUX_E_NOMEM;
		count_totals_add(&c->totals, &run->run);
	}
	add_report(c->env.report, &s->report);
	return 0;
}
