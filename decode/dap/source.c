/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dap: source lines and their addresses, of the files that are mapped where the replay is.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/dap/impl.h"

struct place_line source_line_of(struct server *s, const struct space *space,
				 uint64_t ip)
{
	struct source_line l = { .file = NULL };

	if (!space || !s->host.line ||
	    s->host.line(s->host.priv, space, ip, &l) || !l.line)
		return (struct place_line){ .file = NULL };
	return (struct place_line){ l.file, l.line };
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The compiler's path of a file and the editor's may begin elsewhere. */
static bool is_same_file(const char *a, const char *b)
{
	return a && (!strcmp(a, b) || !strcmp(base_of(a), base_of(b)));
}

/* A file that is mapped, and what is to be added to its addresses; NULL after the
 * last. *m starts as NULL. */
static struct elfimage *next_image(struct server *s, const struct space *space,
				   const struct mapping **m, struct elfimage *last,
				   uint64_t *bias)
{
	uint64_t offset, addr;
	struct elfimage *im;

	if (!space)
		return NULL;
	while ((*m = space_next(space, *m ? (*m)->end : 0))) {
		if ((*m)->kind == MAPPING_USER && (*m)->path[0] == '/' &&
		    !codeview_image(s->codeview, space, (*m)->start, &im, &offset) &&
		    im != last && elfimage_addr(im, offset, &addr)) {
			*bias = (*m)->start - addr;
			return im;
		}
		if (!(*m)->end)
			break;
	}
	return NULL;
}

struct wanted {
	const char *path;
	uint32_t line;		/* or a later one: */
	uint32_t best;		/* the least that was found; 0: none */
	uint64_t *addrs;
	size_t n, max;
};

/* Where a line begins in a function: the lowest of its addresses there. */
static void look_at_function(struct wanted *w, struct elfimage *im,
			     const struct elfimage_function *f, uint64_t bias)
{
	uint64_t found = 0;
	uint32_t best = 0;

	for (size_t a = 0; a < f->n_areas; a++) {
		const struct source_row *rows;
		size_t n = elfimage_rows(im, f->areas[a].start, &rows);

		for (size_t i = 0; i < n && rows[i].addr < f->areas[a].end; i++) {
			uint32_t line = rows[i].line;

			if (line < w->line || (w->best && line > w->best) ||
			    !is_same_file(rows[i].file, w->path) ||
			    (best && (line > best || (line == best &&
						      rows[i].addr >= found))))
				continue;
			best = line;
			found = rows[i].addr;
		}
	}
	if (!best)
		return;
	if (best != w->best)
		w->n = 0;
	w->best = best;
	if (w->n < w->max)
		w->addrs[w->n++] = found + bias;
}

size_t source_addresses(struct server *s, const char *path, uint32_t *line,
			uint64_t *addrs, size_t max)
{
	struct wanted w = { .path = path, .line = *line, .addrs = addrs, .max = max };
	const struct space *space = dap_space(s);
	const struct mapping *m = NULL;
	struct elfimage *im = NULL;
	uint64_t bias;

	while ((im = next_image(s, space, &m, im, &bias))) {
		struct elfimage_function *v;
		size_t n;

		if (elfimage_functions(im, &v, &n))
			continue;
		for (size_t i = 0; i < n; i++)
			look_at_function(&w, im, &v[i], bias);
		free(v);
	}
	*line = w.best ? w.best : *line;
	return w.n;
}

static bool is_named(const struct elfimage_function *f, const char *name)
{
	return (f->name && !strcmp(f->name, name)) ||
	       (f->linkage && !strcmp(f->linkage, name));
}

size_t source_functions(struct server *s, const char *name, uint64_t *addrs,
			size_t max)
{
	const struct space *space = dap_space(s);
	const struct mapping *m = NULL;
	struct elfimage *im = NULL;
	uint64_t bias, value;
	size_t n = 0;

	while (n < max && (im = next_image(s, space, &m, im, &bias))) {
		struct elfimage_function *v;
		size_t n_functions;
		bool found = false;

		if (!elfimage_functions(im, &v, &n_functions)) {
			for (size_t i = 0; i < n_functions && n < max; i++)
				if (is_named(&v[i], name) && v[i].n_areas) {
					addrs[n++] = v[i].entry + bias;
					found = true;
				}
			free(v);
		}
		if (!found && n < max && elfimage_find(im, name, &value))
			addrs[n++] = value + bias;
	}
	return n;
}
