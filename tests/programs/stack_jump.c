/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -finstrument-functions -fno-omit-frame-pointer */
/* build: -fno-optimize-sibling-calls -fno-inline -pthread */
/* build: -Wno-infinite-recursion */
/*
 * setjmp and longjmp: none, out of many frames, again and again to the same place,
 * out of nested signal handlers and off a signal stack.
 */
#include <setjmp.h>
#include <signal.h>

#include "stack_truth.h"

static jmp_buf here;
static sigjmp_buf safe, inner;
static volatile int sink;

static void leaf(int n)
{
	sink += n;
}

static _Noreturn void fail(int code)
{
	leaf(code);
	longjmp(here, code);
}

static void dig(int n)
{
	if (n == 0)
		fail(3);
	dig(n - 1);
	leaf(n);
}

/* setjmp that nobody returns to a second time */
static int quiet(int n)
{
	jmp_buf unused;

	if (setjmp(unused))
		leaf(99);
	leaf(n);
	return n;
}

static void far_out(void)
{
	if (setjmp(here) == 0)
		dig(20);
	leaf(1);
}

static void many_times(void)
{
	volatile int n = 0;

	setjmp(here);
	leaf(n);
	if (++n < 6)
		dig(n);
	leaf(100);
}

/* The activation that is jumped to is not the topmost one. */
static void not_topmost(int n)
{
	leaf(n);
	if (n == 0)
		longjmp(here, 1);
	if (n != 4 || setjmp(here) == 0)
		not_topmost(n - 1);
	leaf(-n);
}

static void own_frame(void)
{
	jmp_buf mine;
	volatile int n = 0;

	if (setjmp(mine) < 4) {
		leaf(n);
		longjmp(mine, ++n);
	}
	leaf(50);
}

static void on_first(int sig)
{
	leaf(sig);
	raise(SIGUSR2);
	leaf(-sig);
}

static void on_second(int sig)
{
	leaf(sig);
	if (sink & 1)
		siglongjmp(safe, 1);
	siglongjmp(inner, 2);
}

static void out_of_handlers(void)
{
	for (volatile int i = 0; i < 4; i++) {
		sink = i;
		if (sigsetjmp(safe, 1) == 0) {
			if (sigsetjmp(inner, 1) == 0)
				raise(SIGUSR1);
			else
				leaf(7);
		} else {
			leaf(8);
		}
	}
}

static void on_fault(int sig)
{
	leaf(sig);
	siglongjmp(safe, 1);
}

static int touch(volatile int *p, int n)
{
	return n ? touch(p, n - 1) + 1 : *p;
}

static void off_the_stack(void)
{
	if (sigsetjmp(safe, 1) == 0)
		sink = touch(NULL, 5);
	leaf(9);
}

static void install(void)
{
	static char stack[65536];
	struct sigaction sa = { .sa_handler = on_first };
	stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };

	truth_stack(TRUTH_SIGNAL_STACK, stack, sizeof(stack));
	sigaltstack(&ss, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	sa.sa_handler = on_second;
	sigaction(SIGUSR2, &sa, NULL);
	sa.sa_handler = on_fault;
	sa.sa_flags = SA_ONSTACK;
	sigaction(SIGSEGV, &sa, NULL);
}

int main(void)
{
	install();
	for (int i = 0; i < 3; i++)
		quiet(i);
	far_out();
	many_times();
	not_topmost(7);
	own_frame();
	out_of_handlers();
	off_the_stack();
	off_the_stack();
	puts("jump: all right");
	return 0;
}
