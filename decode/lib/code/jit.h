/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codeview_jit: what codeview keeps of logs of JIT compilers. Loads are sorted by
 * address and are a balanced tree by their middles, each with the largest end
 * below it, so all code around an address is found in O(log n).
 */
#ifndef DECODE_LIB_CODE_JIT_H
#define DECODE_LIB_CODE_JIT_H

#include "decode/lib/code/impl.h"
#include "decode/lib/elf/jitdump.h"

#define JIT_SPACES 256
#define JIT_PIDS   1024

struct jit_log {
	const char *path;	/* as recorded */
	struct elfimage *file;	/* NULL: the recording has it */
	struct jitdump *dump;	/* NULL: nowhere */
};

struct jit_load {
	const struct jitdump_code *code;
	const struct jit_log *log;
	uint64_t time;		/* perf clock, when the jit is timed */
	size_t order;
	uint64_t max_end;	/* of the subtree */
};

/* A part of a space; its id says so by its high bits. */
struct jit_space {
	struct jit_space *next;
	const struct space *base;
	struct jit *jit;
	size_t epoch;
	struct space space;
};

/* One process. Immutable but for spaces. */
struct jit {
	struct jit *next;
	uint32_t pid;
	bool timed;		/* log and recording share a clock */
	const char *missing;	/* a log that cannot be read; NULL: none */
	struct jit_log *logs;
	size_t n_logs;
	struct jit_load *loads;
	size_t n_loads, cap_loads;
	uint64_t *epochs;	/* when they start; the first is 0 */
	size_t n_epochs;
	uint32_t first_serial;	/* of epochs, over all processes, from 1 */
	struct jit_space *spaces[JIT_SPACES];
};

struct jits {
	struct jit *list;
	uint32_t n_serials;
	struct jit_pid {
		bool known;
		uint32_t pid;
		struct jit *jit;	/* NULL: logs nothing */
	} pids[JIT_PIDS];	/* what was asked last */
};

#endif
