/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The etm decoder: the part of its loop that takes packets by windows.
 *
 * Where the next window begins does not hang on what this one does, and nothing here
 * branches by what packets say: so the processor looks the windows up ahead of time.
 */
#ifndef DECODE_LIB_ETM_FAST_H
#define DECODE_LIB_ETM_FAST_H

#include "common/bytes.h"
#include "decode/lib/etm/engine.h"

#define ALWAYS inline __attribute__((always_inline))

/* The cursor while the loop runs. */
struct etm_hot {
	const uint8_t *p;	/* the next packet */
	struct aux_flow *f;	/* the next event */
	struct etm_path *path;	/* the last one; NULL: none yet */
	uint64_t ip;
	enum etm_place place;
	uint64_t history[3];
	/* constant: */
	uint64_t generation;
	uint64_t base;		/* + address of a byte: its offset */
};

/*
 * The etm decoder: what the loop and the maker of windows share: which bytes are a
 * window, and what addresses mean.
 */

#define ETM_NO_IP 1	/* in place of an ip that has to come: no A64 one is odd */

/* The path of atoms from ip on; NULL: there is no code, or it cannot be kept. */
struct etm_path *etm_find_path(struct etm *d, uint64_t ip, uint32_t atoms);
bool etm_is_valid(struct etm *d, struct etm_path *p);

#define ETM_ONES UINT64_C(0x0101010101010101)
#define ETM_TOPS UINT64_C(0x8080808080808080)

/* Bytes of an address packet without a context, of A64, the lowest byte being its
 * first; 0: it is another one, or longer than eight. */
static inline unsigned etm_address_size(uint64_t v)
{
	switch (v & 0xff) {
	case 0x90: case 0x91: case 0x92:
		return 1;
	case 0x95:
		return v & 0x8000 ? 3 : 2;
	case 0x9a:
		return 5;
	default:
		return 0;
	}
}

/* Its address; ninth: the byte behind the eight of v. */
static inline uint64_t etm_address(uint64_t v, uint8_t ninth,
				   const uint64_t *history)
{
	uint64_t ip = history[0], w = v >> 8;

	switch (v & 0xff) {
	case 0x91:
		return history[1];
	case 0x92:
		return history[2];
	case 0x95:
		return w & 0x80 ? ip >> 17 << 17 | (w & 0x7f) << 2 |
					  (w & 0xff00) << 1 :
				  ip >> 9 << 9 | (w & 0x7f) << 2;
	case 0x9a:
		return ip >> 32 << 32 | (w & 0xffff0000) | (w & 0x7f) << 2 |
		       (w & 0x7f00) << 1;
	case 0x9d:
		w |= (uint64_t)ninth << 56;
		return (w & ~UINT64_C(0xffff)) | (w & 0x7f) << 2 |
		       (w & 0x7f00) << 1;
	default:
		return ip;
	}
}

static inline void etm_shift_history(uint64_t *history, uint64_t ip)
{
	history[2] = history[1];
	history[1] = history[0];
	history[0] = ip;
}

#endif
