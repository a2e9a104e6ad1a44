/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cover_print_bare: what ran of files without debug information: their functions,
 * and the blocks of each, by address.
 *
 * A function begins where a symbol or an unwind table says so, and where a call went. A
 * file without such tables has symbols of stubs alone: what was never called is part of
 * the one before, but not of what has a symbol, which has its end, too.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clean.h"
#include "decode/callstack/names.h"
#include "decode/coverage/impl.h"

struct entries {
	uint64_t *v;		/* offsets in the module, sorted */
	size_t n, cap;
};

static int compare_offsets(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* 0 or -AUX_E_NOMEM. */
static int find_entries(const struct cover_tally *t, uint32_t module,
			struct entries *e)
{
	e->n = 0;
	for (size_t i = 0; i < t->n_edges; i++) {
		const struct cover_edge *edge = &t->edges[i];

		if (edge->to_module == module &&
		    (edge->what == AUX_END_CALL || edge->what == AUX_END_IND_CALL) &&
		    array_append(&e->v, &e->n, &e->cap, &edge->to, sizeof(edge->to)))
			return -AUX_E_NOMEM;
	}
	if (e->n)
		qsort(e->v, e->n, sizeof(*e->v), compare_offsets);
	return 0;
}

/* Where the function of a block begins; sym.name NULL: no symbol has it. */
static uint64_t function_of(const struct cover_module *m, const struct entries *e,
			    uint64_t off, struct elfimage_symbol *sym)
{
	size_t lo = 0, hi = e->n;
	uint64_t start;

	*sym = (struct elfimage_symbol){ .name = NULL };
	if (m->image && !elfimage_symbol(m->image, off + m->shift, sym) &&
	    sym->start >= m->shift && sym->start - m->shift <= off)
		return sym->start - m->shift;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (e->v[mid] <= off)
			lo = mid + 1;
		else
			hi = mid;
	}
	start = lo ? e->v[lo - 1] : 0;
	if (lo && m->image && !elfimage_symbol(m->image, start + m->shift, sym) &&
	    sym->start + sym->size <= off + m->shift)
		start = sym->start + sym->size - m->shift;
	*sym = (struct elfimage_symbol){ .name = NULL };
	return start;
}

static bool is_called(const struct entries *e, uint64_t start)
{
	return e->n && bsearch(&start, e->v, e->n, sizeof(*e->v), compare_offsets);
}

/* As a disassembler of the file has it. */
static unsigned long long address_of(const struct cover_module *m, uint64_t off)
{
	uint64_t addr;

	return m->image && elfimage_addr(m->image, off + m->shift, &addr) ? addr :
									    off;
}

/* Blocks from i on that are of one function; returns the index behind them. */
static size_t print_function(const struct cover_tally *t,
			     const struct cover_module *m, const struct entries *e,
			     size_t i, struct names *names, struct outbuf *out)
{
	struct elfimage_symbol sym, next;
	uint64_t start = function_of(m, e, t->blocks[i].off, &sym), ran = 0;
	size_t end = i;

	for (; end < m->block + m->n_blocks &&
	       function_of(m, e, t->blocks[end].off, &next) == start; end++)
		ran += t->blocks[end].n * t->blocks[end].n_insns;
	outbuf_printf(out, "%14llu %8zu  0x%llx ", (unsigned long long)ran, end - i,
		      address_of(m, sym.name || !start || is_called(e, start) ?
				    start : t->blocks[i].off));
	outbuf_clean(out, sym.name ? names_shown(names, sym.name) :
		     is_called(e, start) ? "(called)" :
		     start ? "(no call of it was seen)" : "(before all that was called)");
	outbuf_str(out, "\n");
	for (; i < end; i++) {
		const struct cover_block *b = &t->blocks[i];

		outbuf_printf(out, "%14llu times      0x%llx-0x%llx  %u instruction%s\n",
			      (unsigned long long)b->n, address_of(m, b->off),
			      address_of(m, b->off) + b->size, b->n_insns,
			      b->n_insns == 1 ? "" : "s");
	}
	return end;
}

int cover_print_bare(const struct cover_tally *t, struct names *names,
		     struct outbuf *out, uint64_t *n)
{
	struct entries e = { .n = 0 };
	int err = 0;

	for (uint32_t k = 0; k < t->n_modules && !err; k++) {
		const struct cover_module *m = &t->modules[k];

		if (!m->n_blocks)
			continue;
		err = find_entries(t, k, &e);
		outbuf_str(out, "# of ");
		outbuf_clean(out, m->path ? m->path : "-");
		outbuf_str(out, ", which has no source lines:\n"
				"#instructions   blocks  function\n");
		for (size_t i = m->block; i < m->block + m->n_blocks && !err;)
			i = print_function(t, m, &e, i, names, out);
		*n += m->n_blocks;
	}
	free(e.v);
	return err;
}
