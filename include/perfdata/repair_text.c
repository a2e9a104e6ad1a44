/* SPDX-License-Identifier: BSD-2-Clause */
/* repair: the line that tells what was found. */
#include <inttypes.h>
#include <stdio.h>

#include "perfdata/repair_text.h"

void repair_text(char *buf, size_t len, const struct repair_result *r,
		 bool dry_run)
{
	char cut[64] = "", missing[64] = "";

	if (r->missing)
		snprintf(missing, sizeof(missing), " (%" PRIu64 " more were "
			 "on their way)", r->missing);
	if (r->cut)
		snprintf(cut, sizeof(cut), ", %" PRIu64 " byte%s of a cut record "
			 "left out", r->cut, r->cut == 1 ? "" : "s");
	snprintf(buf, len,
		 "%s: %" PRIu64 " record%s, %" PRIu64 " byte%s of trace%s%s",
		 dry_run ? "unfinished, can be repaired" : "repaired",
		 r->n_records, r->n_records == 1 ? "" : "s", r->aux_bytes,
		 r->aux_bytes == 1 ? "" : "s", missing, cut);
}
