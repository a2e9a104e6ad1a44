/* SPDX-License-Identifier: BSD-2-Clause */
/* sink_export's parts: names, tracks, payloads, schemas. Formats do not include
 * it. */
#ifndef DECODE_EXPORT_IMPL_H
#define DECODE_EXPORT_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>
#include <aux/flow.h>

#include "decode/export/export.h"

/* What t->user points to: the tracks of a thread's stacks. */
struct export_thread {
	struct export_thread *next;
	struct export_track **tracks;
	uint32_t n;
	struct export_track *current;
};

struct open_span {
	struct export_span span;	/* as it began */
	struct export_track *track;	/* on which */
	const struct schema_rule *rule;
	uint64_t id;
	bool has_id;
};

struct exporter {
	struct export x;	/* first: formats know it alone */
	const struct export_ops *ops;
	void *format;
	struct calls *calls;
	/* track.c */
	struct export_track **last_track;
	struct export_thread *threads;
	struct export_track **streams;	/* of gaps that are of no thread */
	size_t n_streams;
	uint32_t n_gaps;	/* tracks with a gap that is still open */
	/* track.c, names: open addressing; NULL is free */
	struct export_name **slots;
	size_t n_slots;
	const struct export_name *off[UNTRACED_N], *away, *gaps[64];
	/* export.c */
	struct schema *schema;
	struct open_span *spans;	/* that are open */
	size_t n_spans, max_spans;
	uint64_t serial;
	bool finishing;
};

/* One more is shown: 1 if those are as many as were asked for. What finish
 * shows is told to its end. */
static inline int exporter_count(struct exporter *e)
{
	struct sink_report *report = e->x.env.report;
	uint64_t limit = e->x.config.limit;

	report->n_lines++;
	return !e->finishing && limit && report->n_lines >= limit;
}

/* track.c. NULL: out of memory, or the format failed: *err. */
struct export_track *exporter_track(struct exporter *e, struct call_thread *t,
				    int *err);
struct export_track *exporter_stream(struct exporter *e, uint32_t stream,
				     int *err);
/* The time to show for something of t that happens now. */
uint64_t exporter_stamp(struct exporter *e, struct export_track *track,
			const struct call_thread *t);
/* Ends what lies on top of the frames: the trace that is off, a gap. */
int exporter_settle(struct exporter *e, struct export_track *track, uint64_t ns);
int exporter_cover(struct exporter *e, struct export_track *track, uint64_t ns,
		   enum export_kind kind, const struct call_thread *t,
		   const struct aux_flow *gap);
/* A frame of the track begins, ends: counts it. */
int exporter_push(struct export_track *track, const struct call_thread *t);
void exporter_pop(struct export_track *track, const struct call_thread *t,
		  struct export_slice *s);
void exporter_free_tracks(struct exporter *e);

/*
 * schema: what the values mean that a program puts into the trace (ptwrite,
 * STM, ITM): counters, spans, events, with their bits by name. A small text
 * file says so; auxdecode.1 describes it, section PAYLOADS.
 */

#define SCHEMA_FIELDS 16

enum schema_what {
	SCHEMA_COUNTER,		/* a number that changes over time */
	SCHEMA_BEGIN,		/* of a span */
	SCHEMA_END,
	SCHEMA_EVENT,
};

struct schema_field {
	char *name;
	uint8_t low, high;	/* bits, both are its own */
	bool is_signed;
	bool has_want;		/* the rule is for values with this one alone */
	uint64_t want;
};

struct schema_rule {
	uint8_t from;		/* enum aux_payload_kind */
	bool anywhere;		/* whatever the place */
	bool any_master;	/* STM: of any master */
	char *symbol;		/* ptwrite: place is an offset in it; NULL: none */
	uint64_t place;		/* address, AUX_STM_IP, port */
	enum schema_what what;
	char *name;
	struct schema_field fields[SCHEMA_FIELDS];
	uint32_t n_fields;
	uint32_t line;		/* in its file */
};

struct schema;

/* The file, checked whole: diag->offset is that of the line at fault. */
int schema_load(struct schema **s, const char *path, struct aux_diag *diag);
/* The same of len bytes of text; what names it in messages. */
int schema_parse(struct schema **s, const char *text, size_t len,
		 const char *what, struct aux_diag *diag);
void schema_free(struct schema *s);

/* Where a ptwrite was, for rules with a symbol: false when that is not
 * known. */
typedef bool schema_symbol_fn(void *priv, uint64_t ip, const char **name,
			      uint64_t *offset);

/* The first rule that fits a PAYLOAD; NULL: none. */
const struct schema_rule *schema_find(const struct schema *s,
				      const struct aux_flow *ev,
				      schema_symbol_fn *symbol, void *priv);
/* The field's bits of a value, sign extended when it is signed. */
uint64_t schema_value(const struct schema_field *f, uint64_t value);
/* By name; NULL: the rule has none. */
const struct schema_field *schema_field(const struct schema_rule *r,
					const char *name);

#endif
