/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * PTWRITE: what it is about to write.
 *
 * Specification: Intel SDM volume 2, PTWRITE (F3 0F AE /4), ModRM and SIB forms
 * of 64-bit mode.
 */
#include <string.h>

#include "capture/soft/step.h"

static uint64_t reg_value(const struct user_regs_struct *r, unsigned n)
{
	const uint64_t v[16] = { r->rax, r->rcx, r->rdx, r->rbx,
				 r->rsp, r->rbp, r->rsi, r->rdi,
				 r->r8,	 r->r9,	 r->r10, r->r11,
				 r->r12, r->r13, r->r14, r->r15 };

	return v[n & 15];
}

/* Returns the opcode after the prefixes; *seg is the segment's base. REX counts
 * only directly before the opcode. In 64-bit mode only FS and GS have a
 * base. */
static const uint8_t *skip_prefixes(const uint8_t *p, const uint8_t *end,
				    const struct user_regs_struct *r,
				    uint64_t *seg, bool *addr32, uint8_t *rex)
{
	*seg = 0;
	*addr32 = false;
	*rex = 0;
	for (; p < end; p++) {
		if (*p == 0x64)
			*seg = r->fs_base;
		else if (*p == 0x65)
			*seg = r->gs_base;
		else if (*p == 0x67)
			*addr32 = true;
		else if (*p != 0xf2 && *p != 0xf3 && *p != 0x66 &&
			 *p != 0x2e && *p != 0x36 && *p != 0x3e && *p != 0x26)
			break;
	}
	if (p < end && (*p & 0xf0) == 0x40)
		*rex = *p++;
	return p;
}

/* base + index * scale. Index 4 is none; base 5 with mod 0 is a disp32
 * alone. */
static uint64_t sib_address(const uint8_t *p, unsigned mod, uint8_t rex,
			    const struct user_regs_struct *r)
{
	unsigned index = (p[0] >> 3 & 7) | (rex & 2) << 2;
	unsigned base = (p[0] & 7) | (rex & 1) << 3;
	uint64_t a = 0;

	if (index != 4)
		a = reg_value(r, index) << (p[0] >> 6);
	if ((base & 7) != 5 || mod)
		a += reg_value(r, base);
	return a;
}

/* The address of a memory operand. m points to ModRM, with its bytes complete
 * or padded; next is the following instruction's address, the base of
 * RIP-relative operands. */
static uint64_t operand_address(const uint8_t *m, uint8_t rex, uint64_t next,
				const struct user_regs_struct *r)
{
	unsigned mod = m[0] >> 6, rm = m[0] & 7;
	bool wide = mod == 2;
	int32_t disp = 0;
	uint64_t a;

	if (rm == 4) {
		a = sib_address(m + 1, mod, rex, r);
		wide |= !mod && (m[1] & 7) == 5;
		m++;
	} else if (rm == 5 && !mod) {
		a = next;
		wide = true;
	} else {
		a = reg_value(r, rm | (rex & 1) << 3);
	}
	if (wide)
		memcpy(&disp, m + 1, 4);
	else if (mod == 1)
		disp = (int8_t)m[1];
	return a + (uint64_t)(int64_t)disp;
}

bool step_ptwrite_operand(const uint8_t *bytes, size_t size, uint64_t ip,
			  const struct user_regs_struct *regs,
			  struct step_operand *op)
{
	uint8_t padded[24] = { 0 }, rex;
	const uint8_t *p;
	uint64_t seg;
	bool addr32;

	if (size > 15)
		return false;
	memcpy(padded, bytes, size);
	p = skip_prefixes(padded, padded + size, regs, &seg, &addr32, &rex);
	if (p[0] != 0x0f || p[1] != 0xae || (p[2] >> 3 & 7) != 4)
		return false;
	op->size = rex & 8 ? 8 : 4;
	op->is_memory = p[2] >> 6 != 3;
	if (!op->is_memory) {
		op->value = reg_value(regs, (p[2] & 7) | (rex & 1) << 3);
		return true;
	}
	op->value = operand_address(p + 2, rex, ip + size, regs);
	if (addr32)
		op->value = (uint32_t)op->value;
	op->value += seg;
	return true;
}
