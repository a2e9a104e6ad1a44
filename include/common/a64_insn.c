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

/* SVC, HVC, SMC, BRK, HLT and DCPS; not TCANCEL, which is no exception. */
static uint8_t classify_exception(uint32_t word)
{
	uint32_t opc = word >> 21 & 7, low = word & 0x1f;

	switch (opc) {
	case 0:
	case 5:
		return low >= 1 && low <= 3 ? A64_SYSCALL : A64_OTHER;
	case 1:
	case 2:
		return low == 0 ? A64_SYSCALL : A64_OTHER;
	default:
		return A64_OTHER;
	}
}

/* "Unconditional branch (register)", whose op2 is 11111 in all that is allocated. */
static uint8_t classify_register(uint32_t word)
{
	static const uint8_t of_opc[16] = {
		[0] = A64_IND_JUMP, [1] = A64_IND_CALL, [2] = A64_RET,
		[4] = A64_FAR, [5] = A64_FAR,
		[8] = A64_IND_JUMP, [9] = A64_IND_CALL,
	};
	uint32_t opc = word >> 21 & 15, op3 = word >> 10 & 0x3f;
	uint32_t rn = word >> 5 & 0x1f, op4 = word & 0x1f;
	int auth = op3 == 2 || op3 == 3;
	/* ERET, DRPS, RETAA and RETAB have no register operand: Rn is 11111 */
	int lone = opc == 4 || opc == 5 || (opc == 2 && auth);

	if (!of_opc[opc] || (op3 && !auth) || (lone && rn != 31))
		return A64_OTHER;
	if (opc >= 8)	/* BRAA, BLRAA: op4 is the modifier, any register */
		return auth ? of_opc[opc] : A64_OTHER;
	if (auth)
		return op4 == 31 && opc != 5 ? of_opc[opc] : A64_OTHER;
	return op4 == 0 ? of_opc[opc] : A64_OTHER;
}

int a64_insn_decode(uint32_t word, struct a64_insn *insn)
{
	insn->cls = A64_OTHER;
	insn->disp = 0;
	if ((word & 0x7c000000) == 0x14000000) {
		insn->cls = word >> 31 ? A64_CALL : A64_JUMP;
		insn->disp = read_offset(word, 0, 26);
	} else if ((word & 0xff000000) == 0x54000000 ||
		   (word & 0x7e000000) == 0x34000000) {
		insn->cls = A64_COND;
		insn->disp = read_offset(word, 5, 19);
	} else if ((word & 0x7e000000) == 0x36000000) {
		insn->cls = A64_COND;
		insn->disp = read_offset(word, 5, 14);
	} else if ((word & 0xfe1f0000) == 0xd61f0000) {
		insn->cls = classify_register(word);
	} else if ((word & 0xff000000) == 0xd4000000) {
		insn->cls = classify_exception(word);
	} else if ((word & 0xfffff0ff) == 0xd50330df) {
		insn->cls = A64_ISB;
	} else if (word >> 16 == 0) {
		insn->cls = A64_SYSCALL;	/* udf */
	}
	return insn->cls;
}
