/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * soft: from "this thread ran these blocks" to an Intel PT or CoreSight
 * recording.
 *
 * The two back ends (emulate.c, step.c) observe a program and call
 * the functions of this file; stream.c keeps the virtual clock, places
 * threads on (virtual) CPUs, feeds the packet encoder and writes side-band, AUX
 * and code bytes through the writer. All calls come from one thread.
 *
 * Time is a declared virtual clock: one instruction is one TSC tick is one
 * nanosecond, and time in the kernel is added as measured. It only grows along
 * a CPU, and a thread never runs code before the time of the record that maps
 * that code.
 */
#ifndef CAPTURE_SOFT_SOFT_H
#define CAPTURE_SOFT_SOFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

#include "capture/describe/synth.h"
#include "perfdata/writer.h"

enum soft_trace {
	SOFT_TRACE_PT,		/* Intel PT, of x86-64 programs */
	SOFT_TRACE_ETM,		/* ETMv4 or ETE, of aarch64 programs */
};

/* What a CoreSight event's terms ask for. */
struct soft_etm {
	bool ete;		/* else ETMv4 */
	bool raw;		/* as a TRBE saves it, else 16-byte frames */
	bool shared;		/* one sink for all virtual CPUs: framed alone */
	bool timestamp, contextid, vmid, cycacc, retstack, broadcast;
	uint32_t cc_threshold;	/* TRCCCCTLR: cycles, at least 4 */
	uint32_t sync_period;	/* TRCSYNCPR: A-sync each 2^n bytes, 8 to 20 */
};

/* What the event's terms ask for; checked by the event parser. */
struct soft_config {
	enum soft_trace trace;
	struct soft_etm etm;
	bool tsc, mtc, cyc, retcomp, branch, ptw, fup_on_ptw;
	bool per_thread;	/* a stream per thread, else per virtual CPU */
	bool defer_tip;		/* TIPs may wait behind a TNT */
	uint32_t mtc_period;	/* log2: MTC each 2^n CTC ticks */
	uint32_t psb_period;	/* PSB each 2^(n+11) bytes */
	uint32_t cyc_thresh;
	uint32_t n_cpus;	/* virtual CPUs, >= 1 */
	uint32_t inject_overflow; /* every this many PSB periods; 0 never */
	uint64_t event_id;	/* id of the PT attr: AUX, ITRACE_START */
	uint64_t sideband_id;	/* of the attr that tracks tasks and maps */
	uint64_t attr_config;	/* as in the PT attr */
	uint32_t pmu_type;	/* attr.type of the PT attr */
	uint64_t start_ns;	/* the clock's first value */
	const char *truth_path;	/* NULL: no truth file */
	/* NULL, or told of each stream that ends: when it ran */
	void (*stream_end)(void *priv, uint32_t idx, uint64_t first_ns,
			   uint64_t last_ns);
	/* NULL, or told of each process that cannot be followed */
	void (*not_traced)(void *priv, uint32_t pid, const char *program,
			   const char *why);
	void *priv;
};

/*
 * A straight run of instructions: entered at start alone, left at its end alone
 * (or cut, see soft_cut). Immutable once used. Back ends keep tables of them.
 */
struct soft_block {
	uint64_t start;
	uint64_t end;		/* first address behind the last instruction */
	uint64_t target;	/* of a direct branch at the end */
	uint32_t n_insns;	/* >= 1 */
	uint8_t cls;		/* enum x86_class of the last, or its equal of
				 * common/a64_insn.h; OTHER: falls through to end */
	uint8_t last_size;	/* bytes of the last instruction */
	uint16_t flags;		/* SOFT_BLOCK_* */
};

#define SOFT_WAIT_MS 200
#define SOFT_PROGRESS_MS 500

struct soft;
struct soft_thread;

struct soft_stats {
	uint64_t n_insns;
	uint64_t aux_bytes;
	uint64_t n_threads;
	/* each of these three is an OVF in the trace */
	uint64_t n_unexplained;	/* transitions that no branch explains: a bug
				 * of a back end */
	uint64_t n_endless;	/* endless loops of direct jumps, left by a
				 * signal: no packet counts their turns */
	uint64_t n_injected;	/* overflows, as asked for */
	uint64_t n_killed;	/* threads killed in mid-run: how far the last
				 * block ran is unknown, none of it is shown */
	uint64_t n_not_traced;	/* processes that could not be followed */
};

/*
 * Opens a recording on a writer whose attrs are added: writes AUXTRACE_INFO,
 * TIME_CONV, ID_INDEX... Attrs, features and close belong to the caller.
 */
int soft_open(struct soft **s, const struct soft_config *config,
	      struct writer *w, struct aux_diag *diag);
/* Flushes all streams and the truth. NULL is allowed. stats may be NULL. */
int soft_close(struct soft *s, struct soft_stats *stats, struct aux_diag *diag);
const struct soft_stats *soft_stats(const struct soft *s);

/*
 * A thread appears: parent NULL for the first one (no FORK record). A new
 * process inherits its parent's mappings in every reader; do not repeat them.
 */
struct soft_thread *soft_thread_add(struct soft *s, uint32_t pid, uint32_t tid,
				    struct soft_thread *parent);
void soft_thread_exit(struct soft_thread *t);	/* frees t */
int soft_comm(struct soft_thread *t, const char *comm, bool exec);
/* An executable mapping appeared; the clock moves past it for all. */
int soft_mmap(struct soft_thread *t, const struct synth_map *map);
/* These bytes are (about to be) executed at addr, from now on. */
int soft_code(struct soft_thread *t, uint64_t addr, const void *bytes,
	      size_t len, enum aux_code_kind kind);
/* A process that was started but cannot be followed: counted as a loss. */
void soft_not_traced(struct soft *s, uint32_t pid, const char *program,
		     const char *why);
/* A thread was killed, and nobody saw where it was: counted as a loss. */
void soft_killed(struct soft *s);
/*
 * Call it often, at least every 100 ms, when all that was observed has been
 * told. What waited longer than SOFT_WAIT_MS goes to the file, so that little
 * is lost when auxcap is killed.
 */
int soft_tick(struct soft *s);

/*
 * The hot call: blocks table[ids[0..n)] ran, in this order, each to its end.
 * The transition from one to the next (also across calls) must be one that the
 * former's end explains; a REP instruction appears once.
 */
int soft_run(struct soft_thread *t, const struct soft_block *table,
	     const uint32_t *ids, size_t n);
/*
 * A block ran only for its first n_insns instructions (0 allowed), the next
 * would have been at ip. A soft_leave with that ip follows.
 */
int soft_cut(struct soft_thread *t, const struct soft_block *b,
	     uint32_t n_insns, uint64_t ip);

enum soft_leave_kind {
	SOFT_LEAVE_SYSCALL,	/* the last block ended with X86_SYSCALL/FAR */
	SOFT_LEAVE_ASYNC,	/* fault, signal, preemption: ip did not run */
};
/* User code stops for the kernel; ip: where (ASYNC). Ends the thread's slice. */
int soft_leave(struct soft_thread *t, enum soft_leave_kind kind, uint64_t ip);
/* User code goes on at ip after kernel_ns in the kernel. Also starts a thread. */
int soft_enter(struct soft_thread *t, uint64_t ip, uint64_t kernel_ns);
/* The PTWRITE at ip (already run) wrote value of size 4 or 8. */
int soft_ptwrite(struct soft_thread *t, uint64_t ip, uint64_t value, int size);

/* Truth, as observed and apart from the above: n addresses in order. */
int soft_truth(struct soft *s, uint32_t tid, const uint64_t *ips, size_t n);

/*
 * Back ends: run argv to its end and report everything to s. *status gets the
 * program's wait status. stop becomes true when the user interrupts.
 */
struct soft_program {
	int machine;		/* EM_X86_64 or EM_AARCH64: what argv[0] is */
	char *const *argv;
	const char *self_dir;	/* where auxcap and its helper object are */
	bool truth;		/* soft_truth is wanted */
	/* NULL, or called about twice a second: so far this was recorded */
	void (*progress)(void *priv, const struct soft_stats *stats);
	void *progress_priv;
	const volatile bool *stop;
};
int soft_emulate_run(struct soft *s, const struct soft_program *p, int *status,
		     struct aux_diag *diag);
int soft_step_run(struct soft *s, const struct soft_program *p, int *status,
		  struct aux_diag *diag);

#endif
