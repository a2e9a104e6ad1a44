/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opencsd: CoreSight through OpenCSD, the reference.
 *
 * The library pushes elements; they wait in a queue for decode, which returns right
 * behind an event that makes the host switch: the library has then read no code of
 * what follows (packet.c). The last events wait for the next one:
 * that may tell how they ended. A chunk begins with a reset and ends with EOT, so it
 * can end anywhere. Known bugs of the library: element.c.
 * Specifications: Arm IHI 0064 (ETMv4, ETE), IHI 0014 (ETMv3), IHI 0035 (PTM),
 * MIPI STP 2; OpenCSD 1.3.3.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/lib/opencsd/impl.h"

static void close_opencsd(void *dec)
{
	struct opencsd *d = dec;

	if (!d)
		return;
	opencsd_free_tree(d);
	free(d);
}

static int open_opencsd(void **dec, const struct aux_decoder_config *config,
			const struct aux_decoder_host *host,
			struct aux_diag *diag)
{
	struct opencsd *d = calloc(1, sizeof(*d));
	const struct aux_etm_config *etm = &config->etm;

	(void)diag;
	*dec = NULL;
	if (!d)
		return -AUX_E_NOMEM;
	d->config = config;
	d->host = host;
	d->generation = host->generation;
	d->v4 = etm->arch == AUX_ETM_V4 || etm->arch == AUX_ETM_ETE;
	d->early = d->v4 && !etm->trcidr8;
	opencsd_fill_ends(d);
	opencsd_fill_special(d);
	d->profile_m = etm->core_profile == 'M';
	if (etm->arch != AUX_ETM_NONE && opencsd_make_tree(d) < 0) {
		close_opencsd(d);
		return -AUX_E_NOMEM;
	}
	*dec = d;
	return 0;
}

static void forget(struct opencsd *d)
{
	d->pos = d->fed = d->packet_end = d->walked = 0;
	d->fed_offset = d->chunk->stream_offset;
	d->end_offset = d->chunk->stream_offset + d->chunk->len;
	d->given = d->flush = d->eot = d->done = d->found = d->synced = false;
	d->atoms = d->pending = d->n_idle = 0;
	d->except = d->on = d->in_tx = d->last_known = d->walked_off = false;
	d->seen = d->refused = false;
	d->popped = d->indirect = d->addressed = d->mute = d->lost = false;
	d->unpopped = false;
	opencsd_find_again(d);
	d->have_context = d->have_time = false;
	d->resumes = d->ahead = d->foretold = false;
	d->ts = 0;
	d->told = UNSYNC_UNKNOWN;
	d->cycles = d->head = d->tail = d->stop = 0;
	d->waiting = NONE;
}

static int start_opencsd(void *dec, const struct aux_chunk *chunk)
{
	struct opencsd *d = dec;
	uint32_t used;

	d->chunk = chunk;
	d->offset = chunk->stream_offset;
	forget(d);
	d->done = !chunk->len;
	if (d->done)
		return 0;
	if (!d->tree || OCSD_DATA_RESP_IS_FATAL(ocsd_dt_process_data(
				d->tree, OCSD_OP_RESET, 0, 0, NULL, &used))) {
		opencsd_push_gap(d, AUX_GAP_DECODER, false, 0, d->why);
		d->done = true;
	}
	return 0;
}

/* Nothing more comes: was there a sync point at all? */
static void finish(struct opencsd *d)
{
	d->waiting = NONE;
	if (d->found || !d->tree)
		return;
	d->found = true;
	for (uint64_t i = 0; i < d->chunk->len; i++) {
		if (d->chunk->data[i] &&
		    d->chunk->data[i] != ETM4_PKT_I_IGNORE) {
			opencsd_push_gap(d, AUX_GAP_NO_SYNC, false, 0,
					 d->chunk->len);
			return;
		}
	}
}

/* How many events are ready. */
static uint32_t count_ready(struct opencsd *d)
{
	uint32_t end = d->tail;

	if (d->stop)
		return d->stop - d->head;
	if (d->done || end - d->head <= N_HELD)
		return d->done ? end - d->head : 0;
	if (d->waiting != NONE && end - d->waiting > N_WAITING)
		d->waiting = NONE;
	if (d->waiting != NONE)
		end = d->waiting;
	if (end > d->tail - N_HELD)
		end = d->tail - N_HELD;
	return end - d->head;
}

static size_t drain(struct opencsd *d, struct aux_flow *out, size_t max)
{
	size_t n = count_ready(d);

	if (n > max)
		n = max;
	memcpy(out, d->queue + d->head, n * sizeof(*out));
	d->head += (uint32_t)n;
	return n;
}

/* What is left moves to the front of the queue. */
static void make_room(struct opencsd *d)
{
	if (!d->head)
		return;
	memmove(d->queue, d->queue + d->head,
		(d->tail - d->head) * sizeof(*d->queue));
	d->tail -= d->head;
	if (d->waiting != NONE)
		d->waiting -= d->head;
	d->head = 0;
}

static void go_on(struct opencsd *d)
{
	make_room(d);
	if (!opencsd_new_code(d)) {
		opencsd_push_gap(d, AUX_GAP_DECODER, false, 0, OCSD_ERR_MEM);
		d->done = true;
	}
	while (!d->done && !d->stop && d->tail < N_GIVE)
		opencsd_step(d);
	if (d->done)
		finish(d);
}

static int decode_opencsd(void *dec, struct aux_flow *out, size_t max)
{
	struct opencsd *d = dec;
	size_t n = 0;

	if (d->early && !d->cut && (d->host->context_switches ||
				    d->host->horizon_tsc != UINT64_MAX)) {
		d->cut = true;
		opencsd_fill_special(d);
	}
	for (;;) {
		n += drain(d, out + n, max - n);
		if (d->stop && d->head == d->stop) {
			d->waiting = NONE;
			d->stop = 0;
			return (int)n;
		}
		if (n == max || (d->done && d->head == d->tail))
			return (int)n;
		go_on(d);
	}
}

#ifdef AUX_PLUGIN
#define aux_decoder_opencsd aux_decoder_plugin
#endif
extern const struct aux_decoder_ops aux_decoder_opencsd;

const struct aux_decoder_ops aux_decoder_opencsd = {
	.abi = AUX_DECODER_ABI,
	.size = sizeof(struct aux_decoder_ops),
	.name = "opencsd",
	.help = "CoreSight ETM, PTM, ETE and STM by OpenCSD, the reference",
	.trace_type = AUX_TRACE_CS_ETM,
	.open = open_opencsd,
	.start = start_opencsd,
	.decode = decode_opencsd,
	.close = close_opencsd,
};
