/* SPDX-License-Identifier: BSD-2-Clause */
/* coverage: lines, functions and branches as rows that somebody else adds up, and sums of
 * rows as a tracefile again. */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "decode/coverage/impl.h"

int cover_lines_each(const struct cover_lines *l,
		     int (*row)(void *priv, const struct coverage_row *r), void *priv)
{
	int err = 0;

	for (size_t i = 0; i < l->n_branches && !err; i++) {
		const struct cover_branch *b = &l->branches[i];

		err = row(priv, &(struct coverage_row){
			.what = COVERAGE_BRANCH, .file = l->files[b->file], .line = b->line,
			.block = b->block, .way = b->way, .n = b->n, .ran = b->ran });
	}
	for (size_t i = 0; i < l->n_functions && !err; i++) {
		const struct cover_function *f = &l->functions[i];

		err = row(priv, &(struct coverage_row){
			.what = COVERAGE_FUNCTION, .file = l->files[f->file],
			.line = f->line, .name = f->name, .n = f->n });
	}
	for (size_t i = 0; i < l->n_lines && !err; i++)
		err = row(priv, &(struct coverage_row){
			.what = COVERAGE_LINE, .file = l->files[l->lines[i].file],
			.line = l->lines[i].line, .n = l->lines[i].n });
	return err;
}

struct coverage_sum {
	struct cover_lines lines;
};

struct coverage_sum *coverage_sum_new(void)
{
	return calloc(1, sizeof(struct coverage_sum));
}

void coverage_sum_free(struct coverage_sum *s)
{
	if (s)
		cover_lines_fini(&s->lines);
	free(s);
}

/* The number of a file, which is the last one or a new one. */
static int add_file(struct cover_lines *l, const char *file)
{
	if (l->n_files && !strcmp(l->files[l->n_files - 1], file))
		return 0;
	if (array_grow(&l->files, l->n_files, &l->cap_files, sizeof(*l->files)) < 0)
		return -AUX_E_NOMEM;
	l->files[l->n_files] = strdup(file);
	if (!l->files[l->n_files])
		return -AUX_E_NOMEM;
	l->n_files++;
	return 0;
}

static int add_branch(struct cover_lines *l, const struct coverage_row *r)
{
	if (array_grow(&l->branches, l->n_branches, &l->cap_branches,
		       sizeof(*l->branches)) < 0)
		return -AUX_E_NOMEM;
	l->branches[l->n_branches++] = (struct cover_branch){
		.file = (uint32_t)l->n_files - 1, .line = r->line, .block = r->block,
		.way = r->way, .ran = r->ran, .n = r->n,
	};
	return 0;
}

static int add_function(struct cover_lines *l, const struct coverage_row *r)
{
	const char *name = r->name ? cover_lines_keep(l, r->name) : NULL;

	if ((r->name && !name) || array_grow(&l->functions, l->n_functions, &l->cap_functions,
					     sizeof(*l->functions)) < 0)
		return -AUX_E_NOMEM;
	l->functions[l->n_functions++] = (struct cover_function){
		.file = (uint32_t)l->n_files - 1, .line = r->line, .name = name, .n = r->n,
	};
	return 0;
}

int coverage_sum_add(struct coverage_sum *s, const struct coverage_row *r)
{
	struct cover_lines *l = &s->lines;

	if (add_file(l, r->file))
		return -AUX_E_NOMEM;
	if (r->what == COVERAGE_BRANCH)
		return add_branch(l, r);
	if (r->what == COVERAGE_FUNCTION)
		return add_function(l, r);
	if (array_grow(&l->lines, l->n_lines, &l->cap_lines, sizeof(*l->lines)) < 0)
		return -AUX_E_NOMEM;
	l->lines[l->n_lines++] = (struct cover_line){ (uint32_t)l->n_files - 1, r->line, r->n };
	return 0;
}

int coverage_sum_write(struct coverage_sum *s, struct outbuf *out)
{
	int err = cover_lines_sort(&s->lines);

	if (!err)
		cover_print_lcov(&s->lines, out);
	return err;
}
