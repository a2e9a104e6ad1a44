/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cursor: one stream being decoded: its chunks, its decoder, the events that came
 * out, and their place among those of other streams.
 *
 * A stream cursor stands in one of three places, and not all of it is used in each:
 *
 * - In a session without workers (-j1) the session's thread has one cursor for each
 *   stream, over the whole stream. All is used but tasks.
 * - In a worker (struct worker_decoder, impl.h) a cursor decodes one chunk after
 *   another, of any stream of Intel PT (scope CURSOR_CHUNK), or all of one CoreSight
 *   source. All is used but tasks and unreleased.
 * - In a session with workers the session's thread has one cursor for each stream
 *   that decodes nothing: ops, the decoders, cs and zero_fill are unused; it (the
 *   chunk iterator) cuts chunks into tasks, and m takes its events from batches.
 *
 * No field is shared between threads: a worker's cursor is the worker's as long as
 * its task runs, and what passes between threads passes in tasks and batches, under
 * the lock of the workers. verify has a cursor for each side of the comparison.
 */
#ifndef DECODE_LIB_SESSION_CURSOR_H
#define DECODE_LIB_SESSION_CURSOR_H

#include "decode/lib/session/session.h"
#include "decode/lib/trace/trace.h"

#define CURSOR_BATCH 512	/* events that a decoder is asked for */
#define CURSOR_AHEAD 8192	/* events that wait for a TIME, at most */

/*
 * Where an event is in the merge of all streams. Keys of one stream never go
 * back: a time that does (another decoder's estimate, a clock that was set)
 * leaves the key where it is.
 */
struct merge_key {
	uint64_t time;		/* ns; Intel PT without a clock: TSC */
	uint64_t number;	/* of the AUX record in the file; 0 where there
				 * are times of the clock */
	uint64_t ts;		/* timestamp of no clock, inside that record */
};

static inline bool merge_before(const struct merge_key *a,
				const struct merge_key *b)
{
	if (a->time != b->time)
		return a->time < b->time;
	if (a->number != b->number)
		return a->number < b->number;
	return a->ts < b->ts;
}

/* What is known at a point of a stream: who runs, when, in which code. */
struct stream_view {
	struct flow_ctx ctx;
	uint64_t until;		/* ns; until then ctx's thread and space hold */
	/* CoreSight: */
	const struct segment *segment;	/* of one AUX record */
	const struct aux_mark *mark;	/* that record; NULL: there is none */
	uint64_t record_ns;	/* of the last record with a time */
	bool dated;		/* there was a TIME since the record began */
	bool has_context;	/* the trace named a thread: */
	uint32_t context;
	uint64_t context_ns;	/* it runs since then or later; 0: unknown */
};

/* What a cursor is to emit; set before it is opened. All 0: everything. */
struct cursor_wants {
	enum aux_paths paths;
	uint64_t time_step;	/* as aux_decoder_host.time_step */
	bool sync_only;		/* as aux_decoder_host.sync_only */
	/* decodes what ops cannot; NULL: a GAP stands for it */
	const struct aux_decoder_ops *reference;
};

/* What a cursor goes over. */
enum cursor_scope {
	CURSOR_STREAM = 0,
	CURSOR_CHUNK,		/* it.chunk alone, which was not started */
	CURSOR_CHUNK_STARTED,	/* it was: after it comes the end */
};

/* Whether the reference decodes the chunk, see cursor.c. */
enum fallback_state {
	FALLBACK_NONE = 0,	/* no: ops does */
	FALLBACK_DUE,		/* ops refused to start; nothing was emitted */
	FALLBACK_ON,
};

/* The chunk, as it must be known to be decoded again. */
struct fallback {
	enum fallback_state state;
	void *dec;		/* the reference's; NULL until it is needed, and
				 * kept from then on */
	uint64_t n_insns, n_events;	/* emitted of the chunk; TIMEs do not
					 * count */
	uint64_t skip_insns, skip_events;	/* left to drop of what the
						 * reference emits */
	uint64_t offset;	/* of the last event that the decoder emitted */
	struct stream_view view;	/* the decoder's where the chunk began */
};

/* Events in the order of the stream, and how far the merge has come in them. */
struct merge_cursor {
	struct aux_flow *buf;	/* ours; with tasks: the batch's, or the task's
				 * gap */
	size_t n, pos, cap;	/* pos: the next one to emit. With a partial
				 * result n and pos count its steps */
	size_t n_plain;		/* so many at the start of buf are RANGEs and
				 * PATHs, with so many instructions; 0: not
				 * looked at */
	uint64_t plain_insns;
	size_t next_time;	/* a TIME in buf, the first from where that was
				 * asked on; n: there is none; SIZE_MAX: not
				 * asked */
	struct stream_view view;	/* at buf[pos] */
	struct merge_key key;	/* of view */
};

/* CoreSight: the decoder is ahead of the merge, see cs_cursor.c. */
struct cs_cursor {
	struct stream_view ahead;	/* after the last event in the buffer */
	bool begun;		/* there were events of the chunk */
	bool undated;		/* the last events wait for their TIME */
	bool stale;		/* the decoder went on in replaced code */
};

/* Intel PT: what follows the current chunk, cut off because it begins with
 * zeros. */
struct zero_fill {
	bool due;		/* the zeros were not emitted as a GAP yet */
	struct aux_chunk rest;	/* from the zeros on; then from the next PSB on.
				 * len 0: nothing */
};

/*
 * A stream that is far ahead of no other: up to until_tsc nothing is between its
 * events, so the decoder need not emit a TIME before it (merge.c). A trace with
 * a packet of time for each branch is decoded in half the time.
 */
struct quiet {
	uint64_t until_tsc;	/* UINT64_MAX: not quiet */
	unsigned rest;		/* refills for which it is not worth it */
};

/*
 * Of a merge by stint (session_pass.by_stint): what one thread runs in one chunk of a
 * stream, in a row, and before it runs on another CPU. It comes whole, where it begins.
 */
struct stint {
	bool begins;		/* at m.buf[m.pos], when it may */
	bool consumed;		/* m.buf[m.pos] was, to find that out */
	uint32_t tid, pid;
	uint64_t moves;		/* ns: from then on the thread may have run on another CPU */
	struct merge_key raw;	/* m.key where it began */
	struct merge_key key;	/* the same, or that of one before it if that is later */
	uint32_t serial;	/* counts them */
};

struct chunk_task;
struct batch;

/* Intel PT: bytes at the end of the current chunk that are no whole packet: a
 * GAP stands for them. 0: none, or it was emitted. */
struct cut_tail {
	uint64_t len, offset;
};

/* In place of a decoder: the tasks of the stream, the session's thread's. */
struct task_list {
	struct chunk_task *first, **last;	/* the first is being emitted */
	struct batch *batch;	/* that m.buf belongs to, or comes from; NULL:
				 * none */
	struct aux_flow *room;	/* CURSOR_BATCH unpacked events; NULL until there are
				 * some */
	bool begun;		/* the first one is */
	bool ended;		/* there are no more chunks to cut */
	bool continues;		/* the last chunk that was cut ends at the IP
				 * where the next one begins */
	uint64_t key_ns;	/* where that was */
};

struct stream_cursor {
	struct session *s;
	size_t index;		/* of the stream, in the session */
	struct cursor_wants wants;
	const struct stream *stream;	/* a worker's: of the task */
	const struct chunk_source *source;	/* NULL: Intel PT, or others */
	bool timed;		/* TIMEs are of the records' clock */

	/* the chunks */
	struct chunk_iter it;
	enum cursor_scope scope;
	struct zero_fill zero_fill;
	struct cut_tail cut_tail;
	struct {
		uint64_t from, to;	/* of the stream; read, and still in
					 * memory */
	} unreleased;

	/* the decoder */
	const struct aux_decoder_ops *ops;
	struct aux_decoder_config config;
	struct aux_decoder_host host;	/* its priv is the cursor */
	uint64_t horizon_tsc;	/* up to it the view holds; that of host may be
				 * lower: quiet */
	struct quiet quiet;
	void *dec;		/* ops' */
	bool opened;		/* dec is */
	bool ends_early;	/* at the end of the stream the decoder is closed, for
				 * nothing waits that leads to it */
	size_t max;		/* events that it is asked for */
	struct fallback fallback;
	struct cs_cursor cs;
	bool in_chunk;		/* it may have more of the chunk */
	bool ended;		/* no more chunks, and no more events */
	bool emitted;		/* anything, since the task began */
	bool in_gap;		/* the last event was a GAP */
	bool continues;		/* the chunk begins where the one before ended,
				 * so its TRACE_ON is dropped: see parallel.c */

	struct merge_cursor m;
	bool by_stint;		/* m.key begins anew with each chunk */
	struct stint stint;
	struct task_list tasks;
};

/* RANGE or PATH: neither place nor thread changes with it. Most of all
 * events. */
static inline bool flow_is_plain(const struct aux_flow *ev)
{
	return ev->kind == AUX_FLOW_RANGE || ev->kind == AUX_FLOW_PATH;
}

/* The view holds up to this TSC. */
static inline void cursor_set_horizon(struct stream_cursor *cur, uint64_t tsc)
{
	cur->horizon_tsc = tsc;
	cur->host.horizon_tsc =
		tsc < cur->quiet.until_tsc ? tsc : cur->quiet.until_tsc;
}

/* wants is set, all else 0. The decoder is opened when the first chunk starts: most
 * streams of a file with thousands are short. Why that failed, in refill, is in
 * s->open_error. */
void cursor_prepare(struct session *s, struct stream_cursor *cur, size_t i,
		    const struct aux_decoder_ops *ops);
/* The same, with the decoder. close after open, failed or not. */
int cursor_open(struct session *s, struct stream_cursor *cur, size_t i,
		const struct aux_decoder_ops *ops, struct aux_diag *diag);
void cursor_close(struct stream_cursor *cur);
/* Closes the decoders and frees the buffer: nothing more is to be decoded. */
void cursor_end(struct stream_cursor *cur);
/* Fills an empty buffer: 1, or 0 at the end of the stream, or an error. stats
 * grow by what was decoded. */
int cursor_refill(struct stream_cursor *cur, struct session_stats *stats);
/* Does ev change the key or the thread? Then it is consumed before it is
 * emitted. */
bool cursor_changes_view(const struct stream_cursor *cur,
			 const struct aux_flow *ev);
/* m.view and m.key for what follows m.buf[m.pos]; pos stays. */
void cursor_consume(struct stream_cursor *cur);

#endif
