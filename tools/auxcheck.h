/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What auxcheck knows of a recording, and the pattern in it.
 *
 * Byte k that the source of CPU c makes is byte k % 8 of the little-endian word
 * c << 56 | k / 8. Invariant: a run is bytes that follow each other both in
 * the pattern and in the stream. Specification: tools/pmu_sim/README.md.
 */
#ifndef TOOLS_AUXCHECK_H
#define TOOLS_AUXCHECK_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aux/reader.h>

#define N_CPU 256
#define LOSS (PERF_AUX_FLAG_TRUNCATED | PERF_AUX_FLAG_PARTIAL | \
	      PERF_AUX_FLAG_COLLISION)
#define NONE UINT64_MAX

struct piece {			/* bytes [at, end) of a stream */
	uint64_t at, end;
	const uint8_t *data;	/* of an AUXTRACE; NULL: an AUX record */
	uint64_t flags;
};

struct run {			/* pattern bytes [pos, end) of a CPU */
	uint64_t pos, end;
	uint64_t at, at_end;	/* where in the stream */
	unsigned int cpu, stream;
};

/* Lists grow by doubling; p is the first member of each. */
struct pieces { struct piece *p; size_t n, cap; };
struct runs { struct run *p; size_t n, cap; };

struct stream {
	uint32_t cpu, tid;
	struct pieces chunks, records;
	bool overwrite;
	uint64_t bytes, uncovered, padding;
	uint64_t flags, n_flag[4];	/* truncated, overwrite, partial, collision */
};

struct source {			/* of one CPU */
	uint64_t before, produced, stored, lost, skipped;	/* per stat */
	bool known;
	struct runs sessions;	/* pos and end alone */
	uint64_t bytes, first, last, n_gaps, missing, n_unmarked, unmarked;
	uint64_t snapshot_end;
};

struct check {
	struct stream *streams;
	size_t n_streams;
	struct runs runs;
	struct source cpu[N_CPU];
	const char *pmu;
	bool verbose, allow_tail, have_stat;
	uint64_t garbage, duplicate, n_snapshots, overlap, n_samples, n_lost_records;
	uint64_t n_offences;
	char first[256];
};

__attribute__((format(printf, 2, 3)))
static inline void offend(struct check *c, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!c->n_offences++)
		memcpy(c->first, text, sizeof(text));
	if (c->n_offences <= 20)
		printf("offence %s\n", text);
}

static inline void *grow(void *p, size_t n, size_t *cap, size_t size)
{
	if (n < *cap)
		return p;
	*cap = *cap ? 2 * *cap : 64;
	p = reallocarray(p, *cap, size);
	if (!p) {
		perror("auxcheck");
		exit(2);
	}
	return p;
}

#define PUSH(list, ...) do {						\
	(list)->p = grow((list)->p, (list)->n, &(list)->cap, sizeof(*(list)->p)); \
	(list)->p[(list)->n++] = __VA_ARGS__;				\
} while (0)

static inline struct stream *find_stream(struct check *c, uint32_t cpu, uint32_t tid)
{
	struct stream *s;
	size_t i;

	for (i = 0; i < c->n_streams; i++) {
		s = &c->streams[i];
		if (s->cpu == cpu && (cpu != (uint32_t)-1 || s->tid == tid))
			return s;
	}
	c->streams = reallocarray(c->streams, c->n_streams + 1, sizeof(*s));
	if (!c->streams) {
		perror("auxcheck");
		exit(2);
	}
	s = &c->streams[c->n_streams++];
	memset(s, 0, sizeof(*s));
	s->cpu = cpu;
	s->tid = tid;
	return s;
}

/* ---- the pattern ---- */

static inline uint64_t word_at(const uint8_t *p)
{
	uint64_t v = 0;
	int i;

	for (i = 7; i >= 0; i--)
		v = v << 8 | p[i];
	return v;
}

/* How many bytes of p go on with CPU cpu's pattern from pos on. */
static inline uint64_t match(const uint8_t *p, uint64_t len, unsigned int cpu, uint64_t pos)
{
	uint64_t n = 0;

	while (n < len) {
		uint64_t k = pos + n, w = (uint64_t)cpu << 56 | k / 8;

		if (!(k % 8) && len - n >= 8 && word_at(p + n) == w) {
			n += 8;
			continue;
		}
		if (p[n] != (uint8_t)(w >> k % 8 * 8))
			break;
		n++;
	}
	return n;
}

/* Where the pattern p starts, from its words; long enough to be no chance. */
static inline bool find_place(const uint8_t *p, uint64_t len, unsigned int *cpu, uint64_t *pos)
{
	uint64_t shift;

	for (shift = 0; shift < 8 && shift + 8 <= len; shift++) {
		uint64_t w = word_at(p + shift), k = (w & (NONE >> 8)) * 8;
		uint64_t want = len < 24 ? len : 24;

		if (k < shift)
			continue;
		if (match(p, len, (unsigned int)(w >> 56), k - shift) >= want) {
			*cpu = (unsigned int)(w >> 56);
			*pos = k - shift;
			return true;
		}
	}
	return false;
}

/* Adds bytes of stream s to the runs; the last run may go on. */
static inline void take(struct check *c, unsigned int s, const uint8_t *p, uint64_t len,
			uint64_t at)
{
	while (len) {
		struct run *r = c->runs.n ? &c->runs.p[c->runs.n - 1] : NULL;
		struct run fresh = { .at = at, .at_end = at, .stream = s };
		uint64_t n = 0;

		if (r && r->stream == s && r->at_end == at)
			n = match(p, len, r->cpu, r->end);
		if (n < 8 && n < len && find_place(p, len, &fresh.cpu, &fresh.pos)) {
			fresh.end = fresh.pos;
			PUSH(&c->runs, fresh);
			r = &c->runs.p[c->runs.n - 1];
			n = match(p, len, r->cpu, r->pos);
		}
		if (n) {
			r->end += n;
			r->at_end += n;
		} else {
			if (!c->garbage++)
				offend(c, "garbage stream=%u offset=%" PRIu64 " byte=%#x",
				       s, at, p[0]);
			n = 1;
		}
		p += n;
		at += n;
		len -= n;
	}
}

/* Flags of the records of s that hold offset `at`, or touch it. */
static inline uint64_t flags_at(const struct stream *s, uint64_t at)
{
	size_t lo = 0, hi = s->records.n;
	uint64_t flags = 0;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->records.p[mid].end >= at)
			hi = mid;
		else
			lo = mid + 1;
	}
	for (; lo < s->records.n && s->records.p[lo].at <= at; lo++)
		flags |= s->records.p[lo].flags;
	return flags;
}

static inline bool is_session(const struct source *o, uint64_t pos, bool end)
{
	size_t i;

	for (i = 0; i < o->sessions.n; i++)
		if ((end ? o->sessions.p[i].end : o->sessions.p[i].pos) == pos)
			return true;
	return false;
}

#endif
