/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gdb: a recording as the target of a debugger: the GDB remote protocol, with reverse
 * execution.
 *
 * What trace has is exact: which instruction runs, in which thread, and what ran before
 * and after it. What it has not is said to be unavailable: all registers but the program
 * counter, and memory that the program could write to.
 *
 * Specification: GDB manual, appendix "GDB Remote Serial Protocol".
 */
#ifndef DECODE_GDB_GDB_H
#define DECODE_GDB_GDB_H

#include "decode/lib/replay/replay.h"

struct gdb_config {
	struct session *session;
	int in, out;		/* descriptors; not closed */
	int64_t pid;		/* -1: see replay.h */
	bool at_begin;		/* where it starts: else at the end */
	const char *(*gap_text)(unsigned cause);	/* NULL: gap_text() */
};

/* Answers one debugger until it detaches, or goes away. 0, or -AUX_E_*. */
int gdb_serve(const struct gdb_config *config, struct aux_diag *diag);

#endif
