/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ptcode: an image of x86-64 code with all kinds of branches, of a seed: two
 * halves, far from each other. Direct branches stay in their half and lead to the
 * begin of an instruction; of conditional ones none to the next, for then trace
 * alone would tell whether it was taken.
 */
#ifndef TESTS_FUZZ_PTCODE_H
#define TESTS_FUZZ_PTCODE_H

#include <stdint.h>
#include <string.h>

#define CODE_SIZE 1024		/* bytes of each half */
#define CODE_LOW 0x401000
#define CODE_HIGH UINT64_C(0x7f1234567000)

struct ptcode {
	uint8_t code[2][CODE_SIZE];
	uint16_t starts[2][CODE_SIZE];
	unsigned n_starts[2];
};

/* table */
static const struct {
	uint8_t size, disp;	/* bytes of a displacement, at the end */
	uint8_t bytes[9];
} ps_insns[] = {
	{ 1, 0, { 0x90 } },			/* nop */
	{ 3, 0, { 0x48, 0x89, 0xc0 } },
	{ 5, 0, { 0x0f, 0x1f, 0x44, 0, 0 } },
	{ 2, 0, { 0x31, 0xc0 } },
	{ 2, 1, { 0x74 } },			/* je */
	{ 2, 1, { 0x7f } },
	{ 6, 4, { 0x0f, 0x85 } },
	{ 6, 4, { 0x0f, 0x82 } },
	{ 2, 1, { 0xe2 } },			/* loop */
	{ 2, 1, { 0xe3 } },			/* jrcxz */
	{ 2, 1, { 0xeb } },			/* jmp */
	{ 5, 4, { 0xe9 } },
	{ 5, 4, { 0xe8 } },			/* call */
	{ 5, 4, { 0xe8 } },
	{ 5, 4, { 0xe8 } },
	{ 1, 0, { 0xc3 } },			/* ret */
	{ 1, 0, { 0xc3 } },
	{ 2, 0, { 0xf3, 0xc3 } },
	{ 3, 0, { 0xc2, 8, 0 } },
	{ 2, 0, { 0xff, 0xe0 } },		/* jmp *%rax */
	{ 2, 0, { 0xff, 0xd0 } },		/* call *%rax */
	{ 6, 0, { 0xff, 0x15, 0, 0, 0, 0 } },
	{ 2, 0, { 0x0f, 0x05 } },		/* syscall */
	{ 2, 0, { 0xcd, 0x80 } },		/* int */
	{ 1, 0, { 0xcc } },
	{ 2, 0, { 0x48, 0xcf } },		/* iretq */
	{ 3, 0, { 0x48, 0x0f, 0x07 } },		/* sysretq */
	{ 3, 0, { 0x48, 0xff, 0x28 } },		/* ljmp */
	{ 5, 0, { 0xf3, 0x48, 0x0f, 0xae, 0xe0 } },	/* ptwrite */
	{ 3, 0, { 0x0f, 0x22, 0xd8 } },		/* mov %rax,%cr3 */
	{ 6, 4, { 0xc7, 0xf8 } },		/* xbegin */
	{ 3, 0, { 0x0f, 0x01, 0xd5 } },		/* xend */
	{ 2, 0, { 0xf3, 0xa4 } },		/* rep movsb */
	{ 3, 0, { 0x0f, 0x01, 0xc2 } },		/* vmlaunch */
	{ 3, 0, { 0x0f, 0x01, 0xc9 } },		/* mwait */
	{ 2, 0, { 0x0f, 0x0b } },		/* ud2 */
};

static uint32_t ps_draw(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

static uint64_t ps_base(unsigned half)
{
	return half ? CODE_HIGH : CODE_LOW;
}

static void ps_fill_half(struct ptcode *s, unsigned half, uint32_t *state)
{
	unsigned n_kinds = sizeof(ps_insns) / sizeof(ps_insns[0]), k, at = 0, to;
	uint8_t kind[CODE_SIZE];
	uint8_t *code = s->code[half];

	s->n_starts[half] = 0;
	while (at < CODE_SIZE - 16) {
		k = ps_draw(state) % (n_kinds + 12);
		if (k >= n_kinds)
			k %= 4;
		memcpy(code + at, ps_insns[k].bytes, ps_insns[k].size);
		kind[s->n_starts[half]] = (uint8_t)k;
		s->starts[half][s->n_starts[half]++] = (uint16_t)at;
		at += ps_insns[k].size;
	}
	code[at] = 0xc3;
	memset(code + at + 1, 0x90, CODE_SIZE - at - 1);
	for (unsigned i = 0; i < s->n_starts[half]; i++) {
		unsigned end = s->starts[half][i] + ps_insns[kind[i]].size;
		int32_t disp;

		k = kind[i];
		if (!ps_insns[k].disp)
			continue;
		to = ps_draw(state) % s->n_starts[half];
		if (ps_insns[k].disp == 1)	/* not too far */
			to = (i + to % 20) % s->n_starts[half];
		disp = (int32_t)s->starts[half][to] - (int32_t)end;
		if ((ps_insns[k].disp == 1 && (disp > 127 || disp < -128)) ||
		    (!disp && ps_insns[k].bytes[0] != 0xe8))
			disp = -(int32_t)ps_insns[k].size;	/* to itself */
		memcpy(code + end - ps_insns[k].disp, &disp, ps_insns[k].disp);
	}
}

static void ps_make_code(struct ptcode *s, uint8_t seed)
{
	uint32_t state = seed * 2654435761u + 1;

	ps_fill_half(s, 0, &state);
	ps_fill_half(s, 1, &state);
}

/* The code bytes at ip; how many. */
static size_t ps_at(const struct ptcode *s, uint64_t ip, const uint8_t **p)
{
	for (unsigned half = 0; half < 2; half++)
		if (ip - ps_base(half) < CODE_SIZE) {
			*p = s->code[half] + (ip - ps_base(half));
			return CODE_SIZE - (size_t)(ip - ps_base(half));
		}
	return 0;
}

#endif
