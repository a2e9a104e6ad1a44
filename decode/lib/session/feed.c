/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session: one stream being decoded: its chunks, its decoder, its events, and
 * their place among those of other streams.
 *
 * A chunk of Intel PT begins at the time that its PSB+ tells: who runs, and the
 * code, are known before the first event, whatever came before the chunk.
 */
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"
#include "decode/lib/packet/pt_packet.h"
#include "decode/lib/session/expand.h"
#include "decode/lib/session/impl.h"

/*
 * session: chunks that a decoder cannot decode (-AUX_E_UNSUPPORTED).
 *
 * What it gave of such a chunk is right. The reference decodes the chunk again
 * from its start, where all is as it was then, and as many instructions and other
 * events are left out as were given. TIMEs are not counted, for one decoder may
 * give more of them; those that are left out are still taken by the decoder's
 * view, which goes along.
 */

static void session_count_given(struct feed *f, size_t from)
{
	const struct aux_flow *ev = f->buf + from, *end = f->buf + f->n;
	uint64_t n_insns = 0, n_events = 0;

	ev = session_skip_plain(ev, end, &n_insns);
	if (!from && !f->source) {	/* a source's may yet be changed */
		f->n_plain = (size_t)(ev - f->buf);
		f->plain_insns = n_insns;
	}
	while (ev < end) {
		n_events += ev->kind != AUX_FLOW_TIME;
		ev = session_skip_plain(ev + 1, end, &n_insns);
	}
	f->again.n_insns += n_insns;
	f->again.n_events += n_events;
	if (f->n > from)
		f->again.offset = f->buf[f->n - 1].offset;
}

/* Nobody can decode the rest. */
static void give_up(struct feed *f)
{
	f->buf[f->n++] = (struct aux_flow){ .kind = AUX_FLOW_GAP,
					    .what = AUX_GAP_DECODER,
					    .offset = f->again.offset };
	f->in_chunk = false;
}

static int open_reference(struct feed *f)
{
	struct aux_diag diag = { 0 };
	int rc;

	if (f->reference)
		return 0;
	pthread_mutex_lock(&f->s->open_lock);
	rc = f->wants.reference->open(&f->reference, &f->config, &f->host,
				      &diag);
	if (rc < 0) {
		f->wants.reference->close(f->reference);
		f->reference = NULL;
	}
	pthread_mutex_unlock(&f->s->open_lock);
	return rc;
}

/* a chunk that ops cannot decode: the reference starts it again.
 * What was given is left out. Without a reference: a GAP. Counted in stats. */
static int session_decode_again(struct feed *f, struct session_stats *stats)
{
	struct feed_again *a = &f->again;
	int rc;

	a->refused = false;
	if (!f->wants.reference) {
		stats->n_left++;
		give_up(f);
		return 0;
	}
	if (a->n_insns || a->n_events)
		stats->n_handed_part++;
	else
		stats->n_handed_whole++;
	*session_ahead(f) = a->view;
	session_find_who(f, session_ahead(f));
	f->host.paths = 0;
	a->on = true;
	a->skip_insns = a->n_insns;
	a->skip_events = a->n_events;
	rc = open_reference(f);
	if (rc == 0)
		rc = f->wants.reference->start(f->reference, &f->it.chunk);
	if (rc == -AUX_E_NOMEM)
		return rc;
	if (rc < 0) {
		stats->n_left++;
		a->on = false;
		give_up(f);
	}
	return 0;
}

static int code_for_walk(void *priv, const struct space *space, uint64_t ip,
			 struct aux_code *code)
{
	return codeview_code(priv, space, ip, code);
}

/* Takes the first skip instructions off a RANGE. False: nobody knows where the
 * next one is. */
static bool cut_range(struct feed *f, struct aux_flow *ev, uint64_t skip)
{
	struct sink_host host = { .priv = f->s->codeview,
				  .code = code_for_walk };
	struct walk_config config = { .host = &host };
	struct walk_range r;
	struct walk *w;
	bool known;

	if (walk_new(&w, &config) < 0)
		return false;
	known = walk_once(w, session_ahead(f)->ctx.space, ev, &r) == 0 &&
		skip < r.n;
	if (known) {
		ev->range.first += r.off[skip];
		ev->n -= (uint32_t)skip;
	}
	walk_free(w);
	return known;
}

/* An event of the reference; true: it is left out. */
static bool leave_out(struct feed *f, struct aux_flow *ev)
{
	struct feed_again *a = &f->again;

	if (ev->kind == AUX_FLOW_TIME) {
		session_take_time(f, session_ahead(f), ev);
		return true;
	}
	if (!session_is_plain(ev)) {
		if (!a->skip_events)
			return false;
		a->skip_events--;
		if (ev->kind == AUX_FLOW_CONTEXT && f->source)
			session_take_context(f, session_ahead(f), ev);
		return true;
	}
	if (!a->skip_insns)
		return false;
	if (ev->n <= a->skip_insns) {
		a->skip_insns -= ev->n;
		return true;
	}
	if (!cut_range(f, ev, a->skip_insns))
		*ev = (struct aux_flow){ .kind = AUX_FLOW_GAP,
					 .what = AUX_GAP_DECODER,
					 .offset = ev->offset };
	a->skip_insns = 0;
	return false;
}

/* Takes out what was given before: from buf[from] on. */
static void session_leave_out(struct feed *f, size_t from)
{
	struct feed_again *a = &f->again;
	size_t n = from, i = from;

	for (; i < f->n && (a->skip_insns || a->skip_events); i++) {
		if (!leave_out(f, &f->buf[i]))
			f->buf[n++] = f->buf[i];
	}
	memmove(&f->buf[n], &f->buf[i], (f->n - i) * sizeof(*f->buf));
	f->n -= i - n;
	/* the two may name another packet for the same */
	for (i = from; i < f->n && f->buf[i].offset < a->offset; i++)
		f->buf[i].offset = a->offset;
}

/*
 * session: zeros where Intel PT should be.
 *
 * A zero byte is a PAD, so a page that was lost or never written reads as packets
 * that say nothing, and a decoder would go on behind it as if nothing had run.
 * Where a program repeats itself no later packet contradicts that. CPUs align with
 * a few PADs (no more than 21 in a row in any recording met); a run of many is a
 * GAP, and its chunk goes on at the next PSB. Zeros that the trace ends with are
 * the rest of a buffer.
 */

#define ZEROS_MIN 256

/* Without the packet that the zeros begin in: it may be any. */
static const uint8_t *cut_packet(const uint8_t *p, const uint8_t *zeros)
{
	const uint8_t *psb = chunks_last_psb(p, zeros);
	unsigned block = 0;
	struct ptpkt pkt;
	int n;

	p = psb ? psb : p;
	while ((n = ptpkt_next(p, zeros, &block, &pkt)) > 0)
		p += n;
	return n ? zeros : p;
}

static void session_cut_zeros(struct feed *f)
{
	struct aux_chunk *c = &f->it.chunk, *rest = &f->rest;
	const uint8_t *end = c->data + c->len, *zeros, *behind;
	bool ends = !(c->flags & AUX_CHUNK_HAS_END_IP);
	uint64_t skip;

	*rest = (struct aux_chunk){ 0 };
	f->zeros = false;
	if (f->it.trace_type != AUX_TRACE_INTEL_PT)
		return;
	zeros = ptpkt_find_zeros(c->data, end, ZEROS_MIN, &behind);
	if (!zeros || (ends && behind == end))
		return;
	skip = (uint64_t)(cut_packet(c->data, zeros) - c->data);
	f->zeros = true;
	*rest = *c;
	rest->data += skip;
	rest->len -= skip;
	rest->stream_offset += skip;
	c->len = skip;
	c->flags &= ~AUX_CHUNK_HAS_END_IP;
}

/* ends the chunk where zeros begin; the GAP that they are. */
static struct aux_flow session_zeros_gap(struct feed *f)
{
	struct aux_chunk *rest = &f->rest;
	const uint8_t *end = rest->data + rest->len;
	const uint8_t *psb = ptpkt_find_psb(rest->data, end);
	uint64_t skip = (uint64_t)((psb ? psb : end) - rest->data);
	struct aux_flow gap = { .kind = AUX_FLOW_GAP,
				.what = AUX_GAP_AUX_ZEROS,
				.offset = rest->stream_offset,
				.gap = { .detail = skip } };

	f->zeros = false;
	rest->data += skip;
	rest->len -= skip;
	rest->stream_offset += skip;
	f->in_gap = f->gave = true;
	return gap;
}

/* Bytes that are let go of at once, of all streams: it interrupts other threads. */
#define LET_GO ((uint64_t)4 << 20)

static int give_code(void *priv, uint64_t ip, struct aux_code *code)
{
	struct feed *f = priv;
	const struct session_config *c = &f->s->config;
	const struct space *space = session_ahead(f)->ctx.space;

	if (c->on_code)
		c->on_code(c->on_code_priv, space, ip);
	return codeview_code(f->s->codeview, space, ip, code);
}

/* A chunk starts: all that was given is gone. */
static void forget(void *priv, void (*release)(void *what), void *what)
{
	(void)priv;
	release(what);
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
	return session_is_break(f, ev) ? session_place_of_break(f) : f->at;
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

const struct aux_flow *session_skip_plain(const struct aux_flow *ev,
					  const struct aux_flow *end,
					  uint64_t *n_insns)
{
	uint64_t n = 0;

	for (;;) {
		/* most of all events */
		for (; end - ev >= 4 && ev[0].kind == AUX_FLOW_PATH &&
		       ev[1].kind == AUX_FLOW_PATH &&
		       ev[2].kind == AUX_FLOW_PATH &&
		       ev[3].kind == AUX_FLOW_PATH; ev += 4) {
			n += ev[0].n;
			n += ev[1].n;
			n += ev[2].n;
			n += ev[3].n;
		}
		if (ev == end || !session_is_plain(ev))
			break;
		n += ev++->n;
	}
	*n_insns += n;
	return ev;
}

/* Room for another batch. */
static int grow_buffer(struct feed *f)
{
	size_t want = 2 * f->cap;
	struct aux_flow *buf;

	if (f->cap - f->n >= f->max)
		return 0;
	if (want < f->n + f->max)
		want = f->n + f->max;
	buf = realloc(f->buf, want * sizeof(*buf));
	if (!buf)
		return -AUX_E_NOMEM;
	f->buf = buf;
	f->cap = want;
	return 0;
}

/* A chunk that was cut from the one before starts without a seam. */
static void drop_seam(struct feed *f, size_t from)
{
	for (size_t i = from; f->joint && i < f->n; i++) {
		const struct aux_flow *ev = &f->buf[i];

		f->joint = !session_is_plain(ev) && ev->kind != AUX_FLOW_GAP &&
			   ev->kind != AUX_FLOW_TRACE_ON &&
			   ev->kind != AUX_FLOW_TRACE_OFF;
		if (ev->kind == AUX_FLOW_TRACE_ON)
			memmove(&f->buf[i], &f->buf[i + 1],
				(--f->n - i) * sizeof(*f->buf));
	}
}

/* The next batch, behind what is in the buffer. */
static int decode_batch(struct feed *f, struct session_stats *stats)
{
	size_t from = f->n;
	int rc;

	if (f->again.refused)
		return session_decode_again(f, stats);
	if (f->again.on) {
		rc = f->wants.reference->decode(f->reference, f->buf + from,
						f->max);
	} else {
		rc = f->ops->decode(f->dec, f->buf + from, f->max);
		if (rc == -AUX_E_UNSUPPORTED)
			return session_decode_again(f, stats);
	}
	if (rc < 0)
		return rc;
	f->n += (size_t)rc;
	f->in_chunk = rc > 0;
	if (f->again.on)
		session_leave_out(f, from);
	else if (f->wants.reference)
		session_count_given(f, from);
	return 0;
}

static int decode_more(struct feed *f, struct session_stats *stats)
{
	bool goes_on = f->it.chunk.flags & AUX_CHUNK_HAS_END_IP;
	size_t from = f->n;
	int rc;

	if (grow_buffer(f) < 0)
		return -AUX_E_NOMEM;
	rc = decode_batch(f, stats);
	if (rc < 0)
		return rc;
	drop_seam(f, from);
	if (f->source && session_take_new(f, from) < 0)
		return -AUX_E_NOMEM;
	f->gave |= f->n > from;
	if (f->n > from)
		f->in_gap = f->buf[f->n - 1].kind == AUX_FLOW_GAP;
	if (!f->in_chunk)
		f->joint = goes_on && !f->in_gap;
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

void session_begin_dated(struct feed *f, const struct chunk_start *start)
{
	if (f->source || !f->timed)
		return;
	if (!start->has_tsc) {	/* whatever comes, who runs is asked then */
		f->host.horizon_tsc = 0;
		return;
	}
	f->v.ctx.tsc = start->tsc;
	f->v.ctx.time_ns = aux_clock_ns(&f->config.clock, start->tsc);
	if (f->v.ctx.time_ns > f->at.time)
		f->at.time = f->v.ctx.time_ns;
	session_find_who(f, &f->v);
}

static int start_chunk(struct feed *f, struct session_stats *stats)
{
	int rc;

	session_cut_zeros(f);
	stats->aux_decoded += f->it.chunk.len;
	stats->n_chunks++;
	session_begin_dated(f, &f->it.start);
	f->again = (struct feed_again){ .view = *session_ahead(f),
					.offset = f->it.chunk.stream_offset };
	f->host.paths = f->wants.paths;
	f->in_chunk = true;
	rc = f->ops->start(f->dec, &f->it.chunk);
	f->again.refused = rc == -AUX_E_UNSUPPORTED;
	return f->again.refused ? 0 : rc;
}

void session_let_go(struct feed *f, const struct aux_chunk *c)
{
	uint64_t n = LET_GO / f->s->n_streams;

	if (c->stream_offset != f->gone_to) {
		chunks_let_go(f->it.q, f->s->reader, f->gone_from, f->gone_to);
		f->gone_from = c->stream_offset;
	}
	f->gone_to = c->stream_offset + c->len;
	if (f->gone_to - f->gone_from < n)
		return;
	chunks_let_go(f->it.q, f->s->reader, f->gone_from, f->gone_to);
	f->gone_from = f->gone_to;
}

/* Goes on behind the chunk, whose bytes are not needed again. */
static int next_step(struct feed *f)
{
	const struct aux_chunk *c = &f->it.chunk;

	if (!f->single && c->data)
		session_let_go(f, c);
	if (f->zeros) {
		f->it.gap = session_zeros_gap(f);
		return CHUNK_GAP;
	}
	if (f->rest.len) {
		f->it.chunk = f->rest;
		f->it.start = (struct chunk_start){ 0 };
		return CHUNK_DATA;
	}
	if (!f->single)
		return chunk_iter_next(&f->it);
	return f->single++ == 1 ? CHUNK_DATA : CHUNK_END;
}

int session_refill(struct feed *f, struct session_stats *stats)
{
	int rc;

	f->pos = f->n = f->n_plain = 0;
	f->next_time = SIZE_MAX;
	while (!is_filled(f)) {
		if (f->in_chunk) {
			rc = decode_more(f, stats);
			if (rc < 0)
				return rc;
			continue;
		}
		rc = next_step(f);
		if (rc < 0)
			return rc;
		if (f->source && f->it.now &&
		    (rc == CHUNK_DATA || f->it.now != f->v.run))
			session_begin_source(f);
		if (rc == CHUNK_GAP) {
			f->buf[f->n++] = f->it.gap;
			if (f->it.gap.what == AUX_GAP_AUX_ZEROS)
				stats->aux_decoded += f->it.gap.gap.detail;
		} else if (rc == CHUNK_END) {
			f->ended = true;
		} else {
			rc = start_chunk(f, stats);
			if (rc < 0)
				return rc;
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

void session_init_feed(struct session *s, struct feed *f, size_t i)
{
	const struct stream *st = &s->streams[i];

	f->s = s;
	f->stream = st;
	f->index = i;
	f->max = FEED_BATCH;
	f->source = st->source;
	f->config = s->dec_config;
	f->timed = s->timed;
	f->host = (struct aux_decoder_host){
		.size = sizeof(f->host), .priv = f, .code = give_code,
		.forget = forget, .paths = f->wants.paths,
		/* a source's are looked back to */
		.time_step = f->source ? 0 : f->wants.time_step,
	};
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
	chunk_iter_limit(&f->it, &s->spans[i]);
	f->joint = f->cut_joint = s->spans[i].first.cut.seam;
	f->ahead = f->v;
	session_find_who(f, &f->v);
	session_find_who(f, &f->ahead);
}

int session_open_feed(struct session *s, struct feed *f, size_t i,
		      const struct aux_decoder_ops *ops, struct aux_diag *diag)
{
	int rc;

	session_init_feed(s, f, i);
	f->ops = ops;
	f->cap = FEED_BATCH;
	f->buf = malloc(f->cap * sizeof(*f->buf));
	if (!f->buf)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	pthread_mutex_lock(&s->open_lock);
	rc = ops->open(&f->dec, &f->config, &f->host, diag);
	if (rc == -AUX_E_UNSUPPORTED && f->wants.reference) {
		/* a kind of source that it does not know at all */
		f->ops->close(f->dec);
		f->ops = f->wants.reference;
		f->wants.reference = NULL;
		f->dec = NULL;
		*diag = (struct aux_diag){ 0 };
		rc = f->ops->open(&f->dec, &f->config, &f->host, diag);
	}
	pthread_mutex_unlock(&s->open_lock);
	if (rc == -AUX_E_NOMEM)
		diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
	return rc;
}

void session_close_feed(struct feed *f)
{
	if (f->ops)
		f->ops->close(f->dec);
	if (f->reference)
		f->wants.reference->close(f->reference);
	chunk_iter_fini(&f->it);
	free(f->buf);
}
