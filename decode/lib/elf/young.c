/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Text of instructions that capstone 4 does not know, or takes for older ones that
 * ignored a prefix (wbnoinvd for wbinvd, incssp for lfence, ERETS for clac): those
 * that matter to a flow, and their neighbours in the same opcodes. Capstone is not
 * asked for them, so that its version does not change what is shown.
 *
 * Not in here: operands of REX2 and EVEX instructions of APX, which stay .byte.
 *
 * Specification: Intel SDM volume 2 and "Flexible Return and Event Delivery (FRED)
 * Specification"; AMD APM volume 3; Intel "Advanced Performance Extensions
 * Architecture Specification" (JMPABS); Arm ARM (DDI 0487), C4.1 and C6.2.
 */
#include <stdbool.h>
#include <stdio.h>

#include <aux/flow.h>

#include "common/a64_insn.h"
#include "decode/lib/elf/impl.h"

/* ---- x86 ---- */

/* 0f OP MODRM with the last of the prefixes 66, f2 and f3; 0: none of them.
 * table */
static const struct {
	uint8_t prefix, op, modrm;
	const char *name;
} whole[] = {
	{ 0x00, 0x01, 0xc0, "enclv" },	{ 0x00, 0x01, 0xc5, "pconfig" },
	{ 0x00, 0x01, 0xc6, "wrmsrns" }, { 0xf2, 0x01, 0xc6, "rdmsrlist" },
	{ 0xf3, 0x01, 0xc6, "wrmsrlist" },
	{ 0xf2, 0x01, 0xca, "erets" },	{ 0xf3, 0x01, 0xca, "eretu" },
	{ 0x66, 0x01, 0xcc, "tdcall" },	{ 0x66, 0x01, 0xcd, "seamret" },
	{ 0x66, 0x01, 0xce, "seamops" }, { 0x66, 0x01, 0xcf, "seamcall" },
	{ 0x00, 0x01, 0xe8, "serialize" },
	{ 0xf2, 0x01, 0xe8, "xsusldtrk" }, { 0xf2, 0x01, 0xe9, "xresldtrk" },
	{ 0xf3, 0x01, 0xec, "uiret" },	{ 0xf3, 0x01, 0xed, "testui" },
	{ 0xf3, 0x01, 0xee, "clui" },	{ 0xf3, 0x01, 0xef, "stui" },
	{ 0x00, 0x01, 0xfe, "invlpgb" }, { 0x00, 0x01, 0xff, "tlbsync" },
	{ 0xf2, 0x01, 0xfe, "rmpupdate" }, { 0xf3, 0x01, 0xfe, "rmpadjust" },
	{ 0xf2, 0x01, 0xff, "pvalidate" }, { 0xf3, 0x01, 0xff, "psmash" },
};

static const char *const regs64[16] = {
	"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
	"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
};

static const char *const regs32[16] = {
	"eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi",
	"r8d", "r9d", "r10d", "r11d", "r12d", "r13d", "r14d", "r15d",
};

/* The instructions of f3 0f OP with one register. NULL: none of them. */
static const char *with_register(uint8_t op, uint8_t modrm, bool is64,
				 bool wide, const char **reg, unsigned rex)
{
	unsigned r = (modrm & 7) | (rex & 1) << 3;

	if (modrm < 0xc0)
		return NULL;
	if (op == 0xc7 && (modrm >> 3 & 7) == 6 && is64) {
		*reg = regs64[r];
		return "senduipi";
	}
	if (op == 0xae && (modrm >> 3 & 7) == 5) {
		*reg = wide ? regs64[r] : regs32[r];
		return wide ? "incsspq" : "incsspd";
	}
	return NULL;
}

/* The text of 0f OP MODRM at p. */
static bool put_two_bytes(const uint8_t *p, uint8_t prefix, unsigned rex,
			  bool is64, enum disasm_syntax syntax, char *text,
			  size_t len)
{
	const char *reg, *name = NULL;

	for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]) && !name; i++)
		if (whole[i].prefix == prefix && whole[i].op == p[1] &&
		    whole[i].modrm == p[2])
			name = whole[i].name;
	if (name) {
		snprintf(text, len, "%s", name);
		return true;
	}
	if (prefix == 0xf3)
		name = with_register(p[1], p[2], is64, rex & 8, &reg, rex);
	if (name)
		snprintf(text, len, "%s %s%s", name,
			 syntax == DISASM_ATT ? "%" : "", reg);
	return name;
}

static bool put_x86(const uint8_t *code, int size, bool is64,
		    enum disasm_syntax syntax, char *text, size_t len)
{
	uint8_t prefix = 0;
	unsigned rex = 0;
	uint64_t to = 0;
	int at = 0;

	if (is64 && size == 11 && code[0] == 0xd5 && !code[1] && code[2] == 0xa1) {
		for (int i = 7; i >= 0; i--)
			to = to << 8 | code[3 + i];
		snprintf(text, len, "jmpabs %s0x%llx",
			 syntax == DISASM_ATT ? "$" : "", (unsigned long long)to);
		return true;
	}
	for (; at < size; at++) {
		if (code[at] == 0xf2 || code[at] == 0xf3)
			prefix = code[at];
		else if (code[at] != 0x66)
			break;
		else if (!prefix)
			prefix = 0x66;
	}
	if (is64 && at < size && code[at] >> 4 == 4)
		rex = code[at++];
	if (prefix == 0xf3 && size - at == 2 && code[at] == 0x0f &&
	    code[at + 1] == 0x09) {
		snprintf(text, len, "wbnoinvd");
		return true;
	}
	return size - at == 3 && code[at] == 0x0f &&
	       put_two_bytes(code + at, prefix, rex, is64, syntax, text, len);
}

/* ---- A64 ---- */

static const char *const conditions[16] = {
	"eq", "ne", "hs", "lo", "mi", "pl", "vs", "vc",
	"hi", "ls", "ge", "lt", "gt", "le", "al", "nv",
};

/* A general register; 31 is the zero register. */
static const char *a64_register(char buf[8], unsigned r, bool wide)
{
	if (r == 31)
		return wide ? "xzr" : "wzr";
	snprintf(buf, 8, "%c%u", wide ? 'x' : 'w', r);
	return buf;
}

/* CB<cc>, CBB<cc>, CBH<cc>. */
static void put_compare(uint32_t word, uint64_t to, char *text, size_t len)
{
	static const char *const of_registers[8] = { "gt", "ge", "hi", "hs",
						     NULL, NULL, "eq", "ne" };
	static const char *const of_immediate[8] = { "gt", "lt", "hi", "lo",
						     NULL, NULL, "eq", "ne" };
	static const char *const sizes[4] = { "", "", "b", "h" };
	bool wide = word >> 31;
	unsigned cc = word >> 21 & 7;
	char t[8], m[8];

	if (word >> 24 & 1)
		snprintf(text, len, "cb%s %s, #%u, #0x%llx", of_immediate[cc],
			 a64_register(t, word & 31, wide), word >> 15 & 63,
			 (unsigned long long)to);
	else
		snprintf(text, len, "cb%s%s %s, %s, #0x%llx",
			 sizes[word >> 14 & 3], of_registers[cc],
			 a64_register(t, word & 31, wide),
			 a64_register(m, word >> 16 & 31, wide),
			 (unsigned long long)to);
}

/* BRAA and BLRAA, RETAA, ERETAA; RETAASPPCR; TEXIT. */
static bool put_register(uint32_t word, char *text, size_t len)
{
	static const char *const names[16] = {
		[0] = "bra", [1] = "blra", [2] = "reta", [4] = "ereta",
		[8] = "bra", [9] = "blra",
	};
	unsigned opc = word >> 21 & 15, n = word >> 5 & 31, m = word & 31;
	char key = word >> 10 & 1 ? 'b' : 'a', a[8], b[8];

	if ((word & ~0x400u) == 0xd6ff03e0) {
		snprintf(text, len, "texit%s", word & 0x400 ? " nb" : "");
		return true;
	}
	if ((word >> 10 & 0x3e) != 2 || !names[opc])
		return false;
	/* the names end in the key: reta and a, retb */
	if (opc >= 8)
		snprintf(text, len, "%s%c %s, %s", names[opc], key,
			 a64_register(a, n, true),
			 m == 31 ? "sp" : a64_register(b, m, true));
	else if (opc <= 1)
		snprintf(text, len, "%s%cz %s", names[opc], key,
			 a64_register(a, n, true));
	else if (opc == 2 && m != 31)
		snprintf(text, len, "reta%csppcr %s", key,
			 a64_register(a, m, true));
	else
		snprintf(text, len, "%s%c", names[opc], key);
	return true;
}

static bool put_a64(uint32_t word, uint64_t ip, char *text, size_t len)
{
	struct a64_insn insn;

	if (a64_insn_decode(word, &insn) < 0 || insn.cls == A64_UNKNOWN)
		return false;
	if (word >> 24 == 0x54 && word & 0x10) {
		snprintf(text, len, "bc.%s #0x%llx", conditions[word & 15],
			 (unsigned long long)(ip + (uint64_t)(int64_t)insn.disp));
		return true;
	}
	if ((word & 0xffc0001f) == 0x5500001f) {
		snprintf(text, len, "reta%csppc #0x%llx",
			 word >> 21 & 1 ? 'b' : 'a',
			 (unsigned long long)(ip - (word >> 5 & 0xffff) * 4));
		return true;
	}
	if ((word & 0x7e000000) == 0x74000000) {
		put_compare(word, ip + (uint64_t)(int64_t)insn.disp, text, len);
		return true;
	}
	return word >> 25 == 0x6b && put_register(word, text, len);
}

bool young_text(const uint8_t *code, int size, uint64_t ip, unsigned mode,
		enum disasm_syntax syntax, char *text, size_t len)
{
	uint32_t word;

	switch (mode & AUX_FLOW_MODE_MASK) {
	case AUX_FLOW_MODE_X86_64:
		return put_x86(code, size, true, syntax, text, len);
	case AUX_FLOW_MODE_X86_32:
		return put_x86(code, size, false, syntax, text, len);
	case AUX_FLOW_MODE_A64:
		word = (uint32_t)code[3] << 24 | (uint32_t)code[2] << 16 |
		       (uint32_t)code[1] << 8 | code[0];
		return size == 4 && put_a64(word, ip, text, len);
	default:
		return false;
	}
}
