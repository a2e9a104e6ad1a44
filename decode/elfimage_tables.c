/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elfimage: sections, strings, symbols, relocations: one entry at a time,
 * checked against the file, in the widths of the 64-bit class.
 *
 * Specification: System V ABI, chapter "Object Files".
 */
#include "elfimage_priv.h"

#define MAX_NAME ((uint64_t)1 << 20)

const uint8_t *elfimage_section(const struct elfimage *im,
				const struct elf_section *s)
{
	struct cursor c;

	if (s->type == SHT_NOBITS)
		return NULL;
	c = elfimage_at(im, s->offset, s->size);
	return cursor_bytes(&c, s->size);
}

const char *elfimage_string(const struct elfimage *im, uint32_t section,
			    uint32_t offset)
{
	const struct elf_section *s;
	const uint8_t *p;
	uint64_t left;

	if (section >= im->n_sections)
		return NULL;
	s = &im->sections[section];
	p = elfimage_section(im, s);
	if (!p || offset >= s->size)
		return NULL;
	left = s->size - offset;
	if (!memchr(p + offset, 0, left < MAX_NAME ? left : MAX_NAME))
		return NULL;
	return (const char *)p + offset;
}

const char *elfimage_section_name(const struct elfimage *im,
				  const struct elf_section *s)
{
	const char *name = elfimage_string(im, im->names, s->name);

	return name ? name : "";
}

const struct elf_section *elfimage_named(const struct elfimage *im,
					 const char *name)
{
	for (size_t i = 0; i < im->n_sections; i++) {
		if (!strcmp(elfimage_section_name(im, &im->sections[i]), name))
			return &im->sections[i];
	}
	return NULL;
}

static uint64_t entry_size(const struct elfimage *im, uint32_t type)
{
	switch (type) {
	case SHT_SYMTAB:
	case SHT_DYNSYM:
		return im->wide ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
	case SHT_RELA:
		return im->wide ? sizeof(Elf64_Rela) : sizeof(Elf32_Rela);
	case SHT_REL:
		return im->wide ? sizeof(Elf64_Rel) : sizeof(Elf32_Rel);
	default:
		return 0;
	}
}

uint64_t elfimage_n_entries(const struct elfimage *im,
			    const struct elf_section *s)
{
	uint64_t size = entry_size(im, s->type);

	return size && elfimage_section(im, s) ? s->size / size : 0;
}

static struct cursor get_entry(const struct elfimage *im,
			       const struct elf_section *s, uint64_t i)
{
	uint64_t size = entry_size(im, s->type);

	if (i >= elfimage_n_entries(im, s))
		return (struct cursor){ .bad = true };
	return elfimage_at(im, s->offset + i * size, size);
}

bool elfimage_get_symbol(const struct elfimage *im, const struct elf_section *s,
			 uint64_t i, struct elf_symbol *sym)
{
	struct cursor c = get_entry(im, s, i);
	uint8_t info;

	if (c.bad)
		return false;
	sym->name = cursor_u32(&c);
	if (!im->wide) {
		sym->value = cursor_u32(&c);
		sym->size = cursor_u32(&c);
	}
	info = cursor_u8(&c);
	cursor_u8(&c);
	sym->shndx = cursor_u16(&c);
	if (im->wide) {
		sym->value = cursor_u64(&c);
		sym->size = cursor_u64(&c);
	}
	sym->type = info & 15;
	sym->bind = info >> 4;
	return !c.bad;
}

bool elfimage_get_reloc(const struct elfimage *im, const struct elf_section *s,
			uint64_t i, struct elf_reloc *r)
{
	struct cursor c = get_entry(im, s, i);

	if (c.bad || (s->type != SHT_REL && s->type != SHT_RELA))
		return false;
	*r = (struct elf_reloc){ 0 };
	if (im->wide) {
		uint64_t info;

		r->offset = cursor_u64(&c);
		info = cursor_u64(&c);
		r->type = (uint32_t)info;
		r->sym = (uint32_t)(info >> 32);
		if (s->type == SHT_RELA)
			r->addend = (int64_t)cursor_u64(&c);
	} else {
		uint32_t info;

		r->offset = cursor_u32(&c);
		info = cursor_u32(&c);
		r->type = info & 0xff;
		r->sym = info >> 8;
		if (s->type == SHT_RELA)
			r->addend = (int32_t)cursor_u32(&c);
	}
	return !c.bad;
}
