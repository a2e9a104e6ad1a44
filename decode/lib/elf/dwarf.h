/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of elfimage_dwarf share; only they include it, and libdw with it.
 * All is read and built under the image's lock and never changes afterwards.
 *
 * Nothing in a file is trusted: libdw stays inside of it, and what is made of it
 * is bounded by its size (struct dwarf_image.left): a list that many units share
 * is read for as many as fit.
 */
#ifndef DECODE_LIB_ELF_DWARF_H
#define DECODE_LIB_ELF_DWARF_H

#include <dwarf.h>
#include <elfutils/libdw.h>

#include "decode/lib/elf/impl.h"
#include "decode/lib/elf/sourceline.h"

/* A function, or an instance of an inlined one; parent 0: a function. */
struct dwarf_node {
	void *die;		/* its place, as libdw has it */
	uint64_t entry;		/* lowest address */
	uint32_t id;
	uint32_t parent;	/* the one that it is inlined into, + 1 */
};

/* Addresses of a node (in a unit), or of a unit (in the image). */
struct dwarf_span {
	uint64_t start, end;
	uint32_t what;		/* index of the node, of the unit */
	uint32_t around;	/* the nearest span before it that reaches
				 * beyond its start, + 1; 0: none */
};

struct dwarf_spans {
	struct dwarf_span *v;
	size_t n, cap;
};

struct dwarf_unit {
	Dwarf_Off die;
	uint64_t size;		/* bytes of it in the file */
	bool have_rows, have_nodes, have_files;
	char **files;		/* full paths; NULL where it is not known */
	size_t n_files;
	struct source_row *rows;	/* sorted; what is not code is left out */
	size_t n_rows, cap_rows;
	struct dwarf_node *nodes; /* a parent comes before its children */
	size_t n_nodes, cap_nodes;
	struct dwarf_spans spans;
};

struct dwarf_image {
	struct elfimage *im;	/* whose code it is */
	Elf *elf;
	Dwarf *dw;
	uint8_t *copy;		/* of the file, where libelf changes it */
	uint64_t left;		/* things that may still be made of it */
	struct dwarf_unit *units;
	size_t n_units, cap_units;
	struct dwarf_spans spans;
};

/* dwarf.c: under the lock. NULL: there is no debug information. */
struct dwarf_image *dwarf_need(struct elfimage *im);
/* The unit with the code at an address, as
 * linked; NULL: none. */
struct dwarf_unit *dwarf_unit_at(struct dwarf_image *d, uint64_t addr);
/* Reads the line table of a unit, if that was not done. */
void dwarf_need_rows(struct dwarf_image *d, struct dwarf_unit *u);
/* The full path of a file of a unit, by its number. */
const char *dwarf_file(struct dwarf_image *d, struct dwarf_unit *u, size_t i);
/* Whether code can be at an address. */
bool dwarf_is_code(const struct elfimage *im, uint64_t addr);

/* dwarf_span.c. Adds; 0 or -AUX_E_NOMEM. */
int dwarf_add_span(struct dwarf_spans *s, uint64_t start, uint64_t end,
		   uint32_t what);
/* Adds what a DIE covers; -AUX_E_NOMEM, or how many there were. */
int dwarf_add_ranges(struct dwarf_image *d, struct dwarf_spans *s,
		     Dwarf_Die *die, uint32_t what, uint64_t *lowest);
/* Once all are there: of spans that begin alike, larger ones come first, then
 * those that were added first. */
void dwarf_sort_spans(struct dwarf_spans *s);
/* The innermost span around an address; NULL: none. */
const struct dwarf_span *dwarf_find_span(const struct dwarf_spans *s,
					 uint64_t addr);

/* The row around an address; NULL: none. */
const struct source_row *dwarf_find_row(const struct dwarf_unit *u,
					uint64_t addr);
/* dwarf_inline.c: reads the functions of a unit, if not done. */
void dwarf_need_nodes(struct dwarf_image *d, struct dwarf_unit *u);
/* Where a function is declared, and its names. */
void dwarf_describe(struct dwarf_image *d, struct dwarf_unit *u,
		    const struct dwarf_node *node, struct elfimage_function *f);
/* Under the lock. The functions at an address of a unit,
 * as elfimage_inlines; 0: none. */
int dwarf_inlines(struct dwarf_image *d, struct dwarf_unit *u, uint64_t addr,
		  struct inline_frame *frames, size_t max);

#endif
