/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * record: one recording, from whatever source.
 *
 * A source is one file and one line of the table in capture/cmd/record.c: it
 * understands the terms of its events, declares the events in the file, and
 * records until the program ends or the user stops it. The kernel
 * (perf_event_open) is one source; the software sources in capture/soft/ are
 * others.
 *
 * Order of calls: open, run once, ended, close. open refuses whatever can be
 * refused before any file is touched, so a mistyped event costs no file. The
 * writer's host features and its close belong to the caller.
 */
#ifndef CAPTURE_RECORD_RECORD_H
#define CAPTURE_RECORD_RECORD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

#include "capture/event/event.h"
#include "capture/event/evlist.h"
#include "capture/event/target.h"
#include "capture/event/trigger.h"
#include "perfdata/ledger.h"
#include "perfdata/writer.h"

#define KERNEL_START_DISABLED (-1)

/*
 * output: the file of a recording, or its files when they are rotated.
 *
 * One file is open at a time. output_switch completes it under a dated name, as
 * perf's --switch-output does, and opens the next. Invariant: only files that
 * this run created are ever removed, oldest first; a failure to rename or open
 * one file leaves the others untouched. The main thread's, with all writers at
 * rest.
 */

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
 * Completes the present file as path.YYYYMMDDHHMMSSuu and opens the next as
 * path; the caller then adds attrs and header records again. No other thread
 * may use the writer during the call. If completing the present file fails, the
 * next one is opened all the same; if that fails, output_writer returns NULL. A
 * pipe is -AUX_E_UNSUPPORTED.
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

/* What the user asked of the kernel source; each field names its option. */
struct kernel_options {
	const struct evlist_word *words;	/* -e with their --filter */
	size_t n_words;
	struct target_spec target;
	size_t data_pages, aux_pages;	/* -m; 0: chosen by explain_fit */
	bool snapshot;		/* -S */
	bool snapshot_at_exit;	/* -Se */
	bool overwrite;		/* --overwrite: backward rings for samples */
	uint32_t aux_sample_size;	/* --aux-sample; 0: none */
	uint64_t freq, period;	/* -F, -c; 0: default */
	bool callgraph;		/* -g */
	bool all_user, all_kernel;	/* of all events */
	int delay_ms;		/* -D; KERNEL_START_DISABLED: until a command */
	unsigned n_threads;	/* --threads; 0: by the number of rings */
	uint64_t max_size;	/* --max-size; 0: no limit */
	uint64_t switch_size;	/* --switch-output=SIZE; 0: off */
	unsigned switch_ms;	/* --switch-output=TIME; 0: off */
	bool switch_signal;	/* --switch-output: on SIGUSR2, unless that
				 * signal takes snapshots */
	const char *control;	/* --control; NULL: none */
	const struct triggers *triggers; /* --when, whose events are among words; or
					  * NULL */
	const struct triggers *windows;	/* --window; NULL: none */
	bool no_synth;		/* do not synthesize what existed before */
	bool kcore;		/* save the kernel's code */
	bool no_code;		/* do not save code that programs generate */
	/* A signalfd for the signals that cmd_record has blocked: SIGUSR2 takes
	 * a snapshot or switches the file, SIGCHLD merely wakes the loop,
	 * SIGCONT tells that we were stopped, all others end the recording. */
	int signal_fd;
};

/* What the user wants recorded. Must outlive the source. */
struct source_job {
	const struct kernel_options *kernel;	/* NULL: a software source */
	int argc;			/* auxcap's command line */
	char *const *args;

	/* Software sources only. */
	const struct event_spec *event;
	char *const *argv;		/* the program; NULL terminated */
	const struct target_spec *attach; /* what runs already; NULL: argv */
	const char *self_dir;		/* where our helper objects are installed */
	const char *truth_path;		/* --truth; NULL: none */
	const char *filter;		/* --filter: what to trace; NULL: all */
	const struct triggers *triggers; /* --when; NULL: none */
	size_t ring_bytes;		/* -S: so much is kept of each CPU; 0: all */
	bool snapshot_at_exit;		/* -Se */
	const volatile sig_atomic_t *asked;	/* how often a snapshot was asked for */
	uint32_t inject_overflow;	/* test aid: an OVF so often; 0: never */
	unsigned delay_ms;		/* -D: the program runs so long without us */
	uint64_t max_size;		/* --max-size; 0: no limit */
	void (*end)(void);		/* called when the file has reached that: shall set
					 * stop */
	bool per_thread;
	bool verbose;			/* notes say what it cost, too */

	/* Called about twice a second while recording; NULL: not. */
	void (*progress)(void *priv, uint64_t n_insns, uint64_t aux_bytes);
	void *progress_priv;
	const volatile sig_atomic_t *stop;	/* how often the user asked for
						 * the end */
};

/* What a recording came to. Filled by run, valid also when run failed. */
struct source_result {
	/* Software sources. */
	uint64_t n_insns;	/* 0: not counted */
	uint64_t n_threads;
	char not_traced[512];	/* which processes and why, one line each */

	int status;		/* the program's, as wait(2) reports it */

	/* Kernel source: how it ended. */
	bool kernel;		/* the kernel was the source */
	bool has_aux;		/* an AUX area was recorded */
	bool stopped;		/* by a signal or a command */
	bool terminated;	/* the program outlived the recording */
	bool full;		/* --max-size ended it */
	bool never_enabled;	/* -D did not expire, and no command came */
	unsigned n_switched;	/* files completed by rotation */
	char notes[800];	/* deviations from what was asked, and why; "" */

	/* Kernel source: how much. */
	uint64_t n_samples, n_wakeups, n_restarts, n_snapshots;
	uint64_t aux_bytes;	/* saved, over all files */
	uint64_t sampled_bytes;	/* trace inside samples; windows may overlap */
	bool sampling;		/* trace exists in samples only */
	uint64_t wall_ns;	/* duration of the recording */
	uint64_t cpu_ns;	/* CPU time of auxcap itself */

	/* Kernel source: what the decoder will miss. */
	uint64_t n_unreadable;	/* processes whose /proc/PID/maps we may not read */
	bool kernel_hidden;	/* kernel code traced, its addresses restricted */
	uint64_t code_saved;	/* bytes of generated code in the file */
	uint64_t code_unsaved;	/* bytes beyond codesave's limits */
	uint64_t n_kernel_unsaved;	/* --kcore: bytes missing; ~0: all */
};

struct source_ops {
	const char *name;	/* the PMU's name in event specifications */
	const char *help;	/* one line */
	/* The terms of a software source, ended by a NULL name: those of the real
	 * PMU, and words of its own. NULL: sysfs has them. */
	const struct event_field *fields;
	const char *const *words;
	/* Parses the event and acquires everything. -AUX_E_INVAL: bad terms;
	 * -AUX_E_UNSUPPORTED: not on this machine. */
	int (*open)(void **src, const struct source_job *job,
		    struct aux_diag *diag);
	/* Adds attrs and records, and enters every stream into the ledger. On
	 * error the writer still holds all that was recorded before it. */
	int (*run)(void *src, struct output *out, struct ledger *ledger,
		   struct source_result *result, struct aux_diag *diag);
	/* After run and after the file is closed: sends sig to the program if
	 * not 0, and returns whether it has ended, with its status. NULL: run
	 * has waited for it already. */
	bool (*ended)(void *src, int sig, int *status);
	void (*close)(void *src);	/* accepts NULL */
};

extern const struct source_ops source_soft_pt, source_soft_etm, source_kernel;

#endif
