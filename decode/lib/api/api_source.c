/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * api_source: the functions at an address, those inlined there and the one they are
 * inlined into, each with the line it is at. Contract in aux/decode.h.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/lib/api/impl.h"

#define FEW 16 /* frames that need no memory of their own */

static void put_frame(struct aux_decode_frame *to, const struct inline_frame *f,
		      const struct source_line *at)
{
	to->function = f->linkage ? f->linkage : f->name;
	to->entry = f->entry;
	to->decl_line = f->decl_line;
	to->id = f->id;
	to->file = at->file;
	to->line = at->line;
	to->column = at->column;
	to->discriminator = at->discriminator;
}

/* What the symbol table knows of the function itself. */
static void add_symbol(struct codeview *cv, const struct space *space,
		       uint64_t ip, struct aux_decode_frame *f)
{
	struct symbol sym = { 0 };

	if (f->function || codeview_symbol(cv, space, ip, &sym) || !sym.name)
		return;
	f->function = sym.name;
	if (!f->entry)
		f->entry = sym.start;
}

/* v: what there is, n of them, of which max are asked for. */
static void put_frames(struct codeview *cv, const struct space *space,
		       uint64_t ip, const struct inline_frame *v, size_t n,
		       uint8_t *frames, size_t size, size_t max)
{
	struct source_line line = { 0 };

	if (codeview_line(cv, space, ip, &line) < 0)
		line = (struct source_line){ 0 };
	for (size_t i = 0; i < n && i < max; i++) {
		struct aux_decode_frame f = { 0 };

		memset(frames + i * size, 0, size);
		put_frame(&f, &v[i], i ? &v[i - 1].call : &line);
		if (i + 1 == n)
			add_symbol(cv, space, ip, &f);
		memcpy(frames + i * size, &f,
		       size < sizeof(f) ? size : sizeof(f));
	}
}

/* Without debug information: a line may be known, and a symbol. */
static int put_bare(struct codeview *cv, const struct space *space, uint64_t ip,
		    void *frames, size_t size, size_t max)
{
	struct inline_frame none = { 0 };
	struct aux_decode_frame f = { 0 };

	put_frames(cv, space, ip, &none, 1, (uint8_t *)&f, sizeof(f), 1);
	if (!f.function && !f.file)
		return 0;
	if (max) {
		memset(frames, 0, size);
		memcpy(frames, &f, size < sizeof(f) ? size : sizeof(f));
	}
	return 1;
}

int aux_decode_frames(struct aux_decode *d,
		      const struct aux_decode_space *space, uint64_t ip,
		      struct aux_decode_frame *frames, size_t frame_size,
		      size_t max)
{
	const struct space *s = (const struct space *)space;
	struct codeview *cv = session_codeview(d->session);
	struct inline_frame few[FEW], *v = few;
	int n;

	if (max && (!frames || frame_size < sizeof(frames->function)))
		return -AUX_E_INVAL;
	if (!s || !space_find(s, ip))
		return -AUX_E_NOENT;
	n = codeview_inlines(cv, s, ip, few, FEW);
	if (n <= 0)
		return put_bare(cv, s, ip, frames, frame_size, max);
	if (n > FEW && max > FEW) {
		v = calloc((size_t)n, sizeof(*v));
		if (!v)
			return -AUX_E_NOMEM;
		n = codeview_inlines(cv, s, ip, v, (size_t)n);
	}
	put_frames(cv, s, ip, v, n > 0 ? (size_t)n : 0, (uint8_t *)frames,
		   frame_size, max);
	if (v != few)
		free(v);
	return n;
}
