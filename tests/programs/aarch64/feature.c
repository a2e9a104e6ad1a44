/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static -O2 -fno-inline */
/*
 * What is hard to trace in aarch64 programs, one function each. Run all (but
 * the timer), or those named:
 *
 *	feature [qsort recursion longjmp altstack segv sigsegjmp ill trap pcalign
 *		badjump indirect tail loops callret pauth sync timer]
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

/* Deeper than any return stack, around its edges too. */
static int try_recursion(void)
{
	return sum_to(3) != 6 || sum_to(4) != 10 || sum_to(17) != 17 * 9 ||
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

/* In mid-block, a store, and a load of two registers across a page's end. */
static int try_segv(void)
{
	uint8_t *map = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	uint64_t a, b;
	int bad;

	hits = 0;
	on_signal(SIGSEGV, fix_page, 0);
	page = map;
	*(volatile uint32_t *)(map + 16) = 5;
	page = map + 4096;
	__asm__ volatile("mov %0, #1; ldp %0, %1, [%2]; add %0, %0, #1"
			 : "=&r"(a), "=&r"(b) : "r"(map + 4088) : "memory");
	bad = hits != 2 || map[16] != 5 || a != 1 || b;
	munmap(map, 8192);
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

/* Steps over the instruction that raised the signal. */
static void step_over(int sig, siginfo_t *info, void *ctx)
{
	ucontext_t *uc = ctx;

	(void)sig, (void)info;
	hits++;
	uc->uc_mcontext.pc += 4;
}

static int try_ill(void)
{
	hits = 0;
	on_signal(SIGILL, step_over, 0);
	__asm__ volatile("nop; udf #7; nop; hvc #0; smc #0; .inst 0xd69f03e0; nop");
	return hits != 4;
}

static int try_trap(void)
{
	hits = 0;
	on_signal(SIGTRAP, step_over, 0);
	__asm__ volatile("nop; brk #1; nop; brk #2; brk #3; nop");
	return hits != 3;
}

/* Where the call came from. */
static void go_back(int sig, siginfo_t *info, void *ctx)
{
	ucontext_t *uc = ctx;

	(void)sig, (void)info;
	hits++;
	uc->uc_mcontext.pc = uc->uc_mcontext.regs[30];
}

static int try_pcalign(void)
{
	uintptr_t odd = (uintptr_t)try_qsort + 2;

	hits = 0;
	on_signal(SIGBUS, go_back, 0);
	__asm__ volatile("blr %0; nop" : : "r"(odd) : "x30", "memory");
	return hits != 1;
}

/* To where nothing is, and to what may not be executed. */
static int try_badjump(void)
{
	static uint32_t data[4];

	hits = 0;
	on_signal(SIGSEGV, go_back, 0);
	__asm__ volatile("blr %0; blr %1; nop" : : "r"(nowhere - 8 + 4096), "r"(data)
			 : "x30", "memory");
	signal(SIGSEGV, SIG_DFL);
	return hits != 2;
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

/* Each kind of conditional branch, taken and not; one to the next instruction. */
static int try_loops(void)
{
	uint64_t n = 0, c = 10;

	__asm__ volatile("1: add %0, %0, #1; subs %1, %1, #1; b.ne 1b\n\t"
			 "cbz %1, 2f; udf #0\n2: cbnz %1, 3f; add %0, %0, #1\n"
			 "3: tbz %0, #0, 4f; tbnz %0, #0, 4f; udf #0\n"
			 "4: tbnz %0, #63, 5f; b.al 5f; udf #0\n"
			 "5: b.eq 6f\n6: add %0, %0, #1; b 7f\n7: cbz xzr, 8f\n8:"
			 : "+r"(n), "+r"(c) : : "cc");
	return n != 12;
}

/* Calls without returns, returns without calls, a return through another one. */
static int try_callret(void)
{
	uint64_t n = 0;

	__asm__ volatile("bl 1f\n1: add %0, %0, #1; bl 2f; udf #0\n"
			 "2: adr x30, 3f; ret; udf #0\n"
			 "3: add %0, %0, #1; adr x9, 4f; ret x9; udf #0\n"
			 "4: adr x9, 5f; br x9; udf #0\n"
			 "5: add %0, %0, #1; adr x30, 6f; blr x30; udf #0\n"
			 "6: add %0, %0, #1"
			 : "+r"(n) : : "x9", "x30", "cc", "memory");
	return n != 4;
}

/* Signed return addresses and pointers, where the processor has them. */
static int try_pauth(void)
{
	uint64_t n = 0;

	__asm__ volatile(".arch armv8.3-a\n\t"
			 "adr x30, 1f; mov x9, sp; paciasp; retaa; udf #0\n"
			 "1: add %0, %0, #1; adr x9, 2f; paciza x9; braaz x9; udf #0\n"
			 "2: add %0, %0, #1; adr x9, 3f; pacib x9, sp; blrab x9, sp\n\t"
			 "udf #0\n3: add %0, %0, #1"
			 : "+r"(n) : : "x9", "x30", "memory");
	return n != 3;
}

/* What ends a block without being a branch. */
static int try_sync(void)
{
	uint64_t n = 0;

	__asm__ volatile("isb; add %0, %0, #1; dsb sy; dmb ish; isb\n\t"
			 "yield; add %0, %0, #1; sev; wfe; isb; nop; yield; isb"
			 : "+r"(n) : : "memory");
	return n != 2;
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
	{ "ill", try_ill },	      { "trap", try_trap },
	{ "pcalign", try_pcalign },   { "badjump", try_badjump },
	{ "indirect", try_indirect }, { "tail", try_tail },
	{ "loops", try_loops },	      { "callret", try_callret },
	{ "pauth", try_pauth },	      { "sync", try_sync },
	{ "timer", try_timer },
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
