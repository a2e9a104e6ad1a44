/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What follows each opcode of x86, as a number; the tables of x86_insn.c alone.
 *
 * Specification: Intel SDM volume 2, chapter 2 and appendix A.
 */
#ifndef COMMON_X86_OPCODES_H
#define COMMON_X86_OPCODES_H

#include <stdint.h>

#include "common/x86_insn.h"

/*
 * What follows an opcode, as one number. Bits 0 to 3 and 28 to 31 serve the quick
 * way: a mask for the size of ModRM with what it brings, and the immediate's size
 * where no prefix changes it. Bits 8 to 15 are the class.
 */
enum {
	M = 7,			/* there is a ModRM */
	WIDE = 1 << 3,		/* 8 bytes of immediate with REX.W */
	CLASS_SHIFT = 8,
	KIND_SHIFT = 16,	/* of the immediate */
	OPZ = 1 << 22,		/* the immediate is 2 bytes under 66 */
	REL = 1 << 23,		/* the immediate is a displacement */
	STR = 1 << 24,		/* string instruction */
	GROUP = 1 << 25,	/* ModRM decides */
	XX = 1 << 26,		/* invalid */
	PF = 1 << 27,		/* prefix or escape, not an opcode */
	SIZE_SHIFT = 28,
	NOT_QUICK = GROUP | XX | PF,
};

/* Immediates, as the shift that gives their size in a word of sizes. */
#define KIND(k, size) \
	((k) << 2 << KIND_SHIFT | (int)((unsigned)(size) << SIZE_SHIFT))
enum {
	IB = KIND(1, 1),
	IW = KIND(2, 2),
	IZ = KIND(3, 4) | OPZ,		/* as wide as operands, at most 4 */
	IV = KIND(4, 4) | OPZ | WIDE,	/* IZ, but 8 with REX.W */
	AO = KIND(5, 8),		/* an address */
	EN = KIND(6, 3),		/* ENTER: 2 + 1 */
	JZ = KIND(7, 4),		/* IZ; always 4 in 64-bit mode */
	FP = KIND(8, 6),		/* far pointer: IZ + 2 */
	IMM = KIND(15, 15) | OPZ | WIDE,
};

static unsigned kind_of(unsigned form)
{
	return form >> KIND_SHIFT & 0x3c;
}

enum {
	MB = M | IB,
	MZ = M | IZ,
	MG = M | GROUP,
	CC = IB | REL | X86_COND << CLASS_SHIFT,
	CZ = JZ | REL | X86_COND << CLASS_SHIFT,
	JB = IB | REL | X86_JUMP << CLASS_SHIFT,
	JJ = JZ | REL | X86_JUMP << CLASS_SHIFT,
	CA = JZ | REL | X86_CALL << CLASS_SHIFT,
	RE = X86_RET << CLASS_SHIFT,
	RW = IW | RE,
	SY = X86_SYSCALL << CLASS_SHIFT,
	SI = IB | SY,
	FA = X86_FAR << CLASS_SHIFT,
	FW = IW | FA,
};

/* Opcodes of one byte in 64-bit mode, then those after 0F. table */
static const uint32_t opcodes[512] = {
	M, M, M, M, IB, IZ, XX, XX, M, M, M, M, IB, IZ, XX, PF,		/* 00 */
	M, M, M, M, IB, IZ, XX, XX, M, M, M, M, IB, IZ, XX, XX,
	M, M, M, M, IB, IZ, PF, XX, M, M, M, M, IB, IZ, PF, XX,		/* 20 */
	M, M, M, M, IB, IZ, PF, XX, M, M, M, M, IB, IZ, PF, XX,
	PF, PF, PF, PF, PF, PF, PF, PF, PF, PF, PF, PF, PF, PF, PF, PF,	/* 40 */
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	XX, XX, PF, M, PF, PF, PF, PF, IZ, MZ, IB, MB, STR, STR, STR, STR,
	CC, CC, CC, CC, CC, CC, CC, CC, CC, CC, CC, CC, CC, CC, CC, CC,
	MB, MZ, XX, MB, M, M, M, M, M, M, M, M, M, M, M, MG,		/* 80 */
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, XX, 0, 0, 0, 0, 0,
	AO, AO, AO, AO, STR, STR, STR, STR, IB, IZ, STR, STR, STR, STR, STR, STR,
	IB, IB, IB, IB, IB, IB, IB, IB, IV, IV, IV, IV, IV, IV, IV, IV,
	MB, MB, RW, RE, PF, PF, MB, MZ, EN, 0, FW, FA, SY, SI, XX, FA,	/* c0 */
	M, M, M, M, XX, PF, XX, 0, M, M, M, M, M, M, M, M,
	CC, CC, CC, CC, IB, IB, IB, IB, CA, JJ, XX, JB, 0, 0, 0, 0,	/* e0 */
	PF, SY, PF, PF, 0, 0, MG, MG, 0, 0, 0, 0, 0, 0, M, MG,

	M, MG, M, M, XX, SY, 0, FA, 0, 0, XX, 0, XX, M, 0, MB,		/* 00 */
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
	MG, MG, MG, MG, XX, XX, XX, XX, M, M, M, M, M, M, M, M,		/* 20 */
	0, 0, 0, 0, SY, FA, XX, 0, PF, XX, PF, XX, XX, XX, XX, XX,
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,			/* 40 */
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,			/* 60 */
	MB, MB, MB, MB, M, M, M, 0, MG, M, XX, XX, M, M, M, M,
	CZ, CZ, CZ, CZ, CZ, CZ, CZ, CZ, CZ, CZ, CZ, CZ, CZ, CZ, CZ, CZ,	/* 80 */
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
	0, 0, 0, M, MB, M, M, M, 0, 0, FA, M, MB, M, MG, M,		/* a0 */
	M, M, M, M, M, M, M, M, M, M, MB, M, M, M, M, M,
	M, M, MB, M, MB, MB, MB, M, 0, 0, 0, 0, 0, 0, 0, 0,		/* c0 */
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,			/* e0 */
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
};

/* ModRM, SIB and displacement, without what a SIB without base adds. table */
static const uint8_t modrm_sizes[256] = {
#define ROW(a, sib, rip) a, a, a, a, sib, rip, a, a
#define MOD(a, sib, rip) \
	ROW(a, sib, rip), ROW(a, sib, rip), ROW(a, sib, rip), \
	ROW(a, sib, rip), ROW(a, sib, rip), ROW(a, sib, rip), \
	ROW(a, sib, rip), ROW(a, sib, rip)
	MOD(1, 2, 5), MOD(2, 3, 2), MOD(5, 6, 5), MOD(1, 1, 1),
#undef MOD
#undef ROW
};

/* The kinds of prefix; struct decoder.before has a bit for each that was there. */
enum {
	OPSIZE = 1,
	ADDRSIZE = 2,
	LOCK = 4,
	REPNE = 8,
	REP = 0x10,
	SEGMENT = 0x20,
	REX = 0x40,
	REX_W = 0x80,
};

/* table */
static const uint8_t prefixes[256] = {
	[0x26] = SEGMENT, [0x2e] = SEGMENT, [0x36] = SEGMENT, [0x3e] = SEGMENT,
	[0x64] = SEGMENT, [0x65] = SEGMENT, [0x66] = OPSIZE, [0x67] = ADDRSIZE,
	[0xf0] = LOCK, [0xf2] = REPNE, [0xf3] = REP,
};

#endif
