/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sinks: what is done with the flow. A sink is its files, with its
 * options in them, and a row of the table in cmd/commands.c.
 *
 * The session calls flow with events of one stream at a time, in the order of
 * time across streams; ctx says who ran and where. Events that change ctx
 * (TIME, CONTEXT, TRACE_ON) are passed too, after ctx is updated.
 */
#ifndef DECODE_LIB_SESSION_SINK_H
#define DECODE_LIB_SESSION_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/decoder.h>
#include <aux/error.h>
#include <aux/flow.h>

#include "common/outbuf.h"
#include "decode/lib/trace/gap.h"

struct elfimage;
struct inline_frame;
struct names;
struct off_span;
struct option_row;
struct session;
struct source_line;
struct space;
struct symbol;

struct flow_ctx {
	const struct session *session;
	const struct space *space;	/* code at this moment; NULL unknown */
	uint32_t stream;		/* queue number, AUXTRACE.idx */
	uint32_t pid, tid;		/* -1 unknown */
	int32_t cpu;			/* -1: per-thread or unknown */
	uint64_t time_ns;		/* perf clock; 0 unknown */
	uint64_t tsc;			/* 0 unknown */
};

/* What a sink needs; nothing else is computed. */
#define SINK_NEEDS_TIME 1
#define SINK_TAKES_PATHS 2	/* PATH events; else they come as RANGEs */
#define SINK_OWN_FORMAT 4	/* its output is no text with "# " lines in it */
#define SINK_EXACT_OFFSETS 8	/* PATHs are AUX_PATHS_PACKET */
#define SINK_TAKES_TIMES 16	/* TIMEs among other events: after one, the time is
				 * its own, later than that of flow_ctx */
#define SINK_ANY_STREAM_ORDER 32 /* partial results of different streams may be
				  * joined in any order: the sink keeps streams
				  * apart, or adds what commutes. Spares it a
				  * stint for each TIME */
#define SINK_CYCLES 128	/* NEEDS_TIME and TAKES_TIMES where the trace counts cycles */
#define SINK_THREAD_ORDER 256 /* keeps threads apart: of several streams it gets what a
			       * thread ran in one chunk whole, where that begins
			       * (merge.c), as events or as a partial result */
#define SINK_KEEPS_PATHS 512 /* partial results keep PATHs until they are joined */
#define SINK_OF_UNITS 1024 /* with THREAD_ORDER: partial results are for a pass of all streams,
			    * so stints are found in one stream, too, as there */
#define SINK_FILTERS_TIME 64 /* applies --time itself: it gets all of the flow */

/*
 * The open ends of a part (--chunk) of a stream: places of the stream where it was
 * cut, and the flow goes on without a break. What a part before has counted up to
 * from_at, and this one from there, joins by (stream, from_at).
 */
struct sink_part {
	uint32_t stream;
	bool comes_from, goes_on;
	uint64_t from_at, to_at;	/* stream offsets of the cuts */
	uint64_t to_ip;		/* goes_on: the address where the next begins */
};

/*
 * What a sink may ask of the rest of the program; a test gives its own.
 * Pointers that come back live as long as the host.
 */
struct sink_host {
	void *priv;
	/* As codeview_code. space may be NULL: then there is no code. */
	int (*code)(void *priv, const struct space *space, uint64_t ip,
		    struct aux_code *code);
	/* As codeview_symbol; NULL: there are no symbols. */
	int (*symbol)(void *priv, const struct space *space, uint64_t ip,
		      struct symbol *sym);
	/* Why there is no code at ip, and what the user can do about it; NULL:
	 * nothing to say. */
	void (*explain)(void *priv, const struct space *space, uint64_t ip,
			char *buf, size_t len);
	/* gap_text() and what the user can do about the gap; NULL: gap_text()
	 * alone. Use sink_gap_text(). */
	const char *(*gap_text)(unsigned cause);
	/* Puts the command line of words, "calls --tid 1 FILE", with what it needs of
	 * the user's options to show the same flow; NULL: "auxdecode WORDS". Use
	 * sink_follow(). */
	void (*follow)(struct outbuf *out, const char *words);
	/* The thread's name at a time; NULL: not known. */
	const char *(*comm)(void *priv, uint32_t tid, uint64_t time);
	/* The path of the thread's cgroup at a time, as timeline_cgroup; NULL:
	 * not known. */
	const char *(*cgroup)(void *priv, uint32_t tid, uint64_t time);
	/* As timeline_off_cpu; NULL: nothing says so, which is not "never". */
	bool (*off_cpu)(void *priv, uint32_t tid, uint64_t from, uint64_t to,
			struct off_span *span);
	/* The part of stream i that is decoded; false: there is no i. NULL:
	 * nothing has open ends. Use sink_part_of(). */
	bool (*part)(void *priv, size_t i, struct sink_part *part);
	/* As codeview_line and codeview_inlines; NULL: there are no lines. */
	int (*line)(void *priv, const struct space *space, uint64_t ip,
		    struct source_line *line);
	int (*inlines)(void *priv, const struct space *space, uint64_t ip,
		       struct inline_frame *frames, size_t max);
	/* As codeview_image; NULL: there are none. */
	int (*image)(void *priv, const struct space *space, uint64_t ip,
		     struct elfimage **im, uint64_t *offset);
	/* As session_counts_cycles; NULL: it does not. */
	bool (*counts_cycles)(void *priv);
	/* As codeview_space. Of equal pid and time it is the same in all processes that
	 * have the recording open; NULL: there are none. */
	const struct space *(*space)(void *priv, uint32_t pid, uint64_t time);
	/* As session_identity; NULL: there is no recording. */
	uint64_t (*identity)(void *priv);
	/* --symbol, and how names are shown: callstack/names.h. NULL: all
	 * functions. For the session's thread alone. */
	struct names *names;
};

/* The meaning of a gap's cause, in the words of the program around the sink. */
static inline const char *sink_gap_text(const struct sink_host *host,
					unsigned cause)
{
	return host && host->gap_text ? host->gap_text(cause) : gap_text(cause);
}

/* A command to go on with, as text to paste. */
static inline void sink_follow(const struct sink_host *host, struct outbuf *out,
			       const char *words)
{
	if (host && host->follow)
		host->follow(out, words);
	else
		outbuf_printf(out, "auxdecode %s", words);
}

/* The part of a stream; false: all of it is decoded. */
static inline bool sink_part_of(const struct sink_host *host, uint32_t stream,
				struct sink_part *part)
{
	for (size_t i = 0; host->part && host->part(host->priv, i, part); i++)
		if (part->stream == stream)
			return part->comes_from || part->goes_on;
	return false;
}

/* Whether any stream is decoded in part, with an open end. */
static inline bool sink_has_parts(const struct sink_host *host)
{
	struct sink_part part;

	for (size_t i = 0; host->part && host->part(host->priv, i, &part); i++)
		if (part.comes_from || part.goes_on)
			return true;
	return false;
}

/* Stacks of a part are not those of the whole, for it begins in the middle of
 * calls: files of stacks say so, and merge takes none of them. */
#define FOLDED_PART "# part of a recording\n"
#define PPROF_PART "part of a recording"

#define SINK_DROPS 10

/* What a sink met, for the verdict and for the table of an empty result. */
struct sink_report {
	uint64_t n_insns;	/* instructions that reached the sink */
	uint64_t n_lines;	/* lines (count: instructions) that came out */
	uint64_t n_filtered;	/* dropped by --symbol */
	uint64_t n_payloads;	/* values of the program that came out, beside
				 * n_lines: a recording may have nothing else */
	uint64_t n_mismatches;	/* ranges that do not fit the code bytes */
	/* what the sink itself left out, for the table, and what to do */
	struct sink_drop {
		const char *what;
		uint64_t n;
	} drops[SINK_DROPS];
	unsigned n_drops;
	char error[512];	/* why flow failed, where its code says too little */
	char hint[512];
	/* what commands to go on with are about: the function that a result is led by, and
	 * a time of its calls; "": none */
	char function[512];
	char longer[32];
	char note[512];		/* what to say of a result that is there; "":
				 * nothing */
};

/*
 * Where a sink works: the same for all of them. What it points to lives longer
 * than the sink, which keeps a copy of the struct.
 */
struct sink_env {
	struct outbuf *out;
	const struct sink_host *host;
	struct sink_report *report;
	const char *path;	/* FILE as it was given, for text and hints */
	const char *out_path;	/* -o FILE, NULL: standard output */
	const char *symfs;	/* --symfs DIR, NULL none */
	const char *symbol;	/* --symbol as text, NULL: all functions; what
				 * fits is asked of host->names */
	uint64_t time_from, time_to;	/* --time, ns; to: UINT64_MAX */
	uint64_t resolution;	/* as session_resolution() */
	unsigned width;		/* columns that lines are to fit into with short
				 * names, see names_cut(); 0: any number */
	bool full_names;	/* --full-names: in pictures, too */
	unsigned n_threads;	/* that may work on what finish does, the caller's
				 * among them; 0 is 1 */
	bool json;		/* members of an object, not text: each with a
				 * comma before it, see cmd/json.c */
};

struct sink_ops {
	const char *name;
	uint32_t needs;
	const char *fields;	/* what -F takes, comma separated; NULL: no -F */
	/*
	 * Its own options, parsed into a struct of its own: config_size bytes,
	 * zeros, then what defaults sets (NULL: zeros are the defaults). config
	 * below is that struct; a sink keeps a copy.
	 */
	const struct option_row *options;
	size_t config_size;
	void (*defaults)(void *config);
	/* Less than needs, where the options ask for less; NULL: always all. */
	uint32_t (*needs_of)(const void *config);
	/* True: it writes env.out_path itself, which the caller must not open;
	 * NULL: it never does. */
	bool (*makes_file)(const void *config);
	/* -AUX_E_INVAL with diag for bad options */
	int (*open)(void **sink, const struct sink_env *env, const void *config,
		    struct aux_diag *diag);
	/* Returns 0, 1 for "enough, stop", or an error. */
	int (*flow)(void *sink, const struct flow_ctx *ctx,
		    const struct aux_flow *ev, size_t n);
	/* The end: prints what is left (totals). */
	int (*finish)(void *sink, struct aux_diag *diag);
	void (*close)(void *sink);	/* NULL is allowed */
	/*
	 * For a sink whose result is a sum of partial results; all but
	 * partial_end, or none. A partial result is what one chunk of one stream adds. A worker
	 * fills it while nothing of the sink changes, and the session's thread
	 * joins it to the sink stint by stint. A stint is a stretch of one
	 * stream's flow that the flow of no other stream interrupts, at most as
	 * long as one thread runs on one CPU; a GAP ends it. Stints are
	 * numbered from 0 in each partial result, in the order of its flow, and
	 * are joined in the order of time across streams: after the joins the
	 * sink is as if flow had got all the events (of
	 * SINK_ANY_STREAM_ORDER: all of each stream, in order; of
	 * SINK_THREAD_ORDER: stint by stint, and a stint is all that one thread
	 * runs in a row in one chunk).
	 *
	 * partial_new returns -AUX_E_UNSUPPORTED where the options ask for what
	 * needs the order of all events (a limit, SHA-256) or the sink's one
	 * thread (a filter by symbol); flow gets everything then. partial_new
	 * and partial_free are called in any thread. partial_flow runs in one
	 * worker at a time and may ask sink_host for code, and for nothing
	 * else. It returns 0 or an error. partial_join runs in the session's
	 * thread, never while a worker is in partial_flow with the same partial
	 * result. It joins all stints up to that one that were not joined yet:
	 * those that no other stream interrupts come in one call, so a sink
	 * should keep little for each stint, and sums from the first one on
	 * rather than those of each (count_part.c). It returns what flow
	 * returns. Partial results are freed before their sink is closed.
	 */
	int (*partial_new)(void **partial, const void *sink);
	int (*partial_flow)(void *partial, uint32_t stint,
			    const struct flow_ctx *ctx,
			    const struct aux_flow *ev, size_t n);
	/* By the worker, after the last partial_flow or the last for a while:
	 * what only that needs can serve another partial result. May be NULL.
	 * 0, or an error. */
	int (*partial_end)(void *partial);
	int (*partial_join)(void *sink, void *partial, uint32_t stint);
	/* What it holds; when that is too much, it is joined before more comes. May be
	 * NULL: little. */
	size_t (*partial_bytes)(const void *partial);
	void (*partial_free)(void *partial);	/* accepts NULL */
};

/* RANGE i of a step, at the offset of the path. */
static inline struct aux_flow step_range(const struct aux_step *step,
					 uint32_t i, uint64_t offset)
{
	struct aux_flow range = step->ranges[i];

	range.offset = offset;
	return range;
}

/* The RANGEs that a PATH stands for, one by one: zeroed but for path, then
 * path_next_range until it is false. */
struct path_ranges {
	const struct aux_flow *path;
	const struct aux_flow *next, *end;	/* of the step before step */
	uint32_t step;
};

static inline bool path_next_range(struct path_ranges *r, struct aux_flow *range)
{
	const struct aux_path *path = r->path->path.path;

	while (r->next == r->end) {
		if (r->step == path->n_steps)
			return false;
		r->next = path->steps[r->step]->ranges;
		r->end = r->next + path->steps[r->step++]->n_ranges;
	}
	*range = *r->next++;
	range->offset = r->path->offset;
	return true;
}

#endif
