/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session: the flows of all streams, merged by time into one sink.
 *
 * Each stream has a cursor: a decoder and the batch that it emitted last
 * (cursor.h). The cursor whose next event has the lowest key, of equal ones
 * that of the lowest stream, delivers events until its key passes the lowest of
 * the others. So a thread that moves to another CPU comes out in the order in
 * which it ran, and the result depends on nothing but the file: neither on the
 * size of batches nor on threads.
 *
 * Keys. With times of the clock (Intel PT with TSC, CoreSight with timestamps
 * of the perf clock) the key is the time of the last TIME. An event between two
 * TIMEs has the key of the first: nothing says when between them it happened.
 * Without, it is the time of the AUX record that the bytes came with, then its
 * number in the file, then the timestamp inside it. Keys of a stream never go
 * back (struct merge_key).
 *
 * By stint. A sink that keeps threads apart (SINK_THREAD_ORDER) needs of this order only
 * that of what each thread ran. For it a stint, what one thread runs in one chunk of a
 * stream until it runs on another CPU, is delivered whole, at the key where it begins:
 * streams that run at the same time do not take turns at every TIME, and workers sum up
 * stints without knowing of each other's. A GAP is reported with the stint that it is in.
 * A thread runs in one place at a time, so all of its flow is in the order of time; where
 * wrong times say that it ran in two at once, the order is another one than that by event,
 * but the same for any number of threads: chunks, keys and stints are found by the same
 * rules. Without records of switches nothing says that a thread left a CPU and came back:
 * then the order is that by event.
 *
 * Who runs. What the side-band says holds up to a time, the horizon. A TIME at
 * or after it is the last event of its batch, and so is a CONTEXT that names a
 * thread; the decoder is called again when the view is up to date. So which
 * thread runs, and in which code, changes between two calls of decode alone,
 * and no instruction is decoded with the code of another process.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/diag.h"
#include "decode/lib/session/decoders.h"
#include "decode/lib/session/impl.h"

/* AUX bytes below which threads cost more than they save: each starts a
 * decoder, which learns the code anew. */
#define SMALL_FILE ((uint64_t)2 << 20)

static bool is_filtered(const struct session *s)
{
	const struct session_config *c = &s->config;

	return c->tid >= 0 || c->n_pids || c->n_comms || c->time_from ||
	       c->time_to != UINT64_MAX;
}

static bool is_thread_wanted(const struct session *s, const struct flow_ctx *ctx,
			     uint64_t time)
{
	const struct session_config *c = &s->config;
	bool wanted = !c->n_pids;
	const char *comm;

	if (c->tid >= 0 && ctx->tid != (uint32_t)c->tid)
		return false;
	for (size_t i = 0; i < c->n_pids; i++)
		wanted |= ctx->pid == c->pids[i];
	if (!wanted || !c->n_comms)
		return wanted;
	comm = timeline_comm(s->timeline, ctx->tid, time);
	for (size_t i = 0; i < c->n_comms; i++)
		if (!strcmp(comm, c->comms[i]))
			return true;
	return false;
}

/* Do the filters let ev through? A GAP of an unknown thread may hide any. */
static bool is_wanted(const struct session *s, const struct stream_cursor *cur,
		      const struct aux_flow *ev)
{
	const struct session_config *c = &s->config;
	const struct flow_ctx *ctx = &cur->m.view.ctx;
	uint64_t time = cur->source && !cur->timed ? cur->m.view.record_ns
						   : ctx->time_ns;

	if (!(ev->kind == AUX_FLOW_GAP && ctx->tid == UINT32_MAX) &&
	    !is_thread_wanted(s, ctx, time))
		return false;
	return time >= c->time_from && time <= c->time_to;
}

void merge_report_gap(struct session_pass *pass, const struct flow_ctx *ctx,
		      const struct aux_flow *gap)
{
	struct session_stats *st = pass->stats;

	st->n_gaps[gap->what < GAP_N_CAUSES ? gap->what : 0]++;
	st->lossy |= gap->what != GAP_SNAPSHOT;
	if (pass->observer.on_gap)
		pass->observer.on_gap(pass->observer.priv, ctx, gap);
}

/* Delivers buf[*start..pos) and advances *start. What is after pos does not
 * count yet: an event that is filtered out, or that changes the view. */
static int deliver(struct session_pass *pass, struct stream_cursor *cur,
		   size_t *start)
{
	size_t from = *start;
	int rc;

	*start = cur->m.pos;
	if (from == cur->m.pos || pass->enough)
		return 0;
	rc = pass->ops->flow(pass->sink, &cur->m.view.ctx, cur->m.buf + from,
			     cur->m.pos - from);
	if (rc > 0)
		pass->enough = true;
	return rc < 0 ? rc : 0;
}

bool merge_must_wait(const struct merge_key *at, const struct merge_key *limit,
		     bool or_at)
{
	return merge_before(limit, at) || (!or_at && !merge_before(at, limit));
}

/* True if what cur has next comes after that of another cursor, at limit. */
static bool is_later(struct stream_cursor *cur, const struct merge_key *limit,
		     bool or_at)
{
	struct merge_key at = cursor_next_key(cur);

	return merge_must_wait(&at, limit, or_at);
}

static const struct merge_key never = { UINT64_MAX, UINT64_MAX, UINT64_MAX };

/* Of Intel PT only TIME does: its CONTEXT (CR3, VMCS) names no thread.
 * CoreSight's TRACE_ON is a break: its key is that of the next TIME. */
bool cursor_changes_view(const struct stream_cursor *cur,
			 const struct aux_flow *ev)
{
	return ev->kind == AUX_FLOW_TIME ||
	       (cur->source && (ev->kind == AUX_FLOW_CONTEXT ||
				(cur->timed && ev->kind == AUX_FLOW_TRACE_ON)));
}

/* A TIME that neither the sink nor the merge needs: the same thread runs, and
 * no other stream waits for it. Batches need not be split at it. */
static bool is_quiet(const struct session_pass *pass,
		     const struct stream_cursor *cur, const struct aux_flow *ev,
		     const struct merge_key *limit)
{
	return (pass->timeless ||
		(pass->untimed && ev->time.ns < limit->time)) &&
	       !cur->source && ev->flags & AUX_FLOW_HAS_TSC &&
	       ev->time.tsc < cur->horizon_tsc &&
	       ev->time.tsc >= cur->m.view.ctx.tsc;
}

/* Skips RANGEs and PATHs from pos on, which are most of all events; returns
 * their instructions. The decoder's pass over the batch has often counted them
 * (n_plain). */
static uint64_t skip_plain(struct stream_cursor *cur)
{
	const struct aux_flow *ev = &cur->m.buf[cur->m.pos];
	uint64_t n_insns = 0;

	if (!cur->m.pos && cur->m.n_plain) {
		cur->m.pos = cur->m.n_plain;
		return cur->m.plain_insns;
	}
	ev = cursor_skip_plain(ev, &cur->m.buf[cur->m.n], &n_insns);
	cur->m.pos = (size_t)(ev - cur->m.buf);
	return n_insns;
}

/* Does a TIME change nothing but the time? Then a sink that reads TIMEs gets it
 * in the middle of a batch. */
static bool is_tick(const struct stream_cursor *cur, const struct aux_flow *ev,
		    uint64_t tsc, const struct merge_key *limit)
{
	uint64_t t = ev->time.ns ? ev->time.ns : ev->time.tsc;

	return ev->flags & AUX_FLOW_HAS_TSC && ev->time.tsc >= tsc &&
	       ev->time.tsc < cur->horizon_tsc && t < limit->time;
}

/* Goes on to the next GAP or TIME that changes more than the time. Where there are TIMEs
 * before it, all up to there is delivered in one call. */
static int deliver_ticks(struct session_pass *pass, struct stream_cursor *cur,
			 size_t *start, const struct merge_key *limit)
{
	const struct aux_flow *ev = &cur->m.buf[cur->m.pos],
			      *end = &cur->m.buf[cur->m.n];
	const struct aux_flow *last = NULL;
	uint64_t tsc = cur->m.view.ctx.tsc, n_insns = 0;
	int rc;

	for (; ev < end; ev++) {
		if (flow_is_plain(ev)) {
			n_insns += ev->n;
		} else if (ev->kind == AUX_FLOW_TIME) {
			if (!is_tick(cur, ev, tsc, limit))
				break;
			tsc = ev->time.tsc;
			last = ev;
		} else if (ev->kind == AUX_FLOW_GAP) {
			break;
		}
	}
	cur->m.pos = (size_t)(ev - cur->m.buf);
	pass->stats->n_insns += n_insns;
	if (!last)
		return 0;
	rc = deliver(pass, cur, start);
	cur->m.pos = (size_t)(last - cur->m.buf);
	cursor_consume(cur);
	cur->m.pos = *start;
	return rc;
}

/* Delivers up to the GAP before pos, then counts it: not if the sink had enough
 * before it. */
static int deliver_gap(struct session_pass *pass, struct stream_cursor *cur,
		       size_t *start, const struct aux_flow *ev)
{
	int rc = deliver(pass, cur, start);

	if (rc < 0 || pass->enough)
		return rc;
	merge_report_gap(pass, &cur->m.view.ctx, ev);
	return 0;
}

/*
 * Finds, once for each event, whether a stint begins with it: with the first of a chunk,
 * where another thread runs at a later key, and where the thread ran on another CPU in
 * between. A TIME at which that may be is consumed, so all before it must have been
 * delivered.
 */
static void find_stint(struct stream_cursor *cur)
{
	const struct aux_flow *ev = &cur->m.buf[cur->m.pos];
	const struct flow_ctx *ctx = &cur->m.view.ctx;
	struct stint *st = &cur->stint;

	if (st->consumed || !cursor_changes_view(cur, ev))
		return;
	cursor_consume(cur);
	st->consumed = true;
	if ((ctx->tid != st->tid || ctx->pid != st->pid || cur->m.key.time >= st->moves) &&
	    merge_before(&st->raw, &cur->m.key))
		st->begins = true;
}

/* The key of the stint that begins at buf[pos], or goes on there. All before it was
 * delivered. */
static struct merge_key stint_key(struct stream_cursor *cur)
{
	const struct stint *st = &cur->stint;

	find_stint(cur);
	return st->begins && merge_before(&st->key, &cur->m.key) ? cur->m.key : st->key;
}

/* Goes on with the stint at pos, or begins one. 1: it has to wait for another
 * cursor. */
static int enter_stint(struct stream_cursor *cur, const struct merge_key *limit, bool or_at)
{
	struct merge_key at = stint_key(cur);
	struct stint *st = &cur->stint;
	const struct flow_ctx *ctx = &cur->m.view.ctx;

	if (st->begins) {
		if (merge_must_wait(&at, limit, or_at))
			return 1;
		*st = (struct stint){ .tid = ctx->tid,
				      .pid = ctx->pid,
				      .moves = ctx->cpu < 0 ? UINT64_MAX :
					       timeline_thread_moves(cur->s->timeline, ctx->tid,
								     (uint32_t)ctx->cpu,
								     cur->m.key.time),
				      .raw = cur->m.key,
				      .key = at,
				      .serial = st->serial + 1 };
	}
	st->consumed = false;
	return 0;
}

/* Consumes the TIME at pos: what is before it is delivered first, unless it is quiet.
 * 1: it has to wait for another cursor. */
static int consume_event(struct session_pass *pass, struct stream_cursor *cur,
			 size_t *start, const struct merge_key *limit, bool or_at)
{
	const struct aux_flow *ev = &cur->m.buf[cur->m.pos];
	const struct merge_key *until = pass->by_stint ? &never : limit;
	bool quiet = !cur->stint.consumed && !cur->stint.begins &&
		     is_quiet(pass, cur, ev, until);
	int rc = 0;

	if (!quiet)
		rc = deliver(pass, cur, start);
	if (rc < 0)
		return rc;
	if (pass->by_stint && !quiet)
		return enter_stint(cur, limit, or_at);
	if (!pass->by_stint && is_later(cur, limit, or_at))
		return 1;
	cursor_consume(cur);
	return 0;
}

/* Handles the event at pos, and the plain ones after it. 1: it has to wait for
 * another cursor. */
static int deliver_event(struct session_pass *pass, struct stream_cursor *cur,
			 size_t *start, const struct merge_key *limit,
			 bool or_at)
{
	const struct aux_flow *ev = &cur->m.buf[cur->m.pos];
	uint64_t n_insns;
	bool wanted;
	int rc = 0;

	if (cursor_changes_view(cur, ev)) {
		rc = consume_event(pass, cur, start, limit, or_at);
		if (rc)
			return rc;
	}
	wanted = !pass->filtered || is_wanted(pass->s, cur, ev);
	if (!wanted) {
		rc = deliver(pass, cur, start);
		if (rc < 0)
			return rc;
	}
	if (flow_is_plain(ev)) {
		n_insns = skip_plain(cur);
		pass->stats->n_insns += wanted ? n_insns : 0;
	} else {
		cur->m.pos++;
		if (wanted && ev->kind == AUX_FLOW_GAP)
			return deliver_gap(pass, cur, start, ev);
	}
	if (!wanted)
		*start = cur->m.pos;
	return 0;
}

/* Contract in impl.h. */
int merge_deliver(struct session_pass *pass, struct stream_cursor *cur,
		  const struct merge_key *limit, bool or_at)
{
	const struct merge_key *until = pass->by_stint ? &never : limit;
	size_t start = cur->m.pos;
	int rc = 0;

	/* where it is no TIME, of which that is consume_event's */
	if (cur->stint.begins && !cursor_changes_view(cur, &cur->m.buf[start]))
		rc = enter_stint(cur, limit, or_at);
	while (cur->m.pos < cur->m.n && !pass->enough && !rc) {
		if (pass->ticks && !cur->source && !cur->stint.consumed &&
		    !cur->stint.begins)
			rc = deliver_ticks(pass, cur, &start, until);
		if (cur->m.pos < cur->m.n && !pass->enough && !rc)
			rc = deliver_event(pass, cur, &start, limit, or_at);
	}
	return rc < 0 ? rc : deliver(pass, cur, &start);
}

static struct merge_key next_key(const struct session_pass *pass, struct stream_cursor *cur)
{
	if (pass->parallel)
		return parallel_next_key(cur);
	return pass->by_stint ? stint_key(cur) : cursor_next_key(cur);
}

/* The cursor that is due, and the lowest key of the others; NULL: all are at
 * their end. */
static struct stream_cursor *earliest(struct session_pass *pass,
				      struct merge_key *limit, bool *or_at)
{
	struct merge_key at, first = { 0 };
	struct stream_cursor *best = NULL, *second = NULL;

	*limit = (struct merge_key){ UINT64_MAX, UINT64_MAX, UINT64_MAX };
	for (size_t i = 0; i < pass->n; i++) {
		struct stream_cursor *cur = &pass->cursors[i];

		if (cur->m.pos == cur->m.n)
			continue;
		at = next_key(pass, cur);
		if (!best || merge_before(&at, &first)) {
			if (best)
				*limit = first;
			second = best;
			best = cur;
			first = at;
		} else if (!second || merge_before(&at, limit)) {
			second = cur;
			*limit = at;
		}
	}
	*or_at = !second || best < second;
	return best;
}

uint64_t session_memory(const struct session *s)
{
	uint64_t max = session_limit(s);
	uint64_t maps = timeline_memory(s->timeline) + s->chunks.memory.used;

	/* what little is left must do: a decoder has to keep something */
	return maps < max / 2 ? max - maps : max / 2;
}

/* Without workers there is a decoder for each stream that has not ended: each has
 * its share of the memory. */
static int refill(struct session_pass *pass, struct stream_cursor *cur)
{
	bool quiet = pass->untimed && (pass->filled || pass->by_stint);
	int rc;

	if (pass->parallel)
		return parallel_refill(pass, cur);
	cur->host.memory = session_memory(pass->s) / (pass->n - pass->n_ended);
	if (quiet)
		quiet_begin(pass, cur);
	rc = cursor_refill(cur, pass->stats);
	if (quiet)
		quiet_end(cur);
	pass->n_ended += rc == 0;
	return rc;
}

static int fill_cursors(struct session_pass *pass)
{
	int rc = 0;

	for (size_t i = 0; i < pass->n && rc >= 0; i++)
		rc = refill(pass, &pass->cursors[i]);
	pass->filled = true;
	return rc < 0 ? rc : 0;
}

/* The cursor that is due delivers what it may, at most its buffer. 0: there is
 * nothing more, or the sink has enough. */
static int merge_step(struct session_pass *pass)
{
	struct merge_key limit;
	struct stream_cursor *cur;
	bool or_at;
	int rc;

	cur = pass->enough ? NULL : earliest(pass, &limit, &or_at);
	if (!cur)
		return 0;
	rc = pass->parallel ? parallel_deliver(pass, cur, &limit, or_at)
			    : merge_deliver(pass, cur, &limit, or_at);
	if (rc == 0 && cur->m.pos == cur->m.n && !pass->enough)
		rc = refill(pass, cur);
	if (rc >= 0 && pass->observer.on_progress)
		pass->observer.on_progress(pass->observer.priv);
	return rc < 0 ? rc : 1;
}

static void close_cursors(struct session_pass *pass)
{
	if (pass->parallel)
		parallel_close(pass);
	else
		for (size_t i = 0; i < pass->n; i++)
			cursor_close(&pass->cursors[i]);
	free(pass->cursors);
}

/* False if the options leave out all of the stream: by its CPU, its thread, or as it
 * is. */
static bool stream_wanted(const struct session *s, const struct stream *st)
{
	const struct session_config *c = &s->config;
	int32_t cpu =
		st->source && st->source->cpu >= 0 ? st->source->cpu : st->cpu;

	if (c->cpu >= 0 && cpu >= 0 && cpu != c->cpu)
		return false;
	if (c->stream && *c->stream != st->idx)
		return false;
	return c->tid < 0 || st->cpu >= 0 || st->tid < 0 || st->tid == c->tid ||
	       timeline_stream(s->timeline, st->idx, UINT64_MAX).tid ==
		       (uint32_t)c->tid;
}

static const struct aux_decoder_ops *find_decoder(struct session *s,
						  struct aux_diag *diag)
{
	const struct aux_decoder_ops *p = s->plugin_ops;

	if (p && (!s->decoder || !strcmp(s->decoder, p->name)))
		return p;
	/* our own decoder asks for code once and keeps what it made of it, so
	 * on_code would miss most; the reference asks each time. That of
	 * Intel PT asks again for what it does not show, and goes on after
	 * missing code where libipt does not. */
	if (s->config.on_code && !s->decoder &&
	    s->chunks.trace_type != AUX_TRACE_INTEL_PT)
		p = decoders_reference(s->chunks.trace_type, NULL);
	if (p && !s->decoder)
		return p;
	return decoders_find(s->decoder, s->chunks.trace_type, diag);
}

/* A PATH that joins packets has the offset of the last: no use where it is
 * shown. */
static enum aux_paths find_paths(uint32_t needs)
{
	if (!(needs & SINK_TAKES_PATHS))
		return AUX_PATHS_NONE;
	return needs & SINK_EXACT_OFFSETS ? AUX_PATHS_PACKET : AUX_PATHS_JOINED;
}

/* What the cursors are to emit: no more than the sink and the merge need. Of
 * one stream without filters no time is needed. A decoder that was asked for by
 * name gets no reference: its own result is wanted. */
static struct cursor_wants find_wants(const struct session_pass *pass)
{
	const struct session *s = pass->s;
	bool timed =
		pass->needs & SINK_NEEDS_TIME || pass->n > 1 || pass->filtered;

	return (struct cursor_wants){
		.paths = find_paths(pass->needs),
		.time_step = timed ? 0 : UINT64_MAX,
		.reference = s->decoder
				     ? NULL
				     : decoders_reference(s->chunks.trace_type,
							  pass->decoder),
	};
}

/* That this process may run on, which a container or taskset may limit. */
static unsigned count_cpus(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) == 0
			? CPU_COUNT(&set)
			: (int)sysconf(_SC_NPROCESSORS_ONLN);

	return n > 1 ? (unsigned)n : 1;
}

unsigned session_threads(const struct session *s)
{
	if (s->config.on_code) /* it is told in one thread */
		return 1;
	if (s->config.n_workers)
		return s->config.n_workers;
	return s->chunks.aux_bytes < SMALL_FILE ? 1 : count_cpus();
}

/* With workers the decoder of a stream may be opened in any of them, so the text of
 * an error is in the session. */
static int say_error(struct session *s, int rc, struct aux_diag *diag)
{
	if (rc == -AUX_E_NOMEM) {
		diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
	} else if (rc < 0 && diag && !diag->code) {
		pthread_mutex_lock(&s->open_lock);
		if (s->open_error.code)
			*diag = s->open_error;
		pthread_mutex_unlock(&s->open_lock);
	}
	return rc;
}

/* All streams are open at a time where they overlap, which only the merge
 * finds. */
static int check_room(const struct session_pass *pass, struct aux_diag *diag)
{
	uint64_t room = session_limit(pass->s);

	if (room < SESSION_MEMORY)
		room = SESSION_MEMORY;
	if (pass->n <= room / SESSION_STREAM_MEMORY)
		return 0;
	diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
		 "%zu streams of trace need %llu MiB for their decoders, and "
		 "the limit is %llu MiB",
		 pass->n,
		 (unsigned long long)(pass->n * SESSION_STREAM_MEMORY >> 20),
		 (unsigned long long)(room >> 20));
	return diag_why(diag, AUX_WHY_MEMORY, -AUX_E_LIMIT);
}

static int open_decoders(struct session_pass *pass, struct aux_diag *diag)
{
	unsigned n_workers = session_threads(pass->s);
	int rc = check_room(pass, diag);

	if (rc < 0)
		return rc;
	if (n_workers > 1 || pass->needs & SINK_OF_UNITS) {
		rc = parallel_open(pass, n_workers);
		return say_error(pass->s, rc, diag);
	}
	for (size_t i = 0; i < pass->n; i++) {
		struct stream_cursor *cur = &pass->cursors[i];

		cursor_prepare(pass->s, cur, cur->index, pass->decoder);
		cur->ends_early = true;
		cur->by_stint = pass->by_stint;
		if (pass->by_stint)
			cur->it.chunk_min = parallel_chunk_min(pass, 1);
	}
	return 0;
}

static int want_stream(struct session_pass *pass, size_t i)
{
	int rc = session_seek(pass->s, i);

	pass->cursors[pass->n++].index = i;
	pass->stats->aux_wanted += session_span_bytes(pass->s, i);
	return rc;
}

/* Is it known when threads move to another stream? A stint ends there. */
static bool knows_moves(const struct session_pass *pass)
{
	bool cpus = false;

	for (size_t i = 0; i < pass->n; i++)
		cpus |= pass->s->streams[pass->cursors[i].index].cpu >= 0;
	return !cpus || timeline_knows_off_cpu(pass->s->timeline);
}

bool session_knows_stints(const struct session *s)
{
	struct timeline_guest guest;
	bool cpus = false;

	for (size_t i = 0; i < s->n_streams; i++)
		cpus |= s->streams[i].cpu >= 0;
	return s->timed && s->chunks.trace_type == AUX_TRACE_INTEL_PT &&
	       !timeline_guest(s->timeline, 0, &guest) &&
	       (s->n_streams == 1 || !cpus || timeline_knows_off_cpu(s->timeline));
}

static int open_cursors(struct session_pass *pass, struct aux_diag *diag)
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
	pass->cursors = calloc(s->n_streams, sizeof(*pass->cursors));
	if (!pass->cursors)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	for (size_t i = 0; i < s->n_streams; i++)
		if (stream_wanted(s, &s->streams[i]) &&
		    want_stream(pass, i) < 0)
			return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
					"out of memory");
	pass->wants = find_wants(pass);
	for (size_t i = 0; i < pass->n; i++)
		pass->cursors[i].wants = pass->wants;
	pass->timeless = pass->wants.time_step;
	pass->untimed = !(pass->needs & SINK_NEEDS_TIME) && !pass->filtered &&
			!pass->timeless && s->timed &&
			s->chunks.trace_type == AUX_TRACE_INTEL_PT &&
			!s->plugin_ops &&
			pass->decoder != decoders_reference(
						 s->chunks.trace_type, NULL);
	pass->ticks = pass->needs & SINK_TAKES_TIMES && !pass->filtered;
	pass->by_stint = (pass->n > 1 || (pass->needs & SINK_OF_UNITS && s->n_streams > 1)) &&
			 pass->needs & SINK_THREAD_ORDER &&
			 parallel_takes_partials(pass) && knows_moves(pass);
	pass->stats->decoder = pass->decoder->name;
	pass->stats->reference =
		pass->wants.reference ? pass->wants.reference->name : NULL;
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

/* What the file says before anything is decoded; any damage makes it lossy. */
void session_count_file(const struct session *s, struct session_stats *st)
{
	const struct timeline_stats *ts = timeline_stats(s->timeline);

	*st = (struct session_stats){
		.aux_bytes = s->chunks.aux_bytes, .n_streams = s->n_streams,
		.n_records = ts->n_records, .ledger_lost = s->ledger_lost,
		.cut = ts->damaged || aux_reader_info(s->reader)->unfinished ||
		       features_cut(s->reader),
		.unplaced = ts->n_lost || ts->n_bad_code || ts->n_unordered ||
			    s->chunks.n_orphan_aux,
	};
	st->lossy = st->cut || st->unplaced || ts->n_aux_flagged ||
		    s->ledger_lost || s->ledger_events;
}

int session_pass_open(struct session_pass **out, struct session *s,
		      const struct session_pass_config *config,
		      struct aux_diag *diag)
{
	struct session_pass *pass = calloc(1, sizeof(*pass));
	int rc;

	*out = pass;
	if (!pass)
		return say_error(s, -AUX_E_NOMEM, diag);
	pass->s = s;
	pass->ops = config->ops;
	pass->sink = config->sink;
	pass->needs = config->needs;
	if (pass->needs & SINK_CYCLES && session_counts_cycles(s))
		pass->needs |= SINK_NEEDS_TIME | SINK_TAKES_TIMES;
	pass->stats = config->stats ? config->stats : &pass->own_stats;
	pass->observer = *config;
	pass->filtered = is_filtered(s);
	session_count_file(s, pass->stats);
	rc = open_cursors(pass, diag);
	return rc ? rc : say_error(s, fill_cursors(pass), diag);
}

/* A name or code that was not found for want of memory is no result. */
static int check_memory(struct session *s, int rc)
{
	return rc == 0 && (codeview_nomem(s->codeview) ||
			   timeline_nomem(s->timeline)) ? -AUX_E_NOMEM : rc;
}

int session_pass_step(struct session_pass *pass, struct aux_diag *diag)
{
	return say_error(pass->s, check_memory(pass->s, merge_step(pass)), diag);
}

void session_pass_close(struct session_pass *pass)
{
	if (!pass)
		return;
	close_cursors(pass);
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
		rc = say_error(s, check_memory(s, config->ops->finish(config->sink,
								      diag)), diag);
	session_pass_close(pass);
	return rc;
}

int session_run(struct session *s, const struct sink_ops *ops, void *sink,
		struct session_stats *stats, struct aux_diag *diag)
{
	struct session_pass_config config = {
		.ops = ops, .sink = sink, .needs = ops->needs, .stats = stats
	};

	return session_run_pass(s, &config, diag);
}
