/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elfimage_dwarf: all functions of a file, and the rows of their lines: for those
 * who want what did not run, too.
 */
#ifdef HAVE_DW
#include <stdlib.h>

#include <aux/error.h>

#include "decode/lib/elf/dwarf.h"

struct list {
	struct elfimage_function *v;
	size_t n, n_areas;
};

static int by_entry(const void *a, const void *b)
{
	const struct elfimage_function *x = a, *y = b;

	if (x->entry != y->entry)
		return x->entry < y->entry ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

static void count_unit(const struct dwarf_unit *u, struct list *l)
{
	for (size_t i = 0; i < u->n_nodes; i++)
		l->n += !u->nodes[i].parent;
	for (size_t i = 0; i < u->spans.n; i++)
		l->n_areas += !u->nodes[u->spans.v[i].what].parent;
}

/* Functions of a unit behind l->n; areas behind l->n_areas. */
static int take_unit(struct dwarf_image *d, struct dwarf_unit *u,
		     struct list *l, struct elfimage_area *areas)
{
	uint32_t *at = calloc(u->n_nodes + 1, sizeof(*at));
	struct elfimage_function *f;

	if (!at)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < u->spans.n; i++)
		at[u->spans.v[i].what]++;
	for (size_t i = 0; i < u->n_nodes; i++) {
		if (u->nodes[i].parent)
			continue;
		f = &l->v[l->n++];
		dwarf_describe(d, u, &u->nodes[i], f);
		f->areas = areas + l->n_areas;
		l->n_areas += at[i];
		at[i] = (uint32_t)(l->n - 1);
	}
	for (size_t i = 0; i < u->spans.n; i++) {
		const struct dwarf_span *s = &u->spans.v[i];

		if (u->nodes[s->what].parent)
			continue;
		f = &l->v[at[s->what]];
		areas[(size_t)(f->areas - areas) + f->n_areas++] =
			(struct elfimage_area){ s->start, s->end, 0 };
	}
	free(at);
	return 0;
}

static int list_all(struct dwarf_image *d, struct elfimage_function **v,
		    size_t *n)
{
	struct list l = { NULL, 0, 0 };
	struct elfimage_area *areas;

	for (size_t i = 0; i < d->n_units; i++) {
		dwarf_need_rows(d, &d->units[i]);
		dwarf_need_nodes(d, &d->units[i]);
		count_unit(&d->units[i], &l);
	}
	if (!l.n)
		return -AUX_E_NOENT;
	l.v = malloc(l.n * sizeof(*l.v) + l.n_areas * sizeof(*areas));
	if (!l.v)
		return -AUX_E_NOMEM;
	areas = (struct elfimage_area *)(l.v + l.n);
	l.n = l.n_areas = 0;
	for (size_t i = 0; i < d->n_units; i++) {
		if (take_unit(d, &d->units[i], &l, areas) < 0) {
			free(l.v);
			return -AUX_E_NOMEM;
		}
	}
	qsort(l.v, l.n, sizeof(*l.v), by_entry);
	*v = l.v;
	*n = l.n;
	return 0;
}

int elfimage_functions(struct elfimage *im, struct elfimage_function **v,
		       size_t *n)
{
	struct dwarf_image *d;
	int rc = -AUX_E_NOENT;

	pthread_mutex_lock(&im->lock);
	d = dwarf_need(im);
	if (d && d->dw)
		rc = list_all(d, v, n);
	pthread_mutex_unlock(&im->lock);
	return rc;
}

size_t elfimage_rows(struct elfimage *im, uint64_t addr,
		     const struct source_row **rows)
{
	struct dwarf_image *d;
	struct dwarf_unit *u;
	size_t n = 0;

	pthread_mutex_lock(&im->lock);
	d = dwarf_need(im);
	u = d ? dwarf_unit_at(d, addr) : NULL;
	if (u) {
		dwarf_need_rows(d, u);
		*rows = dwarf_find_row(u, addr);
		n = *rows ? u->n_rows - (size_t)(*rows - u->rows) : 0;
	}
	pthread_mutex_unlock(&im->lock);
	return n;
}
#endif
