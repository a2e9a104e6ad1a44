/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * container_elf: the loadable segments of an ELF image, of either class and byte
 * order. Only what lies in the file is mapped.
 *
 * Specification: System V ABI, chapter "Program Loading".
 */
#include <elf.h>
#include <string.h>

#include <internal/bytes.h>
#include <internal/diag.h>

#include "container_elf.h"

#define MAX_SEGMENTS 128

struct segment {
	uint64_t addr, offset, size;
};

struct elf {
	struct cursor file;	/* from the first byte */
	bool is64;
	uint64_t phoff;
	uint16_t n, stride;
	struct segment seg[MAX_SEGMENTS];
	size_t n_seg;
	uint64_t base;		/* address of what lies first in the file: the
				 * lowest, but for the kernel's per-CPU data */
};

static uint64_t read_word(struct cursor *c, bool is64)
{
	return is64 ? cursor_u64(c) : cursor_u32(c);
}

static bool read_header(struct elf *e, const struct container_file *f)
{
	struct cursor c;
	bool msb;

	if (f->len < EI_NIDENT || memcmp(f->data, ELFMAG, SELFMAG))
		return false;
	e->is64 = f->data[EI_CLASS] == ELFCLASS64;
	msb = f->data[EI_DATA] == ELFDATA2MSB;
	e->file = cursor_init(f->data, f->len,
			      msb != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__));
	c = e->file;
	cursor_bytes(&c, EI_NIDENT + 8);
	read_word(&c, e->is64);			/* e_entry */
	e->phoff = read_word(&c, e->is64);
	read_word(&c, e->is64);			/* e_shoff */
	cursor_u32(&c);
	cursor_u16(&c);
	e->stride = cursor_u16(&c);
	e->n = cursor_u16(&c);
	if (c.bad || e->stride < (e->is64 ? sizeof(Elf64_Phdr) :
					    sizeof(Elf32_Phdr)))
		e->n = 0;
	return true;
}

/* A program header; false: nothing of it lies in the file. */
static bool read_segment(const struct elf *e, unsigned i, uint64_t len,
			 struct segment *s)
{
	struct cursor c = e->file;
	uint64_t at = e->phoff + (uint64_t)i * e->stride;
	uint32_t type;

	if (at < e->phoff || at > len)
		return false;
	cursor_bytes(&c, at);
	type = cursor_u32(&c);
	if (e->is64)
		cursor_u32(&c);
	s->offset = read_word(&c, e->is64);
	s->addr = read_word(&c, e->is64);
	read_word(&c, e->is64);
	s->size = read_word(&c, e->is64);
	if (c.bad || type != PT_LOAD || s->offset >= len)
		return false;
	if (s->size > len - s->offset)
		s->size = len - s->offset;
	return s->size;
}

static void read_segments(struct elf *e, uint64_t len)
{
	uint64_t first = UINT64_MAX;

	for (unsigned i = 0; i < e->n && e->n_seg < MAX_SEGMENTS; i++) {
		struct segment *s = &e->seg[e->n_seg];

		if (!read_segment(e, i, len, s))
			continue;
		if (s->offset < first) {
			first = s->offset;
			e->base = s->addr;
		}
		e->n_seg++;
	}
}

int container_elf_map(struct container_build *b, const struct container_file *f,
		      struct container_map *m, bool has_base,
		      struct aux_diag *diag)
{
	uint64_t base = has_base ? m->addr : 0;
	struct elf e = { 0 };

	m->path = f->path;
	if (!read_header(&e, f)) {
		m->addr = base;
		m->len = f->len;
		m->pgoff = 0;
		container_build_map(b, m);
		return 0;
	}
	read_segments(&e, f->len);
	if (!e.n_seg)
		return diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
				"%s: an ELF file without a segment to load",
				f->path);
	for (size_t i = 0; i < e.n_seg; i++) {
		m->addr = e.seg[i].addr + (has_base ? base - e.base : 0);
		m->len = e.seg[i].size;
		m->pgoff = e.seg[i].offset;
		container_build_map(b, m);
	}
	return 0;
}
