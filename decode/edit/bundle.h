/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bundle: which code a flow used, and the records that bring it along.
 *
 * A sink notes the pages that RANGE events touch, and the session's on_code hook
 * those that decoders ask for. Pages are written as AUX_OWN_CODE, from the time
 * on when their mapping was made, for the process that had it; so exec, dlopen
 * and fork do to them what they did to the mapping. Code that the recording has
 * saved already is left as it is there. Names go into AUX_OWN_SYMBOLS, logs of JIT
 * compilers into AUX_OWN_FILE.
 */
#ifndef DECODE_EDIT_BUNDLE_H
#define DECODE_EDIT_BUNDLE_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/error.h>

#include "perfdata/rewrite.h"
#include "decode/lib/session/session.h"
#include "decode/lib/session/sink.h"

struct bundle;

struct bundle_stats {
	uint64_t n_pages;	/* different ones, of 4 KB */
	uint64_t n_bytes;	/* of code written */
	uint64_t n_symbols;
	uint64_t n_insns;
};

/* The session outlives the bundle. NULL: out of memory. */
struct bundle *bundle_new(struct session *s);
void bundle_free(struct bundle *b);

/* A sink: its flow takes the bundle as priv. Never -AUX_E_NOMEM: see write. */
int bundle_flow(void *bundle, const struct flow_ctx *ctx,
		const struct aux_flow *ev, size_t n);
/* A decoder asked for the code at ip. */
void bundle_ask(void *bundle, const struct space *space, uint64_t ip);

/* All records of the code and its names. 0, or -AUX_E_NOMEM. */
int bundle_write(struct bundle *b, struct rewrite *w,
		 struct bundle_stats *stats);
/* The logs of JIT compilers that r names and does not have. symfs NULL: none. */
int bundle_write_logs(struct aux_reader *r, struct rewrite *w,
		      const char *symfs);

#endif
