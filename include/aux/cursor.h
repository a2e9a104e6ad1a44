/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A cursor: a recording as a place to be at. It stands at an instruction of a process and
 * goes forwards and back, by instruction, branch, call and source line, to addresses and
 * to times. auxdecode's servers for debuggers stand on the same.
 *
 * A position is (thread, stream offset, instruction): an instruction that is about to run
 * in a thread, which some bytes of one AUX stream tell of. The threads of the process are
 * merged by time; who moves one thread passes what the others did. A stretch of the
 * recording is decoded at a time, found by its times, so a position is reached without what
 * is before it; where the trace has no times all of it is one stretch.
 *
 * What is missing stops: a move or run that comes to a gap of its thread ends on the other
 * side of it, with the cause (aux_gap_name).
 *
 *	aux_cursor_open(&c, "perf.data", NULL, -1, &diag);	at its end
 *	while (!aux_cursor_move(c, AUX_CURSOR_CALL, AUX_CURSOR_BACK, &stop, &diag) &&
 *	       stop.why == AUX_CURSOR_DONE)
 *		aux_cursor_state(c, &state, &diag);		each call, the last first
 *
 * For one thread of the program at a time. Functions return 0 or more, or -AUX_E_* with text
 * in diag, which may be NULL. As for stability: see decode.h.
 */
#ifndef AUX_CURSOR_H
#define AUX_CURSOR_H

#include <stddef.h>
#include <stdint.h>

#include <aux/decode.h>

#ifdef __cplusplus
extern "C" {
#endif

struct aux_cursor;

/*
 * path and options as for aux_decode_open, of which flags may have none that leaves
 * something out. pid: the process; -1: the one with which the trace begins. It stands at
 * the last instruction. -AUX_E_NOENT: nothing of the process was traced,
 * and diag says what a recording that is cut lacks. On error *c is
 * NULL. Since version 4, as all here.
 */
int aux_cursor_open(struct aux_cursor **c, const char *path,
		    const struct aux_decode_options *options, int64_t pid,
		    struct aux_diag *diag);
/* NULL is allowed. All that came from c ends with it. */
void aux_cursor_close(struct aux_cursor *c);
/* The recording, for code, symbols, source lines and names (aux_decode_code and others). It
 * is c's: its flow is not to be taken (aux_decode_next, aux_decode_run). */
struct aux_decode *aux_cursor_decode(const struct aux_cursor *c);

/* Where it stands. */
struct aux_cursor_state {
	uint32_t size;		/* sizeof(struct aux_cursor_state), as yours is */
	uint32_t pid, tid;
	int32_t cpu;		/* -1: unknown */
	uint64_t ip;		/* of the instruction that is about to run */
	uint64_t time_ns;	/* perf clock; 0: unknown */
	const struct aux_decode_space *space;	/* NULL: no code is known */
	uint32_t stream;	/* number of the AUX stream; and in it, */
	uint32_t insn;		/* which one of the instructions that run one after the
				 * other, from 0, */
	uint64_t offset;	/* as the bytes at this offset tell */
	uint16_t mode;		/* AUX_FLOW_MODE_* */
	uint8_t end;		/* enum aux_range_end: how it goes on after it */
	uint8_t no_code;	/* there are no bytes at ip */
	uint32_t reserved;
};
int aux_cursor_state(struct aux_cursor *c, struct aux_cursor_state *state,
		     struct aux_diag *diag);

/* A position to come back to, as long as c is open. */
struct aux_cursor_position {
	uint64_t v[4];
};
void aux_cursor_save(const struct aux_cursor *c, struct aux_cursor_position *p);
/* -AUX_E_INVAL: it is none of c's. */
int aux_cursor_restore(struct aux_cursor *c, const struct aux_cursor_position *p,
		       struct aux_diag *diag);

/* To the first instruction, the last one, the first one from a time on (perf clock). 1, or 0:
 * there is none, and it stays. */
int aux_cursor_begin(struct aux_cursor *c, struct aux_diag *diag);
int aux_cursor_end(struct aux_cursor *c, struct aux_diag *diag);
int aux_cursor_time(struct aux_cursor *c, uint64_t time_ns, struct aux_diag *diag);
/* To a thread of the process: its next instruction after here, else its last one before. 1, or
 * 0: it is nowhere near, and it stays. */
int aux_cursor_thread(struct aux_cursor *c, uint32_t tid, struct aux_diag *diag);
/* The threads of the process; 0 past the last. *i starts at 0. */
int aux_cursor_next_thread(const struct aux_cursor *c, size_t *i, uint32_t *tid);
/* The times between which the trace lies; both 0: it has none. */
void aux_cursor_times(const struct aux_cursor *c, uint64_t *from, uint64_t *to);

/* How far a move goes, in its thread. */
enum aux_cursor_unit {
	AUX_CURSOR_INSN,	/* to the next instruction */
	AUX_CURSOR_BRANCH,	/* to one that may go elsewhere than on */
	AUX_CURSOR_CALL,	/* to one that calls */
	AUX_CURSOR_LINE,	/* to the first instruction of another source line, in
				 * whatever function; what has no line is passed */
};

/* Directions. */
#define AUX_CURSOR_FORWARDS 0
#define AUX_CURSOR_BACK 1

enum aux_cursor_why {
	AUX_CURSOR_DONE = 0,
	AUX_CURSOR_POINT,	/* a run came to an address */
	AUX_CURSOR_EDGE,	/* there is nothing more that way: at the first or last
				 * instruction of the thread, or of all in a run */
	AUX_CURSOR_GAP,		/* on the other side of one */
	AUX_CURSOR_STOPPED,	/* stop said so */
};

struct aux_cursor_stop {
	uint32_t size;		/* sizeof(struct aux_cursor_stop), as yours is */
	uint32_t why;		/* enum aux_cursor_why */
	uint32_t cause;		/* of a GAP: enum aux_gap_cause. Of an EDGE:
				 * AUX_GAP_FILE at the end of a recording that is cut,
				 * damaged or unfinished: more may have run (since
				 * version 5); else 0 */
	uint32_t interrupted;	/* 1: an interrupt or signal lay between */
};

int aux_cursor_move(struct aux_cursor *c, enum aux_cursor_unit unit, int direction,
		    struct aux_cursor_stop *stop, struct aux_diag *diag);
/*
 * On until an instruction at one of n addresses is about to run, in any thread; at least one
 * instruction. ask is called now and then, and ends the run when it returns other than 0;
 * NULL: never. Fast: what lies between is decoded but not looked at.
 */
int aux_cursor_run(struct aux_cursor *c, const uint64_t *addresses, size_t n, int direction,
		   int (*ask)(void *priv), void *priv, struct aux_cursor_stop *stop,
		   struct aux_diag *diag);

/* A caller of what runs. */
struct aux_cursor_frame {
	uint64_t call;		/* the instruction that called, or did not run; */
	uint64_t back;		/* where it goes on after the call */
	uint64_t time_ns;	/* of the call, */
	uint32_t order;		/* and which of the calls of that time */
	uint32_t interrupted;	/* 1: an interrupt or signal in place of a call */
};
/*
 * The callers of what runs there, the innermost first: calls that ran before and have not
 * returned. Fills frames, of frame_size (sizeof(struct aux_cursor_frame)) each, at most max.
 * Returns how many; fewer than max where the trace begins, or too far back.
 */
int aux_cursor_callers(struct aux_cursor *c, struct aux_cursor_frame *frames,
		       size_t frame_size, size_t max, struct aux_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
