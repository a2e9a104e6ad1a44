/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage: how often each source line, function and branch ran.
 *
 * The rule is gcov's (gcc/gcov.cc, accumulate_line_info): "The user expects the line
 * count to be the number of times a line has been executed". Summing up the line's
 * blocks would count one execution several times. Instead
 * - a line that is the last of some blocks counts what entered these blocks from other
 *   lines, plus the cycles within them (a loop on one line);
 * - any other line counts what the blocks ran that contain it.
 *
 * Each function is counted by itself, and what a line has in several (inlined code,
 * instances of a template) is added up: arcs of one do not mix with blocks of another,
 * and what parts of a recording count adds up to what all of it does. gcov does so for
 * instances alone. Of other lines it forgets what ran in the middle of a block of one
 * function if the line is the last of a block of another, even of one that never ran.
 * That is kept where it is of use: a call that a lambda is an argument of counts as one
 * execution of its line, however often the lambda is entered there.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/regular.h"
#include "common/x86_insn.h"
#include "decode/coverage/impl.h"

#define NO_FILE UINT32_MAX

/* What is known of one line while functions are counted. */
struct sum {
	uint32_t file, line;
	uint64_t n;		/* of all functions so far */
	uint64_t entries;	/* of lambdas that begin there; */
	bool closed;		/* not counted: a block of their function ends there */
	bool used;
	/* of the function at hand, until merge_lines: */
	uint64_t plain;		/* runs of blocks that end with other lines */
	uint64_t last;		/* by the blocks whose last line it is */
	bool has_last, listed, looked_above;
};

/* A block of the function at hand and its last line. */
struct last {
	uint32_t block;
	struct sum *sum;
};

/* The state of cover_lines_make. */
struct maker {
	struct cover_lines *l;
	const struct cover_module *module;
	struct graph_counts counts;
	struct graph graph;
	struct sum **sums;	/* hash table; each is allocated by itself */
	size_t n_sums, cap_sums;
	uint32_t *slots;	/* hash table of files: index + 1, 0: free */
	size_t n_slots;
	const char *last_name;	/* the last answer of file_number */
	uint32_t last_file;
	struct last *lasts;
	size_t n_lasts, cap_lasts;
	struct sum **listed;	/* lines of the function at hand */
	size_t n_listed, cap_listed;
	uint32_t *blocks;
	size_t cap_blocks;
	struct file_labels *kept;	/* by file: each is read once */
	size_t n_kept, cap_kept;
	const struct cover_labels *labels;	/* of the file at hand; NULL: not readable */
};

/*
 * ---- Labels ----
 *
 * Lines that hold nothing but a label ("case 3:", "default:", "out:") have no
 * code and no row in the line table, but the compiler counts them. So they are
 * read from the source, if it can be read. Comments and literals are blanked
 * out; what remains of a line is a label if it ends with a colon and starts
 * with case or default, or is a name alone. That is a guess, but only lines
 * without code, above a line with code, are asked for.
 */

#define MAX_SOURCE (32 << 20)
#define MAX_LINE   400	/* bytes of a line that are looked at */

struct cover_labels {
	uint32_t n;
	uint8_t *what;		/* COVER_*, by line from 1 */
};

struct file_labels {
	struct cover_labels *labels;	/* NULL: not read, or not readable */
	bool read;
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

/* "NAME :" alone, but no access specifier of C++. */
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

/* May cut the end of s, which has no blanks in front. */
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

/* The lexical state after *p; moves *p over the first of two characters that
 * belong together. */
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

/* Ends a line. The array doubles when n + 1 is a power of two. */
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

/* Classifies all lines of a text. False: out of memory. */
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
	struct stat st;
	int fd = regular_open(path, &st);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	char *text = NULL;
	size_t n;

	if (!f) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	if (st.st_size >= 0 && st.st_size <= MAX_SOURCE)
		text = malloc((size_t)st.st_size + 1);
	if (text) {
		n = fread(text, 1, (size_t)st.st_size, f);
		text[n] = '\0';
	}
	fclose(f);
	return text;
}

static void cover_labels_free(struct cover_labels *l)
{
	if (!l)
		return;
	free(l->what);
	free(l);
}

/* *out is NULL where the source cannot be read or is larger than MAX_SOURCE:
 * without labels the counts of other lines stay right. 0, or -AUX_E_NOMEM. */
static int cover_labels_new(struct cover_labels **out, const char *path)
{
	struct cover_labels *l;
	char *text;

	*out = NULL;
	errno = 0;
	text = read_text(path);
	if (!text)
		return errno == ENOMEM ? -AUX_E_NOMEM : 0;
	l = calloc(1, sizeof(*l));
	if (l && !scan(l, text)) {
		cover_labels_free(l);
		l = NULL;
	}
	free(text);
	*out = l;
	return l ? 0 : -AUX_E_NOMEM;
}

unsigned cover_labels_of(const struct cover_labels *l, uint32_t line)
{
	return l && line && line <= l->n ? l->what[line] : 0;
}

/* ---- Files and lines while they are counted ---- */

static uint32_t *file_slot(const struct maker *m, const char *name)
{
	uint64_t h = 14695981039346656037u;
	size_t i;

	for (const char *p = name; *p; p++)
		h = (h ^ (uint8_t)*p) * UINT64_C(1099511628211);
	i = (size_t)(h ^ h >> 32) & (m->n_slots - 1);
	while (m->slots[i] && strcmp(m->l->files[m->slots[i] - 1], name))
		i = (i + 1) & (m->n_slots - 1);
	return &m->slots[i];
}

static int grow_files(struct maker *m)
{
	free(m->slots);
	m->n_slots = m->n_slots ? 2 * m->n_slots : 256;
	m->slots = calloc(m->n_slots, sizeof(*m->slots));
	if (!m->slots)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < m->l->n_files; i++)
		*file_slot(m, m->l->files[i]) = (uint32_t)i + 1;
	return 0;
}

/* The index of a file, a new one if need be; NO_FILE: out of memory. Names come
 * from the line table, so the same pointer is mostly asked for again. */
static uint32_t file_number(struct maker *m, const char *name)
{
	struct cover_lines *l = m->l;
	uint32_t *slot;

	if (name == m->last_name)
		return m->last_file;
	if (2 * l->n_files >= m->n_slots && grow_files(m) < 0)
		return NO_FILE;
	slot = file_slot(m, name);
	if (!*slot) {
		if (array_grow(&l->files, l->n_files, &l->cap_files,
			 sizeof(*l->files)) < 0)
			return NO_FILE;
		l->files[l->n_files] = strdup(name);
		if (!l->files[l->n_files])
			return NO_FILE;
		*slot = (uint32_t)++l->n_files;
	}
	m->last_name = name;
	m->last_file = *slot - 1;
	return m->last_file;
}

static struct sum **sum_slot(const struct maker *m, uint32_t file,
			     uint32_t line)
{
	uint64_t h = ((uint64_t)file << 32 | line) *
		     UINT64_C(0x9e3779b97f4a7c15);
	size_t i = (size_t)(h >> 32) & (m->cap_sums - 1);

	while (m->sums[i] &&
	       (m->sums[i]->file != file || m->sums[i]->line != line))
		i = (i + 1) & (m->cap_sums - 1);
	return &m->sums[i];
}

static int grow_sums(struct maker *m)
{
	struct sum **old = m->sums;
	size_t cap = m->cap_sums;

	m->cap_sums = cap ? 2 * cap : 1024;
	m->sums = calloc(m->cap_sums, sizeof(struct sum *));
	if (!m->sums) {
		m->sums = old;
		m->cap_sums = cap;
		return -AUX_E_NOMEM;
	}
	for (size_t i = 0; i < cap; i++) {
		if (old[i])
			*sum_slot(m, old[i]->file, old[i]->line) = old[i];
	}
	free(old);
	return 0;
}

/* The sum of a line, listed with the function at hand; NULL: out of memory. */
static struct sum *line_sum(struct maker *m, const char *name, uint32_t line)
{
	uint32_t file = file_number(m, name);
	struct sum **slot;

	if (file == NO_FILE ||
	    (2 * m->n_sums >= m->cap_sums && grow_sums(m) < 0) ||
	    array_grow(&m->listed, m->n_listed, &m->cap_listed,
		 sizeof(struct sum *)) < 0)
		return NULL;
	slot = sum_slot(m, file, line);
	if (!*slot) {
		*slot = calloc(1, sizeof(**slot));
		if (!*slot)
			return NULL;
		(*slot)->file = file;
		(*slot)->line = line;
		m->n_sums++;
	}
	if (!(*slot)->listed)
		m->listed[m->n_listed++] = *slot;
	(*slot)->listed = true;
	return *slot;
}

/* True if the function at hand has code for a line. */
static bool is_listed(const struct maker *m, uint32_t file, uint32_t line)
{
	const struct sum *s = *sum_slot(m, file, line);

	return s && s->listed;
}

/* Sets m->labels to those of a file. Functions of a file come together (by_place), but
 * code from other files is inlined into them, so none is dropped. */
static int load_labels(struct maker *m, uint32_t file)
{
	struct file_labels *k;

	while (m->n_kept <= file) {
		if (array_grow(&m->kept, m->n_kept, &m->cap_kept, sizeof(*m->kept)) < 0)
			return -AUX_E_NOMEM;
		m->kept[m->n_kept++] = (struct file_labels){ 0 };
	}
	k = &m->kept[file];
	if (!k->read && cover_labels_new(&k->labels, m->l->files[file]) < 0)
		return -AUX_E_NOMEM;
	k->read = true;
	m->labels = k->labels;
	return 0;
}

/*
 * Counts labels: those directly above a line with code ran as often as its
 * first instruction. Of several labels in a row only the first counts, as in
 * gcov.
 */
static int count_labels(struct maker *m, const struct elfimage_function *f)
{
	const struct source_row *before = NULL, *row;
	uint32_t file, top;
	struct sum *s;

	for (size_t i = 0; i < m->graph.n_insns; i++, before = row) {
		row = m->graph.insns[i].row;
		if (!row || row == before || row->line <= f->line ||
		    (before && row->line == before->line))
			continue;
		file = file_number(m, row->file);
		if (file == NO_FILE)
			return -AUX_E_NOMEM;
		s = *sum_slot(m, file, row->line);
		if (!s || s->looked_above)
			continue;
		s->looked_above = true;
		if (load_labels(m, file))
			return -AUX_E_NOMEM;
		top = 0;
		for (uint32_t k = row->line - 1; m->labels && k > f->line &&
						 !is_listed(m, file, k); k--)
			if (cover_labels_of(m->labels, k) & COVER_LABEL)
				top = k;
		if (!top)
			continue;
		s = line_sum(m, row->file, top);
		if (!s)
			return -AUX_E_NOMEM;
		s->plain += graph_count(&m->counts, m->graph.insns[i].off);
	}
	return 0;
}

/* All sums become lines of the result. */
static int emit_lines(struct maker *m)
{
	struct cover_lines *l = m->l;

	for (size_t i = 0; i < m->cap_sums; i++) {
		const struct sum *s = m->sums[i];

		if (!s || !s->used)
			continue;
		if (array_grow(&l->lines, l->n_lines, &l->cap_lines,
			 sizeof(*l->lines)) < 0)
			return -AUX_E_NOMEM;
		l->lines[l->n_lines++] = (struct cover_line){
			s->file, s->line, s->n + (s->closed ? 0 : s->entries),
		};
	}
	return 0;
}

static void maker_fini(struct maker *m)
{
	for (size_t i = 0; i < m->cap_sums; i++)
		free(m->sums[i]);
	free(m->sums);
	free(m->slots);
	free(m->lasts);
	free(m->listed);
	free(m->blocks);
	for (size_t i = 0; i < m->n_kept; i++)
		cover_labels_free(m->kept[i].labels);
	free(m->kept);
	graph_fini(&m->graph);
}

/* ---- One function ---- */

/* Lists all lines that a function has code for, by the line table. */
static int list_lines(struct maker *m, const struct elfimage_function *f)
{
	const struct source_row *rows;

	for (size_t i = 0; i < f->n_areas; i++) {
		size_t n = elfimage_rows(m->module->image, f->areas[i].start,
					 &rows);

		for (size_t k = 0; k < n && rows[k].addr < f->areas[i].end; k++)
			if (rows[k].file && rows[k].line &&
			    !line_sum(m, rows[k].file, rows[k].line))
				return -AUX_E_NOMEM;
	}
	return 0;
}

/*
 * Adds a block to its lines. What counts as its last line is the largest
 * number, as gcov sorts the lines of a block; if it has lines of several files
 * (inlined code), the largest of the file that comes last.
 */
static int note_block_lines(struct maker *m, uint32_t block)
{
	const struct graph *g = &m->graph;
	const struct graph_block *b = &g->blocks[block];
	const struct source_row *before = NULL, *row;
	struct sum *s, *last = NULL;

	for (uint32_t i = b->first; i <= b->last; i++) {
		row = g->insns[i].row;
		if (!row || (before && row->line == before->line &&
			     row->file == before->file))
			continue;
		before = row;
		s = line_sum(m, row->file, row->line);
		if (!s)
			return -AUX_E_NOMEM;
		s->plain += b->n;
		if (!last || last->file != s->file || last->line < s->line)
			last = s;
	}
	if (!last)
		return 0;
	if (array_grow(&m->lasts, m->n_lasts, &m->cap_lasts, sizeof(*m->lasts)) < 0)
		return -AUX_E_NOMEM;
	m->lasts[m->n_lasts++] = (struct last){ block, last };
	return 0;
}

static int by_sum(const void *a, const void *b)
{
	const struct last *x = a, *y = b;

	if (x->sum != y->sum)
		return (uintptr_t)x->sum < (uintptr_t)y->sum ? -1 : 1;
	return x->block < y->block ? -1 : x->block > y->block;
}

/* v is sorted. */
static bool has_block(const uint32_t *v, size_t n, uint32_t block)
{
	size_t lo = 0;

	while (n) {
		size_t half = n / 2;

		if (v[lo + half] == block)
			return true;
		if (v[lo + half] < block) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return false;
}

/* Sets *sum to what entered the n blocks v of a line from others, and the cycles
 * within them. Blocks and arcs are sorted, so one pass over the arcs does. */
static int count_line(const struct graph *g, const uint32_t *v, size_t n,
		      uint64_t *sum)
{
	size_t arc = 0;

	*sum = 0;
	for (size_t i = 0; i < n; i++) {
		const struct graph_block *b = &g->blocks[v[i]];

		*sum += b->n;
		while (arc < g->n_arcs && g->arcs[arc].from < v[i])
			arc++;
		for (; arc < g->n_arcs && g->arcs[arc].from == v[i]; arc++)
			if (has_block(v, n, g->arcs[arc].to))
				*sum -= g->arcs[arc].n;
	}
	return graph_cycles(g, v, n, sum);
}

/*
 * Counts the lines of the function at hand that are the last of some block.
 * Sorting by the address of sums only brings the blocks of one line together;
 * the order of lines does not matter. Which lines those are does not depend on what ran.
 */
static int count_lines(struct maker *m, bool ran)
{
	size_t n;

	for (size_t i = 0; i < m->n_lasts; i++)
		m->lasts[i].sum->has_last = true;
	if (!ran)
		return 0;
	if (m->n_lasts)
		qsort(m->lasts, m->n_lasts, sizeof(*m->lasts), by_sum);
	while (m->cap_blocks < m->n_lasts) {
		if (array_grow(&m->blocks, m->cap_blocks, &m->cap_blocks,
			 sizeof(*m->blocks)) < 0)
			return -AUX_E_NOMEM;
	}
	for (size_t i = 0; i < m->n_lasts; i += n) {
		struct sum *s = m->lasts[i].sum;

		for (n = 0; i + n < m->n_lasts && m->lasts[i + n].sum == s; n++)
			m->blocks[n] = m->lasts[i + n].block;
		if (count_line(&m->graph, m->blocks, n, &s->last) < 0)
			return -AUX_E_NOMEM;
	}
	return 0;
}

/*
 * Each conditional branch has two outcomes. Taken is what went elsewhere than
 * to the next block; what remains was not taken. A branch is identified by its
 * offset in the file: the number of its block depends on what ran, so files
 * that are merged would not agree on it.
 */
static int add_branches(struct maker *m)
{
	struct cover_lines *l = m->l;
	const struct graph *g = &m->graph;
	const struct graph_insn *in;
	uint64_t taken, n;

	for (uint32_t i = 0; i < g->n_blocks; i++) {
		in = &g->insns[g->blocks[i].last];
		if (in->cls != X86_COND || !in->row)
			continue;
		n = graph_count(&m->counts, in->off);
		taken = 0;
		for (size_t k = 0; k < g->n_arcs; k++) {
			if (g->arcs[k].from == i && g->arcs[k].to != i + 1)
				taken += g->arcs[k].n;
		}
		for (uint32_t way = 0; way < 2; way++) {
			if (array_grow(&l->branches, l->n_branches, &l->cap_branches,
				 sizeof(*l->branches)) < 0)
				return -AUX_E_NOMEM;
			l->branches[l->n_branches++] = (struct cover_branch){
				.file = file_number(m, in->row->file),
				.line = in->row->line,
				.block = (uint32_t)in->off, .way = way,
				.ran = n, .n = way ? n - taken : taken,
			};
		}
	}
	return 0;
}

/* Adds the lines of the function at hand to the sums and to *f. */
static void merge_lines(struct maker *m, struct cover_function *f, bool lambda)
{
	for (size_t i = 0; i < m->n_listed; i++) {
		struct sum *s = m->listed[i];
		uint64_t n = s->has_last ? s->last : s->plain;

		f->n_lines++;
		f->n_hit += n != 0;
		s->used = true;
		if (lambda && !s->has_last) {
			s->entries += n;
		} else {
			s->n += n;
			s->closed |= s->has_last;
		}
		s->plain = s->last = 0;
		s->has_last = s->listed = s->looked_above = false;
	}
	m->n_listed = m->n_lasts = 0;
}

static bool has_run(const struct maker *m, const struct elfimage_function *f)
{
	uint64_t off, left;

	for (size_t i = 0; i < f->n_areas; i++) {
		if (!elfimage_offset(m->module->image, f->areas[i].start, &off,
				     &left))
			continue;
		off -= m->module->shift;
		if (graph_ran(&m->counts, off,
			      off + (f->areas[i].end - f->areas[i].start)))
			return true;
	}
	return false;
}

static int count_function(struct maker *m, const struct elfimage_function *f)
{
	uint32_t file = file_number(m, f->file);
	int rc;

	if (file == NO_FILE)
		return -AUX_E_NOMEM;
	if (load_labels(m, file))
		return -AUX_E_NOMEM;
	rc = graph_make(&m->graph, &m->counts, f, m->labels);
	for (uint32_t i = 0; i < m->graph.n_blocks && !rc; i++)
		rc = note_block_lines(m, i);
	if (!rc && m->graph.broken)
		rc = list_lines(m, f);
	if (!rc)
		rc = count_labels(m, f);
	if (!rc)
		rc = count_lines(m, has_run(m, f));
	return rc ? rc : add_branches(m);
}

/*
 * The compiler emits one body for the complete and the base object constructor
 * (C1, C2; destructors D1, D2; names as in the Itanium C++ ABI) if they are
 * equal. gcov knows it as the base one; so C1 becomes C2 if the symbol table
 * has that at the same address.
 */
static const char *base_name(const struct maker *m,
			     const struct elfimage_function *f,
			     const char *name)
{
	static const char *const kinds[] = { "C1E", "D1E" };
	const char *at;
	char *other;
	uint64_t value;

	if (strncmp(name, "_ZN", 3))
		return name;
	for (size_t i = 0; i < 2; i++) {
		at = strstr(name, kinds[i]);
		if (!at)
			continue;
		other = cover_lines_keep(m->l, name);
		if (!other) {
			m->l->nomem = true;
			return name;
		}
		other[at - name + 1] = '2';
		if (elfimage_find(m->module->image, other, &value) &&
		    value == f->entry)
			return other;
	}
	return name;
}

/* The linkage name, from the debug information or else from the symbol at the
 * entry; the plain name if there is neither. */
static const char *name_of(const struct maker *m,
			   const struct elfimage_function *f)
{
	struct elfimage_symbol sym;
	uint64_t off, left;

	if (f->linkage)
		return f->linkage;
	if (!f->is_c && elfimage_offset(m->module->image, f->entry, &off,
					&left) &&
	    elfimage_symbol(m->module->image, off, &sym) == 0 &&
	    sym.start == off)
		return base_name(m, f, sym.name);
	return f->name;
}

/* Lambdas have no declaration: the line of their first code stands for it. */
static void place_lambdas(struct elfimage *im, struct elfimage_function *f,
			  size_t n)
{
	const struct source_row *rows;

	for (size_t i = 0; i < n; i++) {
		if (f[i].line || !elfimage_rows(im, f[i].entry, &rows))
			continue;
		f[i].line = rows->line;
		f[i].column = rows->column;
	}
}

static bool is_lambda(const struct elfimage_function *f)
{
	return f->name && !strcmp(f->name, "operator()");
}

/* False for functions that are in no source text, such as implicit
 * constructors. */
static bool is_written(const struct elfimage_function *f)
{
	return (f->line && !f->is_artificial) || is_lambda(f);
}

static int add_function(struct maker *m, const struct elfimage_function *f)
{
	struct cover_lines *l = m->l;
	struct cover_function *to;
	uint64_t off, left;

	if (!f->file || !is_written(f))
		return 0;
	if (array_grow(&l->functions, l->n_functions, &l->cap_functions,
		 sizeof(*l->functions)) < 0 || count_function(m, f) < 0)
		return -AUX_E_NOMEM;
	to = &l->functions[l->n_functions++];
	*to = (struct cover_function){
		.file = file_number(m, f->file), .line = f->line,
		.name = name_of(m, f),
	};
	if (elfimage_offset(m->module->image, f->entry, &off, &left))
		to->n = graph_count(&m->counts, off - m->module->shift);
	merge_lines(m, to, is_lambda(f));
	return 0;
}

/* ---- Modules ---- */

static int by_place(const void *a, const void *b)
{
	const struct elfimage_function *x = a, *y = b;
	int c = strcmp(x->file ? x->file : "", y->file ? y->file : "");

	if (c)
		return c;
	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	if (x->column != y->column)
		return x->column < y->column ? -1 : 1;
	return x->entry < y->entry ? -1 : x->entry > y->entry;
}

/* Remembers a module without debug information, for the hint. */
static void note_bare(struct cover_lines *l, const struct cover_tally *t,
		      const struct cover_module *m)
{
	for (size_t i = 0; i < m->n_blocks; i++)
		l->n_bare += t->blocks[m->block + i].n;
	l->n_files_bare++;
	if (!*l->bare && m->path[0] == '/')
		snprintf(l->bare, sizeof(l->bare), "%s", m->path);
}

/* Counts all functions of a module, in the order of the source. */
static int add_module(struct maker *m, const struct cover_tally *t,
		       const struct cover_module *module)
{
	struct elfimage_function *f;
	size_t n;
	int rc;

	rc = module->image ? cover_ahead_take(t->ahead, module->image, &f, &n) :
			     -AUX_E_NOENT;
	if (rc == -AUX_E_NOMEM)
		return rc;
	if (rc < 0) {
		note_bare(m->l, t, module);
		return 0;
	}
	m->module = module;
	rc = graph_counts_init(&m->counts, t, module);
	place_lambdas(module->image, f, n);
	if (!rc)
		qsort(f, n, sizeof(*f), by_place);
	for (size_t i = 0; i < n && !rc; i++)
		rc = add_function(m, &f[i]);
	graph_counts_fini(&m->counts);
	free(f);
	return rc;
}

int cover_lines_make(struct cover_lines *l, const struct cover_tally *t)
{
	struct maker m = { .l = l };
	int rc = 0;

	for (size_t i = 0; i < t->n_modules && !rc; i++)
		rc = add_module(&m, t, &t->modules[i]);
	if (!rc)
		rc = emit_lines(&m);
	maker_fini(&m);
	if (!rc && l->nomem)
		rc = -AUX_E_NOMEM;
	return rc ? rc : cover_lines_sort(l);
}

/* Which of the functions has code at an address as linked. */
static struct elfimage_function *function_at(struct elfimage_function *f,
					     size_t n, uint64_t addr)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < f[i].n_areas; k++)
			if (addr >= f[i].areas[k].start &&
			    addr < f[i].areas[k].end)
				return &f[i];
	return NULL;
}

int cover_lines_of(struct cover_lines *l, const struct cover_tally *t,
		   const struct cover_module *module, uint64_t off)
{
	struct maker m = { .l = l, .module = module };
	struct elfimage_function *v = NULL, *f = NULL;
	uint64_t addr;
	size_t n;
	int rc = -AUX_E_NOENT;

	if (module->image && elfimage_addr(module->image, off + module->shift, &addr))
		rc = elfimage_functions_at(module->image, addr, &v, &n);
	if (rc == -AUX_E_NOMEM)
		return rc;
	if (!rc)
		f = function_at(v, n, addr);
	rc = f ? graph_counts_init(&m.counts, t, module) : 0;
	if (f && !rc) {
		place_lambdas(module->image, f, 1);
		rc = add_function(&m, f);
	}
	if (!rc)
		rc = emit_lines(&m);
	graph_counts_fini(&m.counts);
	maker_fini(&m);
	free(v);
	if (!rc && l->nomem)
		rc = -AUX_E_NOMEM;
	return rc ? rc : cover_lines_sort(l);
}
