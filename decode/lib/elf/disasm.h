/* SPDX-License-Identifier: BSD-2-Clause */
/* Instruction text and lengths; disasm.c is the only user of capstone. */
#ifndef DECODE_LIB_ELF_DISASM_H
#define DECODE_LIB_ELF_DISASM_H

#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

/* x86 only. */
enum disasm_syntax { DISASM_INTEL = 0, DISASM_ATT };

struct disasm;

/* -AUX_E_NOMEM; -AUX_E_UNSUPPORTED without capstone's library. diag may be NULL.
 * Not for use by two threads at a time. */
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
