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

#include "perfdata/writer_impl.h"

/* The end of the whole records in [hole, hole_end): reads them back. */
static uint64_t find_whole(const struct writer *w)
{
	uint64_t at = w->hole;

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
		if (r.h.type == AUX_RECORD_AUXTRACE ||
		    r.h.type == AUX_RECORD_AUXKIT_AUXTRACE_ZSTD)
			len += r.aux_size;
		if (len > w->hole_end || at > w->hole_end - len)
			return at;
		at += len;
	}
}

/* What got a place in the file behind its end was not written after all. */
static void drop_chunks(struct writer *w, uint64_t end)
{
	while (w->n_chunks && w->chunks[w->n_chunks - 1].at.file_offset >= end) {
		const struct writer_chunk *c = &w->chunks[--w->n_chunks];
		struct writer_stream *s = &w->streams[c->stream];

		s->saved -= c->len;
		s->unwritten += c->len;
		s->n_chunks--;
	}
}

/* Makes the file end behind its last whole record, for a fresh start there. */
static void cut_back(struct writer *w)
{
	uint64_t end = w->hole;

	if (w->data_start && end >= w->data_start && !w->opt.pipe)
		end = find_whole(w);
	drop_chunks(w, end);
	writer_zstd_stop(w);
	w->used = 0;
	w->pos = end;
	w->broken = false;
	if (w->regular && ftruncate(w->fd, (off_t)end))
		return;	/* then the header alone says where it ends */
}

/* The first error, put aside: what follows is done as if there was none. */
struct aside {
	int error;
	struct aux_diag diag;
};

static void put_aside(struct writer *w, struct aside *a)
{
	if (!a->error) {
		a->error = w->error;
		a->diag = w->diag;
	}
	w->error = 0;
}

static void put_back(struct writer *w, const struct aside *a)
{
	if (a->error) {
		w->error = a->error;
		w->diag = a->diag;
	}
}

/* What is buffered is whole records: all of it, or what there was before. */
static void drain(struct writer *w, struct aside *a)
{
	if (!w->broken) {
		put_aside(w, a);
		if (writer_zstd_pending(w))
			writer_zstd_drain(w);
		writer_send_buf(w);
	}
	if (w->broken)
		cut_back(w);
	drop_chunks(w, w->pos);	/* and what memory was missing for */
	put_aside(w, a);
	writer_declare(w);
}

static void finish(struct writer *w)
{
	struct aside a = { 0 };

	w->alone = true;
	if (!w->started)
		writer_start(w);
	drain(w, &a);
	put_back(w, &a);
	w->finished = true;
	w->size = w->pos;
}

int writer_finish(struct writer *w)
{
	int ret;

	pthread_mutex_lock(&w->lock);
	if (!w->finished)
		finish(w);
	ret = -w->error;
	pthread_mutex_unlock(&w->lock);
	return ret;
}

/* Features, then their bits. On failure the file ends behind the data. */
static void add_features(struct writer *w)
{
	uint64_t end = w->data_end;
	struct aux_file_header h;

	writer_header(w, &h);
	h.data.size = end - w->data_start;
	/* the data are declared first, the features when they are there */
	writer_pwrite(w, &h, sizeof(h), 0);
	if (writer_features_emit(w, &h)) {
		memset(h.features, 0, sizeof(h.features));
		if (w->regular && ftruncate(w->fd, (off_t)end))
			writer_fail(w, AUX_E_IO, "%s: %s", w->path,
				    strerror(errno));
	}
	writer_pwrite(w, &h, sizeof(h), 0);
}

bool writer_headless(const struct writer *w)
{
	return w->error && !w->opt.pipe && w->pos < w->data_start;
}

/* The last records: what was set since, the ledger before all. */
static void send_last(struct writer *w, struct aside *a)
{
	struct writer_desc d = { 0 };

	w->finished = false;
	writer_features_send(w);
	if (w->opt.pipe && writer_desc_make(w, AUX_FEAT_SAMPLE_TIME, &d) &&
	    !d.bad)
		writer_feature_record(w, AUX_FEAT_SAMPLE_TIME, d.data, d.len);
	free(d.data);
	drain(w, a);
	w->finished = true;
}

static void complete(struct writer *w)
{
	struct aside a = { 0 };

	if (!w->finished)
		finish(w);
	if (w->opt.pipe && w->error)
		return;
	if (writer_headless(w))
		return;
	put_aside(w, &a);
	send_last(w, &a);
	put_aside(w, &a);
	if (!w->opt.pipe)
		add_features(w);
	put_back(w, &a);
}

static void free_writer(struct writer *w)
{
	struct writer_buf *b;
	size_t i;

	for (i = 0; i < w->n_attrs; i++) {
		free(w->attrs[i].name);
		free(w->attrs[i].ids);
	}
	while ((b = w->spare)) {
		w->spare = b->next;
		free(b);
	}
	free(w->attrs);
	free(w->chunks);
	free(w->streams);
	writer_features_free(w);
	writer_codes_free(w->codes);
	writer_zstd_free(w);
	free(w->old_path);
	free(w->path);
	free(w->buf);
	pthread_mutex_destroy(&w->lock);
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
	if (w->fd >= 0 && !w->opt.pipe && !fstat(w->fd, &st) &&
	    S_ISREG(st.st_mode) && !unlink(w->path) && w->old_path &&
	    rename(w->old_path, w->path))
		w->error = AUX_E_IO;	/* then it stays where it is */
	if (w->fd >= 0)
		close(w->fd);
	free_writer(w);
}
