/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A64 instructions as trace sees them: the kind of branch.
 *
 * Specification: Arm ARM (DDI 0487), chapter C4 (encodings); ETMv4 and ETE
 * (IHI 0064), "P0 elements", for which of them trace reports.
 */
#ifndef COMMON_A64_INSN_H
#define COMMON_A64_INSN_H

#include <stdint.h>

/* The numbers are those of enum x86_class, as far as both have the kind. */
enum a64_class {
	A64_OTHER = 0,
	A64_COND = 1,		/* b.cond, bc.cond, cbz, cbnz, tbz, tbnz, cb<cc> */
	A64_JUMP = 2,		/* b */
	A64_CALL = 3,		/* bl */
	A64_RET = 4,		/* ret, retaa, retab, retaasppc.. */
	A64_IND_JUMP = 5,	/* br, braa.. */
	A64_IND_CALL = 6,	/* blr, blraa.. */
	A64_SYSCALL = 7,	/* svc, hvc, smc; and what is there to raise an
				 * exception: brk, hlt, udf, dcps, tenter */
	A64_FAR = 8,		/* eret, eretaa.., drps, texit */
	A64_ISB = 10,		/* falls through, but trace has it as a branch */
	A64_UNKNOWN = 11,	/* in the space of branches, but not allocated: if
				 * it ran, nobody knows where it went */
};

struct a64_insn {
	uint8_t cls;		/* enum a64_class */
	int32_t disp;		/* direct branches: target - own address */
};

/* Never fails: what is not allocated is A64_OTHER, or A64_UNKNOWN where new
 * branches are allocated. Returns insn->cls. */
int a64_insn_decode(uint32_t word, struct a64_insn *insn);

#endif
