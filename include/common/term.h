/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * colour: what makes a terminal's text stand out, as strings to be put around it.
 * Without colour they are empty, so callers need no test of their own.
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

/* Never NULL; a constant. */
const struct colour *colour_get(bool on);

#endif
