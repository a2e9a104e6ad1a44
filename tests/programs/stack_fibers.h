/* SPDX-License-Identifier: BSD-2-Clause */
/* stack_fibers.h: N_FIBERS fibers, each on a stack of its own, and their scheduler. */
#ifndef TESTS_PROGRAMS_STACK_FIBERS_H
#define TESTS_PROGRAMS_STACK_FIBERS_H

#include <ucontext.h>

#include "stack_truth.h"

#define STACK_SIZE 65536

struct fiber {
	ucontext_t context;
	char *stack;
	int alive;
};

static struct fiber fibers[N_FIBERS];
static ucontext_t scheduler;

static void make_stack(int i)
{
	fibers[i].stack = (char *)malloc(STACK_SIZE);
	truth_stack(TRUTH_FIBER_STACK, fibers[i].stack, STACK_SIZE);
}

/* body begins when the fiber is resumed first, and clears alive before it ends. */
static void prepare(int i, void (*body)(void))
{
	struct fiber *f = &fibers[i];

	getcontext(&f->context);
	f->context.uc_stack.ss_sp = f->stack;
	f->context.uc_stack.ss_size = STACK_SIZE;
	f->context.uc_link = &scheduler;
	f->alive = 1;
	makecontext(&f->context, body, 0);
}

static int any_alive(void)
{
	int n = 0;

	for (int i = 0; i < N_FIBERS; i++)
		n += fibers[i].alive;
	return n;
}

/* Which is next, where at is a number that changes: one that is alive. */
static int next_alive(unsigned at)
{
	while (!fibers[at / 8 % N_FIBERS].alive)
		at += 8;
	return (int)(at / 8 % N_FIBERS);
}

#endif
