/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cursor: one stream being decoded, see cursor.h; of CoreSight in cs_cursor.c.
 *
 * A chunk of Intel PT begins at the time that its PSB+ tells: who runs, and in
 * which code, is known before the first event, whatever came before the chunk.
 * This is what allows chunks to be decoded in any order.
 */
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"
#include "decode/lib/packet/packet.h"
#include "decode/lib/session/expand.h"
#include "decode/lib/session/impl.h"

/*
 * The fallback: a chunk that the decoder cannot decode (-AUX_E_UNSUPPORTED),
 * from start or in the middle.
 *
 * What it emitted of the chunk is right, and may be with the sink already. So
 * the reference decodes the chunk again from its start, with the view as it was
 * there, and as many instructions and other events of it are dropped as were
 * emitted: two decoders give the same instructions in the same order, however
 * they divide them into RANGEs and PATHs. TIMEs are not counted, for one
 * decoder may emit more of them than another; those that are dropped still move
 * the decoder's view on, so that the reference finds the code of the thread
 * that runs. A RANGE that is cut in the middle (cut_range) is expanded for the
 * address of its next instruction. From the next chunk on the decoder is asked
 * again.
 */

/* Adds to what was emitted of the chunk: buf[from..n), which the decoder just
 * wrote. On the way it finds how the batch begins, for skip_plain in
 * merge.c. */
static void count_emitted(struct stream_cursor *cur, size_t from)
{
	const struct aux_flow *ev = cur->m.buf + from,
			      *end = cur->m.buf + cur->m.n;
	uint64_t n_insns = 0, n_events = 0;

	ev = cursor_skip_plain(ev, end, &n_insns);
	if (!from && !cur->source) { /* a source's may yet be changed */
		cur->m.n_plain = (size_t)(ev - cur->m.buf);
		cur->m.plain_insns = n_insns;
	}
	while (ev < end) {
		n_events += ev->kind != AUX_FLOW_TIME;
		ev = cursor_skip_plain(ev + 1, end, &n_insns);
	}
	cur->fallback.n_insns += n_insns;
	cur->fallback.n_events += n_events;
	if (cur->m.n > from)
		cur->fallback.offset = cur->m.buf[cur->m.n - 1].offset;
}

/* No decoder can decode the rest of the chunk: a GAP stands for it. */
static void end_undecoded(struct stream_cursor *cur)
{
	cur->m.buf[cur->m.n++] =
		(struct aux_flow){ .kind = AUX_FLOW_GAP,
				   .what = AUX_GAP_DECODER,
				   .offset = cur->fallback.offset };
	cur->in_chunk = false;
}

/* Opened when it is needed for the first time, for few recordings need it. */
static int open_reference(struct stream_cursor *cur)
{
	struct aux_diag diag = { 0 };
	int rc;

	if (cur->fallback.dec)
		return 0;
	pthread_mutex_lock(&cur->s->open_lock);
	rc = cur->wants.reference->open(&cur->fallback.dec, &cur->config,
					&cur->host, &diag);
	if (rc < 0) {
		cur->wants.reference->close(cur->fallback.dec);
		cur->fallback.dec = NULL;
	}
	pthread_mutex_unlock(&cur->s->open_lock);
	return rc;
}

/* Starts the reference on the chunk, or ends the chunk where there is none, or
 * it cannot either. Counted in stats. */
static int start_fallback(struct stream_cursor *cur,
			  struct session_stats *stats)
{
	struct fallback *a = &cur->fallback;
	int rc;

	a->state = FALLBACK_NONE;
	if (!cur->wants.reference) {
		stats->n_left++;
		end_undecoded(cur);
		return 0;
	}
	if (a->n_insns || a->n_events)
		stats->n_handed_part++;
	else
		stats->n_handed_whole++;
	*cursor_decoder_view(cur) = a->view;
	cur->quiet.until_tsc = UINT64_MAX;
	cur->host.time_step = cur->source ? 0 : cur->wants.time_step;
	view_find_task(cur, cursor_decoder_view(cur));
	cur->host.paths = 0;
	a->state = FALLBACK_ON;
	a->skip_insns = a->n_insns;
	a->skip_events = a->n_events;
	rc = open_reference(cur);
	if (rc == 0)
		rc = cur->wants.reference->start(cur->fallback.dec,
						 &cur->it.chunk);
	if (rc == -AUX_E_NOMEM)
		return rc;
	if (rc < 0) {
		stats->n_left++;
		a->state = FALLBACK_NONE;
		end_undecoded(cur);
	}
	return 0;
}

/* Removes the first skip instructions of a RANGE. False: the code is missing or
 * does not fit, so the address of the next one is unknown. */
static bool cut_range(struct stream_cursor *cur, struct aux_flow *ev,
		      uint64_t skip)
{
	struct sink_host host = session_host(cur->s);
	struct walk_config config = { .host = &host };
	struct walk_range r;
	struct walk *w;
	bool known;

	if (walk_new(&w, &config) < 0)
		return false;
	known = walk_once(w, cursor_decoder_view(cur)->ctx.space, ev, &r) ==
			0 &&
		skip < r.n;
	if (known) {
		ev->range.first += r.off[skip];
		ev->n -= (uint32_t)skip;
	}
	walk_free(w);
	return known;
}

/* An event of the reference: true if the decoder had emitted it. */
static bool is_repeated(struct stream_cursor *cur, struct aux_flow *ev)
{
	struct fallback *a = &cur->fallback;

	if (ev->kind == AUX_FLOW_TIME) {
		view_handle_time(cur, cursor_decoder_view(cur), ev);
		return true;
	}
	if (!flow_is_plain(ev)) {
		if (!a->skip_events)
			return false;
		a->skip_events--;
		if (ev->kind == AUX_FLOW_CONTEXT && cur->source)
			view_handle_context(cur, cursor_decoder_view(cur), ev);
		return true;
	}
	if (!a->skip_insns)
		return false;
	if (ev->n <= a->skip_insns) {
		a->skip_insns -= ev->n;
		return true;
	}
	if (!cut_range(cur, ev, a->skip_insns))
		*ev = (struct aux_flow){ .kind = AUX_FLOW_GAP,
					 .what = AUX_GAP_DECODER,
					 .offset = ev->offset };
	a->skip_insns = 0;
	return false;
}

/* Drops what was emitted before, from buf[from] on. */
static void drop_repeated(struct stream_cursor *cur, size_t from)
{
	struct fallback *a = &cur->fallback;
	size_t n = from, i = from;

	for (; i < cur->m.n && (a->skip_insns || a->skip_events); i++) {
		if (!is_repeated(cur, &cur->m.buf[i]))
			cur->m.buf[n++] = cur->m.buf[i];
	}
	memmove(&cur->m.buf[n], &cur->m.buf[i],
		(cur->m.n - i) * sizeof(*cur->m.buf));
	cur->m.n -= i - n;
	/* the two decoders may name different packets for one event, and
	 * offsets must not go back */
	for (i = from; i < cur->m.n && cur->m.buf[i].offset < a->offset; i++)
		cur->m.buf[i].offset = a->offset;
}

/*
 * Zero fill: zeros where Intel PT should be.
 *
 * A zero byte is a PAD packet, so a page that was lost or never written reads
 * as packets that say nothing, and a decoder would go on after it as if nothing
 * had run. Where a program repeats itself no later packet contradicts that: the
 * flow would be wrong and no error would show. CPUs align with a few PADs (no
 * more than 21 in a row in any recording met), so a run of ZEROS_MIN is no
 * alignment. It is a GAP; the chunk ends before it, and goes on at the next PSB
 * as a chunk of its own. Zeros at the end of the trace are the unused rest of a
 * buffer, and no loss.
 */

#define ZEROS_MIN 256

/* Where to end before zeros: without the last packet, whose payload they may
 * be. */
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

/* Cuts it.chunk where zeros begin; the rest waits in zero_fill. */
static void cut_zeros(struct stream_cursor *cur)
{
	struct aux_chunk *c = &cur->it.chunk, *rest = &cur->zero_fill.rest;
	const uint8_t *end = c->data + c->len, *zeros, *behind;
	bool ends = !(c->flags & AUX_CHUNK_HAS_END_IP);
	uint64_t skip;

	*rest = (struct aux_chunk){ 0 };
	cur->zero_fill.due = false;
	if (cur->it.trace_type != AUX_TRACE_INTEL_PT)
		return;
	zeros = ptpkt_find_zeros(c->data, end, ZEROS_MIN, &behind);
	if (!zeros || (ends && behind == end))
		return;
	skip = (uint64_t)(cut_packet(c->data, zeros) - c->data);
	cur->zero_fill.due = true;
	*rest = *c;
	rest->data += skip;
	rest->len -= skip;
	rest->stream_offset += skip;
	c->len = skip;
	c->flags &= ~AUX_CHUNK_HAS_END_IP;
}

/* The GAP for the zeros; zero_fill.rest begins at the PSB after them then. */
static struct aux_flow zero_gap(struct stream_cursor *cur)
{
	struct aux_chunk *rest = &cur->zero_fill.rest;
	const uint8_t *end = rest->data + rest->len;
	const uint8_t *psb = ptpkt_find_psb(rest->data, end);
	uint64_t skip = (uint64_t)((psb ? psb : end) - rest->data);
	struct aux_flow gap = { .kind = AUX_FLOW_GAP,
				.what = AUX_GAP_AUX_ZEROS,
				.offset = rest->stream_offset,
				.gap = { .detail = skip } };

	cur->zero_fill.due = false;
	rest->data += skip;
	rest->len -= skip;
	rest->stream_offset += skip;
	cur->in_gap = cur->emitted = true;
	return gap;
}

/* Has the queue a gap where these bytes end? Its segments are in the order of
 * their offsets; a gap has no bytes, so several may share one. */
static bool is_explained(const struct queue *q, uint64_t end)
{
	size_t lo = 0, hi = q->n_segments;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (q->segments[mid].offset < end)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < q->n_segments && q->segments[lo].offset == end; lo++)
		if (q->segments[lo].gap)
			return true;
	return false;
}

/*
 * A cut: the stream, or a piece of it, ends inside of a packet or a PSB+. That
 * would read as a contradiction between code and trace wherever the rest is
 * needed. So the chunk ends before it, and a GAP says how much that is. Where
 * the queue has a gap at that place (the file ends, the buffer was full) that
 * is why, and no other is needed.
 */
static void cut_rest(struct stream_cursor *cur)
{
	struct aux_chunk *c = &cur->it.chunk;
	const uint8_t *end = c->data + c->len, *psb;
	uint64_t n;

	cur->cut_tail = (struct cut_tail){ 0 };
	if (cur->it.trace_type != AUX_TRACE_INTEL_PT || cur->zero_fill.due ||
	    c->flags & AUX_CHUNK_HAS_END_IP)
		return;
	psb = chunks_last_psb(c->data, end);
	if (!psb)
		return;
	/* the PSB+ itself may be what is cut */
	n = (uint64_t)(end - ptpkt_whole_end(psb, end));
	if (n && !is_explained(cur->stream->q, c->stream_offset + c->len))
		cur->cut_tail.len = n;
	c->len -= n;
	cur->cut_tail.offset = c->stream_offset + c->len;
}

static struct aux_flow cut_gap(struct stream_cursor *cur)
{
	struct aux_flow gap = { .kind = AUX_FLOW_GAP,
				.what = AUX_GAP_CUT,
				.offset = cur->cut_tail.offset,
				.gap = { .detail = cur->cut_tail.len } };

	cur->cut_tail.len = 0;
	cur->in_gap = cur->emitted = true;
	return gap;
}

/* Bytes of all streams together that are read before their pages are released:
 * each madvise interrupts the other threads of the process (TLB shootdown). */
#define RELEASE_STEP ((uint64_t)4 << 20)
#define MANY_STREAMS 64

/* aux_decoder_host.code: the bytes at ip in the space in which the decoder
 * is. */
static int code_for_decoder(void *priv, uint64_t ip, struct aux_code *code)
{
	struct stream_cursor *cur = priv;
	const struct session_config *c = &cur->s->config;
	const struct space *space = cursor_decoder_view(cur)->ctx.space;

	if (c->on_code)
		c->on_code(c->on_code_priv, space, ip);
	return codeview_code(cur->s->codeview, space, ip, code);
}

/* aux_decoder_host.forget: at the start of a chunk all events were delivered,
 * so nothing points to what. A worker's cursor has another one (parallel.c). */
static void forget(void *priv, void (*release)(void *what), void *what)
{
	(void)priv;
	release(what);
}

/* The key from a TIME on: never lower than before. Timestamps of no clock order
 * events inside their AUX record. */
static struct merge_key place_of_time(const struct stream_cursor *cur,
				      const struct aux_flow *ev)
{
	uint64_t t = ev->time.ns ? ev->time.ns : ev->time.tsc;
	struct merge_key at = cur->m.key;

	if (cur->source && !cur->timed) {
		if (ev->time.tsc > at.ts)
			at.ts = ev->time.tsc;
	} else if (t > at.time) {
		at.time = t;
	}
	return at;
}

struct merge_key cursor_next_key(struct stream_cursor *cur)
{
	const struct aux_flow *ev = &cur->m.buf[cur->m.pos];

	if (ev->kind == AUX_FLOW_TIME)
		return place_of_time(cur, ev);
	return cs_is_break(cur, ev) ? cs_break_key(cur) : cur->m.key;
}

void cursor_consume(struct stream_cursor *cur)
{
	const struct aux_flow *ev = &cur->m.buf[cur->m.pos];

	cur->m.key = cursor_next_key(cur);
	if (ev->kind == AUX_FLOW_TIME)
		view_handle_time(cur, &cur->m.view, ev);
	else if (ev->kind == AUX_FLOW_CONTEXT && cur->source)
		view_handle_context(cur, &cur->m.view, ev);
}

const struct aux_flow *cursor_skip_plain(const struct aux_flow *ev,
					 const struct aux_flow *end,
					 uint64_t *n_insns)
{
	uint64_t n = 0;

	for (;;) {
		/* long rows of PATHs are most of all events: four at a time,
		 * so that the test of the kind is one branch */
		for (;
		     end - ev >= 4 && ev[0].kind == AUX_FLOW_PATH &&
		     ev[1].kind == AUX_FLOW_PATH &&
		     ev[2].kind == AUX_FLOW_PATH && ev[3].kind == AUX_FLOW_PATH;
		     ev += 4) {
			n += ev[0].n;
			n += ev[1].n;
			n += ev[2].n;
			n += ev[3].n;
		}
		if (ev == end || !flow_is_plain(ev))
			break;
		n += ev++->n;
	}
	*n_insns += n;
	return ev;
}

/* Room for another batch after what is in the buffer. */
static int grow_buffer(struct stream_cursor *cur)
{
	size_t want = 2 * cur->m.cap;
	struct aux_flow *buf;

	if (cur->m.cap - cur->m.n >= cur->max)
		return 0;
	if (want < cur->m.n + cur->max)
		want = cur->m.n + cur->max;
	buf = realloc(cur->m.buf, want * sizeof(*buf));
	if (!buf)
		return -AUX_E_NOMEM;
	cur->m.buf = buf;
	cur->m.cap = want;
	return 0;
}

/*
 * A chunk that continues the one before: the TRACE_ON that the decoder emits
 * for its PSB+ is none of the trace. It is the first event, but for TIME and
 * the like; anything about control before it means that there is none to drop.
 */
static void drop_resume(struct stream_cursor *cur, size_t from)
{
	for (size_t i = from; cur->continues && i < cur->m.n; i++) {
		const struct aux_flow *ev = &cur->m.buf[i];

		cur->continues = !flow_is_plain(ev) &&
				 ev->kind != AUX_FLOW_GAP &&
				 ev->kind != AUX_FLOW_TRACE_ON &&
				 ev->kind != AUX_FLOW_TRACE_OFF;
		if (ev->kind == AUX_FLOW_TRACE_ON)
			memmove(&cur->m.buf[i], &cur->m.buf[i + 1],
				(--cur->m.n - i) * sizeof(*cur->m.buf));
	}
}

/* The decoder's or the reference's next batch, after what is in the buffer. */
static int decode_batch(struct stream_cursor *cur, struct session_stats *stats)
{
	size_t from = cur->m.n;
	int rc;

	if (cur->fallback.state == FALLBACK_DUE)
		return start_fallback(cur, stats);
	if (cur->fallback.state == FALLBACK_ON) {
		rc = cur->wants.reference->decode(cur->fallback.dec,
						  cur->m.buf + from, cur->max);
	} else {
		rc = cur->ops->decode(cur->dec, cur->m.buf + from, cur->max);
		if (rc == -AUX_E_UNSUPPORTED)
			return start_fallback(cur, stats);
	}
	if (rc < 0)
		return rc;
	cur->m.n += (size_t)rc;
	cur->in_chunk = rc > 0;
	if (cur->fallback.state == FALLBACK_ON)
		drop_repeated(cur, from);
	else if (cur->wants.reference)
		count_emitted(cur, from);
	return 0;
}

/* Does the flow end in a GAP, so far? What is no part of the control flow, such
 * as a TIME, may come after it. */
static void note_gap(struct stream_cursor *cur, size_t from)
{
	for (size_t i = cur->m.n; i > from; i--) {
		const struct aux_flow *ev = &cur->m.buf[i - 1];

		if (ev->kind == AUX_FLOW_TIME || ev->kind == AUX_FLOW_CONTEXT)
			continue;
		cur->in_gap = ev->kind == AUX_FLOW_GAP;
		return;
	}
}

/* The same, made ready for the merge. */
static int decode_more(struct stream_cursor *cur, struct session_stats *stats)
{
	bool goes_on = cur->it.chunk.flags & AUX_CHUNK_HAS_END_IP;
	size_t from = cur->m.n;
	int rc;

	if (grow_buffer(cur) < 0)
		return -AUX_E_NOMEM;
	rc = decode_batch(cur, stats);
	if (rc < 0)
		return rc;
	drop_resume(cur, from);
	if (cur->source && cs_handle_new(cur, from) < 0)
		return -AUX_E_NOMEM;
	cur->emitted |= cur->m.n > from;
	note_gap(cur, from);
	if (!cur->in_chunk)
		cur->continues = goes_on && !cur->in_gap;
	return 0;
}

/* Is there a batch for the merge? CoreSight goes on to the next TIME, which
 * dates what is before it, but no further than CURSOR_AHEAD events. */
static bool has_batch(const struct stream_cursor *cur)
{
	if (!cur->m.n)
		return cur->ended;
	return !cur->in_chunk || !cur->source || !cur->timed ||
	       !cur->cs.undated || cur->m.n >= CURSOR_AHEAD;
}

void cursor_begin_dated(struct stream_cursor *cur,
			const struct chunk_start *start)
{
	if (cur->source || !cur->timed)
		return;
	if (!start->has_tsc) { /* whatever comes, who runs is asked then */
		cursor_set_horizon(cur, 0);
		return;
	}
	cur->m.view.ctx.tsc = start->tsc;
	cur->m.view.ctx.time_ns = aux_clock_ns(&cur->config.clock, start->tsc);
	if (cur->m.view.ctx.time_ns > cur->m.key.time)
		cur->m.key.time = cur->m.view.ctx.time_ns;
	view_find_task(cur, &cur->m.view);
	/* Where the trace is damaged here the decoder never emits this TIME. The first one that
	 * it does emit has to end its batch, even if it is earlier. */
	cursor_set_horizon(cur, 0);
}

/* A kind of source that the decoder cannot decode at all, such as an ETMv3: the
 * reference is the decoder. */
static int open_other(struct stream_cursor *cur, struct aux_diag *diag)
{
	cur->ops->close(cur->dec);
	cur->ops = cur->wants.reference;
	cur->wants.reference = NULL;
	cur->dec = NULL;
	*diag = (struct aux_diag){ 0 };
	return cur->ops->open(&cur->dec, &cur->config, &cur->host, diag);
}

static int open_decoder(struct stream_cursor *cur, struct aux_diag *diag)
{
	struct session *s = cur->s;
	int rc;

	cur->opened = true;
	pthread_mutex_lock(&s->open_lock);
	rc = cur->ops->open(&cur->dec, &cur->config, &cur->host, diag);
	if (rc == -AUX_E_UNSUPPORTED && cur->wants.reference)
		rc = open_other(cur, diag);
	if (rc == -AUX_E_NOMEM)
		diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
	if (rc < 0 && !s->open_error.code)
		s->open_error = *diag;
	pthread_mutex_unlock(&s->open_lock);
	return rc;
}

static int start_chunk(struct stream_cursor *cur, struct session_stats *stats)
{
	struct aux_diag diag = { 0 };
	int rc = cur->opened ? 0 : open_decoder(cur, &diag);

	if (rc < 0)
		return rc;
	cut_zeros(cur);
	stats->aux_decoded += cur->it.chunk.len;
	cut_rest(cur);
	stats->n_chunks++;
	cursor_begin_dated(cur, &cur->it.start);
	if (cur->by_stint && merge_before(&cur->stint.key, &cur->m.key))
		cur->stint.key = cur->m.key;
	cur->fallback =
		(struct fallback){ .dec = cur->fallback.dec,
				   .view = *cursor_decoder_view(cur),
				   .offset = cur->it.chunk.stream_offset };
	cur->host.paths = cur->wants.paths;
	cur->in_chunk = true;
	rc = cur->ops->start(cur->dec, &cur->it.chunk);
	if (rc != -AUX_E_UNSUPPORTED)
		return rc;
	cur->fallback.state = FALLBACK_DUE;
	return 0;
}

void cursor_release(struct stream_cursor *cur, const struct aux_chunk *c)
{
	uint64_t n = RELEASE_STEP / cur->s->n_streams;

	if (c->stream_offset != cur->unreleased.to) {
		chunks_release(cur->it.q, cur->s->reader, cur->unreleased.from,
			      cur->unreleased.to);
		cur->unreleased.from = c->stream_offset;
	}
	cur->unreleased.to = c->stream_offset + c->len;
	if (cur->unreleased.to - cur->unreleased.from < n)
		return;
	chunks_release(cur->it.q, cur->s->reader, cur->unreleased.from,
		      cur->unreleased.to);
	cur->unreleased.from = cur->unreleased.to;
}

/* The next chunk or gap of the stream. A chunk begins a stint, of which the key is as a
 * worker finds it, which knows nothing of what was before. */
static int next_chunk(struct stream_cursor *cur)
{
	int step = chunk_iter_next(&cur->it);

	if (cur->by_stint && step == CHUNK_DATA) {
		cur->m.key = (struct merge_key){ 0 };
		cur->stint.begins = true;
	}
	return step;
}

/* Goes on after the chunk: the rest after zeros, or the next chunk or gap. enum
 * chunk_step, or an error. */
static int next_step(struct stream_cursor *cur)
{
	const struct aux_chunk *c = &cur->it.chunk;

	if (cur->scope == CURSOR_STREAM && c->data)
		cursor_release(cur, c);
	if (cur->cut_tail.len) {
		cur->it.gap = cut_gap(cur);
		return CHUNK_GAP;
	}
	if (cur->zero_fill.due) {
		cur->it.gap = zero_gap(cur);
		return CHUNK_GAP;
	}
	if (cur->zero_fill.rest.len) {
		cur->it.chunk = cur->zero_fill.rest;
		cur->it.start = (struct chunk_start){ 0 };
		return CHUNK_DATA;
	}
	if (cur->scope == CURSOR_STREAM)
		return next_chunk(cur);
	if (cur->scope == CURSOR_CHUNK_STARTED)
		return CHUNK_END;
	cur->scope = CURSOR_CHUNK_STARTED;
	return CHUNK_DATA;
}

/* Of thousands of streams most have few events that wait: a buffer for a full
 * batch is only held where one is. */
static void shrink_buffer(struct stream_cursor *cur)
{
	struct aux_flow *buf;

	if (cur->s->n_streams < MANY_STREAMS || cur->in_chunk || !cur->m.n ||
	    cur->m.n > cur->m.cap / 4)
		return;
	buf = realloc(cur->m.buf, cur->m.n * sizeof(*buf));
	if (!buf)
		return;
	cur->m.buf = buf;
	cur->m.cap = cur->m.n;
}

int cursor_refill(struct stream_cursor *cur, struct session_stats *stats)
{
	int rc;

	cur->m.pos = cur->m.n = cur->m.n_plain = 0;
	cur->m.next_time = SIZE_MAX;
	while (!has_batch(cur)) {
		if (cur->in_chunk) {
			rc = decode_more(cur, stats);
			if (rc < 0)
				return rc;
			continue;
		}
		rc = next_step(cur);
		if (rc < 0)
			return rc;
		if (cur->source && cur->it.now &&
		    (rc == CHUNK_DATA || cur->it.now != cur->m.view.segment))
			cs_begin_chunk(cur);
		if (rc == CHUNK_GAP) {
			if (grow_buffer(cur) < 0)
				return -AUX_E_NOMEM;
			cur->m.buf[cur->m.n++] = cur->it.gap;
			if (cur->it.gap.what == AUX_GAP_AUX_ZEROS)
				stats->aux_decoded += cur->it.gap.gap.detail;
		} else if (rc == CHUNK_END) {
			cur->ended = true;
		} else {
			rc = start_chunk(cur, stats);
			if (rc < 0)
				return rc;
		}
	}
	shrink_buffer(cur);
	if (!cur->m.n && cur->ends_early)
		cursor_end(cur);
	return cur->m.n > 0;
}

/* True if the source tells which thread runs. */
static bool has_context(const struct aux_etm_config *etm)
{
	switch (etm->arch) {
	case AUX_ETM_V4:
	case AUX_ETM_ETE: /* TRCCONFIGR: CID, VMID, VMIDOPT */
		return etm->trcconfigr & 0x80c0;
	case AUX_ETM_V3:
	case AUX_ETM_PTM: /* ETMCR.ContextIDsize */
		return etm->etmcr & 0xc000;
	}
	return false;
}

/* True if there are timestamps in its trace. */
static bool has_timestamps(const struct aux_etm_config *etm)
{
	switch (etm->arch) {
	case AUX_ETM_V4:
	case AUX_ETM_ETE: /* TRCCONFIGR.TS */
		return etm->trcconfigr >> 11 & 1;
	case AUX_ETM_V3:
	case AUX_ETM_PTM: /* ETMCR.TimestampEn */
		return etm->etmcr >> 28 & 1;
	}
	return true;
}

/* Tells the decoder what its source is. */
static void configure_source(struct stream_cursor *cur)
{
	const struct csmeta_source *meta = cur->source->meta;
	struct aux_etm_config *etm = &cur->config.etm;

	if (meta)
		*etm = meta->etm;
	etm->trace_id = cur->source->id;
	cur->timed = etm->ts_is_clock && cur->config.clock.mult &&
		     has_timestamps(etm);
	if (!cur->timed) {
		cur->config.clock = (struct aux_clock){ 0 };
		etm->ts_is_clock = 0;
	}
	/* In a trace that was imported (no file of perf's) context IDs are
	 * of another system: no threads that the side-band knows. */
	cur->host.context_switches = meta && !meta->own && has_context(etm);
}

void cursor_setup(struct session *s, struct stream_cursor *cur, size_t i)
{
	const struct stream *st = &s->streams[i];

	cur->s = s;
	cur->stream = st;
	cur->index = i;
	cur->max = CURSOR_BATCH;
	cur->quiet.until_tsc = UINT64_MAX;
	cur->source = st->source;
	cur->config = s->dec_config;
	cur->timed = s->timed;
	cur->host = (struct aux_decoder_host){
		.size = sizeof(cur->host),
		.priv = cur,
		.code = code_for_decoder,
		.forget = forget,
		.paths = cur->wants.paths,
		/* a source's TIMEs date events before them: all are needed */
		.time_step = cur->source ? 0 : cur->wants.time_step,
		.sync_only = cur->wants.sync_only,
	};
	cur->m.view.ctx = (struct flow_ctx){ .session = s,
					     .stream = st->idx,
					     .cpu = st->cpu };
	chunk_iter_init(&cur->it, st->q, s->chunks.trace_type,
			s->config.chunk_min);
	cur->it.errata = ptpkt_errata(&s->dec_config.pt);
	if (cur->source) {
		if (cur->source->cpu >= 0)
			cur->m.view.ctx.cpu = cur->source->cpu;
		configure_source(cur);
		chunk_iter_pick(&cur->it, cur->source);
	}
	chunk_iter_limit(&cur->it, &s->spans[i]);
	cur->continues = cur->tasks.continues = s->spans[i].first.cut.continues;
	cur->cs.ahead = cur->m.view;
	view_find_task(cur, &cur->m.view);
	view_find_task(cur, &cur->cs.ahead);
}

void cursor_prepare(struct session *s, struct stream_cursor *cur, size_t i,
		    const struct aux_decoder_ops *ops)
{
	cursor_setup(s, cur, i);
	cur->ops = ops;
}

int cursor_open(struct session *s, struct stream_cursor *cur, size_t i,
		const struct aux_decoder_ops *ops, struct aux_diag *diag)
{
	cursor_prepare(s, cur, i, ops);
	return open_decoder(cur, diag);
}

void cursor_end(struct stream_cursor *cur)
{
	if (cur->opened)
		cur->ops->close(cur->dec);
	if (cur->fallback.dec)
		cur->wants.reference->close(cur->fallback.dec);
	cur->opened = false;
	cur->dec = cur->fallback.dec = NULL;
	free(cur->m.buf);
	cur->m.buf = NULL;
	cur->m.cap = cur->m.n = cur->m.pos = 0;
}

void cursor_close(struct stream_cursor *cur)
{
	cursor_end(cur);
	chunk_iter_fini(&cur->it);
}
