/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parts of a perf.data file as bytes: header, events, feature sections. One
 * implementation for the recorder's writer, for rewrite and for repair.
 *
 * Everything is made in the byte order of the file, which may be the other one:
 * a rewritten file keeps the order of its records. Only memory can run out
 * here, and that is sticky (rewrite_bytes.oom), so callers test once.
 *
 * Specification: perf.data-file-format.txt; write_* in tools/perf/util/header.c
 * of Linux 6.1.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

#include "perfdata/impl.h"

#define NAME_ALIGN 64	/* perf's NAME_ALIGN: strings of features, paths */
#define MISC_BUILD_ID_SIZE (1 << 15)	/* PERF_RECORD_MISC_BUILD_ID_SIZE */
#define HOST_MACHINE UINT32_MAX

static const uint8_t zeros[NAME_ALIGN];

/* ---- bytes ---- */

void rewrite_put_u32(uint8_t *p, uint32_t v, bool swap)
{
	if (swap)
		v = __builtin_bswap32(v);
	memcpy(p, &v, sizeof(v));
}

void rewrite_put_u64(uint8_t *p, uint64_t v, bool swap)
{
	if (swap)
		v = __builtin_bswap64(v);
	memcpy(p, &v, sizeof(v));
}

/* Grows by doubling. b->oom is set in place of an error, and len stays as it
 * was. */
void rewrite_bytes_put(struct rewrite_bytes *b, const void *data, size_t len)
{
	if (b->len + len > b->cap && !b->oom) {
		size_t cap = b->cap ? 2 * b->cap : 256;
		uint8_t *v;

		while (cap < b->len + len)
			cap *= 2;
		v = realloc(b->data, cap);
		b->oom = !v;
		if (v) {
			b->data = v;
			b->cap = cap;
		}
	}
	if (b->oom || !len)
		return;
	memcpy(b->data + b->len, data, len);
	b->len += len;
}

static void put_u16(struct rewrite_bytes *b, uint16_t v)
{
	if (b->swap)
		v = __builtin_bswap16(v);
	rewrite_bytes_put(b, &v, sizeof(v));
}

void rewrite_bytes_u32(struct rewrite_bytes *b, uint32_t v)
{
	uint8_t p[4];

	rewrite_put_u32(p, v, b->swap);
	rewrite_bytes_put(b, p, sizeof(p));
}

void rewrite_bytes_u64(struct rewrite_bytes *b, uint64_t v)
{
	uint8_t p[8];

	rewrite_put_u64(p, v, b->swap);
	rewrite_bytes_put(b, p, sizeof(p));
}

/* len bytes, then zeros up to a multiple of NAME_ALIGN. */
static void put_padded(struct rewrite_bytes *b, const char *s, size_t len)
{
	rewrite_bytes_put(b, s, len);
	rewrite_bytes_put(b, zeros, -len & (NAME_ALIGN - 1));
}

void rewrite_bytes_string(struct rewrite_bytes *b, const char *s)
{
	size_t len = strlen(s) + 1;

	rewrite_bytes_u32(b, (uint32_t)(len + (-len & (NAME_ALIGN - 1))));
	put_padded(b, s, len);
}

/* ---- header and events ---- */

void header_image(const struct aux_file_header *h, bool swap,
		  uint8_t image[sizeof(*h)])
{
	const uint64_t words[] = {
		AUX_PERF_MAGIC2, h->size, h->attr_size, h->attrs.offset,
		h->attrs.size, h->data.offset, h->data.size,
		h->event_types.offset, h->event_types.size, h->features[0],
		h->features[1], h->features[2], h->features[3],
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		rewrite_put_u64(image + 8 * i, words[i], swap);
}

/* ids has one element more than needed, so that malloc(0) cannot look like a
 * failure. A size above our perf_event_attr is a newer perf's: what we do not
 * know is cut off. */
int event_list_add(struct event_list *l, const struct perf_event_attr *attr,
		   size_t size, const char *name, const uint64_t *ids,
		   uint32_t n_ids)
{
	struct event_entry *e;

	if (array_grow(&l->v, l->n, &l->cap, sizeof(*l->v)))
		return -AUX_E_NOMEM;
	e = &l->v[l->n];
	*e = (struct event_entry){
		.attr = *attr,
		.name = name ? strdup(name) : NULL,
		.ids = malloc((n_ids + (size_t)1) * sizeof(*ids)),
		.n_ids = n_ids,
	};
	if ((name && !e->name) || !e->ids) {
		free(e->name);
		free(e->ids);
		return -AUX_E_NOMEM;
	}
	if (n_ids)
		memcpy(e->ids, ids, n_ids * sizeof(*ids));
	if (size > sizeof(*attr))
		size = sizeof(*attr);
	if (size > l->attr_size)
		l->attr_size = size;
	l->n++;
	return 0;
}

void event_list_fini(struct event_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].name);
		free(l->v[i].ids);
	}
	free(l->v);
}

/*
 * perf looks for the ids section right after attr.size bytes of the attr, not
 * at the end of the stride: so all attrs of a file get one size.
 */
static void put_attr(const struct event_list *l, const struct event_entry *e,
		     struct rewrite_bytes *b)
{
	struct perf_event_attr attr = e->attr;
	uint8_t image[sizeof(attr)];

	attr.size = (uint32_t)l->attr_size;
	memcpy(image, &attr, sizeof(attr));
	if (b->swap)
		attr_swap(image, l->attr_size);
	rewrite_bytes_put(b, image, l->attr_size);
}

/* The ids of all events stand in a row; each attr names its part by offset and
 * size. */
static void put_ids(const struct event_entry *e, struct rewrite_bytes *b)
{
	for (uint32_t i = 0; i < e->n_ids; i++)
		rewrite_bytes_u64(b, e->ids[i]);
}

void event_list_put(const struct event_list *l, uint64_t at,
		    struct rewrite_bytes *b, struct aux_file_header *h)
{
	size_t start = b->len;
	uint64_t ids_at = at;

	for (size_t i = 0; i < l->n; i++)
		put_ids(&l->v[i], b);
	h->magic = AUX_PERF_MAGIC2;
	h->size = sizeof(*h);
	h->attr_size = l->attr_size + sizeof(struct aux_file_section);
	h->attrs.offset = at + (b->len - start);
	h->attrs.size = l->n * h->attr_size;
	for (size_t i = 0; i < l->n; i++) {
		uint64_t size = l->v[i].n_ids * sizeof(uint64_t);

		put_attr(l, &l->v[i], b);
		rewrite_bytes_u64(b, ids_at);
		rewrite_bytes_u64(b, size);
		ids_at += size;
	}
}

/* As write_event_desc() of perf: the attrs once more, now with names and
 * ids. */
void event_list_put_desc(const struct event_list *l, struct rewrite_bytes *b)
{
	rewrite_bytes_u32(b, (uint32_t)l->n);
	rewrite_bytes_u32(b, (uint32_t)l->attr_size);
	for (size_t i = 0; i < l->n; i++) {
		const struct event_entry *e = &l->v[i];

		put_attr(l, e, b);
		rewrite_bytes_u32(b, e->n_ids);
		rewrite_bytes_string(b, e->name ? e->name : "");
		put_ids(e, b);
	}
}

/* ---- the table of sections ---- */

/* Two passes, as the sections begin after a table whose size depends on their
 * number. */
void section_put_table(const struct aux_bytes v[AUX_FEAT_BITS], uint64_t at,
		       struct rewrite_bytes *b, uint64_t bits[4])
{
	for (unsigned i = 0; i < AUX_FEAT_BITS; i++)
		at += v[i].data ? sizeof(struct aux_file_section) : 0;
	for (unsigned i = 0; i < AUX_FEAT_BITS; i++) {
		if (!v[i].data)
			continue;
		rewrite_bytes_u64(b, at);
		rewrite_bytes_u64(b, v[i].len);
		at += v[i].len;
		bits[i / 64] |= UINT64_C(1) << (i % 64);
	}
}

/* ---- build ids ---- */

/* FNV-1a */
static uint64_t hash_file(const char *path, const uint8_t *id, size_t size)
{
	uint64_t h = 0xcbf29ce484222325;

	for (size_t i = 0; path[i]; i++)
		h = (h ^ (uint8_t)path[i]) * 0x100000001b3;
	for (size_t i = 0; i < size; i++)
		h = (h ^ id[i]) * 0x100000001b3;
	return h;
}

/* The slot of this file, or the free one where it belongs. */
static uint32_t *find_slot(const struct build_id_set *s,
			   const struct build_id *want, const char *path)
{
	size_t i = want->hash & (s->n_slots - 1);

	for (; s->slots[i]; i = (i + 1) & (s->n_slots - 1)) {
		const struct build_id *f = &s->v[s->slots[i] - 1];

		if (f->hash == want->hash && f->pid == want->pid &&
		    f->size == want->size && !memcmp(f->id, want->id, f->size) &&
		    !strcmp(f->path, path))
			break;
	}
	return &s->slots[i];
}

/* Keeps the table at most half full, so that a search is short and ends. */
static int grow_slots(struct build_id_set *s)
{
	size_t i, n = s->n_slots ? s->n_slots * 2 : 64;
	uint32_t *slots;

	if (s->n * 2 < s->n_slots)
		return 0;
	slots = calloc(n, sizeof(*slots));
	if (!slots)
		return -AUX_E_NOMEM;
	free(s->slots);
	s->slots = slots;
	s->n_slots = n;
	for (i = 0; i < s->n; i++) {
		size_t at = s->v[i].hash & (n - 1);

		while (slots[at])
			at = (at + 1) & (n - 1);
		slots[at] = (uint32_t)i + 1;
	}
	return 0;
}

/* A path may come with several ids (a library replaced during the recording),
 * and each pair is an entry. Room is made first, so that a failure changes
 * nothing. */
int build_id_set_add(struct build_id_set *s, uint32_t pid, uint16_t misc,
		     const char *path, const uint8_t *id, size_t size)
{
	struct build_id e = {
		.hash = hash_file(path, id, size), .pid = pid,
		.cpumode = misc & PERF_RECORD_MISC_CPUMODE_MASK,
		.size = (uint8_t)size,
	};
	uint32_t *slot;

	/* only guests have machines of their own */
	if (e.cpumode <= PERF_RECORD_MISC_HYPERVISOR)
		e.pid = HOST_MACHINE;
	memcpy(e.id, id, size);
	if (grow_slots(s) || array_grow(&s->v, s->n, &s->cap, sizeof(*s->v)))
		return -AUX_E_NOMEM;
	slot = find_slot(s, &e, path);
	if (*slot)
		return 0;
	e.path = strdup(path);
	if (!e.path)
		return -AUX_E_NOMEM;
	s->v[s->n] = e;
	*slot = (uint32_t)++s->n;
	return 1;
}

void build_id_put(const struct build_id *f, uint32_t type,
		  struct rewrite_bytes *b)
{
	size_t len = strlen(f->path) + 1;
	size_t name = len + (-len & (NAME_ALIGN - 1));
	size_t pad = type ? -(36 + name) & 7 : 0;
	uint32_t size = (uint32_t)(36 + name + pad);
	uint16_t misc = f->cpumode | MISC_BUILD_ID_SIZE;
	uint8_t id[24] = { 0 };

	memcpy(id, f->id, f->size);
	id[20] = f->size;
	rewrite_bytes_u32(b, type);
	put_u16(b, misc);
	put_u16(b, (uint16_t)size);
	rewrite_bytes_u32(b, f->pid);
	rewrite_bytes_put(b, id, sizeof(id));
	put_padded(b, f->path, len);
	rewrite_bytes_put(b, zeros, pad);
}

void build_id_set_put(const struct build_id_set *s, struct rewrite_bytes *b)
{
	for (size_t i = 0; i < s->n; i++)
		build_id_put(&s->v[i], 0, b);
}

void build_id_set_fini(struct build_id_set *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i].path);
	free(s->v);
	free(s->slots);
}
