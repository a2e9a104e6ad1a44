/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checked reads from untrusted bytes.
 *
 * A cursor never reads past its end: a short read gives 0 and sets bad, which
 * stays set, so a parser reads a whole structure and tests once.
 */
#ifndef COMMON_BYTES_H
#define COMMON_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Eight bytes, which are there, the first lowest, on any machine. */
static inline uint64_t load_le64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	v = __builtin_bswap64(v);
#endif
	return v;
}

struct cursor {
	const uint8_t *p;
	const uint8_t *end;
	bool swap;	/* the bytes are of the other byte order */
	bool bad;	/* a read went past the end */
};

static inline struct cursor cursor_init(const void *data, size_t len, bool swap)
{
	const uint8_t *p = (const uint8_t *)data;

	/* no bytes may be at no address */
	return (struct cursor){ .p = p, .end = len ? p + len : p, .swap = swap };
}

static inline size_t cursor_left(const struct cursor *c)
{
	return (size_t)(c->end - c->p);
}

/* n bytes, or NULL */
static inline const uint8_t *cursor_bytes(struct cursor *c, size_t n)
{
	const uint8_t *p = c->p;

	if (c->bad || n > cursor_left(c)) {
		c->bad = true;
		return NULL;
	}
	c->p += n;
	return p;
}

#define CURSOR_GET(bits)                                                \
	static inline uint##bits##_t cursor_u##bits(struct cursor *c)   \
	{                                                               \
		const uint8_t *p = cursor_bytes(c, bits / 8);           \
		uint##bits##_t v = 0;                                   \
									\
		if (!p)                                                 \
			return 0;                                       \
		memcpy(&v, p, sizeof(v));                               \
		return c->swap ? __builtin_bswap##bits(v) : v;          \
	}
CURSOR_GET(16)
CURSOR_GET(32)
CURSOR_GET(64)
#undef CURSOR_GET

static inline uint8_t cursor_u8(struct cursor *c)
{
	const uint8_t *p = cursor_bytes(c, 1);

	return p ? *p : 0;
}

/* A NUL-terminated string inside a field of n bytes; NULL when unterminated. */
static inline const char *cursor_string(struct cursor *c, size_t n)
{
	const uint8_t *p = cursor_bytes(c, n);

	if (!p || !memchr(p, 0, n)) {
		c->bad = true;
		return NULL;
	}
	return (const char *)p;
}

#endif
