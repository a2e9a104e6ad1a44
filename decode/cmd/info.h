/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of `auxdecode info` share: the counts, and what is missing. */
#ifndef DECODE_CMD_INFO_H
#define DECODE_CMD_INFO_H

#include <aux/perfdata.h>

#include "decode/lib/trace/trace.h"
#include "decode/cmd/cmd.h"
#include "decode/lib/trace/losses.h"

#define N_TYPES 128

struct info {
	const struct cmd_options *o;
	struct aux_reader *r;
	struct outbuf *out;
	uint64_t n_records;
	uint64_t n_by_type[N_TYPES];
	uint64_t n_other;	/* types from N_TYPES on */
	uint64_t n_timed, time_min, time_max;
	uint64_t lost_records, lost_samples;
	uint32_t pmu_type;	/* of the trace, 0: not known */
	uint64_t n_throttled;	/* the trace */
	uint64_t n_by_flag[64];	/* AUX records by flag bit */
	/* of the ledger */
	struct losses losses;
	struct aux_ledger_entry sum[AUX_LEDGER_N_CAUSES];	/* idx, cause: 0 */
	bool bad_ledger;	/* it cannot be read, or does not balance */
	unsigned n_bad;		/* feature sections cut off or damaged */
	uint64_t n_nobodys;	/* trace sources that are nobody's */
	bool bad_sources;	/* what is said of them cannot be read */
	bool lossy;
	struct chunks chunks;
};

/* info_loss.c */
/* Reads the ledger's entries, if there is one. -AUX_E_NOMEM at worst. */
int info_ledger_load(struct info *in);
/* When a stream ran, by the ledger; NULL: it is not said. */
const struct aux_ledger_entry *info_ledger_span(const struct info *in,
						uint32_t idx);
void info_ledger_print(struct info *in);
/* The last line; sets lossy. */
void info_verdict(struct info *in, bool damaged);

/* info_cs.c: nothing for other trace; -AUX_E_NOMEM */
int info_sources(struct info *in);

/* info_snap.c: nothing when there is none */
void info_snapshots(struct info *in);

/* info.c: "1.205 ms", "5.000000000", "5.000000000 s to 6.0.. s (1.0 s)" */
void info_duration(struct outbuf *o, uint64_t ns);
void info_time(struct outbuf *o, uint64_t ns);
void info_span(struct outbuf *o, uint64_t first, uint64_t last);

#endif
