/* SPDX-License-Identifier: BSD-2-Clause */
/* encoded.h: what an encoder of trace has given to its sink, in one piece. */
#ifndef TESTS_UNIT_ENCODED_H
#define TESTS_UNIT_ENCODED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint8_t out[1 << 20];
static size_t n_out;
static size_t n_sunk;	/* pieces */

/* Returns 0, -1: there is no room for more. */
static int keep_encoded(const uint8_t *bytes, size_t n)
{
	if (n_out + n > sizeof(out))
		return -1;
	memcpy(out + n_out, bytes, n);
	n_out += n;
	n_sunk++;
	return 0;
}

#endif
