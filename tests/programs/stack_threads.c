/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -finstrument-functions -fno-omit-frame-pointer */
/* build: -fno-optimize-sibling-calls -fno-inline -pthread */
/* build: -Wno-infinite-recursion */
/*
 * Threads with stacks of their own, which recurse, wait for each other, and get
 * signals; pthread_once and pthread_exit out of a deep frame.
 */
#include <signal.h>

#include "stack_truth.h"

#define N_THREADS 4

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static volatile int sink, ready, handled;

static void leaf(int n)
{
	__atomic_add_fetch(&sink, n, __ATOMIC_RELAXED);
}

static int fib(int n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static void only_once(void)
{
	leaf(1);
}

static void on_signal(int sig)
{
	leaf(sig);
	handled = 1;
}

static void deep_exit(int n)
{
	if (n == 0)
		pthread_exit(NULL);
	deep_exit(n - 1);
	leaf(n);
}

static void *worker(void *arg)
{
	int n = *(int *)arg;

	pthread_once(&once, only_once);
	for (int i = 0; i < 3; i++) {
		pthread_mutex_lock(&lock);
		leaf(fib(n + i));
		pthread_mutex_unlock(&lock);
	}
	if (n & 1)
		deep_exit(n);
	return NULL;
}

/* Loops until its signal came. */
static void *target(void *arg)
{
	(void)arg;
	leaf(5);
	ready = 1;
	while (!handled)
		;
	leaf(6);
	return NULL;
}

int main(void)
{
	static int args[N_THREADS];
	struct sigaction sa = { .sa_handler = on_signal };
	pthread_t threads[N_THREADS], one;

	sigaction(SIGUSR1, &sa, NULL);
	for (int i = 0; i < N_THREADS; i++) {
		args[i] = 3 + i;
		pthread_create(&threads[i], NULL, worker, &args[i]);
	}
	leaf(fib(6));
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_create(&one, NULL, target, NULL);
	while (!ready)
		sched_yield();
	pthread_kill(one, SIGUSR1);
	pthread_join(one, NULL);
	puts("threads: all right");
	return 0;
}
