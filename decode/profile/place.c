/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * profile: the module of an address (the file that is mapped there) and the
 * offset in it, and with these the entries of branches and ranges.
 *
 * Offsets are those in the file, by the mapping alone, not addresses as linked:
 * this works without the file, and is the same in every process and run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "decode/sink/columns.h"
#include "decode/profile/impl.h"
#include "decode/lib/sideband/sideband.h"

/*
 * The program of a process is mapped before its libraries and, as the kernel
 * places files, below them.
 */
static bool is_main(const struct space *space, const struct mapping *m)
{
	const struct mapping *first = space_next(space, 0);

	while (first && (*first->path != '/' ||
			 (first->prot && !(first->prot & PROT_EXEC))))
		first = first->end ? space_next(space, first->end) : NULL;
	return first && !strcmp(first->path, m->path);
}

/* False for code without a file, such as JIT code: its offset is the address
 * itself. */
static bool is_placed(const struct mapping *m)
{
	return *m->path == '/' || m->kind != MAPPING_USER ||
	       !strcmp(m->path, "[vdso]");
}

/* The module of a mapping; learns its file and whether it is a program. */
static int find_module(struct profile_collect *c, const struct space *space,
		       uint64_t ip, const struct mapping *m)
{
	struct branchlist_module *module;
	struct aux_code code;
	char id[41] = "";
	int k;

	for (unsigned i = 0; i < m->build_id_size && i < 20; i++)
		snprintf(id + 2 * i, 3, "%02x", m->build_id[i]);
	k = branchlist_module(c->list, *m->path ? m->path : "[anon]", id);
	if (k < 0)
		return k;
	module = &c->list->modules[k];
	if (m->kind == MAPPING_USER) /* the last answer knows most mappings */
		module->main = is_main(space, m);
	if (!module->file && *m->path == '/' &&
	    !c->host->code(c->host->priv, space, ip, &code) && code.path) {
		module->file = strdup(code.path);
		if (!module->file)
			return -AUX_E_NOMEM;
	}
	return k;
}

/* Addresses that no mapping has are cached page by page. */
static int find_unknown(struct profile_collect *c, uint64_t ip,
			struct profile_page *p)
{
	int k = branchlist_module(c->list, "[unknown]", "");

	if (k < 0)
		return k;
	p->module = (uint32_t)k;
	p->start = ip & ~UINT64_C(4095);
	p->end = p->start | 4095;
	p->delta = 0;
	return 0;
}

/* Fills the cache entry of ip. space is set last: after an error the entry is
 * free. */
static int fill_page(struct profile_collect *c, const struct space *space,
		     uint64_t ip, struct profile_page *p)
{
	const struct mapping *m = space ? space_find(space, ip) : NULL;
	int k;

	p->space = 0;
	if (!m) {
		k = find_unknown(c, ip, p);
	} else {
		k = find_module(c, space, ip, m);
		p->module = (uint32_t)k;
		p->start = m->start;
		p->end = m->end - 1;
		p->delta = is_placed(m) ? m->pgoff - m->start : 0;
	}
	if (k < 0)
		return k;
	p->space = space ? space->id : UINT64_MAX;
	return 0;
}

int profile_place(struct profile_collect *c, const struct space *space,
		  uint64_t ip, struct branchlist_place *at)
{
	uint64_t id = space ? space->id : UINT64_MAX;
	uint64_t h = (ip >> 12 ^ id << 20) * UINT64_C(0x9e3779b97f4a7c15);
	struct profile_page *p = &c->pages[h >> 54];
	int err;

	if (p->space != id || ip < p->start || ip > p->end) {
		err = fill_page(c, space, ip, p);
		if (err)
			return err;
	}
	at->module = p->module;
	at->offset = ip + p->delta;
	return 0;
}

/*
 * True if from is in the function that holds to, or if symbols do not say how
 * far that function reaches.
 */
static bool same_function(struct profile_collect *c, const struct space *space,
			  uint64_t from, uint64_t to)
{
	struct symbol s = { 0 };

	find_symbol(c->host, space, to, &s);
	return !s.name || !s.size || from - s.start < s.size;
}

static bool stays_inside(unsigned kind)
{
	return kind == BRANCHLIST_COND || kind == BRANCHLIST_JUMP ||
	       kind == BRANCHLIST_IND_JUMP;
}

/* True if the code at the target was entered by a call or return, or is of
 * another function. */
static bool is_outside(struct profile_collect *c, const struct space *space,
		       const struct branchlist_branch *b, uint64_t to)
{
	return !stays_inside(b->kind) || b->from_module != b->to_module ||
	       !same_function(c, space, b->from - b->to + to, to);
}

int profile_branch_entry(struct profile_collect *c, const struct flow_ctx *ctx,
			 struct profile_open *o, const uint64_t *to)
{
	struct branchlist_branch b = { .from_module = o->from_module,
				       .from = o->from,
				       .to_module = BRANCHLIST_NOWHERE,
				       .kind = o->kind }, *e;
	struct branchlist_place at;
	int i;

	if (to) {
		i = profile_place(c, ctx->space, *to, &at);
		if (i < 0)
			return i;
		b.to_module = at.module;
		b.to = at.offset;
	}
	i = branchlist_branch(c->list, &b);
	if (i < 0)
		return i;
	e = &branchlist_branches(c->list)[i];
	/* of runs alone: without them no symbols are read */
	if (e->entry == BRANCHLIST_ENTRY_UNKNOWN && !c->no_ranges)
		e->entry = !to || is_outside(c, ctx->space, &b, *to) ?
			BRANCHLIST_OUTSIDE : BRANCHLIST_INSIDE;
	o->outside = e->entry == BRANCHLIST_OUTSIDE;
	return i;
}

int profile_range_entry(struct profile_collect *c,
			const struct profile_open *o)
{
	struct branchlist_range r = { .outside = o->outside, .n_insns = o->n };
	struct branchlist_place at;
	int err = profile_place(c, o->space, o->first, &at);

	if (err)
		return err;
	r.module = at.module;
	r.first = at.offset;
	r.last = at.offset + (o->last - o->first);
	return branchlist_range(c->list, &r);
}
