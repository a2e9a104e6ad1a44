/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * schema: what the values mean that a program puts into the trace (ptwrite, STM,
 * ITM): counters, spans, events, with their bits by name. A small text file says
 * so; auxdecode.1 describes it, section PAYLOADS.
 */
#ifndef DECODE_EXPORT_SCHEMA_H
#define DECODE_EXPORT_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>
#include <aux/flow.h>

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

/* Where a ptwrite was, for rules with a symbol: false when that is not known. */
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
