/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bundle_symbols: the names in a bundle, as one table of all entries by file
 * and offset. A file is a path and a build id, as in the records of its
 * mappings. Nothing in a record is trusted: entries that do not fit are left
 * out.
 *
 * Specification: AUX_OWN_SYMBOLS in <aux/extension.h>.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/bytes.h"

#include "decode/lib/code/impl.h"
#include "decode/lib/sideband/sideband.h"

struct names_file {
	const char *path;	/* in the record, no NUL */
	uint32_t path_len;
	uint32_t id_size;
	const uint8_t *id;
};

struct entry {
	uint32_t file;
	uint64_t first, end;	/* file offsets that have the name */
	uint64_t start, size;	/* of the symbol, which may be larger */
	const char *name;
};

struct bundle_symbols {
	struct names_file *files;
	size_t n_files, cap_files;
	struct entry *v;
	size_t n, cap;
};

bool bundle_symbols_expected(const struct aux_reader *r)
{
	const char *bundle = aux_reader_source(r, "bundle");

	return bundle && !strcmp(bundle, "1");
}

static int64_t find_file(const struct bundle_symbols *b,
			 const struct names_file *f)
{
	for (size_t i = 0; i < b->n_files; i++) {
		const struct names_file *o = &b->files[i];

		if (o->path_len == f->path_len && o->id_size == f->id_size &&
		    !memcmp(o->path, f->path, f->path_len) &&
		    !memcmp(o->id, f->id, f->id_size))
			return (int64_t)i;
	}
	return -1;
}

/* The index of a file, made if it is new; negative: out of memory. */
static int64_t get_file(struct bundle_symbols *b, const struct names_file *f)
{
	int64_t i = find_file(b, f);

	if (i >= 0)
		return i;
	if (b->n_files >= UINT32_MAX ||
	    array_grow(&b->files, b->n_files, &b->cap_files,
		       sizeof(*b->files)) < 0)
		return -1;
	b->files[b->n_files] = *f;
	return (int64_t)b->n_files++;
}

/* Skips an entry with an empty range or a name that has no end. */
static int add_entry(struct bundle_symbols *b, struct cursor *c, uint32_t file,
		     const uint8_t *names, uint32_t names_len)
{
	struct entry e = { .file = file };
	uint64_t name;

	e.first = cursor_u64(c);
	e.end = cursor_u64(c);
	e.start = cursor_u64(c);
	e.size = cursor_u64(c);
	name = cursor_u64(c);
	if (c->bad || e.first >= e.end || name >= names_len ||
	    !memchr(names + name, 0, names_len - name))
		return 0;
	e.name = (const char *)names + name;
	if (array_grow(&b->v, b->n, &b->cap, sizeof(*b->v)) < 0)
		return -AUX_E_NOMEM;
	b->v[b->n++] = e;
	return 0;
}

/* The names of one file, or a part of them. */
static int add_record(struct bundle_symbols *b, const struct aux_event *ev,
		      bool swapped)
{
	struct cursor c = cursor_init(ev->own.payload.data,
				      ev->own.payload.len, swapped), entries;
	struct names_file f = { .id = cursor_bytes(&c, 20) };
	uint32_t n, names_len;
	const uint8_t *names, *v;
	int64_t file;
	int rc = 0;

	f.id_size = cursor_u32(&c);
	f.path_len = cursor_u32(&c);
	n = cursor_u32(&c);
	names_len = cursor_u32(&c);
	cursor_u32(&c);
	f.path = (const char *)cursor_bytes(&c, f.path_len);
	v = cursor_bytes(&c, (size_t)n * sizeof(struct aux_own_symbol));
	names = cursor_bytes(&c, names_len);
	if (c.bad || f.id_size > 20)
		return 0;
	file = get_file(b, &f);
	if (file < 0)
		return -AUX_E_NOMEM;
	entries = cursor_init(v, (size_t)n * sizeof(struct aux_own_symbol),
			      swapped);
	for (uint32_t i = 0; rc == 0 && i < n; i++)
		rc = add_entry(b, &entries, (uint32_t)file, names, names_len);
	return rc;
}

static int by_place(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

int bundle_symbols_new(struct bundle_symbols **out, struct aux_reader *r)
{
	struct bundle_symbols *b = calloc(1, sizeof(*b));
	bool swapped = aux_reader_info(r)->swapped;
	struct aux_event ev;
	int rc = b ? 0 : -AUX_E_NOMEM;

	*out = NULL;
	aux_reader_rewind(r);
	while (rc == 0 && aux_reader_next(r, &ev, NULL) > 0) {
		if (ev.type == AUX_RECORD_EVENT_TYPE &&
		    ev.own.kind == AUX_OWN_SYMBOLS)
			rc = add_record(b, &ev, swapped);
	}
	if (rc < 0 || !b->n) {
		bundle_symbols_free(b);
		return rc;
	}
	qsort(b->v, b->n, sizeof(*b->v), by_place);
	*out = b;
	return 0;
}

void bundle_symbols_free(struct bundle_symbols *b)
{
	if (!b)
		return;
	free(b->files);
	free(b->v);
	free(b);
}

int bundle_symbols_find(const struct bundle_symbols *b, const struct mapping *m,
			uint64_t offset, struct elfimage_symbol *sym)
{
	const struct names_file f = { m->path, (uint32_t)strlen(m->path),
				      m->build_id_size, m->build_id };
	int64_t file = find_file(b, &f);
	size_t lo = 0, n = b->n;
	const struct entry *e;

	while (n) {
		e = &b->v[lo + n / 2];
		if (file >= 0 && (e->file < file ||
				  (e->file == file && e->first <= offset))) {
			lo += n / 2 + 1;
			n -= n / 2 + 1;
		} else {
			n /= 2;
		}
	}
	e = lo ? &b->v[lo - 1] : NULL;
	if (file < 0 || !e || e->file != file || offset >= e->end)
		return -AUX_E_NOENT;
	sym->name = e->name;
	sym->start = e->start;
	sym->size = e->size;
	return 0;
}
