/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxcap repair: completes a recording whose writer was killed, and says what
 * it found.
 *
 * Invariant: one line for one file; what is complete is left as it is.
 */
#include <stdio.h>
#include <unistd.h>

#include "capture/cmd/cmd.h"
#include "common/diag.h"
#include "perfdata/repair.h"

static void say_found(const char *path, const struct repair_result *r,
		      const char *output, bool dry_run)
{
	char text[400];

	repair_text(text, sizeof(text), r, dry_run);
	dprintf(STDERR_FILENO, "auxcap: %s: %s%s%s\n", path, text,
		output ? "; written to " : "", output ? output : "");
}

/* Puts the path in front of an error. */
static void name_file(const char *path, struct aux_diag *diag)
{
	struct aux_diag why = *diag;

	diag_set(diag, why.code, why.offset, "%s: %s", path, why.text);
}

/* output NULL: FILE itself is completed, by appending: nothing that is there
 * moves. Without damage nothing is written. */
int cmd_repair(const char *path, const char *output, bool dry_run, bool quiet)
{
	const struct repair_options o = {
		.way = REPAIR_APPEND, .output = output, .dry_run = dry_run,
	};
	struct repair_result r;
	struct aux_diag diag = { 0 };

	if (repair_file(path, &o, &r, &diag)) {
		if (!r.writing && diag.code != AUX_E_INVAL)
			name_file(path, &diag);
		return cmd_error(&diag);
	}
	if (quiet)
		return CMD_OK;
	if (r.complete)
		dprintf(STDERR_FILENO,
			"auxcap: %s: complete, there is nothing to repair\n",
			path);
	else
		say_found(path, &r, output, dry_run);
	return CMD_OK;
}
