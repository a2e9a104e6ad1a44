/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What adds up of the flow: instructions, branches, gaps, values.
 *
 * What runs in one thread of one stream is added up in a count_run, until
 * another runs; runs are added up in the order of the flow. A
 * run is a number of bytes that can wait, and be made elsewhere: count_part.c.
 */
#ifndef DECODE_SINK_COUNT_H
#define DECODE_SINK_COUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode/lib/session/sink.h"
#include "decode/lib/session/expand.h"

struct count_run {
	uint64_t value;		/* as iphash_join leaves it; 0 at first */
	uint64_t n;		/* instructions */
	uint64_t n_branches;
	uint32_t n_gaps;
	uint32_t n_payloads;	/* values that the program wrote */
};

/*
 * What a step or a kept path adds stays with it, in user: [0]
 * the hash, [1] 8 * M^n, [2] instructions << 32 | branches. [1] is 0 until all its
 * ranges were found to fit the code; it stays 0 where one does not, and where
 * COUNT_SUMS of [2] might not fit, and they are counted one by one. These are
 * facts of the code alone, so the thread that comes first computes them for all.
 */
#define COUNT_SUMS 4096
#define COUNT_POWERS 128

struct count_memo {
	struct walk *walk;
	struct aux_code area;	/* code that was asked for last */
	uint64_t area_space;	/* 0: none */
	const struct sink_host *host;
	uint64_t power8[COUNT_POWERS];	/* 8 * M^n */
};

/*
 * Adds up what runs, fast: no limit, no filter. A range is
 * walked when it is first met; the ranges seen last are found without the walk.
 */
#define COUNT_HOT 4096 /* power of two */

/* A range that fits the code, and the hash of its block. */
struct count_hot {
	uint64_t first, last, space;
	uint32_t n; /* 0: free */
	uint32_t mode;
	uint64_t value, power8;
};

struct counter {
	struct walk *walk;
	struct count_memo memo;
	struct count_run run;
	struct sink_report report;	/* of all runs; the owner takes it */
	/* a range does not fit the code */
	int (*mismatch)(void *priv, const struct flow_ctx *ctx,
			const struct aux_flow *ev, int err);
	void *priv;
	struct count_hot hot[COUNT_HOT];
};

/* c is zeroed but for mismatch and priv. */
int counter_init(struct counter *c, const struct sink_host *host);
void counter_fini(struct counter *c);
/* 0, -AUX_E_NOMEM, or what mismatch returned. */
int counter_add(struct counter *c, const struct flow_ctx *ctx,
		const struct aux_flow *ev, size_t n);

/* ---- count_part.c: partial results, of whatever sink has a pool ---- */

/* Partial results that are not in use, so that what they know of the code is not lost. */
struct count_pool;

/* What one thread ran in one stint. */
struct count_part_run {
	uint32_t pid, tid, stream, stint;
	struct count_run run;
};

/* A range that does not fit the code; it is told when its stint is joined. */
struct count_part_mismatch {
	uint32_t stint;
	struct flow_ctx ctx;
	struct aux_flow ev;
	int err;
};

/* What a partial result is joined to. Both are called in the order of the flow; run may empty
 * what it gets, and its error ends the join. */
struct count_part_to {
	void *priv;
	int (*run)(void *priv, struct count_part_run *run);
	void (*mismatch)(void *priv, const struct count_part_mismatch *m);
};

int count_pool_new(struct count_pool **pool, const struct sink_host *host);
void count_pool_free(struct count_pool *pool);
/* As in session/sink.h, but for the pool, and for whom the join is. */
int count_part_new(void **partial, struct count_pool *pool);
int count_part_flow(void *partial, uint32_t stint, const struct flow_ctx *ctx,
		    const struct aux_flow *ev, size_t n);
int count_part_end(void *partial);
int count_part_join(void *partial, uint32_t stint, const struct count_part_to *to);
void count_part_free(void *partial);

#endif
