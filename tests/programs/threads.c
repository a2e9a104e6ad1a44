/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static -pthread */
/*
 * Threads that contend: a mutex, atomics, a barrier, a thread that starts a
 * thread, detached and joined ones. Each does work of its own length, so a
 * mix-up of threads shows. The sum is known whatever the schedule is.
 *
 *	threads [N_THREADS [ROUNDS]]
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_THREADS 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static uint64_t guarded;
static atomic_uint_fast64_t counter;
static unsigned int rounds = 50;

static uint64_t collatz(uint64_t n)
{
	uint64_t steps = 0;

	while (n != 1) {
		n = n & 1 ? 3 * n + 1 : n / 2;
		steps++;
	}
	return steps;
}

static void *grandchild(void *arg)
{
	atomic_fetch_add(&counter, collatz((uintptr_t)arg + 27));
	return NULL;
}

static void *worker(void *arg)
{
	uintptr_t me = (uintptr_t)arg;
	pthread_t child;
	unsigned int i;

	pthread_barrier_wait(&barrier);
	for (i = 0; i < rounds; i++) {
		uint64_t steps = collatz(me * 7 + i + 1);

		atomic_fetch_add(&counter, steps);
		pthread_mutex_lock(&lock);
		guarded += steps;
		pthread_mutex_unlock(&lock);
	}
	if (me == 0 && !pthread_create(&child, NULL, grandchild, arg))
		pthread_join(child, NULL);
	return arg;
}

int main(int argc, char **argv)
{
	unsigned int n = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 0) : 4;
	pthread_t threads[MAX_THREADS];
	unsigned int i;

	if (argc > 2)
		rounds = (unsigned int)strtoul(argv[2], NULL, 0);
	if (n < 1 || n > MAX_THREADS)
		return 2;
	pthread_barrier_init(&barrier, NULL, n);
	for (i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, worker, (void *)(uintptr_t)i))
			return 1;
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	printf("%s\n", counter == guarded + collatz(27) ? "sums agree" : "sums differ");
	return counter != guarded + collatz(27);
}
