/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of a recording: features, the completed header, and what can be saved
 * after an error.
 *
 * Invariant: the header names data only up to the last whole record, and
 * features only when all of them are in the file.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "writer_priv.h"

/* The end of the whole records in [data_end, pos): reads them back. */
static uint64_t find_whole(const struct writer *w)
{
	uint64_t at = w->data_end;

	for (;;) {
		struct {
			struct perf_event_header h;
			uint64_t aux_size;
		} r = { .aux_size = 0 };
		uint64_t len;
		ssize_t n = pread(w->fd, &r, sizeof(r), (off_t)at);

		if (n < (ssize_t)sizeof(r.h) || r.h.size < sizeof(r.h))
			return at;
		len = r.h.size;
		if (r.h.type == AUX_RECORD_AUXTRACE)
			len += r.aux_size;
		if (at + len > w->pos)
			return at;
		at += len;
	}
}

/* Makes the file end behind its last whole record, for a fresh start there. */
static void cut_back(struct writer *w)
{
	if (w->started && w->pos >= w->data_start)
		w->data_end = find_whole(w);
	w->used = 0;
	w->pos = w->data_end;
	if (ftruncate(w->fd, (off_t)w->data_end))
		return;	/* a device: nothing to cut */
	while (w->n_index &&
	       w->index[w->n_index - 1].file_offset >= w->data_end)
		w->n_index--;
}

/* Features, then their bits. On failure the file ends behind the data. */
static void add_features(struct writer *w, struct aux_file_header *h)
{
	if (!writer_features_emit(w, h))
		return;
	memset(h->features, 0, sizeof(h->features));
	if (ftruncate(w->fd, (off_t)w->data_end))
		writer_fail(w, AUX_E_IO, "%s: %s", w->path, strerror(errno));
}

static void complete(struct writer *w)
{
	struct aux_file_header h;
	struct aux_diag first;
	int error;

	if (!w->started)
		writer_start(w);
	error = w->error;
	first = w->diag;
	w->error = 0;
	if (!w->broken)	/* what is buffered is whole records */
		writer_flush(w);
	if (!error) {
		error = w->error;
		first = w->diag;
	}
	if (w->broken)
		cut_back(w);
	w->error = 0;
	writer_header(w, &h);
	h.data.size = w->data_end - w->data_start;
	/* the data are declared first, the features when they are there */
	writer_pwrite(w, &h, sizeof(h), 0);
	add_features(w, &h);
	writer_pwrite(w, &h, sizeof(h), 0);
	if (error) {
		w->error = error;
		w->diag = first;
	}
}

static void free_writer(struct writer *w)
{
	size_t i;

	for (i = 0; i < w->n_attrs; i++) {
		free(w->attrs[i].name);
		free(w->attrs[i].ids);
	}
	free(w->attrs);
	free(w->index);
	free(w->streams);
	writer_features_free(w);
	codespool_free(w->code);
	free(w->old_path);
	free(w->path);
	free(w->buf);
	free(w);
}

int writer_close(struct writer *w, struct aux_diag *diag)
{
	int ret;

	if (!w)
		return 0;
	if (w->fd >= 0) {
		complete(w);
		if (close(w->fd))
			writer_fail(w, AUX_E_IO, "%s: close: %s", w->path,
				    strerror(errno));
	}
	ret = -w->error;
	if (ret && diag)
		*diag = w->diag;
	free_writer(w);
	return ret;
}

void writer_discard(struct writer *w, struct aux_diag *diag)
{
	struct stat st;

	if (!w)
		return;
	if (w->error && diag)
		*diag = w->diag;
	if (w->fd >= 0 && !fstat(w->fd, &st) && S_ISREG(st.st_mode) &&
	    !unlink(w->path) && w->old_path && rename(w->old_path, w->path))
		w->error = AUX_E_IO;	/* then it stays where it is */
	if (w->fd >= 0)
		close(w->fd);
	free_writer(w);
}
