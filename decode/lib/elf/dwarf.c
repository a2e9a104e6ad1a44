/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Source lines, inlined functions and function lists from DWARF, through libdw.
 * This is the only file that uses it.
 *
 * The debug information of one file can be a gigabyte, and a trace touches
 * little of it. So everything is read on demand and kept: the list of
 * compilation units with their address ranges at the first question about the
 * image, the line table and the functions of a unit when one of its addresses
 * is first asked for. All of it is built under the image's lock and never
 * changes afterwards, so pointers into it stay valid as long as the image.
 *
 * Nothing in a file is trusted: libdw stays inside the bytes it was given
 * (is_sound() keeps from it what it would not check), and what is built from
 * them is bounded by their size (struct dwarf_image.left), because a small file
 * may let many units share one long list.
 *
 * Specification: DWARF 4 and 5, 3.1 "Unit Entries", 3.3 "Subroutine and Entry
 * Point Entries", 6.2 "Line Number Information"; 2.17 for address ranges.
 */
#include <aux/error.h>

#include "decode/lib/elf/impl.h"

#ifdef HAVE_DW
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>

#include "common/array.h"

/* 4 GiB: more than any debug information in use, and it still fits the
 * machines. */
#define MAX_PACKED (UINT64_C(4) << 30)
/* deflate cannot pack better than 1032:1, so a compressed section of n bytes
 * never unpacks to more than n times this. */
#define MAX_RATIO  1032
/* Nesting of DIEs. Deeper ones (only made-up files have them) are not
 * entered. */
#define MAX_DEPTH 256

/* Newer than the <dwarf.h> of some distributions. */
#ifndef DW_AT_GNU_discriminator
#define DW_AT_GNU_discriminator 0x2136
#endif

/* A function with code, or one inlined instance of a function. */
struct dwarf_node {
	void *die;		/* libdw's address of the DIE */
	uint64_t entry;		/* lowest address */
	uint32_t id;		/* offset of the DIE: unique in the image */
	uint32_t parent;	/* index + 1 of the function it is inlined into;
				 * 0: it is no inlined instance */
};

/* Addresses of a node (in a unit), or of a unit (in the image). */
struct dwarf_span {
	uint64_t start, end;
	uint32_t what;		/* index of the node or unit */
	uint32_t around;	/* index + 1 of the nearest earlier span that
				 * reaches past start; 0: none */
};

struct dwarf_spans {
	struct dwarf_span *v;
	size_t n, cap;
};

struct dwarf_unit {
	Dwarf_Off die;
	uint64_t size;		/* its bytes in .debug_info */
	bool have_rows, have_nodes, have_files;
	char **files;		/* full paths by DWARF file number; NULL: unknown */
	size_t n_files;
	struct source_row *rows;	/* by address; one for each address */
	size_t n_rows, cap_rows;
	struct dwarf_node *nodes;	/* a parent precedes its children */
	size_t n_nodes, cap_nodes;
	struct dwarf_spans spans;	/* of nodes */
};

struct dwarf_image {
	struct elfimage *im;	/* whose code it describes */
	Elf *elf;
	Dwarf *dw;		/* NULL: the file is not sound */
	uint8_t *copy;		/* of the file, where libelf writes to it */
	struct elfimage *shared; /* what dwz moved out of several files; NULL:
				  * nothing */
	Elf *shared_elf;
	Dwarf *shared_dw;
	uint8_t *shared_copy;
	uint64_t left;		/* objects that may still be made from the file */
	struct dwarf_unit *units;
	size_t n_units, cap_units;
	struct dwarf_spans spans;	/* of units */
};

/*
 * After a call of libdw that gave nothing: for want of memory, or because the file has
 * no such thing? It has one error for each thread, so this is asked before further calls.
 */
static void note_memory(struct elfimage *im)
{
	im->nomem |= elfimage_is_nomem(dwarf_errmsg(dwarf_errno())) ||
		     elfimage_is_nomem(elf_errmsg(elf_errno()));
}

/*
 * The same of one that failed, with errno 0 before it: some tell of another error than
 * the one that they met (dwarf_offdie). After success errno says nothing: malloc leaves
 * ENOMEM there where the heap cannot grow in place and memory is found elsewhere.
 */
static void note_failed(struct elfimage *im)
{
	im->nomem |= errno == ENOMEM;
	note_memory(im);
}

/*
 * Whether code can be at an address as linked: in a segment with PF_X, backed
 * by the file. The segments of an object are ours (kmodule.c) and have no
 * flags. This drops the ranges of functions that the linker discarded: their
 * addresses are left at 0, 1 or -1 (DWARF 5 has no tombstone, linkers differ).
 */
static bool is_code(const struct elfimage *im, uint64_t addr)
{
	for (size_t i = 0; i < im->n_segments; i++) {
		const Elf64_Phdr *p = &im->segments[i];

		if (p->p_type == PT_LOAD && addr >= p->p_vaddr &&
		    addr - p->p_vaddr < p->p_filesz &&
		    (im->type == ET_REL || p->p_flags & PF_X))
			return true;
	}
	return false;
}

/* ---- spans: address ranges that nest ---- */

/* 0 or -AUX_E_NOMEM. */
static int add_span(struct dwarf_spans *s, uint64_t start, uint64_t end,
		   uint32_t what)
{
	/* around counts them from 1 in 32 bits */
	if (s->n >= UINT32_MAX - 1 ||
	    array_grow(&s->v, s->n, &s->cap, sizeof(*s->v)) < 0)
		return -AUX_E_NOMEM;
	s->v[s->n++] = (struct dwarf_span){ start, end, what, 0 };
	return 0;
}

/* Adds the addresses that a DIE covers. Returns how many ranges there were, or
 * -AUX_E_NOMEM. *lowest is UINT64_MAX without any. */
static int add_ranges(struct dwarf_image *d, struct dwarf_spans *s,
		     Dwarf_Die *die, uint32_t what, uint64_t *lowest)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;
	int n = 0;

	*lowest = UINT64_MAX;
	while (d->left && (at = dwarf_ranges(die, at, &base, &start,
					     &end)) > 0) {
		d->left--;
		if (end <= start || !is_code(d->im, start))
			continue;
		if (add_span(s, start, end, what) < 0)
			return -AUX_E_NOMEM;
		if (start < *lowest)
			*lowest = start;
		n++;
	}
	return n;
}

/* Larger first where two begin alike, then in the order added: so parents
 * precede their children. */
static int by_start(const void *a, const void *b)
{
	const struct dwarf_span *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->end != y->end)
		return x->end > y->end ? -1 : 1;
	return x->what < y->what ? -1 : x->what > y->what;
}

/*
 * Sorts and links each span to the one around it, once all are added. The chain
 * of around is the stack of spans that are open at a start.
 */
static void sort_spans(struct dwarf_spans *s)
{
	uint32_t top = 0;

	if (s->n)
		qsort(s->v, s->n, sizeof(*s->v), by_start);
	for (size_t i = 0; i < s->n; i++) {
		while (top && s->v[top - 1].end <= s->v[i].start)
			top = s->v[top - 1].around;
		s->v[i].around = top;
		top = (uint32_t)i + 1;
	}
}

/* The innermost span around an address, or NULL: a binary search for the last
 * that starts at or before it, then outwards along around. */
static const struct dwarf_span *find_span(const struct dwarf_spans *s,
					 uint64_t addr)
{
	size_t lo = 0, n = s->n;

	while (n) {
		size_t half = n / 2;

		if (s->v[lo + half].start <= addr) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	while (lo && addr >= s->v[lo - 1].end)
		lo = s->v[lo - 1].around;
	return lo ? &s->v[lo - 1] : NULL;
}

/* ---- files and rows of a unit ---- */

/* "DIR/PATH", where PATH is not absolute. */
static char *full_path(const char *dir, const char *path)
{
	char *full;

	if (!path)
		return NULL;
	if (*path == '/' || !dir || !*dir)
		return strdup(path);
	return asprintf(&full, "%s/%s", dir, path) < 0 ? NULL : full;
}

static void read_files(struct dwarf_image *d, struct dwarf_unit *u)
{
	Dwarf_Attribute a;
	Dwarf_Files *files;
	const char *dir;
	Dwarf_Die die;
	size_t n;

	errno = 0;
	if (!dwarf_offdie(d->dw, u->die, &die) ||
	    dwarf_getsrcfiles(&die, &files, &n) != 0) {
		note_failed(d->im);
		return;
	}
	if (n > d->left)
		return;
	u->files = calloc(n ? n : 1, sizeof(*u->files));
	if (!u->files) {
		d->im->nomem = true;
		return;
	}
	dir = dwarf_formstring(dwarf_attr(&die, DW_AT_comp_dir, &a));
	for (size_t i = 0; i < n; i++) {
		const char *path = dwarf_filesrc(files, i, NULL, NULL);

		u->files[i] = full_path(dir, path);
		d->im->nomem |= path && !u->files[i];
	}
	u->n_files = n;
	d->left -= n;
}

/* The full path of a file of a unit by its number in the line table; NULL:
 * unknown. */
static const char *get_file(struct dwarf_image *d, struct dwarf_unit *u, size_t i)
{
	if (!u->have_files)
		read_files(d, u);
	u->have_files = true;
	return i < u->n_files ? u->files[i] : NULL;
}

static int add_row(struct dwarf_unit *u, const struct source_row *row)
{
	if (array_grow(&u->rows, u->n_rows, &u->cap_rows, sizeof(*u->rows)) < 0)
		return -AUX_E_NOMEM;
	u->rows[u->n_rows++] = *row;
	return 0;
}

/* file NULL marks the end of a sequence: nothing is known from there on. */
static struct source_row make_row(struct dwarf_image *d, struct dwarf_unit *u,
				  Dwarf_Line *line)
{
	struct source_row row = { .file = NULL };
	unsigned disc = 0;
	Dwarf_Files *files;
	size_t file = SIZE_MAX;
	int n = 0, column = 0;
	bool end = false;

	dwarf_lineaddr(line, &row.addr);
	dwarf_lineendsequence(line, &end);
	dwarf_lineno(line, &n);
	dwarf_linecol(line, &column);
	dwarf_linediscriminator(line, &disc);
	if (!end && dwarf_line_file(line, &files, &file) == 0)
		row.file = get_file(d, u, file);
	row.line = n > 0 ? (uint32_t)n : 0;
	row.column = column > 0 && column < UINT16_MAX ? (uint16_t)column : 0;
	row.discriminator = disc < UINT16_MAX ? (uint16_t)disc : UINT16_MAX;
	return row;
}

/*
 * Keeps the last row of each address, which is the one that counts: DWARF 5,
 * 6.2.5. libdw sorts by address and keeps the file's order among equal ones, so
 * where one sequence ends at the address at which another begins, the beginning
 * comes last and replaces the end.
 */
static void read_rows(struct dwarf_image *d, struct dwarf_unit *u,
		      Dwarf_Lines *lines, size_t n)
{
	struct source_row row, *last;

	for (size_t i = 0; i < n && d->left; i++, d->left--) {
		row = make_row(d, u, dwarf_onesrcline(lines, i));
		last = u->n_rows ? &u->rows[u->n_rows - 1] : NULL;
		if (row.file && !is_code(d->im, row.addr))
			continue;
		if (!row.file && (!last || (last->addr == row.addr &&
					    i + 1 < n)))
			continue;
		if (last && last->addr == row.addr) {
			*last = row;
		} else if (add_row(u, &row) < 0) {
			d->im->nomem = true;
			return;
		}
	}
}

/* Reads the line table of a unit, if that was not done. */
static void need_rows(struct dwarf_image *d, struct dwarf_unit *u)
{
	Dwarf_Lines *lines;
	Dwarf_Die die;
	size_t n;

	if (u->have_rows)
		return;
	u->have_rows = true;
	errno = 0;
	if (dwarf_offdie(d->dw, u->die, &die) &&
	    dwarf_getsrclines(&die, &lines, &n) == 0)
		read_rows(d, u, lines, n);
	else
		note_failed(d->im);
}

/* The row around an address, or NULL. */
static const struct source_row *find_row(const struct dwarf_unit *u,
					uint64_t addr)
{
	size_t lo = 0, n = u->n_rows;

	while (n) {
		size_t half = n / 2;

		if (u->rows[lo + half].addr <= addr) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo && u->rows[lo - 1].file ? &u->rows[lo - 1] : NULL;
}

/* ---- units of the image ---- */

/* A unit without DW_AT_ranges and DW_AT_low_pc (assemblers make them) covers
 * what its line table covers. */
static int add_rows_as_spans(struct dwarf_image *d, uint32_t unit)
{
	struct dwarf_unit *u = &d->units[unit];
	int rc = 0;

	need_rows(d, u);
	for (size_t i = 0; i + 1 < u->n_rows && !rc; i++) {
		if (u->rows[i].file && u->rows[i + 1].addr > u->rows[i].addr)
			rc = add_span(&d->spans, u->rows[i].addr,
					    u->rows[i + 1].addr, unit);
	}
	return rc;
}

static int add_unit(struct dwarf_image *d, Dwarf_Die *die, uint64_t size)
{
	uint32_t at = (uint32_t)d->n_units;
	uint64_t lowest;
	int n;

	if (d->n_units >= UINT32_MAX - 1 ||
	    array_grow(&d->units, d->n_units, &d->cap_units,
		       sizeof(*d->units)) < 0)
		return -AUX_E_NOMEM;
	d->units[d->n_units++] = (struct dwarf_unit){
		.die = dwarf_dieoffset(die), .size = size,
	};
	n = add_ranges(d, &d->spans, die, at, &lowest);
	return n ? n : add_rows_as_spans(d, at);
}

/*
 * Asks every unit for its ranges. .debug_aranges would be shorter, but may be
 * missing (clang makes none), or lack some units in a file that several
 * compilers made.
 */
static void read_units(struct dwarf_image *d)
{
	Dwarf_Off at = 0, next;
	uint8_t type;
	Dwarf_Die die;
	size_t head;

	for (; d->left && dwarf_nextcu(d->dw, at, &next, &head, NULL, NULL,
				       NULL) == 0; at = next) {
		d->left--;
		errno = 0;
		if (!dwarf_offdie(d->dw, at + head, &die) ||
		    dwarf_cu_info(die.cu, NULL, &type, NULL, NULL, NULL, NULL,
				  NULL) < 0) {
			note_failed(d->im);
			continue;
		}
		if (type != DW_UT_compile && type != DW_UT_skeleton)
			continue;
		if (next <= at)
			break;
		if (add_unit(d, &die, next - at) < 0) {
			d->im->nomem = true;
			break;
		}
	}
	sort_spans(&d->spans);
}

/* The unit with the code at an address as linked, or NULL. */
static struct dwarf_unit *find_unit(struct dwarf_image *d, uint64_t addr)
{
	const struct dwarf_span *s = find_span(&d->spans, addr);

	return s ? &d->units[s->what] : NULL;
}

/* ---- functions of a unit ---- */

/* A DIE is a function, or one inlined, or neither. */
static bool is_function(Dwarf_Die *die)
{
	int tag = dwarf_tag(die);

	return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine ||
	       tag == DW_TAG_entry_point;
}

/* Adds a function that has code. *node: index + 1 of the innermost function so
 * far; unchanged for a DIE that is none. */
static int add_node(struct dwarf_image *d, struct dwarf_unit *u, Dwarf_Die *die,
		    uint32_t *node)
{
	uint64_t lowest;
	int n;

	n = add_ranges(d, &u->spans, die, (uint32_t)u->n_nodes, &lowest);
	if (n <= 0)
		return n;
	if (u->n_nodes >= UINT32_MAX - 1 ||
	    array_grow(&u->nodes, u->n_nodes, &u->cap_nodes,
		       sizeof(*u->nodes)) < 0) {
		/* spans must not name a node that is not there */
		u->spans.n = 0;
		return -AUX_E_NOMEM;
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

/*
 * Visits the DIEs of a unit in the order of the file, without recursion: depth
 * comes from the file. A DW_AT_sibling that points back among children would
 * make this endless; the unit's size bounds it, since every DIE takes a byte at
 * least.
 */
static void walk_dies(struct dwarf_image *d, struct dwarf_unit *u, Dwarf_Die *top)
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
		    add_node(d, u, &die[depth], &node[depth]) < 0) {
			d->im->nomem = true;
			return;
		}
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

/* Reads the functions of a unit, if that was not done. */
static void need_nodes(struct dwarf_image *d, struct dwarf_unit *u)
{
	Dwarf_Die die, split;
	uint8_t type;

	if (u->have_nodes)
		return;
	u->have_nodes = true;
	errno = 0;
	if (!dwarf_offdie(d->dw, u->die, &die)) {
		note_failed(d->im);
		return;
	}
	memset(&split, 0, sizeof(split));
	if (dwarf_cu_info(die.cu, NULL, &type, NULL, &split, NULL, NULL,
			  NULL) == 0 &&
	    type == DW_UT_skeleton && split.addr)
		die = split; /* its functions are in another file */
	walk_dies(d, u, &die);
	sort_spans(&u->spans);
}

/* Follows DW_AT_abstract_origin and DW_AT_specification, which hold the
 * names. */
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

/* Where an inlined instance was called. */
static struct source_line get_call(struct dwarf_image *d, struct dwarf_unit *u,
				   Dwarf_Die *die)
{
	struct source_line call = { 0 };
	Dwarf_Attribute a;

	call.file = get_file(d, u, get_number(dwarf_attr(die,
							   DW_AT_call_file,
							   &a)));
	call.line = get_number(dwarf_attr(die, DW_AT_call_line, &a));
	call.column = get_number(dwarf_attr(die, DW_AT_call_column, &a));
	call.discriminator = get_number(dwarf_attr(die,
						   DW_AT_GNU_discriminator,
						   &a));
	return call;
}

static void fill_frame(struct dwarf_image *d, struct dwarf_unit *u, Dwarf_Die *die,
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

/* The function itself: names, where it is declared, what it returns. */
static void describe(struct dwarf_image *d, struct dwarf_unit *u,
		    const struct dwarf_node *node, struct elfimage_function *f)
{
	struct inline_frame frame;
	const struct source_row *row;
	Dwarf_Attribute a;
	Dwarf_Die die;

	*f = (struct elfimage_function){ .entry = node->entry };
	if (!dwarf_die_addr_die(d->dw, node->die, &die))
		return;
	fill_frame(d, u, &die, node, &frame);
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
	row = find_row(u, f->entry);
	f->file = row ? row->file : NULL;
}

/* The functions at an address of a unit, innermost first, as elfimage_inlines;
 * 0: none. */
static int find_inlines(struct dwarf_image *d, struct dwarf_unit *u, uint64_t addr,
		  struct inline_frame *frames, size_t max)
{
	const struct dwarf_span *s;
	const struct dwarf_node *node;
	Dwarf_Die die;
	uint32_t at;
	int n = 0;

	need_nodes(d, u);
	s = find_span(&u->spans, addr);
	for (at = s ? s->what + 1 : 0; at; at = node->parent, n++) {
		node = &u->nodes[at - 1];
		if ((size_t)n >= max)
			continue;
		frames[n] = (struct inline_frame){ 0 };
		if (dwarf_die_addr_die(d->dw, node->die, &die))
			fill_frame(d, u, &die, node, &frames[n]);
	}
	return n;
}

/* ---- the image ---- */

static bool has_lines(const struct elfimage *im)
{
	return elfimage_named(im, ".debug_line") ||
	       elfimage_named(im, ".zdebug_line");
}

/*
 * Whether libelf and libdw may be given a file: sections lie inside it, and do
 * not overlap so much that reading all of them would take more than twice its
 * size. Sets *packed when there are compressed sections: libelf then writes to
 * the headers.
 */
static bool is_sound(const struct elfimage *im, bool *packed)
{
	uint64_t plain = 2 * im->len, unpacked = MAX_PACKED;

	*packed = false;
	for (size_t i = 1; i < im->n_sections; i++) {
		const Elf64_Shdr *h = &im->sections[i].h;
		bool old = !strncmp(im->sections[i].name, ".zdebug", 7);

		if (h->sh_type == SHT_NULL || h->sh_type == SHT_NOBITS)
			continue;
		if (h->sh_offset > im->len || h->sh_size > plain ||
		    h->sh_size > im->len - h->sh_offset)
			return false;
		plain -= h->sh_size;
		if (!old && !(h->sh_flags & SHF_COMPRESSED))
			continue;
		if (h->sh_size > unpacked / MAX_RATIO)
			return false;
		unpacked -= h->sh_size * MAX_RATIO;
		*packed = true;
	}
	return true;
}

/* Bounds how much there can be to read; compressed sections count 32-fold, a
 * ratio that debug information does not reach. */
static uint64_t debug_bytes(const struct elfimage *im)
{
	uint64_t n = 0;

	for (size_t i = 1; i < im->n_sections; i++) {
		const struct elf_section *s = &im->sections[i];

		if (!strncmp(s->name, ".debug_", 7))
			n += s->h.sh_size;
		else if (!strncmp(s->name, ".zdebug_", 8))
			n += 32 * s->h.sh_size;
		if (s->h.sh_flags & SHF_COMPRESSED)
			n += 32 * s->h.sh_size;
	}
	return n;
}

/* NULL: the file is not sound. */
static Dwarf *open_libdw(struct elfimage *im, const struct elfimage *from,
			 Elf **elf, uint8_t **copy)
{
	char *bytes = (char *)(uintptr_t)from->data;
	bool packed;

	if (!is_sound(from, &packed))
		return NULL;
	if (packed) {
		*copy = malloc(from->len);
		if (!*copy) {
			im->nomem = true;
			return NULL;
		}
		bytes = memcpy(*copy, from->data, from->len);
	}
	*elf = elf_memory(bytes, from->len);
	return *elf ? dwarf_begin_elf(*elf, DWARF_C_READ, NULL) : NULL;
}

/* dwz moves what several files have into one, and names and functions refer to
 * that. */
static void open_shared(struct dwarf_image *d, const struct elfimage *from)
{
	const char *name;
	const void *id;
	ssize_t size = dwelf_dwarf_gnu_debugaltlink(d->dw, &name, &id);

	if (size <= 0)
		return;
	d->shared = elfimage_find_shared(d->im, from, name, id, (size_t)size);
	if (!d->shared)
		return;
	d->shared_dw = open_libdw(d->im, d->shared, &d->shared_elf,
				  &d->shared_copy);
	d->left += 4 * debug_bytes(d->shared);
	if (d->shared_dw)
		dwarf_setalt(d->dw, d->shared_dw);
}

/* Under the lock. NULL: there is no debug information, here or in a debug
 * file. */
static struct dwarf_image *need_dwarf(struct elfimage *im)
{
	const struct elfimage *from = im;
	struct dwarf_image *d;

	if (im->have_dwarf)
		return im->dwarf;
	im->have_dwarf = true;
	if (!im->elf)
		return NULL;
	if (!has_lines(im)) {
		elfimage_find_debug(im);
		from = im->debug;
	}
	if (!from || !has_lines(from))
		return NULL;
	d = calloc(1, sizeof(*d));
	if (!d) {
		im->nomem = true;
		return NULL;
	}
	im->dwarf = d;
	d->im = im;
	d->dw = open_libdw(im, from, &d->elf, &d->copy);
	d->left = 4 * debug_bytes(from) + 4096;
	if (d->dw)
		open_shared(d, from);
	if (d->dw)
		read_units(d);
	return d;
}

/* Errors of other look-ups that this thread made are not this one's. */
static void begin_look_up(struct elfimage *im)
{
	pthread_mutex_lock(&im->lock);
	(void)dwarf_errno();
	(void)elf_errno();
}

static void end_look_up(struct elfimage *im)
{
	note_memory(im);
	pthread_mutex_unlock(&im->lock);
}

void elfimage_dwarf_close(struct dwarf_image *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->n_units; i++) {
		for (size_t k = 0; k < d->units[i].n_files; k++)
			free(d->units[i].files[k]);
		free(d->units[i].files);
		free(d->units[i].rows);
		free(d->units[i].nodes);
		free(d->units[i].spans.v);
	}
	free(d->units);
	free(d->spans.v);
	dwarf_end(d->dw);
	elf_end(d->elf);
	free(d->copy);
	dwarf_end(d->shared_dw);
	elf_end(d->shared_elf);
	free(d->shared_copy);
	elfimage_close(d->shared);
	free(d);
}

int elfimage_line(struct elfimage *im, uint64_t offset,
		  struct source_line *line)
{
	const struct source_row *row = NULL;
	struct dwarf_image *d;
	struct dwarf_unit *u;
	uint64_t addr;

	begin_look_up(im);
	d = need_dwarf(im);
	u = d && elfimage_addr(im, offset, &addr) ? find_unit(d, addr) :
						     NULL;
	if (u) {
		need_rows(d, u);
		row = find_row(u, addr);
	}
	if (row)
		*line = (struct source_line){ row->file, row->line, row->column,
					      row->discriminator };
	end_look_up(im);
	return row ? 0 : -AUX_E_NOENT;
}

int elfimage_inlines(struct elfimage *im, uint64_t offset,
		     struct inline_frame *frames, size_t max)
{
	struct dwarf_image *d;
	struct dwarf_unit *u;
	uint64_t addr;
	int n = 0;

	begin_look_up(im);
	d = need_dwarf(im);
	u = d && elfimage_addr(im, offset, &addr) ? find_unit(d, addr) :
						     NULL;
	if (u)
		n = find_inlines(d, u, addr, frames, max);
	end_look_up(im);
	return n ? n : -AUX_E_NOENT;
}

/* ---- all functions, and all rows ---- */

struct list {
	struct elfimage_function *v;
	size_t n, n_areas;
};

static int by_entry(const void *a, const void *b)
{
	const struct elfimage_function *x = a, *y = b;

	if (x->entry != y->entry)
		return x->entry < y->entry ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

static void count_unit(const struct dwarf_unit *u, struct list *l)
{
	for (size_t i = 0; i < u->n_nodes; i++)
		l->n += !u->nodes[i].parent;
	for (size_t i = 0; i < u->spans.n; i++)
		l->n_areas += !u->nodes[u->spans.v[i].what].parent;
}

/* Appends the functions of a unit at l->v[l->n], and their areas at
 * areas[l->n_areas]; the arrays have room (count_unit). */
static int list_unit(struct dwarf_image *d, struct dwarf_unit *u,
		     struct list *l, struct elfimage_area *areas)
{
	uint32_t *at = calloc(u->n_nodes + 1, sizeof(*at));
	struct elfimage_function *f;

	if (!at)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < u->spans.n; i++)
		at[u->spans.v[i].what]++;
	for (size_t i = 0; i < u->n_nodes; i++) {
		if (u->nodes[i].parent)
			continue;
		f = &l->v[l->n++];
		describe(d, u, &u->nodes[i], f);
		f->areas = areas + l->n_areas;
		l->n_areas += at[i];
		at[i] = (uint32_t)(l->n - 1);
	}
	for (size_t i = 0; i < u->spans.n; i++) {
		const struct dwarf_span *s = &u->spans.v[i];

		if (u->nodes[s->what].parent)
			continue;
		f = &l->v[at[s->what]];
		areas[(size_t)(f->areas - areas) + f->n_areas++] =
			(struct elfimage_area){ s->start, s->end, 0 };
	}
	free(at);
	return 0;
}

/* Functions and areas stand in one allocation, which the caller frees as *v. */
static int list_units(struct dwarf_image *d, struct dwarf_unit *units, size_t n_units,
		      struct elfimage_function **v, size_t *n)
{
	struct list l = { NULL, 0, 0 };
	struct elfimage_area *areas;

	for (size_t i = 0; i < n_units; i++) {
		need_rows(d, &units[i]);
		need_nodes(d, &units[i]);
		count_unit(&units[i], &l);
	}
	if (!l.n)
		return -AUX_E_NOENT;
	l.v = malloc(l.n * sizeof(*l.v) + l.n_areas * sizeof(*areas));
	if (!l.v)
		return -AUX_E_NOMEM;
	areas = (struct elfimage_area *)(l.v + l.n);
	l.n = l.n_areas = 0;
	for (size_t i = 0; i < n_units; i++) {
		if (list_unit(d, &units[i], &l, areas) < 0) {
			free(l.v);
			return -AUX_E_NOMEM;
		}
	}
	qsort(l.v, l.n, sizeof(*l.v), by_entry);
	*v = l.v;
	*n = l.n;
	return 0;
}

int elfimage_functions(struct elfimage *im, struct elfimage_function **v,
		       size_t *n)
{
	struct dwarf_image *d;
	int rc = -AUX_E_NOENT;

	begin_look_up(im);
	d = need_dwarf(im);
	if (d && d->dw)
		rc = list_units(d, d->units, d->n_units, v, n);
	end_look_up(im);
	return rc;
}

int elfimage_functions_at(struct elfimage *im, uint64_t addr,
			  struct elfimage_function **v, size_t *n)
{
	struct dwarf_unit *u = NULL;
	struct dwarf_image *d;
	int rc = -AUX_E_NOENT;

	begin_look_up(im);
	d = need_dwarf(im);
	if (d && d->dw)
		u = find_unit(d, addr);
	if (u)
		rc = list_units(d, u, 1, v, n);
	end_look_up(im);
	return rc;
}

size_t elfimage_rows(struct elfimage *im, uint64_t addr,
		     const struct source_row **rows)
{
	struct dwarf_image *d;
	struct dwarf_unit *u;
	size_t n = 0;

	begin_look_up(im);
	d = need_dwarf(im);
	u = d ? find_unit(d, addr) : NULL;
	if (u) {
		need_rows(d, u);
		*rows = find_row(u, addr);
		n = *rows ? u->n_rows - (size_t)(*rows - u->rows) : 0;
	}
	end_look_up(im);
	return n;
}

#else

/* Without libdw there are no source lines and no inlined functions. */

int elfimage_line(struct elfimage *im, uint64_t offset,
		  struct source_line *line)
{
	(void)im;
	(void)offset;
	(void)line;
	return -AUX_E_NOENT;
}

int elfimage_inlines(struct elfimage *im, uint64_t offset,
		     struct inline_frame *frames, size_t max)
{
	(void)im;
	(void)offset;
	(void)frames;
	(void)max;
	return -AUX_E_NOENT;
}

int elfimage_functions(struct elfimage *im, struct elfimage_function **v,
		       size_t *n)
{
	(void)im;
	(void)v;
	(void)n;
	return -AUX_E_NOENT;
}

int elfimage_functions_at(struct elfimage *im, uint64_t addr,
			  struct elfimage_function **v, size_t *n)
{
	(void)addr;
	return elfimage_functions(im, v, n);
}

size_t elfimage_rows(struct elfimage *im, uint64_t addr,
		     const struct source_row **rows)
{
	(void)im;
	(void)addr;
	(void)rows;
	return 0;
}

void elfimage_dwarf_close(struct dwarf_image *d)
{
	(void)d;
}
#endif
