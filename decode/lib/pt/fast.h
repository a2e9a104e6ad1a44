/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The packets that the fast path of the Intel PT decoder takes, by their first
 * bytes, as tables: the next packet cannot be predicted, so the loop of fast.c
 * looks up and masks where other code would branch. And what fast.c shares with
 * pause.c; nothing else includes it.
 *
 * Specification: Intel SDM volume 3, "Intel Processor Trace", "Trace Packets
 * and Data Types" (33.4).
 */
#ifndef DECODE_LIB_PT_FAST_H
#define DECODE_LIB_PT_FAST_H

#include <stdint.h>

#include "common/bytes.h"
#include "decode/lib/pt/impl.h"

#define INLINE static inline __attribute__((always_inline))

/* SLOW: left to the slow path. EXT: two bytes of opcode, a long TNT perhaps. */
enum packet_kind { SLOW = 0, PAD, CYC, MTC, TSC, TNT, TIP, EXT };

/* table: enum packet_kind by the first byte */
static const uint8_t packet_kind[256] = {
	PAD, SLOW, EXT, CYC, TNT, SLOW, TNT, CYC,	/* 00 */
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, TSC, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,	/* 20 */
	TNT, SLOW, TNT, CYC, TNT, TIP, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,	/* 40 */
	TNT, SLOW, TNT, CYC, TNT, TIP, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, MTC, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,	/* 60 */
	TNT, SLOW, TNT, CYC, TNT, TIP, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,	/* 80 */
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,	/* a0 */
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,	/* c0 */
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,	/* e0 */
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
	TNT, SLOW, TNT, CYC, TNT, SLOW, TNT, CYC,
};

/*
 * table: by the low three bits of a CYC's first byte, bits of its first two
 * bytes; where one of them is set, the loop leaves the CYC to pt_fast_take_cyc.
 * Bit 2 of the first byte and bit 0 of the others are "more bytes follow".
 */
static const uint32_t cyc_stops[3][8] = {
	{ [7] = 0x100 },		/* leaves CYCs of three bytes or more, */
	{ [7] = 1 },			/* of two or more (SKD007), */
	{ [3] = 1, [7] = 1 },		/* all */
};

/* table: by the byte of a short TNT, its bits as pt_key_bits has them in a key;
 * those of an empty TNT for all other packets. Bit 0 says whether it is a
 * TNT. */
static const uint8_t tnt_keys[256] = {
	2, 2, 2, 2, 5, 2, 7, 2, 9, 2, 11, 2, 13, 2, 15, 2,
	17, 2, 19, 2, 21, 2, 23, 2, 25, 2, 27, 2, 29, 2, 31, 2,
	33, 2, 35, 2, 37, 2, 39, 2, 41, 2, 43, 2, 45, 2, 47, 2,
	49, 2, 51, 2, 53, 2, 55, 2, 57, 2, 59, 2, 61, 2, 63, 2,
	65, 2, 67, 2, 69, 2, 71, 2, 73, 2, 75, 2, 77, 2, 79, 2,
	81, 2, 83, 2, 85, 2, 87, 2, 89, 2, 91, 2, 93, 2, 95, 2,
	97, 2, 99, 2, 101, 2, 103, 2, 105, 2, 107, 2, 109, 2, 111, 2,
	113, 2, 115, 2, 117, 2, 119, 2, 121, 2, 123, 2, 125, 2, 127, 2,
	129, 2, 131, 2, 133, 2, 135, 2, 137, 2, 139, 2, 141, 2, 143, 2,
	145, 2, 147, 2, 149, 2, 151, 2, 153, 2, 155, 2, 157, 2, 159, 2,
	161, 2, 163, 2, 165, 2, 167, 2, 169, 2, 171, 2, 173, 2, 175, 2,
	177, 2, 179, 2, 181, 2, 183, 2, 185, 2, 187, 2, 189, 2, 191, 2,
	193, 2, 195, 2, 197, 2, 199, 2, 201, 2, 203, 2, 205, 2, 207, 2,
	209, 2, 211, 2, 213, 2, 215, 2, 217, 2, 219, 2, 221, 2, 223, 2,
	225, 2, 227, 2, 229, 2, 231, 2, 233, 2, 235, 2, 237, 2, 239, 2,
	241, 2, 243, 2, 245, 2, 247, 2, 249, 2, 251, 2, 253, 2, 255, 2,
};

/* A TIP with IPBytes 1, 2 or 3. A key holds 48 bits of an IP and extends their
 * sign, which is what 3 means; 4 and 6 can name other addresses, and are left
 * to the slow path. */
struct tip_packet {
	uint64_t mask;		/* the part of key_ip that the packet replaces */
	uint32_t key;		/* PT_TIP: its bit of a key */
	uint32_t size;
};

/* table: by the first byte; 0 for all other packets */
static const struct tip_packet tip_packets[256] = {
	[0x2d] = { UINT64_C(0xffff) << 16, PT_TIP, 3 },
	[0x4d] = { UINT64_C(0xffffffff) << 16, PT_TIP, 5 },
	[0x6d] = { UINT64_C(0xffffffffffff) << 16, PT_TIP, 7 } };

/* The bits of the long TNT at p below a stop bit; 0: another packet. */
INLINE uint64_t long_tnt_bits(const uint8_t *p)
{
	uint64_t v = load_le64(p);

	return (v & 0xffff) == 0xa302 && v >> 16 > 1 ? v >> 16 : 0;
}

/*
 * One run of the fast path, on the stack of pt_fast_run. What changes here is
 * written back to struct pt at the end of the run; times.tsc and the like at
 * once.
 */
struct pt_fast {
	struct pt *d;
	const uint8_t *p;	/* next packet */
	const uint8_t *last;	/* from there on packets are left to the slow path */
	uint64_t base;		/* stream offset of address 0: offset = base + p */
	uint64_t offset;	/* of the packet that is consumed */
	uint64_t mode;		/* of keys: pt_key_mode */
	uint64_t key_ip;	/* where the flow is */
	uint64_t last_ip;	/* Last IP of packets, as key_ip */
	struct aux_flow *out, *o, *end; /* the batch; o: the next event */
	enum aux_paths paths;
	bool stop;		/* the host has to look at the last event */

	/* time: see pt_fast_load_time */
	bool time_due;		/* a TIME may be due before the next branch */
	bool emits_times;	/* TIMEs are wanted so often that the loop emits them */
	bool lazy;		/* timing is lazy: cycles and limit are not used */
	uint64_t due_tsc;	/* no TIME is due before it */
	uint64_t cycles;	/* pt_time.cycles, not stored yet */
	uint64_t limit;		/* of cycles: below it they are only added up */
	uint64_t max_periods;	/* with lazy: MTC periods that may be skipped */
	uint64_t scale;		/* per_tick is of this pt_time.scale */
	double per_tick;	/* cycles per TSC tick, rounded down */

	/* time in the loop: see begin_loop_time */
	const uint32_t *stops;	/* row of cyc_stops: CYCs that the loop leaves */
	uint64_t loop_limit;	/* and those after which cycles are more */
	uint64_t loop_base;	/* the time is loop_base + cycles * loop_scale */
	uint64_t loop_scale;
	bool loop_emits;	/* TIMEs are emitted in the loop */

	/* the last packet: pt_mark */
	struct aux_flow *mark;
	uint64_t mark_key_ip;
	bool mark_tip;

	/* bits that are followed next: left, below a stop bit, with PT_TIP;
	 * after them n bits of rest, the oldest highest */
	unsigned left, n;
	uint64_t rest;
	bool rest_tip;		/* the TIP at p follows the last of them */
};

/* ---- fast.c ---- */

#define PT_LEADS 4		/* branches from region to region without a packet */

/* The entries along which a TIP at r->key_ip leads: the branches to other regions, then
 * that which takes it. Returns how many; 0: more than the memo has to be looked at. */
unsigned pt_fast_find_tip(struct pt_fast *r, struct pt_entry e[PT_LEADS]);

/* Emits its path and pushes its calls. False: no room. */
bool pt_fast_follow(struct pt_fast *r, const struct pt_entry *e);

/* ---- fast_time.c ---- */

/* Stores what was added up, or ends lazy timing at r->p: cur.time is as of there.
 * If that changes, pt_fast_begin_time must follow. */
void pt_fast_store_time(struct pt_fast *r);

/* Lazy timing goes on or begins at r->p, or time is loaded from cur.time. */
void pt_fast_begin_time(struct pt_fast *r);

/* Consumes the CYC or MTC at r->p while timing is lazy. False: it does not stay
 * so, and nothing is consumed. */
bool pt_fast_skip_time(struct pt_fast *r);

/* Loads time from pt_time: what is due, and how far cycles can be just added up. */
void pt_fast_load_time(struct pt_fast *r);

/* Consumes the CYC at r->p. False: the slow path has to. */
bool pt_fast_take_cyc(struct pt_fast *r);

/* At the end of a run: lazy timing goes on in the next one. */
void pt_fast_end_time(struct pt_fast *r);

/* Skips the MTC at p. False: after it the time may be at the horizon. */
INLINE bool pt_fast_skip_mtc(struct pt_fast *r, const uint8_t *p)
{
	struct pt_lazy *skip = &r->d->lazy;
	uint64_t periods = skip->periods + (uint8_t)(p[1] - skip->ctc);

	if (periods > r->max_periods)
		return false;
	skip->periods = periods;
	skip->ctc = p[1];
	skip->guard = p + r->d->guard_bytes;
	return true;
}

/* ---- pause.c ---- */

/* Consumes what is at r->p of a pause of tracing: the TIP.PGD, what comes while
 * tracing is off, the TIP.PGE. True: tracing is on, and the fast path can go
 * on; else the slow path has to. */
bool pt_pause_run(struct pt_fast *r);

#endif
