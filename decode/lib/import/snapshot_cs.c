/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import_cs: CoreSight sources and buffers of snapshots, as perf.data has them.
 * Pure functions: nothing here reads a file or keeps state.
 *
 * Specification: CoreSight Architecture (IHI 0029), "Trace formatter"; register
 * names of the ETMv3, PFT, ETMv4, ETE, STM and ITM specifications.
 */
#include <string.h>
#include <strings.h>

#include <aux/decoder.h>

#include "decode/lib/import/impl.h"

#define FRAME 16
#define DSTREAM_BLOCK 512
#define DSTREAM_DATA (DSTREAM_BLOCK - 8)
#define ID_MASK 0x7f
#define TCSR_ID_SHIFT 16	/* STMTCSR, ITM_TCR: TRACEID */

struct reg {
	const char *name;
	unsigned word;
};

/* table: the register that each word is a copy of */
static const struct reg regs[] = {
	{ "TRCCONFIGR", AUX_CS_OWN_TRCCONFIGR },
	{ "TRCIDR0", AUX_CS_OWN_TRCIDR0 },
	{ "TRCIDR1", AUX_CS_OWN_TRCIDR1 },
	{ "TRCIDR2", AUX_CS_OWN_TRCIDR2 },
	{ "TRCIDR8", AUX_CS_OWN_TRCIDR8 },
	{ "TRCIDR9", AUX_CS_OWN_TRCIDR9 },
	{ "TRCIDR10", AUX_CS_OWN_TRCIDR10 },
	{ "TRCIDR11", AUX_CS_OWN_TRCIDR11 },
	{ "TRCIDR12", AUX_CS_OWN_TRCIDR12 },
	{ "TRCIDR13", AUX_CS_OWN_TRCIDR13 },
	{ "TRCDEVARCH", AUX_CS_OWN_TRCDEVARCH },
	{ "TRCAUTHSTATUS", AUX_CS_OWN_TRCAUTHSTATUS },
	{ "ETMCR", AUX_CS_OWN_ETMCR },
	{ "ETMIDR", AUX_CS_OWN_ETMIDR },
	{ "ETMCCER", AUX_CS_OWN_ETMCCER },
	{ "STMTCSR", AUX_CS_OWN_STMTCSR },
	{ "STMFEAT1R", AUX_CS_OWN_STMFEAT1R },
	{ "STMFEAT3R", AUX_CS_OWN_STMFEAT3R },
	{ "STMDEVID", AUX_CS_OWN_STMDEVID },
	{ "ITMTCR", AUX_CS_OWN_ITMTCR },
	{ "ITM_TCR", AUX_CS_OWN_ITMTCR },
	{ "ITM_CTRL", AUX_CS_OWN_ITMTCR },
};

struct source_type {
	const char *prefix;
	uint32_t arch;
	const char *id_reg;
	unsigned id_shift;
};

/* table: types of trace sources by how their names begin */
static const struct source_type types[] = {
	{ "ETM4", AUX_ETM_V4, "TRCTRACEIDR", 0 },
	{ "ETMv4", AUX_ETM_V4, "TRCTRACEIDR", 0 },
	{ "ETE", AUX_ETM_ETE, "TRCTRACEIDR", 0 },
	{ "ETM3", AUX_ETM_V3, "ETMTRACEIDR", 0 },
	{ "ETMv3", AUX_ETM_V3, "ETMTRACEIDR", 0 },
	{ "PTM", AUX_ETM_PTM, "ETMTRACEIDR", 0 },
	{ "PFT", AUX_ETM_PTM, "ETMTRACEIDR", 0 },
	{ "STM", AUX_ETM_STM, "STMTCSR", TCSR_ID_SHIFT },
	{ "ITM", AUX_ETM_ITM, "ITMTCR", TCSR_ID_SHIFT },
	{ "ITM", AUX_ETM_ITM, "ITM_TCR", TCSR_ID_SHIFT },
	{ "ITM", AUX_ETM_ITM, "ITM_CTRL", TCSR_ID_SHIFT },
};

/* 0: not there. Trace registers have 32 bits, whatever the file writes. */
static uint64_t get_reg(const struct ini *device, const char *name)
{
	uint64_t v;

	return ini_number(ini_get(device, "regs", name), &v) ? (uint32_t)v : 0;
}

/* table: cores of Armv7 (and before); every other Cortex and Neoverse is
 * later */
static const char *const v7_cores[] = {
	"Cortex-A5", "Cortex-A7", "Cortex-A8", "Cortex-A9", "Cortex-A12",
	"Cortex-A15", "Cortex-A17", "Cortex-R4", "Cortex-R5", "Cortex-R7",
	"Cortex-R8", "Cortex-M0", "Cortex-M0+", "Cortex-M1", "Cortex-M3",
	"Cortex-M4", "Cortex-M7",
};

unsigned import_cs_version(const char *core)
{
	if (!core)
		return 0;
	for (size_t i = 0; i < sizeof(v7_cores) / sizeof(*v7_cores); i++)
		if (!strcasecmp(core, v7_cores[i]))
			return 7;
	if (!strncasecmp(core, "ARMv7", 5) || !strncasecmp(core, "ARM-V7", 6) ||
	    !strncasecmp(core, "ARM11", 5) || !strncasecmp(core, "ARM9", 4))
		return 7;
	if (!strncasecmp(core, "ARMv9", 5) || !strncasecmp(core, "ARM-V9", 6))
		return 9;
	return !strncasecmp(core, "Cortex-", 7) ||
	       !strncasecmp(core, "Neoverse", 8) ||
	       !strncasecmp(core, "ARM", 3) ? 8 : 0;
}

/* "Cortex-R5", "ARMv7-M": the letter after the first dash. */
static char core_profile(const char *core)
{
	const char *dash = core ? strchr(core, '-') : NULL;

	return dash && (dash[1] == 'R' || dash[1] == 'M') ? dash[1] : 'A';
}

/*
 * Types are matched by prefix, and all rows that fit count: an ITM has its id
 * in one of three registers, by the name that the tool gave it. Absent
 * registers stay 0.
 */
void import_cs_block(uint64_t words[IMPORT_CS_BLOCK],
		     const struct ini *device, const char *type,
		     const char *core_type, uint32_t cpu)
{
	uint64_t *w = words + AUX_CS_NR_PARAMS + 1;

	memset(words, 0, IMPORT_CS_BLOCK * sizeof(*words));
	words[AUX_CS_MAGIC] = AUX_CS_MAGIC_OWN;
	words[AUX_CS_CPU] = cpu == UINT32_MAX ? UINT64_MAX : cpu;
	words[AUX_CS_NR_PARAMS] = AUX_CS_OWN_N;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		const struct source_type *t = &types[i];
		uint64_t id;

		if (strncasecmp(type, t->prefix, strlen(t->prefix)))
			continue;
		id = get_reg(device, t->id_reg) >> t->id_shift & ID_MASK;
		w[AUX_CS_OWN_ARCH] = t->arch;
		w[AUX_CS_OWN_TRACE_ID] = id ? id : w[AUX_CS_OWN_TRACE_ID];
	}
	for (size_t i = 0; i < sizeof(regs) / sizeof(regs[0]); i++) {
		uint64_t v = get_reg(device, regs[i].name);

		if (v)
			w[regs[i].word] = v;
	}
	w[AUX_CS_OWN_CORE_VERSION] = import_cs_version(core_type);
	w[AUX_CS_OWN_CORE_PROFILE] = (uint64_t)core_profile(core_type);
}

size_t import_cs_dstream(uint8_t *dst, const uint8_t *src, size_t len)
{
	size_t out = 0, n;

	for (size_t at = 0; at < len; at += DSTREAM_BLOCK) {
		n = len - at < DSTREAM_DATA ? len - at : DSTREAM_DATA;
		memcpy(dst + out, src + at, n);
		out += n;
	}
	return out;
}

static const uint8_t full_sync[4] = { 0xff, 0xff, 0xff, 0x7f };

/* A frame of full syncs, as the kernel puts it before a buffer that lost its
 * start: the deformatter starts anew there. */
static size_t put_barrier(uint8_t *dst)
{
	for (size_t i = 0; i < FRAME; i += sizeof(full_sync))
		memcpy(dst + i, full_sync, sizeof(full_sync));
	return FRAME;
}

/*
 * Every half word of a frame begins with data, or an id, of which 0x7f is never
 * used: 0xff there can only be a sync.
 */
size_t import_cs_frames(uint8_t *dst, const uint8_t *src, size_t len)
{
	size_t in = 0, out = 0, part = 0;

	while (in < len) {
		const uint8_t *p = src + in;
		size_t left = len - in;

		if (left >= 2 && p[0] == 0xff && p[1] == 0x7f) {
			in += 2;
		} else if (left >= 4 && !memcmp(p, full_sync, 4)) {
			if (part)
				out += put_barrier(dst + out - part) - part;
			part = 0;
			in += 4;
		} else {
			size_t n = left < 2 ? left : 2;

			memcpy(dst + out, p, n);
			in += n;
			out += n;
			part = (part + n) % FRAME;
		}
	}
	return out;
}
