/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static -O2 -fno-inline */
/*
 * What is hard to trace in aarch64 programs, one function each. Run all (but
 * the timer), or those named:
 *
 *	feature [qsort recursion longjmp altstack segv sigsegjmp ill trap pcalign
 *		badjump indirect tail loops callret pauth sync timer]
 */
#include "../feature.h"

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

static const struct feature features[] = {
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

int main(int argc, char **argv)
{
	return run_features(features, sizeof(features) / sizeof(features[0]), argc,
			    argv);
}
