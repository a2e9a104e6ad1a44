/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_completion: --completion, from the tables of commands and options. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/completion.h"

#include "decode/cmd/options.h"

#define MAX_COMMANDS 64

/* Options with a few words to choose from. table */
static const struct {
	int id;
	const char *values;
} values_of[] = {
	{ OPT_SYNTAX, "intel att" },
	{ OPT_COLOR, "auto always never" },
	{ OPT_ONLY, "flow functions" },
	{ OPT_COMPLETION, "bash zsh fish" },
	{ OPT_DECODER, "pt etm libipt opencsd" },
	{ OPT_REFERENCE, "libipt opencsd pt etm" },
	{ OPT_TO, "perfetto chrome fxt speedscope pprof callgrind sqlite jsonl "
		  "list autofdo gcov bolt perf summary lcov drcov sancov afl" },
	{ OPT_BY, "time insns cycles branches" },
	{ OPT_PER, "thread process all" },
};

static const char *find_values(int id)
{
	for (size_t i = 0; i < sizeof(values_of) / sizeof(values_of[0]); i++)
		if (values_of[i].id == id)
			return values_of[i].values;
	return NULL;
}

static size_t fill_options(struct completion_option *v)
{
	size_t n = 0;

	for (; cmd_option_rows[n].name; n++) {
		const struct option_row *o = &cmd_option_rows[n];

		v[n] = (struct completion_option){
			.name = o->name, .arg = o->arg, .help = o->help,
			.letter = o->id < 256 ? (char)o->id : 0,
			.values = find_values(o->id), .commands = o->commands,
		};
	}
	return n;
}

int cmd_completion(const char *shell)
{
	struct completion_command commands[MAX_COMMANDS];
	struct completion_option options[CMD_N_OPTIONS];
	struct completion c = { .program = "auxdecode", .commands = commands,
				.options = options, .standard = INSN };
	const struct command *cmd;
	char *text;
	int rc;

	for (; (cmd = cmd_get(c.n_commands)) && c.n_commands < MAX_COMMANDS;)
		commands[c.n_commands++] = (struct completion_command){
			cmd->name, cmd->help, cmd->bit
		};
	c.n_options = fill_options(options);
	rc = completion_make(&c, shell, &text);
	if (rc == -AUX_E_INVAL)
		return cmd_usage("--completion is bash, zsh or fish, not "
				 "\"%s\"", shell);
	if (rc < 0 || fputs(text, stdout) < 0 || fflush(stdout))
		return CMD_FAILED;
	free(text);
	return CMD_OK;
}
