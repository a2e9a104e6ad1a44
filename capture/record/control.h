/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control FIFO: commands while a recording runs, as perf's --control.
 *
 * "fifo:COMMANDS[,ACKS]" or "fd:N[,M]". One command a line; each is answered
 * with "ack\n" where an ack channel was named, when it has been carried out
 * (an unknown one with "error: ...\n").
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
	CONTROL_SNAPSHOT,	/* with a label, if any, behind it */
	CONTROL_SWITCH,		/* next file */
	CONTROL_PING,
	CONTROL_STOP,
	CONTROL_EVLIST,
	CONTROL_UNKNOWN,
};

struct control {
	int fd, ack_fd;		/* -1: none */
	bool ours;		/* fds to be closed */
	char buf[512];
	size_t used;
	bool skipping;		/* a line too long for buf */
};

/* -AUX_E_INVAL: the text; -AUX_E_IO: cannot be opened. FIFOs that do not exist
 * are an error that names mkfifo. */
int control_open(struct control **c, const char *text, struct aux_diag *diag);
void control_close(struct control *c);

/* The next whole command that has arrived, and its argument ("" none); the
 * pointer lives until the next call. CONTROL_NONE: nothing now. */
enum control_command control_next(struct control *c, const char **arg);
/* Carried out: text is "ack" or an error, a line. */
void control_ack(struct control *c, const char *text);

#endif
