/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codeview: what is known of each mapping, found once, kept by its address: a
 * mapping of the timeline never changes.
 */
#include <stdlib.h>
#include <string.h>

#include <aux/error.h>

#include "decode/lib/code/impl.h"

static size_t hash(const struct mapping *m)
{
	uint64_t h = (uintptr_t)m * UINT64_C(0x9e3779b97f4a7c15);

	return (size_t)(h >> 32);
}

/* The slot of a mapping, or the free one where it belongs. */
static struct place *find_slot(struct place *places, size_t cap,
			       const struct mapping *m)
{
	size_t i = hash(m) & (cap - 1);

	while (places[i].m && places[i].m != m)
		i = (i + 1) & (cap - 1);
	return &places[i];
}

static bool grow(struct codeview *cv)
{
	size_t cap = cv->cap_places ? 2 * cv->cap_places : 64;
	struct place *p = calloc(cap, sizeof(*p));

	if (!p)
		return false;
	for (size_t i = 0; i < cv->cap_places; i++) {
		if (cv->places[i].m)
			*find_slot(p, cap, cv->places[i].m) = cv->places[i];
	}
	free(cv->places);
	cv->places = p;
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
	if (!s)
		return NULL;
	s->id = id;
	s->kind = m->kind;
	s->name = strdup(m->path);
	if (!s->name) {
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
	if (!m)
		return NULL;
	m->base = base;
	elfmodule_new(&m->code, s->image, base, codeview_kernel_address, cv);
	m->next = s->modules;
	s->modules = m;
	return m->code;
}

struct place *codeview_place(struct codeview *cv, const struct space *space,
			     const struct mapping *m)
{
	struct place *p = NULL;

	pthread_mutex_lock(&cv->lock);
	if (2 * cv->n_places >= cv->cap_places && !grow(cv))
		goto out;
	p = find_slot(cv->places, cv->cap_places, m);
	if (p->m)
		goto out;
	*p = (struct place){ .m = m, .source = find_source(cv, space, m) };
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
