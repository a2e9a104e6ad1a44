/* SPDX-License-Identifier: BSD-2-Clause */
/* What session.c opens and session_run.c works on. */
#ifndef AUXDECODE_SESSION_PRIV_H
#define AUXDECODE_SESSION_PRIV_H

#include "chunks.h"
#include "session.h"

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
	struct aux_decoder_config dec_config;
	void *plugin_handle;
	const struct aux_decoder_ops *plugin_ops;	/* NULL: none */
	struct losses losses;
	uint64_t ledger_lost;	/* bytes */
	uint64_t ledger_events;	/* records, processes, losses of any size */
	bool timed;	/* the trace has times that the records share */
};

/* session_config.c: what the file says of how the trace was made. */
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

struct feed {
	struct session *s;
	const struct stream *stream;
	const struct chunk_source *source;	/* NULL: Intel PT, or others */
	struct chunk_iter it;
	const struct aux_decoder_ops *ops;
	struct aux_decoder_config config;
	void *dec;
	struct aux_decoder_host host;
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
	size_t next_time;	/* a TIME in buf, the first from where that was
				 * asked on; n: none; SIZE_MAX: not asked */
	struct feed_view ahead;	/* behind buf: the decoder's, with source */
	struct feed_view v;	/* at buf[pos] */
	struct feed_place at;	/* of v */
};

/* session_feed.c */
int session_open_feed(struct session *s, struct feed *f, size_t i,
		      const struct aux_decoder_ops *ops, struct aux_diag *diag);
void session_close_feed(struct feed *f);
/* Fills an empty buffer. 0 at the end of the stream, or an error. */
int session_refill(struct feed *f, struct session_stats *stats);
/* The place of buf[pos]. */
struct feed_place session_next_place(struct feed *f);
/* v for what follows buf[pos]. */
void session_take_event(struct feed *f);

/* session_who.c: fills ctx; the host too, if it is the decoder's view. */
void session_find_who(struct feed *f, struct feed_view *v);
/* A chunk or gap of one source: it begins a record, or goes on in one. */
void session_begin_record(struct feed *f, struct feed_view *v);
/* What follows a TIME or CONTEXT. */
void session_take_time(struct feed *f, struct feed_view *v,
		       const struct aux_flow *ev);
void session_take_context(struct feed *f, struct feed_view *v,
			  const struct aux_flow *ev);

#endif
