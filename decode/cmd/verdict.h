/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verdict: what was lost or missing, printed once at the end, and how to fix it.
 */
#ifndef DECODE_CMD_VERDICT_H
#define DECODE_CMD_VERDICT_H

#include <stddef.h>
#include <stdint.h>

#include <aux/flow.h>

#include "decode/cmd/cmd.h"
#include "decode/lib/session/session.h"
#include "decode/lib/session/sink.h"

#define VERDICT_MISSING 8 /* different texts kept */

struct verdict {
	const char *path;
	struct sink_report report;
	uint64_t n_gaps[GAP_N_CAUSES];
	char *missing[VERDICT_MISSING]; /* why there was no code */
	uint64_t n_missing[VERDICT_MISSING];
	unsigned n_texts;
};

/* A GAP came by. */
void verdict_gap(struct verdict *v, const struct sink_host *host,
		 const struct flow_ctx *ctx, const struct aux_flow *ev);

/* Prints to standard error; returns CMD_OK, CMD_GAPS, or CMD_FAILED for an
 * empty result. */
int verdict_print(const struct verdict *v, const struct cmd_options *o,
		  const struct session *s, const struct session_stats *stats);
void verdict_free(struct verdict *v);

#endif
