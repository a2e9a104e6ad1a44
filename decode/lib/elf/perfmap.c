/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * perfmap: see perfmap.h. Entries become disjoint pieces, found by bisection:
 * the borders of all entries are visited in rising order, with a heap of the
 * entries that are open there, the latest on top. So no file makes a question
 * slow.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

#include "decode/lib/elf/perfmap.h"

struct piece {
	uint64_t start, end;
	const struct perfmap_entry *e;
};

struct perfmap {
	struct perfmap_info info;
	char *text;		/* the file, with a NUL behind each name */
	struct perfmap_entry *v;	/* in the order of the file */
	size_t cap;
	struct piece *pieces;	/* by address */
	size_t n_pieces;
};

/* ---- lines ---- */

/* The value of a hexadecimal digit; 16: it is none. */
static unsigned int digit(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned int)(c - '0');
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? (unsigned int)(c - 'a') + 10 : 16;
}

/* A hexadecimal number of at most 64 bits, and the blanks behind it. */
static bool parse_hex(const char **s, const char *end, uint64_t *v)
{
	const char *p = *s, *from;

	if (end - p > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
		p += 2;
	from = p;
	for (*v = 0; p < end && digit(*p) < 16; p++) {
		if (*v >> 60)
			return false;
		*v = *v << 4 | digit(*p);
	}
	if (p == from || p == end || (*p != ' ' && *p != '\t'))
		return false;
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	*s = p;
	return true;
}

/* The line [s, end); *end can be written to. */
static bool parse_line(const char *s, char *end, struct perfmap_entry *e)
{
	if (end > s && end[-1] == '\r')
		end--;
	if (!parse_hex(&s, end, &e->start) || !parse_hex(&s, end, &e->size) ||
	    s == end || !*s || !e->size || e->start + e->size < e->start)
		return false;
	e->name = s;
	if (end - s > PERFMAP_MAX_NAME)
		end = (char *)(uintptr_t)s + PERFMAP_MAX_NAME;
	*end = '\0';
	return true;
}

static int parse(struct perfmap *p, size_t len)
{
	char *s = p->text, *end = s + len, *next;
	struct perfmap_entry e;

	for (; s < end; s = next + 1) {
		next = memchr(s, '\n', (size_t)(end - s));
		if (!next)
			next = end;
		if (next == s)
			continue;
		if (!parse_line(s, next, &e)) {
			p->info.n_skipped++;
		} else if (p->info.n_entries == PERFMAP_MAX_ENTRIES) {
			p->info.n_over++;
		} else if (array_grow(&p->v, p->info.n_entries, &p->cap,
				      sizeof(e)) < 0) {
			return -AUX_E_NOMEM;
		} else {
			p->v[p->info.n_entries++] = e;
		}
	}
	return 0;
}

/* ---- pieces ---- */

static int by_start(const void *a, const void *b)
{
	const struct perfmap_entry *x = *(struct perfmap_entry *const *)a;
	const struct perfmap_entry *y = *(struct perfmap_entry *const *)b;

	return x->start != y->start ? (x->start < y->start ? -1 : 1) :
				      (x > y) - (x < y);
}

static void heap_push(struct perfmap_entry **h, size_t n,
		      struct perfmap_entry *e)
{
	size_t up;

	for (; n && h[up = (n - 1) / 2] < e; n = up)
		h[n] = h[up];
	h[n] = e;
}

/* Removes the top of n entries. */
static void heap_pop(struct perfmap_entry **h, size_t n)
{
	struct perfmap_entry *e = h[--n];
	size_t i = 0, k;

	for (; (k = 2 * i + 1) < n; i = k) {
		if (k + 1 < n && h[k + 1] > h[k])
			k++;
		if (h[k] <= e)
			break;
		h[i] = h[k];
	}
	h[i] = e;
}

/* [start, end) is e's; the piece before is extended if it is e's, too. */
static void add_piece(struct perfmap *p, uint64_t start, uint64_t end,
		      const struct perfmap_entry *e)
{
	struct piece *last = p->n_pieces ? &p->pieces[p->n_pieces - 1] : NULL;

	if (last && last->e == e && last->end == start)
		last->end = end;
	else
		p->pieces[p->n_pieces++] = (struct piece){ start, end, e };
}

static uint64_t end_of(const struct perfmap_entry *e)
{
	return e->start + e->size;
}

/*
 * The address of an entry in v is its age. A piece ends where its entry does,
 * or where a later one begins: each entry begins one piece and ends one, so
 * there are at most two for each.
 */
static void cut(struct perfmap *p, struct perfmap_entry **sorted,
		struct perfmap_entry **heap)
{
	size_t i = 0, n_heap = 0, n = p->info.n_entries;
	uint64_t at = 0, until;

	while (i < n || n_heap) {
		if (!n_heap)
			at = sorted[i]->start;
		while (i < n && sorted[i]->start <= at)
			heap_push(heap, n_heap++, sorted[i++]);
		while (n_heap && end_of(heap[0]) <= at)
			heap_pop(heap, n_heap--);
		if (!n_heap)
			continue;
		until = end_of(heap[0]);
		if (i < n && sorted[i]->start < until)
			until = sorted[i]->start;
		add_piece(p, at, until, heap[0]);
		at = until;
	}
}

static int make_pieces(struct perfmap *p)
{
	size_t n = p->info.n_entries;
	struct perfmap_entry **work = calloc(2 * n + 1, sizeof(*work));

	p->pieces = calloc(2 * n + 1, sizeof(*p->pieces));
	if (!work || !p->pieces) {
		free(work);
		return -AUX_E_NOMEM;
	}
	for (size_t i = 0; i < n; i++)
		work[i] = &p->v[i];
	if (n)
		qsort(work, n, sizeof(*work), by_start);
	cut(p, work, work + n);
	free(work);
	return 0;
}

int perfmap_new(struct perfmap **pp, const uint8_t *data, size_t len)
{
	struct perfmap *p = calloc(1, sizeof(*p));

	*pp = NULL;
	if (!p)
		return -AUX_E_NOMEM;
	if (len > PERFMAP_MAX_BYTES) {
		p->info.n_over += len - PERFMAP_MAX_BYTES;
		len = PERFMAP_MAX_BYTES;
	}
	p->text = malloc(len + 1);
	if (p->text && len)
		memcpy(p->text, data, len);
	if (!p->text || parse(p, len) < 0 || make_pieces(p) < 0) {
		perfmap_free(p);
		return -AUX_E_NOMEM;
	}
	*pp = p;
	return 0;
}

void perfmap_free(struct perfmap *p)
{
	if (!p)
		return;
	free(p->text);
	free(p->v);
	free(p->pieces);
	free(p);
}

const struct perfmap_info *perfmap_info(const struct perfmap *p)
{
	return &p->info;
}

const struct perfmap_entry *perfmap_find(const struct perfmap *p, uint64_t ip)
{
	size_t lo = 0, n = p->n_pieces;

	while (n) {
		size_t half = n / 2;

		if (p->pieces[lo + half].start <= ip) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo && ip < p->pieces[lo - 1].end ? p->pieces[lo - 1].e : NULL;
}
