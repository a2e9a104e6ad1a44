/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session: the flow of one CoreSight source, whose time is told late.
 *
 * A decoder is ahead of the sink: what is known where it is, is not yet so for the
 * events that wait in the buffer. Behind a break a feed decodes on up to the next
 * TIME, and gives what is before it the later time. A decoder that cannot tell it
 * before the code is asked for may have walked in the old code then.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/lib/session/impl.h"

/*
 * session: who runs, and what is mapped, at a point of a stream.
 *
 * Where the trace has times of the clock, a TIME says when it is, and who runs is
 * what the records say of that time. Else it is the AUX record that a chunk came
 * with: its time, its thread. A trace that tells context ids is asked first.
 */

#define SWITCHES_MAX 256

/* The time for which the records are asked. */
static uint64_t time_to_ask(const struct feed *f, const struct feed_view *v)
{
	uint64_t since = v->has_context ? v->context_ns : 0;

	if (f->timed && (!f->source || v->dated || since))
		return since > v->ctx.time_ns ? since : v->ctx.time_ns;
	return v->record_ns ? v->record_ns : UINT64_MAX;
}

/* The thread that the AUX record names, if it ran where the trace was made. */
static bool ask_record(const struct feed_view *v, struct who *w)
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

static struct who ask_records(const struct feed *f, const struct feed_view *v,
			      uint64_t time)
{
	const struct timeline *tl = f->s->timeline;
	const struct stream *st = f->stream;
	struct who w;

	/* A CPU's stream may also name the thread the recording began with. */
	if (st->tid >= 0 && st->cpu < 0) {
		w = timeline_stream(tl, st->queue, time);
		if (w.tid == UINT32_MAX)
			w.tid = (uint32_t)st->tid;
		w.pid = timeline_pid(tl, w.tid, time);
		if (w.pid == UINT32_MAX && v->mark && v->mark->tid == w.tid)
			w.pid = v->mark->pid;
		return w;
	}
	if (f->source && !f->timed && ask_record(v, &w))
		return w;
	w = timeline_who(tl, (uint32_t)v->ctx.cpu, time);
	if (f->source && w.tid == UINT32_MAX)
		ask_record(v, &w);
	return w;
}

/* The thread that the trace names. False: the records do not know it, and have
 * one to offer. */
static bool ask_trace(const struct feed *f, const struct feed_view *v,
		      uint64_t time, struct who *w)
{
	const struct timeline *tl = f->s->timeline;
	uint32_t tid = v->context;
	const struct space *space;

	*w = (struct who){ .pid = tid ? timeline_pid(tl, tid, time) : 0,
			   .tid = tid, .until = UINT64_MAX };
	if (w->pid == UINT32_MAX) {
		space = timeline_space(tl, tid, time);
		w->until = space->until;
		if (space->n_maps)
			w->pid = tid;
	}
	return w->pid != UINT32_MAX || f->stream->cpu >= 0;
}

void session_find_who(struct feed *f, struct feed_view *v)
{
	uint64_t time = time_to_ask(f, v);
	struct who w;

	if (!v->has_context || !ask_trace(f, v, time, &w))
		w = ask_records(f, v, time);
	v->ctx.tid = w.tid;
	v->ctx.pid = w.pid;
	v->ctx.space = codeview_space(f->s->codeview, f->s->timeline,
				      v->ctx.pid, time);
	if (v->ctx.space->until < w.until)
		w.until = v->ctx.space->until;
	v->until = w.until;
	if (f->source && v != &f->ahead)
		return;
	f->host.generation = v->ctx.space->id;
	if (!f->timed)
		f->host.horizon_tsc = UINT64_MAX;
	else if (f->source && !v->dated)
		f->host.horizon_tsc = 0;
	else
		f->host.horizon_tsc = clock_horizon(&f->config.clock, w.until);
}

void session_take_time(struct feed *f, struct feed_view *v,
		       const struct aux_flow *ev)
{
	bool has_tsc = ev->flags & AUX_FLOW_HAS_TSC;
	bool back = ev->time.tsc < v->ctx.tsc, first = !v->dated;

	v->ctx.tsc = has_tsc ? ev->time.tsc : 0;
	if (f->source && (!f->timed || !ev->time.ns))
		return;
	v->ctx.time_ns = ev->time.ns;
	v->dated = true;
	if (ev->time.ns < v->context_ns) {	/* it was another time */
		v->context_ns = 0;
		back = true;
	}
	if (!has_tsc || back || (f->source ? first || ev->time.ns >= v->until :
				 ev->time.tsc >= f->host.horizon_tsc))
		session_find_who(f, v);
}

/*
 * A timestamp comes behind the first instruction that it is of, so when a thread
 * is named the last one is of what ran before. The thread runs since the records
 * next put it on this CPU, or since there is its process. 0: they do not say.
 */
static uint64_t find_start(const struct feed *f, const struct feed_view *v)
{
	const struct timeline *tl = f->s->timeline;
	uint64_t t = v->ctx.time_ns, end = v->record_ns;
	struct who w = timeline_who(tl, (uint32_t)v->ctx.cpu, t);
	const struct space *space;
	uint32_t pid;
	bool found;

	for (unsigned i = 0; i < SWITCHES_MAX && w.tid != v->context &&
			     w.until <= end; i++) {
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

void session_take_context(struct feed *f, struct feed_view *v,
			  const struct aux_flow *ev)
{
	bool vmid = f->config.etm.pid_in_vmid;
	uint32_t tid;

	if (!f->host.context_switches ||
	    !(ev->flags & (vmid ? AUX_FLOW_HAS_VMID : AUX_FLOW_HAS_CID)))
		return;
	tid = (uint32_t)(vmid ? ev->context.vmcs : ev->context.cr3);
	if (v->has_context && v->context == tid)
		return;
	v->has_context = true;
	v->context = tid;
	v->context_ns = f->timed && tid ? find_start(f, v) : 0;
	session_find_who(f, v);
}

/* A chunk or gap of one source: it begins a record, or goes on in one. */
static void session_begin_record(struct feed *f, struct feed_view *v)
{
	const struct queue *q = f->it.q;
	const struct run *run = f->it.now;
	const struct aux_mark *m = run->mark ? &q->marks[run->mark - 1] : NULL;
	uint64_t before = run->mark > 1 ? m[-1].time : 0;

	v->has_context = v->dated = false;
	v->run = run;
	v->mark = m;
	if (m && m->time)
		v->record_ns = m->time;
	/* it began behind the one before */
	if (f->timed && before > v->ctx.time_ns)
		v->ctx.time_ns = before;
	session_find_who(f, v);
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

/* Before its next TIME, time may have passed. */
bool session_is_break(const struct feed *f, const struct aux_flow *ev)
{
	return f->source && f->timed && (ev->kind == AUX_FLOW_TRACE_ON ||
					 ev->kind == AUX_FLOW_CONTEXT);
}

/* The first TIME in the buffer from pos on; n: none. */
static size_t find_time(struct feed *f)
{
	if (f->next_time != SIZE_MAX && f->next_time >= f->pos)
		return f->next_time;
	for (f->next_time = f->pos; f->next_time < f->n; f->next_time++)
		if (f->buf[f->next_time].kind == AUX_FLOW_TIME)
			break;
	return f->next_time;
}

/* Where a break is: at the time that is told next; at the record's, if none is. */
struct feed_place session_place_of_break(struct feed *f)
{
	struct feed_place at = f->at;
	size_t i = find_time(f);
	uint64_t t = 0;

	if (i < f->n)
		t = f->buf[i].time.ns;
	else if (!f->in_chunk && f->v.mark)
		t = f->v.mark->time;
	if (t > at.time)
		at.time = t;
	return at;
}

/* A chunk of one source, or a gap in it. The buffer is empty. */
void session_begin_source(struct feed *f)
{
	const struct aux_mark *m;

	session_begin_record(f, &f->v);
	f->ahead = f->v;
	session_find_who(f, &f->ahead);
	f->begun = f->stale = false;
	f->open = true;
	m = f->v.mark;
	if (f->timed) {
		if (f->v.ctx.time_ns > f->at.time)
			f->at.time = f->v.ctx.time_ns;
		return;
	}
	if (f->v.record_ns > f->at.time)
		f->at.time = f->v.record_ns;
	if (m)
		f->at.number = m->number;
	f->at.ts = 0;
}

/* Where tracing last went on elsewhere than it had ended, before buf[i] and behind
 * the TIME before that; i: nowhere. */
static size_t find_jump(const struct feed *f, size_t i)
{
	size_t jump = i;
	uint64_t end = 0;

	while (i && f->buf[i - 1].kind != AUX_FLOW_TIME)
		i--;
	for (; f->buf[i].kind != AUX_FLOW_TIME; i++) {
		const struct aux_flow *ev = &f->buf[i];

		if (session_is_plain(ev)) {
			ev = last_range(ev);
			end = ev->range.last + (ev->flags & AUX_FLOW_SIZE_MASK);
		}
		ev = &f->buf[i];
		if (ev->kind == AUX_FLOW_TRACE_ON &&
		    (!(ev->flags & AUX_FLOW_HAS_IP) || ev->trace.ip != end))
			jump = i;
	}
	return jump;
}

static bool same_code(struct feed *f, const struct space *a,
		      const struct space *b, uint64_t ip)
{
	struct aux_code in_a, in_b;

	return codeview_code(f->s->codeview, a, ip, &in_a) ||
	       codeview_code(f->s->codeview, b, ip, &in_b) ||
	       in_a.bytes + (ip - in_a.start) == in_b.bytes + (ip - in_b.start);
}

/*
 * buf[i] is a TIME by which the process has other code (an exec) where it ran
 * since a jump: the decoder had the old one, and is lost. Nobody knows what ran
 * from there to where tracing next goes on.
 */
static size_t drop_stale(struct feed *f, size_t i, const struct space *old)
{
	size_t jump = find_jump(f, i), k = jump;
	struct aux_flow *gap;
	uint64_t ip;

	while (k < i && !session_is_plain(&f->buf[k]))
		k++;
	if (k >= i)
		return i;
	gap = &f->buf[k];
	ip = first_range(gap)->range.first;
	if (same_code(f, old, f->ahead.ctx.space, ip))
		return i;
	*gap = (struct aux_flow){ .offset = gap->offset, .kind = AUX_FLOW_GAP,
				  .what = AUX_GAP_DESYNC,
				  .flags = AUX_FLOW_HAS_IP,
				  .gap = { .ip = ip } };
	memmove(gap + 1, &f->buf[i], (f->n - i) * sizeof(*gap));
	f->n -= i - k - 1;
	f->stale = true;
	return k + 1;
}

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

/* A path that is not kept is gone when the decoder goes on, and these events may
 * have to wait for that: RANGEs in its place. */
int session_expand_paths(struct feed *f, size_t from)
{
	size_t more = 0, n = 0, to;
	struct aux_flow *buf;

	if (!f->host.paths)
		return 0;
	for (size_t i = from; i < f->n; i++) {
		const struct aux_flow *ev = &f->buf[i];

		if (ev->kind == AUX_FLOW_PATH && !ev->path.path->kept) {
			more += ev->path.path->n_ranges - 1;
			n++;
		}
	}
	if (!n)
		return 0;
	if (f->n + more > f->cap) {
		buf = reallocarray(f->buf, f->n + more, sizeof(*buf));
		if (!buf)
			return -AUX_E_NOMEM;
		f->buf = buf;
		f->cap = f->n + more;
	}
	/* to the end, and from there back in place */
	memmove(&f->buf[from + more], &f->buf[from],
		(f->n - from) * sizeof(*f->buf));
	to = from;
	f->n += more;
	for (size_t i = from + more; i < f->n; i++) {
		struct aux_flow ev = f->buf[i];

		if (ev.kind == AUX_FLOW_PATH && !ev.path.path->kept)
			to += write_ranges(&f->buf[to], &ev);
		else
			f->buf[to++] = ev;
	}
	return 0;
}

/* Places in the stream, from buf[i] on up to the first event that is to be looked at;
 * n: none is. */
static size_t place(struct feed *f, size_t i, struct etmframe_run *last)
{
	struct aux_flow *ev = &f->buf[i], *end = f->buf + f->n;
	struct etmframe_run run = *last;
	bool stale = f->stale;

	for (; ev < end; ev++) {
		if (ev->offset - run.pos >= run.len)
			run = chunk_iter_run(&f->it, ev->offset);
		ev->offset = etmframe_at(&run, (size_t)ev->offset);
		if (stale || !session_is_plain(ev))
			break;
	}
	*last = run;
	return (size_t)(ev - f->buf);
}

/*
 * Events of a source, new in the buffer: their place in the stream, and what they
 * mean to the decoder. That a chunk had to begin inside of a packet is no loss, if
 * it then had a sync point.
 */
int session_take_new(struct feed *f, size_t from)
{
	struct etmframe_run run = { .len = 0 };
	const struct space *old;
	struct aux_flow *ev = &f->buf[from];

	if (f->n > from && !f->begun && f->it.anywhere &&
	    ev->kind == AUX_FLOW_GAP && ev->what == AUX_GAP_NO_SYNC &&
	    ev->gap.detail < f->it.chunk.len)
		memmove(ev, ev + 1, (--f->n - from) * sizeof(*ev));
	else
		f->begun |= f->n > from;
	for (size_t i = from; (i = place(f, i, &run)) < f->n; i++) {
		ev = &f->buf[i];
		f->stale &= ev->kind != AUX_FLOW_TRACE_ON;
		if (f->stale && (session_is_plain(ev) ||
				 ev->kind == AUX_FLOW_ASYNC)) {
			memmove(ev, ev + 1, (--f->n - i--) * sizeof(*ev));
			continue;
		}
		if (ev->kind == AUX_FLOW_CONTEXT)
			session_take_context(f, &f->ahead, ev);
		f->open |= session_is_break(f, ev);
		if (ev->kind != AUX_FLOW_TIME)
			continue;
		old = f->ahead.ctx.space;
		session_take_time(f, &f->ahead, ev);
		if (f->open && f->timed && old != f->ahead.ctx.space &&
		    old->pid == f->ahead.ctx.space->pid)
			i = drop_stale(f, i, old);
		f->open = false;
	}
	return f->timed && f->host.paths ? session_expand_paths(f, from) : 0;
}
