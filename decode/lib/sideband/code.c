/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timeline: code bytes that the recorder saved, from AUXKIT_CODE and from records.
 *
 * Saved code applies behind the records of its own time: it lies over their
 * mappings. A blob number stands for the bytes of the one record that has them.
 *
 * Specification: <aux/extension.h>.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/bytes.h"

#include "decode/lib/sideband/build.h"

/* Pieces up to this size share a place with equal ones: patched code goes to and
 * fro between few forms. */
#define SHARED_MAX 64

static uint64_t hash_bytes(const uint8_t *p, uint64_t n)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) + n;

	while (n--)
		h = (h ^ *p++) * UINT64_C(0x100000001b3);
	return h;
}

int timeline_save(struct timeline *tl, const uint8_t *bytes, uint64_t len,
		  uint64_t *offset)
{
	struct saved_code *s;

	if (len <= SHARED_MAX) {
		int64_t i = idmap_add(&tl->saved_by_hash, hash_bytes(bytes, len),
				      (uint32_t)tl->n_saved);

		if (i < 0)
			return -AUX_E_NOMEM;
		s = (size_t)i < tl->n_saved ? &tl->saved[i] : NULL;
		if (s && s->len == len && !memcmp(s->bytes, bytes, len)) {
			*offset = s->offset;
			return 0;
		}
	}
	if (array_grow(&tl->saved, tl->n_saved, &tl->cap_saved,
		       sizeof(*tl->saved)) < 0)
		return -AUX_E_NOMEM;
	*offset = tl->saved_end;
	tl->saved[tl->n_saved++] = (struct saved_code){ bytes, len, *offset };
	tl->saved_end += len;
	return 0;
}

static int add_code(struct build *b, const struct aux_code_entry *e,
		    const uint8_t *bytes)
{
	struct mapping *m = map_arena_alloc(&b->arena, sizeof(*m));
	struct op *op = timeline_add_op(b, OP_MMAP, e->time_ns);

	if (!m || !op)
		return -AUX_E_NOMEM;
	m->start = e->addr;
	m->end = e->addr + e->len;
	m->time = e->time_ns;
	m->path = e->kind == AUX_CODE_VDSO ? "[vdso]" :
		  bytes ? "[anon]" : "[changed code]";
	m->saved = bytes;
	m->saved_offset = e->blob_offset;
	op->order |= ORDER_CODE;
	op->flags = e->pid == UINT32_MAX ? OP_KERNEL : 0;
	op->pid = e->pid;
	op->tid = e->pid;
	op->map = m;
	return 0;
}

/* One entry of AUXKIT_CODE. */
static int add_entry(struct build *b, struct cursor *c, const uint8_t *blobs,
		     uint64_t blob_size)
{
	struct aux_code_entry e;

	e.time_ns = cursor_u64(c);
	e.addr = cursor_u64(c);
	e.len = cursor_u64(c);
	e.blob_offset = cursor_u64(c);
	e.pid = cursor_u32(c);
	e.kind = cursor_u32(c);
	if (e.len && e.blob_offset <= blob_size &&
	    e.len <= blob_size - e.blob_offset && e.addr + e.len >= e.addr)
		return add_code(b, &e, blobs + e.blob_offset);
	b->tl->stats.n_bad_code++;
	return 0;
}

/* AUX_FEAT_AUXKIT_CODE. *end: where saved offsets of other code may start. */
static int add_section(struct build *b, struct aux_reader *r, uint64_t *end)
{
	struct aux_bytes s;
	struct cursor c;
	uint32_t version, n;
	uint64_t blob_size, head;

	*end = 0;
	if (aux_reader_feature(r, AUX_FEAT_AUXKIT_CODE, &s, NULL) <= 0)
		return 0;
	*end = s.len;
	c = cursor_init(s.data, s.len, b->swapped);
	version = cursor_u32(&c);
	n = cursor_u32(&c);
	blob_size = cursor_u64(&c);
	head = sizeof(struct aux_feat_code) +
	       (uint64_t)n * sizeof(struct aux_code_entry);
	if (c.bad || version != 1 || head > s.len || blob_size > s.len - head) {
		b->tl->stats.n_bad_code++;
		return 0;
	}
	for (uint32_t i = 0; i < n; i++)
		if (add_entry(b, &c, s.data + head, blob_size) < 0)
			return -AUX_E_NOMEM;
	return 0;
}

int timeline_keep_code(struct build *b, const struct aux_event *ev)
{
	if (ev->own.kind != AUX_OWN_CODE)
		return 0;
	if (array_grow(&b->codes, b->n_codes, &b->cap_codes,
		       sizeof(*b->codes)) < 0)
		return -AUX_E_NOMEM;
	b->codes[b->n_codes++] = (struct own_code){ ev->own.code.h,
						    ev->own.code.bytes };
	return 0;
}

/* A blob number and the record that has its bytes. */
struct blob {
	uint64_t number;
	size_t code, saved;
};

static int by_number(const void *a, const void *b)
{
	const struct blob *x = a, *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return x->code < y->code ? -1 : x->code > y->code;
}

/* The first record with the number, if it comes before the code. */
static const struct blob *find_blob(const struct blob *v, size_t n,
				    uint64_t number, size_t code)
{
	size_t lo = 0;

	while (n) {
		size_t half = n / 2;

		if (v[lo + half].number < number) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	v += lo;
	return v->number == number && v->code <= code ? v : NULL;
}

/* Gives the bytes of each record their place. v has one more element. */
static int collect_blobs(struct build *b, struct blob *v)
{
	struct timeline *tl = b->tl;
	size_t n = 0;

	for (size_t i = 0; i < b->n_codes; i++) {
		const struct own_code *c = &b->codes[i];

		if (!c->bytes)
			continue;
		if (array_grow(&tl->saved, tl->n_saved, &tl->cap_saved,
			       sizeof(*tl->saved)) < 0)
			return -AUX_E_NOMEM;
		v[n++] = (struct blob){ c->h.blob, i, tl->n_saved };
		tl->saved[tl->n_saved++] = (struct saved_code){
			c->bytes, c->h.len, tl->saved_end,
		};
		tl->saved_end += c->h.len;
	}
	qsort(v, n, sizeof(*v), by_number);
	v[n] = (struct blob){ UINT64_MAX, SIZE_MAX, 0 };
	return 0;
}

static int add_own(struct build *b, const struct blob *v, size_t code)
{
	const struct aux_own_code *h = &b->codes[code].h;
	const struct blob *blob = find_blob(v, b->tl->n_saved, h->blob, code);
	const struct saved_code *s = blob ? &b->tl->saved[blob->saved] : NULL;
	struct aux_code_entry e = { .time_ns = h->time_ns, .addr = h->addr,
				    .len = h->len, .pid = h->pid,
				    .kind = h->kind };

	if (h->kind == AUX_CODE_UNKNOWN && h->len && h->addr + h->len >= h->addr)
		return add_code(b, &e, NULL);
	if (!s || !h->len || h->len > s->len || h->addr + h->len < h->addr) {
		b->tl->stats.n_bad_code++;
		return 0;
	}
	e.blob_offset = s->offset;
	return add_code(b, &e, s->bytes);
}

int timeline_add_code(struct build *b, struct aux_reader *r)
{
	struct blob *v;
	int rc = add_section(b, r, &b->tl->saved_end);

	if (rc < 0 || !b->n_codes)
		return rc;
	v = calloc(b->n_codes + 1, sizeof(*v));
	rc = v ? collect_blobs(b, v) : -AUX_E_NOMEM;
	for (size_t i = 0; rc == 0 && i < b->n_codes; i++)
		rc = add_own(b, v, i);
	free(v);
	return rc;
}
