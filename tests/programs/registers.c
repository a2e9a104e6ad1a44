/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -pthread */
/* host: x86_64 */
/*
 * Rounds of branches of each kind, with all registers but the stack pointer and those
 * that lead to memory set to what the last round has not; afterwards they must be as they
 * were. Says "ready", runs until SIGTERM, then "right"; or "wrong" at once.
 *
 *	registers [N]	until another thread has sent it so many volleys of signals
 *
 * A volley is SIGUSR1, and soon after each other those that an instruction could have
 * caused but has not. All must arrive, as they were sent. (SIGTRAP is not among them: the
 * kernel drops one that meets that of a tracer's step.)
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

static const int sent[] = { SIGUSR1, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS };
#define N_SENT (long)(sizeof(sent) / sizeof(*sent))

static long n_volleys;
static unsigned n_arrived[65];

static void on_sent(int sig, siginfo_t *si, void *context)
{
	(void)context;
	if (si->si_code == SI_TKILL && si->si_pid == getpid())
		__atomic_add_fetch(&n_arrived[sig], 1, __ATOMIC_SEQ_CST);
}

/* False: it has not come for seconds. */
static int arrives(int sig, unsigned want)
{
	const struct timespec step = { .tv_nsec = 50000 };
	const unsigned *n = &n_arrived[sig];
	int i;

	for (i = 0; i < 40000 && __atomic_load_n(n, __ATOMIC_SEQ_CST) < want; i++)
		nanosleep(&step, NULL);
	return __atomic_load_n(n, __ATOMIC_SEQ_CST) == want;
}

static void *send_volleys(void *arg)
{
	pid_t pid = getpid();
	volatile long k;
	long i, c;

	(void)arg;
	for (i = 0; i < n_volleys; i++) {
		for (c = 0; c < N_SENT; c++) {
			syscall(SYS_tgkill, pid, pid, sent[c]);
			for (k = 0; k < (i + c) * 379 % 1000 * 20; k++)
				;
		}
		for (c = 0; c < N_SENT; c++) {
			if (arrives(sent[c], (unsigned)i + 1))
				continue;
			printf("wrong: SIG%s arrived %u times, and was sent %ld times\n",
			       sigabbrev_np(sent[c]), n_arrived[sent[c]], i + 1);
			exit(1);
		}
	}
	stop = 1;
	return NULL;
}

static int begin_sending(const char *n)
{
	struct sigaction sa = { .sa_sigaction = on_sent, .sa_flags = SA_SIGINFO };
	pthread_t sender;
	int i;

	n_volleys = strtol(n, NULL, 10);
	for (i = 0; i < N_SENT; i++)
		sigaction(sent[i], &sa, NULL);
	return pthread_create(&sender, NULL, send_volleys, NULL);
}

int main(int argc, char **argv)
{
	uint64_t x = UINT64_C(88172645463325252);
	int i;

	signal(SIGTERM, on_term);
	if (argc > 1 && begin_sending(argv[1]))
		return 2;
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
