/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tables: a directory with a file for each table. They get their names together, at the
 * end, so that a directory has all tables of one recording or keeps what it had.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/diag.h"
#include "decode/export/tables.h"

#define MAX_FILES (TABLE_N + 4)

int tables_dir_open(struct tables_dir *d, const struct export *x, struct aux_diag *diag)
{
	d->path = x->env.out_path;
	d->files = calloc(MAX_FILES, sizeof(*d->files));
	if (!d->files)
		return -AUX_E_NOMEM;
	d->made = !mkdir(d->path, 0777);
	if (!d->made && errno != EEXIST)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "%s: %s", d->path,
				strerror(errno));
	return 0;
}

int tables_dir_add(struct tables_dir *d, const char *name, const char *suffix, int *err,
		   struct aux_diag *diag)
{
	struct outfile *f = &d->files[d->n];
	char *path;

	if (d->n == MAX_FILES || asprintf(&path, "%s/%s%s", d->path, name, suffix) < 0) {
		*err = -AUX_E_NOMEM;
		return -1;
	}
	*f = OUTFILE_NONE;
	*err = outfile_open(f, path, 0666, OUTFILE_REGULAR, diag);
	free(path);
	if (*err)
		return -1;
	d->n++;
	return f->fd;
}

int tables_dir_text(struct tables_dir *d, const char *name, struct outbuf *text,
		    struct aux_diag *diag)
{
	int err, fd;

	if (outbuf_failed(text))
		return -AUX_E_NOMEM;
	fd = tables_dir_add(d, name, "", &err, diag);
	if (!err && export_write_at(fd, text->buf, (size_t)(text->p - text->buf), 0))
		err = diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "%s/%s: %s", d->path, name,
			       strerror(errno));
	return err;
}

int tables_dir_commit(struct tables_dir *d, struct aux_diag *diag)
{
	int err = 0;

	for (unsigned i = 0; i < d->n && !err; i++)
		err = outfile_commit(&d->files[i], diag);
	return err;
}

void tables_dir_close(struct tables_dir *d)
{
	for (unsigned i = 0; i < d->n; i++)
		outfile_discard(&d->files[i]);
	free(d->files);
	if (d->made)
		rmdir(d->path);
}
