/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -fno-omit-frame-pointer -fno-inline -pthread */
/*
 * Calls at random (the argument is the seed): functions that call each other,
 * catch one type or both, throw, rethrow, longjmp to the innermost setjmp, raise a
 * signal whose handler calls on, and sort with a callback that calls on.
 */
#include <csetjmp>
#include <csignal>

#include "stack_truth.h"

#define MAX_DEPTH 24

static uint32_t state = 1;
static int budget = 1500;
static jmp_buf *innermost;
static int handling, trying;

static inline __attribute__((always_inline)) uint32_t next_random(uint32_t n)
{
	state = state * 1664525 + 1013904223;
	return (state >> 8) % n;
}

static void any(int depth);

static NOINLINE void leaf(int depth)
{
	ENTER(leaf);
	budget -= depth & 1;
}

static NOINLINE void many(int depth)
{
	ENTER(many);
	for (uint32_t i = next_random(4); i > 0; i--)
		any(depth + 1);
	leaf(depth);
}

static NOINLINE void catch_int(int depth)
{
	volatile int was_trying = trying;

	ENTER(catch_int);
	any(depth + 1);
	trying = 1;
	try {
		any(depth + 1);
	} catch (int v) {
		leaf(v);
	}
	trying = was_trying;
	any(depth + 1);
}

static NOINLINE void catch_both(int depth)
{
	volatile int was_trying = trying;

	ENTER(catch_both);
	trying = 1;
	try {
		try {
			any(depth + 1);
		} catch (int v) {
			trying = was_trying;
			leaf(v);
			if (next_random(2))
				throw 1.5;
			any(depth + 1);
		}
	} catch (double) {
		leaf(7);
	}
	trying = was_trying;
}

static NOINLINE void rethrow(int depth)
{
	ENTER(rethrow);
	try {
		any(depth + 1);
	} catch (int) {
		leaf(3);
		throw;
	}
}

static NOINLINE void throws(int depth)
{
	ENTER(throws);
	leaf(depth);
	if (trying && !handling)
		throw depth;
}

static NOINLINE void mark(int depth)
{
	jmp_buf here;
	jmp_buf *volatile outer = innermost;
	volatile int was_trying = trying;

	ENTER(mark);
	if (setjmp(here) == 0) {
		innermost = &here;
		trying = 0; /* no exception may pass a setjmp */
		any(depth + 1);
	} else {
		leaf(9);
	}
	innermost = outer;
	trying = was_trying;
	leaf(depth);
}

static NOINLINE void jump(int depth)
{
	ENTER(jump);
	if (innermost && !handling && !trying)
		longjmp(*innermost, 1);
	leaf(depth);
}

static NOINLINE void on_signal(int sig)
{
	ENTER(on_signal);
	handling++;
	leaf(sig);
	any(MAX_DEPTH - 3);
	handling--;
}

static NOINLINE void raises(int depth)
{
	ENTER(raises);
	if (!handling)
		raise(SIGUSR1);
	leaf(depth);
}

static NOINLINE int compare(const void *a, const void *b)
{
	ENTER(compare);
	leaf(1);
	return *(const int *)a - *(const int *)b;
}

static NOINLINE void sorts(int depth)
{
	int v[] = { 5, 3, 9, depth };

	ENTER(sorts);
	qsort(v, 4, sizeof(v[0]), compare);
	leaf(v[0]);
}

static void (*const all[])(int) = { leaf,    many,  many, catch_int, catch_both,
				    rethrow, throws, mark, jump,     raises,
				    sorts };

static NOINLINE void any(int depth)
{
	ENTER(any);
	if (depth >= MAX_DEPTH || --budget < 0)
		return;
	all[next_random(sizeof(all) / sizeof(all[0]))](depth);
}

int main(int argc, char **argv)
{
	state = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1;
	signal(SIGUSR1, on_signal);
	ENTER(main);
	while (budget > 0)
		any(0);
	puts("random: all right");
	return 0;
}
