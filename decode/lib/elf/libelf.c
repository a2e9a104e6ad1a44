/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elfimage: headers, sections, strings, symbols, relocations and notes, through
 * libelf; only this file and dwarf.c use it.
 *
 * libelf trusts much of what a file says: it copies whole sections to convert
 * them, and searches for the end of each string. So requests are limited first:
 * only sections inside the file that are not compressed, and not more of them
 * than twice the file's size, since headers may let a thousand sections share
 * the same bytes.
 *
 * Everything libelf keeps is made when a file is opened; afterwards it only
 * reads, so any thread may call.
 *
 * Specification: System V ABI, chapters "Object Files" and "Program Loading".
 */
#include <gelf.h>
#include <libintl.h>
#include <stdlib.h>
#include <string.h>

#include <aux/error.h>

#include "decode/lib/elf/impl.h"

#define MAX_NOTES  65536 /* bytes of a segment or section searched for a build id */
#define MAX_PLACES 64	 /* note segments and sections searched */
#define MAX_NAME   65536 /* longer names are ignored */

/* All program headers. A file without any (an object) is no error. */
static int read_segments(struct elfimage *im)
{
	size_t n;

	if (elf_getphdrnum(im->libelf, &n) < 0 || !n ||
	    n > im->len / sizeof(Elf32_Phdr))
		return 0;
	im->segments = calloc(n, sizeof(*im->segments));
	if (!im->segments)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < n; i++) {
		Elf64_Phdr *p = &im->segments[i];

		if (!gelf_getphdr(im->libelf, (int)i, p))
			return 0;
		/* A truncated file: keep what is there. */
		if (p->p_offset > im->len)
			p->p_filesz = 0;
		else if (p->p_filesz > im->len - p->p_offset)
			p->p_filesz = im->len - p->p_offset;
		if (p->p_filesz > UINT64_MAX - p->p_vaddr)
			p->p_filesz = UINT64_MAX - p->p_vaddr;
		im->n_segments++;
	}
	return 0;
}

/* left: bytes that sections may still have, see above. */
static void read_section(const struct elfimage *im, struct elf_section *s,
			 Elf_Scn *scn, uint64_t *left)
{
	Elf64_Shdr *h = &s->h;

	if (!gelf_getshdr(scn, h) || h->sh_type == SHT_NULL ||
	    h->sh_type == SHT_NOBITS || h->sh_flags & SHF_COMPRESSED ||
	    !h->sh_size || h->sh_offset > im->len ||
	    h->sh_size > im->len - h->sh_offset || h->sh_size > *left)
		return;
	*left -= h->sh_size;
	s->bytes = im->data + h->sh_offset;
	if (h->sh_type == SHT_SYMTAB || h->sh_type == SHT_DYNSYM ||
	    h->sh_type == SHT_RELA)
		s->table = elf_getdata(scn, NULL);
	/* A table without a final NUL would be searched for one again and
	 * again. */
	if (h->sh_type == SHT_STRTAB && !s->bytes[h->sh_size - 1])
		s->strings = elf_rawdata(scn, NULL);
}

/* All section headers, then their names. */
static int read_sections(struct elfimage *im)
{
	uint64_t left = 2 * im->len;
	size_t n, names;

	if (elf_getshdrnum(im->libelf, &n) < 0 || !n ||
	    n > im->len / sizeof(Elf32_Shdr))
		return 0;
	im->sections = calloc(n, sizeof(*im->sections));
	if (!im->sections)
		return -AUX_E_NOMEM;
	im->n_sections = n;
	for (size_t i = 0; i < n; i++)
		read_section(im, &im->sections[i], elf_getscn(im->libelf, i),
			     &left);
	if (elf_getshdrstrndx(im->libelf, &names) < 0)
		names = SHN_UNDEF;
	for (size_t i = 0; i < n; i++) {
		struct elf_section *s = &im->sections[i];

		s->name = elfimage_string(im, names, s->h.sh_name);
		if (!s->name)
			s->name = "";
	}
	return 0;
}

/* Looks for NT_GNU_BUILD_ID; true when it is found. Alignment 8 has other
 * padding. */
static bool parse_notes(struct elfimage *im, uint64_t offset, uint64_t size,
		       uint64_t align)
{
	Elf_Data *d = elf_getdata_rawchunk(im->libelf, (int64_t)offset,
					   size < MAX_NOTES ? size : MAX_NOTES,
					   align == 8 ? ELF_T_NHDR8 :
							ELF_T_NHDR);
	size_t pos = 0, name, desc;
	GElf_Nhdr n;

	while (d && pos < d->d_size &&
	       (pos = gelf_getnote(d, pos, &n, &name, &desc)) > 0) {
		const char *p = d->d_buf;

		if (n.n_type != NT_GNU_BUILD_ID || n.n_namesz != 4 ||
		    memcmp(p + name, "GNU", 4) || !n.n_descsz ||
		    n.n_descsz > BUILD_ID_MAX)
			continue;
		memcpy(im->build_id, p + desc, n.n_descsz);
		im->build_id_size = n.n_descsz;
		return true;
	}
	return false;
}

/* Segments first: a stripped file may lack section headers. */
static void find_build_id(struct elfimage *im)
{
	unsigned n = 0;

	for (size_t i = 0; i < im->n_segments && n < MAX_PLACES; i++) {
		const Elf64_Phdr *p = &im->segments[i];

		if (p->p_type == PT_NOTE && ++n &&
		    parse_notes(im, p->p_offset, p->p_filesz, p->p_align))
			return;
	}
	for (size_t i = 0; i < im->n_sections && n < MAX_PLACES; i++) {
		const Elf64_Shdr *h = &im->sections[i].h;

		if (h->sh_type == SHT_NOTE && ++n &&
		    parse_notes(im, h->sh_offset, h->sh_size, h->sh_addralign))
			return;
	}
}

/*
 * errno cannot tell: malloc leaves ENOMEM there when the heap could not grow in place,
 * though it then found memory elsewhere (where something is mapped behind the heap, as
 * often under qemu-user). The numbers of the libraries' own errors are not public, so
 * theirs are known by their text, in the language in which they give it.
 */
bool elfimage_is_nomem(const char *text)
{
	return text && !strcmp(text, dgettext("elfutils", "out of memory"));
}

/* No ELF file is no error: im->elf says so. elf_memory wants writable bytes,
 * but writes only to compressed sections, which are never asked for here. */
int elfimage_elf_open(struct elfimage *im)
{
	int rc;
	GElf_Ehdr e;

	if (elf_version(EV_CURRENT) == EV_NONE)
		return 0;
	(void)elf_errno();
	im->libelf = elf_memory((char *)(uintptr_t)im->data, im->len);
	if (!im->libelf && elfimage_is_nomem(elf_errmsg(elf_errno())))
		return -AUX_E_NOMEM;
	if (elf_kind(im->libelf) != ELF_K_ELF || !gelf_getehdr(im->libelf, &e))
		return 0;
	im->elf = true;
	im->wide = e.e_ident[EI_CLASS] == ELFCLASS64;
	im->swap = (e.e_ident[EI_DATA] == ELFDATA2MSB) !=
		   (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
	im->type = e.e_type;
	im->machine = e.e_machine;
	rc = read_sections(im);
	if (!rc)
		rc = read_segments(im);
	if (!rc)
		find_build_id(im);
	return rc;
}

void elfimage_elf_close(struct elfimage *im)
{
	elf_end(im->libelf);
}

const char *elfimage_string(const struct elfimage *im, size_t section,
			    size_t offset)
{
	const char *s;

	if (section >= im->n_sections || !im->sections[section].strings)
		return NULL;
	s = elf_strptr(im->libelf, section, offset);
	return s && strnlen(s, MAX_NAME) < MAX_NAME ? s : NULL;
}

bool elfimage_get_symbol(const struct elf_section *s, uint64_t i,
			 Elf64_Sym *sym)
{
	return s->table && i <= INT32_MAX && gelf_getsym(s->table, (int)i, sym);
}

bool elfimage_get_reloc(const struct elf_section *s, uint64_t i, Elf64_Rela *r)
{
	return s->table && i <= INT32_MAX && gelf_getrela(s->table, (int)i, r);
}

/* ---- what a debugger asks ---- */

void elfimage_start(const struct elfimage *im, struct elfimage_start *start)
{
	GElf_Ehdr eh;

	*start = (struct elfimage_start){ .dynamic = 0 };
	for (size_t i = 0; i < im->n_segments; i++)
		if (im->segments[i].p_type == PT_DYNAMIC)
			start->dynamic = im->segments[i].p_vaddr;
	if (!im->libelf || !gelf_getehdr(im->libelf, &eh))
		return;
	start->entry = eh.e_entry;
	start->n_headers = eh.e_phnum;
	start->header_size = eh.e_phentsize;
	if (!elfimage_addr(im, eh.e_phoff, &start->headers))
		start->headers = 0;
}

const uint8_t *elfimage_constant(const struct elfimage *im, uint64_t addr,
				 uint64_t *left)
{
	for (size_t i = 0; i < im->n_segments; i++) {
		const Elf64_Phdr *p = &im->segments[i];

		if (p->p_type != PT_LOAD || p->p_flags & PF_W ||
		    addr < p->p_vaddr || addr - p->p_vaddr >= p->p_filesz ||
		    p->p_offset > im->len ||
		    p->p_filesz > im->len - p->p_offset)
			continue;
		*left = p->p_filesz - (addr - p->p_vaddr);
		return im->data + p->p_offset + (addr - p->p_vaddr);
	}
	return NULL;
}
