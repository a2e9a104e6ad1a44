/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * names_short: the short form of a name, see names.h.
 *
 * A demangled name is no language that could be parsed without the types it names,
 * so brackets are matched, and where they do not match the rest stays as it is.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "decode/callstack/names.h"

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (c & 0x80);
}

/* The length of a bracketed text, with its brackets; 0: it is not closed. An arrow
 * is no bracket. */
static size_t bracketed(const char *s, char open, char close)
{
	unsigned depth = 0;

	for (size_t i = 0; s[i]; i++) {
		if (s[i] == open)
			depth++;
		else if (s[i] == close && (!i || s[i - 1] != '-') && !--depth)
			return i + 1;
	}
	return 0;
}

/* "operator<<", "operator()": its length, or 0. Demanglers put a blank between an
 * operator and the "<" of template arguments where both could be one. */
static size_t operator_len(const char *s)
{
	/* table: longer ones first */
	static const char *const signs[] = {
		"<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "==",
		"!=", "+=", "-=", "*=", "/=", "%=", "^=", "&=", "|=", "&&", "||",
		"++", "--", "[]", "()", "<", ">", "=", "+", "-", "*", "/", "%",
		"^", "&", "|", "~", "!", ",",
	};
	static const char word[] = "operator";
	const size_t n = sizeof(word) - 1;

	if (strncmp(s, word, n) != 0)
		return 0;
	for (size_t i = 0; i < sizeof(signs) / sizeof(*signs); i++)
		if (!strncmp(s + n, signs[i], strlen(signs[i])))
			return n + strlen(signs[i]);
	return n;
}

struct strip {
	const char *name, *at;
	char *out;
	bool templates;		/* their arguments are left out, too */
};

/*
 * Arguments at s->at; false: it is something else. Those of a template follow a
 * name: "<module>" is one itself, and "<T as Trait>::f" begins with what f is of.
 */
static bool skip_arguments(struct strip *s, bool of_operator)
{
	char before = s->at[-1];
	bool round = *s->at == '(';
	size_t n = round ? bracketed(s->at, '(', ')') : bracketed(s->at, '<', '>');

	if (!n || (!round && !s->templates))
		return false;
	if (!of_operator && !is_word(before) && !(round && strchr(">])", before)))
		return false;
	s->at += n;
	if (round && *s->at && *s->at != ':' && *s->at != '#' && *s->at != '}' &&
	    strncmp(s->at, " const::", 8) != 0) {
		s->at += strlen(s->at); /* " const", " [clone .cold]" */
	} else if (*s->at || !round) {
		*s->out++ = round ? '(' : '<';
		*s->out++ = round ? ')' : '>';
	}
	return true;
}

/* A copy without arguments, to be freed; NULL: out of memory. */
static char *strip_arguments(const char *name, bool templates)
{
	size_t n, room = 2 * strlen(name) + 1;
	struct strip s = { .name = name, .at = name, .templates = templates };
	char *out = malloc(room);

	if (!out)
		return NULL;
	s.out = out;
	while (*s.at) {
		n = s.at == name || !is_word(s.at[-1]) ? operator_len(s.at) : 0;
		if (n) {
			memcpy(s.out, s.at, n);
			s.out += n;
			s.at += n;
			s.at += templates && s.at[0] == ' ' && s.at[1] == '<';
			if (*s.at == '<' || *s.at == '(')
				(void)skip_arguments(&s, true);
		} else if ((*s.at != '(' && *s.at != '<') || s.at == name ||
			   !skip_arguments(&s, false)) {
			*s.out++ = *s.at++;
		}
	}
	*s.out = '\0';
	return out;
}

/* A byte in the middle of a character: a name is not cut there. */
static bool continues(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

void names_cut_middle(char *name, unsigned width)
{
	size_t len = strlen(name), head, tail;

	if (!width || len <= width || width < 8)
		return;
	head = (width - 2) / 3;
	tail = len - (width - 2 - head);
	while (head && continues(name[head]))
		head--;
	while (continues(name[tail]))
		tail++;
	memcpy(name + head, "..", 2);
	memmove(name + head + 2, name + tail, len - tail + 1);
}

char *names_short(const char *raw, enum names_how how, unsigned width)
{
	char *bare = names_demangle_bare(raw), *name;

	if (how == NAMES_FULL)
		name = names_demangle(raw);
	else
		name = strip_arguments(bare ? bare : raw, how == NAMES_SHORT);
	if (!name && how == NAMES_FULL)
		name = strdup(raw);
	free(bare);
	if (name)
		names_cut_middle(name, width);
	return name;
}
