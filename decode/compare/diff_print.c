/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diff_print: differences as text: before each instruction its address in A and
 * in B ('-': it did not run there), its function, and what it is. As in unified
 * diffs, lines that only A has begin with '-', those that only B has with '+'.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clean.h"
#include "common/term.h"
#include "decode/callstack/names.h"
#include "decode/sink/columns.h"
#include "decode/compare/diff.h"
#include "decode/lib/elf/insn.h"

#define SHOW_SKIPPED 8	/* instructions of one side alone */
#define SHOW_AFTER 3
#define LIMIT_FOUND 10
#define LIMIT_FUNCS 20
#define SHOW_NAMES 3

static void put_number(struct diff_print *p, uint64_t n, const char *what)
{
	outbuf_printf(p->out, "%llu %s%s", (unsigned long long)n, what,
		      n == 1 ? "" : "s");
}

static void put_address(struct diff_print *p, const struct diff_elem *e)
{
	if (e)
		outbuf_printf(p->out, " %16llx", (unsigned long long)e->ip);
	else
		outbuf_printf(p->out, " %16s", "-");
}

/* "name+0x12", or for want of a name "[file+0x1234]". */
static void name_elem(const struct diff_print *p, const struct diff_side *s,
		      const struct diff_elem *e, char *buf, size_t len)
{
	struct aux_decode_symbol sym = { .size = sizeof(sym) };

	aux_decode_symbol(s->code->d, (const struct aux_decode_space *)e->space,
			  e->ip, &sym);
	if (sym.name)
		snprintf(buf, len, "%s+0x%llx", names_shown(p->names, sym.name),
			 (unsigned long long)(e->ip - sym.start));
	else if (sym.dso)
		snprintf(buf, len, "[%s+0x%llx]", sym.dso,
			 (unsigned long long)sym.dso_offset);
	else
		snprintf(buf, len, "[nothing is mapped]");
}

/* The bytes are those of this recording's code, which may differ at equal
 * addresses. */
static void put_insn(struct diff_print *p, const struct diff_side *s,
		     const struct diff_elem *e)
{
	char text[160];
	uint8_t bytes[16];
	size_t n = walk_bytes(s->code->walk, e->space, e->ip, bytes,
			      sizeof(bytes));

	if (p->disasm &&
	    disasm_text(p->disasm, bytes, n, e->ip, e->mode, text, sizeof(text)))
		outbuf_str(p->out, text);
}

/* One instruction, of A, of B or of both: the other is NULL. Of both, A's name
 * is shown; they have the same offset in files of the same name. */
static void put_line(struct diff_print *p, const struct diff_flow *f,
		     const struct diff_elem *a, const struct diff_elem *b)
{
	const struct diff_side *s = &f->side[!a];
	const struct diff_elem *e = a ? a : b;
	const char *mark = a && b ? "  " : a ? "- " : "+ ";
	char name[200];

	if (!a || !b)
		outbuf_str(p->out, a ? p->colour->bad : p->colour->good);
	outbuf_str(p->out, mark);
	if (e->gap) {
		outbuf_printf(p->out, "# gap %s: %s", aux_gap_name(e->gap),
			      p->gap_text(e->gap));
	} else {
		put_address(p, a);
		put_address(p, b);
		name_elem(p, s, e, name, sizeof(name));
		outbuf_str(p->out, "  ");
		outbuf_clean(p->out, name);
		for (size_t k = strlen(name); k < 36; k++)
			outbuf_put(p->out, " ", 1);
		outbuf_str(p->out, "  ");
		put_insn(p, s, e);
	}
	outbuf_str(p->out, p->colour->end);
	outbuf_str(p->out, "\n");
}

/* n instructions that are equal, from a and b on. */
static void put_both(struct diff_print *p, const struct diff_flow *f,
		     const struct diff_elem *a, const struct diff_elem *b,
		     size_t n)
{
	for (size_t i = 0; i < n; i++)
		put_line(p, f, &a[i], &b[i]);
}

/* What only this side ran: the first SHOW_SKIPPED, and how many more. */
static void put_side(struct diff_print *p, const struct diff_flow *f,
		     unsigned side)
{
	const struct diff_side *s = &f->side[side];
	const struct diff_elem *v = s->v + s->head;
	size_t n = f->skip[side];

	for (size_t i = 0; i < n && i < SHOW_SKIPPED; i++)
		put_line(p, f, side ? NULL : &v[i], side ? &v[i] : NULL);
	if (n > SHOW_SKIPPED)
		outbuf_printf(p->out, "%s ... %zu more\n", side ? "+" : "-",
			      n - SHOW_SKIPPED);
}

/* "in parse_line, strlen and others", of the first 4096 instructions: a lookup
 * for each of a long difference would take longer than finding it. Names are
 * compared by address: one that is shown twice does no harm. */
static void put_names(struct diff_print *p, const struct diff_side *s, size_t n)
{
	const char *seen[SHOW_NAMES];
	unsigned n_seen = 0;

	for (size_t i = 0; i < n && i < 4096; i++) {
		const struct diff_elem *e = &s->v[s->head + i];
		struct aux_decode_symbol sym = { .size = sizeof(sym) };
		unsigned k = 0;

		aux_decode_symbol(s->code->d,
				  (const struct aux_decode_space *)e->space,
				  e->ip, &sym);
		while (k < n_seen && seen[k] != sym.name)
			k++;
		if (!sym.name || k < n_seen)
			continue;
		if (n_seen == SHOW_NAMES) {
			outbuf_str(p->out, " and others");
			return;
		}
		outbuf_str(p->out, n_seen ? ", " : " in ");
		outbuf_clean(p->out, names_shown(p->names, sym.name));
		seen[n_seen++] = sym.name;
	}
}

static size_t count_insns(const struct diff_side *s, size_t n)
{
	size_t insns = 0;

	for (size_t i = 0; i < n; i++)
		insns += !s->v[s->head + i].gap;
	return insns;
}

/* "A runs 12 more instructions in parse_line; then they are equal again". Where
 * they do not meet, the rest of each thread counts, whose length the first pass
 * found. */
static void put_summary(struct diff_print *p, const struct diff_flow *f)
{
	const char *sep = "  ";

	outbuf_str(p->out, p->colour->head);
	for (unsigned i = 0; i < 2; i++) {
		const struct diff_side *s = &f->side[i];
		uint64_t n = count_insns(s, f->skip[i]);

		if (!f->met)
			n = p->pair[i]->hash.n > s->index ?
				    p->pair[i]->hash.n - s->index : 0;
		if (!n)
			continue;
		outbuf_printf(p->out, "%s%c runs ", sep, "AB"[i]);
		put_number(p, n, f->skip[!i] ? "instruction" :
					       "more instruction");
		put_names(p, s, f->skip[i]);
		sep = ", ";
	}
	if (f->met)
		outbuf_printf(p->out, "%sthen they are equal again", sep);
	else if (diff_side_left(&f->side[0]) < DIFF_WINDOW &&
		 diff_side_left(&f->side[1]) < DIFF_WINDOW)
		outbuf_printf(p->out, "%sto the end", sep);
	else
		outbuf_printf(p->out, "%sand do not meet again within %zu "
			      "instructions: nothing after that is compared", sep,
			      DIFF_WINDOW);
	outbuf_printf(p->out, "%s\n", p->colour->end);
}

static size_t less_of(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Differences past the limit are not shown, but go on being counted. */
int diff_print_found(void *priv, struct diff_flow *f)
{
	struct diff_print *p = priv;
	const struct diff_side *a = &f->side[0], *b = &f->side[1];
	size_t before = less_of(less_of(a->head, b->head), DIFF_CONTEXT);
	size_t after = f->met ? SHOW_AFTER : 0;

	if (f->n_found > (p->limit ? p->limit : LIMIT_FOUND))
		return 0;
	outbuf_printf(p->out, "%s@@ after %llu instructions of A and %llu of B "
		      "@@%s\n", p->colour->head, (unsigned long long)a->index,
		      (unsigned long long)b->index, p->colour->end);
	put_both(p, f, a->v + a->head - before, b->v + b->head - before, before);
	put_side(p, f, 0);
	put_side(p, f, 1);
	put_both(p, f, a->v + a->head + f->skip[0], b->v + b->head + f->skip[1],
		 after);
	put_summary(p, f);
	return outbuf_failed(p->out) ? -AUX_E_IO : 0;
}

static void put_thread(struct diff_print *p, const struct diff_thread *t)
{
	outbuf_printf(p->out, "thread %d \"", (int32_t)t->tid);
	outbuf_clean(p->out, t->comm);
	outbuf_str(p->out, "\"");
}

/* The hashes of the first pass decide: equal count and hash mean equal
 * instructions, and the pair is not decoded again. */
void diff_print_pair(struct diff_print *p)
{
	const struct diff_thread *a = p->pair[0], *b = p->pair[1];
	bool equal = a->hash.n == b->hash.n && a->hash.value == b->hash.value;

	outbuf_str(p->out, equal ? p->colour->good : p->colour->bad);
	put_thread(p, a);
	outbuf_str(p->out, " of A, ");
	put_thread(p, b);
	outbuf_str(p->out, equal ? " of B: equal, " : " of B: differ, ");
	put_number(p, a->hash.n, "instruction");
	if (!equal) {
		outbuf_str(p->out, " and ");
		put_number(p, b->hash.n, "instruction");
	}
	if (a->n_gaps | b->n_gaps)
		outbuf_printf(p->out, " (gaps: %llu and %llu)",
			      (unsigned long long)a->n_gaps,
			      (unsigned long long)b->n_gaps);
	outbuf_printf(p->out, "%s\n", p->colour->end);
	p->equal &= equal;
}

void diff_print_alone(struct diff_print *p, const struct diff_sum *s)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct diff_thread *t = s->threads[i];

		if (t->match || !t->hash.n)
			continue;
		outbuf_str(p->out, s->side ? p->colour->good : p->colour->bad);
		put_thread(p, t);
		outbuf_printf(p->out, " of %c alone: ", "AB"[s->side]);
		put_number(p, t->hash.n, "instruction");
		outbuf_printf(p->out, "%s\n", p->colour->end);
		p->equal = false;
	}
}

/* Differences are B minus A, modulo 2^64: signed as long as no count is above
 * 2^63. */
static void put_func(struct diff_print *p, const struct diff_func *f)
{
	int64_t insns = (int64_t)(f->insns[1] - f->insns[0]);
	int64_t calls = (int64_t)(f->calls[1] - f->calls[0]);

	outbuf_printf(p->out, "%s%+14lld%s %14llu %14llu %+10lld %10llu %10llu  ",
		      insns < 0 ? p->colour->bad : p->colour->good,
		      (long long)insns, p->colour->end,
		      (unsigned long long)f->insns[0],
		      (unsigned long long)f->insns[1], (long long)calls,
		      (unsigned long long)f->calls[0],
		      (unsigned long long)f->calls[1]);
	outbuf_str(p->out, p->colour->name);
	outbuf_clean(p->out, f->name ? names_shown(p->names, f->name) :
				       "[no symbol]");
	outbuf_printf(p->out, "%s %s(", p->colour->end, p->colour->dim);
	outbuf_clean(p->out, f->dso);
	outbuf_printf(p->out, ")%s\n", p->colour->end);
}

static bool is_different(const struct diff_func *f)
{
	return f->insns[0] != f->insns[1] || f->calls[0] != f->calls[1];
}

/* Functions that ran as often in both are left out. The limit ends the table,
 * not the comparison: equal is exact. */
int diff_print_funcs(struct diff_print *p, const struct diff_funcs *funcs)
{
	struct diff_func **v = diff_funcs_sort(funcs);
	uint64_t limit = p->limit ? p->limit : LIMIT_FUNCS, n = 0;

	if (!v)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < funcs->n; i++) {
		if (!is_different(v[i]))
			continue;
		p->equal = false;
		if (!n)
			outbuf_printf(p->out, "%s%14s %14s %14s %10s %10s %10s  "
				      "function%s\n", p->colour->head,
				      "instructions", "A", "B", "calls", "A",
				      "B", p->colour->end);
		if (n++ < limit)
			put_func(p, v[i]);
	}
	if (n > limit)
		outbuf_printf(p->out, "... %llu more functions differ; -n shows "
			      "more\n", (unsigned long long)(n - limit));
	free(v);
	return 0;
}
