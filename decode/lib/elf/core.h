/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elfcore: a core file of an x86-64 process: its threads with their registers, the
 * signal that ended it, the memory that it had, its files, and the stack of a thread
 * as its unwind tables tell it.
 *
 * Nothing in the file is trusted: each offset is checked, and what a damaged one lacks
 * is not there. Files that it names are opened only if they are regular ones and begin
 * with the bytes that the process had of them.
 *
 * Specification: System V ABI, "Program Header"; core(5); Linux, fs/binfmt_elf.c and
 * include/linux/elfcore.h for the notes.
 */
#ifndef DECODE_LIB_ELF_CORE_H
#define DECODE_LIB_ELF_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

#include "decode/lib/elf/insn.h"

struct elfcore;

/* General registers, as instructions number them, and the others. */
struct elfcore_regs {
	uint64_t gpr[INSN_REGS];
	uint64_t rip, eflags, fs_base, gs_base;
};

struct elfcore_thread {
	uint32_t tid;
	struct elfcore_regs regs;
};

struct elfcore_signal {
	uint32_t signo;		/* 0: the file says none */
	int32_t code;
	uint64_t addr;
	bool has_addr;
	uint32_t sender;	/* a process; 0: none */
};

/* -AUX_E_IO, -AUX_E_NOMEM, -AUX_E_FORMAT (no core file), -AUX_E_UNSUPPORTED (of another
 * machine), with the text. */
int elfcore_open(struct elfcore **c, const char *path, struct aux_diag *diag);
void elfcore_close(struct elfcore *c);

uint32_t elfcore_pid(const struct elfcore *c);
/* Whether a signal ended the process before all of its memory was written. */
bool elfcore_is_cut(const struct elfcore *c);
const struct elfcore_signal *elfcore_signal(const struct elfcore *c);
/* The first is the one that got the signal; NULL past the last. */
const struct elfcore_thread *elfcore_thread(const struct elfcore *c, size_t i);
/* Memory that the file has; how many bytes, at most n. */
size_t elfcore_read(const struct elfcore *c, uint64_t addr, void *buf, size_t n);
/* Whether no other process can have written to these bytes. */
bool elfcore_is_private(const struct elfcore *c, uint64_t addr, size_t n);

/*
 * The addresses at which the functions of a thread's stack go on, the innermost first,
 * as its unwind tables and memory say. Returns how many, at most max; *end: why there
 * are no more, NULL: the stack ends there.
 */
struct elfcore_frame {
	uint64_t pc;
	bool activation;	/* it was interrupted there, and did not call */
};
size_t elfcore_unwind(struct elfcore *c, const struct elfcore_thread *t,
		      struct elfcore_frame *frames, size_t max, const char **end);

#endif
