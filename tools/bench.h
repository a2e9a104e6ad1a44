/* SPDX-License-Identifier: BSD-2-Clause */
/* The AUX streams of a recording, each in one piece, for the bare loops. */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STREAMS 4096

struct stream {
	uint8_t *data;
	uint64_t len, cap;
};

struct streams {
	struct stream s[MAX_STREAMS];	/* by AUXTRACE.idx */
	uint32_t n;
	uint64_t n_bytes;
};

static inline int append(struct streams *v, uint32_t idx, const uint8_t *data,
			 uint64_t len)
{
	struct stream *s;

	if (idx >= MAX_STREAMS)
		return -1;
	s = &v->s[idx];
	if (idx >= v->n)
		v->n = idx + 1;
	if (s->cap - s->len < len) {
		uint64_t cap = 2 * (s->len + len);
		uint8_t *p = realloc(s->data, cap);

		if (!p)
			return -1;
		s->data = p;
		s->cap = cap;
	}
	memcpy(s->data + s->len, data, len);
	s->len += len;
	v->n_bytes += len;
	return 0;
}

#endif
