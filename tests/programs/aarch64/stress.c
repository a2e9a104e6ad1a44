/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static -pthread */
/*
 * Threads that compute, fault, write code and run it, and sleep, all the time
 * under signals, until the program ends in the way named: join (the threads are
 * asked to), exit, abort or kill (they are not), exec (itself, to do nothing).
 *
 *	stress [HOW [SIGNALS]]
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define N_THREADS 6

static atomic_ulong counter, hits;
static volatile int stop;
static __thread sigjmp_buf back;

static void count_hit(int sig)
{
	(void)sig;
	hits++;
}

static void leap(int sig)
{
	siglongjmp(back, sig);
}

static void *compute(void *arg)
{
	uint64_t x = 1;

	while (!stop) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		if (x >> 63)
			counter++;
		if ((x >> 40 & 7) == 3)
			atomic_fetch_xor(&counter, x);
	}
	return arg;
}

static void *fault(void *arg)
{
	volatile uint32_t *volatile nowhere = (volatile uint32_t *)16;

	while (!stop)
		if (!sigsetjmp(back, 1))
			*nowhere = 1;
	return arg;
}

/* mov x1,#0; 1: add x1,x1,#imm; subs x0,x0,#1; b.ne 1b; mov x0,x1; ret */
static void emit(uint8_t *p, uint32_t step, unsigned int n_nops)
{
	uint32_t loop[] = { 0xd2800001, 0x91000021, 0xf1000400, 0x54ffffc1,
			    0xaa0103e0, 0xd65f03c0 };
	static const uint32_t nop = 0xd503201f;

	loop[1] |= step << 10;
	for (unsigned int i = 0; i < n_nops; i++, p += 4)
		memcpy(p, &nop, 4);
	memcpy(p, loop, sizeof(loop));
	__builtin___clear_cache((char *)p - 4 * n_nops,
				(char *)p + sizeof(loop));
}

static void *write_code(void *arg)
{
	uint64_t (*fn)(uint64_t);

	for (unsigned int k = 0; !stop; k++) {
		uint8_t *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			abort();
		p += 4080;	/* across two pages */
		memcpy(&fn, &p, sizeof(fn));
		for (unsigned int i = 1; i < 5; i++) {
			emit(p, i, (k + i) % 4);
			if (fn(5) != 5 * i)
				abort();
		}
		munmap(p - 4080, 8192);
	}
	return arg;
}

static void *doze(void *arg)
{
	while (!stop)
		usleep(100);
	return arg;
}

static int end(const char *how, pthread_t *threads)
{
	if (!strcmp(how, "exit"))
		exit(0);
	if (!strcmp(how, "abort"))
		abort();
	if (!strcmp(how, "kill"))
		raise(SIGKILL);
	if (!strcmp(how, "exec"))
		execl("/proc/self/exe", "stress", "none", "0", (char *)NULL);
	stop = 1;
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	return !hits;
}

int main(int argc, char **argv)
{
	static void *(*const work[N_THREADS])(void *) = {
		compute, fault, write_code, doze, write_code, compute };
	struct sigaction sa = { .sa_handler = count_hit, .sa_flags = SA_RESTART };
	int n = argc > 2 ? (int)strtol(argv[2], NULL, 0) : 100;
	pthread_t threads[N_THREADS];

	if (!n)
		return 0;
	sigaction(SIGUSR1, &sa, NULL);
	sa.sa_handler = leap;
	sigaction(SIGSEGV, &sa, NULL);
	for (int i = 0; i < N_THREADS; i++)
		if (pthread_create(&threads[i], NULL, work[i], NULL))
			return 2;
	for (int i = 0; i < n; i++) {
		pthread_kill(threads[i % N_THREADS], SIGUSR1);
		usleep(500);
	}
	return end(argc > 1 ? argv[1] : "join", threads);
}
