/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records that no kernel wrote: for what existed before us, and for the
 * software sources. Each has the sample_id_all trailer of sample_type
 * SYNTH_SAMPLE_TYPE, as the attrs of such files declare.
 */
#ifndef CAPTURE_DESCRIBE_SYNTH_H
#define CAPTURE_DESCRIBE_SYNTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perfdata/writer.h"

/* sample_type of every attr that synth records go with: trailer order is
 * pid/tid, time, id (none), stream_id (none), cpu, identifier. */
#define SYNTH_SAMPLE_TYPE                                                 \
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |           \
	 PERF_SAMPLE_IDENTIFIER)

/* The trailer. */
struct synth_id {
	uint32_t pid, tid;
	uint64_t time;	/* ns, perf clock */
	uint32_t cpu;	/* -1: none */
	uint64_t id;	/* of the event the record belongs to */
};

struct synth_map {
	uint64_t addr, len, pgoff;
	uint32_t maj, min;
	uint64_t ino, ino_generation;
	uint32_t prot, flags;
	uint8_t build_id[20];
	uint8_t build_id_size;	/* 0: none, the inode fields are written */
	const char *path;	/* "//anon", "[vdso]", "/file" */
	bool cut;		/* the process's later maps are missing */
};

int synth_comm(struct writer *w, const struct synth_id *id, uint32_t pid,
	       uint32_t tid, const char *comm, bool exec);
int synth_fork(struct writer *w, const struct synth_id *id, uint32_t pid,
	       uint32_t ppid, uint32_t tid, uint32_t ptid);
/* A task that existed before: its maps follow, none come from the parent. */
int synth_fork_exec(struct writer *w, const struct synth_id *id, uint32_t pid,
		    uint32_t ppid, uint32_t tid, uint32_t ptid);
int synth_exit(struct writer *w, const struct synth_id *id, uint32_t pid,
	       uint32_t ppid, uint32_t tid, uint32_t ptid);
int synth_mmap2(struct writer *w, const struct synth_id *id, uint32_t pid,
		uint32_t tid, const struct synth_map *map);
/* MMAP of the kernel's own (pid -1). */
int synth_mmap_kernel(struct writer *w, const struct synth_id *id,
		      uint64_t addr, uint64_t len, uint64_t pgoff,
		      const char *path);
int synth_itrace_start(struct writer *w, const struct synth_id *id,
		       uint32_t pid, uint32_t tid);
int synth_switch(struct writer *w, const struct synth_id *id, bool out);
/* SWITCH_CPU_WIDE: the other side's pid and tid */
int synth_switch_cpu_wide(struct writer *w, const struct synth_id *id, bool out,
			  uint32_t next_prev_pid, uint32_t next_prev_tid);
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

#endif
