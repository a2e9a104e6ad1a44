/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of this directory share. The model (model.c, lanes.c, rows.c,
 * annotator.c) knows no terminal: it decodes in threads of its own, and makes the
 * rows that views show. screen.c draws, and is the one that uses ncurses; the
 * views (view_functions.c and its like) put both together.
 */
#ifndef DECODE_TUI_IMPL_H
#define DECODE_TUI_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode/callstack/flowtree.h"
#include "decode/lib/session/session.h"
#include "decode/tui/tui.h"

/* ---- lanes.c: what each thread did over time ---- */

/* Of one lane, at most; of many lanes, less. */
#define LANE_BUCKETS 32768
#define LANE_LEAST 2048

/* What a thread did in a stretch of time: parts of the axis. */
enum lane_what {
	LANE_SELF = 0,		/* ran */
	LANE_OFF,		/* off CPU */
	LANE_KERNEL,		/* in the kernel, which is not traced */
	LANE_UNTRACED,		/* not traced for another reason */
	LANE_LOST,
	LANE_N_WHATS,
};

struct lane_bucket {
	float part[LANE_N_WHATS];
	float insns;
	uint32_t func;		/* that ran there, most of the time if one did */
	float votes;
};

struct lane {
	uint32_t root;		/* of the call tree */
	struct lane_bucket *v;
	uint32_t n;		/* with something in them, from the first on */
	size_t cap;
	uint64_t at;		/* of the axis, where it was last seen */
	struct call_count last;
	bool seen;
};

/*
 * One axis for all: ns, or where the trace has no time, instructions that all
 * threads ran. A bucket is as wide as it takes for so many of them as there may be
 * to reach from the first place to the last.
 */
struct lanes {
	struct lane **v;
	size_t n, cap;
	uint64_t from, to;	/* the first and last place; from UINT64_MAX: none */
	uint64_t width;		/* of a bucket */
	uint64_t n_left_out;	/* threads, for there are too many */
	bool timed;
};

void lanes_fini(struct lanes *l);
/* As seen of struct flowtree, which this is for. */
int lanes_seen(struct lanes *l, struct flowtree *t, struct flowtree_thread *ft,
	       uint32_t node);
/* What is in [from, to): sums, and the func of the largest. */
struct lane_bucket lane_sum(const struct lanes *l, const struct lane *lane,
			    uint64_t from, uint64_t to);

/* ---- model.c: a recording that is being decoded ---- */

enum model_state {
	MODEL_OPENS = 0,
	MODEL_DECODES,
	MODEL_DONE,
	MODEL_FAILED,
};

#define MODEL_GAPS 100000	/* kept one by one */

struct model_gap {
	uint64_t time_ns, offset;	/* time 0: unknown */
	uint64_t ip;
	uint32_t pid, tid, stream;
	int32_t cpu;
	uint8_t cause;
	bool has_ip;
};

struct model {
	const struct tui_config *config;
	pthread_t thread;
	bool started;
	atomic_bool stop;
	/* The lock is held for a step of decoding at a time; who waits for it
	 * holds the turn, and so comes next. */
	pthread_mutex_t turn, lock;
	/* the rest with the lock */
	enum model_state state;
	int error;
	struct aux_diag diag;
	struct session *session;
	struct sink_host host;
	struct flowtree tree;
	struct lanes lanes;
	struct session_stats stats;
	struct model_gap *gaps;
	size_t n_gaps, cap_gaps;
	uint64_t n_by_cause[GAP_N_CAUSES];
	char *missing;		/* why there was no code, the first time */
	bool is_virtual;	/* the clock is: the trace was made by software */
};

/* A thread that gets no signals from outside. 0 or -AUX_E_NOMEM. */
int thread_start(pthread_t *thread, void *(*routine)(void *), void *priv);
/* Starts to decode; config outlives m. 0 or -AUX_E_NOMEM. */
int model_start(struct model *m, const struct tui_config *config);
/* Stops at once, and frees. m may be zeroed. */
void model_end(struct model *m);
void model_lock(struct model *m);
void model_unlock(struct model *m);

struct model_status {
	enum model_state state;
	uint64_t done, wanted;	/* AUX bytes */
	uint64_t n_insns, n_gaps;
	uint64_t lost;		/* bytes, at capture */
	uint32_t n_threads;
	bool lossy;
};

/* Takes the lock. */
struct model_status model_status(struct model *m);

/* ---- annotator.c: instructions of functions, and how often each ran ---- */

struct annotator {
	const struct tui_config *config;
	pthread_t thread;
	bool started;
	atomic_bool stop, is_over;
	_Atomic uint64_t done, wanted;	/* AUX bytes */
	/* the thread's, until it is over */
	int error;
	struct aux_diag diag;
	struct session *session;
	struct sink_host host;
	struct sink_report report;
	struct session_stats stats;
	void *sink;
};

struct outbuf;

/* a is zeroed at first; nothing happens where it runs already. config outlives
 * a. 0 or -AUX_E_NOMEM. */
int annotator_start(struct annotator *a, const struct tui_config *config);
/* a may be zeroed. */
void annotator_end(struct annotator *a);
bool annotator_is_busy(const struct annotator *a);
/* Once it is over, without an error: a function, by its symbol, as annotate
 * prints it. 0, -AUX_E_NOMEM, or 1: there is nothing of it. */
int annotator_text(struct annotator *a, const char *name, const char *dso,
		   struct outbuf *out);

/* ---- rows.c: what views show of a model, with its lock ---- */

/* Which threads: by pid and tid; or all. */
struct model_who {
	bool one;
	uint32_t tid, stream;
};

enum rows_order {
	ROWS_BY_OWN = 0,
	ROWS_BY_TOTAL,
	ROWS_BY_CALLS,
	ROWS_BY_NAME,
	ROWS_N_ORDERS,
};

struct rows_query {
	enum calltree_by by;	/* what own and total are of */
	enum rows_order order;
	struct model_who who;
	const char *filter;	/* part of a name, whatever its case; "": all */
};

struct func_row {
	const struct call_func *func;
	const char *name;	/* as shown; foreign */
	const char *dso;	/* foreign; NULL: none */
	uint64_t own, total, calls;
	char text[64];		/* for want of a name */
};

struct func_rows {
	struct func_row *v;	/* in order */
	size_t n;
	size_t n_all;		/* without the filter */
	uint64_t all;		/* what is 100 % */
};

/* rows is zeroed, or was filled before. 0 or -AUX_E_NOMEM. */
int rows_functions(struct model *m, const struct rows_query *q,
		   struct func_rows *rows);
void func_rows_fini(struct func_rows *rows);

/* Which nodes of a call tree are open. */
struct open_nodes {
	uint8_t *v;
	size_t n;
};

int open_nodes_set(struct open_nodes *o, uint32_t node, bool open);

/* The function that is shown under a name; NULL: none is. */
const struct call_func *rows_named(struct model *m, const char *name, size_t len);

struct tree_row {
	uint32_t node, depth;
	const struct call_func *func;	/* NULL: it is none */
	uint64_t own, total, calls;
	bool has_more, is_open;
	const char *name;	/* foreign */
	char text[64];
};

struct tree_rows {
	struct tree_row *v;
	size_t n, cap;
	uint64_t all;
};

/* The open part of the tree, children by total. */
int rows_tree(struct model *m, const struct rows_query *q,
	      const struct open_nodes *open, struct tree_rows *rows);
void tree_rows_fini(struct tree_rows *rows);
/* Opens all below node, at most max more rows. */
int rows_open_below(struct model *m, struct open_nodes *open, uint32_t node,
		    size_t max);
/* Opens all above node. */
int rows_open_above(struct model *m, struct open_nodes *open, uint32_t node);
void rows_close_below(struct model *m, struct open_nodes *open, uint32_t node);
/* The k-th largest place in the tree (k from 0, by total) of a function, or with
 * CALLTREE_ROOT of what has q->filter in its name; 0: there are not so many. */
uint32_t rows_place(struct model *m, const struct rows_query *q, uint32_t func,
		    size_t k);

struct lane_row {
	const struct lane *lane;
	char name[128];		/* foreign */
	uint32_t tid, stream;
	uint64_t insns;
	double percent;		/* of all instructions */
};

struct lane_rows {
	struct lane_row *v;
	size_t n;
	size_t n_all;
};

/* Most instructions first. */
int rows_lanes(struct model *m, const struct rows_query *q, struct lane_rows *rows);
void lane_rows_fini(struct lane_rows *rows);

/* Text, a line each; foreign. Takes the lock. 0 or -AUX_E_NOMEM. */
int rows_gaps(struct model *m, const struct rows_query *q, struct outbuf *out);

#endif
