/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * insn_length: where the next instruction starts.
 *
 * Specification: Intel SDM volume 2 (through x86_insn); Arm ARM for A-profile,
 * F3.1 "T32 instruction set encoding" (the first halfword tells the size).
 */
#include <aux/flow.h>
#include "common/x86_insn.h"

#include "decode/lib/elf/insn.h"

int insn_length(const uint8_t *code, size_t len, unsigned mode)
{
	struct x86_insn insn;

	switch (mode & AUX_FLOW_MODE_MASK) {
	case AUX_FLOW_MODE_X86_64:
		return x86_insn_decode(code, len, &insn);
	case AUX_FLOW_MODE_A64:
	case AUX_FLOW_MODE_A32:
		return len >= 4 ? 4 : 0;
	case AUX_FLOW_MODE_T32:
		if (len < 2)
			return 0;
		/* 0b11101, 0b11110 and 0b11111 start a 32-bit encoding */
		if ((code[1] >> 3) < 0x1d)
			return 2;
		return len >= 4 ? 4 : 0;
	}
	return -1;
}
