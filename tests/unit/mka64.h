/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mka64.h: a random A64 program, as bytes and as the blocks that soft takes, and
 * threads that wander through it. What they run goes to soft and, instruction
 * by instruction, into a list that tests compare with.
 */
#ifndef TESTS_UNIT_MKA64_H
#define TESTS_UNIT_MKA64_H

#include <stdlib.h>
#include <string.h>

#include <internal/a64_insn.h>

#include "soft_stream.h"

#define A64_BASE UINT64_C(0x7f12345f0000)
#define A64_FAR UINT64_C(0x401000)	/* the second half is mapped here */
#define A64_SIZE (96 << 10)
#define A64_BLOCKS 4096
#define A64_THREADS 5
#define A64_STACK 300

static uint64_t a64_rng = 88172645463325252;

static uint32_t rnd(uint32_t n)
{
	a64_rng ^= a64_rng << 13;
	a64_rng ^= a64_rng >> 7;
	a64_rng ^= a64_rng << 17;
	return (uint32_t)((a64_rng >> 20) % n);
}

struct list {
	uint64_t *v;
	size_t n, cap;
};

static void add(struct list *l, uint64_t v)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 1024;
		l->v = realloc(l->v, l->cap * sizeof(*l->v));
		if (!l->v)
			abort();
	}
	l->v[l->n++] = v;
}

struct a64_program {
	uint32_t image[2 * A64_SIZE / 4];
	struct soft_block b[A64_BLOCKS];
	uint32_t n;
	uint32_t next_of[A64_BLOCKS], target_of[A64_BLOCKS];
	uint32_t block_at[2 * A64_SIZE / 4];
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

static size_t a64_index(uint64_t ip)
{
	return (ip >= A64_BASE ? ip - A64_BASE : ip - A64_FAR + A64_SIZE) / 4;
}

static uint64_t a64_addr(size_t i)
{
	return i < A64_SIZE / 4 ? A64_BASE + i * 4 :
				  A64_FAR + i * 4 - A64_SIZE;
}

static void a64_link(struct a64_program *p, uint32_t i)
{
	struct soft_block *b = &p->b[i];
	size_t at = a64_index(b->end - 4);
	uint32_t half = b->start >= A64_BASE, bits = 0, k, to;
	int64_t rel;

	for (k = 0; k < sizeof(a64_ends) / sizeof(*a64_ends); k++)
		if (a64_ends[k].word == p->image[at])
			bits = a64_ends[k].bits;
	p->next_of[i] = p->block_at[a64_index(b->end) % (2 * A64_SIZE / 4)];
	if (!bits)
		return;
	do {
		to = rnd(10) ? rnd(p->n) : p->next_of[i];
		rel = (int64_t)(p->b[to].start - (b->end - 4)) / 4;
	} while ((p->b[to].start >= A64_BASE) != half ||
		 (bits == 14 && (rel > 8000 || rel < -8000)));
	b->target = p->b[to].start;
	p->target_of[i] = to;
	p->image[at] |= ((uint32_t)rel & ((1u << bits) - 1))
			<< (bits == 26 ? 0 : 5);
}

/* cpu_pac: also the branches that Armv8.3 added. */
static void a64_make(struct a64_program *p, bool cpu_pac)
{
	size_t i = 0, half = A64_SIZE / 4;
	uint32_t k, e;

	memset(p, 0, sizeof(*p));
	while (p->n < A64_BLOCKS && i < 2 * half - 40) {
		struct soft_block *b = &p->b[p->n];

		if (i < half && i > half - 40)
			i = half;
		k = rnd(rnd(9) ? 6 : 30);
		do
			e = rnd(sizeof(a64_ends) / sizeof(*a64_ends));
		while (!cpu_pac && a64_ends[e].word & 0x800 &&
		       a64_ends[e].word >> 25 == 0x6b);
		/* what runs off an end must not */
		if ((i < half && i + k > half - 41) || i + k > 2 * half - 42 ||
		    p->n == A64_BLOCKS - 1)
			e = 8;
		p->block_at[i] = p->n++;
		b->start = a64_addr(i);
		b->n_insns = k + 1;
		for (; k; k--)
			p->image[i++] = 0xd503201f;
		b->cls = a64_ends[e].cls;
		b->last_size = 4;
		p->image[i++] = a64_ends[e].word;
		b->end = a64_addr(i - 1) + 4;
	}
	for (k = 0; k < p->n; k++)
		a64_link(p, k);
}

/* ---- threads ---- */

struct a64_run {
	struct soft *s;
	struct a64_program *p;
	struct list truth[A64_THREADS];
	struct soft_thread *t[A64_THREADS];
	uint32_t cur[A64_THREADS];	/* next block */
	uint64_t stack[A64_THREADS][A64_STACK];
	uint32_t depth[A64_THREADS];
	bool user[A64_THREADS];
	uint32_t loop;			/* how often one in loop conds is not taken */
};

static void a64_note(struct a64_run *r, uint32_t k, uint32_t b, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		add(&r->truth[k], r->p->b[b].start + 4 * i);
}

static void a64_push(struct a64_run *r, uint32_t k, uint32_t b)
{
	if (r->depth[k] < A64_STACK)
		r->stack[k][r->depth[k]++] = r->p->next_of[b];
}

/* Where block b goes this time. */
static uint32_t a64_next(struct a64_run *r, uint32_t k, uint32_t b)
{
	const struct a64_program *p = r->p;

	switch (p->b[b].cls) {
	case A64_COND:
		return rnd(r->loop) ? p->target_of[b] : p->next_of[b];
	case A64_CALL:
		a64_push(r, k, b);
		return p->target_of[b];
	case A64_JUMP:
		return p->target_of[b];
	case A64_IND_CALL:
		a64_push(r, k, b);
		return rnd(p->n);
	case A64_IND_JUMP:
		return rnd(p->n);
	case A64_RET:
		if (!r->depth[k] || !rnd(30))
			return rnd(p->n);
		return (uint32_t)r->stack[k][--r->depth[k]];
	default:
		return p->next_of[b];
	}
}

static void a64_async(struct a64_run *r, uint32_t k)
{
	uint32_t b = r->cur[k], n = rnd(r->p->b[b].n_insns);
	uint64_t ip = r->p->b[b].start + 4 * n;

	if (rnd(2)) {
		n = 0;
		ip = r->p->b[b].start;
	} else {
		soft_cut(r->t[k], &r->p->b[b], n, ip);
		a64_note(r, k, b, n);
	}
	soft_leave(r->t[k], SOFT_LEAVE_ASYNC, ip);
	r->user[k] = false;
	/* it goes on elsewhere, as a signal handler does, or where it was */
	r->cur[k] = n ? rnd(r->p->n) : b;
}

static void a64_chunk(struct a64_run *r, uint32_t k)
{
	uint32_t ids[64], n = 0, want = 1 + rnd(64), b = 0;

	if (!r->user[k])
		soft_enter(r->t[k], r->p->b[r->cur[k]].start, rnd(3000));
	r->user[k] = true;
	while (n < want) {
		b = r->cur[k];
		ids[n++] = b;
		a64_note(r, k, b, r->p->b[b].n_insns);
		r->cur[k] = a64_next(r, k, b);
		if (r->p->b[b].cls == A64_SYSCALL)
			break;
	}
	soft_run(r->t[k], r->p->b, ids, n);
	if (r->p->b[b].cls == A64_SYSCALL) {
		soft_leave(r->t[k], SOFT_LEAVE_SYSCALL, r->p->b[b].end - 4);
		r->user[k] = false;
	} else if (!rnd(30)) {
		a64_async(r, k);
	}
}

/* threads run chunks in turns, new mappings come between; false: soft is not
 * content. */
static bool a64_wander(struct a64_run *r, uint32_t threads, uint32_t chunks)
{
	static const struct synth_map map = { .addr = 0x1000, .len = 0x1000,
					      .path = "//anon" };
	uint32_t i, k;

	for (k = 0; k < threads; k++) {
		r->t[k] = soft_thread_add(r->s, 100, 100 + k,
					  k ? r->t[0] : NULL);
		r->cur[k] = rnd(r->p->n);
	}
	for (i = 0; i < chunks; i++) {
		a64_chunk(r, rnd(threads));
		if (!rnd(500))
			soft_flush_streams(r->s);
		if (!rnd(200))
			soft_mmap(r->t[rnd(threads)], &map);
		if (!rnd(200))
			soft_code(r->t[rnd(threads)], 0x1000, "x", 1,
				  AUX_CODE_ANON);
	}
	for (k = 0; k < threads; k++) {
		if (r->user[k])
			soft_leave(r->t[k], SOFT_LEAVE_ASYNC,
				   r->p->b[r->cur[k]].start);
		soft_thread_exit(r->t[k]);
	}
	return !soft_stats(r->s)->n_unexplained;
}

#endif
