/* SPDX-License-Identifier: BSD-2-Clause */
/* SHA-256, as FIPS 180-4 sections 4.1.2, 5 and 6.2 give it. */
#include <string.h>

#include "common/outbuf.h"
#include "common/sha256.h"

/* FIPS 180-4, 4.2.2. table */
static const uint32_t k[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
	0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
	0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
	0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
	0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
	0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
	0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t ror(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

/* 6.2.2, step 1: the message schedule. Words of the message are big endian. */
static void schedule(uint32_t w[64], const uint8_t *p)
{
	uint32_t s0, s1;

	for (int i = 0; i < 16; i++, p += 4)
		w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
		       (uint32_t)p[2] << 8 | p[3];
	for (int i = 16; i < 64; i++) {
		s0 = ror(w[i - 15], 7) ^ ror(w[i - 15], 18) ^ w[i - 15] >> 3;
		s1 = ror(w[i - 2], 17) ^ ror(w[i - 2], 19) ^ w[i - 2] >> 10;
		w[i] = w[i - 16] + s0 + w[i - 7] + s1;
	}
}

/* One round; the eight words change places by how the macro is called. */
#define ROUND(a, b, c, d, e, f, g, h, i)                                  \
	do {                                                              \
		uint32_t t1 = h + (ror(e, 6) ^ ror(e, 11) ^ ror(e, 25)) + \
			      ((e & f) ^ (~e & g)) + k[i] + w[i];         \
		uint32_t t2 = (ror(a, 2) ^ ror(a, 13) ^ ror(a, 22)) +     \
			      ((a & b) ^ (a & c) ^ (b & c));              \
		d += t1;                                                  \
		h = t1 + t2;                                              \
	} while (0)

/* 6.2.2, steps 2 to 4, for one block of 64 bytes. */
static void compress(uint32_t state[8], const uint8_t *p)
{
	uint32_t w[64];
	uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
	uint32_t e = state[4], f = state[5], g = state[6], h = state[7];

	schedule(w, p);
	for (int i = 0; i < 64; i += 8) {
		ROUND(a, b, c, d, e, f, g, h, i);
		ROUND(h, a, b, c, d, e, f, g, i + 1);
		ROUND(g, h, a, b, c, d, e, f, i + 2);
		ROUND(f, g, h, a, b, c, d, e, i + 3);
		ROUND(e, f, g, h, a, b, c, d, i + 4);
		ROUND(d, e, f, g, h, a, b, c, i + 5);
		ROUND(c, d, e, f, g, h, a, b, i + 6);
		ROUND(b, c, d, e, f, g, h, a, i + 7);
	}
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
	state[4] += e;
	state[5] += f;
	state[6] += g;
	state[7] += h;
}

void sha256_init(struct sha256 *s)
{
	/* FIPS 180-4, 5.3.3 */
	static const uint32_t start[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372,
					   0xa54ff53a, 0x510e527f, 0x9b05688c,
					   0x1f83d9ab, 0x5be0cd19 };

	memset(s, 0, sizeof(*s));
	memcpy(s->h, start, sizeof(start));
}

/* Whole blocks are taken from where they lie; what is left over waits in
 * s->block. */
void sha256_update(struct sha256 *s, const void *data, size_t len)
{
	const uint8_t *p = data;
	size_t have = s->len % 64, take;

	s->len += len;
	if (have) {
		take = len < 64 - have ? len : 64 - have;
		memcpy(s->block + have, p, take);
		p += take;
		len -= take;
		if (have + take < 64)
			return;
		compress(s->h, s->block);
	}
	for (; len >= 64; p += 64, len -= 64)
		compress(s->h, p);
	memcpy(s->block, p, len);
}

/* 5.1.1: a bit 1, zeros, and the length in bits as the last 8 bytes of a block:
 * one block more when fewer than 9 bytes are free. text gets 64 hex digits and
 * a NUL. */
void sha256_final(struct sha256 *s, char text[65])
{
	static const uint8_t pad[64] = { 0x80 };
	uint64_t bits = s->len * 8;
	size_t have = s->len % 64;
	uint8_t len[8];

	for (int i = 0; i < 8; i++)
		len[i] = (uint8_t)(bits >> (56 - 8 * i));
	sha256_update(s, pad, have < 56 ? 56 - have : 120 - have);
	sha256_update(s, len, sizeof(len));
	for (int i = 0; i < 8; i++)
		text = fmt_hex_pad(text, s->h[i], 8);
	*text = 0;
}
