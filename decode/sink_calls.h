/* SPDX-License-Identifier: BSD-2-Clause */
/* sink_calls' parts: calls as a tree of lines, or as rows of columns. */
#ifndef AUXDECODE_SINK_CALLS_H
#define AUXDECODE_SINK_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "calls.h"
#include "columns.h"
#include "outbuf.h"
#include "sink.h"

#define CALL_COLUMNS_MAX 32

/* The consumer's part of a thread. */
struct call_view {
	uint32_t n_inside;	/* frames of --symbol that are on the stack */
	uint32_t below;		/* frames below the lowest of them */
	uint64_t last_ip;	/* for gap lines */
	struct call_view *next;	/* of all */
};

struct calls_sink {
	struct sink_config config;
	struct calls *calls;
	bool rows;		/* -F: rows of columns */
	uint8_t col[CALL_COLUMNS_MAX];
	unsigned n_col;
	bool has_event;		/* a row for each begin, too */
	struct call_view *views;
	/* tree: the frame that began last, if its line is not out yet (id) */
	struct call_frame open;
	uint32_t open_pid, open_tid, open_depth;
	const struct space *open_space;
	char who[48];		/* "pid/tid", of the last line */
	size_t who_len;
	uint32_t who_pid, who_tid;
	uint64_t last_serial;	/* of the frame whose { came out last */
	uint64_t n_still;	/* frames that never ended */
	bool started;
};

/* A line came out; 1: that is enough. */
int calls_sink_line(struct calls_sink *s);
/* Is the frame on top one to show? */
bool calls_sink_shows(const struct calls_sink *s, const struct call_thread *t);
/* Its depth, from 1; of --symbol counted from its lowest frame. */
uint32_t calls_sink_depth(const struct calls_sink *s,
			  const struct call_thread *t);
/* The frame on top began (1) or ends (-1): is it one of --symbol? */
int calls_sink_count(struct calls_sink *s, struct call_thread *t, int by);
int calls_sink_gap(void *priv, struct call_thread *t,
		   const struct aux_flow *ev);
void calls_sink_name(struct outbuf *out, struct call_func *f);

/* sink_calls_tree.c */
extern const struct calls_ops calls_tree_ops;
int calls_tree_finish(struct calls_sink *s);

/* sink_calls_row.c: the columns; -AUX_E_INVAL with diag. */
extern const char calls_row_fields[];
int calls_row_parse(struct calls_sink *s, const char *fields,
		    struct aux_diag *diag);
extern const struct calls_ops calls_row_ops;

#endif
