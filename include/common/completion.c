/* SPDX-License-Identifier: BSD-2-Clause */
/* completion: see completion.h. Texts of tables are quoted for the shell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aux/error.h>
#include "common/completion.h"

/* Inside of '...'; also what _arguments takes for its own. */
static void put_quoted(FILE *f, const char *s, const char *special)
{
	for (; *s; s++) {
		if (*s == '\'')
			fputs("'\\''", f);
		else if (strchr(special, *s))
			fprintf(f, "\\%c", *s);
		else
			fputc(*s, f);
	}
}

static bool is_path(const struct completion_option *o)
{
	return o->arg && !o->values &&
	       (strstr(o->arg, "FILE") || strstr(o->arg, "DIR") ||
		strstr(o->arg, "PATH"));
}

/* ---- bash ---- */

static void put_bash_words(FILE *f, const struct completion *c, uint32_t bit)
{
	const char *sep = "";

	for (size_t i = 0; i < c->n_options; i++) {
		const struct completion_option *o = &c->options[i];

		if (!(o->commands & bit))
			continue;
		fprintf(f, "%s--%s%s", sep, o->name, o->optional ? "=" : "");
		sep = " ";
		if (o->letter)
			fprintf(f, " -%c", o->letter);
	}
}

/* Options that take a word: which words. */
static void put_bash_values(FILE *f, const struct completion *c)
{
	for (size_t i = 0; i < c->n_options; i++) {
		const struct completion_option *o = &c->options[i];

		if (!o->arg || o->optional)
			continue;
		fprintf(f, "\t--%s", o->name);
		if (o->letter)
			fprintf(f, "|-%c", o->letter);
		if (o->values)
			fprintf(f, ")\n\t\tmapfile -t COMPREPLY < <(compgen "
				"-W '%s' -- \"$word\")\n\t\treturn ;;\n",
				o->values);
		else if (is_path(o))
			fputs(")\n\t\tmapfile -t COMPREPLY < <(compgen -f -- "
			      "\"$word\")\n\t\treturn ;;\n", f);
		else
			fputs(")\n\t\treturn ;;\n", f);
	}
}

static void put_bash(FILE *f, const struct completion *c)
{
	fprintf(f, "# bash completion for %s\n_%s()\n{\n"
		"\tlocal word=${COMP_WORDS[COMP_CWORD]} command='' options\n"
		"\tlocal before=${COMP_WORDS[COMP_CWORD-1]}\n"
		"\tCOMPREPLY=()\n"
		"\tif [ \"$COMP_CWORD\" -gt 1 ]; then\n"
		"\t\tcommand=${COMP_WORDS[1]}\n\tfi\n"
		"\tif [ \"$word\" = = ]; then\n\t\tword=''\n"
		"\telif [ \"$before\" = = ]; then\n"
		"\t\tbefore=${COMP_WORDS[COMP_CWORD-2]}\n\tfi\n"
		"\tcase $before in\n", c->program, c->program);
	put_bash_values(f, c);
	fputs("\tesac\n\tcase $command in\n", f);
	for (size_t i = 0; i < c->n_commands; i++) {
		fprintf(f, "\t%s)\n\t\toptions='", c->commands[i].name);
		put_bash_words(f, c, c->commands[i].bit);
		fputs("' ;;\n", f);
	}
	fputs("\t*)\n\t\toptions='", f);
	put_bash_words(f, c, c->standard);
	fputs("' ;;\n\tesac\n\tcase $word in\n"
	      "\t-*)\n\t\tmapfile -t COMPREPLY < <(compgen -W \"$options\" -- "
	      "\"$word\")\n"
	      "\t\t[[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace "
	      "2>/dev/null\n\t\treturn ;;\n\tesac\n"
	      "\tif [ \"$COMP_CWORD\" = 1 ]; then\n"
	      "\t\tmapfile -t COMPREPLY < <(compgen -W '", f);
	for (size_t i = 0; i < c->n_commands; i++)
		fprintf(f, "%s%s", i ? " " : "", c->commands[i].name);
	fprintf(f, "' -- \"$word\")\n\tfi\n"
		"\tmapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen %s -- "
		"\"$word\")\n}\n"
		"complete -o filenames -o bashdefault -F _%s %s\n",
		c->programs ? "-c" : "-f", c->program, c->program);
}

/* ---- zsh ---- */

static void put_zsh_option(FILE *f, const struct completion_option *o)
{
	const char *special = "[]:\\";

	fputs("\t\t'", f);
	if (o->letter)
		fprintf(f, "(-%c --%s)'{-%c,--%s}'", o->letter, o->name,
			o->letter, o->name);
	else
		fprintf(f, "--%s", o->name);
	if (o->optional)	/* --name=ARG alone, or nothing */
		fputs("=-", f);
	fputc('[', f);
	put_quoted(f, o->help, special);
	fputc(']', f);
	if (o->arg) {
		fputs(o->optional ? "::" : ":", f);
		put_quoted(f, o->arg, special);
		fputc(':', f);
		if (o->values)
			fprintf(f, "(%s)", o->values);
		else if (is_path(o))
			fputs("_files", f);
	}
	fputs("' \\\n", f);
}

static void put_zsh_command(FILE *f, const struct completion *c,
			    const char *name, uint32_t bit)
{
	fprintf(f, "\t%s)\n\t\t_arguments -s \\\n", name);
	for (size_t i = 0; i < c->n_options; i++)
		if (c->options[i].commands & bit)
			put_zsh_option(f, &c->options[i]);
	fprintf(f, "\t\t'*:file:%s' ;;\n", c->programs ?
			"_alternative files\\:file\\:_files "
			"commands\\:command\\:_command_names" : "_files");
}

static void put_zsh(FILE *f, const struct completion *c)
{
	fprintf(f, "#compdef %s\n# zsh completion for %s\n_%s()\n{\n"
		"\tlocal -a commands\n\tcommands=(\n", c->program, c->program,
		c->program);
	for (size_t i = 0; i < c->n_commands; i++) {
		fprintf(f, "\t\t'%s:", c->commands[i].name);
		put_quoted(f, c->commands[i].help, ":\\");
		fputs("'\n", f);
	}
	fputs("\t)\n\tif (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n"
	      "\t\t_describe command commands\n\tfi\n"
	      "\tlocal command=$words[2]\n"
	      "\tif (( CURRENT > 2 )) && (( ${commands[(I)$command:*]} )); then\n"
	      "\t\tshift words\n\t\t(( CURRENT-- ))\n\telse\n"
	      "\t\tcommand=''\n\tfi\n\tcase $command in\n", f);
	for (size_t i = 0; i < c->n_commands; i++)
		put_zsh_command(f, c, c->commands[i].name, c->commands[i].bit);
	put_zsh_command(f, c, "*", c->standard);
	fprintf(f, "\tesac\n}\nif [ \"$funcstack[1]\" = _%s ]; then\n"
		"\t_%s \"$@\"\nelse\n\tcompdef _%s %s\nfi\n", c->program,
		c->program, c->program, c->program);
}

/* ---- fish ---- */

static void put_fish_option(FILE *f, const struct completion *c,
			    const struct completion_option *o)
{
	const char *sep = "__fish_seen_subcommand_from";

	fprintf(f, "complete -c %s -l %s", c->program, o->name);
	if (o->letter)
		fprintf(f, " -s %c", o->letter);
	fputs(" -n '", f);
	if (o->commands & c->standard)
		fputs("__fish_use_subcommand; or ", f);
	fputs(sep, f);
	for (size_t i = 0; i < c->n_commands; i++)
		if (o->commands & c->commands[i].bit)
			fprintf(f, " %s", c->commands[i].name);
	fputc('\'', f);
	if (o->arg && !o->optional)
		fputs(is_path(o) ? " -r -F" : " -x", f);
	if (o->values)
		fprintf(f, " -a '%s'", o->values);
	fputs(" -d '", f);
	put_quoted(f, o->help, "\\");
	fputs("'\n", f);
}

static void put_fish(FILE *f, const struct completion *c)
{
	fprintf(f, "# fish completion for %s\n", c->program);
	for (size_t i = 0; i < c->n_commands; i++) {
		fprintf(f, "complete -c %s -n __fish_use_subcommand -a %s -d '",
			c->program, c->commands[i].name);
		put_quoted(f, c->commands[i].help, "\\");
		fputs("'\n", f);
	}
	for (size_t i = 0; i < c->n_options; i++)
		put_fish_option(f, c, &c->options[i]);
}

int completion_make(const struct completion *c, const char *shell, char **text)
{
	size_t size;
	FILE *f;

	*text = NULL;
	if (strcmp(shell, "bash") && strcmp(shell, "zsh") &&
	    strcmp(shell, "fish"))
		return -AUX_E_INVAL;
	f = open_memstream(text, &size);
	if (!f)
		return -AUX_E_NOMEM;
	if (!strcmp(shell, "bash"))
		put_bash(f, c);
	else if (!strcmp(shell, "zsh"))
		put_zsh(f, c);
	else
		put_fish(f, c);
	if (fclose(f) == 0 && *text)
		return 0;
	free(*text);
	*text = NULL;
	return -AUX_E_NOMEM;
}
