/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * effect: what an x86-64 instruction does with general registers and memory.
 *
 * Operands are capstone's. What an instruction does with them, and which registers it
 * changes beside them, is told here for those that are listed; capstone's own lists of
 * registers are not complete. All others may do anything.
 *
 * Specification: Intel SDM, volume 2.
 */
#include <string.h>

#include <aux/flow.h>

#include "decode/lib/elf/impl.h"

const char *insn_reg_name(unsigned reg, unsigned size)
{
	static const char names[INSN_REGS][4][5] = {
		{ "al", "ax", "eax", "rax" }, { "cl", "cx", "ecx", "rcx" },
		{ "dl", "dx", "edx", "rdx" }, { "bl", "bx", "ebx", "rbx" },
		{ "spl", "sp", "esp", "rsp" }, { "bpl", "bp", "ebp", "rbp" },
		{ "sil", "si", "esi", "rsi" }, { "dil", "di", "edi", "rdi" },
		{ "r8b", "r8w", "r8d", "r8" }, { "r9b", "r9w", "r9d", "r9" },
		{ "r10b", "r10w", "r10d", "r10" }, { "r11b", "r11w", "r11d", "r11" },
		{ "r12b", "r12w", "r12d", "r12" }, { "r13b", "r13w", "r13d", "r13" },
		{ "r14b", "r14w", "r14d", "r14" }, { "r15b", "r15w", "r15d", "r15" },
	};
	unsigned i = size == 8 ? 3 : size == 4 ? 2 : size == 2 ? 1 : 0;

	return reg < INSN_REGS ? names[reg][i] : "?";
}

#ifdef HAVE_CAPSTONE
#include <capstone/capstone.h>

#define BIT(reg) (1u << (reg))

/* table: capstone's names of a register, by size: 8, 4, 2, 1 bytes */
static const uint16_t regs[INSN_REGS][4] = {
	{ X86_REG_RAX, X86_REG_EAX, X86_REG_AX, X86_REG_AL },
	{ X86_REG_RCX, X86_REG_ECX, X86_REG_CX, X86_REG_CL },
	{ X86_REG_RDX, X86_REG_EDX, X86_REG_DX, X86_REG_DL },
	{ X86_REG_RBX, X86_REG_EBX, X86_REG_BX, X86_REG_BL },
	{ X86_REG_RSP, X86_REG_ESP, X86_REG_SP, X86_REG_SPL },
	{ X86_REG_RBP, X86_REG_EBP, X86_REG_BP, X86_REG_BPL },
	{ X86_REG_RSI, X86_REG_ESI, X86_REG_SI, X86_REG_SIL },
	{ X86_REG_RDI, X86_REG_EDI, X86_REG_DI, X86_REG_DIL },
	{ X86_REG_R8, X86_REG_R8D, X86_REG_R8W, X86_REG_R8B },
	{ X86_REG_R9, X86_REG_R9D, X86_REG_R9W, X86_REG_R9B },
	{ X86_REG_R10, X86_REG_R10D, X86_REG_R10W, X86_REG_R10B },
	{ X86_REG_R11, X86_REG_R11D, X86_REG_R11W, X86_REG_R11B },
	{ X86_REG_R12, X86_REG_R12D, X86_REG_R12W, X86_REG_R12B },
	{ X86_REG_R13, X86_REG_R13D, X86_REG_R13W, X86_REG_R13B },
	{ X86_REG_R14, X86_REG_R14D, X86_REG_R14W, X86_REG_R14B },
	{ X86_REG_R15, X86_REG_R15D, X86_REG_R15W, X86_REG_R15B },
};

static bool find_reg(unsigned name, struct insn_place *p)
{
	static const uint16_t high[] = { X86_REG_AH, X86_REG_CH, X86_REG_DH,
					 X86_REG_BH };

	for (unsigned r = 0; r < INSN_REGS; r++)
		for (unsigned i = 0; i < 4; i++)
			if (regs[r][i] == name) {
				p->reg = (uint8_t)r;
				p->size = (uint8_t)(8 >> i);
				return true;
			}
	for (unsigned r = 0; r < 4; r++)
		if (high[r] == name) {
			p->reg = (uint8_t)r;
			p->size = 1;
			p->high = true;
			return true;
		}
	return false;
}

/* A register of an address: of 8 bytes, or none. */
static bool address_reg(unsigned name, uint8_t *reg)
{
	struct insn_place p = { .size = 0 };

	*reg = INSN_NO_REG;
	if (name == X86_REG_INVALID || name == X86_REG_RIZ)
		return true;
	if (!find_reg(name, &p) || p.size != 8)
		return false;
	*reg = p.reg;
	return true;
}

static bool memory_place(const cs_insn *in, const cs_x86_op *op, struct insn_place *p)
{
	const x86_op_mem *m = &op->mem;
	unsigned base = m->base;

	p->kind = INSN_AT_MEM;
	p->scale = (uint8_t)m->scale;
	p->disp = m->disp;
	p->fs = m->segment == X86_REG_FS;
	p->gs = m->segment == X86_REG_GS;
	if (base == X86_REG_RIP) {
		p->disp += (int64_t)(in->address + in->size);
		base = X86_REG_INVALID;
	}
	return address_reg(base, &p->base) && address_reg(m->index, &p->index);
}

/* False: an operand that is not one of the three kinds, such as a vector register. */
static bool take_place(const cs_insn *in, unsigned i, struct insn_place *p)
{
	const cs_x86 *x = &in->detail->x86;
	const cs_x86_op *op = &x->operands[i];

	*p = (struct insn_place){ .kind = INSN_NOWHERE };
	if (i >= x->op_count)
		return false;
	p->size = op->size;
	switch (op->type) {
	case X86_OP_REG:
		p->kind = INSN_AT_REG;
		return find_reg(op->reg, p);
	case X86_OP_MEM:
		return memory_place(in, op, p);
	case X86_OP_IMM:
		p->kind = INSN_CONSTANT;
		p->disp = op->imm;
		return true;
	default:
		return false;
	}
}

/* table: instructions whose effect is a kind, on their operands */
static const struct {
	uint16_t id;
	uint8_t kind;
} described[] = {
	{ X86_INS_MOV, INSN_MOVE }, { X86_INS_MOVABS, INSN_MOVE },
	{ X86_INS_MOVZX, INSN_MOVE_ZERO }, { X86_INS_MOVSX, INSN_MOVE_SIGN },
	{ X86_INS_MOVSXD, INSN_MOVE_SIGN }, { X86_INS_LEA, INSN_ADDRESS },
	{ X86_INS_ADD, INSN_ADD }, { X86_INS_SUB, INSN_SUB }, { X86_INS_XOR, INSN_XOR },
	{ X86_INS_AND, INSN_AND }, { X86_INS_OR, INSN_OR }, { X86_INS_INC, INSN_ADD },
	{ X86_INS_DEC, INSN_SUB }, { X86_INS_PUSH, INSN_PUSH }, { X86_INS_POP, INSN_POP },
	{ X86_INS_CALL, INSN_CALL }, { X86_INS_RET, INSN_RET },
	{ X86_INS_LEAVE, INSN_LEAVE }, { X86_INS_SYSCALL, INSN_SYSCALL },
};

/* table: those that change neither registers nor memory */
static const uint16_t idle[] = {
	X86_INS_CMP, X86_INS_TEST, X86_INS_NOP, X86_INS_JMP, X86_INS_PAUSE, X86_INS_BT,
	X86_INS_VZEROUPPER, X86_INS_LFENCE, X86_INS_MFENCE, X86_INS_SFENCE, X86_INS_CLD,
	X86_INS_PREFETCHT0, X86_INS_PREFETCHNTA, X86_INS_PREFETCHT1, X86_INS_PREFETCHW,
	X86_INS_UD2, X86_INS_HLT, X86_INS_CLC, X86_INS_STC,
	X86_INS_JAE, X86_INS_JA, X86_INS_JBE, X86_INS_JB, X86_INS_JE, X86_INS_JGE,
	X86_INS_JG, X86_INS_JLE, X86_INS_JL, X86_INS_JNE, X86_INS_JNO, X86_INS_JNP,
	X86_INS_JNS, X86_INS_JO, X86_INS_JP, X86_INS_JS,
};

/* table: those that change their first operand, and these registers */
static const struct {
	uint16_t id, writes;
} changing[] = {
	{ X86_INS_NEG, 0 }, { X86_INS_NOT, 0 }, { X86_INS_SHL, 0 }, { X86_INS_SAL, 0 },
	{ X86_INS_SHR, 0 }, { X86_INS_SAR, 0 }, { X86_INS_ROL, 0 }, { X86_INS_ROR, 0 },
	{ X86_INS_ADC, 0 }, { X86_INS_SBB, 0 }, { X86_INS_BSWAP, 0 }, { X86_INS_BSF, 0 },
	{ X86_INS_BSR, 0 }, { X86_INS_TZCNT, 0 }, { X86_INS_LZCNT, 0 },
	{ X86_INS_POPCNT, 0 }, { X86_INS_BLSR, 0 }, { X86_INS_ANDN, 0 },
	{ X86_INS_SETAE, 0 }, { X86_INS_SETA, 0 }, { X86_INS_SETBE, 0 },
	{ X86_INS_SETB, 0 }, { X86_INS_SETE, 0 }, { X86_INS_SETGE, 0 },
	{ X86_INS_SETG, 0 }, { X86_INS_SETLE, 0 }, { X86_INS_SETL, 0 },
	{ X86_INS_SETNE, 0 }, { X86_INS_SETNO, 0 }, { X86_INS_SETNP, 0 },
	{ X86_INS_SETNS, 0 }, { X86_INS_SETO, 0 }, { X86_INS_SETP, 0 },
	{ X86_INS_SETS, 0 },
	{ X86_INS_CMOVAE, 0 }, { X86_INS_CMOVA, 0 }, { X86_INS_CMOVBE, 0 },
	{ X86_INS_CMOVB, 0 }, { X86_INS_CMOVE, 0 }, { X86_INS_CMOVGE, 0 },
	{ X86_INS_CMOVG, 0 }, { X86_INS_CMOVLE, 0 }, { X86_INS_CMOVL, 0 },
	{ X86_INS_CMOVNE, 0 }, { X86_INS_CMOVNO, 0 }, { X86_INS_CMOVNP, 0 },
	{ X86_INS_CMOVNS, 0 }, { X86_INS_CMOVO, 0 }, { X86_INS_CMOVP, 0 },
	{ X86_INS_CMOVS, 0 },
	{ X86_INS_CMPXCHG, BIT(INSN_RAX) },
	{ X86_INS_IMUL, BIT(INSN_RAX) | BIT(INSN_RDX) },
};

/* table: those that change these registers alone, whatever their operands are */
static const struct {
	uint16_t id, writes;
} fixed[] = {
	{ X86_INS_CDQE, BIT(INSN_RAX) }, { X86_INS_CWDE, BIT(INSN_RAX) },
	{ X86_INS_CBW, BIT(INSN_RAX) }, { X86_INS_CQO, BIT(INSN_RDX) },
	{ X86_INS_CDQ, BIT(INSN_RDX) }, { X86_INS_CWD, BIT(INSN_RDX) },
	{ X86_INS_MUL, BIT(INSN_RAX) | BIT(INSN_RDX) },
	{ X86_INS_DIV, BIT(INSN_RAX) | BIT(INSN_RDX) },
	{ X86_INS_IDIV, BIT(INSN_RAX) | BIT(INSN_RDX) },
	{ X86_INS_RDTSC, BIT(INSN_RAX) | BIT(INSN_RDX) },
	{ X86_INS_XGETBV, BIT(INSN_RAX) | BIT(INSN_RDX) },
	{ X86_INS_CPUID, BIT(INSN_RAX) | BIT(INSN_RBX) | BIT(INSN_RCX) | BIT(INSN_RDX) },
};

/* table: moves between vector registers, general ones and memory: the first operand
 * changes, all of it */
static const uint16_t vector[] = {
	X86_INS_MOVAPS, X86_INS_MOVUPS, X86_INS_MOVAPD, X86_INS_MOVUPD, X86_INS_MOVDQA,
	X86_INS_MOVDQU, X86_INS_MOVD, X86_INS_MOVQ, X86_INS_MOVSS, X86_INS_MOVSD,
	X86_INS_MOVHPS, X86_INS_MOVLPS, X86_INS_MOVHPD, X86_INS_MOVLPD, X86_INS_PXOR,
	X86_INS_XORPS, X86_INS_XORPD, X86_INS_PCMPEQB, X86_INS_PMOVMSKB, X86_INS_PMINUB,
	X86_INS_PUNPCKLQDQ, X86_INS_PUNPCKLBW, X86_INS_PUNPCKLWD, X86_INS_PSHUFD,
	X86_INS_VMOVDQA, X86_INS_VMOVDQU, X86_INS_VMOVD, X86_INS_VMOVQ, X86_INS_VMOVAPS,
	X86_INS_VMOVUPS, X86_INS_VPXOR, X86_INS_VPCMPEQB, X86_INS_VPMOVMSKB,
	X86_INS_VPMINUB, X86_INS_VPOR, X86_INS_POR, X86_INS_PSUBB,
};

static bool is_in(const uint16_t *v, size_t n, unsigned id)
{
	for (size_t i = 0; i < n; i++)
		if (v[i] == id)
			return true;
	return false;
}

#define COUNT(v) (sizeof(v) / sizeof((v)[0]))

/* A place that the instruction writes to. */
static void write_to(struct insn_effect *e, const struct insn_place *p)
{
	if (p->kind == INSN_AT_REG)
		e->writes |= (uint16_t)BIT(p->reg);
}

/* MOVSD is a string move, too, and a vector's: that has a vector register. */
static bool is_string(const cs_insn *in)
{
	const cs_x86 *x = &in->detail->x86;

	if (x->prefix[0] == X86_PREFIX_REP || x->prefix[0] == X86_PREFIX_REPNE)
		for (unsigned i = 0; i < in->detail->groups_count; i++)
			if (in->detail->groups[i] == X86_GRP_SSE1 ||
			    in->detail->groups[i] == X86_GRP_SSE2)
				return false;
	return in->id == X86_INS_MOVSD && x->op_count == 2 &&
	       x->operands[0].type == X86_OP_MEM && x->operands[1].type == X86_OP_MEM;
}

static bool describe(const cs_insn *in, unsigned kind, struct insn_effect *e)
{
	bool counts = in->id == X86_INS_INC || in->id == X86_INS_DEC;
	bool one = kind == INSN_PUSH || kind == INSN_POP || kind == INSN_CALL ||
		   kind == INSN_RET;

	e->kind = (uint8_t)kind;
	if (kind == INSN_LEAVE) {
		e->writes = BIT(INSN_RSP) | BIT(INSN_RBP);
		return true;
	}
	if (kind == INSN_SYSCALL) {
		e->writes = BIT(INSN_RAX) | BIT(INSN_RCX) | BIT(INSN_R11);
		return true;
	}
	if (one) {
		e->writes = BIT(INSN_RSP);
		if (kind == INSN_RET && !in->detail->x86.op_count)
			return true;
		if (!take_place(in, 0, kind == INSN_POP ? &e->dst : &e->src))
			return false;
		write_to(e, &e->dst);
		if (kind == INSN_POP && e->dst.kind != INSN_AT_REG)
			return false;	/* its address counts from rsp as it is then */
		return kind == INSN_CALL || kind == INSN_RET ||
		       in->detail->x86.operands[0].size == 8 ||
		       e->src.kind == INSN_CONSTANT;
	}
	if (!take_place(in, 0, &e->dst) || (!counts && !take_place(in, 1, &e->src)))
		return false;
	if (counts)
		e->src = (struct insn_place){ .kind = INSN_CONSTANT, .disp = 1,
					      .size = e->dst.size };
	write_to(e, &e->dst);
	return true;
}

/* One that changes operand 0, and what else it is said to change. */
static bool change(const cs_insn *in, unsigned writes, struct insn_effect *e)
{
	e->kind = INSN_CHANGES;
	e->writes = (uint16_t)writes;
	if (in->id == X86_INS_IMUL && in->detail->x86.op_count > 1)
		e->writes = 0;
	if (in->id == X86_INS_IMUL && in->detail->x86.op_count == 1)
		return true;
	if (!take_place(in, 0, &e->dst))
		return false;
	write_to(e, &e->dst);
	return true;
}

static bool change_vector(const cs_insn *in, struct insn_effect *e)
{
	const cs_x86_op *op = &in->detail->x86.operands[0];

	if (is_string(in) || !in->detail->x86.op_count)
		return false;
	e->kind = INSN_CHANGES;
	if (op->type == X86_OP_REG && !take_place(in, 0, &e->dst)) {
		e->dst = (struct insn_place){ .kind = INSN_NOWHERE };
		return true;	/* a vector register */
	}
	if (!take_place(in, 0, &e->dst))
		return false;
	write_to(e, &e->dst);
	return e->dst.size != 0;
}

/* ENDBR64 is a hint, which older capstones do not know by name. */
static bool is_hint(const uint8_t *code, size_t len)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };

	return len >= 4 && !memcmp(code, endbr64, 4);
}

static bool effect_of(const cs_insn *in, struct insn_effect *e)
{
	for (size_t i = 0; i < COUNT(described); i++)
		if (described[i].id == in->id)
			return describe(in, described[i].kind, e);
	for (size_t i = 0; i < COUNT(changing); i++)
		if (changing[i].id == in->id)
			return change(in, changing[i].writes, e);
	e->kind = INSN_CHANGES;
	for (size_t i = 0; i < COUNT(fixed); i++)
		if (fixed[i].id == in->id) {
			e->writes = fixed[i].writes;
			return true;
		}
	if (is_in(idle, COUNT(idle), in->id))
		return true;
	return is_in(vector, COUNT(vector), in->id) && change_vector(in, e);
}

bool disasm_effect(struct disasm *d, const uint8_t *code, size_t len, uint64_t ip,
		   struct insn_effect *e)
{
	const struct cs_insn *in;
	int known = insn_length(code, len, AUX_FLOW_MODE_X86_64);
	bool ok;

	*e = (struct insn_effect){ .kind = INSN_ANYTHING };
	if (known <= 0)
		return false;
	e->size = (uint8_t)known;
	if (is_hint(code, len)) {
		e->kind = INSN_CHANGES;
		return true;
	}
	in = disasm_detail(d, code, len, ip);
	ok = in && in->size == known && effect_of(in, e) &&
	     in->detail->x86.addr_size == 8;
	if (!ok)
		*e = (struct insn_effect){ .kind = INSN_ANYTHING,
					   .size = (uint8_t)known };
	return ok;
}
#else
bool disasm_effect(struct disasm *d, const uint8_t *code, size_t len, uint64_t ip,
		   struct insn_effect *e)
{
	int known = insn_length(code, len, AUX_FLOW_MODE_X86_64);

	(void)d, (void)ip;
	*e = (struct insn_effect){ .kind = INSN_ANYTHING,
				   .size = (uint8_t)(known > 0 ? known : 0) };
	return false;
}
#endif
