/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elfimage: opening a file of code, and its addresses; see elf.h. Program
 * headers turn virtual addresses into file offsets, which do not depend on where
 * a file was loaded.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <aux/error.h>

#include "decode/lib/elf/impl.h"

static int finish_open(struct elfimage **imp, struct elfimage *im)
{
	int rc;

	pthread_mutex_init(&im->lock, NULL);
	rc = elfimage_elf_open(im);
	if (!rc && im->type == ET_REL && !im->segments)
		rc = elfmodule_lay_out(im);
	if (rc < 0) {
		elfimage_close(im);
		return rc;
	}
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
	elfimage_dwarf_close(im->dwarf);
	elfimage_close(im->debug);
	elfimage_close(im->mini);
	elfimage_elf_close(im);
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

unsigned elfimage_machine(const struct elfimage *im)
{
	return im->machine;
}

bool elfimage_is_elf(const struct elfimage *im)
{
	return im->elf;
}

bool elfimage_is_object(const struct elfimage *im)
{
	return im->elf && im->type == ET_REL;
}

const struct elf_section *elfimage_named(const struct elfimage *im,
					 const char *name)
{
	for (size_t i = 0; i < im->n_sections; i++) {
		if (!strcmp(im->sections[i].name, name))
			return &im->sections[i];
	}
	return NULL;
}

bool elfimage_is_debug(const struct elfimage *im)
{
	const struct elf_section *text = elfimage_named(im, ".text");

	return text && text->h.sh_type == SHT_NOBITS;
}

bool elfimage_segment(const struct elfimage *im, size_t *i,
		      struct elfimage_area *area)
{
	while (*i < im->n_segments) {
		const Elf64_Phdr *p = &im->segments[(*i)++];

		if (p->p_type != PT_LOAD || !p->p_filesz)
			continue;
		*area = (struct elfimage_area){
			p->p_vaddr, p->p_vaddr + p->p_filesz, p->p_offset,
		};
		return true;
	}
	return false;
}

bool elfimage_area(const struct elfimage *im, uint64_t addr,
		   struct elfimage_area *area)
{
	size_t i = 0;

	while (elfimage_segment(im, &i, area)) {
		if (addr >= area->start && addr < area->end)
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
	struct elfimage_area a;
	size_t i = 0;

	while (elfimage_segment(im, &i, &a)) {
		if (offset < a.offset || offset - a.offset >= a.end - a.start)
			continue;
		*addr = offset - a.offset + a.start;
		return true;
	}
	return false;
}
