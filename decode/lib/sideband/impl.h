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
const struct version *timeline_version(const struct version_line *l,
				       uint64_t time);
void timeline_free_spaces(struct timeline *tl);

#endif
