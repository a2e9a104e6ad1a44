/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * losses: what the recorder says was lost: its ledger, from the feature section
 * or the last one among the records, else the sum of the losses that it reported.
 */
#ifndef DECODE_LIB_TRACE_LOSSES_H
#define DECODE_LIB_TRACE_LOSSES_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/reader.h>

#include "decode/lib/trace/trace.h"

enum losses_origin {
	LOSSES_NONE = 0,	/* the file says nothing */
	LOSSES_SECTION,		/* the feature section */
	LOSSES_RECORD,		/* the last AUX_OWN_LEDGER */
	LOSSES_SUMMED,		/* of AUX_OWN_LOSS: nothing of what was saved */
};

struct losses {
	struct aux_ledger_entry *e;
	uint32_t n;
	uint8_t origin;		/* enum losses_origin */
	bool bad;		/* there is a ledger that cannot be read */
	uint32_t version;
};

/* c: of the same file, as read. -AUX_E_NOMEM at worst. */
int losses_read(struct losses *l, const struct aux_reader *r,
		const struct chunks *c);
void losses_fini(struct losses *l);

/* By enum aux_ledger_cause. */
struct loss_text {
	const char *one, *many;	/* what is counted */
	const char *info;	/* after "5 bytes ", in a stream's line */
	const char *verdict;	/* the same with what to do; NULL: no loss */
	bool bytes;		/* counts bytes: 0 of n losses is unknown */
};

/* NULL: a cause that this build does not know. */
const struct loss_text *losses_text(uint32_t cause);

#endif
