/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rewrite: the parts of the file in the order in which they are written.
 *
 * header | ids | attrs | data | table of features | features. The header is
 * written last, over zeros. Only the index of AUXTRACE records is kept in memory.
 */
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"

#include "perfdata/rewrite_impl.h"

#define HEADER 8	/* of a record */

static const uint8_t zeros[128];

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

static void put_u16(uint8_t *p, uint16_t v, bool swap)
{
	if (swap)
		v = __builtin_bswap16(v);
	memcpy(p, &v, sizeof(v));
}

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

/* ---- attrs ---- */

/* Fields of an attr by width, 0 the word of bits; see reader_attr.c. table */
static const uint8_t attr_fields[] = {
	4, 4, 8, 8, 8, 8, 0, 4, 4, 8, 8, 8, 8, 4, 4, 8, 4, 2, 2, 4, 4, 8,
};

static uint8_t reverse_bits(uint8_t v)
{
	v = (uint8_t)((v & 0xf0) >> 4 | (v & 0x0f) << 4);
	v = (uint8_t)((v & 0xcc) >> 2 | (v & 0x33) << 2);
	return (uint8_t)((v & 0xaa) >> 1 | (v & 0x55) << 1);
}

static void swap_attr(uint8_t *p, size_t n)
{
	size_t at = 0;

	for (size_t i = 0; i < sizeof(attr_fields); i++) {
		size_t width = attr_fields[i] ? attr_fields[i] : 8;

		if (at + width > n)
			return;
		for (size_t k = 0; attr_fields[i] && k < width / 2; k++) {
			uint8_t v = p[at + k];

			p[at + k] = p[at + width - 1 - k];
			p[at + width - 1 - k] = v;
		}
		for (size_t k = 0; !attr_fields[i] && k < width; k++)
			p[at + k] = reverse_bits(p[at + k]);
		at += width;
	}
}

void rewrite_attr(struct rewrite *w, const struct aux_attr *a)
{
	size_t size = a->file_size, ids = (size_t)a->n_ids * 8;
	struct rewrite_attr *v;

	v = reallocarray(w->attrs, w->n_attrs + 1, sizeof(*v));
	if (!v) {
		rewrite_fail(w, AUX_E_NOMEM, "out of memory");
		return;
	}
	w->attrs = v;
	v += w->n_attrs;
	v->a = *a;
	v->a.ids = ids ? malloc(ids) : NULL;
	v->a.name = a->name ? strdup(a->name) : NULL;
	w->n_attrs++;
	if ((ids && !v->a.ids) || (a->name && !v->a.name)) {
		rewrite_fail(w, AUX_E_NOMEM, "out of memory");
		v->a.n_ids = 0;
		return;
	}
	if (ids)
		memcpy((void *)(uintptr_t)v->a.ids, a->ids, ids);
	if (size > sizeof(a->attr))
		size = sizeof(a->attr);
	if (size > w->attr_size)
		w->attr_size = size;
}

/* perf looks for the ids right behind attr.size, so that all have one size. */
static void put_attr(const struct rewrite *w, struct rewrite_bytes *b,
		     const struct aux_attr *a)
{
	struct perf_event_attr attr = a->attr;
	uint8_t image[sizeof(attr)];

	attr.size = (uint32_t)w->attr_size;
	memcpy(image, &attr, sizeof(attr));
	if (w->swap)
		swap_attr(image, w->attr_size);
	rewrite_bytes_put(b, image, w->attr_size);
}

static void put_string(struct rewrite_bytes *b, const char *s)
{
	size_t len = strlen(s) + 1, padded = (len + 63) & ~(size_t)63;

	rewrite_bytes_u32(b, (uint32_t)padded);
	rewrite_bytes_put(b, s, len);
	rewrite_bytes_put(b, zeros, padded - len);
}

/* EVENT_DESC: what the events are called. */
static void make_event_desc(struct rewrite *w)
{
	struct rewrite_bytes *b = &w->desc;
	bool named = false;

	for (size_t i = 0; i < w->n_attrs; i++)
		named |= w->attrs[i].a.name != NULL;
	if (!named || rewrite_has_feature(w, AUX_FEAT_EVENT_DESC))
		return;
	b->swap = w->swap;
	rewrite_bytes_u32(b, (uint32_t)w->n_attrs);
	rewrite_bytes_u32(b, (uint32_t)w->attr_size);
	for (size_t i = 0; i < w->n_attrs; i++) {
		const struct aux_attr *a = &w->attrs[i].a;

		put_attr(w, b, a);
		rewrite_bytes_u32(b, a->n_ids);
		put_string(b, a->name ? a->name : "");
		for (uint32_t k = 0; k < a->n_ids; k++)
			rewrite_bytes_u64(b, a->ids[k]);
	}
	rewrite_feature(w, AUX_FEAT_EVENT_DESC, b->data, b->len);
}

/* Header, ids and attrs: what is before the data. */
static void start(struct rewrite *w)
{
	struct rewrite_bytes b = { .swap = w->swap };
	uint64_t ids_at = sizeof(struct aux_file_header);

	w->started = true;
	rewrite_bytes_put(&b, zeros, sizeof(struct aux_file_header));
	for (size_t i = 0; i < w->n_attrs; i++)
		for (uint32_t k = 0; k < w->attrs[i].a.n_ids; k++)
			rewrite_bytes_u64(&b, w->attrs[i].a.ids[k]);
	w->h.size = sizeof(w->h);
	w->h.attr_size = w->attr_size + 16;
	w->h.attrs.offset = b.len;
	for (size_t i = 0; i < w->n_attrs; i++) {
		uint64_t size = (uint64_t)w->attrs[i].a.n_ids * 8;

		put_attr(w, &b, &w->attrs[i].a);
		rewrite_bytes_u64(&b, ids_at);
		rewrite_bytes_u64(&b, size);
		ids_at += size;
	}
	w->h.attrs.size = b.len - w->h.attrs.offset;
	w->h.data.offset = b.len;
	if (b.oom)
		rewrite_fail(w, AUX_E_NOMEM, "out of memory");
	else
		rewrite_put(w, b.data, b.len);
	free(b.data);
}

/* ---- records ---- */

void rewrite_record(struct rewrite *w, const void *rec, size_t len)
{
	if (!w->started)
		start(w);
	rewrite_put(w, rec, len);
}

/* The 8 bytes that a record begins with. */
static void make_header(const struct rewrite *w, uint8_t *p, uint32_t type,
			size_t size)
{
	rewrite_put_u32(p, type, w->swap);
	put_u16(p + 4, 0, w->swap);
	put_u16(p + 6, (uint16_t)size, w->swap);
}

void rewrite_own(struct rewrite *w, uint16_t kind, const void *payload,
		 size_t len)
{
	uint8_t head[HEADER + sizeof(struct aux_own_record)];
	size_t pad = -len & 7;

	if (len > REWRITE_OWN_MAX) {
		rewrite_fail(w, AUX_E_LIMIT, "a record would be too long");
		return;
	}
	make_header(w, head, AUX_RECORD_EVENT_TYPE, sizeof(head) + len + pad);
	rewrite_put_u64(head + 8, AUX_OWN_MAGIC, w->swap);
	put_u16(head + 16, kind, w->swap);
	put_u16(head + 18, 1, w->swap);
	rewrite_put_u32(head + 20, (uint32_t)len, w->swap);
	rewrite_record(w, head, sizeof(head));
	rewrite_put(w, payload, len);
	rewrite_put(w, zeros, pad);
}

static bool add_index(struct rewrite *w)
{
	if (w->n_index == w->cap_index) {
		size_t cap = w->cap_index ? 2 * w->cap_index : 256;
		uint64_t *v = reallocarray(w->index, cap, sizeof(*v));

		if (!v) {
			rewrite_fail(w, AUX_E_NOMEM, "out of memory");
			return false;
		}
		w->index = v;
		w->cap_index = cap;
	}
	w->index[w->n_index++] = w->pos;
	return true;
}

void rewrite_auxtrace(struct rewrite *w, const struct aux_rec_auxtrace *h,
		      const void *payload, uint64_t len)
{
	uint8_t rec[REWRITE_AUXTRACE];
	uint64_t pad = -len & 7;

	if (!w->started)
		start(w);
	if (!add_index(w))
		return;
	make_header(w, rec, AUX_RECORD_AUXTRACE, sizeof(rec));
	rewrite_put_u64(rec + 8, len + pad, w->swap);
	rewrite_put_u64(rec + 16, h->offset, w->swap);
	rewrite_put_u64(rec + 24, h->reference, w->swap);
	rewrite_put_u32(rec + 32, h->idx, w->swap);
	rewrite_put_u32(rec + 36, h->tid, w->swap);
	rewrite_put_u32(rec + 40, h->cpu, w->swap);
	rewrite_put_u32(rec + 44, h->reserved, w->swap);
	rewrite_put(w, rec, sizeof(rec));
	rewrite_put(w, payload, len);
	rewrite_put(w, zeros, pad);
}

/* ---- features and the end ---- */

void rewrite_feature(struct rewrite *w, unsigned bit, const void *data,
		     size_t len)
{
	if (bit < AUX_FEAT_BITS)
		w->features[bit] = (struct aux_bytes){ data, data ? len : 0 };
}

bool rewrite_has_feature(const struct rewrite *w, unsigned bit)
{
	return bit < AUX_FEAT_BITS && w->features[bit].data;
}

/* AUX_FEAT_AUXTRACE: the places of all AUXTRACE records. */
static void make_index(struct rewrite *w, struct rewrite_bytes *b)
{
	rewrite_bytes_u64(b, w->n_index);
	for (size_t i = 0; i < w->n_index; i++) {
		rewrite_bytes_u64(b, w->index[i]);
		rewrite_bytes_u64(b, REWRITE_AUXTRACE);
	}
	rewrite_feature(w, AUX_FEAT_AUXTRACE, b->data, b->len);
}

static void put_features(struct rewrite *w)
{
	struct rewrite_bytes table = { .swap = w->swap };
	uint64_t at = w->pos;

	for (unsigned i = 0; i < AUX_FEAT_BITS; i++)
		at += w->features[i].data ? 16 : 0;
	for (unsigned i = 0; i < AUX_FEAT_BITS; i++) {
		if (!w->features[i].data)
			continue;
		rewrite_bytes_u64(&table, at);
		rewrite_bytes_u64(&table, w->features[i].len);
		at += w->features[i].len;
		w->h.features[i / 64] |= UINT64_C(1) << (i % 64);
	}
	if (table.oom)
		rewrite_fail(w, AUX_E_NOMEM, "out of memory");
	rewrite_put(w, table.data, table.len);
	for (unsigned i = 0; i < AUX_FEAT_BITS; i++)
		rewrite_put(w, w->features[i].data, w->features[i].len);
	free(table.data);
}

static void put_header(struct rewrite *w)
{
	const struct aux_file_header *h = &w->h;
	const uint64_t words[] = {
		AUX_PERF_MAGIC2, h->size, h->attr_size, h->attrs.offset,
		h->attrs.size, h->data.offset, h->data.size,
		h->event_types.offset, h->event_types.size, h->features[0],
		h->features[1], h->features[2], h->features[3],
	};
	uint8_t image[sizeof(words)];

	for (size_t i = 0; i < sizeof(words) / 8; i++)
		rewrite_put_u64(image + 8 * i, words[i], w->swap);
	rewrite_put_head(w, image, sizeof(image));
}

int rewrite_close(struct rewrite *w, struct aux_diag *diag)
{
	struct rewrite_bytes index = { .swap = w->swap };
	int rc;

	if (!w->started)
		start(w);
	w->h.data.size = w->pos - w->h.data.offset;
	make_index(w, &index);
	make_event_desc(w);
	if (index.oom || w->desc.oom)
		rewrite_fail(w, AUX_E_NOMEM, "out of memory");
	put_features(w);
	put_header(w);
	free(index.data);
	rc = rewrite_name_file(w);
	if (rc < 0 && diag)
		*diag = w->diag;
	rewrite_discard(w);
	return rc;
}
