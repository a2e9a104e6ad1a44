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
	struct sink_env env;
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

/* insn_path.c: the same for a PATH. */

#endif
