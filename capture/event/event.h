/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event specifications, as perf writes them: PMU/TERM,TERM=VALUE,.../MODIFIERS,
 * NAME:MODIFIERS, SUBSYSTEM:TRACEPOINT:MODIFIERS.
 *
 * event_parse takes the text apart; what the terms mean is a table of fields,
 * like the format directory of a PMU in sysfs.
 */
#ifndef CAPTURE_EVENT_EVENT_H
#define CAPTURE_EVENT_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

struct event_term {
	const char *name;
	const char *value;	/* NULL: a bare term, means 1 */
};

struct event_spec {
	char *text;		/* the specification as given */
	char *words;		/* what the pointers below point into */
	const char *pmu;	/* or the event's name, or the subsystem */
	const char *tracepoint;	/* behind the subsystem; NULL: none */
	const char *modifiers;	/* "" when there are none */
	struct event_term *terms;
	size_t n_terms;
	bool user, kernel;	/* both when there are no modifiers */
	bool has_modifiers;	/* any at all */
	bool slashes;		/* PMU/TERMS/, even without a term */
	/* The other modifiers: h G H (with none of each group: all, host only,
	 * as perf), p (up to three), P, S, D, e, I. */
	bool hypervisor, guest, host;
	uint8_t precise;
	bool precise_max, sample_read, pinned, exclusive, no_idle;
};

#define EVENT_MODIFIERS "ukhpPSGHDeI"

/* A field of config. legal: bit v says that value v is allowed. */
struct event_field {
	const char *name;
	uint8_t lo, hi;		/* bits, at most 6 of them */
	uint64_t legal;
	const char *why;	/* why not more is legal, NULL: nothing to say */
};

/* -AUX_E_INVAL with the place and the cause in diag. */
int event_parse(struct event_spec *spec, const char *text,
		struct aux_diag *diag);
void event_fini(struct event_spec *spec);

/* Modifiers of a group, for each event in it: on top of its own. */
int event_modify(struct event_spec *spec, const char *modifiers,
		 struct aux_diag *diag);
/* -AUX_E_INVAL when there are others than these; diag names them. */
int event_only(const struct event_spec *spec, const char *legal,
	       struct aux_diag *diag);

/* "-AUX_E_INVAL, event 'TEXT': ..." */
__attribute__((format(printf, 3, 4)))
int event_refuse(struct aux_diag *diag, const struct event_spec *spec,
		 const char *fmt, ...);

/* A term's value; bare: 1. Decimal, 0x, 0. False: not a number. */
bool event_number(const char *value, uint64_t *v);

/*
 * Applies the terms, in order, to *config. Terms named in words (NULL ended;
 * they take no value) are the caller's own and are passed over; config=N sets
 * all bits. Any other term, and any value that is not legal, is -AUX_E_INVAL,
 * and diag names what is legal; so is a modifier other than u and k.
 */
int event_config(const struct event_spec *spec,
		 const struct event_field *fields, size_t n_fields,
		 const char *const *words, uint64_t *config,
		 struct aux_diag *diag);

/* Whether a term is there. */
bool event_has(const struct event_spec *spec, const char *name);

/* The last term of that name; NULL: there is none. */
const struct event_term *event_term(const struct event_spec *spec,
				    const char *name);

uint64_t event_get(const struct event_field *fields, size_t n_fields,
		   const char *name, uint64_t config);

#endif
