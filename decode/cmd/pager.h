/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pager: what a person reads on a terminal goes through a pager, and gets colour on
 * the way. Both are processes behind a pipe that takes the place of standard output
 * (and of standard error, where that is the same terminal), so that no command
 * knows of them, and what goes into a file or a pipe is not touched.
 */
#ifndef DECODE_CMD_PAGER_H
#define DECODE_CMD_PAGER_H

#include <stdbool.h>
#include <sys/types.h>

#include "decode/cmd/cmd.h"

struct pager {
	pid_t pids[2];	/* 0: none */
	bool both;	/* standard error goes there, too */
};

/* NO_COLOR (no-color.org) and a dumb terminal: no. */
bool pager_wants_colour(enum cmd_color color, const char *out_path);
/*
 * A pager when standard output is a terminal and page says so: $AUXDECODE_PAGER,
 * $PAGER, less; none when that is empty or "cat". Colour whether or not there is
 * one. What cannot be started is left out.
 */
void pager_start(struct pager *p, bool page, bool colour);
/* All is written: waits until it was read. */
void pager_wait(struct pager *p);

/*
 * A line as it is coloured: comments, gaps, names of functions. Into out, which has
 * room for PAGER_GROWTH times len bytes; returns how many.
 */
#define PAGER_GROWTH 12

#endif
