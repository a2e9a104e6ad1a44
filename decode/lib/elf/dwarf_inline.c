/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elfimage_dwarf: functions, and those inlined into them. The DIEs of a unit are
 * walked once; kept are those that have code, each with the one around it.
 *
 * Specification: DWARF 5, 3.3 "Subroutine and Entry Point Entries".
 */
#ifdef HAVE_DW
#include <stdlib.h>

#include <aux/error.h>

#include "decode/lib/elf/dwarf.h"

#define MAX_DEPTH 256	/* of DIEs */

#ifndef DW_AT_GNU_discriminator
#define DW_AT_GNU_discriminator 0x2136
#endif

/* A DIE is a function, or one inlined, or neither. */
static bool is_function(Dwarf_Die *die)
{
	int tag = dwarf_tag(die);

	return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine ||
	       tag == DW_TAG_entry_point;
}

/* Adds a function with code. *node: its index + 1, unchanged for others. */
static int add_node(struct dwarf_image *d, struct dwarf_unit *u, Dwarf_Die *die,
		    uint32_t *node)
{
	size_t cap = u->cap_nodes ? 2 * u->cap_nodes : 16;
	struct dwarf_node *v = u->nodes;
	uint64_t lowest;
	int n;

	n = dwarf_add_ranges(d, &u->spans, die, (uint32_t)u->n_nodes, &lowest);
	if (n <= 0)
		return n;
	if (u->n_nodes == u->cap_nodes) {
		v = cap < UINT32_MAX ? reallocarray(v, cap, sizeof(*v)) : NULL;
		if (!v) {
			u->spans.n = 0;
			return -AUX_E_NOMEM;
		}
		u->nodes = v;
		u->cap_nodes = cap;
	}
	u->nodes[u->n_nodes++] = (struct dwarf_node){
		.die = die->addr, .entry = lowest,
		.id = (uint32_t)dwarf_dieoffset(die),
		/* what stands in a function but is none of it */
		.parent = dwarf_tag(die) == DW_TAG_inlined_subroutine ? *node :
									0,
	};
	*node = (uint32_t)u->n_nodes;
	return 0;
}

/* In the order of the file. A sibling may be named that lies among children:
 * left ends that. */
static void walk(struct dwarf_image *d, struct dwarf_unit *u, Dwarf_Die *top)
{
	Dwarf_Die die[MAX_DEPTH];
	uint32_t node[MAX_DEPTH] = { 0 };
	uint64_t left = u->size;
	int depth = 0;

	die[0] = *top;
	while (left-- && d->left) {
		d->left--;
		if (depth)
			node[depth] = node[depth - 1];
		if (is_function(&die[depth]) &&
		    add_node(d, u, &die[depth], &node[depth]) < 0)
			return;
		if (depth + 1 < MAX_DEPTH &&
		    dwarf_child(&die[depth], &die[depth + 1]) == 0) {
			depth++;
			continue;
		}
		while (depth &&
		       dwarf_siblingof(&die[depth], &die[depth]) != 0)
			depth--;
		if (!depth)
			return;
	}
}

void dwarf_need_nodes(struct dwarf_image *d, struct dwarf_unit *u)
{
	Dwarf_Die die, split;
	uint8_t type;

	if (u->have_nodes)
		return;
	u->have_nodes = true;
	if (!dwarf_offdie(d->dw, u->die, &die))
		return;
	memset(&split, 0, sizeof(split));
	if (dwarf_cu_info(die.cu, NULL, &type, NULL, &split, NULL, NULL,
			  NULL) == 0 &&
	    type == DW_UT_skeleton && split.addr)
		die = split; /* its functions are in another file */
	walk(d, u, &die);
	dwarf_sort_spans(&u->spans);
}

static const char *get_string(Dwarf_Die *die, unsigned what)
{
	Dwarf_Attribute a;

	return dwarf_attr_integrate(die, what, &a) ? dwarf_formstring(&a) :
						     NULL;
}

/* 0: there is none, or it is no number. */
static uint32_t get_number(Dwarf_Attribute *a)
{
	Dwarf_Word v;

	return a && dwarf_formudata(a, &v) == 0 && v <= UINT32_MAX ?
		       (uint32_t)v : 0;
}

static struct source_line get_call(struct dwarf_image *d, struct dwarf_unit *u,
				   Dwarf_Die *die)
{
	struct source_line call = { 0 };
	Dwarf_Attribute a;

	call.file = dwarf_file(d, u, get_number(dwarf_attr(die,
							   DW_AT_call_file,
							   &a)));
	call.line = get_number(dwarf_attr(die, DW_AT_call_line, &a));
	call.column = get_number(dwarf_attr(die, DW_AT_call_column, &a));
	call.discriminator = get_number(dwarf_attr(die,
						   DW_AT_GNU_discriminator,
						   &a));
	return call;
}

static void fill(struct dwarf_image *d, struct dwarf_unit *u, Dwarf_Die *die,
		 const struct dwarf_node *node, struct inline_frame *f)
{
	Dwarf_Attribute a;
	uint64_t left;

	*f = (struct inline_frame){ .name = get_string(die, DW_AT_name),
				    .id = node->id };
	f->linkage = get_string(die, DW_AT_linkage_name);
	if (!f->linkage)
		f->linkage = get_string(die, DW_AT_MIPS_linkage_name);
	f->decl_line = get_number(dwarf_attr_integrate(die, DW_AT_decl_line,
						       &a));
	if (!elfimage_offset(d->im, node->entry, &f->entry, &left))
		f->entry = 0;
	if (node->parent)
		f->call = get_call(d, u, die);
}

static bool is_c(struct dwarf_image *d, struct dwarf_unit *u)
{
	Dwarf_Die unit;
	int lang = dwarf_offdie(d->dw, u->die, &unit) ? dwarf_srclang(&unit) :
							-1;

	return lang == DW_LANG_C || lang == DW_LANG_C89 ||
	       lang == DW_LANG_C99 || lang == DW_LANG_C11;
}

void dwarf_describe(struct dwarf_image *d, struct dwarf_unit *u,
		    const struct dwarf_node *node, struct elfimage_function *f)
{
	struct inline_frame frame;
	const struct source_row *row;
	Dwarf_Attribute a;
	Dwarf_Die die;

	*f = (struct elfimage_function){ .entry = node->entry };
	if (!dwarf_die_addr_die(d->dw, node->die, &die))
		return;
	fill(d, u, &die, node, &frame);
	if (dwarf_hasattr(&die, DW_AT_low_pc))
		dwarf_lowpc(&die, &f->entry);
	else
		dwarf_entrypc(&die, &f->entry);
	f->name = frame.name;
	f->linkage = frame.linkage;
	f->line = frame.decl_line;
	f->column = get_number(dwarf_attr_integrate(&die, DW_AT_decl_column,
						    &a));
	f->has_value = dwarf_hasattr_integrate(&die, DW_AT_type);
	f->is_c = is_c(d, u);
	f->is_artificial = dwarf_hasattr_integrate(&die, DW_AT_artificial);
	row = dwarf_find_row(u, f->entry);
	f->file = row ? row->file : NULL;
}

int dwarf_inlines(struct dwarf_image *d, struct dwarf_unit *u, uint64_t addr,
		  struct inline_frame *frames, size_t max)
{
	const struct dwarf_span *s;
	const struct dwarf_node *node;
	Dwarf_Die die;
	uint32_t at;
	int n = 0;

	dwarf_need_nodes(d, u);
	s = dwarf_find_span(&u->spans, addr);
	for (at = s ? s->what + 1 : 0; at; at = node->parent, n++) {
		node = &u->nodes[at - 1];
		if ((size_t)n >= max)
			continue;
		frames[n] = (struct inline_frame){ 0 };
		if (dwarf_die_addr_die(d->dw, node->die, &die))
			fill(d, u, &die, node, &frames[n]);
	}
	return n;
}
#endif
