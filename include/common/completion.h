/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * completion: scripts that complete words of a command line in bash, zsh and fish,
 * made from the tables that the program itself parses by.
 *
 * The first word says which options there are, and which words an option's argument
 * may be: option_row.values, or files where the argument is called FILE, DIR or PATH.
 * Specifications: bash(1), "Programmable Completion";
 * zshcompsys(1), "_arguments"; fish, "Writing your own completions".
 */
#ifndef COMMON_COMPLETION_H
#define COMMON_COMPLETION_H

#include <stdbool.h>
#include <stddef.h>

#include "common/options.h"

struct completion_command {
	const char *name, *help;	/* help may be "" */
	const struct option_row *const *tables;	/* what it takes; NULL-ended */
};

struct completion {
	const char *program;
	const struct completion_command *commands;
	size_t n_commands;
	size_t standard;	/* index of the command that is meant without one */
	bool programs;		/* operands are programs, too, not files alone */
};

/* The script, to be freed; *text NULL: out of memory. -AUX_E_INVAL: no such shell,
 * -AUX_E_NOMEM. */
int completion_make(const struct completion *c, const char *shell, char **text);

#endif
