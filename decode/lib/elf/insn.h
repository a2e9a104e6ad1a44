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

#endif
