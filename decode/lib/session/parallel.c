/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session: chunks decoded by several threads, merged by one.
 *
 * A task is a chunk of Intel PT, or all of a CoreSight source, whose chunks need
 * those before them. The session's thread cuts the streams into tasks, as far ahead
 * as keeps the workers busy; a worker decodes a task with a decoder of the pool; what
 * comes out waits in batches, which the session's thread takes in place of a
 * decoder's (parallel_refill), or goes into a partial result of the sink, and the
 * batches have the plan by which the session's thread joins it. The merge itself is
 * that of merge.c, with the same keys, so the result is the same as with one thread.
 *
 * Who owns what:
 *
 * - The session's thread owns the session, the pass, its cursors and their lists of
 *   tasks. It alone makes and frees tasks.
 * - A task is the worker's from where workers_add puts it into the pool to where
 *   its work ends or is put aside (WORK_DONE, WORK_HELD), and the session's before
 *   and after. Three members are shared all the time, with the lock of the workers:
 *   its list of batches, their size, and work.
 * - A worker decoder is the task's that has it. Between tasks it waits in
 *   par->idle with all that it has learned of the code: the most expensive thing
 *   there is, so decoders are reused, never made for each task.
 * - A batch is the worker's until push() and the session's from then on. Its events
 *   may point to PATHs of the decoder, which go on being the decoder's: what a
 *   decoder drops of them (aux_decoder_host.forget) is kept in wd->dropped until no
 *   batch is left that is old enough to point to it.
 * - A partial result is handed back and forth with its task: the session joins only
 *   while no worker runs on the task.
 *
 * Memory is bounded: there are at most max_live tasks, and one whose batches hold
 * more than max_held is put aside until they were used. That cannot deadlock: the
 * task whose batch the merge needs next has none left, so it may always go on.
 *
 * Resume points. A chunk is decoded without the one before it. Everything that a
 * decoder must know at its start is in its PSB+ (IP, mode, TSC) or in the side-band,
 * but for two things, which the end of the chunk before decides:
 *
 * - Whether the flow is continuous. A chunk that is cut from its segment ends where
 *   the next PSB+ says that the program was (AUX_CHUNK_HAS_END_IP), and the TRACE_ON
 *   with which the next chunk begins is then no event of the trace: it is dropped
 *   (drop_resume in cursor.c). If the chunk before ends in a GAP instead, it never
 *   came to that IP and the TRACE_ON stays. That it ends well is guessed
 *   (task->continues), because it nearly always does; when the merge gets there and
 *   the guess was wrong, the task is done again (restart_task).
 * - Who runs, where the PSB+ has no TSC. This cannot be guessed: such a task waits
 *   (task->waits) until the merge comes to it and gives it the view.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "decode/lib/session/impl.h"

/* ---- worker decoders; all up to "cutting" runs in workers ---- */

static int push_pack(struct parallel *par, struct chunk_task *task);
static int push_plan(struct parallel *par, struct chunk_task *task);
static int rest_partial(struct parallel *par, struct chunk_task *task);

/*
 * aux_decoder_host.forget: the decoder starts a chunk and has dropped something
 * that events of earlier chunks may point to. Released at once if no batch
 * waits, else when free_batch releases the last one that is older than the
 * chunk. Events of earlier chunks that are packed and not handed over yet become
 * such a batch first.
 */
static void forget(void *priv, void (*release)(void *what), void *what)
{
	struct worker_decoder *wd = priv;
	struct dropped *d;
	bool waits;

	/* out of memory, it leaks: better than to free what batches point to */
	if (wd->pack.n && (wd->error = push_pack(wd->par, wd->task)) < 0)
		return;
	if (wd->par->pass->needs & SINK_KEEPS_PATHS && wd->task && wd->task->partial &&
	    (wd->error = rest_partial(wd->par, wd->task) < 0 ? -AUX_E_NOMEM :
			 push_plan(wd->par, wd->task)) < 0)
		return;
	d = malloc(sizeof(*d));
	if (d)
		*d = (struct dropped){ .release = release,
				       .what = what,
				       .serial = ++wd->serial };
	workers_lock(wd->par->ws);
	waits = wd->live;
	if (waits && d) {
		d->next = wd->dropped;
		wd->dropped = d;
	}
	workers_unlock(wd->par->ws);
	if (waits)
		return;
	free(d);
	release(what);
}

static void free_decoder(struct worker_decoder *wd)
{
	cursor_close(&wd->cur);
	while (wd->dropped) {
		struct dropped *d = wd->dropped;

		wd->dropped = d->next;
		d->release(d->what);
		free(d);
	}
	free(wd->pack.words);
	free(wd->plan.keys);
	free(wd->plan.gaps);
	free(wd->quiet.others);
	free(wd->joined.p);
	free(wd->joined_before.p);
	free(wd);
}

static int new_decoder(struct parallel *par, size_t stream,
		       struct worker_decoder **out)
{
	struct worker_decoder *wd = calloc(1, sizeof(*wd));

	*out = NULL;
	if (!wd)
		return -AUX_E_NOMEM;
	wd->par = par;
	wd->live_last = &wd->live;
	wd->cur.wants = par->pass->wants;
	cursor_prepare(par->pass->s, &wd->cur, stream, par->pass->decoder);
	/* A source's must be as with one thread, for the key of a break depends
	 * on what is in the buffer; and events that are to be packed are best in
	 * the nearest cache. */
	if (!wd->cur.source && par->partials)
		wd->cur.max = TASK_BATCH;
	wd->cur.host.forget = forget;
	*out = wd;
	return 0;
}

/* A decoder that is idle, or a new one; the task has it then. */
static int take_decoder(struct parallel *par, struct chunk_task *task)
{
	struct worker_decoder *wd;
	int rc;

	workers_lock(par->ws);
	wd = par->idle;
	if (wd)
		par->idle = wd->next;
	workers_unlock(par->ws);
	if (!wd) {
		rc = new_decoder(par, task->stream->index, &wd);
		if (rc < 0)
			return rc;
		workers_lock(par->ws);
		wd->all = par->decoders;
		par->decoders = wd;
		par->n_decoders++;
		workers_unlock(par->ws);
	}
	task->decoder = wd;
	return 0;
}

/* ---- what workers hand over ---- */

#define SPARE_MAX 32
#define SPARE_MIN 4096	/* bytes; smaller ones are no gain */

/* Memory of a former batch, NULL: there is none. *size is what it has. */
static void *take_spare(struct parallel *par, size_t *size)
{
	struct spare *m;

	workers_lock(par->ws);
	m = par->spare;
	if (m) {
		par->spare = m->next;
		par->n_spare--;
	}
	workers_unlock(par->ws);
	*size = m ? m->size : 0;
	return m;
}

/* The caller holds the lock. False: the caller frees it. */
static bool keep_spare(struct parallel *par, void *p, size_t size)
{
	struct spare *m = p;

	if (!m || size < SPARE_MIN || par->n_spare == SPARE_MAX)
		return false;
	*m = (struct spare){ par->spare, size };
	par->spare = m;
	par->n_spare++;
	return true;
}

/* Hands b over, and with it what was counted since the last one. 1: put the
 * task aside, for it is not wanted any more, or holds too much. */
static int push(struct parallel *par, struct chunk_task *task, struct batch *b)
{
	struct worker_decoder *wd = task->decoder;
	bool full;

	b->decoder = wd;
	b->serial = wd->serial;
	b->stats = wd->stats;
	b->next = b->live_next = NULL;
	wd->stats = (struct session_stats){ 0 };
	workers_lock(par->ws);
	b->live_prev = wd->live_last;
	*wd->live_last = b;
	wd->live_last = &b->live_next;
	*task->last = b;
	task->last = &b->next;
	task->held += b->bytes;
	full = task->work.stop || task->held >= par->max_held;
	/* a partial result can be joined only when the work ends, see
	 * wait_batch: no need to wake the session for this */
	if (!par->partials)
		workers_notify(par->ws, &task->work);
	workers_unlock(par->ws);
	return full;
}

/*
 * The worker's view must follow the flow as the merge's will, for the decoder
 * asks this cursor for code: every event that changes the view is consumed
 * before the next batch is decoded.
 */
static void follow_events(struct stream_cursor *cur)
{
	cur->m.pos = cur->m.n_plain;
	while (cur->m.pos < cur->m.n) {
		const struct aux_flow *ev = &cur->m.buf[cur->m.pos];

		if (cursor_changes_view(cur, ev))
			cursor_consume(cur);
		cur->m.pos++;
	}
}

/*
 * The same for Intel PT, where TIMEs alone change the view, and most of them nothing but
 * the time: of several in a row the last is consumed, with the highest key.
 */
static void follow_times(struct stream_cursor *cur)
{
	uint64_t tsc = cur->m.view.ctx.tsc, key = cur->m.key.time, t;
	size_t last = SIZE_MAX;

	for (size_t i = cur->m.n_plain; i < cur->m.n; i++) {
		const struct aux_flow *ev = &cur->m.buf[i];

		if (ev->kind != AUX_FLOW_TIME)
			continue;
		t = ev->time.ns ? ev->time.ns : ev->time.tsc;
		key = t > key ? t : key;
		last = i;
		if (ev->flags & AUX_FLOW_HAS_TSC && ev->time.tsc >= tsc &&
		    ev->time.tsc < cur->horizon_tsc) {
			tsc = ev->time.tsc;
			continue;
		}
		cur->m.key.time = key;
		cur->m.pos = last;
		cursor_consume(cur);
		tsc = cur->m.view.ctx.tsc;
		last = SIZE_MAX;
	}
	if (last == SIZE_MAX)
		return;
	cur->m.key.time = key;
	cur->m.pos = last;
	cursor_consume(cur);
}

/* CoreSight: the events of one refill are a batch, for the key of a break depends on
 * what else is in the buffer. */
static int push_events(struct parallel *par, struct chunk_task *task)
{
	struct stream_cursor *cur = &task->decoder->cur;
	struct batch *b = calloc(1, sizeof(*b));

	if (!b)
		return -AUX_E_NOMEM;
	b->in_chunk = cur->in_chunk;
	b->view = cur->m.view;
	b->key = cur->m.key;
	follow_events(cur);
	if (cursor_expand_paths(cur, 0) < 0)
		goto nomem;
	task->work.key = cur->m.key.time;
	b->n = cur->m.n;
	b->bytes = sizeof(*b) + cur->m.n * sizeof(*b->ev);
	b->ev = malloc(cur->m.n * sizeof(*b->ev) + 1);
	if (!b->ev)
		goto nomem;
	memcpy(b->ev, cur->m.buf, cur->m.n * sizeof(*b->ev));
	return push(par, task, b);
nomem:
	free(b);
	return -AUX_E_NOMEM;
}

/* Hands over what is packed. */
static int push_pack(struct parallel *par, struct chunk_task *task)
{
	struct worker_decoder *wd = task->decoder;
	struct batch *b = calloc(1, sizeof(*b));

	if (!b)
		return -AUX_E_NOMEM;
	b->pack = wd->pack;
	b->unpack = (struct unpack){
		.at = b->pack.words, .end = b->pack.words + b->pack.n,
	};
	b->bytes = sizeof(*b) + b->pack.n * sizeof(*b->pack.words);
	b->in_chunk = wd->cur.in_chunk;
	wd->pack = (struct pack){ 0 };
	return push(par, task, b);
}

/* Packs the events of one refill. As push. */
static int pack_refill(struct parallel *par, struct chunk_task *task)
{
	struct worker_decoder *wd = task->decoder;
	struct stream_cursor *cur = &wd->cur;

	if (wd->error < 0)
		return wd->error;
	follow_times(cur);
	if (!wd->pack.words) {
		wd->pack.words = take_spare(par, &wd->pack.cap);
		wd->pack.cap /= sizeof(*wd->pack.words);
	}
	if (pack_events(&wd->pack, cur->m.buf, cur->m.n) < 0)
		return -AUX_E_NOMEM;
	cur->m.pos = cur->m.n;
	return wd->pack.n < PACK_WORDS ? 0 : push_pack(par, task);
}

/* ---- partial results ---- */

/* A step of the plan that begins at a key. */
static int add_step(struct worker_decoder *wd, const struct merge_key *key)
{
	struct join_plan *plan = &wd->plan;

	if (!plan->keys) {
		plan->keys = take_spare(wd->par, &plan->cap_keys);
		plan->cap_keys /= sizeof(*plan->keys);
	}
	if (array_grow(&plan->keys, plan->n_keys + 2, &plan->cap_keys,
		       sizeof(*plan->keys)))
		return -AUX_E_NOMEM;
	plan->keys[plan->n_keys] = key->time;
	if (plan->n_words > 1) {
		plan->keys[plan->n_keys + 1] = key->number;
		plan->keys[plan->n_keys + 2] = key->ts;
	}
	plan->n_keys += plan->n_words;
	return 0;
}

/* A step for what went into the partial result since the last one. */
static int end_stint(struct worker_decoder *wd)
{
	if (!wd->in_stint)
		return 0;
	wd->in_stint = false;
	wd->stint++;
	return add_step(wd, &wd->stint_key);
}

/* The key of the stint that the worker is in. */
static const struct merge_key *stint_key(const struct worker_decoder *wd)
{
	return wd->cur.by_stint ? &wd->cur.stint.key : &wd->cur.m.key;
}

static bool begins_stint(const struct worker_decoder *wd)
{
	return wd->cur.by_stint ? wd->stint_serial != wd->cur.stint.serial :
				  merge_before(&wd->stint_key, &wd->cur.m.key);
}

/*
 * The sink of a worker's pass. The merge may turn to another stream wherever
 * the key changes, so a stint ends there, unless the sink lets streams be
 * joined in any order, or by stints of threads (merge.c). The events of one call have
 * one key: merge_deliver delivers what is before an event that changes it first.
 */
static int flow_partial(void *sink, const struct flow_ctx *ctx,
			const struct aux_flow *ev, size_t n)
{
	struct worker_decoder *wd = sink;
	struct parallel *par = wd->par;

	if (par->ordered && begins_stint(wd) && end_stint(wd) < 0)
		return -AUX_E_NOMEM;
	if (!wd->in_stint)
		wd->stint_key = *stint_key(wd);
	wd->stint_serial = wd->cur.stint.serial;
	wd->in_stint = true;
	return par->pass->ops->partial_flow(wd->task->partial, wd->stint, ctx,
					    ev, n);
}

static const struct sink_ops partial_ops = { .name = "partial",
					     .flow = flow_partial };

/* The observer of a worker's pass: the GAP waits until the stint that it ends
 * was joined, so that the session reports GAPs in the order of the merge. */
static void keep_gap(void *priv, const struct flow_ctx *ctx,
		     const struct aux_flow *gap)
{
	struct worker_decoder *wd = priv;
	struct join_plan *plan = &wd->plan;

	if (end_stint(wd) < 0 ||
	    array_grow(&plan->gaps, plan->n_gaps, &plan->cap_gaps,
		       sizeof(*plan->gaps)) ||
	    add_step(wd, stint_key(wd))) {
		wd->error = -AUX_E_NOMEM;
		return;
	}
	plan->gaps[plan->n_gaps++] = (struct join_gap){
		*ctx, *gap, plan->n_keys / plan->n_words - 1,
	};
}

/* What the plan, and the sink for it, is estimated to hold. */
static uint64_t plan_bytes(const struct join_plan *plan)
{
	return plan->n_keys * (sizeof(*plan->keys) + STINT_BYTES) +
	       plan->n_gaps * sizeof(*plan->gaps);
}

static size_t partial_bytes(const struct parallel *par, const struct chunk_task *task)
{
	return par->pass->ops->partial_bytes ? par->pass->ops->partial_bytes(task->partial) : 0;
}

/* The next plan begins, with the stint that is next. */
static void begin_plan(struct worker_decoder *wd)
{
	wd->plan = (struct join_plan){
		.n_words = wd->cur.source ? KEY_WORDS : 1,
		.first_stint = wd->stint,
	};
}

/* Hands over what there is of the plan; ends the stint, for none spans
 * batches. */
static int push_plan(struct parallel *par, struct chunk_task *task)
{
	struct worker_decoder *wd = task->decoder;
	struct batch *b = calloc(1, sizeof(*b));

	if (!b || end_stint(wd) < 0) {
		free(b);
		return -AUX_E_NOMEM;
	}
	b->plan = wd->plan;
	b->bytes = sizeof(*b) + plan_bytes(&b->plan);
	b->in_chunk = wd->cur.in_chunk;
	begin_plan(wd);
	return push(par, task, b);
}

/* The events of one refill go into the partial result. 1: put the task
 * aside. */
static int fill_partial(struct parallel *par, struct chunk_task *task)
{
	static const struct merge_key never = { UINT64_MAX, UINT64_MAX,
						UINT64_MAX };
	struct worker_decoder *wd = task->decoder;
	struct stream_cursor *cur = &wd->cur;
	struct session_pass pass = {
		.s = par->pass->s,
		.ops = &partial_ops,
		.sink = wd,
		.stats = &wd->stats,
		.filtered = par->pass->filtered,
		.timeless = par->pass->timeless,
		.untimed = par->pass->untimed && par->pass->by_stint,
		.ticks = par->pass->ticks && (par->pass->by_stint || !par->ordered),
		.by_stint = par->pass->by_stint,
		.observer = { .on_gap = keep_gap, .priv = wd },
	};
	int rc = merge_deliver(&pass, cur, &never, true);

	if (rc < 0 || wd->error < 0)
		return rc < 0 ? rc : wd->error;
	task->work.key =
		task->kind == TASK_CHUNK ? task->work.key : cur->m.key.time;
	return plan_bytes(&wd->plan) + partial_bytes(par, wd->task) >= par->max_held;
}

/* ---- tasks, in a worker ---- */

/* Sets the cursor to a chunk as if it had just come to it: it knows what the
 * task says, and nothing of the chunk that the decoder had last. */
static int begin_chunk_task(struct chunk_task *task)
{
	struct worker_decoder *wd = task->decoder;
	struct stream_cursor *cur = &wd->cur;
	struct chunk_room before = wd->joined;

	/* the chunk before is the decoder's until it starts the next one */
	wd->joined = wd->joined_before;
	wd->joined_before = before;
	cur->stream = task->stream->stream;
	cur->it.q = task->stream->it.q;
	cur->it.chunk = task->chunk;
	if (task->joined.p) {
		free(wd->joined.p);
		wd->joined = task->joined;
		task->joined = (struct chunk_room){ 0 };
		/* if it is done again they are put together again */
		task->chunk.data = NULL;
	}
	cur->it.start = task->start;
	if (!cur->it.chunk.data &&
	    chunk_iter_join(&cur->it, task->piece, &cur->it.chunk,
			    &wd->joined) < 0)
		return -AUX_E_NOMEM;
	cur->m.view = task->view;
	cur->m.key = (struct merge_key){ 0 };
	cur->by_stint = task->decoder->par->pass->by_stint;
	cur->stint = (struct stint){ .begins = cur->by_stint };
	cur->continues = task->continues;
	cur->scope = CURSOR_CHUNK;
	cur->zero_fill.due = false;
	cur->zero_fill.rest = (struct aux_chunk){ 0 };
	cur->ended = cur->in_chunk = cur->in_gap = cur->emitted = false;
	view_find_task(cur, &cur->m.view);
	return 0;
}

static int begin_task(struct parallel *par, struct chunk_task *task)
{
	int rc = task->decoder ? 0 : take_decoder(par, task);

	if (rc < 0)
		return rc;
	workers_lock(par->ws);
	task->decoder->cur.host.memory = par->decoder_memory / par->n_decoders;
	quiet_begin_task(par, task);
	workers_unlock(par->ws);
	task->decoder->task = task;
	task->decoder->in_stint = false;
	task->decoder->stint = 0;
	free(task->decoder->plan.keys);	/* left where memory ran out */
	free(task->decoder->plan.gaps);
	begin_plan(task->decoder);
	task->begun = true;
	return task->kind == TASK_CHUNK ? begin_chunk_task(task) : 0;
}

static int rest_partial(struct parallel *par, struct chunk_task *task)
{
	const struct sink_ops *ops = par->pass->ops;

	return task->partial && ops->partial_end ?
		       ops->partial_end(task->partial) : 0;
}

/* The last batch: what was counted, or the rest of the plan. A chunk's decoder
 * is idle then; a stream's stays with the task. */
static enum work_state end_work(struct parallel *par, struct chunk_task *task,
				int rc)
{
	struct worker_decoder *wd = task->decoder;

	if (rest_partial(par, task) < 0)
		rc = -AUX_E_NOMEM;
	if (wd && par->partials && push_plan(par, task) < 0)
		rc = -AUX_E_NOMEM;
	if (wd && !par->partials) {
		if (push_pack(par, task) < 0)
			rc = -AUX_E_NOMEM;
	}
	workers_lock(par->ws);
	task->rc = rc;
	if (wd) {
		task->emitted = wd->cur.emitted;
		task->in_gap = wd->cur.in_gap;
		task->view = wd->cur.m.view;
		task->key = wd->cur.m.key;
	}
	if (wd && task->kind == TASK_CHUNK) {
		wd->next = par->idle;
		par->idle = wd;
		task->decoder = NULL;
	}
	workers_unlock(par->ws);
	return WORK_DONE;
}

static int new_partial(struct parallel *par, struct chunk_task *task)
{
	if (!par->partials || task->kind == TASK_GAP)
		return 0;
	return par->pass->ops->partial_new(&task->partial, par->pass->sink) < 0
		       ? -AUX_E_NOMEM
		       : 0;
}

/* Decodes more of the task. As cursor_refill. */
static int refill_task(struct parallel *par, struct chunk_task *task)
{
	struct worker_decoder *wd = task->decoder;
	int rc;

	quiet_begin_refill(wd);
	rc = cursor_refill(&wd->cur, &wd->stats);
	if (wd->quiet.on)
		quiet_end(&wd->cur);
	if (rc > 0 && par->quiet && quiet_note(task, &wd->cur) < 0)
		return -AUX_E_NOMEM;
	return rc;
}

/* Begins the task again, with all TIMEs: nothing of it was handed over. */
static int repeat_task(struct parallel *par, struct chunk_task *task)
{
	par->pass->ops->partial_free(task->partial);
	task->partial = NULL;
	task->decoder->stats = (struct session_stats){ 0 };
	task->loud = true;
	return new_partial(par, task) < 0 ? -AUX_E_NOMEM : begin_task(par, task);
}

/* What was just decoded goes where it belongs. As push. */
static int hand_over(struct parallel *par, struct chunk_task *task)
{
	int rc;

	if (!par->partials)
		return task->decoder->cur.source ? push_events(par, task) :
						   pack_refill(par, task);
	rc = fill_partial(par, task);
	if (rc >= 0 && quiet_must_repeat(par, task))
		rc = repeat_task(par, task);
	return rc;
}

/* What a thread of the pool runs: begins the task, or goes on where it was put
 * aside, up to its end or until it holds enough. */
static enum work_state work_on_task(void *priv, struct work *w)
{
	struct parallel *par = priv;
	struct chunk_task *task = (struct chunk_task *)w;
	int rc = task->begun ? 0 : begin_task(par, task);

	if (rc < 0)
		return end_work(par, task, rc);
	while ((rc = refill_task(par, task)) > 0) {
		rc = hand_over(par, task);
		if (rc < 0)
			break;
		if (rc > 0 && !w->stop) {
			if (par->partials && (push_plan(par, task) < 0 ||
					      rest_partial(par, task) < 0))
				return end_work(par, task, -AUX_E_NOMEM);
			return WORK_HELD;
		}
		if (w->stop)
			return end_work(par, task, 0);
	}
	return end_work(par, task, rc);
}

/*
 * ---- cutting; all from here on runs in the session's thread ----
 *
 * Which task is cut next, and by work.key which one is worked on first, is the
 * one that the merge needs first: the earliest PSB+ time over all streams.
 */

/* What is known of a stream of Intel PT at a chunk, before its PSB+ was
 * read. */
static struct stream_view initial_view(const struct stream_cursor *cur)
{
	return (struct stream_view){
		.ctx = { .session = cur->s,
			 .stream = cur->stream->idx,
			 .cpu = cur->stream->cpu },
	};
}

/* Do the bytes at p lie in the room? */
static bool is_in(const struct chunk_room *room, const uint8_t *p)
{
	return (uintptr_t)p - (uintptr_t)room->p < room->size;
}

/* What the iterator just found becomes the task. */
static void fill_task(struct stream_cursor *cur, struct chunk_task *task,
		      int step)
{
	struct chunk_iter *it = &cur->it;

	task->kind = step == CHUNK_GAP ? TASK_GAP : TASK_CHUNK;
	task->work.key = cur->tasks.key_ns;
	if (task->kind == TASK_GAP) {
		task->gap = it->gap;
		return;
	}
	task->chunk = it->chunk;
	task->piece = it->piece;
	/* only the first chunk of a segment is joined here (it.lazy); the
	 * others in the worker */
	if (is_in(&it->joined, it->chunk.data)) {
		task->joined = it->joined;
		it->joined = (struct chunk_room){ 0 };
	}
	task->start = it->start;
	task->view = initial_view(cur);
	task->continues = cur->tasks.continues;
	cur->tasks.continues = it->chunk.flags & AUX_CHUNK_HAS_END_IP;
	task->waits = cur->timed && !it->start.has_tsc;
	if (task->waits)
		task->work.state = WORK_HELD;
	else if (cur->timed)
		cur->tasks.key_ns =
			aux_clock_ns(&cur->config.clock, it->start.tsc);
	task->work.key = cur->tasks.key_ns;
}

/* Cuts the next task off a stream and adds it to the pool. */
static int cut_task(struct parallel *par, struct stream_cursor *cur)
{
	int step = chunk_iter_next(&cur->it), rc;
	struct chunk_task *task;

	if (step < 0)
		return step;
	if (step == CHUNK_END) {
		workers_lock(par->ws);
		cur->tasks.ended = true;
		workers_unlock(par->ws);
		return 0;
	}
	task = calloc(1, sizeof(*task));
	if (!task)
		return -AUX_E_NOMEM;
	task->stream = cur;
	task->last = &task->first;
	fill_task(cur, task, step);
	par->n_live++;
	rc = new_partial(par, task);
	workers_lock(par->ws);
	*cur->tasks.last = task;
	cur->tasks.last = &task->next;
	if (rc == 0 && task->kind != TASK_GAP)
		workers_add(par->ws, &task->work);
	workers_unlock(par->ws);
	return rc;
}

/* The stream whose next chunk the merge needs first; NULL: all are cut. */
static struct stream_cursor *next_to_cut(struct session_pass *pass)
{
	struct stream_cursor *best = NULL;

	for (size_t i = 0; i < pass->n; i++) {
		struct stream_cursor *cur = &pass->cursors[i];

		if (!cur->tasks.ended &&
		    (!best || cur->tasks.key_ns < best->tasks.key_ns))
			best = cur;
	}
	return best;
}

/* Cuts as many tasks as may be live; cur gets one in any case. */
static int cut_ahead(struct parallel *par, struct stream_cursor *cur)
{
	int rc = 0;

	while (rc == 0 && !cur->tasks.first && !cur->tasks.ended)
		rc = cut_task(par, cur);
	while (rc == 0 && par->n_live < par->ahead + par->pass->n &&
	       (cur = next_to_cut(par->pass)))
		rc = cut_task(par, cur);
	return rc;
}

/* Tasks for each worker: the one that it works on, and one that is ready when
 * that ends before the session has cut more. */
#define AHEAD 2

/*
 * A sink without partial results is often slower than two workers are: more of them
 * would learn the same code only to wait. There are few tasks at first, so that few
 * workers have any, and one more each time that the session has nothing to do.
 */
#define FIRST_AHEAD 4

static void need_more_tasks(struct parallel *par)
{
	if (par->ahead < par->max_live - par->pass->n)
		par->ahead++;
}

/* ---- batches, in the session ---- */

/* Detaches what the decoder dropped and no live batch can point to. The caller
 * holds the lock, and releases what is returned without it. */
static struct dropped *detach_dropped(struct worker_decoder *wd)
{
	uint64_t oldest = wd->live ? wd->live->serial : UINT64_MAX;
	struct dropped **p = &wd->dropped, *taken = NULL, *d;

	while ((d = *p)) {
		if (oldest < d->serial) {
			p = &d->next;
			continue;
		}
		*p = d->next;
		d->next = taken;
		taken = d;
	}
	return taken;
}

static void free_batch(struct parallel *par, struct batch *b)
{
	struct worker_decoder *wd = b->decoder;
	struct dropped *d;

	workers_lock(par->ws);
	if (keep_spare(par, b->pack.words,
		       b->pack.cap * sizeof(*b->pack.words)))
		b->pack.words = NULL;
	if (keep_spare(par, b->plan.keys,
		       b->plan.cap_keys * sizeof(*b->plan.keys)))
		b->plan.keys = NULL;
	*b->live_prev = b->live_next;
	if (b->live_next)
		b->live_next->live_prev = b->live_prev;
	else
		wd->live_last = b->live_prev;
	d = wd->dropped ? detach_dropped(wd) : NULL;
	workers_unlock(par->ws);
	while (d) {
		struct dropped *next = d->next;

		d->release(d->what);
		free(d);
		d = next;
	}
	free(b->ev);
	free(b->pack.words);
	free(b->plan.keys);
	free(b->plan.gaps);
	free(b);
}

static void free_batches(struct parallel *par, struct chunk_task *task)
{
	while (task->first) {
		struct batch *b = task->first;

		task->first = b->next;
		free_batch(par, b);
	}
	task->last = &task->first;
	task->held = 0;
}

static void free_task(struct parallel *par, struct chunk_task *task)
{
	free_batches(par, task);
	if (task->partial)
		par->pass->ops->partial_free(task->partial);
	free(task->joined.p);
	free(task->times);
	free(task);
	par->n_live--;
}

/* ---- from task to task ---- */

/* The guess of a resume point was wrong (see above): what the worker did is
 * dropped, and the task is done again. */
static int restart_task(struct parallel *par, struct chunk_task *task,
			bool joint)
{
	workers_lock(par->ws);
	atomic_store(&task->work.stop, true);
	while (task->work.state == WORK_RUNNING)
		workers_wait(par->ws, &task->work);
	workers_remove(par->ws, &task->work);
	if (task->decoder) { /* it was put aside */
		task->decoder->next = par->idle;
		par->idle = task->decoder;
		task->decoder = NULL;
	}
	workers_unlock(par->ws);
	free_batches(par, task);
	if (task->partial)
		par->pass->ops->partial_free(task->partial);
	task->partial = NULL;
	if (new_partial(par, task) < 0)
		return -AUX_E_NOMEM;
	task->continues = joint;
	task->begun = task->emitted = task->in_gap = false;
	task->view = initial_view(task->stream);
	task->rc = 0;
	atomic_store(&task->work.stop, false);
	workers_lock(par->ws);
	task->work.state = WORK_IDLE;
	workers_add(par->ws, &task->work);
	workers_unlock(par->ws);
	return 0;
}

/* The merge comes to a chunk: what its task had to guess or to wait for is
 * known. */
static int begin_chunk(struct parallel *par, struct stream_cursor *cur,
		       struct chunk_task *task)
{
	bool joint = cur->continues;
	int rc = 0;

	cur->it.start = task->start;
	if (task->waits) {
		workers_lock(par->ws);
		task->view = cur->m.view;
		task->continues = joint;
		task->waits = false;
		workers_resume(par->ws, &task->work);
		workers_unlock(par->ws);
	} else if (task->continues != joint) {
		rc = restart_task(par, task, joint);
	}
	cursor_begin_dated(cur, &task->start);
	return rc;
}

/* The merge is done with a task: the stream goes on where that ended. */
static int end_task(struct parallel *par, struct stream_cursor *cur)
{
	struct chunk_task *task = cur->tasks.first;
	int rc = task->rc;

	if (task->kind != TASK_GAP) {
		workers_lock(par->ws);
		workers_remove(par->ws, &task->work);
		/* all batches of the stream are used; others get its share */
		par->n_decoders -= task->kind == TASK_STREAM;
		workers_unlock(par->ws);
	}
	if (task->kind == TASK_STREAM)
		cursor_end(&task->decoder->cur);
	if (task->kind == TASK_CHUNK) {
		cursor_release(cur, &task->chunk);
		if (task->emitted)
			cur->in_gap = task->in_gap;
		cur->continues = task->chunk.flags & AUX_CHUNK_HAS_END_IP &&
				 !cur->in_gap;
		cur->m.view = task->view;
		if (!par->pass->by_stint && merge_before(&cur->m.key, &task->key))
			cur->m.key = task->key;
	}
	workers_lock(par->ws);
	cur->tasks.first = task->next;
	if (!cur->tasks.first)
		cur->tasks.last = &cur->tasks.first;
	workers_unlock(par->ws);
	cur->tasks.begun = false;
	free_task(par, task);
	return rc;
}

/* Waits for the next batch of the task; NULL: it is done. Work on it goes
 * before all else while the session waits. */
static struct batch *wait_batch(struct parallel *par, struct chunk_task *task)
{
	struct work *w = &task->work;
	struct batch *b;

	workers_lock(par->ws);
	/* a partial result must not be joined while a worker fills it */
	while (w->state != WORK_DONE &&
	       (!task->first || (par->partials && w->state == WORK_RUNNING))) {
		if (!task->first) {
			workers_resume(par->ws, w);
			need_more_tasks(par);
		}
		workers_wait(par->ws, w);
	}
	b = task->first;
	if (b) {
		task->first = b->next;
		if (!task->first)
			task->last = &task->first;
		task->held -= b->bytes;
		b->next = NULL;
	}
	workers_unlock(par->ws);
	return b;
}

static void add_stats(struct session_stats *to, const struct session_stats *st)
{
	to->n_insns += st->n_insns;
	to->aux_decoded += st->aux_decoded;
	to->n_chunks += st->n_chunks;
	to->n_handed_whole += st->n_handed_whole;
	to->n_handed_part += st->n_handed_part;
	to->n_left += st->n_left;
}

static size_t plan_steps(const struct join_plan *plan)
{
	return plan->n_words ? plan->n_keys / plan->n_words : 0;
}

/* The next events of the batch, in place of those that were used. 0: it has no
 * more. */
static int unpack_batch(struct stream_cursor *cur, struct batch *b)
{
	if (b->unpack.at == b->unpack.end)
		return 0;
	if (!cur->tasks.room)
		cur->tasks.room = malloc(CURSOR_BATCH * sizeof(*cur->m.buf));
	if (!cur->tasks.room)
		return -AUX_E_NOMEM;
	cur->m.buf = cur->tasks.room;
	cur->m.pos = 0;
	cur->m.next_time = SIZE_MAX;
	cur->m.n = unpack_events(&b->unpack, cur->m.buf, CURSOR_BATCH,
				 &cur->m.n_plain, &cur->m.plain_insns);
	return 1;
}

static void use_batch(struct session_pass *pass, struct stream_cursor *cur,
		      struct batch *b)
{
	cur->tasks.batch = b;
	cur->m.buf = b->ev;
	cur->m.n = cur->tasks.first->partial ? plan_steps(&b->plan) : b->n;
	cur->in_chunk = b->in_chunk;
	add_stats(pass->stats, &b->stats);
	if (cur->source && b->n) {
		cur->m.view = b->view;
		cur->m.key = b->key;
	}
}

static void drop_batch(struct parallel *par, struct stream_cursor *cur)
{
	if (cur->tasks.batch)
		free_batch(par, cur->tasks.batch);
	cur->tasks.batch = NULL;
	cur->m.buf = NULL;
	cur->m.pos = cur->m.n = cur->m.n_plain = 0;
	cur->m.next_time = SIZE_MAX;
}

/* The next batch of the stream's first task; 0: it has no more. */
static int next_events(struct parallel *par, struct stream_cursor *cur)
{
	struct chunk_task *task = cur->tasks.first;
	struct batch *b;
	int rc;

	if (task->kind == TASK_GAP) {
		if (cur->tasks.begun)
			return 0;
		cur->tasks.begun = true;
		cur->in_chunk = false;
		cur->m.buf = &task->gap;
		cur->m.n = 1;
		return 1;
	}
	if (!cur->tasks.begun && task->kind == TASK_CHUNK) {
		rc = begin_chunk(par, cur, task);
		if (rc < 0)
			return rc;
	}
	cur->tasks.begun = true;
	b = wait_batch(par, task);
	if (!b)
		return 0;
	use_batch(par->pass, cur, b);
	rc = unpack_batch(cur, b);
	return rc < 0 ? rc : 1;
}

int parallel_refill(struct session_pass *pass, struct stream_cursor *cur)
{
	struct parallel *par = pass->parallel;
	int rc;

	if (cur->tasks.batch) {
		rc = unpack_batch(cur, cur->tasks.batch);
		if (rc)
			return rc;
	}
	drop_batch(par, cur);
	while (!cur->m.n) {
		rc = cut_ahead(par, cur);
		if (rc < 0)
			return rc;
		if (!cur->tasks.first) {
			free(cur->tasks.room);
			cur->tasks.room = NULL;
			cur->ended = true;
			return 0;
		}
		rc = next_events(par, cur);
		if (rc == 0)
			rc = end_task(par, cur);
		else if (rc > 0 && !cur->m.n)
			drop_batch(par, cur);
		if (rc < 0)
			return rc;
	}
	return 1;
}

/* ---- delivering ---- */

/* Does the first task come as a partial result? A GAP between two chunks does
 * not, and reaches the sink as an event. */
static bool has_plan(const struct stream_cursor *cur)
{
	return cur->tasks.first && cur->tasks.first->partial;
}

/*
 * The key of a step. Keys of a stream never go back, but a worker begins
 * a chunk without the key at which the one before ended: the later one holds,
 * as where one thread does it all.
 */
static struct merge_key key_of_step(const struct stream_cursor *cur, size_t i)
{
	const struct join_plan *plan = &cur->tasks.batch->plan;
	const uint64_t *words = &plan->keys[i * plan->n_words];
	struct merge_key key = { .time = words[0] };

	if (plan->n_words > 1) {
		key.number = words[1];
		key.ts = words[2];
	}
	return merge_before(&cur->m.key, &key) ? key : cur->m.key;
}

struct merge_key parallel_next_key(struct stream_cursor *cur)
{
	return has_plan(cur) ? key_of_step(cur, cur->m.pos) :
			       cursor_next_key(cur);
}

/* Does a step come before what another stream has, at limit? */
static bool may_join(const struct stream_cursor *cur, size_t i,
		     const struct merge_key *limit, bool or_at)
{
	struct merge_key at = key_of_step(cur, i);

	return !merge_before(&cur->m.key, &at) ||
	       !merge_must_wait(&at, limit, or_at);
}

/* The first step of pos..end that has to wait. Most often it is near, or there is
 * none: the steps that are looked at get further and further apart, then the
 * place is between two of them. */
static size_t find_wait(const struct stream_cursor *cur, size_t end,
			const struct merge_key *limit, bool or_at)
{
	size_t lo = cur->m.pos, hi, step = 1;

	while (lo < end && may_join(cur, lo, limit, or_at)) {
		lo += step;
		step *= 2;
	}
	hi = lo < end ? lo : end;
	lo = step > 1 ? lo - step / 2 + 1 : lo;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (may_join(cur, mid, limit, or_at))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Joins the stints that may be, up to the next GAP. 1: some; 0: they have to
 * wait. */
static int join_stints(struct session_pass *pass, struct stream_cursor *cur,
		       const struct merge_key *limit, bool or_at)
{
	const struct join_plan *plan = &cur->tasks.batch->plan;
	size_t end = plan->n_gaps_joined < plan->n_gaps ?
			     plan->gaps[plan->n_gaps_joined].step : cur->m.n;
	size_t to = find_wait(cur, end, limit, or_at);
	int rc;

	if (to == cur->m.pos)
		return 0;
	cur->m.key = key_of_step(cur, to - 1);
	cur->m.pos = to;
	rc = pass->ops->partial_join(pass->sink, cur->tasks.first->partial,
				     plan->first_stint +
				     (uint32_t)(to - 1 - plan->n_gaps_joined));
	if (rc < 0)
		return rc;
	pass->enough = rc > 0;
	return 1;
}

/* Reports the GAP that is next. 0: it has to wait. */
static int join_gap(struct session_pass *pass, struct stream_cursor *cur,
		    const struct merge_key *limit, bool or_at)
{
	struct join_plan *plan = &cur->tasks.batch->plan;
	const struct join_gap *gap = &plan->gaps[plan->n_gaps_joined];

	if (!may_join(cur, cur->m.pos, limit, or_at))
		return 0;
	cur->m.key = key_of_step(cur, cur->m.pos++);
	plan->n_gaps_joined++;
	merge_report_gap(pass, &gap->ctx, &gap->ev);
	return 1;
}

int parallel_deliver(struct session_pass *pass, struct stream_cursor *cur,
		     const struct merge_key *limit, bool or_at)
{
	const struct join_plan *plan;
	int rc = 1;

	if (!has_plan(cur))
		return merge_deliver(pass, cur, limit, or_at);
	plan = &cur->tasks.batch->plan;
	while (rc > 0 && cur->m.pos < cur->m.n && !pass->enough) {
		if (plan->n_gaps_joined < plan->n_gaps &&
		    plan->gaps[plan->n_gaps_joined].step == cur->m.pos)
			rc = join_gap(pass, cur, limit, or_at);
		else
			rc = join_stints(pass, cur, limit, or_at);
	}
	return rc < 0 ? rc : 0;
}

/* ---- from open to close ---- */

/* A CoreSight source is one task, with a decoder of its own. */
static int add_stream(struct parallel *par, struct stream_cursor *cur)
{
	struct chunk_task *task = calloc(1, sizeof(*task));
	int rc;

	if (!task)
		return -AUX_E_NOMEM;
	task->stream = cur;
	task->kind = TASK_STREAM;
	task->last = &task->first;
	cur->tasks.first = task;
	cur->tasks.ended = true;
	par->n_live++;
	rc = new_decoder(par, cur->index, &task->decoder);
	if (rc < 0)
		return rc;
	task->decoder->all = par->decoders;
	par->decoders = task->decoder;
	par->n_decoders++;
	return new_partial(par, task);
}

/*
 * Partial results that hold trees share more with a larger chunk, and all cores are to
 * have several.
 */
#define TREE_CHUNK ((uint64_t)512 << 10)
#define TREE_CHUNKS 16	/* for each thread */
#define STINT_CHUNKS 32	/* for all of them */

uint64_t parallel_chunk_min(const struct session_pass *pass, unsigned n_threads)
{
	const struct session *s = pass->s;
	uint64_t n = pass->by_stint ? STINT_CHUNKS : TREE_CHUNKS * n_threads;
	uint64_t min = s->chunks.aux_bytes / n;
	bool trees = pass->by_stint || (pass->needs & SINK_THREAD_ORDER && pass->parallel &&
					pass->parallel->partials);

	if (s->config.chunk_min)
		return s->config.chunk_min;
	if (!trees || min < CHUNK_MIN_DEFAULT)
		return CHUNK_MIN_DEFAULT;
	return min < TREE_CHUNK ? min : TREE_CHUNK;
}

static int open_cursors(struct session_pass *pass, uint64_t chunk_min)
{
	struct parallel *par = pass->parallel;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < pass->n; i++) {
		struct stream_cursor *cur = &pass->cursors[i];

		cursor_setup(pass->s, cur, cur->index);
		cur->it.lazy = true;
		cur->it.chunk_min = chunk_min;
		cur->tasks.last = &cur->tasks.first;
		if (cur->source)
			rc = add_stream(par, cur);
	}
	return rc;
}

/* Sources of CoreSight, whose stints are not found. */
static bool has_sources(const struct session_pass *pass)
{
	for (size_t i = 0; i < pass->n; i++)
		if (pass->s->streams[pass->cursors[i].index].source)
			return true;
	return false;
}

/* Only making a partial result tells. */
bool parallel_takes_partials(const struct session_pass *pass)
{
	void *partial;

	if (!pass->ops->partial_new ||
	    (pass->needs & SINK_THREAD_ORDER && pass->n > 1 && has_sources(pass)) ||
	    pass->ops->partial_new(&partial, pass->sink) < 0)
		return false;
	pass->ops->partial_free(partial);
	return true;
}

int parallel_open(struct session_pass *pass, unsigned n_threads)
{
	struct parallel *par = calloc(1, sizeof(*par));
	uint64_t max = session_memory(pass->s);
	int rc;

	pass->parallel = par;
	if (!par)
		return -AUX_E_NOMEM;
	par->pass = pass;
	par->partials = parallel_takes_partials(pass);
	par->quiet = pass->untimed;
	par->ordered = (pass->n > 1 || pass->by_stint) && !(par->partials &&
					pass->needs & SINK_ANY_STREAM_ORDER);
	par->max_live = AHEAD * n_threads + pass->n;
	par->ahead = AHEAD * n_threads;
	if (!par->partials && par->ahead > FIRST_AHEAD)
		par->ahead = FIRST_AHEAD;
	par->max_held = max / 4 / par->max_live;
	par->decoder_memory = max - max / 4;
	rc = open_cursors(pass, parallel_chunk_min(pass, n_threads));
	if (rc == 0)
		rc = workers_new(&par->ws, n_threads - !par->partials,
				 work_on_task, par);
	if (rc < 0)
		return rc;
	workers_lock(par->ws);
	for (size_t i = 0; i < pass->n; i++)
		if (pass->cursors[i].tasks.first)
			workers_add(par->ws,
				    &pass->cursors[i].tasks.first->work);
	workers_unlock(par->ws);
	return 0;
}

void parallel_close(struct session_pass *pass)
{
	struct parallel *par = pass->parallel;

	if (!par)
		return;
	workers_stop(par->ws);
	for (size_t i = 0; i < pass->n; i++) {
		struct stream_cursor *cur = &pass->cursors[i];

		drop_batch(par, cur);
		while (cur->tasks.first) {
			struct chunk_task *task = cur->tasks.first;

			cur->tasks.first = task->next;
			free_task(par, task);
		}
		free(cur->tasks.room);
		cur->m.buf = NULL;
		cursor_close(cur);
	}
	while (par->decoders) {
		struct worker_decoder *wd = par->decoders;

		par->decoders = wd->all;
		free_decoder(wd);
	}
	workers_free(par->ws);
	while (par->spare) {
		struct spare *m = par->spare;

		par->spare = m->next;
		free(m);
	}
	free(par);
	pass->parallel = NULL;
}
