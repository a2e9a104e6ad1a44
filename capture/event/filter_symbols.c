/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * addrfilter_elf: code symbols of a file as file offsets, which is what the
 * kernel compares with the offsets of mappings.
 *
 * Invariant: an address becomes an offset by the program header that maps it,
 * never by its section, so that any linker's layout is right.
 * Specification: elf(5).
 */
#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/diag.h"

#include "capture/event/filter_impl.h"

/* The offset of an address in an executable segment; false: in none. */
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

/* "name", or "name@VERSION" as some symtabs have it */
static bool same_name(const char *have, const char *want)
{
	size_t n = strlen(want);

	return !strncmp(have, want, n) && (!have[n] || have[n] == '@');
}

/* The size of a symbol without one reaches to the next symbol (asm code). */
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
		ret = addrfilter_sym_add(s, &f);
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
	addrfilter_sym_sort(s);
	return ret;
}

int addrfilter_elf(const char *path, const char *name, struct filter_syms *s,
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
