/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elfimage: the names, sorted by file offset. A look-up is a binary search for
 * the nearest start, then a walk outwards through the symbols around it.
 *
 * Specification: System V ABI, "Symbol Table"; ELF for the Arm Architecture,
 * "Mapping symbols" (which are no names) and bit 0 of Thumb functions.
 */
#include <stdlib.h>

#include <aux/error.h>

#include "decode/lib/elf/impl.h"

#define MAX_UNSIZED 4096 /* bytes a symbol without a size may reach */

void elfimage_add_symbol(struct elfimage *im, const char *name, uint64_t addr,
			 uint64_t size, bool global, bool label)
{
	uint64_t off, left;
	struct sym *p;

	if (!elfimage_offset(im, addr, &off, &left))
		return;
	if (im->n_syms == im->cap_syms) {
		size_t cap = im->cap_syms ? 2 * im->cap_syms : 256;

		p = cap < UINT32_MAX ? reallocarray(im->syms, cap, sizeof(*p)) :
				       NULL;
		if (!p)
			return;
		im->syms = p;
		im->cap_syms = cap;
	}
	im->syms[im->n_syms++] = (struct sym){
		.start = off, .end = off + (size < left ? size : left),
		.name = name, .global = global, .label = label,
	};
}

/* In an object values count from the section. */
static bool place_symbol(const struct elfimage *from, Elf64_Sym *s)
{
	const struct elf_section *in;

	if (from->type != ET_REL)
		return true;
	if (s->st_shndx >= from->n_sections)
		return false;
	in = &from->sections[s->st_shndx];
	if (!in->placed || s->st_value > in->h.sh_size)
		return false;
	s->st_value += in->h.sh_addr;
	return true;
}

/* $a, $t, $d, $x, and those with a dot behind. */
static bool is_mapping(const struct elfimage *im, const char *name)
{
	return (im->machine == EM_ARM || im->machine == EM_AARCH64) &&
	       name[0] == '$' && name[1] && strchr("atdx", name[1]) &&
	       (!name[2] || name[2] == '.');
}

void elfimage_add_table(struct elfimage *im, const struct elfimage *from,
			const struct elf_section *table)
{
	const char *name;
	Elf64_Sym s;

	for (uint64_t i = 1; elfimage_get_symbol(table, i, &s); i++) {
		unsigned type = ELF64_ST_TYPE(s.st_info);

		if (s.st_shndx == SHN_UNDEF || s.st_shndx == SHN_ABS ||
		    (type != STT_FUNC && type != STT_GNU_IFUNC &&
		     type != STT_NOTYPE) || !place_symbol(from, &s))
			continue;
		name = elfimage_string(from, table->h.sh_link, s.st_name);
		if (!name || !*name || is_mapping(im, name))
			continue;
		if (im->machine == EM_ARM && type == STT_FUNC)
			s.st_value &= ~UINT64_C(1);
		elfimage_add_symbol(im, name, s.st_value, s.st_size,
				    ELF64_ST_BIND(s.st_info) != STB_LOCAL,
				    type == STT_NOTYPE && !s.st_size);
	}
}

/* By start; of equal starts the best name last: sized, then global, then
 * without a version, then the one with fewer underscores before it (malloc, not
 * __libc_malloc). */
static int by_start(const void *a, const void *b)
{
	const struct sym *x = a, *y = b;
	bool sx = x->end > x->start, sy = y->end > y->start;
	bool vx = strchr(x->name, '@'), vy = strchr(y->name, '@');
	size_t ux = strspn(x->name, "_"), uy = strspn(y->name, "_");

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (sx != sy)
		return sx ? 1 : -1;
	if (x->global != y->global)
		return x->global ? 1 : -1;
	if (vx != vy)
		return vx ? -1 : 1;
	if (ux != uy)
		return ux < uy ? 1 : -1;
	return -strcmp(x->name, y->name);
}

bool elfimage_better(const struct sym *a, const struct sym *b)
{
	return by_start(a, b) > 0;
}

/* One symbol for each start. */
static void drop_aliases(struct elfimage *im)
{
	size_t n = 0;

	for (size_t i = 0; i < im->n_syms; i++) {
		if (i + 1 < im->n_syms &&
		    im->syms[i + 1].start == im->syms[i].start)
			continue;
		im->syms[n++] = im->syms[i];
	}
	im->n_syms = n;
}

/* A label inside a function is not where another one begins. */
static void drop_labels(struct elfimage *im)
{
	uint64_t end = 0;
	size_t n = 0;

	for (size_t i = 0; i < im->n_syms; i++) {
		const struct sym *s = &im->syms[i];

		if (s->label && s->start < end)
			continue;
		if (s->end > end)
			end = s->end;
		im->syms[n++] = *s;
	}
	im->n_syms = n;
}

/* What has no size reaches to the next one, at most a page. */
static void give_sizes(struct elfimage *im)
{
	for (size_t i = 0; i < im->n_syms; i++) {
		struct sym *s = &im->syms[i];

		if (s->end > s->start)
			continue;
		s->end = s->start + MAX_UNSIZED;
		if (i + 1 < im->n_syms && im->syms[i + 1].start < s->end)
			s->end = im->syms[i + 1].start;
	}
}

/* Links each symbol to the nearest one before it that reaches beyond it. */
static void link_parents(struct elfimage *im)
{
	uint32_t top = 0;

	for (size_t i = 0; i < im->n_syms; i++) {
		struct sym *s = &im->syms[i];

		while (top && im->syms[top - 1].end <= s->start)
			top = im->syms[top - 1].parent;
		s->parent = top;
		top = (uint32_t)i + 1;
	}
}

static const struct elf_section *find_table(const struct elfimage *im,
					    uint32_t type)
{
	for (size_t i = 0; i < im->n_sections; i++) {
		if (im->sections[i].h.sh_type == type)
			return &im->sections[i];
	}
	return NULL;
}

static void load_syms(struct elfimage *im)
{
	const struct elf_section *table = find_table(im, SHT_SYMTAB);
	const struct elfimage *from = im;

	if (!table) {
		elfimage_find_debug(im);
		from = im->debug ? im->debug : im->mini;
		table = from ? find_table(from, SHT_SYMTAB) : NULL;
	}
	if (table)
		elfimage_add_table(im, from, table);
	table = find_table(im, SHT_DYNSYM);
	if (table)
		elfimage_add_table(im, im, table);
	elfimage_add_plt(im);
	if (!im->n_syms)
		return;
	qsort(im->syms, im->n_syms, sizeof(*im->syms), by_start);
	drop_aliases(im);
	drop_labels(im);
	give_sizes(im);
	link_parents(im);
}

static const struct sym *find_sym(const struct elfimage *im, uint64_t offset)
{
	const struct sym *s;
	size_t lo = 0, n = im->n_syms;

	while (n) {
		size_t half = n / 2;

		if (im->syms[lo + half].start <= offset) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	while (lo) {
		s = &im->syms[lo - 1];
		if (offset < s->end)
			return s;
		lo = s->parent;
	}
	return NULL;
}

static void need_syms(struct elfimage *im)
{
	pthread_mutex_lock(&im->lock);
	if (!im->have_syms)
		load_syms(im);
	im->have_syms = true;
	pthread_mutex_unlock(&im->lock);
}

int elfimage_symbol(struct elfimage *im, uint64_t offset,
		    struct elfimage_symbol *sym)
{
	const struct sym *s;

	need_syms(im);
	s = find_sym(im, offset);
	if (!s)
		return -AUX_E_NOENT;
	sym->name = s->name;
	sym->start = s->start;
	sym->size = s->end - s->start;
	return 0;
}

/* Over the table of the file alone: for the few names that are asked for so. */
bool elfimage_find(struct elfimage *im, const char *name, uint64_t *value)
{
	const struct elf_section *table = find_table(im, SHT_SYMTAB);
	const char *have;
	Elf64_Sym s;

	if (!table)
		table = find_table(im, SHT_DYNSYM);
	for (uint64_t i = 1; table && elfimage_get_symbol(table, i, &s); i++) {
		if (s.st_shndx == SHN_UNDEF)
			continue;
		have = elfimage_string(im, table->h.sh_link, s.st_name);
		if (have && !strcmp(have, name)) {
			*value = s.st_value;
			return true;
		}
	}
	return false;
}
