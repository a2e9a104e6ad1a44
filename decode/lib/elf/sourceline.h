/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Source lines and inlined functions behind an address, from DWARF (libdw), of the
 * file itself or of its separate debug file. Read when first asked for, a
 * compilation unit at a time, and never before.
 *
 * Specification: DWARF 4 and 5, sections "Line Number Information" and "Inlined
 * Subroutines".
 */
#ifndef DECODE_LIB_ELF_SOURCELINE_H
#define DECODE_LIB_ELF_SOURCELINE_H

#include <stddef.h>
#include <stdint.h>

struct source_line {
	const char *file;	/* path as the compiler had it, with its
				 * directory; lives as long as the image */
	uint32_t line, column;	/* 0: not known */
	uint32_t discriminator;
};

/* One row of a line table: it reaches to the next one. */
struct source_row {
	uint64_t addr;		/* as linked */
	const char *file;	/* NULL: a hole begins here */
	uint32_t line;
	uint16_t column, discriminator;
};

/* One of the functions that are inlined into each other at an address. */
struct inline_frame {
	const char *name;	/* demangled where the file has no linkage name:
				 * as DWARF has it; NULL: none */
	const char *linkage;	/* mangled; NULL: none */
	struct source_line call; /* where it was inlined; all 0 of the outermost,
				  * which is the function itself */
	uint64_t entry;		/* lowest address of this instance, as asked for */
	uint32_t decl_line;	/* of the function: 0: not known */
	uint32_t id;		/* of the instance in its image: equal ids,
				 * the same inlining at the same place */
};

#endif
