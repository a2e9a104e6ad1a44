/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to decode/crash. crash.c finds the process and its end, flow.c collects what
 * its thread ran last, values.c proves values.
 */
#ifndef DECODE_CRASH_IMPL_H
#define DECODE_CRASH_IMPL_H

#include "decode/crash/crash.h"

/* Instructions that values are proven through. */
#define CRASH_PROOF 512

/* flow.c: the thread's last instructions, branches and calls, and who called. at: its last
 * instruction. */
int crash_flow(struct crash *c, const struct replay_place *at, size_t n,
	       struct aux_diag *diag);

/* One of the thread's last instructions. */
struct proof_insn {
	struct insn_effect effect;
	uint64_t ip;
	bool parted;		/* something else may have run between it and the next */
};

/*
 * values.c: registers before each of n instructions, and (insns[n]) after the last of
 * them. regs: those at the end. shared: other threads may write to memory. before and
 * known have n + 1 elements, memory n. False: the instructions and the registers
 * contradict each other, and nothing is proven.
 */
struct proof {
	const struct elfcore *core;
	const struct elfcore_regs *regs;
	bool shared;
	const struct proof_insn *insns;
	size_t n;
	uint64_t (*before)[INSN_REGS];
	uint16_t *known;
	bool contradiction, changed;
};

bool proof_run(struct proof *p);
/* The place in memory that an instruction reads or writes, before it. */
struct crash_memory proof_memory(struct proof *p, size_t i);

#endif
