/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the programs of tools/randprog.c are made of besides plain control flow:
 * jumps out of calls, signals, faults, generated code, threads, processes.
 *
 * Each call and each round of a loop costs one unit of fuel, of which a thread has
 * only so much: every program ends. What needs more than arithmetic is not done
 * inside of signal handlers.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

typedef uint64_t word;
typedef word (*function)(word x, int d);

/* Of the program: */
extern const function table[];
extern const unsigned int n_table;

static __thread long fuel;
static __thread int in_handler;
static __thread sigjmp_buf *innermost;
static __thread uint8_t *code, *page;
static volatile word sum;
static int depth_of_processes, generation;
static const char *still;	/* code is never rewritten */

#ifdef __x86_64__
/* qemu-user 7.2 enters handlers with a misaligned stack. */
#define HANDLER __attribute__((force_align_arg_pointer))
#else
#define HANDLER
#endif
#define ODD __attribute__((noinline, unused))

static inline word mix(word x)
{
	x ^= x << 13;
	x ^= x >> 7;
	return x ^ x << 17;
}

static inline int spend(long n)
{
	fuel -= n;
	return fuel > 0;
}

static inline word call_any(word x, int d)
{
	return table[x % n_table](mix(x + 1), d - 1);
}

/* ---- jumps out of calls ---- */

ODD static word rt_catch(word x, int d)
{
	sigjmp_buf here, *outer = innermost;
	volatile word y = x;

	if (!spend(2))
		return x;
	innermost = &here;
	if (sigsetjmp(here, 1) == 0)
		y = call_any(x, d);
	else
		y = x * 3;
	innermost = outer;
	return y;
}

ODD static word rt_leap(word x, int d)
{
	if (innermost && !in_handler && (x ^ (word)d) % 3 == 0)
		siglongjmp(*innermost, 1);
	return x + 1;
}

ODD static word rt_deep(word x, unsigned int n, int d)
{
	volatile word rest;

	if (!n || !spend(1))
		return call_any(x, d);
	rest = rt_deep(mix(x), n - 1, d);	/* no tail call */
	return rest ^ n;
}

/* ---- signals ---- */

HANDLER static void on_user(int sig, siginfo_t *info, void *ctx)
{
	word x = sum;

	(void)info, (void)ctx;
	in_handler++;
	for (int i = 0; i < (int)(x % 5); i++)
		x = x & 4 ? mix(x) : x + (word)sig;
	if (x & 1)
		x = call_any(x, 2);
	sum = x;
	in_handler--;
}

/* The page is made usable; any other place is left for good. */
HANDLER static void on_fault(int sig, siginfo_t *info, void *ctx)
{
	uintptr_t at = (uintptr_t)info->si_addr - (uintptr_t)page;

	(void)sig, (void)ctx;
	if (at >= 4096)
		siglongjmp(*innermost, 2);
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

HANDLER static void on_illegal(int sig, siginfo_t *info, void *ctx)
{
	ucontext_t *uc = ctx;

	(void)sig, (void)info;
#ifdef __x86_64__
	uc->uc_mcontext.gregs[REG_RIP] += 2;
#else
	uc->uc_mcontext.pc += 4;
#endif
}

/* Not for ever: where each step is slow, a tick may outlast its period. */
HANDLER static void on_tick(int sig, siginfo_t *info, void *ctx)
{
	static const struct itimerval off;
	static volatile int n;

	(void)sig, (void)info, (void)ctx;
	sum++;
	if (++n == 30)
		setitimer(ITIMER_REAL, &off, NULL);
}

static void rt_handle(int sig, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction sa = { 0 };

	sa.sa_sigaction = handler;
	sa.sa_flags = SA_SIGINFO | flags;
	sigaction(sig, &sa, NULL);
}

ODD static word rt_raise(word x)
{
	if (in_handler || !spend(20))
		return x;
	sum ^= x;
	raise(SIGUSR1);
	return x + sum;
}

ODD static word rt_fault(word x)
{
	if (in_handler || !spend(20))
		return x;
	mprotect(page, 4096, PROT_NONE);
	((volatile uint8_t *)page)[x % 4096] = (uint8_t)x;
	return x + ((volatile uint8_t *)page)[(x >> 12) % 4096];
}

ODD static word rt_fault_leap(word x)
{
	sigjmp_buf here, *outer = innermost;
	volatile word y = x;

	if (in_handler || !spend(20))
		return x;
	innermost = &here;
	if (sigsetjmp(here, 1) == 0)
		*(volatile uint8_t *)(8 + x % 8) = 1;
	else
		y = mix(x);
	innermost = outer;
	return y;
}

ODD static word rt_illegal(word x)
{
	if (in_handler || !spend(20))
		return x;
#ifdef __x86_64__
	__asm__ volatile("nop; ud2; nop" ::: "memory");
#else
	__asm__ volatile("nop; udf #0; nop" ::: "memory");
#endif
	return x + 3;
}

/* ---- instructions that compilers do not choose ---- */

#ifdef __x86_64__
ODD static word rt_string(word x)
{
	static __thread uint8_t a[256], b[256];
	void *di = a, *si = b;
	size_t n = x % 256;

	__asm__ volatile("rep stosb" : "+D"(di), "+c"(n) : "a"((uint8_t)x) : "memory");
	di = b, si = a, n = x >> 8 & 127;
	__asm__ volatile("rep movsw" : "+D"(di), "+S"(si), "+c"(n) :: "memory");
	di = a, si = b, n = 256;
	__asm__ volatile("repe cmpsb" : "+D"(di), "+S"(si), "+c"(n) :: "memory", "cc");
	return x + n;
}

ODD static word rt_loop(word x)
{
	word n = x, c = x % 7;

	__asm__ volatile("jrcxz 2f\n1: inc %0\n\tloop 1b\n2:" : "+r"(n), "+c"(c) :: "cc");
	c = x % 11 + 1;
	__asm__ volatile("1: add $3, %0\n\ttest $4, %0\n\tloopne 1b" : "+r"(n), "+c"(c) :: "cc");
	return n;
}

/* Returns without calls, calls without returns. */
ODD static word rt_odd(word x)
{
	word t, n = x;

	__asm__ volatile("sub $128, %%rsp\n\t"	/* the red zone stays whole */
			 "call 1f\n1: pop %1\n\t"
			 "test $1, %0\n\tjz 3f\n\t"
			 "lea 2f(%%rip), %1\n\tpush %1\n\tret\n"
			 "2: inc %0\n"
			 "3: lea 4f(%%rip), %1\n\tpush %1\n\tjmp *(%%rsp)\n"
			 "4: pop %1\n\tadd $128, %%rsp"
			 : "+r"(n), "=&r"(t) :: "memory", "cc");
	return n;
}
#else
ODD static word rt_string(word x)
{
	static __thread uint8_t a[256], b[256];

	memset(a, (int)x, x % 256);
	memcpy(b, a, x >> 8 & 255);
	return x + (word)memcmp(a, b, 256);
}

ODD static word rt_loop(word x)
{
	word n = x % 7;

	__asm__ volatile("1: cbz %0, 2f\n\tsub %0, %0, #1\n\tadd %1, %1, #3\n\t"
			 "tbnz %1, #5, 1b\n\tb 1b\n2:" : "+r"(n), "+r"(x));
	return x;
}

ODD static word rt_odd(word x)
{
	word t, n = x;

	__asm__ volatile("tbz %0, #0, 2f\n\tadr %1, 1f\n\tret %1\n"
			 "1: add %0, %0, #1\n"
			 "2: adr %1, 3f\n\tbr %1\n3:\n\t"
			 "adr x30, 4f\n\tret\n4: nop"
			 : "+r"(n), "=&r"(t) :: "x30", "memory");
	return n;
}
#endif

/* ---- generated code, at the same place each time ---- */

#ifdef __x86_64__
static size_t emit(uint8_t *p, word x)
{
	/* lea 1(%rdi),%rdi; test $imm,%dil; jz +7; add $imm,%rdi; a loop; a call */
	static const uint8_t part[4][16] = {
		{ 4, 0x48, 0x8d, 0x7f, 0x05 },
		{ 13, 0x40, 0xf6, 0xc7, 0x06, 0x74, 0x07, 0x48, 0x81, 0xc7, 0x11, 0, 0, 0 },
		{ 9, 0xb9, 0x03, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc },
		{ 8, 0xe8, 0x02, 0, 0, 0, 0xeb, 0x01, 0xc3 },
	};
	static const uint8_t last[] = { 0x48, 0x89, 0xf8, 0xc3 };
	size_t at = 0;

	for (unsigned int i = 0; i < 3 + x % 20; i++) {
		const uint8_t *q = part[(x >> i % 40) % 4];

		memcpy(p + at, q + 1, q[0]);
		if (q == part[1])
			p[at + 3] = (uint8_t)(1 << i % 8);
		at += q[0];
	}
	memcpy(p + at, last, sizeof(last));
	return at + sizeof(last);
}
#else
static size_t emit(uint8_t *p, word x)
{
	/* add x0,x0,#5; tbz x0,#n,+8; a loop */
	static const uint32_t part[3][4] = {
		{ 1, 0x91001400 },
		{ 2, 0x36000040, 0x91004400 },
		{ 3, 0x52800061, 0x71000421, 0x54ffffe1 },
	};
	static const uint32_t last = 0xd65f03c0;
	size_t at = 0;

	for (unsigned int i = 0; i < 3 + x % 20; i++) {
		const uint32_t *q = part[(x >> i % 40) % 3];
		uint32_t words[3];

		memcpy(words, q + 1, sizeof(words));
		if (q == part[1])
			words[0] |= (i % 8) << 19;
		memcpy(p + at, words, 4 * q[0]);
		at += 4 * q[0];
	}
	memcpy(p + at, &last, 4);
	__builtin___clear_cache((char *)p, (char *)p + at + 4);
	return at + 4;
}
#endif

ODD static word rt_generated(word x)
{
	word (*fn)(word);
	uint8_t *p = code + 16 * (x % 16);

	if (in_handler || still || !spend(30))
		return x;
	emit(p, x >> 5);
	memcpy(&fn, &p, sizeof(fn));
	x = fn(x);
	return x % 4 ? x : fn(x);
}

/* ---- threads and processes ---- */

static void begin_thread(long n)
{
	stack_t ss = { .ss_size = 65536 };

	fuel = n;
	ss.ss_sp = mmap(NULL, ss.ss_size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (generation & 1)
		sigaltstack(&ss, NULL);
	code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (code == MAP_FAILED || page == MAP_FAILED || ss.ss_sp == MAP_FAILED)
		_exit(8);
}

static void *run_thread(void *arg)
{
	word x = (word)(uintptr_t)arg;

	begin_thread(300);
	while (fuel > 0) {
		spend(1);
		x = call_any(x, 8);
	}
	return (void *)(uintptr_t)x;
}

ODD static word rt_threads(word x)
{
	pthread_t t[3];
	unsigned int n = 0;
	void *r;

	if (in_handler || depth_of_processes > 1 || !spend(500))
		return x;
	while (n <= x % 3 && !pthread_create(&t[n], NULL, run_thread,
					     (void *)(uintptr_t)mix(x + n)))
		n++;
	x = call_any(x, 4);
	while (n--)
		if (!pthread_join(t[n], &r))
			x ^= (word)(uintptr_t)r;
	return x;
}

ODD static word rt_fork(word x)
{
	int status = 0;
	pid_t pid;

	if (in_handler || depth_of_processes > 1 || !spend(800))
		return x;
	pid = fork();
	if (pid == 0) {
		depth_of_processes += 2;
		fuel = 300;
		innermost = NULL;
		_exit((int)(call_any(x, 6) & 7));
	}
	if (pid > 0)
		waitpid(pid, &status, 0);
	return x + (word)status;
}

static void rt_exec(const char *path, word x)
{
	static const struct itimerval off;	/* would outlive the exec */
	char seed[32], next[16];

	if (generation >= 2)
		return;
	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)x);
	snprintf(next, sizeof(next), "%d", generation + 1);
	setitimer(ITIMER_REAL, &off, NULL);
	execl(path, path, seed, next, still, (char *)NULL);
}

static void rt_timer(void)
{
	struct itimerval it = { { 0, 700 }, { 0, 700 } };

	rt_handle(SIGALRM, on_tick, SA_RESTART);
	setitimer(ITIMER_REAL, &it, NULL);
}

static void rt_begin(int argc, char **argv, word *x, long n)
{
	if (argc > 1)
		*x ^= strtoull(argv[1], NULL, 10);
	if (argc > 2)
		generation = (int)strtol(argv[2], NULL, 10);
	if (argc > 3)
		still = argv[3];
	rt_handle(SIGUSR1, on_user, generation & 1 ? SA_ONSTACK : 0);
	rt_handle(SIGILL, on_illegal, 0);
	rt_handle(SIGSEGV, on_fault, generation & 1 ? SA_ONSTACK : 0);
	begin_thread(n);
}
