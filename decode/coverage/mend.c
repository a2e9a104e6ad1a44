/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage_mend: where the line table and the compiler's graph differ about how a
 * function begins and ends.
 */
#include <string.h>

#include "common/x86_insn.h"

#include "decode/coverage/graph.h"

/* "je 1f; call __stack_chk_fail; 1:" before in. */
static bool is_guard(const struct graph *g, const struct graph_insn *in)
{
	return in >= g->insns + 2 && in[-1].cls == X86_CALL &&
	       in[-2].cls == X86_COND && in[-2].to == in->off;
}

/* The instructions at the end of a function, up to its return, that have the
 * return's line alone. */
static void drop_end(struct graph *g, struct graph_insn *ret)
{
	const struct source_row *row = ret->row;
	struct graph_insn *in = ret;

	while (in > g->insns && in[-1].row == row) {
		if (is_guard(g, in))
			in--;
		else if (in[-1].cls != X86_OTHER)
			break;
		in--;
	}
	for (; in <= ret; in++)
		in->row = NULL;
}

/* What jumps to the last instructions and has their line, too. */
static void drop_ends(struct graph *g, struct graph_insn *ret)
{
	const struct source_row *row = ret->row;
	struct graph_insn *in, *end = g->insns + g->n_insns, *first = ret;

	drop_end(g, ret);
	while (first > g->insns && !first[-1].row &&
	       first[-1].cls == X86_OTHER)
		first--;
	for (in = g->insns; in < end; in++) {
		if (in->cls == X86_JUMP && in->to == first->off && in->row &&
		    in->row->line == row->line)
			drop_end(g, in);
	}
}

/* "mov %fs:0x28,%rax", where the stack is guarded. */
static bool is_canary(const struct cover_module *m, const struct graph_insn *in)
{
	static const uint8_t code[] = { 0x64, 0x48, 0x8b, 0x04, 0x25, 0x28 };
	uint64_t len, off = in->off + m->shift;
	const uint8_t *data = elfimage_data(m->image, &len);

	return off < len && len - off >= sizeof(code) &&
	       !memcmp(data + off, code, sizeof(code));
}

/* The instructions that a function begins with get the line of its declaration. */
static void mend_head(struct graph *g, const struct cover_module *m,
		      struct graph_insn *in, const struct elfimage_function *f)
{
	const struct graph_insn *end = g->insns + g->n_insns;
	const struct source_row *first = in->row, *row = first;

	if (!first || !f->line || first->line == f->line)
		return;
	g->head = *first;
	g->head.line = f->line;
	for (; in < end && in->row && in->row->line == first->line; in++) {
		if (in->row != row && !is_canary(m, in))
			break;
		row = in->row;
		in->row = &g->head;
	}
}

/* Whether what returns counts: not of a value, nor where a return is written. */
static bool counts_end(const struct graph *g, const struct elfimage_function *f,
		       const struct cover_labels *source)
{
	if (f->has_value)
		return false;
	for (size_t i = 0; source && i < g->n_insns; i++) {
		const struct source_row *row = g->insns[i].row;

		if (row && cover_labels_of(source, row->line) & COVER_RETURN)
			return false;
	}
	return true;
}

/*
 * What a function begins with has the line of its brace in the line table, and that
 * of its declaration in the compiler's graph; what it ends with may have a line in
 * the table alone.
 */
void graph_mend_rows(struct graph *g, const struct graph_counts *c,
		      const struct elfimage_function *f,
		      const struct cover_labels *source)
{
	struct graph_insn *in;
	uint64_t off, left;

	if (!elfimage_offset(c->module->image, f->entry, &off, &left))
		return;
	in = graph_find(g, off - c->module->shift);
	if (in)
		mend_head(g, c->module, in, f);
	if (counts_end(g, f, source))
		return;
	for (size_t i = 0; i < g->n_insns; i++) {
		if (g->insns[i].cls == X86_RET && g->insns[i].row)
			drop_ends(g, &g->insns[i]);
	}
}
