/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * moments: a queue from the readers, which find in the rings what --when waits for, to the
 * main thread, which takes the snapshots.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "capture/record/impl.h"
#include "common/array.h"

void rec_moments_init(struct rec_moments *ms)
{
	pthread_mutex_init(&ms->lock, NULL);
	ms->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void rec_moments_fini(struct rec_moments *ms)
{
	free(ms->v);
	ms->v = NULL;
	if (ms->fd >= 0)
		close(ms->fd);
	ms->fd = -1;
}

void rec_moment_add(struct recorder *r, const struct rec_moment *m)
{
	struct rec_moments *ms = &r->moments;
	const uint64_t one = 1;

	pthread_mutex_lock(&ms->lock);
	if (array_append(&ms->v, &ms->n, &ms->cap, m, sizeof(*m)))
		ms->nomem = true;
	pthread_mutex_unlock(&ms->lock);
	if (write(ms->fd, &one, sizeof(one)) < 0)
		return;	/* it is readable already */
}

int recorder_moments(struct recorder *r, struct rec_moment **v)
{
	struct rec_moments *ms = &r->moments;
	uint64_t count;
	int n;

	*v = NULL;
	if (read(ms->fd, &count, sizeof(count)) < 0)
		return 0;	/* nothing has come */
	pthread_mutex_lock(&ms->lock);
	*v = ms->v;
	n = ms->nomem ? -AUX_E_NOMEM : (int)ms->n;
	ms->v = NULL;
	ms->n = ms->cap = 0;
	pthread_mutex_unlock(&ms->lock);
	return n;
}
