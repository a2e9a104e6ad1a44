/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static -pthread */
/*
 * System calls that can be counted: each line on standard input makes each
 * thread call getppid N times, with a serial number of its own as its (unused)
 * argument; then a line says how many calls there were so far. Ends with its
 * input. A tracepoint's samples of it are known to the last one.
 *
 *	counted N [THREADS [USEC]]	so long before each thread
 *	counted nr		the number of the call
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_THREADS 64

static pthread_barrier_t begin, end;
static unsigned long n_calls;
static unsigned long serial;

static void call(void)
{
	unsigned long i;

	for (i = 0; i < n_calls; i++)
		syscall(SYS_getppid, __atomic_fetch_add(&serial, 1,
							__ATOMIC_RELAXED));
}

static void *work(void *arg)
{
	for (;;) {
		pthread_barrier_wait(&begin);
		call();
		pthread_barrier_wait(&end);
	}
	return arg;
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 2 ? strtoul(argv[2], NULL, 0) : 1, i;
	char line[64];
	pthread_t t;

	if (argc > 1 && !strcmp(argv[1], "nr"))
		return printf("%d\n", (int)SYS_getppid) < 0;
	if (argc < 2 || n < 1 || n > MAX_THREADS)
		return 2;
	n_calls = strtoul(argv[1], NULL, 0);
	pthread_barrier_init(&begin, NULL, (unsigned)n);
	pthread_barrier_init(&end, NULL, (unsigned)n);
	for (i = 1; i < n; i++) {
		if (argc > 3)
			usleep((useconds_t)strtoul(argv[3], NULL, 0));
		if (pthread_create(&t, NULL, work, NULL))
			return 1;
	}
	while (fgets(line, sizeof(line), stdin)) {
		pthread_barrier_wait(&begin);
		call();
		pthread_barrier_wait(&end);
		printf("%lu\n", serial);
		fflush(stdout);
	}
	return 0;
}
