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
#include <string.h>

#include "common/array.h"
#include "decode/lib/session/impl.h"

/*
 * session: what a worker does: it decodes a job with an engine.
 *
 * The engine sees the flow as the session's feeds will: it takes every event that
 * changes who runs, so that the decoder finds its code. Only then the events go
 * to the session in a batch, or into a partial result of the sink.
 */

/* ---- engines ---- */

/* A chunk starts. What was dropped may be in batches that wait. */
static void forget(void *priv, void (*release)(void *what), void *what)
{
	struct engine *e = priv;
	struct dropped *d = malloc(sizeof(*d));
	bool waits;

	if (d)
		*d = (struct dropped){ .release = release, .what = what,
				       .serial = ++e->serial };
	workers_lock(e->jobs->ws);
	waits = e->live;
	if (waits && d) {
		d->next = e->dropped;
		e->dropped = d;
	}
	workers_unlock(e->jobs->ws);
	/* without memory it is kept for ever, which harms nobody */
	if (waits)
		return;
	free(d);
	release(what);
}

static void session_free_engine(struct engine *e);

/* what a worker does. */
static int session_new_engine(struct jobs *js, size_t stream,
			      struct engine **ep, struct aux_diag *diag)
{
	struct engine *e = calloc(1, sizeof(*e));
	int rc;

	*ep = NULL;
	if (!e)
		return -AUX_E_NOMEM;
	e->jobs = js;
	e->live_last = &e->live;
	e->feed.wants = js->pass->wants;
	rc = session_open_feed(js->pass->s, &e->feed, stream, js->pass->decoder,
			       diag);
	if (rc < 0) {
		session_free_engine(e);
		return rc;
	}
	/* what a source's events mean depends on what is in the buffer */
	if (!e->feed.source)
		e->feed.max = JOB_BATCH;
	e->feed.host.forget = forget;
	*ep = e;
	return 0;
}

static void session_free_engine(struct engine *e)
{
	session_close_feed(&e->feed);
	while (e->dropped) {
		struct dropped *d = e->dropped;

		e->dropped = d->next;
		d->release(d->what);
		free(d);
	}
	free(e->plan.steps);
	free(e->plan.gaps);
	free(e->joined.p);
	free(e->joined_before.p);
	free(e);
}

static int take_engine(struct jobs *js, struct job *job)
{
	struct aux_diag diag = { 0 };
	struct engine *e;
	int rc;

	workers_lock(js->ws);
	e = js->idle;
	if (e)
		js->idle = e->next;
	workers_unlock(js->ws);
	if (!e) {
		rc = session_new_engine(js, job->feed->index, &e, &diag);
		if (rc < 0)
			return rc;
		workers_lock(js->ws);
		e->all = js->engines;
		js->engines = e;
		workers_unlock(js->ws);
	}
	job->engine = e;
	return 0;
}

/* ---- batches ---- */

/* Hands a batch over; 1: the job is not wanted, or holds too much. */
static int push(struct jobs *js, struct job *job, struct batch *b)
{
	struct engine *e = job->engine;
	bool full;

	b->engine = e;
	b->serial = e->serial;
	b->stats = e->stats;
	b->next = b->live_next = NULL;
	e->stats = (struct session_stats){ 0 };
	workers_lock(js->ws);
	b->live_prev = e->live_last;
	*e->live_last = b;
	e->live_last = &b->live_next;
	*job->last = b;
	job->last = &b->next;
	job->held += b->bytes;
	full = job->work.stop || job->held >= js->max_held;
	/* a partial result is the worker's as long as it works on it */
	if (!js->partials)
		workers_tell(js->ws, &job->work);
	workers_unlock(js->ws);
	return full;
}

/* The feed's buffer, or if it is not half full a copy. */
static bool take_buffer(struct feed *f, struct batch *b)
{
	struct aux_flow *fresh;

	b->n = f->n;
	if (f->n > f->cap / 2) {
		fresh = malloc(JOB_BATCH * sizeof(*fresh));
		if (!fresh)
			return false;
		b->ev = f->buf;
		b->bytes = f->cap * sizeof(*fresh);
		f->buf = fresh;
		f->cap = JOB_BATCH;
		return true;
	}
	b->ev = malloc(f->n * sizeof(*fresh) + 1);
	if (!b->ev)
		return false;
	memcpy(b->ev, f->buf, f->n * sizeof(*fresh));
	b->bytes = sizeof(*b) + f->n * sizeof(*fresh);
	return true;
}

/* The engine's view goes along. */
static void pass_events(struct feed *f)
{
	f->pos = f->n_plain;
	while (f->pos < f->n) {
		const struct aux_flow *ev = &f->buf[f->pos];

		if (session_changes_view(f, ev))
			session_take_event(f);
		f->pos++;
	}
}

static int push_events(struct jobs *js, struct job *job)
{
	struct feed *f = &job->engine->feed;
	struct batch *b = calloc(1, sizeof(*b));

	if (!b)
		return -AUX_E_NOMEM;
	b->in_chunk = f->in_chunk;
	b->v = f->v;
	b->at = f->at;
	pass_events(f);
	if (session_expand_paths(f, 0) < 0)
		goto nomem;
	job->work.key = job->is_chunk ? job->work.key : f->at.time;
	if (!take_buffer(f, b))
		goto nomem;
	return push(js, job, b);
nomem:
	free(b);
	return -AUX_E_NOMEM;
}

/* ---- partial results ---- */

/* What went into the partial result since the last step is a stint. */
static int end_stint(struct engine *e)
{
	struct join_plan *plan = &e->plan;

	if (!e->in_stint)
		return 0;
	if (array_grow(&plan->steps, plan->n_steps, &plan->cap_steps,
		       sizeof(*plan->steps)))
		return -AUX_E_NOMEM;
	plan->steps[plan->n_steps++] = (struct join_step){
		.at = e->stint_at, .n_insns = e->n_flowed, .stint = e->stint,
	};
	e->stats.n_insns -= e->n_flowed;
	e->n_flowed = 0;
	e->in_stint = false;
	e->stint++;
	return 0;
}

/*
 * The merge may turn to another stream wherever the place changes, so a stint ends
 * there; not where the sink lets streams be joined in any order. What is given here
 * is all at one place: session_give does so before an event that changes it.
 */
static int flow_partial(void *sink, const struct flow_ctx *ctx,
			const struct aux_flow *ev, size_t n)
{
	struct engine *e = sink;
	struct jobs *js = e->jobs;

	if (js->ordered && feed_before(&e->stint_at, &e->feed.at) &&
	    end_stint(e) < 0)
		return -AUX_E_NOMEM;
	if (!e->in_stint)
		e->stint_at = e->feed.at;
	e->in_stint = true;
	/* session_give counts what it gives before it does */
	e->n_flowed = e->stats.n_insns;
	return js->pass->ops->partial_flow(e->job->partial, e->stint, ctx, ev,
					   n);
}

static const struct sink_ops partial_ops = { .name = "partial",
					     .flow = flow_partial };

/* A GAP is told to the observer when the stint that it ends was joined. */
static void keep_gap(void *priv, const struct flow_ctx *ctx,
		     const struct aux_flow *gap)
{
	struct engine *e = priv;
	struct join_plan *plan = &e->plan;

	if (end_stint(e) < 0 ||
	    array_grow(&plan->gaps, plan->n_gaps, &plan->cap_gaps,
		       sizeof(*plan->gaps)) ||
	    array_grow(&plan->steps, plan->n_steps, &plan->cap_steps,
		       sizeof(*plan->steps))) {
		e->error = -AUX_E_NOMEM;
		return;
	}
	plan->gaps[plan->n_gaps++] = (struct join_gap){ *ctx, *gap };
	plan->steps[plan->n_steps++] = (struct join_step){
		.at = e->feed.at, .gap = (uint32_t)plan->n_gaps,
	};
}

static uint64_t plan_bytes(const struct join_plan *plan)
{
	return plan->n_steps * (sizeof(*plan->steps) + STINT_BYTES) +
	       plan->n_gaps * sizeof(*plan->gaps);
}

static int push_plan(struct jobs *js, struct job *job)
{
	struct engine *e = job->engine;
	struct batch *b = calloc(1, sizeof(*b));

	if (!b || end_stint(e) < 0) {
		free(b);
		return -AUX_E_NOMEM;
	}
	b->plan = e->plan;
	b->bytes = sizeof(*b) + plan_bytes(&b->plan);
	b->in_chunk = e->feed.in_chunk;
	e->plan = (struct join_plan){ 0 };
	return push(js, job, b);
}

/* The events of one refill go into the partial result; 1: it holds enough. */
static int fill_partial(struct jobs *js, struct job *job)
{
	static const struct feed_place never = { UINT64_MAX, UINT64_MAX,
						 UINT64_MAX };
	struct engine *e = job->engine;
	struct feed *f = &e->feed;
	struct session_pass pass = {
		.s = js->pass->s, .ops = &partial_ops, .sink = e,
		.stats = &e->stats, .filtered = js->pass->filtered,
		.timeless = js->pass->timeless,
		.observer = { .on_gap = keep_gap, .priv = e },
	};
	int rc = session_give(&pass, f, &never, true);

	if (rc < 0 || e->error < 0)
		return rc < 0 ? rc : e->error;
	job->work.key = job->is_chunk ? job->work.key : f->at.time;
	return plan_bytes(&e->plan) >= js->max_held;
}

/* ---- jobs ---- */

/* An engine begins a chunk: it knows what the job says, and nothing more. */
static int engine_begin_chunk(struct job *job)
{
	struct engine *e = job->engine;
	struct feed *f = &e->feed;
	struct chunk_room before = e->joined;

	/* the bytes before are the decoder's until it starts */
	e->joined = e->joined_before;
	e->joined_before = before;
	f->stream = job->feed->stream;
	f->it.q = job->feed->it.q;
	f->it.chunk = job->chunk;
	if (job->joined.p) {
		free(e->joined.p);
		e->joined = job->joined;
		job->joined = (struct chunk_room){ 0 };
		/* if it is done again they are put together again */
		job->chunk.data = NULL;
	}
	f->it.start = job->start;
	if (!f->it.chunk.data &&
	    chunk_iter_join(&f->it, job->piece, &f->it.chunk, &e->joined) < 0)
		return -AUX_E_NOMEM;
	f->v = job->v;
	f->at = (struct feed_place){ 0 };
	f->joint = job->joint;
	f->single = 1;
	f->zeros = false;
	f->rest = (struct aux_chunk){ 0 };
	f->ended = f->in_chunk = f->in_gap = f->gave = false;
	session_find_who(f, &f->v);
	return 0;
}

static int begin_job(struct jobs *js, struct job *job)
{
	int rc = job->engine ? 0 : take_engine(js, job);

	if (rc < 0)
		return rc;
	job->engine->job = job;
	job->engine->in_stint = false;
	job->engine->stint = 0;
	job->begun = true;
	return job->is_chunk ? engine_begin_chunk(job) : 0;
}

/* The last batch, of what is left to tell; then the engine is free. */
static enum work_state engine_end_job(struct jobs *js, struct job *job, int rc)
{
	struct engine *e = job->engine;
	struct batch *b;

	if (e && js->partials && push_plan(js, job) < 0)
		rc = -AUX_E_NOMEM;
	if (e && !js->partials) {
		b = calloc(1, sizeof(*b));
		if (b)
			push(js, job, b);
		else
			rc = -AUX_E_NOMEM;
	}
	workers_lock(js->ws);
	job->rc = rc;
	if (e) {
		job->any = e->feed.gave;
		job->in_gap = e->feed.in_gap;
		job->v = e->feed.v;
		job->at = e->feed.at;
	}
	if (e && job->is_chunk) {
		e->next = js->idle;
		js->idle = e;
		job->engine = NULL;
	}
	workers_unlock(js->ws);
	return WORK_DONE;
}

static enum work_state session_do_job(void *priv, struct work *w)
{
	struct jobs *js = priv;
	struct job *job = (struct job *)w;
	int rc = job->begun ? 0 : begin_job(js, job);
	struct engine *e = job->engine;

	if (rc < 0)
		return engine_end_job(js, job, rc);
	while ((rc = session_refill(&e->feed, &e->stats)) > 0) {
		rc = js->partials ? fill_partial(js, job) : push_events(js, job);
		if (rc < 0)
			break;
		if (rc > 0 && !w->stop) {
			if (js->partials && push_plan(js, job) < 0)
				return engine_end_job(js, job, -AUX_E_NOMEM);
			return WORK_HELD;
		}
		if (w->stop)
			return engine_end_job(js, job, 0);
	}
	return engine_end_job(js, job, rc);
}

/*
 * session: streams cut into jobs, as far ahead as keeps the workers busy: the
 * earliest chunks first, and of each stream the one that is needed next.
 */

static int new_partial(struct jobs *js, struct job *job)
{
	if (!js->partials || job->is_gap)
		return 0;
	return js->pass->ops->partial_new(&job->partial, js->pass->sink) < 0 ?
		       -AUX_E_NOMEM : 0;
}

/* What is known of a stream of Intel PT before its first chunk. */
static struct feed_view session_view_of(const struct feed *f)
{
	return (struct feed_view){
		.ctx = { .session = f->s, .stream = f->stream->idx,
			 .cpu = f->stream->cpu },
	};
}

static bool is_in(const struct chunk_room *room, const uint8_t *p)
{
	return (uintptr_t)p - (uintptr_t)room->p < room->size;
}

static void take_step(struct feed *f, struct job *job, int step)
{
	struct chunk_iter *it = &f->it;

	job->is_gap = step == CHUNK_GAP;
	job->is_chunk = step == CHUNK_DATA;
	job->work.key = f->cut_key;
	if (job->is_gap) {
		job->gap = it->gap;
		return;
	}
	job->chunk = it->chunk;
	job->piece = it->piece;
	/* the first of a run alone */
	if (is_in(&it->joined, it->chunk.data)) {
		job->joined = it->joined;
		it->joined = (struct chunk_room){ 0 };
	}
	job->start = it->start;
	job->v = session_view_of(f);
	job->joint = f->cut_joint;
	f->cut_joint = it->chunk.flags & AUX_CHUNK_HAS_END_IP;
	job->waits = f->timed && !it->start.has_tsc;
	if (job->waits)
		job->work.state = WORK_HELD;
	else if (f->timed)
		f->cut_key = aux_clock_ns(&f->config.clock, it->start.tsc);
	job->work.key = f->cut_key;
}

/* The next job of a stream. */
static int cut_job(struct jobs *js, struct feed *f)
{
	int step = chunk_iter_next(&f->it);
	struct job *job;

	if (step < 0)
		return step;
	if (step == CHUNK_END) {
		f->cut_ended = true;
		return 0;
	}
	job = calloc(1, sizeof(*job));
	if (!job)
		return -AUX_E_NOMEM;
	job->feed = f;
	job->last = &job->first;
	take_step(f, job, step);
	*f->last_job = job;
	f->last_job = &job->next;
	js->n_live++;
	if (new_partial(js, job) < 0)
		return -AUX_E_NOMEM;
	if (job->is_gap)
		return 0;
	workers_lock(js->ws);
	workers_add(js->ws, &job->work);
	workers_unlock(js->ws);
	return 0;
}

/* The stream whose next chunk is needed first. */
static struct feed *next_to_cut(struct session_pass *pass)
{
	struct feed *best = NULL;

	for (size_t i = 0; i < pass->n; i++) {
		struct feed *f = &pass->feeds[i];

		if (!f->cut_ended && (!best || f->cut_key < best->cut_key))
			best = f;
	}
	return best;
}

/* Cuts ahead; f: needs a job in any case. */
static int session_cut_jobs(struct jobs *js, struct feed *f)
{
	int rc = 0;

	while (rc == 0 && !f->job && !f->cut_ended)
		rc = cut_job(js, f);
	while (rc == 0 && js->n_live < js->max_live &&
	       (f = next_to_cut(js->pass)))
		rc = cut_job(js, f);
	return rc;
}

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
	free(b->plan.steps);
	free(b->plan.gaps);
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
	if (job->partial)
		js->pass->ops->partial_free(job->partial);
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
	if (job->partial)
		js->pass->ops->partial_free(job->partial);
	job->partial = NULL;
	if (new_partial(js, job) < 0)
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
		if (feed_before(&f->at, &job->at))
			f->at = job->at;
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
	/* a partial result is the worker's as long as it works on it */
	while (w->state != WORK_DONE &&
	       (!job->first || (js->partials && w->state == WORK_RUNNING))) {
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

static void take_batch(struct session_pass *pass, struct feed *f, struct batch *b)
{
	f->batch = b;
	f->buf = b->ev;
	f->n = f->job->partial ? b->plan.n_steps : b->n;
	f->in_chunk = b->in_chunk;
	add_stats(pass->stats, &b->stats);
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
		take_batch(js->pass, f, b);
	return b != NULL;
}

int session_jobs_refill(struct session_pass *pass, struct feed *f)
{
	struct jobs *js = pass->jobs;
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

/* Is what f has next a step of a partial result's plan? A GAP between two chunks is
 * in none, and reaches the sink as an event. */
static bool has_plan(const struct feed *f)
{
	return f->job && f->job->partial;
}

/*
 * A worker begins a chunk without knowing the place where the one before ended: the
 * later one holds, as where one thread does it all.
 */
static struct feed_place place_of_step(const struct feed *f)
{
	const struct join_step *step = &f->batch->plan.steps[f->pos];

	return feed_before(&f->at, &step->at) ? step->at : f->at;
}

struct feed_place session_jobs_place(const struct jobs *js, struct feed *f)
{
	(void)js;
	return has_plan(f) ? place_of_step(f) : session_next_place(f);
}

static int join_step(struct session_pass *pass, struct feed *f)
{
	const struct join_plan *plan = &f->batch->plan;
	const struct join_step *step = &plan->steps[f->pos];
	const struct join_gap *gap;
	int rc;

	if (step->gap) {
		gap = &plan->gaps[step->gap - 1];
		session_pass_gap(pass, &gap->ctx, &gap->ev);
		return 0;
	}
	rc = pass->ops->partial_join(pass->sink, f->job->partial, step->stint);
	if (rc < 0)
		return rc;
	pass->enough = rc > 0;
	pass->stats->n_insns += step->n_insns;
	return 0;
}

int session_jobs_give(struct session_pass *pass, struct feed *f,
		      const struct feed_place *limit, bool or_at)
{
	struct feed_place at;
	int rc = 0;

	if (!has_plan(f))
		return session_give(pass, f, limit, or_at);
	for (; rc == 0 && f->pos < f->n && !pass->enough; f->pos++) {
		at = place_of_step(f);
		if (feed_before(&f->at, &at) &&
		    session_must_wait(&at, limit, or_at))
			return 0;
		f->at = at;
		rc = join_step(pass, f);
	}
	return rc;
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
	return new_partial(js, job);
}

static int open_feeds(struct session_pass *pass, struct aux_diag *diag)
{
	struct jobs *js = pass->jobs;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < pass->n; i++) {
		struct feed *f = &pass->feeds[i];

		session_init_feed(pass->s, f, f->index);
		f->it.lazy = true;
		f->last_job = &f->job;
		if (f->source)
			rc = add_stream(js, f, diag);
	}
	if (rc < 0 || !pass->n || js->engines)
		return rc;
	rc = session_new_engine(js, pass->feeds[0].index, &js->engines, diag);
	js->idle = js->engines;
	return rc;
}

/* Does the sink take partial results, with the options that it has? */
static bool takes_partials(const struct session_pass *pass)
{
	void *partial;

	if (!pass->ops->partial_new ||
	    pass->ops->partial_new(&partial, pass->sink) < 0)
		return false;
	pass->ops->partial_free(partial);
	return true;
}

int session_jobs_open(struct session_pass *pass, unsigned n_threads,
		      struct aux_diag *diag)
{
	struct jobs *js = calloc(1, sizeof(*js));
	uint64_t max = pass->s->config.max_memory;
	int rc;

	pass->jobs = js;
	if (!js)
		return -AUX_E_NOMEM;
	js->pass = pass;
	js->partials = takes_partials(pass);
	js->ordered = pass->n > 1 && !(pass->needs & SINK_ANY_STREAM_ORDER);
	js->max_live = AHEAD * n_threads + pass->n;
	js->max_held = (max ? max : SESSION_MEMORY) / js->max_live;
	rc = open_feeds(pass, diag);
	if (rc == 0)
		rc = workers_new(&js->ws, n_threads - !js->partials,
				 session_do_job, js);
	if (rc < 0)
		return rc;
	workers_lock(js->ws);
	for (size_t i = 0; i < pass->n; i++)
		if (pass->feeds[i].job)
			workers_add(js->ws, &pass->feeds[i].job->work);
	workers_unlock(js->ws);
	return 0;
}

void session_jobs_close(struct session_pass *pass)
{
	struct jobs *js = pass->jobs;

	if (!js)
		return;
	workers_stop(js->ws);
	for (size_t i = 0; i < pass->n; i++) {
		struct feed *f = &pass->feeds[i];

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
	pass->jobs = NULL;
}
