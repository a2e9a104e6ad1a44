/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * The length decoder against hand-made cases, in 64-bit mode and out of it. What
 * others say of whole programs is in test_x86_insn_ref.c.
 */
#include "common/x86_insn.h"

#include "tests/unit/tap.h"

struct insn_case {
	const char *text;
	uint8_t len;	/* expected; 0 invalid */
	uint8_t cls;
	int8_t rep;
	int32_t disp;
	uint8_t bytes[16];
};

/* table */
static const struct insn_case cases[] = {
	{ "nop", 1, 0, 0, 0, { 0x90 } },
	{ "movabs rax, imm64", 10, 0, 0, 0, { 0x48, 0xb8 } },
	{ "mov ax, imm16", 4, 0, 0, 0, { 0x66, 0xb8 } },
	{ "rex.w under 66: imm32", 8, 0, 0, 0, { 0x66, 0x48, 0x81, 0xc0 } },
	{ "rex before 66 is void", 6, 0, 0, 0, { 0x48, 0x66, 0x81, 0xc0 } },
	{ "movabs al, moffs64", 9, 0, 0, 0, { 0xa0 } },
	{ "moffs32 under 67", 6, 0, 0, 0, { 0x67, 0xa1 } },
	{ "enter", 4, 0, 0, 0, { 0xc8 } },
	{ "test [rax], imm8", 3, 0, 0, 0, { 0xf6, 0x00 } },
	{ "test ax, imm16", 5, 0, 0, 0, { 0x66, 0xf7, 0xc0 } },
	{ "not [rax]", 2, 0, 0, 0, { 0xf6, 0x10 } },
	{ "sib without base", 7, 0, 0, 0, { 0x8b, 0x04, 0x25 } },
	{ "rip relative", 6, 0, 0, 0, { 0x8b, 0x05 } },
	{ "mov rax, cr0 ignores mod", 3, 0, 0, 0, { 0x0f, 0x20, 0x04 } },
	{ "jz rel8", 2, X86_COND, 0, -2, { 0x74, 0xfe } },
	{ "jz rel32", 6, X86_COND, 0, 0x100, { 0x0f, 0x84, 0, 1 } },
	{ "loopne", 2, X86_COND, 0, 5, { 0xe0, 5 } },
	{ "jecxz", 3, X86_COND, 0, -3, { 0x67, 0xe3, 0xfd } },
	{ "call rel32", 5, X86_CALL, 0, -1, { 0xe8, 255, 255, 255, 255 } },
	{ "66 call rel32 (Intel)", 6, X86_CALL, 0, 1, { 0x66, 0xe8, 1 } },
	{ "jmp rel8", 2, X86_JUMP, 0, 127, { 0xeb, 127 } },
	{ "jmp rel32", 5, X86_JUMP, 0, 2, { 0xe9, 2 } },
	{ "notrack jmp rax", 3, X86_IND_JUMP, 0, 0, { 0x3e, 0xff, 0xe0 } },
	{ "call [rip]", 6, X86_IND_CALL, 0, 0, { 0xff, 0x15 } },
	{ "far call [rax]", 2, X86_FAR, 0, 0, { 0xff, 0x18 } },
	{ "bnd ret", 2, X86_RET, 0, 0, { 0xf2, 0xc3 } },
	{ "ret imm16", 3, X86_RET, 0, 0, { 0xc2 } },
	{ "lret", 1, X86_FAR, 0, 0, { 0xcb } },
	{ "iretq", 2, X86_FAR, 0, 0, { 0x48, 0xcf } },
	{ "syscall", 2, X86_SYSCALL, 0, 0, { 0x0f, 0x05 } },
	{ "int 0x80", 2, X86_SYSCALL, 0, 0, { 0xcd, 0x80 } },
	{ "int3", 1, X86_SYSCALL, 0, 0, { 0xcc } },
	{ "sysretq", 3, X86_FAR, 0, 0, { 0x48, 0x0f, 0x07 } },
	{ "vmcall", 3, X86_FAR, 0, 0, { 0x0f, 0x01, 0xc1 } },
	{ "xbegin rel32", 6, 0, 0, 0, { 0xc7, 0xf8 } },
	{ "xbegin rel16", 5, 0, 0, 0, { 0x66, 0xc7, 0xf8 } },
	{ "xabort", 3, 0, 0, 0, { 0xc6, 0xf8 } },
	{ "rep movsq", 3, 0, 1, 0, { 0xf3, 0x48, 0xa5 } },
	{ "repne scasb", 2, 0, 1, 0, { 0xf2, 0xae } },
	{ "movsb", 1, 0, 0, 0, { 0xa4 } },
	{ "pause", 2, 0, 0, 0, { 0xf3, 0x90 } },
	{ "ptwrite rax", 5, X86_PTWRITE, 0, 0, { 0xf3, 0x48, 0x0f, 0xae, 0xe0 } },
	{ "xsave [rax]", 3, 0, 0, 0, { 0x0f, 0xae, 0x20 } },
	{ "vzeroupper", 3, 0, 0, 0, { 0xc5, 0xf8, 0x77 } },
	{ "vpshufd ymm", 5, 0, 0, 0, { 0xc5, 0xfd, 0x70, 0xc0 } },
	{ "vpalignr", 6, 0, 0, 0, { 0xc4, 0xe3, 0x75, 0x0f, 0xc0 } },
	{ "evex disp8", 7, 0, 0, 0, { 0x62, 0xf1, 0x7d, 0x48, 0x6f, 0x40 } },
	{ "evex map 3", 7, 0, 0, 0, { 0x62, 0xf3, 0x7d, 0x48, 0x3e, 0xc0 } },
	{ "xop vprotd", 6, 0, 0, 0, { 0x8f, 0xe8, 0x78, 0xc2, 0xec } },
	{ "pop [rax] is no xop", 2, 0, 0, 0, { 0x8f, 0x00 } },
	{ "crc32", 5, 0, 0, 0, { 0xf2, 0x0f, 0x38, 0xf0, 0xc0 } },
	{ "3dnow", 4, 0, 0, 0, { 0x0f, 0x0f, 0xc0 } },
	{ "jmpabs", 11, X86_IND_JUMP, 0, 0, { 0xd5, 0x00, 0xa1 } },
	{ "66 jmpabs", 0, 0, 0, 0, { 0x66, 0xd5, 0x00, 0xa1 } },
	{ "rex2 add", 4, 0, 0, 0, { 0xd5, 0x48, 0x01, 0xc0 } },
	{ "rex2 imul (map 1)", 4, 0, 0, 0, { 0xd5, 0x80, 0xaf, 0xc0 } },
	{ "rex2 movabs imm64", 11, 0, 0, 0, { 0xd5, 0x18, 0xb8 } },
	{ "rex2 jle (map 1)", 0, 0, 0, 0, { 0xd5, 0xe9, 0x8e } },
	{ "rex2 rdtsc", 0, 0, 0, 0, { 0xd5, 0x80, 0x31 } },
	{ "rex2 je", 0, 0, 0, 0, { 0xd5, 0x00, 0x74 } },
	{ "rex2 call", 0, 0, 0, 0, { 0xd5, 0x00, 0xe8 } },
	{ "rex2 movs", 0, 0, 0, 0, { 0xd5, 0x48, 0xa5 } },
	{ "rex2 jmp [r31]", 4, X86_IND_JUMP, 0, 0, { 0xd5, 0x11, 0xff, 0x27 } },
	{ "apx add imm32", 10, 0, 0, 0, { 0x62, 0xf4, 0xfc, 0x18, 0x81, 0xc0 } },
	{ "apx add imm16", 8, 0, 0, 0, { 0x62, 0xf4, 0x7d, 0x18, 0x81, 0xc0 } },
	{ "apx push2", 6, 0, 0, 0, { 0x62, 0xf4, 0x7c, 0x18, 0xff, 0xf0 } },
	{ "apx test imm8", 7, 0, 0, 0, { 0x62, 0xf4, 0x7c, 0x08, 0xf6, 0xc0 } },
	{ "apx not", 6, 0, 0, 0, { 0x62, 0xf4, 0x7c, 0x18, 0xf6, 0xd0 } },
	{ "apx shld imm8", 7, 0, 0, 0, { 0x62, 0xf4, 0xfc, 0x18, 0x24, 0xc0 } },
	{ "apx cmov", 6, 0, 0, 0, { 0x62, 0xf4, 0xfc, 0x18, 0x44, 0xc0 } },
	{ "urdmsr reg", 5, 0, 0, 0, { 0xf2, 0x0f, 0x38, 0xf8, 0xc0 } },
	{ "urdmsr imm32", 9, 0, 0, 0, { 0xc4, 0xe7, 0x7b, 0xf8, 0xc0 } },
	{ "uiret", 4, X86_FAR, 0, 0, { 0xf3, 0x0f, 0x01, 0xec } },
	{ "clui", 4, 0, 0, 0, { 0xf3, 0x0f, 0x01, 0xee } },
	{ "senduipi rax", 4, 0, 0, 0, { 0xf3, 0x0f, 0xc7, 0xf0 } },
	{ "erets", 4, X86_FAR, 0, 0, { 0xf2, 0x0f, 0x01, 0xca } },
	{ "eretu", 4, X86_FAR, 0, 0, { 0xf3, 0x0f, 0x01, 0xca } },
	{ "f2 f3 is f3: eretu", 5, X86_FAR, 0, 0,
	  { 0xf2, 0xf3, 0x0f, 0x01, 0xca } },
	{ "serialize", 3, 0, 0, 0, { 0x0f, 0x01, 0xe8 } },
	{ "vmxoff", 3, 0, 0, 0, { 0x0f, 0x01, 0xc4 } },
	{ "vmlaunch", 3, X86_FAR, 0, 0, { 0x0f, 0x01, 0xc2 } },
	{ "wrmsrns", 3, 0, 0, 0, { 0x0f, 0x01, 0xc6 } },
	{ "rex2 mov cr3, r16", 4, 0, 0, 0, { 0xd5, 0x90, 0x22, 0xd8 } },
	{ "rex2 syscall", 3, X86_SYSCALL, 0, 0, { 0xd5, 0x80, 0x05 } },
	{ "rex2 call r16", 4, X86_IND_CALL, 0, 0, { 0xd5, 0x10, 0xff, 0xd0 } },
	{ "jmpabs with bits of registers", 11, X86_IND_JUMP, 0, 0,
	  { 0xd5, 0x77, 0xa1 } },
	{ "jmpabs with w", 0, 0, 0, 0, { 0xd5, 0x08, 0xa1 } },
	{ "clac", 3, 0, 0, 0, { 0x0f, 0x01, 0xca } },
	{ "ptwrite [rax]", 4, X86_PTWRITE, 0, 0, { 0xf3, 0x0f, 0xae, 0x20 } },
	{ "endbr64", 4, 0, 0, 0, { 0xf3, 0x0f, 0x1e, 0xfa } },
	{ "notrack call", 3, X86_IND_CALL, 0, 0, { 0x3e, 0xff, 0xd0 } },
	{ "notrack jmp table", 8, X86_IND_JUMP, 0, 0, { 0x3e, 0xff, 0x24, 0xc5 } },
	{ "mov rax, fs:40", 9, 0, 0, 0, { 0x64, 0x48, 0x8b, 4, 0x25, 40 } },
	{ "lock cmpxchg", 4, 0, 0, 0, { 0xf0, 0x0f, 0xb1, 0x10 } },
	{ "tileloadd", 6, 0, 0, 0, { 0xc4, 0xe2, 0x7b, 0x4b, 0x04, 0x10 } },
	{ "push es", 0, 0, 0, 0, { 0x06 } },
	{ "66 before vex", 0, 0, 0, 0, { 0x66, 0xc5, 0xf8, 0x77 } },
	{ "only prefixes", 0, 0, 0, 0, { 0x66, 0x66, 0x66, 0x66, 0x66, 0x66,
	  0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x90 } },
};

static void check_cases(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct insn_case *c = &cases[i];
		struct x86_insn in = { 0 };
		int n = x86_insn_decode(c->bytes, 16, &in);

		ok(n == c->len && (!n || (in.size == n && in.cls == c->cls &&
		   in.rep_string == c->rep && in.disp == c->disp)),
		   "%s", c->text);
		for (int m = 0; m < n; m++)
			if (x86_insn_decode(c->bytes, (size_t)m, &in))
				ok(0, "%s cut to %d bytes", c->text, m);
	}
}

struct legacy_case {
	const char *text;
	uint8_t bits, len, cls, ip16;
	int32_t disp;
	uint8_t bytes[16];
};

/* Out of 64-bit mode. table */
static const struct legacy_case legacy_cases[] = {
	{ "push es", 32, 1, 0, 0, 0, { 0x06 } },
	{ "inc eax", 32, 1, 0, 0, 0, { 0x40 } },
	{ "pusha", 32, 1, 0, 0, 0, { 0x60 } },
	{ "bound", 32, 2, 0, 0, 0, { 0x62, 0x00 } },
	{ "evex", 32, 6, 0, 0, 0, { 0x62, 0xf1, 0x7d, 0x48, 0x6f, 0xc0 } },
	{ "arpl", 32, 2, 0, 0, 0, { 0x63, 0xc0 } },
	{ "add al, imm8 (82)", 32, 3, 0, 0, 0, { 0x82, 0xc0 } },
	{ "call far", 32, 7, X86_FAR, 0, 0, { 0x9a } },
	{ "66 call far", 32, 6, X86_FAR, 0, 0, { 0x66, 0x9a } },
	{ "jmp far", 32, 7, X86_FAR, 0, 0, { 0xea } },
	{ "moffs32", 32, 5, 0, 0, 0, { 0xa1 } },
	{ "moffs16", 32, 4, 0, 0, 0, { 0x67, 0xa1 } },
	{ "les", 32, 2, 0, 0, 0, { 0xc4, 0x00 } },
	{ "lds disp32", 32, 6, 0, 0, 0, { 0xc5, 0x80 } },
	{ "vzeroupper", 32, 3, 0, 0, 0, { 0xc5, 0xf8, 0x77 } },
	{ "vpalignr", 32, 6, 0, 0, 0, { 0xc4, 0xe3, 0x75, 0x0f, 0xc0 } },
	{ "into", 32, 1, X86_SYSCALL, 0, 0, { 0xce } },
	{ "int 0x80", 32, 2, X86_SYSCALL, 0, 0, { 0xcd, 0x80 } },
	{ "aam", 32, 2, 0, 0, 0, { 0xd4, 0x0a } },
	{ "aad", 32, 2, 0, 0, 0, { 0xd5, 0x0a } },
	{ "salc", 32, 1, 0, 0, 0, { 0xd6 } },
	{ "call rel32", 32, 5, X86_CALL, 0, -2, { 0xe8, 254, 255, 255, 255 } },
	{ "call rel16", 32, 4, X86_CALL, 1, -2, { 0x66, 0xe8, 254, 255, 9 } },
	{ "jz rel16", 32, 5, X86_COND, 1, 3, { 0x66, 0x0f, 0x84, 3, 0, 9 } },
	{ "jmp rel8", 32, 2, X86_JUMP, 0, -5, { 0xeb, 0xfb } },
	{ "66 jmp rel8", 32, 3, X86_JUMP, 1, -5, { 0x66, 0xeb, 0xfb } },
	{ "call [ebx]", 32, 2, X86_IND_CALL, 0, 0, { 0xff, 0x13 } },
	{ "jmp far [ebx]", 32, 2, X86_FAR, 0, 0, { 0xff, 0x2b } },
	{ "iret", 32, 1, X86_FAR, 0, 0, { 0xcf } },
	{ "mov eax, imm32", 32, 5, 0, 0, 0, { 0xb8 } },
	{ "mov ax, imm16", 32, 4, 0, 0, 0, { 0x66, 0xb8 } },
	{ "mov eax, [bp + 1]", 32, 4, 0, 0, 0, { 0x67, 0x8b, 0x46, 1 } },
	{ "mov eax, [disp16]", 32, 5, 0, 0, 0, { 0x67, 0x8b, 0x06 } },
	{ "sib without base", 32, 7, 0, 0, 0, { 0x8b, 0x04, 0x25 } },
	{ "jmpabs is aad, and or", 32, 2, 0, 0, 0, { 0xd5, 0x00, 0xa1 } },
	{ "call rel16", 16, 3, X86_CALL, 1, 2, { 0xe8, 2 } },
	{ "66 call rel32", 16, 6, X86_CALL, 0, 2, { 0x66, 0xe8, 2 } },
	{ "jmp rel8", 16, 2, X86_JUMP, 1, 2, { 0xeb, 2 } },
	{ "call far", 16, 5, X86_FAR, 0, 0, { 0x9a } },
	{ "66 jmp far", 16, 8, X86_FAR, 0, 0, { 0x66, 0xea } },
	{ "mov ax, imm16", 16, 3, 0, 0, 0, { 0xb8 } },
	{ "mov [disp16], imm16", 16, 6, 0, 0, 0, { 0xc7, 0x06 } },
	{ "mov ax, [edi * 8]", 16, 8, 0, 0, 0, { 0x67, 0x8b, 0x04, 0xfd } },
	{ "moffs16", 16, 3, 0, 0, 0, { 0xa1 } },
	{ "push imm16", 16, 3, 0, 0, 0, { 0x68 } },
};

static void check_legacy_cases(void)
{
	for (size_t i = 0; i < sizeof(legacy_cases) / sizeof(legacy_cases[0]);
	     i++) {
		const struct legacy_case *c = &legacy_cases[i];
		enum x86_mode mode = c->bits == 32 ? X86_MODE_32 : X86_MODE_16;
		struct x86_insn in = { 0 };
		int n = x86_insn_decode_in(c->bytes, 16, mode, &in);

		ok(n == c->len && in.size == n && in.cls == c->cls &&
		   in.ip16 == c->ip16 && in.disp == c->disp, "%d bits: %s",
		   c->bits, c->text);
		if (x86_insn_decode_in(c->bytes, c->len - 1u, mode, &in))
			ok(0, "%d bits: %s cut", c->bits, c->text);
	}
}

int main(void)
{
	check_cases();
	check_legacy_cases();
	return plan_done();
}
