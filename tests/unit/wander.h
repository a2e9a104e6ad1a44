/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wander.h: threads that wander through a random program, in the blocks that soft
 * takes. What they run goes to soft and, instruction by instruction, into lists
 * that tests compare with. The program is mkx86.h's or mka64.h's.
 */
#ifndef TESTS_UNIT_WANDER_H
#define TESTS_UNIT_WANDER_H

#include <stdio.h>
#include <string.h>

#include "tests/unit/slices.h"
#include "capture/soft/impl.h"
#include "tests/unit/xorshift.h"

#define WANDER_BASE UINT64_C(0x7f12345f0000)
#define WANDER_FAR UINT64_C(0x401000)	/* the second half is mapped here */
#define WANDER_SIZE (96 << 10)		/* of each half */
#define WANDER_BLOCKS 4096
#define WANDER_INSNS 32			/* of a block, at most */
#define WANDER_THREADS SLICES_THREADS
#define WANDER_STACK 300

static uint64_t rng = 88172645463325252;

static uint32_t rnd(uint32_t n)
{
	return (uint32_t)((next_random(&rng) >> 20) % n);
}

/* ---- the program ---- */

struct wander_code {
	struct soft_block b[WANDER_BLOCKS];
	uint8_t insn_off[WANDER_BLOCKS][WANDER_INSNS];
	uint32_t next_of[WANDER_BLOCKS]; /* the block at b.end, at b.target */
	uint32_t target_of[WANDER_BLOCKS];
	uint32_t n;
};

static uint64_t wander_addr(size_t off)
{
	return off < WANDER_SIZE ? WANDER_BASE + off :
				   WANDER_FAR + off - WANDER_SIZE;
}

/* In the image, SIZE_MAX: outside. */
static size_t wander_offset(uint64_t ip)
{
	if (ip - WANDER_BASE < WANDER_SIZE)
		return ip - WANDER_BASE;
	if (ip - WANDER_FAR < WANDER_SIZE)
		return ip - WANDER_FAR + WANDER_SIZE;
	return SIZE_MAX;
}

/* ---- threads ---- */

struct wander {
	struct soft *s;
	const struct wander_code *c;
	uint32_t loop;			/* one in loop conds is not taken */
	struct list truth[WANDER_THREADS];
	struct soft_thread *t[WANDER_THREADS];
	uint32_t cur[WANDER_THREADS];	/* next block */
	uint64_t stack[WANDER_THREADS][WANDER_STACK];
	uint32_t depth[WANDER_THREADS];
	bool user[WANDER_THREADS];
};

static void wander_note(struct wander *r, uint32_t k, uint32_t b, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		add(&r->truth[k], r->c->b[b].start + r->c->insn_off[b][i]);
}

static void wander_push(struct wander *r, uint32_t k, uint32_t b)
{
	if (r->depth[k] < WANDER_STACK)
		r->stack[k][r->depth[k]++] = r->c->next_of[b];
}

/* Where block b goes this time. The classes are both architectures'. */
static uint32_t wander_next(struct wander *r, uint32_t k, uint32_t b)
{
	const struct wander_code *c = r->c;

	switch (c->b[b].cls) {
	case X86_COND:
		return rnd(r->loop) ? c->target_of[b] : c->next_of[b];
	case X86_CALL:
		wander_push(r, k, b);
		return c->target_of[b];
	case X86_JUMP:
		return c->target_of[b];
	case X86_IND_CALL:
		wander_push(r, k, b);
		return rnd(c->n);
	case X86_IND_JUMP:
		return rnd(c->n);
	case X86_RET:
		if (!r->depth[k] || !rnd(30))
			return rnd(c->n);
		return (uint32_t)r->stack[k][--r->depth[k]];
	default:
		return c->next_of[b];
	}
}

static void wander_async(struct wander *r, uint32_t k)
{
	uint32_t b = r->cur[k], n = rnd(r->c->b[b].n_insns);
	uint64_t ip = r->c->b[b].start + r->c->insn_off[b][n];

	if (rnd(2)) {
		n = 0;
		ip = r->c->b[b].start;
	} else {
		soft_cut(r->t[k], &r->c->b[b], n, ip);
		wander_note(r, k, b, n);
	}
	soft_leave(r->t[k], SOFT_LEAVE_ASYNC, ip);
	r->user[k] = false;
	/* it goes on elsewhere, as a signal handler does, or where it was */
	r->cur[k] = n ? rnd(r->c->n) : b;
}

/* What follows the last block of a chunk. */
static void wander_rest(struct wander *r, uint32_t k, const struct soft_block *b)
{
	uint64_t ip = b->end - b->last_size;

	if (b->cls == X86_SYSCALL) {
		soft_leave(r->t[k], SOFT_LEAVE_SYSCALL, ip);
		r->user[k] = false;
	} else if (b->cls == X86_PTWRITE) {
		soft_ptwrite(r->t[k], ip, rng, rnd(2) ? 4 : 8);
	} else if (!rnd(30)) {
		wander_async(r, k);
	}
}

static void wander_chunk(struct wander *r, uint32_t k)
{
	uint32_t ids[64], n = 0, want = 1 + rnd(64), b = 0;

	if (!r->user[k])
		soft_enter(r->t[k], r->c->b[r->cur[k]].start, rnd(3000));
	r->user[k] = true;
	while (n < want) {
		b = r->cur[k];
		ids[n++] = b;
		wander_note(r, k, b, r->c->b[b].n_insns);
		r->cur[k] = wander_next(r, k, b);
		if (r->c->b[b].cls == X86_SYSCALL ||
		    r->c->b[b].cls == X86_PTWRITE)
			break;
	}
	soft_run(r->t[k], r->c->b, ids, n);
	wander_rest(r, k, &r->c->b[b]);
}

/* Chunks in turns; flushes and new mappings come between. */
static void wander_run(struct wander *r, uint32_t threads, uint32_t chunks)
{
	static const struct synth_map map = { .addr = 0x1000, .len = 0x1000,
					      .path = "//anon" };
	uint32_t i, k;

	for (k = 0; k < threads; k++) {
		r->t[k] = soft_thread_add(r->s, SLICES_TID, SLICES_TID + k,
					  k ? r->t[0] : NULL);
		r->cur[k] = rnd(r->c->n);
	}
	for (i = 0; i < chunks; i++) {
		wander_chunk(r, rnd(threads));
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
				   r->c->b[r->cur[k]].start);
		soft_thread_exit(r->t[k]);
	}
}

/* All that into a file. False: soft or the writer is not content. */
static bool wander_record(struct wander *r, const struct soft_config *c,
			  const char *event, uint32_t threads, uint32_t chunks,
			  const char *path)
{
	struct perf_event_attr attr = {
		.type = 8, .size = sizeof(attr), .sample_id_all = 1,
		.sample_type = SYNTH_SAMPLE_TYPE, .exclude_kernel = 1,
	};
	struct aux_diag diag = { 0 };
	struct writer *w = NULL;
	struct soft_stats st;
	uint64_t id = 7;
	bool good;

	if (writer_open(&w, path, NULL, &diag)) {
		printf("# %s\n", diag.text);
		return false;
	}
	writer_attr_add(w, &attr, event, &id, 1);
	if (soft_open(&r->s, c, w, NULL))
		return false;
	wander_run(r, threads, chunks);
	good = !soft_close(r->s, &st, NULL);
	if (st.n_unexplained)
		printf("# unexplained: %ju\n", (uintmax_t)st.n_unexplained);
	return !writer_close(w, NULL) && good && !st.n_unexplained;
}

static void wander_free(struct wander *r)
{
	for (uint32_t k = 0; k < WANDER_THREADS; k++)
		free(r->truth[k].v);
}

#endif
