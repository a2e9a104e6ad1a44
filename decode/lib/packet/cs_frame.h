/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cs_frame: CoreSight formatter frames as they lie in memory: 16 bytes each, which
 * interleave the bytes of several trace sources (Arm IHI 0029, "Trace formatter").
 *
 * Frames are counted from the first byte given. Four FSYNC words in place of a frame,
 * a barrier, say that trace was lost; the current id is unknown from there on. Bytes
 * before the first id belong to no source.
 */
#ifndef DECODE_LIB_PACKET_CS_FRAME_H
#define DECODE_LIB_PACKET_CS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CS_FRAME_SIZE 16
#define CS_FRAME_N_IDS 128
#define CS_FRAME_NO_ID 0xff	/* before the first id */
#define CS_FRAME_ID_MIN 0x01	/* of a trace source; 0 is padding */
#define CS_FRAME_ID_MAX 0x6f	/* above: reserved, flush and trigger */

/* Bytes by trace id. Initialize with {.id = CS_FRAME_NO_ID}. */
struct cs_frame_ids {
	uint8_t id;		/* of the next byte of data */
	uint64_t n[CS_FRAME_N_IDS];	/* bytes with each id */
	uint64_t n_unowned;	/* bytes without an id */
	uint64_t n_barriers;
};

/* Counts the bytes of each id. A stream may come in parts of whole frames; bytes past
 * the last whole frame are ignored. */
void cs_frame_scan(struct cs_frame_ids *ids, const uint8_t *data, size_t len);

/* Is there a barrier at data[0..16)? */
bool cs_frame_is_barrier(const uint8_t *data);

/* Data bytes before the first id, of whole frames without a barrier. */
uint64_t cs_frame_unowned(const uint8_t *data, size_t len);

/* Consecutive frames of 15 picked bytes each; or one frame with fewer. */
struct cs_frame_seg {
	uint32_t pos;		/* of the first, in the bytes picked */
	uint32_t frame;		/* index of the frame it comes from */
};

/* The bytes of one id. Owns data and segs. */
struct cs_frame_pick {
	uint8_t id;		/* whose bytes are picked */
	uint8_t now;		/* id of the next byte, or CS_FRAME_NO_ID */
	uint8_t *data;		/* [0, n) */
	size_t n, cap;
	uint64_t n_frames;	/* so far */
	struct cs_frame_seg *segs;	/* by pos */
	size_t n_segs, cap_segs;
	size_t cursor;		/* segment of the last cs_frame_run() */
};

void cs_frame_pick_init(struct cs_frame_pick *p, uint8_t id);
/* Drops the bytes; keeps the memory. */
void cs_frame_pick_reset(struct cs_frame_pick *p);
void cs_frame_pick_fini(struct cs_frame_pick *p);

/*
 * Picks from whole frames, up to a barrier. Returns how many bytes of data were
 * consumed: all but a partial frame at the end, or those before the barrier (0 if
 * data begins with one: skip it, and reset). -AUX_E_NOMEM, also at 4 GiB of bytes or
 * frames.
 */
int64_t cs_frame_pick_add(struct cs_frame_pick *p, const uint8_t *data,
			  size_t len);

/* len picked bytes from pos on, of consecutive frames; the first is at offset. */
struct cs_frame_run {
	size_t pos, len;
	uint64_t offset;
	uint64_t framed;	/* CS_FRAME_FRAMED; 0: the bytes have no frames */
};

#define CS_FRAME_FRAMED UINT64_C(0x88888889)	/* n * this >> 35 is n / 15 */

/* The offset in the framed bytes of the byte at pos, which is in r, exact to the frame:
 * one more per 15 bytes. */
static inline uint64_t cs_frame_at(const struct cs_frame_run *r, size_t pos)
{
	uint64_t n = pos - r->pos;

	return r->offset + n + (n * r->framed >> 35);
}

/* The run that contains pos; behind the last byte one of that byte's offset. Fast when
 * pos grows. */
struct cs_frame_run cs_frame_run(struct cs_frame_pick *p, size_t pos);

#endif
