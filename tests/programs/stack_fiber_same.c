/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -finstrument-functions -fno-omit-frame-pointer */
/* build: -fno-optimize-sibling-calls -fno-inline -pthread */
/*
 * Fibers that all yield at the same place, at different depths, in changing order:
 * which of them goes on, no trace of control flow tells when it happens.
 */
#include <ucontext.h>

#include "stack_truth.h"

#define N_FIBERS   4
#define STACK_SIZE 65536

struct fiber {
	ucontext_t context;
	char *stack;
	int alive, rounds;
};

static struct fiber fibers[N_FIBERS];
static ucontext_t scheduler;
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
	for (int i = 0; i < fibers[current].rounds; i++) {
		descend(current + i);
		leaf(i);
	}
	fibers[current].alive = 0;
}

static void start(int i, int rounds)
{
	struct fiber *f = &fibers[i];

	getcontext(&f->context);
	f->context.uc_stack.ss_sp = f->stack;
	f->context.uc_stack.ss_size = STACK_SIZE;
	f->context.uc_link = &scheduler;
	f->alive = 1;
	f->rounds = rounds;
	makecontext(&f->context, body, 0);
}

static void resume(int i)
{
	current = i;
	leaf(i);
	swapcontext(&scheduler, &fibers[i].context);
}

static int any_alive(void)
{
	int n = 0;

	for (int i = 0; i < N_FIBERS; i++)
		n += fibers[i].alive;
	return n;
}

static void schedule(int step)
{
	unsigned at = 1;

	while (any_alive()) {
		at = at * 5 + (unsigned)step;
		while (!fibers[at / 8 % N_FIBERS].alive)
			at += 8;
		resume((int)(at / 8 % N_FIBERS));
	}
}

int main(void)
{
	for (int i = 0; i < N_FIBERS; i++) {
		fibers[i].stack = (char *)malloc(STACK_SIZE);
		truth_stack(TRUTH_FIBER_STACK, fibers[i].stack, STACK_SIZE);
		start(i, 1 + i % 2);
	}
	schedule(3);
	for (int i = 0; i < N_FIBERS; i += 2)
		start(i, 2);
	schedule(1);
	puts("fiber_same: all right");
	return 0;
}
