/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * replay: a recording as a place to be at: one process of it, forwards and
 * backwards by instruction, to a time, and to where an address ran.
 *
 * A place is an instruction that is about to run, in a thread. The threads of the
 * process are merged by time; who steps one thread passes what the others did. A
 * window of the recording is decoded at a time, found by its times, so a place is
 * reached without what is before it; where the trace has no times all of it is one
 * window.
 *
 * What is missing stops: a step or run that comes to a GAP of its thread ends on the
 * other side of it, with the cause.
 *
 * For one thread of the program at a time. Functions return 0 or more, or -AUX_E_*.
 */
#ifndef DECODE_REPLAY_REPLAY_H
#define DECODE_REPLAY_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode/lib/session/session.h"

struct replay;

/* Filled by the functions below, and compared by none but them. */
struct replay_place {
	uint64_t from, to;	/* the window: [from, to] ns */
	size_t record;		/* in it, */
	uint32_t insn;		/* and in the record */
};

struct replay_config {
	struct session *session;	/* outlives the replay; its passes are the
					 * replay's */
	int64_t pid;		/* -1: the process with which the trace begins */
	uint64_t max_records;	/* of a window; 0: default */
};

/* -AUX_E_NOENT: nothing of the process was traced. *r is NULL on error. */
int replay_open(struct replay **r, const struct replay_config *config,
		struct aux_diag *diag);
void replay_close(struct replay *r);

uint32_t replay_pid(const struct replay *r);
/* Threads of the process, in the order in which the records name them; false past the
 * last. *i starts at 0. */
bool replay_next_thread(const struct replay *r, size_t *i, uint32_t *tid);
/* The times between which the trace lies, ns; both 0: it has none. */
void replay_times(const struct replay *r, uint64_t *from, uint64_t *to);

/* The first instruction, and the last one. 1, or 0: there is none, and *at stays. */
int replay_first(struct replay *r, struct replay_place *at, struct aux_diag *diag);
int replay_last(struct replay *r, struct replay_place *at, struct aux_diag *diag);
/* The first instruction from a time on. */
int replay_seek(struct replay *r, uint64_t time_ns, struct replay_place *at,
		struct aux_diag *diag);
/* The same by what a person types: "begin", "end", and a time as it is shown or N% of the
 * trace, which is the first instruction from there on. -AUX_E_INVAL with a text: it is
 * none of these, or the trace has no times. */
int replay_seek_words(struct replay *r, const char *words, struct replay_place *at,
		      struct aux_diag *diag);

/* What is at a place. */
struct replay_state {
	uint64_t pc;
	uint64_t time_ns;	/* 0: unknown */
	uint32_t tid;
	int32_t cpu;		/* -1: unknown */
	uint32_t stream;	/* the AUX stream, */
	uint64_t offset;	/* where in it, and which of the instructions that these */
	uint32_t insn;		/* bytes tell of one after the other */
	uint16_t mode;		/* AUX_FLOW_MODE_* */
	uint8_t end;		/* enum aux_range_end: how what runs there goes on */
	bool no_code;		/* there are no bytes at pc */
	const struct space *space;	/* NULL: unknown */
};
int replay_state(struct replay *r, const struct replay_place *at,
		 struct replay_state *state, struct aux_diag *diag);

enum replay_stop {
	REPLAY_DONE = 0,	/* a step was made */
	REPLAY_POINT,		/* a run came to an address */
	REPLAY_EDGE,		/* the beginning or the end: *at is the first or
				 * last instruction there */
	REPLAY_GAP,		/* on the other side of one */
	REPLAY_INTERRUPTED,
};

struct replay_why {
	enum replay_stop stop;
	unsigned cause;		/* of a GAP */
	bool interrupted;	/* of a step: an interrupt or signal lies between, */
	uint64_t stopped;	/* before this address; of several the last */
	bool crossed;		/* of a step: a call, a return or an interrupt lies
				 * between, so the callers may be others */
};

/* To the next instruction of a thread (the one before, back). */
int replay_step(struct replay *r, struct replay_place *at, uint32_t tid, bool back,
		struct replay_why *why, struct aux_diag *diag);

/* As a step, to the next instruction of the thread (the one before, back) that ends in one of
 * the ways of which ends has the bits, 1 << AUX_END_*. At an edge *at stays. */
int replay_find(struct replay *r, struct replay_place *at, uint32_t tid, bool back,
		uint32_t ends, struct replay_why *why, struct aux_diag *diag);

/* Instructions of a thread that ran one after the other as they lie. */
struct replay_block {
	uint64_t first, last;	/* addresses */
};
/*
 * The block up to and with the instruction at a place, which is the thread's; *at becomes its
 * last instruction before the block, as why says of a step back. 1, or -AUX_E_*.
 */
int replay_block(struct replay *r, struct replay_place *at, uint32_t tid,
		 struct replay_block *block, struct replay_why *why, struct aux_diag *diag);

/* Addresses to stop at. Sorted. */
struct replay_points {
	const uint64_t *v;
	size_t n;
};

/*
 * On until an instruction at one of the points is about to run, in any thread; at
 * least one instruction. interrupted is asked now and then; NULL: never.
 */
int replay_run(struct replay *r, struct replay_place *at,
	       const struct replay_points *points, bool back,
	       bool (*interrupted)(void *priv), void *priv,
	       struct replay_why *why, struct aux_diag *diag);

/*
 * Where a thread is when the process is at a place: at its next instruction, else at
 * its last one before. 1, or 0: nowhere near.
 */
int replay_thread(struct replay *r, const struct replay_place *at, uint32_t tid,
		  struct replay_place *there, struct aux_diag *diag);

/* A caller of what runs at a place. */
struct replay_frame {
	uint64_t call;		/* the instruction that called, or did not run; */
	uint64_t back;		/* where it goes on after the call */
	uint64_t time_ns;	/* of the call, */
	uint32_t order;		/* and which of the calls of that time */
	bool interrupted;	/* back did not run: an interrupt or signal */
};

/*
 * The callers of the thread at a place, the innermost first, at most max: calls that
 * ran before it and have not returned. Returns how many were found; fewer than max
 * where the trace begins or too far back.
 */
int replay_callers(struct replay *r, const struct replay_place *at,
		   struct replay_frame *frames, size_t max, struct aux_diag *diag);

#endif
