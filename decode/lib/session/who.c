/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session: who runs, and what is mapped, at a point of a stream.
 *
 * Where the trace has times of the clock, a TIME says when it is, and who runs is
 * what the records say of that time. Else it is the AUX record that a chunk came
 * with: its time, its thread. A trace that tells context ids is asked first.
 */
#include "decode/lib/session/impl.h"

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

void session_begin_record(struct feed *f, struct feed_view *v)
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
