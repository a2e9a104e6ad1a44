/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recording sources (D9). A source is one file and one line of the table in
 * cmd/record.c: it understands the terms of its events, declares the events in
 * the file, and records until the program ends or the user stops it.
 *
 * Order of calls: open (nothing is touched yet: a bad event costs no file), run
 * once, ended, close. The writer's host features and its close belong to the caller.
 */
#ifndef CAPTURE_RECORD_SOURCE_H
#define CAPTURE_RECORD_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/error.h>

#include "capture/event/event.h"
#include "perfdata/ledger.h"
#include "capture/record/output.h"

struct kernel_options;

/* What the user wants recorded; outlives the source. */
struct source_job {
	const struct kernel_options *kernel;	/* source_kernel's; else NULL */
	int argc;			/* auxcap's command line */
	char *const *args;
	/* the software sources': */
	const struct event_spec *event;
	char *const *argv;		/* the program; NULL ended */
	const char *self_dir;		/* where our helper objects are */
	const char *truth_path;		/* NULL: none */
	uint32_t inject_overflow;	/* 0: never */
	bool per_thread;
	/* NULL, or called about twice a second while it records */
	void (*progress)(void *priv, uint64_t n_insns, uint64_t aux_bytes);
	void *progress_priv;
	const volatile bool *stop;	/* becomes true when the user stops */
};

struct source_result {
	uint64_t n_insns;	/* 0: not counted */
	uint64_t n_threads;
	char not_traced[512];	/* which processes and why, a line each */
	int status;		/* the program's, as wait(2) gives it */
	/* of the kernel source alone: */
	bool kernel;		/* it was */
	bool has_aux;		/* an AUX area was recorded */
	bool stopped;		/* by a signal or a command */
	bool terminated;	/* the program did not end before the recording */
	bool full;		/* --max-size ended it */
	bool never_enabled;	/* -D had not run out, and no command came */
	unsigned n_switched;	/* files finished by rotation */
	char notes[800];	/* done otherwise than asked, and why; or "" */
	uint64_t n_samples, n_wakeups, n_restarts, n_snapshots;
	uint64_t aux_bytes;	/* saved, over all files */
	uint64_t sampled_bytes;	/* of trace in samples, the same several times */
	bool sampling;		/* trace comes in samples alone */
	uint64_t wall_ns, cpu_ns;	/* of the recording; ours */
	uint64_t n_unreadable;	/* processes whose maps could not be read */
	bool kernel_hidden;	/* its code was recorded, not where it lies */
	uint64_t code_saved;	/* bytes of code that programs made */
	uint64_t code_unsaved;	/* of which no more could be saved */
	uint64_t n_kernel_unsaved;	/* --kcore: bytes; ~0: all */
};

struct source_ops {
	const char *name;	/* of the PMU in event specifications */
	const char *help;	/* one line */
	/* -AUX_E_INVAL: the event's terms; -AUX_E_UNSUPPORTED: not here */
	int (*open)(void **src, const struct source_job *job,
		    struct aux_diag *diag);
	/* Adds the attrs, records, and enters all streams into the ledger. On
	 * an error what was recorded so far is in the writer all the same. */
	int (*run)(void *src, struct output *out, struct ledger *ledger,
		   struct source_result *result, struct aux_diag *diag);
	/* After run, when the file is closed: whether the program has ended, and
	 * its status; a sig other than 0 is sent to it first. NULL: run waits. */
	bool (*ended)(void *src, int sig, int *status);
	void (*close)(void *src);	/* NULL is allowed */
};

extern const struct source_ops source_soft_pt, source_soft_etm, source_kernel;

#endif
