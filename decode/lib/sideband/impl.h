/* SPDX-License-Identifier: BSD-2-Clause */
/* timeline's tables, shared by the files that build and that query it. */
#ifndef DECODE_LIB_SIDEBAND_IMPL_H
#define DECODE_LIB_SIDEBAND_IMPL_H

#include "decode/lib/sideband/addrspace.h"
#include "decode/lib/sideband/sideband.h"

/* A number and the table slot it stands for. */
struct idmap {
	struct idmap_entry {
		uint64_t key;
		uint32_t slot;	/* + 1; 0: free */
	} *e;
	uint32_t n, cap;	/* cap: power of two */
	uint64_t salt;		/* any; when random, no file can make it slow */
};

/* The slot of key, or -1. */
int64_t idmap_find(const struct idmap *m, uint64_t key);
/* The slot of key; a new one is new_slot. Negative: out of memory. */
int64_t idmap_add(struct idmap *m, uint64_t key, uint32_t new_slot);

/* Machines by slot: 0 is the host. Ids of different machines never meet. */
#define HOST_SLOT 0
#define HOST_ID UINT32_MAX
static inline uint64_t machine_key(uint32_t slot, uint32_t id)
{
	return (uint64_t)slot << 32 | id;
}

/* Streams of threads have lines among those of the CPUs. */
#define STREAM_LINE 0x80000000u

/* Values by time. from grows; of equal times the last one counts. */
struct cpu_entry {
	uint64_t from;
	uint32_t pid, tid;	/* pid -1: that of the thread */
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
	const char *comm;	/* NULL: unknown; so the others */
	const char *cgroup;
	const struct thread_ns *ns;
};

struct thread_line {
	struct thread_entry *e;
	size_t n, cap;
	bool ended;		/* who comes next inherits nothing */
};

/* Contents of a tree from a time on. */
struct version {
	uint64_t from;
	const struct map_node *root;
	uint32_t content;	/* number of the contents, by timeline_finish */
};

struct version_line {
	struct version *e;
	size_t n, cap;
};

struct process_line {
	struct version_line v;
	const struct map_node *root;	/* of the last one */
	uint32_t n_live;		/* known threads that did not end */
	bool leader_ended;
};

/*
 * A kernel. image: what is mapped; named: with KSYMBOLs over it; root: with the
 * bytes that the recording has over that.
 */
struct machine {
	uint32_t id;		/* as timeline_guest, or HOST_ID */
	const struct map_node *image, *named, *root;
	uint64_t image_start, image_end;	/* as first said */
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

struct timeline {
	struct map_arena arena;
	struct idmap cpus, tids, pids, machines, cgroups;
	struct cpu_line *cpu;
	struct thread_line *thread;
	struct process_line *process;
	struct machine *machine;
	const char **cgroup;
	size_t n_cpu, n_thread, n_process, n_machine, n_cgroup;
	size_t cap_cpu, cap_thread, cap_process, cap_machine, cap_cgroup;
	bool user_only;		/* the kernel is not traced: its versions are
				 * no reason to switch */
	struct space empty;
	struct space_table spaces;
	struct {	/* contents -> number */
		struct content {
			uint64_t sum[2];
			uint32_t number;	/* 0: free */
		} *e;
		size_t cap, n;
	} contents;
	struct aux_clock clock;
	struct timeline_stats stats;
	struct timeline_loss *loss;
	size_t n_loss, cap_loss;
	struct saved_code *saved;	/* of records, by offset */
	size_t n_saved, cap_saved;
	uint64_t saved_end;		/* offset of what comes next */
	struct idmap saved_by_hash;	/* of short pieces: equal bytes, equal
					 * place */
	struct bpf_code *bpf;		/* by addr */
	size_t n_bpf, cap_bpf;
};

/* Entries with from <= time, in a table of structs that start with from. */
size_t timeline_count(const void *table, size_t n, size_t size, uint64_t time);
/* The version of a time, or NULL. */
void timeline_free_spaces(struct timeline *tl);

/*
 * timeline: how the tables come to be. Records become ops (record.c), ops
 * are sorted by time (build.c) and applied (apply.c).
 */

/* What an op does to the tables, in order of time. */
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
	OP_POKED,	/* what is there before the first poke */
};

#define OP_EXEC 0x01		/* COMM, and FORK made up by a recorder */
#define OP_UNTIMED 0x02		/* the file does not say when */
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

/* Which places an op takes among those of its time: kernels' mappings first. */
#define ORDER_RECORD 0x20000000u
#define ORDER_POKED 0x40000000u	/* behind the records */
#define ORDER_CODE 0x80000000u	/* and behind those */

/* task.c */
int timeline_apply_task(struct timeline *tl, const struct op *op);
struct process_line *timeline_process(struct timeline *tl, uint32_t machine,
				      uint32_t pid);
/* A process that ended starts anew with the next record about it. */
int timeline_revive(struct process_line *l, uint64_t time);
/* kernel.c */
int timeline_apply_kernel(struct timeline *tl, const struct op *op);
/* space.c: gives a line a new version, or replaces that of the same
 * time. A first one that does not start at 0 gets an empty one before it. */
int timeline_set_version(struct version_line *l, uint64_t time,
			 const struct map_node *root);

/* One AUX_OWN_CODE. */
struct own_code {
	struct aux_own_code h;
	const uint8_t *bytes;	/* NULL: those of h.blob */
};

/* An event by its id. */
struct event_info {
	uint32_t idx, tid;	/* the thread that it traces; idx -1: none */
	uint32_t machine;	/* slot */
	uint32_t vcpu;
};

/* Where a sched_switch payload has what. */
struct sched_field {
	uint32_t at, size;	/* size 0: not there */
};
struct sched_format {
	uint64_t config;	/* the event's id, of perf_event_attr */
	bool known;		/* the file has the format */
	struct sched_field prev_pid, next_pid, prev_comm, next_comm;
};

/* What the pass over the records collects. */
struct build {
	struct timeline *tl;
	struct map_arena arena;	/* for the build alone */
	struct op *ops;
	size_t n, cap;
	struct own_code *codes;	/* in the order of the file */
	size_t n_codes, cap_codes;
	struct idmap event_ids;
	struct event_info *events;
	size_t n_events, cap_events;
	struct idmap cpu_times;
	uint64_t *last_time;	/* of each CPU, in the order of the file */
	size_t n_times, cap_times;
	struct sched_format sched;
	uint32_t sched_mode;	/* AUX_PT_HAVE_SCHED_SWITCH, 2 when unknown */
	uint32_t pmu_type;
	bool has_switches;	/* an event gives SWITCH records */
	bool is_32bit;		/* the machine's kernel */
	bool swapped;
};

/* NULL: out of memory. */
struct op *timeline_add_op(struct build *b, enum op_kind kind, uint64_t time);
static inline uint64_t timeline_time_of(const struct aux_event *ev)
{
	return ev->id.present & PERF_SAMPLE_TIME ? ev->id.time : 0;
}
/* sched.c */
void timeline_sched_format(struct build *b, struct aux_bytes tracing_data);
/* A SAMPLE; 1 when it is a switch, with *op filled but for cpu and machine. */
int timeline_sched_switch(const struct build *b, const struct aux_event *ev,
			  struct op *op);
/* code.c: an own record that may hold code; -AUX_E_NOMEM at worst. */
int timeline_keep_code(struct build *b, const struct aux_event *ev);
/* Ops for all saved code, after the last record. */
int timeline_add_code(struct build *b, struct aux_reader *r);
/* The place of bytes among the saved; equal bytes may share one. */
int timeline_save(struct timeline *tl, const uint8_t *bytes, uint64_t len,
		  uint64_t *offset);
/* bpf.c: AUX_FEAT_BPF_PROG_INFO into tl->bpf. */
int timeline_load_bpf(struct build *b, struct aux_reader *r);
/* Code of a KSYMBOL, or NULL. */
struct bpf_code *timeline_find_bpf(const struct timeline *tl,
				   const struct mapping *m);
/* kernel.c, ops sorted: adds OP_POKED where bytes are first poked. */
int timeline_look_back(struct build *b);
/* space.c: after the last op. */
int timeline_finish(struct timeline *tl);

#endif
