/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_repair: completes a recording whose writer was killed, as `auxcap repair`
 * does, and says what it found: one line for one file.
 */
#include "decode/cmd/impl.h"
#include "perfdata/repair.h"

struct repair_config {
	bool dry_run;
};

static const struct option_row option_rows[] = {
	{ .name = "dry-run", .help = "only say what would be done",
	  OPTION_FLAG(struct repair_config, dry_run) },
	{ .name = NULL },
};

const struct cmd_own cmd_repair_own = {
	.options = option_rows,
	.config_size = sizeof(struct repair_config),
};

static void say_found(const struct cmd_options *o,
		      const struct repair_result *r)
{
	const struct repair_config *config = o->own;
	char text[400];

	repair_text(text, sizeof(text), r, config->dry_run);
	cmd_say(o->path, "%s%s%s", text, o->output.path ? "; written to " : "",
		o->output.path ? o->output.path : "");
}

int cmd_repair(const struct cmd_options *o)
{
	const struct repair_config *config = o->own;
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
