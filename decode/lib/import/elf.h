/* SPDX-License-Identifier: BSD-2-Clause */
/* container_elf: files of code as mappings of a perf.data that is being built. */
#ifndef DECODE_LIB_IMPORT_ELF_H
#define DECODE_LIB_IMPORT_ELF_H

#include "decode/lib/import/import.h"
#include "decode/lib/import/builder.h"

/*
 * Maps what f's program headers say, moved so that its first segment comes to
 * m->addr (has_base; else as linked). A file that is no ELF image is mapped as a
 * whole. m names pid and build id; its other fields are filled here.
 * -AUX_E_FORMAT: an ELF image without a segment, or one that cannot be.
 */
int container_elf_map(struct container_build *b, const struct container_file *f,
		      struct container_map *m, bool has_base,
		      struct aux_diag *diag);

#endif
