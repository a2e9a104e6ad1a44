/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mkx86.h: a random x86-64 program, as bytes and as the blocks that soft takes.
 */
#ifndef TESTS_UNIT_MKX86_H
#define TESTS_UNIT_MKX86_H

#include "common/x86_insn.h"

#include "tests/unit/wander.h"

struct x86_program {
	struct wander_code c;
	uint8_t image[2 * WANDER_SIZE];
	size_t n_image;
};

static const struct {
	uint8_t cls, size;
	uint8_t bytes[6];
} x86_ends[] = {
	{ X86_OTHER, 3, { 0x48, 0x89, 0xc0 } },
	{ X86_COND, 6, { 0x0f, 0x84 } },
	{ X86_COND, 6, { 0x0f, 0x8f } },
	{ X86_COND, 6, { 0x0f, 0x85 } },
	{ X86_JUMP, 5, { 0xe9 } },
	{ X86_CALL, 5, { 0xe8 } },
	{ X86_CALL, 5, { 0xe8 } },
	{ X86_RET, 1, { 0xc3 } },
	{ X86_RET, 3, { 0xc2, 8, 0 } },
	{ X86_IND_JUMP, 2, { 0xff, 0xe0 } },
	{ X86_IND_CALL, 2, { 0xff, 0xd0 } },
	{ X86_SYSCALL, 2, { 0x0f, 0x05 } },
	{ X86_PTWRITE, 5, { 0xf3, 0x48, 0x0f, 0xae, 0xe0 } },
};

static void x86_put(struct x86_program *p, const void *bytes, size_t n)
{
	memcpy(p->image + p->n_image, bytes, n);
	p->n_image += n;
}

static void x86_make_block(struct x86_program *p)
{
	static const uint8_t nops[2][5] = { { 0x90 },
					    { 0x0f, 0x1f, 0x44, 0, 0 } };
	struct soft_block *b = &p->c.b[p->c.n];
	uint8_t *off = p->c.insn_off[p->c.n];
	uint32_t i, k = rnd(8), e = rnd(sizeof(x86_ends) / sizeof(*x86_ends));
	size_t start = p->n_image;

	for (i = 0; i < k; i++) {
		off[i] = (uint8_t)(p->n_image - start);
		x86_put(p, nops[i & 1], i & 1 ? 5 : 1);
	}
	off[k] = (uint8_t)(p->n_image - start);
	x86_put(p, x86_ends[e].bytes, x86_ends[e].size);
	b->start = wander_addr(start);
	b->end = wander_addr(p->n_image - 1) + 1;
	b->n_insns = k + 1;
	b->cls = x86_ends[e].cls;
	b->last_size = x86_ends[e].size;
	p->c.n++;
}

static void x86_link(struct x86_program *p, uint32_t i)
{
	struct soft_block *b = &p->c.b[i];
	bool high = b->start >= WANDER_BASE;
	const struct soft_block *to;
	int32_t rel;

	if (b->cls != X86_COND && b->cls != X86_JUMP && b->cls != X86_CALL)
		return;
	/*
	 * A loop of direct jumps alone sends no packet, so how often it ran
	 * before an interrupt cannot be known: only conditions go backwards.
	 */
	do
		to = &p->c.b[b->cls == X86_COND ? rnd(p->c.n) :
						  i + rnd(p->c.n - i)];
	while ((to->start >= WANDER_BASE) != high || (to == b && rnd(100)));
	b->target = to != b && rnd(10) ? to->start : b->end;
	rel = (int32_t)(b->target - b->end);
	memcpy(p->image + wander_offset(b->end - 4), &rel, 4);
}

static uint32_t x86_block_at(const struct x86_program *p, uint64_t ip)
{
	uint32_t i;

	for (i = 0; i < p->c.n; i++)
		if (p->c.b[i].start == ip)
			return i;
	return UINT32_MAX;
}

/* What runs off an end must not: the block becomes a return. */
static void x86_close_end(struct x86_program *p, struct soft_block *b)
{
	uint64_t last = b->end - b->last_size;

	p->image[wander_offset(last)] = 0xc3;
	b->end = last + 1;
	b->last_size = 1;
	b->cls = X86_RET;
}

static void x86_make(struct x86_program *p)
{
	uint32_t i, half;

	memset(p, 0, sizeof(*p));
	while (p->c.n < WANDER_BLOCKS / 2 - 1 &&
	       p->n_image < WANDER_SIZE - 200)
		x86_make_block(p);
	half = p->c.n;
	p->n_image = WANDER_SIZE;
	while (p->c.n < WANDER_BLOCKS - 1 && p->n_image < 2 * WANDER_SIZE - 200)
		x86_make_block(p);
	x86_close_end(p, &p->c.b[half - 1]);
	x86_close_end(p, &p->c.b[p->c.n - 1]);
	for (i = 0; i < p->c.n; i++)
		x86_link(p, i);
	for (i = 0; i < p->c.n; i++) {
		p->c.next_of[i] = x86_block_at(p, p->c.b[i].end);
		p->c.target_of[i] = x86_block_at(p, p->c.b[i].target);
	}
}

#endif
