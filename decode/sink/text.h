/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * text: lines that are kept, without the columns that lead them.
 *
 * What a line shows of the code is rendered once. Who ran it, and when, is put
 * before each line on its way out, so that nothing that is kept ever changes.
 * Lines are copied in pieces of fixed sizes that may reach past their end:
 * after a text, after a lead and in the output there are always TEXT_PAD bytes
 * more.
 */
#ifndef DECODE_SINK_TEXT_H
#define DECODE_SINK_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/flow.h>

#include "decode/sink/columns.h"
#include "common/outbuf.h"
#include "decode/lib/session/sink.h"

#define TEXT_PAD 96

struct text {
	uint32_t n;		/* lines */
	uint32_t n_left_out;	/* instructions that have none (a filter) */
	uint32_t size;		/* bytes of all lines */
	uint32_t max;		/* bytes of the longest */
	uint32_t len[];		/* of each, newline included; then the lines */
};

static inline const char *text_lines(const struct text *t)
{
	return (const char *)(t->len + t->n);
}

/* Lines with their lead, to be copied as they are. */
struct text_whole {
	uint64_t lead;		/* which, see struct lead in columns.h */
	uint32_t n;
	uint32_t n_left_out;
	uint32_t size;
	char lines[];
};

/* The first n lines, each after the lead. */
void text_put(struct outbuf *out, const char *lead, size_t lead_len,
	      const struct text *t, uint32_t n);

/* A text in the making. Zeroed at first. */
struct text_maker {
	struct outbuf *lines;	/* what the next line is written to */
	uint32_t *len;
	size_t n, max_n, n_left_out;
	size_t start;		/* of the line that is not ended yet */
};

int text_maker_init(struct text_maker *m);
void text_maker_fini(struct text_maker *m);
void text_maker_reset(struct text_maker *m);
/* Ends a line: what was written since the last one. 0, or -AUX_E_NOMEM. */
int text_maker_end_line(struct text_maker *m);
int text_maker_append(struct text_maker *m, const struct text *t);
/* What the text takes; 0: it is too large, or memory was short. */
size_t text_maker_size(const struct text_maker *m);
/* Writes it into that much. */
struct text *text_maker_write(const struct text_maker *m, void *at);

/* The same with a lead before each line. */
size_t text_maker_size_whole(const struct text_maker *m, size_t lead_len);
struct text_whole *text_maker_write_whole(const struct text_maker *m, void *at,
					  const char *lead, size_t lead_len);

/*
 * Where texts are kept that hang on a step or path: all are dropped at once, by
 * another epoch. A user of flow.h holds the epoch it is of in [0], the text in
 * [1].
 */
struct text_store {
	char *base;
	size_t used, size;
	uint64_t epoch;		/* 0: nothing was kept ever */
};

void text_store_init(struct text_store *s, size_t size);
void text_store_fini(struct text_store *s);
/* Is there room without dropping anything? */
bool text_store_has_room(const struct text_store *s, size_t n);
/* Drops all when it has to. NULL when there is no room at all. */
void *text_store_get(struct text_store *s, size_t n);

/* The text, or NULL. */
static inline void *text_store_find(const struct text_store *s,
				    const uint64_t *user)
{
	return user[0] == s->epoch && s->epoch ? (void *)(uintptr_t)user[1]
					       : NULL;
}

/*
 * Texts of whole paths, so that what is printed most lies in one piece: with
 * its lead, where no time is shown, ready to be copied. The store is small, for
 * what comes again and again; when it is full, only what comes more often gets
 * in. user[2] of a path counts how often it came.
 */
struct text_paths {
	struct text_store store;
	struct text_maker maker;	/* of the next one */
	uint64_t min_visits;
	bool steady;	/* the lead changes seldom */
};

/* In front of a path's text, so that nothing else of it has to be looked at. */
struct text_ends {
	struct aux_flow last;	/* range; its offset is 0 */
	uint64_t first;		/* address */
	uint64_t reserved;
};

/* needs_of: PATHs, and an offset that is shown is that of the packet. */
uint32_t text_needs(const char *fields);
int text_paths_init(struct text_paths *t, const struct columns *c);
void text_paths_fini(struct text_paths *t);
/* Of a path that has a text; NULL: it has none. Valid until the next keep. */
static inline const struct text_ends *
text_paths_find(const struct text_paths *t, const struct aux_path *path)
{
	return path->kept ? text_store_find(&t->store, path->user) : NULL;
}
/* Puts the text out, counts its lines; false: it is of another lead. */
bool text_paths_put(struct text_paths *t, struct outbuf *out, struct lead *lead,
		    const struct text_ends *text, struct sink_report *report);
/* A path came whose text could not be used; is it to get one now? */
bool text_paths_is_due(struct text_paths *t, struct aux_path *path);
/* What the maker has is the text of this path. */
void text_paths_keep(struct text_paths *t, struct lead *lead,
		     struct aux_path *path);

#endif
