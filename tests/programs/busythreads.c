/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -lpthread */
/*
 * Sixteen threads that share a queue with a lock and two conditions, allocate and free,
 * and count. Says "ready", runs until its input ends, then "right" if nothing that was
 * put in is missing or there twice.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define N_THREADS 16	/* half of them put, half take */
#define ROOM 64
#define BATCH 200

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t may_put = PTHREAD_COND_INITIALIZER;
static pthread_cond_t may_take = PTHREAD_COND_INITIALIZER;
static char *queue[ROOM];
static unsigned int n_queued, n_putting = N_THREADS / 2;
static atomic_bool stop;
static atomic_ullong put_sum, taken_sum;

static void nap(void)
{
	struct timespec ts = { .tv_nsec = 1000000 };

	nanosleep(&ts, NULL);
}

/* A number as text, in memory of its own. */
static char *make_item(unsigned long long value)
{
	char *item = malloc(24 + value % 900);

	if (item)
		snprintf(item, 24, "%llu", value);
	return item;
}

static void put(char *item)
{
	pthread_mutex_lock(&lock);
	while (n_queued == ROOM)
		pthread_cond_wait(&may_put, &lock);
	queue[n_queued++] = item;
	pthread_cond_signal(&may_take);
	pthread_mutex_unlock(&lock);
}

/* NULL: there will be no more */
static char *take(void)
{
	char *item = NULL;

	pthread_mutex_lock(&lock);
	while (!n_queued && n_putting)
		pthread_cond_wait(&may_take, &lock);
	if (n_queued)
		item = queue[--n_queued];
	pthread_cond_signal(&may_put);
	pthread_mutex_unlock(&lock);
	return item;
}

static void *putter(void *arg)
{
	unsigned long long value = (uintptr_t)arg;

	for (unsigned int n = 1; !stop; n++) {
		char *item = make_item(value);

		if (item) {
			put_sum += value;
			put(item);
		}
		value = value * 3 % 1000003;
		if (n % BATCH == 0)
			nap();
	}
	pthread_mutex_lock(&lock);
	n_putting--;
	pthread_cond_broadcast(&may_take);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void *taker(void *arg)
{
	char *item;

	while ((item = take())) {
		taken_sum += strtoull(item, NULL, 10);
		free(item);
	}
	return arg;
}

int main(void)
{
	pthread_t threads[N_THREADS];
	uintptr_t i;
	char c;

	for (i = 0; i < N_THREADS; i++)
		if (pthread_create(&threads[i], NULL, i & 1 ? taker : putter,
				   (void *)(i + 1)))
			return 1;
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	stop = true;
	for (i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	puts(put_sum == taken_sum ? "right" : "wrong");
	return put_sum != taken_sum;
}
