/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Errata of Intel PT by CPU: which packets may be missing, wrong, or too many.
 *
 * Specification: Intel's specification updates, by the names of the first CPU that
 * each was published for.
 */
#include "decode/lib/packet/packet.h"

/*
 * Errata by family and model: as pt_cpu_errata of libipt 2.2 has them.
 *
 * SKL168, of the same models as SKD007, needs nothing here: a CYC, and an MTC,
 * may be missing before a PSB, and a PSB forgets what time was made of
 * (pt_time_psb). Models 6/d5, 18/1 and 18/3 have none that are known.
 */
struct model_errata {
	uint8_t family, model;
	uint16_t errata;
};

#define SKYLAKE (PT_ERR_BDM70 | PT_ERR_SKD007 | PT_ERR_SKD022 |                \
		 PT_ERR_SKD010 | PT_ERR_SKL014)
#define ICELAKE (PT_ERR_BDM70 | PT_ERR_SKL014 | PT_ERR_SKD022)
#define SERVER (ICELAKE | PT_ERR_SKZ84)
#define ALDERLAKE (ICELAKE | PT_ERR_APL11)

/* table */
static const struct model_errata models[] = {
	{ 6, 0x3d, PT_ERR_BDM70 | PT_ERR_BDM64 },
	{ 6, 0x47, PT_ERR_BDM70 | PT_ERR_BDM64 },
	{ 6, 0x4f, PT_ERR_BDM70 | PT_ERR_BDM64 },
	{ 6, 0x56, PT_ERR_BDM70 | PT_ERR_BDM64 },
	{ 6, 0x4e, SKYLAKE }, { 6, 0x5e, SKYLAKE }, { 6, 0x8e, SKYLAKE },
	{ 6, 0x9e, SKYLAKE }, { 6, 0xa5, SKYLAKE }, { 6, 0xa6, SKYLAKE },
	{ 6, 0x55, SERVER }, { 6, 0x6a, SERVER }, { 6, 0x6c, SERVER },
	{ 6, 0x8f, SERVER }, { 6, 0xad, SERVER }, { 6, 0xae, SERVER },
	{ 6, 0xcf, SERVER }, { 6, 0x66, ICELAKE }, { 6, 0x7d, ICELAKE },
	{ 6, 0x7e, ICELAKE }, { 6, 0x8c, ICELAKE }, { 6, 0x8d, ICELAKE },
	{ 6, 0xa7, ICELAKE }, { 6, 0xa8, ICELAKE },
	{ 6, 0x97, ALDERLAKE }, { 6, 0x9a, ALDERLAKE }, { 6, 0xbf, ALDERLAKE },
	{ 6, 0xb7, ALDERLAKE }, { 6, 0xb5, ALDERLAKE }, { 6, 0xaa, ALDERLAKE },
	{ 6, 0xac, ALDERLAKE }, { 6, 0xba, ALDERLAKE }, { 6, 0xcc, ALDERLAKE },
	{ 6, 0xbd, ALDERLAKE }, { 6, 0xc5, ALDERLAKE }, { 6, 0xc6, ALDERLAKE },
	{ 6, 0x5c, PT_ERR_APL12 | PT_ERR_APL11 },
	{ 6, 0x5f, PT_ERR_APL12 | PT_ERR_APL11 },
	{ 6, 0x7a, PT_ERR_APL11 }, { 6, 0x86, PT_ERR_APL11 },
	{ 6, 0x96, PT_ERR_APL11 }, { 6, 0x9c, PT_ERR_APL11 },
	{ 6, 0xb6, PT_ERR_APL11 }, { 6, 0xaf, PT_ERR_APL11 },
	{ 6, 0xdd, PT_ERR_APL11 },
	{ 19, 0x01, SERVER },
};

uint16_t ptpkt_errata(const struct aux_pt_config *c)
{
	if (!c->cpu_intel)
		return 0;
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
		if (models[i].family == c->cpu_family &&
		    models[i].model == c->cpu_model)
			return models[i].errata;
	return 0;
}

/* An OVF (02 f3) cut a CYC after its first byte, so that it seems to have a second
 * one of 02. */
static bool is_skd007(const uint8_t *p, const uint8_t *end,
		      const struct ptpkt *pkt)
{
	return pkt->type == PTPKT_CYC && pkt->size == 2 &&
	       (pkt->payload & 0xffe0) == 0x20 && p + 2 < end && p[2] == 0xf3;
}

/* In a guest with an offset or scale of its TSC a TMA is wrong, and a byte follows
 * that belongs to no packet. Only reserved bits that are set tell it. */
static bool is_skz84(const uint8_t *p, const uint8_t *end)
{
	return end - p >= 2 && p[0] == 0x02 && p[1] == 0x73;
}

int ptpkt_next_slowly(const uint8_t *p, const uint8_t *end, unsigned errata,
		      unsigned *block, struct ptpkt *pkt)
{
	int n = ptpkt_next(p, end, block, pkt);

	if (n > 0 && errata & PT_ERR_SKD007 && is_skd007(p, end, pkt)) {
		*pkt = (struct ptpkt){ .type = PTPKT_PAD, .size = 1 };
		return 1;
	}
	if (n < 0 && errata & PT_ERR_SKZ84 && is_skz84(p, end)) {
		*pkt = (struct ptpkt){ .type = PTPKT_PAD, .size = 8 };
		return end - p >= 8 ? 8 : 0;
	}
	return n;
}
