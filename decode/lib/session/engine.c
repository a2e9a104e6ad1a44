/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session: what a worker does: it decodes a job with an engine.
 *
 * The engine sees the flow as the session's feeds will: it takes every event that
 * changes who runs, so that the decoder finds its code. Only then the events go
 * to the session in a batch, or into a part of the sink.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/lib/session/jobs.h"

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

int session_new_engine(struct jobs *js, size_t stream, struct engine **ep,
		       struct aux_diag *diag)
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

void session_free_engine(struct engine *e)
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
static int begin_chunk(struct job *job)
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
	return job->is_chunk ? begin_chunk(job) : 0;
}

/* The last batch, of what is left to tell; then the engine is free. */
static enum work_state end_job(struct jobs *js, struct job *job, int rc)
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

enum work_state session_do_job(void *priv, struct work *w)
{
	struct jobs *js = priv;
	struct job *job = (struct job *)w;
	int rc = job->begun ? 0 : begin_job(js, job);
	struct engine *e = job->engine;

	if (rc < 0)
		return end_job(js, job, rc);
	while ((rc = session_refill(&e->feed, &e->stats)) > 0) {
		rc = js->parts ? give_part(js, job) : push_events(js, job);
		if (rc < 0)
			break;
		if (rc > 0 && !w->stop) {
			if (js->parts && push_notes(js, job) < 0)
				return end_job(js, job, -AUX_E_NOMEM);
			return WORK_HELD;
		}
		if (w->stop)
			return end_job(js, job, 0);
	}
	return end_job(js, job, rc);
}
