/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session: the flows of all streams, merged by time into one sink.
 *
 * Each stream has a feed: a decoder and the batch it gave last. The feed whose
 * next event is the earliest (then the one of the lowest queue) gives events
 * until its time passes that of another. A thread that moves to another CPU
 * therefore comes out in the order it ran, and the result depends on nothing but
 * the file. A TIME that reaches the horizon is the last event of its batch, so
 * who runs, and the code behind it, change between two calls of decode alone.
 */
#include <stdlib.h>
#include <string.h>

#include <internal/diag.h>

#include "plugins.h"
#include "session_priv.h"

#define BATCH 512

struct feed {
	struct session *s;
	const struct stream *stream;
	struct chunk_iter it;
	const struct aux_decoder_ops *ops;
	void *dec;
	struct aux_decoder_host host;
	bool in_chunk, ended;
	bool joint;		/* the flow goes on from the chunk before: the
				 * TRACE_ON that is due is none */
	bool in_gap;		/* the last event was a GAP */
	struct aux_flow *buf;
	size_t n, pos;
	struct flow_ctx ctx;	/* at buf[pos] */
	uint64_t key;		/* time of ctx, for order */
};

struct run_state {
	struct session *s;
	struct feed *feeds;
	size_t n;
	const struct sink_ops *ops;
	void *sink;
	struct session_stats *stats;
	bool enough;
};

static int give_code(void *priv, uint64_t ip, struct aux_code *code)
{
	struct feed *f = priv;

	return codeview_code(f->s->codeview, f->ctx.space, ip, code);
}

/* Who runs now, in which space, and until when that holds. */
static void find_who(struct feed *f)
{
	const struct timeline *tl = f->s->timeline;
	uint64_t time = f->s->timed ? f->ctx.time_ns : UINT64_MAX;
	struct who w;

	/* A CPU's stream may also name the thread the recording began with. */
	if (f->stream->tid >= 0 && f->stream->cpu < 0) {
		w = timeline_stream(tl, f->stream->idx, time);
		if (w.tid == UINT32_MAX)
			w.tid = (uint32_t)f->stream->tid;
		w.pid = timeline_pid(tl, w.tid, time);
	} else {
		w = timeline_who(tl, (uint32_t)f->stream->cpu, time);
	}
	f->ctx.tid = w.tid;
	f->ctx.pid = w.pid;
	f->ctx.space = timeline_space(tl, f->ctx.pid, time);
	if (f->ctx.space->until < w.until)
		w.until = f->ctx.space->until;
	f->host.generation = f->ctx.space->id;
	f->host.horizon_tsc =
		f->s->timed ? clock_horizon(&f->s->dec_config.clock, w.until) :
			      UINT64_MAX;
}

static void take_time(struct feed *f, const struct aux_flow *ev)
{
	uint64_t key = ev->time.ns ? ev->time.ns : ev->time.tsc;
	bool back = ev->time.tsc < f->ctx.tsc;

	f->ctx.time_ns = ev->time.ns;
	f->ctx.tsc = ev->flags & AUX_FLOW_HAS_TSC ? ev->time.tsc : 0;
	if (key > f->key)
		f->key = key;
	if (!(ev->flags & AUX_FLOW_HAS_TSC) || back ||
	    ev->time.tsc >= f->host.horizon_tsc)
		find_who(f);
}

/* Decodes on. A chunk that was cut from the one before starts without a seam. */
static int decode_more(struct feed *f)
{
	bool goes_on = f->it.chunk.flags & AUX_CHUNK_HAS_END_IP;
	int rc = f->ops->decode(f->dec, f->buf, BATCH);

	if (rc < 0)
		return rc;
	f->n = (size_t)rc;
	for (size_t i = 0; f->joint && i < f->n; i++) {
		uint8_t kind = f->buf[i].kind;

		f->joint = kind != AUX_FLOW_RANGE && kind != AUX_FLOW_GAP &&
			   kind != AUX_FLOW_TRACE_ON;
		if (kind == AUX_FLOW_TRACE_ON)
			memmove(&f->buf[i], &f->buf[i + 1],
				(--f->n - i) * sizeof(*f->buf));
	}
	if (rc > 0)
		f->in_gap = f->n && f->buf[f->n - 1].kind == AUX_FLOW_GAP;
	else
		f->joint = goes_on && !f->in_gap;
	f->in_chunk = rc > 0;
	return 0;
}

/* Fills an empty buffer. 0 at the end of the stream. */
static int refill(struct feed *f, struct session_stats *stats)
{
	int rc;

	f->pos = f->n = 0;
	while (!f->ended && !f->n) {
		if (f->in_chunk) {
			rc = decode_more(f);
			if (rc < 0)
				return rc;
			continue;
		}
		rc = chunk_iter_next(&f->it);
		if (rc < 0)
			return rc;
		if (rc == CHUNK_GAP) {
			f->buf[f->n++] = f->it.gap;
		} else if (rc == CHUNK_END) {
			f->ended = true;
		} else {
			stats->aux_decoded += f->it.chunk.len;
			rc = f->ops->start(f->dec, &f->it.chunk);
			if (rc < 0)
				return rc;
			f->in_chunk = true;
		}
	}
	return f->n > 0;
}

/* The time of a feed's next event. */
static uint64_t next_key(const struct feed *f)
{
	const struct aux_flow *ev = &f->buf[f->pos];
	uint64_t key;

	if (ev->kind != AUX_FLOW_TIME)
		return f->key;
	key = ev->time.ns ? ev->time.ns : ev->time.tsc;
	return key > f->key ? key : f->key;
}

static bool is_filtered(const struct session *s)
{
	const struct session_config *c = &s->config;

	return c->tid >= 0 || c->time_from || c->time_to != UINT64_MAX;
}

static bool is_wanted(const struct session *s, const struct feed *f,
		      const struct aux_flow *ev)
{
	const struct session_config *c = &s->config;

	if (c->tid >= 0 && f->ctx.tid != (uint32_t)c->tid &&
	    !(ev->kind == AUX_FLOW_GAP && f->ctx.tid == UINT32_MAX))
		return false;
	return f->ctx.time_ns >= c->time_from && f->ctx.time_ns <= c->time_to;
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
	rc = r->ops->flow(r->sink, &f->ctx, f->buf + from, to - from);
	if (rc > 0)
		r->enough = true;
	return rc < 0 ? rc : 0;
}

/* Gives events of f until one is later than limit (at limit: when !or_at). */
static int give_until(struct run_state *r, struct feed *f, uint64_t limit,
		      bool or_at)
{
	bool filtered = is_filtered(r->s);
	size_t start = f->pos;
	int rc;

	while (f->pos < f->n && !r->enough) {
		const struct aux_flow *ev = &f->buf[f->pos];

		if (ev->kind == AUX_FLOW_TIME) {
			uint64_t key = next_key(f);

			rc = give(r, f, start, f->pos);
			if (rc < 0)
				return rc;
			start = f->pos;
			if (key > limit || (key == limit && !or_at))
				return 0;
			take_time(f, ev);
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

/* The earliest feed, and the time and place of the next one behind it. */
static struct feed *earliest(struct run_state *r, uint64_t *limit, bool *or_at)
{
	struct feed *best = NULL, *second = NULL;

	for (size_t i = 0; i < r->n; i++) {
		struct feed *f = &r->feeds[i];

		if (f->pos == f->n)
			continue;
		if (!best || next_key(f) < next_key(best)) {
			second = best;
			best = f;
		} else if (!second || next_key(f) < next_key(second)) {
			second = f;
		}
	}
	*limit = second ? next_key(second) : UINT64_MAX;
	*or_at = !second || best < second;
	return best;
}

static int merge(struct run_state *r)
{
	struct feed *f;
	uint64_t limit;
	bool or_at;
	int rc;

	for (size_t i = 0; i < r->n; i++) {
		rc = refill(&r->feeds[i], r->stats);
		if (rc < 0)
			return rc;
	}
	while (!r->enough && (f = earliest(r, &limit, &or_at))) {
		rc = give_until(r, f, limit, or_at);
		if (rc == 0 && f->pos == f->n)
			rc = refill(f, r->stats);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int open_feed(struct session *s, struct feed *f, size_t i,
		     const struct aux_decoder_ops *ops, struct aux_diag *diag)
{
	int rc;

	f->s = s;
	f->stream = &s->streams[i];
	f->ops = ops;
	f->host = (struct aux_decoder_host){ .size = sizeof(f->host), .priv = f,
					     .code = give_code };
	f->ctx = (struct flow_ctx){ .session = s, .stream = f->stream->idx,
				    .cpu = f->stream->cpu };
	find_who(f);
	chunk_iter_init(&f->it, &s->chunks.queues[i], s->chunks.trace_type,
			s->config.chunk_min);
	f->buf = malloc(BATCH * sizeof(*f->buf));
	if (!f->buf)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	rc = ops->open(&f->dec, &s->dec_config, &f->host, diag);
	if (rc == -AUX_E_NOMEM)
		diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
	return rc;
}

static void close_feeds(struct run_state *r)
{
	for (size_t i = 0; i < r->n; i++) {
		if (r->feeds[i].ops)
			r->feeds[i].ops->close(r->feeds[i].dec);
		chunk_iter_fini(&r->feeds[i].it);
		free(r->feeds[i].buf);
	}
	free(r->feeds);
}

static bool stream_wanted(const struct session *s, const struct stream *st)
{
	const struct session_config *c = &s->config;

	if (c->cpu >= 0 && st->cpu >= 0 && st->cpu != c->cpu)
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

	if (!s->chunks.n)
		return 0;
	ops = find_decoder(s, diag);
	if (!ops)
		return -AUX_E_UNSUPPORTED;
	r->feeds = calloc(s->chunks.n, sizeof(*r->feeds));
	if (!r->feeds)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	for (size_t i = 0; i < s->chunks.n; i++) {
		if (!stream_wanted(s, &s->streams[i]))
			continue;
		rc = open_feed(s, &r->feeds[r->n++], i, ops, diag);
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
	st->n_streams = s->chunks.n;
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
