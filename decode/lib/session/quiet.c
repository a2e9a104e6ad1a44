/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session: quiet refills. Where the sink needs no time and no other stream has an
 * event before some time, the decoder need not emit a TIME before it, and timing in
 * it is lazy: a trace with a packet of time for each branch is decoded in half the time.
 *
 * With one thread (quiet_begin) what the others have next is after what the cursor
 * emitted last, for the cursor is due.
 *
 * With several a chunk is decoded before the merge comes to it, and what is between its
 * events is known where all that other streams have in its time was decoded already:
 * each task notes the keys of its TIMEs (quiet_note), and a later one that overlaps it
 * is quiet between them (quiet_begin_task). So of chunks that run at one time the last one
 * to be decoded is quiet, and a stream that says little costs one that says much nothing.
 * A sink that takes streams in any order needs no keys at all; but GAPs are reported in
 * the order of the merge, so a chunk with one is decoded again, with all TIMEs. A merge
 * by stint needs the keys at which threads change, and those TIMEs always come: the
 * horizon of the view ends there.
 *
 * Where streams run at the same time, they take turns at every few events: a
 * decoder that returns that often costs more than the TIMEs, so the next
 * refills are not quiet. Nor are those of the reference: it emits all TIMEs anyway, and
 * says of a branch whose outcome it has not read yet, where it returns, that it is not
 * known, so its ranges depend on where that is.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "decode/lib/session/impl.h"

#define QUIET_FEW 64	/* events that are too few for a refill */
#define QUIET_REST 16
#define QUIET_KEYS 4096	/* of other streams in the time of one chunk, at most */

/* until: UINT64_MAX: no other stream has anything */
static void begin_until(struct stream_cursor *cur, uint64_t until)
{
	if (cur->fallback.state != FALLBACK_NONE && !cur->quiet.rest)
		cur->quiet.rest = 1;
	/* a last TIME that no stream waits for is as good as none */
	cur->quiet.until_tsc = cur->quiet.rest || until == UINT64_MAX ?
				       UINT64_MAX :
				       clock_horizon(&cur->config.clock, until);
	cur->host.time_step = cur->quiet.rest ? cur->wants.time_step
					      : UINT64_MAX;
	cursor_set_horizon(cur, cur->horizon_tsc);
}

void quiet_begin(const struct session_pass *pass, struct stream_cursor *cur)
{
	uint64_t until = UINT64_MAX;
	size_t n = pass->by_stint ? 0 : pass->n;

	for (size_t i = 0; i < n && !cur->quiet.rest; i++) {
		struct stream_cursor *other = &pass->cursors[i];
		uint64_t time;

		if (other == cur || other->m.pos == other->m.n)
			continue;
		time = cursor_next_key(other).time;
		until = time < until ? time : until;
	}
	begin_until(cur, until);
}

void quiet_end(struct stream_cursor *cur)
{
	const struct aux_flow *last;

	if (cur->quiet.rest) {
		cur->quiet.rest--;
	} else if (cur->m.n && cur->m.n < QUIET_FEW) {
		last = &cur->m.buf[cur->m.n - 1];
		if (last->kind == AUX_FLOW_TIME &&
		    last->time.tsc >= cur->quiet.until_tsc)
			cur->quiet.rest = QUIET_REST;
	}
}

/* ---- tasks ---- */

static uint64_t start_of(const struct chunk_task *task)
{
	return aux_clock_ns(&task->stream->config.clock, task->start.tsc);
}

/* Is it known when the chunk begins? */
static bool has_start(const struct chunk_task *task)
{
	return task->kind == TASK_CHUNK && task->start.has_tsc;
}

int quiet_note(struct chunk_task *task, const struct stream_cursor *cur)
{
	uint64_t last = task->n_times ? task->times[task->n_times - 1] : 0;

	for (size_t i = 0; i < cur->m.n; i++) {
		const struct aux_flow *ev = &cur->m.buf[i];

		if (ev->kind != AUX_FLOW_TIME || ev->time.ns <= last)
			continue;
		if (array_grow(&task->times, task->n_times, &task->cap_times,
			       sizeof(*task->times)))
			return -AUX_E_NOMEM;
		task->times[task->n_times++] = last = ev->time.ns;
	}
	return 0;
}

/* False: too many, or no memory. */
static bool add_other(struct task_quiet *q, uint64_t ns)
{
	if (ns < q->from || ns >= q->end)
		return true;
	if (q->n == QUIET_KEYS ||
	    array_grow(&q->others, q->n, &q->cap, sizeof(*q->others)))
		return false;
	q->others[q->n++] = ns;
	return true;
}

/* The first of the task's times that is not before q. */
static size_t first_time(const struct chunk_task *task, const struct task_quiet *q)
{
	size_t lo = 0, hi = task->n_times;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (task->times[mid] < q->from)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/*
 * Adds what a task of another stream has in the time of q. False: that is not known,
 * for it was not decoded, or was quiet itself. Keys are those of TIMEs, and of the
 * start; GAPs after it have that of its end.
 */
static bool add_task(struct task_quiet *q, const struct chunk_task *task)
{
	if (task->kind != TASK_CHUNK)
		return true;
	if (task->work.state != WORK_DONE)
		return false;
	if (task->was_quiet)
		return task->quiet_end <= q->from && task->key.time <= q->from;
	for (size_t i = first_time(task, q); i < task->n_times; i++) {
		if (task->times[i] >= q->end)
			break;
		if (!add_other(q, task->times[i]))
			return false;
	}
	return add_other(q, start_of(task)) && add_other(q, task->key.time);
}

/* The same for all tasks of a stream. What the merge has done with is before q, as
 * it comes before the task that is to begin; what was not cut comes after the last. */
static bool add_stream(struct task_quiet *q, const struct stream_cursor *cur)
{
	for (const struct chunk_task *t = cur->tasks.first; t; t = t->next) {
		if (t->kind == TASK_CHUNK && !has_start(t))
			return false;
		if (t->kind == TASK_CHUNK && start_of(t) >= q->end)
			return true;
		if (!add_task(q, t))
			return false;
	}
	return cur->tasks.ended;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void quiet_begin_task(struct parallel *par, struct chunk_task *task)
{
	const struct session_pass *pass = par->pass;
	const struct chunk_task *next = task->next;
	struct task_quiet *q = &task->decoder->quiet;
	bool ordered = par->ordered && !pass->by_stint;

	q->n = q->at = 0;
	q->end = UINT64_MAX;
	q->on = false;
	task->was_quiet = false;
	task->n_times = 0;
	task->decoder->cur.quiet.until_tsc = UINT64_MAX;
	task->decoder->cur.quiet.rest = 0;
	task->decoder->cur.host.time_step = task->decoder->cur.source ? 0 :
						    par->pass->wants.time_step;
	/* the GAP after a chunk that does not go on has the key of its end */
	if (!par->quiet || !has_start(task) || task->loud ||
	    !(task->chunk.flags & AUX_CHUNK_HAS_END_IP))
		return;
	q->on = true;
	q->from = start_of(task);
	if (ordered) {
		q->on = next && has_start(next);
		q->end = q->on ? start_of(next) : 0;
	}
	for (size_t i = 0; i < pass->n && q->on && ordered; i++)
		if (&pass->cursors[i] != task->stream)
			q->on = add_stream(q, &pass->cursors[i]);
	if (q->n)
		qsort(q->others, q->n, sizeof(*q->others), compare);
	task->was_quiet = q->on;
	task->quiet_end = q->end;
}

void quiet_begin_refill(struct worker_decoder *wd)
{
	struct task_quiet *q = &wd->quiet;
	struct stream_cursor *cur = &wd->cur;
	uint64_t now = cur->m.key.time > q->from ? cur->m.key.time : q->from;

	if (!q->on)
		return;
	while (q->at < q->n && q->others[q->at] < now)
		q->at++;
	/* an estimate may run past the start of the next chunk */
	if (now >= q->end && !cur->quiet.rest)
		cur->quiet.rest = 1;
	begin_until(cur, q->at < q->n ? q->others[q->at] : q->end);
}

bool quiet_must_repeat(const struct parallel *par, const struct chunk_task *task)
{
	const struct worker_decoder *wd = task->decoder;

	return task->was_quiet && par->partials && !par->ordered &&
	       wd->plan.n_gaps && !wd->plan.first_stint;
}
