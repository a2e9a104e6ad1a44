/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -O0 -fno-stack-protector -fcf-protection=none -Wno-infinite-recursion -lpthread */
/*
 * Ends by a signal, in the way named: call (of a null pointer), smash (of a return
 * address), abort, assert (in a thread), deep (the stack overflows), ill, divide, write (to
 * memory that may not be written to), handled (a fault whose handler aborts), good (not at
 * all). Each way is a function of its own, after some work whose values can be checked.
 */
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct record {
	uint64_t key, sum;
	void (*done)(struct record *);
};

static const uint64_t table[4] = { 3, 5, 7, 11 };
static struct record last;
static volatile int zero;

static uint64_t work(uint64_t key)
{
	uint64_t sum = key;

	for (unsigned i = 0; i < 4; i++)
		sum = sum * 31 + table[i];
	return sum;
}

static void by_call(uint64_t key)
{
	last.key = key;
	last.sum = work(key);
	last.done(&last);
}

/* Writes too far: over the saved frame pointer and the return address. */
static void by_smash(uint64_t key)
{
	volatile uint64_t *frame = __builtin_frame_address(0);

	last.sum = work(key);
	frame[1] = 0x41410000 + key;
	frame[0] = key;
}

static void by_abort(uint64_t key)
{
	if (work(key))
		abort();
}

static void *in_thread(void *arg)
{
	uint64_t key = (uint64_t)(uintptr_t)arg;

	assert(work(key) == 1);
	return NULL;
}

static void by_assert(uint64_t key)
{
	pthread_t t;

	if (!pthread_create(&t, NULL, in_thread, (void *)(uintptr_t)key))
		pthread_join(t, NULL);
}

static uint64_t by_deep(uint64_t key)
{
	volatile char room[4096];

	room[0] = (char)key;
	if (!key)	/* of loops of plain calls no packet tells */
		return 0;
	return by_deep(key + 1) + (uint64_t)room[0];
}

static void by_ill(uint64_t key)
{
	last.sum = work(key);
#ifdef __aarch64__
	__asm__ volatile("udf #0");
#else
	__asm__ volatile("ud2");
#endif
}

static void by_divide(uint64_t key)
{
	last.sum = (uint64_t)((int)key / zero);
}

static void by_write(uint64_t key)
{
	*(volatile uint64_t *)(uintptr_t)&table[1] = key;
}

static void on_fault(int sig)
{
	last.sum = (uint64_t)sig;
	abort();
}

static void by_handled(uint64_t key)
{
	signal(SIGSEGV, on_fault);
	by_write(key);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "good";
	uint64_t key = 0x1234;

	if (!strcmp(how, "call"))
		by_call(key);
	if (!strcmp(how, "smash"))
		by_smash(key);
	if (!strcmp(how, "abort"))
		by_abort(key);
	if (!strcmp(how, "assert"))
		by_assert(key);
	if (!strcmp(how, "deep"))
		return (int)by_deep(key);
	if (!strcmp(how, "ill"))
		by_ill(key);
	if (!strcmp(how, "divide"))
		by_divide(key);
	if (!strcmp(how, "write"))
		by_write(key);
	if (!strcmp(how, "handled"))
		by_handled(key);
	return 0;
}
