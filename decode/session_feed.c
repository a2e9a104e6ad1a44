/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session: one stream being decoded: its chunks, its decoder, its events, and
 * their place among those of other streams.
 *
 * A decoder is ahead of the sink: what is known where it is, is not yet so for the
 * events that wait in the buffer. CoreSight tells the time of what runs late: behind
 * a break a feed decodes on up to the next TIME, and gives what is before it the
 * later time. A decoder that cannot tell it before the code is asked for may have
 * walked in the old code then.
 */
#include <stdlib.h>
#include <string.h>

#include <internal/diag.h>

#include "session_priv.h"

/* The decoder's. Intel PT stops where it changes, so there is but one. */
static struct feed_view *view_ahead(struct feed *f)
{
	return f->source ? &f->ahead : &f->v;
}

static int give_code(void *priv, uint64_t ip, struct aux_code *code)
{
	struct feed *f = priv;
	const struct session_config *c = &f->s->config;
	const struct space *space = view_ahead(f)->ctx.space;

	if (c->on_code)
		c->on_code(c->on_code_priv, space, ip);
	return codeview_code(f->s->codeview, space, ip, code);
}

/* Before its next TIME, time may have passed. */
static bool is_break(const struct feed *f, const struct aux_flow *ev)
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
static struct feed_place place_of_break(struct feed *f)
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

/* Timestamps that are of no clock tell the order inside of a record. */
static struct feed_place place_of_time(const struct feed *f,
				       const struct aux_flow *ev)
{
	uint64_t t = ev->time.ns ? ev->time.ns : ev->time.tsc;
	struct feed_place at = f->at;

	if (f->source && !f->timed) {
		if (ev->time.tsc > at.ts)
			at.ts = ev->time.tsc;
	} else if (t > at.time) {
		at.time = t;
	}
	return at;
}

struct feed_place session_next_place(struct feed *f)
{
	const struct aux_flow *ev = &f->buf[f->pos];

	if (ev->kind == AUX_FLOW_TIME)
		return place_of_time(f, ev);
	return is_break(f, ev) ? place_of_break(f) : f->at;
}

void session_take_event(struct feed *f)
{
	const struct aux_flow *ev = &f->buf[f->pos];

	f->at = session_next_place(f);
	if (ev->kind == AUX_FLOW_TIME)
		session_take_time(f, &f->v, ev);
	else if (ev->kind == AUX_FLOW_CONTEXT && f->source)
		session_take_context(f, &f->v, ev);
}

/* A chunk of one source, or a gap in it. The buffer is empty. */
static void begin_record(struct feed *f)
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

		if (ev->kind == AUX_FLOW_RANGE)
			end = ev->range.last + (ev->flags & AUX_FLOW_SIZE_MASK);
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

	while (k < i && f->buf[k].kind != AUX_FLOW_RANGE)
		k++;
	if (k >= i || same_code(f, old, f->ahead.ctx.space,
				f->buf[k].range.first))
		return i;
	gap = &f->buf[k];
	*gap = (struct aux_flow){ .offset = gap->offset, .kind = AUX_FLOW_GAP,
				  .what = AUX_GAP_DESYNC,
				  .flags = AUX_FLOW_HAS_IP,
				  .gap = { .ip = gap->range.first } };
	memmove(gap + 1, &f->buf[i], (f->n - i) * sizeof(*gap));
	f->n -= i - k - 1;
	f->stale = true;
	return k + 1;
}

/*
 * Events of a source, new in the buffer: their place in the stream, and what they
 * mean to the decoder. That a chunk had to begin inside of a packet is no loss, if
 * it then had a sync point.
 */
static void take_new(struct feed *f, size_t from)
{
	uint64_t offset = UINT64_MAX, place = 0;
	const struct space *old;
	struct aux_flow *ev = &f->buf[from];

	if (f->n > from && !f->begun && f->it.anywhere &&
	    ev->kind == AUX_FLOW_GAP && ev->what == AUX_GAP_NO_SYNC &&
	    ev->gap.detail < f->it.chunk.len)
		memmove(ev, ev + 1, (--f->n - from) * sizeof(*ev));
	else
		f->begun |= f->n > from;
	for (size_t i = from; i < f->n; i++) {
		ev = &f->buf[i];
		if (ev->offset != offset) {	/* most are not */
			offset = ev->offset;
			place = chunk_iter_place(&f->it, offset);
		}
		ev->offset = place;
		f->stale &= ev->kind != AUX_FLOW_TRACE_ON;
		if (f->stale && (ev->kind == AUX_FLOW_RANGE ||
				 ev->kind == AUX_FLOW_ASYNC)) {
			memmove(ev, ev + 1, (--f->n - i--) * sizeof(*ev));
			continue;
		}
		if (ev->kind == AUX_FLOW_CONTEXT)
			session_take_context(f, &f->ahead, ev);
		f->open |= is_break(f, ev);
		if (ev->kind != AUX_FLOW_TIME)
			continue;
		old = f->ahead.ctx.space;
		session_take_time(f, &f->ahead, ev);
		if (f->open && f->timed && old != f->ahead.ctx.space &&
		    old->pid == f->ahead.ctx.space->pid)
			i = drop_stale(f, i, old);
		f->open = false;
	}
}

/* Room for another batch. */
static int grow_buffer(struct feed *f)
{
	size_t want = 2 * f->cap;
	struct aux_flow *buf;

	if (f->cap - f->n >= FEED_BATCH)
		return 0;
	buf = realloc(f->buf, want * sizeof(*buf));
	if (!buf)
		return -AUX_E_NOMEM;
	f->buf = buf;
	f->cap = want;
	return 0;
}

/* Decodes on. A chunk that was cut from the one before starts without a seam. */
static int decode_more(struct feed *f)
{
	bool goes_on = f->it.chunk.flags & AUX_CHUNK_HAS_END_IP;
	size_t from = f->n;
	int rc;

	if (grow_buffer(f) < 0)
		return -AUX_E_NOMEM;
	rc = f->ops->decode(f->dec, f->buf + from, FEED_BATCH);
	if (rc < 0)
		return rc;
	f->n += (size_t)rc;
	for (size_t i = from; f->joint && i < f->n; i++) {
		uint8_t kind = f->buf[i].kind;

		f->joint = kind != AUX_FLOW_RANGE && kind != AUX_FLOW_GAP &&
			   kind != AUX_FLOW_TRACE_ON;
		if (kind == AUX_FLOW_TRACE_ON)
			memmove(&f->buf[i], &f->buf[i + 1],
				(--f->n - i) * sizeof(*f->buf));
	}
	if (f->source)
		take_new(f, from);
	if (rc > 0)
		f->in_gap = f->n > from &&
			    f->buf[f->n - 1].kind == AUX_FLOW_GAP;
	else
		f->joint = goes_on && !f->in_gap;
	f->in_chunk = rc > 0;
	return 0;
}

/* Is there something to give? */
static bool is_filled(const struct feed *f)
{
	if (!f->n)
		return f->ended;
	return !f->in_chunk || !f->source || !f->timed || !f->open ||
	       f->n >= FEED_AHEAD;
}

int session_refill(struct feed *f, struct session_stats *stats)
{
	int rc;

	f->pos = f->n = 0;
	f->next_time = SIZE_MAX;
	while (!is_filled(f)) {
		if (f->in_chunk) {
			rc = decode_more(f);
			if (rc < 0)
				return rc;
			continue;
		}
		rc = chunk_iter_next(&f->it);
		if (rc < 0)
			return rc;
		if (f->source && f->it.now &&
		    (rc == CHUNK_DATA || f->it.now != f->v.run))
			begin_record(f);
		if (rc == CHUNK_GAP) {
			f->buf[f->n++] = f->it.gap;
		} else if (rc == CHUNK_END) {
			f->ended = true;
		} else {
			stats->aux_decoded += f->it.chunk.len;
			rc = f->ops->start(f->dec, &f->it.chunk);
			if (rc < 0)
				return rc;
			f->in_chunk = true;
		}
	}
	return f->n > 0;
}

/* What a CoreSight source is, to its decoder. */
static void configure_source(struct feed *f)
{
	const struct csmeta_source *meta = f->source->meta;
	struct aux_etm_config *etm = &f->config.etm;

	if (meta)
		*etm = meta->etm;
	etm->trace_id = f->source->id;
	f->timed = etm->ts_is_clock && f->config.clock.mult &&
		   session_has_timestamps(etm);
	if (!f->timed) {
		f->config.clock = (struct aux_clock){ 0 };
		etm->ts_is_clock = 0;
	}
	/* Other recorders' context ids are no threads of ours. */
	f->host.context_switches = meta && !meta->own &&
				   session_has_context(etm);
}

int session_open_feed(struct session *s, struct feed *f, size_t i,
		      const struct aux_decoder_ops *ops, struct aux_diag *diag)
{
	const struct stream *st = &s->streams[i];
	int rc;

	f->s = s;
	f->stream = st;
	f->ops = ops;
	f->source = st->source;
	f->config = s->dec_config;
	f->timed = s->timed;
	f->host = (struct aux_decoder_host){ .size = sizeof(f->host), .priv = f,
					     .code = give_code };
	f->v.ctx = (struct flow_ctx){ .session = s, .stream = st->idx,
				    .cpu = st->cpu };
	chunk_iter_init(&f->it, st->q, s->chunks.trace_type,
			s->config.chunk_min);
	if (f->source) {
		if (f->source->cpu >= 0)
			f->v.ctx.cpu = f->source->cpu;
		configure_source(f);
		chunk_iter_pick(&f->it, f->source);
	}
	f->ahead = f->v;
	session_find_who(f, &f->v);
	session_find_who(f, &f->ahead);
	f->cap = FEED_BATCH;
	f->buf = malloc(f->cap * sizeof(*f->buf));
	if (!f->buf)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	rc = ops->open(&f->dec, &f->config, &f->host, diag);
	if (rc == -AUX_E_NOMEM)
		diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
	return rc;
}

void session_close_feed(struct feed *f)
{
	if (f->ops)
		f->ops->close(f->dec);
	chunk_iter_fini(&f->it);
	free(f->buf);
}
