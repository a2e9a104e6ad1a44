/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bundle: writes the pages as AUX_OWN_CODE.
 *
 * Adjacent pages of a file are joined to blobs, so that a decoder sees few sections.
 * Blobs with equal contents are written once: the first record has the bytes, later
 * ones name its number (a library in many processes, pages after a fork).
 *
 * Invariant: no blob crosses a point where any mapping of its file starts or ends.
 * Each record maps a whole blob, so otherwise a process would get bytes that it
 * never mapped.
 *
 * Known fault: pages are sorted by where their file is mapped in this process, so
 * the numbers of the blobs, and the order of symbol records, differ with the address
 * layout of the run. What a decode of the bundle shows does not depend on them.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/edit/impl.h"

/* Contiguous bytes of a file. Blobs are sorted by bytes and disjoint. */
struct blob {
	const uint8_t *bytes;
	uint64_t len;
	uint64_t number;	/* of the first blob with the same bytes */
	size_t page;		/* index of the first page in it */
	bool written;		/* a record has brought its bytes */
};

struct blob_list {
	struct blob *v;
	size_t n;
	const uint8_t **breaks;	/* sorted; no blob crosses one */
	size_t n_breaks;
	uint32_t *slots;	/* hash table by contents: index + 1 */
	size_t n_slots;
};

static int by_bytes(const void *a, const void *b)
{
	const struct bundle_page *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	return x->len < y->len ? -1 : x->len > y->len;
}

/*
 * The order of the records: as the mappings came. Address comes last, so that
 * write_page sees the adjacent pages of one mapping together.
 */
static int by_process(const void *a, const void *b)
{
	const struct bundle_page *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static int by_pointer(const void *a, const void *b)
{
	const uint8_t *x = *(const uint8_t *const *)a;
	const uint8_t *y = *(const uint8_t *const *)b;

	return x < y ? -1 : x > y;
}

/* Sorted starts and ends of all mappings that have a page, each once. */
static int find_breaks(const struct bundle *b, struct blob_list *l)
{
	size_t n = 0;

	l->breaks = calloc(2 * b->n_pages + 1, sizeof(*l->breaks));
	if (!l->breaks)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < b->n_pages; i++) {
		l->breaks[n++] = b->pages[i].region;
		l->breaks[n++] = b->pages[i].region_end;
	}
	qsort(l->breaks, n, sizeof(*l->breaks), by_pointer);
	for (size_t i = 0; i < n; i++)
		if (!i || l->breaks[i] != l->breaks[l->n_breaks - 1])
			l->breaks[l->n_breaks++] = l->breaks[i];
	return 0;
}

/* The first break after p, or NULL. */
static const uint8_t *next_break(const struct blob_list *l, const uint8_t *p)
{
	size_t lo = 0, n = l->n_breaks;

	while (n) {
		if (l->breaks[lo + n / 2] <= p) {
			lo += n / 2 + 1;
			n -= n / 2 + 1;
		} else {
			n /= 2;
		}
	}
	return lo < l->n_breaks ? l->breaks[lo] : NULL;
}

/*
 * Appends [p, end) to the last blob if it is adjacent, no break lies between and the
 * size fits into one record; starts new blobs where one of these fails.
 */
static void add_bytes(struct blob_list *l, const uint8_t *p, const uint8_t *end,
		      size_t page)
{
	while (p < end) {
		struct blob *last = l->n ? &l->v[l->n - 1] : NULL;
		const uint8_t *stop = next_break(l, p);
		uint64_t n = (uint64_t)(end - p);

		if (stop && stop < end)
			n = (uint64_t)(stop - p);
		if (last && last->bytes + last->len == p &&
		    next_break(l, last->bytes) == stop &&
		    last->len + n <= AUX_OWN_CODE_MAX)
			last->len += n;
		else
			l->v[l->n++] = (struct blob){ .bytes = p, .len = n,
						     .page = page };
		p += n;
	}
}

/*
 * Joins all pages to blobs. Pages may overlap (one file at addresses that differ by less
 * than a page), so each contributes only what the pages before it did not.
 * Room: a blob starts at a page or at a break.
 */
static int make_blobs(struct bundle *b, struct blob_list *l)
{
	const uint8_t *end = NULL;
	size_t n = b->n_pages;

	if (find_breaks(b, l) < 0)
		return -AUX_E_NOMEM;
	l->v = calloc(n + l->n_breaks + 1, sizeof(*l->v));
	if (!l->v)
		return -AUX_E_NOMEM;
	if (n)
		qsort(b->pages, n, sizeof(*b->pages), by_bytes);
	for (size_t i = 0; i < n; i++) {
		const struct bundle_page *p = &b->pages[i];
		const uint8_t *from = p->bytes;

		if (end && from < end)
			from = end;
		if (from >= p->bytes + p->len)
			continue;
		add_bytes(l, from, p->bytes + p->len, i);
		end = p->bytes + p->len;
	}
	return 0;
}

/* A hash of contents; equality is checked with memcmp, so collisions are harmless. */
static uint64_t hash(const uint8_t *p, uint64_t len)
{
	uint64_t h = len, v;

	for (; len >= 8; len -= 8, p += 8) {
		memcpy(&v, p, 8);
		h = (h ^ v) * 0xff51afd7ed558ccd;
		h ^= h >> 32;
	}
	while (len--)
		h = (h ^ *p++) * 0xc4ceb9fe1a85ec53;
	return h ^ h >> 29;
}

/* Sets each blob's number to that of the first one with its bytes. Numbers continue
 * after those the input uses. */
static int number_blobs(struct bundle *b, struct blob_list *l)
{
	for (l->n_slots = 1024; l->n_slots < 2 * l->n;)
		l->n_slots *= 2;
	l->slots = calloc(l->n_slots, sizeof(*l->slots));
	if (!l->slots)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < l->n; i++) {
		struct blob *r = &l->v[i];
		size_t at = hash(r->bytes, r->len) & (l->n_slots - 1);

		r->number = b->blob + i;
		for (; l->slots[at]; at = (at + 1) & (l->n_slots - 1)) {
			const struct blob *o = &l->v[l->slots[at] - 1];

			if (o->len != r->len ||
			    memcmp(o->bytes, r->bytes, r->len) != 0)
				continue;
			r->number = o->number;
			break;
		}
		if (!l->slots[at])
			l->slots[at] = (uint32_t)i + 1;
	}
	return 0;
}

/* The blob that contains *p. */
static struct blob *find_blob(struct blob_list *l, const uint8_t *p)
{
	size_t lo = 0, n = l->n;

	while (n) {
		if (l->v[lo + n / 2].bytes <= p) {
			lo += n / 2 + 1;
			n -= n / 2 + 1;
		} else {
			n /= 2;
		}
	}
	return &l->v[lo - 1];	/* every byte of a page is in one */
}

/*
 * One AUX_OWN_CODE: blob r at addr, for the process of p since p's time. with_bytes is
 * false if an earlier record has brought the bytes.
 */
static void write_code(struct rewrite *w, const struct bundle_page *p,
		       const struct blob *r, uint64_t addr, bool swapped,
		       bool with_bytes)
{
	struct rewrite_bytes out = { .swap = swapped };

	rewrite_bytes_u64(&out, p->time);
	rewrite_bytes_u64(&out, addr);
	rewrite_bytes_u64(&out, r->len);
	rewrite_bytes_u64(&out, r->number);
	rewrite_bytes_u32(&out, p->pid);
	rewrite_bytes_u32(&out, p->kind);
	if (with_bytes)
		rewrite_bytes_put(&out, r->bytes, r->len);
	if (!out.oom)
		rewrite_own(w, AUX_OWN_CODE, out.data, out.len);
	free(out.data);
}

/* The first blob with the bytes of r, whose record brings them. */
static struct blob *owner_of(const struct bundle *b, struct blob_list *l,
			     const struct blob *r)
{
	return &l->v[r->number - b->blob];
}

/*
 * Writes a record for each blob that the page touches. Pages of one mapping come in
 * ascending order, so a blob that spans several is written with the first: again is
 * true if the page before has the same process, time and displacement from
 * address to bytes, and reaches into this blob.
 */
static void write_page(struct bundle *b, struct rewrite *w, struct blob_list *l,
		       const struct bundle_page *p,
		       const struct bundle_page *last,
		       struct bundle_stats *stats)
{
	bool swapped = aux_reader_info(session_reader(b->s))->swapped;
	const uint8_t *at = p->bytes, *end = p->bytes + p->len;

	while (at < end) {
		struct blob *r = find_blob(l, at), *owner = owner_of(b, l, r);
		uint64_t addr = p->addr - (uint64_t)(p->bytes - r->bytes);
		bool again = last && last->pid == p->pid &&
			     last->time == p->time &&
			     last->addr - (uintptr_t)last->bytes ==
				     p->addr - (uintptr_t)p->bytes &&
			     last->bytes + last->len > r->bytes;

		if (!again) {
			write_code(w, p, r, addr, swapped, !owner->written);
			stats->n_bytes += owner->written ? 0 : r->len;
			owner->written = true;
		}
		at = r->bytes + r->len;
	}
}

/*
 * Names are written once for each blob, before qsort changes the indexes of pages. The
 * first page of the blob stands for all: symbols belong to the file.
 */
static int write_names(struct bundle *b, struct rewrite *w,
		       const struct blob_list *l, struct bundle_stats *stats)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < l->n; i++) {
		struct bundle_page p = b->pages[l->v[i].page];

		p.addr += (uint64_t)(l->v[i].bytes - p.bytes);
		p.bytes = l->v[i].bytes;
		stats->n_pages += (l->v[i].len + BUNDLE_PAGE - 1) / BUNDLE_PAGE;
		rc = bundle_write_names(b, w, &p, l->v[i].len,
					&stats->n_symbols);
	}
	return rc;
}

int bundle_write(struct bundle *b, struct rewrite *w, struct bundle_stats *stats)
{
	struct blob_list l = { 0 };
	int rc = b->oom ? -AUX_E_NOMEM : make_blobs(b, &l);

	*stats = (struct bundle_stats){ .n_insns = b->n_insns };
	if (rc == 0)
		rc = number_blobs(b, &l);
	if (rc == 0)
		rc = write_names(b, w, &l, stats);
	if (rc == 0 && b->n_pages)
		qsort(b->pages, b->n_pages, sizeof(*b->pages), by_process);
	for (size_t i = 0; rc == 0 && i < b->n_pages; i++) {
		write_page(b, w, &l, &b->pages[i],
			   i ? &b->pages[i - 1] : NULL, stats);
		rc = rewrite_failed(w);
	}
	free(l.v);
	free(l.breaks);
	free(l.slots);
	return rc;
}
