/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records for what existed before the events were enabled, read from /proc and
 * /sys: the kernel's map, modules, processes with their threads, names and
 * executable maps.
 *
 * Reading takes time and processes come and go: what cannot be read is counted,
 * and a deadline bounds it; the recording then says that side-band is
 * incomplete.
 */
#ifndef CAPTURE_DESCRIBE_SYNTH_PROC_H
#define CAPTURE_DESCRIBE_SYNTH_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <aux/error.h>

#include "capture/describe/codesave.h"
#include "capture/describe/synth.h"
#include "perfdata/writer.h"

struct synth_proc_options {
	const char *proc;	/* NULL: /proc; tests have their own */
	const pid_t *tids;	/* only the processes of these; NULL: all */
	size_t n_tids;
	bool kernel;		/* the kernel's map and modules, too */
	bool build_ids;		/* in MMAP2 records, as attr.build_id */
	bool data_maps;		/* not only executable ones */
	unsigned timeout_ms;	/* 0: none */
	struct codesave *save;	/* is told of code that no file has; NULL */
	struct synth_id id;	/* time 0; id of the side-band event */
};

struct synth_proc_result {
	uint64_t n_processes, n_threads, n_maps;
	uint64_t n_gone;	/* ended while we read: nothing lost */
	uint64_t n_unreadable;	/* permission or timeout: side-band incomplete */
	bool kernel_hidden;	/* kptr_restrict: addresses are shown as 0 */
	bool timed_out;
	uint64_t n_code;	/* bytes of code saved */
	uint64_t n_code_unread;	/* bytes that should have been */
};

/* FORK, COMM, MMAP2 per process as perf synthesizes them (guest-free host). The
 * vdso's bytes are saved through writer_code. */
int synth_proc(struct writer *w, const struct synth_proc_options *o,
	       struct synth_proc_result *r, struct aux_diag *diag);

#endif
