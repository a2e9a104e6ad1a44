/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libauxdecode: what is at an address: instructions, bytes, names, source
 * lines. Contract in aux/decode.h. struct aux_decode_space is the timeline's
 * struct space, cast: it lives as long as the recording is open, so no handle
 * is counted.
 */
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"
#include "decode/lib/api/impl.h"
#include "decode/lib/session/decoders.h"

static const struct space *space_of(const struct aux_decode_space *space)
{
	return (const struct space *)space;
}

/* The walk, a cache of expanded ranges, is made by the first call. Returns how
 * many instructions the range has, which may be more than max. */
int64_t aux_decode_expand(struct aux_decode *d,
			  const struct aux_decode_space *space,
			  const struct aux_flow *range, uint64_t *ips,
			  size_t max)
{
	struct walk_config wc = { .host = &d->host };
	struct walk_range *r;
	int rc = d->walk ? 0 : walk_new(&d->walk, &wc);

	if (rc < 0)
		return rc;
	if (range->kind != AUX_FLOW_RANGE)
		return -AUX_E_INVAL;
	rc = walk_find(d->walk, space_of(space), range, &r);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < r->n && i < max; i++)
		ips[i] = r->first + r->off[i];
	return r->n;
}

int aux_decode_code(struct aux_decode *d, const struct aux_decode_space *space,
		    uint64_t ip, struct aux_code *code)
{
	if (!space)
		return -AUX_E_NOENT;
	return codeview_code(session_codeview(d->session), space_of(space), ip,
			     code);
}

void aux_decode_explain(struct aux_decode *d,
			const struct aux_decode_space *space, uint64_t ip,
			char *buf, size_t len)
{
	if (!len)
		return;
	buf[0] = '\0';
	if (space)
		codeview_explain(session_codeview(d->session), space_of(space),
				 ip, buf, len);
}

/* The offset of ip in the file that is mapped there; 0: in none, or unknown. */
static uint64_t offset_in_file(const struct mapping *m, uint64_t ip)
{
	if (m->kind != MAPPING_USER || m->path[0] != '/')
		return 0;
	return ip - m->start + m->pgoff;
}

/* An address without a symbol is no error as long as something is mapped there:
 * the file and the offset in it are what identifies it then. */
int aux_decode_symbol(struct aux_decode *d,
		      const struct aux_decode_space *space, uint64_t ip,
		      struct aux_decode_symbol *sym)
{
	const struct space *s = space_of(space);
	const struct mapping *m = s ? space_find(s, ip) : NULL;
	struct aux_decode_symbol all = { .size = sym->size };
	struct symbol found = { 0 };
	int rc = m ? codeview_symbol(session_codeview(d->session), s, ip,
				     &found) : -AUX_E_NOENT;

	if (sym->size < sizeof(uint32_t))
		return -AUX_E_INVAL;
	if (rc == 0) {
		all.name = found.name;
		all.start = found.name ? found.start : 0;
		all.n_bytes = found.name ? found.size : 0;
		all.dso = found.dso;
	}
	if (m) {
		all.dso = all.dso ? all.dso : m->path;
		all.dso_offset = offset_in_file(m, ip);
	}
	memcpy(sym, &all, sym->size < sizeof(all) ? sym->size : sizeof(all));
	return m ? 0 : -AUX_E_NOENT;
}

const struct aux_decoder_ops *aux_decoder_get(size_t i)
{
	return decoders_get(i);
}

const struct aux_decoder_ops *aux_decoder_find(const char *name,
					       uint32_t trace_type,
					       struct aux_diag *diag)
{
	return decoders_find(name, trace_type, diag);
}

/*
 * The functions at an address: those inlined there, and the one that they are
 * inlined into, each with its line.
 */

#define FEW 16 /* frames that need no memory of their own */

/* Where f was executing: at for the innermost frame is the line of the
 * instruction, for others that of the inlined call. */
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

/*
 * v: what there is, innermost first, n of them, of which max are asked for.
 * frames is an array of the caller's struct, of size bytes each, which may be
 * older or newer than ours. The last one is the function itself, which alone
 * may be in the symbol table.
 */
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

/* Few addresses have more than FEW frames. Only for those, and if the caller
 * has room for more, is memory allocated and the search repeated. */
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
