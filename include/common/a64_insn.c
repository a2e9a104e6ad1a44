/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kind of an A64 instruction, from its encoding: Arm ARM (DDI 0487), C4.1,
 * "Branches, Exception Generating and System instructions", and UDF.
 */
#include "common/a64_insn.h"

/* Bits [lsb, lsb + n): a signed count of instructions; returned in bytes. */
static int32_t read_offset(uint32_t word, unsigned int lsb, unsigned int n)
{
	uint32_t top = word << (32 - lsb - n);

	return ((int32_t)top >> (32 - n)) * 4;
}

/*
 * The space of branches, by their top bits: what is not in here is no branch,
 * today or later. What is in here and not allocated is A64_UNKNOWN:
 * architectures grow branches there (cb<cc>, retaasppc, texit), and a new one
 * taken for a plain instruction makes a wrong flow. System instructions (0xd5)
 * are no branches: what is not allocated there is a nop or undefined.
 */

/* SVC, HVC, SMC, BRK, HLT, DCPS and TENTER; not TCANCEL, which is no
 * exception. */
static uint8_t classify_exception(uint32_t word)
{
	uint32_t opc = word >> 21 & 7, low = word & 0x1f;

	switch (opc) {
	case 0:
	case 5:
		return low >= 1 && low <= 3 ? A64_SYSCALL : A64_UNKNOWN;
	case 1:
	case 2:
		return low == 0 ? A64_SYSCALL : A64_UNKNOWN;
	case 3:
		return low == 0 ? A64_OTHER : A64_UNKNOWN;
	case 7:	/* tenter #imm7{, nb} */
		return word & 0x1df01f ? A64_UNKNOWN : A64_SYSCALL;
	default:
		return A64_UNKNOWN;
	}
}

/* "Unconditional branch (register)", whose op2 is 11111 in all that is
 * allocated. */
static uint8_t classify_register(uint32_t word)
{
	static const uint8_t of_opc[16] = {
		[0] = A64_IND_JUMP, [1] = A64_IND_CALL, [2] = A64_RET,
		[4] = A64_FAR, [5] = A64_FAR, [7] = A64_FAR,
		[8] = A64_IND_JUMP, [9] = A64_IND_CALL,
	};
	uint32_t opc = word >> 21 & 15, op3 = word >> 10 & 0x3f;
	uint32_t rn = word >> 5 & 0x1f, op4 = word & 0x1f;
	int auth = op3 == 2 || op3 == 3;
	/* ERET, DRPS, TEXIT, RETAA and RETAB have no register operand: Rn is
	 * 11111 */
	int lone = opc == 4 || opc == 5 || opc == 7 || (opc == 2 && auth);

	if ((word >> 16 & 0x1f) != 0x1f || !of_opc[opc] || (lone && rn != 31))
		return A64_UNKNOWN;
	if (opc == 7)	/* texit, and texit nb */
		return op3 <= 1 && op4 == 0 ? A64_FAR : A64_UNKNOWN;
	if (op3 && !auth)
		return A64_UNKNOWN;
	if (opc >= 8)	/* BRAA, BLRAA: op4 is the modifier, any register */
		return auth ? of_opc[opc] : A64_UNKNOWN;
	if (auth && opc == 2)	/* RETAA; RETAASPPC with the modifier in op4 */
		return A64_RET;
	if (auth)
		return op4 == 31 && opc != 5 ? of_opc[opc] : A64_UNKNOWN;
	return op4 == 0 ? of_opc[opc] : A64_UNKNOWN;
}

/* "Compare and branch": CB<cc>, CBB<cc> and CBH<cc> of registers (bit 24 is 0),
 * CB<cc> of an immediate. */
static uint8_t classify_compare(uint32_t word)
{
	uint32_t cc = word >> 21 & 7, size = word >> 14 & 3, wide = word >> 31;

	if (word >> 25 & 1 || cc == 4 || cc == 5)
		return A64_UNKNOWN;
	if (word >> 24 & 1)
		return size & 1 ? A64_UNKNOWN : A64_COND;
	return size == 1 || (size && wide) ? A64_UNKNOWN : A64_COND;
}

/* B.cond and BC.cond; "Miscellaneous branch (immediate)": RETAASPPC,
 * RETABSPPC. */
static uint8_t classify_conditional(uint32_t word)
{
	if (word >> 24 == 0x54)
		return A64_COND;
	return (word & 0xffc0001f) == 0x5500001f ? A64_RET : A64_UNKNOWN;
}

/* A word of the group "Branches, Exception Generating and System
 * instructions". */
static uint8_t classify(uint32_t word)
{
	switch (word >> 29) {
	case 0:
	case 4:
		return word >> 31 ? A64_CALL : A64_JUMP;
	case 1:
	case 5:
		return A64_COND;
	case 2:
		return classify_conditional(word);
	case 3:
	case 7:
		return classify_compare(word);
	default:
		break;
	}
	if (word >> 25 & 1)
		return classify_register(word);
	if (!(word >> 24 & 1))
		return classify_exception(word);
	return (word & 0xfffff0ff) == 0xd50330df ? A64_ISB : A64_OTHER;
}

static int32_t read_target(uint32_t word)
{
	switch (word >> 24 & 0x7e) {
	case 0x14: case 0x16:
		return read_offset(word, 0, 26);
	case 0x36:
		return read_offset(word, 5, 14);
	case 0x74:
		return read_offset(word, 5, 9);
	default:
		return read_offset(word, 5, 19);
	}
}

int a64_insn_decode(uint32_t word, struct a64_insn *insn)
{
	insn->cls = A64_OTHER;
	insn->disp = 0;
	if ((word & 0x1c000000) == 0x14000000) {
		insn->cls = classify(word);
		if (insn->cls >= A64_COND && insn->cls <= A64_CALL)
			insn->disp = read_target(word);
	} else if (word >> 16 == 0) {
		insn->cls = A64_SYSCALL;	/* udf */
	}
	return insn->cls;
}
