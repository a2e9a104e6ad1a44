/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elfmodule: kernel modules from their files, see elf.h.
 *
 * The loader places the executable sections first, in the order of the section
 * headers, each aligned as it asks; those of .init go elsewhere, and are freed
 * after initialization. So a place in the module follows from the file alone.
 * Then relocations are applied, and places are patched: alternatives, jump
 * labels, static calls, retpolines. What the patches are depends on the
 * machine, so each such place is a hole. A hole covers a whole instruction: the
 * patch may be shorter, and control may continue inside.
 *
 * Specification: kernel/module/main.c (layout_sections) of Linux 6.1, and
 * arch/{x86,arm64}/kernel/module.c; the x86-64 psABI and ELF for the Arm 64-bit
 * Architecture for relocations.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <aux/error.h>

#include "common/array.h"
#include "common/mapped.h"
#include "common/x86_insn.h"

#include "decode/lib/elf/elf.h"
#include "decode/lib/elf/impl.h"

#define MAX_ALIGN 65536	/* no section of a module asks for more */

struct hole {
	uint64_t start, end;	/* offsets in the file */
};

struct elfmodule {
	const struct elfimage *im;
	uint64_t base;
	uint64_t (*find)(void *priv, const char *name);
	void *priv;
	uint8_t *bytes;		/* a copy of the file, relocated; in a memfd, so
				 * that a decoder can map it */
	uint64_t len;
	int fd;
	char path[32];
	struct hole *holes;	/* sorted and disjoint, once built */
	size_t n_holes, cap_holes;
	bool oom;
};

int elfmodule_lay_out(struct elfimage *im)
{
	uint64_t want = SHF_ALLOC | SHF_EXECINSTR, at = 0;

	im->segments = calloc(im->n_sections ? im->n_sections : 1,
			      sizeof(*im->segments));
	if (!im->segments)
		return -AUX_E_NOMEM;
	for (size_t i = 1; i < im->n_sections; i++) {
		struct elf_section *s = &im->sections[i];
		uint64_t align = s->h.sh_addralign ? s->h.sh_addralign : 1;

		if ((s->h.sh_flags & want) != want ||
		    !strncmp(s->name, ".init", 5))
			continue;
		/* .plt has veneers, as many as the loader needs: what follows
		 * it cannot be placed. */
		if (!strcmp(s->name, ".plt") || align > MAX_ALIGN ||
		    align & (align - 1) || s->h.sh_size > im->len)
			break;
		at = (at + align - 1) & ~(align - 1);
		s->h.sh_addr = at;
		s->placed = true;
		im->segments[im->n_segments++] = (Elf64_Phdr){
			.p_type = PT_LOAD, .p_offset = s->h.sh_offset,
			.p_vaddr = at, .p_filesz = s->bytes ? s->h.sh_size : 0,
		};
		at += s->h.sh_size;
	}
	return 0;
}

static void add_hole(struct elfmodule *m, uint64_t offset, uint64_t len)
{
	if (array_grow(&m->holes, m->n_holes, &m->cap_holes,
		       sizeof(*m->holes)) < 0) {
		m->oom = true;
		return;
	}
	m->holes[m->n_holes++] = (struct hole){ offset, offset + len };
}

/* The address of a relocation's symbol, counted from base, modulo 2^64. False:
 * unknown; *name is "" for a symbol of the module itself. */
static bool find_target(const struct elfmodule *m,
			const struct elf_section *rel, const Elf64_Rela *r,
			const char **name, uint64_t *value)
{
	const struct elfimage *im = m->im;
	const struct elf_section *table, *s;
	Elf64_Sym sym;
	uint64_t addr;

	*name = "";
	if (rel->h.sh_link >= im->n_sections)
		return false;
	table = &im->sections[rel->h.sh_link];
	if (!elfimage_get_symbol(table, ELF64_R_SYM(r->r_info), &sym))
		return false;
	if (sym.st_shndx == SHN_UNDEF) {
		*name = elfimage_string(im, table->h.sh_link, sym.st_name);
		addr = *name && m->find ? m->find(m->priv, *name) : 0;
		if (!*name)
			*name = "";
		*value = addr - m->base;
		return addr;
	}
	s = sym.st_shndx < im->n_sections ? &im->sections[sym.st_shndx] : NULL;
	*value = s ? s->h.sh_addr + sym.st_value : 0;
	return s && s->placed;
}

static void put32(const struct elfmodule *m, uint64_t offset, uint32_t v)
{
	if (m->im->swap)
		v = __builtin_bswap32(v);
	memcpy(m->bytes + offset, &v, 4);
}

static uint32_t get32(const struct elfmodule *m, uint64_t offset)
{
	uint32_t v;

	memcpy(&v, m->bytes + offset, 4);
	return m->im->swap ? __builtin_bswap32(v) : v;
}

/* The loader patches calls and jumps to these thunks and trampolines. */
static bool is_patched(const char *name)
{
	return !strncmp(name, "__x86_indirect_", 15) ||
	       !strcmp(name, "__x86_return_thunk") ||
	       !strncmp(name, "__SCT__", 7);
}

/* Only branches matter for the flow; their field has 32 bits, at the end of the
 * instruction. */
static void fix_x86(struct elfmodule *m, const struct elf_section *rel,
		    const Elf64_Rela *r, uint64_t start, uint64_t addr)
{
	static const uint8_t nop5[] = { 0x0f, 0x1f, 0x44, 0, 0 };
	const uint8_t *p = m->bytes;
	uint64_t offset = start + r->r_offset, value, lead;
	uint32_t type = ELF64_R_TYPE(r->r_info);
	bool known;
	const char *name;

	if (type != R_X86_64_PC32 && type != R_X86_64_PLT32)
		return;
	if (r->r_offset >= 1 && (p[offset - 1] & 0xfe) == 0xe8)
		lead = 1; /* call, jmp */
	else if (r->r_offset >= 2 && p[offset - 2] == 0x0f &&
		 (p[offset - 1] & 0xf0) == 0x80)
		lead = 2; /* jcc */
	else
		return; /* data: flow does not depend on it */
	known = find_target(m, rel, r, &name, &value);
	if (!strcmp(name, "__fentry__") && lead == 1)
		/* ftrace makes it a NOP until functions are traced */
		memcpy(m->bytes + offset - 1, nop5, sizeof(nop5));
	else if (!known || is_patched(name))
		add_hole(m, offset - lead, lead + 4);
	else
		put32(m, offset, (uint32_t)(value + (uint64_t)r->r_addend -
					    addr - r->r_offset));
}

/* Width of the field that has the distance in words, and its place in the
 * instruction; 0: no branch. */
static unsigned arm_field(uint32_t type, unsigned *shift)
{
	*shift = type == R_AARCH64_CALL26 || type == R_AARCH64_JUMP26 ? 0 : 5;
	switch (type) {
	case R_AARCH64_CALL26:
	case R_AARCH64_JUMP26:
		return 26;
	case R_AARCH64_CONDBR19:
		return 19;
	case R_AARCH64_TSTBR14:
		return 14;
	default:
		return 0;
	}
}

static void fix_arm64(struct elfmodule *m, const struct elf_section *rel,
		      const Elf64_Rela *r, uint64_t start, uint64_t addr)
{
	uint64_t offset = start + r->r_offset, value;
	unsigned shift, bits = arm_field(ELF64_R_TYPE(r->r_info), &shift);
	uint32_t mask;
	int64_t words;
	const char *name;

	if (!bits)
		return;
	if (!find_target(m, rel, r, &name, &value)) {
		add_hole(m, offset, 4);
		return;
	}
	words = (int64_t)(value + (uint64_t)r->r_addend - addr -
			  r->r_offset) >> 2;
	if (words < -(INT64_C(1) << (bits - 1)) ||
	    words >= INT64_C(1) << (bits - 1)) {
		add_hole(m, offset, 4); /* too far: it goes through a veneer */
		return;
	}
	mask = ((UINT32_C(1) << bits) - 1) << shift;
	put32(m, offset, (get32(m, offset) & ~mask) |
				 ((uint32_t)words << shift & mask));
}

/* Sections that list the places that the kernel patches. table */
static const struct patch_list {
	const char *name;
	unsigned stride;	/* size of an entry, 0: follows from the relocations */
	unsigned len_at;	/* offset of the length in it, 0: none */
} patch_lists[] = {
	{ ".altinstructions", 0, 10 },	{ "__jump_table", 16, 0 },
	{ ".static_call_sites", 8, 0 }, { ".parainstructions", 16, 9 },
	{ ".retpoline_sites", 4, 0 },	{ ".return_sites", 4, 0 },
};

static const struct patch_list *find_list(const char *name)
{
	for (size_t i = 0; i < sizeof(patch_lists) / sizeof(patch_lists[0]);
	     i++) {
		if (!strcmp(patch_lists[i].name, name))
			return &patch_lists[i];
	}
	return NULL;
}

/*
 * Bytes that are patched at offset. struct alt_instr has 12 bytes, 13 with a
 * padding length at its end, or 14 with flags before the lengths, depending on
 * the kernel.
 */
static uint64_t patched_len(const struct elfmodule *m,
			    const struct patch_list *list,
			    const struct elf_section *s, uint64_t entry,
			    unsigned stride, uint64_t offset, uint64_t left)
{
	unsigned at = list->len_at + (!list->stride && stride == 14 ? 2 : 0);
	struct x86_insn insn;
	uint64_t len = 4;

	if (m->im->machine == EM_X86_64)
		len = (uint64_t)x86_insn_decode(m->bytes + offset,
						left < 15 ? left : 15, &insn);
	if (list->len_at && s->bytes && entry < s->h.sh_size &&
	    s->h.sh_size - entry > at && s->bytes[entry + at] > len)
		len = s->bytes[entry + at];
	return len && len <= left ? len : 1;
}

static void fix_list(struct elfmodule *m, const struct elf_section *rel,
		     const struct elf_section *s, const struct patch_list *list)
{
	uint64_t value, off, left;
	Elf64_Rela first, r;
	unsigned stride = list->stride;
	const char *name;

	/* Each entry has two relocations: the place, and its replacement. */
	if (!stride && elfimage_get_reloc(rel, 0, &first) &&
	    elfimage_get_reloc(rel, 2, &r) && r.r_offset > first.r_offset &&
	    r.r_offset - first.r_offset <= 16)
		stride = (unsigned)(r.r_offset - first.r_offset);
	for (uint64_t i = 0; !m->oom && elfimage_get_reloc(rel, i, &r); i++) {
		if ((stride ? r.r_offset % stride != 0 : i % 2 != 0) ||
		    !find_target(m, rel, &r, &name, &value) || *name ||
		    !elfimage_offset(m->im, value + (uint64_t)r.r_addend, &off,
				     &left))
			continue;
		add_hole(m, off, patched_len(m, list, s, r.r_offset, stride,
					     off, left));
	}
}

/* Applies the relocations in rel to their section, or makes holes of what it
 * lists. */
static int fix_section(struct elfmodule *m, const struct elf_section *rel)
{
	const struct elfimage *im = m->im;
	const struct elf_section *s = &im->sections[rel->h.sh_info];
	const struct patch_list *list = find_list(s->name);
	Elf64_Rela r;

	if (!list && (!s->placed || !s->bytes))
		return 0;
	if (rel->h.sh_size && !rel->table)
		return -AUX_E_FORMAT;
	if (list)
		fix_list(m, rel, s, list);
	for (uint64_t i = 0; !list && !m->oom &&
			     elfimage_get_reloc(rel, i, &r); i++) {
		if (r.r_offset > s->h.sh_size || s->h.sh_size - r.r_offset < 4)
			continue;
		if (im->machine == EM_X86_64)
			fix_x86(m, rel, &r, s->h.sh_offset, s->h.sh_addr);
		else if (im->machine == EM_AARCH64)
			fix_arm64(m, rel, &r, s->h.sh_offset, s->h.sh_addr);
	}
	return m->oom ? -AUX_E_NOMEM : 0;
}

static int by_start(const void *a, const void *b)
{
	const struct hole *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Sorts holes and joins those that touch. */
static void tidy_holes(struct elfmodule *m)
{
	size_t n = 0;

	if (!m->n_holes)
		return;
	qsort(m->holes, m->n_holes, sizeof(*m->holes), by_start);
	for (size_t i = 1; i < m->n_holes; i++) {
		struct hole *last = &m->holes[n];

		if (m->holes[i].start > last->end)
			m->holes[++n] = m->holes[i];
		else if (m->holes[i].end > last->end)
			last->end = m->holes[i].end;
	}
	m->n_holes = n + 1;
}

static int copy_file(struct elfmodule *m)
{
	void *p;

	if (!mapped_charge(m->im->len))
		return -AUX_E_LIMIT;
	m->len = m->im->len;
	m->fd = memfd_create("auxkit-module", MFD_CLOEXEC);
	if (m->fd < 0 || ftruncate(m->fd, (off_t)m->len) < 0)
		return -AUX_E_IO;
	p = mmap(NULL, m->len, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	if (p == MAP_FAILED)
		return -AUX_E_IO;
	m->bytes = p;
	memcpy(m->bytes, m->im->data, m->len);
	snprintf(m->path, sizeof(m->path), "/proc/self/fd/%d", m->fd);
	return 0;
}

int elfmodule_new(struct elfmodule **mp, const struct elfimage *im,
		  uint64_t base, uint64_t (*find)(void *priv, const char *name),
		  void *priv)
{
	struct elfmodule *m;
	int rc;

	*mp = NULL;
	if (!elfimage_is_object(im))
		return -AUX_E_FORMAT;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -AUX_E_NOMEM;
	*m = (struct elfmodule){ .im = im, .base = base, .find = find,
				 .priv = priv, .fd = -1 };
	rc = copy_file(m);
	for (size_t i = 0; !rc && i < im->n_sections; i++) {
		const struct elf_section *rel = &im->sections[i];

		if (rel->h.sh_type == SHT_RELA &&
		    rel->h.sh_info < im->n_sections)
			rc = fix_section(m, rel);
	}
	if (rc < 0) {
		elfmodule_free(m);
		return rc;
	}
	tidy_holes(m);
	*mp = m;
	return 0;
}

void elfmodule_free(struct elfmodule *m)
{
	if (!m)
		return;
	if (m->bytes)
		munmap(m->bytes, m->len);
	mapped_discharge(m->len);
	if (m->fd >= 0)
		close(m->fd);
	free(m->holes);
	free(m);
}

/* Holes that begin at or below offset. */
static size_t count_holes(const struct elfmodule *m, uint64_t offset)
{
	size_t lo = 0, n = m->n_holes;

	while (n) {
		size_t half = n / 2;

		if (m->holes[lo + half].start <= offset) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo;
}

/* The stretch between two holes. */
int elfmodule_code(const struct elfmodule *m, uint64_t addr,
		   struct elfmodule_code *code)
{
	struct elfimage_area a;
	uint64_t off, start, end;
	size_t i;

	if (!elfimage_area(m->im, addr, &a))
		return -AUX_E_NOENT;
	off = addr - a.start + a.offset;
	i = count_holes(m, off);
	if (i && off < m->holes[i - 1].end)
		return -AUX_E_UNSUPPORTED;
	start = a.offset;
	end = a.offset + (a.end - a.start);
	if (i && m->holes[i - 1].end > start)
		start = m->holes[i - 1].end;
	if (i < m->n_holes && m->holes[i].start < end)
		end = m->holes[i].start;
	*code = (struct elfmodule_code){
		.bytes = m->bytes + start, .path = m->path, .offset = start,
		.start = addr - (off - start), .end = addr + (end - off),
	};
	return 0;
}
