/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sinks: what is done with the flow. A sink is one file and one table line.
 *
 * The session calls flow with events of one stream at a time, in the order of
 * time across streams; ctx says who ran and where. Events that change ctx (TIME,
 * CONTEXT, TRACE_ON) are passed too, after ctx is updated.
 */
#ifndef AUXDECODE_SINK_H
#define AUXDECODE_SINK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <aux/error.h>
#include <aux/flow.h>

struct session;
struct space;

struct flow_ctx {
	const struct session *session;
	const struct space *space;	/* code at this moment; NULL unknown */
	uint32_t stream;		/* queue number, AUXTRACE.idx */
	uint32_t pid, tid;		/* -1 unknown */
	int32_t cpu;			/* -1: per-thread or unknown */
	uint64_t time_ns;		/* perf clock; 0 unknown */
	uint64_t tsc;			/* 0 unknown */
};

/* What a sink needs; nothing else is computed. */
#define SINK_NEEDS_TIME 1

/* Options that sinks share; see auxdecode.1. */
struct sink_config {
	FILE *out;
	const char *fields;	/* -F, NULL: the sink's default */
	uint64_t limit;		/* -n: stop after so many lines; 0 none */
	bool sha256;		/* count: SHA-256 of addresses as u64 LE too */
	const char *symbol;	/* --symbol filter, NULL none */
};

struct sink_ops {
	const char *name;
	const char *help;	/* one line */
	uint32_t needs;
	/* -AUX_E_INVAL with diag for bad options */
	int (*open)(void **sink, const struct sink_config *config,
		    struct aux_diag *diag);
	/* Returns 0, 1 for "enough, stop", or an error. */
	int (*flow)(void *sink, const struct flow_ctx *ctx,
		    const struct aux_flow *ev, size_t n);
	/* The end: prints what is left (totals). */
	int (*finish)(void *sink, struct aux_diag *diag);
	void (*close)(void *sink);	/* NULL is allowed */
};

extern const struct sink_ops sink_insn, sink_branch, sink_count;

#endif
