/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: ETMv4 and ETE, our own engine.
 *
 * What it gives is what opencsd/decoder.c gives, event by event. Code is decoded
 * once, and so is what the atoms of a packet mean from a place on: most packets are
 * one look into a hash. Without speculation a packet is all there is to know, so
 * that events come out in the order of packets. What it does not know it leaves to
 * another decoder, chunk by chunk: speculation, data trace, conditional
 * instructions, Q elements, transactions, M profile, AArch32.
 *
 * Specifications: Arm IHI 0064 (ETMv4), DDI 0487 (ETE).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/lib/etm/engine.h"

#define DIRECT_MIN 128	/* events that a host has room for, to be worth it */

static void close_etm(void *dec)
{
	struct etm *d = dec;

	if (!d)
		return;
	etm_store_free(d->store);
	free(d);
}

static uint8_t bytes_of(uint32_t field)
{
	field &= 0x1f;
	return field == 1 || field == 2 || field == 4 ? (uint8_t)field : 0;
}

/* Is that a source whose packets mean what is written here? */
static bool is_known(const struct aux_etm_config *etm)
{
	uint32_t c = etm->trcconfigr;

	return !etm->trcidr8 && etm->core_profile != 'M' &&
	       (!etm->core_version || etm->core_version >= 8) &&
	       !(c & 0x6) && !(c >> 8 & 7) && !(c >> 16 & 3);
}

static void configure(struct etm *d)
{
	const struct aux_etm_config *etm = &d->config->etm;
	uint32_t r = etm->trcidr2;

	d->ete = etm->arch == AUX_ETM_ETE;
	d->version = d->ete ? 0x50 : (uint8_t)(etm->trcidr1 >> 4);
	d->waits = r >> 31 && d->version >= 0x43;
	d->n_cid = (r >> 5 & 0x1f) == 4 ? 4 : 0;
	d->n_vmid = bytes_of(r >> 10);
	if (d->n_vmid > 1 && d->version <= 0x40)
		d->n_vmid = 0;
	d->cycle_mask = (UINT32_C(1) << ((r >> 25 & 0xf) + 12)) - 1;
	d->timed = etm->trcconfigr >> 11 & 1;
	d->stack = etm->trcconfigr >> 12 & 1;
	d->adds_up = d->timed && etm->trcidr0 >> 29 & 1;
	d->refused = !is_known(etm);
	etm_fill_classes(d);
}

static int refuse(struct aux_diag *diag)
{
	if (!diag)
		return -AUX_E_UNSUPPORTED;
	diag->code = AUX_E_UNSUPPORTED;
	diag->why = AUX_WHY_OTHER_DECODER;
	diag->offset = AUX_NO_OFFSET;
	snprintf(diag->text, sizeof(diag->text),
		 "the etm decoder knows ETMv4 and ETE alone");
	return -AUX_E_UNSUPPORTED;
}

static int open_etm(void **dec, const struct aux_decoder_config *config,
		    const struct aux_decoder_host *host, struct aux_diag *diag)
{
	const struct aux_etm_config *etm = &config->etm;
	struct etm *d;

	*dec = NULL;
	if (etm->arch != AUX_ETM_V4 && etm->arch != AUX_ETM_ETE)
		return refuse(diag);
	d = calloc(1, sizeof(*d));
	if (!d)
		return -AUX_E_NOMEM;
	d->config = config;
	d->host = host;
	configure(d);
	d->store = etm_store_new();
	if (!d->store) {
		close_etm(d);
		return -AUX_E_NOMEM;
	}
	*dec = d;
	return 0;
}

/* What has grown too much goes to the host, which may still hold some of it. */
static int renew_store(struct etm *d)
{
	struct etm_store *s;

	d->last_region = NULL;
	if (d->store->n_bytes < ETM_STORE_MAX)
		return 0;
	s = etm_store_new();
	if (!s)
		return -AUX_E_NOMEM;
	if (d->host->paths && d->host->forget)
		d->host->forget(d->host->priv, etm_store_free, d->store);
	else
		etm_store_free(d->store);
	d->store = s;
	return 0;
}

/* The store, the host and the last time of all stay. */
static void forget(struct etm *d)
{
	d->pos = d->packet = 0;
	d->framed = d->found = d->done = d->partial = false;
	d->synced = d->except = d->informed = d->unsupported = false;
	d->resumes = d->ahead = d->foretold = false;
	d->state = ETM_WAIT_SYNC;
	d->need_context = true;
	d->place = ETM_NOWHERE;
	d->overflowed = d->on_pending = false;
	d->has_ip = d->is_64 = d->code_64 = d->context_pending =
		d->sf_known = false;
	d->exc = (struct etm_exception){ 0 };
	d->n_returns = d->n_early = 0;
	d->unsure = false;
	d->clock = d->ts = 0;
	d->clock_known = false;
	d->threshold = 0;
	d->on = d->last_known = d->lost = false;
	d->have_time = d->have_context = false;
	d->told = ETM_LOSS_NONE;
	d->cycles = d->head = d->tail = d->stop = 0;
	d->waiting = ETM_NONE;
	d->after.waits = false;
}

static int start_etm(void *dec, const struct aux_chunk *chunk)
{
	struct etm *d = dec;

	d->chunk = chunk;
	d->data = chunk->data;
	d->len = chunk->len;
	d->offset = chunk->stream_offset;
	forget(d);
	d->done = !d->len;
	if (d->refused)
		return -AUX_E_UNSUPPORTED;
	return renew_store(d);
}

/* How many events are ready. */
static uint32_t count_ready(struct etm *d)
{
	uint32_t end = d->tail;

	if (d->stop)
		return d->stop - d->head;
	if (d->done)
		return end - d->head;
	if (d->waiting != ETM_NONE && end - d->waiting > ETM_WAITING)
		d->waiting = ETM_NONE;
	if (end > d->head)
		end--;
	if (d->waiting != ETM_NONE && d->waiting < end)
		end = d->waiting;
	return end - d->head;
}

static size_t drain(struct etm *d, struct aux_flow *out, size_t max)
{
	size_t n = count_ready(d);

	if (n > max)
		n = max;
	memcpy(out, d->queue + d->head, n * sizeof(*out));
	d->head += (uint32_t)n;
	return n;
}

/* What is left moves to the front of the queue. */
static void make_room(struct etm *d)
{
	if (!d->head)
		return;
	memmove(d->queue, d->queue + d->head,
		(d->tail - d->head) * sizeof(*d->queue));
	d->tail -= d->head;
	if (d->waiting != ETM_NONE)
		d->waiting -= d->head;
	d->head = 0;
}

static void take_generation(struct etm *d)
{
	if (d->host->generation == d->generation)
		return;
	d->generation = d->host->generation;
	d->last_region = NULL;
}

static int decode_etm(void *dec, struct aux_flow *out, size_t max)
{
	struct etm *d = dec;
	bool direct = d->host->paths == AUX_PATHS_JOINED && !d->stack &&
		      max >= DIRECT_MIN;
	size_t n = 0;

	d->cut |= d->host->context_switches ||
		  d->host->horizon_tsc != UINT64_MAX;
	take_generation(d);
	for (;;) {
		n += drain(d, out + n, max - n);
		if (d->stop && d->head == d->stop) {
			d->waiting = ETM_NONE;
			d->stop = 0;
			return (int)n;
		}
		if (n == max || (d->done && d->head == d->tail))
			return (int)n;
		if (d->unsupported)
			return n ? (int)n : -AUX_E_UNSUPPORTED;
		make_room(d);
		if (direct)
			n += etm_run_direct(d, out + n, max - n);
		etm_run(d, direct);
	}
}

#ifdef AUX_PLUGIN
#define aux_decoder_etm aux_decoder_plugin
#endif
extern const struct aux_decoder_ops aux_decoder_etm;

const struct aux_decoder_ops aux_decoder_etm = {
	.abi = AUX_DECODER_ABI,
	.size = sizeof(struct aux_decoder_ops),
	.name = "etm",
	.help = "CoreSight ETMv4 and ETE, fast",
	.trace_type = AUX_TRACE_CS_ETM,
	.open = open_etm,
	.start = start_etm,
	.decode = decode_etm,
	.close = close_etm,
};
