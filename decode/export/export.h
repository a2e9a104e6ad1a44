/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_export: calls, gaps and payloads for the formats of other tools. A
 * format is one file and one line of the table in export.c.
 *
 * Invariant, whatever the trace lost: on each track slices begin and end in
 * pairs, the last one first, and times never go back. What ran before the trace
 * begins at first sight; what a gap or the end of the trace cut ends there, and
 * says so.
 */
#ifndef DECODE_EXPORT_EXPORT_H
#define DECODE_EXPORT_EXPORT_H

#include <stdlib.h>

#include "decode/callstack/callstack.h"
#include "common/outbuf.h"

struct schema;

/* A string that is shown, once: valid UTF-8. id: from 0, in the order met. */
struct export_name {
	uint32_t id, len;
	char text[];
};

/* One stack of a thread: what formats call a thread, a track, a profile. */
struct export_track {
	struct export_track *next;	/* of all, in the order met */
	uint32_t id;			/* from 0 */
	uint32_t pid, tid;		/* -1: unknown, one for each stream */
	uint32_t stream;
	uint32_t stack;			/* of the thread's, from 0 */
	struct export_track *thread;	/* its stack 0: may be itself */
	uint64_t last_ns;		/* of what came last */
	const struct export_name *comm;	/* as it was last; NULL: not known */
	uint32_t depth;			/* slices that are open */
	struct call_count top;		/* of frames that nothing was below */
	void *user;			/* the format's; NULL first */
	/* export.c's */
	struct call_count left, away;	/* the thread's, when it left this stack;
					 * what it counted in others in between */
	struct export_open {
		struct call_count at, children;
	} *open;			/* frames that are, as counted here */
	uint32_t n_open, max_open;
	uint32_t inside;		/* frames since --symbol */
	uint8_t overlay;		/* EXPORT_OFF, EXPORT_GAP; 0: none */
	enum call_untraced why_off;	/* OFF */
	struct aux_flow gap;
};

enum export_kind {
	EXPORT_FRAME = 0,	/* a call */
	EXPORT_OFF,		/* the thread's trace was off: a filter, or the
				 * kernel, which was not to be traced */
	EXPORT_GAP,		/* flow is missing */
	EXPORT_AWAY,		/* the thread was off the CPU; inside of all others */
};

/* Begin or end of a slice. */
struct export_slice {
	enum export_kind kind;
	uint64_t ns;
	const struct export_name *name;
	const struct call_thread *thread; /* NULL: none is known */
	const struct call_frame *frame;	/* FRAME */
	const struct aux_flow *gap;	/* GAP */
	const char *why;		/* AWAY: "blocked", "preempted"; OFF:
					 * "kernel", "filter"; NULL: not known */
	/* an end alone */
	enum call_end how;		/* FRAME */
	bool guessed;			/* FRAME; of a begin too */
	struct call_count total, self;	/* FRAME: without what other stacks of
					 * the thread took in between */
};

#define EXPORT_FIELDS 16

struct export_field {
	const char *name;
	uint64_t value;
	bool is_signed;
};

/* A value that the program gave, or an event of the CPU. */
struct export_instant {
	uint64_t ns;
	const struct export_name *name;	/* the schema's, or "ptwrite", "power" */
	const char *category;		/* "ptwrite", "stm", "power", ... */
	uint64_t value, ip;
	bool has_ip;
	uint32_t n_fields;
	struct export_field fields[EXPORT_FIELDS];
};

struct export_counter {
	uint64_t ns;
	const struct export_name *name;
	const char *category;
	int64_t value;
};

/* Of the schema's spans; those of one process may overlap. */
struct export_span {
	uint64_t ns;
	const struct export_name *name;
	uint64_t serial;	/* counts spans from 1 */
	uint32_t lane;		/* of (process, name): no two open ones have one */
	bool begin;
	bool lost;		/* end: the trace had none */
	uint32_t n_fields;
	struct export_field fields[EXPORT_FIELDS];
};

struct export_config {
	const char *to;		/* --to FORMAT, NULL: none given */
	const char *schema;	/* --schema FILE, NULL: none */
	unsigned by;		/* --by: 0 time, 1 instructions */
	uint64_t limit;		/* -n, 0: none */
};

struct export {
	struct sink_env env;
	struct export_config config;
	struct outbuf *out;
	const struct session *session;	/* NULL before the first flow, in tests */
	struct calls *calls;
	struct export_track *tracks;	/* in the order met */
	uint32_t n_tracks;
	uint32_t n_names;
	uint64_t first_ns, last_ns;	/* of all; 0: none was known */
	bool timed;			/* else times count instructions */
};

/* sink_gap_text() of the program around the export. */
static inline const char *export_gap_text(const struct export *x, unsigned cause)
{
	return sink_gap_text(x->env.host, cause);
}

#define EXPORT_BINARY 1		/* never onto a terminal */
#define EXPORT_OWN_FILE 2	/* writes to env.out_path by itself */
#define EXPORT_OWN_DIR 4	/* env.out_path is a directory, which it writes
				 * files into; without one, to env.out */
#define EXPORT_NEEDS_DIR 8	/* OWN_DIR, and there must be one */

struct export_ops {
	const char *name, *help;
	unsigned flags;
	unsigned calls_flags;	/* as calls_new takes */
	int (*open)(void **format, struct export *x, struct aux_diag *diag);
	/* Each may be NULL. 0, or an error. */
	int (*track)(void *format, struct export_track *t);	/* was met */
	int (*begin)(void *format, struct export_track *t,
		     const struct export_slice *s);
	int (*end)(void *format, struct export_track *t,
		   const struct export_slice *s);
	/* its thread goes on in t, another of its stacks */
	int (*turn)(void *format, struct export_track *t,
		    const struct export_track *from, uint64_t ns);
	int (*instant)(void *format, struct export_track *t,
		       const struct export_instant *i);
	int (*counter)(void *format, struct export_track *t,
		       const struct export_counter *c);
	int (*span)(void *format, struct export_track *t,
		    const struct export_span *s);
	/* its thread had a CPU from then to then; t is that of one of its stacks.
	 * Comes when that is over */
	int (*ran)(void *format, struct export_track *t, uint32_t cpu,
		   uint64_t from, uint64_t to);
	/* Each batch of the flow, before calls gets it. */
	int (*flow)(void *format, const struct flow_ctx *ctx,
		    const struct aux_flow *ev, size_t n);
	/* As calls tells of it, before all else: NULL for formats that need
	 * slices alone. */
	const struct calls_ops *raw;
	int (*finish)(void *format, struct aux_diag *diag);
	void (*close)(void *format);	/* accepts NULL */
};

extern const struct export_ops export_callgrind, export_chrome, export_fxt,
	export_firefox, export_jsonl, export_parquet, export_perfetto,
	export_postgres, export_pprof, export_speedscope, export_sqlite, export_tenet;

/* Formats by index; NULL after the last. */
const struct export_ops *export_format(size_t i);

/* The one copy of a text, cleaned; NULL: out of memory. It lives as x does. */
const struct export_name *export_intern(struct export *x, const char *text);
const struct export_name *export_func_name(struct export *x,
					   struct call_func *f);
/* A number for each name that a format has met; slots are 0 at first. */
struct export_ids {
	uint32_t *v;
	size_t n;
};
/* NULL: out of memory. Valid until the next call. */
uint32_t *export_ids_at(struct export_ids *ids, uint32_t id);
static inline void export_ids_fini(struct export_ids *ids)
{
	free(ids->v);
}

/* Numbers 0, 1, ... for keys of three words, in the order met. */
struct export_map {
	uint64_t (*keys)[3];
	uint32_t *slots;	/* one more than the number; 0: free */
	uint32_t n, max, n_slots;
};
/* Starts zeroed. The number of the key, or -AUX_E_NOMEM. */
int64_t export_map_find(struct export_map *m, uint64_t a, uint64_t b,
			uint64_t c);
void export_map_fini(struct export_map *m);

/* What a person calls a track: "comm/12", "comm/12 stack 1", "stream 3". */
size_t export_track_name(const struct export_track *t, char *buf, size_t len);
/* Numbers for formats that must have some; where none is known, or of a stack,
 * one that no process has. */
uint64_t export_pid(const struct export_track *t);
uint64_t export_tid(const struct export_track *t);
/* The recording's clock: "virtual", "instructions" or "perf". */
const char *export_clock(const struct export *x);
/* "call", "tail", ...; "return", "lost", ...; as the man page has them. */
const char *export_kind_name(const struct call_frame *f);
const char *export_end_name(enum call_end how);
/* Lost, or cut by the trace's end: its end is no end that was seen. */
bool export_is_cut(enum call_end how);

/* text.c: s as the inside of a JSON string; it is valid UTF-8. */
void export_json_text(struct outbuf *out, const char *s, size_t len);
/* The same of anything: what is no UTF-8 becomes U+FFFD. With its quotes. */
void export_json_string(struct outbuf *out, const char *s);
/* Copies len bytes of s, all that is no UTF-8 replaced; returns the length. to:
 * NULL, or room for 3 * len. */
size_t export_clean(char *to, const char *s, size_t len);
/* The longest part of s that is at most max bytes and whole characters. */
size_t export_cut(const char *s, size_t len, size_t max);
/* Nanoseconds as microseconds, "12.345": all of them. */
void export_put_us(struct outbuf *out, uint64_t ns);

/* A file in $TMPDIR without a name: it is gone when the program is. -1: errno. */
int export_temp_file(void);
/* 0, or -AUX_E_IO with errno. */
int export_write_at(int fd, const void *p, size_t n, uint64_t at);

/*
 * export_spool: texts of many tracks that grow side by side and are written one
 * after the other at last, for formats that want each track in one piece. What
 * does not fit in a small buffer goes into one unnamed temporary file
 * ($TMPDIR), so memory does not grow with the trace, and no file is open for
 * each track.
 */

struct export_spool;
struct export_piece;	/* the text of one track */

struct export_spool *export_spool_new(void);	/* NULL: out of memory */
void export_spool_free(struct export_spool *s);
/* NULL: out of memory. It lives as s does. */
struct export_piece *export_spool_piece(struct export_spool *s);
/* As if nothing had been put. */
void export_spool_clear(struct export_piece *p);
/* 0, -AUX_E_NOMEM, or -AUX_E_IO: the temporary file cannot be written. */
int export_spool_put(struct export_spool *s, struct export_piece *p,
		     const char *text, size_t n);
int export_spool_write(struct export_spool *s, const struct export_piece *p,
		       struct outbuf *out);

extern const struct sink_ops sink_export;

#endif
