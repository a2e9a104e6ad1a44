/* SPDX-License-Identifier: BSD-2-Clause */
/* sink_insn's parts: the lines of ranges, and those of steps and paths. */
#ifndef DECODE_SINK_INSN_H
#define DECODE_SINK_INSN_H

#include <stdbool.h>
#include <stdint.h>

#include "decode/sink/columns.h"
#include "decode/lib/session/sink.h"
#include "decode/sink/text.h"
#include "decode/lib/elf/sourceline.h"
#include "decode/lib/session/expand.h"

struct insn {
	struct sink_config config;
	struct columns columns;
	struct walk *walk;
	struct disasm *disasm;
	struct lead lead;
	struct text_maker maker;	/* of a range */
	struct last_ips last;
	uint64_t ran;			/* address that ran last */
	struct source_line source;	/* of the line before, --source */
	bool needs_symbol;
	bool started;
	/* insn_path.c */
	struct text_maker joiner;	/* of a step */
	struct text_store steps;
	struct text_paths paths;
};

/* insn.c: what leads the lines, now. */
void insn_lead(struct insn *s, const struct flow_ctx *ctx, uint64_t offset);
/*
 * The lines of a RANGE, valid until the next call. 0, -AUX_E_NOMEM, or what
 * walk_find says of a range that does not fit the code.
 */
int insn_text(struct insn *s, const struct flow_ctx *ctx,
	      const struct aux_flow *ev, const struct text **text);
/* Puts out a RANGE. 1 when the limit is reached, or -AUX_E_NOMEM. */
int insn_range(struct insn *s, const struct flow_ctx *ctx,
	       const struct aux_flow *ev);
/* The first n lines of a text, n_insns instructions. */
void insn_put(struct insn *s, const struct text *text, uint32_t n,
	      uint32_t n_insns);

/* insn_path.c: the same for a PATH. */
/* Columns are known. */
int insn_path_init(struct insn *s);
void insn_path_fini(struct insn *s);
int insn_path(struct insn *s, const struct flow_ctx *ctx,
	      const struct aux_flow *ev);

#endif
