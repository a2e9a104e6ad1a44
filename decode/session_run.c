/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session: the flows of all streams, merged by time into one sink.
 *
 * Each stream has a feed (session_feed.c): a decoder and the batch it gave last.
 * The feed whose next event is the earliest (then the one of the lowest stream)
 * gives events until its time passes that of another. A thread that moves to
 * another CPU therefore comes out in the order it ran, and the result depends on
 * nothing but the file. A TIME that reaches the horizon is the last event of its
 * batch, and so is a CONTEXT that says who runs: who runs, and the code behind
 * it, change between two calls of decode alone. Trace without times of the clock
 * goes by its AUX records.
 */
#include <stdlib.h>
#include <string.h>

#include <internal/diag.h>

#include "plugins.h"
#include "session_priv.h"

struct run_state {
	struct session *s;
	struct feed *feeds;
	size_t n;
	const struct sink_ops *ops;
	void *sink;
	struct session_stats *stats;
	bool enough;
};

static bool is_filtered(const struct session *s)
{
	const struct session_config *c = &s->config;

	return c->tid >= 0 || c->time_from || c->time_to != UINT64_MAX;
}

static bool is_wanted(const struct session *s, const struct feed *f,
		      const struct aux_flow *ev)
{
	const struct session_config *c = &s->config;
	uint64_t time;

	if (c->tid >= 0 && f->v.ctx.tid != (uint32_t)c->tid &&
	    !(ev->kind == AUX_FLOW_GAP && f->v.ctx.tid == UINT32_MAX))
		return false;
	time = f->source && !f->timed ? f->v.record_ns : f->v.ctx.time_ns;
	return time >= c->time_from && time <= c->time_to;
}

static void count_event(struct session_stats *st, const struct aux_flow *ev)
{
	if (ev->kind == AUX_FLOW_RANGE) {
		st->n_insns += ev->n;
	} else if (ev->kind == AUX_FLOW_GAP) {
		st->n_gaps[ev->what < GAP_N_CAUSES ? ev->what : 0]++;
		st->lossy |= ev->what != GAP_SNAPSHOT;
	}
}

static int give(struct run_state *r, struct feed *f, size_t from, size_t to)
{
	int rc;

	if (from == to)
		return 0;
	for (size_t i = from; i < to; i++)
		count_event(r->stats, &f->buf[i]);
	rc = r->ops->flow(r->sink, &f->v.ctx, f->buf + from, to - from);
	if (rc > 0)
		r->enough = true;
	return rc < 0 ? rc : 0;
}

/* Has f's next event to wait for that of another feed, at limit? */
static bool is_later(struct feed *f, const struct feed_place *limit,
		     bool or_at)
{
	struct feed_place at = session_next_place(f);

	return feed_before(limit, &at) || (!or_at && !feed_before(&at, limit));
}

/* Is the place or the thread another one from ev on? */
static bool changes_view(const struct feed *f, const struct aux_flow *ev)
{
	return ev->kind == AUX_FLOW_TIME ||
	       (f->source && (ev->kind == AUX_FLOW_CONTEXT ||
			      (f->timed && ev->kind == AUX_FLOW_TRACE_ON)));
}

/* Gives events of f until one is later than limit (at limit: when !or_at). */
static int give_until(struct run_state *r, struct feed *f,
		      const struct feed_place *limit, bool or_at)
{
	bool filtered = is_filtered(r->s);
	size_t start = f->pos;
	int rc;

	while (f->pos < f->n && !r->enough) {
		const struct aux_flow *ev = &f->buf[f->pos];

		if (changes_view(f, ev)) {
			rc = give(r, f, start, f->pos);
			if (rc < 0)
				return rc;
			start = f->pos;
			if (is_later(f, limit, or_at))
				return 0;
			session_take_event(f);
		}
		if (filtered && !is_wanted(r->s, f, ev)) {
			rc = give(r, f, start, f->pos);
			if (rc < 0)
				return rc;
			start = f->pos + 1;
		}
		f->pos++;
	}
	return give(r, f, start, f->pos);
}

/* The earliest feed, and the place of the next one behind it. */
static struct feed *earliest(struct run_state *r, struct feed_place *limit,
			     bool *or_at)
{
	struct feed_place at, first = { 0 };
	struct feed *best = NULL, *second = NULL;

	*limit = (struct feed_place){ UINT64_MAX, UINT64_MAX, UINT64_MAX };
	for (size_t i = 0; i < r->n; i++) {
		struct feed *f = &r->feeds[i];

		if (f->pos == f->n)
			continue;
		at = session_next_place(f);
		if (!best || feed_before(&at, &first)) {
			if (best)
				*limit = first;
			second = best;
			best = f;
			first = at;
		} else if (!second || feed_before(&at, limit)) {
			second = f;
			*limit = at;
		}
	}
	*or_at = !second || best < second;
	return best;
}

static int merge(struct run_state *r)
{
	struct feed_place limit;
	struct feed *f;
	bool or_at;
	int rc;

	for (size_t i = 0; i < r->n; i++) {
		rc = session_refill(&r->feeds[i], r->stats);
		if (rc < 0)
			return rc;
	}
	while (!r->enough && (f = earliest(r, &limit, &or_at))) {
		rc = give_until(r, f, &limit, or_at);
		if (rc == 0 && f->pos == f->n)
			rc = session_refill(f, r->stats);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static void close_feeds(struct run_state *r)
{
	for (size_t i = 0; i < r->n; i++)
		session_close_feed(&r->feeds[i]);
	free(r->feeds);
}

static bool stream_wanted(const struct session *s, const struct stream *st)
{
	const struct session_config *c = &s->config;
	int32_t cpu = st->source && st->source->cpu >= 0 ? st->source->cpu :
							    st->cpu;

	if (c->cpu >= 0 && cpu >= 0 && cpu != c->cpu)
		return false;
	return c->tid < 0 || st->cpu >= 0 || st->tid < 0 ||
	       st->tid == c->tid ||
	       timeline_stream(s->timeline, st->idx, UINT64_MAX).tid ==
		       (uint32_t)c->tid;
}

static const struct aux_decoder_ops *find_decoder(struct session *s,
						  struct aux_diag *diag)
{
	const struct aux_decoder_ops *p = s->plugin_ops;

	if (p && (!s->decoder || !strcmp(s->decoder, p->name)))
		return p;
	return plugins_find(s->decoder, s->chunks.trace_type, diag);
}

static int open_feeds(struct run_state *r, struct aux_diag *diag)
{
	struct session *s = r->s;
	const struct aux_decoder_ops *ops;
	int rc;

	if (!s->n_streams)
		return 0;
	if (s->chunks.cs_error.code) {
		*diag = s->chunks.cs_error;
		return -diag->code;
	}
	ops = find_decoder(s, diag);
	if (!ops)
		return -AUX_E_UNSUPPORTED;
	r->feeds = calloc(s->n_streams, sizeof(*r->feeds));
	if (!r->feeds)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	for (size_t i = 0; i < s->n_streams; i++) {
		if (!stream_wanted(s, &s->streams[i]))
			continue;
		rc = session_open_feed(s, &r->feeds[r->n++], i, ops, diag);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Saved code or the ledger may be in a section that the file lacks. */
static bool features_cut(const struct aux_reader *r)
{
	struct aux_bytes b;

	for (unsigned bit = 0; bit < AUX_FEAT_BITS; bit++) {
		if (aux_reader_feature(r, bit, &b, NULL) < 0)
			return true;
	}
	return false;
}

static void count_file(const struct session *s, struct session_stats *st)
{
	const struct timeline_stats *ts = timeline_stats(s->timeline);

	st->aux_bytes = s->chunks.aux_bytes;
	st->n_streams = s->n_streams;
	st->n_records = ts->n_records;
	st->ledger_lost = s->ledger_lost;
	if (ts->n_lost || ts->n_aux_flagged || ts->n_bad_code ||
	    ts->n_unordered || ts->damaged || s->ledger_lost ||
	    s->ledger_events || s->chunks.n_orphan_aux ||
	    aux_reader_info(s->reader)->unfinished || features_cut(s->reader))
		st->lossy = true;
}

int session_run(struct session *s, const struct sink_ops *ops, void *sink,
		struct session_stats *stats, struct aux_diag *diag)
{
	struct session_stats own;
	struct run_state r = { .s = s, .ops = ops, .sink = sink,
			       .stats = stats ? stats : &own };
	int rc;

	*r.stats = (struct session_stats){ 0 };
	count_file(s, r.stats);
	rc = open_feeds(&r, diag);
	if (rc == 0) {
		rc = merge(&r);
		if (rc == -AUX_E_NOMEM)
			diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				 "out of memory");
	}
	if (rc == 0)
		rc = ops->finish(sink, diag);
	close_feeds(&r);
	return rc;
}
