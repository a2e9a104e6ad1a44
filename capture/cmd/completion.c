/* SPDX-License-Identifier: BSD-2-Clause */
/* --completion: the commands and tables of auxcap.c for common/completion. */
#include <stdio.h>
#include <stdlib.h>

#include "capture/cmd/cmd.h"

int cmd_completion(const char *shell, const struct completion_command *commands,
		   size_t n)
{
	const struct completion c = { .program = "auxcap", .commands = commands,
				      .n_commands = n, .programs = true };
	char *text;
	int rc = completion_make(&c, shell, &text);

	if (rc == -AUX_E_INVAL)
		return cmd_usage("--completion is bash, zsh or fish, not \"%s\"",
				 shell);
	if (rc < 0)
		return CMD_FAILED;
	rc = fputs(text, stdout) < 0 || fflush(stdout) ? CMD_FAILED : CMD_OK;
	free(text);
	return rc;
}
