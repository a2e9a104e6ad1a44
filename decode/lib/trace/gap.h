/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Causes of a GAP that only the host of the decoders emits, after those of
 * <aux/flow.h>: a plugin never meets them.
 */
#ifndef DECODE_LIB_TRACE_GAP_H
#define DECODE_LIB_TRACE_GAP_H

#include <aux/flow.h>

enum host_gap_cause {
	GAP_SNAPSHOT = AUX_GAP_N_CAUSES, /* not recorded between snapshots: is
					  * no loss */
	GAP_STALLED,	/* the trace unit had stopped without a record */
	GAP_UNSAVED,	/* the recorder could not save these bytes */
	GAP_OFFLINE,	/* the CPU was offline */
	GAP_UNKNOWN_ID,	/* nothing says whose trace this is (detail: its trace
			 * id, 0: raw trace) */
	GAP_UNPLACED,	/* something is missing, and nothing says where in the
			 * trace: libauxdecode's, at the end */
	GAP_N_CAUSES,
};

/* "overflow", "no-code", ...: as in # gap lines and in the verdict. */
const char *gap_name(unsigned cause);
/* What it means and what to do, one line. */
const char *gap_text(unsigned cause);

#endif
