/* SPDX-License-Identifier: BSD-2-Clause */
/* elfimage without libdw: no source lines, no inlined functions. */
#ifndef HAVE_DW
#include <aux/error.h>

#include "decode/lib/elf/impl.h"

int elfimage_line(struct elfimage *im, uint64_t offset,
		  struct source_line *line)
{
	(void)im;
	(void)offset;
	(void)line;
	return -AUX_E_NOENT;
}

int elfimage_inlines(struct elfimage *im, uint64_t offset,
		     struct inline_frame *frames, size_t max)
{
	(void)im;
	(void)offset;
	(void)frames;
	(void)max;
	return -AUX_E_NOENT;
}

int elfimage_functions(struct elfimage *im, struct elfimage_function **v,
		       size_t *n)
{
	(void)im;
	(void)v;
	(void)n;
	return -AUX_E_NOENT;
}

size_t elfimage_rows(struct elfimage *im, uint64_t addr,
		     const struct source_row **rows)
{
	(void)im;
	(void)addr;
	(void)rows;
	return 0;
}

void elfimage_dwarf_close(struct dwarf_image *d)
{
	(void)d;
}
#endif
