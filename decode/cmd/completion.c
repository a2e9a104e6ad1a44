/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * --completion: the tables of commands and options in the form that
 * common/completion wants. The script goes to standard output.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/options.h"

#include "decode/cmd/cmd.h"


struct tables {
	const struct option_row *v[CMD_GROUPS_MAX + 1];	/* NULL-ended */
};

static void fill_tables(struct tables *t, const struct command *c)
{
	size_t n = 0;

	if (cmd_rows(c))
		t->v[n++] = cmd_rows(c);
	for (size_t i = 0; c->groups[i] && n < CMD_GROUPS_MAX; i++)
		t->v[n++] = c->groups[i]->rows;
	t->v[n] = NULL;
}

static size_t count_commands(void)
{
	size_t n = 0;

	while (cmd_get(n))
		n++;
	return n;
}

int cmd_completion(const char *shell)
{
	size_t n = count_commands();
	struct completion_command *commands = calloc(n, sizeof(*commands));
	struct tables *tables = calloc(n, sizeof(*tables));
	const struct completion c = { .program = "auxdecode",
				      .commands = commands, .n_commands = n };
	int status = CMD_FAILED, rc = -AUX_E_NOMEM;
	char *text = NULL;

	for (size_t i = 0; commands && tables && i < n; i++) {
		const struct command *cmd = cmd_get(i);

		fill_tables(&tables[i], cmd);
		commands[i] = (struct completion_command){ cmd->name, cmd->help,
							   tables[i].v };
	}
	if (commands && tables)
		rc = completion_make(&c, shell, &text);
	if (rc == -AUX_E_INVAL)
		status = cmd_usage("--completion is bash, zsh or fish, not "
				   "\"%s\"", shell);
	else if (rc == 0 && fputs(text, stdout) >= 0 && !fflush(stdout))
		status = CMD_OK;
	if (rc == 0)
		free(text);
	free(commands);
	free(tables);
	return status;
}
