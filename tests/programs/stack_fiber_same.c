/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -finstrument-functions -fno-omit-frame-pointer */
/* build: -fno-optimize-sibling-calls -fno-inline -pthread */
/*
 * Fibers that all yield at the same place, at different depths, in changing order:
 * which of them goes on, no trace of control flow tells when it happens.
 */
#define N_FIBERS 4
#include "stack_fibers.h"

static int rounds[N_FIBERS];
static int current;
static volatile int sink;

static void leaf(int n)
{
	sink += n;
}

static void yield(void)
{
	leaf(current);
	swapcontext(&fibers[current].context, &scheduler);
	leaf(-current);
}

/* Yields on the way down and on the way up. */
static void descend(int n)
{
	leaf(n);
	yield();
	if (n) {
		descend(n - 1);
		yield();
	}
	leaf(n);
}

static void body(void)
{
	for (int i = 0; i < rounds[current]; i++) {
		descend(current + i);
		leaf(i);
	}
	fibers[current].alive = 0;
}

static void start(int i, int n_rounds)
{
	rounds[i] = n_rounds;
	prepare(i, body);
}

static void resume(int i)
{
	current = i;
	leaf(i);
	swapcontext(&scheduler, &fibers[i].context);
}

static void schedule(int step)
{
	unsigned at = 1;

	while (any_alive()) {
		at = at * 5 + (unsigned)step;
		resume(next_alive(at));
	}
}

int main(void)
{
	for (int i = 0; i < N_FIBERS; i++) {
		make_stack(i);
		start(i, 1 + i % 2);
	}
	schedule(3);
	for (int i = 0; i < N_FIBERS; i += 2)
		start(i, 2);
	schedule(1);
	puts("fiber_same: all right");
	return 0;
}
