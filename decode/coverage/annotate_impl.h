/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * annotate: what is said of a function's lines and instructions (annotate_view.c), for
 * those that write it: annotate_print.c, annotate_page.c.
 */
#ifndef DECODE_COVERAGE_ANNOTATE_IMPL_H
#define DECODE_COVERAGE_ANNOTATE_IMPL_H

#include "decode/coverage/impl.h"
#include "decode/lib/code/code.h"
#include "decode/lib/elf/insn.h"

#define ANNOTATE_MAX_TEXT 192
#define ANNOTATE_MAX_FRAMES 16
#define ANNOTATE_MAX_SOURCE 200	/* characters of a source line */

struct annotate_source;

struct annotate_line {
	uint64_t cycles;	/* of its instructions */
	bool shown;		/* its count was */
};

struct annotate_printer {
	const struct annotate *a;
	const struct annotate_function *f;
	struct outbuf *out;
	struct annotate_source *sources;
	size_t n_sources, cap_sources;
	uint64_t max;		/* the largest count of f */
	int width;		/* of columns of numbers, in text */
	bool cycles;		/* some are known */
	unsigned columns;	/* of a name, on a terminal; 0: all of it */
	struct annotate_line *lines;	/* by line of f */
};

/* An instruction with all that is said of it. */
struct annotate_view {
	const struct annotate_insn *in;
	const struct space *space;
	uint64_t ip;
	char text[ANNOTATE_MAX_TEXT];
	char target[ANNOTATE_MAX_TEXT];	/* the function that a direct branch leads to;
				 * "": none, or the same function */
	struct source_line at;	/* file NULL: not known */
	struct inline_frame frames[ANNOTATE_MAX_FRAMES];
	int n_frames;
	struct annotate_branch branch;
};

const char *annotate_shown_name(const struct annotate_printer *p, const char *raw);
/* A name, or an address. */
void annotate_peer_name(const struct annotate_printer *p,
			const struct annotate_peer *peer, char *buf, size_t len);
/* v->branch.targets.v is to be freed. 0 or -AUX_E_NOMEM. */
int annotate_look(const struct annotate_printer *p, const struct annotate_insn *in,
		  struct annotate_view *v);
/* The functions inlined at an instruction: "min in clamp"; "": none. What there is
 * no room for is "..". */
void annotate_inlined(const struct annotate_printer *p, const struct annotate_view *v,
		      char *buf, size_t len);
/* Whether one line, and one inlined call of it, is the source of both. */
bool annotate_same_place(const struct annotate_view *a, const struct annotate_view *b);
/* The line of f with a count; NULL: it has none. */
const struct cover_line *annotate_line_of(const struct annotate_function *f,
					  const struct source_line *at);
/* Makes p->lines, which the caller frees. 0 or -AUX_E_NOMEM. */
int annotate_line_cycles(struct annotate_printer *p);
double annotate_percent(uint64_t n, uint64_t of);
/* Instructions of a function for each cycle in which it ran. */
double annotate_ipc(const struct annotate_function *f);
/* "taken 5 of 8 (62.50 %)", "to f 5, g 3"; "": it is no branch of such kinds. */
void annotate_describe_branch(const struct annotate_printer *p,
			      const struct annotate_view *v, char *buf, size_t len);
/* The text of a line, tabs expanded; "": it is not at hand. */
void annotate_read_line(struct annotate_printer *p, const struct source_line *at,
			char *buf, size_t len);
const char *annotate_base_of(const char *path);
/* annotate_page.c: p->f as an object of JSON with a number of the caller's. 0 or
 * -AUX_E_NOMEM. */
int annotate_page_function(struct annotate_printer *p, int64_t id);
/* Frees what was read of the sources. */
void annotate_printer_fini(struct annotate_printer *p);

#endif
