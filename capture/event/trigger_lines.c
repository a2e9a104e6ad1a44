/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a line of a source begins in a file, by its DWARF.
 *
 * One statement may have several rows, as a loop has one for its condition: the first of
 * each function, and of each place where it was inlined, is the one that counts, so that a
 * line is one moment each time a thread comes to it.
 * Specification: DWARF 5, section 6.2.
 */
#include "capture/event/impl.h"
#include "common/array.h"

#ifdef HAVE_DW
#include <dwarf.h>
#include <elfutils/libdw.h>

struct place {
	uint64_t scope;		/* the DIE's offset */
	uint64_t addr;
};

struct places {
	struct place *v;
	size_t n, cap;
};

/* The function, or the copy of one, that the address is in; 0: none is known. */
static uint64_t scope_of(Dwarf *dw, uint64_t addr)
{
	Dwarf_Die cu, *scopes = NULL;
	uint64_t at = 0;
	int n;

	if (!dwarf_addrdie(dw, addr, &cu))
		return 0;
	n = dwarf_getscopes(&cu, addr, &scopes);
	for (int i = 0; i < n && !at; i++) {
		int tag = dwarf_tag(&scopes[i]);

		if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine)
			at = dwarf_dieoffset(&scopes[i]);
	}
	free(scopes);
	return at;
}

/* Keeps the lowest address of each scope. */
static int take(struct places *p, uint64_t scope, uint64_t addr)
{
	const struct place new = { scope, addr };

	for (size_t i = 0; scope && i < p->n; i++) {
		if (p->v[i].scope != scope)
			continue;
		if (addr < p->v[i].addr)
			p->v[i].addr = addr;
		return 0;
	}
	return array_append(&p->v, &p->n, &p->cap, &new, sizeof(new));
}

/* "till.cpp" and "shop/till.cpp" are "/src/shop/till.cpp". */
static bool is_file(const char *path, const char *name)
{
	size_t n = strlen(path), k = strlen(name);

	return n >= k && !strcmp(path + n - k, name) &&
	       (n == k || path[n - k - 1] == '/' || *name == '/');
}

static int scan_unit(Dwarf *dw, Dwarf_Die *cu, const char *file, unsigned line,
		     struct places *p)
{
	Dwarf_Lines *lines;
	size_t n;
	int err = 0;

	if (dwarf_getsrclines(cu, &lines, &n))
		return 0;
	for (size_t i = 0; i < n && !err; i++) {
		Dwarf_Line *l = dwarf_onesrcline(lines, i);
		bool begins = false, end = false;
		const char *path;
		Dwarf_Addr addr;
		int at;

		if (dwarf_lineno(l, &at) || at != (int)line ||
		    dwarf_linebeginstatement(l, &begins) || !begins ||
		    dwarf_lineendsequence(l, &end) || end || dwarf_lineaddr(l, &addr))
			continue;
		path = dwarf_linesrc(l, NULL, NULL);
		if (path && is_file(path, file))
			err = take(p, scope_of(dw, addr), addr);
	}
	return err;
}

int trigger_line_addresses(void *elf, const char *file, unsigned line,
			   int (*add)(void *arg, uint64_t addr), void *arg)
{
	Dwarf *dw = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
	struct places p = { 0 };
	Dwarf_CU *unit = NULL;
	Dwarf_Die cu;
	int err = 0;

	while (dw && !err && !dwarf_get_units(dw, unit, &unit, NULL, NULL, &cu, NULL))
		err = scan_unit(dw, &cu, file, line, &p);
	for (size_t i = 0; i < p.n && !err; i++)
		err = add(arg, p.v[i].addr);
	free(p.v);
	dwarf_end(dw);
	return err;
}
#else
int trigger_line_addresses(void *elf, const char *file, unsigned line,
			   int (*add)(void *arg, uint64_t addr), void *arg)
{
	(void)elf, (void)file, (void)line, (void)add, (void)arg;
	return 0;
}
#endif
