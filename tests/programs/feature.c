/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static -O2 -fno-inline */
/*
 * What is hard to trace, one function each. Run all (but the timer), or those
 * named:
 *
 *	feature [qsort recursion longjmp altstack segv sigsegjmp fpe ill trap rep
 *		repfault indirect tail loops callret timer]
 */
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
static uint8_t *page;
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

/* Deeper than any return stack of 64, several times. */
static int try_recursion(void)
{
	return sum_to(65) != 65 * 66 / 2 || sum_to(64) != 64 * 65 / 2 ||
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

/* qemu-user 7.2 enters handlers with a misaligned stack. */
__attribute__((force_align_arg_pointer))
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

static int try_segv(void)
{
	int bad;

	hits = 0;
	page = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	on_signal(SIGSEGV, fix_page, 0);
	*(volatile uint32_t *)(page + 16) = 5;
	bad = hits != 1 || page[16] != 5;
	munmap(page, 8192);
	signal(SIGSEGV, SIG_DFL);
	return bad;
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

/* The handlers below step over the faulting instruction, of known length. */
static void skip_2(int sig, siginfo_t *info, void *ctx)
{
	ucontext_t *uc = ctx;

	(void)sig, (void)info;
	hits++;
	uc->uc_mcontext.gregs[REG_RIP] += 2;
}

static int try_fpe(void)
{
	hits = 0;
	on_signal(SIGFPE, skip_2, 0);
	__asm__ volatile("xor %%edx, %%edx; mov $1, %%eax; xor %%ecx, %%ecx\n\t"
			 "inc %%eax; div %%ecx; inc %%eax"
			 ::: "eax", "ecx", "edx", "cc");
	return hits != 1;
}

static int try_ill(void)
{
	hits = 0;
	on_signal(SIGILL, skip_2, 0);
	__asm__ volatile("nop; ud2; nop" ::: "memory");
	return hits != 1;
}

static int try_trap(void)
{
	hits = 0;
	on_signal(SIGTRAP, count_hit, 0);
	__asm__ volatile("nop; int3; nop" ::: "memory");
	return hits != 1;
}

static int try_rep(void)
{
	static uint8_t a[3000], b[3000];
	void *di = a, *si = a;
	size_t n = sizeof(a);

	__asm__ volatile("rep stosb" : "+D"(di), "+c"(n) : "a"(0x5a) : "memory");
	di = b, n = sizeof(b);
	__asm__ volatile("rep movsb" : "+D"(di), "+S"(si), "+c"(n) :: "memory");
	n = 0;
	__asm__ volatile("rep movsq" : "+D"(di), "+S"(si), "+c"(n) :: "memory");
	b[1234] = 1;
	di = a, si = b, n = sizeof(a);
	__asm__ volatile("repe cmpsb" : "+D"(di), "+S"(si), "+c"(n) :: "memory", "cc");
	if (n != sizeof(a) - 1235)
		return 1;
	di = b, n = sizeof(b);
	__asm__ volatile("repne scasb" : "+D"(di), "+c"(n) : "a"(1) : "memory", "cc");
	return n != sizeof(b) - 1235;
}

/* A fault in the middle of a REP instruction, which then goes on. */
static int try_repfault(void)
{
	uint8_t *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *di = map;
	size_t n = 8192;
	int bad;

	hits = 0;
	page = map + 4096;
	mprotect(page, 4096, PROT_NONE);
	on_signal(SIGSEGV, fix_page, 0);
	__asm__ volatile("rep stosb" : "+D"(di), "+c"(n) : "a"(0x11) : "memory");
	bad = hits != 1 || map[8191] != 0x11;
	munmap(map, 8192);
	signal(SIGSEGV, SIG_DFL);
	return bad;
}

static int twice(int x) { return x * 2; }
static int square(int x) { return x * x; }
static int negate(int x) { return -x; }
static int third(int x) { return x / 3; }

static int choose(unsigned int op, int x)
{
	switch (op) {
	case 0: return x + 11;
	case 1: return x ^ 3;
	case 2: return x * 5;
	case 3: return x - 9;
	case 4: return x >> 1;
	case 5: return x | 64;
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

static int try_loops(void)
{
	uint64_t n = 0, c = 10;

	__asm__ volatile("1: inc %0; loop 1b" : "+r"(n), "+c"(c) :: "cc");
	c = 0;
	__asm__ volatile("jrcxz 2f; inc %0; 2:" : "+r"(n), "+c"(c) :: "cc");
	c = 5;
	__asm__ volatile("jrcxz 2f; inc %0; 2:" : "+r"(n), "+c"(c) :: "cc");
	c = 20;
	__asm__ volatile("1: inc %0; cmp $15, %0; loopne 1b" : "+r"(n), "+c"(c) :: "cc");
	c = 7;
	__asm__ volatile("1: inc %0; cmp %0, %0; loope 1b" : "+r"(n), "+c"(c) :: "cc");
	return n != 10 + 1 + 4 + 7;
}

/* Calls without returns and returns without calls. */
static int try_callret(void)
{
	uint64_t n = 0, t;

	__asm__ volatile("sub $128, %%rsp\n\t"	/* the red zone stays whole */
			 "call 1f\n1: pop %1\n\t"
			 "call 2f\n2: add $8, %%rsp\n\t"
			 "lea 3f(%%rip), %1; push %1; ret\n"
			 "3: inc %0\n\t"
			 "lea 4f(%%rip), %1; push %1; push %1; ret $8\n"
			 "4: inc %0\n\t"
			 "lea 5f(%%rip), %1; push %1; jmp *(%%rsp)\n"
			 "5: pop %1; inc %0; add $128, %%rsp"
			 : "+r"(n), "=&r"(t) :: "memory", "cc");
	return n != 3;
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

static const struct feature {
	const char *name;
	int (*run)(void);
} features[] = {
	{ "qsort", try_qsort },	      { "recursion", try_recursion },
	{ "longjmp", try_longjmp },   { "altstack", try_altstack },
	{ "segv", try_segv },	      { "sigsegjmp", try_sigsegjmp },
	{ "fpe", try_fpe },	      { "ill", try_ill },
	{ "trap", try_trap },	      { "rep", try_rep },
	{ "repfault", try_repfault }, { "indirect", try_indirect },
	{ "tail", try_tail },	      { "loops", try_loops },
	{ "callret", try_callret },   { "timer", try_timer },
};

static int wanted(const char *name, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return 1;
	return argc == 1 && strcmp(name, "timer");
}

int main(int argc, char **argv)
{
	int bad = 0;
	size_t i;

	for (i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
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
