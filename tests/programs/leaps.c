/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -O1 -fno-optimize-sibling-calls -fno-inline -fcf-protection=none -rdynamic -s */
/* host: x86_64 */
/*
 * A function with a name jumps into functions without one: to where one of them begins, as
 * a tail call, and to where one of them goes on after a call, which ends all frames above.
 */
#include <stdio.h>
#include <stdlib.h>

void leap(void *to, void *stack);
void give_up(int n);
void visit(int n);

static void *back, *stack;
static volatile int sink;

/* Goes on at an address with a stack. */
__asm__(".text\n.globl leap\n.type leap, @function\nleap:\n"
	"mov %rsi, %rsp\njmp *%rdi\n"
	".size leap, .-leap\n");

static void leaf(int n)
{
	for (int i = 0; i < 4 + n % 5; i++)
		sink += i;
}

static void (*const kinds[])(int) = { leaf };

/* A tail call out of a function with a name: see build. */
__attribute__((optimize("optimize-sibling-calls"))) void visit(int n)
{
	kinds[n & 0](n);
}

void give_up(int n)
{
	leaf(n);
	leap(back, stack);
}

static void dig(int n, int last)
{
	for (int i = 0; i < 3; i++)
		visit(n + i);
	if (n)
		dig(n - 1, last);
	else if (last)
		give_up(n);
	leaf(n);
}

/* Where it returns to, and its stack then, are where give_up leads to. */
static __attribute__((noipa)) void attempt(int n)
{
	back = __builtin_return_address(0);
	stack = (char *)__builtin_frame_address(0) + 16;
	dig(n % 40, n % 3 != 1);
}

/* Nothing may be kept in registers that a callee keeps: they are lost. */
static __attribute__((noipa)) void run(void)
{
	static volatile int i;

	for (i = 0; i < 300; i++) {
		attempt(i);
		leaf(i);
	}
}

int main(void)
{
	run();
	puts("leaps: all right");
	exit(0);
}
