/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * OpenCSD: decode trees, one for each decoder, from the registers of its source.
 *
 * The library keeps lists of all trees, and one logger, in globals without a
 * lock: trees are made and freed under ours, and nothing is ever logged.
 * Registers: Arm IHI 0064 (ETMv4, ETE), IHI 0014 (ETMv3), IHI 0035 (PTM).
 */
#include <pthread.h>

#include "decode/lib/opencsd/impl.h"

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

int opencsd_make_tree(struct opencsd *d)
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

void opencsd_free_tree(struct opencsd *d)
{
	if (!d->tree)
		return;
	pthread_mutex_lock(get_lock());
	ocsd_destroy_dcd_tree(d->tree);
	pthread_mutex_unlock(get_lock());
	d->tree = NULL;
}
