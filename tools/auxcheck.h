/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What auxcheck knows of a recording.
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
	size_t snapshot;	/* of an AUXTRACE: labels before it */
};

struct run {			/* pattern bytes [pos, end) of a CPU */
	uint64_t pos, end;
	uint64_t at, at_end;	/* where in the stream */
	unsigned int cpu, stream;
};

/* Lists grow by doubling; p is the first member of each. */
struct pieces { struct piece *p; size_t n, cap; };
struct runs { struct run *p; size_t n, cap; };

/* What the recorder says of itself: extension.h. */
struct losses { struct aux_own_loss *p; size_t n, cap; };
struct entries { struct aux_ledger_entry *p; size_t n, cap; };
struct label {
	struct aux_own_snapshot h;
	const uint8_t *text;	/* h.label_len bytes */
};
struct labels { struct label *p; size_t n, cap; };

struct stream {
	uint32_t cpu, tid, idx;
	struct pieces chunks, records;
	bool overwrite;
	uint64_t bytes, uncovered, padding;
	uint64_t flags, n_flag[4];	/* truncated, overwrite, partial, collision */
	uint64_t n_stops;	/* places where the area was full */
	uint64_t hole, slack;	/* snapshots: overwritten; see add_slack */
};

struct source {			/* of one CPU */
	uint64_t before, produced, stored, lost, skipped;	/* per stat */
	bool known;
	struct runs sessions;	/* pos and end alone */
	uint64_t bytes, first, last, n_gaps, missing, n_unmarked, unmarked;
	uint64_t snapshot_end, snapshot_n;
	struct run tail;	/* the last run */
};

struct check {
	struct stream *streams;
	size_t n_streams;
	struct runs runs;
	struct source cpu[N_CPU];
	const char *pmu;
	bool verbose, allow_tail, have_stat, alone;
	uint64_t aux_size;	/* -m: of each area; 0 unknown */
	uint64_t want_labels;	/* -n; NONE unknown */
	struct losses losses;
	struct entries ledger;	/* of all files */
	struct entries file_ledger;	/* of the file that is being read */
	struct labels labels;
	bool own, have_ledger;
	uint64_t clipped;	/* bytes of a chunk that is cut */
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
	s->idx = UINT32_MAX;
	return s;
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
