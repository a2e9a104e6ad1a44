/* SPDX-License-Identifier: BSD-2-Clause */
/* What the bare loops share: the AUX streams of a recording, each in one piece, the
 * files that it maps, the clock, and the line of figures at the end. */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <aux/reader.h>

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

/* Reads a recording: AUXTRACE into v, all else goes to each(), which returns 0 or an
 * error. Returns 0, or an error after it was printed with the tool's name. */
static inline int load(struct streams *v, const char *tool, const char *path,
		       int (*each)(void *priv, const struct aux_event *ev,
				   struct aux_diag *diag),
		       void *priv)
{
	struct aux_diag diag = { 0 };
	struct aux_reader *r;
	struct aux_event ev;
	int more = aux_reader_open(&r, path, &diag);

	while (more >= 0 && (more = aux_reader_next(r, &ev, &diag)) > 0) {
		if (ev.type != AUX_RECORD_AUXTRACE)
			more = each(priv, &ev, &diag);
		else if (append(v, ev.auxtrace.h.idx, ev.auxtrace.payload.data,
				ev.auxtrace.payload.len))
			more = -AUX_E_NOMEM;
	}
	if (more < 0)
		fprintf(stderr, "%s: %s: %s\n", tool, path, diag.text);
	aux_reader_close(r);
	return more;
}

/* The file that a record maps, below symfs; false: it maps none. */
static inline bool mapped_file(char path[4096], const char *symfs,
			       const struct aux_event *ev)
{
	if ((ev->type != PERF_RECORD_MMAP && ev->type != PERF_RECORD_MMAP2) ||
	    ev->mmap.path[0] != '/' || ev->mmap.path[1] == '/')
		return false;
	snprintf(path, 4096, "%s%s", symfs, ev->mmap.path);
	return true;
}

static inline double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline void print_speed(const char *name, uint64_t n_insns, double s,
			       const struct streams *v, uint64_t n_errors)
{
	printf("%s insns %" PRIu64 " seconds %.3f Minsn/s %.1f bytes %" PRIu64
	       " errors %" PRIu64 "\n", name, n_insns, s,
	       (double)n_insns / s / 1e6, v->n_bytes, n_errors);
}

#endif
