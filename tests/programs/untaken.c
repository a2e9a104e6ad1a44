/* SPDX-License-Identifier: BSD-2-Clause */
/* host: x86_64 */
/*
 * A branch that is never taken, to a function on a page where nothing else runs: its
 * name is in the text all the same.
 */
#include <stdio.h>

/* Alone on its pages. */
#define APART __attribute__((aligned(8192), noinline, used))

APART static void never(void)
{
	puts("never");
}

APART static int after(int n)
{
	return n + 1;
}

int main(int argc, char **argv)
{
	(void)argv;
	__asm__ volatile("test %0, %0\n\tjs %P1" : : "r"(argc), "i"(never));
	return after(argc) != 2;
}
