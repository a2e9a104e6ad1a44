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

/* branch.c: all of a line but what leads it. False: --symbol drops it. */
bool branch_render(struct branch *b, const struct edge *e,
		   struct text_maker *to);
/* The branch at the end of a RANGE; kind 0: there is none. */
struct edge branch_at_end(struct branch *b, const struct flow_ctx *ctx,
			  const struct aux_flow *ev);
/* A branch that may not be taken: is it, or is it to be shown all the same? */
bool branch_is_shown(const struct branch *b, struct edge *e,
		     const struct place *to);
/* The held branch goes to that address; 1: the limit is reached. */
int branch_settle(struct branch *b, const struct flow_ctx *ctx, struct edge *e,
		  uint64_t to);

/* branch_path.c: a PATH, behind the held branch; its last one is held. */
int branch_path(struct branch *b, const struct flow_ctx *ctx, struct edge *e,
		const struct aux_flow *ev, uint64_t *last_ip);
int branch_range(struct branch *b, const struct flow_ctx *ctx, struct edge *e,
		 const struct aux_flow *ev);

#endif
