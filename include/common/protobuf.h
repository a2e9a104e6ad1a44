/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * protobuf: writes messages, the wire format alone: fields by number, in the
 * order they are put. A message inside of another is begun and ended; its
 * length is put in front of it then, in as few bytes as it takes.
 *
 * Specification: Protocol Buffers, "Encoding".
 */
#ifndef COMMON_PROTOBUF_H
#define COMMON_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts zeroed. After a failure (out of memory) it takes no more. */
struct protobuf {
	uint8_t *buf;
	size_t n, max;
	bool failed;
};

void protobuf_fini(struct protobuf *p);
static inline void protobuf_reset(struct protobuf *p)
{
	p->n = 0;
}

void protobuf_u64(struct protobuf *p, uint32_t field, uint64_t v);
/* int32, int64, enum: not zigzag */
void protobuf_i64(struct protobuf *p, uint32_t field, int64_t v);
void protobuf_double(struct protobuf *p, uint32_t field, double v);
void protobuf_bytes(struct protobuf *p, uint32_t field, const void *s,
		    size_t n);
void protobuf_str(struct protobuf *p, uint32_t field, const char *s);
/* Values of a packed repeated field: between begin and end. */
void protobuf_packed(struct protobuf *p, uint64_t v);

/* What begin returns goes to its end. */
size_t protobuf_begin(struct protobuf *p, uint32_t field);
void protobuf_end(struct protobuf *p, size_t begun);

#endif
