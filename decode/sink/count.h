/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_count's parts: what adds up, and what it is added to.
 *
 * What runs in one thread of one stream is added up in a count_run, until
 * another runs; runs are appended to the tallies in the order of the flow. A
 * run is a number of bytes that can wait, and be made elsewhere: count_part.c.
 */
#ifndef DECODE_SINK_COUNT_H
#define DECODE_SINK_COUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/iphash.h"

#include "common/sha256.h"
#include "decode/lib/session/sink.h"
#include "decode/lib/session/expand.h"

/* Of one thread, of one stream, or of all. */
struct tally {
	uint32_t id;
	struct iphash hash;
	uint64_t n_branches;
	uint64_t n_gaps;
	uint64_t n_payloads;
	struct sha256 sha;
	bool same_sha;		/* alone so far: the total's sha is its own */
};

/* Open addressing; slots hold indexes + 1 into v. */
struct tallies {
	struct tally **v;
	size_t n, max;
	uint32_t *slots;
	size_t n_slots;
	struct tally *current;
};

struct count_run {
	uint64_t value;		/* as iphash_join leaves it; 0 at first */
	uint64_t n;		/* instructions */
	uint64_t n_branches;
	uint32_t n_gaps;
	uint32_t n_payloads;	/* values that the program wrote */
};

#define COUNT_DIGITS 5		/* of a number of instructions, up to 2^40 */

struct count_totals {
	struct tally all;
	struct tallies threads, streams;
	uint64_t powers[COUNT_DIGITS][256];	/* M^(digit << 8 * its place) */
};

/* These are the current ones from now on. 0, or -AUX_E_NOMEM. */
int count_totals_select(struct count_totals *t, uint32_t tid, uint32_t stream);
/* Appends to the current ones, if there are any, and adds to all what has no order;
 * empties the run. */
void count_totals_add(struct count_totals *t, struct count_run *run);

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

/* count_part.c: partial results that are not in use, so that what they know of
 * the code is not lost. */
struct count_pool;

int count_pool_new(struct count_pool **pool, const struct sink_host *host);
void count_pool_free(struct count_pool *pool);

/* count.c */
struct count_config {
	uint64_t limit;	/* -n, 0: none */
	bool sha256;	/* --sha256: of the addresses, as u64 LE */
};

struct count {
	struct sink_env env;
	struct count_config config;
	struct count_totals totals;
	struct counter *counter;	/* NULL: a limit, a filter, SHA-256 */
	struct walk *walk;		/* without counter */
	struct count_run run;		/* without counter */
	struct count_pool *pool;	/* NULL: no partial results */
};

/* Adds the run up that is not in the totals yet, and its report. */
void count_flush(struct count *c);

/* count_part.c: as in session/sink.h */
int count_partial_new(void **partial, const void *sink);
int count_partial_flow(void *partial, uint32_t stint,
		       const struct flow_ctx *ctx, const struct aux_flow *ev,
		       size_t n);
int count_partial_end(void *partial);
int count_partial_join(void *sink, void *partial, uint32_t stint);
void count_partial_free(void *partial);

#endif
