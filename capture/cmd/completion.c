/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_completion: --completion, from the table of options. What an option does is
 * read out of the text of --help, so that it stands there alone.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/completion.h"

#include "capture/cmd/cmd.h"

#define HELP_COLUMN 27	/* where texts begin in --help */
#define MAX_OPTIONS 64
#define MAX_HELP 80

/* Options with a few words to choose from. table */
static const struct {
	const char *name, *values;
} values_of[] = {
	{ "event", "intel_pt//u intel_pt// cs_etm// soft_pt//u soft_etm//u "
		   "cycles" },
	{ "snapshot", "e" },
	{ "overwrite", "e" },
	{ "completion", "bash zsh fish" },
};

static const char *find_values(const char *name)
{
	for (size_t i = 0; i < sizeof(values_of) / sizeof(values_of[0]); i++)
		if (!strcmp(values_of[i].name, name))
			return values_of[i].values;
	return NULL;
}

/* The text behind "--name" in its line of --help; "" where it has none. */
static void find_help(const char *usage, const char *name, char *buf)
{
	size_t len = strlen(name), n = 0;
	const char *at = usage, *line;

	buf[0] = '\0';
	while ((at = strstr(at, "--")) &&
	       (strncmp(at + 2, name, len) || isalnum((unsigned char)at[2 + len]) ||
		at[2 + len] == '-'))
		at += 2;
	if (!at)
		return;
	for (line = at; line > usage && line[-1] != '\n'; line--)
		;
	if (strcspn(line, "\n") <= HELP_COLUMN ||
	    strncmp(line + HELP_COLUMN - 1, " ", 1) || at > line + HELP_COLUMN)
		return;
	line += HELP_COLUMN;
	for (; line[n] && !strchr("\n;", line[n]) && n < MAX_HELP - 1; n++)
		buf[n] = line[n];
	while (n && strchr(" ,;:(", buf[n - 1]))
		n--;
	buf[n] = '\0';
}

/* NULL: none is known; FILE: a path. */
static const char *arg_of(const struct option *o)
{
	static const char *const paths[] = { "output", "truth", "control" };

	if (o->has_arg == no_argument)
		return NULL;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (!strcmp(o->name, paths[i]))
			return "FILE";
	return o->name;
}

static bool takes(const char *letters, int val)
{
	return letters ? val < 128 && strchr(letters, val) : val != 'n';
}

int cmd_completion(const char *shell, const struct option *options,
		   const struct cmd_word *words, size_t n_words,
		   const char *usage)
{
	struct completion_command commands[8];
	struct completion_option v[MAX_OPTIONS];
	char help[MAX_OPTIONS][MAX_HELP];
	struct completion c = { .program = "auxcap", .commands = commands,
				.options = v, .standard = 1, .programs = true };
	char *text;
	int rc;

	for (; c.n_commands < n_words && c.n_commands < 8; c.n_commands++)
		commands[c.n_commands] = (struct completion_command){
			words[c.n_commands].name, "", 1u << c.n_commands
		};
	for (const struct option *o = options;
	     o->name && c.n_options < MAX_OPTIONS; o++) {
		size_t n = c.n_options++;

		find_help(usage, o->name, help[n]);
		v[n] = (struct completion_option){
			.name = o->name, .arg = arg_of(o), .help = help[n],
			.letter = o->val < 128 ? (char)o->val : 0,
			.optional = o->has_arg == optional_argument,
			.values = find_values(o->name),
		};
		for (size_t i = 0; i < c.n_commands; i++)
			if (takes(words[i].takes, o->val))
				v[n].commands |= commands[i].bit;
	}
	rc = completion_make(&c, shell, &text);
	if (rc < 0)
		return rc == -AUX_E_INVAL ? CMD_USAGE : CMD_FAILED;
	rc = fputs(text, stdout) < 0 || fflush(stdout) ? CMD_FAILED : CMD_OK;
	free(text);
	return rc;
}
