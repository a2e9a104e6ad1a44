/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elfimage_dwarf: source lines. Which unit has an address is found by what the
 * units say of themselves (.debug_aranges may be missing, or lack some); the line
 * table of a unit is read when one of its addresses is asked for.
 *
 * Specification: DWARF 4 and 5, "Line Number Information"; of the rows for one
 * address the last one counts.
 */
#ifdef HAVE_DW
#include <stdio.h>
#include <stdlib.h>

#include <aux/error.h>

#include "decode/lib/elf/dwarf.h"

#define MAX_PACKED (UINT64_C(4) << 30) /* bytes of what is compressed */
#define MAX_RATIO  1032		       /* of deflate */

/* Only what is mapped with the right to run is code. Objects have no flags. */
bool dwarf_is_code(const struct elfimage *im, uint64_t addr)
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

static bool has_lines(const struct elfimage *im)
{
	return elfimage_named(im, ".debug_line") ||
	       elfimage_named(im, ".zdebug_line");
}

/*
 * Whether libelf and libdw may be given a file: bytes of sections that are inside,
 * and no more of them than the file has (beside what is compressed). Sets
 * *packed when libelf is going to change headers.
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

static void open_libdw(struct dwarf_image *d, const struct elfimage *from)
{
	char *bytes = (char *)(uintptr_t)from->data;
	bool packed;

	if (!is_sound(from, &packed))
		return;
	if (packed) {
		d->copy = malloc(from->len);
		if (!d->copy)
			return;
		bytes = memcpy(d->copy, from->data, from->len);
	}
	d->left = 4 * debug_bytes(from) + 4096;
	d->elf = elf_memory(bytes, from->len);
	d->dw = d->elf ? dwarf_begin_elf(d->elf, DWARF_C_READ, NULL) : NULL;
}

/* ---- which unit ---- */

/* Without ranges of its own a unit has those of its line table. */
static int add_rows_as_spans(struct dwarf_image *d, uint32_t unit)
{
	struct dwarf_unit *u = &d->units[unit];
	int rc = 0;

	dwarf_need_rows(d, u);
	for (size_t i = 0; i + 1 < u->n_rows && !rc; i++) {
		if (u->rows[i].file && u->rows[i + 1].addr > u->rows[i].addr)
			rc = dwarf_add_span(&d->spans, u->rows[i].addr,
					    u->rows[i + 1].addr, unit);
	}
	return rc;
}

static int add_unit(struct dwarf_image *d, Dwarf_Die *die, uint64_t size)
{
	size_t cap = d->cap_units ? 2 * d->cap_units : 64;
	struct dwarf_unit *u = d->units;
	uint32_t at = (uint32_t)d->n_units;
	uint64_t lowest;
	int n;

	if (d->n_units == d->cap_units) {
		u = cap < UINT32_MAX ? reallocarray(u, cap, sizeof(*u)) : NULL;
		if (!u)
			return -AUX_E_NOMEM;
		d->units = u;
		d->cap_units = cap;
	}
	d->units[d->n_units++] = (struct dwarf_unit){
		.die = dwarf_dieoffset(die), .size = size,
	};
	n = dwarf_add_ranges(d, &d->spans, die, at, &lowest);
	return n ? n : add_rows_as_spans(d, at);
}

static void read_units(struct dwarf_image *d)
{
	Dwarf_Off at = 0, next;
	uint8_t type;
	Dwarf_Die die;
	size_t head;

	for (; d->left && dwarf_nextcu(d->dw, at, &next, &head, NULL, NULL,
				       NULL) == 0; at = next) {
		d->left--;
		if (!dwarf_offdie(d->dw, at + head, &die) ||
		    dwarf_cu_info(die.cu, NULL, &type, NULL, NULL, NULL, NULL,
				  NULL) < 0 ||
		    (type != DW_UT_compile && type != DW_UT_skeleton))
			continue;
		if (next <= at || add_unit(d, &die, next - at) < 0)
			break;
	}
	dwarf_sort_spans(&d->spans);
}

struct dwarf_unit *dwarf_unit_at(struct dwarf_image *d, uint64_t addr)
{
	const struct dwarf_span *s = dwarf_find_span(&d->spans, addr);

	return s ? &d->units[s->what] : NULL;
}

/* ---- rows ---- */

static int add_row(struct dwarf_unit *u, const struct source_row *row)
{
	size_t cap = u->cap_rows ? 2 * u->cap_rows : 64;
	struct source_row *v;

	if (u->n_rows == u->cap_rows) {
		v = reallocarray(u->rows, cap, sizeof(*v));
		if (!v)
			return -AUX_E_NOMEM;
		u->rows = v;
		u->cap_rows = cap;
	}
	u->rows[u->n_rows++] = *row;
	return 0;
}

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

	if (!dwarf_offdie(d->dw, u->die, &die) ||
	    dwarf_getsrcfiles(&die, &files, &n) != 0 || n > d->left)
		return;
	u->files = calloc(n ? n : 1, sizeof(*u->files));
	if (!u->files)
		return;
	dir = dwarf_formstring(dwarf_attr(&die, DW_AT_comp_dir, &a));
	for (size_t i = 0; i < n; i++)
		u->files[i] = full_path(dir, dwarf_filesrc(files, i, NULL,
							   NULL));
	u->n_files = n;
	d->left -= n;
}

const char *dwarf_file(struct dwarf_image *d, struct dwarf_unit *u, size_t i)
{
	if (!u->have_files)
		read_files(d, u);
	u->have_files = true;
	return i < u->n_files ? u->files[i] : NULL;
}

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
		row.file = dwarf_file(d, u, file);
	row.line = n > 0 ? (uint32_t)n : 0;
	row.column = column > 0 && column < UINT16_MAX ? (uint16_t)column : 0;
	row.discriminator = disc < UINT16_MAX ? (uint16_t)disc : UINT16_MAX;
	return row;
}

/* libdw sorts by address, and keeps the order of those that are equal; so an end
 * that another sequence begins at is hidden by the beginning. */
static void take_rows(struct dwarf_image *d, struct dwarf_unit *u,
		      Dwarf_Lines *lines, size_t n)
{
	struct source_row row, *last;

	for (size_t i = 0; i < n && d->left; i++, d->left--) {
		row = make_row(d, u, dwarf_onesrcline(lines, i));
		last = u->n_rows ? &u->rows[u->n_rows - 1] : NULL;
		if (row.file && !dwarf_is_code(d->im, row.addr))
			continue;
		if (!row.file && (!last || (last->addr == row.addr &&
					    i + 1 < n)))
			continue;
		if (last && last->addr == row.addr)
			*last = row;
		else if (add_row(u, &row) < 0)
			return;
	}
}

void dwarf_need_rows(struct dwarf_image *d, struct dwarf_unit *u)
{
	Dwarf_Lines *lines;
	Dwarf_Die die;
	size_t n;

	if (u->have_rows)
		return;
	u->have_rows = true;
	if (dwarf_offdie(d->dw, u->die, &die) &&
	    dwarf_getsrclines(&die, &lines, &n) == 0)
		take_rows(d, u, lines, n);
}

const struct source_row *dwarf_find_row(const struct dwarf_unit *u,
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

/* ---- the image ---- */

struct dwarf_image *dwarf_need(struct elfimage *im)
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
	d = from && has_lines(from) ? calloc(1, sizeof(*d)) : NULL;
	if (!d)
		return NULL;
	im->dwarf = d;
	d->im = im;
	open_libdw(d, from);
	if (d->dw)
		read_units(d);
	return d;
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
	free(d);
}

int elfimage_line(struct elfimage *im, uint64_t offset,
		  struct source_line *line)
{
	const struct source_row *row = NULL;
	struct dwarf_image *d;
	struct dwarf_unit *u;
	uint64_t addr;

	pthread_mutex_lock(&im->lock);
	d = dwarf_need(im);
	u = d && elfimage_addr(im, offset, &addr) ? dwarf_unit_at(d, addr) :
						     NULL;
	if (u) {
		dwarf_need_rows(d, u);
		row = dwarf_find_row(u, addr);
	}
	if (row)
		*line = (struct source_line){ row->file, row->line, row->column,
					      row->discriminator };
	pthread_mutex_unlock(&im->lock);
	return row ? 0 : -AUX_E_NOENT;
}

int elfimage_inlines(struct elfimage *im, uint64_t offset,
		     struct inline_frame *frames, size_t max)
{
	struct dwarf_image *d;
	struct dwarf_unit *u;
	uint64_t addr;
	int n = 0;

	pthread_mutex_lock(&im->lock);
	d = dwarf_need(im);
	u = d && elfimage_addr(im, offset, &addr) ? dwarf_unit_at(d, addr) :
						     NULL;
	if (u)
		n = dwarf_inlines(d, u, addr, frames, max);
	pthread_mutex_unlock(&im->lock);
	return n ? n : -AUX_E_NOENT;
}
#endif
