/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timeline: who ran where, and what was mapped when; addrspace: the trees of
 * mappings that it keeps.
 *
 * One pass over the records builds it; then it never changes, so any thread can
 * decode any chunk in any order. Times are perf clock nanoseconds. Records of
 * equal time apply in the order of the file, and a record applies from its own
 * time on.
 */
#ifndef DECODE_LIB_SIDEBAND_SIDEBAND_H
#define DECODE_LIB_SIDEBAND_SIDEBAND_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/decoder.h>
#include <aux/error.h>
#include <aux/reader.h>

struct array_limit;
struct timeline;

enum mapping_kind {
	MAPPING_USER = 0,	/* a process's: file, vdso, anonymous */
	MAPPING_KERNEL,		/* the kernel's image, see ref_name */
	MAPPING_MODULE,		/* path: its file, or "[name]" if unknown; pgoff
				 * counts from its .text */
	MAPPING_KSYMBOL,	/* path: the name in the KSYMBOL record (a BPF
				 * program, a trampoline); pgoff counts from
				 * the start of the symbol */
};

/*
 * For the kernel's image pgoff is the address of start itself. The kernel may have been
 * moved at boot (KASLR): in vmlinux the code of ip is at
 * ip - (ref_addr - address of the symbol ref_name in vmlinux).
 */
struct mapping {
	uint64_t start, end;	/* virtual addresses */
	uint64_t pgoff;		/* file offset of start; see above and kind */
	uint64_t time;		/* of its record */
	const char *path;	/* never NULL. The kernel's image: its name as
				 * "[kernel.kallsyms]", "[guest.kernel.kallsyms]" */
	uint8_t build_id[20];
	uint8_t build_id_size;	/* 0: not recorded */
	uint8_t kind;		/* enum mapping_kind */
	uint32_t prot;
	const uint8_t *saved;	/* bytes that the recording has (saved by the
				 * recorder, TEXT_POKE, BPF_PROG_INFO); they win
				 * over the file's. NULL: in the file */
	uint64_t saved_offset;	/* of saved, see struct saved_code */
	const char *ref_name;	/* KERNEL: "_text", "_stext"; NULL: none */
	uint64_t ref_addr;	/* its address at run time; 0: unknown */
};

/* Code bytes of records and of BPF_PROG_INFO. */
struct saved_code {
	const uint8_t *bytes;
	uint64_t len;
	uint64_t offset;	/* as mapping.saved_offset: counts from the first
				 * blob of AUXKIT_CODE, and lies past the last */
};

struct map_node;

/* An address space between two changes. Immutable. Walk it with space_next. */
struct space {
	uint64_t id;		/* equal id, equal contents; never 0 */
	uint32_t pid;
	uint64_t from, until;	/* ns, [from, until) */
	uint32_t n_maps;	/* without the kernel's */
	const struct map_node *root;	/* the process's, by address */
	const struct map_node *kernel;	/* what all processes of the machine
					 * share, as it was then */
};

struct who {
	uint32_t pid, tid;	/* -1: unknown; 0: idle */
	uint64_t until;		/* holds before this time; UINT64_MAX: to the end */
};

/* What the records say of the recording; counted by timeline_new. */
struct timeline_stats {
	uint64_t n_records;
	uint64_t n_lost;	/* records lost (LOST, LOST_SAMPLES) */
	uint64_t n_aux_flagged;	/* AUX records with TRUNCATED or PARTIAL */
	uint64_t n_throttled;
	uint64_t n_unordered;	/* mappings that replaced others at an unknown
				 * time: decoding may use the wrong ones */
	uint64_t n_bad_code;	/* pieces of saved code that are inconsistent */
	uint64_t lost_from, lost_until;	/* ns, around all losses; 0: none, or
					 * their times are unknown */
	bool damaged;		/* reading ended with an error, in damage */
	struct aux_diag damage;
};

/* Records that were lost between two times; one for each LOST record. */
struct timeline_loss {
	uint64_t from, until;	/* ns; from: the previous record of the same CPU,
				 * 0: unknown. until 0: unknown */
	uint64_t n;
	uint32_t cpu;		/* -1: unknown */
	bool samples;		/* LOST_SAMPLES: samples only */
};

/* Kinds of namespaces, in the order of PERF_RECORD_NAMESPACES. */
enum timeline_ns {
	TIMELINE_NS_NET, TIMELINE_NS_UTS, TIMELINE_NS_IPC, TIMELINE_NS_PID,
	TIMELINE_NS_USER, TIMELINE_NS_MNT, TIMELINE_NS_CGROUP,
	TIMELINE_N_NS,
};

struct timeline_ns_id {
	uint64_t dev, inode;	/* of /proc/PID/ns/..; inode 0: unknown */
};

/* Reads all records (rewinds r first); the file stays mapped as long as tl,
 * which points into it. Counts what it could not use. 0, -AUX_E_NOMEM, or
 * -AUX_E_LIMIT: more than so many bytes of memory (0: as many as it takes). A
 * damaged file gives what comes before the damage. */
int timeline_new(struct timeline **tl, struct aux_reader *r, uint64_t memory,
		 struct aux_diag *diag);
/* Bytes that its tables take. */
uint64_t timeline_memory(const struct timeline *tl);
void timeline_free(struct timeline *tl);

const struct timeline_stats *timeline_stats(const struct timeline *tl);

/* Saved code of records; NULL past the last. */
const struct saved_code *timeline_saved(const struct timeline *tl, size_t i);

/* In the order of the file; NULL past the last. */
const struct timeline_loss *timeline_loss(const struct timeline *tl, size_t i);

/* Who runs on a CPU at a time. */
struct who timeline_who(const struct timeline *tl, uint32_t cpu, uint64_t time);
/* Whose the AUX stream of a thread is after an exec by a thread that is no
 * leader; tid -1: no such exec happened yet. */
struct who timeline_stream(const struct timeline *tl, uint32_t idx,
			   uint64_t time);
/* Why a thread was off the CPU. */
enum off_why {
	OFF_UNKNOWN = 0,	/* the records do not tell */
	OFF_BLOCKED,		/* it waited for something */
	OFF_PREEMPTED,		/* it could have gone on */
};

struct off_span {
	uint64_t from, to;	/* ns */
	unsigned why;		/* enum off_why */
	int32_t cpu;		/* it came back on this one, at to; -1: not known */
};

/* Whether records of switches say when threads were off the CPU. */
bool timeline_knows_off_cpu(const struct timeline *tl);
/* The first part of [from, to) that a thread was off the CPU; false: none, as
 * far as records of switches say. */
bool timeline_off_cpu(const struct timeline *tl, uint32_t tid, uint64_t from,
		      uint64_t to, struct off_span *span);
/* When a thread, after a time, next comes back on another CPU than this one, as far as
 * records of switches say; UINT64_MAX: it does not. */
uint64_t timeline_thread_moves(const struct timeline *tl, uint32_t tid, uint32_t cpu,
			       uint64_t time);
/* The process of a thread at a time; -1 when unknown. */
uint32_t timeline_pid(const struct timeline *tl, uint32_t tid, uint64_t time);
/* Until then its process and name, and what else is asked of a thread, stay as they
 * are at that time. */
uint64_t timeline_thread_until(const struct timeline *tl, uint32_t tid,
			       uint64_t time);
/* The thread's name at a time; never NULL. */
const char *timeline_comm(const struct timeline *tl, uint32_t tid,
			  uint64_t time);
/* Could a space not be made for want of memory? What was decoded since is no
 * result. From any thread. */
bool timeline_nomem(const struct timeline *tl);
/* The TIMELINE_N_NS namespaces of a thread at a time; NULL: not recorded. */
const struct timeline_ns_id *timeline_namespaces(const struct timeline *tl,
						 uint32_t tid, uint64_t time);
/* The path of the cgroup in which samples saw the thread last; NULL:
 * unknown. */
const char *timeline_cgroup(const struct timeline *tl, uint32_t tid,
			    uint64_t time);
/* Walks the threads, in the order in which they were met; *i starts at 0. False
 * past the last. */
bool timeline_next_thread(const struct timeline *tl, size_t *i, uint32_t *tid);
/* The i-th cgroup of the file: its id, and its path. NULL past the last. */
const char *timeline_cgroup_at(const struct timeline *tl, size_t i,
			       uint64_t *id);
/*
 * The address space of a process at a time, with the kernel of that time; never
 * NULL, may be empty. pid -1 (and any unknown one): the kernel's alone. Safe to
 * call from any thread; the space lives as long as the timeline. A process that
 * ended keeps its space until its pid is taken again. Where the kernel is not
 * traced, its last state stands for all times.
 */
const struct space *timeline_space(const struct timeline *tl, uint32_t pid,
				   uint64_t time);

/*
 * Guests: machine is the pid of the hypervisor's process on the host (or the id
 * that stands for it in the file; 0: the only guest, of `perf kvm`). Answers
 * about the host never contain anything of a guest, and vice versa.
 */
struct timeline_guest {
	uint32_t machine;
	size_t n_processes, n_threads;	/* that records name */
};

/* The i-th guest; false past the last. */
bool timeline_guest(const struct timeline *tl, size_t i,
		    struct timeline_guest *guest);
const struct space *timeline_guest_space(const struct timeline *tl,
					 uint32_t machine, uint32_t pid,
					 uint64_t time);

/* The mapping that contains addr, or NULL. */
const struct mapping *space_find(const struct space *s, uint64_t addr);
/* The process's first mapping that ends after addr, or NULL: for walking. */
const struct mapping *space_next(const struct space *s, uint64_t addr);
/* The same of the kernel's. */
const struct mapping *space_next_kernel(const struct space *s, uint64_t addr);

/* TSC <-> perf clock, from AUXTRACE_INFO or TIME_CONV. mult 0: none known. */
const struct aux_clock *timeline_clock(const struct timeline *tl);
uint64_t clock_to_ns(const struct aux_clock *c, uint64_t tsc);
/* The first TSC whose time is ns or later. */
uint64_t clock_horizon(const struct aux_clock *c, uint64_t ns);

/*
 * addrspace: address spaces as persistent balanced trees (treaps).
 *
 * A tree is a root pointer and never changes; inserting gives a new root that
 * shares all but O(log n) nodes with the old one. So each version of each
 * process costs little, a fork costs nothing, and readers need no lock.
 * Mappings of one tree are disjoint.
 */

struct map_node {
	const struct map_node *left, *right;
	const struct mapping *map;
	uint32_t prio;
	uint32_t n;		/* mappings in this subtree */
	uint64_t sum[2];	/* digests of the subtree's mappings, added */
};

/* Memory of all trees; freed as one. */
struct map_arena {
	struct map_arena_block *blocks;
	size_t fresh;	/* from there on in the newest block: of this change */
	bool goes_on;	/* changes are parts of one: nothing leads to the roots
			 * between them, so what is new is written in place */
	struct array_limit *limit;	/* of its memory, with others'; NULL: none */
	uint64_t seed, salt;	/* random, so that no file can make trees deep or
				 * digests equal */
	bool oom;	/* sticky: something could not be allocated */
};

void *map_arena_alloc(struct map_arena *a, size_t size);
void map_arena_free(struct map_arena *a);

/*
 * root with m added, and what m overlaps cut away. m is copied into the arena.
 * Only valid while !a->oom.
 */
const struct map_node *addrspace_insert(struct map_arena *a,
					const struct map_node *root,
					const struct mapping *m);
/* The same, but m only fills what is free. */
const struct map_node *addrspace_insert_under(struct map_arena *a,
					      const struct map_node *root,
					      const struct mapping *m);
/* root with its mappings in [start, end) replaced by those of from; from NULL:
 * with nothing there. */
const struct map_node *addrspace_copy(struct map_arena *a,
				      const struct map_node *root,
				      const struct map_node *from,
				      uint64_t start, uint64_t end);
/* The mapping that contains addr, or NULL. */
const struct mapping *addrspace_find(const struct map_node *root,
				     uint64_t addr);
/* The first mapping that ends after addr, or NULL. */
const struct mapping *addrspace_next(const struct map_node *root,
				     uint64_t addr);

#endif
