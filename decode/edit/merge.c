/* SPDX-License-Identifier: BSD-2-Clause */
/* merge: opening the inputs, in the order of their time. */
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"

#include "decode/edit/merge_impl.h"

static int open_input(struct merge_input *in, const char *path, size_t order,
		      const struct container_options *o, struct aux_diag *diag)
{
	int rc;

	in->path = path;
	in->order = order;
	rc = container_open(&in->r, path, o, diag);
	if (rc == 0 && merge_scan(in) < 0)
		rc = diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
			      "out of memory");
	return rc;
}

static int by_time(const void *a, const void *b)
{
	const struct merge_input *x = a, *y = b;

	if (x->first_ns != y->first_ns)
		return x->first_ns < y->first_ns ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int open_all(struct merge *m, const char *const *paths, size_t n,
		    const struct container_options *o, const char **which,
		    struct aux_diag *diag)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		*which = paths[i];
		rc = open_input(&m->in[m->n++], paths[i], i, o, diag);
		if (rc == 0 && i)
			rc = merge_check(&m->in[0], &m->in[i], diag);
	}
	if (rc < 0)
		return rc;
	*which = NULL;
	m->swapped = aux_reader_info(m->in[0].r)->swapped;
	qsort(m->in, m->n, sizeof(*m->in), by_time);
	for (size_t i = 0; i < m->n; i++)
		m->stats.total += aux_reader_info(m->in[i].r)->size;
	return merge_number(m, which, diag);
}

int merge_open(struct merge **out, const char *const *paths, size_t n,
	       const struct container_options *o, const char **which,
	       struct aux_diag *diag)
{
	struct merge *m = calloc(1, sizeof(*m));
	int rc = -AUX_E_NOMEM;

	*out = NULL;
	*which = NULL;
	if (m) {
		m->in = calloc(n, sizeof(*m->in));
		m->buf = malloc(UINT16_MAX + 1);
	}
	if (m && m->in && m->buf)
		rc = open_all(m, paths, n, o, which, diag);
	if (rc < 0) {
		merge_close(m);
		if (rc == -AUX_E_NOMEM)
			diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				 "out of memory");
		return rc;
	}
	*out = m;
	return 0;
}

void merge_close(struct merge *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n; i++) {
		free(m->in[i].pieces.v);
		free(m->in[i].blobs);
		aux_reader_close(m->in[i].r);
	}
	free(m->in);
	free(m->pieces.v);
	free(m->build_ids.data);
	free(m->ledger.data);
	free(m->source.data);
	free(m->seen);
	free(m->buf);
	free(m);
}

bool merge_swapped(const struct merge *m)
{
	return m->swapped;
}

const struct merge_stats *merge_stats(const struct merge *m)
{
	return &m->stats;
}

const struct aux_diag *merge_damage(const struct merge *m, size_t i)
{
	for (size_t k = 0; k < m->n; k++)
		if (m->in[k].order == i && m->in[k].damaged)
			return &m->in[k].damage;
	return NULL;
}
