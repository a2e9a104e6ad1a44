/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codeview: source lines and inlined functions: the file behind an address is the
 * one that codeview_symbol takes, and so is the place in it.
 */
#include <aux/error.h>

#include "decode/lib/code/impl.h"
#include "decode/lib/elf/sourceline.h"

/* ip lies at offset of image; addresses of the image are moved by move (to get
 * from offsets to ip) where it is one file's mapping. */
struct spot {
	struct elfimage *image;
	uint64_t offset;
	const struct mapping *m;
	uint64_t shift;		/* of a kernel: from linked to run time */
};

static bool find_user(struct codeview *cv, const struct space *space,
		      const struct mapping *m, uint64_t ip, struct spot *s)
{
	struct place *p;

	if (!codeview_is_file(m->path) && !codeview_is_vdso(m->path))
		return false;
	p = codeview_place(cv, space, m);
	s->image = p && p->source ? p->source->image : NULL;
	s->offset = ip - m->start + m->pgoff;
	return s->image;
}

static bool find_spot(struct codeview *cv, const struct space *space,
		      uint64_t ip, struct spot *s)
{
	const struct mapping *m = space_find(space, ip);

	*s = (struct spot){ .m = m };
	if (!m || codeview_is_jit(cv, space, m, ip))
		return false;
	if (m->kind == MAPPING_USER)
		return find_user(cv, space, m, ip, s);
	return codeview_kernel_image(cv, space, m, ip, &s->image, &s->offset,
				     &s->shift);
}

int codeview_image(struct codeview *cv, const struct space *space, uint64_t ip,
		   struct elfimage **im, uint64_t *offset)
{
	struct spot s;

	if (!space || !find_spot(cv, space, ip, &s))
		return -AUX_E_NOENT;
	*im = s.image;
	*offset = s.offset;
	return 0;
}

int codeview_line(struct codeview *cv, const struct space *space, uint64_t ip,
		  struct source_line *line)
{
	struct spot s;

	if (!space || !find_spot(cv, space, ip, &s))
		return -AUX_E_NOENT;
	return elfimage_line(s.image, s.offset, line);
}

int codeview_inlines(struct codeview *cv, const struct space *space,
		     uint64_t ip, struct inline_frame *frames, size_t max)
{
	struct spot s;
	uint64_t addr;
	int n;

	if (!space || !find_spot(cv, space, ip, &s))
		return -AUX_E_NOENT;
	n = elfimage_inlines(s.image, s.offset, frames, max);
	for (int i = 0; i < n && (size_t)i < max; i++) {
		if (s.m->kind == MAPPING_USER)
			frames[i].entry += s.m->start - s.m->pgoff;
		else if (elfimage_addr(s.image, frames[i].entry, &addr))
			frames[i].entry = addr + s.shift;
	}
	return n;
}
