/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage: sorts lines, functions and branches, and writes them file by file:
 * as an lcov tracefile, and as a table for people.
 *
 * Specification: geninfo(1) of lcov 1.16, "TRACE FILE FORMAT": for each file
 * TN, SF; FN:LINE,NAME and FNDA:COUNT,NAME, FNF, FNH;
 * BRDA:LINE,BLOCK,BRANCH,COUNT (COUNT "-" if the branch itself never ran), BRF,
 * BRH; DA:LINE,COUNT, LF, LH; end_of_record.
 */
#include <stdlib.h>
#include <string.h>

#include "common/clean.h"
#include "common/markup.h"
#include "common/array.h"
#include "decode/callstack/names.h"
#include "decode/coverage/impl.h"
#include "common/outbuf.h"

void cover_lines_fini(struct cover_lines *l)
{
	for (size_t i = 0; i < l->n_files; i++)
		free(l->files[i]);
	for (size_t i = 0; i < l->n_kept; i++)
		free(l->kept[i]);
	free(l->kept);
	free(l->files);
	free(l->lines);
	free(l->functions);
	free(l->branches);
}

char *cover_lines_keep(struct cover_lines *l, const char *name)
{
	if (array_grow(&l->kept, l->n_kept, &l->cap_kept, sizeof(char *)) < 0)
		return NULL;
	l->kept[l->n_kept] = strdup(name);
	return l->kept[l->n_kept] ? l->kept[l->n_kept++] : NULL;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(**(char **const *)a, **(char **const *)b);
}

static int by_line(const void *a, const void *b)
{
	const struct cover_line *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

static int by_function(const void *a, const void *b)
{
	const struct cover_function *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	return strcmp(x->name ? x->name : "", y->name ? y->name : "");
}

/* By file, name, line: equal names come together. */
static int by_named(const void *a, const void *b)
{
	const struct cover_function *x = a, *y = b;
	int c;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	c = strcmp(x->name ? x->name : "", y->name ? y->name : "");
	if (c)
		return c;
	return x->line < y->line ? -1 : x->line > y->line;
}

static int by_branch(const void *a, const void *b)
{
	const struct cover_branch *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	if (x->block != y->block)
		return x->block < y->block ? -1 : 1;
	return x->way < y->way ? -1 : x->way > y->way;
}

/*
 * Sorts files by name and joins equal ones (a merge brings some). (*to)[old
 * index] is the new index; the caller frees it, also after an error.
 */
static int sort_files(struct cover_lines *l, uint32_t **to)
{
	char ***order = reallocarray(NULL, l->n_files + 1, sizeof(char **));
	char **sorted = reallocarray(NULL, l->n_files + 1, sizeof(char *));

	size_t n = 0;

	*to = reallocarray(NULL, l->n_files + 1, sizeof(**to));
	if (!order || !sorted || !*to) {
		free(order);
		free(sorted);
		return -AUX_E_NOMEM;
	}
	for (size_t i = 0; i < l->n_files; i++)
		order[i] = &l->files[i];
	if (l->n_files)
		qsort(order, l->n_files, sizeof(char **), by_name);
	for (size_t i = 0; i < l->n_files; i++) {
		(*to)[order[i] - l->files] = (uint32_t)n;
		if (i + 1 < l->n_files && !strcmp(*order[i], *order[i + 1]))
			free(*order[i]);
		else
			sorted[n++] = *order[i];
	}
	l->n_files = n;
	free(order);
	free(l->files);
	l->files = sorted;
	return 0;
}

/*
 * Joins functions that are sorted by file, name and line. Tracefiles have the
 * line (FN) and the count (FNDA) apart, so a function without a line is the one
 * of that name.
 */
static void fold_functions(struct cover_lines *l)
{
	struct cover_function *f = l->functions;
	size_t n = 0;

	for (size_t i = 0; i < l->n_functions; i++) {
		struct cover_function *to = n ? &f[n - 1] : NULL;

		if (to && to->file == f[i].file &&
		    (to->line == f[i].line || !to->line || !f[i].line) &&
		    to->name && f[i].name && !strcmp(to->name, f[i].name)) {
			to->n += f[i].n;
			to->line = to->line ? to->line : f[i].line;
		} else {
			f[n++] = f[i];
		}
	}
	l->n_functions = n;
}

/* Adds up equal lines, branches and functions; all are sorted. */
static void fold(struct cover_lines *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n_lines; i++) {
		if (n && !by_line(&l->lines[n - 1], &l->lines[i]))
			l->lines[n - 1].n += l->lines[i].n;
		else
			l->lines[n++] = l->lines[i];
	}
	l->n_lines = n;
	n = 0;
	for (size_t i = 0; i < l->n_branches; i++) {
		if (n && !by_branch(&l->branches[n - 1], &l->branches[i])) {
			l->branches[n - 1].n += l->branches[i].n;
			l->branches[n - 1].ran |= l->branches[i].ran;
		} else {
			l->branches[n++] = l->branches[i];
		}
	}
	l->n_branches = n;
	if (!l->n_functions)
		return;
	qsort(l->functions, l->n_functions, sizeof(*l->functions), by_named);
	fold_functions(l);
	qsort(l->functions, l->n_functions, sizeof(*l->functions),
	      by_function);
}

int cover_lines_sort(struct cover_lines *l)
{
	uint32_t *to;

	if (sort_files(l, &to) < 0) {
		free(to);
		return -AUX_E_NOMEM;
	}
	for (size_t i = 0; i < l->n_lines; i++)
		l->lines[i].file = to[l->lines[i].file];
	for (size_t i = 0; i < l->n_functions; i++)
		l->functions[i].file = to[l->functions[i].file];
	for (size_t i = 0; i < l->n_branches; i++)
		l->branches[i].file = to[l->branches[i].file];
	free(to);
	if (l->n_lines)
		qsort(l->lines, l->n_lines, sizeof(*l->lines), by_line);
	if (l->n_functions)
		qsort(l->functions, l->n_functions, sizeof(*l->functions),
		      by_function);
	if (l->n_branches)
		qsort(l->branches, l->n_branches, sizeof(*l->branches),
		      by_branch);
	fold(l);
	return 0;
}

/* The part of each sorted array that belongs to one file. */
struct part {
	size_t line, n_lines, hit;
	size_t function, n_functions, called;
	size_t branch, n_branches;
};

/* Moves from the part of one file to that of the next; called for 0, 1, 2,
 * ... */
static void next_part(const struct cover_lines *l, uint32_t file,
		      struct part *p)
{
	p->line += p->n_lines;
	p->function += p->n_functions;
	p->branch += p->n_branches;
	p->n_lines = p->hit = p->n_functions = p->called = p->n_branches = 0;
	while (p->line + p->n_lines < l->n_lines &&
	       l->lines[p->line + p->n_lines].file == file)
		p->hit += l->lines[p->line + p->n_lines++].n != 0;
	while (p->function + p->n_functions < l->n_functions &&
	       l->functions[p->function + p->n_functions].file == file)
		p->called += l->functions[p->function + p->n_functions++].n != 0;
	while (p->branch + p->n_branches < l->n_branches &&
	       l->branches[p->branch + p->n_branches].file == file)
		p->n_branches++;
}

/* A function may have no name (see name_of in lines.c). */
static const char *name_of(const struct cover_function *f)
{
	return f->name ? f->name : "?";
}

static void print_functions(const struct cover_function *f, size_t n,
			    size_t called, struct outbuf *out)
{
	for (size_t i = 0; i < n; i++)
		outbuf_clean_printf(out, "FN:%u,%s\n", f[i].line, name_of(&f[i]));
	for (size_t i = 0; i < n; i++)
		outbuf_clean_printf(out, "FNDA:%llu,%s\n",
			      (unsigned long long)f[i].n, name_of(&f[i]));
	outbuf_printf(out, "FNF:%zu\nFNH:%zu\n", n, called);
}

static void print_branches(const struct cover_branch *b, size_t n,
			   struct outbuf *out)
{
	size_t hit = 0;

	for (size_t i = 0; i < n; i++) {
		outbuf_printf(out, "BRDA:%u,%u,%u,", b[i].line, b[i].block,
			      b[i].way);
		if (b[i].ran)
			outbuf_printf(out, "%llu\n",
				      (unsigned long long)b[i].n);
		else
			outbuf_str(out, "-\n");
		hit += b[i].n != 0;
	}
	if (n)
		outbuf_printf(out, "BRF:%zu\nBRH:%zu\n", n, hit);
}

uint64_t cover_print_lcov(const struct cover_lines *l, struct outbuf *out)
{
	struct part p = { 0 };
	uint64_t n = 0;

	for (uint32_t i = 0; i < l->n_files; i++) {
		next_part(l, i, &p);
		if (!p.n_lines && !p.n_functions)
			continue;
		outbuf_str(out, l->part ? "TN:" COVER_PART "\n" : "TN:\n");
		outbuf_clean_printf(out, "SF:%s\n", l->files[i]);
		print_functions(p.n_functions ? &l->functions[p.function] : NULL,
				p.n_functions, p.called, out);
		print_branches(p.n_branches ? &l->branches[p.branch] : NULL,
			       p.n_branches, out);
		for (size_t k = p.line; k < p.line + p.n_lines; k++)
			outbuf_printf(out, "DA:%u,%llu\n", l->lines[k].line,
				      (unsigned long long)l->lines[k].n);
		outbuf_printf(out, "LF:%zu\nLH:%zu\nend_of_record\n",
			      p.n_lines, p.hit);
		n += p.hit;
	}
	return n;
}

static void print_share(struct outbuf *out, size_t hit, size_t n,
			const char *tail)
{
	outbuf_printf(out, "%8zu %8zu %5.1f%%%s", hit, n,
		      n ? 100.0 * (double)hit / (double)n : 0.0, tail);
}

uint64_t cover_print_summary(const struct cover_lines *l, struct names *names,
			     struct outbuf *out)
{
	struct part p = { 0 };
	uint64_t n = 0, n_idle = 0;

	outbuf_str(out, "#    hit    lines            called  functions  "
			"file\n");
	for (uint32_t i = 0; i < l->n_files; i++) {
		next_part(l, i, &p);
		if (!p.hit) {
			n_idle++;
			continue;
		}
		print_share(out, p.hit, p.n_lines, "  ");
		print_share(out, p.called, p.n_functions, "  ");
		outbuf_clean_printf(out, "%s\n", l->files[i]);
		n += p.hit;
	}
	if (n_idle)
		outbuf_printf(out, "# %llu more files of which nothing ran: "
			      "--to lcov has them\n",
			      (unsigned long long)n_idle);
	outbuf_str(out, "\n#    hit    lines             calls  function\n");
	for (size_t i = 0; i < l->n_functions; i++) {
		const struct cover_function *f = &l->functions[i];

		if (!f->n_hit)
			continue;
		print_share(out, f->n_hit, f->n_lines, "");
		outbuf_clean_printf(out, " %12llu  %s  %s:%u\n",
			      (unsigned long long)f->n,
			      names_shown(names, name_of(f)),
			      l->files[f->file], f->line);
	}
	return n;
}

uint64_t cover_put_json(const struct cover_lines *l, struct names *names,
			struct outbuf *out)
{
	struct part p = { 0 };
	uint64_t n = 0;
	bool first = true;

	outbuf_str(out, ",\n\"sources\":[");
	for (uint32_t i = 0; i < l->n_files; i++) {
		next_part(l, i, &p);
		if (!p.n_lines && !p.n_functions)
			continue;
		outbuf_str(out, first ? "\n{\"file\":" : ",\n{\"file\":");
		first = false;
		outbuf_json(out, l->files[i]);
		outbuf_json_number(out, "lines", p.n_lines);
		outbuf_json_number(out, "lines_hit", p.hit);
		outbuf_json_number(out, "functions", p.n_functions);
		outbuf_json_number(out, "functions_called", p.called);
		outbuf_str(out, "}");
		n += p.hit;
	}
	outbuf_str(out, "],\n\"functions\":[");
	first = true;
	for (size_t i = 0; i < l->n_functions; i++) {
		const struct cover_function *f = &l->functions[i];

		if (!f->n_hit)
			continue;
		outbuf_str(out, first ? "\n{\"function\":"
				      : ",\n{\"function\":");
		first = false;
		outbuf_json(out, names_shown(names, name_of(f)));
		outbuf_json_text(out, "file", l->files[f->file]);
		outbuf_json_number(out, "line", f->line);
		outbuf_json_number(out, "calls", f->n);
		outbuf_json_number(out, "lines", f->n_lines);
		outbuf_json_number(out, "lines_hit", f->n_hit);
		outbuf_str(out, "}");
	}
	outbuf_str(out, "]");
	return n;
}
