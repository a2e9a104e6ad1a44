/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * profile_file: a perf.data of samples in place of trace. The event of the trace
 * becomes one of samples, under the same ids; its records of trace are left out,
 * all others stay as they are.
 */
#ifndef DECODE_PROFILE_FILE_H
#define DECODE_PROFILE_FILE_H

#include <stdint.h>

#include "decode/lib/session/sink.h"

#define PROFILE_DEPTH 64	/* branches of a stack, as perf inject has them */

struct profile_file;

struct profile_branch {
	uint64_t from, to;
};

struct profile_sample {
	uint64_t ip, period;	/* period: instructions */
	const struct flow_ctx *ctx;
	const struct profile_branch *stack;	/* the latest first */
	uint32_t n;
};

/* env: path is the input, out_path the output. Errors without a text, but for
 * those that close tells. */
int profile_file_open(struct profile_file **f, const struct session *session,
		      const struct sink_env *env, const char *period);
void profile_file_sample(struct profile_file *f, const struct profile_sample *s);
/* A gap in the flow, as a record of what a decoder could not decode. */
void profile_file_gap(struct profile_file *f, const struct flow_ctx *ctx,
		      const struct aux_flow *ev);
/* 0, or the first error so far. */
int profile_file_failed(const struct profile_file *f);
/* Writes the rest; frees f. */
int profile_file_close(struct profile_file *f, struct aux_diag *diag);
void profile_file_discard(struct profile_file *f);

#endif
