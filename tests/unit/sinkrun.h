/* SPDX-License-Identifier: BSD-2-Clause */
/* sinkrun.h: a sink on fakehost.h's program, from its options to its text. */
#ifndef TESTS_UNIT_SINKRUN_H
#define TESTS_UNIT_SINKRUN_H

#include <stdlib.h>

#include "common/outbuf.h"
#include "tests/unit/fakehost.h"
#include "tests/unit/fakeoptions.h"

struct run {
	struct fake fake;
	struct sink_host host;
	struct sink_report report;
	struct sink_env env;
	struct fake_options config;
	const struct sink_ops *ops;
	void *sink;
	struct aux_diag diag;
	int last;	/* what flow returned last */
	int finished;	/* what finish returned */
};

/* Opens the sink with r->config. Returns what its open does, diag in r->diag; on an
 * error env.out is the caller's to free. */
static int run_open(struct run *r, const struct sink_ops *ops)
{
	r->host = fake_host(&r->fake);
	r->env.out = outbuf_new(-1);
	r->env.host = &r->host;
	r->env.report = &r->report;
	r->ops = ops;
	return fake_open(ops, &r->sink, &r->env, &r->config, &r->diag);
}

/* All that is in the buffer, as a string for the caller to free. Frees the buffer. */
static char *take_text(struct outbuf *o)
{
	char *text = strndup(o->buf, (size_t)(o->p - o->buf));

	outbuf_free(o);
	return text;
}

/* Ends the run. Returns its text, for the caller to free. */
static char *run_close(struct run *r)
{
	r->finished = r->ops->finish(r->sink, &r->diag);
	r->ops->close(r->sink);
	return take_text(r->env.out);
}

#endif
