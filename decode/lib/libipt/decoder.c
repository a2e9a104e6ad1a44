/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Intel PT through libipt's block decoder: the interface. It is the reference
 * that decode/lib/pt is compared with, and decodes what that one leaves.
 *
 * libipt reads ahead, so its blocks and events go through a queue. A RANGE
 * waits there until the next ip says how its conditional branch went; what
 * needed no packet waits until a packet confirms it, so that a walk that goes
 * wrong is never shown. While a TIME at the host's horizon is queued, libipt is
 * not asked for more, as it would ask for code. After an error decoding goes on
 * at a later PSB, always: each try starts after the one before, so that
 * decoding ends.
 *
 * The end of a chunk that another one continues: libipt cannot be asked to walk
 * to an address. So two packets are appended to a copy of the chunk, a FUP with
 * end_ip and a TIP.PGD, which say that tracing ended there asynchronously:
 * libipt walks to that address, and its event is dropped (is_end_packet in
 * run.c).
 *
 * Blocks end at each branch (end_on_call, end_on_jump), so that each is
 * contiguous.
 * Specification: Intel SDM volume 3, chapter "Intel Processor Trace"; libipt
 * 2.0 to 2.2.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/lib/libipt/impl.h"
#include "decode/lib/libipt/libipt.h"
#include "decode/lib/packet/packet.h"

/* ---- the interface ---- */

/* Of a CPU that is newer than libipt. Errata that are newer, too, it does not
 * handle. */
static void set_errata(struct pt_errata *e, unsigned set)
{
	*e = (struct pt_errata){
		.bdm70 = !!(set & PT_ERR_BDM70), .bdm64 = !!(set & PT_ERR_BDM64),
		.skd007 = !!(set & PT_ERR_SKD007),
		.skd022 = !!(set & PT_ERR_SKD022),
		.skd010 = !!(set & PT_ERR_SKD010),
		.skl014 = !!(set & PT_ERR_SKL014),
		.apl12 = !!(set & PT_ERR_APL12), .apl11 = !!(set & PT_ERR_APL11),
	};
}

/* For errata. An unknown CPU has none. */
static void set_cpu(struct pt_config *c, const struct aux_pt_config *pt)
{
	if (!pt->cpu_intel || !pt->cpu_family)
		return;
	c->cpu.vendor = pcv_intel;
	c->cpu.family = pt->cpu_family;
	c->cpu.model = pt->cpu_model;
	c->cpu.stepping = pt->cpu_stepping;
	if (pt_cpu_errata(&c->errata, &c->cpu) < 0)
		set_errata(&c->errata, ptpkt_errata(pt));
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
	pt_blk_free_decoder(d->in.blk);
	for (unsigned i = 0; i < N_IMAGES; i++)
		pt_image_free(d->code.images[i].image);
	pt_iscache_free(d->code.iscache);
	free(d->out.queue);
	free(d->in.tailed);
	free(d);
}

static int open_libipt(void **dec, const struct aux_decoder_config *config,
		       const struct aux_decoder_host *host,
		       struct aux_diag *diag)
{
	struct libipt *d = calloc(1, sizeof(*d));
	struct pt_version v = pt_library_version();

	(void)diag;
	*dec = NULL;
	if (!d)
		return -AUX_E_NOMEM;
	d->config = config;
	d->host = host;
	d->is_v21 = v.major > 2 || (v.major == 2 && v.minor >= 1);
	d->code.iscache = pt_iscache_alloc(NULL);
	d->out.queue = malloc(N_QUEUE * sizeof(*d->out.queue));
	d->out.cap = N_QUEUE;
	if (!d->code.iscache || !d->out.queue) {
		close_libipt(d);
		return -AUX_E_NOMEM;
	}
	pt_iscache_set_limit(d->code.iscache, ISCACHE_LIMIT);
	*dec = d;
	return 0;
}

/* Copies the chunk and appends "tracing ended asynchronously at end_ip". */
static int append_end_packets(struct libipt *d)
{
	uint8_t *p = malloc(d->chunk->len + END_PACKETS);

	if (!p)
		return -AUX_E_NOMEM;
	d->in.tailed = p;
	memcpy(p, d->chunk->data, d->chunk->len);
	p += d->chunk->len;
	*p++ = 0xdd; /* FUP, full IP */
	memcpy(p, &d->chunk->end_ip, 8);
	p[8] = 0x01; /* TIP.PGD without an IP */
	d->in.len += END_PACKETS;
	return 0;
}

static int start_libipt(void *dec, const struct aux_chunk *chunk)
{
	struct libipt *d = dec;
	struct pt_config c;

	pt_blk_free_decoder(d->in.blk);
	free(d->in.tailed);
	d->in.blk = NULL;
	d->in.tailed = NULL;
	d->code.image = NULL;
	d->chunk = chunk;
	d->in.len = chunk->len;
	d->in.sync = 0;
	d->out.offset = chunk->stream_offset;
	d->synced = d->pending.trace_on = d->times.at_horizon = false;
	d->times.have_time = false;
	d->out.last_ip = 0;
	d->loop.untraced = d->loop.n_empty = 0;
	d->out.head = d->out.tail = d->out.committed = 0;
	d->out.open = NONE;
	d->end = chunk->len ? LIBIPT_RUNNING : LIBIPT_DONE;
	if (d->end)
		return 0;
	if (chunk->flags & AUX_CHUNK_HAS_END_IP && append_end_packets(d) < 0)
		return -AUX_E_NOMEM;
	set_config(&c, d->config);
	/* libipt only reads, though it takes pointers to non-const. */
	c.begin = (uint8_t *)(uintptr_t)(d->in.tailed ? d->in.tailed : chunk->data);
	c.end = c.begin + d->in.len;
	d->in.blk = pt_blk_alloc_decoder(&c);
	return d->in.blk ? 0 : -AUX_E_NOMEM;
}

/* Delivers what is committed; see aux_decoder_deliver. Before the host looks at
 * a TIME, and at the end, all is committed: what waits for its outcome will not
 * learn it. */
static size_t drain(struct libipt *d, struct aux_flow *out, size_t max,
		    bool *stop)
{
	struct libipt_output *q = &d->out;
	size_t n;

	if (d->times.at_horizon || d->end == LIBIPT_DONE)
		libipt_commit(d);
	d->times.at_horizon = false;
	*stop = false;
	if (max > q->committed - q->head)
		max = q->committed - q->head;
	n = aux_decoder_deliver(d->host, q->queue + q->head, max, out,
				&d->times.delivered_tsc, stop);
	q->head += (uint32_t)n;
	return n;
}

/* Room for a step: that of delivered events, or more memory. */
static int make_room(struct libipt *d)
{
	struct libipt_output *out = &d->out;
	struct aux_flow *q;

	if (out->head) {
		memmove(out->queue, out->queue + out->head,
			(out->tail - out->head) * sizeof(*q));
		out->tail -= out->head;
		out->committed -= out->head;
		if (out->open != NONE)
			out->open -= out->head;
		out->head = 0;
	}
	if (out->tail + N_STEP <= out->cap)
		return 0;
	q = realloc(out->queue, 2 * out->cap * sizeof(*q));
	if (!q)
		return -AUX_E_NOMEM;
	out->queue = q;
	out->cap *= 2;
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
		if (d->end == LIBIPT_DONE && d->out.head == d->out.tail)
			return (int)n;
		if (d->end == LIBIPT_NOMEM || make_room(d) < 0)
			return -AUX_E_NOMEM;
		while (!d->end && !d->times.at_horizon && libipt_has_room(d))
			libipt_step(d);
	}
}

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
