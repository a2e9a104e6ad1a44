/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sinks of this directory (what a flow can be turned into, see
 * session/sink.h), and the options that several sinks have: rows for their
 * tables, so that they read the same everywhere. The struct of TYPE has the
 * member that is named.
 */
#ifndef DECODE_SINK_SINK_H
#define DECODE_SINK_SINK_H

#include "common/options.h"
#include "decode/lib/session/sink.h"

/* uint64_t limit, 0: none */
#define SINK_LIMIT(TYPE, HELP)                                        \
	{                                                             \
		.name = "limit", .letter = 'n', .arg = "N",           \
		.help = HELP, .zero = "0 would show nothing",         \
		OPTION_NUMBER(TYPE, limit)                            \
	}
#define SINK_LIMIT_LINES "stop after N lines"

/* const char *fields, NULL: the default columns */
#define SINK_FIELDS(TYPE)                                             \
	{                                                             \
		.name = "fields", .letter = 'F', .arg = "LIST",       \
		.help = "columns, separated by commas; +LIST adds to " \
			"the default ones",                           \
		OPTION_TEXT(TYPE, fields)                             \
	}

/* The same for rows alone: what people read by default is no list of columns. */
#define SINK_ROW_FIELDS(TYPE)                                         \
	{                                                             \
		.name = "fields", .letter = 'F', .arg = "LIST",       \
		.help = "rows of these columns, separated by commas", \
		OPTION_TEXT(TYPE, fields)                             \
	}

/* unsigned or enum by: the index in VALUES, whose first word is the default */
#define SINK_BY(TYPE, VALUES, HELP)                                   \
	{                                                             \
		.name = "by", .arg = "WHAT", .values = VALUES,        \
		.help = HELP, OPTION_CHOICE(TYPE, by)                 \
	}

extern const struct sink_ops sink_insn, sink_branch, sink_count, sink_calls,
	sink_flame, sink_hot, sink_find_calls, sink_latency;

#endif
