/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage_labels: see labels.h. Comments and literals are blanked out;
 * what is left of a line is a label when it ends with a colon and begins with case,
 * default, or is a name alone. Whoever asks knows which lines have code.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "decode/coverage/labels.h"

#define MAX_SOURCE (32 << 20)
#define MAX_LINE   400	/* bytes of a line that are looked at */

struct cover_labels {
	uint32_t n;
	uint8_t *what;		/* by line, from 1 */
};

enum state { CODE, COMMENT, LINE_COMMENT, STRING, CHARACTER };

struct line {
	char text[MAX_LINE];
	size_t n;
};

static bool is_word(const char *s, const char *word)
{
	size_t n = strlen(word);

	return !strncmp(s, word, n) &&
	       !isalnum((unsigned char)s[n]) && s[n] != '_';
}

static bool is_name(const char *s)
{
	/* table */
	static const char *const access[] = { "public", "private", "protected",
					      "signals" };

	for (size_t i = 0; i < sizeof(access) / sizeof(access[0]); i++) {
		if (is_word(s, access[i]))
			return false;
	}
	if (!isalpha((unsigned char)*s) && *s != '_')
		return false;
	while (isalnum((unsigned char)*s) || *s == '_')
		s++;
	while (isspace((unsigned char)*s))
		s++;
	return *s == ':' && !s[1];
}

static bool is_label(char *s)
{
	char *end = s + strlen(s);

	while (end > s && (isspace((unsigned char)end[-1]) || end[-1] == '{'))
		end--;
	*end = '\0';
	if (end - s < 2 || end[-1] != ':' || end[-2] == ':')
		return false;
	return is_word(s, "case") || is_word(s, "default") || is_name(s);
}

static uint8_t classify(char *s)
{
	const char *p = strstr(s, "return");
	uint8_t what = 0;

	if (p)
		p += 6;
	while (p && isspace((unsigned char)*p))
		p++;
	if (p && *p == ';')
		what |= COVER_RETURN;
	while (isspace((unsigned char)*s))
		s++;
	if (is_label(s))
		what |= COVER_LABEL;
	return what;
}

/* The state behind *p; moves it over what goes together. */
static enum state next_state(enum state st, const char **p)
{
	const char *s = *p;

	switch (st) {
	case CODE:
		if (s[0] == '/' && (s[1] == '*' || s[1] == '/')) {
			++*p;
			return s[1] == '*' ? COMMENT : LINE_COMMENT;
		}
		return *s == '"' ? STRING : *s == '\'' ? CHARACTER : CODE;
	case COMMENT:
		if (s[0] != '*' || s[1] != '/')
			return COMMENT;
		++*p;
		return CODE;
	case LINE_COMMENT:
		return LINE_COMMENT;
	default:
		if (*s == '\\' && s[1] && s[1] != '\n')
			++*p;
		return *s == (st == STRING ? '"' : '\'') ? CODE : st;
	}
}

static bool note_line(struct cover_labels *l, struct line *line)
{
	uint8_t *v;

	if (!(l->n & (l->n + 1))) {
		v = realloc(l->what, 2 * ((size_t)l->n + 1) + 1);
		if (!v)
			return false;
		l->what = v;
	}
	line->text[line->n] = '\0';
	l->what[++l->n] = classify(line->text);
	line->n = 0;
	return true;
}

static bool scan(struct cover_labels *l, const char *p)
{
	struct line line = { .n = 0 };
	enum state st = CODE, next;

	for (; *p; p++) {
		if (*p == '\n') {
			if (st != COMMENT)
				st = CODE;
			if (!note_line(l, &line))
				return false;
			continue;
		}
		next = next_state(st, &p);
		if ((st == CODE && next == CODE) || st == CHARACTER ||
		    next == CHARACTER) {
			/* 'x' stays, as something */
			if (line.n + 1 < sizeof(line.text))
				line.text[line.n++] =
					st == CODE && next == CODE ? *p : '0';
		}
		st = next;
	}
	return note_line(l, &line);
}

static char *read_text(const char *path)
{
	FILE *f = fopen(path, "re");
	struct stat st;
	char *text = NULL;
	size_t n;

	if (!f)
		return NULL;
	if (!fstat(fileno(f), &st) && S_ISREG(st.st_mode) && st.st_size >= 0 &&
	    st.st_size <= MAX_SOURCE)
		text = malloc((size_t)st.st_size + 1);
	if (text) {
		n = fread(text, 1, (size_t)st.st_size, f);
		text[n] = '\0';
	}
	fclose(f);
	return text;
}

struct cover_labels *cover_labels_new(const char *path)
{
	char *text = read_text(path);
	struct cover_labels *l = text ? calloc(1, sizeof(*l)) : NULL;

	if (l && !scan(l, text)) {
		cover_labels_free(l);
		l = NULL;
	}
	free(text);
	return l;
}

void cover_labels_free(struct cover_labels *l)
{
	if (!l)
		return;
	free(l->what);
	free(l);
}

unsigned cover_labels_of(const struct cover_labels *l, uint32_t line)
{
	return l && line && line <= l->n ? l->what[line] : 0;
}
