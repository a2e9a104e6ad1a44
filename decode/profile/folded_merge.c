/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * profile: merges folded stacks. Files are kept in memory and stacks point into
 * them; once all are read they are sorted, and equal ones are neighbours.
 *
 * Format: "FRAME;FRAME;FRAME NUMBER\n", as flamegraph.pl reads it. A frame may
 * contain blanks (C++ names), so the last blank separates the number.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"

#include "decode/lib/session/sink.h"
#include "decode/profile/profile.h"
#include "common/outbuf.h"

#define MAX_FILE (UINT64_C(1) << 30)
#define MAX_HEAD 65536	/* bytes in which the first stack must end */

struct stack {
	const char *name;
	size_t len;
	uint64_t n;
};

struct stacks {
	char **texts;
	size_t n_texts, max_texts;
	struct stack *v;
	size_t n, max;
};

/* Splits a line into stack and number. False if it has no such form. */
static bool parse_line(const char *p, size_t len, struct stack *s)
{
	size_t at = len;

	while (at && p[at - 1] >= '0' && p[at - 1] <= '9')
		at--;
	if (at == len || at < 2 || (p[at - 1] != ' ' && p[at - 1] != '\t'))
		return false;
	*s = (struct stack){ .name = p };
	for (size_t i = at; i < len; i++)
		if (__builtin_mul_overflow(s->n, UINT64_C(10), &s->n) ||
		    __builtin_add_overflow(s->n, (uint64_t)(p[i] - '0'), &s->n))
			return false;
	while (at && (p[at - 1] == ' ' || p[at - 1] == '\t'))
		at--;
	s->len = at;
	for (size_t i = 0; i < at; i++)
		if ((unsigned char)p[i] < ' ' && p[i] != '\t')
			return false;
	return at;
}

/* A name may begin with #, but has no blanks as `flame` writes it. */
static bool is_comment(const char *line, size_t len)
{
	return !len || (*line == '#' && (len == 1 || line[1] == ' '));
}

/* The line at *p without its end (LF or CR LF); moves *p past it. */
static const char *next_line(const char **p, const char *end, size_t *len)
{
	const char *line = *p;
	const char *nl = memchr(line, '\n', (size_t)(end - line));

	*len = (size_t)((nl ? nl : end) - line);
	*p = nl ? nl + 1 : end;
	if (*len && line[*len - 1] == '\r')
		--*len;
	return line;
}

/* Does the first of the lines that are no comments have a stack; all, if all, but for
 * one that the end of the head cuts? */
static bool has_stacks(const char *p, const char *end, bool all)
{
	bool is = false, whole = end[-1] == '\n';
	const char *line;
	struct stack s;
	size_t len;

	while (p < end) {
		line = next_line(&p, end, &len);
		if (is_comment(line, len) || (is && p == end && !whole))
			continue;
		is = parse_line(line, len, &s);
		if (!is || !all)
			return is;
	}
	return is;
}

/* sancov's addresses, which may have the bytes of lines. */
static bool is_sancov(const char *head, size_t n)
{
	return n >= 8 && (*head == '2' || *head == 'd') &&	/* of 32 or 64 bits */
	       !memcmp(head + 1, "\xff\xff\xff\xff\xff\xbf\xc0", 7);
}

static bool is_folded(const char *path, bool all)
{
	FILE *f = fopen(path, "re");
	char *head = f ? malloc(MAX_HEAD) : NULL;
	size_t n = head ? fread(head, 1, MAX_HEAD, f) : 0;
	bool is = n && !is_sancov(head, n) && has_stacks(head, head + n, all);

	free(head);
	if (f)
		fclose(f);
	return is;
}

bool merge_folded_is_file(const char *path)
{
	return is_folded(path, false);
}

bool merge_folded_is_all(const char *path)
{
	return is_folded(path, true);
}

/* Reads a whole file, which st then owns; *len is its size. */
static int read_file(struct stacks *st, const char *path, size_t *len,
		     struct aux_diag *diag)
{
	FILE *f = fopen(path, "re");
	size_t max = 0, n = 0;
	char *p = NULL, *more;
	int rc = 0;

	if (!f)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "%m");
	do {
		max = max ? 2 * max : 1 << 16;
		if (max > MAX_FILE) {
			rc = diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
				      "larger than 1 GB");
			break;
		}
		more = realloc(p, max);
		if (!more) {
			rc = -AUX_E_NOMEM;
			break;
		}
		p = more;
		n += fread(p + n, 1, max - n, f);
	} while (n == max);
	if (!rc && ferror(f))
		rc = diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "%m");
	fclose(f);
	if (!rc && array_grow(&st->texts, st->n_texts, &st->max_texts,
			      sizeof(*st->texts)) < 0)
		rc = -AUX_E_NOMEM;
	if (rc)
		free(p);
	else
		st->texts[st->n_texts++] = p;
	*len = n;
	return rc;
}

/* Adds the stacks of a file. */
static int add_file(struct stacks *st, const char *path, struct aux_diag *diag)
{
	const char *text, *p, *line;
	size_t len, n = 0;
	int rc = read_file(st, path, &n, diag);

	if (rc < 0)
		return rc;
	text = st->texts[st->n_texts - 1];
	for (p = text; p < text + n;) {
		line = next_line(&p, text + n, &len);
		if (len + 1 == strlen(FOLDED_PART) &&
		    !memcmp(line, FOLDED_PART, len))
			return diag_set(diag, AUX_E_UNSUPPORTED,
					(uint64_t)(line - text),
					"stacks of a part of a recording "
					"(--chunk) begin in the middle of calls, "
					"and do not add up to those of the "
					"whole: decode it whole");
		if (is_comment(line, len))
			continue;
		if (array_grow(&st->v, st->n, &st->max, sizeof(*st->v)) < 0)
			return -AUX_E_NOMEM;
		if (!parse_line(line, len, &st->v[st->n]))
			return diag_set(diag, AUX_E_FORMAT,
					(uint64_t)(line - text),
					"no line of folded stacks (names with "
					"; between them, a whole number)");
		st->n++;
	}
	return 0;
}

/* Compares frame by frame: ";" sorts before every other byte, so that a
 * caller's own stack precedes those of its callees, as in the output of
 * `flame`. */
static int compare_stacks(const void *a, const void *b)
{
	const struct stack *x = a, *y = b;
	size_t n = x->len < y->len ? x->len : y->len;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)x->name[i];
		unsigned char d = (unsigned char)y->name[i];

		if (c == d)
			continue;
		if (c == ';' || d == ';')
			return c == ';' ? -1 : 1;
		return c < d ? -1 : 1;
	}
	return x->len < y->len ? -1 : x->len > y->len;
}

static void put_stack(struct outbuf *out, const struct stack *s, uint64_t n)
{
	char number[24], *end = fmt_dec(number + 1, n);

	number[0] = ' ';
	*end++ = '\n';
	outbuf_put(out, s->name, s->len);
	outbuf_put(out, number, (size_t)(end - number));
}

static void put_all(struct stacks *st, struct outbuf *out)
{
	uint64_t sum = 0;

	if (st->n)
		qsort(st->v, st->n, sizeof(*st->v), compare_stacks);
	for (size_t i = 0; i < st->n; i++) {
		if (__builtin_add_overflow(sum, st->v[i].n, &sum))
			sum = UINT64_MAX;
		if (i + 1 < st->n && !compare_stacks(&st->v[i], &st->v[i + 1]))
			continue;
		put_stack(out, &st->v[i], sum);
		sum = 0;
	}
}

int merge_folded(const char *const *paths, size_t n, struct outbuf *out,
		 const char **which, struct aux_diag *diag)
{
	struct stacks st = { 0 };
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		*which = paths[i];
		rc = add_file(&st, paths[i], diag);
	}
	if (!rc)
		put_all(&st, out);
	for (size_t i = 0; i < st.n_texts; i++)
		free(st.texts[i]);
	free(st.texts);
	free(st.v);
	return rc;
}
