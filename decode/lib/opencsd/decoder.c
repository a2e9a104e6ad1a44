/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opencsd: CoreSight by OpenCSD, the reference, with the plugin interface
 * (decoder.h).
 *
 * The library pushes elements; they wait in the queue for decode(), which
 * returns right after an event that makes the host switch: the library has then
 * read no code of what follows (packet.c). A chunk begins with a reset of the
 * library and ends with EOT, so it can end anywhere. Known bugs of the library
 * are described where they are worked around: element.c, run.c, code.c.
 *
 * Specifications: Arm IHI 0064 (ETMv4, ETE), IHI 0014 (ETMv3), IHI 0035 (PTM),
 * MIPI STP 2; OpenCSD 1.3.3.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "decode/lib/opencsd/impl.h"

/*
 * ---- decode trees, one for each decoder, from the registers of its source ----
 *
 * The library keeps lists of all trees, and one logger, in globals without a lock:
 * trees are made and freed under ours, and nothing is ever logged.
 */

/* Guards the library's globals. */
static pthread_mutex_t *library_lock(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	return &lock;
}

static ocsd_core_profile_t get_profile(const struct aux_etm_config *etm)
{
	return etm->core_profile == 'M' ? profile_CortexM :
	       etm->core_profile == 'R' ? profile_CortexR : profile_CortexA;
}

/* A newer core's instructions are undefined on an older one, so never traced:
 * the newest architecture that the trace unit can have does for all. */
static ocsd_arch_version_t get_arch(const struct aux_etm_config *etm)
{
	bool v7 = etm->arch == AUX_ETM_V3 || etm->arch == AUX_ETM_PTM;

	if (etm->core_version)
		v7 = etm->core_version < 8;
	return v7 ? ARCH_V7 : ARCH_AA64;
}

/*
 * The library decodes ETE as an ETMv4 of version 5, made from TRCDEVARCH. So do
 * we, since its decoder named ETE does not show packets through the C
 * interface.
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
	/* HALT_BAD_PKTS: otherwise, when its return stack is empty, the library
	 * goes on with an element that it has just freed. */
	return ocsd_dt_create_decoder(d->lib.tree, OCSD_BUILTIN_DCD_ETMV4I,
				      OCSD_CREATE_FLG_FULL_DECODER |
					      OCSD_OPFLG_PKTDEC_HALT_BAD_PKTS,
				      &c, &d->lib.csid);
}

static ocsd_err_t add_v3(struct opencsd *d, const struct aux_etm_config *etm,
			 uint32_t id)
{
	ocsd_etmv3_cfg c = {
		.reg_idr = etm->etmidr, .reg_ctrl = etm->etmcr,
		.reg_ccer = etm->etmccer, .reg_trc_id = id,
		.arch_ver = get_arch(etm), .core_prof = get_profile(etm),
	};

	return ocsd_dt_create_decoder(d->lib.tree, OCSD_BUILTIN_DCD_ETMV3,
				      OCSD_CREATE_FLG_FULL_DECODER, &c,
				      &d->lib.csid);
}

static ocsd_err_t add_ptm(struct opencsd *d, const struct aux_etm_config *etm,
			  uint32_t id)
{
	ocsd_ptm_cfg c = {
		.reg_idr = etm->etmidr, .reg_ctrl = etm->etmcr,
		.reg_ccer = etm->etmccer, .reg_trc_id = id,
		.arch_ver = get_arch(etm), .core_prof = get_profile(etm),
	};

	return ocsd_dt_create_decoder(d->lib.tree, OCSD_BUILTIN_DCD_PTM,
				      OCSD_CREATE_FLG_FULL_DECODER, &c,
				      &d->lib.csid);
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

	return ocsd_dt_create_decoder(d->lib.tree, OCSD_BUILTIN_DCD_STM,
				      OCSD_CREATE_FLG_FULL_DECODER, &c,
				      &d->lib.csid);
}

static ocsd_err_t add_decoder(struct opencsd *d)
{
	const struct aux_etm_config *etm = &d->config->etm;
	uint32_t id = etm->trace_id;

	/* A source alone in its tree needs no id of its own. */
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
		err = ocsd_dt_set_gen_elem_outfn(d->lib.tree, opencsd_handle_element,
						 d);
	if (!err)
		err = ocsd_dt_attach_packet_callback(
			d->lib.tree, d->lib.csid, OCSD_C_API_CB_PKT_MON,
			(void *)(uintptr_t)opencsd_handle_packet, d);
	if (!err)
		err = ocsd_dt_add_callback_mem_acc(d->lib.tree, 0, OPENCSD_LAST_CODE,
						   OCSD_MEM_SPACE_ANY,
						   opencsd_read_code, d);
	return err;
}

/* Fills d->lib; a source that cannot be decoded has no tree. 0, or
 * -AUX_E_NOMEM. */
static int make_tree(struct opencsd *d)
{
	pthread_mutex_lock(library_lock());
	ocsd_def_errlog_init(OCSD_ERR_SEV_NONE, 0);
	d->lib.tree = ocsd_create_dcd_tree(OCSD_TRC_SRC_SINGLE, 0);
	d->lib.err = d->lib.tree ? fill_tree(d) : OCSD_ERR_MEM;
	if (d->lib.err && d->lib.tree) {
		ocsd_destroy_dcd_tree(d->lib.tree);
		d->lib.tree = NULL;
	}
	pthread_mutex_unlock(library_lock());
	return d->lib.err == OCSD_ERR_MEM ? -AUX_E_NOMEM : 0;
}

static void free_tree(struct opencsd *d)
{
	if (!d->lib.tree)
		return;
	pthread_mutex_lock(library_lock());
	ocsd_destroy_dcd_tree(d->lib.tree);
	pthread_mutex_unlock(library_lock());
	d->lib.tree = NULL;
}

static void close_opencsd(void *dec)
{
	struct opencsd *d = dec;

	if (!d)
		return;
	free_tree(d);
	free(d);
}

static int open_opencsd(void **dec, const struct aux_decoder_config *config,
			const struct aux_decoder_host *host,
			struct aux_diag *diag)
{
	struct opencsd *d = malloc(sizeof(*d));
	const struct aux_etm_config *etm = &config->etm;

	(void)diag;
	*dec = NULL;
	if (!d)
		return -AUX_E_NOMEM;
	memset(d, 0, offsetof(struct opencsd, q));	/* not 80 KiB of events */
	aux_queue_init(&d->q, OPENCSD_HELD);
	d->config = config;
	d->host = host;
	d->code.generation = host->generation;
	d->src.v4 = etm->arch == AUX_ETM_V4 || etm->arch == AUX_ETM_ETE;
	d->src.in_order = d->src.v4 && !etm->trcidr8;
	d->src.profile_m = etm->core_profile == 'M';
	d->src.has_ite = etm_has_ite(etm);
	opencsd_fill_ends(d);
	opencsd_fill_special(d);
	if (etm->arch != AUX_ETM_NONE && make_tree(d) < 0) {
		close_opencsd(d);
		return -AUX_E_NOMEM;
	}
	*dec = d;
	return 0;
}

/* All state of the last chunk, but for the queue's last time. */
static void reset(struct opencsd *d, const struct aux_chunk *chunk)
{
	aux_queue_reset(&d->q, chunk->stream_offset);
	d->in = (struct opencsd_input){
		.chunk = chunk, .fed_offset = chunk->stream_offset,
		.end_offset = chunk->stream_offset + chunk->len,
	};
	d->code.walked = 0;
	d->code.walked_off = false;
	d->lib.waits = d->lib.eot = d->lib.bad_info = d->lib.misled = false;
	d->lib.cancelled = false;
	d->sync = (struct opencsd_sync){ 0 };
	d->spec = (struct opencsd_speculation){ 0 };
	d->ts = (struct opencsd_timestamps){ 0 };
	d->out = (struct opencsd_emitted){ .loss = UNSYNC_UNKNOWN };
	d->ret = (struct opencsd_returns){ 0 };
	d->ctx.emitted = false;
	opencsd_clear_missing(d);
	d->done = !chunk->len;
}

static int start_opencsd(void *dec, const struct aux_chunk *chunk)
{
	struct opencsd *d = dec;
	uint32_t used;

	reset(d, chunk);
	if (d->done)
		return 0;
	if (!d->lib.tree || OCSD_DATA_RESP_IS_FATAL(ocsd_dt_process_data(
				d->lib.tree, OCSD_OP_RESET, 0, 0, NULL, &used))) {
		opencsd_push_gap(d, AUX_GAP_DECODER, false, 0, d->lib.err);
		d->done = true;
	}
	return 0;
}

/* The end of the chunk: one without any sync point is lost, unless it is
 * padding. */
static void finish_chunk(struct opencsd *d)
{
	aux_queue_give_up(&d->q);
	if (d->spec.n_left) {
		opencsd_at(d, d->in.chunk->len);
		opencsd_push_gap(d, AUX_GAP_UNCOMMITTED, d->out.last_known,
				 d->out.last_ip, d->spec.n_left);
		d->spec.n_left = 0;
	}
	if (d->sync.found || !d->lib.tree)
		return;
	d->sync.found = true;
	for (uint64_t i = 0; i < d->in.chunk->len; i++) {
		if (d->in.chunk->data[i] &&
		    d->in.chunk->data[i] != ETM4_PKT_I_IGNORE) {
			opencsd_push_gap(d, AUX_GAP_NO_SYNC, false, 0,
					 d->in.chunk->len);
			return;
		}
	}
}

static void feed_library(struct opencsd *d)
{
	aux_queue_compact(&d->q);
	if (!opencsd_update_code(d)) {
		opencsd_push_gap(d, AUX_GAP_DECODER, false, 0, OCSD_ERR_MEM);
		d->done = true;
	}
	while (!d->done && !d->q.stop && d->q.tail < OPENCSD_QUEUE_FULL)
		opencsd_step(d);
	if (d->done)
		finish_chunk(d);
}

static int decode_opencsd(void *dec, struct aux_flow *out, size_t max)
{
	struct opencsd *d = dec;
	size_t n = 0;

	if (d->src.in_order && !d->may_switch &&
	    (d->host->context_switches ||
	     d->host->horizon_tsc != UINT64_MAX)) {
		d->may_switch = true;
		opencsd_fill_special(d);
	}
	for (;;) {
		if (aux_queue_deliver(&d->q, out, max, &n, d->done))
			return (int)n;
		feed_library(d);
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
