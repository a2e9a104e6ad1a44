/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What feature sections hold that the writer knows itself.
 *
 * Specification: perf.data-file-format.txt; HEADER_* writers of
 * tools/perf/util/header.c and auxtrace.c (the AUXTRACE index) of Linux 6.1.
 * Strings are a u32 length and that many bytes, NUL padded to 64.
 */
#include <stdlib.h>
#include <string.h>

#include "perfdata/writer_impl.h"

#define NAME_ALIGN 64
#define MISC_BUILD_ID_SIZE (1 << 15)
#define COMP_ZSTD 1

/* One entry of AUX_FEAT_BUILD_ID; the path follows, padded to NAME_ALIGN. */
struct build_id_entry {
	struct perf_event_header h;
	uint32_t pid;
	uint8_t id[20];
	uint8_t id_size;
	uint8_t reserved[3];
};
AUX_ASSERT_SIZE(struct build_id_entry, 36);

static void add(struct writer_desc *d, const void *p, size_t len)
{
	size_t cap = d->cap;
	uint8_t *data;

	while (cap - d->len < len)
		cap = cap ? cap * 2 : 1024;
	if (cap != d->cap) {
		data = d->bad ? NULL : realloc(d->data, cap);
		if (!data) {
			d->bad = true;
			return;
		}
		d->data = data;
		d->cap = cap;
	}
	if (len)
		memcpy(d->data + d->len, p, len);
	d->len += len;
}

/* len bytes, then zeros up to a multiple of NAME_ALIGN. */
static void add_padded(struct writer_desc *d, const char *s, size_t len)
{
	static const char zero[NAME_ALIGN];

	add(d, s, len);
	add(d, zero, -len & (NAME_ALIGN - 1));
}

static void add_string(struct writer_desc *d, const char *s)
{
	uint32_t size = (uint32_t)strlen(s) + 1;
	uint32_t padded = (size + NAME_ALIGN - 1) & ~(NAME_ALIGN - 1);

	add(d, &padded, sizeof(padded));
	add_padded(d, s, size);
}

static void add_event_desc(const struct writer *w, struct writer_desc *d)
{
	const uint32_t head[2] = { (uint32_t)w->n_attrs,
				   sizeof(struct perf_event_attr) };
	size_t i;

	add(d, head, sizeof(head));
	for (i = 0; i < w->n_attrs; i++) {
		const struct writer_attr *a = &w->attrs[i];

		add(d, &a->attr, sizeof(a->attr));
		add(d, &a->n_ids, sizeof(a->n_ids));
		add_string(d, a->name);
		add(d, a->ids, a->n_ids * sizeof(*a->ids));
	}
}

static void add_build_id(struct writer_desc *d, const struct writer_file *f,
			 uint32_t type)
{
	size_t len = strlen(f->path) + 1;
	size_t padded = (len + NAME_ALIGN - 1) & ~(size_t)(NAME_ALIGN - 1);
	struct build_id_entry e = {
		.h.type = type,
		.h.misc = f->cpumode | MISC_BUILD_ID_SIZE,
		.h.size = (uint16_t)(sizeof(e) + padded),
		.pid = f->pid,
		.id_size = f->id_size,
	};

	memcpy(e.id, f->id, f->id_size);
	add(d, &e, sizeof(e));
	add_padded(d, f->path, len);
}

static void add_index(const struct writer *w, struct writer_desc *d)
{
	uint64_t n = w->n_chunks;
	size_t i;

	add(d, &n, sizeof(n));
	for (i = 0; i < w->n_chunks; i++)
		add(d, &w->chunks[i].at, sizeof(w->chunks[i].at));
}

static void add_time(const struct writer *w, struct writer_desc *d)
{
	uint64_t range[2] = { w->first_ns, w->last_ns };

	add(d, range, sizeof(range));
}

static void add_compressed(const struct writer *w, struct writer_desc *d)
{
	/* version, type, level, ratio (nobody asks), size of a piece */
	uint32_t v[5] = { 1, COMP_ZSTD, (uint32_t)w->opt.zstd_level, 1,
			  WRITER_ZIN };

	add(d, v, sizeof(v));
}

bool writer_desc_has(const struct writer *w, unsigned bit)
{
	switch (bit) {
	case AUX_FEAT_BUILD_ID:
		return w->n_files > 0;
	case AUX_FEAT_EVENT_DESC:
		return w->n_attrs > 0;
	case AUX_FEAT_AUXTRACE:
		return w->n_chunks > 0;
	case AUX_FEAT_SAMPLE_TIME:
		return w->last_ns > 0;
	case AUX_FEAT_COMPRESSED:
		return w->opt.zstd_level > 0;
	default:
		return false;
	}
}

bool writer_desc_make(const struct writer *w, unsigned bit,
		      struct writer_desc *d)
{
	size_t i;

	if (!writer_desc_has(w, bit))
		return false;
	if (bit == AUX_FEAT_BUILD_ID)
		for (i = 0; i < w->n_files; i++)
			add_build_id(d, &w->files[i], 0);
	else if (bit == AUX_FEAT_EVENT_DESC)
		add_event_desc(w, d);
	else if (bit == AUX_FEAT_AUXTRACE)
		add_index(w, d);
	else if (bit == AUX_FEAT_SAMPLE_TIME)
		add_time(w, d);
	else if (bit == AUX_FEAT_COMPRESSED)
		add_compressed(w, d);
	return true;
}

int writer_build_id_record(struct writer *w, const struct writer_file *f)
{
	struct writer_desc d = { 0 };
	struct iovec part;

	if (!w->started && writer_start(w))
		return -w->error;
	add_build_id(&d, f, AUX_RECORD_BUILD_ID);
	part = (struct iovec){ d.data, d.len };
	if (d.bad)
		writer_fail(w, AUX_E_NOMEM, "%s: out of memory", w->path);
	else if (d.len <= WRITER_REC_MAX)
		writer_append(w, &part, 1);
	free(d.data);
	return -w->error;
}
