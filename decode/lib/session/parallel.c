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

#include "decode/lib/session/impl.h"

/*
 * session: what a worker does: it decodes a job with an engine.
 *
 * The engine sees the flow as the session's feeds will: it takes every event that
 * changes who runs, so that the decoder finds its code. Only then the events go
 * to the session in a batch, or into a part of the sink.
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
	e->feed.wants = js->r->wants;
	rc = session_open_feed(js->r->s, &e->feed, stream, js->r->decoder,
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
	free(e->out.ev);
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
	/* a part is the worker's as long as it works on it */
	if (!js->parts)
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

/* ---- parts ---- */

static int add_note(struct engine *e, const struct aux_flow *ev)
{
	struct batch *out = &e->out;
	size_t cap = e->cap_out ? 2 * e->cap_out : 64;
	struct aux_flow *p;

	if (out->n == e->cap_out) {
		p = reallocarray(out->ev, cap, sizeof(*p));
		if (!p)
			return -AUX_E_NOMEM;
		out->ev = p;
		e->cap_out = cap;
	}
	out->ev[out->n++] = *ev;
	out->bytes += sizeof(*ev);
	return 0;
}

static int flow_part(void *sink, const struct flow_ctx *ctx,
		     const struct aux_flow *ev, size_t n)
{
	struct engine *e = sink;

	e->flowed = true;
	return e->jobs->r->ops->part_flow(e->job->part, ctx, ev, n);
}

static const struct sink_ops part_ops = { .name = "part", .flow = flow_part };

/* What went into the part is a segment. */
static int end_segment(struct engine *e)
{
	struct aux_flow ev = { .kind = SEGMENT };
	int rc;

	if (!e->flowed)
		return 0;
	e->flowed = false;
	rc = e->jobs->r->ops->part_cut(e->job->part);
	if (rc < 0)
		return rc;
	ev.payload.value = e->stats.n_insns;
	e->stats.n_insns = 0;
	e->out.bytes += SEGMENT_BYTES;
	return add_note(e, &ev);
}

/* Another stream's flow may come before this event, and a GAP is counted behind
 * what it ends. */
static int note_event(struct run_state *r, struct feed *f,
		      const struct aux_flow *ev)
{
	struct engine *e = r->sink;
	int rc;

	(void)f;
	if (ev->kind != AUX_FLOW_GAP && !e->jobs->cuts)
		return 0;
	rc = end_segment(e);
	return rc < 0 ? rc : add_note(e, ev);
}

static int push_notes(struct jobs *js, struct job *job)
{
	struct engine *e = job->engine;
	struct batch *b = malloc(sizeof(*b));

	if (!b || end_segment(e) < 0) {
		free(b);
		return -AUX_E_NOMEM;
	}
	*b = e->out;
	b->in_chunk = e->feed.in_chunk;
	e->out = (struct batch){ 0 };
	e->cap_out = 0;
	return push(js, job, b);
}

/* The events of one refill go into the part; 1: it is enough for now. A source's
 * places depend on what is in the buffer with an event, so a batch ends with it. */
static int give_part(struct jobs *js, struct job *job)
{
	static const struct feed_place never = { UINT64_MAX, UINT64_MAX,
						 UINT64_MAX };
	struct engine *e = job->engine;
	struct feed *f = &e->feed;
	struct run_state r = {
		.s = js->r->s, .ops = &part_ops, .sink = e,
		.stats = &e->stats, .filtered = js->r->filtered,
		.timeless = js->r->timeless, .on_event = note_event,
	};
	int rc;

	if (f->source) {
		e->out.v = f->v;
		e->out.at = f->at;
	}
	rc = session_give(&r, f, &never, true);
	if (rc < 0)
		return rc;
	job->work.key = job->is_chunk ? job->work.key : f->at.time;
	if (f->source && js->cuts)
		return push_notes(js, job);
	return r.enough || e->out.bytes >= js->max_held;
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
	job->engine->flowed = false;
	job->begun = true;
	return job->is_chunk ? engine_begin_chunk(job) : 0;
}

/* The last batch, of what is left to tell; then the engine is free. */
static enum work_state engine_end_job(struct jobs *js, struct job *job, int rc)
{
	struct engine *e = job->engine;
	struct batch *b;

	if (e && js->parts && push_notes(js, job) < 0)
		rc = -AUX_E_NOMEM;
	if (e && !js->parts) {
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
		rc = js->parts ? give_part(js, job) : push_events(js, job);
		if (rc < 0)
			break;
		if (rc > 0 && !w->stop) {
			if (js->parts && push_notes(js, job) < 0)
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

static int session_open_part(struct jobs *js, struct job *job)
{
	int rc = js->parts && !job->is_gap ?
			 js->r->ops->part_open(&job->part, js->r->sink) : 0;

	return rc < 0 ? -AUX_E_NOMEM : 0;
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
	if (session_open_part(js, job) < 0)
		return -AUX_E_NOMEM;
	if (job->is_gap)
		return 0;
	workers_lock(js->ws);
	workers_add(js->ws, &job->work);
	workers_unlock(js->ws);
	return 0;
}

/* The stream whose next chunk is needed first. */
static struct feed *next_to_cut(struct run_state *r)
{
	struct feed *best = NULL;

	for (size_t i = 0; i < r->n; i++) {
		struct feed *f = &r->feeds[i];

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
	       (f = next_to_cut(js->r)))
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
