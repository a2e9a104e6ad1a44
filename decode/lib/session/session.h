/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session: one recording being decoded: reader, timeline, codeview, streams,
 * decoders, and the merge of all flows into one sink.
 */
#ifndef DECODE_LIB_SESSION_SESSION_H
#define DECODE_LIB_SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/decoder.h>
#include <aux/error.h>
#include <aux/reader.h>

#include "decode/lib/code/code.h"
#include "decode/lib/import/import.h"
#include "decode/lib/trace/gap.h"
#include "decode/lib/trace/trace.h"
#include "decode/lib/session/sink.h"
#include "decode/lib/sideband/sideband.h"

#define SESSION_INDEX ".auxidx"
#define SESSION_MEMORY ((uint64_t)512 << 20)
/* What the decoder of a stream needs, at least. */
#define SESSION_STREAM_MEMORY ((uint64_t)32 << 10)

struct session_config {
	const char *path;
	const void *data;	/* not NULL: the recording, which outlives the
				 * session; path is its name then */
	size_t n_data;
	const char *index;	/* an index of path (perfdata.h), if it fits; NULL: the
				 * one beside it, PATH.auxidx */
	const char *decoder;	/* --decoder NAME, NULL: the default */
	const char *plugin;	/* --plugin FILE, NULL: none */
	const struct import_options *import;	/* NULL: none */
	struct codeview_config code;
	unsigned n_workers;	/* -j, threads; the result does not depend on it.
				 * 0: as many as there are CPUs, 1 for a small
				 * file */
	uint64_t chunk_min;	/* a chunk may end after so many bytes, 0: the
				 * default; the flow does not depend on it */
	/* filters; -1 / empty: all */
	int64_t tid;
	const uint32_t *pids;	/* processes; n_pids 0: all */
	size_t n_pids;
	const char *const *comms;	/* threads while they have one of these
					 * names; n_comms 0: any */
	size_t n_comms;
	int64_t cpu;
	const uint32_t *stream;	/* this alone, by its idx; NULL: all */
	uint64_t time_from, time_to;	/* ns; to: UINT64_MAX */
	uint64_t last_ns;	/* so much before the end; 0: all. time_from is
				 * later then, if that is */
	bool chunks;		/* of each stream only these, from 0: */
	uint64_t chunk_from, chunk_to;
	bool no_seek;		/* decode what time_from and time_to leave out,
				 * too: the flow is the same */
	uint64_t max_memory;	/* for mappings and for what decoders keep, with
				 * workers a quarter of the rest for the flow
				 * that waits; 0: SESSION_MEMORY */
	uint64_t snapshot;	/* this one alone; 0: all */
	/* called for every ip whose code a decoder asks for, in one thread;
	 * NULL: not wanted */
	void (*on_code)(void *priv, const struct space *space, uint64_t ip);
	void *on_code_priv;
};

/* What was met; exit status 3 when lossy. */
struct session_stats {
	uint64_t n_insns;
	uint64_t n_gaps[GAP_N_CAUSES];	/* by cause, see trace/gap.h */
	uint64_t aux_bytes;	/* AUX bytes in the file */
	uint64_t aux_wanted;	/* of them in the streams that are decoded */
	uint64_t aux_decoded;	/* bytes given to decoders, so far */
	uint64_t n_streams;
	uint64_t n_records;
	uint64_t ledger_lost;	/* bytes lost at capture, from the ledger */
	/* chunks that the decoder could not decode, and gave nothing of, or
	 * part of it; the reference did, or (n_left) none could */
	uint64_t n_chunks;
	uint64_t n_handed_whole, n_handed_part, n_left;
	const char *decoder, *reference;	/* their names */
	bool lossy;		/* any gap, loss or damage */
	bool cut;		/* the file ends too early, or is damaged */
	bool unplaced;		/* what is missing belongs to no place of the trace */
};

/* What is decoded alone: all AUXTRACE of one queue, or of CoreSight one trace
 * source in it. */
struct stream {
	uint32_t idx;		/* the queue's; CoreSight: they are counted, by
				 * queue and trace id */
	uint32_t queue;		/* AUXTRACE.idx */
	int32_t cpu;		/* of the queue; -1 per-thread */
	int32_t tid;		/* -1 per-CPU */
	uint64_t n_bytes;	/* of the queue */
	uint32_t n_pieces;
	const struct queue *q;
	const struct chunk_source *source;	/* CoreSight; else NULL */
};

struct session;

int session_open(struct session **s, const struct session_config *config,
		 struct aux_diag *diag);
void session_close(struct session *s);

struct aux_reader *session_reader(const struct session *s);
const struct timeline *session_timeline(const struct session *s);
struct codeview *session_codeview(const struct session *s);
const struct losses *session_losses(const struct session *s);
const struct stream *session_stream(const struct session *s, size_t i);
/* A number that copies of a recording share, and others do not. */
uint64_t session_identity(const struct session *s);
/* The AUX bytes by queue, their segments and metadata. */
const struct chunks *session_chunks(const struct session *s);
/* Does the trace have times of the clock that the records share? */
bool session_is_timed(const struct session *s);
/* Whether partial results of SINK_OF_UNITS, made of each stream apart, can be put into the
 * order of a pass of all streams: each has times, and it is known when a thread moves. */
bool session_knows_stints(const struct session *s);
/* How far apart, in ns, the times of the trace may be while code runs: what took
 * less is not told from what took none. 0: that varies, or it is not known. */
uint64_t session_resolution(const struct session *s);
/* Whether TIMEs come with cycles, as far as the recording says. */
bool session_counts_cycles(const struct session *s);
/* Is it Intel PT of a CPU whose model nobody said? Its errata are not worked around. */
bool session_lacks_model(const struct session *s);
/* The decoder that --plugin loaded; NULL: none was asked for. */
const struct aux_decoder_ops *session_plugin(const struct session *s);
/* How many threads a pass has, with the caller's. */
unsigned session_threads(const struct session *s);
/* What a sink asks, answered by the session for as long as it is open. explain
 * and gap_text are the program's to add. */
struct sink_host session_host(struct session *s);
/* The next pass is of this thread alone; -1: of all. */
void session_select_tid(struct session *s, int64_t tid);
/* The next pass is of these times alone, both included; 0 and UINT64_MAX: of all. */
void session_select_time(struct session *s, uint64_t from, uint64_t to);
/* When the trace begins and ends, ns, as far as its packets and records say; both 0:
 * they do not, or its times go back. An event may be a little later. -AUX_E_NOMEM. */
int session_times(struct session *s, uint64_t *from, uint64_t *to);

/*
 * A pass: everything that the filters let through is decoded into a sink. One
 * pass of a session at a time, from open to close in one thread, which is the
 * session's: the sink (but for its partial results) and the observer are called
 * in it.
 */
struct session_pass_config {
	const struct sink_ops *ops;	/* these and sink outlive the pass */
	void *sink;
	uint32_t needs;		/* SINK_*: ops->needs, or what needs_of says */
	struct session_stats *stats;	/* NULL: not wanted. They grow as the
					 * sink gets the flow */
	/* The observer; each may be NULL. */
	void *priv;
	/* A GAP, once the sink got it and all before it, in the order of the
	 * flow. ctx and gap are valid in the call alone. */
	void (*on_gap)(void *priv, const struct flow_ctx *ctx,
		       const struct aux_flow *gap);
	/* The sink got something, or stats did; often. */
	void (*on_progress)(void *priv);
};

struct session_pass;

/* What is known of the file before anything is decoded, as a pass begins with;
 * the rest of *stats is 0. */
void session_count_file(const struct session *s, struct session_stats *stats);

/* config is copied. close accepts NULL, and half-open ones: *pass is set even
 * where open fails. */
int session_pass_open(struct session_pass **pass, struct session *s,
		      const struct session_pass_config *config,
		      struct aux_diag *diag);
/*
 * Gives the sink what one stream has until another stream is earlier, at most a
 * batch. A GAP is the last event of its call of flow. 1: there is more; 0: all
 * was given, or the sink has enough (it is not finished by this).
 */
int session_pass_step(struct session_pass *pass, struct aux_diag *diag);
void session_pass_close(struct session_pass *pass);

/* A whole pass, and ops->finish at its end. */
int session_run_pass(struct session *s,
		     const struct session_pass_config *config,
		     struct aux_diag *diag);
/* The same without an observer; stats may be NULL. */
int session_run(struct session *s, const struct sink_ops *ops, void *sink,
		struct session_stats *stats, struct aux_diag *diag);

#endif
