/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elfimage: opening a file of code, and its headers; see elfimage.h.
 *
 * Nothing in the file is trusted. Headers of either class and byte order are
 * read once into tables whose size the file's own bounds; whoever asks for what
 * they lead to gets it when it is inside the file, or nothing. Program headers
 * turn virtual addresses into file offsets, which do not depend on where a file
 * was loaded.
 *
 * Specification: System V ABI, chapters "Object Files" and "Program Loading".
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <aux/error.h>

#include "elfimage_priv.h"

#define MAX_NOTES    65536 /* bytes looked at for a build id */

struct cursor elfimage_at(const struct elfimage *im, uint64_t offset,
			  uint64_t len)
{
	bool inside = offset <= im->len && len <= im->len - offset;
	struct cursor c = cursor_init(im->data + (inside ? offset : 0),
				      inside ? len : 0, im->swap);

	c.bad = !inside;
	return c;
}

/* An address, offset or size: 4 or 8 bytes by class. */
static uint64_t get_word(const struct elfimage *im, struct cursor *c)
{
	return im->wide ? cursor_u64(c) : cursor_u32(c);
}

static struct elf_segment get_segment(const struct elfimage *im,
				      struct cursor *c)
{
	struct elf_segment s = { .type = cursor_u32(c) };

	if (im->wide)
		s.flags = cursor_u32(c);
	s.offset = get_word(im, c);
	s.addr = get_word(im, c);
	get_word(im, c);
	s.filesz = get_word(im, c);
	s.memsz = get_word(im, c);
	if (!im->wide)
		s.flags = cursor_u32(c);
	s.align = get_word(im, c);
	/* What the file does not hold is as if it were not there. */
	if (s.offset > im->len)
		s.filesz = 0;
	else if (s.filesz > im->len - s.offset)
		s.filesz = im->len - s.offset;
	if (s.filesz > UINT64_MAX - s.addr)
		s.filesz = UINT64_MAX - s.addr;
	return s;
}

static struct elf_section get_section(const struct elfimage *im,
				      struct cursor *c)
{
	struct elf_section s = { .name = cursor_u32(c),
				 .type = cursor_u32(c) };

	s.flags = get_word(im, c);
	s.addr = get_word(im, c);
	s.offset = get_word(im, c);
	s.size = get_word(im, c);
	s.link = cursor_u32(c);
	s.info = cursor_u32(c);
	s.align = get_word(im, c);
	s.entsize = get_word(im, c);
	return s;
}

/* How many of n entries of size bytes the file has room for. */
static uint64_t clip_table(const struct elfimage *im, uint64_t offset,
			   uint64_t n, uint64_t size)
{
	uint64_t room = offset <= im->len ? (im->len - offset) / size : 0;

	return n < room ? n : room;
}

static int read_sections(struct elfimage *im, uint64_t offset, uint64_t n,
			 uint32_t names)
{
	uint64_t size = im->wide ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
	struct cursor c = elfimage_at(im, offset, size);
	struct elf_section first = get_section(im, &c);

	if (!offset || c.bad)
		return 0;
	if (!n)
		n = first.size;
	n = clip_table(im, offset, n, size);
	im->names = names == SHN_XINDEX ? first.link : names;
	im->sections = calloc(n ? n : 1, sizeof(*im->sections));
	if (!im->sections)
		return -AUX_E_NOMEM;
	c = elfimage_at(im, offset, n * size);
	for (im->n_sections = 0; im->n_sections < n; im->n_sections++)
		im->sections[im->n_sections] = get_section(im, &c);
	return 0;
}

static int read_segments(struct elfimage *im, uint64_t offset, uint64_t n)
{
	uint64_t size = im->wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
	struct cursor c;

	if (n == PN_XNUM && im->n_sections)
		n = im->sections[0].info;
	n = clip_table(im, offset, n, size);
	if (!offset || !n)
		return 0;
	im->segments = calloc(n, sizeof(*im->segments));
	if (!im->segments)
		return -AUX_E_NOMEM;
	c = elfimage_at(im, offset, n * size);
	for (im->n_segments = 0; im->n_segments < n; im->n_segments++)
		im->segments[im->n_segments] = get_segment(im, &c);
	return 0;
}

/* Tables whose entries have another size than ours are not read. */
static int read_header(struct elfimage *im)
{
	struct cursor c = elfimage_at(im, EI_NIDENT, im->len - EI_NIDENT);
	uint64_t phoff, shoff;
	uint16_t phsize, phnum, shsize, shnum, names;
	int rc = 0;

	im->type = cursor_u16(&c);
	im->machine = cursor_u16(&c);
	cursor_u32(&c);
	get_word(im, &c);
	phoff = get_word(im, &c);
	shoff = get_word(im, &c);
	cursor_u32(&c);
	cursor_u16(&c);
	phsize = cursor_u16(&c);
	phnum = cursor_u16(&c);
	shsize = cursor_u16(&c);
	shnum = cursor_u16(&c);
	names = cursor_u16(&c);
	if (c.bad)
		return 0;
	im->elf = true;
	if (shsize == (im->wide ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr)))
		rc = read_sections(im, shoff, shnum, names);
	if (!rc && phsize == (im->wide ? sizeof(Elf64_Phdr) :
					 sizeof(Elf32_Phdr)))
		rc = read_segments(im, phoff, phnum);
	if (!rc && im->type == ET_REL && !im->n_segments)
		rc = elfmodule_lay_out(im);
	return rc;
}

static bool take_notes(struct elfimage *im, uint64_t offset, uint64_t len,
		       uint64_t align)
{
	struct cursor c = elfimage_at(im, offset,
				      len < MAX_NOTES ? len : MAX_NOTES);

	align = align == 8 ? 8 : 4;
	while (cursor_left(&c) >= 12) {
		uint32_t n_name = cursor_u32(&c), n_desc = cursor_u32(&c);
		uint32_t type = cursor_u32(&c);
		const uint8_t *name, *desc;

		name = cursor_bytes(&c, n_name);
		cursor_bytes(&c, -(uint64_t)n_name & (align - 1));
		desc = cursor_bytes(&c, n_desc);
		if (c.bad)
			return false;
		if (type == NT_GNU_BUILD_ID && n_name == 4 &&
		    !memcmp(name, "GNU", 4) && n_desc &&
		    n_desc <= BUILD_ID_MAX) {
			memcpy(im->build_id, desc, n_desc);
			im->build_id_size = n_desc;
			return true;
		}
		cursor_bytes(&c, -(uint64_t)n_desc & (align - 1));
		if (c.bad)
			return false;
	}
	return false;
}

static void find_build_id(struct elfimage *im)
{
	for (size_t i = 0; i < im->n_segments; i++) {
		const struct elf_segment *s = &im->segments[i];

		if (s->type == PT_NOTE &&
		    take_notes(im, s->offset, s->filesz, s->align))
			return;
	}
	for (size_t i = 0; i < im->n_sections; i++) {
		const struct elf_section *s = &im->sections[i];

		if (s->type == SHT_NOTE &&
		    take_notes(im, s->offset, s->size, s->align))
			return;
	}
}

static int finish_open(struct elfimage **imp, struct elfimage *im)
{
	const uint16_t one = 1;
	bool little = *(const uint8_t *)&one;
	int rc = 0;

	pthread_mutex_init(&im->lock, NULL);
	if (im->len > EI_NIDENT && !memcmp(im->data, ELFMAG, SELFMAG)) {
		im->wide = im->data[EI_CLASS] == ELFCLASS64;
		im->swap = (im->data[EI_DATA] == ELFDATA2LSB) != little;
		rc = read_header(im);
	}
	if (rc < 0) {
		elfimage_close(im);
		return rc;
	}
	find_build_id(im);
	*imp = im;
	return 0;
}

static int map_fd(struct elfimage *im, int fd)
{
	void *p;

	if (!im->len)
		return 0;
	p = mmap(NULL, im->len, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return -AUX_E_IO;
	im->data = p;
	im->mapped = true;
	return 0;
}

/* Instead of a compressed file, what is in it. */
static int unpack(struct elfimage *im)
{
	uint64_t size;
	int rc = elfimage_unpack(im->data, im->len, &im->fd, &size);

	if (rc <= 0)
		return rc;
	munmap((void *)(uintptr_t)im->data, im->len);
	im->mapped = false;
	im->len = size;
	free(im->path);
	if (asprintf(&im->path, "/proc/self/fd/%d", im->fd) < 0)
		im->path = NULL;
	return map_fd(im, im->fd);
}

static int map_file(struct elfimage *im, const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? -AUX_E_NOENT :
							     -AUX_E_IO;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return -AUX_E_NOENT;
	}
	im->len = (uint64_t)st.st_size;
	im->path = strdup(path);
	rc = map_fd(im, fd);
	close(fd);
	return rc < 0 ? rc : unpack(im);
}

static struct elfimage *new_image(void)
{
	struct elfimage *im = calloc(1, sizeof(*im));

	if (im)
		im->fd = -1;
	return im;
}

int elfimage_open(struct elfimage **imp, const char *path)
{
	struct elfimage *im = new_image();
	int rc;

	*imp = NULL;
	if (!im)
		return -AUX_E_NOMEM;
	rc = map_file(im, path);
	if (rc < 0) {
		pthread_mutex_init(&im->lock, NULL);
		elfimage_close(im);
		return rc;
	}
	return finish_open(imp, im);
}

int elfimage_open_mem(struct elfimage **imp, const uint8_t *data, size_t len)
{
	struct elfimage *im = new_image();

	*imp = NULL;
	if (!im)
		return -AUX_E_NOMEM;
	im->data = data;
	im->len = len;
	return finish_open(imp, im);
}

void elfimage_close(struct elfimage *im)
{
	if (!im)
		return;
	elfimage_close(im->debug);
	elfimage_close(im->mini);
	for (size_t i = 0; i < im->n_made; i++)
		free(im->made[i]);
	free(im->made);
	free(im->syms);
	free(im->segments);
	free(im->sections);
	free(im->debug_root);
	free(im->debug_path);
	free(im->path);
	if (im->mapped)
		munmap((void *)(uintptr_t)im->data, im->len);
	if (im->fd >= 0)
		close(im->fd);
	pthread_mutex_destroy(&im->lock);
	free(im);
}

const uint8_t *elfimage_data(const struct elfimage *im, uint64_t *len)
{
	*len = im->len;
	return im->data;
}

const char *elfimage_path(const struct elfimage *im)
{
	return im->path;
}

size_t elfimage_build_id(const struct elfimage *im, const uint8_t **id)
{
	*id = im->build_id;
	return im->build_id_size;
}

bool elfimage_is_elf(const struct elfimage *im)
{
	return im->elf;
}

bool elfimage_is_object(const struct elfimage *im)
{
	return im->elf && im->type == ET_REL;
}

bool elfimage_is_debug(const struct elfimage *im)
{
	const struct elf_section *text = elfimage_named(im, ".text");

	return text && text->type == SHT_NOBITS;
}

bool elfimage_area(const struct elfimage *im, uint64_t addr,
		   struct elfimage_area *area)
{
	for (size_t i = 0; i < im->n_segments; i++) {
		const struct elf_segment *s = &im->segments[i];

		if (s->type != PT_LOAD || addr < s->addr ||
		    addr - s->addr >= s->filesz)
			continue;
		*area = (struct elfimage_area){ s->addr, s->addr + s->filesz,
						s->offset };
		return true;
	}
	return false;
}

bool elfimage_offset(const struct elfimage *im, uint64_t addr, uint64_t *offset,
		     uint64_t *left)
{
	struct elfimage_area a;

	if (!elfimage_area(im, addr, &a))
		return false;
	*offset = addr - a.start + a.offset;
	*left = a.end - addr;
	return true;
}

bool elfimage_addr(const struct elfimage *im, uint64_t offset, uint64_t *addr)
{
	for (size_t i = 0; i < im->n_segments; i++) {
		const struct elf_segment *s = &im->segments[i];

		if (s->type != PT_LOAD || offset < s->offset ||
		    offset - s->offset >= s->filesz)
			continue;
		*addr = offset - s->offset + s->addr;
		return true;
	}
	return false;
}
