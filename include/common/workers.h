/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * workers: a thread pool that does pieces of work in the order of their keys.
 *
 * A piece of work runs in one thread at a time. It may return unfinished
 * (WORK_IDLE or WORK_HELD), so that no thread blocks while its consumer lags.
 * One thread, the owner, adds work, waits for the results it needs, and removes
 * work. The lock guards every field of struct work but stop, and whatever the
 * owner keeps beside it that worker threads use too.
 */
#ifndef COMMON_WORKERS_H
#define COMMON_WORKERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct workers;

enum work_state {
	WORK_IDLE = 0,	/* not started, or unfinished: a worker may pick it up */
	WORK_HELD,	/* unfinished, until workers_resume */
	WORK_RUNNING,
	WORK_DONE,
};

struct work {
	struct work *next;
	enum work_state state;
	uint64_t key;		/* lowest first; equal keys in the order added */
	atomic_bool stop;	/* the result is not wanted; read without the lock */
};

/*
 * Does some of the work; called without the lock. Returns the new state:
 * WORK_IDLE, WORK_HELD or WORK_DONE.
 */
typedef enum work_state (*workers_run)(void *priv, struct work *w);

/* Starts n threads, or as many as the system grants; -AUX_E_NOMEM if none. */
int workers_new(struct workers **ws, unsigned n, workers_run run, void *priv);
/* Sets stop in all work and joins the threads. The pool and its work stay
 * valid. */
void workers_stop(struct workers *ws);
/* Stops, then frees. Both accept NULL. */
void workers_free(struct workers *ws);

void workers_lock(struct workers *ws);
void workers_unlock(struct workers *ws);
/* The caller of the functions below holds the lock. */
void workers_add(struct workers *ws, struct work *w);
void workers_remove(struct workers *ws, struct work *w);
/* WORK_HELD becomes WORK_IDLE; any other state stays. */
void workers_resume(struct workers *ws, struct work *w);
/* Called by the owner: blocks until a worker returns from w or calls
 * workers_notify for it. Meanwhile w is chosen before all other work. */
void workers_wait(struct workers *ws, struct work *w);
/* Wakes the owner if it waits for w. */
void workers_notify(struct workers *ws, const struct work *w);

#endif
