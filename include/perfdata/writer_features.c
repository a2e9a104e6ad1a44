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

/*
 * What feature sections hold that the writer knows itself.
 *
 * Specification: perf.data-file-format.txt; HEADER_* writers of
 * tools/perf/util/header.c and auxtrace.c (the AUXTRACE index) of Linux 6.1.
 * Strings are a u32 length and that many bytes, NUL padded to 64.
 */

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

static bool writer_desc_has(const struct writer *w, unsigned bit)
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

/* In a pipe: a HEADER_BUILD_ID record. */
static int writer_build_id_record(struct writer *w, const struct writer_file *f)
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

/*
 * Features as records among the data. In a pipe there are no sections. In a file
 * they tell what a killed writer had no time to put into sections: perf, and who
 * repairs the file, take them from there.
 *
 * Specification: HEADER_FEATURE and TRACING_DATA of tools/perf/util/header.c in
 * Linux 6.1. Our own features are our own records only: perf inject up to this
 * day dies of a feature bit that it does not know.
 */

static const uint8_t zero[8];

static int put_feature(struct writer *w, unsigned bit, const void *data,
		       size_t len)
{
	size_t pad = -len & 7;
	struct {
		struct perf_event_header h;
		uint64_t bit;
	} r = { .h.type = AUX_RECORD_HEADER_FEATURE, .bit = bit };
	const struct iovec part[] = {
		{ &r, sizeof(r) },
		{ (void *)(uintptr_t)data, len },
		{ (void *)(uintptr_t)zero, pad },
	};

	if (len > WRITER_REC_MAX - sizeof(r))
		return 0;	/* no record is that long */
	r.h.size = (uint16_t)(sizeof(r) + len + pad);
	return writer_append(w, part, 3);
}

/* Without it perf cannot even open a file with tracepoints. */
static int put_pieces(struct writer *w, unsigned bit, const void *data,
		      size_t len)
{
	struct aux_own_piece p = { .bit = bit, .total = len };
	const size_t most = WRITER_OWN_MAX - sizeof(p);
	size_t n;

	for (; p.offset < len && !w->error; p.offset += n) {
		n = len - p.offset < most ? len - p.offset : most;
		writer_append_own(w, AUX_OWN_PIECE, &p, sizeof(p),
				  (const uint8_t *)data + p.offset, n);
	}
	return -w->error;
}

/* The record, then bytes that its size does not cover, padded to 8. */
static int put_tracing_data(struct writer *w, const void *data, size_t len)
{
	size_t pad = -len & 7;
	struct {
		struct perf_event_header h;
		uint32_t size;
	} r = {
		.h.type = AUX_RECORD_TRACING_DATA,
		.h.size = sizeof(r),
		.size = (uint32_t)(len + pad),
	};
	bool was_alone = w->alone;

	if (writer_zstd_pending(w))
		writer_zstd_drain(w);
	w->alone = true;	/* it is longer than the buffer, and one record */
	writer_put(w, &r, sizeof(r));
	writer_put(w, data, len);
	writer_put(w, zero, pad);
	w->alone = was_alone;
	return -w->error;
}

/* The first word of our sections is their version, the second a count. */
static int put_own(struct writer *w, enum aux_own_kind kind,
		   const struct writer_bytes *f)
{
	const size_t head = sizeof(struct aux_feat_text);

	if (f->len < head || f->len - head > WRITER_OWN_MAX)
		return 0;
	return writer_append_own(w, kind, NULL, 0, (uint8_t *)f->data + head,
				 f->len - head);
}

int writer_feature_record(struct writer *w, unsigned bit, const void *data,
			  size_t len)
{
	switch (bit) {
	case AUX_FEAT_TRACING_DATA:
		return w->opt.pipe ? put_tracing_data(w, data, len) :
				     put_pieces(w, bit, data, len);
	case AUX_FEAT_BUILD_ID:		/* records of another type */
	case AUX_FEAT_AUXTRACE:		/* means nothing in a pipe */
	case AUX_FEAT_CACHE:
	case AUX_FEAT_DIR_FORMAT:
		return 0;
	default:
		return bit <= AUX_FEAT_PMU_CAPS ?
			put_feature(w, bit, data, len) : 0;
	}
}

static int send_one(struct writer *w, unsigned bit)
{
	struct writer_bytes *f = &w->features[bit];
	struct writer_desc d = { 0 };

	f->sent = true;
	if (bit == AUX_FEAT_AUXKIT_SOURCE)
		return put_own(w, AUX_OWN_SOURCE, f);
	if (bit == AUX_FEAT_AUXKIT_LEDGER)
		return put_own(w, AUX_OWN_LEDGER, f);
	if (f->data)
		return writer_feature_record(w, bit, f->data, f->len);
	writer_desc_make(w, bit, &d);
	if (d.bad)
		writer_fail(w, AUX_E_NOMEM, "%s: out of memory", w->path);
	else if (d.len)
		writer_feature_record(w, bit, d.data, d.len);
	free(d.data);
	return -w->error;
}

/* What the writer knows from the start; the rest comes with the end. */
static bool is_known(const struct writer *w, unsigned bit)
{
	if (w->features[bit].data)
		return true;
	return (bit == AUX_FEAT_EVENT_DESC || bit == AUX_FEAT_COMPRESSED) &&
	       writer_desc_has(w, bit);
}

int writer_features_send(struct writer *w)
{
	unsigned bit;

	for (bit = 0; bit < AUX_FEAT_BITS && !w->error; bit++)
		if (!w->features[bit].sent && is_known(w, bit))
			send_one(w, bit);
	return -w->error;
}

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
