/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Preloaded into a program: makes one call fail, the FAULT_AT-th (from 1) of the kind
 * FAULT_KIND: alloc (malloc and its kin), write, map (mmap), rename (rename, linkat).
 * At exit the number of such calls goes to the file FAULT_COUNT.
 *
 * FAULT_SHOW=1: the call that fails says on standard error who made it, as
 * addresses for addr2line.
 *
 * FAULT_SHRINK=FILE: instead, FILE is cut to one page once it has been mapped.
 *
 * Calls that libraries make count, too: what they cannot do is for the program to
 * notice. Those of capstone, libdw and jansson do not: they use memory that they did not
 * get.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { NONE, ALLOC, WRITE, MAP, RENAME };

static enum kind kind;
static unsigned long fail_at;
static atomic_ulong n_calls;

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);

static int (*program)(int argc, char **argv, char **env);

/* What libraries do before main is theirs. */
static int start(int argc, char **argv, char **env)
{
	static const char *const names[] = { "", "alloc", "write", "map", "rename" };
	const char *at = getenv("FAULT_AT"), *name = getenv("FAULT_KIND");

	fail_at = at ? strtoul(at, NULL, 10) : 0;
	for (unsigned i = 1; name && i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			kind = i;
	return program(argc, argv, env);
}

/* What the C runtime of a program calls. */
int __libc_start_main(int (*f)(int, char **, char **), int argc, char **argv,
		      void (*init)(void), void (*fini)(void), void (*end)(void),
		      void *stack);
int __libc_start_main(int (*f)(int, char **, char **), int argc, char **argv,
		      void (*init)(void), void (*fini)(void), void (*end)(void),
		      void *stack)
{
	__typeof__(&__libc_start_main) next =
		(__typeof__(next))dlsym(RTLD_NEXT, "__libc_start_main");

	program = f;
	return next(start, argc, argv, init, fini, end, stack);
}

__attribute__((destructor))
static void stop(void)
{
	const char *path = getenv("FAULT_COUNT");
	char text[32];
	int fd, n = snprintf(text, sizeof(text), "%lu\n", atomic_load(&n_calls));

	kind = NONE;
	fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
	if (fd >= 0 && write(fd, text, (size_t)n) == n)
		close(fd);
}

static void show_callers(void)
{
	enum kind was = kind;
	void *v[16];

	kind = NONE;
	backtrace_symbols_fd(v, backtrace(v, 16), 2);
	kind = was;
}

static int fails_for(enum kind k, const void *caller)
{
	Dl_info info;

	if (k != kind)
		return 0;
	if (k == ALLOC && dladdr(caller, &info) && info.dli_fname &&
	    (strstr(info.dli_fname, "capstone") || strstr(info.dli_fname, "libdw") ||
	     strstr(info.dli_fname, "jansson")))
		return 0;
	if (atomic_fetch_add(&n_calls, 1) + 1 != fail_at)
		return 0;
	if (getenv("FAULT_SHOW"))
		show_callers();
	return 1;
}

#define fails(k) fails_for(k, __builtin_return_address(0))

static void *no_memory(void)
{
	errno = ENOMEM;
	return NULL;
}

void *malloc(size_t n)
{
	return fails(ALLOC) ? no_memory() : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return fails(ALLOC) ? no_memory() : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	return fails(ALLOC) ? no_memory() : __libc_realloc(p, n);
}

void *reallocarray(void *p, size_t n, size_t size)
{
	size_t all;

	if (__builtin_mul_overflow(n, size, &all) || fails(ALLOC))
		return no_memory();
	return __libc_realloc(p, all);
}

void *aligned_alloc(size_t align, size_t n)
{
	return fails(ALLOC) ? no_memory() : __libc_memalign(align, n);
}

void *memalign(size_t align, size_t n)
{
	return fails(ALLOC) ? no_memory() : __libc_memalign(align, n);
}

int posix_memalign(void **p, size_t align, size_t n)
{
	*p = fails(ALLOC) ? NULL : __libc_memalign(align, n);
	return *p ? 0 : ENOMEM;
}

/* The function that this one stands before. */
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *p, size_t n)
{
	if (fails(WRITE)) {
		errno = ENOSPC;
		return -1;
	}
	return NEXT(write)(fd, p, n);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
	if (fails(WRITE)) {
		errno = ENOSPC;
		return -1;
	}
	return NEXT(pwrite)(fd, p, n, at);
}

ssize_t writev(int fd, const struct iovec *v, int n)
{
	if (fails(WRITE)) {
		errno = ENOSPC;
		return -1;
	}
	return NEXT(writev)(fd, v, n);
}

/* Cuts the file at the first mapping of it. */
static void shrink(int fd)
{
	static atomic_int done;
	const char *path = getenv("FAULT_SHRINK");
	struct stat a, b;

	if (!path || fd < 0 || fstat(fd, &a) || stat(path, &b) ||
	    a.st_dev != b.st_dev || a.st_ino != b.st_ino ||
	    atomic_exchange(&done, 1))
		return;
	if (truncate(path, 4096))
		perror(path);
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
	void *p;

	if (fails(MAP)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	p = NEXT(mmap)(at, n, prot, flags, fd, offset);
	if (p != MAP_FAILED)
		shrink(fd);
	return p;
}

/* The names of files of any size, which programs use on 32-bit machines, and on others
 * where they ask for it. */
ssize_t pwrite64(int fd, const void *p, size_t n, off_t at)
{
	return pwrite(fd, p, n, at);
}

void *mmap64(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
	return mmap(at, n, prot, flags, fd, offset);
}

int rename(const char *from, const char *to)
{
	if (fails(RENAME)) {
		errno = EIO;
		return -1;
	}
	return NEXT(rename)(from, to);
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
	if (fails(RENAME)) {
		errno = EIO;
		return -1;
	}
	return NEXT(linkat)(from_dir, from, to_dir, to, flags);
}
