/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The beginning of a recording: the file or pipe, the header, the events.
 *
 * Specification: perf.data-file-format.txt and tools/perf/util/header.c of
 * Linux 6.1. The stride of attrs in a file covers the ids section behind each
 * attr; in a pipe each event is a HEADER_ATTR record, and EVENT_UPDATE tells
 * its name.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/diag.h"

#include "perfdata/writer_impl.h"

#define EVENT_UPDATE_NAME 2

void writer_header(const struct writer *w, struct aux_file_header *h)
{
	uint64_t stride = sizeof(struct perf_event_attr) +
			  sizeof(struct aux_file_section);

	if (w->kept.magic) {
		*h = w->kept;
		memset(h->features, 0, sizeof(h->features));
		return;
	}
	memset(h, 0, sizeof(*h));
	h->magic = AUX_PERF_MAGIC2;
	h->size = sizeof(*h);
	h->attr_size = stride;
	h->attrs.offset = w->attrs_start;
	h->attrs.size = w->n_attrs * stride;
	h->data.offset = w->data_start;
}

static void start_file(struct writer *w)
{
	uint64_t ids = sizeof(struct aux_file_header);
	struct aux_file_header h;
	size_t i;

	w->attrs_start = ids;
	for (i = 0; i < w->n_attrs; i++)
		w->attrs_start += w->attrs[i].n_ids * sizeof(uint64_t);
	w->data_start = w->attrs_start +
			w->n_attrs * (sizeof(struct perf_event_attr) +
				      sizeof(struct aux_file_section));
	w->data_end = w->data_start;
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
}

static void put_attr(struct writer *w, const struct writer_attr *a)
{
	size_t ids = a->n_ids * sizeof(uint64_t);
	struct {
		struct perf_event_header h;
		struct perf_event_attr attr;
	} r = { .h.type = AUX_RECORD_HEADER_ATTR, .attr = a->attr };

	if (sizeof(r) + ids > WRITER_REC_MAX) {
		writer_fail(w, AUX_E_LIMIT, "%s: event '%.64s' has %u ids, too "
			    "many for a pipe (record into a file)", w->path,
			    a->name, a->n_ids);
		return;
	}
	r.h.size = (uint16_t)(sizeof(r) + ids);
	writer_put(w, &r, sizeof(r));
	writer_put(w, a->ids, ids);
}

static void put_name(struct writer *w, const struct writer_attr *a)
{
	static const char zero[8];
	size_t len = strnlen(a->name, 4096) + 1, pad;
	struct {
		struct perf_event_header h;
		uint64_t type;
		uint64_t id;
	} r = {
		.h.type = AUX_RECORD_EVENT_UPDATE,
		.type = EVENT_UPDATE_NAME,
	};

	if (!a->n_ids)	/* without an id nobody can tell whose name it is */
		return;
	pad = -len & 7;
	r.id = a->ids[0];
	r.h.size = (uint16_t)(sizeof(r) + len + pad);
	writer_put(w, &r, sizeof(r));
	writer_put(w, a->name, len - 1);
	writer_put(w, zero, 1 + pad);
}

static void start_pipe(struct writer *w)
{
	const uint64_t h[2] = { AUX_PERF_MAGIC2, sizeof(h) };
	size_t i;

	writer_put(w, h, sizeof(h));
	for (i = 0; i < w->n_attrs; i++)
		put_attr(w, &w->attrs[i]);
	for (i = 0; i < w->n_attrs; i++)
		put_name(w, &w->attrs[i]);
}

int writer_start(struct writer *w)
{
	bool was_alone = w->alone;

	w->started = true;
	w->alone = true;
	if (w->opt.pipe)
		start_pipe(w);
	else
		start_file(w);
	writer_send_buf(w);
	writer_features_send(w);
	w->alone = was_alone;
	return -w->error;
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
	if (!w->opt.pipe && !stat(w->path, &st) &&
	    (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
		return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"%s is a pipe or a socket; a recording needs a "
				"file (or -o - and a redirection)", w->path);
	w->fd = open(w->path, (w->opt.pipe ? O_WRONLY : O_RDWR) | O_CREAT |
		     O_TRUNC | O_CLOEXEC | O_NOCTTY, 0600);
	if (w->fd < 0)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"cannot create %s: %s (-o names another file)",
				w->path, strerror(errno));
	w->regular = !w->opt.pipe && !fstat(w->fd, &st) && S_ISREG(st.st_mode);
	if (w->regular)	/* tells auxcap repair that somebody is at work */
		flock(w->fd, LOCK_EX | LOCK_NB);
	return 0;
}

static int open_stdout(struct writer *w, struct aux_diag *diag)
{
	w->opt.pipe = true;
	if (isatty(STDOUT_FILENO))
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"a recording is not for a terminal: redirect "
				"standard output, or -o names a file");
	w->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (w->fd < 0)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"cannot write to standard output: %s",
				strerror(errno));
	return 0;
}

static int open_output(struct writer *w, struct aux_diag *diag)
{
	int ret = 0;

	if (w->opt.zstd_level || w->opt.zstd_aux)
		ret = writer_zstd_open(w, diag);
	if (ret)
		return ret;
	if (!strcmp(w->path, "-"))
		return open_stdout(w, diag);
	if (!w->opt.pipe)
		ret = keep_old(w, diag);
	return ret ? ret : open_file(w, diag);
}

int writer_open(struct writer **out, const char *path,
		const struct writer_options *o, struct aux_diag *diag)
{
	struct writer *w = calloc(1, sizeof(*w));
	int ret;

	*out = NULL;
	if (w) {
		pthread_mutex_init(&w->lock, NULL);
		w->fd = -1;
		w->opt = o ? *o : (struct writer_options){ 0 };
		w->path = strdup(path);
		w->buf = malloc(sizeof(*w->buf));
	}
	if (!w || !w->path || !w->buf) {
		writer_close(w, NULL);
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"%s: out of memory", path);
	}
	ret = open_output(w, diag);
	if (ret) {
		writer_close(w, NULL);
		return ret;
	}
	*out = w;
	return 0;
}

static int add_attr(struct writer *w, const struct perf_event_attr *attr,
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

int writer_attr_add(struct writer *w, const struct perf_event_attr *attr,
		    const char *name, const uint64_t *ids, uint32_t n_ids)
{
	int ret;

	pthread_mutex_lock(&w->lock);
	ret = add_attr(w, attr, name, ids, n_ids);
	pthread_mutex_unlock(&w->lock);
	return ret;
}
