/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -g -O0 */
/* What a debugger is led through: recursion, a callback, loops, functions of libc. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
	int x = *(const int *)a;
	int y = *(const int *)b;

	return x < y ? -1 : x > y;
}

__attribute__((noinline)) static int fib(int n)
{
	if (n < 2)
		return n;
	return fib(n - 1) +
	       fib(n - 2);
}

__attribute__((noinline)) static int sum(int *v, int n)
{
	int s = 0;

	for (int i = 0; i < n; i++)
		s += v[i];
	return s;
}

static void work(int round)
{
	int v[8] = { 5, 3, 8, 1, 9, 2, 7, round };
	char *p;

	qsort(v, 8, sizeof(v[0]), compare);
	p = strdup("text");
	printf("%d %d %s\n", sum(v, 8), fib(round), p);
	free(p);
}

int main(void)
{
	for (int round = 0; round < 12; round++)
		work(round);
	return 0;
}
