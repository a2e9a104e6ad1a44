/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static -O2 -fno-inline */
/* host: x86_64 */
/*
 * What is hard to trace, one function each. Run all (but the timer), or those
 * named:
 *
 *	feature [qsort recursion longjmp altstack segv sigsegjmp fpe ill trap rep
 *		repfault indirect tail loops callret timer]
 */
#include "feature.h"

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

static const struct feature features[] = {
	{ "qsort", try_qsort },	      { "recursion", try_recursion },
	{ "longjmp", try_longjmp },   { "altstack", try_altstack },
	{ "segv", try_segv },	      { "sigsegjmp", try_sigsegjmp },
	{ "fpe", try_fpe },	      { "ill", try_ill },
	{ "trap", try_trap },	      { "rep", try_rep },
	{ "repfault", try_repfault }, { "indirect", try_indirect },
	{ "tail", try_tail },	      { "loops", try_loops },
	{ "callret", try_callret },   { "timer", try_timer },
};

int main(int argc, char **argv)
{
	return run_features(features, sizeof(features) / sizeof(features[0]), argc,
			    argv);
}
