/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session: streams cut into jobs, as far ahead as keeps the workers busy: the
 * earliest chunks first, and of each stream the one that is needed next.
 */
#include <stdlib.h>

#include "decode/lib/session/jobs.h"

int session_open_part(struct jobs *js, struct job *job)
{
	int rc = js->parts && !job->is_gap ?
			 js->r->ops->part_open(&job->part, js->r->sink) : 0;

	return rc < 0 ? -AUX_E_NOMEM : 0;
}

struct feed_view session_view_of(const struct feed *f)
{
	return (struct feed_view){
		.ctx = { .session = f->s, .stream = f->stream->idx,
			 .cpu = f->stream->cpu },
	};
}

static bool is_in(const struct chunk_room *room, const uint8_t *p)
{
	return (uintptr_t)p - (uintptr_t)room->p < room->size;
}

static void take_step(struct feed *f, struct job *job, int step)
{
	struct chunk_iter *it = &f->it;

	job->is_gap = step == CHUNK_GAP;
	job->is_chunk = step == CHUNK_DATA;
	job->work.key = f->cut_key;
	if (job->is_gap) {
		job->gap = it->gap;
		return;
	}
	job->chunk = it->chunk;
	job->piece = it->piece;
	/* the first of a run alone */
	if (is_in(&it->joined, it->chunk.data)) {
		job->joined = it->joined;
		it->joined = (struct chunk_room){ 0 };
	}
	job->start = it->start;
	job->v = session_view_of(f);
	job->joint = f->cut_joint;
	f->cut_joint = it->chunk.flags & AUX_CHUNK_HAS_END_IP;
	job->waits = f->timed && !it->start.has_tsc;
	if (job->waits)
		job->work.state = WORK_HELD;
	else if (f->timed)
		f->cut_key = aux_clock_ns(&f->config.clock, it->start.tsc);
	job->work.key = f->cut_key;
}

/* The next job of a stream. */
static int cut_job(struct jobs *js, struct feed *f)
{
	int step = chunk_iter_next(&f->it);
	struct job *job;

	if (step < 0)
		return step;
	if (step == CHUNK_END) {
		f->cut_ended = true;
		return 0;
	}
	job = calloc(1, sizeof(*job));
	if (!job)
		return -AUX_E_NOMEM;
	job->feed = f;
	job->last = &job->first;
	take_step(f, job, step);
	*f->last_job = job;
	f->last_job = &job->next;
	js->n_live++;
	if (session_open_part(js, job) < 0)
		return -AUX_E_NOMEM;
	if (job->is_gap)
		return 0;
	workers_lock(js->ws);
	workers_add(js->ws, &job->work);
	workers_unlock(js->ws);
	return 0;
}

/* The stream whose next chunk is needed first. */
static struct feed *next_to_cut(struct run_state *r)
{
	struct feed *best = NULL;

	for (size_t i = 0; i < r->n; i++) {
		struct feed *f = &r->feeds[i];

		if (!f->cut_ended && (!best || f->cut_key < best->cut_key))
			best = f;
	}
	return best;
}

/* Cuts ahead; f: needs a job in any case. */
int session_cut_jobs(struct jobs *js, struct feed *f)
{
	int rc = 0;

	while (rc == 0 && !f->job && !f->cut_ended)
		rc = cut_job(js, f);
	while (rc == 0 && js->n_live < js->max_live &&
	       (f = next_to_cut(js->r)))
		rc = cut_job(js, f);
	return rc;
}
