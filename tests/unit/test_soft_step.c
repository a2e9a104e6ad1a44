/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/* host: x86_64 */
/*
 * soft_step: the operand of PTWRITE in all its forms. Its recordings are compared with the
 * truth by the tests of whole programs.
 */
#include "capture/soft/step.h"
#include "tests/unit/tap.h"

static const struct {
	const char *text;
	uint8_t size, bytes[12];
	bool memory;
	int width;
	uint64_t value;
} cases[] = {
	{ "eax", 4, { 0xf3, 0x0f, 0xae, 0xe0 }, 0, 4, 0x1000 },
	{ "rax", 5, { 0xf3, 0x48, 0x0f, 0xae, 0xe0 }, 0, 8, 0x1000 },
	{ "r9", 5, { 0xf3, 0x49, 0x0f, 0xae, 0xe1 }, 0, 8, 0x9000 },
	{ "[rdi]", 4, { 0xf3, 0x0f, 0xae, 0x27 }, 1, 4, 0x8000 },
	{ "[rbp-8]", 5, { 0xf3, 0x0f, 0xae, 0x65, 0xf8 }, 1, 4, 0x5ff8 },
	{ "[rsp+8]", 7, { 0xf3, 0x48, 0x0f, 0xae, 0x64, 0x24, 8 }, 1, 8,
	  0x7008 },
	{ "[rip+0x10]", 8, { 0xf3, 0x0f, 0xae, 0x25, 0x10 }, 1, 4, 0x400018 },
	{ "[r12+r9*4+0x100]", 10, { 0xf3, 0x4b, 0x0f, 0xae, 0xa4, 0x8c, 0, 1 },
	  1, 8, 0xc000 + 0x9000 * 4 + 0x100 },
	{ "[abs]", 9, { 0xf3, 0x0f, 0xae, 0x24, 0x25, 0x44, 0x33 }, 1, 4,
	  0x3344 },
	{ "fs:[rax]", 5, { 0x64, 0xf3, 0x0f, 0xae, 0x20 }, 1, 4, 0x71000 },
	{ "[eax]", 5, { 0x67, 0xf3, 0x0f, 0xae, 0x23 }, 1, 4, 0x12345678 },
};

int main(void)
{
	const struct user_regs_struct r = {
		.rax = 0x1000, .rcx = 0x2000, .rdx = 0x3000,
		.rbx = 0xff12345678, .rsp = 0x7000, .rbp = 0x6000,
		.rsi = 0x9999, .rdi = 0x8000, .r9 = 0x9000, .r12 = 0xc000,
		.fs_base = 0x70000,
	};
	struct step_operand op;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		bool found = step_ptwrite_operand(cases[i].bytes, cases[i].size,
						  0x400000, &r, &op);

		ok(found && op.is_memory == cases[i].memory &&
		   op.size == cases[i].width && op.value == cases[i].value,
		   "ptwrite %s: %#jx", cases[i].text, (uintmax_t)op.value);
	}
	ok(!step_ptwrite_operand((const uint8_t *)"\x0f\xae\xf0", 3, 0, &r,
				 &op), "mfence is none");
	return plan_done();
}
