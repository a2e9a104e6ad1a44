/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_repair: completes a recording whose writer was killed, as `auxcap repair`
 * does, and says what it found: one line for one file.
 */
#include "decode/cmd/rewrite.h"
#include "perfdata/repair.h"

static void say_found(const struct cmd_options *o,
		      const struct repair_result *r)
{
	const struct cmd_repair_config *config = o->own;
	char text[400];

	repair_text(text, sizeof(text), r, config->dry_run);
	cmd_say(o->path, "%s%s%s", text, o->output.path ? "; written to " : "",
		o->output.path ? o->output.path : "");
}

int cmd_repair(const struct cmd_options *o)
{
	const struct cmd_repair_config *config = o->own;
	const struct repair_options options = {
		.way = REPAIR_REWRITE,
		.output = o->output.path,
		.dry_run = config->dry_run,
	};
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct repair_result r;
	int rc = repair_file(o->path, &options, &r, &diag);

	if (rc < 0)
		return cmd_failed(r.writing ? NULL : o->path, rc, &diag);
	if (r.complete)
		cmd_say(o->path, "complete, there is nothing to repair");
	else
		say_found(o, &r);
	return CMD_OK;
}
