/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_coverage's parts: how often what ran, and what is made of it.
 *
 * Counted are units: a step, a path or a range, each by a number of its own, which
 * stays with the step or path in user. Only at the end units become blocks and
 * edges of files (tally.c), and these lines (lines.c). So one
 * event costs one addition, as in count.
 */
#ifndef DECODE_COVERAGE_COVERAGE_H
#define DECODE_COVERAGE_COVERAGE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode/coverage/tally.h"
#include "decode/lib/session/sink.h"

struct cover_unit {
	const struct space *space;
	uint32_t n;		/* ranges; of a path steps */
	bool is_path;
	union {
		struct cover_range *ranges;
		uint32_t *steps; /* their units */
	};
};

/*
 * What user[0] of a step or path has: the number of its unit, which is not 0, and
 * whether the trace alone tells where its last branch went; user[1] the address of
 * its first instruction.
 */
#define COVER_DYNAMIC 1
#define COVER_ID(word) ((uint32_t)((word) >> 1))

/* Shared by all threads. */
struct cover_units {
	pthread_mutex_t lock;
	struct cover_unit *v;	/* [0] is none */
	uint32_t n, cap;
	uint32_t *slots;	/* of lone ranges, by their hash; 0: free */
	size_t n_slots, n_ranges;
};

int cover_units_init(struct cover_units *u);
void cover_units_fini(struct cover_units *u);

/* So often unit id ended with a jump to an address. */
struct cover_jump {
	uint64_t to;
	uint64_t n;
	uint32_t id;		/* 0: free */
};

/* The words of ranges seen lately. */
struct cover_hot {
	uint64_t first, last, space;
	uint32_t n;
	uint16_t mode;
	uint8_t what;
	uint64_t word;		/* 0: free */
};

#define COVER_HOT 4096

/* Of one thread. */
struct cover_counter {
	struct cover_units *units;
	uint64_t *counts;	/* by unit */
	uint32_t cap;
	uint32_t *touched;	/* units whose count is not 0 */
	size_t n_touched, max_touched;
	struct cover_jump *jumps;
	size_t n_jumps, n_slots;
	uint32_t prev;		/* unit that ended with a jump to who knows
				 * where; 0: none */
	bool open;		/* nothing came yet since the last cut: */
	uint64_t head;		/* the first address since then; 0: none, or
				 * it does not go on from what was before */
	uint32_t tid, stream;
	struct sink_report report;
	struct cover_hot hot[COVER_HOT];
};

/* c is zeroed. 0 or -AUX_E_NOMEM, as all of them. */
int cover_counter_init(struct cover_counter *c, struct cover_units *units);
void cover_counter_fini(struct cover_counter *c);
int cover_counter_flow(struct cover_counter *c, const struct flow_ctx *ctx,
		       const struct aux_flow *ev, size_t n);
int cover_counter_add(struct cover_counter *c, uint32_t id, uint64_t n);

enum cover_format {
	COVER_SUMMARY,
	COVER_LCOV,
	COVER_DRCOV,
	COVER_SANCOV,
	COVER_AFL,
};

struct coverage_config {
	enum cover_format format;	/* --to */
	const char *module;	/* --module NAME, NULL: all files */
};

struct coverage {
	struct sink_env env;
	struct coverage_config config;
	struct cover_units units;
	struct cover_counter counter;	/* of the session's thread */
	struct cover_pending {	/* jumps at the end of what came last */
		uint32_t stream, tid, id;
	} *pending;
	size_t n_pending;
	uint32_t pid;		/* the lowest that ran; -1: none known */
	pthread_mutex_t lock;	/* of idle */
	struct cover_partial *idle;
};

/* count.c: as in session/sink.h */
int cover_partial_new(void **partial, const void *sink);
int cover_partial_flow(void *partial, uint32_t stint,
		       const struct flow_ctx *ctx, const struct aux_flow *ev,
		       size_t n);
int cover_partial_join(void *sink, void *partial, uint32_t stint);
void cover_partial_free(void *partial);
void cover_partials_free(struct coverage *c);
static inline void cover_take_pid(uint32_t *lowest, uint32_t pid)
{
	if (pid && pid < *lowest)
		*lowest = pid;
}
/* The jump of a stream that is still open; NULL: out of memory. */
struct cover_pending *cover_pending_of(struct coverage *c, uint32_t stream);

extern const struct sink_ops sink_coverage;

#endif
