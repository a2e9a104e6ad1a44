/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The timeline's tables, for the files that build and query it. Each line (of a
 * CPU, a thread, a process, a kernel) is an array of entries by time; an entry
 * holds from its own time until the next one.
 */
#ifndef DECODE_LIB_SIDEBAND_IMPL_H
#define DECODE_LIB_SIDEBAND_IMPL_H

#include "common/array.h"
#include "common/idmap.h"
#include "decode/lib/sideband/sideband.h"

/* Machines by slot, the host first. A guest has its own pids and tids, so keys
 * hold the machine's slot: ids of different machines never mix. */
#define HOST_SLOT 0
#define HOST_ID UINT32_MAX
static inline uint64_t machine_key(uint32_t slot, uint32_t id)
{
	return (uint64_t)slot << 32 | id;
}

/* The host's CPUs have lines, guests' have none: no trace is decoded by them. A
 * per-thread AUX stream (AUXTRACE.idx) has a line among the CPUs' lines: which
 * thread it belongs to changes when a thread that is no leader execs. */
#define STREAM_LINE 0x80000000u

/* Who runs. In all entries from is strictly increasing: what comes at the time
 * of the last entry replaces it. */
struct cpu_entry {
	uint64_t from;
	uint32_t pid, tid;	/* pid -1: ask the thread's line */
};

struct cpu_line {
	struct cpu_entry *e;
	size_t n, cap;
};

struct thread_ns {
	struct timeline_ns_id id[TIMELINE_N_NS];
};

struct thread_entry {
	uint64_t from;
	uint32_t pid;		/* -1: unknown */
	const char *comm;	/* NULL: unknown, as for the others */
	const char *cgroup;
	const struct thread_ns *ns;
};

struct thread_line {
	uint64_t key;		/* machine_key(machine, tid) */
	struct thread_entry *e;
	size_t n, cap;
	bool ended;		/* the next thread with this tid is a new one */
};

/* What is mapped, from a time on. */
struct version {
	uint64_t from;
	const struct map_node *root;
	uint32_t content;	/* by timeline_finish: equal contents, equal
				 * number; 0: nothing is mapped */
};

struct version_line {
	struct version *e;
	size_t n, cap;
};

struct process_line {
	struct version_line v;
	const struct map_node *root;	/* of the last version */
	uint32_t n_live;		/* known threads that have not exited */
	bool leader_ended;
};

/*
 * A kernel, as three trees: image and modules; named: the KSYMBOLs over those;
 * root: the bytes that the recording has over those. Each contains the one
 * before, so that removing a layer's mapping uncovers what lies below.
 */
struct machine {
	uint32_t id;		/* as timeline_guest.machine, or HOST_ID */
	size_t n_processes, n_threads;
	const struct map_node *image, *named, *root;
	uint64_t image_start, image_end;	/* of the first record */
	struct version_line v;
};

/* Bytes of one function of a BPF program. */
struct bpf_code {
	uint64_t addr, len;
	const uint8_t *bytes;
	const uint8_t *tag;	/* 8 bytes, NULL: unknown */
	bool used;		/* a KSYMBOL names it */
};

struct made_space;
struct space_table {
	struct made_space *_Atomic *bucket;
	size_t n;		/* power of two */
};

/*
 * Built by one thread in timeline_new, then immutable, but for spaces.bucket:
 * spaces are made when they are first asked for, by any thread (space.c). All
 * tables hold one element for each id, in the order met; ids maps an id to its
 * index.
 */
/* A thread was off the CPU. */
struct off_cpu {
	uint32_t tid;
	int32_t cpu;		/* where it came back; -1: not known */
	uint8_t why;		/* enum off_why */
	uint64_t from, to;	/* to UINT64_MAX: to the end */
	uint64_t moves;		/* the next `to` of the thread that is on another CPU */
};

/* A thread went off the CPU, or came back. */
struct turn {
	uint64_t time, order;	/* order: in the file */
	uint32_t tid;
	int32_t cpu;
	bool out;
	uint8_t why;		/* enum off_why */
};

struct timeline {
	struct array_limit memory;	/* of all that the build makes */
	struct map_arena arena;		/* mappings, trees, names */
	struct {
		struct idmap ids;	/* the host's CPU, or STREAM_LINE | idx */
		struct cpu_line *v;
		size_t n, cap;
	} cpus;
	struct {
		struct idmap ids;	/* machine_key(machine, tid) */
		struct thread_line *v;
		size_t n, cap;
	} threads;
	struct {
		struct idmap ids;	/* machine_key(machine, pid) */
		struct process_line *v;
		size_t n, cap;
	} processes;
	struct {
		struct idmap ids;	/* machine.id; [HOST_SLOT]: the host */
		struct machine *v;
		size_t n, cap;
	} machines;
	struct {
		struct idmap ids;
		struct cgroup {
			uint64_t id;
			const char *path;	/* in the file */
		} *v;
		size_t n, cap;
	} cgroups;
	struct off_cpu *offs;	/* by thread and time; they do not overlap */
	size_t n_offs;
	bool knows_off_cpu;
	bool user_only;		/* the kernel is not traced: a change of its
				 * mappings begins no new space */
	struct space empty;	/* for a process of which nothing is known */
	struct space_table spaces;
	struct {		/* numbers equal contents alike; see space.id */
		struct content {
			uint64_t sum[2];	/* digest of the tree */
			uint32_t number;	/* 0: free */
		} *e;
		size_t cap, n;
	} contents;
	struct {
		struct saved_code *v;	/* by offset */
		size_t n, cap;
		uint64_t end;		/* offset of the next piece */
		struct idmap by_hash;	/* short pieces: equal bytes share one */
	} saved;
	struct {
		struct bpf_code *v;	/* by addr */
		size_t n, cap;
	} bpf;
	struct {
		struct timeline_loss *v;	/* in the order of the file */
		size_t n, cap;
	} losses;
	struct aux_clock clock;
	struct timeline_stats stats;
};

/* Entries with from <= time, in a table of structs that start with from. */
size_t timeline_count(const void *table, size_t n, size_t size, uint64_t time);
/* The path of a cgroup by its id; NULL: unknown. */
const char *timeline_cgroup_path(const struct timeline *tl, uint64_t id);
/* space.c */
void timeline_free_spaces(struct timeline *tl);

/*
 * How the tables are built. A perf.data file has its records in the order in
 * which the per-CPU ring buffers were drained, not in order of time. So build.c
 * turns each record into ops, sorts the ops by time, and applies them: mappings
 * of processes in build.c, of kernels in kernel.c, threads and CPUs in task.c.
 */

/* What an op does. */
enum op_kind {
	OP_MMAP,	/* also saved code */
	OP_COMM,
	OP_FORK,
	OP_EXIT,
	OP_RUN,		/* pid, tid runs on cpu */
	OP_NS,
	OP_CGROUP,
	OP_KSYMBOL,
	OP_POKE,
	OP_POKED,	/* the bytes from before the first poke of a place */
};

#define OP_EXEC 0x01		/* COMM: by exec; FORK: synthesized by the recorder
				 * for a task that existed before */
#define OP_UNTIMED 0x02		/* the record has no time */
#define OP_KERNEL 0x04		/* MMAP */
#define OP_HAS_PREV 0x08	/* RUN: ppid, ptid ran until now */
#define OP_REMOVE 0x10		/* KSYMBOL */

struct op {
	uint64_t time;
	uint32_t order;		/* among equal times */
	uint8_t kind;		/* enum op_kind */
	uint8_t flags;		/* OP_* */
	uint32_t machine;	/* slot */
	uint32_t pid, tid;
	union {
		struct {	/* COMM, FORK, RUN */
			uint32_t cpu;	/* COMM: a thread's stream, or 0 */
			uint32_t ptid, ppid;
			const char *comm;	/* RUN: of tid, 16 bytes */
		};
		struct mapping *map;	/* MMAP, KSYMBOL: for the build only */
		const struct thread_ns *ns;
		uint64_t cgroup;
		struct {	/* POKE, POKED: n_new alone */
			uint64_t addr;
			const uint8_t *bytes;	/* old, then new */
			uint16_t n_old, n_new;
		};
	};
};

/*
 * Bits of op.order, above the place in the file: among ops of one time,
 * mappings of the kernel come first (no bit), then records, then the bytes from
 * before the first poke, then saved code, which lies over all of these.
 */
#define ORDER_RECORD 0x20000000u
#define ORDER_POKED 0x40000000u
#define ORDER_CODE 0x80000000u

/* task.c */
int timeline_apply_task(struct timeline *tl, const struct op *op);
struct process_line *timeline_process(struct timeline *tl, uint32_t machine,
				      uint32_t pid);
/* If the process has ended, its pid is in use again: starts with nothing
 * mapped. */
int timeline_revive(struct timeline *tl, struct process_line *l, uint64_t time);
/* kernel.c */
int timeline_apply_kernel(struct timeline *tl, const struct op *op);
/* space.c: adds a version, or replaces the last one if that has the same time.
 * A first version that does not start at 0 gets an empty one before it. */
int timeline_set_version(struct timeline *tl, struct version_line *l, uint64_t time,
			 const struct map_node *root);

/* One AUX_OWN_CODE. */
struct own_code {
	struct aux_own_code h;
	const uint8_t *bytes;	/* NULL: another record has blob h.blob */
};

/* What ID_INDEX says of an event. */
struct event_info {
	uint32_t idx, tid;	/* stream and thread; idx -1: it traces a CPU */
	uint32_t machine;	/* slot */
};

/* Offsets in the payload of a sched:sched_switch sample. */
struct sched_field {
	uint32_t at, size;	/* size 0: not there */
};
struct sched_format {
	uint64_t config;	/* the event's id, of perf_event_attr */
	bool known;		/* from the file; else the usual layout */
	struct sched_field prev_pid, next_pid, prev_comm, next_comm, prev_state;
};

/* What the pass over the records collects; gone when timeline_new returns. */
struct build {
	struct timeline *tl;
	struct map_arena arena;	/* mappings that ops carry */
	struct op *ops;
	size_t n, cap;
	struct own_code *codes;	/* in the order of the file */
	size_t n_codes, cap_codes;
	struct turn *turns;
	size_t n_turns, cap_turns;
	struct idmap event_ids;
	struct event_info *events;
	size_t n_events, cap_events;
	struct idmap cpu_times;
	uint64_t *last_time;	/* of the last record of each CPU */
	size_t n_times, cap_times;
	struct sched_format sched;
	uint32_t sched_mode;	/* AUX_PT_HAVE_SCHED_SWITCH, 2 when unknown */
	uint32_t pmu_type;
	bool has_switches;	/* an event has attr.context_switch */
	bool met_switch;	/* there is a SWITCH */
	bool tells_preempt;	/* a SWITCH has the bit "preempted" */
	bool is_32bit;		/* the recorded kernel */
	bool swapped;
};

/* NULL: out of memory. */
struct op *timeline_add_op(struct build *b, enum op_kind kind, uint64_t time);
static inline uint64_t timeline_time_of(const struct aux_event *ev)
{
	return ev->id.present & PERF_SAMPLE_TIME ? ev->id.time : 0;
}

/* task.c: from TRACING_DATA, the format of sched_switch */
void timeline_sched_format(struct build *b, struct aux_bytes tracing_data);
/* 1 when the SAMPLE is a switch: fills *op, except cpu and machine. */
int timeline_sched_switch(const struct build *b, const struct aux_event *ev,
			  struct op *op);
/* offcpu.c: a thread of the host went off the CPU or came back. 0 or
 * -AUX_E_NOMEM. */
int timeline_note_switch(struct build *b, const struct aux_event *ev,
			 uint32_t tid, bool out, enum off_why why);
/* Why the thread of a SWITCH went. */
enum off_why timeline_why_switch(struct build *b, const struct aux_event *ev);
/* task.c: why the thread that went did, by a SAMPLE of sched_switch. */
enum off_why timeline_why_sample(const struct build *b,
				 const struct aux_event *ev);
/* After the last of them. 0 or -AUX_E_NOMEM. */
int timeline_pair_switches(struct build *b, const char *release);
/* saved_code.c: keeps an AUX_OWN_CODE record for timeline_add_code. 0 or
 * -AUX_E_NOMEM. */
int timeline_keep_code(struct build *b, const struct aux_event *ev);
/* Adds ops for all saved code, after the last record. */
int timeline_add_code(struct build *b, struct aux_reader *r);
/* Assigns bytes their offset (mapping.saved_offset); equal bytes may share
 * one. */
int timeline_save(struct timeline *tl, const uint8_t *bytes, uint64_t len,
		  uint64_t *offset);
/* Reads AUX_FEAT_BPF_PROG_INFO. */
int timeline_load_bpf(struct build *b, struct aux_reader *r);
/* The code of a KSYMBOL, or NULL. */
struct bpf_code *timeline_find_bpf(const struct timeline *tl,
				   const struct mapping *m);
/* kernel.c: after sorting, adds OP_POKED for each first poke of a place; then
 * ops need sorting again. */
int timeline_look_back(struct build *b);
/* space.c: numbers the contents, after the last op. */
int timeline_finish(struct timeline *tl);

#endif
