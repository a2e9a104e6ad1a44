/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heap: see heap.h.
 *
 * A range of the heap may be advised before anything in it is touched, and up to whole
 * huge pages alone. So memory is taken from the heap until such a page begins, and
 * kept: what is left out by this is never touched, and costs nothing.
 *
 * glibc grows the heap of a thread other than the first by what it needs, with a system
 * call each time (mprotect), and gives it back above M_TRIM_THRESHOLD alone: what
 * was allocated and freed at once stays its own.
 */
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/heap.h"

#if defined(__GLIBC__) && defined(MADV_HUGEPAGE)
#define HUGE_PAGE ((size_t)2 << 20)
#define HEAP	  (32 * HUGE_PAGE)
#define STEP	  ((size_t)256 << 10)	/* more than is left of the first heap */
#define HEADER	  128			/* of a chunk, at least */
#define PIECE	  (HUGE_PAGE - STEP)	/* below M_MMAP_THRESHOLD */
#define N_PIECES  18

/* Whether the program has asked for it. */
static atomic_bool *prepared(void)
{
	static atomic_bool yes;

	return &yes;
}

static uintptr_t next_huge_page(uintptr_t at)
{
	return (at + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
}

void heap_prepare(void)
{
	static char *volatile kept[2];	/* volatile: for leak checkers they are there */
	uintptr_t end, page;

	mallopt(M_TOP_PAD, (int)HEAP);
	mallopt(M_MMAP_THRESHOLD, (int)HUGE_PAGE);
	mallopt(M_TRIM_THRESHOLD, (int)(2 * HEAP));
	atomic_store(prepared(), true);
	kept[0] = malloc(STEP);
	end = (uintptr_t)kept[0] + STEP;
	page = next_huge_page(end);
	if (!kept[0] || page + HEAP - HUGE_PAGE > (uintptr_t)sbrk(0) ||
	    madvise((void *)page, HEAP - HUGE_PAGE, MADV_HUGEPAGE))
		return;
	if (page - end > 2 * HEADER)
		kept[1] = malloc(page - end - HEADER);
}

/* The pieces follow each other in a heap that was not used yet; what does not is left
 * as it is. */
void heap_prepare_thread(void)
{
	char *volatile piece[N_PIECES];
	uintptr_t from, to;
	int n = 0;

	if (!atomic_load(prepared()))
		return;
	while (n < N_PIECES && (piece[n] = malloc(PIECE)) &&
	       (!n || (size_t)(piece[n] - piece[n - 1]) - PIECE < HEADER))
		n++;
	if (n == N_PIECES) {
		from = next_huge_page((uintptr_t)piece[0]);
		to = (uintptr_t)piece[n - 1] + PIECE;
		madvise((void *)from, (to - from) & ~(HUGE_PAGE - 1), MADV_HUGEPAGE);
	} else if (piece[n]) {
		n++;
	}
	while (n)
		free(piece[--n]);
}
#else
void heap_prepare(void)
{
}

void heap_prepare_thread(void)
{
}
#endif
