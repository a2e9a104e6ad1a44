/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -finstrument-functions -fno-omit-frame-pointer */
/* build: -fno-optimize-sibling-calls -fno-inline -pthread */
/*
 * Signals: a handler that calls, handlers in handlers, on a stack of their own, a
 * fault that the handler mends, in the middle of a loop, during a system call.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "stack_truth.h"

static volatile sig_atomic_t seen, spinning;
static volatile int sink;
static char *page;

static void leaf(int n)
{
	sink += n;
}

static void work(int n)
{
	for (int i = 0; i < n; i++)
		leaf(i);
}

static void on_signal(int sig)
{
	work(3);
	seen++;
	leaf(sig);
}

/* Each raises the next one. */
static void on_nested(int sig)
{
	leaf(sig);
	if (sig < SIGRTMIN + 4)
		raise(sig + 1);
	work(2);
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)context;
	leaf(sig);
	mprotect((char *)info->si_addr, 4096, PROT_READ | PROT_WRITE);
	work(1);
}

static int mended(int n)
{
	if (n)
		return mended(n - 1) + 1;
	page[0] = 5;
	leaf(page[0]);
	return page[0];
}

/* The signal comes while this loops. */
static void spin(void)
{
	struct itimerval timer = { .it_value = { .tv_usec = 2000 } };
	int before = seen;

	leaf(1);
	setitimer(ITIMER_REAL, &timer, NULL);
	while (seen == before)
		spinning++;
	leaf(2);
}

/* The signal comes during a system call, which it ends. */
static void wait_in_kernel(void)
{
	struct itimerval timer = { .it_value = { .tv_usec = 2000 } };
	sigset_t block, old;

	sigemptyset(&block);
	sigaddset(&block, SIGALRM);
	sigprocmask(SIG_BLOCK, &block, &old);
	setitimer(ITIMER_REAL, &timer, NULL);
	leaf(3);
	sigsuspend(&old);
	leaf(4);
	sigprocmask(SIG_SETMASK, &old, NULL);
}

static void install(void)
{
	static char stack[65536];
	struct sigaction sa = { .sa_handler = on_signal };
	stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };

	truth_stack(TRUTH_SIGNAL_STACK, stack, sizeof(stack));
	sigaltstack(&ss, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	sigaction(SIGALRM, &sa, NULL);
	sa.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR2, &sa, NULL);
	sa.sa_handler = on_nested;
	for (int i = 0; i < 5; i++) {
		sa.sa_flags = i & 1 ? SA_ONSTACK : 0;
		sigaction(SIGRTMIN + i, &sa, NULL);
	}
	sa.sa_flags = SA_SIGINFO | SA_ONSTACK;
	sa.sa_sigaction = on_fault;
	sigaction(SIGSEGV, &sa, NULL);
}

int main(void)
{
	install();
	page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	raise(SIGUSR1);
	leaf(0);
	raise(SIGUSR2);
	leaf(0);
	raise(SIGRTMIN);
	mended(4);
	for (int i = 0; i < 3; i++) {
		spin();
		wait_in_kernel();
	}
	puts("signal: all right");
	return 0;
}
