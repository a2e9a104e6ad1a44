/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cs_cursor: the flow of one CoreSight source, whose timestamps follow the
 * instructions that they date.
 *
 * So there are two views. The decoder's (cs.ahead) is after the last event in
 * the buffer; the merge's (m.view) is at the next event to deliver. After a
 * break (TRACE_ON, CONTEXT: events after which an unknown amount of time may
 * have passed) the cursor decodes on up to the next TIME, and what is between
 * them gets that later time. A decoder that cannot tell the time before it asks
 * for code may have walked in code that had been replaced by then (exec,
 * dlopen); that is found and cut (drop_stale).
 */
#include <stdlib.h>
#include <string.h>

#include "decode/lib/session/impl.h"

/*
 * Who runs, and what is mapped, at a point of a stream; Intel PT's too.
 *
 * With times of the clock, a TIME says when it is, and the thread is the one
 * that the side-band says ran then. Without, it is the AUX record that the
 * chunk came with: its time, its thread. A CONTEXT in the trace goes before
 * both, for it is exact.
 */

#define SWITCHES_MAX 256 /* looked at for the start of a thread */

/* The time for which the side-band is asked; UINT64_MAX: the end of the
 * recording. */
static uint64_t time_of_lookup(const struct stream_cursor *cur,
			       const struct stream_view *v)
{
	uint64_t since = v->has_context ? v->context_ns : 0;

	if (cur->timed && (!cur->source || v->dated || since))
		return since > v->ctx.time_ns ? since : v->ctx.time_ns;
	return v->record_ns ? v->record_ns : UINT64_MAX;
}

/* The thread that the AUX record names. False: none, or it ran on another CPU
 * (the record of a trace per thread). */
static bool task_of_record(const struct stream_view *v, struct who *w)
{
	const struct aux_mark *m = v->mark;

	if (!m || !m->tid || m->tid == UINT32_MAX)
		return false;
	if (v->ctx.cpu >= 0 && m->cpu != UINT32_MAX &&
	    m->cpu != (uint32_t)v->ctx.cpu)
		return false;
	*w = (struct who){ .pid = m->pid, .tid = m->tid, .until = UINT64_MAX };
	return true;
}

/* The thread by the side-band: of a stream per thread its own, else the one on
 * the CPU. */
static struct who task_of_sideband(const struct stream_cursor *cur,
				   const struct stream_view *v, uint64_t time)
{
	const struct timeline *tl = cur->s->timeline;
	const struct stream *st = cur->stream;
	struct who w;

	/* A stream per CPU may also name the thread with which the
	 * recording began: that says nothing. */
	if (st->tid >= 0 && st->cpu < 0) {
		w = timeline_stream(tl, st->queue, time);
		if (w.tid == UINT32_MAX)
			w.tid = (uint32_t)st->tid;
		w.pid = timeline_pid(tl, w.tid, time);
		if (w.pid == UINT32_MAX && v->mark && v->mark->tid == w.tid)
			w.pid = v->mark->pid;
		return w;
	}
	if (cur->source && !cur->timed && task_of_record(v, &w))
		return w;
	w = timeline_who(tl, (uint32_t)v->ctx.cpu, time);
	if (cur->source && w.tid == UINT32_MAX)
		task_of_record(v, &w);
	return w;
}

/* The thread that the trace names. False: the side-band does not know its
 * process, and knows who ran on the CPU. */
static bool task_of_trace(const struct stream_cursor *cur,
			  const struct stream_view *v, uint64_t time,
			  struct who *w)
{
	const struct timeline *tl = cur->s->timeline;
	uint32_t tid = v->context;
	const struct space *space;

	*w = (struct who){ .pid = tid ? timeline_pid(tl, tid, time) : 0,
			   .tid = tid,
			   .until = UINT64_MAX };
	if (w->pid == UINT32_MAX) {
		space = timeline_space(tl, tid, time);
		w->until = space->until;
		if (space->n_maps)
			w->pid = tid;
	}
	return w->pid != UINT32_MAX || cur->stream->cpu >= 0;
}

void view_find_task(struct stream_cursor *cur, struct stream_view *v)
{
	uint64_t time = time_of_lookup(cur, v);
	uint64_t until;
	struct who w;

	if (!v->has_context || !task_of_trace(cur, v, time, &w))
		w = task_of_sideband(cur, v, time);
	/* its name is a part of what a sink asks by the time of the flow */
	until = timeline_thread_until(cur->s->timeline, w.tid, time);
	if (until < w.until)
		w.until = until;
	v->ctx.tid = w.tid;
	v->ctx.pid = w.pid;
	v->ctx.space = codeview_space(cur->s->codeview, cur->s->timeline,
				      v->ctx.pid, time);
	if (v->ctx.space->until < w.until)
		w.until = v->ctx.space->until;
	v->until = w.until;
	if (cur->source && v != &cur->cs.ahead)
		return;
	cur->host.generation = v->ctx.space->id;
	if (!cur->timed)
		cursor_set_horizon(cur, UINT64_MAX);
	else if (cur->source && !v->dated)
		cursor_set_horizon(cur, 0);
	else
		cursor_set_horizon(cur, clock_horizon(&cur->config.clock,
						      w.until));
}

/* Looks up who runs only where that may have changed: outside [time, until). */
void view_handle_time(struct stream_cursor *cur, struct stream_view *v,
		      const struct aux_flow *ev)
{
	bool has_tsc = ev->flags & AUX_FLOW_HAS_TSC;
	bool back = ev->time.tsc < v->ctx.tsc, first = !v->dated;

	v->ctx.tsc = has_tsc ? ev->time.tsc : 0;
	if (cur->source && (!cur->timed || !ev->time.ns))
		return;
	v->ctx.time_ns = ev->time.ns;
	v->dated = true;
	if (ev->time.ns < v->context_ns) { /* it was another time */
		v->context_ns = 0;
		back = true;
	}
	if (!has_tsc || back ||
	    (cur->source ? first || ev->time.ns >= v->until
			 : ev->time.tsc >= cur->horizon_tsc))
		view_find_task(cur, v);
}

/*
 * When the thread that v.context names began to run. The last TIME is of what
 * ran before it, for a timestamp follows the first instruction that it dates:
 * asked for that time, the side-band would give the memory of the thread
 * before. The thread runs since the side-band next puts it on this CPU, or
 * since its process exists. 0: neither is known.
 */
static uint64_t find_start(const struct stream_cursor *cur,
			   const struct stream_view *v)
{
	const struct timeline *tl = cur->s->timeline;
	uint64_t t = v->ctx.time_ns, end = v->record_ns;
	struct who w = timeline_who(tl, (uint32_t)v->ctx.cpu, t);
	const struct space *space;
	uint32_t pid;
	bool found;

	for (unsigned i = 0;
	     i < SWITCHES_MAX && w.tid != v->context && w.until <= end; i++) {
		t = w.until;
		w = timeline_who(tl, (uint32_t)v->ctx.cpu, t);
	}
	found = w.tid == v->context;
	if (!found)
		t = v->ctx.time_ns;
	pid = timeline_pid(tl, v->context, t);
	space = timeline_space(tl, pid == UINT32_MAX ? v->context : pid, t);
	if (!space->n_maps && space->until <= end)
		return space->until;
	return found ? t : 0;
}

/* Intel PT's CONTEXTs never come here: a CR3 names no thread. */
void view_handle_context(struct stream_cursor *cur, struct stream_view *v,
			 const struct aux_flow *ev)
{
	bool vmid = cur->config.etm.pid_in_vmid;
	uint32_t tid;

	if (!cur->host.context_switches ||
	    !(ev->flags & (vmid ? AUX_FLOW_HAS_VMID : AUX_FLOW_HAS_CID)))
		return;
	tid = (uint32_t)(vmid ? ev->context.vmcs : ev->context.cr3);
	if (v->has_context && v->context == tid)
		return;
	v->has_context = true;
	v->context = tid;
	v->context_ns = cur->timed && tid ? find_start(cur, v) : 0;
	view_find_task(cur, v);
}

/* A chunk or gap of one source: it begins an AUX record, or goes on in one. */
static void begin_record(struct stream_cursor *cur, struct stream_view *v)
{
	const struct queue *q = cur->it.q;
	const struct segment *segment = cur->it.now;
	const struct aux_mark *m =
		segment->mark ? &q->marks[segment->mark - 1] : NULL;
	uint64_t before = segment->mark > 1 ? m[-1].time : 0;

	v->has_context = v->dated = false;
	v->segment = segment;
	v->mark = m;
	if (m && m->time)
		v->record_ns = m->time;
	/* the record began after the one before it ended */
	if (cur->timed && before > v->ctx.time_ns)
		v->ctx.time_ns = before;
	view_find_task(cur, v);
}

static const struct aux_flow *first_range(const struct aux_flow *ev)
{
	return ev->kind == AUX_FLOW_PATH ? ev->path.path->steps[0]->ranges : ev;
}

static const struct aux_flow *last_range(const struct aux_flow *ev)
{
	const struct aux_path *p = ev->path.path;
	const struct aux_step *step;

	if (ev->kind != AUX_FLOW_PATH)
		return ev;
	step = p->steps[p->n_steps - 1];
	return &step->ranges[step->n_ranges - 1];
}

/* Contract in impl.h. Of Intel PT none is: it has a TIME before what it
 * dates. */
bool cs_is_break(const struct stream_cursor *cur, const struct aux_flow *ev)
{
	return cur->source && cur->timed &&
	       (ev->kind == AUX_FLOW_TRACE_ON || ev->kind == AUX_FLOW_CONTEXT);
}

/* The first TIME in the buffer from pos on; n: there is none. Kept in
 * next_time, or a buffer with many breaks would be searched again for each. */
static size_t find_time(struct stream_cursor *cur)
{
	if (cur->m.next_time != SIZE_MAX && cur->m.next_time >= cur->m.pos)
		return cur->m.next_time;
	for (cur->m.next_time = cur->m.pos; cur->m.next_time < cur->m.n;
	     cur->m.next_time++)
		if (cur->m.buf[cur->m.next_time].kind == AUX_FLOW_TIME)
			break;
	return cur->m.next_time;
}

/* A break without a TIME after it is at the time of the record if the chunk
 * ended; if the decoder goes on, a TIME may follow in the next batch. */
struct merge_key cs_break_key(struct stream_cursor *cur)
{
	struct merge_key at = cur->m.key;
	size_t i = find_time(cur);
	uint64_t t = 0;

	if (i < cur->m.n)
		t = cur->m.buf[i].time.ns;
	else if (!cur->in_chunk && cur->m.view.mark)
		t = cur->m.view.mark->time;
	if (t > at.time)
		at.time = t;
	return at;
}

/* Contract in impl.h. The record's time is that of its end, so with times of
 * the clock the key is the end of the record before (begin_record). */
void cs_begin_chunk(struct stream_cursor *cur)
{
	const struct aux_mark *m;

	begin_record(cur, &cur->m.view);
	cur->cs.ahead = cur->m.view;
	view_find_task(cur, &cur->cs.ahead);
	cur->cs.begun = cur->cs.stale = false;
	cur->cs.undated = true;
	m = cur->m.view.mark;
	if (cur->timed) {
		if (cur->m.view.ctx.time_ns > cur->m.key.time)
			cur->m.key.time = cur->m.view.ctx.time_ns;
		return;
	}
	if (cur->m.view.record_ns > cur->m.key.time)
		cur->m.key.time = cur->m.view.record_ns;
	if (m)
		cur->m.key.number = m->number;
	cur->m.key.ts = 0;
}

/* Where tracing last resumed at another address than where it had stopped,
 * between buf[i] and the TIME before that; i: nowhere. */
static size_t find_jump(const struct stream_cursor *cur, size_t i)
{
	size_t jump = i;
	uint64_t end = 0;

	while (i && cur->m.buf[i - 1].kind != AUX_FLOW_TIME)
		i--;
	for (; cur->m.buf[i].kind != AUX_FLOW_TIME; i++) {
		const struct aux_flow *ev = &cur->m.buf[i];

		if (flow_is_plain(ev)) {
			ev = last_range(ev);
			end = ev->range.last + (ev->flags & AUX_FLOW_SIZE_MASK);
		}
		ev = &cur->m.buf[i];
		if (ev->kind == AUX_FLOW_TRACE_ON &&
		    (!(ev->flags & AUX_FLOW_HAS_IP) || ev->trace.ip != end))
			jump = i;
	}
	return jump;
}

/* Are the bytes at ip the same memory in both spaces? Unknown counts as
 * same. */
static bool same_code(struct stream_cursor *cur, const struct space *a,
		      const struct space *b, uint64_t ip)
{
	struct aux_code in_a, in_b;

	return codeview_code(cur->s->codeview, a, ip, &in_a) ||
	       codeview_code(cur->s->codeview, b, ip, &in_b) ||
	       in_a.bytes + (ip - in_a.start) == in_b.bytes + (ip - in_b.start);
}

/*
 * buf[i] is a TIME by which the process has other code (an exec) at the
 * addresses where it has run since a jump. The decoder walked in the old code
 * and is lost: what ran from the jump to where tracing next resumes is unknown,
 * and becomes a GAP. Returns where the TIME is then.
 */
static size_t drop_stale(struct stream_cursor *cur, size_t i,
			 const struct space *old)
{
	size_t jump = find_jump(cur, i), k = jump;
	struct aux_flow *gap;
	uint64_t ip;

	while (k < i && !flow_is_plain(&cur->m.buf[k]))
		k++;
	if (k >= i)
		return i;
	gap = &cur->m.buf[k];
	ip = first_range(gap)->range.first;
	if (same_code(cur, old, cur->cs.ahead.ctx.space, ip))
		return i;
	*gap = (struct aux_flow){ .offset = gap->offset,
				  .kind = AUX_FLOW_GAP,
				  .what = AUX_GAP_DESYNC,
				  .flags = AUX_FLOW_HAS_IP,
				  .gap = { .ip = ip } };
	memmove(gap + 1, &cur->m.buf[i], (cur->m.n - i) * sizeof(*gap));
	cur->m.n -= i - k - 1;
	cur->cs.stale = true;
	return k + 1;
}

/* The RANGEs of a PATH, at its offset; returns how many. */
static uint32_t write_ranges(struct aux_flow *out, const struct aux_flow *ev)
{
	const struct aux_path *p = ev->path.path;
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n_steps; i++) {
		for (uint32_t k = 0; k < p->steps[i]->n_ranges; k++) {
			out[n] = p->steps[i]->ranges[k];
			out[n++].offset = ev->offset;
		}
	}
	return n;
}

/* A PATH that the decoder does not keep is gone when it goes on, and these
 * events may have to wait for that: RANGEs in its place. */
int cursor_expand_paths(struct stream_cursor *cur, size_t from)
{
	size_t more = 0, n = 0, to;
	struct aux_flow *buf;

	if (!cur->host.paths)
		return 0;
	for (size_t i = from; i < cur->m.n; i++) {
		const struct aux_flow *ev = &cur->m.buf[i];

		if (ev->kind == AUX_FLOW_PATH && !ev->path.path->kept) {
			more += ev->path.path->n_ranges - 1;
			n++;
		}
	}
	if (!n)
		return 0;
	if (cur->m.n + more > cur->m.cap) {
		buf = reallocarray(cur->m.buf, cur->m.n + more, sizeof(*buf));
		if (!buf)
			return -AUX_E_NOMEM;
		cur->m.buf = buf;
		cur->m.cap = cur->m.n + more;
	}
	/* moves all to the end, then expands from there in place */
	memmove(&cur->m.buf[from + more], &cur->m.buf[from],
		(cur->m.n - from) * sizeof(*cur->m.buf));
	to = from;
	cur->m.n += more;
	for (size_t i = from + more; i < cur->m.n; i++) {
		struct aux_flow ev = cur->m.buf[i];

		if (ev.kind == AUX_FLOW_PATH && !ev.path.path->kept)
			to += write_ranges(&cur->m.buf[to], &ev);
		else
			cur->m.buf[to++] = ev;
	}
	return 0;
}

/* Turns offsets in the source's own bytes into places in the stream with its
 * frames, from buf[i] on up to the first event that needs a look; n: none
 * does. */
static size_t place(struct stream_cursor *cur, size_t i,
		    struct cs_frame_run *last)
{
	struct aux_flow *ev = &cur->m.buf[i], *end = cur->m.buf + cur->m.n;
	struct cs_frame_run run = *last;
	bool stale = cur->cs.stale;

	for (; ev < end; ev++) {
		if (ev->offset - run.pos >= run.len)
			run = chunk_iter_run(&cur->it, ev->offset);
		ev->offset = cs_frame_at(&run, (size_t)ev->offset);
		if (stale || !flow_is_plain(ev))
			break;
	}
	*last = run;
	return (size_t)(ev - cur->m.buf);
}

/*
 * Contract in impl.h. A chunk may have to begin inside a packet; the decoder
 * reports that as NO_SYNC, which is no loss if it then found a sync point in
 * the chunk.
 */
int cs_handle_new(struct stream_cursor *cur, size_t from)
{
	struct cs_frame_run run = { .len = 0 };
	const struct space *old;
	struct aux_flow *ev = &cur->m.buf[from];

	if (cur->m.n > from && !cur->cs.begun && cur->it.anywhere &&
	    ev->kind == AUX_FLOW_GAP && ev->what == AUX_GAP_NO_SYNC &&
	    ev->gap.detail < cur->it.chunk.len)
		memmove(ev, ev + 1, (--cur->m.n - from) * sizeof(*ev));
	else
		cur->cs.begun |= cur->m.n > from;
	for (size_t i = from; (i = place(cur, i, &run)) < cur->m.n; i++) {
		ev = &cur->m.buf[i];
		cur->cs.stale &= ev->kind != AUX_FLOW_TRACE_ON;
		if (cur->cs.stale &&
		    (flow_is_plain(ev) || ev->kind == AUX_FLOW_ASYNC)) {
			memmove(ev, ev + 1, (--cur->m.n - i--) * sizeof(*ev));
			continue;
		}
		if (ev->kind == AUX_FLOW_CONTEXT)
			view_handle_context(cur, &cur->cs.ahead, ev);
		cur->cs.undated |= cs_is_break(cur, ev);
		if (ev->kind != AUX_FLOW_TIME)
			continue;
		old = cur->cs.ahead.ctx.space;
		view_handle_time(cur, &cur->cs.ahead, ev);
		if (cur->cs.undated && cur->timed &&
		    old != cur->cs.ahead.ctx.space &&
		    old->pid == cur->cs.ahead.ctx.space->pid)
			i = drop_stale(cur, i, old);
		cur->cs.undated = false;
	}
	return cur->timed && cur->host.paths ? cursor_expand_paths(cur, from)
					     : 0;
}
