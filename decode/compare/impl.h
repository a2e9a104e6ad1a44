/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of verify share: the two sides, and where they are. */
#ifndef DECODE_COMPARE_IMPL_H
#define DECODE_COMPARE_IMPL_H

#include "decode/compare/verify.h"
#include "decode/lib/session/cursor.h"

#define VERIFY_STARTS 16	/* chunks whose begin is remembered */
#define VERIFY_PENDING 64	/* events at one place without a partner */
#define VERIFY_HISTORY 16	/* what both did last */
#define VERIFY_SLOTS 16		/* places with TIMEs; a power of two */
#define VERIFY_VALUES 6		/* TIMEs at one of them */
#define VERIFY_END 0		/* kind of the head after the last event */

struct verify;

/* A chunk that was begun: when the buffer held so many events of those
 * before. */
struct verify_start {
	uint64_t refill, n_buffered;
	bool handed;
};

/* The TIMEs at one place, by ticks. */
struct verify_slot {
	uint64_t slot;
	uint64_t n;
	uint64_t v[VERIFY_VALUES];	/* the first ones; the last is the last */
	bool exact[VERIFY_VALUES];
};

struct verify_tsc {
	uint64_t tsc;		/* 0: free */
	uint64_t offset;	/* of the first packet that has it */
};

/*
 * A cursor whose decoder is wrapped: the wrapper sees chunks begin, expands
 * PATHs, and ends a chunk that the decoder gives up.
 */
struct verify_side {
	struct stream_cursor cur;	/* first: the host's priv leads here */
	struct verify *v;
	const struct aux_decoder_ops *real;
	void *dec;
	bool paths, handed;
	bool refuses;		/* every chunk of this stream */
	char name[40];		/* for messages */
	uint64_t n_chunks, n_handed, first_handed, n_paths;
	uint64_t n_refills;
	struct verify_start starts[VERIFY_STARTS];	/* by chunk */
	/* PATHs: what the decoder gave */
	struct aux_flow *batch;
	size_t n_batch, at_batch;
	uint32_t at_step, at_range;
	/* the next event; of a RANGE, what is left of it */
	struct aux_flow head;
	uint64_t place;		/* 2 * chunk; odd: a gap after it */
	bool unknown_first;	/* where the rest of head begins is unknown */
	char broken[120];	/* what is wrong with an event by itself */
	/* events of this place without a partner */
	struct aux_flow pending[VERIFY_PENDING];
	unsigned n_pending;
	bool overflow;		/* a GAP of this place is one, and has its partner */
	/* TIME */
	struct verify_slot slots[VERIFY_SLOTS];	/* the last ones with a TIME */
	uint64_t n_slots;
	uint64_t n_checked;
	struct verify_tsc *tsc;	/* set of the chunk's TSC packets */
	uint64_t tsc_mask;
};

struct verify {
	struct session *s;
	const struct verify_config *config;
	const struct aux_decoder_ops *const *ops;
	struct verify_result *r;
	struct aux_diag *diag;
	struct session_stats stats;
	struct verify_side side[2];
	uint64_t slot;		/* branches with a packet so far */
	bool loose;		/* after a break: a TRACE_ON may be missing */
	uint64_t n_steps;
	uint64_t n_insns;	/* of this stream */
	struct aux_flow history[VERIFY_HISTORY];
	const struct space *spaces[VERIFY_HISTORY];
	uint64_t n_history;
	char text[200];		/* the difference that was found */
	uint64_t offset;	/* where */
};

static inline struct verify_side *verify_other(struct verify *v,
					       const struct verify_side *s)
{
	return &v->side[s == &v->side[0]];
}

/* What a step says; negative: an error. */
#define VERIFY_SAME 0
#define VERIFY_DIFFERENT 1	/* v->text says how */

/* verify_side.c */
int verify_open_side(struct verify *v, unsigned which, size_t i, bool paths,
		     struct aux_diag *diag);
void verify_close_side(struct verify_side *s);
/* The next event becomes head; after the last one VERIFY_END. */
int verify_next(struct verify_side *s);
/* Did the decoder give up the chunk of a place? */
bool verify_is_handed(const struct verify_side *s, uint64_t place);

/* verify_time.c: side's head is a TIME. False: v->text says what is wrong. */
bool verify_take_time(struct verify *v, struct verify_side *s);
/* Compares what can no longer get a partner; end: all. */
bool verify_check_times(struct verify *v, bool end);
void verify_forget_times(struct verify *v);
/* The TSC packets of a chunk. -AUX_E_NOMEM. */
int verify_scan_tsc(struct verify_side *s, const struct aux_chunk *c);

/* verify_show.c: the difference, and what is around it. The sides go on. */
int verify_show(struct verify *v);
/* An event for a person. */
void verify_event_text(char *buf, size_t len, const struct aux_flow *ev);

#endif
