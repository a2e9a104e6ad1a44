/* SPDX-License-Identifier: BSD-2-Clause */
/* Instruction text and lengths; disasm.c is the only user of capstone. */
#ifndef AUXDECODE_DISASM_H
#define AUXDECODE_DISASM_H

#include <stddef.h>
#include <stdint.h>

/* x86 only. */
enum disasm_syntax { DISASM_INTEL = 0, DISASM_ATT };

struct disasm;

/* NULL when out of memory. Not for use by two threads at a time. */
struct disasm *disasm_new(enum disasm_syntax syntax);
void disasm_free(struct disasm *d);

/*
 * The instruction at code[0..len) at address ip, mode as AUX_FLOW_MODE_*.
 * Returns its length, 0 when it is none. text may be NULL (length alone). What
 * capstone does not know but has a length is shown as ".byte 0x0f, 0x..".
 */
int disasm_text(struct disasm *d, const uint8_t *code, size_t len, uint64_t ip,
		unsigned mode, char *text, size_t text_len);

#endif
