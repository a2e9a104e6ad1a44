/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * completion: scripts that complete words of a command line in bash, zsh and fish,
 * made from the tables that the program itself parses by.
 *
 * Every word after the program's name is looked at alone: the first that is a command
 * says which options there are. Specifications: bash(1), "Programmable Completion";
 * zshcompsys(1), "_arguments"; fish, "Writing your own completions".
 */
#ifndef COMMON_COMPLETION_H
#define COMMON_COMPLETION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct completion_command {
	const char *name, *help;	/* help may be "" */
	uint32_t bit;
};

struct completion_option {
	const char *name;	/* without -- */
	char letter;		/* 0: none */
	const char *arg;	/* NULL: takes none; else what it is called */
	bool optional;		/* --name=ARG, or no ARG */
	const char *values;	/* words for ARG, or NULL: FILE, DIR: paths, else
				 * nothing is offered */
	const char *help;
	uint32_t commands;	/* bits of those that take it */
};

struct completion {
	const char *program;
	const struct completion_command *commands;
	size_t n_commands;
	const struct completion_option *options;
	size_t n_options;
	uint32_t standard;	/* bit of the command that is meant without one */
	bool programs;		/* other words are programs, not files */
};

/* The script, to be freed; *text NULL: out of memory. -AUX_E_INVAL: no such shell,
 * -AUX_E_NOMEM. */
int completion_make(const struct completion *c, const char *shell, char **text);

#endif
