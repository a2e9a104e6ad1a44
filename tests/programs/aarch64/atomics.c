/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static -pthread -O2 -mno-outline-atomics */
/*
 * Threads that contend through atomic instructions: exclusive pairs and, built
 * as atomics_lse, single ones; of 4, 8 and 16 bytes. The sums are known. And a
 * store by hand into what an exclusive load watches.
 *
 *	atomics [N_THREADS [ROUNDS]]
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_THREADS 64

static pthread_barrier_t barrier;
static uint32_t words;
static uint64_t longs, flag;
static _Alignas(16) struct { uint64_t lo, hi; } pair;
static unsigned long rounds = 500;

/* Both halves or none, by an exclusive pair, or by CASP. */
static void add_pair(void)
{
#ifdef __ARM_FEATURE_ATOMICS
	register uint64_t a __asm__("x2"), b __asm__("x3");
	register uint64_t c __asm__("x4"), d __asm__("x5");
	uint64_t lo, hi;

	do {
		lo = a = __atomic_load_n(&pair.lo, __ATOMIC_RELAXED);
		hi = b = __atomic_load_n(&pair.hi, __ATOMIC_RELAXED);
		c = a + 1;
		d = b + 2;
		__asm__ volatile("casp %0, %1, %2, %3, [%4]"
				 : "+r"(a), "+r"(b) : "r"(c), "r"(d), "r"(&pair)
				 : "memory");
	} while (a != lo || b != hi);
#else
	uint64_t a, b;
	uint32_t failed;

	__asm__ volatile("1: ldaxp %0, %1, [%3]; add %0, %0, #1\n\t"
			 "add %1, %1, #2; stlxp %w2, %0, %1, [%3]\n\t"
			 "cbnz %w2, 1b"
			 : "=&r"(a), "=&r"(b), "=&r"(failed) : "r"(&pair)
			 : "memory");
#endif
}

/* An exclusive store that must fail, and then one that must not. */
static int lose_monitor(void)
{
	uint64_t mine = 1, v;
	uint32_t first, second;

	__asm__ volatile("ldxr %0, [%3]; clrex; stxr %w1, %0, [%3]\n\t"
			 "ldxr %0, [%3]; stxr %w2, %0, [%3]"
			 : "=&r"(v), "=&r"(first), "=&r"(second) : "r"(&mine)
			 : "memory");
	return first != 1 || second > 1;
}

static void *worker(void *arg)
{
	uint64_t expected;

	pthread_barrier_wait(&barrier);
	for (unsigned long i = 0; i < rounds; i++) {
		__atomic_fetch_add(&words, 1, __ATOMIC_ACQ_REL);
		__atomic_fetch_add(&longs, 3, __ATOMIC_RELAXED);
		__atomic_fetch_xor(&flag, 1, __ATOMIC_SEQ_CST);
		expected = __atomic_load_n(&longs, __ATOMIC_ACQUIRE);
		while (!__atomic_compare_exchange_n(&longs, &expected,
						    expected + 1, 0,
						    __ATOMIC_ACQ_REL,
						    __ATOMIC_ACQUIRE))
			__asm__ volatile("yield");
		add_pair();
	}
	return lose_monitor() ? worker : arg;
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 0) : 4, i;
	pthread_t threads[MAX_THREADS];
	void *ret;
	int bad = 0;

	if (argc > 2)
		rounds = strtoul(argv[2], NULL, 0);
	if (n < 1 || n > MAX_THREADS)
		return 2;
	pthread_barrier_init(&barrier, NULL, (unsigned int)n);
	for (i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, worker, NULL))
			return 1;
	for (i = 0; i < n; i++) {
		pthread_join(threads[i], &ret);
		bad |= ret != NULL;
	}
	bad |= words != n * rounds || longs != 4 * n * rounds ||
	       flag != (n * rounds & 1) || pair.lo != n * rounds ||
	       pair.hi != 2 * n * rounds;
	printf("atomics: %s\n", bad ? "wrong" : "all right");
	return bad;
}
