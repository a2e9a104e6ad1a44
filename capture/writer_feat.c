/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Feature sections: a table of (offset, size) behind the data, then the bytes,
 * both in the order of the bits.
 *
 * Specification: perf.data-file-format.txt; HEADER_* writers of
 * tools/perf/util/header.c and auxtrace.c (the AUXTRACE index) of Linux 6.1.
 * Strings are a u32 length and that many bytes, NUL padded to 64.
 */
#include <stdlib.h>
#include <string.h>

#include "writer_priv.h"

#define NAME_ALIGN 64
#define MISC_BUILD_ID_SIZE (1 << 15)
#define HOST_MACHINE UINT32_MAX

/* One entry of AUX_FEAT_BUILD_ID; the path follows, padded to NAME_ALIGN. */
struct build_id_entry {
	struct perf_event_header h;
	uint32_t pid;
	uint8_t id[20];
	uint8_t id_size;
	uint8_t reserved[3];
};
AUX_ASSERT_SIZE(struct build_id_entry, 36);

int writer_feature(struct writer *w, unsigned bit, const void *data, size_t len)
{
	struct writer_bytes *f;
	void *copy;

	if (bit >= AUX_FEAT_BITS)
		return writer_fail(w, AUX_E_INVAL, "%s: no feature %u", w->path,
				   bit);
	copy = malloc(len + 1);
	if (!copy)
		return writer_fail(w, AUX_E_NOMEM, "%s: out of memory",
				   w->path);
	if (len)
		memcpy(copy, data, len);
	f = &w->features[bit];
	free(f->data);
	f->data = copy;
	f->len = len;
	return 0;
}

int writer_code(struct writer *w, const struct aux_code_entry *e,
		const void *bytes)
{
	int ret = 0;

	if (w->error)
		return -w->error;
	if (!w->code)
		ret = codespool_new(&w->code, w->path);
	if (!ret)
		ret = codespool_add(w->code, e, bytes);
	if (ret)
		return writer_fail(w, -ret, "%s: cannot keep code bytes in a "
				   "temporary file beside it", w->path);
	return 0;
}

/* FNV-1a */
static uint64_t hash_file(const char *path, const uint8_t *id, size_t id_size)
{
	uint64_t h = 0xcbf29ce484222325;
	size_t i;

	for (i = 0; path[i]; i++)
		h = (h ^ (uint8_t)path[i]) * 0x100000001b3;
	for (i = 0; i < id_size; i++)
		h = (h ^ id[i]) * 0x100000001b3;
	return h;
}

/* The slot of this file, or the free one where it belongs. */
static uint32_t *find_slot(const struct writer *w, uint64_t hash, uint32_t pid,
			   const char *path, const uint8_t *id, size_t id_size)
{
	size_t i = hash & (w->n_slots - 1);

	for (; w->file_slots[i]; i = (i + 1) & (w->n_slots - 1)) {
		const struct writer_file *f = &w->files[w->file_slots[i] - 1];

		if (f->hash == hash && f->pid == pid && f->id_size == id_size &&
		    !memcmp(f->id, id, id_size) && !strcmp(f->path, path))
			break;
	}
	return &w->file_slots[i];
}

static int grow_slots(struct writer *w)
{
	size_t i, n = w->n_slots ? w->n_slots * 2 : 64;
	uint32_t *slots;

	if (w->n_files * 2 < w->n_slots)
		return 0;
	slots = calloc(n, sizeof(*slots));
	if (!slots)
		return writer_fail(w, AUX_E_NOMEM, "%s: out of memory",
				   w->path);
	free(w->file_slots);
	w->file_slots = slots;
	w->n_slots = n;
	for (i = 0; i < w->n_files; i++) {
		size_t at = w->files[i].hash & (n - 1);

		while (slots[at])
			at = (at + 1) & (n - 1);
		slots[at] = (uint32_t)i + 1;
	}
	return 0;
}

int writer_build_id(struct writer *w, uint32_t pid, uint16_t cpumode,
		    const char *path, const uint8_t *id, size_t id_size)
{
	struct writer_file *f;
	uint32_t *slot;
	uint64_t hash;

	cpumode &= PERF_RECORD_MISC_CPUMODE_MASK;
	if (cpumode <= PERF_RECORD_MISC_HYPERVISOR)
		pid = HOST_MACHINE;
	if (!id_size || id_size > sizeof(f->id))
		return writer_fail(w, AUX_E_INVAL, "%s: build id of %zu bytes",
				   w->path, id_size);
	if (grow_slots(w) ||
	    writer_grow(w, (void **)&w->files, w->n_files, &w->cap_files,
			sizeof(*w->files)))
		return -w->error;
	hash = hash_file(path, id, id_size);
	slot = find_slot(w, hash, pid, path, id, id_size);
	if (*slot)
		return 0;
	f = &w->files[w->n_files];
	memset(f, 0, sizeof(*f));
	f->path = strdup(path);
	if (!f->path)
		return writer_fail(w, AUX_E_NOMEM, "%s: out of memory",
				   w->path);
	f->hash = hash;
	f->pid = pid;
	f->cpumode = cpumode;
	f->id_size = (uint8_t)id_size;
	memcpy(f->id, id, id_size);
	*slot = (uint32_t)++w->n_files;
	return 0;
}

/* len bytes, then zeros up to a multiple of NAME_ALIGN. */
static void put_padded(struct writer *w, const char *s, size_t len)
{
	static const char zero[NAME_ALIGN];

	writer_put(w, s, len);
	writer_put(w, zero, -len & (NAME_ALIGN - 1));
}

static void put_string(struct writer *w, const char *s)
{
	uint32_t size = (uint32_t)strlen(s) + 1;
	uint32_t padded = (size + NAME_ALIGN - 1) & ~(NAME_ALIGN - 1);

	writer_put(w, &padded, sizeof(padded));
	put_padded(w, s, size);
}

static void emit_event_desc(struct writer *w)
{
	uint32_t n = (uint32_t)w->n_attrs;
	uint32_t size = sizeof(struct perf_event_attr);
	size_t i;

	writer_put(w, &n, sizeof(n));
	writer_put(w, &size, sizeof(size));
	for (i = 0; i < w->n_attrs; i++) {
		const struct writer_attr *a = &w->attrs[i];

		writer_put(w, &a->attr, sizeof(a->attr));
		writer_put(w, &a->n_ids, sizeof(a->n_ids));
		put_string(w, a->name);
		writer_put(w, a->ids, a->n_ids * sizeof(*a->ids));
	}
}

static void emit_build_ids(struct writer *w)
{
	size_t i;

	for (i = 0; i < w->n_files; i++) {
		const struct writer_file *f = &w->files[i];
		size_t len = strlen(f->path) + 1;
		size_t padded = (len + NAME_ALIGN - 1) &
				~(size_t)(NAME_ALIGN - 1);
		struct build_id_entry e = {
			.h.misc = f->cpumode | MISC_BUILD_ID_SIZE,
			.h.size = (uint16_t)(sizeof(e) + padded),
			.pid = f->pid,
			.id_size = f->id_size,
		};

		memcpy(e.id, f->id, f->id_size);
		writer_put(w, &e, sizeof(e));
		put_padded(w, f->path, len);
	}
}

static void emit_index(struct writer *w)
{
	uint64_t n = w->n_index;

	writer_put(w, &n, sizeof(n));
	writer_put(w, w->index, w->n_index * sizeof(*w->index));
}

static void emit_time(struct writer *w)
{
	uint64_t range[2] = { w->first_ns, w->last_ns };

	writer_put(w, range, sizeof(range));
}

/* What the writer itself knows; bytes that were set win. */
static bool has_feature(const struct writer *w, unsigned bit)
{
	if (w->features[bit].data)
		return true;
	switch (bit) {
	case AUX_FEAT_BUILD_ID:
		return w->n_files > 0;
	case AUX_FEAT_EVENT_DESC:
		return w->n_attrs > 0;
	case AUX_FEAT_AUXTRACE:
		return w->n_index > 0;
	case AUX_FEAT_SAMPLE_TIME:
		return w->last_ns > 0;
	case AUX_FEAT_AUXKIT_CODE:
		return w->code != NULL;
	default:
		return false;
	}
}

static void emit_feature(struct writer *w, unsigned bit)
{
	const struct writer_bytes *f = &w->features[bit];

	if (f->data)
		writer_put(w, f->data, f->len);
	else if (bit == AUX_FEAT_BUILD_ID)
		emit_build_ids(w);
	else if (bit == AUX_FEAT_EVENT_DESC)
		emit_event_desc(w);
	else if (bit == AUX_FEAT_AUXTRACE)
		emit_index(w);
	else if (bit == AUX_FEAT_SAMPLE_TIME)
		emit_time(w);
	else if (bit == AUX_FEAT_AUXKIT_CODE)
		codespool_emit(w->code, w);
}

int writer_features_emit(struct writer *w, struct aux_file_header *h)
{
	struct aux_file_section table[AUX_FEAT_BITS];
	size_t n = 0, i = 0;
	unsigned bit;

	for (bit = 0; bit < AUX_FEAT_BITS; bit++)
		n += has_feature(w, bit);
	memset(table, 0, sizeof(table));
	writer_put(w, table, n * sizeof(*table));
	for (bit = 0; bit < AUX_FEAT_BITS && !w->error; bit++) {
		if (!has_feature(w, bit))
			continue;
		table[i].offset = writer_size(w);
		emit_feature(w, bit);
		table[i].size = writer_size(w) - table[i].offset;
		h->features[bit / 64] |= UINT64_C(1) << (bit % 64);
		i++;
	}
	if (writer_flush(w))
		return -w->error;
	return writer_pwrite(w, table, n * sizeof(*table), w->data_end);
}

void writer_features_free(struct writer *w)
{
	size_t i;

	for (i = 0; i < w->n_files; i++)
		free(w->files[i].path);
	for (i = 0; i < AUX_FEAT_BITS; i++)
		free(w->features[i].data);
	free(w->files);
	free(w->file_slots);
}
