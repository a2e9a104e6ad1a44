/* SPDX-License-Identifier: BSD-2-Clause */
/* One instruction, of any set we decode: its length, its branch target, its
 * text. */
#ifndef DECODE_LIB_ELF_INSN_H
#define DECODE_LIB_ELF_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

/*
 * Length of the instruction at code[0..len) by the rules of its set, 0 when it
 * is none, -1 for an unknown mode.
 */
int insn_length(const uint8_t *code, size_t len, unsigned mode);

/* Where the direct branch at ip leads; false when it is none. An address of T32
 * code has no bit 0 set. */
bool insn_target(const uint8_t *code, size_t len, uint64_t ip, unsigned mode,
		 uint64_t *to);

/* disasm.c, the only user of capstone. The syntax is x86's. */
enum disasm_syntax { DISASM_INTEL = 0, DISASM_ATT };

struct disasm;

/* -AUX_E_NOMEM; -AUX_E_UNSUPPORTED without capstone's library. diag may be
 * NULL. Not for use by two threads at a time. */
int disasm_new(struct disasm **d, enum disasm_syntax syntax,
	       struct aux_diag *diag);
void disasm_free(struct disasm *d);

/*
 * The instruction at code[0..len) at address ip, mode as AUX_FLOW_MODE_*.
 * Returns its length, 0 when it is none. text may be NULL (length alone). What
 * capstone does not know but has a length is shown as ".byte 0x0f, 0x..".
 */
int disasm_text(struct disasm *d, const uint8_t *code, size_t len, uint64_t ip,
		unsigned mode, char *text, size_t text_len);

/*
 * ---- effect.c: what an x86-64 instruction does with general registers and memory ----
 */

/* As instructions number them. */
enum insn_reg {
	INSN_RAX, INSN_RCX, INSN_RDX, INSN_RBX, INSN_RSP, INSN_RBP, INSN_RSI, INSN_RDI,
	INSN_R8, INSN_R9, INSN_R10, INSN_R11, INSN_R12, INSN_R13, INSN_R14, INSN_R15,
	INSN_REGS,
	INSN_NO_REG = 0xff,
};

enum insn_place_kind { INSN_NOWHERE = 0, INSN_AT_REG, INSN_AT_MEM, INSN_CONSTANT };

/* An operand. */
struct insn_place {
	uint8_t kind;		/* enum insn_place_kind */
	uint8_t size;		/* bytes */
	uint8_t reg;		/* REG */
	bool high;		/* REG: ah, ch, dh or bh */
	uint8_t base, index;	/* MEM: or INSN_NO_REG; an address that counts from
				 * rip is in disp */
	uint8_t scale;
	bool fs, gs;		/* MEM: from the base of that segment */
	int64_t disp;		/* MEM; CONSTANT: the value */
};

enum insn_effect_kind {
	INSN_ANYTHING = 0,	/* not known: registers and memory may be others */
	INSN_CHANGES,		/* the registers of `writes`, and dst if it is memory, in
				 * a way that is not described */
	INSN_MOVE, INSN_MOVE_ZERO, INSN_MOVE_SIGN,	/* dst = src */
	INSN_ADDRESS,		/* dst = the address that src is */
	INSN_ADD, INSN_SUB, INSN_XOR, INSN_AND, INSN_OR,	/* dst op= src */
	INSN_PUSH, INSN_POP,	/* src; dst */
	INSN_CALL,		/* src may be a place */
	INSN_RET,		/* src: how many bytes more, or nowhere */
	INSN_LEAVE,
	INSN_SYSCALL,
};

struct insn_effect {
	uint8_t kind;		/* enum insn_effect_kind */
	uint8_t size;		/* of the instruction, bytes */
	uint16_t writes;	/* registers that are others afterwards, a bit each */
	struct insn_place dst, src;
};

const char *insn_reg_name(unsigned reg, unsigned size);
/* True: *e says all that the instruction does to registers and memory. False: there is no
 * capstone, or no such instruction; then *e is INSN_ANYTHING. */
bool disasm_effect(struct disasm *d, const uint8_t *code, size_t len, uint64_t ip,
		   struct insn_effect *e);

#endif
