/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -O1 -fno-optimize-sibling-calls -fno-inline -fcf-protection=none */
/* host: x86_64 */
/*
 * Coroutines with a switch of stacks of their own, whose name says nothing, that all yield
 * at the same place and at different depths: a return out of the switch leads to where a
 * return to the caller would lead, too.
 */
#include <stdint.h>
#include <stdio.h>

#define N 5
#define STACK 16384

static char stacks[N][STACK] __attribute__((aligned(16)));
static void *tops[N], *home;
static int current, alive[N];
static volatile int sink;

/* Saves what a callee keeps and its stack, goes on in another. */
void hop(void **from, void *to);
__asm__(".text\n.type hop, @function\nhop:\n"
	"push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
	"mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
	"pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
	".size hop, .-hop\n");

static void leaf(int n)
{
	for (int i = 0; i < 3 + n % 3; i++)
		sink += i;
}

/* To the next one, in changing order; back to main when all are done. */
static void yield(void)
{
	static int turn;
	int me = current, next = me;

	for (int i = 0; i < N && (next == me || !alive[next]); i++)
		next = (me + 1 + (turn + i) % (N - 1)) % N;
	turn++;
	leaf(me);
	current = next;
	if (alive[next])
		hop(&tops[me], tops[next]);
	else
		hop(&tops[me], home);
	leaf(current + 1);
}

static void descend(int n)
{
	leaf(n);
	if (n)
		descend(n - 1);
	yield();
	leaf(n + 2);
}

static void body(void)
{
	int me = current;

	for (int i = 0; i < 40; i++)
		descend((me * 3 + i) % 7);
	alive[me] = 0;
	yield();
}

int main(void)
{
	for (int i = 0; i < N; i++) {
		uint64_t *top = (uint64_t *)(stacks[i] + STACK - 16);

		*--top = 0;
		*--top = (uint64_t)(uintptr_t)body;
		tops[i] = top - 6;
		alive[i] = 1;
	}
	hop(&home, tops[0]);
	puts("hops: all right");
	return 0;
}
