/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * colour: what makes a terminal's text stand out, as strings to be put around
 * it. Without colour they are empty, so callers need no test of their own.
 */
#ifndef COMMON_TERM_H
#define COMMON_TERM_H

#include <stdbool.h>

struct colour {
	const char *name;	/* of functions */
	const char *number;	/* what is counted */
	const char *dim;	/* what matters less: addresses, paths */
	const char *head;	/* headings */
	const char *bad;	/* gaps, losses, what only A has */
	const char *good;	/* complete, what only B has */
	const char *end;	/* back to normal */
};

/*
 * A constant. Escape sequences of ECMA-48, "Select graphic rendition"; the
 * eight plain colours alone, so that light and dark terminals both show them as
 * they like.
 */
static inline const struct colour *colour_get(bool on)
{
	static const struct colour plain = { "", "", "", "", "", "", "" };
	static const struct colour ansi = {
		.name = "\033[36m", .number = "\033[33m", .dim = "\033[2m",
		.head = "\033[1m", .bad = "\033[31m", .good = "\033[32m",
		.end = "\033[0m",
	};

	return on ? &ansi : &plain;
}

#endif
