/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elfimage: files of code through libelf, see elfimage.h.
 *
 * Program headers turn virtual addresses into file offsets, and everything here
 * speaks file offsets: they do not depend on where a file was loaded. Nothing in
 * the file is trusted; libelf checks its own structures, we check offsets.
 *
 * Specification: System V ABI, chapters "Object Files" and "Program Loading".
 */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <aux/error.h>

#include "elfimage.h"

#define BUILD_ID_MAX 20
#define MAX_BACK 64	/* enclosing symbols looked at behind a nested one */

struct sym {
	uint64_t start, end;	/* file offsets */
	const char *name;
	bool global;
};

struct elfimage {
	const uint8_t *data;
	uint64_t len;
	bool mapped;		/* data is ours to unmap */
	uint8_t build_id[BUILD_ID_MAX];
	size_t build_id_size;
	pthread_mutex_t lock;
	bool have_syms;
	Elf *elf;		/* kept open: names point into it */
	struct sym *syms;
	size_t n_syms, cap_syms;
};

static int map_file(struct elfimage *im, const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *p;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? -AUX_E_NOENT :
							     -AUX_E_IO;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return -AUX_E_NOENT;
	}
	im->len = (uint64_t)st.st_size;
	if (im->len) {
		p = mmap(NULL, im->len, PROT_READ, MAP_PRIVATE, fd, 0);
		if (p == MAP_FAILED) {
			close(fd);
			return -AUX_E_IO;
		}
		im->data = p;
		im->mapped = true;
	}
	close(fd);
	return 0;
}

/* elf_memory only reads, though it takes a pointer to non-const. */
static Elf *open_elf(const struct elfimage *im)
{
	if (elf_version(EV_CURRENT) == EV_NONE || im->len < EI_NIDENT)
		return NULL;
	return elf_memory((char *)(uintptr_t)im->data, im->len);
}

static bool take_notes(struct elfimage *im, Elf_Data *notes)
{
	size_t pos = 0, name, desc;
	GElf_Nhdr n;

	while (pos < notes->d_size &&
	       (pos = gelf_getnote(notes, pos, &n, &name, &desc)) > 0) {
		if (n.n_type != NT_GNU_BUILD_ID || n.n_namesz != 4 ||
		    memcmp((const char *)notes->d_buf + name, "GNU", 4))
			continue;
		if (!n.n_descsz || n.n_descsz > BUILD_ID_MAX)
			return true;
		im->build_id_size = n.n_descsz;
		memcpy(im->build_id, (const uint8_t *)notes->d_buf + desc,
		       n.n_descsz);
		return true;
	}
	return false;
}

static void find_build_id(struct elfimage *im, Elf *elf)
{
	size_t n = 0;
	GElf_Phdr ph;

	if (elf_getphdrnum(elf, &n) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		Elf_Data *d;

		if (!gelf_getphdr(elf, (int)i, &ph) || ph.p_type != PT_NOTE ||
		    ph.p_offset > im->len || ph.p_filesz > im->len - ph.p_offset)
			continue;
		d = elf_getdata_rawchunk(elf, (int64_t)ph.p_offset, ph.p_filesz,
					 ph.p_align == 8 ? ELF_T_NHDR8 :
							   ELF_T_NHDR);
		if (d && take_notes(im, d))
			return;
	}
}

static int finish_open(struct elfimage **imp, struct elfimage *im)
{
	Elf *elf = open_elf(im);

	pthread_mutex_init(&im->lock, NULL);
	if (elf && elf_kind(elf) == ELF_K_ELF)
		find_build_id(im, elf);
	elf_end(elf);
	*imp = im;
	return 0;
}

int elfimage_open(struct elfimage **imp, const char *path)
{
	struct elfimage *im = calloc(1, sizeof(*im));
	int rc;

	*imp = NULL;
	if (!im)
		return -AUX_E_NOMEM;
	rc = map_file(im, path);
	if (rc < 0) {
		free(im);
		return rc;
	}
	return finish_open(imp, im);
}

int elfimage_open_mem(struct elfimage **imp, const uint8_t *data, size_t len)
{
	struct elfimage *im = calloc(1, sizeof(*im));

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
	elf_end(im->elf);
	free(im->syms);
	if (im->mapped)
		munmap((void *)(uintptr_t)im->data, im->len);
	pthread_mutex_destroy(&im->lock);
	free(im);
}

const uint8_t *elfimage_data(const struct elfimage *im, uint64_t *len)
{
	*len = im->len;
	return im->data;
}

size_t elfimage_build_id(const struct elfimage *im, const uint8_t **id)
{
	*id = im->build_id;
	return im->build_id_size;
}

/* A virtual address as a file offset; false when no bytes back it. */
static bool to_offset(Elf *elf, size_t n_ph, uint64_t addr, uint64_t *offset)
{
	GElf_Phdr ph;

	for (size_t i = 0; i < n_ph; i++) {
		if (!gelf_getphdr(elf, (int)i, &ph) || ph.p_type != PT_LOAD)
			continue;
		if (addr >= ph.p_vaddr && addr - ph.p_vaddr < ph.p_filesz) {
			*offset = addr - ph.p_vaddr + ph.p_offset;
			return true;
		}
	}
	return false;
}

static void add_sym(struct elfimage *im, const GElf_Sym *s, const char *name,
		    size_t n_ph)
{
	struct sym *p;
	uint64_t off;
	unsigned type = GELF_ST_TYPE(s->st_info);

	if (s->st_shndx == SHN_UNDEF || !name || !*name || *name == '$' ||
	    (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) ||
	    !to_offset(im->elf, n_ph, s->st_value, &off))
		return;
	if (im->n_syms == im->cap_syms) {
		size_t cap = im->cap_syms ? 2 * im->cap_syms : 256;

		p = reallocarray(im->syms, cap, sizeof(*p));
		if (!p)
			return;
		im->syms = p;
		im->cap_syms = cap;
	}
	im->syms[im->n_syms++] = (struct sym){
		.start = off,
		.end = s->st_size <= UINT64_MAX - off ? off + s->st_size : off,
		.name = name,
		.global = GELF_ST_BIND(s->st_info) != STB_LOCAL,
	};
}

static void add_table(struct elfimage *im, Elf_Scn *scn, const GElf_Shdr *sh,
		      size_t n_ph)
{
	Elf_Data *d = elf_getdata(scn, NULL);
	size_t n = sh->sh_entsize ? sh->sh_size / sh->sh_entsize : 0;
	GElf_Sym s;

	if (!d || n > im->len)
		return;
	for (size_t i = 0; i < n && i <= INT32_MAX; i++) {
		if (gelf_getsym(d, (int)i, &s))
			add_sym(im, &s, elf_strptr(im->elf, sh->sh_link,
						   s.st_name), n_ph);
	}
}

/* By start; of equal starts the best name last: sized, then global, then the
 * one with fewer underscores before it (malloc, not __libc_malloc). */
static int by_start(const void *a, const void *b)
{
	const struct sym *x = a, *y = b;
	bool sx = x->end > x->start, sy = y->end > y->start;
	size_t ux = strspn(x->name, "_"), uy = strspn(y->name, "_");

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (sx != sy)
		return sx ? 1 : -1;
	if (x->global != y->global)
		return x->global ? 1 : -1;
	if (ux != uy)
		return ux < uy ? 1 : -1;
	return -strcmp(x->name, y->name);
}

static void sort_syms(struct elfimage *im)
{
	size_t n = 0;

	if (!im->n_syms)
		return;
	qsort(im->syms, im->n_syms, sizeof(*im->syms), by_start);
	for (size_t i = 0; i < im->n_syms; i++) {
		if (i + 1 < im->n_syms &&
		    im->syms[i + 1].start == im->syms[i].start)
			continue;
		im->syms[n++] = im->syms[i];
	}
	im->n_syms = n;
	/* What has no size reaches to the next one, at most a page. */
	for (size_t i = 0; i < n; i++) {
		struct sym *s = &im->syms[i];

		if (s->end > s->start)
			continue;
		s->end = s->start + 4096;
		if (i + 1 < n && im->syms[i + 1].start < s->end)
			s->end = im->syms[i + 1].start;
	}
}

static void load_syms(struct elfimage *im)
{
	Elf_Scn *scn = NULL, *dynsym = NULL;
	GElf_Shdr sh, dyn_sh;
	size_t n_ph = 0;
	bool symtab = false;

	im->elf = open_elf(im);
	if (!im->elf || elf_kind(im->elf) != ELF_K_ELF ||
	    elf_getphdrnum(im->elf, &n_ph) < 0)
		return;
	while ((scn = elf_nextscn(im->elf, scn))) {
		if (!gelf_getshdr(scn, &sh))
			continue;
		if (sh.sh_type == SHT_SYMTAB) {
			add_table(im, scn, &sh, n_ph);
			symtab = true;
		} else if (sh.sh_type == SHT_DYNSYM) {
			dynsym = scn;
			dyn_sh = sh;
		}
	}
	if (!symtab && dynsym)
		add_table(im, dynsym, &dyn_sh, n_ph);
	sort_syms(im);
}

static const struct sym *find_sym(const struct elfimage *im, uint64_t offset)
{
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
	/* The nearest start may be a small symbol inside a larger one. */
	for (size_t i = lo; i > 0 && lo - i < MAX_BACK; i--) {
		if (offset < im->syms[i - 1].end)
			return &im->syms[i - 1];
	}
	return NULL;
}

int elfimage_symbol(struct elfimage *im, uint64_t offset,
		    struct elfimage_symbol *sym)
{
	const struct sym *s;

	pthread_mutex_lock(&im->lock);
	if (!im->have_syms) {
		load_syms(im);
		im->have_syms = true;
	}
	pthread_mutex_unlock(&im->lock);
	s = find_sym(im, offset);
	if (!s)
		return -AUX_E_NOENT;
	sym->name = s->name;
	sym->start = s->start;
	sym->size = s->end - s->start;
	return 0;
}
