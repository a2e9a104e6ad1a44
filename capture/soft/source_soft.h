/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the software sources share: the events that stand in the file, the run,
 * the ledger. A kind of source is a table of terms and what they mean for soft.
 */
#ifndef CAPTURE_SOFT_SOURCE_SOFT_H
#define CAPTURE_SOFT_SOURCE_SOFT_H

#include "capture/soft/soft.h"
#include "capture/record/record.h"

struct source_soft;

struct source_soft_kind {
	const char *name;	/* of the source */
	const char *pmu;	/* whose trace it is */
	const char *event;	/* as the file names it */
	const char *arch;	/* of the program, as uname says it */
	int machine;		/* EM_* */
	const struct event_field *fields;	/* of the event's config */
	size_t n_fields;
	const char *const *words;	/* terms of our own, NULL ended */
	uint64_t config;		/* before the event's terms */
	/* What the terms mean for soft, into sp->config and more_terms. */
	int (*parse_event)(struct source_soft *sp, struct aux_diag *diag);
};

struct source_soft {
	const struct source_soft_kind *kind;
	const struct source_job *job;
	struct soft_config config;
	struct soft_program program;
	bool step;			/* the back end: else emulate */
	char more_terms[128];		/* that are not in config; "a,b=1" */
	struct ledger *ledger;
	struct source_result *result;
};

/* The terms of event into sp->config.attr_config. */
int source_soft_config(struct source_soft *sp, const struct event_spec *event,
		       struct aux_diag *diag);
/* A field of that. */
uint64_t source_soft_term(const struct source_soft *sp, const char *name);
/* Refuses modifiers that ask for more than user code. */
int source_soft_check_user(const struct source_soft *sp, struct aux_diag *diag);

int source_soft_open(void **src, const struct source_soft_kind *kind,
		     const struct source_job *job, struct aux_diag *diag);
/* As in struct source_ops. */
int source_soft_run(void *src, struct output *out, struct ledger *ledger,
		    struct source_result *result, struct aux_diag *diag);
void source_soft_close(void *src);

#endif
