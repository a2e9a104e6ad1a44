/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * event: specifications in perf's notation: PMU/TERM,TERM=VALUE,.../MODIFIERS,
 * NAME:MODIFIERS, SUBSYSTEM:TRACEPOINT:MODIFIERS.
 *
 * event_parse splits the text; event_config gives the terms their meaning by a
 * table of fields, like the format directory of a PMU in sysfs. (The kernel's
 * PMUs use pmu_config, which reads that directory.)
 */
#ifndef CAPTURE_EVENT_EVENT_H
#define CAPTURE_EVENT_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

struct event_term {
	const char *name;
	const char *value;	/* NULL: a bare term, which means 1 */
};

struct event_spec {
	char *text;		/* the specification as given */
	char *words;		/* what the pointers below point into */
	const char *pmu;	/* or the event's name, or the subsystem */
	const char *tracepoint;	/* after the subsystem; NULL: none */
	const char *modifiers;	/* "" when there are none */
	/* mem:ADDRESS[/LEN][:ACCESS]: a breakpoint; bp_type 0: none */
	uint32_t bp_type;
	uint64_t bp_addr, bp_len;
	struct event_term *terms;
	size_t n_terms;
	bool user, kernel;	/* both if no modifier names a level */
	bool has_modifiers;	/* any, the group's included */
	bool slashes;		/* PMU/TERMS/, even without a term */
	/* h; G and H (neither: exclude_guest as perf's default). */
	bool hypervisor, guest, host;
	uint8_t precise;	/* number of p, at most 3 */
	bool precise_max, sample_read, pinned, exclusive, no_idle; /* P S D e I */
};

#define EVENT_MODIFIERS "ukhpPSGHDeI"

/* A field of config. Bit v of legal is set if value v is allowed. */
struct event_field {
	const char *name;
	uint8_t lo, hi;		/* bits, at most 6 of them */
	uint64_t legal;
	const char *why;	/* what limits the legal values; NULL: unsaid */
};

/* -AUX_E_INVAL with the cause in diag; spec needs no event_fini then. */
int event_parse(struct event_spec *spec, const char *text,
		struct aux_diag *diag);
void event_fini(struct event_spec *spec);

/* Adds the modifiers of its group to an event; levels (u, k, h) that the event
 * names itself take precedence. */
int event_modify(struct event_spec *spec, const char *modifiers,
		 struct aux_diag *diag);
/* -AUX_E_INVAL if spec has modifiers other than legal; diag lists the legal
 * ones. */
int event_only(const struct event_spec *spec, const char *legal,
	       struct aux_diag *diag);

/* Sets diag to "event 'TEXT': ..." and returns -AUX_E_INVAL. */
__attribute__((format(printf, 3, 4)))
int event_refuse(struct aux_diag *diag, const struct event_spec *spec,
		 const char *fmt, ...);

/* A term's value as strtoull base 0 reads it; NULL is 1. False: not a
 * number. */
bool event_number(const char *value, uint64_t *v);

/*
 * Applies the terms, in order, to *config. Terms listed in words (NULL
 * terminated; they take no value) are the caller's own and are skipped;
 * config=N sets all bits. Any other term, any illegal value and any modifier
 * other than u and k is -AUX_E_INVAL, and diag names what is legal. *config
 * changes only on success.
 */
int event_config(const struct event_spec *spec,
		 const struct event_field *fields, size_t n_fields,
		 const char *const *words, uint64_t *config,
		 struct aux_diag *diag);

/* Whether spec has the term. */
bool event_has(const struct event_spec *spec, const char *name);

/* The last term of that name, which wins; NULL: none. */
const struct event_term *event_term(const struct event_spec *spec,
				    const char *name);

/* The value of a field in config; 0 if there is no such field. */
uint64_t event_get(const struct event_field *fields, size_t n_fields,
		   const char *name, uint64_t config);

/*
 * Address filters of a software source: --filter 'filter START[/SIZE-OR-END] @ FILE',
 * resolved to offsets in files.
 */
struct addrfilter {
	uint64_t offset, size;	/* in the file */
	char *path;		/* resolved */
};

/* Into *v, of which each path and the array are the caller's (addrfilter_free).
 * -AUX_E_INVAL: also for start, stop and tracestop, and for ranges of the kernel;
 * -AUX_E_IO, -AUX_E_FORMAT: the file. */
int addrfilter_list(const char *text, struct addrfilter **v, size_t *n,
		    struct aux_diag *diag);
void addrfilter_free(struct addrfilter *v, size_t n);

#endif
