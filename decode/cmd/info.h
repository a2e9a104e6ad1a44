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

#endif
