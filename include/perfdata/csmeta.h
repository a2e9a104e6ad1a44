/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * AUXTRACE_INFO of cs_etm: perf's words (tools/perf/util/cs-etm.h), and
 * auxkit's own kind of block for sources that perf's cannot describe.
 *
 * Three words for all, then a block for each source. A block: magic, cpu, and
 * from version 1 on the number of words that follow. All words are u64.
 */
#ifndef PERFDATA_CSMETA_H
#define PERFDATA_CSMETA_H

#include <stdint.h>

/* For all. A version above 2 is refused, words after the known ones are not. */
enum aux_cs_header {
	AUX_CS_VERSION,		/* 0, 1, 2; high half 0 */
	AUX_CS_PMU_CPUS,	/* PMU type << 32 | number of blocks */
	AUX_CS_SNAPSHOT,	/* not 0: snapshot mode */
	AUX_CS_N_HEADER,
};

#define AUX_CS_MAGIC_ETMV3 0x3030303030303030ULL	/* PTM too */
#define AUX_CS_MAGIC_ETMV4 0x4040404040404040ULL
#define AUX_CS_MAGIC_ETE 0x5050505050505050ULL
/*
 * Only in memory, for files of others that are read as perf.data: "AUXKCSRC".
 * It has the count in every version.
 */
#define AUX_CS_MAGIC_OWN 0x4155584b43535243ULL

enum aux_cs_block {
	AUX_CS_MAGIC,
	AUX_CS_CPU,		/* own: -1 when the source is of no CPU */
	AUX_CS_NR_PARAMS,	/* words after this one; not in version 0 */
};

/* From the word after NR_PARAMS (version 0: after CPU) on. */
enum aux_cs_etmv3 {
	AUX_CS_ETMV3_ETMCR,
	AUX_CS_ETMV3_TRACEIDR,
	AUX_CS_ETMV3_ETMCCER,
	AUX_CS_ETMV3_ETMIDR,
	AUX_CS_ETMV3_N,
};

enum aux_cs_etmv4 {
	AUX_CS_ETMV4_TRCCONFIGR,
	AUX_CS_ETMV4_TRCTRACEIDR,
	AUX_CS_ETMV4_TRCIDR0,
	AUX_CS_ETMV4_TRCIDR1,
	AUX_CS_ETMV4_TRCIDR2,
	AUX_CS_ETMV4_TRCIDR8,
	AUX_CS_ETMV4_TRCAUTHSTATUS,
	AUX_CS_ETMV4_TS_SOURCE,	/* newer files only, signed; see below */
};

/* As ETMv4, with one word more in between. */
enum aux_cs_ete {
	AUX_CS_ETE_TRCDEVARCH = AUX_CS_ETMV4_TRCAUTHSTATUS + 1,
	AUX_CS_ETE_TS_SOURCE,
};

/* TS_SOURCE: as /sys/.../coresight etm ts_source; -1 not known */
#define AUX_CS_TS_VIRTUAL 1	/* the virtual counter: of the clock */
#define AUX_CS_TS_GUEST_PHYS 2
#define AUX_CS_TS_PHYSICAL 3

/* The trace id word: flagged, it is not the id that was used. */
#define AUX_CS_ID_UNUSED 0x80000000U

/*
 * Own: the members of struct aux_etm_config by name; a signed char, a flag or a
 * register each in a word of its own. Fewer words: the rest is 0.
 */
enum aux_cs_own {
	AUX_CS_OWN_ARCH,	/* enum aux_etm_arch */
	AUX_CS_OWN_TRACE_ID,	/* 0: raw trace, which has none */
	AUX_CS_OWN_CORE_VERSION,
	AUX_CS_OWN_CORE_PROFILE,
	AUX_CS_OWN_PID_IN_VMID,
	AUX_CS_OWN_TS_IS_CLOCK,
	AUX_CS_OWN_TRCCONFIGR,
	AUX_CS_OWN_TRCIDR0,
	AUX_CS_OWN_TRCIDR1,
	AUX_CS_OWN_TRCIDR2,
	AUX_CS_OWN_TRCIDR8,
	AUX_CS_OWN_TRCIDR9,
	AUX_CS_OWN_TRCIDR10,
	AUX_CS_OWN_TRCIDR11,
	AUX_CS_OWN_TRCIDR12,
	AUX_CS_OWN_TRCIDR13,
	AUX_CS_OWN_TRCDEVARCH,
	AUX_CS_OWN_TRCAUTHSTATUS,
	AUX_CS_OWN_ETMCR,
	AUX_CS_OWN_ETMIDR,
	AUX_CS_OWN_ETMCCER,
	AUX_CS_OWN_STMTCSR,
	AUX_CS_OWN_STMFEAT1R,
	AUX_CS_OWN_STMFEAT3R,
	AUX_CS_OWN_STMDEVID,
	AUX_CS_OWN_ITMTCR,
	AUX_CS_OWN_N,
};

#endif
