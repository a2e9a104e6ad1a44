/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -finstrument-functions -fno-omit-frame-pointer */
/* build: -fno-optimize-sibling-calls -fno-inline -pthread */
/*
 * Fibers by makecontext and swapcontext, each of which yields at places of its own:
 * in recursion at changing depths, out of a callee, from one to another past the
 * scheduler; some end early, new ones take their stacks; and setcontext.
 */
#define N_FIBERS 3
#include "stack_fibers.h"

static volatile int sink;

static void leaf(int n)
{
	sink += n;
}

/* The first recurses, and yields on the way down. */
static void descend(int n)
{
	leaf(n);
	swapcontext(&fibers[0].context, &scheduler);
	if (n)
		descend(n - 1);
	leaf(-n);
}

static void first(void)
{
	for (int i = 0; i < 4; i++)
		descend(i);
	fibers[0].alive = 0;
}

/* The second yields out of a callee, in a loop. */
static void pause_second(void)
{
	leaf(2);
	swapcontext(&fibers[1].context, &scheduler);
	leaf(3);
}

static void second(void)
{
	for (int i = 0; i < 5; i++) {
		leaf(i);
		pause_second();
	}
	fibers[1].alive = 0;
}

/* The third goes straight to the second when that is alive. */
static void hand_over(int n)
{
	leaf(n);
	swapcontext(&fibers[2].context,
		    fibers[1].alive ? &fibers[1].context : &scheduler);
	leaf(n);
}

static void third(void)
{
	hand_over(1);
	leaf(0);
	hand_over(2);
	fibers[2].alive = 0;
}

static void (*const bodies[N_FIBERS])(void) = { first, second, third };

static void resume(int i)
{
	leaf(i);
	swapcontext(&scheduler, &fibers[i].context);
	leaf(i);
}

static void schedule(unsigned at)
{
	while (any_alive()) {
		at = at * 5 + 3;
		resume(next_alive(at));
	}
}

static void again(void)
{
	static volatile int n;
	ucontext_t point;

	n = 0;
	getcontext(&point);
	leaf(n);
	if (++n < 4)
		setcontext(&point);
	leaf(-1);
}

int main(void)
{
	for (int i = 0; i < N_FIBERS; i++) {
		make_stack(i);
		prepare(i, bodies[i]);
	}
	schedule(1);
	again();
	prepare(2, third);
	prepare(0, first);
	schedule(2);
	puts("fiber: all right");
	return 0;
}
