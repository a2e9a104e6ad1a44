/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bundle: the code that a flow used, as records that make a recording self-contained.
 *
 * A sink notes the pages that RANGE events touch, and the session's on_code hook those
 * that decoders read. Pages are written as AUX_OWN_CODE with the time of their mapping
 * and its process, so that exec, dlopen and fork do to them what they did to the
 * mapping. Code that the recording has saved already stays as it is. Names go into
 * AUX_OWN_SYMBOLS, logs of JIT compilers into AUX_OWN_FILE.
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
	uint64_t n_pages;	/* distinct, of 4 KB */
	uint64_t n_bytes;	/* of code, each blob once */
	uint64_t n_symbols;
	uint64_t n_insns;
};

/* The session outlives the bundle. NULL: out of memory. */
struct bundle *bundle_new(struct session *s);
void bundle_free(struct bundle *b);

/* The flow function of a sink whose priv is the bundle. 0, or -AUX_E_NOMEM. */
int bundle_flow(void *bundle, const struct flow_ctx *ctx,
		const struct aux_flow *ev, size_t n);
/* Notes the page at ip, which a decoder reads. bundle is its priv; out of memory is
 * reported by bundle_write. */
void bundle_ask(void *bundle, const struct space *space, uint64_t ip);

/* Writes all code and names, once. 0, -AUX_E_NOMEM, or what rewrite_failed returns. */
int bundle_write(struct bundle *b, struct rewrite *w,
		 struct bundle_stats *stats);
/* Writes the logs of JIT compilers that r maps but does not hold. symfs: the directory
 * in front of their paths, or NULL. 0, or -AUX_E_NOMEM. */
int bundle_write_logs(struct aux_reader *r, struct rewrite *w,
		      const char *symfs);

#endif
