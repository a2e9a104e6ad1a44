/* SPDX-License-Identifier: BSD-2-Clause */
/* timeline's tables, shared by the files that build and that query it. */
#ifndef AUXDECODE_TIMELINE_PRIV_H
#define AUXDECODE_TIMELINE_PRIV_H

#include "addrspace.h"
#include "timeline.h"

/* A number and the table slot it stands for. */
struct idmap {
	struct idmap_entry {
		uint32_t key;
		uint32_t slot;	/* + 1; 0: free */
	} *e;
	uint32_t n, cap;	/* cap: power of two */
};

/* The slot of key, or -1. */
int64_t idmap_find(const struct idmap *m, uint32_t key);
/* The slot of key; a new one is *n_slots. Negative: out of memory. */
int64_t idmap_add(struct idmap *m, uint32_t key, uint32_t new_slot);

/* Streams of threads have lines among those of the CPUs. */
#define STREAM_LINE 0x80000000u

/* Values by time. from grows; of equal times the last one counts. */
struct cpu_entry {
	uint64_t from;
	uint32_t pid, tid;
};

struct cpu_line {
	struct cpu_entry *e;
	size_t n, cap;
};

struct thread_entry {
	uint64_t from;
	uint32_t pid;
	const char *comm;	/* NULL: unknown */
};

struct thread_line {
	struct thread_entry *e;
	size_t n, cap;
};

struct process_line {
	struct space **e;
	size_t n, cap;
	const struct map_node *root;	/* of the last one */
};

struct timeline {
	struct map_arena arena;
	struct idmap cpus, tids, pids;
	struct cpu_line *cpu;
	struct thread_line *thread;
	struct process_line *process;
	size_t n_cpu, n_thread, n_process;
	size_t cap_cpu, cap_thread, cap_process;
	const struct map_node *kernel;
	struct space empty;
	struct {	/* contents -> id */
		uint64_t (*sum)[2];
		size_t cap, n;
	} ids;
	struct aux_clock clock;
	struct timeline_stats stats;
	struct saved_code *saved;	/* of records, by offset */
	size_t n_saved, cap_saved;
};

/* Room for one more element; doubles. 0 or -AUX_E_NOMEM. */
int timeline_grow(void *array, size_t *cap, size_t n, size_t size);

/* timeline_apply.c: what an op does to the tables, in order of time. */
enum op_kind {
	OP_MMAP,	/* also saved code */
	OP_COMM,
	OP_FORK,
	OP_RUN,		/* pid, tid runs on cpu */
};

struct op {
	uint64_t time;
	uint32_t order;		/* among equal times */
	uint8_t kind;		/* enum op_kind */
	bool exec;
	bool untimed;		/* the file does not say when */
	uint32_t pid, tid;
	uint32_t cpu, ptid, ppid;	/* COMM: a thread's stream, or 0 */
	const char *comm;
	struct mapping *map;
};

int timeline_apply(struct timeline *tl, const struct op *op);

/* One AUX_OWN_CODE. */
struct own_code {
	struct aux_own_code h;
	const uint8_t *bytes;	/* NULL: those of h.blob */
};

/* An event that traces one thread. */
struct thread_event {
	uint64_t id;
	uint32_t idx, tid;
};

/* What timeline_build.c collects. */
struct build {
	struct timeline *tl;
	struct op *ops;
	size_t n, cap;
	struct own_code *codes;	/* in the order of the file */
	size_t n_codes, cap_codes;
	struct thread_event *events;
	size_t n_events, cap_events;
	uint32_t sched_mode;	/* AUX_PT_HAVE_SCHED_SWITCH, 2 when unknown */
	uint32_t pmu_type;
	bool user_only;		/* the kernel is not traced */
	bool swapped;
};

/* NULL: out of memory. */
struct op *timeline_add_op(struct build *b, enum op_kind kind, uint64_t time);
/* timeline_code.c: an own record that may hold code; -AUX_E_NOMEM at worst. */
int timeline_keep_code(struct build *b, const struct aux_event *ev);
/* Ops for all saved code, after the last record. */
int timeline_add_code(struct build *b, struct aux_reader *r);
/* After the last op. */
int timeline_finish(struct timeline *tl);

#endif
