/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bundle: the names of a run of code as AUX_OWN_SYMBOLS. What a symbol lookup
 * says of each byte is written down as ranges, so that the bundle says the same.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/edit/bundle_impl.h"

#define NAMES_MAX 24000	/* bytes of names, and of entries, in one record */

/* A record that is being filled. */
struct names {
	struct rewrite *w;
	const struct mapping *m;
	struct rewrite_bytes entries, names;
	struct aux_own_symbol last;	/* not yet in entries */
	const char *last_name;
	uint64_t last_place;	/* among the names */
	uint32_t n;
	uint64_t *n_symbols;
	bool swapped, oom;
};

static void close_entry(struct names *o)
{
	const struct aux_own_symbol *s = &o->last;

	if (!o->last_name)
		return;
	rewrite_bytes_u64(&o->entries, s->first);
	rewrite_bytes_u64(&o->entries, s->end);
	rewrite_bytes_u64(&o->entries, s->start);
	rewrite_bytes_u64(&o->entries, s->size);
	rewrite_bytes_u64(&o->entries, s->name);
	o->last_name = NULL;
	o->n++;
	++*o->n_symbols;
}

static void write_record(struct names *o)
{
	size_t path_len = strlen(o->m->path);
	struct rewrite_bytes b = { .swap = o->swapped };

	close_entry(o);
	if (!o->n || path_len > 4096)
		goto out;
	rewrite_bytes_put(&b, o->m->build_id, sizeof(o->m->build_id));
	rewrite_bytes_u32(&b, o->m->build_id_size);
	rewrite_bytes_u32(&b, (uint32_t)path_len);
	rewrite_bytes_u32(&b, o->n);
	rewrite_bytes_u32(&b, (uint32_t)o->names.len);
	rewrite_bytes_u32(&b, 0);
	rewrite_bytes_put(&b, o->m->path, path_len);
	rewrite_bytes_put(&b, o->entries.data, o->entries.len);
	rewrite_bytes_put(&b, o->names.data, o->names.len);
	o->oom |= b.oom | o->entries.oom | o->names.oom;
	if (!o->oom)
		rewrite_own(o->w, AUX_OWN_SYMBOLS, b.data, b.len);
out:
	free(b.data);
	o->entries.len = o->names.len = 0;
	o->n = 0;
}

/* s is what there is at offset. */
static void add_symbol(struct names *o, const struct symbol *s, uint64_t start,
		       uint64_t offset)
{
	size_t len = strlen(s->name) + 1;

	if (o->last_name && o->last.end == offset && o->last.start == start &&
	    o->last.size == s->size && !strcmp(o->last_name, s->name)) {
		o->last.end++;
		return;
	}
	close_entry(o);
	if (len > NAMES_MAX)
		return;
	if (o->entries.len + sizeof(o->last) > NAMES_MAX ||
	    o->names.len + len > NAMES_MAX)
		write_record(o);
	o->last = (struct aux_own_symbol){ offset, offset + 1, start, s->size,
					   o->names.len };
	o->last_name = s->name;
	rewrite_bytes_put(&o->names, s->name, len);
}

int bundle_write_names(struct bundle *b, struct rewrite *w,
		       const struct bundle_page *page, uint64_t len,
		       uint64_t *n_symbols)
{
	struct codeview *cv = session_codeview(b->s);
	bool swapped = aux_reader_info(session_reader(b->s))->swapped;
	struct names o = { .w = w, .swapped = swapped, .n_symbols = n_symbols,
			   .m = space_find(page->space, page->addr) };
	struct symbol s;

	o.entries.swap = swapped;
	for (uint64_t i = 0; o.m && i < len; i++) {
		uint64_t ip = page->addr + i;
		uint64_t to_offset = o.m->pgoff - o.m->start;

		if (codeview_symbol(cv, page->space, ip, &s) == 0 && s.name)
			add_symbol(&o, &s, s.start + to_offset,
				   ip + to_offset);
		else
			close_entry(&o);
	}
	if (o.m)
		write_record(&o);
	free(o.entries.data);
	free(o.names.data);
	return o.oom ? -AUX_E_NOMEM : 0;
}
