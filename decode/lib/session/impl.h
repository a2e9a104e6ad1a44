/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session: the private half: what a session has, one pass of it into a sink,
 * and the tasks of its workers. What a cursor is stands in cursor.h.
 */
#ifndef DECODE_LIB_SESSION_IMPL_H
#define DECODE_LIB_SESSION_IMPL_H

#include <pthread.h>

#include "common/workers.h"
#include "decode/lib/session/cursor.h"
#include "decode/lib/session/pack.h"

/* Built by session_open. Nothing of it changes in a pass but config.tid before
 * it, spans where it begins, and what codeview keeps under its own lock: all
 * threads read it. */
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
	/* decoders are opened one at a time: their libraries have state of
	 * their own then (OpenCSD's lists of trees and of decoders) */
	pthread_mutex_t open_lock;
	struct aux_diag open_error;	/* with it: the first one */
};

/* Bytes for mappings and decoders. */
static inline uint64_t session_limit(const struct session *s)
{
	return s->config.max_memory ? s->config.max_memory : SESSION_MEMORY;
}

/* merge.c: bytes that a pass may use, without those of the mappings. */
uint64_t session_memory(const struct session *s);

/* seek.c: turns config.last_ns into time_from. An error has its text in
 * diag. */
int session_find_last(struct session *s, struct aux_diag *diag);
/* Fills the span of a stream from the times or chunks asked for.
 * -AUX_E_NOMEM. */
int session_seek(struct session *s, size_t i);
/* How many bytes of trace are in it. */
uint64_t session_span_bytes(const struct session *s, size_t i);

/* cursor.c: a cursor without a decoder and a buffer, for the streams of a
 * session with workers. */
void cursor_setup(struct session *s, struct stream_cursor *cur, size_t i);
/* Intel PT: the PSB+ tells the time, so the chunk begins as if after a TIME. */
void cursor_begin_dated(struct stream_cursor *cur,
			const struct chunk_start *start);
/* Replaces PATHs that the decoder does not keep, from buf[from] on, by their
 * RANGEs, for the next call of decode frees them. -AUX_E_NOMEM. */
int cursor_expand_paths(struct stream_cursor *cur, size_t from);
/* The first from ev on that is no RANGE or PATH, or end; adds the
 * instructions. */
const struct aux_flow *cursor_skip_plain(const struct aux_flow *ev,
					 const struct aux_flow *end,
					 uint64_t *n_insns);
/* The chunk's bytes are not read again: the file's pages may go. */
void cursor_release(struct stream_cursor *cur, const struct aux_chunk *c);
/* The key of buf[pos]. */
struct merge_key cursor_next_key(struct stream_cursor *cur);

/* The view at which the decoder is. Intel PT's stops wherever the view changes,
 * so it is the merge's. */
static inline struct stream_view *cursor_decoder_view(struct stream_cursor *cur)
{
	return cur->source ? &cur->cs.ahead : &cur->m.view;
}

/* cs_cursor.c: a chunk of one CoreSight source, or a gap in it, begins; the
 * buffer is empty. */
void cs_begin_chunk(struct stream_cursor *cur);
/* buf[from..n) was just decoded: gives it its place in the stream, and follows
 * it with cs.ahead. -AUX_E_NOMEM. */
int cs_handle_new(struct stream_cursor *cur, size_t from);
/* True for events after which an unknown amount of time may have passed. */
bool cs_is_break(const struct stream_cursor *cur, const struct aux_flow *ev);
/* The key of a break at buf[pos]: the time of the next TIME; without one that
 * of the AUX record. */
struct merge_key cs_break_key(struct stream_cursor *cur);

/* cs_cursor.c: looks up who runs at v and in which code; tells the host's
 * decoder too, if v is its view. */
void view_find_task(struct stream_cursor *cur, struct stream_view *v);
/* v for what follows a TIME, or a CONTEXT of CoreSight. */
void view_handle_time(struct stream_cursor *cur, struct stream_view *v,
		      const struct aux_flow *ev);
void view_handle_context(struct stream_cursor *cur, struct stream_view *v,
			 const struct aux_flow *ev);

struct parallel;

/* One pass of the flow into a sink, by the session's thread. A worker fills
 * one, too, for each call of merge_deliver: its sink is a partial result. */
struct session_pass {
	struct session *s;
	struct stream_cursor *cursors;	/* one for each stream that is wanted */
	size_t n;
	const struct aux_decoder_ops *decoder;
	struct cursor_wants wants;
	const struct sink_ops *ops;
	void *sink;
	uint32_t needs;		/* SINK_* */
	struct session_stats *stats;
	struct session_stats own_stats;	/* where the caller wants none */
	struct session_pass_config observer;	/* on_gap, on_progress, priv */
	size_t n_ended;		/* cursors of a pass without workers */
	bool enough;		/* the sink wants no more */
	bool filtered;		/* by thread or time */
	bool timeless;		/* nothing depends on what time it is */
	bool untimed;		/* nothing but the order of the streams does */
	bool filled;		/* each cursor has had its first refill */
	bool ticks;		/* the sink reads TIMEs itself */
	bool by_stint;		/* SINK_THREAD_ORDER, of several streams: merge.c */
	struct parallel *parallel;	/* NULL: one thread does it all */
};

/* merge.c: delivers events of cur to the sink until one comes after limit, or
 * there are no more. or_at: one at limit is delivered. */
int merge_deliver(struct session_pass *pass, struct stream_cursor *cur,
		  const struct merge_key *limit, bool or_at);
/* True if what is at a key comes after that of another stream, at limit. or_at:
 * of equal keys it comes first. */
bool merge_must_wait(const struct merge_key *at, const struct merge_key *limit,
		     bool or_at);
/* The sink got a GAP: it is counted, and the observer is called. */
void merge_report_gap(struct session_pass *pass, const struct flow_ctx *ctx,
		      const struct aux_flow *gap);

/* ---- quiet.c: where no TIMEs are wanted ---- */

struct chunk_task;
struct worker_decoder;

/* Before and after a refill of a cursor of the session's thread. */
void quiet_begin(const struct session_pass *pass, struct stream_cursor *cur);
void quiet_end(struct stream_cursor *cur);

/* Of a task: what other streams have while it runs. */
struct task_quiet {
	bool on;		/* it is known: */
	uint64_t from, end;	/* ns; when the chunk and the next one begin */
	uint64_t *others;	/* ns, of n events */
	size_t n, cap;
	size_t at;		/* the first that is not before where the cursor is */
};

/* With the lock. Finds whether a task that begins can be quiet. */
void quiet_begin_task(struct parallel *par, struct chunk_task *task);
/* Before a refill of a worker's cursor; after it comes quiet_end. */
void quiet_begin_refill(struct worker_decoder *wd);
/* Notes the TIMEs that were just decoded. -AUX_E_NOMEM. */
int quiet_note(struct chunk_task *task, const struct stream_cursor *cur);
/* A GAP in a chunk whose order does not matter else: it must not be quiet. */
bool quiet_must_repeat(const struct parallel *par, const struct chunk_task *task);

/* ---- parallel.c; the page on who owns what stands there ---- */

#define TASK_BATCH 4096	/* events that a worker's decoder is asked for, where it
				 * fills partial results */
#define PACK_WORDS 8192	/* of a batch of events, at least but for the last */
#define KEY_WORDS 3	/* of a struct merge_key */
#define STINT_BYTES 32	/* that a sink is assumed to keep for a stint */

struct join_gap {
	struct flow_ctx ctx;
	struct aux_flow ev;
	size_t step;
};

/*
 * How a partial result, or as much of it as a worker filled in one go, is
 * joined: steps, each a stint, or the GAP that ended one. Made by the worker, read by
 * the session once the batch is handed over. There may be a step for each TIME, so
 * of a step there is nothing but where it begins in the merge.
 */
struct join_plan {
	/* n_words for each step: merge_key.time, and of CoreSight number and
	 * ts. Keys never go back */
	uint64_t *keys;
	size_t n_keys, cap_keys;	/* words */
	unsigned n_words;
	uint32_t first_stint;	/* its number in the partial result */
	struct join_gap *gaps;	/* steps that are no stints */
	size_t n_gaps, cap_gaps;
	size_t n_gaps_joined;	/* the session's */
};

/*
 * What a worker hands over: events, packed but for CoreSight, or the plan of what
 * it put into the partial result. Filled before it is handed over and read-only then; the session's
 * thread frees it.
 */
struct batch {
	struct batch *next;	/* of the task */
	struct aux_flow *ev;	/* CoreSight; else they are packed */
	struct pack pack;
	struct unpack unpack;	/* the session's */
	size_t n, bytes;	/* n: of ev */
	bool in_chunk;		/* the decoder may have more of the chunk */
	struct worker_decoder *decoder;	/* that made it */
	uint64_t serial;	/* of the decoder's newest chunk then */
	struct batch *live_next, **live_prev;	/* of the decoder's; with the
						 * lock */
	/* CoreSight: at ev[0], for the session's cursor has not seen what the
	 * worker's has */
	struct stream_view view;
	struct merge_key key;
	struct join_plan plan;	/* with a partial result, instead of ev and n */
	struct session_stats stats;	/* since the batch before */
};

/* Memory of former batches, packed events or keys of plans. Fresh pages for
 * each of them would cost as much as to decode what is in it. */
struct spare {
	struct spare *next;
	size_t size;		/* with this head */
};

/* Code or paths that a decoder no longer uses (aux_decoder_host.forget), and
 * events of older batches may point to. */
struct dropped {
	struct dropped *next;
	void (*release)(void *what);
	void *what;
	uint64_t serial;	/* of the chunk that was about to start */
};

/*
 * A decoder of a worker, with all that it has learned of the code. It has one
 * task at a time (Intel PT: any chunk; CoreSight: its stream), and with the
 * task one thread.
 */
struct worker_decoder {
	struct stream_cursor cur;	/* first: the host's priv leads here */
	struct worker_decoder *next;	/* idle; with the lock */
	struct worker_decoder *all;	/* the next of all */
	/* Where bytes of its chunks are put together: of this one and the one
	 * before, which are the decoder's until it starts the next. */
	struct chunk_room joined, joined_before;
	struct parallel *par;
	struct chunk_task *task;
	struct session_stats stats;	/* since its last batch */
	uint64_t serial;	/* counts chunks */
	/* with the lock: batches that the session still has, oldest first */
	struct batch *live, **live_last;
	struct dropped *dropped;	/* what they may point to */
	struct pack pack;	/* events since the last batch */
	/* with a partial result: */
	struct join_plan plan;	/* since the last batch */
	struct task_quiet quiet;	/* of the task */
	bool in_stint;		/* it had flow: */
	struct merge_key stint_key;
	uint32_t stint_serial;	/* cur.stint's */
	uint32_t stint;		/* its number */
	int error;		/* -AUX_E_NOMEM, met in a callback; < 0 alone is one */
};

enum task_kind {
	TASK_CHUNK,	/* of Intel PT, or of another kind that has no source */
	TASK_GAP,	/* what is between two chunks: no work, one event */
	TASK_STREAM,	/* all of a CoreSight source: chunks need those before */
};

/*
 * The session's thread makes it. While work.state is WORK_RUNNING it is the
 * worker's, but for work, first and held; before and after, the session's.
 */
struct chunk_task {
	struct work work;	/* first */
	struct chunk_task *next;	/* of the stream */
	struct stream_cursor *stream;	/* the session's */
	enum task_kind kind;
	struct worker_decoder *decoder;	/* NULL: not begun */
	bool begun;
	/* what is to be decoded */
	struct aux_chunk chunk;	/* data NULL: is put together from records */
	size_t piece;		/* that holds its first byte */
	struct chunk_room joined;	/* that data is in, if it was */
	struct chunk_start start;
	struct aux_flow gap;
	bool continues;		/* guessed, then known: see parallel.c */
	bool waits;		/* for the view that the chunk before ends with */
	/* what comes of it */
	struct stream_view view;	/* where it begins, then where it ends */
	struct merge_key key;	/* where it ends; 0s if that is not known */
	void *partial;		/* NULL: the events are handed over */
	bool emitted, in_gap;	/* at its end: events at all, the last a GAP */
	bool loud;		/* all TIMEs are wanted */
	bool was_quiet;		/* some TIMEs before quiet_end are missing */
	uint64_t quiet_end;
	uint64_t *times;	/* ns of its TIMEs, rising, where tasks may be quiet */
	size_t n_times, cap_times;
	int rc;
	/* with the lock: */
	struct batch *first, **last;
	uint64_t held;		/* bytes of these */
};

struct parallel {
	struct session_pass *pass;
	struct workers *ws;
	struct worker_decoder *idle, *decoders;	/* with the lock */
	struct spare *spare;	/* with the lock */
	size_t n_spare;
	size_t n_live, max_live;	/* tasks; the session's */
	size_t ahead;		/* of them may be cut now, beside one of each stream */
	size_t n_decoders;	/* with the lock: open ones */
	uint64_t decoder_memory;	/* for all of them */
	uint64_t max_held;	/* bytes of one task */
	bool quiet;		/* tasks may be */
	bool partials;		/* the sink takes partial results */
	bool ordered;		/* and their stints in the order of the merge */
};

/* Does the sink take partial results, with the options that it has? */
bool parallel_takes_partials(const struct session_pass *pass);
/* Bytes after which a chunk may end. Of a pass by stint the result depends on it, so it
 * must not depend on n_threads. */
uint64_t parallel_chunk_min(const struct session_pass *pass, unsigned n_threads);
/* Of n_threads (two or more, or one of a sink that takes partial results) one is the
 * caller's: it keeps a sink without partial results busy; one with them leaves it little to
 * do, and there are n_threads workers. close accepts what open left half done. */
int parallel_open(struct session_pass *pass, unsigned n_threads);
void parallel_close(struct session_pass *pass);
/* As cursor_refill, from the batches of the stream's tasks. */
int parallel_refill(struct session_pass *pass, struct stream_cursor *cur);
/* As cursor_next_key. */
struct merge_key parallel_next_key(struct stream_cursor *cur);
/* As merge_deliver; the stints of partial results are joined. */
int parallel_deliver(struct session_pass *pass, struct stream_cursor *cur,
		     const struct merge_key *limit, bool or_at);

#endif
