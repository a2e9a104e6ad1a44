/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timeline: how the tables come to be. Records become ops (record.c), ops
 * are sorted by time (build.c) and applied (apply.c).
 */
#ifndef DECODE_LIB_SIDEBAND_BUILD_H
#define DECODE_LIB_SIDEBAND_BUILD_H

#include "decode/lib/sideband/impl.h"

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

int timeline_apply(struct timeline *tl, const struct op *op);
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
/* The slot of a machine; negative: out of memory. */
int64_t timeline_machine(struct timeline *tl, uint32_t id);
/* record.c: ops of one record about tasks, mappings or kernel code. */
int timeline_take_side(struct build *b, const struct aux_event *ev);
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
