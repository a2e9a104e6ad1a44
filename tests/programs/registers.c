/* SPDX-License-Identifier: BSD-2-Clause */
/* host: x86_64 */
/*
 * Rounds of branches of each kind, with all registers but the stack pointer and those
 * that lead to memory set to what the last round has not; afterwards they must be as they
 * were. Says "ready", runs until SIGTERM, then "right"; or "wrong" at once.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define N 13

uint64_t registers_in[N], registers_out[N];
void registers_round(void);

/* The conditions are those that the flags before them have; flags of no use to a copy. */
__asm__(".text\n"
	"1:	ret\n"
	"2:	test %eax, %eax\n"
	"	jz 3f\n"
	"	nop\n"
	"3:	ret\n"
	"registers_round:\n"
	"	push %rbx\n	push %rbp\n	push %r12\n	push %r13\n"
	"	push %r14\n	push %r15\n"
	"	lea registers_in(%rip), %r15\n"
	"	mov (%r15), %rax\n	mov 8(%r15), %rcx\n"
	"	mov 16(%r15), %rdx\n	mov 24(%r15), %rbx\n"
	"	mov 32(%r15), %rbp\n	mov 40(%r15), %rsi\n"
	"	mov 48(%r15), %rdi\n	mov 56(%r15), %r8\n"
	"	mov 64(%r15), %r9\n	mov 72(%r15), %r10\n"
	"	mov 80(%r15), %r11\n	mov 88(%r15), %r12\n"
	"	mov 96(%r15), %r13\n"
	"	lea 1b(%rip), %r14\n"
	"	call 1b\n"
	"	call *%r14\n"
	"	stc\n"
	"	jc 4f\n"
	"	ud2\n"
	"4:	call 2b\n"
	"	call *6f(%rip)\n"
	"	jnc 5f\n"
	"	ud2\n"
	"5:	jmp *7f(%rip)\n"
	"	ud2\n"
	"8:	call 2b\n"
	"	lea registers_out(%rip), %r15\n"
	"	mov %rax, (%r15)\n	mov %rcx, 8(%r15)\n"
	"	mov %rdx, 16(%r15)\n	mov %rbx, 24(%r15)\n"
	"	mov %rbp, 32(%r15)\n	mov %rsi, 40(%r15)\n"
	"	mov %rdi, 48(%r15)\n	mov %r8, 56(%r15)\n"
	"	mov %r9, 64(%r15)\n	mov %r10, 72(%r15)\n"
	"	mov %r11, 80(%r15)\n	mov %r12, 88(%r15)\n"
	"	mov %r13, 96(%r15)\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n"
	"	pop %rbp\n	pop %rbx\n"
	"	ret\n"
	"	.data\n"
	"6:	.quad 2b\n"
	"7:	.quad 8b\n"
	"	.text\n");

static volatile sig_atomic_t stop;

static void on_term(int sig)
{
	(void)sig;
	stop = 1;
}

int main(void)
{
	uint64_t x = UINT64_C(88172645463325252);
	int i;

	signal(SIGTERM, on_term);
	puts("ready");
	fflush(stdout);
	while (!stop) {
		for (i = 0; i < N; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			registers_in[i] = x;
			registers_out[i] = 0;
		}
		registers_round();
		for (i = 0; i < N; i++) {
			if (registers_in[i] == registers_out[i])
				continue;
			printf("wrong: register %d\n", i);
			return 1;
		}
	}
	puts("right");
	return 0;
}
