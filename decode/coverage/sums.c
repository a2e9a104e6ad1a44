/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage_sums: files and lines by name and number while they are counted, and the
 * lines that only the source tells of.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

#include "decode/coverage/impl.h"

/* ---- files ---- */

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

uint32_t maker_file(struct maker *m, const char *name)
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

/* ---- lines ---- */

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

/* The line of a row, listed with the function at hand; NULL: out of memory. */
struct sum *maker_sum(struct maker *m, const char *name, uint32_t line)
{
	uint32_t file = maker_file(m, name);
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

/* Whether the function at hand has code of a line. */
static bool is_listed(const struct maker *m, uint32_t file, uint32_t line)
{
	const struct sum *s = *sum_slot(m, file, line);

	return s && s->listed;
}

void maker_need_labels(struct maker *m, uint32_t file)
{
	if (m->labels_file == file)
		return;
	cover_labels_free(m->labels);
	m->labels = cover_labels_new(m->l->files[file]);
	m->labels_file = file;
}

/* The labels above the lines of a function, of each group the first one: as often
 * as the first instruction below. */
int maker_take_labels(struct maker *m, const struct elfimage_function *f)
{
	const struct source_row *before = NULL, *row;
	uint32_t file, top;
	struct sum *s;

	for (size_t i = 0; i < m->graph.n_insns; i++, before = row) {
		row = m->graph.insns[i].row;
		if (!row || row == before || row->line <= f->line ||
		    (before && row->line == before->line))
			continue;
		file = maker_file(m, row->file);
		s = *sum_slot(m, file, row->line);
		if (!s || s->looked_above)
			continue;
		s->looked_above = true;
		maker_need_labels(m, file);
		top = 0;
		for (uint32_t k = row->line - 1; m->labels && k > f->line &&
						 !is_listed(m, file, k); k--)
			if (cover_labels_of(m->labels, k) & COVER_LABEL)
				top = k;
		if (!top)
			continue;
		s = maker_sum(m, row->file, top);
		if (!s)
			return -AUX_E_NOMEM;
		s->own_plain += graph_count(&m->counts, m->graph.insns[i].off);
	}
	return 0;
}

int maker_give_sums(struct maker *m)
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
			s->file, s->line,
			(s->has_last ? s->last : s->plain) + s->group,
		};
	}
	return 0;
}

void maker_fini(struct maker *m)
{
	for (size_t i = 0; i < m->cap_sums; i++)
		free(m->sums[i]);
	free(m->sums);
	free(m->slots);
	free(m->lasts);
	free(m->listed);
	free(m->blocks);
	cover_labels_free(m->labels);
	graph_fini(&m->graph);
}
