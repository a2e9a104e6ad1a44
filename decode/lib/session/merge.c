/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session: the flows of all streams, merged by time into one sink.
 *
 * Each stream has a feed (feed.c): a decoder and the batch it gave last.
 * The feed whose next event is the earliest (then the one of the lowest stream)
 * gives events until its time passes that of another. A thread that moves to
 * another CPU therefore comes out in the order it ran, and the result depends on
 * nothing but the file. A TIME that reaches the horizon is the last event of its
 * batch, and so is a CONTEXT that says who runs: who runs, and the code behind
 * it, change between two calls of decode alone. Trace without times of the clock
 * goes by its AUX records.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/diag.h"
#include "decode/lib/session/decoders.h"
#include "decode/lib/session/impl.h"

#define SMALL_FILE ((uint64_t)2 << 20)	/* AUX bytes; threads do not pay */

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

void session_pass_gap(struct session_pass *pass, const struct flow_ctx *ctx,
		      const struct aux_flow *gap)
{
	struct session_stats *st = pass->stats;

	st->n_gaps[gap->what < GAP_N_CAUSES ? gap->what : 0]++;
	st->lossy |= gap->what != GAP_SNAPSHOT;
	if (pass->observer.on_gap)
		pass->observer.on_gap(pass->observer.priv, ctx, gap);
}

/* Gives what is before pos, without what is left out from there on. */
static int give(struct session_pass *pass, struct feed *f, size_t *start)
{
	size_t from = *start;
	int rc;

	*start = f->pos;
	if (from == f->pos || pass->enough)
		return 0;
	rc = pass->ops->flow(pass->sink, &f->v.ctx, f->buf + from, f->pos - from);
	if (rc > 0)
		pass->enough = true;
	return rc < 0 ? rc : 0;
}

bool session_must_wait(const struct feed_place *at,
		       const struct feed_place *limit, bool or_at)
{
	return feed_before(limit, at) || (!or_at && !feed_before(at, limit));
}

/* Has f's next event to wait for that of another feed, at limit? */
static bool is_later(struct feed *f, const struct feed_place *limit, bool or_at)
{
	struct feed_place at = session_next_place(f);

	return session_must_wait(&at, limit, or_at);
}

/* Is the place or the thread another one from ev on? */
bool session_changes_view(const struct feed *f, const struct aux_flow *ev)
{
	return ev->kind == AUX_FLOW_TIME ||
	       (f->source && (ev->kind == AUX_FLOW_CONTEXT ||
			      (f->timed && ev->kind == AUX_FLOW_TRACE_ON)));
}

/* A TIME that nobody asked for: the same runs, and nothing waits for it. */
static bool is_quiet(const struct session_pass *pass, const struct feed *f,
		     const struct aux_flow *ev)
{
	return pass->timeless && !f->source && ev->flags & AUX_FLOW_HAS_TSC &&
	       ev->time.tsc < f->host.horizon_tsc &&
	       ev->time.tsc >= f->v.ctx.tsc;
}

/* RANGEs and PATHs from pos on change nothing: most of all events. */
static uint64_t skip_plain(struct feed *f)
{
	const struct aux_flow *ev = &f->buf[f->pos];
	uint64_t n_insns = 0;

	if (!f->pos && f->n_plain) {
		f->pos = f->n_plain;
		return f->plain_insns;
	}
	ev = session_skip_plain(ev, &f->buf[f->n], &n_insns);
	f->pos = (size_t)(ev - f->buf);
	return n_insns;
}

/* Where f stands behind a TIME that leaves all but the time as it is. */
static bool is_tick(const struct feed *f, const struct aux_flow *ev,
		    uint64_t tsc, const struct feed_place *limit)
{
	uint64_t t = ev->time.ns ? ev->time.ns : ev->time.tsc;

	return ev->flags & AUX_FLOW_HAS_TSC && ev->time.tsc >= tsc &&
	       ev->time.tsc < f->host.horizon_tsc && t < limit->time;
}

/* Events that a sink that reads TIMEs takes in one go, if there are TIMEs now. */
static int give_ticks(struct session_pass *pass, struct feed *f, size_t *start,
		      const struct feed_place *limit)
{
	const struct aux_flow *ev = &f->buf[f->pos], *end = &f->buf[f->n];
	const struct aux_flow *last = NULL;
	uint64_t tsc = f->v.ctx.tsc, n_insns = 0;
	int rc;

	for (; ev < end; ev++) {
		if (session_is_plain(ev)) {
			n_insns += ev->n;
		} else if (ev->kind == AUX_FLOW_TIME) {
			if (!is_tick(f, ev, tsc, limit))
				break;
			tsc = ev->time.tsc;
			last = ev;
		} else if (ev->kind == AUX_FLOW_GAP) {
			break;
		}
	}
	if (!last)
		return 0;
	f->pos = (size_t)(ev - f->buf);
	rc = give(pass, f, start);
	f->pos = (size_t)(last - f->buf);
	session_take_event(f);
	f->pos = *start;
	pass->stats->n_insns += n_insns;
	return rc;
}

/* A GAP is counted when all before it was given, and it was not enough. */
static int give_gap(struct session_pass *pass, struct feed *f, size_t *start,
		    const struct aux_flow *ev)
{
	int rc = give(pass, f, start);

	if (rc < 0 || pass->enough)
		return rc;
	session_pass_gap(pass, &f->v.ctx, ev);
	return 0;
}

/* The event at pos, and the plain ones behind it. 1: it has to wait. */
static int pass_event(struct session_pass *pass, struct feed *f, size_t *start,
		      const struct feed_place *limit, bool or_at)
{
	const struct aux_flow *ev = &f->buf[f->pos];
	uint64_t n_insns;
	bool wanted;
	int rc = 0;

	if (session_changes_view(f, ev)) {
		if (!is_quiet(pass, f, ev))
			rc = give(pass, f, start);
		if (rc < 0)
			return rc;
		if (is_later(f, limit, or_at))
			return 1;
		session_take_event(f);
	}
	wanted = !pass->filtered || is_wanted(pass->s, f, ev);
	if (!wanted) {
		rc = give(pass, f, start);
		if (rc < 0)
			return rc;
	}
	if (session_is_plain(ev)) {
		n_insns = skip_plain(f);
		pass->stats->n_insns += wanted ? n_insns : 0;
	} else {
		f->pos++;
		if (wanted && ev->kind == AUX_FLOW_GAP)
			return give_gap(pass, f, start, ev);
	}
	if (!wanted)
		*start = f->pos;
	return 0;
}

/* Gives events of f until one is later than limit (at limit: when !or_at). */
int session_give(struct session_pass *pass, struct feed *f,
		 const struct feed_place *limit, bool or_at)
{
	size_t start = f->pos;
	int rc = 0;

	while (f->pos < f->n && !pass->enough && !rc) {
		if (pass->ticks && !f->source)
			rc = give_ticks(pass, f, &start, limit);
		if (f->pos < f->n && !pass->enough && !rc)
			rc = pass_event(pass, f, &start, limit, or_at);
	}
	return rc < 0 ? rc : give(pass, f, &start);
}

/* The earliest feed, and the place of the next one behind it. */
static struct feed *earliest(struct session_pass *pass, struct feed_place *limit,
			     bool *or_at)
{
	struct feed_place at, first = { 0 };
	struct feed *best = NULL, *second = NULL;

	*limit = (struct feed_place){ UINT64_MAX, UINT64_MAX, UINT64_MAX };
	for (size_t i = 0; i < pass->n; i++) {
		struct feed *f = &pass->feeds[i];

		if (f->pos == f->n)
			continue;
		at = pass->jobs ? session_jobs_place(pass->jobs, f) :
				  session_next_place(f);
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

static int refill(struct session_pass *pass, struct feed *f)
{
	return pass->jobs ? session_jobs_refill(pass, f) :
			 session_refill(f, pass->stats);
}

static int fill_feeds(struct session_pass *pass)
{
	int rc = 0;

	for (size_t i = 0; i < pass->n && rc >= 0; i++)
		rc = refill(pass, &pass->feeds[i]);
	return rc < 0 ? rc : 0;
}

/* The earliest feed gives what it can. 0: there is nothing more. */
static int merge_step(struct session_pass *pass)
{
	struct feed_place limit;
	struct feed *f;
	bool or_at;
	int rc;

	f = pass->enough ? NULL : earliest(pass, &limit, &or_at);
	if (!f)
		return 0;
	rc = pass->jobs ? session_jobs_give(pass, f, &limit, or_at) :
		       session_give(pass, f, &limit, or_at);
	if (rc == 0 && f->pos == f->n && !pass->enough)
		rc = refill(pass, f);
	if (rc >= 0 && pass->observer.on_progress)
		pass->observer.on_progress(pass->observer.priv);
	return rc < 0 ? rc : 1;
}

static void close_feeds(struct session_pass *pass)
{
	if (pass->jobs)
		session_jobs_close(pass);
	else
		for (size_t i = 0; i < pass->n; i++)
			session_close_feed(&pass->feeds[i]);
	free(pass->feeds);
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
	/* the engines ask for code once, and keep what they made of it */
	if (s->config.on_code && !s->decoder)
		p = plugins_reference(s->chunks.trace_type, NULL);
	if (p && !s->decoder)
		return p;
	return plugins_find(s->decoder, s->chunks.trace_type, diag);
}

static enum aux_paths find_paths(uint32_t needs)
{
	if (!(needs & SINK_TAKES_PATHS))
		return AUX_PATHS_NONE;
	return needs & SINK_EXACT_OFFSETS ? AUX_PATHS_PACKET : AUX_PATHS_JOINED;
}

/* What the feeds are to give. */
static struct feed_wants find_wants(const struct session_pass *pass)
{
	const struct session *s = pass->s;
	bool timed = pass->needs & SINK_NEEDS_TIME || pass->n > 1 || pass->filtered;

	return (struct feed_wants){
		.paths = find_paths(pass->needs),
		.time_step = timed ? 0 : UINT64_MAX,
		.reference = s->decoder ? NULL :
			     plugins_reference(s->chunks.trace_type,
					       pass->decoder),
	};
}

static unsigned count_cpus(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) == 0 ?
			CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);

	return n > 1 ? (unsigned)n : 1;
}

static unsigned count_workers(const struct session *s)
{
	if (s->config.on_code)	/* it is told in one thread */
		return 1;
	if (s->config.n_workers)
		return s->config.n_workers;
	return s->chunks.aux_bytes < SMALL_FILE ? 1 : count_cpus();
}

static int open_decoders(struct session_pass *pass, struct aux_diag *diag)
{
	unsigned n_workers = count_workers(pass->s);
	int rc;

	if (n_workers > 1) {
		rc = session_jobs_open(pass, n_workers, diag);
		if (rc == -AUX_E_NOMEM)
			diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				 "out of memory");
		return rc;
	}
	for (size_t i = 0; i < pass->n; i++) {
		rc = session_open_feed(pass->s, &pass->feeds[i], pass->feeds[i].index,
				       pass->decoder, diag);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int want_stream(struct session_pass *pass, size_t i)
{
	int rc = session_seek(pass->s, i);

	pass->feeds[pass->n++].index = i;
	pass->stats->aux_wanted += session_span_bytes(pass->s, i);
	return rc;
}

static int open_feeds(struct session_pass *pass, struct aux_diag *diag)
{
	struct session *s = pass->s;

	if (!s->n_streams)
		return 0;
	if (s->chunks.cs_error.code) {
		*diag = s->chunks.cs_error;
		return -diag->code;
	}
	pass->decoder = find_decoder(s, diag);
	if (!pass->decoder)
		return -AUX_E_UNSUPPORTED;
	pass->feeds = calloc(s->n_streams, sizeof(*pass->feeds));
	if (!pass->feeds)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	for (size_t i = 0; i < s->n_streams; i++)
		if (stream_wanted(s, &s->streams[i]) && want_stream(pass, i) < 0)
			return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
					"out of memory");
	pass->wants = find_wants(pass);
	for (size_t i = 0; i < pass->n; i++)
		pass->feeds[i].wants = pass->wants;
	pass->timeless = pass->wants.time_step;
	pass->ticks = pass->needs & SINK_TAKES_TIMES && !pass->filtered;
	pass->stats->decoder = pass->decoder->name;
	pass->stats->reference = pass->wants.reference ? pass->wants.reference->name :
						   NULL;
	return open_decoders(pass, diag);
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

static int say_no_memory(int rc, struct aux_diag *diag)
{
	if (rc == -AUX_E_NOMEM)
		diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
	return rc;
}

int session_pass_open(struct session_pass **out, struct session *s,
		      const struct session_pass_config *config,
		      struct aux_diag *diag)
{
	struct session_pass *pass = calloc(1, sizeof(*pass));
	int rc;

	*out = pass;
	if (!pass)
		return say_no_memory(-AUX_E_NOMEM, diag);
	pass->s = s;
	pass->ops = config->ops;
	pass->sink = config->sink;
	pass->needs = config->needs;
	pass->stats = config->stats ? config->stats : &pass->own_stats;
	pass->observer = *config;
	*pass->stats = (struct session_stats){ 0 };
	pass->filtered = is_filtered(s);
	count_file(s, pass->stats);
	rc = open_feeds(pass, diag);
	return rc ? rc : say_no_memory(fill_feeds(pass), diag);
}

int session_pass_step(struct session_pass *pass, struct aux_diag *diag)
{
	return say_no_memory(merge_step(pass), diag);
}

void session_pass_close(struct session_pass *pass)
{
	if (!pass)
		return;
	close_feeds(pass);
	free(pass);
}

int session_run_pass(struct session *s,
		     const struct session_pass_config *config,
		     struct aux_diag *diag)
{
	struct session_pass *pass;
	int rc = session_pass_open(&pass, s, config, diag);

	while (rc == 0 && (rc = session_pass_step(pass, diag)) > 0)
		rc = 0;
	if (rc == 0)
		rc = config->ops->finish(config->sink, diag);
	session_pass_close(pass);
	return rc;
}

int session_run(struct session *s, const struct sink_ops *ops, void *sink,
		struct session_stats *stats, struct aux_diag *diag)
{
	struct session_pass_config config = { .ops = ops, .sink = sink,
					      .needs = ops->needs,
					      .stats = stats };

	return session_run_pass(s, &config, diag);
}
