/* SPDX-License-Identifier: BSD-2-Clause */
/* insn: length and branch target of one instruction, of any set we decode. */
#ifndef DECODE_LIB_ELF_INSN_H
#define DECODE_LIB_ELF_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Length of the instruction at code[0..len) by the rules of its set, 0 when it
 * is none, -1 when only a disassembler knows (x86 32- and 16-bit modes).
 */
int insn_length(const uint8_t *code, size_t len, unsigned mode);

/* Where the direct branch at ip leads; false when it is none (or of x86 in 32- or
 * 16-bit mode). An address of T32 code has no bit 0 set. */
bool insn_target(const uint8_t *code, size_t len, uint64_t ip, unsigned mode,
		 uint64_t *to);

#endif
