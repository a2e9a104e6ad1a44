/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codesave_kernel: the kernel's code, through kcore, and files that are saved
 * whole.
 *
 * A distribution's vmlinux is not what runs: alternatives, static calls and
 * ftrace have patched it, and modules and BPF programs are relocated. kcore has
 * the code as it is; TEXT_POKE records report later changes.
 * Specification: proc(5), ELF64 program headers of /proc/kcore.
 */
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/describe/impl.h"

#define PIECE (1u << 20)	/* read at a time, and the largest entry */
#define LINE_MAX_LEN 4096
#define FILE_MAX ((uint64_t)1 << 30)
#define MAX_PHDRS 4096

struct kcore {
	int fd;
	Elf64_Phdr *p;
	size_t n;
	uint8_t *buf;
};

static void close_kcore(struct kcore *k)
{
	if (k->fd >= 0)
		close(k->fd);
	free(k->p);
	free(k->buf);
}

/* Reads kcore's program headers; needs CAP_SYS_RAWIO. False: no access. */
static bool open_kcore(struct kcore *k, const char *proc)
{
	char path[PATH_MAX];
	Elf64_Ehdr e;
	size_t size;

	*k = (struct kcore){ 0 };
	snprintf(path, sizeof(path), "%s/kcore", proc);
	k->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (k->fd < 0 || pread(k->fd, &e, sizeof(e), 0) != sizeof(e) ||
	    memcmp(e.e_ident, ELFMAG, SELFMAG) ||
	    e.e_ident[EI_CLASS] != ELFCLASS64 ||
	    e.e_phentsize != sizeof(*k->p) || e.e_phnum > MAX_PHDRS)
		goto fail;
	size = e.e_phnum * sizeof(*k->p);
	k->p = malloc(size + 1);
	k->buf = malloc(PIECE);
	if (!k->p || !k->buf ||
	    pread(k->fd, k->p, size, (off_t)e.e_phoff) != (ssize_t)size)
		goto fail;
	k->n = e.e_phnum;
	return true;
fail:
	close_kcore(k);
	return false;
}

/* Reads up to len bytes at addr into buf; 0: that address is not mapped. */
static size_t read_kcore(const struct kcore *k, uint64_t addr, size_t len)
{
	size_t i;
	ssize_t n;

	for (i = 0; i < k->n; i++) {
		const Elf64_Phdr *p = &k->p[i];
		uint64_t at = addr - p->p_vaddr;

		if (p->p_type != PT_LOAD || addr < p->p_vaddr ||
		    at >= p->p_memsz)
			continue;
		if (len > p->p_memsz - at)
			len = (size_t)(p->p_memsz - at);
		n = pread(k->fd, k->buf, len, (off_t)(p->p_offset + at));
		return n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Saves a range in pieces; pages that are not there are skipped and counted. */
static int save_range(const struct kcore *k, struct writer *w, uint64_t addr,
		      uint64_t len, uint64_t time_ns, uint64_t *n_unsaved)
{
	int ret = 0;

	while (len && !ret) {
		size_t n = read_kcore(k, addr, len < PIECE ? len : PIECE);
		uint64_t step = CODE_PAGE - addr % CODE_PAGE;
		struct aux_code_entry e = {
			.time_ns = time_ns, .addr = addr, .len = n,
			.pid = UINT32_MAX, .kind = AUX_CODE_KERNEL,
		};

		if (n)
			ret = writer_code(w, &e, k->buf);
		else
			*n_unsaved += step < len ? step : len;
		if (!n)
			n = step < len ? step : len;
		addr += n;
		len -= n;
	}
	return ret;
}

int codesave_read_kernel(const char *proc, struct writer *w, uint64_t addr,
			 uint64_t len, uint64_t time_ns, uint64_t *n_unsaved)
{
	struct kcore k;
	int ret;

	if (!open_kcore(&k, proc)) {
		*n_unsaved += len;
		return 0;
	}
	ret = save_range(&k, w, addr, len, time_ns, n_unsaved);
	close_kcore(&k);
	return ret;
}

/* kallsyms says where a BPF program starts, not where it ends. */
struct bpf_scan {
	uint64_t start;		/* of the program being looked at; 0: none */
};

/* Saves the current program up to the next symbol, at most to the end of its
 * page. */
static int close_bpf(struct bpf_scan *b, const struct kcore *k,
		     struct writer *w, uint64_t next, uint64_t *n_unsaved)
{
	uint64_t end = (b->start | (CODE_PAGE - 1)) + 1;
	int ret = 0;

	if (b->start && next > b->start && next < end)
		end = next;
	if (b->start)
		ret = save_range(k, w, b->start, end - b->start, 0, n_unsaved);
	b->start = 0;
	return ret;
}

/* Saves _stext to _etext, and the BPF programs on the way through kallsyms. */
static int save_text(const char *proc, const struct kcore *k, struct writer *w,
		     uint64_t *n_unsaved)
{
	char path[PATH_MAX], line[LINE_MAX_LEN], name[256], owner[64];
	uint64_t stext = 0, etext = 0;
	struct bpf_scan bpf = { 0 };
	int ret = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/kallsyms", proc);
	f = fopen(path, "re");
	while (f && !ret && fgets(line, sizeof(line), f)) {
		unsigned long long addr;
		char type;
		int n = sscanf(line, "%llx %c %255s %63s", &addr, &type, name,
			       owner);

		if (n >= 3 && !stext && !strcmp(name, "_stext"))
			stext = addr;
		if (n >= 3 && !etext && !strcmp(name, "_etext"))
			etext = addr;
		if (bpf.start)
			ret = close_bpf(&bpf, k, w, addr, n_unsaved);
		if (n == 4 && addr && !strcmp(owner, "[bpf]") &&
		    (type == 't' || type == 'T'))
			bpf.start = addr;
	}
	if (f)
		fclose(f);
	if (!ret)
		ret = close_bpf(&bpf, k, w, 0, n_unsaved);
	if (!stext || etext <= stext)
		*n_unsaved = UINT64_MAX;	/* kptr_restrict */
	else if (!ret)
		ret = save_range(k, w, stext, etext - stext, 0, n_unsaved);
	return ret;
}

/* Saves each module of /proc/modules, text and data. */
static int save_modules(const char *proc, const struct kcore *k,
			struct writer *w, uint64_t *n_unsaved)
{
	char path[PATH_MAX], line[LINE_MAX_LEN];
	int ret = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/modules", proc);
	f = fopen(path, "re");
	while (f && !ret && fgets(line, sizeof(line), f)) {
		unsigned long long size, addr;

		if (sscanf(line, "%*s %llu %*s %*s %*s %llx", &size, &addr) ==
			    2 && addr)
			ret = save_range(k, w, addr, size, 0, n_unsaved);
	}
	if (f)
		fclose(f);
	return ret;
}

int codesave_fd(struct writer *w, int fd, const char *name, uint32_t pid,
		uint64_t max)
{
	size_t path_len = strlen(name);
	struct aux_own_file h = { .path_len = (uint32_t)path_len, .pid = pid };
	struct stat st;
	uint8_t *buf;
	ssize_t n;
	int ret = 0;

	if (path_len > PATH_MAX || fstat(fd, &st) || !S_ISREG(st.st_mode) ||
	    !(buf = malloc(path_len + AUX_OWN_FILE_MAX)))
		return 0;
	memcpy(buf, name, path_len);
	h.total = (uint64_t)st.st_size;
	while (!ret && h.offset < max &&
	       (n = read(fd, buf + path_len, AUX_OWN_FILE_MAX)) > 0) {
		ret = writer_own(w, AUX_OWN_FILE, &h, sizeof(h), buf,
				 path_len + (size_t)n);
		h.offset += (uint64_t)n;
	}
	free(buf);
	return ret;
}

int codesave_kernel(const char *proc, struct writer *w, uint64_t *n_unsaved)
{
	char path[PATH_MAX];
	struct kcore k;
	int ret, fd;

	*n_unsaved = 0;
	if (!proc)
		proc = "/proc";
	if (!open_kcore(&k, proc)) {
		*n_unsaved = UINT64_MAX;
		return 0;
	}
	ret = save_text(proc, &k, w, n_unsaved);
	if (!ret && *n_unsaved != UINT64_MAX)
		ret = save_modules(proc, &k, w, n_unsaved);
	close_kcore(&k);
	snprintf(path, sizeof(path), "%s/kallsyms", proc);
	fd = ret ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		ret = codesave_fd(w, fd, "/proc/kallsyms", UINT32_MAX, FILE_MAX);
		close(fd);
	}
	return ret;
}
