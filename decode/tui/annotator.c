/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * annotator: how often each instruction ran, for functions that are asked for
 * one by one. It is what annotate counts, by the same code: a pass of its own
 * over the recording, in a thread and a session of its own, from when the first
 * function is asked for. All functions are served from it.
 */
#include <stdlib.h>

#include "common/diag.h"
#include "decode/coverage/coverage.h"
#include "decode/tui/impl.h"

/* The counts, with the text of a bar of progress. */
static void on_progress(void *priv)
{
	struct annotator *a = priv;

	atomic_store(&a->done, a->stats.aux_decoded);
	atomic_store(&a->wanted, a->stats.aux_wanted);
}

static int count(struct annotator *a, struct aux_diag *diag)
{
	const struct session_pass_config config = {
		.ops = &sink_annotate, .sink = a->sink,
		.needs = sink_annotate.needs, .stats = &a->stats,
		.priv = a, .on_progress = on_progress,
	};
	struct session_pass *pass = NULL;
	int rc = session_pass_open(&pass, a->session, &config, diag);

	if (!rc)
		rc = 1;
	while (rc > 0 && !atomic_load(&a->stop))
		rc = session_pass_step(pass, diag);
	session_pass_close(pass);
	if (rc >= 0 && !atomic_load(&a->stop))
		rc = annotate_count(a->sink);
	return rc;
}

static int open_sink(struct annotator *a, struct aux_diag *diag)
{
	struct sink_env env = {
		.host = &a->host, .report = &a->report,
		.path = a->config->session->path,
		.symfs = a->config->session->code.symfs,
		.time_to = UINT64_MAX,
	};
	void *options = calloc(1, sink_annotate.config_size);
	int err = options ? sink_annotate.open(&a->sink, &env, options, diag) :
			    -AUX_E_NOMEM;

	free(options);
	return err;
}

static void *run(void *priv)
{
	struct annotator *a = priv;
	int err = session_open(&a->session, a->config->session, &a->diag);

	if (!err) {
		a->host = session_host(a->session);
		a->host.names = a->config->names[1];
		err = open_sink(a, &a->diag);
	}
	if (!err)
		err = count(a, &a->diag);
	a->error = err < 0 ? err : 0;
	atomic_store(&a->is_over, true);
	return NULL;
}

int annotator_start(struct annotator *a, const struct tui_config *config)
{
	if (a->started)
		return 0;
	a->config = config;
	a->diag.offset = AUX_NO_OFFSET;
	if (thread_start(&a->thread, run, a))
		return -AUX_E_NOMEM;
	a->started = true;
	return 0;
}

void annotator_end(struct annotator *a)
{
	if (!a->started)
		return;
	atomic_store(&a->stop, true);
	pthread_join(a->thread, NULL);
	sink_annotate.close(a->sink);
	session_close(a->session);
	a->started = false;
}

bool annotator_is_busy(const struct annotator *a)
{
	return a->started && !atomic_load(&a->is_over);
}

/* The thread is over: what it had is this thread's now. */
int annotator_text(struct annotator *a, const char *name, const char *dso,
		   struct outbuf *out)
{
	return annotate_function(a->sink, name, dso, out);
}
