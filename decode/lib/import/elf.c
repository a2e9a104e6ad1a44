/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import_elf: the loadable segments of an ELF image, of either class and byte
 * order. Only what lies in the file is mapped.
 *
 * Specification: System V ABI, chapter "Program Loading".
 */
#include <elf.h>
#include <string.h>

#include "common/diag.h"

#include "decode/lib/import/impl.h"
#include "decode/lib/elf/elf.h"

#define MAX_SEGMENTS 128

/* How far all are moved, so that what lies first in the file comes to base: the
 * lowest, but for the kernel's per-CPU data. */
static uint64_t find_shift(const struct elfimage *im, uint64_t base)
{
	struct elfimage_area a;
	uint64_t first = UINT64_MAX, shift = 0;
	size_t i = 0;

	while (elfimage_segment(im, &i, &a)) {
		if (a.offset >= first)
			continue;
		first = a.offset;
		shift = base - a.start;
	}
	return shift;
}

/* One mapping for each segment, at most MAX_SEGMENTS; returns how many. */
static int map_segments(struct import_build *b, const struct elfimage *im,
			struct import_map *m, uint64_t shift)
{
	struct elfimage_area a;
	size_t i = 0;
	int n = 0;

	while (n < MAX_SEGMENTS && elfimage_segment(im, &i, &a)) {
		m->addr = a.start + shift;
		m->len = a.end - a.start;
		m->pgoff = a.offset;
		import_build_map(b, m);
		n++;
	}
	return n;
}

int import_elf_map(struct import_build *b, const struct import_file *f,
		   struct import_map *m, bool has_base,
		   struct aux_diag *diag)
{
	uint64_t base = has_base ? m->addr : 0;
	struct elfimage *im;
	int n = 0, rc;

	m->path = f->path;
	/* a raw image of memory: at one place, all of it */
	if (f->len < SELFMAG || memcmp(f->data, ELFMAG, SELFMAG)) {
		m->addr = base;
		m->len = f->len;
		m->pgoff = 0;
		import_build_map(b, m);
		return 0;
	}
	rc = elfimage_open_mem(&im, f->data, f->len);
	if (rc < 0)
		return diag_set(diag, -rc, AUX_NO_OFFSET,
				"%s: out of memory", f->path);
	if (!elfimage_is_object(im))
		n = map_segments(b, im, m, has_base ? find_shift(im, base) : 0);
	elfimage_close(im);
	return n ? 0 : diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
				"%s: an ELF file without a segment to load",
				f->path);
}
