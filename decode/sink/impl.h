/* SPDX-License-Identifier: BSD-2-Clause */
/* What the sinks of this directory share; no other directory includes it. */
#ifndef DECODE_SINK_IMPL_H
#define DECODE_SINK_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/outbuf.h"
#include "decode/callstack/flowtree.h"

/* ---- branch.c: kinds of edges, for hot --edges too ---- */

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
/* Of a branch, by how its RANGE ended; 0: it is not a taken branch. */
unsigned edge_of_range(unsigned what);

struct place {
	bool known;
	const struct space *space;
	uint64_t ip;
};

/* ---- flame.c: amounts, for hot too ---- */

/* The trace has no cycles, or no times: -AUX_E_UNSUPPORTED with diag, which says
 * what to record. */
int refuse_amount(bool cycles, struct aux_diag *diag);

/* --by; -AUX_E_INVAL with diag. NULL: instructions. */
#define FLAME_BY_VALUES "insns time cycles branches"	/* as enum calltree_by */
#define FLAME_BY_HELP "insns (the default), time, cycles or branches"
/* "instructions", "ns", ... */
const char *flame_unit(enum calltree_by by);

/* ---- flame_svg.c: a call tree as a picture ---- */

struct flamesvg_config {
	const char *file;	/* for the heading; NULL: none */
	const char *unit;
	const char *symbol;	/* only what is below it, as text; NULL: all */
	enum calltree_by by;
	double min_percent;	/* less is not drawn; 0: what could not be seen */
	bool full_names;	/* no short ones where there is no room */
};

/* The tree is summed up, and sorted as it is to be drawn. 1; 0, and nothing is
 * written, if there is nothing to draw; or -AUX_E_NOMEM. A failure to write is
 * the outbuf's. */
int flamesvg_write(struct outbuf *out, const struct calltree *t,
		   const struct calls *c, const struct flamesvg_config *config);

#endif
