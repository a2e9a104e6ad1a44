/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is hard to trace on any processor, one function each, and the program
 * around them. feature.c and aarch64/feature.c have what differs.
 */
#ifndef TESTS_PROGRAMS_FEATURE_H
#define TESTS_PROGRAMS_FEATURE_H

#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile sig_atomic_t hits;
static sigjmp_buf jump;
static uint8_t *volatile page;
static volatile uint8_t *volatile nowhere = (volatile uint8_t *)8;

static void on_signal(int sig, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction sa = { 0 };

	sa.sa_sigaction = handler;
	sa.sa_flags = SA_SIGINFO | flags;
	sigaction(sig, &sa, NULL);
}

static int compare(const void *a, const void *b)
{
	const int *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int try_qsort(void)
{
	int v[200], i;

	for (i = 0; i < 200; i++)
		v[i] = (i * 7919) % 1009;
	qsort(v, 200, sizeof(v[0]), compare);
	for (i = 1; i < 200; i++)
		if (v[i - 1] > v[i])
			return 1;
	return 0;
}

static uint64_t sum_to(uint64_t n)
{
	volatile uint64_t rest = n ? sum_to(n - 1) : 0;	/* no tail call */

	return rest + n;
}

/* Deeper than any return stack, around the edges of several. */
static int try_recursion(void)
{
	return sum_to(3) != 6 || sum_to(4) != 10 || sum_to(17) != 17 * 9 ||
	       sum_to(64) != 64 * 65 / 2 || sum_to(65) != 65 * 66 / 2 ||
	       sum_to(300) != 300 * 301 / 2;
}

static void dive(jmp_buf env, int depth)
{
	volatile int here = depth;

	if (depth > 0)
		dive(env, depth - 1);
	else if (here == 0)
		longjmp(env, 7);
	here++;
}

static int try_longjmp(void)
{
	jmp_buf env;
	volatile int rounds = 0;

	while (rounds < 3) {
		int r = setjmp(env);

		if (r == 0)
			dive(env, 40);
		rounds += r == 7;
	}
	return rounds != 3;
}

#ifdef __x86_64__	/* qemu-user 7.2 enters handlers with a misaligned stack. */
__attribute__((force_align_arg_pointer))
#endif
static void count_hit(int sig, siginfo_t *info, void *ctx)
{
	(void)sig, (void)info, (void)ctx;
	hits += 1 + try_qsort();
}

static int try_altstack(void)
{
	static uint8_t stack[65536];
	stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };
	int i;

	hits = 0;
	sigaltstack(&ss, NULL);
	on_signal(SIGUSR1, count_hit, SA_ONSTACK);
	for (i = 0; i < 3; i++)
		raise(SIGUSR1);
	return hits != 3;
}

/* Makes the page usable: the faulting instruction runs again. */
static void fix_page(int sig, siginfo_t *info, void *ctx)
{
	(void)sig, (void)info, (void)ctx;
	hits++;
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void leap(int sig, siginfo_t *info, void *ctx)
{
	(void)info, (void)ctx;
	siglongjmp(jump, sig);
}

static int try_sigsegjmp(void)
{
	volatile int rounds = 0;

	on_signal(SIGSEGV, leap, 0);
	while (rounds < 3)
		if (sigsetjmp(jump, 1) == 0)
			*nowhere = 1;
		else
			rounds++;
	signal(SIGSEGV, SIG_DFL);
	return rounds != 3;
}

static int twice(int x) { return x * 2; }
static int square(int x) { return x * x; }
static int negate(int x) { return -x; }
static int third(int x) { return x / 3; }

static int choose(unsigned int op, int x)
{
	switch (op) {
	case 0: return x + twice(11);
	case 1: return x ^ square(3);
	case 2: return x * 5;
	case 3: return x - third(9);
	case 4: return x >> 1;
	case 5: return x | negate(64);
	case 6: return x & 0xfff;
	default: return x;
	}
}

static int try_indirect(void)
{
	static int (*const volatile table[])(int) = { twice, square, negate, third };
	int x = 3, i;

	for (i = 0; i < 100; i++)
		x = choose((unsigned int)i % 8, table[(unsigned int)x % 4](x % 1000));
	return x == 1 << 30;
}

static int odd(unsigned int n);

static int even(unsigned int n)
{
	return n == 0 ? 1 : odd(n - 1);	/* a jump at -O2 */
}

static int odd(unsigned int n)
{
	return n == 0 ? 0 : even(n - 1);
}

static int try_tail(void)
{
	return !even(1000) || !odd(777);
}

static void tick(int sig, siginfo_t *info, void *ctx)
{
	(void)sig, (void)info, (void)ctx;
	hits++;
}

/* Signals at places that nobody chose, in the middle of hot blocks. */
static int try_timer(void)
{
	struct itimerval it = { { 0, 1000 }, { 0, 1000 } };
	volatile uint64_t x = 1;

	hits = 0;
	on_signal(SIGALRM, tick, SA_RESTART);
	setitimer(ITIMER_REAL, &it, NULL);
	while (hits < 20) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		x ^= x >> 33;
		if (x & 1024)
			x += (uint64_t)third((int)(x & 0xffff));
	}
	memset(&it, 0, sizeof(it));
	setitimer(ITIMER_REAL, &it, NULL);
	return 0;
}

struct feature {
	const char *name;
	int (*run)(void);
};

static int wanted(const char *name, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return 1;
	return argc == 1 && strcmp(name, "timer");
}

static int run_features(const struct feature *features, size_t n, int argc, char **argv)
{
	int bad = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		if (!wanted(features[i].name, argc, argv))
			continue;
		if (features[i].run()) {
			printf("%s: wrong\n", features[i].name);
			bad = 1;
		}
	}
	puts(bad ? "feature: wrong" : "feature: all right");
	return bad;
}

#endif
