/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * synth: synthesized records, for what existed before the recording and for the
 * software sources. Kernel record types end with the sample_id_all trailer of
 * SYNTH_SAMPLE_TYPE, which the attrs of such files declare.
 *
 * First single records, then synth_proc, which describes running processes.
 */
#ifndef CAPTURE_DESCRIBE_SYNTH_H
#define CAPTURE_DESCRIBE_SYNTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

#include <aux/error.h>

#include "capture/describe/codesave.h"
#include "perfdata/writer.h"

/* The sample_type bits that decide about the trailer, in any attr that synthesized
 * records go with. The trailer is pid/tid, time, cpu, identifier. */
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
/* A task that existed before (MISC_FORK_EXEC): its maps follow, and readers must not
 * copy the parent's. */
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
	/* With tids also every process that began at or after this time, in clock
	 * ticks since boot: what the targets have forked since then is among
	 * them, whoever its parent is by now. 0: none. */
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

/* Writes FORK, COMM and MMAP2 per process, as perf synthesizes them, and the code that
 * no file will have (writer_code). Fails only if /proc or the writer does. */
int synth_proc(struct writer *w, const struct synth_proc_options *o,
	       struct synth_proc_result *r, struct aux_diag *diag);

#endif
