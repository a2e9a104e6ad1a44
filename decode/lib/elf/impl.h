/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of elfimage share: headers as libelf delivers them, in 64 bits
 * and this machine's byte order. Offsets and sizes were checked against the
 * file when it was opened: bytes, tables and strings that are not NULL lie
 * inside it.
 */
#ifndef DECODE_LIB_ELF_IMPL_H
#define DECODE_LIB_ELF_IMPL_H

#include <elf.h>
#include <pthread.h>

#include "common/bytes.h"

#include "decode/lib/elf/elf.h"
#include "decode/lib/elf/insn.h"

#define BUILD_ID_MAX 20

struct elf_section {
	Elf64_Shdr h;
	const char *name;	/* "": none */
	const uint8_t *bytes;	/* NULL: none in the file */
	void *table;		/* libelf's, of symbols or relocations */
	bool strings;		/* a string table */
	bool placed;		/* in an object: kmodule.c gave it an address */
};

/* One name over a range of file offsets. */
struct sym {
	uint64_t start, end;
	const char *name;
	uint32_t parent;	/* index + 1 of the symbol around it; 0: none */
	bool global, label;	/* label: untyped and without a size */
};

struct elfimage {
	const uint8_t *data;
	uint64_t len;
	bool mapped;		/* data is ours to unmap */
	bool nomem;		/* names or lines are missing for want of memory */
	int fd;			/* memfd of an unpacked file, -1: none */
	uint64_t unpacked;	/* bytes charged for it */
	char *path;
	struct Elf *libelf;
	bool elf, wide, swap;
	uint16_t type, machine;
	Elf64_Phdr *segments;	/* p_filesz limited to the file */
	size_t n_segments;
	struct elf_section *sections;
	size_t n_sections;
	uint8_t build_id[BUILD_ID_MAX];
	size_t build_id_size;
	/* names and lines: built once under lock, immutable afterwards */
	pthread_mutex_t lock;
	bool have_syms;
	char *debug_root, *debug_path;
	struct elfimage *debug, *mini;	/* separate debug file, MiniDebugInfo;
					 * names point into them */
	struct sym *syms;
	size_t n_syms, cap_syms;
	char **made;		/* names that are in no file: "malloc@plt" */
	size_t n_made, cap_made, made_bytes;
	struct unnamed {	/* names of functions that have none, by place */
		uint64_t start;
		const char *name; /* NULL: free */
	} *unnamed;
	size_t n_unnamed, n_unnamed_slots; /* a power of two, or 0 */
	bool have_dwarf, looked_for_debug;
	struct dwarf_image *dwarf;	/* dwarf.c; NULL: none */
};

/* image.c: the section of that name, or NULL. */
const struct elf_section *elfimage_named(const struct elfimage *im,
					 const char *name);

/* libelf.c: headers and build id of an ELF file; 0 or -AUX_E_NOMEM. */
int elfimage_elf_open(struct elfimage *im);
void elfimage_elf_close(struct elfimage *im);
/* Whether an error of libelf or libdw, by its text (NULL: there is none), is that they
 * had no memory. */
bool elfimage_is_nomem(const char *text);
/* A string of a string table; NULL when it lies outside or has no end. */
const char *elfimage_string(const struct elfimage *im, size_t section,
			    size_t offset);
/* Entry i of a symbol or relocation (RELA) table; false: there is none. */
bool elfimage_get_symbol(const struct elf_section *s, uint64_t i,
			 Elf64_Sym *sym);
bool elfimage_get_reloc(const struct elf_section *s, uint64_t i, Elf64_Rela *r);

/* kmodule.c: assigns addresses to the sections of an object, and makes segments
 * of them. 0 or -AUX_E_NOMEM. */
int elfmodule_lay_out(struct elfimage *im);

/* image.c: unpacks into a memfd, which is the caller's: 1, 0 when data is not
 * compressed, or -AUX_E_* as elfimage_open. (fuzz_elf calls it with bytes.) */
int elfimage_unpack(const uint8_t *data, uint64_t len, int *fd, uint64_t *size);

/* dwarf.c */
void elfimage_dwarf_close(struct dwarf_image *d);
/* image.c: opens im->debug or im->mini, if there is one; tries once. Called
 * with the lock held. */
void elfimage_find_debug(struct elfimage *im);
/* image.c: the file that debug information of from, which is im or its debug
 * file, shares with other files (.gnu_debugaltlink: name, build id). The caller
 * closes it. NULL: it is not found. */
struct elfimage *elfimage_find_shared(struct elfimage *im,
				      const struct elfimage *from,
				      const char *name, const void *id,
				      size_t id_size);

/* disasm.c: an x86-64 instruction with its operands; valid until the next call. NULL: it
 * is none. Where there is capstone. */
struct cs_insn;
const struct cs_insn *disasm_detail(struct disasm *d, const uint8_t *code, size_t len,
				    uint64_t ip);

/* ---- young.c ---- */

/* The text of an instruction of size bytes that capstone may not know. False: it
 * is none of those. */
bool young_text(const uint8_t *code, int size, uint64_t ip, unsigned mode,
		enum disasm_syntax syntax, char *text, size_t len);

#endif
