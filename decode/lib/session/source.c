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

