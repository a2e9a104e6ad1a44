/* SPDX-License-Identifier: BSD-2-Clause */
/* What session.c opens and run.c works on. */
#ifndef DECODE_LIB_SESSION_IMPL_H
#define DECODE_LIB_SESSION_IMPL_H

#include <pthread.h>

#include "common/workers.h"
#include "decode/lib/session/session.h"
#include "decode/lib/trace/chunk.h"

#define FEED_BATCH 512
#define FEED_AHEAD 8192	/* events that wait for a TIME, at most */

struct session {
	char *path, *decoder, *plugin;
	struct session_config config;	/* its strings are not used */
	struct aux_reader *reader;
	struct timeline *timeline;
	struct codeview *codeview;
	struct chunks chunks;
	struct stream *streams;
	size_t n_streams;
	struct chunk_span *spans;	/* what is asked of each */
	struct aux_decoder_config dec_config;
	void *plugin_handle;
	const struct aux_decoder_ops *plugin_ops;	/* NULL: none */
	struct losses losses;
	uint64_t ledger_lost;	/* bytes */
	uint64_t ledger_events;	/* records, processes, losses of any size */
	bool timed;	/* the trace has times that the records share */
	/* decoders are opened one at a time: their libraries have state of their
	 * own then (OpenCSD's lists of trees and of decoders) */
	pthread_mutex_t open_lock;
};

/* config.c: what the file says of how the trace was made. */
void session_find_config(struct session *s);
void session_sum_losses(struct session *s);
/* Does the source tell which thread runs? */
bool session_has_context(const struct aux_etm_config *etm);
/* Are there timestamps in its trace? */
bool session_has_timestamps(const struct aux_etm_config *etm);

/* Where a feed is, for the order among feeds. */
struct feed_place {
	uint64_t time;		/* ns; Intel PT without a clock: TSC */
	uint64_t number;	/* of the AUX record in the file; 0: timed */
	uint64_t ts;		/* inside of the record */
};

static inline bool feed_before(const struct feed_place *a,
			       const struct feed_place *b)
{
	if (a->time != b->time)
		return a->time < b->time;
	if (a->number != b->number)
		return a->number < b->number;
	return a->ts < b->ts;
}

/* Where a feed is, as its decoder or the sink sees it. */
struct feed_view {
	struct flow_ctx ctx;
	/* with source: */
	uint64_t until;		/* ns; the same runs, in the same space */
	const struct run *run;
	const struct aux_mark *mark;	/* of the AUX record; NULL: none told */
	uint64_t record_ns;	/* of the last record with a time */
	bool dated;		/* there was a TIME since it began */
	bool has_context;	/* the trace named a thread: */
	uint32_t context;
	uint64_t context_ns;	/* it runs since then or later; 0: unknown */
};

/* The chunk, as it has to be known to decode it again. */
struct feed_again {
	bool refused;		/* by start: nothing was given */
	bool on;		/* the reference decodes it */
	uint64_t n_insns, n_events;	/* given of it; TIMEs do not count */
	uint64_t skip_insns, skip_events;	/* of the reference's, still */
	uint64_t offset;	/* of the last event, for the decoder */
	struct feed_view view;	/* the decoder's where it began */
};

/* What a feed is to give; set before it is opened. All 0: everything. */
struct feed_wants {
	enum aux_paths paths;
	uint64_t time_step;	/* as aux_decoder_host.time_step */
	/* decodes what ops cannot; NULL: nobody */
	const struct aux_decoder_ops *reference;
};

struct batch;
struct job;

struct feed {
	struct session *s;
	size_t index;		/* of the stream */
	struct feed_wants wants;
	const struct stream *stream;
	const struct chunk_source *source;	/* NULL: Intel PT, or others */
	struct chunk_iter it;
	const struct aux_decoder_ops *ops;
	struct aux_decoder_config config;
	void *dec, *reference;	/* the latter NULL until it is needed */
	struct aux_decoder_host host;
	struct feed_again again;
	bool in_chunk, ended;
	bool joint;		/* the flow goes on from the chunk before: the
				 * TRACE_ON that is due is none */
	bool in_gap;		/* the last event was a GAP */
	bool timed;		/* TIME is of the records' clock */
	bool begun;		/* there were events of the chunk */
	bool open;		/* the last events wait for their TIME */
	bool stale;		/* the decoder went on in other code */
	struct aux_flow *buf;
	size_t n, pos, cap;
	size_t n_plain;		/* so many at the start of buf are RANGEs and
				 * PATHs, with so many instructions; 0: not
				 * looked at */
	uint64_t plain_insns;
	size_t next_time;	/* a TIME in buf, the first from where that was
				 * asked on; n: none; SIZE_MAX: not asked */
	struct feed_view ahead;	/* behind buf: the decoder's, with source */
	struct feed_view v;	/* at buf[pos] */
	struct feed_place at;	/* of v */
	size_t max;		/* events that the decoder is asked for */
	bool zeros;		/* behind the chunk are zeros: a GAP is due, then */
	uint64_t gone_from, gone_to;	/* read, and not yet let go */
	struct aux_chunk rest;	/* this, from the next PSB on; len 0: nothing */
	unsigned single;	/* it.chunk is all there is: 1, then 2 */
	bool gave;		/* the decoder gave something */
	/* jobs.c: instead of a decoder */
	struct job *job, **last_job;	/* the first is the one that is given */
	struct batch *batch;	/* buf is its */
	bool begun_job, cut_ended;
	bool cut_joint;		/* the last chunk that was cut ends in a seam */
	uint64_t cut_key;	/* where that was, ns */
};

/* RANGE or PATH: after it all is as before. */
static inline bool session_is_plain(const struct aux_flow *ev)
{
	return ev->kind == AUX_FLOW_RANGE || ev->kind == AUX_FLOW_PATH;
}

/* The decoder's. Intel PT stops where it changes, so there is but one. */
static inline struct feed_view *session_ahead(struct feed *f)
{
	return f->source ? &f->ahead : &f->v;
}

/* seek.c: last_ns as time_from. An error has its text in diag. */
int session_find_last(struct session *s, struct aux_diag *diag);
/* Fills the span of a stream. -AUX_E_NOMEM. */
int session_seek(struct session *s, size_t i);
/* How much trace is in it. */
uint64_t session_span_bytes(const struct session *s, size_t i);

/* feed.c */
int session_open_feed(struct session *s, struct feed *f, size_t i,
		      const struct aux_decoder_ops *ops, struct aux_diag *diag);
void session_close_feed(struct feed *f);
/* The same without a decoder and a buffer. */
void session_init_feed(struct session *s, struct feed *f, size_t i);
/* Where Intel PT begins is known: as if a TIME had told it. */
void session_begin_dated(struct feed *f, const struct chunk_start *start);
/* RANGEs for the PATHs that are not kept, from buf[from] on. -AUX_E_NOMEM. */
int session_expand_paths(struct feed *f, size_t from);
/* The first from ev on that is no RANGE or PATH, or end; adds the instructions. */
const struct aux_flow *session_skip_plain(const struct aux_flow *ev,
					  const struct aux_flow *end,
					  uint64_t *n_insns);
/* The chunk's bytes are not needed again. */
void session_let_go(struct feed *f, const struct aux_chunk *c);
/* Fills an empty buffer. 0 at the end of the stream, or an error. */
int session_refill(struct feed *f, struct session_stats *stats);
/* The place of buf[pos]. */
struct feed_place session_next_place(struct feed *f);
/* v for what follows buf[pos]. */
void session_take_event(struct feed *f);

/* source.c: CoreSight. A chunk of one source, or a gap in it, begins; the
 * buffer is empty. */
void session_begin_source(struct feed *f);
/* Events of a source are new in the buffer. -AUX_E_NOMEM. */
int session_take_new(struct feed *f, size_t from);
/* Before its next TIME, time may have passed. */
bool session_is_break(const struct feed *f, const struct aux_flow *ev);
/* Where a break is: at the time that is told next; at the record's, if none is. */
struct feed_place session_place_of_break(struct feed *f);

/* who.c: fills ctx; the host too, if it is the decoder's view. */
void session_find_who(struct feed *f, struct feed_view *v);
/* What follows a TIME or CONTEXT. */
void session_take_time(struct feed *f, struct feed_view *v,
		       const struct aux_flow *ev);
void session_take_context(struct feed *f, struct feed_view *v,
			  const struct aux_flow *ev);

/* session: one pass of flows into a sink: that of the session, or of a worker. */

struct jobs;

struct session_pass {
	struct session *s;
	struct feed *feeds;
	size_t n;
	const struct aux_decoder_ops *decoder;
	struct feed_wants wants;
	const struct sink_ops *ops;
	void *sink;
	uint32_t needs;		/* SINK_* */
	struct session_stats *stats;
	struct session_stats own_stats;	/* where nobody asked for them */
	struct session_pass_config observer;	/* on_gap, on_progress, priv */
	bool enough;		/* the sink wants no more */
	bool filtered;
	bool timeless;		/* nobody asks what time it is */
	bool ticks;		/* the sink reads TIMEs itself */
	struct jobs *jobs;	/* NULL: one thread does it all */
};

/*
 * Gives events of f until one is later than limit (at limit: when !or_at), or none
 * is left.
 */
int session_give(struct session_pass *pass, struct feed *f,
		 const struct feed_place *limit, bool or_at);
/* True if what is at a place comes after that of another feed, at limit. or_at: at
 * equal places it comes first. */
bool session_must_wait(const struct feed_place *at,
		       const struct feed_place *limit, bool or_at);
/* The sink got a GAP: it is counted, and the observer called. */
void session_pass_gap(struct session_pass *pass, const struct flow_ctx *ctx,
		      const struct aux_flow *gap);
/* Is the place or the thread another one from ev on? */
bool session_changes_view(const struct feed *f, const struct aux_flow *ev);

/*
 * session: chunks decoded by several threads, given in order by one.
 *
 * A job is a chunk of Intel PT, or all of a stream whose chunks need what came
 * before (CoreSight). An engine decodes it: a feed of its own, with a decoder,
 * that is in one thread at a time. What comes out waits in batches, which the
 * session's feeds take in place of a decoder's; or goes into a partial result of
 * the sink, and the batches have the plan by which that is joined.
 */

#define JOB_BATCH 4096	/* events that a decoder is asked for */
#define STINT_BYTES 512	/* that a sink is assumed to keep for a stint */

/* One step of joining a partial result: a stint, or the GAP that ended one. */
struct join_step {
	struct feed_place at;	/* where it begins in the merge */
	uint64_t n_insns;	/* of the stint */
	uint32_t stint;		/* its number in the partial result */
	uint32_t gap;		/* place in gaps + 1; 0: join the stint */
};

struct join_gap {
	struct flow_ctx ctx;
	struct aux_flow ev;
};

/* How a partial result, or as much of it as a worker filled in one go, is joined:
 * made by the worker, read by the session once it was handed over. */
struct join_plan {
	struct join_step *steps;	/* at never goes back */
	size_t n_steps, cap_steps;
	struct join_gap *gaps;
	size_t n_gaps, cap_gaps;
};

struct batch {
	struct batch *next;
	struct aux_flow *ev;
	size_t n, bytes;
	bool in_chunk;
	struct engine *engine;	/* that made it */
	uint64_t serial;	/* of the engine's newest chunk then */
	struct batch *live_next, **live_prev;	/* of the engine's */
	/* of a source: where ev[0] is */
	struct feed_view v;
	struct feed_place at;
	struct join_plan plan;	/* of a partial result, instead of ev and n */
	struct session_stats stats;	/* since the batch before */
};

/* What a decoder dropped (aux_decoder_host.forget). */
struct dropped {
	struct dropped *next;
	void (*release)(void *what);
	void *what;
	uint64_t serial;	/* of the chunk that starts */
};

struct engine {
	struct feed feed;	/* first: the host's priv leads here */
	struct engine *next;	/* in the pool */
	struct engine *all;	/* the next of all */
	struct chunk_room joined, joined_before;	/* bytes of its chunks */
	struct jobs *jobs;
	struct job *job;
	struct session_stats stats;	/* since its last batch */
	uint64_t serial;	/* counts chunks */
	/* guarded by the lock: what the session has not used up, oldest first */
	struct batch *live, **live_last;
	struct dropped *dropped;
	/* with a partial result; the worker's alone: */
	struct join_plan plan;	/* since the last batch */
	bool in_stint;		/* it had flow: */
	struct feed_place stint_at;
	uint32_t stint;		/* its number */
	uint64_t n_flowed;	/* instructions of it */
	int error;		/* -AUX_E_NOMEM: a GAP could not be kept */
};

struct job {
	struct work work;	/* first */
	struct job *next;	/* of the stream */
	struct feed *feed;
	struct engine *engine;	/* NULL: not begun */
	bool begun;
	/* a chunk, or (is_gap) what is between two; else a stream */
	bool is_chunk, is_gap;
	struct aux_chunk chunk;
	size_t piece;
	struct chunk_room joined;
	struct chunk_start start;
	struct aux_flow gap;
	bool joint;		/* as the chunk before will leave it, it seems */
	bool waits;		/* v, of the chunk before, is not known */
	struct feed_view v;	/* where it begins, then where it ends */
	struct feed_place at;	/* where it ends; 0s if that is not known */
	void *partial;		/* NULL: the events themselves are handed over */
	/* guarded by the lock: */
	struct batch *first, **last;
	uint64_t held;		/* bytes of these */
	bool any, in_gap;	/* at its end: events at all, the last a GAP */
	int rc;
};

struct jobs {
	struct session_pass *pass;
	struct workers *ws;
	struct engine *idle, *engines;	/* guarded by the lock */
	size_t n_live, max_live;
	uint64_t max_held;	/* bytes of one job */
	bool partials;		/* the sink takes partial results */
	bool ordered;		/* and their stints in the order of the merge */
};

/*
 * jobs.c: in place of session_refill, for the feeds of the session. Of two
 * threads or more one is the caller's: it keeps a sink without partial results busy,
 * and has little to do for one with them.
 */
int session_jobs_open(struct session_pass *pass, unsigned n_threads,
		      struct aux_diag *diag);
void session_jobs_close(struct session_pass *pass);
int session_jobs_refill(struct session_pass *pass, struct feed *f);
/* The place of what f has next. */
struct feed_place session_jobs_place(const struct jobs *js, struct feed *f);
/* As session_give; of partial results the stints are joined. */
int session_jobs_give(struct session_pass *pass, struct feed *f,
		      const struct feed_place *limit, bool or_at);

#endif
