/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ptrace back end's own: processes with their code, and threads with the
 * one instruction that each is stepping over. step.c runs them, step_proc.c
 * knows their code and mappings. All on the thread that traces, as ptrace(2)
 * requires.
 */
#ifndef CAPTURE_SOFT_STEP_H
#define CAPTURE_SOFT_STEP_H

#include <sys/types.h>
#include <sys/user.h>

#include "common/x86_insn.h"

#include "capture/soft/soft.h"

#define STEP_PAGE 4096u
#define STEP_BLOCK_MAX 64	/* instructions of one block */
#define STEP_BATCH 512		/* blocks, before soft_run */
#define STEP_TRUTH 2048		/* addresses, before soft_truth */

struct step_insn {
	uint64_t ip;
	uint64_t target;	/* of a direct branch */
	uint8_t size;		/* 0: no code can be read there */
	uint8_t cls;
	bool rep;
	bool pushf;		/* stores the flags */
	bool check;		/* its bytes may change any time */
};

struct step_map {
	uint64_t start, end, pgoff, ino;
	uint32_t prot, flags, maj, min;
	bool save;		/* no lasting file has its bytes */
	bool check;		/* its bytes may change any time */
	char *path;
};

/* A page whose bytes are in the file. */
struct step_page {
	uint64_t addr;
	uint8_t bytes[STEP_PAGE];
};

/* Open addressing by address; value 0 is free. */
struct step_hash {
	struct step_hash_entry {
		uint64_t key;
		uint32_t value;	/* index + 1 */
	} *e;
	size_t n, used;
};

struct step_process {
	struct step_process *next;
	struct step *step;
	pid_t pid;
	int mem_fd, pagemap_fd;
	uint32_t n_threads;
	struct step_map *maps;	/* executable ones */
	size_t n_maps;
	struct step_insn *insns;
	size_t n_insns, cap_insns;
	struct step_hash insn_at;
	struct soft_block *blocks;
	size_t n_blocks, cap_blocks;
	struct step_hash block_at;
	struct step_page **pages;
	size_t n_pages;
};

/* What a PTWRITE writes. */
struct step_operand {
	uint64_t value;		/* or where it is */
	bool is_memory;
	int size;		/* 4 or 8 */
};

struct step_thread {
	struct step_thread *next;
	struct step_process *proc;
	struct soft_thread *soft;
	pid_t tid;
	bool user;		/* in user code, as soft knows it */
	bool in_syscall;	/* its system call was reported already */
	bool injected;		/* resumed with a signal */
	bool restart;		/* the system call may run again */
	bool running;		/* resumed, no stop seen since */
	bool vsyscall;		/* resumed at a vsyscall, of which ip is the return */
	uint64_t ip;		/* of insn, which is next or being stepped */
	struct step_insn insn;
	struct user_regs_struct regs; /* at a system call */
	struct step_operand ptw; /* of the PTWRITE that insn is */
	uint64_t left_ns;
	uint64_t block_start;
	uint32_t block_n;
	uint32_t n_ids, n_truth;
	uint32_t ids[STEP_BATCH];
	uint64_t truth[STEP_TRUTH];
};

struct step_build_id {
	struct step_build_id *next;
	uint64_t ino;
	uint32_t maj, min;
	uint8_t id[20];
	uint8_t size;
};

struct step {
	struct soft *s;
	const struct soft_program *p;
	struct aux_diag *diag;
	struct step_process *procs;
	struct step_thread *threads;
	struct step_build_id *build_ids;
	pid_t main_pid;
	int status;
	bool started;		/* the program's exec was seen */
	int error;
	uint64_t shown_ns, ticked_ns;
	uint64_t killed_ns, kill_ns;	/* first and last SIGKILL; 0: none */
};

/* step_proc.c. parent NULL: a first process; else a fork, with the parent's
 * code. */
struct step_process *step_process_new(struct step *st, pid_t pid,
				      const struct step_process *parent);
void step_process_free(struct step_process *proc);
/* After an exec: forgets the code of the old program. */
void step_code_reset(struct step_process *proc);
/* Reads memory of the process; returns the bytes read, fewer at an unmapped
 * page. */
size_t step_memory_read(struct step_process *proc, uint64_t addr, void *buf,
			size_t len);
/* The instruction at ip; its bytes are compared and saved again if they may
 * change. */
int step_insn_get(struct step_thread *t, uint64_t ip, struct step_insn *insn);
/* The id of the block of n instructions from start that ends with last; -1: out
 * of memory. */
int64_t step_block_id(struct step_process *proc, uint64_t start, uint32_t n,
		      const struct step_insn *last);

/* Compares /proc/PID/maps with the last state and reports new executable
 * mappings. */
int step_maps_update(struct step_thread *t, bool is_new);
bool step_maps_overlap(const struct step_process *proc, uint64_t start,
		       uint64_t end);
/* Saves the vdso's bytes of a process whose exec we have not seen. */
int step_vdso_save(struct step_thread *t);

/* Decodes the operand of a PTWRITE before it executes. False: not one. */
bool step_ptwrite_operand(const uint8_t *bytes, size_t size, uint64_t ip,
			  const struct user_regs_struct *regs,
			  struct step_operand *op);

/* Reports to soft all that the process's threads have run. */
int step_flush_process(struct step_process *proc);

#endif
