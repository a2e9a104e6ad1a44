/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside soft: threads, the (virtual) CPUs they run on, and the clock.
 *
 * A thread is in the kernel, or in user code and then on a stream or preempted.
 * last is its last block: the way into it is in the trace, the way out is not,
 * because where it leads shows only with the next block. So a thread can always
 * be preempted at last.start, and goes on there later.
 */
#ifndef AUXCAP_SOFT_STREAM_H
#define AUXCAP_SOFT_STREAM_H

#include <internal/x86_insn.h>

#include "pt_encode.h"
#include "soft.h"

#define SOFT_BUF_SIZE (256 << 10)

struct soft_stream {
	struct pt_encoder e;	/* e.tsc is the stream's clock */
	struct soft *s;
	struct soft_thread *owner; /* who is, or was last, on this CPU */
	uint64_t offset;	/* AUX bytes handed out */
	uint64_t used;		/* order of last use */
	uint64_t first_ns;	/* when it was first enabled; 0 never */
	uint32_t idx;
	uint8_t *buf;
};

/* A stream of one thread that ended: whoever gets its tid again continues it,
 * because readers tell the streams of threads apart by tid. */
struct soft_ended {
	uint32_t tid, idx;
	uint64_t offset;
};

struct soft_process {
	struct soft_process *next;
	uint32_t pid;
	uint32_t n_threads;
	uint64_t floor;		/* code runs later than this */
};

struct soft_thread {
	struct soft_thread *next;
	struct soft *s;
	struct soft_process *proc;
	struct soft_stream *st;	/* where it is switched in, or NULL */
	uint64_t clock;		/* while it is not on */
	struct soft_block last;
	uint64_t loop_mark, loop_ip; /* where an endless loop may close */
	uint32_t loop_n;
	uint32_t pid, tid, ppid, ptid;
	uint32_t last_idx;
	bool user;		/* between enter and leave */
	bool on;		/* the stream traces it now */
	bool started;		/* ITRACE_START is written */
	bool resync;		/* go on after the process's floor */
	bool pinned;		/* a PTWRITE of last is in the trace */
};

struct soft_truth;

struct soft {
	struct soft_config config;
	struct pt_encode_config pt;
	struct writer *w;
	struct soft_stats stats;
	struct soft_stream **streams;	/* per CPU; n_streams == n_cpus */
	uint32_t n_streams;		/* per thread: counts idx values */
	struct soft_thread *threads;
	struct soft_process *procs;
	struct soft_truth *truth;
	struct soft_ended *ended;	/* per thread */
	size_t n_ended, cap_ended;
	uint64_t order;
	uint64_t max_time;	/* of all records */
	uint64_t round_time;	/* max_time at the last FINISHED_ROUND */
	uint64_t floor;		/* no record may be earlier */
	uint64_t round_bytes;
	uint64_t flushed_ms;	/* real time of the last soft_tick() that was due */
	int error;
};

/* Notes the first error; returns it. */
int soft_note(struct soft *s, int err);
/* A time for a record: never before what readers may have sorted already. */
uint64_t soft_stamp(struct soft *s, uint64_t time);
uint64_t soft_thread_now(const struct soft_thread *t);

struct soft_stream *soft_stream_new(struct soft *s, uint32_t idx);
/* The stream of a thread of its own. */
struct soft_stream *soft_stream_of(struct soft *s, uint32_t tid);
void soft_stream_free(struct soft_stream *st);

/* Puts t on a stream and goes on at last.start. */
int soft_resume(struct soft_thread *t);
/* Takes t off its stream at last.start; it is still switched in. */
void soft_preempt(struct soft_thread *t);
/* t leaves its stream for good: SWITCH out. */
void soft_switch_out(struct soft_thread *t);

int soft_truth_open(struct soft_truth **tr, const char *path,
		    struct aux_diag *diag);
int soft_truth_add(struct soft_truth *tr, uint32_t tid, const uint64_t *ips,
		   size_t n);
int soft_truth_flush(struct soft_truth *tr);	/* NULL is allowed */
int soft_truth_close(struct soft_truth *tr, struct aux_diag *diag);

#endif
