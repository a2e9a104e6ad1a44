/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a recording says besides its trace, so that it can be decoded elsewhere:
 * features, sections that say where and how it was made; codesave, the code
 * that no file will have; jitfiles, what JIT compilers write; synth, records
 * for what existed before the events were enabled.
 */
#ifndef CAPTURE_DESCRIBE_DESCRIBE_H
#define CAPTURE_DESCRIBE_DESCRIBE_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <aux/error.h>

#include "perfdata/writer.h"

/* features: feature sections that say where and how a recording was made. */

/*
 * The host: name, kernel, architecture, CPUs, memory; the tool and its command
 * line. A fact that cannot be found out is omitted. Returns writer errors only.
 */
int features_host(struct writer *w, int argc, char *const *argv);

/* Cores and packages of the host. Readers parse it with the CPU count that
 * features_host writes. */
int features_topology(struct writer *w);

/* A group of events. leader is an index in the order in which attrs were added;
 * n_members includes it. name may be NULL. */
struct features_group {
	const char *name;
	uint32_t leader;
	uint32_t n_members;
};
int features_groups(struct writer *w, const struct features_group *groups,
		    uint32_t n);

struct features_pmu {
	uint32_t type;
	const char *name;
};
int features_pmu_mappings(struct writer *w, const struct features_pmu *pmus,
			  uint32_t n);

/* AUX_FEAT_AUXKIT_SOURCE: key=value lines. */
int features_source(struct writer *w, const char *text);

/*
 * codesave: saves code that programs generate while they are recorded.
 *
 * Executable memory without a file appears with an MMAP2 record and changes
 * without one. So it is read again and again, and pages that changed are saved,
 * valid from the scan before on: when they changed in between is unknown. Where
 * bytes that may have run were replaced, that interval is marked
 * (AUX_CODE_UNKNOWN), so that a reader does not decode trace of the old bytes
 * with the new. jitdumps, perf maps and the kernel's BPF programs are saved
 * too.
 *
 * Scanning takes time that the readers of the rings do not have: it runs on a
 * thread of its own. codesave_inspect and codesave_watch may be called by any
 * thread; they only queue a request. The other functions are the main thread's.
 */

struct codesave;

struct codesave_config {
	const char *proc;	/* NULL: /proc; tests have their own */
	uint64_t limit;		/* bytes of processes per file; 0: CODESAVE_LIMIT */
	bool kernel;		/* also what KSYMBOL records announce: BPF, ftrace */
	uint32_t self;		/* a process to ignore: auxcap's own */
	uint32_t page;		/* bytes of a page of the kernel; 0: this one's */
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
/* The jitdump of a process that existed before. */
void codesave_dump(struct codesave *s, uint32_t pid, const char *path);
/* Scans once, in the calling thread. Errors of the writer and -AUX_E_NOMEM
 * only. */
int codesave_scan(struct codesave *s);
/* Sets the file to write to, which has nothing of ours yet; NULL: none. Waits
 * for a scan that still writes to the former file. */
void codesave_output(struct codesave *s, struct writer *w);

/* Starts the thread that scans. */
int codesave_start(struct codesave *s);
/* At the end: stops the thread, scans once more, saves what JIT compilers
 * wrote. Returns the first error of any scan. */
int codesave_finish(struct codesave *s);

/* Valid while the thread does not run. */
const struct codesave_stats *codesave_stats(const struct codesave *s);

/*
 * Saves the kernel's text, modules, BPF programs and symbols as they are now.
 * Returns writer errors only; *n_unsaved: bytes that could not be read, ~0 if
 * kcore or the addresses in kallsyms are not accessible. proc NULL: /proc.
 */
int codesave_kernel(const char *proc, struct writer *w, uint64_t *n_unsaved);

/*
 * jitfiles: saves what JIT compilers write for profilers, jitdumps and perf
 * maps.
 *
 * Both grow until their process ends, so they are read at the end of the
 * recording. Where they are must be found out while the process lives: in a
 * container its paths and its pid are not ours. A perf map has no mapping that
 * tells of it; each process that has memory for code without a file is asked
 * whether it has one.
 *
 * A name in /tmp proves nothing: a perf map counts if its owner is root, we or
 * the process's user, and if it was written since the process began.
 *
 * Not for several threads.
 */

#define JITFILES_MAX 4096	/* as many as readers take */
#define JITFILES_MAP_BYTES ((uint64_t)64 << 20)	/* of one perf map */

struct jitfiles;

/* proc NULL: /proc. */
int jitfiles_new(struct jitfiles **j, const char *proc);
void jitfiles_free(struct jitfiles *j);	/* accepts NULL */

/* All three: 0 or -AUX_E_NOMEM, and may be called again for the same file. */
int jitfiles_add_dump(struct jitfiles *j, uint32_t pid, const char *path);
int jitfiles_add_map(struct jitfiles *j, uint32_t pid);
/* A child may write a map of its own if its parent has one. */
int jitfiles_add_child(struct jitfiles *j, uint32_t pid, uint32_t ppid);

/* Those that exist, each as AUX_OWN_FILE with the path that its process knows.
 * Writer errors and -AUX_E_NOMEM only. */
int jitfiles_save(struct jitfiles *j, struct writer *w);

/*
 * synth: synthesized records, for what existed before the recording and for the
 * software sources. Kernel record types end with the sample_id_all trailer of
 * SYNTH_SAMPLE_TYPE, which the attrs of such files declare.
 *
 * First single records, then synth_proc, which describes running processes.
 */

/* The sample_type bits that decide about the trailer, in any attr that
 * synthesized records go with. The trailer is pid/tid, time, cpu,
 * identifier. */
#define SYNTH_SAMPLE_TYPE                                                 \
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |           \
	 PERF_SAMPLE_IDENTIFIER)

/* The content of the trailer. */
struct synth_id {
	uint32_t pid, tid;
	uint64_t time;	/* ns, perf clock; 0: before everything else */
	uint32_t cpu;	/* -1: none */
	uint64_t id;	/* of the event that the record belongs to */
};

struct synth_map {
	uint64_t addr, len, pgoff;
	uint32_t maj, min;
	uint64_t ino, ino_generation;
	uint32_t prot, flags;
	uint8_t build_id[20];
	uint8_t build_id_size;	/* 0: none, the inode fields are written instead */
	const char *path;	/* "//anon", "[vdso]", "/file" */
	bool cut;		/* timeout: the process's later maps are missing */
};

int synth_comm(struct writer *w, const struct synth_id *id, uint32_t pid,
	       uint32_t tid, const char *comm, bool exec);
int synth_fork(struct writer *w, const struct synth_id *id, uint32_t pid,
	       uint32_t ppid, uint32_t tid, uint32_t ptid);
/* A task that existed before (MISC_FORK_EXEC): its maps follow, and readers
 * must not copy the parent's. */
int synth_fork_exec(struct writer *w, const struct synth_id *id, uint32_t pid,
		    uint32_t ppid, uint32_t tid, uint32_t ptid);
int synth_exit(struct writer *w, const struct synth_id *id, uint32_t pid,
	       uint32_t ppid, uint32_t tid, uint32_t ptid);
int synth_mmap2(struct writer *w, const struct synth_id *id, uint32_t pid,
		uint32_t tid, const struct synth_map *map);
/* MMAP of the kernel (pid -1). */
int synth_mmap_kernel(struct writer *w, const struct synth_id *id,
		      uint64_t addr, uint64_t len, uint64_t pgoff,
		      const char *path);
int synth_itrace_start(struct writer *w, const struct synth_id *id,
		       uint32_t pid, uint32_t tid);
int synth_switch(struct writer *w, const struct synth_id *id, bool out);
/* The thread goes, though it could run on. */
int synth_preempted(struct writer *w, const struct synth_id *id);
int synth_aux(struct writer *w, const struct synth_id *id, uint64_t offset,
	      uint64_t size, uint64_t flags);

/* User records, without a trailer. */
int synth_auxtrace_info(struct writer *w, uint32_t type, const uint64_t *priv,
			uint32_t n_priv);
int synth_id_index(struct writer *w, const struct aux_rec_id_index_entry *e,
		   uint64_t n);
int synth_thread_map(struct writer *w, const uint32_t *tids,
		     const char *const *comms, uint64_t n);
/* CPUs 0 to n_cpus - 1; those named. At most 2048. */
int synth_cpu_map(struct writer *w, uint32_t n_cpus);
int synth_cpu_list(struct writer *w, const uint16_t *cpus, size_t n);
int synth_finished_round(struct writer *w);
int synth_finished_init(struct writer *w);

/*
 * Records for what existed before the events were enabled, read from /proc and /sys:
 * the kernel's map, modules, processes with their threads, names and maps.
 *
 * Reading takes time, and processes come and go: what cannot be read is counted, and
 * a deadline bounds it; the recording then says that its side-band is incomplete.
 */
struct synth_proc_options {
	const char *proc;	/* NULL: /proc; tests have their own */
	const pid_t *tids;	/* only the processes of these; NULL: all */
	size_t n_tids;
	/* With tids also every process that began at or after this time, in
	 * clock ticks since boot: what the targets have forked since then is
	 * among them, whoever its parent is by now. 0: none. */
	uint64_t since;
	bool kernel;		/* the kernel's map and modules too */
	bool build_ids;		/* in MMAP2 records, as attr.build_id */
	bool data_maps;		/* not only executable mappings */
	unsigned timeout_ms;	/* 0: none */
	struct codesave *save;	/* gets code that no file has; NULL: none */
	struct synth_id id;	/* time 0; id of the side-band event */
};

struct synth_proc_result {
	uint64_t n_processes, n_threads, n_maps;
	uint64_t n_gone;	/* ended while being read: nothing is lost */
	uint64_t n_unreadable;	/* permission or timeout: side-band incomplete */
	bool kernel_hidden;	/* kptr_restrict: addresses are shown as 0 */
	bool timed_out;
	uint64_t n_code;	/* bytes of code saved */
	uint64_t n_code_unread;	/* bytes of code that could not be read */
};

/* Now, as synth_proc_options.since counts. */
uint64_t synth_proc_now(void);

/* Writes FORK, COMM and MMAP2 per process, as perf synthesizes them, and the
 * code that no file will have (writer_code). Fails only if /proc or the writer
 * does. */
int synth_proc(struct writer *w, const struct synth_proc_options *o,
	       struct synth_proc_result *r, struct aux_diag *diag);

#endif
