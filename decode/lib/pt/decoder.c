/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pt: our own Intel PT flow engine: the interface.
 *
 * It gives the flow that the libipt plugin gives, event by event, but TIME, which
 * comes before the branch whose packet it precedes, and the outcome of a branch,
 * which it always knows. What it cannot do so it leaves to another decoder.
 *
 * Specification: Intel SDM volume 3, chapter "Intel Processor Trace".
 */
#include <stdlib.h>
#include <string.h>

#include "decode/lib/pt/engine.h"

#define QUEUE_FIRST 512
#define QUEUE_FULL 256		/* what is ready is given before there is more */
#define SKIP_BYTES 1024		/* MTCs are closer, mostly */
#define SKIP_PERIODS 256

struct model_errata {
	uint8_t model;
	uint8_t errata;
};

#define SKYLAKE (PT_ERR_BDM70 | PT_ERR_SKD007 | PT_ERR_SKD022 |                \
		 PT_ERR_SKD010 | PT_ERR_SKL014)
#define ICELAKE (PT_ERR_BDM70 | PT_ERR_SKL014 | PT_ERR_SKD022)
#define ALDERLAKE (ICELAKE | PT_ERR_APL11)

/* table */
static const struct model_errata models[] = { /* of family 6 */
	{ 0x3d, PT_ERR_BDM70 | PT_ERR_BDM64 },
	{ 0x47, PT_ERR_BDM70 | PT_ERR_BDM64 },
	{ 0x4f, PT_ERR_BDM70 | PT_ERR_BDM64 },
	{ 0x56, PT_ERR_BDM70 | PT_ERR_BDM64 },
	{ 0x4e, SKYLAKE }, { 0x5e, SKYLAKE }, { 0x8e, SKYLAKE },
	{ 0x9e, SKYLAKE }, { 0xa5, SKYLAKE }, { 0xa6, SKYLAKE },
	{ 0x55, ICELAKE }, { 0x6a, ICELAKE }, { 0x6c, ICELAKE },
	{ 0x8f, ICELAKE }, { 0xad, ICELAKE }, { 0xae, ICELAKE },
	{ 0xcf, ICELAKE }, { 0x66, ICELAKE }, { 0x7d, ICELAKE },
	{ 0x7e, ICELAKE }, { 0x8c, ICELAKE }, { 0x8d, ICELAKE },
	{ 0xa7, ICELAKE }, { 0xa8, ICELAKE },
	{ 0x97, ALDERLAKE }, { 0x9a, ALDERLAKE }, { 0xbf, ALDERLAKE },
	{ 0xb7, ALDERLAKE }, { 0xb5, ALDERLAKE }, { 0xaa, ALDERLAKE },
	{ 0xac, ALDERLAKE }, { 0xba, ALDERLAKE }, { 0xcc, ALDERLAKE },
	{ 0xbd, ALDERLAKE }, { 0xc5, ALDERLAKE }, { 0xc6, ALDERLAKE },
	{ 0x5c, PT_ERR_APL12 | PT_ERR_APL11 },
	{ 0x5f, PT_ERR_APL12 | PT_ERR_APL11 },
	{ 0x7a, PT_ERR_APL11 }, { 0x86, PT_ERR_APL11 },
	{ 0x96, PT_ERR_APL11 }, { 0x9c, PT_ERR_APL11 },
	{ 0xb6, PT_ERR_APL11 }, { 0xaf, PT_ERR_APL11 },
	{ 0xdd, PT_ERR_APL11 },
};

static uint16_t find_errata(const struct aux_pt_config *c)
{
	if (!c->cpu_intel || c->cpu_family != 6)
		return 0;
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
		if (models[i].model == c->cpu_model)
			return models[i].errata;
	return 0;
}

static void close_pt(void *dec)
{
	struct pt *d = dec;

	if (!d)
		return;
	pt_store_fini(&d->store);
	free(d->queue);
	free(d->scratch);
	free(d->ahead);
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
	d->errata = find_errata(&config->pt);
	d->queue = malloc(QUEUE_FIRST * sizeof(*d->queue));
	d->cap = QUEUE_FIRST;
	d->skip_bytes = SKIP_BYTES;
	d->skip_periods = SKIP_PERIODS;
	d->scratch = aligned_alloc(64, PT_SCRATCH);
	d->ahead = malloc(sizeof(*d));
	if (pt_store_init(&d->store, host) < 0 || !d->queue || !d->scratch ||
	    !d->ahead) {
		close_pt(d);
		return -AUX_E_NOMEM;
	}
	*dec = d;
	return 0;
}

static int start_pt(void *dec, const struct aux_chunk *chunk)
{
	struct pt *d = dec;

	if (pt_store_is_worn(&d->store))
		pt_store_drop(&d->store);
	d->store.nomem = false;
	d->chunk = chunk;
	d->p = d->sync = chunk->data;
	d->end = chunk->data + chunk->len;
	d->offset = chunk->stream_offset;
	d->synced = d->enabled = d->unsupported = d->failed_mem = false;
	d->held = d->postponed = d->need_on = d->have_time = false;
	d->at_horizon = false;
	d->last_ip = 0;
	d->told_cycles = 0;
	d->skip.from = NULL;
	d->n_bits = 0;
	d->n_ev = 0;
	d->head = d->sure = d->tail = 0;
	d->done = !chunk->len;
	pt_time_init(&d->time, &d->config->pt);
	return 0;
}

/* Gives what is ready. Stops behind a TIME that reaches the horizon. */
static size_t drain(struct pt *d, struct aux_flow *out, size_t max, bool *stop)
{
	const struct aux_flow *q = d->queue + d->head;
	size_t n = 0;

	d->at_horizon = false;
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
	if (d->head == d->tail)
		d->head = d->sure = d->tail = 0;
	return n;
}

/* Room for another event; what was given makes it, or more memory. */
bool pt_queue_room(struct pt *d)
{
	struct aux_flow *q;

	if (d->tail < d->cap)
		return true;
	q = realloc(d->queue, 2 * (size_t)d->cap * sizeof(*q));
	if (!q)
		return false;
	d->queue = q;
	d->cap *= 2;
	return true;
}

/* The host may have other code now. */
static void take_generation(struct pt *d)
{
	if (d->store.generation == d->host->generation)
		return;
	d->store.generation = d->host->generation;
	d->store.last = NULL;
	pt_store_forget_ready(&d->store);
}

static int decode_pt(void *dec, struct aux_flow *out, size_t max)
{
	struct pt *d = dec;
	size_t n = 0, some;
	bool stop = false;

	d->n_scratch = 0;
	take_generation(d);
	for (;;) {
		n += drain(d, out + n, max - n, &stop);
		if (stop || n == max)
			return (int)n;
		if (d->head == d->sure && (d->done || d->unsupported ||
					   d->failed_mem))
			break;
		some = pt_run(d, out + n, max - n, &stop);
		n += some;
		if (stop || max - n < 2)
			return (int)n;
		do {
			pt_slow_step(d);
		} while (d->head == d->sure && d->sure < d->tail && !d->done &&
			 !d->unsupported && !d->failed_mem);
	}
	if (n)
		return (int)n;
	return d->failed_mem ? -AUX_E_NOMEM :
	       d->unsupported ? -AUX_E_UNSUPPORTED : 0;
}

#ifdef AUX_PLUGIN
#define aux_decoder_pt aux_decoder_plugin
#endif
extern const struct aux_decoder_ops aux_decoder_pt;

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
