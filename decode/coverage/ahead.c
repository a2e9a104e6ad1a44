/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage: debug information, read while blocks and edges are put in order.
 *
 * Where a program has debug information, reading it takes as long as all else after the
 * decoding, and needs of that no more than which files ran. So each file's functions and
 * lines are read, by other threads, as soon as the tally meets it.
 */
#include <stdlib.h>

#include <aux/error.h>

#include "common/workers.h"
#include "decode/coverage/impl.h"

struct ahead_file {
	struct work work;	/* first */
	struct ahead_file *next;
	struct elfimage *image;
	/* what elfimage_functions gave; the worker's until work is done */
	struct elfimage_function *v;
	size_t n;
	int rc;
};

struct cover_ahead {
	struct workers *ws;
	struct ahead_file *files;
};

static enum work_state read_file(void *priv, struct work *w)
{
	struct ahead_file *f = (struct ahead_file *)w;
	const struct source_row *rows;

	(void)priv;
	f->rc = elfimage_functions(f->image, &f->v, &f->n);
	/* the image keeps its lines, unit by unit */
	for (size_t i = 0; f->rc == 0 && i < f->n && !atomic_load(&w->stop); i++)
		elfimage_rows(f->image, f->v[i].entry, &rows);
	return WORK_DONE;
}

struct cover_ahead *cover_ahead_new(unsigned n_threads)
{
	struct cover_ahead *a = n_threads > 1 ? calloc(1, sizeof(*a)) : NULL;

	if (a && !workers_new(&a->ws, n_threads - 1, read_file, a))
		return a;
	free(a);
	return NULL;
}

void cover_ahead_add(struct cover_ahead *a, struct elfimage *image)
{
	struct ahead_file *f;

	for (f = a ? a->files : NULL; f; f = f->next)
		if (f->image == image)
			return;
	f = a ? calloc(1, sizeof(*f)) : NULL;
	if (!f)
		return;
	f->image = image;
	f->next = a->files;
	a->files = f;
	workers_lock(a->ws);
	workers_add(a->ws, &f->work);
	workers_unlock(a->ws);
}

int cover_ahead_take(struct cover_ahead *a, struct elfimage *image,
		     struct elfimage_function **v, size_t *n)
{
	struct ahead_file *f = a ? a->files : NULL;

	while (f && f->image != image)
		f = f->next;
	if (!f)
		return elfimage_functions(image, v, n);
	workers_lock(a->ws);
	while (f->work.state != WORK_DONE)
		workers_wait(a->ws, &f->work);
	workers_unlock(a->ws);
	*v = f->v;
	*n = f->n;
	f->image = NULL;	/* it is the caller's now */
	f->v = NULL;
	return f->rc;
}

void cover_ahead_free(struct cover_ahead *a)
{
	struct ahead_file *f, *next;

	if (!a)
		return;
	workers_free(a->ws);
	for (f = a->files; f; f = next) {
		next = f->next;
		free(f->v);
		free(f);
	}
	free(a);
}
