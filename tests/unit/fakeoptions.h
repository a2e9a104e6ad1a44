/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of a sink as a command line gives them: through the sink's own table. */
#ifndef TESTS_UNIT_FAKEOPTIONS_H
#define TESTS_UNIT_FAKEOPTIONS_H

#include <stdio.h>
#include <stdlib.h>

#include "common/options.h"
#include "decode/callstack/names.h"
#include "decode/lib/session/sink.h"

struct fake_options {
	const char *fields, *to, *schema, *symbol;	/* NULL: not given */
	uint64_t limit;		/* 0: not given */
	bool sha256;
};

/* An option that the sink has not is a mistake of the test, which ends here. */
static inline void fake_option(const struct sink_ops *ops, void *config,
			       const char *name, const char *value)
{
	const struct option_row *row = option_find(ops->options, name);
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };

	if (row && row->parse(row, config, value, &diag) == 0)
		return;
	printf("Bail out! %s --%s: %s\n", ops->name, name, diag.text);
	exit(1);
}

/* What --symbol of the sink that was opened last means. */
static struct names *fake_names;

__attribute__((destructor))
static void free_fake_names(void)
{
	names_free(fake_names);
	fake_names = NULL;
}

/* Opens the sink, as sink_ops.open does. The host of env is the test's own
 * variable. */
static inline int fake_open(const struct sink_ops *ops, void **sink,
			    struct sink_env *env, const struct fake_options *o,
			    struct aux_diag *diag)
{
	void *config = calloc(1, ops->config_size);
	char limit[24];
	int rc;

	if (!config)
		exit(1);
	if (ops->defaults)
		ops->defaults(config);
	snprintf(limit, sizeof(limit), "%llu", (unsigned long long)o->limit);
	if (o->fields)
		fake_option(ops, config, "fields", o->fields);
	if (o->to)
		fake_option(ops, config, "to", o->to);
	if (o->schema)
		fake_option(ops, config, "schema", o->schema);
	if (o->limit)
		fake_option(ops, config, "limit", limit);
	if (o->sha256)
		fake_option(ops, config, "sha256", NULL);
	env->symbol = o->symbol;
	free_fake_names();
	if (names_new(&fake_names, "--symbol", &o->symbol, o->symbol != NULL,
		      false, diag))
		exit(1);
	((struct sink_host *)(uintptr_t)env->host)->names = fake_names;
	rc = ops->open(sink, env, config, diag);
	free(config);
	return rc;
}

#endif
