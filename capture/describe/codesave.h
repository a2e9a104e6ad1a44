/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codesave: saves code that programs generate while they are recorded.
 *
 * Executable memory without a file appears with an MMAP2 record and changes without
 * one. So it is read again and again, and pages that changed are saved, valid from
 * the scan before on: when they changed in between is unknown. Where bytes that may
 * have run were replaced, that interval is marked (AUX_CODE_UNKNOWN), so that a reader
 * does not decode trace of the old bytes with the new. jitdump files and the kernel's
 * BPF programs are saved too.
 *
 * Scanning takes time that the readers of the rings do not have: it runs on a thread of
 * its own. codesave_inspect and codesave_watch may be called by any thread; they only
 * queue a request. The other functions are the main thread's.
 */
#ifndef CAPTURE_DESCRIBE_CODESAVE_H
#define CAPTURE_DESCRIBE_CODESAVE_H

#include <stdbool.h>
#include <stdint.h>
#include <linux/perf_event.h>

#include <aux/error.h>

#include "perfdata/writer.h"

struct codesave;

struct codesave_config {
	const char *proc;	/* NULL: /proc; tests have their own */
	uint64_t limit;		/* bytes of processes per file; 0: CODESAVE_LIMIT */
	bool kernel;		/* also what KSYMBOL records announce: BPF, ftrace */
	uint32_t self;		/* a process to ignore: auxcap's own */
};
#define CODESAVE_LIMIT ((uint64_t)256 << 20)

struct codesave_stats {
	uint64_t n_scans;
	uint64_t n_saved;	/* bytes, in the present file */
	uint64_t n_unknown;	/* bytes marked AUX_CODE_UNKNOWN */
	uint64_t n_unsaved;	/* bytes beyond limit, or not readable */
};

int codesave_new(struct codesave **s, const struct codesave_config *config);
void codesave_free(struct codesave *s);	/* accepts NULL */

/* Evaluates a record of the kernel with its time (ns, perf clock). */
void codesave_inspect(struct codesave *s, const struct perf_event_header *h,
		   uint64_t time_ns);
/* Adds code of a process that existed before. kind: enum aux_code_kind. */
void codesave_watch(struct codesave *s, uint32_t pid, uint64_t addr,
		    uint64_t len, uint32_t kind);
/* Scans once, in the calling thread. Errors of the writer and -AUX_E_NOMEM only. */
int codesave_scan(struct codesave *s);
/* Sets the file to write to, which has nothing of ours yet; NULL: none. Waits for a
 * scan that still writes to the former file. */
void codesave_output(struct codesave *s, struct writer *w);

/* Starts the thread that scans. */
int codesave_start(struct codesave *s);
/* At the end: stops the thread, scans once more, saves the jitdumps. Returns the first
 * error of any scan. */
int codesave_finish(struct codesave *s);

/* Valid while the thread does not run. */
const struct codesave_stats *codesave_stats(const struct codesave *s);

/*
 * Saves the kernel's text, modules, BPF programs and symbols as they are now. Returns
 * writer errors only; *n_unsaved: bytes that could not be read, ~0 if kcore or the
 * addresses in kallsyms are not accessible. proc NULL: /proc.
 */
int codesave_kernel(const char *proc, struct writer *w, uint64_t *n_unsaved);

#endif
