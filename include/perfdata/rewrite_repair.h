/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rewrite_repair: a whole file from one whose writer was killed, perf's or ours.
 *
 * All whole records go into a new file, with the index and the features that its
 * writer had no time for; it takes the place of the old one in one step.
 */
#ifndef PERFDATA_REWRITE_REPAIR_H
#define PERFDATA_REWRITE_REPAIR_H

#include "perfdata/repair_text.h"

#include "perfdata/rewrite.h"

/* 0, or -AUX_E_*: then nothing was changed. */
int rewrite_repair(const char *path, const struct repair_options *o,
		   struct repair_result *r, struct aux_diag *diag);

#endif
