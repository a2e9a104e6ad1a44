/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_repair: completes a recording whose writer was killed, as `auxcap repair`
 * does, and says what it found: one line for one file.
 */
#include <inttypes.h>
#include <stdio.h>

#include "cmd_rewrite.h"
#include "rewrite_repair.h"

static void say_found(const struct cmd_options *o, const struct repair_result *r)
{
	char cut[64] = "", missing[64] = "";

	if (r->missing)
		snprintf(missing, sizeof(missing), " (%" PRIu64 " more were "
			 "on their way)", r->missing);
	if (r->cut)
		snprintf(cut, sizeof(cut), ", %" PRIu64 " byte%s of a cut record "
			 "left out", r->cut, r->cut == 1 ? "" : "s");
	cmd_say(o->path, "%s: %" PRIu64 " record%s, %" PRIu64 " byte%s of "
		"trace%s%s%s%s",
		o->dry_run ? "unfinished, can be repaired" : "repaired",
		r->n_records, r->n_records == 1 ? "" : "s", r->aux_bytes,
		r->aux_bytes == 1 ? "" : "s", missing, cut,
		o->out_path ? "; written to " : "",
		o->out_path ? o->out_path : "");
}

int cmd_repair(const struct cmd_options *o)
{
	const struct repair_options options = { .output = o->out_path,
						.dry_run = o->dry_run };
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct repair_result r;
	int rc = rewrite_repair(o->path, &options, &r, &diag);

	if (rc < 0)
		return cmd_failed(r.writing ? NULL : o->path, rc, &diag);
	if (r.complete)
		cmd_say(o->path, "complete, there is nothing to repair");
	else
		say_found(o, &r);
	return CMD_OK;
}
