/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recording from the kernel: perf_event_open, rings, the loop around them.
 *
 * kernel_open opens, maps and explains; no file is touched. kernel_run writes
 * the recording. The parts: source_kernel.c (what is open), header.c
 * (what stands before the data), loop.c (the loop: signals, control,
 * rotation, the end).
 */
#ifndef CAPTURE_RECORD_KERNEL_H
#define CAPTURE_RECORD_KERNEL_H

#include <signal.h>

#include "capture/describe/codesave.h"
#include "capture/record/control.h"
#include "capture/event/evlist.h"
#include "capture/event/evset.h"
#include "capture/event/explain.h"
#include "capture/record/output.h"
#include "capture/record/recorder.h"
#include "capture/record/source.h"
#include "capture/event/target.h"

#define KERNEL_START_DISABLED (-1)

struct kernel_options {
	const struct evlist_word *words;	/* -e with their --filter */
	size_t n_words;
	struct target_spec target;
	size_t data_pages, aux_pages;	/* -m; 0: chosen */
	bool snapshot;		/* -S */
	bool snapshot_at_exit;	/* -Se */
	bool overwrite;
	uint32_t aux_sample_size;
	uint64_t freq, period;
	bool callgraph;
	int delay_ms;		/* -D; KERNEL_START_DISABLED */
	unsigned n_threads;	/* 0: chosen */
	uint64_t max_size;	/* 0: none */
	uint64_t switch_size;	/* rotate at this size; 0: not */
	unsigned switch_ms;	/* and so often; 0: not */
	bool switch_signal;	/* and on SIGUSR2, when that takes no snapshot */
	const char *control;	/* --control; NULL */
	bool no_synth;		/* what existed before is not described */
	bool kcore;		/* the kernel's code is saved */
	bool no_code;		/* code that programs make is not saved */
	/* Signals that cmd_record has blocked come here: SIGINT, SIGTERM, SIGHUP
	 * end the recording, SIGUSR2 see above, SIGCHLD wakes. */
	int signal_fd;
};

struct kernel {
	const struct source_job *job;
	const struct kernel_options *o;
	struct explain_system sys;
	struct evlist events;
	struct target target;
	struct evset set;
	struct ring *rings;
	struct recorder *recorder;
	struct codesave *save;	/* NULL: not wanted */
	struct control *control;
	struct ledger *ledger;		/* of the present file */
	struct source_result *result;
	struct output *out;
	bool stopped;			/* by the user */
	bool full;			/* max_size was reached */
	bool enabled;
	char fit_text[256];		/* of explain_fit */
};

/* header.c: attrs, features, AUXTRACE_INFO. Each file of a rotation gets
 * them anew. */
int kernel_header(struct kernel *k, struct writer *w, struct aux_diag *diag);
/* What existed before: a while's work, and data may come between. again: the
 * program has begun. */
int kernel_describe(struct kernel *k, struct writer *w, bool again,
		    struct aux_diag *diag);
/* loop.c */
int kernel_loop(struct kernel *k, struct aux_diag *diag);

#endif
