/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage_merge_read: lcov tracefiles and drcov files, as others write them too:
 * what is not needed is passed over.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

#include "decode/coverage/merge_impl.h"

/* A decimal number at *p, moved behind it and one sep. */
static bool take_number(char **p, char sep, uint64_t *v)
{
	char *end;

	if (**p < '0' || **p > '9')
		return false;
	*v = strtoull(*p, &end, 10);
	if (*end != sep)
		return false;
	*p = end + (sep != '\0');
	return true;
}

/* ---- lcov ---- */

static int take_file(struct cover_lines *l, const char *name)
{
	if (array_grow(&l->files, l->n_files, &l->cap_files, sizeof(*l->files)) < 0)
		return -AUX_E_NOMEM;
	l->files[l->n_files] = strdup(name);
	if (!l->files[l->n_files])
		return -AUX_E_NOMEM;
	l->n_files++;
	return 0;
}

/* "LINE,COUNT[,CHECKSUM]" */
static int take_line(struct cover_lines *l, char *p)
{
	uint64_t line, n;

	if (!take_number(&p, ',', &line) || line > UINT32_MAX ||
	    (!take_number(&p, '\0', &n) && !take_number(&p, ',', &n)))
		return 1;
	if (array_grow(&l->lines, l->n_lines, &l->cap_lines, sizeof(*l->lines)) < 0)
		return -AUX_E_NOMEM;
	l->lines[l->n_lines++] = (struct cover_line){
		(uint32_t)l->n_files - 1, (uint32_t)line, n,
	};
	return 0;
}

/* FN "LINE,NAME": no calls yet; FNDA "COUNT,NAME": no line. */
static int take_function(struct cover_lines *l, char *p, bool is_count)
{
	uint64_t v;

	if (!take_number(&p, ',', &v) || (!is_count && v > UINT32_MAX))
		return 1;
	if (array_grow(&l->functions, l->n_functions, &l->cap_functions,
		 sizeof(*l->functions)) < 0)
		return -AUX_E_NOMEM;
	l->functions[l->n_functions++] = (struct cover_function){
		.file = (uint32_t)l->n_files - 1, .name = p,
		.line = is_count ? 0 : (uint32_t)v, .n = is_count ? v : 0,
	};
	return 0;
}

/* "LINE,BLOCK,WAY,COUNT", COUNT "-": the branch never ran */
static int take_branch(struct cover_lines *l, char *p)
{
	uint64_t line, block, way, n = 0;
	bool ran;

	if (!take_number(&p, ',', &line) || !take_number(&p, ',', &block) ||
	    !take_number(&p, ',', &way) || line > UINT32_MAX ||
	    block > UINT32_MAX || way > UINT32_MAX)
		return 1;
	ran = strcmp(p, "-");
	if (ran && !take_number(&p, '\0', &n))
		return 1;
	if (array_grow(&l->branches, l->n_branches, &l->cap_branches,
		 sizeof(*l->branches)) < 0)
		return -AUX_E_NOMEM;
	l->branches[l->n_branches++] = (struct cover_branch){
		(uint32_t)l->n_files - 1, (uint32_t)line, (uint32_t)block,
		(uint32_t)way, ran, n,
	};
	return 0;
}

/* 1: it is malformed. */
static int take_record(struct cover_lines *l, char *p, bool *in_file)
{
	if (!strncmp(p, "SF:", 3)) {
		*in_file = true;
		return take_file(l, p + 3);
	}
	if (!strcmp(p, "end_of_record"))
		*in_file = false;
	if (!*in_file)
		return 0;
	if (!strncmp(p, "DA:", 3))
		return take_line(l, p + 3);
	if (!strncmp(p, "FN:", 3))
		return take_function(l, p + 3, false);
	if (!strncmp(p, "FNDA:", 5))
		return take_function(l, p + 5, true);
	if (!strncmp(p, "BRDA:", 5))
		return take_branch(l, p + 5);
	return 0;
}

int coverage_merge_lcov(struct cover_lines *l, const struct merge_text *t)
{
	bool in_file = false;
	char *end;
	int rc = 0;

	for (char *p = t->p; p < t->p + t->n; p = end + 1) {
		end = memchr(p, '\n', t->n - (size_t)(p - t->p));
		if (!end)
			end = t->p + t->n;
		*end = '\0';
		for (char *cr = end; cr > p && cr[-1] == '\r'; cr--)
			cr[-1] = '\0';
		rc = take_record(l, p, &in_file);
		if (rc)
			return rc < 0 ? rc : coverage_merge_bad(
				t, (size_t)(p - t->p), "no lcov record");
	}
	return 0;
}

/* ---- drcov ---- */

/* The next line; NULL: there is none. */
static char *next_line(const struct merge_text *t, size_t *at)
{
	char *p = t->p + *at, *end = memchr(p, '\n', t->n - *at);

	if (!end)
		return NULL;
	*end = '\0';
	*at = (size_t)(end - t->p) + 1;
	return p;
}

/* How many columns there are before the path: "Columns: id, base, .., path". */
static unsigned count_columns(const char *p)
{
	unsigned n = 0;

	for (; *p; p++)
		n += *p == ',';
	return n;
}

static int take_module(struct merged *m, char *row, unsigned n_before,
		       uint32_t *number)
{
	struct cover_tally *k = &m->tally;
	unsigned long long base = 0, end = 0;
	char *p = row;

	if (sscanf(row, " %*u , %llx , %llx", &base, &end) != 2)
		return 1;
	for (unsigned i = 0; i < n_before; i++) {
		p = strchr(p, ',');
		if (!p)
			return 1;
		p++;
	}
	while (*p == ' ')
		p++;
	for (*number = 0; *number < k->n_modules; ++*number) {
		if (!strcmp(k->modules[*number].path, p))
			return 0;
	}
	if (array_grow(&k->modules, k->n_modules, &k->cap_modules,
		 sizeof(*k->modules)) < 0)
		return -AUX_E_NOMEM;
	k->modules[k->n_modules++] = (struct cover_module){
		.path = p, .base = base, .end = end,
	};
	return 0;
}

static uint64_t get_le(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | p[n];
	return v;
}

static int take_blocks(struct merged *m, const struct merge_text *t, size_t at,
		       uint64_t n, const uint32_t *numbers, size_t n_numbers)
{
	struct cover_tally *k = &m->tally;

	if (n > (t->n - at) / 8)
		return coverage_merge_bad(t, at, "the table of blocks is cut");
	for (uint64_t i = 0; i < n; i++, at += 8) {
		const uint8_t *p = (const uint8_t *)t->p + at;
		uint64_t id = get_le(p + 6, 2);

		if (id >= n_numbers)
			return coverage_merge_bad(t, at, "a block of a module "
						  "that is not there");
		if (array_grow(&k->blocks, k->n_blocks, &k->cap_blocks,
			 sizeof(*k->blocks)) < 0)
			return -AUX_E_NOMEM;
		k->blocks[k->n_blocks++] = (struct cover_block){
			.off = get_le(p, 4), .size = (uint32_t)get_le(p + 4, 2),
			.n = 1, .module = numbers[id],
		};
	}
	return 0;
}

/* Behind the count of modules. */
static int take_tables(struct merged *m, const struct merge_text *t, size_t at,
		       uint32_t *numbers, size_t n)
{
	unsigned long long n_blocks;
	char *row = next_line(t, &at);
	unsigned before;
	int rc = 0;

	if (!row || strncmp(row, "Columns:", 8))
		return coverage_merge_bad(t, at, "no columns of modules");
	before = count_columns(row);
	for (size_t i = 0; i < n && !rc; i++) {
		row = next_line(t, &at);
		rc = row ? take_module(m, row, before, &numbers[i]) : 1;
	}
	if (rc < 0)
		return rc;
	row = rc ? NULL : next_line(t, &at);
	if (!row || sscanf(row, "BB Table: %llu bbs", &n_blocks) != 1)
		return coverage_merge_bad(t, at, "no drcov module or table");
	return take_blocks(m, t, at, n_blocks, numbers, n);
}

int coverage_merge_drcov(struct merged *m, const struct merge_text *t)
{
	uint32_t *numbers;
	unsigned long long n = 0;
	size_t at = 0;
	char *row;
	int rc;

	do {
		row = next_line(t, &at);
	} while (row && strncmp(row, "Module Table:", 13));
	if (!row || sscanf(row, "Module Table: version 2, count %llu", &n) != 1)
		return coverage_merge_bad(t, at, "no module table of version "
					  "2");
	if (n > t->n)
		return coverage_merge_bad(t, at, "too many modules");
	numbers = calloc(n + 1, sizeof(*numbers));
	if (!numbers)
		return -AUX_E_NOMEM;
	rc = take_tables(m, t, at, numbers, n);
	free(numbers);
	return rc;
}
