/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -finstrument-functions -fno-omit-frame-pointer */
/* build: -fno-optimize-sibling-calls -fno-inline -pthread */
/* build: -Wno-infinite-recursion */
/*
 * longjmp to one of several activations of one function: to which of them, no trace
 * of control flow tells when it happens.
 */
#include <setjmp.h>

#include "stack_truth.h"

static jmp_buf level[12];
static volatile int sink;

static void leaf(int n)
{
	sink += n;
}

/* Each activation can be jumped to; from the bottom one goes to the one in the
 * middle, then up from there. */
static void climb(int n, int to)
{
	leaf(n);
	if (n == 11)
		longjmp(level[to], 1);
	if (setjmp(level[n]) == 0)
		climb(n + 1, to);
	leaf(-n);
	if (n == to && n > 3)
		longjmp(level[n - 3], 1);
}

int main(void)
{
	for (int i = 1; i < 11; i++)
		climb(0, i);
	puts("jump_any: all right");
	return 0;
}
