/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Our own Intel PT decoder: its interface, and the order of fast
 * path, slow path and delivery.
 *
 * It delivers the flow that the libipt decoder delivers, event by event, with
 * two differences: a TIME comes before the branch whose packet it precedes, and
 * the outcome of each branch is known. After missing code it may go on earlier
 * (resume.c), unless the host asks that it does not. What it cannot decode in
 * the same way is left to the other decoder: -AUX_E_UNSUPPORTED.
 *
 * Specification: Intel SDM volume 3, chapter "Intel Processor Trace".
 */
#include <stdlib.h>
#include <string.h>

#include "decode/lib/pt/impl.h"
#include "decode/lib/pt/pt.h"

#define QUEUE_FIRST 512		/* events */
/* Lazy timing (fast.c); tests lower both. MTCs are mostly less than 1,024 bytes
 * apart. */
#define GUARD_BYTES 1024
#define MIN_PERIODS 256

static void close_pt(void *dec)
{
	struct pt *d = dec;

	if (!d)
		return;
	pt_memo_fini(&d->memo);
	free(d->out.queue);
	free(d);
}

static int open_pt(void **dec, const struct aux_decoder_config *config,
		   const struct aux_decoder_host *host, struct aux_diag *diag)
{
	struct pt *d = calloc(1, sizeof(*d));

	(void)diag;
	*dec = NULL;
	if (!d)
		return -AUX_E_NOMEM;
	d->config = config;
	d->host = host;
	d->cur.errata = ptpkt_errata(&config->pt);
	d->out.queue = malloc(QUEUE_FIRST * sizeof(*d->out.queue));
	d->out.cap = QUEUE_FIRST;
	d->guard_bytes = GUARD_BYTES;
	d->min_periods = MIN_PERIODS;
	if (pt_memo_init(&d->memo, host) < 0 || !d->out.queue) {
		close_pt(d);
		return -AUX_E_NOMEM;
	}
	*dec = d;
	return 0;
}

static int start_pt(void *dec, const struct aux_chunk *chunk)
{
	struct pt *d = dec;

	pt_memo_limit(&d->memo, d->host->memory);
	if (pt_memo_is_nearly_full(&d->memo))
		pt_memo_drop(&d->memo);
	d->memo.nomem = false;
	d->chunk = chunk;
	d->cur.p = d->sync = d->checked = chunk->data;
	d->cur.end = chunk->data + chunk->len;
	d->out.offset = chunk->stream_offset;
	d->out.last_ip = 0;
	d->out.head = d->out.committed = d->out.tail = 0;
	d->cur.state = PT_UNSYNCED;
	d->cur.n_bits = 0;
	d->cur.bound.n = 0;
	d->pending.what = 0;
	d->times.have_time = d->times.at_horizon = false;
	d->times.emitted_cycles = 0;
	d->lazy.from = NULL;
	d->resume = (struct pt_resume){ .early = false };
	d->cur.psb = NULL;
	d->end = chunk->len ? PT_RUNNING : PT_DONE;
	pt_time_init(&d->cur.time, &d->config->pt);
	return 0;
}

/* Delivers what is committed. *stop: the last event is a TIME that is at the
 * horizon or goes back; the host has to look. */
static size_t drain(struct pt *d, struct aux_flow *out, size_t max, bool *stop)
{
	struct pt_output *q = &d->out;
	size_t n;

	d->times.at_horizon = false;
	if (max > q->committed - q->head)
		max = q->committed - q->head;
	n = aux_decoder_deliver(d->host, q->queue + q->head, max, out,
				&d->times.delivered_tsc, stop);
	q->head += (uint32_t)n;
	if (q->head == q->tail)
		q->head = q->committed = q->tail = 0;
	return n;
}

bool pt_queue_room(struct pt *d)
{
	struct aux_flow *q;

	if (d->out.tail < d->out.cap)
		return true;
	q = realloc(d->out.queue, 2 * (size_t)d->out.cap * sizeof(*q));
	if (!q)
		return false;
	d->out.queue = q;
	d->out.cap *= 2;
	return true;
}

/* The host may have switched to other code. */
static void follow_generation(struct pt *d)
{
	if (d->memo.generation == d->host->generation)
		return;
	d->memo.generation = d->host->generation;
	d->memo.last = NULL;
	pt_memo_invalidate(&d->memo);
}

/*
 * Alternates: deliver what is committed; the fast path, straight into out; one
 * step of the slow path, and more while what it walked waits for a packet. The
 * fast path runs only with an empty queue, so events stay in order.
 */
static int decode_pt(void *dec, struct aux_flow *out, size_t max)
{
	struct pt *d = dec;
	size_t n = 0, some;
	bool stop = false;

	d->memo.n_scratch = 0;
	follow_generation(d);
	for (;;) {
		n += drain(d, out + n, max - n, &stop);
		if (stop || n == max)
			return (int)n;
		if (d->out.head == d->out.committed && d->end)
			break;
		some = pt_fast_run(d, out + n, max - n, &stop);
		n += some;
		if (stop || max - n < 2)
			return (int)n;
		do {
			pt_slow_step(d);
		} while (d->out.head == d->out.committed &&
			 d->out.committed < d->out.tail && !d->end);
	}
	if (n)
		return (int)n;
	return d->end == PT_NOMEM ? -AUX_E_NOMEM :
	       d->end == PT_UNSUPPORTED ? -AUX_E_UNSUPPORTED : 0;
}

const struct aux_decoder_ops aux_decoder_pt = {
	.abi = AUX_DECODER_ABI,
	.size = sizeof(struct aux_decoder_ops),
	.name = "pt",
	.help = "Intel PT by our own engine, the fast one",
	.trace_type = AUX_TRACE_INTEL_PT,
	.open = open_pt,
	.start = start_pt,
	.decode = decode_pt,
	.close = close_pt,
};
