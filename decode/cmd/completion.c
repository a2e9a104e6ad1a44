/* SPDX-License-Identifier: BSD-2-Clause */
/* --completion: the tables of commands and options as common/completion wants them. */
#include <stdio.h>
#include <stdlib.h>

#include "common/completion.h"

#include "decode/cmd/cmd.h"

#define MAX_COMMANDS 64
#define MAX_TABLES   24	/* of one command */

struct tables {
	const struct option_row *v[MAX_TABLES + 1];	/* NULL-ended */
};

static void fill_tables(struct tables *t, const struct command *c)
{
	size_t n = 0;

	if (cmd_rows(c))
		t->v[n++] = cmd_rows(c);
	for (size_t i = 0; c->groups[i] && n < MAX_TABLES; i++)
		t->v[n++] = c->groups[i]->rows;
	t->v[n] = NULL;
}

int cmd_completion(const char *shell)
{
	struct completion_command commands[MAX_COMMANDS];
	struct tables tables[MAX_COMMANDS];
	struct completion c = { .program = "auxdecode", .commands = commands };
	const struct command *cmd;
	char *text;
	int rc;

	for (; (cmd = cmd_get(c.n_commands)) && c.n_commands < MAX_COMMANDS;
	     c.n_commands++) {
		fill_tables(&tables[c.n_commands], cmd);
		commands[c.n_commands] = (struct completion_command){
			cmd->name, cmd->help, tables[c.n_commands].v
		};
	}
	rc = completion_make(&c, shell, &text);
	if (rc == -AUX_E_INVAL)
		return cmd_usage("--completion is bash, zsh or fish, not "
				 "\"%s\"", shell);
	if (rc < 0 || fputs(text, stdout) < 0 || fflush(stdout))
		return CMD_FAILED;
	free(text);
	return CMD_OK;
}
