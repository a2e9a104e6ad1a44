/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codeview: the place of each mapping: what is known of it, found once and
 * kept. The key is the mapping's address, since a mapping of the timeline never
 * changes.
 *
 * The table holds pointers: workers read a place after the lock is released,
 * when another worker may be growing the table. A place itself is complete
 * before its pointer is returned, and never moves or changes.
 */
#include <stdlib.h>
#include <string.h>

#include <aux/error.h>

#include "decode/lib/code/impl.h"
#include "decode/lib/elf/elf.h"

static size_t hash(const struct mapping *m)
{
	uint64_t h = (uintptr_t)m * UINT64_C(0x9e3779b97f4a7c15);

	return (size_t)(h >> 32);
}

/* The slot of a mapping, or the free one where it belongs. */
static struct place **find_slot(struct place **places, size_t cap,
				const struct mapping *m)
{
	size_t i = hash(m) & (cap - 1);

	while (places[i] && places[i]->m != m)
		i = (i + 1) & (cap - 1);
	return &places[i];
}

static bool grow(struct codeview *cv)
{
	size_t cap = cv->cap_places ? 2 * cv->cap_places : 64;
	struct place **v = calloc(cap, sizeof(*v));

	if (!v) {
		cv->nomem = true;
		return false;
	}
	for (size_t i = 0; i < cv->cap_places; i++) {
		if (cv->places[i])
			*find_slot(v, cap, cv->places[i]->m) = cv->places[i];
	}
	free(cv->places);
	cv->places = v;
	cv->cap_places = cap;
	return true;
}

static int by_path(const void *key, const void *entry)
{
	return strcmp(key, ((const struct known_id *)entry)->path);
}

static struct file_id recorded_id(const struct codeview *cv,
				  const struct mapping *m)
{
	struct file_id id = { .size = m->build_id_size };
	const struct known_id *k;

	memcpy(id.bytes, m->build_id, sizeof(id.bytes));
	if (id.size || !cv->n_ids)
		return id;
	k = bsearch(m->path, cv->ids, cv->n_ids, sizeof(*cv->ids), by_path);
	return k ? k->id : id;
}

/* Whether a path can lead to a file at all. */
static bool has_source(const struct mapping *m, const struct file_id *id)
{
	if (m->kind == MAPPING_KSYMBOL)
		return false;
	return codeview_is_file(m->path) || codeview_is_vdso(m->path) ||
	       (id->size && *m->path == '[');
}

/* Under the lock. */
static struct source *find_source(struct codeview *cv,
				  const struct space *space,
				  const struct mapping *m)
{
	struct file_id id = recorded_id(cv, m);
	struct source *s;

	if (!has_source(m, &id))
		return NULL;
	for (s = cv->sources; s; s = s->next) {
		if (s->kind == m->kind && !memcmp(&s->id, &id, sizeof(id)) &&
		    !strcmp(s->name, m->path))
			return s;
	}
	s = calloc(1, sizeof(*s));
	cv->nomem |= !s;
	if (!s)
		return NULL;
	s->id = id;
	s->kind = m->kind;
	s->name = strdup(m->path);
	if (!s->name) {
		cv->nomem = true;
		free(s);
		return NULL;
	}
	codeview_find(cv, s, space->pid);
	s->next = cv->sources;
	cv->sources = s;
	return s;
}

/* Under the lock. The object of a source as it was loaded at base. */
static struct elfmodule *find_module(struct codeview *cv, struct source *s,
				     uint64_t base)
{
	struct module *m;

	for (m = s->modules; m; m = m->next) {
		if (m->base == base)
			return m->code;
	}
	m = calloc(1, sizeof(*m));
	cv->nomem |= !m;
	if (!m)
		return NULL;
	m->base = base;
	m->nomem = elfmodule_new(&m->code, s->image, base,
				 codeview_kernel_address, cv) == -AUX_E_NOMEM;
	m->next = s->modules;
	s->modules = m;
	return m->code;
}

struct place *codeview_place(struct codeview *cv, const struct space *space,
			     const struct mapping *m)
{
	struct place **slot, *p = NULL;

	pthread_mutex_lock(&cv->lock);
	if (2 * cv->n_places >= cv->cap_places && !grow(cv))
		goto out;
	slot = find_slot(cv->places, cv->cap_places, m);
	p = *slot;
	if (p)
		goto out;
	p = calloc(1, sizeof(*p));
	cv->nomem |= !p;
	if (!p)
		goto out;
	*p = (struct place){ .m = m, .source = find_source(cv, space, m) };
	*slot = p;
	cv->n_places++;
	if (m->kind == MAPPING_MODULE && p->source && p->source->image &&
	    elfimage_is_object(p->source->image)) {
		codeview_kernel_open(cv, space);
		p->module = find_module(cv, p->source, m->start - m->pgoff);
	}
out:
	pthread_mutex_unlock(&cv->lock);
	return p;
}

/*
 * codeview: source lines and inlined functions: the file behind an address is
 * the one that codeview_symbol takes, and so is the place in it.
 */

/* ip lies at offset of image; addresses of the image are moved by move (to get
 * from offsets to ip) where it is one file's mapping. */
struct spot {
	struct elfimage *image;
	uint64_t offset;
	const struct mapping *m;
	uint64_t shift;		/* of a kernel: from linked to run time */
};

static bool find_user(struct codeview *cv, const struct space *space,
		      const struct mapping *m, uint64_t ip, struct spot *s)
{
	struct place *p;

	if (!codeview_is_file(m->path) && !codeview_is_vdso(m->path))
		return false;
	p = codeview_place(cv, space, m);
	s->image = p && p->source ? p->source->image : NULL;
	s->offset = ip - m->start + m->pgoff;
	return s->image;
}

static bool find_spot(struct codeview *cv, const struct space *space,
		      uint64_t ip, struct spot *s)
{
	const struct mapping *m = space_find(space, ip);

	*s = (struct spot){ .m = m };
	if (!m || codeview_is_jit(cv, space, m, ip))
		return false;
	if (m->kind == MAPPING_USER)
		return find_user(cv, space, m, ip, s);
	return codeview_kernel_image(cv, space, m, ip, &s->image, &s->offset,
				     &s->shift);
}

int codeview_image(struct codeview *cv, const struct space *space, uint64_t ip,
		   struct elfimage **im, uint64_t *offset)
{
	struct spot s;

	if (!space || !find_spot(cv, space, ip, &s))
		return -AUX_E_NOENT;
	*im = s.image;
	*offset = s.offset;
	return 0;
}

int codeview_line(struct codeview *cv, const struct space *space, uint64_t ip,
		  struct source_line *line)
{
	struct spot s;

	if (!space || !find_spot(cv, space, ip, &s))
		return -AUX_E_NOENT;
	return elfimage_line(s.image, s.offset, line);
}

int codeview_inlines(struct codeview *cv, const struct space *space,
		     uint64_t ip, struct inline_frame *frames, size_t max)
{
	struct spot s;
	uint64_t addr;
	int n;

	if (!space || !find_spot(cv, space, ip, &s))
		return -AUX_E_NOENT;
	n = elfimage_inlines(s.image, s.offset, frames, max);
	for (int i = 0; i < n && (size_t)i < max; i++) {
		if (s.m->kind == MAPPING_USER)
			frames[i].entry += s.m->start - s.m->pgoff;
		else if (elfimage_addr(s.image, frames[i].entry, &addr))
			frames[i].entry = addr + s.shift;
	}
	return n;
}
