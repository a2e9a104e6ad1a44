/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue between the packets that a decoder parses and decode() (decoder.h).
 *
 * A packet gives any number of events, the host takes any number per call, and some
 * events cannot be delivered when they are made. The queue decides which are
 * committed, so decoders for different traces deliver by the same rules:
 *
 *  - The last n_held events stay back: the next packet may still amend them (an
 *    exception tells that the branch before it was a system call).
 *  - An event may lack an address that a later packet brings: TRACE_ON and an
 *    overflow GAP where the flow resumes, ASYNC where it leads. It and everything
 *    after it stay back until aux_queue_settle() fills the address in, or until
 *    AUX_QUEUE_WAIT_MAX events are waiting; then they go without it.
 *  - After aux_queue_stop() nothing past that point is delivered before decode()
 *    has returned: the host switches contexts there.
 *
 * The functions never allocate and never fail. Room is the decoder's business: it
 * parses a packet only while tail is so far below AUX_QUEUE_MAX that all events of
 * one packet fit. One thread uses a queue at a time, as it does the decoder.
 *
 *	aux_queue_init(&d->queue, 1);			(once, from open)
 *	aux_queue_reset(&d->queue, chunk->stream_offset);	(from start)
 *
 *	for (;;) {					(decode)
 *		if (aux_queue_deliver(&d->queue, out, max, &n, d->done))
 *			return n;
 *		aux_queue_compact(&d->queue);
 *		parse_packets(d);			(until done, stop, or little room)
 *	}
 */
#ifndef AUX_DECODER_QUEUE_H
#define AUX_DECODER_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <aux/decoder.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Events of 32 bytes. A plugin that needs more defines it before the
 * include. */
#ifndef AUX_QUEUE_MAX
#define AUX_QUEUE_MAX 2560
#endif
/* So many events are kept back for the sake of one that lacks its address. */
#define AUX_QUEUE_WAIT_MAX 64
#define AUX_QUEUE_NONE UINT32_MAX

struct aux_queue {
	uint32_t head;		/* first event that is not delivered */
	uint32_t tail;		/* the next event is written here */
	uint32_t n_held;	/* of the last events; constant after init */
	uint32_t unsettled;	/* first event without its address, or NONE */
	uint32_t stop;		/* end of what one decode() may deliver; 0: none */
	uint32_t cycles;	/* since the last TIME, saturating */
	bool have_time;		/* time is of this chunk */
	uint64_t time;		/* timestamp of the last TIME; kept over reset */
	uint64_t offset;	/* for new events; never decreases in a chunk */
	struct aux_flow events[AUX_QUEUE_MAX];	/* [head, tail) are valid */
};

static inline void aux_queue_init(struct aux_queue *q, uint32_t n_held)
{
	q->head = q->tail = q->stop = q->cycles = 0;
	q->n_held = n_held;
	q->unsettled = AUX_QUEUE_NONE;
	q->have_time = false;
	q->time = q->offset = 0;
}

/* A new chunk: drops all events. */
static inline void aux_queue_reset(struct aux_queue *q, uint64_t stream_offset)
{
	q->head = q->tail = q->stop = q->cycles = 0;
	q->unsettled = AUX_QUEUE_NONE;
	q->have_time = false;
	q->offset = stream_offset;
}

static inline bool aux_queue_is_empty(const struct aux_queue *q)
{
	return q->head == q->tail;
}

/* ---- the decoder's side ---- */

/* New events belong to the packet at offset. Elements that a packet confirms
 * late may be older than events already made; offsets of a flow never
 * decrease. */
static inline void aux_queue_at(struct aux_queue *q, uint64_t offset)
{
	if (offset > q->offset)
		q->offset = offset;
}

/* Appends an event with all other fields 0; valid until the next compact. */
static inline struct aux_flow *aux_queue_push(struct aux_queue *q,
					      enum aux_flow_kind kind,
					      unsigned what)
{
	struct aux_flow *f = &q->events[q->tail++];

	memset(f, 0, sizeof(*f));
	f->offset = q->offset;
	f->kind = (uint8_t)kind;
	f->what = (uint8_t)what;
	return f;
}

/* The last event that can still be amended; NULL: none. */
static inline struct aux_flow *aux_queue_last(struct aux_queue *q)
{
	return q->tail > q->head ? &q->events[q->tail - 1] : NULL;
}

/* The last event lacks its address. An older one that does keeps the mark. */
static inline void aux_queue_await(struct aux_queue *q)
{
	if (q->unsettled == AUX_QUEUE_NONE)
		q->unsettled = q->tail - 1;
}

/* No address will come: what waits for one is committed as it is. */
static inline void aux_queue_give_up(struct aux_queue *q)
{
	q->unsettled = AUX_QUEUE_NONE;
}

/* The flow continues at ip: events that wait for an address get this one. Call
 * it only while unsettled is not NONE. */
static inline void aux_queue_settle(struct aux_queue *q, uint64_t ip)
{
	uint32_t i = q->unsettled;

	if (q->tail - i > AUX_QUEUE_WAIT_MAX)
		i = q->tail;
	for (; i < q->tail; i++) {
		struct aux_flow *f = &q->events[i];

		if (f->kind == AUX_FLOW_ASYNC) {
			f->async.to = ip;
		} else if (f->kind == AUX_FLOW_TRACE_ON) {
			f->trace.ip = ip;
			f->flags |= AUX_FLOW_HAS_IP;
		} else if (f->kind == AUX_FLOW_GAP &&
			   f->what == AUX_GAP_OVERFLOW) {
			f->gap.ip = ip;
			f->flags |= AUX_FLOW_HAS_IP;
		}
	}
	q->unsettled = AUX_QUEUE_NONE;
}

/* Flow is missing. After an overflow the next address says where it resumes; no
 * other gap waits, and what waited before it goes without its address. */
static inline struct aux_flow *aux_queue_push_gap(struct aux_queue *q,
						  enum aux_gap_cause cause,
						  uint64_t detail)
{
	struct aux_flow *f;

	aux_queue_give_up(q);
	f = aux_queue_push(q, AUX_FLOW_GAP, cause);
	f->gap.detail = detail;
	if (cause == AUX_GAP_OVERFLOW)
		aux_queue_await(q);
	return f;
}

/* Cycles elapsed; the next TIME reports them. */
static inline void aux_queue_add_cycles(struct aux_queue *q, uint32_t n)
{
	if (q->cycles > UINT32_MAX - n)
		q->cycles = UINT32_MAX;
	else
		q->cycles += n;
}

/* A TIME of cycles alone, for a trace without timestamps. */
static inline void aux_queue_push_cycles(struct aux_queue *q)
{
	if (!q->cycles)
		return;
	aux_queue_push(q, AUX_FLOW_TIME, 0)->n = q->cycles;
	q->cycles = 0;
}

/* A TIME at tsc, with the cycles since the last; clock may be NULL. Returns
 * true if time goes back: a host that acts on time has to look at it. */
static inline bool aux_queue_push_time(struct aux_queue *q, uint64_t tsc,
				       const struct aux_clock *clock)
{
	struct aux_flow *f = aux_queue_push(q, AUX_FLOW_TIME, 0);
	bool back = tsc < q->time;

	f->flags = AUX_FLOW_HAS_TSC;
	f->n = q->cycles;
	f->time.tsc = tsc;
	if (clock)
		f->time.ns = aux_clock_ns(clock, tsc);
	q->cycles = 0;
	q->have_time = true;
	q->time = tsc;
	return back;
}

/* A TIME at a CoreSight timestamp. True: the host has to look at it, for time
 * goes back or reaches its horizon. */
static inline bool aux_queue_push_etm_time(struct aux_queue *q, uint64_t ts,
					   const struct aux_decoder_config *config,
					   const struct aux_decoder_host *host)
{
	bool has_clock = config->etm.ts_is_clock;
	bool back = aux_queue_push_time(q, ts, has_clock ? &config->clock : NULL);

	return back || ts >= host->horizon_tsc;
}

/* decode() has to return once the events up to here are delivered, and before
 * any code is read for what follows (aux_decoder_host.horizon_tsc). */
static inline void aux_queue_stop(struct aux_queue *q)
{
	q->stop = q->tail;
}

/* ---- the host's side: what decode() returns ---- */

/* Committed events, from head on. done: no packet will follow. */
static inline uint32_t aux_queue_count_ready(struct aux_queue *q, bool done)
{
	uint32_t end = q->tail;

	if (q->stop)
		return q->stop - q->head;
	if (done)
		return end - q->head;
	if (q->unsettled != AUX_QUEUE_NONE &&
	    end - q->unsettled > AUX_QUEUE_WAIT_MAX)
		q->unsettled = AUX_QUEUE_NONE;
	end = end - q->head > q->n_held ? end - q->n_held : q->head;
	if (end > q->unsettled)		/* NONE is above any index */
		end = q->unsettled;
	return end - q->head;
}

/* Moves at most max committed events to out; returns how many. */
static inline size_t aux_queue_drain(struct aux_queue *q, struct aux_flow *out,
				     size_t max, bool done)
{
	size_t n = aux_queue_count_ready(q, done);

	if (n > max)
		n = max;
	memcpy(out, q->events + q->head, n * sizeof(*out));
	q->head += (uint32_t)n;
	return n;
}

/* True, once, when all up to a stop is delivered: decode() returns now. The
 * host has seen these events, so none of them can be settled any more. */
static inline bool aux_queue_stopped(struct aux_queue *q)
{
	if (!q->stop || q->head != q->stop)
		return false;
	q->stop = 0;
	q->unsettled = AUX_QUEUE_NONE;
	return true;
}

/* Moves committed events to out, after the *n that are there. True: decode()
 * returns *n now, since the host stops here, out is full, or the chunk (done)
 * is over. */
static inline bool aux_queue_deliver(struct aux_queue *q, struct aux_flow *out,
				     size_t max, size_t *n, bool done)
{
	*n += aux_queue_drain(q, out + *n, max - *n, done);
	return aux_queue_stopped(q) || *n == max ||
	       (done && aux_queue_is_empty(q));
}

/* Moves what is left to the front. Only without a stop. */
static inline void aux_queue_compact(struct aux_queue *q)
{
	if (!q->head)
		return;
	memmove(q->events, q->events + q->head,
		(q->tail - q->head) * sizeof(*q->events));
	q->tail -= q->head;
	if (q->unsettled != AUX_QUEUE_NONE)
		q->unsettled -= q->head;
	q->head = 0;
}

#ifdef __cplusplus
}
#endif
#endif
