/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mka64.h: a random A64 program, as words and as the blocks that soft takes.
 */
#ifndef TESTS_UNIT_MKA64_H
#define TESTS_UNIT_MKA64_H

#include "common/a64_insn.h"

#include "tests/unit/wander.h"

#define A64_HALF (WANDER_SIZE / 4)	/* words */

struct a64_program {
	struct wander_code c;
	uint32_t image[2 * A64_HALF];
	uint32_t block_at[2 * A64_HALF];
};

static const struct {
	uint32_t word;
	uint8_t cls, bits;	/* of the displacement, at bit 0 or 5 */
} a64_ends[] = {
	{ 0xd503201f, A64_OTHER, 0 },
	{ 0x54000001, A64_COND, 19 },	/* b.ne */
	{ 0xb4000000, A64_COND, 19 },	/* cbz */
	{ 0x35000003, A64_COND, 19 },	/* cbnz */
	{ 0x36080004, A64_COND, 14 },	/* tbz */
	{ 0x14000000, A64_JUMP, 26 },
	{ 0x94000000, A64_CALL, 26 },
	{ 0x94000000, A64_CALL, 26 },
	{ 0xd65f03c0, A64_RET, 0 },
	{ 0xd65f03c0, A64_RET, 0 },
	{ 0xd65f0bff, A64_RET, 0 },	/* retaa */
	{ 0xd61f0020, A64_IND_JUMP, 0 },
	{ 0xd71f0822, A64_IND_JUMP, 0 }, /* braa */
	{ 0xd63f0040, A64_IND_CALL, 0 },
	{ 0xd63f085f, A64_IND_CALL, 0 }, /* blraaz */
	{ 0xd4000001, A64_SYSCALL, 0 },
	{ 0xd5033fdf, A64_ISB, 0 },
};

static void a64_link(struct a64_program *p, uint32_t i)
{
	struct wander_code *c = &p->c;
	struct soft_block *b = &c->b[i];
	size_t at = wander_offset(b->end - 4) / 4;
	uint32_t half = b->start >= WANDER_BASE, bits = 0, k, to;
	int64_t rel;

	for (k = 0; k < sizeof(a64_ends) / sizeof(*a64_ends); k++)
		if (a64_ends[k].word == p->image[at])
			bits = a64_ends[k].bits;
	c->next_of[i] = p->block_at[(at + 1) % (2 * A64_HALF)];
	if (!bits)
		return;
	do {
		to = rnd(10) ? rnd(c->n) : c->next_of[i];
		rel = (int64_t)(c->b[to].start - (b->end - 4)) / 4;
	} while ((c->b[to].start >= WANDER_BASE) != half ||
		 (bits == 14 && (rel > 8000 || rel < -8000)));
	b->target = c->b[to].start;
	c->target_of[i] = to;
	p->image[at] |= ((uint32_t)rel & ((1u << bits) - 1))
			<< (bits == 26 ? 0 : 5);
}

/* cpu_pac: also the branches that Armv8.3 added. */
static void a64_make(struct a64_program *p, bool cpu_pac)
{
	struct wander_code *c = &p->c;
	size_t i = 0;
	uint32_t k, e;

	memset(p, 0, sizeof(*p));
	while (c->n < WANDER_BLOCKS && i < 2 * A64_HALF - 40) {
		struct soft_block *b = &c->b[c->n];

		if (i < A64_HALF && i > A64_HALF - 40)
			i = A64_HALF;
		k = rnd(rnd(9) ? 6 : 30);
		do
			e = rnd(sizeof(a64_ends) / sizeof(*a64_ends));
		while (!cpu_pac && a64_ends[e].word & 0x800 &&
		       a64_ends[e].word >> 25 == 0x6b);
		/* what runs off an end must not */
		if ((i < A64_HALF && i + k > A64_HALF - 41) ||
		    i + k > 2 * A64_HALF - 42 || c->n == WANDER_BLOCKS - 1)
			e = 8;
		for (uint32_t n = 0; n <= k; n++)
			c->insn_off[c->n][n] = (uint8_t)(4 * n);
		p->block_at[i] = c->n++;
		b->start = wander_addr(i * 4);
		b->n_insns = k + 1;
		for (; k; k--)
			p->image[i++] = 0xd503201f;
		b->cls = a64_ends[e].cls;
		b->last_size = 4;
		p->image[i++] = a64_ends[e].word;
		b->end = wander_addr((i - 1) * 4) + 4;
	}
	for (k = 0; k < c->n; k++)
		a64_link(p, k);
}

#endif
