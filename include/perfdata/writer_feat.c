/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Feature sections: a table of (offset, size) behind the data, then the bytes,
 * both in the order of the bits.
 *
 * Specification: perf.data-file-format.txt.
 */
#include <stdlib.h>
#include <string.h>

#include "perfdata/writer_impl.h"

#define HOST_MACHINE UINT32_MAX

static int set_feature(struct writer *w, unsigned bit, const void *data,
		       size_t len)
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
	f->sent = false;
	if (w->started && !w->finished)
		return writer_features_send(w);
	return 0;
}

int writer_feature(struct writer *w, unsigned bit, const void *data, size_t len)
{
	int ret;

	pthread_mutex_lock(&w->lock);
	ret = set_feature(w, bit, data, len);
	pthread_mutex_unlock(&w->lock);
	return ret;
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

static int add_file(struct writer *w, uint32_t pid, uint16_t cpumode,
		    const char *path, const uint8_t *id, size_t id_size)
{
	struct writer_file *f;
	uint32_t *slot;
	uint64_t hash;

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
	return w->opt.pipe ? writer_build_id_record(w, f) : 0;
}

int writer_build_id(struct writer *w, uint32_t pid, uint16_t cpumode,
		    const char *path, const uint8_t *id, size_t id_size)
{
	int ret;

	cpumode &= PERF_RECORD_MISC_CPUMODE_MASK;
	if (cpumode <= PERF_RECORD_MISC_HYPERVISOR)
		pid = HOST_MACHINE;
	pthread_mutex_lock(&w->lock);
	ret = add_file(w, pid, cpumode, path, id, id_size);
	pthread_mutex_unlock(&w->lock);
	return ret;
}

/* Our own are records among the data, see writer_featrec.c. */
static bool has_feature(const struct writer *w, unsigned bit)
{
	if (bit > AUX_FEAT_PMU_CAPS)
		return false;
	return w->features[bit].data || writer_desc_has(w, bit);
}

/* Bytes that were set win over what the writer itself knows. */
static void emit_feature(struct writer *w, unsigned bit)
{
	const struct writer_bytes *f = &w->features[bit];
	struct writer_desc d = { 0 };

	if (f->data) {
		writer_put(w, f->data, f->len);
		return;
	}
	writer_desc_make(w, bit, &d);
	if (d.bad)
		writer_fail(w, AUX_E_NOMEM, "%s: out of memory", w->path);
	else
		writer_put(w, d.data, d.len);
	free(d.data);
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
		table[i].offset = w->pos + w->used;
		emit_feature(w, bit);
		table[i].size = w->pos + w->used - table[i].offset;
		h->features[bit / 64] |= UINT64_C(1) << (bit % 64);
		i++;
	}
	if (writer_send_buf(w))
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
