/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * filter_symbols: code symbols of a file, as file offsets, which the kernel
 * compares with the offsets of mappings; and the list that symbols are
 * collected in.
 *
 * Invariant: an address becomes an offset by the program header that maps it,
 * never by its section: headers are what the loader maps, whatever the linker's
 * layout.
 * Specification: elf(5).
 */
#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/event/impl.h"
#include "common/array.h"
#include "common/diag.h"

int filter_sym_add(struct filter_syms *s, const struct filter_sym *sym)
{
	if (array_grow(&s->v, s->n, &s->cap, sizeof(*s->v)))
		return -AUX_E_NOMEM;
	s->v[s->n++] = *sym;
	return 0;
}

static int compare_syms(const void *a, const void *b)
{
	const struct filter_sym *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->bind - y->bind;	/* 'g' before 'l' before 'w' */
}

void filter_sym_sort(struct filter_syms *s)
{
	size_t i, k = 0;

	if (!s->n)
		return;
	qsort(s->v, s->n, sizeof(*s->v), compare_syms);
	for (i = 1; i < s->n; i++)
		if (s->v[i].addr != s->v[k].addr)
			s->v[++k] = s->v[i];
	s->n = k + 1;
}

/* The file offset of an address; false: it lies in no executable segment. */
static bool to_offset(Elf *elf, uint64_t addr, uint64_t *offset)
{
	size_t i, n;

	if (elf_getphdrnum(elf, &n))
		return false;
	for (i = 0; i < n; i++) {
		GElf_Phdr ph;

		if (!gelf_getphdr(elf, (int)i, &ph) || ph.p_type != PT_LOAD ||
		    !(ph.p_flags & PF_X) || addr < ph.p_vaddr ||
		    addr - ph.p_vaddr >= ph.p_filesz)
			continue;
		*offset = addr - ph.p_vaddr + ph.p_offset;
		return true;
	}
	return false;
}

static char binding(const GElf_Sym *sym)
{
	switch (GELF_ST_BIND(sym->st_info)) {
	case STB_LOCAL:
		return 'l';
	case STB_WEAK:
		return 'w';
	default:
		return 'g';
	}
}

static bool is_code(const GElf_Sym *sym)
{
	int type = GELF_ST_TYPE(sym->st_info);

	return sym->st_shndx != SHN_UNDEF && sym->st_shndx < SHN_LORESERVE &&
	       (type == STT_FUNC || type == STT_NOTYPE ||
		type == STT_GNU_IFUNC);
}

/* "name", or "name@VERSION" as some symtabs have it. */
static bool same_name(const char *have, const char *want)
{
	size_t n = strlen(want);

	return !strncmp(have, want, n) && (!have[n] || have[n] == '@');
}

/* For a symbol without a size (assembly code): the distance to the next one. */
static uint64_t distance_to_next(Elf_Data *data, size_t n, const GElf_Sym *sym)
{
	uint64_t next = UINT64_MAX;
	GElf_Sym other;
	size_t i;

	for (i = 0; i < n; i++)
		if (gelf_getsym(data, (int)i, &other) && is_code(&other) &&
		    other.st_shndx == sym->st_shndx &&
		    other.st_value > sym->st_value && other.st_value < next)
			next = other.st_value;
	return next == UINT64_MAX ? 0 : next - sym->st_value;
}

static int scan_table(Elf *elf, Elf_Scn *scn, const GElf_Shdr *sh,
		      const char *name, struct filter_syms *s)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	size_t i, n = sh->sh_entsize ? sh->sh_size / sh->sh_entsize : 0;
	int ret = 0;

	for (i = 0; data && i < n && !ret; i++) {
		struct filter_sym f;
		const char *have;
		GElf_Sym sym;

		if (!gelf_getsym(data, (int)i, &sym) || !is_code(&sym))
			continue;
		have = elf_strptr(elf, sh->sh_link, sym.st_name);
		if (!have || !same_name(have, name) ||
		    !to_offset(elf, sym.st_value, &f.addr))
			continue;
		f.size = sym.st_size ? sym.st_size :
				       distance_to_next(data, n, &sym);
		f.bind = binding(&sym);
		ret = filter_sym_add(s, &f);
	}
	return ret;
}

static int scan_tables(Elf *elf, const char *name, struct filter_syms *s)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;
	int ret = 0;

	while (!ret && (scn = elf_nextscn(elf, scn)))
		if (gelf_getshdr(scn, &sh) && (sh.sh_type == SHT_SYMTAB ||
					       sh.sh_type == SHT_DYNSYM))
			ret = scan_table(elf, scn, &sh, name, s);
	filter_sym_sort(s);
	return ret;
}

int filter_syms_elf(const char *path, const char *name, struct filter_syms *s,
		   struct aux_diag *diag)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	Elf *elf = NULL;
	int ret = 0;

	memset(s, 0, sizeof(*s));
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		ret = diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
			       "--filter: %s cannot be read, or is no file",
			       path);
		goto out;
	}
	s->last = (uint64_t)st.st_size;
	elf_version(EV_CURRENT);
	elf = name ? elf_begin(fd, ELF_C_READ, NULL) : NULL;
	if (name && (!elf || elf_kind(elf) != ELF_K_ELF))
		ret = diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
			       "--filter: %s is not an ELF file and has no "
			       "symbols; give offsets: filter 0xSTART/0xSIZE @ "
			       "FILE", path);
	else if (name)
		ret = scan_tables(elf, name, s);
out:
	elf_end(elf);
	if (fd >= 0)
		close(fd);
	return ret;
}
