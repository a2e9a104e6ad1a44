/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session: what a decoder has to know of the recording: the PMU's settings, the
 * CPU model (errata), the clock; and what the recorder's ledger says was lost.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/lib/session/impl.h"

/* Parses one number of a CPUID string, after its separator; NULL: there is none. In
 * perf's newer form ("GenuineIntel-6-9E-A") all but the family are hexadecimal. */
static const char *next_number(const char *s, unsigned *value)
{
	char *end;
	unsigned long v;

	if (!s || !*s)
		return NULL;
	v = strtoul(s + 1, &end, *s == '-' && *value ? 16 : 10);
	if (end == s + 1 || v > UINT16_MAX)
		return NULL;
	*value = (unsigned)v;
	return end;
}

/* "GenuineIntel,6,158,10", as perf's feature section has it. */
static void read_cpuid(struct aux_pt_config *pt, const char *cpuid)
{
	static const char vendor[] = "GenuineIntel";
	unsigned family = 0, model = 1, stepping = 1;
	const char *s;

	if (!cpuid || strncmp(cpuid, vendor, sizeof(vendor) - 1))
		return;
	s = next_number(cpuid + sizeof(vendor) - 1, &family);
	s = next_number(s, &model);
	if (!s || family > UINT16_MAX || model > UINT8_MAX)
		return;
	if (!next_number(s, &stepping) || stepping > UINT8_MAX)
		stepping = 0;
	pt->cpu_intel = 1;
	pt->cpu_family = (uint16_t)family;
	pt->cpu_model = (uint8_t)model;
	pt->cpu_stepping = (uint8_t)stepping;
}

static const struct aux_attr *find_attr(const struct session *s,
					uint32_t pmu_type)
{
	const struct aux_attr *a;

	for (size_t i = 0; (a = aux_reader_attr(s->reader, i)); i++) {
		if (a->attr.type == pmu_type)
			return a;
	}
	return NULL;
}

/* Fills in Intel PT's part from the words of AUXTRACE_INFO (aux/perfdata.h), which have
 * the bits of attr.config as the kernel's sysfs described them. */
static void read_pt(struct session *s)
{
	struct aux_pt_config *pt = &s->dec_config.pt;
	const uint64_t *p = s->chunks.metadata;
	uint32_t n = s->chunks.n_metadata;
	const char *source = aux_reader_source(s->reader, "source");
	const struct aux_attr *a;

	/* A software-made trace has the errata of no CPU. */
	if (!source || strcmp(source, "soft_pt"))
		read_cpuid(pt, aux_reader_info(s->reader)->cpuid);
	if (n <= AUX_PT_PER_CPU_MMAPS)
		return;
	a = find_attr(s, (uint32_t)p[AUX_PT_PMU_TYPE]);
	pt->attr_config = a ? a->attr.config : 0;
	s->timed = s->dec_config.clock.mult &&
		   (!a || pt->attr_config & p[AUX_PT_TSC_BIT]);
	if (n > AUX_PT_MTC_FREQ_BITS && p[AUX_PT_MTC_FREQ_BITS]) {
		uint64_t mask = p[AUX_PT_MTC_FREQ_BITS];

		pt->mtc_period = (uint32_t)((pt->attr_config & mask) >>
					    __builtin_ctzll(mask)) &
				 15;
	}
	if (n > AUX_PT_TSC_CTC_D) {
		pt->tsc_ctc_ratio_n = (uint32_t)p[AUX_PT_TSC_CTC_N];
		pt->tsc_ctc_ratio_d = (uint32_t)p[AUX_PT_TSC_CTC_D];
	}
	if (n > AUX_PT_MAX_NONTURBO_RATIO &&
	    p[AUX_PT_MAX_NONTURBO_RATIO] <= UINT8_MAX)
		pt->max_nonturbo_ratio = (uint32_t)p[AUX_PT_MAX_NONTURBO_RATIO];
}

void session_find_config(struct session *s)
{
	struct aux_decoder_config *c = &s->dec_config;

	c->size = sizeof(*c);
	c->clock = *timeline_clock(s->timeline);
	c->metadata = s->chunks.metadata;
	c->n_metadata = s->chunks.n_metadata;
	s->timed = c->clock.mult;
	if (s->chunks.trace_type == AUX_TRACE_INTEL_PT)
		read_pt(s);
}

bool session_has_context(const struct aux_etm_config *etm)
{
	switch (etm->arch) {
	case AUX_ETM_V4:
	case AUX_ETM_ETE: /* TRCCONFIGR: CID,
					 * VMID, VMIDOPT */
		return etm->trcconfigr & 0x80c0;
	case AUX_ETM_V3:
	case AUX_ETM_PTM: /* ETMCR.ContextIDsize */
		return etm->etmcr & 0xc000;
	}
	return false;
}

bool session_has_timestamps(const struct aux_etm_config *etm)
{
	switch (etm->arch) {
	case AUX_ETM_V4:
	case AUX_ETM_ETE: /* TRCCONFIGR.TS */
		return etm->trcconfigr >> 11 & 1;
	case AUX_ETM_V3:
	case AUX_ETM_PTM: /* ETMCR.TimestampEn */
		return etm->etmcr >> 28 & 1;
	}
	return true;
}

/* Only causes with a text for the verdict are losses; a throttled event lost no trace. */
void session_sum_losses(struct session *s)
{
	for (uint32_t i = 0; i < s->losses.n; i++) {
		const struct aux_ledger_entry *e = &s->losses.e[i];
		const struct loss_text *t = losses_text(e->cause);

		if (t && !t->verdict)
			continue;
		if (t && t->bytes && e->cause != AUX_LEDGER_THROTTLED)
			s->ledger_lost += e->bytes;
		s->ledger_events += e->n ? e->n : e->bytes;
	}
	if (s->losses.bad)
		s->ledger_events++;
}
