/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * --help and --completion, from the tables of commands and options. Help has a
 * command's own options first, then the groups that it shares with others,
 * under their titles. lint compares the man page with what stands here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/options.h"
#include "decode/cmd/cmd.h"

#define HELP_COLUMN 27	/* where texts begin */

/* Prints a row; a '\n' of its help goes on below. */
static void print_row(const struct option_row *row)
{
	const char *help = row->help;
	char left[48];
	size_t n;

	option_left(row, left, sizeof(left));
	printf("  %-*s", HELP_COLUMN - 3, left);
	for (; *help; help += n + (help[n] == '\n')) {
		n = strcspn(help, "\n");
		printf("%*s%.*s\n", help == row->help ? 1 : HELP_COLUMN, "",
		       (int)n, help);
	}
}

/* Two groups in a row under one title print it once; *now is the last one
 * printed.
 * */
static void print_title(const char *title, const char **now)
{
	if (!*now || strcmp(*now, title))
		printf("\n%s:\n", title);
	*now = title;
}

static void print_group(const struct cmd_group *g, const char **now)
{
	print_title(g->title, now);
	for (const struct option_row *row = g->rows; row->name; row++)
		print_row(row);
}

/* "columns of insn:   cpu pid tid ...", within the width of a terminal. */
static void print_columns(const struct command *c)
{
	const char *list = c->sink ? c->sink->fields : NULL;
	int indent, at;

	if (!list)
		return;
	indent = at = printf("columns of %s:", c->name);
	while (*list) {
		int n = (int)strcspn(list, ",");

		if (at + 1 + n > 79)
			at = printf("\n%*s", indent, "") - 1;
		at += printf(" %.*s", n, list);
		list += n + (list[n] == ',');
	}
	putchar('\n');
}

/* As enum cmd_status; diff gives 0 and 3 another meaning. */
static void print_status(const struct command *c)
{
	bool compares = c && c->compares;

	printf("\nexit status: 0 %s, 1 failed, 2 usage, %s\n",
	       compares ? "equal" : "complete",
	       compares ? "3 they differ, or flow is missing" :
			  "3 finished with gaps or loss");
}

/* A command before number i has a row that reads the same. */
static bool was_printed(size_t i, const struct option_row *row)
{
	while (i-- > 0) {
		const struct option_row *other =
			option_find(cmd_rows(cmd_get(i)), row->name);

		if (other && !strcmp(other->help, row->help))
			return true;
	}
	return false;
}

static bool has_group(const struct command *c, const struct cmd_group *g)
{
	for (size_t i = 0; c->groups[i]; i++)
		if (c->groups[i] == g)
			return true;
	return false;
}

/* Options of single commands, each under the first command that has it. */
static void print_own_rows(void)
{
	const struct command *c;
	const char *now = NULL;
	char title[40];

	for (size_t i = 0; (c = cmd_get(i)); i++) {
		const struct option_row *row = cmd_rows(c);

		now = NULL;
		snprintf(title, sizeof(title), "options of %s", c->name);
		for (; row && row->name; row++) {
			if (was_printed(i, row))
				continue;
			print_title(title, &now);
			print_row(row);
		}
	}
}

/* Groups, each once: those of the first command that has most of them, then
 * what other commands have besides. */
static void print_groups(void)
{
	const struct command *c;
	const char *now = NULL;

	for (size_t i = 0; (c = cmd_get(i)); i++)
		for (size_t k = 0; c->groups[k]; k++) {
			bool met = false;

			for (size_t j = 0; j < i && !met; j++)
				met = has_group(cmd_get(j), c->groups[k]);
			if (!met)
				print_group(c->groups[k], &now);
		}
}

/* `auxdecode --help`: commands, groups, then options of single commands. */
static int help_all(void)
{
	const struct command *c;

	printf("usage: auxdecode [COMMAND] [OPTIONS] FILE\n"
	       "Rebuilds every instruction from a recording with AUX trace: "
	       "a perf.data\nfile or directory, an OpenCSD or DS-5 snapshot, "
	       "an LLDB trace bundle.\n"
	       "`auxdecode FILE` is insn; on a terminal it is summary.\n"
	       "\ncommands (`auxdecode COMMAND --help` has examples, and the "
	       "options it takes):\n");
	for (size_t i = 0; (c = cmd_get(i)); i++)
		printf("  %-8s %s\n", c->name, c->help);
	print_groups();
	print_own_rows();
	putchar('\n');
	for (size_t i = 0; (c = cmd_get(i)); i++)
		print_columns(c);
	print_status(NULL);
	return CMD_OK;
}

static void print_examples(const struct command *c)
{
	const size_t max = sizeof(c->examples) / sizeof(c->examples[0]);

	printf("\nexamples:\n");
	for (size_t i = 0; i < max && c->examples[i].words; i++)
		printf("  auxdecode %s\n      %s\n", c->examples[i].words,
		       c->examples[i].what);
}

/* The command's own options come first: these are what its help is read for. */
int cmd_help(const struct command *c)
{
	const struct option_row *own;
	const char *now = NULL;

	if (!c)
		return help_all();
	own = cmd_rows(c);
	printf("usage: auxdecode %s [OPTIONS] %s\n%s\n", c->name,
	       c->operands ? c->operands : "FILE", c->help);
	print_examples(c);
	if (own)
		print_title("options", &now);
	for (; own && own->name; own++)
		print_row(own);
	for (size_t i = 0; c->groups[i]; i++)
		print_group(c->groups[i], &now);
	if (c->sink && c->sink->fields)
		putchar('\n');
	print_columns(c);
	print_status(c);
	return CMD_OK;
}

/* ---- --completion: the same tables in the form that completion_make() wants ---- */

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
