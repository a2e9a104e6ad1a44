/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_find, sink_latency: calls of the functions that are looked for, as they end,
 * with what is wrong with them. A number is only as good as the call that it is of:
 * one with a gap inside, with an end that is guessed, without an end or a begin in
 * the trace is never counted together with the others.
 */
#ifndef DECODE_SINK_FIND_H
#define DECODE_SINK_FIND_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode/callstack/callstack.h"
#include "decode/lib/session/sink.h"

/* ---- find_match.c: names ---- */

/*
 * NAME, a glob (foo*), or a regular expression between slashes (/^foo_[0-9]/). A
 * function fits by its name as shown or as the file has it; without a regular
 * expression also by the name without its arguments.
 */
struct find_pattern {
	const char *text;	/* NULL: everything fits */
	bool is_regex;
	regex_t regex;
};

/* Appends to hint (of len bytes) names of functions that were met and are near to
 * text, if there are any. */
void find_nearest(const struct calls *c, const char *text, char *hint,
		  size_t len);

/* ---- find_unit.c: what is measured ---- */

enum find_by { FIND_BY_TIME = 0, FIND_BY_INSNS, FIND_BY_CYCLES };

int find_by_parse(enum find_by *by, const char *text, struct aux_diag *diag);
/* "1.5ms", "20us", "3s", or a plain number (ns of time). */
uint64_t find_amount(enum find_by by, const struct call_count *n);
/* "1.234 ms", "12,345"; out has room for 40 bytes. Returns out. */
char *find_amount_text(char *out, enum find_by by, uint64_t v);
/* "12,345"; out has room for 40 bytes. Returns out. */
char *find_number_text(char *out, uint64_t v);
/* "--time A,B --tid T FILE" in a shell's words: what shows that call. */
void find_put_range(struct outbuf *out, uint64_t from_ns, uint64_t to_ns,
		    uint32_t tid, const char *path);

/* ---- find_watch.c: the calls ---- */

enum find_fault {
	FIND_WHOLE = 0,
	FIND_GAP,	/* flow is missing inside, or its end was lost */
	FIND_GUESSED,	/* the flow does not prove where it began or ended */
	FIND_RUNNING,	/* it still ran at the end of the trace, or at exec */
	FIND_BEFORE,	/* it ran before the trace began */
	FIND_UNTIMED,	/* no time is known (by time alone) */
	FIND_N_FAULTS,
};

/* "a gap inside", ... */
const char *find_fault_text(enum find_fault fault);

#define FIND_THIS   1	/* call_func.user: --symbol fits */
#define FIND_ABOVE  2	/* --from fits */
#define FIND_CALLER 4	/* --caller fits */
#define FIND_KNOWN  8	/* it was looked at */

struct find_watch;

/* What is told. Returns are those of calls_ops. */
struct find_ops {
	/* frames[depth - 1] began: any function; NULL: not wanted */
	int (*enter)(void *priv, struct call_thread *t, unsigned marks);
	/* It ends. took: in all */
	int (*leave)(void *priv, struct call_thread *t, unsigned marks,
		     enum call_end end, enum find_fault fault,
		     const struct call_count *took);
};

struct find_watch_config {
	const struct sink_env *env;
	const char *symbol, *from, *caller;	/* NULL: any */
	const struct find_ops *ops;
	void *priv;
	enum find_by by;
	bool all;	/* leave is told of all functions, not of FIND_THIS */
};

int find_watch_new(struct find_watch **w,
		   const struct find_watch_config *config,
		   struct aux_diag *diag);
int find_watch_flow(struct find_watch *w, const struct flow_ctx *ctx,
		    const struct aux_flow *ev, size_t n);
int find_watch_finish(struct find_watch *w);
void find_watch_free(struct find_watch *w);
struct calls *find_watch_calls(struct find_watch *w);

/* ---- latency_tree.c: what ran inside of one call ---- */

#define FIND_TREE_NODES 4096

struct find_node {
	struct call_func *func;
	struct find_node *parent, *child, *next;
	struct find_tree *tree;
	uint64_t n;			/* calls that ended */
	struct call_count total, own;
	uint32_t id;
};

struct find_tree {
	struct find_node *nodes;	/* nodes[0] is the call itself */
	uint32_t n, max;
	uint64_t n_left_out;		/* calls: there are too many places */
	struct find_tree *next_idle, *next;
};

/* All there are, and those of them that wait to be used. Starts zeroed. */
struct find_trees {
	struct find_tree *idle, *all;
};

#endif
