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
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "decode/lib/opencsd/impl.h"

/*
 * OpenCSD: decode trees, one for each decoder, from the registers of its source.
 *
 * The library keeps lists of all trees, and one logger, in globals without a
 * lock: trees are made and freed under ours, and nothing is ever logged.
 * Registers: Arm IHI 0064 (ETMv4, ETE), IHI 0014 (ETMv3), IHI 0035 (PTM).
 */

/* Guards what the library shares between all decoders. */
static pthread_mutex_t *get_lock(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	return &lock;
}

static ocsd_core_profile_t get_profile(const struct aux_etm_config *etm)
{
	return etm->core_profile == 'M' ? profile_CortexM :
	       etm->core_profile == 'R' ? profile_CortexR : profile_CortexA;
}

/* What newer cores have on top is undefined on older ones, so never traced. */
static ocsd_arch_version_t get_arch(const struct aux_etm_config *etm)
{
	bool v7 = etm->arch == AUX_ETM_V3 || etm->arch == AUX_ETM_PTM;

	if (etm->core_version)
		v7 = etm->core_version < 8;
	return v7 ? ARCH_V7 : ARCH_AA64;
}

/*
 * The library's ETE is its ETMv4 of version 5, made here from TRCDEVARCH as it
 * does itself: the one named ETE has no packets to show in its C interface.
 */
static uint32_t get_idr1(const struct aux_etm_config *etm)
{
	if (etm->arch != AUX_ETM_ETE)
		return etm->trcidr1;
	return (etm->trcidr1 & ~0xff0u) | ETE_ARCH_VERSION << 8 |
	       (etm->trcdevarch >> 16 & 0xf) << 4;
}

static ocsd_err_t add_v4(struct opencsd *d, const struct aux_etm_config *etm,
			 uint32_t id)
{
	ocsd_etmv4_cfg c = {
		.reg_idr0 = etm->trcidr0, .reg_idr1 = get_idr1(etm),
		.reg_idr2 = etm->trcidr2, .reg_idr8 = etm->trcidr8,
		.reg_configr = etm->trcconfigr, .reg_traceidr = id,
		.arch_ver = get_arch(etm), .core_prof = get_profile(etm),
	};

	if (etm->arch == AUX_ETM_V4) {
		c.reg_idr9 = etm->trcidr9;
		c.reg_idr10 = etm->trcidr10;
		c.reg_idr11 = etm->trcidr11;
		c.reg_idr12 = etm->trcidr12;
		c.reg_idr13 = etm->trcidr13;
	}
	/* What it cannot decode is an error: it goes on with what it has just
	 * freed otherwise, where its return stack has no more entries. */
	return ocsd_dt_create_decoder(d->tree, OCSD_BUILTIN_DCD_ETMV4I,
				      OCSD_CREATE_FLG_FULL_DECODER |
					      OCSD_OPFLG_PKTDEC_HALT_BAD_PKTS,
				      &c, &d->csid);
}

static ocsd_err_t add_v3(struct opencsd *d, const struct aux_etm_config *etm,
			 uint32_t id)
{
	ocsd_etmv3_cfg c = {
		.reg_idr = etm->etmidr, .reg_ctrl = etm->etmcr,
		.reg_ccer = etm->etmccer, .reg_trc_id = id,
		.arch_ver = get_arch(etm), .core_prof = get_profile(etm),
	};

	return ocsd_dt_create_decoder(d->tree, OCSD_BUILTIN_DCD_ETMV3,
				      OCSD_CREATE_FLG_FULL_DECODER, &c,
				      &d->csid);
}

static ocsd_err_t add_ptm(struct opencsd *d, const struct aux_etm_config *etm,
			  uint32_t id)
{
	ocsd_ptm_cfg c = {
		.reg_idr = etm->etmidr, .reg_ctrl = etm->etmcr,
		.reg_ccer = etm->etmccer, .reg_trc_id = id,
		.arch_ver = get_arch(etm), .core_prof = get_profile(etm),
	};

	return ocsd_dt_create_decoder(d->tree, OCSD_BUILTIN_DCD_PTM,
				      OCSD_CREATE_FLG_FULL_DECODER, &c,
				      &d->csid);
}

static ocsd_err_t add_stm(struct opencsd *d, const struct aux_etm_config *etm,
			  uint32_t id)
{
	ocsd_stm_cfg c = {
		.reg_tcsr = (etm->stmtcsr & ~(0x7fu << 16)) | id << 16,
		.reg_feat1r = etm->stmfeat1r, .reg_feat3r = etm->stmfeat3r,
		.reg_devid = etm->stmdevid,
		.hw_event = HwEvent_Unknown_Disabled,
	};

	return ocsd_dt_create_decoder(d->tree, OCSD_BUILTIN_DCD_STM,
				      OCSD_CREATE_FLG_FULL_DECODER, &c,
				      &d->csid);
}

static ocsd_err_t add_decoder(struct opencsd *d)
{
	const struct aux_etm_config *etm = &d->config->etm;
	uint32_t id = etm->trace_id;

	/* Alone in its tree, a source needs no id of its own. */
	if (!OCSD_IS_VALID_CS_SRC_ID(id))
		id = 1;
	switch (etm->arch) {
	case AUX_ETM_V3:
		return add_v3(d, etm, id);
	case AUX_ETM_PTM:
		return add_ptm(d, etm, id);
	case AUX_ETM_V4:
	case AUX_ETM_ETE:
		return add_v4(d, etm, id);
	case AUX_ETM_STM:
		return add_stm(d, etm, id);
	default:
		return OCSD_ERR_NO_PROTOCOL; /* 1.3.3 has no ITM */
	}
}

static ocsd_err_t fill_tree(struct opencsd *d)
{
	ocsd_err_t err = add_decoder(d);

	if (!err)
		err = ocsd_dt_set_gen_elem_outfn(d->tree, opencsd_take_element,
						 d);
	if (!err)
		err = ocsd_dt_attach_packet_callback(
			d->tree, d->csid, OCSD_C_API_CB_PKT_MON,
			(void *)(uintptr_t)opencsd_see_packet, d);
	if (!err)
		err = ocsd_dt_add_callback_mem_acc(d->tree, 0, LAST_CODE,
						   OCSD_MEM_SPACE_ANY,
						   opencsd_read_code, d);
	return err;
}

/* the library's objects. 0, or -AUX_E_NOMEM */
static int opencsd_make_tree(struct opencsd *d)
{
	pthread_mutex_lock(get_lock());
	ocsd_def_errlog_init(OCSD_ERR_SEV_NONE, 0);
	d->tree = ocsd_create_dcd_tree(OCSD_TRC_SRC_SINGLE, 0);
	d->why = d->tree ? fill_tree(d) : OCSD_ERR_MEM;
	if (d->why && d->tree) {
		ocsd_destroy_dcd_tree(d->tree);
		d->tree = NULL;
	}
	pthread_mutex_unlock(get_lock());
	return d->why == OCSD_ERR_MEM ? -AUX_E_NOMEM : 0;
}

static void opencsd_free_tree(struct opencsd *d)
{
	if (!d->tree)
		return;
	pthread_mutex_lock(get_lock());
	ocsd_destroy_dcd_tree(d->tree);
	pthread_mutex_unlock(get_lock());
	d->tree = NULL;
}

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
