/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fleet: results of many recordings, or of the parts of a large one, made apart and
 * joined exactly.
 *
 *	plan	recordings -> units of work, each with a name that depends on what the
 *		recording holds, not on where it lies
 *	map	a unit -> a part: a file with sums, and what the unit lost
 *	reduce	parts -> one part, or the result, the same bytes in whatever order and
 *		grouping they come
 *
 * Who runs the units, on which machine, is not the business of these: the command fleet
 * has a few ways of starting them.
 *
 * A part is text:
 *
 *	auxkit part 1
 *	do NAME			what was summed up
 *	unit UNIT BYTES DECODED INSNS GAPS LOST LOSSY	one for each unit, by name
 *	gap CAUSE N		gaps of all units, by cause
 *	rows KEY.. : VALUE..	names of the columns
 *	KEY.. VALUE..		the sums, by key
 *
 * with tabs between fields. A key is unique and the rows are sorted by it, byte by byte,
 * so parts are joined in one pass, in constant memory. In names \t, \n, \r, \\ and, for
 * other control characters, \0OOO (as printf %b has them) stand for what would break a
 * line.
 *
 * Calls cross the borders of chunks. So a chunk's part of a kind that needs a stack has no
 * sums, but what its flow means as far as that is known without the stack it begins with
 * (callstack/flowpart.c): stretches with their sums, and the events between them. Such rows
 * are carried: reduce leaves them apart, in any order and grouping, until it makes a result.
 * Then it opens the recording, with its index but not its trace, puts the stretches of all
 * streams into the order of time, and gives them to the sink that one process has (carry.c).
 * Their first field begins with byte 1, as no name does:
 *
 *	1 ID STREAM CHUNK PIECE SEAM DATA
 *
 * with blanks between: the recording, the unit by its stream and first chunk, the number of
 * the piece in it, whether its trace goes on from that of the unit before without a break, and
 * the piece (flowsave.c), compressed (squeeze.h) and in base64, or "-" where it would be much
 * larger than its trace. Where there is such a one, or where a piece does not fit what comes
 * before it, which is asked of each, the recording is decoded instead.
 */
#ifndef DECODE_FLEET_FLEET_H
#define DECODE_FLEET_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <aux/error.h>

#include "common/outbuf.h"
#include "decode/lib/session/session.h"
#include "decode/lib/session/sink.h"

#define FLEET_VERSION 1

/* ---- kinds.c: what can be summed up ---- */

#define FLEET_VALUES 12

struct fleet_value {
	const char *name;
	enum fleet_how { FLEET_SUM = 0, FLEET_MIN, FLEET_MAX } join;
};

struct fleet_kind {
	const char *name;		/* of --do, in the header of a part */
	const char *keys;		/* names of the key's fields, with blanks */
	unsigned n_keys;
	struct fleet_value values[FLEET_VALUES];
	unsigned n_values;
	bool whole;	/* of whole recordings alone: calls cross the borders of chunks */
	const struct sink_ops *carry;	/* else, where they do: of chunks, whose rows
					 * fleet_carried_join makes those of the kind from; NULL:
					 * the rows of chunks are those of the kind */
	bool compared;	/* by cohort.c: its keys are no recordings' own */
	double ns_per_byte;	/* what a byte of trace costs, roughly: to balance units */
	const struct sink_ops *sink;	/* its config is struct fleet_sink_config */
	/* The result for people and scripts, from the rows of all parts. NULL: rows
	 * are the result. */
	int (*print)(struct outbuf *out, FILE *rows, const struct fleet_kind *kind,
		     unsigned by, struct aux_diag *diag);
};

/* By index (NULL after the last), or by name (NULL: none). */
const struct fleet_kind *fleet_kind(size_t i);
const struct fleet_kind *fleet_kind_named(const char *name);
#define FLEET_DO_VALUES "count hot flame latency gaps branches profile coverage calls values"
#define FLEET_BY_VALUES "insns time cycles branches"	/* as enum calltree_by */

/* ---- unit.c: names of units ---- */

#define FLEET_ID 16	/* hexadecimal digits of a recording's id */

/* A recording, all of it or chunks of one stream. */
struct fleet_unit {
	char id[FLEET_ID + 1];
	bool whole;
	uint32_t stream;		/* not whole: */
	uint64_t chunk_from, chunk_to;	/* both included; see FLEET_CHUNK */
	uint64_t bytes;			/* of trace in it */
};

#define FLEET_CHUNK ((uint64_t)1 << 20)	/* bytes; chunks of units are so large */
#define FLEET_NAME 96
#define FLEET_END (UINT64_MAX - 1)	/* chunk_to: to the end of the stream */

/* "ID", "ID.STREAM.FROM-TO", or "ID.STREAM.FROM-" for all that follows */
char *fleet_unit_text(char text[FLEET_NAME], const struct fleet_unit *u);
/* -AUX_E_INVAL: it is no such text. bytes is 0 then. */
int fleet_unit_parse(struct fleet_unit *u, const char *text);
/* Do both have something? */
bool fleet_unit_overlap(const struct fleet_unit *a, const struct fleet_unit *b);
/* By what they hold: id, stream, chunks; a whole recording comes first. */
int fleet_unit_compare(const struct fleet_unit *a, const struct fleet_unit *b);

/* session_identity as text. */
void fleet_recording_id(char id[FLEET_ID + 1], const struct session *s);
/*
 * The units of a recording that is open: one, or with unit_size (0: one is wanted) as
 * many as streams and chunks give, each of about so many bytes. The caller frees *units.
 * -AUX_E_NOMEM.
 */
int fleet_plan(struct fleet_unit **units, size_t *n, struct session *s,
	       uint64_t unit_size);

/* ---- part.c: the head of a part ---- */

struct fleet_done {
	struct fleet_unit unit;	/* bytes: of trace in it */
	uint64_t decoded;	/* of them, given to decoders */
	uint64_t n_insns, n_gaps;
	uint64_t lost;		/* bytes that the recorder knows it lost: of the unit that
				 * the recording begins with, 0 for others */
	bool lossy;		/* not all is there: gaps, loss, a damaged file, side-band
				 * that is missing */
};

#define FLEET_CAUSES 64
struct fleet_head {
	const struct fleet_kind *kind;
	struct fleet_done *units;	/* sorted by unit */
	size_t n_units, cap_units;
	struct fleet_cause {
		char name[32];
		uint64_t n;
	} causes[FLEET_CAUSES];		/* sorted by name */
	unsigned n_causes;
};

void fleet_head_fini(struct fleet_head *h);
int fleet_head_add_unit(struct fleet_head *h, const struct fleet_done *u);
/* -AUX_E_LIMIT: too many causes. */
int fleet_head_add_gaps(struct fleet_head *h, const char *cause, uint64_t n);
/* Sorts, and takes what is equal together where that is allowed: gaps. Two units that
 * have something in common are -AUX_E_INVAL with a diag that names them. */
int fleet_head_settle(struct fleet_head *h, struct aux_diag *diag);
/* The unit of chunks, of a head that is settled, that begins with a chunk; NULL: none does. */
const struct fleet_unit *fleet_head_find(const struct fleet_head *h, const char *id,
					 uint32_t stream, uint64_t chunk);
void fleet_head_write(const struct fleet_head *h, struct outbuf *out);
/*
 * Reads the head and leaves f at the first row. h is zeroed, or has what other parts
 * brought, which this adds to. -AUX_E_FORMAT with the line at fault, -AUX_E_UNSUPPORTED:
 * a part of another version or kind.
 */
int fleet_head_read(struct fleet_head *h, FILE *f, struct aux_diag *diag);

/* ---- rows.c: sums by key ---- */

struct fleet_rows;

struct fleet_rows *fleet_rows_new(const struct fleet_kind *kind);
void fleet_rows_free(struct fleet_rows *r);	/* accepts NULL */
/* Adds to the row of a key, whose fields were put together with fleet_field. 0, or
 * -AUX_E_NOMEM. */
int fleet_rows_add(struct fleet_rows *r, const char *key, size_t len,
		   const uint64_t *values);
void fleet_rows_write(struct fleet_rows *r, struct outbuf *out);
/* Digits up to a character that is not one, which is returned; NULL: there are none, or the
 * number is larger than max. */
const char *fleet_number(const char *s, uint64_t max, uint64_t *v);
/* A field of a key, with a tab before it unless it is the first. */
void fleet_field(struct outbuf *key, const char *text);
void fleet_field_number(struct outbuf *key, uint64_t v);

/* Text without what would end a field or a line. */
void fleet_put_escaped(struct outbuf *out, const char *text);

/* A row of a file: fields point into line. */
struct fleet_row {
	char *line;
	size_t cap;
	size_t key_len;		/* of line: the key with its tabs */
	uint64_t values[FLEET_VALUES];
};
/* 1; 0: the end; -AUX_E_FORMAT with diag (offset: where the line begins). */
int fleet_row_read(struct fleet_row *row, FILE *f, const struct fleet_kind *kind,
		   struct aux_diag *diag);
void fleet_row_fini(struct fleet_row *row);
/* The n fields of its key as they were before they were escaped, in place: the key is lost.
 * -AUX_E_FORMAT: it has others. */
int fleet_fields(struct fleet_row *row, char **fields, unsigned n);
void fleet_row_write(struct outbuf *out, const struct fleet_row *row,
		     const struct fleet_kind *kind);
/* As strcmp, of keys. */
int fleet_row_compare(const struct fleet_row *a, const struct fleet_row *b);
/* Adds b to a, which has the same key. False: a sum does not fit. */
bool fleet_row_join(struct fleet_row *a, const struct fleet_row *b,
		    const struct fleet_kind *kind);

/* ---- sink.c: the flow of a recording as rows ---- */

struct fleet_sink_config {
	const struct fleet_kind *kind;
	const char *id;		/* of the recording: a key of count and gaps */
	const struct fleet_unit *unit;	/* of carry */
};

extern const struct sink_ops fleet_sink_count, fleet_sink_gaps, fleet_sink_hot,
	fleet_sink_flame, fleet_sink_latency, fleet_sink_calls, fleet_sink_values;
/* carry.c: of a unit of chunks of hot, flame and calls */
extern const struct sink_ops fleet_sink_carry;
/* branches.c, coverage.c: with what prints them */
extern const struct sink_ops fleet_sink_branches, fleet_sink_profile, fleet_sink_coverage;

/* ---- carry.c: what crosses the borders of units ---- */

#define FLEET_CARRIED "\\0001"	/* how the line of a row that is carried begins */

struct fleet_carried;

/* Takes the rows that are carried out of rows, those of parts with this head, and copies the
 * others to *plain, at its begin. Both files are the caller's to close, rows after the free;
 * head outlives *c. -AUX_E_FORMAT: a row is none, of no unit, or one before it is missing. */
int fleet_carried_take(struct fleet_carried **c, FILE *rows, FILE **plain,
		       const struct fleet_head *head, struct aux_diag *diag);
void fleet_carried_free(struct fleet_carried *c);	/* accepts NULL */
/* The recordings they are of, by number; NULL past the last. */
const char *fleet_carried_id(const struct fleet_carried *c, size_t i);
/* Whether there are all units of the recording that s has open; -AUX_E_INVAL with diag: one is
 * missing. */
int fleet_carried_check(const struct fleet_carried *c, size_t i, const struct session *s,
			struct aux_diag *diag);
/* The rows of a kind, from what is carried of the recording that s has open, whole.
 * *decoded: its trace had to be decoded, all of it. -AUX_E_FORMAT: a row of its is none. */
int fleet_carried_join(struct fleet_carried *c, size_t i, struct session *s,
		       const struct sink_env *env, bool *decoded, struct aux_diag *diag);

/* ---- print.c: results ---- */

int fleet_print_count(struct outbuf *out, FILE *rows, const struct fleet_kind *kind,
		      unsigned by, struct aux_diag *diag);
int fleet_print_hot(struct outbuf *out, FILE *rows, const struct fleet_kind *kind,
		    unsigned by, struct aux_diag *diag);
int fleet_print_flame(struct outbuf *out, FILE *rows, const struct fleet_kind *kind,
		      unsigned by, struct aux_diag *diag);
int fleet_print_latency(struct outbuf *out, FILE *rows, const struct fleet_kind *kind,
			unsigned by, struct aux_diag *diag);
/* By the first number, largest first. */
int fleet_print_first(struct outbuf *out, FILE *rows, const struct fleet_kind *kind,
		      unsigned by, struct aux_diag *diag);
int fleet_print_profile(struct outbuf *out, FILE *rows, const struct fleet_kind *kind,
			unsigned by, struct aux_diag *diag);
int fleet_print_coverage(struct outbuf *out, FILE *rows, const struct fleet_kind *kind,
			 unsigned by, struct aux_diag *diag);

/* ---- reduce.c ---- */

struct fleet_join;

/* Joins files of rows, each sorted by key. *which: the file at fault, when there is one;
 * it and diag outlive the join. NULL: out of memory. */
struct fleet_join *fleet_join_new(const char **which, struct aux_diag *diag);
/* f is at its first row, and is closed by the join, also after an error. path outlives
 * it. */
int fleet_join_add(struct fleet_join *j, const struct fleet_kind *kind, FILE *f,
		   const char *path);
/* All of them, in a temporary file without a name, at its begin; the caller closes it. */
int fleet_join_rows(struct fleet_join *j, FILE **rows);
void fleet_join_free(struct fleet_join *j);	/* accepts NULL */

/*
 * Joins parts; The head of all comes back in *head (fini it),
 * and the rows, sorted, in a temporary file without a name. *which: the file at fault.
 */
int fleet_reduce(const char *const *paths, size_t n, struct fleet_head *head,
		 FILE **rows, const char **which, struct aux_diag *diag);

#endif
