/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * writer: records and AUX data into a perf.data file.
 *
 * Layout: header, event ids, attrs, data (records; an AUXTRACE record is
 * followed by its payload), feature sections. Invariant: what has been flushed
 * is a prefix of that file, and data_end is a boundary between records at or
 * below the flushed bytes, so that writer_end.c can make a valid file after any
 * failure.
 * Specification: perf.data-file-format.txt and tools/perf/util/header.c of
 * Linux 6.1. The stride of attrs covers the ids section behind each attr.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <internal/diag.h>

#include "writer_priv.h"

int writer_fail(struct writer *w, int code, const char *fmt, ...)
{
	va_list ap;

	if (!w->error) {
		w->error = code;
		w->diag.code = code;
		w->diag.offset = AUX_NO_OFFSET;
		va_start(ap, fmt);
		vsnprintf(w->diag.text, sizeof(w->diag.text), fmt, ap);
		va_end(ap);
	}
	return -w->error;
}

int writer_grow(struct writer *w, void **array, size_t n, size_t *cap,
		size_t size)
{
	size_t want;
	void *p;

	if (n < *cap)
		return 0;
	want = *cap ? *cap * 2 : 16;
	p = reallocarray(*array, want, size);
	if (!p)
		return writer_fail(w, AUX_E_NOMEM, "%s: out of memory",
				   w->path);
	*array = p;
	*cap = want;
	return 0;
}

static int fail_io(struct writer *w)
{
	return writer_fail(w, AUX_E_IO, "%s: write at byte %llu: %s", w->path,
			   (unsigned long long)w->pos, strerror(errno));
}

int writer_pwrite(struct writer *w, const void *data, size_t len, uint64_t pos)
{
	const char *p = data;

	while (len) {
		ssize_t n = pwrite(w->fd, p, len, (off_t)pos);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fail_io(w);
		p += n;
		pos += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

/* Writes at pos, and moves pos as far as bytes have reached the file. */
static int write_out(struct writer *w, struct iovec *iov, int n_iov)
{
	for (;;) {
		ssize_t n;

		while (n_iov && !iov->iov_len) {
			iov++;
			n_iov--;
		}
		if (!n_iov)
			return 0;
		n = pwritev(w->fd, iov, n_iov, (off_t)w->pos);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fail_io(w);
		w->pos += (uint64_t)n;
		while (n_iov && (size_t)n >= iov->iov_len) {
			n -= (ssize_t)iov->iov_len;
			iov++;
			n_iov--;
		}
		if (n_iov) {
			iov->iov_base = (char *)iov->iov_base + n;
			iov->iov_len -= (size_t)n;
		}
	}
}

/* The buffer, then len bytes of data (0: the buffer alone). */
static int flush_with(struct writer *w, const void *data, size_t len)
{
	struct iovec iov[2] = {
		{ .iov_base = w->buf, .iov_len = w->used },
		{ .iov_base = (void *)(uintptr_t)data, .iov_len = len },
	};

	if (w->error)
		return -w->error;
	w->used = 0;
	if (write_out(w, iov, 2)) {
		w->broken = true;
		return -w->error;
	}
	w->data_end = w->rec_end;
	return 0;
}

int writer_flush(struct writer *w)
{
	return flush_with(w, NULL, 0);
}

int writer_put(struct writer *w, const void *data, size_t len)
{
	int ret;

	if (w->error)
		return -w->error;
	if (len >= WRITER_DIRECT)
		return flush_with(w, data, len);
	if (len > WRITER_BUF - w->used) {
		ret = writer_flush(w);
		if (ret)
			return ret;
	}
	if (len)
		memcpy(w->buf + w->used, data, len);
	w->used += len;
	return 0;
}

void writer_header(const struct writer *w, struct aux_file_header *h)
{
	uint64_t stride = sizeof(struct perf_event_attr) +
			  sizeof(struct aux_file_section);

	memset(h, 0, sizeof(*h));
	h->magic = AUX_PERF_MAGIC2;
	h->size = sizeof(*h);
	h->attr_size = stride;
	h->attrs.offset = w->attrs_start;
	h->attrs.size = w->n_attrs * stride;
	h->data.offset = w->data_start;
}

int writer_start(struct writer *w)
{
	uint64_t ids = sizeof(struct aux_file_header);
	struct aux_file_header h;
	size_t i;

	w->started = true;
	w->attrs_start = ids;
	for (i = 0; i < w->n_attrs; i++)
		w->attrs_start += w->attrs[i].n_ids * sizeof(uint64_t);
	w->data_start = w->attrs_start +
			w->n_attrs * (sizeof(struct perf_event_attr) +
				      sizeof(struct aux_file_section));
	w->rec_end = w->data_start;
	writer_header(w, &h);
	writer_put(w, &h, sizeof(h));
	for (i = 0; i < w->n_attrs; i++)
		writer_put(w, w->attrs[i].ids,
			   w->attrs[i].n_ids * sizeof(uint64_t));
	for (i = 0; i < w->n_attrs; i++) {
		struct aux_file_section s = {
			ids, w->attrs[i].n_ids * sizeof(uint64_t)
		};

		writer_put(w, &w->attrs[i].attr, sizeof(w->attrs[i].attr));
		writer_put(w, &s, sizeof(s));
		ids += s.size;
	}
	return writer_flush(w);
}

/* Keeps what is there as path.old, as perf does. Devices are left alone. */
static int keep_old(struct writer *w, struct aux_diag *diag)
{
	struct stat st;

	if (stat(w->path, &st) || !S_ISREG(st.st_mode) || st.st_size == 0)
		return 0;
	if (asprintf(&w->old_path, "%s.old", w->path) < 0) {
		w->old_path = NULL;
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"%s: out of memory", w->path);
	}
	if (rename(w->path, w->old_path))
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"cannot keep the existing file as %s: %s (-o "
				"names another file)", w->old_path,
				strerror(errno));
	return 0;
}

static int open_file(struct writer *w, struct aux_diag *diag)
{
	struct stat st;

	/* checked first: opening a FIFO for writing would block */
	if (!stat(w->path, &st) && (S_ISFIFO(st.st_mode) ||
				    S_ISSOCK(st.st_mode)))
		return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"%s is a pipe or a socket; a recording needs a "
				"file", w->path);
	w->fd = open(w->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY,
		     0600);
	if (w->fd < 0)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"cannot create %s: %s (-o names another file)",
				w->path, strerror(errno));
	return 0;
}

int writer_open(struct writer **out, const char *path, struct aux_diag *diag)
{
	struct writer *w = calloc(1, sizeof(*w));
	int ret;

	*out = NULL;
	if (w) {
		w->fd = -1;
		w->path = strdup(path);
		w->buf = malloc(WRITER_BUF);
	}
	if (!w || !w->path || !w->buf) {
		writer_close(w, NULL);
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"%s: out of memory", path);
	}
	ret = keep_old(w, diag);
	if (!ret)
		ret = open_file(w, diag);
	if (ret) {
		writer_close(w, NULL);
		return ret;
	}
	*out = w;
	return 0;
}

int writer_attr_add(struct writer *w, const struct perf_event_attr *attr,
		    const char *name, const uint64_t *ids, uint32_t n_ids)
{
	struct writer_attr *a;

	if (w->started)
		return writer_fail(w, AUX_E_INVAL,
				   "%s: an event after the first record",
				   w->path);
	if (writer_grow(w, (void **)&w->attrs, w->n_attrs, &w->cap_attrs,
			sizeof(*w->attrs)))
		return -w->error;
	a = &w->attrs[w->n_attrs];
	a->attr = *attr;
	a->attr.size = sizeof(a->attr);
	a->n_ids = n_ids;
	a->name = strdup(name);
	a->ids = malloc((n_ids + 1) * sizeof(*ids));
	if (!a->name || !a->ids) {
		free(a->name);
		free(a->ids);
		return writer_fail(w, AUX_E_NOMEM, "%s: out of memory",
				   w->path);
	}
	if (n_ids)
		memcpy(a->ids, ids, n_ids * sizeof(*ids));
	w->n_attrs++;
	return 0;
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* After all bytes of a record have been put. A slow source is flushed by the
 * clock: who kills us loses little. */
static int end_record(struct writer *w)
{
	uint64_t now = now_ms();

	if (w->error)
		return -w->error;
	w->rec_end = w->pos + w->used;
	if (now - w->flushed_ms < WRITER_PERIOD_MS)
		return 0;
	w->flushed_ms = now;
	return writer_flush(w);
}

int writer_record(struct writer *w, const struct perf_event_header *rec)
{
	if (!w->started)
		writer_start(w);
	if (rec->size < sizeof(*rec) || rec->size % 8 ||
	    rec->type == AUX_RECORD_AUXTRACE)
		return writer_fail(w, AUX_E_INVAL,
				   "%s: bad record (type %u, size %u)", w->path,
				   rec->type, rec->size);
	writer_put(w, rec, rec->size);
	return end_record(w);
}

/* The totals of a queue; NULL when out of memory. */
static struct writer_stream *find_stream(struct writer *w, uint32_t idx)
{
	struct writer_stream *s;
	size_t i;

	for (i = 0; i < w->n_streams; i++)
		if (w->streams[i].idx == idx)
			return &w->streams[i];
	if (writer_grow(w, (void **)&w->streams, i, &w->cap_streams,
			sizeof(*w->streams)))
		return NULL;
	s = &w->streams[w->n_streams++];
	memset(s, 0, sizeof(*s));
	s->idx = idx;
	return s;
}

static int put_auxtrace(struct writer *w, const struct aux_rec_auxtrace *a,
			const struct iovec *iov, int n_iov)
{
	static const uint8_t zero[8];
	struct {
		struct perf_event_header h;
		struct aux_rec_auxtrace a;
	} rec = {
		.h = { .type = AUX_RECORD_AUXTRACE, .size = sizeof(rec) },
		.a = *a,
	};
	size_t pad = -a->size & 7;
	int i;

	rec.a.size += pad;
	w->index[w->n_index].file_offset = w->pos + w->used;
	w->index[w->n_index].size = sizeof(rec);
	writer_put(w, &rec, sizeof(rec));
	for (i = 0; i < n_iov; i++)
		writer_put(w, iov[i].iov_base, iov[i].iov_len);
	writer_put(w, zero, pad);
	return end_record(w);
}

int writer_auxtrace(struct writer *w, const struct aux_rec_auxtrace *a,
		    const struct iovec *iov, int n_iov)
{
	struct writer_stream *s = find_stream(w, a->idx);
	uint64_t len = 0;
	int i, ret;

	for (i = 0; i < n_iov; i++)
		len += iov[i].iov_len;
	if (len != a->size)
		return writer_fail(w, AUX_E_INVAL,
				   "%s: AUX data of %llu bytes declared as %llu",
				   w->path, (unsigned long long)len,
				   (unsigned long long)a->size);
	if (s && a->offset + len > s->end)
		s->end = a->offset + len;
	if (!w->started)
		writer_start(w);
	if (!len || w->error)
		return -w->error;
	if (writer_grow(w, (void **)&w->index, w->n_index, &w->cap_index,
			sizeof(*w->index)))
		return -w->error;
	ret = put_auxtrace(w, a, iov, n_iov);
	if (ret)
		return ret;
	w->n_index++;
	s->saved += len;
	s->n_chunks++;
	return 0;
}

void writer_time(struct writer *w, uint64_t ns)
{
	if (!w->first_ns || ns < w->first_ns)
		w->first_ns = ns;
	if (ns > w->last_ns)
		w->last_ns = ns;
}

uint64_t writer_size(const struct writer *w)
{
	return w->pos + w->used;
}

const struct writer_stream *writer_streams(const struct writer *w, size_t *n)
{
	*n = w->n_streams;
	return w->streams;
}
