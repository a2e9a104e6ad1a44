/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows of sums: in memory by key, and as lines of a file. See fleet.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"
#include "decode/fleet/fleet.h"

#define BLOCK ((size_t)1 << 20)	/* bytes of keys in one piece */

struct row {
	uint64_t hash;
	const char *key;
	size_t len;
	uint64_t values[FLEET_VALUES];
};

struct block {
	struct block *next;
	size_t used, size;
	char bytes[];
};

struct fleet_rows {
	const struct fleet_kind *kind;
	struct row *v;
	size_t n, cap;
	uint32_t *slots;	/* index + 1; 0: free */
	size_t n_slots;		/* a power of two */
	struct block *blocks;
};

struct fleet_rows *fleet_rows_new(const struct fleet_kind *kind)
{
	struct fleet_rows *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->kind = kind;
	r->n_slots = 1024;
	r->slots = calloc(r->n_slots, sizeof(*r->slots));
	if (r->slots)
		return r;
	free(r);
	return NULL;
}

void fleet_rows_free(struct fleet_rows *r)
{
	if (!r)
		return;
	while (r->blocks) {
		struct block *b = r->blocks;

		r->blocks = b->next;
		free(b);
	}
	free(r->slots);
	free(r->v);
	free(r);
}

static uint64_t hash_of(const char *key, size_t len)
{
	uint64_t h = len * UINT64_C(0x9e3779b97f4a7c15), w;

	for (; len >= 8; key += 8, len -= 8) {
		memcpy(&w, key, 8);
		h = (h ^ w) * UINT64_C(0xff51afd7ed558ccd);
		h ^= h >> 32;
	}
	for (; len; key++, len--)
		h = (h ^ (uint8_t)*key) * UINT64_C(0x100000001b3);
	return h ^ h >> 29;
}

static int grow_slots(struct fleet_rows *r)
{
	size_t n = r->n_slots * 2, at;
	uint32_t *slots = calloc(n, sizeof(*slots));

	if (!slots)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < r->n; i++) {
		at = r->v[i].hash & (n - 1);
		while (slots[at])
			at = (at + 1) & (n - 1);
		slots[at] = (uint32_t)i + 1;
	}
	free(r->slots);
	r->slots = slots;
	r->n_slots = n;
	return 0;
}

/* NULL: out of memory. */
static const char *keep_key(struct fleet_rows *r, const char *key, size_t len)
{
	struct block *b = r->blocks;
	size_t size = len > BLOCK ? len : BLOCK;
	char *to;

	if (!b || b->size - b->used < len) {
		b = malloc(sizeof(*b) + size);
		if (!b)
			return NULL;
		*b = (struct block){ .next = r->blocks, .size = size };
		r->blocks = b;
	}
	to = b->bytes + b->used;
	memcpy(to, key, len);
	b->used += len;
	return to;
}

/* A new row, with what its joins begin from. NULL: out of memory. */
static struct row *add_row(struct fleet_rows *r, const char *key, size_t len, uint64_t hash)
{
	struct row *row;

	if (r->n == UINT32_MAX - 1 || array_grow(&r->v, r->n, &r->cap, sizeof(*r->v)))
		return NULL;
	row = &r->v[r->n];
	*row = (struct row){ .hash = hash, .len = len, .key = keep_key(r, key, len) };
	for (unsigned i = 0; i < r->kind->n_values; i++)
		if (r->kind->values[i].join == FLEET_MIN)
			row->values[i] = UINT64_MAX;
	return row->key ? row : NULL;
}

static bool join(uint64_t *a, const uint64_t *b, const struct fleet_kind *kind)
{
	bool fits = true;

	for (unsigned i = 0; i < kind->n_values; i++) {
		switch (kind->values[i].join) {
		case FLEET_SUM:
			fits &= !__builtin_add_overflow(a[i], b[i], &a[i]);
			break;
		case FLEET_MIN:
			a[i] = b[i] < a[i] ? b[i] : a[i];
			break;
		case FLEET_MAX:
			a[i] = b[i] > a[i] ? b[i] : a[i];
			break;
		}
	}
	return fits;
}

int fleet_rows_add(struct fleet_rows *r, const char *key, size_t len, const uint64_t *values)
{
	uint64_t hash = hash_of(key, len);
	struct row *row;
	size_t at;

	if (r->n >= r->n_slots / 2 && grow_slots(r))
		return -AUX_E_NOMEM;
	for (at = hash & (r->n_slots - 1); r->slots[at]; at = (at + 1) & (r->n_slots - 1)) {
		row = &r->v[r->slots[at] - 1];
		if (row->hash == hash && row->len == len && !memcmp(row->key, key, len))
			return join(row->values, values, r->kind) ? 0 : -AUX_E_LIMIT;
	}
	row = add_row(r, key, len, hash);
	if (!row)
		return -AUX_E_NOMEM;
	r->slots[at] = (uint32_t)++r->n;
	return join(row->values, values, r->kind) ? 0 : -AUX_E_LIMIT;
}

/* ---- order ---- */

static int compare_keys(const char *a, size_t n_a, const char *b, size_t n_b)
{
	int rc = memcmp(a, b, n_a < n_b ? n_a : n_b);

	return rc ? rc : n_a < n_b ? -1 : n_a > n_b;
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return compare_keys(x->key, x->len, y->key, y->len);
}

static void put_row(struct outbuf *out, const char *key, size_t len, const uint64_t *values,
		    unsigned n)
{
	char *p;

	outbuf_put(out, key, len);
	for (unsigned i = 0; i < n; i++) {
		p = outbuf_room(out, 22);
		if (!p)
			return;
		*p++ = '\t';
		out->p = fmt_dec(p, values[i]);
	}
	outbuf_put(out, "\n", 1);
}

void fleet_rows_write(struct fleet_rows *r, struct outbuf *out)
{
	if (r->n)
		qsort(r->v, r->n, sizeof(*r->v), compare_rows);
	for (size_t i = 0; i < r->n; i++)
		put_row(out, r->v[i].key, r->v[i].len, r->v[i].values, r->kind->n_values);
	memset(r->slots, 0, r->n_slots * sizeof(*r->slots));
	r->n = 0;
}

/* ---- fields ---- */

void fleet_put_escaped(struct outbuf *key, const char *text)
{
	for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
		size_t n = 0;

		while (s[n] >= ' ' && s[n] != '\\' && s[n] != 0x7f)
			n++;
		outbuf_put(key, (const char *)s, n);
		s += n;
		if (!*s)
			break;
		if (*s == '\t' || *s == '\n' || *s == '\r' || *s == '\\')
			outbuf_printf(key, "\\%c", *s == '\t' ? 't' : *s == '\n' ? 'n' :
						   *s == '\r' ? 'r' : '\\');
		else
			outbuf_printf(key, "\\0%03o", *s);
	}
}

void fleet_field(struct outbuf *key, const char *text)
{
	if (key->p != key->buf)
		outbuf_put(key, "\t", 1);
	if (*text == '\1') {	/* of rows that are carried */
		outbuf_put(key, "?", 1);
		text++;
	}
	fleet_put_escaped(key, text);
}

void fleet_field_number(struct outbuf *key, uint64_t v)
{
	char text[24];

	*fmt_dec(text, v) = '\0';
	fleet_field(key, text);
}

/* What a letter after \ stands for; 0: nothing. */
static char letter(char c)
{
	return c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c == '\\' ? c : 0;
}

/* What fleet_put_escaped made of a text, back; false: it made no such thing. */
static bool unescape(char *text)
{
	char *to = text;

	for (const char *s = text; *s; s++) {
		unsigned v = 0;

		if (*s != '\\') {
			*to++ = *s;
			continue;
		}
		s++;
		if (*s != '0') {
			*to = letter(*s);
			if (!*to++)
				return false;
			continue;
		}
		for (unsigned i = 1; i <= 3; i++) {
			if (s[i] < '0' || s[i] > '7')
				return false;
			v = v * 8 + (unsigned)(s[i] - '0');
		}
		if (!v || v > 255)
			return false;
		*to++ = (char)v;
		s += 3;
	}
	*to = '\0';
	return true;
}

int fleet_fields(struct fleet_row *row, char **fields, unsigned n)
{
	char *next = row->line;

	for (unsigned i = 0; i < n; i++) {
		fields[i] = next;
		if (!next)
			return -AUX_E_FORMAT;
		next = strchr(next, '\t');
		if (next)
			*next++ = '\0';
		if (!unescape(fields[i]))
			return -AUX_E_FORMAT;
	}
	return next ? -AUX_E_FORMAT : 0;
}

/* ---- lines of a file ---- */

static int refuse(struct aux_diag *diag, uint64_t at, const char *why)
{
	return diag_set(diag, AUX_E_FORMAT, at, "a row of a part %s", why);
}

/* Takes the values off the end of a line; what is before them is the key. */
static int take_values(struct fleet_row *row, size_t len, const struct fleet_kind *kind,
		       uint64_t at, struct aux_diag *diag)
{
	unsigned tabs = 0;

	for (unsigned i = kind->n_values; i; i--) {
		char *tab = memrchr(row->line, '\t', len), *end;

		if (!tab || tab[1] < '0' || tab[1] > '9')
			return refuse(diag, at, "has too few numbers");
		errno = 0;
		row->values[i - 1] = strtoull(tab + 1, &end, 10);
		if (errno || end != row->line + len)
			return refuse(diag, at, "has what is no number");
		len = (size_t)(tab - row->line);
		*tab = '\0';
	}
	row->key_len = len;
	for (size_t i = 0; i < len; i++)
		tabs += row->line[i] == '\t';
	return tabs + 1 == kind->n_keys ? 0 : refuse(diag, at, "has other fields than its kind");
}

int fleet_row_read(struct fleet_row *row, FILE *f, const struct fleet_kind *kind,
		   struct aux_diag *diag)
{
	off_t at = ftello(f);
	ssize_t n = getline(&row->line, &row->cap, f);
	uint64_t offset = at < 0 ? AUX_NO_OFFSET : (uint64_t)at;

	if (n < 0 && ferror(f))
		return diag_set(diag, AUX_E_IO, offset, "cannot read: %s", strerror(errno));
	if (n < 0)
		return 0;
	if (row->line[n - 1] != '\n')
		return refuse(diag, offset, "is cut off");
	row->line[--n] = '\0';
	if (memchr(row->line, '\0', (size_t)n))
		return refuse(diag, offset, "has a zero byte");
	return take_values(row, (size_t)n, kind, offset, diag) ? -AUX_E_FORMAT : 1;
}

void fleet_row_fini(struct fleet_row *row)
{
	free(row->line);
	*row = (struct fleet_row){ 0 };
}

void fleet_row_write(struct outbuf *out, const struct fleet_row *row,
		     const struct fleet_kind *kind)
{
	put_row(out, row->line, row->key_len, row->values, kind->n_values);
}

int fleet_row_compare(const struct fleet_row *a, const struct fleet_row *b)
{
	return compare_keys(a->line, a->key_len, b->line, b->key_len);
}

bool fleet_row_join(struct fleet_row *a, const struct fleet_row *b,
		    const struct fleet_kind *kind)
{
	return join(a->values, b->values, kind);
}
