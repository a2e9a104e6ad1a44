/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mkelf: a small ELF64 x86-64 file made by hand: one segment of code, symbols, and
 * a build id; written to a file of its own.
 */
#ifndef TESTS_UNIT_MKELF_H
#define TESTS_UNIT_MKELF_H

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct mkelf_symbol {
	const char *name;
	uint64_t value, size;
};

struct mkelf {
	uint64_t addr;		/* of the code */
	const void *code;
	size_t len;
	uint8_t id;		/* all 20 bytes of the build id; 0: none */
	const struct mkelf_symbol *syms;
	size_t n_syms;
	bool debug;		/* the code is left out, as in a .debug file */
};

#define MKELF_CODE 0x1000 /* offset of the code in the file */

/* Directories of a path are made. */
static FILE *mkelf_create(const char *path)
{
	char dir[4096];

	for (const char *p = path + 1; (p = strchr(p, '/')); p++) {
		snprintf(dir, sizeof(dir), "%.*s", (int)(p - path), path);
		if (mkdir(dir, 0777) < 0 && errno != EEXIST)
			return NULL;
	}
	return fopen(path, "wb");
}

static void mkelf_put(uint8_t *file, size_t *at, const void *data, size_t len)
{
	memcpy(file + *at, data, len);
	*at += len;
}

__attribute__((unused))
static bool mkelf_write(const struct mkelf *m, const char *path)
{
	static const char names[] = "\0.text\0.symtab\0.strtab\0.shstrtab\0"
				    ".note.gnu.build-id";
	size_t n_code = m->debug ? 0 : m->len, at = MKELF_CODE, strings, sections;
	uint8_t *file = calloc(1, MKELF_CODE + m->len + 65536);
	Elf64_Sym sym = { 0 };
	uint32_t note[] = { 4, 20, NT_GNU_BUILD_ID };
	char strtab[4096] = "";
	size_t n_str = 1, symtab;
	bool done;
	FILE *f;

	Elf64_Ehdr h = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64,
				      ELFDATA2LSB, EV_CURRENT },
			 .e_type = ET_DYN, .e_machine = EM_X86_64,
			 .e_version = 1, .e_phoff = sizeof(Elf64_Ehdr),
			 .e_ehsize = sizeof(Elf64_Ehdr),
			 .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 2,
			 .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 6,
			 .e_shstrndx = 4 };
	Elf64_Phdr ph[2] = {
		{ .p_type = PT_LOAD, .p_flags = PF_R | PF_X,
		  .p_offset = MKELF_CODE, .p_vaddr = m->addr,
		  .p_filesz = n_code, .p_memsz = m->len, .p_align = 4096 },
		{ .p_type = PT_NOTE, .p_offset = 0x200,
		  .p_filesz = m->id ? 36 : 0, .p_align = 4 },
	};

	if (!file)
		return false;
	if (n_code)
		mkelf_put(file, &at, m->code, n_code);
	symtab = at;
	mkelf_put(file, &at, &sym, sizeof(sym));
	for (size_t i = 0; i < m->n_syms; i++) {
		sym = (Elf64_Sym){ .st_name = (uint32_t)n_str, .st_shndx = 1,
				   .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
				   .st_value = m->syms[i].value,
				   .st_size = m->syms[i].size };
		n_str += (size_t)snprintf(strtab + n_str, sizeof(strtab) - n_str,
					  "%s", m->syms[i].name) + 1;
		mkelf_put(file, &at, &sym, sizeof(sym));
	}
	strings = at;
	mkelf_put(file, &at, strtab, n_str);
	mkelf_put(file, &at, names, sizeof(names));
	at = (at + 7) & ~(size_t)7;
	sections = at;

	Elf64_Shdr sh[6] = {
		[1] = { .sh_name = 1, .sh_type = m->debug ? SHT_NOBITS :
							    SHT_PROGBITS,
			.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
			.sh_addr = m->addr, .sh_offset = MKELF_CODE,
			.sh_size = m->len },
		[2] = { .sh_name = 7, .sh_type = SHT_SYMTAB,
			.sh_offset = symtab, .sh_link = 3,
			.sh_size = sizeof(sym) * (m->n_syms + 1),
			.sh_entsize = sizeof(sym) },
		[3] = { .sh_name = 15, .sh_type = SHT_STRTAB,
			.sh_offset = strings, .sh_size = n_str },
		[4] = { .sh_name = 23, .sh_type = SHT_STRTAB,
			.sh_offset = strings + n_str,
			.sh_size = sizeof(names) },
		[5] = { .sh_name = 33, .sh_type = SHT_NOTE,
			.sh_offset = 0x200, .sh_size = m->id ? 36 : 0,
			.sh_addralign = 4 },
	};

	mkelf_put(file, &at, sh, sizeof(sh));
	h.e_shoff = sections;
	memcpy(file, &h, sizeof(h));
	memcpy(file + sizeof(h), ph, sizeof(ph));
	memcpy(file + 0x200, note, sizeof(note));
	memcpy(file + 0x20c, "GNU", 4);
	memset(file + 0x210, m->id, 20);
	f = mkelf_create(path);
	done = f && fwrite(file, at, 1, f) == 1;
	if (f)
		fclose(f);
	free(file);
	return done;
}

__attribute__((unused))
static bool mkelf_text(const char *path, const char *text)
{
	FILE *f = mkelf_create(path);
	bool done = f && fputs(text, f) >= 0;

	if (f)
		fclose(f);
	return done;
}

#endif
