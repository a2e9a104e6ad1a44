/* SPDX-License-Identifier: BSD-2-Clause */
/* sink_calls' parts: calls as a tree of lines, or as rows of columns. */
#ifndef DECODE_SINK_CALLS_H
#define DECODE_SINK_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "decode/callstack/callstack.h"
#include "decode/sink/columns.h"
#include "common/outbuf.h"
#include "decode/lib/session/sink.h"

#define CALL_COLUMNS_MAX 32
#define CALL_LEAD_MAX	 96

/* The consumer's part of a thread. */
struct call_view {
	uint32_t n_inside;	/* frames of --symbol that are on the stack */
	uint32_t below;		/* frames below the lowest of them */
	uint64_t last_ip;	/* for gap lines */
	struct call_view *next;	/* of all */
};

/* What a function is in lines; its user. */
struct call_text {
	uint32_t n_name;	/* without the brackets */
	uint32_t n;		/* FMT_SLACK bytes more can be read */
	char text[];
};

/* A begin whose line is not out yet. */
struct call_begin {
	uint64_t serial;	/* 0: none */
	struct call_func *func;
	uint64_t from, ns;
	const struct space *space;
	uint32_t pid, tid, depth;
	uint8_t kind, flags;
};

struct calls_sink {
	struct sink_env env;
	struct sink_config config;
	struct calls *calls;
	bool rows;		/* -F: rows of columns */
	uint8_t col[CALL_COLUMNS_MAX];
	unsigned n_col;
	bool has_event;		/* a row for each begin, too */
	struct call_view *views;
	/* tree: */
	struct call_begin open;	/* the frame that began last */
	struct {
		uint32_t pid, tid;
		uint64_t ns, second;	/* second: where its second begins */
		size_t n_who, n;	/* n 0: none yet */
		char text[CALL_LEAD_MAX];
	} lead;			/* "pid/tid time  " of the last line */
	uint64_t last_serial;	/* of the frame whose { came out last */
	uint64_t n_still;	/* frames that never ended */
	bool started;
};

/* A line came out; 1: that is enough. */
static inline int calls_sink_line(struct calls_sink *s)
{
	s->env.report->n_lines++;
	return s->config.limit && s->env.report->n_lines >= s->config.limit;
}

bool calls_sink_shows_one(const struct calls_sink *s,
			  const struct call_thread *t);
/* Is the frame on top one to show? */
static inline bool calls_sink_shows(const struct calls_sink *s,
				    const struct call_thread *t)
{
	return (!s->config.symbol && !s->config.max_depth) ||
	       calls_sink_shows_one(s, t);
}

uint32_t calls_sink_depth_of(const struct calls_sink *s,
			     const struct call_thread *t);
/* Its depth, from 1; of --symbol counted from its lowest frame. */
static inline uint32_t calls_sink_depth(const struct calls_sink *s,
					const struct call_thread *t)
{
	return s->config.symbol ? calls_sink_depth_of(s, t) : t->depth;
}

int calls_sink_count_one(struct calls_sink *s, struct call_thread *t, int by);
/* The frame on top began (1) or ends (-1): is it one of --symbol? */
static inline int calls_sink_count(struct calls_sink *s, struct call_thread *t,
				   int by)
{
	return s->config.symbol ? calls_sink_count_one(s, t, by) : 0;
}

const struct call_text *calls_sink_make_text(struct call_func *f);
static inline const struct call_text *calls_sink_text(struct call_func *f)
{
	return f->user ? f->user : calls_sink_make_text(f);
}

/* calls_tree.c */
extern const struct calls_ops calls_tree_ops;

/* calls_row.c: the columns; -AUX_E_INVAL with diag. */
extern const char calls_row_fields[];
extern const struct calls_ops calls_row_ops;

#endif
