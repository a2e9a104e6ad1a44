/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -O2 -pthread */
/* host: x86_64 */
/*
 * Threads that reach the same new code at the same time, again and again: it is mapped,
 * run by all, changed, run by all, and unmapped.
 *
 *	fresh [ROUNDS]
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define N_THREADS 8
#define SIZE 4096

static pthread_barrier_t barrier;
static uint8_t *code;
static unsigned long sums[N_THREADS];
static int rounds = 200;

typedef unsigned long fn(unsigned long);

/* A loop with a condition, then a jump far on: return 3 * n + k. */
static void write_code(uint8_t k)
{
	static const uint8_t text[] = {
		0x31, 0xc0,			/* xor %eax, %eax */
		0x48, 0x83, 0xc0, 0x03,		/* add $3, %rax */
		0x48, 0xff, 0xcf,		/* dec %rdi */
		0x75, 0xf7,			/* jne -9 */
		0xe9, 0xf0, 0x01, 0x00, 0x00,	/* jmp 512 */
	};
	uint8_t end[] = { 0x48, 0x83, 0xc0, k, 0xc3 };	/* add $k, %rax; ret */

	memcpy(code, text, sizeof(text));
	memcpy(code + 512, end, sizeof(end));
}

static void all_run(unsigned long *sum)
{
	pthread_barrier_wait(&barrier);
	for (unsigned long n = 1; n < 60; n++)
		*sum += ((fn *)(void *)code)(n);
	pthread_barrier_wait(&barrier);
}

static void *work(void *arg)
{
	unsigned long *sum = arg;

	for (int i = 0; i < rounds; i++) {
		all_run(sum);
		all_run(sum);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[N_THREADS];
	unsigned long own = 0;

	if (argc > 1)
		rounds = (int)strtol(argv[1], NULL, 10);
	pthread_barrier_init(&barrier, NULL, N_THREADS + 1);
	for (int i = 0; i < N_THREADS; i++)
		pthread_create(&t[i], NULL, work, &sums[i]);
	for (int i = 0; i < rounds; i++) {
		code = mmap(NULL, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (code == MAP_FAILED)
			return 2;
		write_code((uint8_t)(i % 100));
		all_run(&own);
		write_code((uint8_t)((i + 50) % 100));
		all_run(&own);
		munmap(code, SIZE);
	}
	for (int i = 0; i < N_THREADS; i++) {
		pthread_join(t[i], NULL);
		if (sums[i] != own)
			return 1;
	}
	printf("%lu\n", own);
	return 0;
}
