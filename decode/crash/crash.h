/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crash: how a process of a recording came to its end.
 *
 * The recording says what its last thread ran, and which signal came. A core file says
 * what the registers and the memory were then; from there values are proven backwards.
 */
#ifndef DECODE_CRASH_CRASH_H
#define DECODE_CRASH_CRASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/extension.h>

#include "decode/lib/elf/core.h"
#include "decode/lib/session/session.h"
#include "decode/lib/replay/replay.h"

#define CRASH_FRAMES 64
#define CRASH_LINES 200		/* of each list, at most */
#define CRASH_SIGNALS 16

struct names;

struct crash_config {
	struct session *session;	/* outlives the crash */
	const char *core;	/* file; NULL: none */
	int64_t pid, tid;	/* -1: that which a signal ended */
	size_t n;		/* how many calls, branches, instructions; to CRASH_LINES */
};

/* A value that an operand had before the instruction ran. */
struct crash_memory {
	uint64_t addr, value;
	uint8_t size;		/* 0: the value is not proven */
	bool has_addr;
};

struct crash_insn {
	uint64_t ip, time_ns;
	bool ran;		/* false: the signal came in place of it */
	struct insn_effect effect;
	uint64_t before[INSN_REGS];	/* registers before it, of those in known */
	uint16_t known;
	uint16_t operands;	/* registers that it has as operands or in addresses */
	struct crash_memory memory;	/* that it reads or writes, before it */
};

struct crash_call {
	uint64_t from, to, time_ns;
	unsigned depth;		/* of those that are shown, the outermost has 0 */
	bool returned;
};

struct crash_branch {
	uint64_t from, to, time_ns;
	uint8_t end;		/* enum aux_range_end */
};

struct crash_frame {
	uint64_t pc;		/* where it goes on */
	uint64_t call;		/* where its symbol is looked up */
	bool interrupted;
	bool handler;		/* a signal handler returns to it: it called nothing */
};

struct crash {
	struct replay *replay;
	struct elfcore *core;	/* NULL: none */
	struct sink_host host;
	uint32_t pid, tid;
	/* How it ended; signo 0: nothing says that a signal did. */
	struct aux_own_signal signal;
	bool from_core;		/* the core file alone says so */
	bool dumped;
	/* Signals that the process got before, the last ones. */
	struct aux_own_signal earlier[CRASH_SIGNALS];
	size_t n_earlier, n_dropped;
	const struct space *space;
	uint16_t mode;
	uint64_t ip;		/* where it ended, did not run; */
	bool has_ip;		/* and whether that is known */
	unsigned gap;		/* cause of the GAP between the last instruction that is
				 * known and the end; 0: there is none */
	uint64_t time_ns;	/* the last time that is known */
	struct crash_insn insns[CRASH_LINES + 1];	/* the oldest first */
	size_t n_insns;
	struct crash_call calls[CRASH_LINES];
	size_t n_calls;
	struct crash_branch branches[CRASH_LINES];
	size_t n_branches;
	bool begins;		/* the flow begins after a gap, within what is shown */
	struct crash_frame flow[CRASH_FRAMES];
	size_t n_flow;
	struct crash_frame stack[CRASH_FRAMES];	/* by the core */
	size_t n_stack;
	const char *stack_end;	/* why it has no more; NULL: it ends there */
	/* Frames from which the two differ; -1: they do not. */
	int differs, stack_differs;
	bool bad_return;	/* it returned to ip, and not to its caller */
	const struct elfcore_thread *thread;	/* its registers; NULL: no core */
	const char *unproven;	/* why there are no values; NULL: there may be some */
};

/* -AUX_E_NOENT with a text: there is no such process, or nothing of it ran. */
int crash_find(struct crash **c, const struct crash_config *config,
	       struct aux_diag *diag);
void crash_free(struct crash *c);

/* "SIGSEGV"; NULL: a number without a name. */
const char *crash_signal_name(uint32_t signo);
/* What si_code says of it, "address not mapped"; NULL: nothing. */
const char *crash_code_text(uint32_t signo, int32_t code);

#endif
