/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines for coverage: goto, setjmp, noreturn, macros, one-line loops. */
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define CHECK(x) do { if (!(x)) fail(#x); } while (0)
#define SWAP(a, b) ({ int t_ = (a); (a) = (b); (b) = t_; })

static jmp_buf env;
static int depth;

static void __attribute__((noreturn)) fail(const char *what)
{
	printf("failed: %s\n", what);
	exit(1);
}

static void jump_back(int n)
{
	if (n > 100)
		return;
	if (n > 3)
		longjmp(env, n);
	depth++;
	jump_back(n + 1);
}

static int one_line(int n) { int s = 0; for (int i = 0; i < n; i++) s += i; return s; }

static int run_code(const uint8_t *code)
{
	int acc = 0;

again:
	switch (*code++) {
	case 0:
		acc++;
		goto again;
	case 1:
		acc--;
		goto again;
	case 2:
		acc *= 2;
		goto again;
	}
	return acc;
}

static int clean_up(int n)
{
	char *p = malloc(16), *q = NULL;
	int err = -1;

	if (n == 0)
		goto out;
	q = malloc(n);
	if (!q)
		goto out_free;
	memset(q, n, n);
	err = q[0];
	if (n == 3) {
		err = 3;
		goto out_free;
	}
	free(q);
out_free:
	memcpy(p, "x", 2);
out:
	free(p);
	return err;
}

static double floats(unsigned long n)
{
	double d = n;
	float f = (float)d * 1.5f;
	unsigned long back = (unsigned long)d;

	return d > f ? d : (double)back + f;
}

static int bits(unsigned v)
{
	int n = 0;

	while (v)
		v &= v - 1, n++;
	return n;
}

static void sort(int *v, int n)
{
	for (int i = 0; i < n; i++)
		for (int j = i + 1; j < n; j++)
			if (v[j] < v[i])
				SWAP(v[i], v[j]);
}

static int big_switch(int v)
{
	switch (v) {
	case 1: return 10;
	case 2: return 20;
	case 100: return 30;
	case 1000: return 40;
	case -5:
	case -6: {
		int w = v * 2;
		return w;
	}
	case 7 ... 9:
		v++;
	}
	return v;
}

static int logic(int a, int b, int c)
{
	int r = a && b;

	r += a || (b && c);
	r += !a;
	r += a ? b ? 1 : 2 : c ? 3 : 4;
	r += a
		? b
		: c;
	if (a
	    && b
	    && c)
		r += 100;
	else if (a ||
		 b)
		r += 10;
	return r
		+ MAX(a, b)
		+ MAX(b, c);
}

int main(void)
{
	int v[] = { 5, 3, 9, 1, 7 }, sum = 0;
	volatile int tries = 0;
	uint8_t code[] = { 0, 0, 2, 1, 2, 3 };

	switch (setjmp(env)) {
	case 0:
		jump_back(0);
		break;
	case 4:
		tries++;
		break;
	default:
		tries = 9;
	}
	for (int i = 0; i < 5; i++)
		sum += one_line(i) + clean_up(i);
	sum += run_code(code);
	sum += (int)floats(77);
	for (unsigned i = 0; i < 10; i++) sum += bits(i * 77);
	sort(v, 5);
	for (int i = -7; i < 12; i++)
		sum += big_switch(i);
	for (int i = 0; i < 8; i++)
		sum += logic(i & 1, i & 2, i & 4);
	char room[sum & 15 ? 100 : 20];
	memcpy(room, "abc", 4);
	CHECK(v[0] == 1);
	CHECK(tries == 1);
	printf("%d %d %s\n", sum, depth, room);
	if (sum > 100000)
		fail("sum");
	exit(0);
}
