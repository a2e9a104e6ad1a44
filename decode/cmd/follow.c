/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * follow: commands to go on with, as they can be pasted into a shell. Each keeps
 * the user's own options that say which flow is meant and how it is had (the
 * groups of options.c that stay), as far as the command takes them: without
 * --symfs it would not find the code that is in the user's result.
 *
 * Words are those of a command after "auxdecode": FILE stands for the user's
 * file, FUNCTION for the function that was asked for, if one was, or else for the one
 * that the result is led by, TIME for a time of its calls. A command in a
 * message stands between backquotes, with or without FILE: who prints the
 * message puts it in full. A process has one command line, so it is kept here
 * and not passed through everything that has something to advise.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/markup.h"
#include "decode/cmd/impl.h"

static const struct cmd_options *call;	/* NULL: not yet understood */
static char about[512], about_time[32];	/* FUNCTION, TIME; "": none */

void follow_init(const struct cmd_options *o)
{
	call = o;
}

void follow_about(const char *function, const char *time)
{
	snprintf(about, sizeof(about), "%s", function);
	snprintf(about_time, sizeof(about_time), "%s", time);
}

/* Where the word stands in words; NULL: nowhere. */
static const char *find_word(const char *words, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = words; (p = strstr(p, word)); p += len)
		if ((p == words || p[-1] == ' ') && (!p[len] || p[len] == ' '))
			return p;
	return NULL;
}

static bool has_option(const char *words, const struct option_row *row)
{
	char option[64];

	snprintf(option, sizeof(option), "--%s", row->name);
	return find_word(words, option);
}

/* The group of the command that the option is in, if it stays; NULL: the command
 * does not take it, or it does not matter there. *own: the user's command has its
 * own option of that name. */
static const struct cmd_group *stays_in(const struct command *c,
					const struct option_row *row, bool *own)
{
	const struct option_row *rows = cmd_rows(call->command);

	*own = rows && option_find(rows, row->name) == row;
	for (size_t i = 0; c->groups[i]; i++) {
		const struct option_row *r =
			option_find(c->groups[i]->rows, row->name);

		if (r && c->groups[i]->stays && (r == row || *own))
			return c->groups[i];
	}
	return NULL;
}

/* The only option that two commands have apart is diff's --tid A:B, of which a
 * command for one recording takes A. */
static void put_option(struct outbuf *out, const struct option_given *g, bool own)
{
	struct option_label label;
	char *arg;

	outbuf_printf(out, " %s", option_label(g->row, &label));
	if (!g->arg)
		return;
	arg = strndup(g->arg, own ? strcspn(g->arg, ":") : strlen(g->arg));
	if (!arg) {
		outbuf_fail(out, ENOMEM);
		return;
	}
	outbuf_str(out, " ");
	outbuf_shell(out, arg);
	free(arg);
}

/* What the words say themselves is not said again; and there is one way to say
 * which time is meant. */
static void put_options(struct outbuf *out, const struct command *c,
			const char *words, bool names)
{
	bool timed = find_word(words, "--time") || find_word(words, "--last"), own;

	for (size_t i = 0; i < call->n_given; i++) {
		const struct option_given *g = &call->given[i];
		const struct cmd_group *group = stays_in(c, g->row, &own);

		if (!group || has_option(words, g->row))
			continue;
		if (timed && (group == &cmd_group_time || group == &cmd_group_part))
			continue;
		if (group == &cmd_group_symbol &&
		    (!names || !strcmp(g->row->name, "symbol")))
			continue;
		put_option(out, g, own);
	}
}

/* Of functions that were asked for, as option or operand, a single one becomes
 * FUNCTION; what it is then, else NULL. */
static const char *put_functions(struct outbuf *out, const struct command *c,
				 const char *words)
{
	const struct cmd_filter *f = &call->filter;
	bool takes = false;

	for (size_t i = 0; c->groups[i]; i++)
		takes |= c->groups[i] == &cmd_group_symbol;
	if (!takes)
		return NULL;
	if (f->n_symbols == 1 && find_word(words, "FUNCTION") &&
	    f->symbols[0][0] != '-')
		return f->symbols[0];
	for (size_t i = 0; i < f->n_symbols; i++) {
		outbuf_str(out, " --symbol ");
		outbuf_shell(out, f->symbols[i]);
	}
	return NULL;
}

/* --pt names the file among the options. A command that reads no FILE has none. */
static void put_file(struct outbuf *out, const char *path)
{
	if (call->import.options.pt)
		return;
	if (!path) {
		outbuf_str(out, " FILE");
		return;
	}
	outbuf_str(out, path[0] == '-' && path[1] ? " ./" : " ");
	outbuf_shell(out, path);
}

/* The words after the command's name. n functions went before them: --symbol
 * FUNCTION, or FUNCTION alone, is then said. */
static void put_words(struct outbuf *out, const char *words, const char *function,
		      size_t n, const char *path)
{
	size_t len;

	for (const char *p = words; *p; p += len) {
		p += strspn(p, " ");
		len = strcspn(p, " ");
		if (len == 4 && !memcmp(p, "FILE", 4)) {
			put_file(out, path);
		} else if (len == 8 && !memcmp(p, "FUNCTION", 8) && (function || n)) {
			if (function)
				outbuf_str(out, " ");
			if (function)
				outbuf_shell(out, function);
		} else if (len == 8 && !memcmp(p, "FUNCTION", 8) && about[0]) {
			outbuf_str(out, " ");
			outbuf_shell(out, about);
		} else if (len == 4 && !memcmp(p, "TIME", 4) && about_time[0]) {
			outbuf_str(out, " ");
			outbuf_str(out, about_time);
		} else if (function || !n || strncmp(p, "--symbol FUNCTION", 17)) {
			outbuf_str(out, " ");
			outbuf_put(out, p, len);
		}
	}
}

static void put_command(struct outbuf *out, const char *words, size_t len,
			const char *path, bool names)
{
	char name[16] = "", text[512];
	const struct command *c;
	const char *function = NULL;
	size_t n = 0;

	snprintf(text, sizeof(text), "%.*s", (int)len, words);
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, " "), text);
	c = cmd_find(name);
	outbuf_printf(out, "auxdecode %s", name);
	if (c && call) {
		put_options(out, c, text, names);
		if (names) {
			function = put_functions(out, c, text);
			n = function ? 0 : call->filter.n_symbols;
		}
	}
	if (call)
		put_words(out, text + strlen(name), function, n, path);
	else
		outbuf_str(out, text + strlen(name));
}

void follow_put(struct outbuf *out, const char *words)
{
	put_command(out, words, strlen(words), call ? call->path : NULL, true);
}

void follow_put_inside(struct outbuf *out, const char *words)
{
	put_command(out, words, strlen(words), call ? call->path : NULL, false);
}

/* Which of the user's files a message is about. */
static const char *file_of(const char *path)
{
	for (size_t i = 0; path && i < call->n_paths; i++)
		if (!strcmp(call->paths[i], path))
			return path;
	return call->path;
}

/* The words of a command between backquotes at p, *len long; false: there is
 * none, or it is about no FILE. */
static bool is_command(const char *p, size_t *len)
{
	char name[16], words[256];

	*len = strcspn(p, "`");
	snprintf(words, sizeof(words), "%.*s", (int)*len, p);
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(words, " "), words);
	return p[*len] && *len < sizeof(words) - 8 && cmd_find(name) &&
	       !find_word(words, "--help");
}

void follow_expand(struct outbuf *out, const char *text, const char *path)
{
	static const char begin[] = "`auxdecode ";
	const char *p;
	char words[256];
	size_t len;

	for (; call && (p = strstr(text, begin)); text = p + len) {
		p += strlen(begin);
		if (!is_command(p, &len)) {
			outbuf_put(out, text, (size_t)(p - text));
			len = 0;
			continue;
		}
		snprintf(words, sizeof(words), "%.*s", (int)len, p);
		if (!find_word(words, "FILE"))
			snprintf(words + len, sizeof(words) - len, " FILE");
		outbuf_put(out, text, (size_t)(p - text) - strlen("auxdecode "));
		put_command(out, words, strlen(words), file_of(path), true);
	}
	outbuf_str(out, text);
}
