/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elfimage: one file of code, and the names in it. Files that are no ELF give
 * bytes and no names; compressed ones (.xz, .gz, .zst) give what is in them.
 * ELF is read by libelf, which libelf.c alone calls.
 *
 * Names are read when first asked for, never before: the file's own symbols,
 * those of its separate debug file, and name@plt for its stubs; what has none of
 * these is told apart by unwind tables. All functions may be called from any thread.
 */
#ifndef DECODE_LIB_ELF_ELF_H
#define DECODE_LIB_ELF_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elfimage;

struct elfimage_symbol {
	const char *name;
	uint64_t start;		/* file offset */
	uint64_t size;
	bool unnamed;		/* the file has no name for it: this one says where it is */
};

/*
 * Maps a file. 0, -AUX_E_NOENT, -AUX_E_IO, -AUX_E_NOMEM, of a compressed file
 * also -AUX_E_FORMAT (damaged), -AUX_E_LIMIT (too large) or
 * -AUX_E_UNSUPPORTED (this build lacks the library).
 */
int elfimage_open(struct elfimage **im, const char *path);
/* Was there not enough memory for all names and lines that were asked for? */
bool elfimage_nomem(const struct elfimage *im);
/* The same over bytes that outlive the image, never compressed. */
int elfimage_open_mem(struct elfimage **im, const uint8_t *data, size_t len);
void elfimage_close(struct elfimage *im);

/*
 * Where separate debug files are looked for: root before all directories ("":
 * this machine's), path as recorded. Before the first elfimage_symbol; copies.
 */
void elfimage_debug_from(struct elfimage *im, const char *root,
			 const char *path);

/* The separate debug file that belongs to it; NULL: none was found. Lives as the image does. */
const char *elfimage_debug_file(struct elfimage *im);

const uint8_t *elfimage_data(const struct elfimage *im, uint64_t *len);
/* A file that holds elfimage_data; NULL: none. Lives as the image does. */
const char *elfimage_path(const struct elfimage *im);
/* Its build id; returns the size, 0 when it has none. */
size_t elfimage_build_id(const struct elfimage *im, const uint8_t **id);
bool elfimage_is_elf(const struct elfimage *im);
/* A relocatable object: a kernel module, see elfmodule_new(). */
bool elfimage_is_object(const struct elfimage *im);
/* A separate debug file: it has the build id, and the code is not in it. */
bool elfimage_is_debug(const struct elfimage *im);

/*
 * A virtual address of the file as offset, and the bytes of its segment that
 * follow. False when no bytes back it.
 */
bool elfimage_offset(const struct elfimage *im, uint64_t addr, uint64_t *offset,
		     uint64_t *left);
/* Addresses that lie in one segment, and the offset of the first. */
struct elfimage_area {
	uint64_t start, end, offset;
};
/* The loadable segments that the file has bytes of, from *i = 0 on; moves
 * *i. */
bool elfimage_segment(const struct elfimage *im, size_t *i,
		      struct elfimage_area *area);
/* The one around an address. */
bool elfimage_area(const struct elfimage *im, uint64_t addr,
		   struct elfimage_area *area);
/* What a debugger asks of a program's file: the addresses of its dynamic section and of
 * its program headers, and where it starts. 0: it has none. */
struct elfimage_start {
	uint64_t dynamic, headers, entry;
	uint32_t n_headers, header_size;
};
void elfimage_start(const struct elfimage *im, struct elfimage_start *start);
/* The bytes of the file at an address that the program cannot write to; how many
 * follow in *left. NULL: none. */
const uint8_t *elfimage_constant(const struct elfimage *im, uint64_t addr,
				 uint64_t *left);
/* The virtual address of an offset; false when no segment holds it. */
bool elfimage_addr(const struct elfimage *im, uint64_t offset, uint64_t *addr);
/* The value of a symbol of the file by its name. */
bool elfimage_find(struct elfimage *im, const char *name, uint64_t *value);

/*
 * The symbol that contains a file offset; where there is none, and elfimage_debug_from
 * told the path, the function that unwind tables know there ("[cat+0x2a30]", a file
 * offset), or the part of one ("[cat+0x1f00].part"). 0 or -AUX_E_NOENT. The name lives as
 * long as the image.
 */
int elfimage_symbol(struct elfimage *im, uint64_t offset,
		    struct elfimage_symbol *sym);

struct source_line {
	const char *file;	/* path as the compiler had it, with its
				 * directory; lives as long as the image */
	uint32_t line, column;	/* 0: not known */
	uint32_t discriminator;
};

/* One row of a line table: it holds up to the next row. */
struct source_row {
	uint64_t addr;		/* as linked */
	const char *file;	/* NULL: no line is known from here on */
	uint32_t line;
	uint16_t column, discriminator;
};

/* One of the functions inlined into each other at an address. */
struct inline_frame {
	const char *name;	/* DW_AT_name; NULL: none */
	const char *linkage;	/* mangled; NULL: none */
	struct source_line call; /* where it was inlined; all 0 in the outermost
				  * frame, which is the function itself */
	uint64_t entry;		/* lowest address of this instance: a file offset
				 * from elfimage_inlines, a runtime address from
				 * codeview_inlines */
	uint32_t decl_line;	/* 0: not known */
	uint32_t id;		/* the instance, unique in its image */
};

/*
 * The source line of a file offset, and the functions inlined there, from DWARF
 * of the file or of its debug file. 0, or how many frames there are (innermost
 * first, at most max are filled); -AUX_E_NOENT. Addresses are file offsets.
 * Strings live as long as the image. A unit is read when one of its addresses
 * is first asked for.
 */
int elfimage_line(struct elfimage *im, uint64_t offset,
		  struct source_line *line);
int elfimage_inlines(struct elfimage *im, uint64_t offset,
		     struct inline_frame *frames, size_t max);

/* A function that the debug information has code of. */
struct elfimage_function {
	const char *name, *linkage;	/* as in struct inline_frame */
	const char *file;	/* of its first instruction; NULL: unknown */
	uint32_t line, column;	/* where it is declared; 0: unknown */
	uint64_t entry;		/* addresses as linked */
	bool is_artificial;	/* the compiler made it */
	bool is_c;		/* the language is C */
	bool has_value;		/* it returns one */
	const struct elfimage_area *areas;	/* its code, offset 0 */
	size_t n_areas;
};

/* All of them, sorted by entry; *v is the caller's to free. 0, -AUX_E_NOENT
 * (no debug information), -AUX_E_NOMEM. Names live as long as the image. */
int elfimage_functions(struct elfimage *im, struct elfimage_function **v,
		       size_t *n);
/* The same of those of the unit with addr alone. */
int elfimage_functions_at(struct elfimage *im, uint64_t addr,
			  struct elfimage_function **v, size_t *n);
/* The line table of the unit with addr, from the row around addr on: how many
 * rows. */
size_t elfimage_rows(struct elfimage *im, uint64_t addr,
		     const struct source_row **rows);

/*
 * elfmodule: the code of a kernel module from its file.
 *
 * A .ko is an object file: its sections are placed as the kernel's loader does
 * it, and branches point where they pointed in memory. What the file cannot
 * know (a branch to a function of another module, code that the kernel patches
 * when it loads: alternatives, jump labels, static calls, retpolines) is a
 * hole: no code at that address, rather than wrong code.
 */

struct elfmodule;

/*
 * The module of an object that was loaded at base. find returns the address of
 * a symbol of the kernel or of another module, 0 when it is not known. The
 * image outlives the module. 0, -AUX_E_FORMAT (no object, or relocations of its
 * code that cannot be read), -AUX_E_IO, -AUX_E_NOMEM.
 */
int elfmodule_new(struct elfmodule **m, const struct elfimage *im,
		  uint64_t base, uint64_t (*find)(void *priv, const char *name),
		  void *priv);
void elfmodule_free(struct elfmodule *m);

struct elfmodule_code {
	const uint8_t *bytes;
	uint64_t start, end;	/* addresses, counted from base */
	const char *path;	/* a file that holds the same; NULL: none */
	uint64_t offset;	/* of bytes in it, and in the module's file */
};

/* The code around an address (from base): 0, -AUX_E_NOENT outside, or
 * -AUX_E_UNSUPPORTED in a hole. */
int elfmodule_code(const struct elfmodule *m, uint64_t addr,
		   struct elfmodule_code *code);

#endif
