/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * profile_samples: the recording as one of samples, each with the branches taken
 * before it, as the last branch record of a CPU has them: for tools that read a
 * perf.data and know no trace. It keeps all records of the recording but the trace.
 */
#ifndef DECODE_PROFILE_SAMPLES_H
#define DECODE_PROFILE_SAMPLES_H

#include "decode/lib/session/sink.h"

struct profile_samples;

/* period: as --period has it, NULL: the default; limit: samples, 0: all.
 * -AUX_E_INVAL with diag for bad options. */
int profile_samples_new(struct profile_samples **s,
			const struct sink_env *env,
			const char *period, uint64_t limit,
			struct aux_diag *diag);
void profile_samples_free(struct profile_samples *s);
/* As those of struct sink_ops. */
int profile_samples_flow(struct profile_samples *s, const struct flow_ctx *ctx,
			 const struct aux_flow *ev, size_t n);
int profile_samples_finish(struct profile_samples *s, struct aux_diag *diag);

#endif
