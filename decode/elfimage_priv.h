/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of elfimage share: headers of either class and byte order,
 * widened, every one of them inside the file. What is not, is not there.
 */
#ifndef AUXDECODE_ELFIMAGE_PRIV_H
#define AUXDECODE_ELFIMAGE_PRIV_H

#include <elf.h>
#include <pthread.h>

#include <internal/bytes.h>

#include "elfimage.h"

#define BUILD_ID_MAX 20

struct elf_segment {
	uint32_t type, flags;
	uint64_t offset, addr, filesz, memsz, align;
};

struct elf_section {
	uint32_t name, type, link, info;
	uint64_t flags, addr, offset, size, align, entsize;
	bool placed;		/* of an object: addr is ours */
};

struct elf_symbol {
	uint64_t value, size;
	uint32_t name, shndx;
	uint8_t type, bind;
};

struct elf_reloc {
	uint64_t offset;
	int64_t addend;		/* SHT_RELA */
	uint32_t type, sym;
};

/* One name over a range of file offsets. */
struct sym {
	uint64_t start, end;
	const char *name;
	uint32_t parent;	/* the one around it + 1; 0: none */
	bool global, label;	/* label: no function by type or size */
};

struct elfimage {
	const uint8_t *data;
	uint64_t len;
	bool mapped;		/* data is ours to unmap */
	int fd;			/* of what was unpacked, -1: none */
	char *path;
	bool elf, wide, swap;
	uint16_t type, machine;
	struct elf_segment *segments;
	size_t n_segments;
	struct elf_section *sections;
	size_t n_sections;
	uint32_t names;		/* section of the section names */
	uint8_t build_id[BUILD_ID_MAX];
	size_t build_id_size;
	/* names; built once under lock */
	pthread_mutex_t lock;
	bool have_syms;
	char *debug_root, *debug_path;
	struct elfimage *debug, *mini;	/* files that names point into */
	struct sym *syms;
	size_t n_syms, cap_syms;
	char **made;		/* names that are in no file */
	size_t n_made, cap_made, made_bytes;
};

/* elfimage.c */
struct cursor elfimage_at(const struct elfimage *im, uint64_t offset,
			  uint64_t len);
/* The bytes of a section; NULL: none in the file. */
const uint8_t *elfimage_section(const struct elfimage *im,
				const struct elf_section *s);
const char *elfimage_section_name(const struct elfimage *im,
				  const struct elf_section *s);
const struct elf_section *elfimage_named(const struct elfimage *im,
					 const char *name);
/* A string of a string table; NULL when it is not inside. */
const char *elfimage_string(const struct elfimage *im, uint32_t section,
			    uint32_t offset);
/* Entries of a symbol or relocation section, and one of them. */
uint64_t elfimage_n_entries(const struct elfimage *im,
			    const struct elf_section *s);
bool elfimage_get_symbol(const struct elfimage *im, const struct elf_section *s,
			 uint64_t i, struct elf_symbol *sym);
bool elfimage_get_reloc(const struct elfimage *im, const struct elf_section *s,
			uint64_t i, struct elf_reloc *r);

/* elfmodule.c: gives an object addresses and segments. 0 or -AUX_E_NOMEM. */
int elfmodule_lay_out(struct elfimage *im);

/* elfimage_unpack.c: 1 unpacked, 0 not compressed, or -AUX_E_*. */
int elfimage_unpack(const uint8_t *data, uint64_t len, int *fd, uint64_t *size);

/* elfimage_symbols.c: adds a name over [addr, addr + size). */
void elfimage_add_symbol(struct elfimage *im, const char *name, uint64_t addr,
			 uint64_t size, bool global, bool label);
/* Adds the symbols of a table in from, which is im or a debug file of it. */
void elfimage_add_table(struct elfimage *im, const struct elfimage *from,
			const struct elf_section *table);
/* Of two names for the same start, whether a is to be shown rather than b. */
bool elfimage_better(const struct sym *a, const struct sym *b);
/* elfimage_plt.c */
void elfimage_add_plt(struct elfimage *im);
/* elfimage_debug.c: opens im->debug or im->mini, when there is one. */
void elfimage_find_debug(struct elfimage *im);

#endif
