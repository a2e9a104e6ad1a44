/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * protobuf: the wire format of Protocol Buffers, write only; see protobuf.h.
 *
 * Invariant: n <= max, and each writer first makes room for 20 bytes: two
 * varints of at most 10 bytes (64 bits, 7 a byte), which are a tag and a number
 * or a length.
 * Specification: protobuf.dev, "Encoding".
 */
#include <stdlib.h>
#include <string.h>

#include "common/protobuf.h"

enum wire { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_LEN = 2 };

void protobuf_fini(struct protobuf *p)
{
	free(p->buf);
	*p = (struct protobuf){ 0 };
}

static __attribute__((noinline, cold)) bool grow(struct protobuf *p, size_t n)
{
	size_t max = p->max ? p->max : 256;
	uint8_t *buf;

	while (max - p->n < n && max < SIZE_MAX / 2)
		max *= 2;
	buf = max - p->n < n ? NULL : realloc(p->buf, max);
	p->failed = !buf;
	if (!buf)
		return false;
	p->buf = buf;
	p->max = max;
	return true;
}

/* Room for n more bytes. On failure p->failed stays set and all later writes
 * are dropped, so only the end has to check. */
static inline bool make_room(struct protobuf *p, size_t n)
{
	if (p->failed)
		return false;
	return p->max - p->n >= n || grow(p, n);
}

static inline void put_varint(struct protobuf *p, uint64_t v)
{
	uint8_t *to = p->buf + p->n;

	for (; v >= 0x80; v >>= 7)
		*to++ = (uint8_t)(v | 0x80);
	*to++ = (uint8_t)v;
	p->n = (size_t)(to - p->buf);
}

static inline void put_tag(struct protobuf *p, uint32_t field, enum wire wire)
{
	put_varint(p, (uint64_t)field << 3 | wire);
}

void protobuf_u64(struct protobuf *p, uint32_t field, uint64_t v)
{
	if (!make_room(p, 20))
		return;
	put_tag(p, field, WIRE_VARINT);
	put_varint(p, v);
}

void protobuf_i64(struct protobuf *p, uint32_t field, int64_t v)
{
	protobuf_u64(p, field, (uint64_t)v);
}

void protobuf_double(struct protobuf *p, uint32_t field, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	if (!make_room(p, 20))
		return;
	put_tag(p, field, WIRE_FIXED64);
	for (unsigned i = 0; i < 8; i++)
		p->buf[p->n++] = (uint8_t)(bits >> 8 * i);
}

void protobuf_bytes(struct protobuf *p, uint32_t field, const void *s, size_t n)
{
	if (n > SIZE_MAX / 2 || !make_room(p, n + 20))
		return;
	put_tag(p, field, WIRE_LEN);
	put_varint(p, n);
	memcpy(p->buf + p->n, s, n);
	p->n += n;
}

void protobuf_str(struct protobuf *p, uint32_t field, const char *s)
{
	protobuf_bytes(p, field, s, strlen(s));
}

void protobuf_packed(struct protobuf *p, uint64_t v)
{
	if (make_room(p, 10))
		put_varint(p, v);
}

size_t protobuf_begin(struct protobuf *p, uint32_t field)
{
	if (!make_room(p, 20))
		return 0;
	put_tag(p, field, WIRE_LEN);
	p->buf[p->n++] = 0; /* one byte for the length; _end moves what needs more */
	return p->n;
}

/* The length is known only now. Most messages are shorter than 128 bytes and
 * leave everything in place; a longer one is moved up by the bytes its length
 * takes. */
void protobuf_end(struct protobuf *p, size_t begun)
{
	size_t len = p->n - begun, more = 0;

	for (size_t v = len >> 7; v; v >>= 7)
		more++;
	if (p->failed || !make_room(p, more))
		return;
	if (more)
		memmove(p->buf + begun + more, p->buf + begun, len);
	p->n = begun - 1;
	put_varint(p, len);
	p->n += len;
}
