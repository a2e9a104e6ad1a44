/* SPDX-License-Identifier: BSD-2-Clause */
/* Indirect calls, loops and recursion for long enough that its trace has many chunks. */
#include <stdio.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return x < y ? -1 : x > y;
}

static unsigned long leaf(unsigned long x)
{
	if (x % 3)
		return x * 7;
	return x + 1;
}

static unsigned long loop(unsigned long n)
{
	unsigned long sum = 0;

	for (unsigned long i = 0; i < n; i++)
		sum += leaf(i ^ sum);
	return sum;
}

static unsigned long recurse(unsigned n)
{
	return n ? recurse(n - 1) + loop(n) + recurse(n - 1) : loop(10);
}

int main(void)
{
	unsigned long x = 1;
	static int v[1500];

	for (int i = 0; i < 1500; i++) {
		x = x * 6364136223846793005ul + 1;
		v[i] = (int)(x >> 33);
	}
	qsort(v, 1500, sizeof(v[0]), compare);
	printf("%lu %d\n", recurse(8), v[7]);
	return 0;
}
