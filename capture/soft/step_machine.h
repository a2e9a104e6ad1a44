/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What following a program by single steps needs to know of the processor: registers,
 * instructions, what the kernel says at a stop, and what a step cannot do there.
 * step_x86.c, step_a64.c: one of them is built.
 *
 * Classes of instructions are those of enum x86_class; an instruction that only A64 has
 * (ISB) has its number of enum a64_class.
 */
#ifndef CAPTURE_SOFT_STEP_MACHINE_H
#define CAPTURE_SOFT_STEP_MACHINE_H

#include <elf.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct step_thread;
struct step_insn;

#ifdef __aarch64__
#define STEP_NAME "AArch64"
#define STEP_32BIT EM_ARM	/* what is refused later, by its registers */
#define STEP_INSN_MAX 4		/* bytes */
#define STEP_CALL_BYTES 4	/* of a system call's instruction */
#define STEP_PUSHED 0		/* by a call, onto the stack */
#define STEP_CALL_BACK true	/* a call that is to run again stops at its instruction */
#else
#define STEP_NAME "x86-64"
#define STEP_32BIT EM_386
#define STEP_INSN_MAX 15
#define STEP_CALL_BYTES 2
#define STEP_PUSHED 8
#define STEP_CALL_BACK false
#endif

/* ---- registers of a stopped thread. Where there are none any more, 0 and errno ---- */

bool step_regs_read(pid_t tid, struct user_regs_struct *r);
uint64_t step_ip_read(pid_t tid);
uint64_t step_sp_read(pid_t tid);
/* At the first instruction of a function: where it returns to; 0: not known. */
uint64_t step_return_read(struct step_thread *t);
bool step_is_32bit(pid_t tid);

/* ---- system calls: t->regs, from before its instruction until the call has ended ---- */

uint64_t step_call_number(const struct step_thread *t);
uint64_t step_call_arg(const struct step_thread *t, unsigned i);
/* It came back: its result. t->regs stays as before it. Where the kernel may run it again
 * t->ip is there, or t->restart is set if the kernel does so within the next step. */
int64_t step_call_result(struct step_thread *t);
/* A thread that was attached to: was it in a call that may be run again? */
bool step_call_broken(struct step_thread *t);

/* ---- stops ---- */

enum step_trap {
	STEP_TRAP_NONE,		/* nothing more ran than was told */
	STEP_TRAP_STEP,		/* the instruction has run */
	STEP_TRAP_CALL,		/* a step over a system call, which is over */
	STEP_TRAP_HANDLER,	/* at the first instruction of a handler */
	STEP_TRAP_BREAK,	/* the program's own breakpoint has run, into the kernel */
	STEP_TRAP_OTHER,	/* a signal like others */
};

/* What a stop by SIGTRAP is that is no event. */
enum step_trap step_trap_kind(const siginfo_t *si);
/* A trap of a step, or (int3) of a breakpoint, among the signals that wait? */
bool step_trap_is(const siginfo_t *si, bool int3);
/* The thread stopped at ip by a step: has t->insn run, as far as ip tells? */
bool step_has_moved(const struct step_thread *t, uint64_t ip);
/* t->restart: has the call been run again, of which a stop at ip shows the end? */
bool step_is_restart(const struct step_thread *t, uint64_t ip);

/* ---- instructions ---- */

/* Decodes the one at insn->ip. Returns its size; 0: none. */
int step_insn_decode(const uint8_t *bytes, size_t n, struct step_insn *insn);
/* The thread is about to step over t->insn, with a signal or 0. True: it was resumed, to
 * run over more than that, as single steps would not get through. */
bool step_insn_before(struct step_thread *t, int sig);
/* insn was stepped over: what the step left in the program's own memory is taken away. */
void step_insn_after(struct step_thread *t, const struct step_insn *insn);
/* A thread stopped that step_insn_before() has resumed: the next instruction that it ran,
 * and what comes after it. False: there is none left. */
bool step_insn_ran(struct step_thread *t, struct step_insn *insn, uint64_t *next);
/* A thread stands before an instruction that would save or load the flag of a step, and
 * will not be stepped over it. */
void step_clear_trap_flag(const struct step_thread *t);

/* A clock that is quick to read; its unit is not known. */
uint64_t step_ticks(void);

#endif
