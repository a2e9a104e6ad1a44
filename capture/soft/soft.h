/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Turns "this thread ran these blocks" into an Intel PT or CoreSight recording.
 *
 * Two back ends (emulate.c, step.c) observe a program and call the functions
 * below; stream.c keeps the virtual clock, places threads on (virtual) CPUs,
 * feeds the packet encoder, and writes side-band, AUX data and code bytes
 * through the writer. All calls come from one thread.
 *
 * Time is a declared virtual clock: one instruction is one TSC tick is one
 * nanosecond, and time in the kernel is added as measured. It is monotonic on
 * each CPU, and a thread never runs code before the time of the record that
 * maps that code.
 */
#ifndef CAPTURE_SOFT_SOFT_H
#define CAPTURE_SOFT_SOFT_H

#include <elf.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>
#include <aux/extension.h>

#include "capture/describe/describe.h"
#include "capture/event/event.h"
#include "capture/event/target.h"
#include "capture/event/trigger.h"
#include "perfdata/writer.h"

/* What this machine's own programs are. */
#ifdef __aarch64__
#define SOFT_HOST EM_AARCH64
#else
#define SOFT_HOST EM_X86_64
#endif

enum soft_trace {
	SOFT_TRACE_PT,		/* Intel PT, of x86-64 programs */
	SOFT_TRACE_ETM,		/* ETMv4 or ETE, of aarch64 programs */
};

/* What a CoreSight event's terms ask for, most of it as in TRCCONFIGR. */
struct soft_etm {
	bool ete;		/* else ETMv4 */
	bool raw;		/* as a TRBE saves it, else 16-byte frames */
	bool shared;		/* one sink for all virtual CPUs: framed alone */
	bool timestamp, contextid, vmid, cycacc, retstack, broadcast;
	uint32_t cc_threshold;	/* TRCCCCTLR: cycles, at least 4 */
	uint32_t sync_period;	/* TRCSYNCPR: A-sync each 2^n bytes, 8 to 20 */
};

/* What the event's terms ask for, already checked, and where reports go. */
struct soft_config {
	enum soft_trace trace;
	struct soft_etm etm;
	bool tsc, mtc, cyc, retcomp, branch, ptw, fup_on_ptw;
	bool per_thread;	/* a stream per thread, else per virtual CPU */
	bool defer_tip;		/* TIPs may be sent after later TNT bits */
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
	/* Only the newest so many bytes of each CPU's trace are kept, and written by
	 * snapshots; 0: all of it is written. Intel PT, a stream for each CPU. */
	size_t ring_bytes;
	uint64_t max_size;	/* of the file; 0: no limit */
	void (*end)(void);	/* called when it has that size, or more */
	/* How often the user asked for a snapshot; NULL: never. */
	const volatile sig_atomic_t *asked;
	bool snapshot_at_exit;
	const char *truth_path;	/* NULL: no truth file */
	const struct addrfilter *filters; /* what to trace; the caller's */
	size_t n_filters;	/* 0: everything */
	/* Called when a stream ends, with the time it covers; NULL: not. */
	void (*stream_end)(void *priv, uint32_t idx, uint64_t first_ns,
			   uint64_t last_ns);
	/* Called for each process that cannot be followed; NULL: not. */
	void (*not_traced)(void *priv, uint32_t pid, const char *program,
			   const char *why);
	void *priv;
};

/*
 * A sequence of instructions that is entered only at start and left only at its
 * end (or cut, see soft_cut). Immutable once used. Back ends keep tables of
 * blocks.
 */
struct soft_block {
	uint64_t start;
	uint64_t end;		/* first address after the last instruction */
	uint64_t target;	/* of a direct branch at the end */
	uint32_t n_insns;	/* >= 1 */
	uint8_t cls;		/* enum x86_class of the last, or its equal of
				 * common/a64_insn.h; OTHER: falls through to end */
	uint8_t last_size;	/* bytes of the last instruction */
	uint16_t flags;		/* SOFT_BLOCK_* */
};

/* What a path has after the first indirect branch inside of it: the packets, of which a
 * TIP with IP first would be the one before, and the TNT bits that then wait. */
struct soft_tail {
	uint64_t first, last;	/* IPs of its TIPs */
	uint64_t bits;
	uint32_t n_bits;
	uint32_t n;
	uint8_t bytes[];
};

/*
 * Blocks that run one after another, each to its end, and how they are left: what
 * encoding them needs, summed up once. Their branches lead where the next block starts.
 */
struct soft_path {
	uint64_t start;
	uint64_t next;		/* where it leads; unless by_tip */
	uint64_t bits;		/* TNT until then or the tail, the oldest uppermost */
	struct soft_tail *tail;	/* allocated; NULL: only its end may be indirect */
	uint32_t first;		/* the blocks: table[first ... first + n_blocks) */
	uint16_t n_blocks, n_insns;
	uint8_t n_bits;
	bool by_tip;		/* an indirect branch ends it */
	bool enters_kernel;	/* a system call ends it: soft_leave() must follow */
	bool by_blocks;		/* is not summed up */
};

#define SOFT_WAIT_MS 200	/* how long data may stay in buffers */
#define SOFT_PROGRESS_MS 500	/* between two progress reports */

struct soft;
struct soft_thread;

struct soft_stats {
	uint64_t n_insns;
	uint64_t aux_bytes;
	uint64_t n_threads;
	/* Each of the next three is an OVF in the trace. */
	uint64_t n_unexplained;	/* transitions that the previous block's end does
				 * not explain: a bug of a back end */
	uint64_t n_endless;	/* infinite loops of direct jumps, left by a signal:
				 * no packet says how often they ran */
	uint64_t n_injected;	/* overflows requested by inject_overflow */
	uint64_t n_abandoned;	/* threads that run on unobserved, after an OVF */
	uint64_t n_killed;	/* threads killed while running: how much of the last
				 * block ran is unknown, so none of it is traced */
	uint64_t n_not_traced;	/* processes that could not be followed */
	uint64_t n_snapshots;
};

/*
 * Opens a recording on a writer whose attrs are added: writes AUXTRACE_INFO,
 * TIME_CONV, ID_INDEX... Attrs, features and close belong to the caller.
 */
int soft_open(struct soft **s, const struct soft_config *config,
	      struct writer *w, struct aux_diag *diag);
/* Flushes all streams and the truth, and frees s. s and stats may be NULL. */
int soft_close(struct soft *s, struct soft_stats *stats, struct aux_diag *diag);
const struct soft_stats *soft_stats(const struct soft *s);

/* What is recorded runs already: all its threads. Before any of them is added;
 * else the first one that is added is the program. */
int soft_attach(struct soft *s, uint32_t *tids, size_t n);

/*
 * A new thread; parent is NULL for a process's first one, which gets no FORK
 * record.
 * Readers give a new process its parent's mappings: do not report them again.
 */
struct soft_thread *soft_thread_add(struct soft *s, uint32_t pid, uint32_t tid,
				    struct soft_thread *parent);
void soft_thread_exit(struct soft_thread *t);	/* frees t */
int soft_comm(struct soft_thread *t, const char *comm, bool exec);
/* A new executable mapping. The clock of all threads of the process moves past
 * it. */
int soft_mmap(struct soft_thread *t, const struct synth_map *map);
/* The bytes at addr from now on; to be reported before they run. */
int soft_code(struct soft_thread *t, uint64_t addr, const void *bytes,
	      size_t len, enum aux_code_kind kind);
/* A process was started that cannot be followed: counted as a loss. */
void soft_not_traced(struct soft *s, uint32_t pid, const char *program,
		     const char *why);
/* A signal is delivered to a thread, which is in the kernel: what siginfo says. */
struct soft_signal {
	int signo, code;
	uint64_t ip;		/* did not run */
	uint64_t addr;
	bool has_addr;
	uint32_t sender;	/* a process; 0: none */
};
int soft_signal(struct soft_thread *t, const struct soft_signal *sig);
/* A thread has ended, as wait(2) reports it. It may be a process's only one that is
 * known. */
int soft_ended(struct soft *s, uint32_t pid, uint32_t tid, int status);
/* A thread was killed at an unknown instruction: counted as a loss. */
void soft_killed(struct soft *s);
/* The thread's time, and the CPU that it is on. */
void soft_when(const struct soft_thread *t, uint64_t *time_ns, uint32_t *cpu);
/* A moment that was waited for: a record, and a snapshot if only the newest is kept. All
 * that is to be in it has been reported. */
struct soft_moment {
	uint64_t time_ns, took_ns;
	uint32_t pid, tid, cpu;
	const char *text;
};
int soft_moment(struct soft *s, const struct soft_moment *m);
/*
 * Call it at least every 100 ms, when everything observed has been reported.
 * Data that has been buffered longer than SOFT_WAIT_MS is written, so that
 * little is lost if auxcap is killed.
 */
int soft_tick(struct soft *s);

/*
 * The hot path: blocks table[ids[0..n)] ran, in this order, each to its end.
 * The end of each must explain the transition to the next, also from call to
 * call; a REP instruction appears once.
 */
int soft_run(struct soft_thread *t, const struct soft_block *table,
	     const uint32_t *ids, size_t n);
/*
 * The same for paths: of Intel PT alone. Each must lead to the next, also from call to
 * call.
 */
int soft_run_paths(struct soft_thread *t, const struct soft_block *table,
		   const struct soft_path *paths, const uint32_t *ids, size_t n);
/* Sums up table[first ... first + n), of which the last leads to next, unless it is
 * an indirect branch or system call. */
struct soft_path soft_path_of(const struct soft_block *table, uint32_t first,
			      uint16_t n, uint64_t next);
/*
 * Only the first n_insns instructions of a block ran (0 is allowed); the next
 * would be at ip. A soft_leave with that ip must follow.
 */
int soft_cut(struct soft_thread *t, const struct soft_block *b,
	     uint32_t n_insns, uint64_t ip);

enum soft_leave_kind {
	SOFT_LEAVE_SYSCALL,	/* the last block ended with X86_SYSCALL/FAR */
	SOFT_LEAVE_ASYNC,	/* fault, signal, preemption: ip did not run */
};
/* The thread enters the kernel, at ip if ASYNC. Ends its time slice. */
int soft_leave(struct soft_thread *t, enum soft_leave_kind kind, uint64_t ip);
/* The thread returns to user code at ip after kernel_ns in the kernel, which
 * its clock advances by. The first call starts it. */
int soft_enter(struct soft_thread *t, uint64_t ip, uint64_t kernel_ns);
/* The thread, which is in the kernel, goes on at ip unobserved: a gap, and a loss. */
int soft_abandon(struct soft_thread *t, uint64_t ip);
/* The PTWRITE at ip, which has run, wrote value of size 4 or 8. */
int soft_ptwrite(struct soft_thread *t, uint64_t ip, uint64_t value, int size);

/* --truth: n addresses in the order observed, independent of soft_run. */
int soft_truth(struct soft *s, uint32_t tid, const uint64_t *ips, size_t n);

/*
 * The back ends: run argv to its end and report everything to s. *status is the
 * program's, as wait(2) reports it.
 */
struct soft_program {
	int machine;		/* EM_X86_64 or EM_AARCH64: what argv[0] is */
	char *const *argv;
	/* What runs already, in place of argv: let go at the end. step alone.
	 * Its program, if there is one, is not traced; its end is the end. */
	struct target *target;
	/* argv runs already, as this child of ours: it is joined with all below us; 0: it
	 * is to be started. step and native alone. */
	pid_t joined;
	const struct triggers *triggers;	/* NULL: none. step and native alone */
	bool snapshot;		/* a moment takes one */
	const char *self_dir;	/* where auxcap and its helper object are */
	bool truth;		/* call soft_truth */
	/* Called about twice a second with what was recorded so far; NULL:
	 * not. */
	void (*progress)(void *priv, const struct soft_stats *stats);
	void *progress_priv;
	const volatile sig_atomic_t *stop;	/* how often the user asked for
				 * the end; the second time it comes at once */
	/* What the user may want to know about how it went: "" at first. verbose: also
	 * what it cost. */
	char *notes;
	size_t notes_size;
	bool verbose;
};
/* Whether soft_emulate_run() can run x86-64 programs here. */
bool soft_can_emulate(const char *self_dir);
/* Whether soft_native_run() can, or at least soft_step_run(); if not both, why, and what
 * would help. */
struct soft_native {
	bool runs, traces;
	char why[128], fix[128];
};
void soft_find_native(struct soft_native *n);
int soft_emulate_run(struct soft *s, const struct soft_program *p, int *status,
		     struct aux_diag *diag);
int soft_step_run(struct soft *s, const struct soft_program *p, int *status,
		  struct aux_diag *diag);
/* As soft_step_run(), from a code cache: a few times slower than alone. What cannot run
 * there is stepped. */
int soft_native_run(struct soft *s, const struct soft_program *p, int *status,
		    struct aux_diag *diag);
/* later.c: visits each thread of each process that descends from us, parents first. Ends
 * with what visit returns if that is not 0. */
int soft_below(int (*visit)(void *priv, pid_t tid), void *priv);
/* Whether soft_step_run() may attach to these; -AUX_E_TARGET with the fix. */
int soft_step_check(const struct target *target, struct aux_diag *diag);

#endif
