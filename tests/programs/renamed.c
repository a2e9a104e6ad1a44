/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -pthread */
/*
 * Threads that give themselves a name soon after they began: one while another runs, one
 * while all others wait.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>

#define N_PAIRS 3

static __attribute__((noinline)) uint64_t work(uint64_t x, int n)
{
	for (int i = 0; i < n; i++)
		x = x & 1 ? 3 * x + 1 : x / 2;
	return x;
}

static void *rename_self(void *arg)
{
	uint64_t x = work((uintptr_t)arg + 27, 200);
	char name[16];

	snprintf(name, sizeof(name), "renamed %d", (int)(uintptr_t)arg);
	prctl(PR_SET_NAME, name);
	return (void *)(uintptr_t)work(x, 200);
}

int main(void)
{
	uint64_t sum = 0;

	for (uintptr_t i = 0; i < 2 * N_PAIRS; i++) {
		pthread_t thread;
		void *x;

		if (pthread_create(&thread, NULL, rename_self, (void *)i))
			return 1;
		if (i % 2 == 0)
			sum += work(i + 27, 5000);
		pthread_join(thread, &x);
		sum += (uintptr_t)x;
	}
	printf("%llu\n", (unsigned long long)sum);
	return 0;
}
