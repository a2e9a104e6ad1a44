/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the commands that write recordings share: their messages and progress.
 */
#ifndef DECODE_CMD_REWRITE_H
#define DECODE_CMD_REWRITE_H

#include "decode/cmd/cmd.h"
#include "decode/lib/session/session.h"

/* One line of progress on standard error, when it is to be shown. */
struct cmd_progress {
	const char *what;	/* "decoding" */
	bool on;
	bool shown;
	uint64_t shown_ns;
};

void cmd_progress_init(struct cmd_progress *p, const struct cmd_options *o,
		       const char *what);
void cmd_progress_show(struct cmd_progress *p, uint64_t done, uint64_t total);
/* Takes the line away. */
void cmd_progress_end(struct cmd_progress *p);

/* The session that o asks for, without its filters. */
struct session_config cmd_session_config(const struct cmd_options *o);
/* -o is there and is not FILE; CMD_OK, or CMD_USAGE with a message. */
int cmd_needs_output(const struct cmd_options *o);
/* An error of a function that fills diag, or does not; path NULL: the text names
 * its file. Returns the status. */
int cmd_failed(const char *path, int err, struct aux_diag *diag);
/* One line on standard error: "auxdecode: OUT: text". */
void cmd_say(const char *path, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
