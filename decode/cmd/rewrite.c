/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the commands that write recordings (bundle, cut, merge, repair) share:
 * progress, the plain session, and messages that name a file. verify and diff
 * use the same progress and messages.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "decode/cmd/impl.h"
#include "perfdata/rewrite.h"

/* Shown on a terminal unless --no-progress, elsewhere only with --progress. The
 * first line comes after CMD_PROGRESS_NS, so short work shows none. */
void cmd_progress_init(struct cmd_progress *p, const struct cmd_options *o,
		       const char *what)
{
	*p = (struct cmd_progress){
		.what = what,
		.on = o->output.progress > 0 ||
		      (o->output.progress < 0 && isatty(STDERR_FILENO)),
		.shown_ns = clock_ns(),
	};
}

/* At most four times a second: a terminal over a slow line must not slow the
 * copy.
 * */
void cmd_progress_show(struct cmd_progress *p, uint64_t done, uint64_t total)
{
	uint64_t now;

	if (!p->on)
		return;
	now = clock_ns();
	if (now - p->shown_ns < CMD_PROGRESS_NS)
		return;
	p->shown_ns = now;
	p->shown = true;
	fprintf(stderr, "\rauxdecode: %s %3.0f %% ", p->what,
		total ? 100.0 * (double)done / (double)total : 0.0);
}

void cmd_progress_end(struct cmd_progress *p)
{
	if (p->shown)
		fprintf(stderr, "\r\033[K");
	p->shown = false;
}

/* No filters: what writes or compares recordings decides by itself what it
 * takes.
 * */
struct session_config cmd_session_config(const struct cmd_options *o)
{
	return (struct session_config){
		.path = o->path,
		.decoder = o->decoding.decoder,
		.plugin = o->decoding.plugin,
		.import = &o->import.options,
		.code = o->code,
		.n_workers = 1,
		.chunk_min = o->decoding.chunk_min,
		.max_memory = o->decoding.max_memory,
		.tid = -1,
		.cpu = -1,
		.time_to = UINT64_MAX,
	};
}

uint64_t cmd_memory(const struct cmd_options *o)
{
	return o->decoding.max_memory ? o->decoding.max_memory : SESSION_MEMORY;
}

/* A recording is binary, so it never goes to standard output by default. */
int cmd_needs_output(const struct cmd_options *o)
{
	struct aux_diag diag;

	if (!o->output.path)
		return cmd_usage("%s wants -o FILE: what it is to write",
				 o->command->name);
	if (rewrite_refuse_input(o->output.path, o->path, &diag) < 0)
		return cmd_error(NULL, &diag);
	return CMD_OK;
}

/* Bad options (AUX_E_INVAL) are not about a file, so the path is left out. */
int cmd_failed(const char *path, int err, struct aux_diag *diag)
{
	if (!diag->code) {
		diag->code = abs(err);
		diag->offset = AUX_NO_OFFSET;
	}
	return cmd_error(diag->code == AUX_E_INVAL ? NULL : path, diag);
}

/* Results for people go to standard error, as messages do: what a command
 * writes is in the file of -o. */
void cmd_say(const char *path, const char *fmt, ...)
{
	char text[768];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	cmd_line("auxdecode: %s: %s", path, text);
}
