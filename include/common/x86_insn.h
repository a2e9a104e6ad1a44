/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * x86 instructions as Intel PT sees them: length and kind of branch.
 *
 * Specification: Intel SDM volume 2 (encodings), volume 3 chapter on Intel PT
 * (which instructions produce which packets).
 */
#ifndef COMMON_X86_INSN_H
#define COMMON_X86_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum x86_class {
	X86_OTHER = 0,
	X86_COND,	/* Jcc, LOOPcc, JrCXZ: one TNT bit */
	X86_JUMP,	/* direct */
	X86_CALL,	/* direct */
	X86_RET,	/* near */
	X86_IND_JUMP,	/* TIP */
	X86_IND_CALL,	/* TIP */
	X86_SYSCALL,	/* syscall, sysenter, int n, int1, int3, into */
	X86_FAR,	/* far jmp/call/ret, iret, sysret, sysexit, vmlaunch.. */
	X86_PTWRITE,
};

/* The page of vsyscalls, at the same address in all processes. The kernel lets
 * nothing run there: a call faults, and it does the work and returns to the
 * caller. */
static inline bool x86_is_vsyscall(uint64_t ip)
{
	return ip >> 12 == UINT64_C(0xffffffffff600);
}

struct x86_insn {
	uint8_t size;
	uint8_t cls;		/* enum x86_class */
	uint8_t rep_string;	/* REP MOVS/STOS/CMPS/SCAS/LODS/INS/OUTS */
	uint8_t ip16;		/* a direct branch to 16 bits of ip */
	int64_t disp;		/* direct branches: target - (ip + size) */
};

enum x86_mode { X86_MODE_64 = 0, X86_MODE_32, X86_MODE_16 };

/* The same as below in any mode; direct targets wrap at the mode's width of ip
 * (the caller masks: 32 bits, 16 where ip16 is set). */
int x86_insn_decode_in(const uint8_t *p, size_t max, enum x86_mode mode,
		       struct x86_insn *insn);

/*
 * Decodes one 64-bit mode instruction from at most max bytes. Returns its
 * length (1 to 15), or 0 when it is invalid or does not fit.
 */
int x86_insn_decode(const uint8_t *p, size_t max, struct x86_insn *insn);

/* Where the ModRM byte of a 64-bit mode instruction of size bytes is; 0: it has
 * none. */
int x86_insn_modrm(const uint8_t *p, size_t size);

#endif
