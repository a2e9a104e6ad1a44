/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ETMv4 and ETE instruction trace from a control flow, of A64 code at EL0, and
 * the frames in which the trace of several units lies in memory (etm_frame).
 *
 * One encoder makes the trace of one trace unit. The caller says what happened
 * in program order; the encoder packs atoms, compresses addresses and returns,
 * and places synchronization, timestamps and cycle counts. Bytes leave through
 * the sink in whole packets. An atom or an address is inline.
 *
 * Specifications: Arm IHI 0064 (ETMv4); Arm DDI 0487, part "Embedded Trace
 * Extension" (ETE).
 */
#ifndef CAPTURE_SOFT_ETM_ENCODE_H
#define CAPTURE_SOFT_ETM_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "capture/soft/encode.h"

#define ETM_ATOMS_MAX 60	/* that may wait; they take 20 bytes at most */
#define ETM_RET_DEPTH 15	/* entries of the return stack */
#define ETM_GROUP_MAX 512	/* bytes one call can write without asking */
#define ETM_ADDR_SIZE 9		/* of an Address packet, at most */
#define ETM_TS_PERIOD 4096	/* ticks between two timestamps */

struct etm_encode_config {
	bool ete;		/* else ETMv4 */
	bool timestamp, contextid, vmid, cycacc, retstack, broadcast;
	bool pieces;		/* many trace units share a sink: bytes leave
				 * in the middle of a run, too */
	uint32_t cc_threshold;	/* cycles, >= 1 */
	uint32_t sync_period;	/* A-sync each 2^n bytes */
	uint32_t inject_overflow; /* Overflow in place of each nth A-sync */
};

/* The ID registers of the declared trace unit. It never traces speculation
 * (TRCIDR8 is 0), and its cycle counts commit nothing (TRCIDR0.COMMOPT). */
struct etm_regs {
	uint32_t idr0, idr1, idr2, idr8, devarch, configr, authstatus;
};

enum etm_exception {
	ETM_EXC_CALL = 0x02,
	ETM_EXC_DATA_FAULT = 0x0c,
	ETM_EXC_IRQ = 0x0e,
};

/*
 * Takes n bytes of whole packets. stopped: the trace unit has stopped, and what
 * comes later begins with an A-sync. Returns 0, or an error that sticks.
 */
typedef int etm_sink_fn(void *ctx, const uint8_t *bytes, size_t n,
			bool stopped);

struct etm_encoder {
	/* hot */
	uint8_t *pos;
	uint8_t *limit;		/* from here on call etm_encode_checkpoint() */
	union {
		struct encode_hot hot;
		struct {	/* the same by name */
			uint64_t atoms;	/* that wait, the oldest is bit 0 */
			uint32_t n_atoms;
			uint64_t tsc;	/* in ns = cycles */
		};
	};
	uint64_t event_tsc;	/* etm_encode_event() is due; ~0 never */
	uint64_t hist[3];	/* addresses sent last, the newest first */

	bool on;		/* between Trace On and an exception */
	bool lost;		/* after Overflow */
	bool fresh;		/* the next packet must be an A-sync */
	bool handed;		/* pieces left in mid-run; the caller's to clear */
	bool cc_unknown;	/* since the last cycle count */

	struct etm_encode_config config;
	uint32_t contextid;	/* of the running thread; also the VMID */
	uint64_t last_ts;	/* the base of the next timestamp's compression */
	uint64_t next_ts;
	uint64_t cc_tsc;	/* of the last cycle count */
	uint64_t lost_until;
	uint64_t n_injected;	/* overflows that config asked for */
	uint32_t n_sync;
	uint32_t lost_seed;
	int error;

	uint32_t ret_top, ret_count;
	uint64_t ret[ETM_RET_DEPTH];

	uint8_t *buf;
	uint8_t *end;
	uint64_t done;		/* bytes handed to the sink */
	uint64_t next_sync;	/* stream position */
	etm_sink_fn *sink;
	void *sink_ctx;
};

/* buf is the caller's, at least 4 * ETM_GROUP_MAX bytes. */
void etm_encode_init(struct etm_encoder *e,
		     const struct etm_encode_config *config, uint8_t *buf,
		     size_t size, etm_sink_fn *sink, void *ctx);
/* What a decoder must know of the trace unit that config stands for. */
struct etm_regs etm_encode_regs(const struct etm_encode_config *config);
/* Hands out what there is; only while tracing is off, or with pieces. Returns
 * the first error of the sink. */
int etm_encode_flush(struct etm_encoder *e);

/* Trace On, context and address, after A-sync and Trace Info when due. */
void etm_encode_enable(struct etm_encoder *e, uint64_t ip, uint32_t contextid);
/* An exception; it would return to ip. Instructions up to ip ran. target: the
 * last branch was an indirect one to ip, whose address was not sent. */
void etm_encode_disable(struct etm_encoder *e, enum etm_exception type,
			uint64_t ip, bool target);
/* Flow is unknown here: Overflow; tracing goes on at ip when resume. */
void etm_encode_overflow(struct etm_encoder *e, uint64_t ip, bool resume);

/*
 * Right after a P0 element, at the instruction ip that comes next: sends what
 * is due (room in the buffer, A-sync, injected Overflow). Call it when
 * pos >= limit.
 */
void etm_encode_checkpoint(struct etm_encoder *e, uint64_t ip);
/* Right after a P0 element: timestamp and cycle count; call it when
 * tsc >= event_tsc. */
void etm_encode_event(struct etm_encoder *e);
/* The timestamp alone: between an atom and its address, where one follows. */
void etm_encode_stamp(struct etm_encoder *e);
/* In the lost state: resumes at ip when enough was lost. Returns lost. */
bool etm_encode_lost(struct etm_encoder *e, uint64_t ip);
/* An address after the waiting atoms. */
void etm_encode_address(struct etm_encoder *e, uint64_t ip);

/* Parts of the inline path, not for callers. */
uint8_t *etm_put_atoms(uint8_t *p, uint64_t atoms, uint32_t n);
void etm_encode_flush_atoms(struct etm_encoder *e);

static inline void etm_encode_atom(struct etm_encoder *e, bool taken)
{
	e->atoms |= (uint64_t)taken << e->n_atoms;
	if (++e->n_atoms == ETM_ATOMS_MAX)
		etm_encode_flush_atoms(e);
}

static inline void etm_encode_call(struct etm_encoder *e, uint64_t next)
{
	e->ret_top = (e->ret_top + 1) % ETM_RET_DEPTH;
	e->ret[e->ret_top] = next;
	e->ret_count += e->ret_count < ETM_RET_DEPTH;
}

/* An indirect branch without link to ip: true when its address is implied. */
static inline bool etm_encode_ret_pop(struct etm_encoder *e, uint64_t ip)
{
	if (!e->ret_count || e->ret[e->ret_top] != ip)
		return false;
	e->ret_top = (e->ret_top + ETM_RET_DEPTH - 1) % ETM_RET_DEPTH;
	e->ret_count--;
	return true;
}

/* The payload of a long address; needs 8 bytes. */
static inline uint8_t *etm_put_long(uint8_t *p, uint64_t ip, bool wide)
{
	uint64_t v = (ip & ~UINT64_C(0xffff)) | (ip >> 9 & 0x7f) << 8 |
		     (ip >> 2 & 0x7f);

	memcpy(p, &v, 8);
	return p + (wide ? 8 : 4);
}

static inline void etm_push_addr(uint64_t *hist, uint64_t ip)
{
	hist[2] = hist[1];
	hist[1] = hist[0];
	hist[0] = ip;
}

/* The shortest Address packet that hist allows; needs 9 bytes. */
static inline uint8_t *etm_put_addr(uint8_t *p, uint64_t *hist, uint64_t ip)
{
	uint64_t diff = ip ^ hist[0];
	uint32_t low = (uint32_t)(ip >> 2 & 0x7f);

	if (!diff || ip == hist[1] || ip == hist[2]) {
		*p++ = (uint8_t)(0x90 | (!diff ? 0 : ip == hist[1] ? 1 : 2));
	} else if (diff < 1 << 9) {
		*p++ = 0x95;
		*p++ = (uint8_t)low;
	} else if (diff < 1 << 17) {
		*p++ = 0x95;
		*p++ = (uint8_t)(low | 0x80);
		*p++ = (uint8_t)(ip >> 9);
	} else {
		*p = diff >> 32 ? 0x9d : 0x9a;
		p = etm_put_long(p + 1, ip, diff >> 32);
	}
	etm_push_addr(hist, ip);
	return p;
}

/*
 * etm_frame: the CoreSight formatter. Bytes of several trace sources become
 * frames of 16 bytes, as an ETR or ETB keeps them in memory.
 *
 * Specification: Arm IHI 0029, "Formatter", with memory-aligned frames and no
 * frame syncs.
 */

#define ETM_FRAME_SIZE 16

struct etm_frame {
	uint8_t b[ETM_FRAME_SIZE];	/* the frame that is being filled */
	uint8_t n;			/* bytes of it, 0 to 14 */
	uint8_t id;			/* source of the bytes that come; 0: padding */
};

/* Frames that etm_frame_put and etm_frame_end make of n bytes, at most. */
static inline size_t etm_frame_room(size_t n)
{
	return (n / 15 + 4) * ETM_FRAME_SIZE;
}

/*
 * n bytes of source id (1 to 0x6f). Whole frames go to out, which has
 * etm_frame_room(n); the rest waits. Returns the bytes written.
 */
size_t etm_frame_put(struct etm_frame *f, uint8_t id, const uint8_t *bytes,
		     size_t n, uint8_t *out);
/* Fills the last frame with padding (ID 0). The next frame names its source
 * again. Returns the bytes written, 0 or 16. */
size_t etm_frame_end(struct etm_frame *f, uint8_t *out);
/* n bytes, a multiple of 16, of padding frames. Returns n. */
size_t etm_frame_pad(uint8_t *out, size_t n);

#endif
