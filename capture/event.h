/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event specifications: PMU/TERM,TERM=VALUE,.../MODIFIERS, as perf writes them.
 *
 * event_parse takes the text apart; what the terms mean is a table of fields,
 * like the format directory of a PMU in sysfs.
 */
#ifndef AUXCAP_EVENT_H
#define AUXCAP_EVENT_H

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
	const char *pmu;
	struct event_term *terms;
	size_t n_terms;
	bool user, kernel;	/* both when there are no modifiers */
	bool has_modifiers;
};

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

/*
 * Applies the terms, in order, to *config. Terms named in words (NULL ended;
 * they take no value) are the caller's own and are passed over; config=N sets
 * all bits. Any other term, and any value that is not legal, is -AUX_E_INVAL,
 * and diag names what is legal.
 */
int event_config(const struct event_spec *spec,
		 const struct event_field *fields, size_t n_fields,
		 const char *const *words, uint64_t *config,
		 struct aux_diag *diag);

/* Whether a bare term is there. */
bool event_has(const struct event_spec *spec, const char *name);

uint64_t event_get(const struct event_field *fields, size_t n_fields,
		   const char *name, uint64_t config);

#endif
