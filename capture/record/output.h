/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * output: the file of a recording, or its files when they are rotated.
 *
 * One file is open at a time. output_switch completes it under a dated name, as
 * perf's --switch-output does, and opens the next. Invariant: only files that
 * this run created are ever removed, oldest first; a failure to rename or open one
 * file leaves the others untouched. The main thread's, with all writers at rest.
 */
#ifndef CAPTURE_RECORD_OUTPUT_H
#define CAPTURE_RECORD_OUTPUT_H

#include "perfdata/writer.h"

struct output;

struct output_options {
	const char *path;
	struct writer_options w;
	unsigned keep;		/* finished files to retain; 0: all */
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

/* The present file's writer; output_switch replaces it. NULL if the last switch
 * could not open a file. */
struct writer *output_writer(const struct output *o);

/* A pipe carries a single recording and cannot be switched. */
bool output_is_pipe(const struct output *o);

/*
 * Completes the present file as path.YYYYMMDDHHMMSSuu and opens the next as path;
 * the caller then adds attrs and header records again. No other thread may use
 * the writer during the call. If completing the present file fails, the next one
 * is opened all the same; if that fails, output_writer returns NULL. A pipe is
 * -AUX_E_UNSUPPORTED.
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
