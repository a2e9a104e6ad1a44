/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * api_code: what lies behind an address: instructions, bytes, names. Contract in
 * aux/decode.h. A space handed out is the timeline's own, which lives as long.
 */
#include <string.h>

#include "common/diag.h"

#include "decode/lib/api/impl.h"
#include "decode/lib/session/decoders.h"

static const struct space *space_of(const struct aux_decode_space *space)
{
	return (const struct space *)space;
}

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

/* Where ip lies in the file that is mapped; 0: nobody knows, or in none. */
static uint64_t offset_in_file(const struct mapping *m, uint64_t ip)
{
	if (m->kind != MAPPING_USER || m->path[0] != '/')
		return 0;
	return ip - m->start + m->pgoff;
}

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
	return plugins_get(i);
}

const struct aux_decoder_ops *aux_decoder_find(const char *name,
					       uint32_t trace_type,
					       struct aux_diag *diag)
{
	return plugins_find(name, trace_type, diag);
}
