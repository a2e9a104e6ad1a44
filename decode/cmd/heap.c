/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The heap on huge pages.
 *
 * Of what it takes to decode a short trace once, a third were first touches of pages
 * (1.2 us each in a virtual machine, three times as many as there are kilobytes of
 * trace); huge pages cost 17 us for 2 MiB. Where the kernel has none, nothing changes.
 */
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "decode/cmd/cmd.h"

#if defined(__GLIBC__) && defined(MADV_HUGEPAGE)
#define HUGE_PAGE ((size_t)2 << 20)
#define HEAP (4 * HUGE_PAGE)
#define STEP ((size_t)256 << 10)	/* more than is left of the first heap */
#define HEADER 128			/* of a chunk, at least */

/* Up to a whole huge page nothing may be touched before the advice. What is left out
 * by this is never touched, and costs nothing. */
void cmd_prepare_heap(void)
{
	static char *volatile kept[2];	/* volatile: for leak checkers they are there */
	uintptr_t end, page;

	mallopt(M_TOP_PAD, (int)HEAP);
	mallopt(M_MMAP_THRESHOLD, (int)HUGE_PAGE);
	mallopt(M_TRIM_THRESHOLD, (int)(2 * HEAP));
	kept[0] = malloc(STEP);
	end = (uintptr_t)kept[0] + STEP;
	page = (end + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
	if (!kept[0] || page + HEAP - HUGE_PAGE > (uintptr_t)sbrk(0) ||
	    madvise((void *)page, HEAP - HUGE_PAGE, MADV_HUGEPAGE))
		return;
	if (page - end > 2 * HEADER)
		kept[1] = malloc(page - end - HEADER);
}
#else
void cmd_prepare_heap(void)
{
}
#endif
