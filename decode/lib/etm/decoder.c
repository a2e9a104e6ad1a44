/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: our own decoder for ETMv4 and ETE, with the plugin interface
 * (decoder.h).
 *
 * It emits what opencsd/decoder.c emits, event by event, with a fraction of the
 * work: code is decoded once, and so is what the atoms of a packet mean from an
 * ip on (memo.h). Without speculation a packet is all there is to know, so
 * events come in the order of packets.
 *
 * Whatever it does not know it leaves to another decoder, chunk by chunk, with
 * -AUX_E_UNSUPPORTED: speculation, data trace, conditional instructions,
 * transactions, M profile, AArch32.
 *
 * Specifications: Arm IHI 0064 (ETMv4), DDI 0487 (ETE).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/lib/etm/impl.h"

/* Room for events below which the direct way costs more than it saves. */
#define DIRECT_MIN 128
/* The last event: an exception after it may tell how it ended. */
#define N_HELD 1

static void close_etm(void *dec)
{
	struct etm *d = dec;

	if (!d)
		return;
	etm_memo_free(d->memo);
	free(d);
}

/* TRCIDR2's size fields: only these values are not reserved. */
static uint8_t size_of_field(uint32_t field)
{
	field &= 0x1f;
	return field == 1 || field == 2 || field == 4 ? (uint8_t)field : 0;
}

/* A source without the features that are left to another decoder: TRCIDR8 is
 * the speculation depth, TRCCONFIGR enables data trace and conditional
 * trace. */
static bool is_supported(const struct aux_etm_config *etm)
{
	uint32_t c = etm->trcconfigr;

	return !etm->trcidr8 && etm->core_profile != 'M' &&
	       (!etm->core_version || etm->core_version >= 8) &&
	       !(c & 0x6) && !(c >> 8 & 7) && !(c >> 16 & 3);
}

/* IHI 0064, the registers by their names. */
static void configure(struct etm *d)
{
	const struct aux_etm_config *etm = &d->config->etm;
	struct etm_source *src = &d->src;
	uint32_t idr2 = etm->trcidr2;

	src->ete = etm->arch == AUX_ETM_ETE;
	src->version = src->ete ? 0x50 : (uint8_t)(etm->trcidr1 >> 4);
	src->wfx_is_p0 = idr2 >> 31 && src->version >= 0x43;
	src->n_cid = (idr2 >> 5 & 0x1f) == 4 ? 4 : 0;
	src->n_vmid = size_of_field(idr2 >> 10);
	/* ETMv4.0 has no VMID longer than a byte */
	if (src->n_vmid > 1 && src->version <= 0x40)
		src->n_vmid = 0;
	src->cycle_mask = (UINT32_C(1) << ((idr2 >> 25 & 0xf) + 12)) - 1;
	src->has_timestamps = etm->trcconfigr >> 11 & 1;
	src->return_stack = etm->trcconfigr >> 12 & 1;
	src->cycles_add_up = src->has_timestamps && etm->trcidr0 >> 29 & 1;
	src->unsupported = !is_supported(etm);
	etm_fill_headers(d);
}

static int fail_unsupported(struct aux_diag *diag)
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
		return fail_unsupported(diag);
	d = malloc(sizeof(*d));
	if (!d)
		return -AUX_E_NOMEM;
	memset(d, 0, offsetof(struct etm, q));	/* not 80 KiB of events */
	d->config = config;
	d->host = host;
	aux_queue_init(&d->q, N_HELD);
	configure(d);
	d->memo = etm_memo_new(ETM_MEMO_MAX);
	if (!d->memo) {
		close_etm(d);
		return -AUX_E_NOMEM;
	}
	*dec = d;
	return 0;
}

/* Half of what the host grants: hashes come to as much as entries, at most. */
static uint64_t memo_limit(const struct etm *d)
{
	uint64_t memory = d->host->memory / 2;

	return !memory || memory > ETM_MEMO_MAX ? ETM_MEMO_MAX :
	       memory < ETM_MEMO_MIN ? ETM_MEMO_MIN : memory;
}

/* Replaces a full memo. The host may still hold events that lead to its paths,
 * and frees it after the last of them. */
static int renew_memo(struct etm *d)
{
	struct etm_memo *memo;

	d->code.last = NULL;
	d->memo->limit = memo_limit(d);
	if (d->memo->n_bytes < d->memo->limit)
		return 0;
	memo = etm_memo_new(d->memo->limit);
	if (!memo)
		return -AUX_E_NOMEM;
	if (d->host->paths && d->host->forget)
		d->host->forget(d->host->priv, etm_memo_free, d->memo);
	else
		etm_memo_free(d->memo);
	d->memo = memo;
	return 0;
}

/* All state of the last chunk, but for the queue's last time. History stays,
 * too: a Trace Info packet clears it before it is used. */
static void reset(struct etm *d)
{
	d->in = (struct etm_input){ 0 };
	d->done = d->unsupported = false;
	d->sync = (struct etm_sync){ .state = ETM_WAIT_ASYNC };
	d->flow = (struct etm_flow){ .where = ETM_AT_ADDRESS };
	d->ctx = (struct etm_context){ .needed = true };
	d->exc = (struct etm_exception){ 0 };
	d->wait = (struct etm_q){ 0 };
	d->deferred.valid = false;
	d->early.n = 0;
	d->ret.n = 0;
	d->ret.unsure = false;
	d->ts = (struct etm_timestamps){ 0 };
	d->cc_threshold = 0;
	d->out = (struct etm_emitted){ 0 };
}

static int start_etm(void *dec, const struct aux_chunk *chunk)
{
	struct etm *d = dec;

	reset(d);
	aux_queue_reset(&d->q, chunk->stream_offset);
	d->in.chunk = chunk;
	d->in.data = chunk->data;
	d->in.len = chunk->len;
	d->done = !chunk->len;
	if (d->src.unsupported)
		return -AUX_E_UNSUPPORTED;
	return renew_memo(d);
}

static void update_generation(struct etm *d)
{
	if (d->host->generation == d->code.generation)
		return;
	d->code.generation = d->host->generation;
	d->code.last = NULL;
}

/* The loop of decoder_queue.h, with a way past the queue: most events are paths
 * from the fast loop, written straight into the host's batch. */
static int decode_etm(void *dec, struct aux_flow *out, size_t max)
{
	struct etm *d = dec;
	bool direct = d->host->paths == AUX_PATHS_JOINED &&
		      !d->src.return_stack && max >= DIRECT_MIN;
	size_t n = 0;

	d->may_switch |= d->host->context_switches ||
			 d->host->horizon_tsc != UINT64_MAX;
	update_generation(d);
	for (;;) {
		if (aux_queue_deliver(&d->q, out, max, &n, d->done))
			return (int)n;
		if (d->unsupported)
			return n ? (int)n : -AUX_E_UNSUPPORTED;
		aux_queue_compact(&d->q);
		if (direct)
			n += etm_parse_direct(d, out + n, max - n);
		etm_parse(d, direct);
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
