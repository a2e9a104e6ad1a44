/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The options of auxdecode: which there are, which commands take them, and what
 * each sets. decode/auxdecode.c parses by this table and prints --help from it.
 */
#ifndef DECODE_CMD_OPTIONS_H
#define DECODE_CMD_OPTIONS_H

#include "decode/cmd/cmd.h"

/* Commands, as bits */
#define INSN   0x01
#define BRANCH 0x02
#define COUNT  0x04
#define RAW    0x08
#define INFO   0x10
#define DUMP   0x20
#define FLOW   (INSN | BRANCH | COUNT | CALLS | FLAME | HOT | LATENCY | \
		FIND | PROFILE | COVERAGE | EXPORT | REPORT | DIFF | SUMMARY)
#define BUNDLE 0x40
#define CUT    0x80
#define MERGE  0x100
#define REPAIR 0x200
#define VERIFY 0x400
#define CALLS  0x800
#define FLAME  0x1000
#define HOT    0x2000
#define LATENCY 0x4000
#define FIND   0x8000
#define PROFILE 0x100000
#define DIFF   0x10000
#define REPORT 0x20000
#define SUMMARY 0x200000
#define EXPORT 0x40000
#define COVERAGE 0x80000
#define ALL    0x3fffff

enum option_id {
	OPT_TID = 256,
	OPT_CPU,
	OPT_TIME,
	OPT_LAST,
	OPT_CHUNK,
	OPT_SYMBOL,
	OPT_STREAM,
	OPT_SNAPSHOT,
	OPT_PACKETS,
	OPT_SYNTAX,
	OPT_SYMFS,
	OPT_VDSO,
	OPT_BUILDID_DIR,
	OPT_DEBUGINFOD,
	OPT_VMLINUX,
	OPT_KCORE,
	OPT_KALLSYMS,
	OPT_DECODER,
	OPT_PLUGIN,
	OPT_PT,
	OPT_IMAGE,
	OPT_CPU_MODEL,
	OPT_CHUNK_SIZE,
	OPT_MAX_MEMORY,
	OPT_SHA256,
	OPT_PROGRESS,
	OPT_NO_PROGRESS,
	OPT_DRY_RUN,
	OPT_REFERENCE,
	OPT_TO,
	OPT_SCHEMA,
	OPT_ALL,
	OPT_MAX_DEPTH,
	OPT_INLINE,
	OPT_SOURCE,
	OPT_STUBS,
	OPT_NOT_TAKEN,
	OPT_BY,
	OPT_FROM,
	OPT_CALLER,
	OPT_LONGER,
	OPT_SHORTER,
	OPT_WHOLE,
	OPT_COUNT,
	OPT_MODULE,
	OPT_PERIOD,
	OPT_PER,
	OPT_MIN,
	OPT_SVG,
	OPT_BLOCKS,
	OPT_EDGES,
	OPT_MAX_SIZE,
	OPT_ONLY,
	OPT_COLOR,
	OPT_NO_PAGER,
	OPT_COMPLETION,
	OPT_VERSION,
};

struct option_row {
	const char *name;
	int id; /* a letter, or enum option_id */
	const char *arg; /* NULL: takes none */
	unsigned commands;
	const char *help;
};

/* One behind the last has no name. */
#define CMD_N_OPTIONS 128
extern const struct option_row cmd_option_rows[CMD_N_OPTIONS];

/* Takes an option and its value; CMD_USAGE when the value is wrong. */
int cmd_option_set(int id, struct cmd_options *o, const char *arg);

#endif
