/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Getting at a file's bytes: a regular file is mapped; a pipe is copied to an
 * unlinked temporary file first, and that is mapped, so a stream larger than
 * memory can be read. Also the reader's arena.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "perfdata/impl.h"

#define SPOOL_BUFFER (1 << 20)
#define ARENA_BLOCK 16384

struct arena_block {
	struct arena_block *next;
	size_t used, size;
	uint64_t mem[];
};

void *arena_alloc(struct arena *a, size_t size)
{
	struct arena_block *b = a->head;
	size_t cap;
	void *p;

	if (size > SIZE_MAX / 2)
		return NULL;
	size = (size + 7) & ~(size_t)7;
	if (!b || size > b->size - b->used) {
		cap = size > ARENA_BLOCK ? size : ARENA_BLOCK;
		b = calloc(1, sizeof(*b) + cap);
		if (!b)
			return NULL;
		b->size = cap;
		b->next = a->head;
		a->head = b;
	}
	p = (uint8_t *)b->mem + b->used;
	b->used += size;
	return p;
}

char *arena_string(struct arena *a, const void *s, size_t len)
{
	char *p = arena_alloc(a, len + 1);

	if (p && len)
		memcpy(p, s, len);
	return p;
}

void arena_fini(struct arena *a)
{
	struct arena_block *next;

	while (a->head) {
		next = a->head->next;
		free(a->head);
		a->head = next;
	}
}

static int fail_io(struct aux_diag *diag, const char *what)
{
	return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "%s: %s", what,
			strerror(errno));
}

int spool_open(void)
{
	const char *dir = getenv("TMPDIR");
	int fd = open(dir && *dir ? dir : "/tmp",
		      O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd >= 0 ? fd : memfd_create("auxkit-spool", MFD_CLOEXEC);
}

static int write_all(int fd, const char *p, size_t n)
{
	ssize_t ret;

	while (n) {
		ret = write(fd, p, n);
		if (ret < 0 && errno == EINTR)
			continue;
		if (ret <= 0)
			return -1;
		p += ret;
		n -= (size_t)ret;
	}
	return 0;
}

/* Copies what is left of in to a temporary file; returns its descriptor. */
static int spool(int in, struct aux_diag *diag)
{
	char *buf = malloc(SPOOL_BUFFER);
	int out = spool_open();
	ssize_t n = 0;
	int err = 0;

	if (!buf || out < 0) {
		err = fail_io(diag, "cannot make a temporary file");
		goto done;
	}
	for (;;) {
		n = read(in, buf, SPOOL_BUFFER);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		if (write_all(out, buf, (size_t)n)) {
			err = fail_io(diag, "cannot spool the input (set TMPDIR "
					    "to a larger disk)");
			goto done;
		}
	}
	if (n < 0)
		err = fail_io(diag, "cannot read");
done:
	free(buf);
	if (err && out >= 0)
		close(out);
	return err ? err : out;
}

static int map_fd(struct backing *b, int fd, uint64_t size,
		  struct aux_diag *diag)
{
	if (!size)
		return diag_set(diag, AUX_E_FORMAT, 0,
				"the file is empty: not a perf.data file");
	if (size > SIZE_MAX)
		return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
				"the file is too large for this machine");
	b->map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (b->map == MAP_FAILED) {
		b->map = NULL;
		return fail_io(diag, "cannot map the file");
	}
	b->data = b->map;
	b->len = size;
	b->on_disk = true;
	return 0;
}

static int refuse_dir(struct aux_diag *diag)
{
	return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			"is a directory, not a perf.data file");
}

static int load_fd(struct backing *b, int fd, struct aux_diag *diag)
{
	struct stat st;
	int tmp, ret;

	if (fstat(fd, &st))
		return fail_io(diag, "cannot stat");
	if (S_ISDIR(st.st_mode))
		return refuse_dir(diag);
	if (S_ISREG(st.st_mode) && lseek(fd, 0, SEEK_CUR) == 0)
		return map_fd(b, fd, (uint64_t)st.st_size, diag);
	tmp = spool(fd, diag);
	if (tmp < 0)
		return tmp;
	ret = fstat(tmp, &st) ? fail_io(diag, "cannot stat") :
				map_fd(b, tmp, (uint64_t)st.st_size, diag);
	close(tmp);
	return ret;
}

int backing_open(struct backing *b, const char *path, struct aux_diag *diag)
{
	int fd, ret;

	if (!strcmp(path, "-"))
		return load_fd(b, STDIN_FILENO, diag);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail_io(diag, "cannot open");
	ret = load_fd(b, fd, diag);
	close(fd);
	return ret;
}

void backing_close(struct backing *b)
{
	if (b->map)
		munmap(b->map, b->len);
	b->map = NULL;
}

#define AROUND ((uintptr_t)256 << 10)

void backing_let_go(const struct backing *b, const void *p, uint64_t len)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), base = (uintptr_t)b->map;
	uintptr_t from = (uintptr_t)p, to;

	if (!b->on_disk || from < base || from - base > b->len ||
	    len > b->len - (from - base))
		return;
	to = (from + len) & ~(page - 1);
	/* a page fault brings in pages around it, those before again */
	from -= from - base < AROUND ? from - base : AROUND;
	from &= ~(page - 1);
	if (to > from)
		madvise((uint8_t *)b->map + (from - base), to - from,
			MADV_DONTNEED);
}
