/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * insn: length and branch target of one instruction, by the rules of its
 * instruction set.
 *
 * Specification: Intel SDM volume 2 (through x86_insn); Arm ARM for A-profile,
 * C4.1 "A64", F4.1 "A32" and F3.1 "T32 instruction set encoding".
 */
#include <aux/flow.h>

#include "common/x86_insn.h"
#include "decode/lib/elf/insn.h"

/* False: not of x86. */
static bool is_x86(unsigned mode, enum x86_mode *m)
{
	mode &= AUX_FLOW_MODE_MASK;
	*m = mode == AUX_FLOW_MODE_X86_16 ? X86_MODE_16 :
	     mode == AUX_FLOW_MODE_X86_32 ? X86_MODE_32 : X86_MODE_64;
	return mode == AUX_FLOW_MODE_X86_64 || *m != X86_MODE_64;
}

int insn_length(const uint8_t *code, size_t len, unsigned mode)
{
	struct x86_insn insn;
	enum x86_mode m;

	if (is_x86(mode, &m))
		return x86_insn_decode_in(code, len, m, &insn);
	switch (mode & AUX_FLOW_MODE_MASK) {
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

static uint32_t load32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
	       (uint32_t)p[3] << 24;
}

/* The low bits of v as a signed number, times 2^shift. */
static uint64_t scaled(uint32_t v, unsigned bits, unsigned shift)
{
	uint64_t sign = UINT64_C(1) << (bits - 1);
	uint64_t low = v & ((UINT64_C(1) << bits) - 1);

	return ((low ^ sign) - sign) << shift;
}

static bool target_x86(const uint8_t *code, size_t len, uint64_t ip,
		       enum x86_mode mode, uint64_t *to)
{
	struct x86_insn insn;

	if (!x86_insn_decode_in(code, len, mode, &insn) ||
	    (insn.cls != X86_COND && insn.cls != X86_JUMP &&
	     insn.cls != X86_CALL))
		return false;
	*to = ip + insn.size + (uint64_t)insn.disp;
	if (insn.ip16)
		*to &= 0xffff;
	else if (mode != X86_MODE_64)
		*to &= 0xffffffff;
	return true;
}

static bool target_a64(uint32_t w, uint64_t ip, uint64_t *to)
{
	if ((w & 0x7c000000) == 0x14000000) /* b, bl */
		*to = ip + scaled(w, 26, 2);
	else if ((w & 0xff000000) == 0x54000000 || /* b.cond, bc.cond */
		 (w & 0x7e000000) == 0x34000000) /* cbz, cbnz */
		*to = ip + scaled(w >> 5, 19, 2);
	else if ((w & 0x7e000000) == 0x36000000) /* tbz, tbnz */
		*to = ip + scaled(w >> 5, 14, 2);
	else if ((w & 0x7e000000) == 0x74000000) /* cb<cc>, cbb<cc>, cbh<cc> */
		*to = ip + scaled(w >> 5, 9, 2);
	else
		return false;
	return true;
}

/* The PC reads as the instruction's address plus 8. blx has half a word more in
 * bit 24. */
static bool target_a32(uint32_t w, uint64_t ip, uint64_t *to)
{
	if ((w & 0x0e000000) != 0x0a000000)
		return false;
	*to = ip + 8 + scaled(w, 24, 2); /* b, bl */
	if (w >> 28 == 15) /* blx: to T32 */
		*to += w >> 23 & 2;
	return true;
}

/* 16-bit encodings; the PC reads as address plus 4. */
static bool target_t16(uint32_t w, uint64_t ip, uint64_t *to)
{
	if ((w & 0xf000) == 0xd000 && (w & 0x0e00) != 0x0e00) /* b.cond */
		*to = ip + 4 + scaled(w, 8, 1);
	else if ((w & 0xf800) == 0xe000) /* b */
		*to = ip + 4 + scaled(w, 11, 1);
	else if ((w & 0xf500) == 0xb100) /* cbz, cbnz */
		*to = ip + 4 + ((w >> 3 & 0x1f) | (w >> 4 & 0x20)) * 2;
	else
		return false;
	return true;
}

/* 32-bit encodings: first halfword in the high half. The two bits below the
 * sign are J1 and J2 XNOR S. */
static bool target_t32(uint32_t w, uint64_t ip, uint64_t *to)
{
	uint32_t s = w >> 26 & 1, j1 = w >> 13 & 1, j2 = w >> 11 & 1, imm;

	if ((w & 0xf8008000) != 0xf0008000)
		return false;
	if (!(w & 0x5000)) { /* b.cond */
		if ((w & 0x03800000) == 0x03800000)
			return false;
		imm = s << 19 | j2 << 18 | j1 << 17 | (w >> 16 & 0x3f) << 11 |
		      (w & 0x7ff);
		*to = ip + 4 + scaled(imm, 20, 1);
		return true;
	}
	imm = s << 23 | !(j1 ^ s) << 22 | !(j2 ^ s) << 21 |
	      (w >> 16 & 0x3ff) << 11 | (w & 0x7ff);
	*to = ip + 4 + scaled(imm, 24, 1);
	if ((w & 0x5000) == 0x4000) /* blx: to A32 */
		*to &= ~UINT64_C(3);
	return true;
}

bool insn_target(const uint8_t *code, size_t len, uint64_t ip, unsigned mode,
		 uint64_t *to)
{
	enum x86_mode m;
	uint32_t w;
	int size;

	mode &= AUX_FLOW_MODE_MASK;
	if (is_x86(mode, &m))
		return target_x86(code, len, ip, m, to);
	size = insn_length(code, len, mode);
	if (size < 2)
		return false;
	w = (uint32_t)code[0] | (uint32_t)code[1] << 8;
	if (mode == AUX_FLOW_MODE_T32 && size == 2)
		return target_t16(w, ip, to);
	if (mode == AUX_FLOW_MODE_T32)
		return target_t32(w << 16 | load32(code) >> 16, ip, to);
	w = load32(code);
	return mode == AUX_FLOW_MODE_A64 ? target_a64(w, ip, to) :
					   target_a32(w, ip, to);
}
