/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -finstrument-functions -fno-omit-frame-pointer */
/* build: -fno-optimize-sibling-calls -fno-inline -pthread */
/* build: -Wno-infinite-recursion */
/*
 * Plain calls of every shape: deep and mutual recursion, function pointers,
 * callbacks out of qsort, bsearch and atexit, functions that do not return.
 */
#include "stack_truth.h"

static volatile int sink;
static int is_odd(int n);

static int is_even(int n)
{
	return n == 0 ? 1 : is_odd(n - 1);
}

static int is_odd(int n)
{
	return n == 0 ? 0 : is_even(n - 1);
}

static int dive(int n)
{
	return n == 0 ? 0 : 1 + dive(n - 1);
}

static int ackermann(int m, int n)
{
	if (m == 0)
		return n + 1;
	if (n == 0)
		return ackermann(m - 1, 1);
	return ackermann(m - 1, ackermann(m, n - 1));
}

static int fib(int n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static int add(int a, int b)
{
	return a + b;
}

static int sub(int a, int b)
{
	return a - b;
}

static int twice(int (*f)(int, int), int n)
{
	return f(f(n, 1), 2);
}

static int compare(const void *a, const void *b)
{
	return sub(*(const int *)a, *(const int *)b);
}

static void sorted(void)
{
	static int (*const fs[])(int, int) = { add, sub };
	int v[40], key = 7;

	for (int i = 0; i < 40; i++)
		v[i] = (i * 17) % 41;
	qsort(v, 40, sizeof(v[0]), compare);
	sink = bsearch(&key, v, 40, sizeof(v[0]), compare) != NULL;
	for (int i = 0; i < 10; i++)
		sink += twice(fs[i % 3 == 0], i);
}

static void goodbye(void)
{
	sink = add(1, sink);
}

static void farewell(void)
{
	goodbye();
}

static _Noreturn void leave_for_good(int n)
{
	if (n)
		leave_for_good(n - 1);
	puts("recurse: all right");
	exit(0);
}

int main(void)
{
	atexit(goodbye);
	atexit(farewell);
	sink = dive(1500);
	sink = is_even(101) + is_odd(200);
	sink = ackermann(2, 3);
	sink = fib(12);
	sorted();
	leave_for_good(5);
}
