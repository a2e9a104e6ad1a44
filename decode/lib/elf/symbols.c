/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elfimage: names, sorted by file offset. A look-up is a binary search for the
 * nearest start, then a walk outwards through the symbols around it.
 *
 * Several names may stand for one start, and symbols nest; the rules for what
 * is shown are at by_rank() and below it. They matter: profiles of two
 * machines are compared by name.
 *
 * Stubs of the procedure linkage table have no symbols. A stub jumps through a
 * slot of the global offset table, and the relocation of that slot names the
 * function. So the code of the stub is read, not its number in the table: that
 * holds for lazy and immediate binding, with and without branch protection
 * (IBT, BTI).
 *
 * Specification: System V ABI, "Symbol Table"; x86-64 psABI, "Procedure Linkage
 * Table"; ELF for the Arm 64-bit Architecture, "PLT Sequences"; ELF for the Arm
 * Architecture, "Mapping symbols" (which are no names) and bit 0 of Thumb
 * functions.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <aux/error.h>

#include "common/array.h"

#include "decode/lib/elf/eh_frame.h"
#include "decode/lib/elf/impl.h"

#define MAX_UNSIZED 4096 /* bytes that a symbol without a size may cover */
#define DIGIT_BITS  11	/* of a start, in each pass of sort_syms() */
#define DIGIT_MAX   ((1 << DIGIT_BITS) - 1)

/* Adds a name if the file has bytes at addr. Out of memory: the name is
 * missing. */
static void add_symbol(struct elfimage *im, const char *name, uint64_t addr,
		       uint64_t size, bool global, bool label)
{
	uint64_t off, left;

	if (!elfimage_offset(im, addr, &off, &left))
		return;
	/* parent counts them from 1 in 32 bits */
	if (im->n_syms >= UINT32_MAX - 1 ||
	    array_grow(&im->syms, im->n_syms, &im->cap_syms,
		       sizeof(*im->syms)) < 0) {
		im->nomem = true;
		return;
	}
	im->syms[im->n_syms++] = (struct sym){
		.start = off, .end = off + (size < left ? size : left),
		.name = name, .global = global, .label = label,
	};
}

/* In an object st_value counts from the section: makes it an address. */
static bool place_symbol(const struct elfimage *from, Elf64_Sym *s)
{
	const struct elf_section *in;

	if (from->type != ET_REL)
		return true;
	if (s->st_shndx >= from->n_sections)
		return false;
	in = &from->sections[s->st_shndx];
	if (!in->placed || s->st_value > in->h.sh_size)
		return false;
	s->st_value += in->h.sh_addr;
	return true;
}

/* $a, $t, $d, $x, and the same with a dot and a suffix. */
static bool is_mapping(const struct elfimage *im, const char *name)
{
	return (im->machine == EM_ARM || im->machine == EM_AARCH64) &&
	       name[0] == '$' && name[1] && strchr("atdx", name[1]) &&
	       (!name[2] || name[2] == '.');
}

/* Adds the symbols of a table in from, which is im or a debug file of it. */
static void add_table(struct elfimage *im, const struct elfimage *from,
		      const struct elf_section *table)
{
	const char *name;
	Elf64_Sym s;

	for (uint64_t i = 1; elfimage_get_symbol(table, i, &s); i++) {
		unsigned type = ELF64_ST_TYPE(s.st_info);

		if (s.st_shndx == SHN_UNDEF || s.st_shndx == SHN_ABS ||
		    (type != STT_FUNC && type != STT_GNU_IFUNC &&
		     type != STT_NOTYPE) || !place_symbol(from, &s))
			continue;
		name = elfimage_string(from, table->h.sh_link, s.st_name);
		if (!name || !*name || is_mapping(im, name))
			continue;
		if (im->machine == EM_ARM && type == STT_FUNC)
			s.st_value &= ~UINT64_C(1);
		add_symbol(im, name, s.st_value, s.st_size,
				    ELF64_ST_BIND(s.st_info) != STB_LOCAL,
				    type == STT_NOTYPE && !s.st_size);
	}
}

/*
 * Which of two names of one start is shown: a name with a size beats one without,
 * a global one a local, one without a version ("@") one with, fewer underscores
 * in front beat more (malloc, not __libc_malloc); then the alphabet decides, so
 * the choice never depends on the order in the file. Above 0: a is better.
 */
static int by_rank(const struct sym *a, const struct sym *b)
{
	bool sa = a->end > a->start, sb = b->end > b->start;
	bool va = strchr(a->name, '@'), vb = strchr(b->name, '@');
	size_t ua = strspn(a->name, "_"), ub = strspn(b->name, "_");

	if (sa != sb)
		return sa ? 1 : -1;
	if (a->global != b->global)
		return a->global ? 1 : -1;
	if (va != vb)
		return va ? -1 : 1;
	if (ua != ub)
		return ua < ub ? 1 : -1;
	return -strcmp(a->name, b->name);
}

static int by_start(const void *a, const void *b)
{
	const struct sym *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* One digit of starts, from in to out; equal ones keep their order. */
static void sort_digit(const struct sym *in, struct sym *out, size_t n, unsigned shift)
{
	size_t at[1 << DIGIT_BITS] = { 0 }, sum = 0;

	for (size_t i = 0; i < n; i++)
		at[in[i].start >> shift & DIGIT_MAX]++;
	for (size_t d = 0; d <= DIGIT_MAX; d++) {
		size_t here = at[d];

		at[d] = sum;
		sum += here;
	}
	for (size_t i = 0; i < n; i++)
		out[at[in[i].start >> shift & DIGIT_MAX]++] = in[i];
}

/*
 * By start, digit by digit from the lowest: a large program has hundreds of
 * thousands of names, and comparing them took half the time of decoding a
 * megabyte of its trace.
 */
static void sort_syms(struct elfimage *im)
{
	struct sym *other = reallocarray(NULL, im->n_syms, sizeof(*other));
	struct sym *done = im->syms, *next = other;
	uint64_t all = 0;

	if (!other) {
		qsort(im->syms, im->n_syms, sizeof(*im->syms), by_start);
		return;
	}
	for (size_t i = 0; i < im->n_syms; i++)
		all |= im->syms[i].start;
	for (unsigned shift = 0; shift < 64 && all >> shift; shift += DIGIT_BITS) {
		struct sym *in = done;

		sort_digit(in, next, im->n_syms, shift);
		done = next;
		next = in;
	}
	if (done == other)
		memcpy(im->syms, other, im->n_syms * sizeof(*other));
	free(other);
}

/* Keeps the best name of each start. */
static void drop_aliases(struct elfimage *im)
{
	size_t n = 0;

	for (size_t i = 0; i < im->n_syms; i++) {
		struct sym *s = &im->syms[i], *last = n ? &im->syms[n - 1] : NULL;

		if (!last || last->start != s->start)
			im->syms[n++] = *s;
		else if (by_rank(s, last) >= 0)
			*last = *s;
	}
	im->n_syms = n;
}

/* A label inside a function (assembly has them) does not begin another one. */
static void drop_labels(struct elfimage *im)
{
	uint64_t end = 0;
	size_t n = 0;

	for (size_t i = 0; i < im->n_syms; i++) {
		const struct sym *s = &im->syms[i];

		if (s->label && s->start < end)
			continue;
		if (s->end > end)
			end = s->end;
		im->syms[n++] = *s;
	}
	im->n_syms = n;
}

/* A symbol without a size reaches to the next one, but not further than
 * MAX_UNSIZED. */
static void assign_sizes(struct elfimage *im)
{
	for (size_t i = 0; i < im->n_syms; i++) {
		struct sym *s = &im->syms[i];

		if (s->end > s->start)
			continue;
		s->end = s->start + MAX_UNSIZED;
		if (i + 1 < im->n_syms && im->syms[i + 1].start < s->end)
			s->end = im->syms[i + 1].start;
	}
}

/*
 * Links each symbol to the nearest one before it that reaches past its start.
 */
static void link_parents(struct elfimage *im)
{
	uint32_t top = 0;

	for (size_t i = 0; i < im->n_syms; i++) {
		struct sym *s = &im->syms[i];

		while (top && im->syms[top - 1].end <= s->start)
			top = im->syms[top - 1].parent;
		s->parent = top;
		top = (uint32_t)i + 1;
	}
}

/* ---- stubs of the procedure linkage table ---- */

#define MAX_STUBS ((size_t)1 << 20)
#define MAX_MADE  ((size_t)64 << 20) /* bytes of made names in one image */
#define MAX_IFUNC 512 /* slots named after their resolver: each takes a linear search */

/* A slot of the global offset table, and the symbol of its relocation. */
struct slot {
	uint64_t addr;
	const struct elf_section *table; /* of sym; NULL: see resolver */
	uint32_t sym;
	uint64_t resolver;		/* IRELATIVE: address of the ifunc's
					 * resolver */
};

struct slots {
	struct slot *v;
	size_t n, cap;
	uint32_t *plt;			/* symbols of .rela.plt, by index */
	size_t n_plt;
	unsigned n_ifunc;
	bool nomem;
	const struct elf_section *plt_table;
};

/* IRELATIVE: a function of this file is called at load time and returns the
 * address. */
static bool is_ifunc(const struct elfimage *im, const Elf64_Rela *r)
{
	return ELF64_R_TYPE(r->r_info) ==
	       (im->machine == EM_X86_64 ? R_X86_64_IRELATIVE :
					   R_AARCH64_IRELATIVE);
}

/* The slots of one relocation table. */
static void add_slots(const struct elfimage *im, struct slots *slots,
		      const struct elf_section *rel)
{
	Elf64_Rela r;

	for (uint64_t i = 0; slots->n < MAX_STUBS &&
			     elfimage_get_reloc(rel, i, &r); i++) {
		uint32_t sym = ELF64_R_SYM(r.r_info);

		if (!sym && (!is_ifunc(im, &r) ||
			     slots->n_ifunc++ >= MAX_IFUNC))
			continue;
		if (array_grow(&slots->v, slots->n, &slots->cap,
			       sizeof(*slots->v)) < 0) {
			slots->nomem = true;
			return;
		}
		slots->v[slots->n++] = (struct slot){
			.addr = r.r_offset, .sym = sym,
			.table = sym ? &im->sections[rel->h.sh_link] : NULL,
			.resolver = (uint64_t)r.r_addend,
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

/* A name that lives as long as the image. NULL: no memory, or too many. */
__attribute__((format(printf, 2, 3)))
static const char *make_name(struct elfimage *im, const char *format, ...)
{
	va_list args;
	char *made;
	int len;

	if (im->made_bytes > MAX_MADE)
		return NULL;
	if (array_grow(&im->made, im->n_made, &im->cap_made, sizeof(*im->made)) < 0) {
		im->nomem = true;
		return NULL;
	}
	va_start(args, format);
	len = vasprintf(&made, format, args);
	va_end(args);
	if (len < 0) {
		im->nomem = true;
		return NULL;
	}
	im->made_bytes += (size_t)len;
	im->made[im->n_made++] = made;
	return made;
}

/* "NAME@plt", without a version. */
static const char *make_stub_name(struct elfimage *im, const char *name)
{
	return make_name(im, "%.*s@plt", (int)strcspn(name, "@"), name);
}

/* The name of an ifunc's resolver, which is that of the function it selects
 * for. */
static const char *name_resolver(const struct elfimage *im, uint64_t addr)
{
	const struct sym *best = NULL;
	uint64_t off, left;

	if (!elfimage_offset(im, addr, &off, &left))
		return NULL;
	for (size_t i = 0; i < im->n_syms; i++) {
		const struct sym *s = &im->syms[i];

		if (s->start == off && (!best || by_rank(s, best) > 0))
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
	if (name && *name && (name = make_stub_name(im, name)))
		add_symbol(im, name, addr, size, false, false);
}

static void name_slot(struct elfimage *im, const struct slot *slot,
		      uint64_t addr, uint64_t size)
{
	const char *name;

	if (slot->table) {
		name_stub(im, slot->table, slot->sym, addr, size);
		return;
	}
	name = name_resolver(im, slot->resolver);
	if (name && (name = make_stub_name(im, name)))
		add_symbol(im, name, addr, size, false, false);
}

static uint32_t load32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
	       (uint32_t)p[3] << 24;
}

/* [endbr64] [bnd] jmp *slot(%rip); or the lazy half of a split stub, [endbr64]
 * push n: n is an index into .rela.plt. */
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

/* Stubs have a fixed size: 16 bytes, or 8 in .plt.got and .plt.sec of some
 * linkers (sh_entsize). */
static void walk_x86(struct elfimage *im, const struct slots *slots,
		     const struct elf_section *s)
{
	uint64_t step = s->h.sh_entsize == 8 ? 8 : 16;

	for (uint64_t at = 0; at + step <= s->h.sh_size; at += step)
		name_x86(im, slots, s->bytes + at, step, s->h.sh_addr + at);
}

/* [bti c]; adrp x16, page; ldr x17, [x16, #low]; add x16, ..; br x17. Stubs are
 * found by their code, so padding and the header do not matter. */
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

/* The symbols of .rela.plt by index, for lazy stubs. */
static void read_plt_order(const struct elfimage *im, struct slots *slots,
		     const struct elf_section *rel)
{
	uint64_t n = rel->h.sh_size / sizeof(Elf32_Rela);
	Elf64_Rela r;

	if (slots->plt || n > 2 * MAX_STUBS)
		return;
	slots->plt = calloc(n ? n : 1, sizeof(*slots->plt));
	slots->nomem |= !slots->plt;
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
			read_plt_order(im, slots, s);
	}
	if (slots->n)
		qsort(slots->v, slots->n, sizeof(*slots->v), by_addr);
}

/* Names all stubs. 32-bit machines have other sequences and are left out. */
static void add_stubs(struct elfimage *im)
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
	im->nomem |= slots.nomem;
	free(slots.v);
	free(slots.plt);
}

/* ---- look-ups ---- */

static const struct elf_section *find_table(const struct elfimage *im,
					    uint32_t type)
{
	for (size_t i = 0; i < im->n_sections; i++) {
		if (im->sections[i].h.sh_type == type)
			return &im->sections[i];
	}
	return NULL;
}

/* .symtab of the file or of its debug file, then .dynsym, which may have more
 * (aliases), then stubs. */
static void load_syms(struct elfimage *im)
{
	const struct elf_section *table = find_table(im, SHT_SYMTAB);
	const struct elfimage *from = im;

	if (!table) {
		elfimage_find_debug(im);
		from = im->debug ? im->debug : im->mini;
		table = from ? find_table(from, SHT_SYMTAB) : NULL;
	}
	if (table)
		add_table(im, from, table);
	table = find_table(im, SHT_DYNSYM);
	if (table)
		add_table(im, im, table);
	add_stubs(im);
	if (!im->n_syms)
		return;
	sort_syms(im);
	drop_aliases(im);
	drop_labels(im);
	assign_sizes(im);
	link_parents(im);
}

/* The innermost symbol around an offset, or NULL. */
static const struct sym *find_sym(const struct elfimage *im, uint64_t offset)
{
	const struct sym *s;
	size_t lo = 0, n = im->n_syms;

	while (n) {
		size_t half = n / 2;

		if (im->syms[lo + half].start <= offset) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	while (lo) {
		s = &im->syms[lo - 1];
		if (offset < s->end)
			return s;
		lo = s->parent;
	}
	return NULL;
}

static void need_syms(struct elfimage *im)
{
	pthread_mutex_lock(&im->lock);
	if (!im->have_syms)
		load_syms(im);
	im->have_syms = true;
	pthread_mutex_unlock(&im->lock);
}

/* ---- functions without a symbol ---- */

static struct unnamed *unnamed_slot(struct unnamed *v, size_t n, uint64_t start)
{
	uint64_t h = start * UINT64_C(0x9e3779b97f4a7c15);
	size_t at = (size_t)(h >> 32) & (n - 1);

	while (v[at].name && v[at].start != start)
		at = (at + 1) & (n - 1);
	return &v[at];
}

static bool grow_unnamed(struct elfimage *im)
{
	size_t n = im->n_unnamed_slots ? 2 * im->n_unnamed_slots : 64;
	struct unnamed *v = calloc(n, sizeof(*v));

	if (!v)
		return false;
	for (size_t i = 0; i < im->n_unnamed_slots; i++)
		if (im->unnamed[i].name)
			*unnamed_slot(v, n, im->unnamed[i].start) = im->unnamed[i];
	free(im->unnamed);
	im->unnamed = v;
	im->n_unnamed_slots = n;
	return true;
}

/* The name of one that begins at a file offset; made once. NULL: no memory. With the lock
 * held. */
static const char *name_unnamed(struct elfimage *im, uint64_t start, bool called)
{
	const char *file = im->debug_path, *slash = strrchr(file, '/');
	struct unnamed *u;

	if (im->n_unnamed >= im->n_unnamed_slots / 2 && !grow_unnamed(im)) {
		im->nomem = true;
		return NULL;
	}
	u = unnamed_slot(im->unnamed, im->n_unnamed_slots, start);
	if (!u->name) {
		u->name = make_name(im, "[%s+0x%llx]%s", slash ? slash + 1 : file,
				    (unsigned long long)start, called ? "" : ".part");
		u->start = start;
		im->n_unnamed += !!u->name;
	}
	return u->name;
}

/* One description covers all of a table of stubs. */
static bool is_in_stubs(const struct elfimage *im, uint64_t addr)
{
	for (size_t i = 0; i < im->n_sections; i++)
		if (addr - im->sections[i].h.sh_addr < im->sections[i].h.sh_size &&
		    !strncmp(im->sections[i].name, ".plt", 4))
			return true;
	return false;
}

static int find_unnamed(struct elfimage *im, uint64_t offset, struct elfimage_symbol *sym)
{
	uint64_t addr, start, size, left;
	bool called;

	if (!elfimage_addr(im, offset, &addr) || is_in_stubs(im, addr) ||
	    !eh_frame_function(im, addr, &start, &size, &called) ||
	    !elfimage_offset(im, start, &sym->start, &left) || size > left)
		return -AUX_E_NOENT;
	sym->size = size;
	sym->unnamed = true;
	pthread_mutex_lock(&im->lock);
	sym->name = im->debug_path ? name_unnamed(im, sym->start, called) : NULL;
	pthread_mutex_unlock(&im->lock);
	return sym->name ? 0 : -AUX_E_NOENT;
}

int elfimage_symbol(struct elfimage *im, uint64_t offset,
		    struct elfimage_symbol *sym)
{
	const struct sym *s;

	need_syms(im);
	s = find_sym(im, offset);
	if (!s)
		return find_unnamed(im, offset, sym);
	sym->name = s->name;
	sym->start = s->start;
	sym->size = s->end - s->start;
	sym->unnamed = false;
	return 0;
}

/* A linear search in the file's own table: only a few names are looked up so
 * (the kernel's reference symbol). */
bool elfimage_find(struct elfimage *im, const char *name, uint64_t *value)
{
	const struct elf_section *table = find_table(im, SHT_SYMTAB);
	const char *have;
	Elf64_Sym s;

	if (!table)
		table = find_table(im, SHT_DYNSYM);
	for (uint64_t i = 1; table && elfimage_get_symbol(table, i, &s); i++) {
		if (s.st_shndx == SHN_UNDEF)
			continue;
		have = elfimage_string(im, table->h.sh_link, s.st_name);
		if (have && !strcmp(have, name)) {
			*value = s.st_value;
			return true;
		}
	}
	return false;
}
