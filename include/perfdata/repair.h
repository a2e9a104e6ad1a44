/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * repair: completes a perf.data file whose writer was killed, perf's or ours.
 *
 * Invariant: the records that reached the file stay where they are; what makes
 * the file whole comes behind them, the header last. A file that is complete, or
 * that is not understood, is not touched.
 */
#ifndef PERFDATA_REPAIR_H
#define PERFDATA_REPAIR_H

#include <aux/error.h>
#include "perfdata/repair_text.h"

/* 0, or -AUX_E_*: then nothing was changed, except that after an error in
 * writing (AUX_E_IO) it can be tried again. */
int repair_file(const char *path, const struct repair_options *o,
		struct repair_result *r, struct aux_diag *diag);

#endif
