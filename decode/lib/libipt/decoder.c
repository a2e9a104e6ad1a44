/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libipt: Intel PT through libipt's block decoder, the reference.
 *
 * libipt reads ahead, so what it says comes through a queue: a RANGE waits there
 * until the next ip tells how its conditional branch went, and what needed no
 * trace waits until the trace bears it out, so that a walk that goes wrong is
 * never shown. Nothing is asked of libipt while a TIME that reaches the host's
 * horizon is queued. After an error decoding goes on at a later PSB, always: each
 * try starts behind the one before.
 *
 * Blocks end at each branch (end_on_call, end_on_jump), so they are contiguous.
 * Specification: Intel SDM volume 3, chapter "Intel Processor Trace"; libipt 2.0.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/lib/libipt/impl.h"

/* ---- the interface ---- */

static void set_cpu(struct pt_config *c, const struct aux_pt_config *pt)
{
	if (!pt->cpu_intel || !pt->cpu_family)
		return;
	c->cpu.vendor = pcv_intel;
	c->cpu.family = pt->cpu_family;
	c->cpu.model = pt->cpu_model;
	c->cpu.stepping = pt->cpu_stepping;
	if (pt_cpu_errata(&c->errata, &c->cpu) < 0)
		memset(&c->errata, 0, sizeof(c->errata));
}

static void set_filters(struct pt_config *c,
			const struct aux_decoder_config *config)
{
	uint64_t *const a[] = {
		&c->addr_filter.addr0_a, &c->addr_filter.addr1_a,
		&c->addr_filter.addr2_a, &c->addr_filter.addr3_a,
	};

	for (uint32_t i = 0; i < config->n_filters && i < 4; i++) {
		c->addr_filter.config.addr_cfg |= UINT64_C(1) << (4 * i);
		a[i][0] = config->filters[i].start;
		a[i][1] = config->filters[i].end - 1;
	}
}

static void set_config(struct pt_config *c,
		       const struct aux_decoder_config *config)
{
	pt_config_init(c);
	c->flags.variant.block.end_on_call = 1;
	c->flags.variant.block.end_on_jump = 1;
	c->flags.variant.block.enable_tick_events = 1;
	c->cpuid_0x15_eax = config->pt.tsc_ctc_ratio_d;
	c->cpuid_0x15_ebx = config->pt.tsc_ctc_ratio_n;
	c->mtc_freq = (uint8_t)config->pt.mtc_period;
	c->nom_freq = (uint8_t)config->pt.max_nonturbo_ratio;
	set_cpu(c, &config->pt);
	set_filters(c, config);
}

static void close_libipt(void *dec)
{
	struct libipt *d = dec;

	if (!d)
		return;
	pt_blk_free_decoder(d->blk);
	for (unsigned i = 0; i < N_IMAGES; i++)
		pt_image_free(d->images[i].image);
	pt_iscache_free(d->iscache);
	free(d->queue);
	free(d->tailed);
	free(d);
}

static int open_libipt(void **dec, const struct aux_decoder_config *config,
		       const struct aux_decoder_host *host,
		       struct aux_diag *diag)
{
	struct libipt *d = calloc(1, sizeof(*d));

	(void)diag;
	*dec = NULL;
	if (!d)
		return -AUX_E_NOMEM;
	d->config = config;
	d->host = host;
	d->iscache = pt_iscache_alloc(NULL);
	d->queue = malloc(N_QUEUE * sizeof(*d->queue));
	d->cap = N_QUEUE;
	if (!d->iscache || !d->queue) {
		close_libipt(d);
		return -AUX_E_NOMEM;
	}
	pt_iscache_set_limit(d->iscache, ISCACHE_LIMIT);
	*dec = d;
	return 0;
}

/* The chunk, and behind it: "tracing ended asynchronously at end_ip". */
static int add_tail(struct libipt *d)
{
	uint8_t *p = malloc(d->chunk->len + TAIL_SIZE);

	if (!p)
		return -AUX_E_NOMEM;
	d->tailed = p;
	memcpy(p, d->chunk->data, d->chunk->len);
	p += d->chunk->len;
	*p++ = 0xdd; /* FUP, full IP */
	memcpy(p, &d->chunk->end_ip, 8);
	p[8] = 0x01; /* TIP.PGD without an IP */
	d->len += TAIL_SIZE;
	return 0;
}

static int start_libipt(void *dec, const struct aux_chunk *chunk)
{
	struct libipt *d = dec;
	struct pt_config c;

	pt_blk_free_decoder(d->blk);
	free(d->tailed);
	d->blk = NULL;
	d->tailed = NULL;
	d->image = NULL;
	d->chunk = chunk;
	d->len = chunk->len;
	d->sync = 0;
	d->offset = chunk->stream_offset;
	d->synced = d->nomem = d->need_on = d->at_horizon = false;
	d->have_time = false;
	d->last_ip = 0;
	d->untraced = d->n_empty = 0;
	d->head = d->tail = d->sure = 0;
	d->open = NONE;
	d->done = !chunk->len;
	if (d->done)
		return 0;
	if (chunk->flags & AUX_CHUNK_HAS_END_IP && add_tail(d) < 0)
		return -AUX_E_NOMEM;
	set_config(&c, d->config);
	/* libipt only reads, though it takes pointers to non-const. */
	c.begin = (uint8_t *)(uintptr_t)(d->tailed ? d->tailed : chunk->data);
	c.end = c.begin + d->len;
	d->blk = pt_blk_alloc_decoder(&c);
	return d->blk ? 0 : -AUX_E_NOMEM;
}

/*
 * Gives what is sure. Stops behind a TIME that reaches the horizon, and tells so:
 * then what waits for its end will not learn it.
 */
static size_t drain(struct libipt *d, struct aux_flow *out, size_t max,
		    bool *stop)
{
	const struct aux_flow *q = d->queue + d->head;
	size_t n = 0;

	if (d->at_horizon || d->done)
		libipt_confirm(d);
	d->at_horizon = false;
	*stop = false;
	if (max > d->sure - d->head)
		max = d->sure - d->head;
	while (n < max && !*stop) {
		out[n] = q[n];
		if (out[n].kind == AUX_FLOW_TIME) {
			*stop = out[n].time.tsc >= d->host->horizon_tsc ||
				out[n].time.tsc < d->given_tsc;
			d->given_tsc = out[n].time.tsc;
		}
		n++;
	}
	d->head += (uint32_t)n;
	return n;
}

/* Room for a step: what was given makes it, or more memory. */
static int make_room(struct libipt *d)
{
	struct aux_flow *q;

	if (d->head) {
		memmove(d->queue, d->queue + d->head,
			(d->tail - d->head) * sizeof(*q));
		d->tail -= d->head;
		d->sure -= d->head;
		if (d->open != NONE)
			d->open -= d->head;
		d->head = 0;
	}
	if (d->tail + N_STEP <= d->cap)
		return 0;
	q = realloc(d->queue, 2 * d->cap * sizeof(*q));
	if (!q)
		return -AUX_E_NOMEM;
	d->queue = q;
	d->cap *= 2;
	return 0;
}

static int decode_libipt(void *dec, struct aux_flow *out, size_t max)
{
	struct libipt *d = dec;
	size_t n = 0;
	bool stop;

	for (;;) {
		n += drain(d, out + n, max - n, &stop);
		if (stop || n == max)
			return (int)n;
		if (d->done && d->head == d->tail)
			return (int)n;
		if (d->nomem || make_room(d) < 0)
			return -AUX_E_NOMEM;
		while (!d->done && !d->nomem && !d->at_horizon && libipt_has_room(d))
			libipt_step(d);
	}
}

#ifdef AUX_PLUGIN
#define aux_decoder_libipt aux_decoder_plugin
#endif
extern const struct aux_decoder_ops aux_decoder_libipt;

const struct aux_decoder_ops aux_decoder_libipt = {
	.abi = AUX_DECODER_ABI,
	.size = sizeof(struct aux_decoder_ops),
	.name = "libipt",
	.help = "Intel PT by libipt, the reference",
	.trace_type = AUX_TRACE_INTEL_PT,
	.open = open_libipt,
	.start = start_libipt,
	.decode = decode_libipt,
	.close = close_libipt,
};
