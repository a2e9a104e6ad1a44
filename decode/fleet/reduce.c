/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parts joined: see fleet.h. Rows are sorted in each part, so files are merged as they
 * are read: FILES at a time, into temporary files that are merged again. A sum does not
 * depend on the order of what is added, so neither does the result.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/diag.h"
#include "decode/fleet/fleet.h"

#define FILES 128	/* open at a time */

/* Files that are merged: a heap by the row that each is at. */
struct merge {
	const struct fleet_kind *kind;
	struct source {
		FILE *f;
		const char *path;
		struct fleet_row row;
	} *heap[FILES], all[FILES];
	unsigned n, n_all;
	const char **which;
	struct aux_diag *diag;
};

static void sink_down(struct merge *m, unsigned i)
{
	struct source *s = m->heap[i];

	for (unsigned child; (child = 2 * i + 1) < m->n; i = child) {
		if (child + 1 < m->n && fleet_row_compare(&m->heap[child + 1]->row,
							  &m->heap[child]->row) < 0)
			child++;
		if (fleet_row_compare(&s->row, &m->heap[child]->row) <= 0)
			break;
		m->heap[i] = m->heap[child];
		m->heap[child] = s;
	}
	m->heap[i] = s;
}

/* The next row of a source, which has to come after the one before. 1, 0 or an error. */
static int advance(struct merge *m, struct source *s, const struct fleet_row *before)
{
	int rc = fleet_row_read(&s->row, s->f, m->kind, m->diag);

	if (rc > 0 && before && fleet_row_compare(before, &s->row) >= 0)
		rc = diag_set(m->diag, AUX_E_FORMAT, AUX_NO_OFFSET,
			      "rows of a part are not in order");
	if (rc < 0)
		*m->which = s->path;
	return rc;
}

/* Takes the first row off the heap into *row, whose memory the source gets for it. */
static int take(struct merge *m, struct fleet_row *row)
{
	struct source *s = m->heap[0];
	struct fleet_row old = *row;
	int rc;

	*row = s->row;
	s->row = old;
	rc = advance(m, s, row);
	if (rc < 0)
		return rc;
	if (!rc)
		m->heap[0] = m->heap[--m->n];
	if (m->n)
		sink_down(m, 0);
	return 0;
}

/* All rows of the sources, equal keys joined, to out. */
static int merge_rows(struct merge *m, struct outbuf *out)
{
	struct fleet_row row = { 0 }, next = { 0 };
	bool have = false;
	int rc = 0;

	while (m->n && !rc) {
		const char *path = m->heap[0]->path;

		if (have && !fleet_row_compare(&row, &m->heap[0]->row)) {
			if (!fleet_row_join(&row, &m->heap[0]->row, m->kind)) {
				*m->which = path;
				rc = diag_set(m->diag, AUX_E_LIMIT, AUX_NO_OFFSET,
					      "a sum is larger than a number can be");
			}
			rc = rc ? rc : take(m, &next);
			continue;
		}
		if (have)
			fleet_row_write(out, &row, m->kind);
		have = true;
		rc = take(m, &row);
	}
	if (have && !rc)
		fleet_row_write(out, &row, m->kind);
	fleet_row_fini(&row);
	fleet_row_fini(&next);
	return rc;
}

static int add_source(struct merge *m, FILE *f, const char *path)
{
	struct source *s = &m->all[m->n_all++];
	int rc;

	*s = (struct source){ .f = f, .path = path };
	rc = advance(m, s, NULL);
	if (rc > 0)
		m->heap[m->n++] = s;
	return rc < 0 ? rc : 0;
}

/* Merges the sources into a file without a name, and closes them. */
static int finish_merge(struct merge *m, FILE **to)
{
	FILE *f = tmpfile();
	struct outbuf *out = f ? outbuf_new(fileno(f)) : NULL;
	int rc = out ? 0 : f ? -AUX_E_NOMEM :
		 diag_set(m->diag, AUX_E_IO, AUX_NO_OFFSET, "cannot make a temporary file: %s",
			  strerror(errno));

	for (unsigned i = m->n; i--;)
		sink_down(m, i);
	if (!rc)
		rc = merge_rows(m, out);
	if (!rc && outbuf_flush(out))
		rc = diag_set(m->diag, AUX_E_IO, AUX_NO_OFFSET,
			      "cannot write a temporary file: %s", strerror(out->error));
	for (unsigned i = 0; i < m->n_all; i++) {
		fclose(m->all[i].f);
		fleet_row_fini(&m->all[i].row);
	}
	m->n = m->n_all = 0;
	outbuf_free(out);
	if (f && (rc || fseeko(f, 0, SEEK_SET))) {
		fclose(f);
		f = NULL;
		rc = rc ? rc : -AUX_E_IO;
	}
	*to = f;
	return rc;
}

/* Runs, which are then the merge's to close, also after an error. */
static int add_runs(struct merge *m, FILE **v, unsigned n)
{
	int rc = 0;

	for (unsigned i = 0; i < n; i++)
		if (rc)
			fclose(v[i]);
		else
			rc = add_source(m, v[i], "a temporary file");
	return rc;
}

/* What was merged so far, by how often: FILES of one level are one of the next. */
struct runs {
	FILE **v[8];
	unsigned n[8];
};

static void close_files(FILE **v, unsigned n)
{
	while (n)
		fclose(v[--n]);
}

static int add_run(struct merge *m, struct runs *r, FILE *f, unsigned level)
{
	int rc = 0;

	if (!r->v[level])
		r->v[level] = calloc(FILES, sizeof(FILE *));
	if (!r->v[level]) {
		fclose(f);
		return -AUX_E_NOMEM;
	}
	r->v[level][r->n[level]++] = f;
	if (r->n[level] < FILES || level + 1 == 8)
		return 0;
	rc = add_runs(m, r->v[level], FILES);
	r->n[level] = 0;
	if (!rc)
		rc = finish_merge(m, &f);
	return rc ? rc : add_run(m, r, f, level + 1);
}

/* The runs that are left, of all levels: the largest are merged last. */
static int join_runs(struct merge *m, struct runs *r, FILE **rows)
{
	FILE *f = NULL;	/* of the levels so far; NULL after an error */
	int rc = 0;

	for (unsigned level = 0; level < 8 && !rc; level++) {
		if (!r->n[level])
			continue;
		if (f)
			rc = add_runs(m, &f, 1);
		if (!rc)
			rc = add_runs(m, r->v[level], r->n[level]);
		else
			close_files(r->v[level], r->n[level]);
		r->n[level] = 0;
		if (!rc)
			rc = finish_merge(m, &f);
	}
	*rows = f;
	return rc;
}

struct fleet_join {
	struct merge m;
	struct runs runs;
};

struct fleet_join *fleet_join_new(const char **which, struct aux_diag *diag)
{
	struct fleet_join *j = calloc(1, sizeof(*j));

	*which = NULL;
	if (j)
		j->m = (struct merge){ .which = which, .diag = diag };
	return j;
}

int fleet_join_add(struct fleet_join *j, const struct fleet_kind *kind, FILE *f,
		   const char *path)
{
	int rc;

	j->m.kind = kind;
	rc = add_source(&j->m, f, path);
	if (rc || j->m.n_all < FILES - 1)
		return rc;
	rc = finish_merge(&j->m, &f);
	return rc ? rc : add_run(&j->m, &j->runs, f, 0);
}

int fleet_join_rows(struct fleet_join *j, FILE **rows)
{
	FILE *f = NULL;
	int rc = 0;

	*rows = NULL;
	if (j->m.n_all || !j->runs.n[0])
		rc = finish_merge(&j->m, &f);
	if (!rc && f)
		rc = add_run(&j->m, &j->runs, f, 0);
	return rc ? rc : join_runs(&j->m, &j->runs, rows);
}

void fleet_join_free(struct fleet_join *j)
{
	if (!j)
		return;
	for (unsigned i = 0; i < j->m.n_all; i++) {
		fclose(j->m.all[i].f);
		fleet_row_fini(&j->m.all[i].row);
	}
	for (unsigned level = 0; level < 8; level++) {
		close_files(j->runs.v[level], j->runs.n[level]);
		free(j->runs.v[level]);
	}
	free(j);
}

/* A part: its head is added to *head, its rows to what is joined. */
static int add_part(struct fleet_join *j, const char *path, struct fleet_head *head)
{
	FILE *f = fopen(path, "re");
	int rc;

	*j->m.which = path;
	if (!f)
		return diag_set(j->m.diag, AUX_E_IO, AUX_NO_OFFSET, "%s", strerror(errno));
	rc = fleet_head_read(head, f, j->m.diag);
	if (!rc)
		return fleet_join_add(j, head->kind, f, path);
	fclose(f);
	return rc;
}

int fleet_reduce(const char *const *paths, size_t n, struct fleet_head *head,
		 FILE **rows, const char **which, struct aux_diag *diag)
{
	struct fleet_join *j = fleet_join_new(which, diag);
	int rc = j ? 0 : -AUX_E_NOMEM;

	*rows = NULL;
	for (size_t i = 0; i < n && !rc; i++)
		rc = add_part(j, paths[i], head);
	if (!rc) {
		*which = NULL;
		rc = fleet_head_settle(head, diag);
	}
	if (!rc)
		rc = fleet_join_rows(j, rows);
	fleet_join_free(j);
	return rc;
}
