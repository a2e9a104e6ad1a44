/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * squeeze: the bytes of a piece that is carried, compressed where zstd is in the build.
 *
 *	0 BYTES		as they are
 *	1 FRAME		a frame of zstd, which says how large they are
 */
#ifndef DECODE_FLEET_SQUEEZE_H
#define DECODE_FLEET_SQUEEZE_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed at first. */
struct squeeze {
	uint8_t *bytes;		/* what the last call made of its bytes */
	size_t n;
	size_t cap;
	void *to, *from;	/* zstd's */
};

/* 0 or -AUX_E_NOMEM. */
int squeeze(struct squeeze *s, const uint8_t *p, size_t n);
/* Of bytes that may be anything. -AUX_E_FORMAT; -AUX_E_UNSUPPORTED: zstd is not in this
 * build. */
int unsqueeze(struct squeeze *s, const uint8_t *p, size_t n);
void squeeze_fini(struct squeeze *s);

#endif
