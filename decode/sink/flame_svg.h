/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flamesvg: a call tree as a flame graph in one SVG file, which needs nothing else: a
 * still picture without script; with it, a click zooms, Ctrl-F searches, and it
 * fits the window. Light or dark as the reader has it.
 */
#ifndef DECODE_SINK_FLAME_SVG_H
#define DECODE_SINK_FLAME_SVG_H

#include "decode/callstack/calltree.h"
#include "common/outbuf.h"

struct flamesvg_config {
	const char *file;	/* for the heading; NULL: none */
	const char *unit;
	const char *symbol;	/* only what is below this function; NULL: all */
	enum calltree_by by;
	double min_percent;	/* less is not drawn; 0: what could not be seen */
};

/* The tree is summed up, and sorted as it is to be drawn. 1; 0, and nothing is
 * written, if there is nothing to draw; or -AUX_E_NOMEM. A failure to write is the
 * outbuf's. */
int flamesvg_write(struct outbuf *out, const struct calltree *t,
		   const struct calls *c, const struct flamesvg_config *config);

#endif
