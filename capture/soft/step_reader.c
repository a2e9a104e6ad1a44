/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that reads full rings, so that a traced thread seldom waits for what is
 * made of its records.
 *
 * Two mutexes: who waits for the lock holds the turn, so that neither thread gets the
 * lock twice in a row while the other one wants it.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "capture/soft/step.h"

#define AT_ONCE 4096	/* records, before a stop that waits is looked at */

struct step_reader {
	pthread_t thread;
	pthread_mutex_t turn, lock;
	pthread_cond_t full;
	bool ends;
};

void step_lock(struct step *st)
{
	if (!st->reader)
		return;
	pthread_mutex_lock(&st->reader->turn);
	pthread_mutex_lock(&st->reader->lock);
	pthread_mutex_unlock(&st->reader->turn);
}

void step_unlock(struct step *st)
{
	if (st->reader)
		pthread_mutex_unlock(&st->reader->lock);
}

static void *read_rings(void *arg)
{
	struct step *st = arg;
	struct step_reader *r = st->reader;

	step_lock(st);
	while (!r->ends) {
		if (!step_native_drain_full(st, AT_ONCE)) {
			pthread_cond_wait(&r->full, &r->lock);
			continue;
		}
		step_unlock(st);
		step_lock(st);
	}
	step_unlock(st);
	return NULL;
}

void step_reader_wake(struct step *st)
{
	if (st->reader)
		pthread_cond_signal(&st->reader->full);
}

/* Signals are the tracing thread's. Without memory for it, rings are read as they
 * fill. */
void step_reader_start(struct step *st)
{
	struct step_reader *r = calloc(1, sizeof(*r));
	sigset_t all, before;
	int err;

	if (!r)
		return;
	pthread_mutex_init(&r->turn, NULL);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->full, NULL);
	st->reader = r;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&r->thread, NULL, read_rings, st);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!err)
		return;
	st->reader = NULL;
	free(r);
}

void step_reader_stop(struct step *st)
{
	struct step_reader *r = st->reader;

	if (!r)
		return;
	step_lock(st);
	r->ends = true;
	pthread_cond_signal(&r->full);
	step_unlock(st);
	pthread_join(r->thread, NULL);
	pthread_cond_destroy(&r->full);
	pthread_mutex_destroy(&r->lock);
	pthread_mutex_destroy(&r->turn);
	st->reader = NULL;
	free(r);
}
