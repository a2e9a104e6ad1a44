/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session: chunks decoded by several threads, given in order by one.
 *
 * A job is a chunk of Intel PT, or all of a stream whose chunks need what came
 * before (CoreSight). An engine decodes it: a feed of its own, with a decoder,
 * that is in one thread at a time. What comes out waits in batches, which the
 * session's feeds take in place of a decoder's; or goes into a part of the sink,
 * and the batches tell only where its segments are.
 */
#ifndef DECODE_LIB_SESSION_JOBS_H
#define DECODE_LIB_SESSION_JOBS_H

#include "decode/lib/session/run.h"
#include "common/workers.h"

#define JOB_BATCH 4096	/* events that a decoder is asked for */
#define SEGMENT 0xff	/* kind: the next segment of the part comes here */
#define SEGMENT_BYTES 512	/* what one is thought to need */

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
	/* with a part: events and segments since the last batch */
	struct batch out;
	size_t cap_out;
	bool flowed;		/* since the last segment */
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
	void *part;
	/* guarded by the lock: */
	struct batch *first, **last;
	uint64_t held;		/* bytes of these */
	bool any, in_gap;	/* at its end: events at all, the last a GAP */
	int rc;
};

struct jobs {
	struct run_state *r;
	struct workers *ws;
	struct engine *idle, *engines;	/* guarded by the lock */
	size_t n_live, max_live;
	uint64_t max_held;	/* bytes of one job */
	bool parts, cuts;	/* into parts; each TIME cuts them */
};

/* engine.c: what a worker does. */
enum work_state session_do_job(void *priv, struct work *w);
int session_new_engine(struct jobs *js, size_t stream, struct engine **e,
		       struct aux_diag *diag);
void session_free_engine(struct engine *e);

/* cut.c: cuts ahead; f: needs a job in any case. */
int session_cut_jobs(struct jobs *js, struct feed *f);
/* A part of the sink for a job, if it has parts. */
int session_open_part(struct jobs *js, struct job *job);
/* What is known of a stream of Intel PT before its first chunk. */
struct feed_view session_view_of(const struct feed *f);

/*
 * jobs.c: in place of session_refill, for the feeds of the session. Of two
 * threads or more one is the caller's: it keeps a sink that takes no parts busy, and
 * has little to do for one that does.
 */
int session_jobs_open(struct run_state *r, unsigned n_threads,
		      struct aux_diag *diag);
void session_jobs_close(struct run_state *r);
int session_jobs_refill(struct run_state *r, struct feed *f);
/* As session_give; of parts their segments. */
int session_jobs_give(struct run_state *r, struct feed *f,
		      const struct feed_place *limit, bool or_at);

#endif
