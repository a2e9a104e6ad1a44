/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session: the batches of jobs, in the order of the flow.
 *
 * A job that holds too much is put aside until that was used, so memory is
 * bounded, and as the one that is needed can always go on, nobody waits for ever.
 * Whether a chunk goes on from the one before without a seam is guessed; a job
 * that guessed wrong is done again.
 */
#include <stdlib.h>

#include "decode/lib/session/jobs.h"

#define AHEAD 2		/* jobs for each worker */

/* ---- batches ---- */

/* What the engine dropped and nobody can see any more. With the lock. */
static struct dropped *take_dropped(struct engine *e)
{
	uint64_t oldest = e->live ? e->live->serial : UINT64_MAX;
	struct dropped **p = &e->dropped, *taken = NULL, *d;

	while ((d = *p)) {
		if (oldest < d->serial) {
			p = &d->next;
			continue;
		}
		*p = d->next;
		d->next = taken;
		taken = d;
	}
	return taken;
}

static void free_batch(struct jobs *js, struct batch *b)
{
	struct engine *e = b->engine;
	struct dropped *d;

	workers_lock(js->ws);
	*b->live_prev = b->live_next;
	if (b->live_next)
		b->live_next->live_prev = b->live_prev;
	else
		e->live_last = b->live_prev;
	d = e->dropped ? take_dropped(e) : NULL;
	workers_unlock(js->ws);
	while (d) {
		struct dropped *next = d->next;

		d->release(d->what);
		free(d);
		d = next;
	}
	free(b->ev);
	free(b);
}

static void free_batches(struct jobs *js, struct job *job)
{
	while (job->first) {
		struct batch *b = job->first;

		job->first = b->next;
		free_batch(js, b);
	}
	job->last = &job->first;
	job->held = 0;
}

static void free_job(struct jobs *js, struct job *job)
{
	free_batches(js, job);
	if (job->part)
		js->r->ops->part_close(job->part);
	free(job->joined.p);
	free(job);
	js->n_live--;
}

/* ---- giving ---- */

/* The job did not know what it begins with: again. */
static int do_again(struct jobs *js, struct job *job, bool joint)
{
	workers_lock(js->ws);
	atomic_store(&job->work.stop, true);
	while (job->work.state == WORK_RUNNING)
		workers_wait(js->ws, &job->work);
	workers_remove(js->ws, &job->work);
	if (job->engine) {	/* it was put aside */
		job->engine->next = js->idle;
		js->idle = job->engine;
		job->engine = NULL;
	}
	workers_unlock(js->ws);
	free_batches(js, job);
	if (job->part)
		js->r->ops->part_close(job->part);
	job->part = NULL;
	if (session_open_part(js, job) < 0)
		return -AUX_E_NOMEM;
	job->joint = joint;
	job->begun = job->any = job->in_gap = false;
	job->v = session_view_of(job->feed);
	job->rc = 0;
	atomic_store(&job->work.stop, false);
	job->work.state = WORK_IDLE;
	workers_lock(js->ws);
	workers_add(js->ws, &job->work);
	workers_unlock(js->ws);
	return 0;
}

/* The session comes to a chunk. */
static int begin_chunk(struct jobs *js, struct feed *f, struct job *job)
{
	bool joint = f->joint;
	int rc = 0;

	f->it.start = job->start;
	if (job->waits) {
		workers_lock(js->ws);
		job->v = f->v;
		job->joint = joint;
		job->waits = false;
		workers_resume(js->ws, &job->work);
		workers_unlock(js->ws);
	} else if (job->joint != joint) {
		rc = do_again(js, job, joint);
	}
	session_begin_dated(f, &job->start);
	return rc;
}

/* The session goes on behind a job. */
static int end_job(struct jobs *js, struct feed *f)
{
	struct job *job = f->job;
	int rc = job->rc;

	if (!job->is_gap) {
		workers_lock(js->ws);
		workers_remove(js->ws, &job->work);
		workers_unlock(js->ws);
	}
	if (job->is_chunk) {
		session_let_go(f, &job->chunk);
		if (job->any)
			f->in_gap = job->in_gap;
		f->joint = job->chunk.flags & AUX_CHUNK_HAS_END_IP &&
			   !f->in_gap;
		f->v = job->v;
	}
	f->job = job->next;
	if (!f->job)
		f->last_job = &f->job;
	f->begun_job = false;
	free_job(js, job);
	return rc;
}

/* The next batch of the job; NULL: it is done. */
static struct batch *wait_batch(struct jobs *js, struct job *job)
{
	struct work *w = &job->work;
	struct batch *b;

	workers_lock(js->ws);
	/* a part is the worker's as long as it works on it */
	while (w->state != WORK_DONE &&
	       (!job->first || (js->parts && w->state == WORK_RUNNING))) {
		if (!job->first)
			workers_resume(js->ws, w);
		workers_wait(js->ws, w);
	}
	b = job->first;
	if (b) {
		job->first = b->next;
		if (!job->first)
			job->last = &job->first;
		job->held -= b->bytes;
		b->next = NULL;
	}
	workers_unlock(js->ws);
	return b;
}

static void add_stats(struct session_stats *to, const struct session_stats *st)
{
	to->aux_decoded += st->aux_decoded;
	to->n_chunks += st->n_chunks;
	to->n_handed_whole += st->n_handed_whole;
	to->n_handed_part += st->n_handed_part;
	to->n_left += st->n_left;
}

static void take_batch(struct run_state *r, struct feed *f, struct batch *b)
{
	f->batch = b;
	f->buf = b->ev;
	f->n = b->n;
	f->in_chunk = b->in_chunk;
	add_stats(r->stats, &b->stats);
	if (f->source && b->n) {
		f->v = b->v;
		f->at = b->at;
	}
}

static void drop_batch(struct jobs *js, struct feed *f)
{
	if (f->batch)
		free_batch(js, f->batch);
	f->batch = NULL;
	f->buf = NULL;
	f->pos = f->n = 0;
	f->next_time = SIZE_MAX;
}

/* The next events of the job; 0: it has no more. */
static int take_events(struct jobs *js, struct feed *f)
{
	struct job *job = f->job;
	struct batch *b;
	int rc;

	if (job->is_gap) {
		if (f->begun_job)
			return 0;
		f->begun_job = true;
		f->in_chunk = false;
		f->buf = &job->gap;
		f->n = 1;
		return 1;
	}
	if (!f->begun_job && job->is_chunk) {
		rc = begin_chunk(js, f, job);
		if (rc < 0)
			return rc;
	}
	f->begun_job = true;
	b = wait_batch(js, job);
	if (b)
		take_batch(js->r, f, b);
	return b != NULL;
}

int session_jobs_refill(struct run_state *r, struct feed *f)
{
	struct jobs *js = r->jobs;
	int rc;

	drop_batch(js, f);
	while (!f->n) {
		rc = session_cut_jobs(js, f);
		if (rc < 0)
			return rc;
		if (!f->job) {
			f->ended = true;
			return 0;
		}
		rc = take_events(js, f);
		if (rc == 0)
			rc = end_job(js, f);
		else if (rc > 0 && !f->n)
			drop_batch(js, f);
		if (rc < 0)
			return rc;
	}
	return 1;
}

int session_jobs_give(struct run_state *r, struct feed *f,
		      const struct feed_place *limit, bool or_at)
{
	int rc;

	/* what is between chunks is in no part */
	if (!r->jobs->parts || f->job->is_gap)
		return session_give(r, f, limit, or_at);
	for (; f->pos < f->n && !r->enough; f->pos++) {
		const struct aux_flow *ev = &f->buf[f->pos];

		if (ev->kind == SEGMENT) {
			rc = r->ops->part_give(r->sink, f->job->part);
			if (rc < 0)
				return rc;
			r->enough = rc > 0;
			r->stats->n_insns += ev->payload.value;
		} else if (session_changes_view(f, ev)) {
			if (session_is_later(f, limit, or_at))
				return 0;
			session_take_event(f);
		}
		session_count_gap(r->stats, ev);
	}
	return 0;
}

/* ---- from open to close ---- */

/* A source is one job, with an engine of its own. */
static int add_stream(struct jobs *js, struct feed *f, struct aux_diag *diag)
{
	struct job *job = calloc(1, sizeof(*job));
	int rc;

	if (!job)
		return -AUX_E_NOMEM;
	job->feed = f;
	job->last = &job->first;
	f->job = job;
	f->cut_ended = true;
	js->n_live++;
	rc = session_new_engine(js, f->index, &job->engine, diag);
	if (rc < 0)
		return rc;
	job->engine->all = js->engines;
	js->engines = job->engine;
	return session_open_part(js, job);
}

static int open_feeds(struct run_state *r, struct aux_diag *diag)
{
	struct jobs *js = r->jobs;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < r->n; i++) {
		struct feed *f = &r->feeds[i];

		session_init_feed(r->s, f, f->index);
		f->it.lazy = true;
		f->last_job = &f->job;
		if (f->source)
			rc = add_stream(js, f, diag);
	}
	if (rc < 0 || !r->n || js->engines)
		return rc;
	rc = session_new_engine(js, r->feeds[0].index, &js->engines, diag);
	js->idle = js->engines;
	return rc;
}

/* Whether the sink has parts, and takes them now. */
static bool try_parts(const struct run_state *r)
{
	void *part;

	if (!r->ops->part_open ||
	    r->ops->part_open(&part, r->sink) < 0)
		return false;
	r->ops->part_close(part);
	return true;
}

int session_jobs_open(struct run_state *r, unsigned n_threads,
		      struct aux_diag *diag)
{
	struct jobs *js = calloc(1, sizeof(*js));
	uint64_t max = r->s->config.max_memory;
	int rc;

	r->jobs = js;
	if (!js)
		return -AUX_E_NOMEM;
	js->r = r;
	js->parts = try_parts(r);
	js->cuts = r->n > 1;
	js->max_live = AHEAD * n_threads + r->n;
	js->max_held = (max ? max : SESSION_MEMORY) / js->max_live;
	rc = open_feeds(r, diag);
	if (rc == 0)
		rc = workers_new(&js->ws, n_threads - !js->parts,
				 session_do_job, js);
	if (rc < 0)
		return rc;
	workers_lock(js->ws);
	for (size_t i = 0; i < r->n; i++)
		if (r->feeds[i].job)
			workers_add(js->ws, &r->feeds[i].job->work);
	workers_unlock(js->ws);
	return 0;
}

void session_jobs_close(struct run_state *r)
{
	struct jobs *js = r->jobs;

	if (!js)
		return;
	workers_stop(js->ws);
	for (size_t i = 0; i < r->n; i++) {
		struct feed *f = &r->feeds[i];

		drop_batch(js, f);
		while (f->job) {
			struct job *job = f->job;

			f->job = job->next;
			free_job(js, job);
		}
		f->buf = NULL;
		session_close_feed(f);
	}
	while (js->engines) {
		struct engine *e = js->engines;

		js->engines = e->all;
		session_free_engine(e);
	}
	workers_free(js->ws);
	free(js);
	r->jobs = NULL;
}
