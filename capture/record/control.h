/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control FIFO: commands while a recording runs, as perf's --control.
 *
 * "fifo:COMMANDS[,ACKS]" or "fd:N[,M]". One command per line. If an ack channel was
 * given, each command is answered after it has been carried out: "ack\n", or
 * "error: ...\n" for one that is unknown or failed.
 */
#ifndef CAPTURE_RECORD_CONTROL_H
#define CAPTURE_RECORD_CONTROL_H

#include <stdbool.h>
#include <stddef.h>

#include <aux/error.h>

enum control_command {
	CONTROL_NONE,
	CONTROL_ENABLE,
	CONTROL_DISABLE,
	CONTROL_SNAPSHOT,	/* its argument is a label, "" for none */
	CONTROL_SWITCH,		/* next file */
	CONTROL_PING,
	CONTROL_STOP,
	CONTROL_EVLIST,
	CONTROL_UNKNOWN,
};

struct control {
	int fd, ack_fd;		/* -1: none */
	bool ours;		/* control_close closes the fds */
	char buf[512];		/* input, then the current line */
	size_t used;		/* bytes of input */
	bool skipping;		/* inside a line too long for buf */
};

/* -AUX_E_INVAL: bad text; -AUX_E_IO: cannot be opened. The error for a FIFO that
 * does not exist names mkfifo. */
int control_open(struct control **c, const char *text, struct aux_diag *diag);
void control_close(struct control *c);

/* The next complete command and its argument ("" for none; of an unknown command,
 * its text), valid until the next call. CONTROL_NONE: nothing has arrived. */
enum control_command control_next(struct control *c, const char **arg);
/* Answers a command; text is "ack" or "error: ...", without the newline. */
void control_ack(struct control *c, const char *text);

#endif
