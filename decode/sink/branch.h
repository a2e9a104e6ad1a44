/* SPDX-License-Identifier: BSD-2-Clause */
/* sink_branch's parts: a line per branch, and those that paths are made of. */
#ifndef DECODE_SINK_BRANCH_H
#define DECODE_SINK_BRANCH_H

#include <stdbool.h>
#include <stdint.h>

#include "decode/sink/columns.h"
#include "decode/lib/session/sink.h"
#include "decode/sink/text.h"
#include "decode/lib/session/expand.h"

enum edge_kind {
	EDGE_COND = 1,
	EDGE_JUMP,
	EDGE_CALL,
	EDGE_RET,
	EDGE_IND_JUMP,
	EDGE_IND_CALL,
	EDGE_SYSCALL,
	EDGE_FAR,
	EDGE_ASYNC,
	EDGE_INTERRUPT,
	EDGE_EXCEPTION,
	EDGE_ON,
	EDGE_OFF,
	EDGE_NOT,	/* conditional, not taken */
};

/* "cond", "jmp", ... */
const char *edge_name(unsigned kind);
/* Of a branch, by how its RANGE ended; 0: it is none that is taken. */
unsigned edge_of_range(unsigned what);

struct place {
	bool known;
	const struct space *space;
	uint64_t ip;
};

struct edge {
	uint8_t kind; /* 0: none */
	bool left; /* the last event was told to end tracing */
	bool maybe; /* taken only if it does not go to next */
	uint64_t next; /* address behind the branch */
	uint64_t offset;
	struct flow_ctx ctx;
	struct place from, to;
};

struct held {
	uint32_t stream;
	struct edge edge;
};

struct branch {
	struct sink_env env;
	struct sink_config config;
	struct columns columns;
	struct walk *walk;		/* sizes of last instructions */
	struct lead lead;
	struct text_maker line;
	struct text_paths paths;	/* branches inside of each */
	struct held *held;
	size_t n_held;
	struct last_ips last;
	struct cached *cache;	/* symbols, NULL when no column shows any */
	bool started;
};

#endif
