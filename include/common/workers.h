/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * workers: threads that do pieces of work in the order they are needed.
 *
 * A piece of work is done by one thread at a time, and may be put aside half
 * done, so that nobody waits with a thread. One thread, the owner, adds work,
 * waits for what it needs, and takes work away. All of struct work, and what its
 * owner keeps beside it for two threads, is guarded by the lock.
 */
#ifndef COMMON_WORKERS_H
#define COMMON_WORKERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct workers;

enum work_state {
	WORK_IDLE = 0,	/* not begun, or put aside: it may go on */
	WORK_HELD,	/* put aside until workers_resume */
	WORK_RUNNING,
	WORK_DONE,
};

struct work {
	struct work *next;
	enum work_state state;
	uint64_t key;		/* the lowest first; equal: as they were added */
	atomic_bool stop;	/* is not needed any more; without the lock */
};

/*
 * Does some of the work, without the lock. Returns what it is then: WORK_IDLE,
 * WORK_HELD or WORK_DONE.
 */
typedef enum work_state (*workers_run)(void *priv, struct work *w);

/* n threads, fewer if no more can be had; -AUX_E_NOMEM: none. */
int workers_new(struct workers **ws, unsigned n, workers_run run, void *priv);
/* Work that runs is told to stop; then there are no threads any more, and all else
 * goes on. */
void workers_stop(struct workers *ws);
/* Both accept NULL; stops them first. */
void workers_free(struct workers *ws);

void workers_lock(struct workers *ws);
void workers_unlock(struct workers *ws);
/* With the lock: */
void workers_add(struct workers *ws, struct work *w);
void workers_remove(struct workers *ws, struct work *w);
/* What was held may go on. */
void workers_resume(struct workers *ws, struct work *w);
/* The owner waits until w was worked on, or somebody calls workers_tell of it; w goes
 * before all else. */
void workers_wait(struct workers *ws, struct work *w);
void workers_tell(struct workers *ws, const struct work *w);

#endif
