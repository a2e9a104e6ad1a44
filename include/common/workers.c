/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * workers: a thread pool, see workers.h.
 *
 * Work is an unsorted list that every choice scans from its start. The session
 * adds no more pieces than it may hold in memory (some tens), so a scan costs
 * less than keeping a heap in order, and keys may change while work waits.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include <aux/error.h>

#include "common/workers.h"

struct workers {
	pthread_mutex_t lock;
	pthread_cond_t has_work;	/* workers wait for it */
	pthread_cond_t progress;	/* the owner waits for it */
	struct work *list, **last;
	struct work *wanted;	/* what the owner waits for; NULL: nothing */
	workers_run run;
	void *priv;
	bool stop;
	unsigned n_idle;	/* threads */
	unsigned n;
	pthread_t threads[];
};

/* What the owner waits for, else the idle work with the lowest key. */
static struct work *choose(const struct workers *ws)
{
	struct work *best = NULL;

	for (struct work *w = ws->list; w; w = w->next) {
		if (w->state != WORK_IDLE)
			continue;
		if (w == ws->wanted)
			return w;
		if (!best || w->key < best->key)
			best = w;
	}
	return best;
}

static void *work_on(void *arg)
{
	struct workers *ws = arg;
	enum work_state state;
	struct work *w;

	pthread_mutex_lock(&ws->lock);
	while (!ws->stop) {
		w = choose(ws);
		if (!w) {
			ws->n_idle++;
			pthread_cond_wait(&ws->has_work, &ws->lock);
			ws->n_idle--;
			continue;
		}
		w->state = WORK_RUNNING;
		pthread_mutex_unlock(&ws->lock);
		state = ws->run(ws->priv, w);
		pthread_mutex_lock(&ws->lock);
		w->state = state;
		workers_notify(ws, w);
	}
	pthread_mutex_unlock(&ws->lock);
	return NULL;
}

int workers_new(struct workers **wsp, unsigned n, workers_run run, void *priv)
{
	struct workers *ws = calloc(1, sizeof(*ws) + n * sizeof(pthread_t));
	sigset_t all, old;

	*wsp = ws;
	if (!ws)
		return -AUX_E_NOMEM;
	pthread_mutex_init(&ws->lock, NULL);
	pthread_cond_init(&ws->has_work, NULL);
	pthread_cond_init(&ws->progress, NULL);
	ws->last = &ws->list;
	ws->run = run;
	ws->priv = priv;
	/* Signals are handled by the owner's thread: block them in the workers,
	 * which inherit the mask. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (ws->n < n && pthread_create(&ws->threads[ws->n], NULL, work_on,
					   ws) == 0)
		ws->n++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ws->n)
		return 0;
	workers_free(ws);
	*wsp = NULL;
	return -AUX_E_NOMEM;
}

void workers_stop(struct workers *ws)
{
	if (!ws || !ws->n)
		return;
	pthread_mutex_lock(&ws->lock);
	ws->stop = true;
	for (struct work *w = ws->list; w; w = w->next)
		w->stop = true;
	pthread_cond_broadcast(&ws->has_work);
	pthread_mutex_unlock(&ws->lock);
	for (unsigned i = 0; i < ws->n; i++)
		pthread_join(ws->threads[i], NULL);
	ws->n = 0;
}

void workers_free(struct workers *ws)
{
	if (!ws)
		return;
	workers_stop(ws);
	pthread_cond_destroy(&ws->has_work);
	pthread_cond_destroy(&ws->progress);
	pthread_mutex_destroy(&ws->lock);
	free(ws);
}

void workers_lock(struct workers *ws)
{
	pthread_mutex_lock(&ws->lock);
}

void workers_unlock(struct workers *ws)
{
	pthread_mutex_unlock(&ws->lock);
}

/* Signals only when a thread sleeps: most calls then cost no system call. */
static void wake(struct workers *ws)
{
	if (ws->n_idle)
		pthread_cond_signal(&ws->has_work);
}

void workers_add(struct workers *ws, struct work *w)
{
	w->next = NULL;
	*ws->last = w;
	ws->last = &w->next;
	if (w->state == WORK_IDLE)
		wake(ws);
}

void workers_remove(struct workers *ws, struct work *w)
{
	struct work **p = &ws->list;

	while (*p && *p != w)
		p = &(*p)->next;
	if (!*p)
		return;
	if (ws->wanted == w)
		ws->wanted = NULL;
	*p = w->next;
	if (!*p)
		ws->last = p;
}

void workers_resume(struct workers *ws, struct work *w)
{
	if (w->state != WORK_HELD)
		return;
	w->state = WORK_IDLE;
	wake(ws);
}

void workers_wait(struct workers *ws, struct work *w)
{
	ws->wanted = w;
	pthread_cond_wait(&ws->progress, &ws->lock);
	ws->wanted = NULL;
}

/* Only for the work that the owner waits for: a needless wake-up costs both
 * threads a context switch. */
void workers_notify(struct workers *ws, const struct work *w)
{
	if (ws->wanted == w)
		pthread_cond_signal(&ws->progress);
}
