/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the software sources share: the events that stand in the file, the run,
 * the ledger. A kind of source is a table of terms and what they mean for soft.
 */
#ifndef AUXCAP_SOURCE_SOFT_H
#define AUXCAP_SOURCE_SOFT_H

#include "soft.h"
#include "source.h"

struct source_soft_kind {
	const char *name;	/* of the source */
	const char *pmu;	/* whose trace it is */
	const char *event;	/* as the file names it */
	const char *arch;	/* of the program, as uname says it */
	int machine;		/* EM_* */
	const struct event_field *fields;	/* of the event's config */
	size_t n_fields;
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

/* NULL: out of memory. What the terms mean for soft is not filled in. */
struct source_soft *source_soft_new(const struct source_soft_kind *kind,
				    const struct source_job *job,
				    uint64_t config);

/* As in struct source_ops. */
int source_soft_run(void *src, struct output *out, struct ledger *ledger,
		    struct source_result *result, struct aux_diag *diag);
void source_soft_close(void *src);

#endif
