/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to decode/lib/replay. window.c decodes a stretch of time into records and keeps
 * the last few; replay.c walks them; callers.c walks back to the calls.
 */
#ifndef DECODE_REPLAY_IMPL_H
#define DECODE_REPLAY_IMPL_H

#include <aux/flow.h>

#include "decode/lib/session/expand.h"
#include "decode/lib/replay/replay.h"

/* A RANGE, GAP or ASYNC of the process, in the order of the merge. */
struct record {
	uint64_t first;		/* GAP: where, 0 unknown. ASYNC: what did not run */
	uint64_t time_ns;
	uint64_t offset;	/* of the stream */
	uint32_t span;		/* to the last instruction, bytes */
	uint32_t n;		/* instructions; 0: no RANGE */
	uint32_t ctx;		/* index into ctx */
	uint8_t kind;		/* enum aux_flow_kind */
	uint8_t what;		/* aux_flow.what */
	uint16_t flags;		/* aux_flow.flags */
};

struct record_ctx {
	const struct space *space;
	uint32_t tid;
	int32_t cpu;
	uint32_t stream;
};

/* All that the process did in [from, to]. */
struct window {
	uint64_t from, to;
	struct record *v;
	size_t n, cap;
	struct record_ctx *ctx;
	size_t n_ctx, cap_ctx;
	uint64_t used;		/* when, for the choice of what to forget */
	bool filled;
};

#define REPLAY_WINDOWS 4
#define REPLAY_RECORDS (400u << 10)	/* of one: 16 MiB */
#define REPLAY_LIMIT (32u << 20)	/* of one without times, or of one time */

struct replay {
	struct session *session;
	struct sink_host host;
	struct walk *walk;
	uint32_t pid;
	bool timed;		/* windows can be found by time */
	uint64_t begin, end;	/* of the trace, ns */
	uint64_t step;		/* what the next window covers, ns */
	uint64_t max_records;
	uint64_t n_used;
	struct window windows[REPLAY_WINDOWS];
};

/* The window with just these times; NULL: an error. Valid until four others were asked
 * for. */
struct window *window_get(struct replay *r, uint64_t from, uint64_t to,
			  struct aux_diag *diag, int *err);
/* The one that begins after a time, or ends before one (back), that has something.
 * NULL: there is none, and *err is 0, or an error. */
struct window *window_next(struct replay *r, uint64_t after, struct aux_diag *diag,
			   int *err);
struct window *window_before(struct replay *r, uint64_t before,
			     struct aux_diag *diag, int *err);
/* The process with which the trace begins; -1: there is none. */
int64_t window_first_pid(struct replay *r, struct aux_diag *diag, int *err);
void windows_free(struct replay *r);

/* scan.c: the first point at or after an address; p->n: none. */
size_t replay_first_point(const struct replay_points *p, uint64_t ip);

struct scan_part {
	const struct replay_points *points;
	uint64_t from, to;	/* ns */
	uint64_t time_ns;	/* found: when */
	bool broken;		/* it was interrupted, there if it went forwards */
};

/* When the process may be at a point, or at a gap, first (back: last) between two times.
 * 1, or 0: never. */
int scan_points(struct replay *r, struct scan_part *part, bool back,
		bool (*interrupted)(void *priv), void *priv, struct aux_diag *diag);

/* A place while it is walked: the window stays until the next call of a function of
 * replay.h. */
struct walker {
	struct replay *r;
	struct window *w;
	size_t i;		/* record */
	struct aux_diag *diag;
};

/* To the next record, or the one before. 1; 0: there is none, and nothing changed. */
int walker_move(struct walker *k, bool back);

static inline const struct record *walker_record(const struct walker *k)
{
	return &k->w->v[k->i];
}

static inline uint32_t walker_tid(const struct walker *k)
{
	return k->w->ctx[k->w->v[k->i].ctx].tid;
}

int walker_at(struct walker *k, struct replay *r, const struct replay_place *at,
	      struct aux_diag *diag);

#endif
