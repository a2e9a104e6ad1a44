/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * output: the file of a recording, or the files when it is rotated.
 *
 * One file at a time is open. output_switch completes it under a dated name, as
 * perf's --switch-output does, and opens the next. Invariant: only files that
 * this run made are ever removed, oldest first, and a file that cannot be named
 * or opened leaves the others as they are.
 */
#ifndef CAPTURE_RECORD_OUTPUT_H
#define CAPTURE_RECORD_OUTPUT_H

#include "perfdata/writer.h"

struct output;

struct output_options {
	const char *path;
	struct writer_options w;
	unsigned keep;		/* at most so many finished files; 0: all */
	/*
	 * Called once for each file before it is completed, and not when it is
	 * discarded: adds ledger and features. Its error is reported, but the
	 * file is completed all the same.
	 */
	int (*finish)(void *priv, struct writer *w);
	void *priv;
};

/* Opens the first file. Strings are copied. */
int output_open(struct output **o, const struct output_options *opt,
		struct aux_diag *diag);

/* The present file; another one after output_switch. NULL when the last switch
 * could not open it. */
struct writer *output_writer(const struct output *o);

/* A pipe has one recording, which cannot be switched. */
bool output_is_pipe(const struct output *o);

/*
 * Completes the present file as path.YYYYMMDDHHMMSSuu and opens the next under
 * path; the caller then adds attrs and header records again. No other thread
 * may use the writer meanwhile. On an error of the present file the next one is
 * still opened; without a next one output_writer is NULL. A pipe cannot be
 * switched (-AUX_E_UNSUPPORTED).
 */
int output_switch(struct output *o, struct aux_diag *diag);

/* Files completed by output_switch so far. */
unsigned output_n_switched(const struct output *o);

/*
 * Completes the present file and frees o; NULL is allowed. After a switch the
 * last file gets a dated name too, as perf does.
 */
int output_close(struct output *o, struct aux_diag *diag);

/* Removes the present file (those before stay) and frees o. NULL is allowed. */
void output_discard(struct output *o, struct aux_diag *diag);

#endif
