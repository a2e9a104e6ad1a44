/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elfimage: the stubs of the procedure linkage table, which have no symbols.
 *
 * A stub jumps through a slot of the global offset table; the relocation of that
 * slot names the function. So the code of the stub is read, not its number: that
 * holds for lazy and bound, with and without branch protection.
 *
 * Specification: x86-64 psABI, "Procedure Linkage Table"; ELF for the Arm 64-bit
 * Architecture, "PLT Sequences"; Intel SDM and Arm ARM for the instructions.
 */
#include <stdio.h>
#include <stdlib.h>

#include <aux/error.h>

#include "decode/lib/elf/impl.h"

#define MAX_STUBS ((size_t)1 << 20)
#define MAX_MADE  ((size_t)64 << 20) /* bytes of names */
#define MAX_IFUNC 512 /* slots that are named by what chooses their function */

/* A slot, and the section and number of the symbol of its relocation. */
struct slot {
	uint64_t addr;
	const struct elf_section *table; /* NULL: see chooser */
	uint32_t sym;
	uint64_t chooser;
};

struct slots {
	struct slot *v;
	size_t n, cap;
	uint32_t *plt;			/* symbols of .rela.plt, in order */
	size_t n_plt;
	unsigned n_ifunc;
	const struct elf_section *plt_table;
};

/* The slot's function is what a function of the file chooses when it is loaded. */
static bool is_ifunc(const struct elfimage *im, const Elf64_Rela *r)
{
	return ELF64_R_TYPE(r->r_info) ==
	       (im->machine == EM_X86_64 ? R_X86_64_IRELATIVE :
					   R_AARCH64_IRELATIVE);
}

static void add_slots(const struct elfimage *im, struct slots *slots,
		      const struct elf_section *rel)
{
	struct slot *p;
	Elf64_Rela r;

	for (uint64_t i = 0; slots->n < MAX_STUBS &&
			     elfimage_get_reloc(rel, i, &r); i++) {
		uint32_t sym = ELF64_R_SYM(r.r_info);

		if (!sym && (!is_ifunc(im, &r) ||
			     slots->n_ifunc++ >= MAX_IFUNC))
			continue;
		if (slots->n == slots->cap) {
			slots->cap = slots->cap ? 2 * slots->cap : 256;
			p = reallocarray(slots->v, slots->cap, sizeof(*p));
			if (!p)
				return;
			slots->v = p;
		}
		slots->v[slots->n++] = (struct slot){
			.addr = r.r_offset, .sym = sym,
			.table = sym ? &im->sections[rel->h.sh_link] : NULL,
			.chooser = (uint64_t)r.r_addend,
		};
	}
}

static int by_addr(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static const struct slot *find_slot(const struct slots *slots, uint64_t addr)
{
	struct slot want = { .addr = addr };

	return slots->n ? bsearch(&want, slots->v, slots->n, sizeof(want),
				  by_addr) : NULL;
}

static const char *keep_name(struct elfimage *im, const char *name)
{
	size_t len = strcspn(name, "@");
	char *made, **p;

	if (im->n_made == im->cap_made) {
		size_t cap = im->cap_made ? 2 * im->cap_made : 64;

		p = reallocarray(im->made, cap, sizeof(*p));
		if (!p)
			return NULL;
		im->made = p;
		im->cap_made = cap;
	}
	if (len > MAX_MADE - im->made_bytes ||
	    asprintf(&made, "%.*s@plt", (int)len, name) < 0)
		return NULL;
	im->made_bytes += len;
	im->made[im->n_made++] = made;
	return made;
}

static const char *name_chooser(const struct elfimage *im, uint64_t addr)
{
	const struct sym *best = NULL;
	uint64_t off, left;

	if (!elfimage_offset(im, addr, &off, &left))
		return NULL;
	for (size_t i = 0; i < im->n_syms; i++) {
		const struct sym *s = &im->syms[i];

		if (s->start == off && (!best || elfimage_better(s, best)))
			best = s;
	}
	return best ? best->name : NULL;
}

static void name_stub(struct elfimage *im, const struct elf_section *table,
		      uint32_t sym, uint64_t addr, uint64_t size)
{
	const char *name;
	Elf64_Sym s;

	if (!elfimage_get_symbol(table, sym, &s))
		return;
	name = elfimage_string(im, table->h.sh_link, s.st_name);
	if (name && *name && (name = keep_name(im, name)))
		elfimage_add_symbol(im, name, addr, size, false, false);
}

static void name_slot(struct elfimage *im, const struct slot *slot,
		      uint64_t addr, uint64_t size)
{
	const char *name;

	if (slot->table) {
		name_stub(im, slot->table, slot->sym, addr, size);
		return;
	}
	name = name_chooser(im, slot->chooser);
	if (name && (name = keep_name(im, name)))
		elfimage_add_symbol(im, name, addr, size, false, false);
}

static uint32_t load32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
	       (uint32_t)p[3] << 24;
}

/* [endbr64] [bnd] jmp *slot(%rip), or [endbr64] push n of a lazy stub. */
static void name_x86(struct elfimage *im, const struct slots *slots,
		     const uint8_t *p, uint64_t size, uint64_t addr)
{
	uint64_t at = size >= 4 && load32(p) == 0xfa1e0ff3 ? 4 : 0;
	const struct slot *slot;

	if (size - at >= 5 && p[at] == 0x68) {
		uint32_t n = load32(p + at + 1);

		if (n < slots->n_plt)
			name_stub(im, slots->plt_table, slots->plt[n], addr,
				  size);
		return;
	}
	if (at < size && p[at] == 0xf2)
		at++;
	if (size - at < 6 || p[at] != 0xff || p[at + 1] != 0x25)
		return;
	at += 6;
	slot = find_slot(slots, addr + at +
				(uint64_t)(int64_t)(int32_t)load32(p + at - 4));
	if (slot)
		name_slot(im, slot, addr, size);
}

static void walk_x86(struct elfimage *im, const struct slots *slots,
		     const struct elf_section *s)
{
	uint64_t step = s->h.sh_entsize == 8 ? 8 : 16;

	for (uint64_t at = 0; at + step <= s->h.sh_size; at += step)
		name_x86(im, slots, s->bytes + at, step, s->h.sh_addr + at);
}

/* [bti c] adrp x16, page; ldr x17, [x16, #low]; add x16, ..; br x17 */
static void walk_arm64(struct elfimage *im, const struct slots *slots,
		       const struct elf_section *s)
{
	const uint8_t *p = s->bytes;

	for (uint64_t at = 0; at + 16 <= s->h.sh_size; at += 4) {
		uint32_t adrp = load32(p + at), ldr = load32(p + at + 4);
		bool bti = at >= 4 && load32(p + at - 4) == 0xd503245f;
		uint64_t page = (s->h.sh_addr + at) & ~UINT64_C(4095);
		const struct slot *slot;
		int64_t imm;

		if ((adrp & 0x9f00001f) != 0x90000010 ||
		    (ldr & 0xffc003ff) != 0xf9400211)
			continue;
		imm = (int32_t)((adrp >> 5 & 0x7ffff) << 13) >> 11;
		imm |= adrp >> 29 & 3;
		page += (uint64_t)imm << 12;
		slot = find_slot(slots, page + (ldr >> 10 & 0xfff) * 8);
		if (slot)
			name_slot(im, slot, s->h.sh_addr + at - (bti ? 4 : 0),
				  bti ? 20 : 16);
	}
}

/* What a lazy stub pushes is a number in .rela.plt. */
static void note_plt(const struct elfimage *im, struct slots *slots,
		     const struct elf_section *rel)
{
	uint64_t n = rel->h.sh_size / sizeof(Elf32_Rela);
	Elf64_Rela r;

	if (slots->plt || n > 2 * MAX_STUBS)
		return;
	slots->plt = calloc(n ? n : 1, sizeof(*slots->plt));
	slots->plt_table = &im->sections[rel->h.sh_link];
	for (uint64_t i = 0; slots->plt && elfimage_get_reloc(rel, i, &r); i++)
		slots->plt[slots->n_plt++] = ELF64_R_SYM(r.r_info);
}

static void collect_slots(const struct elfimage *im, struct slots *slots)
{
	unsigned n_tables = 0;

	for (size_t i = 0; i < im->n_sections; i++) {
		const struct elf_section *s = &im->sections[i];

		if (s->h.sh_type != SHT_RELA || !(s->h.sh_flags & SHF_ALLOC) ||
		    s->h.sh_link >= im->n_sections || ++n_tables > 8)
			continue;
		add_slots(im, slots, s);
		if (!strcmp(s->name, ".rela.plt"))
			note_plt(im, slots, s);
	}
	if (slots->n)
		qsort(slots->v, slots->n, sizeof(*slots->v), by_addr);
}

void elfimage_add_plt(struct elfimage *im)
{
	static const char *const names[] = { ".plt", ".plt.sec", ".plt.got",
					     ".plt.bnd" };
	struct slots slots = { 0 };

	if (im->type == ET_REL ||
	    (im->machine != EM_X86_64 && im->machine != EM_AARCH64))
		return;
	collect_slots(im, &slots);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct elf_section *s = elfimage_named(im, names[i]);

		if (!s || !s->bytes || s->h.sh_size / 8 > MAX_STUBS)
			continue;
		if (im->machine == EM_X86_64)
			walk_x86(im, &slots, s);
		else
			walk_arm64(im, &slots, s);
	}
	free(slots.v);
	free(slots.plt);
}
