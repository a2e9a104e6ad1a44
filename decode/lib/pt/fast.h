/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The quick way of the Intel PT engine, and where it is.
 *
 * Most packets are a CYC, or none, then a TNT or TIP, and they lead to where they have
 * led before: usual.c goes along them. What it stops at is taken
 * packet by packet (run.c), or left to the slow way.
 */
#ifndef DECODE_LIB_PT_FAST_H
#define DECODE_LIB_PT_FAST_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/decoder.h>

#include "common/bytes.h"
#include "decode/lib/pt/impl.h"
#include "decode/lib/pt/memo.h"

#define PT_GROUP 12		/* bits of a long TNT at a time, below PT_BITS */
#define PT_LONG_TNT 47

struct pt_fast {
	struct pt *d;
	const uint8_t *p;
	const uint8_t *last;	/* from there on packets are left to the slow way */
	uint64_t base;		/* of offsets: of address 0 */
	uint64_t offset;	/* of the packet that is taken */
	uint64_t mode;		/* of keys */
	uint64_t key_ip;
	uint64_t last_ip;	/* of packets, as a place */
	struct aux_flow *out, *o, *end; /* o: the next event */
	enum aux_paths paths;
	bool stop;		/* the host has to look at the last event */
	/* time: as in pt_time */
	bool time_due;		/* a TIME may be due */
	bool emits_times;		/* TIMEs are wanted often */
	uint64_t due_tsc;		/* before it no TIME is */
	uint64_t cycles;	/* given to pt_time when anything else wants it */
	uint64_t limit;		/* of cycles: below it they are only added up */
	bool lazy;		/* cycles are not added up: pt_lazy */
	uint64_t max_periods;	/* then */
	uint64_t scale;
	double per_tick;	/* cycles of that scale, hardly less */
	const uint32_t *stops;	/* which CYCs are not usual: cyc_stops */
	/* the last item: as pt.mark */
	struct aux_flow *mark;
	uint64_t mark_key_ip;
	bool mark_tip;
	/* the bits that are next, below a stop bit, PT_TIP; and n behind them */
	unsigned left, n;
	uint64_t rest;
};

/* The MTC at p is skipped. False: behind it the time matters. */
static inline bool skip_mtc(struct pt_fast *r, const uint8_t *p)
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

/* The packets that the quick way of the Intel PT engine takes (SDM 33.4). */

#define INLINE static inline __attribute__((always_inline))

enum packet_kind { SLOW = 0, PAD, CYC, MTC, TSC, TNT, TIP, EXT };

/* table: by the first byte */
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
 * What the loop over the usual looks up in place of branches. table: by the low three
 * bits of a byte: bits of it and the next one; where one is set it is a CYC for
 * another way.
 */
static const uint32_t cyc_stops[3][8] = {
	{ [7] = 0x100 },		/* those of three bytes or more, */
	{ [7] = 1 },			/* of two, */
	{ [3] = 1, [7] = 1 },		/* all */
};

/* table: the bits of a TNT as pt_key_bits has them, by its byte; of other packets
 * those of none */
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

/* table: a TIP, by its first byte; of other packets 0 */
struct tip_packet {
	uint64_t mask;		/* of what is in the packet of a place */
	uint32_t key;		/* PT_TIP: its bit of a key */
	uint32_t size;
};

static const struct tip_packet tip_packets[256] = {
	[0x2d] = { UINT64_C(0xffff) << 16, PT_TIP, 3 },
	[0x4d] = { UINT64_C(0xffffffff) << 16, PT_TIP, 5 },
	[0x6d] = { UINT64_C(0xffffffffffff) << 16, PT_TIP, 7 } };

/* The bits of the long TNT at p below a stop bit; 0: it is none. */
INLINE uint64_t long_tnt_bits(const uint8_t *p)
{
	uint64_t v = load_le64(p);

	return (v & 0xffff) == 0xa302 && v >> 16 > 1 ? v >> 16 : 0;
}

#endif
