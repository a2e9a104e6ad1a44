/* SPDX-License-Identifier: BSD-2-Clause */
/* SHA-256 (FIPS 180-4). */
#ifndef COMMON_SHA256_H
#define COMMON_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sha256 {
	uint32_t h[8];
	uint64_t len;		/* bytes so far */
	uint8_t block[64];	/* the last len % 64 of them */
};

void sha256_init(struct sha256 *s);
void sha256_update(struct sha256 *s, const void *data, size_t len);
/* Ends it; text is 64 hex digits and a NUL. */
void sha256_final(struct sha256 *s, char text[65]);

#endif
