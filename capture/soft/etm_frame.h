/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm_frame: the CoreSight formatter. Bytes of several trace sources become
 * frames of 16 bytes, as an ETR or ETB keeps them in memory.
 *
 * Specification: Arm IHI 0029, "Formatter", with memory-aligned frames and no
 * frame syncs.
 */
#ifndef CAPTURE_SOFT_ETM_FRAME_H
#define CAPTURE_SOFT_ETM_FRAME_H

#include <stddef.h>
#include <stdint.h>

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
