/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etmframe: CoreSight formatter frames, as they lie in memory: 16 bytes each,
 * with the bytes of several trace sources in turn (Arm IHI 0029, appendix on the
 * trace formatter).
 *
 * Frames are counted from the first byte given. Four FSYNC words in place of a
 * frame (a barrier) say that trace was lost, and nobody's id is known any more.
 * Bytes before the first id belong to nobody.
 */
#ifndef DECODE_LIB_PACKET_CS_FRAME_H
#define DECODE_LIB_PACKET_CS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ETMFRAME_SIZE 16
#define ETMFRAME_N_IDS 128
#define ETMFRAME_NO_ID 0xff	/* before the first */
#define ETMFRAME_ID_MIN 0x01	/* of a source; 0 is padding */
#define ETMFRAME_ID_MAX 0x6f	/* above: reserved, flush and trigger */

/* Which ids there are. Begin with {.id = ETMFRAME_NO_ID}. */
struct etmframe_ids {
	uint8_t id;		/* of the next byte */
	uint64_t n[ETMFRAME_N_IDS];	/* bytes of each id */
	uint64_t n_nobody;	/* bytes without an id */
	uint64_t n_barriers;
};

/* Counts the bytes of each id in whole frames, and forgets what is behind the
 * last whole one. A stream may come in parts of whole frames. */
void etmframe_scan(struct etmframe_ids *ids, const uint8_t *data, size_t len);

/* Is there a barrier at data[0..16)? */
bool etmframe_is_barrier(const uint8_t *data);

/* Data bytes before the first id, of whole frames without a barrier. */
uint64_t etmframe_nobody(const uint8_t *data, size_t len);

/* From pos on so many frames in turn of 15 bytes; or one of fewer bytes. */
struct etmframe_seg {
	uint32_t pos;		/* in the bytes picked */
	uint32_t frame;		/* number of the frame that they come from */
};

/* The bytes of one id. Zeroed but for id and now, it is ready. */
struct etmframe_pick {
	uint8_t id;		/* that is wanted */
	uint8_t now;		/* id of the next byte; ETMFRAME_NO_ID first */
	uint8_t *data;		/* [0, n) */
	size_t n, cap;
	uint64_t n_frames;	/* so far */
	struct etmframe_seg *segs;	/* by pos */
	size_t n_segs, cap_segs;
	size_t cursor;		/* of etmframe_offset */
};

void etmframe_pick_init(struct etmframe_pick *p, uint8_t id);
/* Ready for other bytes; keeps the memory. */
void etmframe_pick_reset(struct etmframe_pick *p);
void etmframe_pick_fini(struct etmframe_pick *p);

/*
 * Picks from whole frames, up to a barrier. Returns how many bytes of data were
 * taken: all but a part of a frame at the end, or those before the barrier (0 at
 * once when data begins with one: skip it, and reset). -AUX_E_NOMEM, also when
 * there are 4 GiB of bytes or frames.
 */
int64_t etmframe_pick_add(struct etmframe_pick *p, const uint8_t *data,
			  size_t len);

/*
 * Where a byte that was picked lies in the framed bytes, to the frame exactly.
 * Positions behind the last byte are taken as that one's. Fast when pos grows.
 */
uint64_t etmframe_offset(struct etmframe_pick *p, size_t pos);

/* Bytes of frames that lie one behind another: len from pos on, the first at offset. */
struct etmframe_run {
	size_t pos, len;
	uint64_t offset;
	uint64_t framed;	/* 0: there is nothing between them */
};

#define ETMFRAME_FRAMED UINT64_C(0x88888889)	/* times that >> 35: by 15 */

/* Where the byte at pos is, of this run. */
static inline uint64_t etmframe_at(const struct etmframe_run *r, size_t pos)
{
	uint64_t n = pos - r->pos;

	return r->offset + n + (n * r->framed >> 35);
}

/* The bytes around pos, as etmframe_offset has them. */
struct etmframe_run etmframe_run(struct etmframe_pick *p, size_t pos);

#endif
