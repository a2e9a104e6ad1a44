/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codesave: code that a program makes while it is recorded.
 *
 * Executable memory without a file appears with an MMAP2 record, and changes
 * without one. So it is read again and again, and what changed is saved, from
 * the look before on: when in between it changed nobody knows. Where bytes that
 * may have run were replaced, that time is marked (AUX_CODE_UNKNOWN), so that no
 * reader takes the one for the other. jitdump files and the kernel's BPF
 * programs are saved, too.
 *
 * Looking costs time that the rings do not have: it is done by a thread of our
 * own. codesave_note may be called by any thread.
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
	uint64_t limit;		/* bytes saved of processes, at most; 0: default */
	bool kernel;		/* BPF programs and the like, too */
	uint32_t self;		/* a process that is left out: ours */
};
#define CODESAVE_LIMIT ((uint64_t)256 << 20)

struct codesave_stats {
	uint64_t n_looks;
	uint64_t n_saved;	/* bytes */
	uint64_t n_unknown;	/* bytes whose time of change is unknown */
	uint64_t n_unsaved;	/* bytes beyond limit, or not readable */
};

int codesave_new(struct codesave **s, const struct codesave_config *config);
void codesave_free(struct codesave *s);	/* NULL is allowed */

/* A record of the kernel, with its time (ns, perf clock). */
void codesave_note(struct codesave *s, const struct perf_event_header *h,
		   uint64_t time_ns);
/* Code of a process that existed before. kind: enum aux_code_kind. */
void codesave_watch(struct codesave *s, uint32_t pid, uint64_t addr,
		    uint64_t len, uint32_t kind);
/* One look, now. Errors of the writer and -AUX_E_NOMEM only. */
int codesave_look(struct codesave *s);
/* The file to write to from now on, which has nothing yet. NULL: none. Returns
 * when no look at the former is under way. */
void codesave_output(struct codesave *s, struct writer *w);

/* Looks by itself from now on. */
int codesave_start(struct codesave *s);
/* The recording ends: no more looks but one, then the jitdumps. The first error
 * of any look. */
int codesave_finish(struct codesave *s);

/* To be asked when no thread of ours runs. */
const struct codesave_stats *codesave_stats(const struct codesave *s);

/*
 * codesave_kernel.c: the kernel's text, its modules, BPF programs and names, as
 * they are now. Returns writer errors only; *n_unsaved gets the bytes that could
 * not be read, ~0 when there is no way to (kcore, kallsyms).
 */
int codesave_kernel(const char *proc, struct writer *w, uint64_t *n_unsaved);

#endif
