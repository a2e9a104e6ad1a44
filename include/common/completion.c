/* SPDX-License-Identifier: BSD-2-Clause */
/* completion: see options.h. Texts of tables are quoted for the shell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aux/error.h>
#include "common/options.h"

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

/* A row's help as one line; what comes after a ';' is for --help alone. */
static void put_help(FILE *f, const char *s, const char *special)
{
	char line[160];
	size_t n = strcspn(s, ";");

	if (n >= sizeof(line))
		n = sizeof(line) - 1;
	for (size_t i = 0; i < n; i++)
		line[i] = s[i] == '\n' ? ' ' : s[i];
	line[n] = '\0';
	put_quoted(f, line, special);
}

/* By the word for the argument, as --help shows it: rows have no type of their
 * own. */
static bool is_path(const struct option_row *o)
{
	return o->arg && !o->values &&
	       (strstr(o->arg, "FILE") || strstr(o->arg, "DIR") ||
		strstr(o->arg, "PATH"));
}

/* A walk over the rows of a command's tables: all of them are there once. */
struct walk {
	const struct option_row *const *tables;
	const struct option_row *next;
};

static struct walk walk_of(const struct completion_command *c)
{
	return (struct walk){ c->tables, *c->tables };
}

/* NULL after the last. */
static const struct option_row *walk_next(struct walk *w)
{
	while (*w->tables && !w->next->name)
		w->next = *++w->tables;
	return *w->tables ? w->next++ : NULL;
}

static const struct option_row *find_row(const struct completion_command *c,
					 const char *name)
{
	const struct option_row *o = NULL;

	for (size_t i = 0; c->tables[i] && !o; i++)
		o = option_find(c->tables[i], name);
	return o;
}

static bool is_same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool is_same_argument(const struct option_row *a,
			     const struct option_row *b)
{
	return a->optional == b->optional && !a->arg == !b->arg &&
	       is_path(a) == is_path(b) && is_same_text(a->values, b->values);
}

/* What completes the argument of this option is the same wherever it is
 * taken. */
static bool is_same_everywhere(const struct completion *c,
			       const struct option_row *o)
{
	for (size_t i = 0; i < c->n_commands; i++) {
		const struct option_row *other =
			find_row(&c->commands[i], o->name);

		if (other && !is_same_argument(o, other))
			return false;
	}
	return true;
}

/* An earlier command than number i takes an option of that name. */
static bool is_met(const struct completion *c, size_t i, const char *name)
{
	while (i-- > 0)
		if (find_row(&c->commands[i], name))
			return true;
	return false;
}

/* ---- bash ---- */

/* All options of a command, as words of one shell string. "=" after an optional
 * argument: it cannot be a word of its own. */
static void put_bash_words(FILE *f, const struct completion_command *command)
{
	struct walk w = walk_of(command);
	const struct option_row *o;
	const char *sep = "";

	while ((o = walk_next(&w))) {
		fprintf(f, "%s--%s%s", sep, o->name, o->optional ? "=" : "");
		sep = " ";
		if (o->letter)
			fprintf(f, " -%c", o->letter);
	}
}

static void put_bash_argument(FILE *f, const struct option_row *o,
			      const char *command)
{
	fprintf(f, "\t%s:--%s", command, o->name);
	if (o->letter)
		fprintf(f, "|%s:-%c", command, o->letter);
	if (o->values)
		fprintf(f, ")\n\t\tmapfile -t COMPREPLY < <(compgen -W '%s' -- "
			"\"$word\")\n\t\treturn ;;\n", o->values);
	else if (is_path(o))
		fputs(")\n\t\tmapfile -t COMPREPLY < <(compgen -f -- "
		      "\"$word\")\n\t\treturn ;;\n", f);
	else
		fputs(")\n\t\treturn ;;\n", f);
}

/* Options that take a word: which words, by "command:option". */
static void put_bash_arguments(FILE *f, const struct completion *c)
{
	for (size_t i = 0; i < c->n_commands; i++) {
		struct walk w = walk_of(&c->commands[i]);
		const struct option_row *o;

		while ((o = walk_next(&w))) {
			bool same = is_same_everywhere(c, o);

			if (!o->arg || o->optional ||
			    (same && is_met(c, i, o->name)))
				continue;
			put_bash_argument(f, o, same ? "*" :
						       c->commands[i].name);
		}
	}
}

/* readline splits at = (COMP_WORDBREAKS), so "--color=a" comes as three words:
 * the option is then the word before the "=". */
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
		"\tcase $command:$before in\n", c->program, c->program);
	put_bash_arguments(f, c);
	fputs("\tesac\n\tcase $command in\n", f);
	for (size_t i = 0; i < c->n_commands; i++) {
		fprintf(f, "\t%s)\n\t\toptions='", c->commands[i].name);
		put_bash_words(f, &c->commands[i]);
		fputs("' ;;\n", f);
	}
	fputs("\t*)\n\t\toptions='", f);
	put_bash_words(f, &c->commands[c->standard]);
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

/* A spec of _arguments: the letter and the name exclude each other, for one is
 * enough. */
static void put_zsh_option(FILE *f, const struct option_row *o)
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
	put_help(f, o->help, special);
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
			    const char *name,
			    const struct completion_command *command)
{
	struct walk w = walk_of(command);
	const struct option_row *o;

	fprintf(f, "\t%s)\n\t\t_arguments -s \\\n", name);
	while ((o = walk_next(&w)))
		put_zsh_option(f, o);
	fprintf(f, "\t\t'*:file:%s' ;;\n", c->programs ?
			"_alternative files\\:file\\:_files "
			"commands\\:command\\:_command_names" : "_files");
}

/* The file is both: autoloaded from fpath its body runs once, sourced it calls
 * compdef. */
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
		put_zsh_command(f, c, c->commands[i].name, &c->commands[i]);
	put_zsh_command(f, c, "*", &c->commands[c->standard]);
	fprintf(f, "\tesac\n}\nif [ \"$funcstack[1]\" = _%s ]; then\n"
		"\t_%s \"$@\"\nelse\n\tcompdef _%s %s\nfi\n", c->program,
		c->program, c->program, c->program);
}

/* ---- fish ---- */

/* The same option, to a person who reads about it. */
static bool is_same_row(const struct option_row *a, const struct option_row *b)
{
	return a == b ||
	       (!strcmp(a->name, b->name) && a->letter == b->letter &&
		is_same_argument(a, b) && !strcmp(a->help, b->help));
}

/* A command before number i has the same option, whose line names this one,
 * too. */
static bool is_put(const struct completion *c, size_t i,
		   const struct option_row *o)
{
	while (i-- > 0) {
		const struct option_row *other =
			find_row(&c->commands[i], o->name);

		if (other && is_same_row(o, other))
			return true;
	}
	return false;
}

/* One line for all commands from number i on that have this option. */
static void put_fish_option(FILE *f, const struct completion *c, size_t i,
			    const struct option_row *o)
{
	const struct option_row *standard =
		find_row(&c->commands[c->standard], o->name);

	fprintf(f, "complete -c %s -l %s", c->program, o->name);
	if (o->letter)
		fprintf(f, " -s %c", o->letter);
	fputs(" -n '", f);
	if (standard && is_same_row(standard, o))
		fputs("__fish_use_subcommand; or ", f);
	fputs("__fish_seen_subcommand_from", f);
	for (; i < c->n_commands; i++) {
		const struct option_row *other =
			find_row(&c->commands[i], o->name);

		if (other && is_same_row(other, o))
			fprintf(f, " %s", c->commands[i].name);
	}
	fputc('\'', f);
	if (o->arg && !o->optional)
		fputs(is_path(o) ? " -r -F" : " -x", f);
	if (o->values)
		fprintf(f, " -a '%s'", o->values);
	fputs(" -d '", f);
	put_help(f, o->help, "\\");
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
	for (size_t i = 0; i < c->n_commands; i++) {
		struct walk w = walk_of(&c->commands[i]);
		const struct option_row *o;

		while ((o = walk_next(&w)))
			if (!is_put(c, i, o))
				put_fish_option(f, c, i, o);
	}
}

/* *text is the caller's, to be freed; NULL on an error. An unknown shell is
 * INVAL. */
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
