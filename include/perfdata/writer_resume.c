/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A writer for a file whose own writer was killed: it only completes it.
 *
 * Invariant: until writer_resume_commit nothing touches the file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/diag.h"

#include "perfdata/writer_impl.h"

int writer_resume(struct writer **out, const char *path, int fd,
		  const struct aux_file_header *h, struct aux_diag *diag)
{
	struct writer *w = calloc(1, sizeof(*w));

	*out = NULL;
	if (w) {
		pthread_mutex_init(&w->lock, NULL);
		w->fd = -1;
		w->path = strdup(path);
		w->buf = malloc(sizeof(*w->buf));
	}
	if (!w || !w->path || !w->buf) {
		writer_resume_abandon(w);
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"%s: out of memory", path);
	}
	w->fd = fd;
	w->regular = true;
	w->alone = true;
	w->started = true;
	w->finished = true;	/* features that are set are not written yet */
	w->kept = *h;
	w->attrs_start = h->attrs.offset;
	w->data_start = h->data.offset;
	*out = w;
	return 0;
}

int writer_resume_chunk(struct writer *w, uint64_t offset, uint16_t size)
{
	if (writer_grow(w, (void **)&w->chunks, w->n_chunks, &w->cap_chunks,
			sizeof(*w->chunks)))
		return -w->error;
	w->chunks[w->n_chunks++] = (struct writer_chunk){
		.at = { offset, size },
	};
	return 0;
}

int writer_resume_commit(struct writer *w, uint64_t end,
			 const struct aux_own_loss *loss, struct aux_diag *diag)
{
	unsigned bit;

	w->pos = end;
	w->data_end = w->data_start;
	w->finished = false;
	if (ftruncate(w->fd, (off_t)end))
		writer_fail(w, AUX_E_IO, "%s: %s", w->path, strerror(errno));
	for (bit = 0; bit < AUX_FEAT_BITS; bit++)
		w->features[bit].sent = true;	/* there they were found */
	if (loss)
		writer_own(w, AUX_OWN_LOSS, loss, sizeof(*loss), NULL, 0);
	return writer_close(w, diag);
}

void writer_resume_abandon(struct writer *w)
{
	if (!w)
		return;
	w->fd = -1;
	writer_close(w, NULL);
}
