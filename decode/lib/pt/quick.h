/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The quick way of the Intel PT engine, and where it is.
 *
 * Most packets are a CYC, or none, then a TNT or TIP, and they lead to where they have
 * led before: usual.c goes along them. What it stops at is taken
 * packet by packet (run.c), or left to the slow way.
 */
#ifndef DECODE_LIB_PT_QUICK_H
#define DECODE_LIB_PT_QUICK_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/decoder.h>

#include "decode/lib/pt/engine.h"

#define PT_GROUP 12		/* bits of a long TNT at a time, below PT_BITS */
#define PT_LONG_TNT 47

struct pt_quick {
	struct pt *d;
	const uint8_t *p;
	const uint8_t *last;	/* from there on packets are left to the slow way */
	uint64_t base;		/* of offsets: of address 0 */
	uint64_t offset;	/* of the packet that is taken */
	uint64_t mode;		/* of keys */
	uint64_t place;
	uint64_t last_ip;	/* of packets, as a place */
	struct aux_flow *out, *o, *end; /* o: the next event */
	enum aux_paths paths;
	bool stop;		/* the host has to look at the last event */
	/* time: as in pt_time */
	bool late;		/* a TIME may be due */
	bool timed;		/* TIMEs are wanted often */
	uint64_t due;		/* before it no TIME is */
	uint64_t cycles;	/* given to pt_time when anything else wants it */
	uint64_t limit;		/* of cycles: below it they are only added up */
	bool skips;		/* cycles are not added up: pt_skip */
	uint64_t max_periods;	/* then */
	uint64_t scale;
	double per_tick;	/* cycles of that scale, hardly less */
	const uint32_t *stops;	/* which CYCs are not usual: quick_stops */
	/* the last item: as pt.mark */
	struct aux_flow *mark;
	uint64_t mark_place;
	bool mark_tip;
	/* the bits that are next, below a stop bit, PT_TIP; and n behind them */
	unsigned left, n;
	uint64_t rest;
};

/* The MTC at p is skipped. False: behind it the time matters. */
static inline bool pt_skip_mtc(struct pt_quick *r, const uint8_t *p)
{
	struct pt_skip *skip = &r->d->skip;
	uint64_t periods = skip->periods + (uint8_t)(p[1] - skip->ctc);

	if (periods > r->max_periods)
		return false;
	skip->periods = periods;
	skip->ctc = p[1];
	skip->guard = p + r->d->skip_bytes;
	return true;
}

/* usual.c: what is usual from p on, if anything is. Of a long TNT n bits of
 * rest may be left. */
void pt_quick_usual(struct pt_quick *r);

/* pace.c: from here on packets of time are skipped, if they may be; else as
 * take_time. */
void pt_quick_skip_time(struct pt_quick *r);
/* Time as the packets so far tell it. */
void pt_quick_take_time(struct pt_quick *r);
/* What was added up or skipped; take_time comes behind. */
void pt_quick_give_time(struct pt_quick *r);
/* The same at the end, but that what is skipped stays so. */
void pt_quick_leave_time(struct pt_quick *r);
/* What is due is told before a branch. False: the host has to look at it. */
bool pt_quick_put_time(struct pt_quick *r);
/* The CYC at p, of any length. False: not here. */
bool pt_quick_cyc(struct pt_quick *r);

#endif
