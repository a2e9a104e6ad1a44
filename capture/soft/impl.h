/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to capture/soft: stream.c's state, and what the two sources share.
 * The back ends have headers of their own (emulate.h, step.h) and use soft.h
 * alone.
 */
#ifndef CAPTURE_SOFT_IMPL_H
#define CAPTURE_SOFT_IMPL_H

#include "capture/record/record.h"
#include "capture/soft/etm_encode.h"
#include "capture/soft/pt_encode.h"
#include "capture/soft/soft.h"
#include "common/x86_insn.h"

/*
 * later.c: lets job->delay_ms pass, in which the program, if there is one, runs as *pid.
 * -AUX_E_TARGET: it cannot be run, or has ended, with *status as wait(2) reports it.
 */
int later_begin(const struct source_job *job, pid_t *pid, int *status,
		struct aux_diag *diag);

/*
 * ---- stream.c: threads, the (virtual) CPUs they run on, and the clock ----
 *
 * A thread is in the kernel, or in user code and then either on a stream or
 * preempted. last is its last block: the branch into it has been encoded, the
 * branch out of it has not, since its target is known only with the next block.
 * So a thread can always be preempted at last.start and resumed there.
 *
 * All of this belongs to the thread that calls soft.
 */

#define SOFT_BUF_SIZE (256 << 10)
#define SOFT_TIME_SHIFT 10	/* mult 1 << shift: ns = tsc */

/* What one CPU traced, or with per_thread one thread: an encoder, and how much
 * of its output is in the file as AUX data. */
struct soft_stream {
	union {			/* by config.trace; its tsc is the clock */
		struct pt_encoder e;
		struct etm_encoder etm;
	};
	struct soft *s;
	struct soft_thread *owner; /* who is, or was last, on this CPU */
	uint64_t offset;	/* AUX bytes handed out */
	uint64_t used;		/* order of last use */
	uint64_t first_ns;	/* when it was first enabled; 0 never */
	uint32_t idx;
	uint8_t *buf;
	uint8_t *ring;		/* of config.ring_bytes: the newest bytes; or NULL */
	uint64_t saved_to;	/* what is before it is in the file, or lost */
};

/* A stream of one thread that ended: a later thread of the same tid continues
 * it, because readers distinguish the streams of threads by tid. */
struct soft_ended {
	uint32_t tid, idx;
	uint64_t offset;
};

/* Addresses that a filter lets through. */
struct soft_range {
	uint64_t start, end;
};

/* A process: threads that share code, so that its changes concern them all. */
struct soft_process {
	struct soft_process *next;
	uint32_t pid;
	uint32_t n_threads;
	uint64_t floor;		/* code runs later than this */
	struct soft_range *ranges; /* of config.filters, where their files are mapped */
	size_t n_ranges, cap_ranges;
};

/* A traced thread. Its clock is its stream's while on, else its own. */
struct soft_thread {
	struct soft_thread *next;
	struct soft *s;
	struct soft_process *proc;
	struct soft_stream *st;	/* where it is switched in, or NULL */
	uint64_t clock;		/* while it is not on */
	uint64_t last_record;	/* the time of its last record */
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

/* A kind of trace: how blocks become packets. No call fails by itself; see
 * soft_stream_error(). */
struct soft_trace_ops {
	/* AUXTRACE_INFO, and a new stream */
	int (*info)(struct soft *s);
	void (*open)(struct soft_stream *st);
	/* Hands to soft_stream_aux() all that may leave now */
	void (*flush)(struct soft_stream *st);
	/* After all flushes: what streams share. NULL: nothing */
	void (*flush_shared)(struct soft *s);
	/* t goes on at last.start, on its stream; stops before ip */
	void (*enable)(struct soft_thread *t);
	void (*preempt)(struct soft_thread *t, uint64_t ip);
	/* One or more blocks ran, returns how many were encoded; a block's
	 * first n_insns ran */
	size_t (*run)(struct soft_thread *t, const struct soft_block *table,
		      const uint32_t *ids, size_t n);
	void (*run_block)(struct soft_thread *t, const struct soft_block *b,
			  uint32_t n_insns);
	/* As run, of paths; at least one. NULL: there are none */
	size_t (*run_paths)(struct soft_thread *t,
			    const struct soft_block *table,
			    const struct soft_path *paths, const uint32_t *ids,
			    size_t n);
	/* t goes to the kernel: an event before ip ran; its last instruction
	 * entered it; it stops at ip without an explanation */
	void (*interrupt)(struct soft_thread *t, uint64_t ip);
	void (*call)(struct soft_thread *t);
	void (*unexplained)(struct soft_thread *t, uint64_t ip);
};

extern const struct soft_trace_ops soft_trace_pt, soft_trace_etm;

/* The part of CoreSight output that streams share. */
struct soft_etm_out {
	uint8_t *bytes;		/* of a sink that all CPUs share: frames */
	size_t n, cap;
	uint8_t *scratch;	/* else: one AUX record */
	struct etm_frame frame;
	bool full;
};

/* A recording. */
struct soft {
	struct soft_config config;
	const struct soft_trace_ops *ops;
	struct pt_encode_config pt;
	struct etm_encode_config etm;
	struct soft_etm_out out;
	struct writer *w;
	struct jitfiles *jit;
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
	sig_atomic_t n_asked;	/* snapshots that were taken as asked */
	int error;
	bool announced;		/* soft_attach() was called */
};

static inline uint64_t *soft_clock(struct soft_stream *st)
{
	return st->s->config.trace == SOFT_TRACE_ETM ? &st->etm.tsc : &st->e.tsc;
}

static inline int soft_stream_error(const struct soft_stream *st)
{
	return st->s->config.trace == SOFT_TRACE_ETM ? st->etm.error :
						       st->e.error;
}

/* A block of no instructions, for a known address: after enter, after a cut. */
static inline struct soft_block soft_at_ip(uint64_t ip)
{
	return (struct soft_block){ .start = ip, .end = ip, .cls = X86_OTHER };
}

/* An AUX record of st and its bytes go to the file. */
int soft_stream_aux(struct soft_stream *st, const uint8_t *bytes, size_t n,
		    uint64_t flags);
/* Writes all buffered bytes. */
void soft_flush_streams(struct soft *s);

/* AUXTRACE_INFO, a stream's encoder, and its bytes into the shared sink. */
int soft_etm_info(struct soft *s);
void soft_etm_open(struct soft_stream *st);
void soft_etm_flush(struct soft_stream *st);
void soft_etm_flush_shared(struct soft *s);

int soft_truth_open(struct soft_truth **tr, const char *path,
		    struct aux_diag *diag);
int soft_truth_add(struct soft_truth *tr, uint32_t tid, const uint64_t *ips,
		   size_t n);
int soft_truth_flush(struct soft_truth *tr);	/* NULL is allowed */
int soft_truth_close(struct soft_truth *tr, struct aux_diag *diag);

/*
 * ---- source_soft.c: what soft_pt and soft_etm share ----
 *
 * The events in the file, the run, the ledger. A kind of source is a table of
 * terms and what they mean for soft.
 */

struct source_soft;

struct source_soft_kind {
	const char *name;	/* of the source */
	const char *pmu;	/* whose trace it is */
	const char *event;	/* as the file names it */
	const char *arch;	/* of the program, as uname says it */
	int machine;		/* EM_* */
	const struct event_field *fields;	/* of the event's config */
	size_t n_fields;
	const char *const *words;	/* terms of our own, NULL ended */
	uint64_t config;		/* before the event's terms */
	/* What the terms mean for soft, into sp->config and more_terms. */
	int (*parse_event)(struct source_soft *sp, struct aux_diag *diag);
};

struct source_soft {
	const struct source_soft_kind *kind;
	const struct source_job *job;
	struct soft_config config;
	struct addrfilter *filters;
	struct soft_program program;
	struct target target;		/* with job->attach */
	bool step, native;		/* the back end: else emulate */
	char note[512];			/* why it is not the usual one; "" */
	char more_terms[128];		/* that are not in config; "a,b=1" */
	struct ledger *ledger;
	struct source_result *result;
};

/* The terms of event into sp->config.attr_config. */
int source_soft_config(struct source_soft *sp, const struct event_spec *event,
		       struct aux_diag *diag);
/* A field of that. */
uint64_t source_soft_term(const struct source_soft *sp, const char *name);
/* Refuses modifiers that ask for more than user code. */
int source_soft_check_user(const struct source_soft *sp, struct aux_diag *diag);

int source_soft_open(void **src, const struct source_soft_kind *kind,
		     const struct source_job *job, struct aux_diag *diag);
/* As in struct source_ops. */
int source_soft_run(void *src, struct output *out, struct ledger *ledger,
		    struct source_result *result, struct aux_diag *diag);
void source_soft_close(void *src);

#endif
