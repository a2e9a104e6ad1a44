/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to capture/describe: what synth_*.c share, and what codesave*.c
 * share.
 *
 * synth_proc.c walks processes and their maps, synth_code.c saves bytes that
 * cannot be had later, synth_kernel.c describes the kernel. codesave.c watches
 * generated code, codesave_kernel.c reads the kernel's, jitfiles.c what JIT
 * compilers write.
 */
#ifndef CAPTURE_DESCRIBE_IMPL_H
#define CAPTURE_DESCRIBE_IMPL_H

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "capture/describe/describe.h"
#include "capture/event/ring.h"
#include "perfdata/perfdata.h"

#define SYNTH_FILE_BUCKETS 256

/* Cache of build ids: each file is read once. */
struct synth_file {
	struct synth_file *next;
	uint64_t ino;
	uint32_t maj, min;
	uint8_t id[BUILDID_MAX];
	uint8_t id_size;	/* 0: it has none */
};

/* Code that no file will have. */
struct synth_range {
	uint64_t addr, len, pgoff;
	pid_t pid;
	uint32_t kind;		/* enum aux_code_kind */
	bool file;		/* mapped from one */
};

/* One call of synth_proc; a single thread's. */
struct synth_run {
	struct writer *w;
	const struct synth_proc_options *o;
	struct synth_proc_result *r;
	const char *proc;
	uint64_t deadline_ns;	/* CLOCK_MONOTONIC; 0: none */
	struct synth_file *files[SYNTH_FILE_BUCKETS];

	/* Code, collected first and saved at the end. */
	struct synth_range *ranges;
	size_t n_ranges, cap_ranges;
	uint64_t code_left;	/* bytes that may still be saved */
	uint8_t *buf;		/* NULL until synth_code_save */
};

/* A mapping of a process. */
struct synth_vma {
	struct synth_map map;
	pid_t pid;
	bool deleted;
};

/* synth_proc.c. True from the deadline on; sets timed_out in the result. */
bool synth_late(struct synth_run *run);

/* synth_code.c. Adds v to the ranges if no file will have its bytes. */
int synth_code_add(struct synth_run *run, const struct synth_vma *v);
/* Saves the ranges, small ones first: these are many, and a few large ones
 * would use up the time and the limit. Returns writer errors and -AUX_E_NOMEM
 * only. */
int synth_code_save(struct synth_run *run);

/* synth_kernel.c. The kernel's map, its modules', their build ids. Writer
 * errors only. */
int synth_kernel(struct synth_run *run);

#define CODE_PAGE 4096u

/* The bytes of a page when it was last scanned; shared with forked children. */
struct code_copy {
	uint32_t n_refs;
	uint8_t bytes[CODE_PAGE];
};

/* Executable memory that no file has. */
struct code_range {
	uint64_t addr, len;	/* whole pages */
	uint64_t seen_ns;	/* start of the last scan, or when it was mapped */
	uint32_t pid;
	uint32_t kind;		/* enum aux_code_kind */
	bool gone;		/* the process is: drop the range */
	struct code_copy **pages;	/* one per page; NULL: never seen */
};

enum code_request_kind {
	REQUEST_MAP = 1,	/* watch a range, or stop watching it */
	REQUEST_FORK,		/* a process copies its parent's ranges */
	REQUEST_DROP,		/* exec: forget a process */
	REQUEST_KERNEL,		/* save a range of the kernel now */
	REQUEST_DUMP,		/* save a jitdump at the end */
};

/* What a record asks of the next scan. */
struct code_request {
	uint8_t kind;		/* enum code_request_kind */
	uint8_t code;		/* MAP: enum aux_code_kind; 0: a file has it */
	uint32_t pid, ppid;
	uint64_t addr, len, time_ns;
	char *path;		/* DUMP: owned */
};

/* Requests from any thread to the scanning one. Everything under lock. */
struct code_queue {
	pthread_mutex_t lock;
	pthread_cond_t wake;	/* a request came, or stop */
	bool running, stop;	/* the thread */
	struct code_request *requests;
	size_t n_requests, cap_requests;
	uint64_t requested_ms;	/* CLOCK_MONOTONIC: when the first came */
	bool lost_requests;
};

/* Lock order: scan_lock, then queue.lock. */
struct codesave {
	struct codesave_config config;	/* constant */
	pthread_t thread;
	struct code_queue queue;

	/* Under scan_lock: the thread's while it scans. */
	pthread_mutex_t scan_lock;
	struct codesave_stats stats;
	struct perfclock clock;
	struct writer *w;	/* NULL: no file */
	int error;		/* the first */
	struct code_range *ranges;
	size_t n_ranges, cap_ranges;
	struct jitfiles *jit;
	uint8_t *buf;

	/* Schedule, CLOCK_MONOTONIC. Another thread than the scanning one
	 * changes it with both locks held. */
	uint64_t due_ms;	/* next scan of what is known */
	uint64_t free_ms;	/* no scan before, not even for new requests */
	uint64_t pause_ms;	/* grows while scans find nothing */
};

/* codesave_kernel.c. Saves a range of the kernel from kcore; what cannot be
 * read is counted in *n_unsaved. */
int codesave_read_kernel(const char *proc, struct writer *w, uint64_t addr,
			 uint64_t len, uint64_t time_ns, uint64_t *n_unsaved);
/* Saves up to max bytes of a regular file, in AUX_OWN_FILE records, under name.
 * pid -1: the kernel's. */
int codesave_fd(struct writer *w, int fd, const char *name, uint32_t pid,
		uint64_t max);

static inline void code_copy_put(struct code_copy *c)
{
	if (c && !--c->n_refs)
		free(c);
}

#endif
